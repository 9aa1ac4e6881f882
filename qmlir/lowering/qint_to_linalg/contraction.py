"""Export of convolutions, fully connected layers and matrix products: 32- or 64-bit sums that start with the bias."""

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from qmlir.codegen.value import Value
from qmlir.dialects.qint.contraction import (
    AffineFullyConnectedOp,
    BlockedFullyConnectedOp,
    Conv2DOp,
    DepthwiseConv2DOp,
    FullyConnectedOp,
    MatMulOp,
    SaturatingFullyConnectedOp,
)
from qmlir.dialects.qint.requantize import less_zero_point
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.lowering.qint_to_linalg.structured import Formula, Place, TensorCode, broadcast_place, copied, loops


def tap(op: WindowOp, h: AffineExpr, w: AffineExpr, i: AffineExpr, j: AffineExpr) -> tuple[AffineExpr, AffineExpr]:
    """The row and column of the padded image that window position (i, j) reads for output (h, w)."""
    (sh, sw), (dh, dw) = op.stride_values(), op.dilation_values()
    return h * sh + i * dh, w * sw + j * dw


def padded_image(code: TensorCode, op: WindowOp, x: SSAValue, number: int) -> SSAValue:
    """Pads an image [N, H, W, C] for a window operation with elements of value `number`."""
    top, bottom, left, right = op.padding_values()
    return code.padded(x, [0, top, left, 0], [0, bottom, right, 0], number)


def products(lhs_zero_point: int, rhs_zero_point: int = 0) -> Formula:
    """The formula acc + (lhs − z_l) · (rhs − z_r), in the accumulator's type."""

    def formula(lhs: Value, rhs: Value, acc: Value) -> Value:
        return acc + less_zero_point(lhs, lhs_zero_point, acc.dtype) * less_zero_point(rhs, rhs_zero_point, acc.dtype)

    return formula


def _start(code: TensorCode, acc: SSAValue, bias: SSAValue | None, shape: tuple[int, ...]) -> SSAValue:
    """The initial accumulators, with the element type of `acc`: the bias broadcast to `shape`, or zeros."""
    if bias is None:
        return code.filled(0, shape, element_of(acc))
    into = (code.empty(shape, element_of(acc)), loops(len(shape)))
    return code.generic([(bias, broadcast_place(shape_of(bias), shape))], into, len(shape), copied)


def _conv2d(code: TensorCode, op: Conv2DOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None) -> SSAValue:
    if op.group_count() > 1:
        return _grouped_conv2d(code, op, x, w, b)
    zero_point = op.zero_point.value.data
    image = padded_image(code, op, x, zero_point)
    n, row, column, o, i, j, c = loops(7)
    read: list[tuple[SSAValue, Place]] = [
        (image, [n, *tap(op, row, column, i, j), c]),
        (w, [o, i, j, c]),
    ]
    into = (_start(code, op.acc, b, shape_of(op.acc)), [n, row, column, o])
    return code.generic(read, into, 7, products(zero_point))


def _grouped_conv2d(code: TensorCode, op: Conv2DOp, x: SSAValue, w: SSAValue, b: SSAValue | None) -> SSAValue:
    """Writes a grouped convolution with results [N, OH, OW, G, O/G]: output channel o is (o div (O/G), o mod (O/G))."""
    zero_point, groups = op.zero_point.value.data, op.group_count()
    image = padded_image(code, op, x, zero_point)
    outputs, height, width, channels = shape_of(w)
    split = (groups, outputs // groups)
    bias = None if b is None else code.reshape(b, split)
    start = _start(code, op.acc, bias, (*shape_of(op.acc)[:3], *split))
    n, row, column, g, o, i, j, c = loops(8)
    read: list[tuple[SSAValue, Place]] = [
        (code.reshape(image, (*shape_of(image)[:3], groups, channels)), [n, *tap(op, row, column, i, j), g, c]),
        (code.reshape(w, (*split, height, width, channels)), [g, o, i, j, c]),
    ]
    sums = code.generic(read, (start, [n, row, column, g, o]), 8, products(zero_point))
    return code.reshape(sums, shape_of(op.acc))


def _depthwise(
    code: TensorCode, op: DepthwiseConv2DOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None
) -> SSAValue:
    """Writes a depthwise convolution with results [N, OH, OW, C, m]: output channel o is (o div m, o mod m)."""
    zero_point = op.zero_point.value.data
    image = padded_image(code, op, x, zero_point)
    channels = shape_of(x)[3]
    _, height, width, outputs = shape_of(w)
    split = (channels, outputs // channels)
    bias = None if b is None else code.reshape(b, split)
    start = _start(code, op.acc, bias, (*shape_of(op.acc)[:3], *split))
    n, row, column, c, m, i, j = loops(7)
    read: list[tuple[SSAValue, Place]] = [
        (image, [n, *tap(op, row, column, i, j), c]),
        (code.reshape(w, (height, width, *split)), [i, j, c, m]),
    ]
    sums = code.generic(read, (start, [n, row, column, c, m]), 7, products(zero_point))
    return code.reshape(sums, shape_of(op.acc))


def _fully_connected(
    code: TensorCode, op: FullyConnectedOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None
) -> SSAValue:
    n, o, i = loops(3)
    into = (_start(code, op.acc, b, shape_of(op.acc)), [n, o])
    return code.generic([(x, [n, i]), (w, [o, i])], into, 3, products(op.zero_point.value.data))


def _blocked(
    code: TensorCode, op: BlockedFullyConnectedOp, x: SSAValue, w: SSAValue, m: SSAValue, b: SSAValue | None = None
) -> SSAValue:
    """Writes the sum of products of three: data, weights and the multiplier of their block."""
    zero_point, blocks = op.zero_point.value.data, shape_of(m)[1]
    x, w = (code.reshape(v, (shape_of(v)[0], blocks, shape_of(v)[1] // blocks)) for v in (x, w))
    n, o, g, i = loops(4)

    def multiplied(x: Value, w: Value, m: Value, acc: Value) -> Value:
        return acc + less_zero_point(x, zero_point, acc.dtype) * w.to(i64) * m.to(i64)

    into = (_start(code, op.acc, b, shape_of(op.acc)), [n, o])
    return code.generic([(x, [n, g, i]), (w, [o, g, i]), (m, [o, g])], into, 4, multiplied)


def _affine(
    code: TensorCode, op: AffineFullyConnectedOp, x: SSAValue, w: SSAValue, m: SSAValue, k: SSAValue,
    b: SSAValue | None = None,
) -> SSAValue:  # fmt: skip
    """Writes the sum of products of data with what weights, multipliers and offsets of their block make: w · m + k."""
    zero_point, blocks = op.zero_point.value.data, shape_of(m)[1]
    x, w = (code.reshape(v, (shape_of(v)[0], blocks, shape_of(v)[1] // blocks)) for v in (x, w))
    n, o, g, i = loops(4)

    def multiplied(x: Value, w: Value, m: Value, k: Value, acc: Value) -> Value:
        return acc + less_zero_point(x, zero_point, acc.dtype) * (w.to(i64) * m.to(i64) + k.to(i64))

    into = (_start(code, op.acc, b, shape_of(op.acc)), [n, o])
    return code.generic([(x, [n, g, i]), (w, [o, g, i]), (m, [o, g]), (k, [o, g])], into, 4, multiplied)


def _saturating(
    code: TensorCode, op: SaturatingFullyConnectedOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None
) -> SSAValue:
    """Writes sums of saturated pairs of products; an odd number of channels is padded with a weight of 0."""
    zero_point, inputs = op.zero_point.value.data, shape_of(x)[1]
    padded = [code.padded(matrix, [0, 0], [0, inputs % 2], 0) for matrix in (x, w)]
    x, w = (code.reshape(matrix, (shape_of(matrix)[0], (inputs + 1) // 2, 2)) for matrix in padded)
    n, o, pair = loops(3)

    def saturated(x: Value, next_x: Value, w: Value, next_w: Value, acc: Value) -> Value:
        products = [less_zero_point(a, zero_point) * b.to(i32) for a, b in ((x, w), (next_x, next_w))]
        return acc + (products[0] + products[1]).maximum(-(1 << 15)).minimum((1 << 15) - 1)

    read: list[tuple[SSAValue, Place]] = [
        (matrix, [row, pair, AffineExpr.constant(second)]) for matrix, row in ((x, n), (w, o)) for second in (0, 1)
    ]
    return code.generic(read, (_start(code, op.acc, b, shape_of(op.acc)), [n, o]), 3, saturated)


def _matmul(code: TensorCode, op: MatMulOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    shape = shape_of(op.acc)
    *batch, m, n, k = loops(len(shape) + 1)

    def place(x: SSAValue, rows: AffineExpr, columns: AffineExpr) -> Place:
        return [*broadcast_place(shape_of(x)[:-2], shape[:-2]), rows, columns]

    return code.generic(
        [(lhs, place(lhs, m, k)), (rhs, place(rhs, k, n))],
        (code.filled(0, shape, element_of(op.acc)), [*batch, m, n]),
        len(shape) + 1,
        products(op.lhs_zero_point.value.data, op.rhs_zero_point.value.data),
    )


RULES = {
    Conv2DOp: _conv2d,
    DepthwiseConv2DOp: _depthwise,
    FullyConnectedOp: _fully_connected,
    SaturatingFullyConnectedOp: _saturating,
    BlockedFullyConnectedOp: _blocked,
    AffineFullyConnectedOp: _affine,
    MatMulOp: _matmul,
}
