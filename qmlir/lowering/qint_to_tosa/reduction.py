"""Export of reductions, pools and weighted sums of neighbours."""

from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, Signedness, i16, i32
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.upstream import Array, check_comparable
from qmlir.dialects.nn import reduction as nn
from qmlir.dialects.qint.pooling import AveragePool2DOp, GlobalSumPoolOp, MaxPool2DOp, ResizeOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.upstream.tosa import elementwise
from qmlir.ir.upstream.tosa import reduction as tosa
from qmlir.ir.upstream.tosa.contraction import DepthwiseConv2DOp
from qmlir.lowering.qint_to_tosa.contraction import check_bytes, convolution, fitted
from qmlir.lowering.qint_to_tosa.elementwise import less_zero_point
from qmlir.lowering.qint_to_tosa.tensors import ADD, GREATER_EQUAL, INTDIV, SUB, TosaCode, integers, is_byte

# ---------------------------------------------------------------------------------------------------------------
# Export of maxima and minima of signed integers along axes, one axis after another.


KINDS: dict[type[nn.ExtremeOp], type[tosa.ReductionOp]] = {
    nn.ReduceMaxOp: tosa.ReduceMaxOp,
    nn.ReduceMinOp: tosa.ReduceMinOp,
}


def _extreme(code: TosaCode, op: nn.ExtremeOp, x: SSAValue) -> SSAValue:
    element = check_comparable(code, op.x)
    if element.signedness.data == Signedness.UNSIGNED or element.width.data > 32:
        code.refuse("compares signed integers of up to 32 bits in tosa", got=str(element), remedy="store it as i8")
    for axis in op.axes.get_values():
        sizes = [1 if d == axis else size for d, size in enumerate(shape_of(x))]
        x = code.op(KINDS[type(op)], [x], element_of(x), sizes, {"axis": IntegerAttr(axis, i32)})
    return x


# ---------------------------------------------------------------------------------------------------------------
# Export of integer pools.
#
# TOSA's `avg_pool2d` multiplies by a rounded reciprocal, while ours rounds half away from zero. An average pool is
# therefore a depthwise convolution with ones and an integer division. TOSA's `max_pool2d` has no dilation, and its
# padding must be smaller than the window. If an operation exceeds these limits, the elements of all windows are first
# gathered side by side.


def _max_pool(code: TosaCode, op: MaxPool2DOp, x: SSAValue) -> SSAValue:
    if not is_byte(x) and element_of(x) != i16:
        code.refuse("takes maxima of i8 and i16 in tosa", got=str(element_of(x)), remedy="use precision=int8")
    window, pads = op.window_values(), op.padding_values()
    least = -128 if is_byte(x) else -(1 << 15)
    if op.dilation_values() != (1, 1) or max(pads[:2]) >= window[0] or max(pads[2:]) >= window[1]:
        x, strides, pads = _side_by_side(code, op, x, least), window, (0, 0, 0, 0)
    else:
        x, pads = fitted(code, op, x, window, least)
        strides = op.stride_values()
    properties: dict[str, Attribute] = {
        "kernel": integers(window),
        "stride": integers(strides),
        "pad": integers(pads),
    }
    return code.op(tosa.MaxPool2DOp, [x], element_of(x), shape_of(op.y), properties)


def _side_by_side(code: TosaCode, op: MaxPool2DOp, x: SSAValue, number: int) -> SSAValue:
    """Gathers the elements of all windows side by side, without overlap: [N, OH · KH, OW · KW, C]."""
    top, bottom, left, right = op.padding_values()
    image = code.padded(x, [0, top, left, 0], [0, bottom, right, 0], number)
    batch, height, width, channels = shape_of(image)
    rows, columns = (
        (np.arange(outputs)[:, None] * stride + np.arange(extent) * dilation).reshape(-1)
        for outputs, extent, stride, dilation in zip(
            shape_of(op.y)[1:3], op.window_values(), op.stride_values(), op.dilation_values(), strict=True
        )
    )
    places = (rows[:, None] * width + columns).reshape(1, -1).astype(np.int32)
    pixels = code.reshape(image, (batch, height * width, channels))
    indices = code.constant(np.repeat(places, batch, axis=0))
    found = code.op(elementwise.GatherOp, [pixels, indices], element_of(x), (batch, places.size, channels))
    return code.reshape(found, (batch, len(rows), len(columns), channels))


def _average_pool(code: TosaCode, op: AveragePool2DOp, x: SSAValue) -> SSAValue:
    """Writes (total ± count / 2) / count − offset, truncated toward zero, where total sums x + offset.

    The sign of ± is that of the total. Padding that is counted has the value `fill`: the convolution sums x − fill, to
    which padding contributes 0, and its bias is the window's size times `fill`.
    """
    check_bytes(code, x)
    fill = op.zero_point.value.data if bool(op.count_include_pad) else 0
    channels, window = shape_of(x)[3], op.window_values()
    ones = code.constant(np.ones((*window, channels, 1), np.int8))
    bias = code.constant(np.full(channels, fill * window[0] * window[1], np.int32))
    total = convolution(code, op, DepthwiseConv2DOp, x, ones, bias, fill)
    counts = op.counts()[None, :, :, None].astype(np.int32)
    offset = op.offset.value.data
    if offset:
        total = code.combine(ADD, total, code.constant(counts * offset))
    half = code.constant(counts // 2)
    is_positive = code.compared(GREATER_EQUAL, total, code.number(0, total))
    rounded = code.chosen(is_positive, code.combine(ADD, total, half), code.combine(SUB, total, half))
    mean = code.combine(INTDIV, rounded, code.constant(counts))
    return code.cast(code.combine(SUB, mean, code.number(offset, mean)) if offset else mean, element_of(op.y))


def _global_sum_pool(code: TosaCode, op: GlobalSumPoolOp, x: SSAValue) -> SSAValue:
    wide = less_zero_point(code, x, op.zero_point.value.data)
    return code.summed(code.summed(wide, 1), 2)


# ---------------------------------------------------------------------------------------------------------------
# Export of integer interpolation in i32: along each axis, neighbours (taps) are gathered, weighted and summed.


def _resize(code: TosaCode, op: ResizeOp, x: SSAValue) -> SSAValue:
    x = less_zero_point(code, x, op.zero_point.value.data)
    for axis, taps, weights in op.tables():
        x = _along(code, x, axis, taps, weights)
    return x


def _along(code: TosaCode, x: SSAValue, axis: int, taps: Array, weights: Array) -> SSAValue:
    """y[…, o, …] = Σ_t weights[o, t] · x[…, taps[o, t], …]."""
    before, (length, *after) = shape_of(x)[:axis], shape_of(x)[axis:]
    rows = code.reshape(x, (prod(before), length, prod(after)))
    found = code.rows_at(rows, code.constant(taps.reshape(1, -1).astype(np.int32)))
    side_by_side = code.reshape(found, (prod(before), *taps.shape, prod(after)))
    weighted = code.product(side_by_side, code.constant(weights[None, :, :, None]))
    return code.reshape(code.summed(weighted, 2), (*before, len(taps), *after))


RULES = {
    **dict.fromkeys(KINDS, _extreme),
    MaxPool2DOp: _max_pool,
    AveragePool2DOp: _average_pool,
    GlobalSumPoolOp: _global_sum_pool,
    ResizeOp: _resize,
}
