"""Convolutions, fully connected layers and matrix products of i8: i32 sums that include the bias.

Of i16 TOSA sums in 48 bits, from which nothing leads back to an i32.
"""

from math import prod

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint.contraction import (
    Conv2DOp,
    DepthwiseConv2DOp,
    FullyConnectedOp,
    MatMulOp,
    SaturatingFullyConnectedOp,
    WeightedOp,
)
from qmlir.dialects.tosa import contraction as tosa
from qmlir.dialects.windows import WindowOp
from qmlir.lowering.qint_to_tosa.tensors import ADD, TosaCode, integers, is_byte


def check_bytes(code: TosaCode, *operands: SSAValue) -> None:
    """Refuses anything but i8."""
    if not all(map(is_byte, operands)):
        kinds = ", ".join(str(element_of(x)) for x in operands)
        code.refuse("sums products of i8 in tosa", got=kinds, remedy="quantize it with precision=int8")


def centred_weights(code: TosaCode, op: WeightedOp, x: SSAValue, w: SSAValue) -> tuple[SSAValue, int]:
    """The weights as i8 and their zero point: constants of 16 bits may be i8 less a number.

    Raises:
        LoweringError: They or the data are wider.
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
    """The image and the padding whose last windows end where the image does, as TOSA asks for.

    What no window reaches is taken from the padding after the image first, then from the image.

    Args:
        code: Where to write.
        op: The operation, for its window's geometry.
        x: The image, [N, H, W, C].
        window: Rows and columns.
        number: What the padding's elements are, should the image have to be padded explicitly.
    """
    top, bottom, left, right = op.padding_values()
    sizes, pads = list(shape_of(x)), [[top, bottom], [left, right]]
    explicit = [[0, 0], [0, 0]]
    for i, (extent, stride, dilation) in enumerate(zip(window, op.stride_values(), op.dilation_values(), strict=True)):
        span = (extent - 1) * dilation + 1
        excess = (sizes[i + 1] + sum(pads[i]) - span) % stride
        of_padding = min(excess, pads[i][1])
        pads[i][1] -= of_padding
        if excess - of_padding >= sizes[i + 1]:  # the image lies in the excess: pad it first, so that some is left
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
    """A convolution [N, H, W, C] of i8 with weights in TOSA's layout: i32 [N, OH, OW, O]."""
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
    """Each group by itself, as TOSA has none."""
    w, weight_zero_point = centred_weights(code, op, x, w)
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
    """TOSA's weights are [KH, KW, C, m]; output channel o is (o div m, o mod m) in both."""
    w, weight_zero_point = centred_weights(code, op, x, w)
    channels = shape_of(x)[3]
    _, rows, columns, outputs = shape_of(w)
    weights = code.reshape(w, (rows, columns, channels, outputs // channels))
    return convolution(code, op, tosa.DepthwiseConv2DOp, x, weights, b, op.zero_point.value.data, weight_zero_point)


def _fully_connected(
    code: TosaCode, op: FullyConnectedOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None
) -> SSAValue:
    """A convolution of images of one pixel."""
    w, weight_zero_point = centred_weights(code, op, x, w)
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
    """One product of matrices [N, 2] and [2, O] for each pair of neighbours, their saturation, and the sum over all."""
    (batch, inputs), outputs = shape_of(x), shape_of(w)[0]
    odd, pairs = inputs % 2, (inputs + 1) // 2
    x, w = (code.padded(matrix, [0, 0], [0, odd], 0) for matrix in (x, w))
    lhs = code.transposed(code.reshape(x, (batch, pairs, 2)), (1, 0, 2))
    rhs = code.transposed(code.reshape(w, (outputs, pairs, 2)), (1, 2, 0))
    zero_points = [code.zero_point(op.zero_point.value.data, element_of(x)), code.zero_point(0, element_of(w))]
    products = code.op(tosa.MatMulOp, [lhs, rhs, *zero_points], i32, (pairs, batch, outputs))
    sums = code.reshape(code.summed(code.bounded(products, -(1 << 15), (1 << 15) - 1), 0), (batch, outputs))
    return sums if b is None else code.combine(ADD, sums, b)


def _matmul(code: TosaCode, op: MatMulOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """On batches in one dimension, each repeated as the other needs it."""
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
    MatMulOp: _matmul,
}
