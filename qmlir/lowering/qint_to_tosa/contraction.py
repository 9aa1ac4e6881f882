"""Export of int8 convolutions, fully connected layers and matrix products: i32 sums that include the bias.

Products of i16 are refused: TOSA accumulates them in 48 bits, and has no conversion from 48 bits to i32.
"""

from math import prod

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint.contraction import (
    AffineFullyConnectedOp,
    BlockedFullyConnectedOp,
    BlockedOp,
    Conv2DOp,
    DepthwiseConv2DOp,
    FullyConnectedOp,
    MatMulOp,
    SaturatingFullyConnectedOp,
    WeightedOp,
)
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.upstream.tosa import contraction as tosa
from qmlir.lowering.qint_to_tosa.tensors import ADD, TosaCode, integers, is_byte


def check_bytes(code: TosaCode, *operands: SSAValue) -> None:
    """Refuses operands that are not i8.

    Raises:
        UnsupportedError: An operand has another element type.
    """
    if not all(map(is_byte, operands)):
        kinds = ", ".join(str(element_of(x)) for x in operands)
        code.refuse("sums products of i8 in tosa", got=kinds, remedy="quantize it with precision=int8")


def weights_less_zero_point(code: TosaCode, op: WeightedOp, x: SSAValue, w: SSAValue) -> tuple[SSAValue, int]:
    """The weights as i8, and their zero point.

    Constant 16-bit weights whose values span at most 256 integers become i8 weights with a zero point.

    Raises:
        UnsupportedError: The weights cannot become i8, or the data are not i8.
    """
    if is_byte(x) and not is_byte(w) and isinstance(op.w.owner, ConstantOp):
        array = op.w.owner.value.array.astype(np.int64)
        low, high = max(-128, -128 - int(array.min())), min(127, 127 - int(array.max()))
        if low <= high:
            zero_point = min(max(0, low), high)
            return code.constant((array + zero_point).astype(np.int8)), zero_point
    check_bytes(code, x, w)
    return w, 0


def fitted(
    code: TosaCode, op: WindowOp, x: SSAValue, window: tuple[int, int], number: int
) -> tuple[SSAValue, tuple[int, ...]]:
    """Cuts an image and its padding so that the last windows end exactly where the padded image ends, as TOSA requires.

    Rows and columns that no window reaches are removed from the padding after the image first, then from the image.

    Args:
        code: Receives the new operations.
        op: The operation, which gives the window's geometry.
        x: The image, [N, H, W, C].
        window: The window's rows and columns.
        number: The value of padding elements, in case the image has to be padded explicitly.

    Returns:
        The image, and the padding (top, bottom, left, right) that remains to be done.
    """
    top, bottom, left, right = op.padding_values()
    sizes, pads = list(shape_of(x)), [[top, bottom], [left, right]]
    explicit = [[0, 0], [0, 0]]
    for i, (extent, stride, dilation) in enumerate(zip(window, op.stride_values(), op.dilation_values(), strict=True)):
        span = (extent - 1) * dilation + 1
        excess = (sizes[i + 1] + sum(pads[i]) - span) % stride
        of_padding = min(excess, pads[i][1])
        pads[i][1] -= of_padding
        if excess - of_padding >= sizes[i + 1]:  # the whole image would be cut: pad it first, so that something is left
            explicit[i], pads[i] = pads[i], [0, 0]
            sizes[i + 1] += sum(explicit[i])
        sizes[i + 1] -= excess - of_padding
    low, high = ([0, explicit[0][side], explicit[1][side], 0] for side in (0, 1))
    image = code.first(code.padded(x, low, high, number), sizes)
    return image, (*pads[0], *pads[1])


def convolution(
    code: TosaCode,
    op: WindowOp,
    kind: type[tosa.DirectOp],
    x: SSAValue,
    w: SSAValue,
    b: SSAValue | None,
    zero_point: int,
    weight_zero_point: int = 0,
) -> SSAValue:
    """Convolves an i8 image [N, H, W, C] with weights in TOSA's layout; yields i32 [N, OH, OW, O]."""
    rows, columns = shape_of(w)[:2] if kind is tosa.DepthwiseConv2DOp else shape_of(w)[1:3]
    image, pads = fitted(code, op, x, (rows, columns), zero_point)
    height, width = op.window_output(shape_of(x), (rows, columns))
    outputs = prod(shape_of(w)[2:]) if kind is tosa.DepthwiseConv2DOp else shape_of(w)[0]
    bias = code.constant(np.zeros(outputs, np.int32)) if b is None else b
    zero_points = [code.zero_point(zero_point, element_of(x)), code.zero_point(weight_zero_point, element_of(w))]
    properties: dict[str, Attribute] = {
        "pad": integers(pads),
        "stride": integers(op.stride_values()),
        "dilation": integers(op.dilation_values()),
        "acc_type": i32,
    }
    operands = [image, w, bias, *zero_points]
    return code.op(kind, operands, i32, (shape_of(x)[0], height, width, outputs), properties)


def _conv2d(code: TosaCode, op: Conv2DOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None) -> SSAValue:
    """Writes one convolution for each group, because TOSA has no grouped convolutions."""
    w, weight_zero_point = weights_less_zero_point(code, op, x, w)
    count = op.group_count()
    inputs, outputs = shape_of(w)[3], shape_of(w)[0] // count
    sums: list[SSAValue] = []
    for group in range(count):
        data, weights = code.part(x, 3, group * inputs, inputs), code.part(w, 0, group * outputs, outputs)
        bias = None if b is None else code.part(b, 0, group * outputs, outputs)
        zero_points = op.zero_point.value.data, weight_zero_point
        sums.append(convolution(code, op, tosa.Conv2DOp, data, weights, bias, *zero_points))
    return code.side_by_side(sums, 3)


def _depthwise(code: TosaCode, op: DepthwiseConv2DOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None) -> SSAValue:
    """Writes a depthwise convolution with TOSA's weights [KH, KW, C, m]; output channel o is (o div m, o mod m)."""
    w, weight_zero_point = weights_less_zero_point(code, op, x, w)
    channels = shape_of(x)[3]
    _, rows, columns, outputs = shape_of(w)
    weights = code.reshape(w, (rows, columns, channels, outputs // channels))
    return convolution(code, op, tosa.DepthwiseConv2DOp, x, weights, b, op.zero_point.value.data, weight_zero_point)


def _fully_connected(
    code: TosaCode, op: FullyConnectedOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None
) -> SSAValue:
    """Writes a fully connected layer as a convolution of images of one pixel."""
    w, weight_zero_point = weights_less_zero_point(code, op, x, w)
    (batch, inputs), (outputs, _) = shape_of(x), shape_of(w)
    operands = [
        code.reshape(x, (batch, 1, 1, inputs)),
        code.reshape(w, (outputs, 1, 1, inputs)),
        code.constant(np.zeros(outputs, np.int32)) if b is None else b,
        code.zero_point(op.zero_point.value.data, element_of(x)),
        code.zero_point(weight_zero_point, element_of(w)),
    ]
    properties: dict[str, Attribute] = {
        "pad": integers([0, 0, 0, 0]),
        "stride": integers([1, 1]),
        "dilation": integers([1, 1]),
        "acc_type": i32,
    }
    sums = code.op(tosa.Conv2DOp, operands, i32, (batch, 1, 1, outputs), properties)
    return code.reshape(sums, (batch, outputs))


def _saturating(
    code: TosaCode, op: SaturatingFullyConnectedOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None
) -> SSAValue:
    """Writes a matrix product [N, 2] · [2, O] for each pair of neighbouring channels, saturates it, and sums all."""
    (batch, inputs), outputs = shape_of(x), shape_of(w)[0]
    odd, pairs = inputs % 2, (inputs + 1) // 2
    x, w = (code.padded(matrix, [0, 0], [0, odd], 0) for matrix in (x, w))
    lhs = code.transposed(code.reshape(x, (batch, pairs, 2)), (1, 0, 2))
    rhs = code.transposed(code.reshape(w, (outputs, pairs, 2)), (1, 2, 0))
    zero_points = [code.zero_point(op.zero_point.value.data, element_of(x)), code.zero_point(0, element_of(w))]
    products = code.op(tosa.MatMulOp, [lhs, rhs, *zero_points], i32, (pairs, batch, outputs))
    sums = code.reshape(code.summed(code.bounded(products, -(1 << 15), (1 << 15) - 1), 0), (batch, outputs))
    return sums if b is None else code.combine(ADD, sums, b)


def _blocked(code: TosaCode, op: BlockedOp, x: SSAValue, w: SSAValue, m: SSAValue, *others: SSAValue) -> SSAValue:
    """Refuses the layer: no sums of TOSA are multiplied before they are added in 64 bits."""
    blocks = shape_of(m)[1]
    code.refuse("sums products with one scale in tosa", got=f"multipliers of {blocks} blocks", remedy="keep it float")


def _matmul(code: TosaCode, op: MatMulOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """Writes a matrix product with all batches in one dimension; operands are repeated where they broadcast."""
    check_bytes(code, lhs, rhs)
    *batch, m, n = shape_of(op.acc)
    matrices: list[SSAValue] = []
    for x in (lhs, rhs):
        *own, rows, columns = shape_of(x)
        own = [1] * (len(batch) - len(own)) + own
        times = [to // size if size else 1 for to, size in zip(batch, own, strict=True)]
        wide = code.repeated(code.reshape(x, (*own, rows, columns)), [*times, 1, 1])
        matrices.append(code.reshape(wide, (prod(batch), rows, columns)))
    zero_points = [
        code.zero_point(op.lhs_zero_point.value.data, element_of(lhs)),
        code.zero_point(op.rhs_zero_point.value.data, element_of(rhs)),
    ]
    sums = code.op(tosa.MatMulOp, [*matrices, *zero_points], i32, (prod(batch), m, n))
    return code.reshape(sums, shape_of(op.acc))


RULES = {
    Conv2DOp: _conv2d,
    DepthwiseConv2DOp: _depthwise,
    FullyConnectedOp: _fully_connected,
    SaturatingFullyConnectedOp: _saturating,
    BlockedFullyConnectedOp: _blocked,
    AffineFullyConnectedOp: _blocked,
    MatMulOp: _matmul,
}
