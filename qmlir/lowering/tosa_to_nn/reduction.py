"""Reductions along an axis, pools over windows, and resizes."""

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import Array, TensorOp, shape_of
from qmlir.ir.types import is_integer
from qmlir.ir.upstream.tosa import reduction as tosa
from qmlir.ir.upstream.tosa.base import numbers
from qmlir.ir.upstream.tosa.resize import ResizeOp
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.tosa_to_nn.code import NNCode, Rule, declared
from qmlir.lowering.tosa_to_nn.elementwise import refuse_ignored_nan
from qmlir.lowering.tosa_to_nn.rescale import Factors, requantized
from qmlir.numerics import Int64s

KINDS: Mapping[type[tosa.ReductionOp], type[TensorOp]] = {
    tosa.ReduceAllOp: nn.ReduceMinOp,
    tosa.ReduceAnyOp: nn.ReduceMaxOp,
    tosa.ReduceMaxOp: nn.ReduceMaxOp,
    tosa.ReduceMinOp: nn.ReduceMinOp,
    tosa.ReduceProductOp: nn.ReduceProdOp,
    tosa.ReduceSumOp: nn.ReduceSumOp,
}
"""Reduction of tosa → reduction of nn; on truth values, "all" is the minimum and "any" the maximum."""


def _reduction(code: NNCode, op: tosa.ReductionOp) -> SSAValue:
    refuse_ignored_nan(code, op)
    return code.insert(KINDS[type(op)], [code.plain(op.input)], {"axes": [op.axis.value.data]})


def _argmax(code: NNCode, op: tosa.ArgMaxOp) -> SSAValue:
    refuse_ignored_nan(code, op)
    x, axis = code.plain(op.input), op.axis.value.data
    shape = shape_of(x)
    found = code.cast(code.insert(nn.ArgMaxOp, [x], {"axis": axis}), declared(op.output))
    return code.reshape(found, (*shape[:axis], *shape[axis + 1 :]))


# ---------------------------------------------------------------------------------------------------------------
# Pools. The mean of integers is TOSA's own: the sum times a reciprocal of 31 bits, rounded half up.


def _window(op: tosa.PoolOp) -> dict[str, tuple[int, ...]]:
    return {"window": numbers(op.kernel), "strides": numbers(op.stride), "padding": numbers(op.pad)}


def _max_pool(code: NNCode, op: tosa.MaxPool2DOp) -> SSAValue:
    refuse_ignored_nan(code, op)
    return code.insert(nn.MaxPool2DOp, [code.raw(op.input)], _window(op))


def _average_pool(code: NNCode, op: tosa.AvgPool2DOp) -> SSAValue:
    x, kind = code.plain(op.input), declared(op.input)
    if not is_integer(kind):
        return code.insert(nn.AveragePool2DOp, [x], _window(op))
    if kind not in (i8, i16):
        code.refuse("averages i8 and i16", got=str(kind), remedy="quantize it to 8 or 16 bits")
    before, after = code.number(op.input_zp, "input_zp"), code.number(op.output_zp, "output_zp")
    ones = np.ones((1, *numbers(op.kernel), shape_of(x)[3]), np.int8)
    properties = {k: v for k, v in _window(op).items() if k != "window"}
    total = code.insert(
        qint.DepthwiseConv2DOp, [x, code.constant(ones), []], {**properties, "zero_point": int32(before)}, element=i32
    )
    made = total.owner
    assert isinstance(made, WindowOp)
    rows, columns = made.taps_inside(shape_of(x), (ones.shape[1], ones.shape[2]))
    multiplier, bits = reciprocals(rows[:, None] * columns)
    if (multiplier == multiplier[0, 0]).all() and (bits == bits[0, 0]).all():
        factors = Factors(multiplier[:1, 0], 31 - bits[:1, 0], "single")
        return requantized(code, total, factors, 0, after, kind)
    multiplier, bits = (a[None, :, :, None] for a in (multiplier, bits))
    scaled = code.insert(nn.MulOp, [code.cast(total, i64), code.constant(multiplier)])
    rounded = code.insert(nn.AddOp, [scaled, code.constant(np.int64(1) << bits - 1)])
    mean = code.insert(nn.ShiftRightOp, [rounded, code.constant(bits)])
    return code.saturated(code.plus(mean, after), kind)


def reciprocals(counts: Int64s) -> tuple[Int64s, Int64s]:
    """TOSA's `reciprocal_scale` of each count: a multiplier and a shift in bits."""
    extra = np.array([int(n - 1).bit_length() for n in counts.reshape(-1)], np.int64).reshape(counts.shape)
    return (((1 << 30) + 1) << extra) // counts, 30 + extra


# ---------------------------------------------------------------------------------------------------------------
# Resizes: for each row and column of the result, its two neighbours in the image and the place between them.


def places(length: int, size: int, scale: tuple[int, int], offset: int) -> tuple[Int64s, Int64s]:
    """The neighbours [O, 2] of each element of the result along an axis, and its distance [O] from the first.

    Args:
        length: The length of the axis in the image.
        size: Its length in the result.
        scale: n and d: the place of element o is (o · d + offset) / n.
        offset: See `scale`.

    Returns:
        Indices of the neighbours, and distances in units of 1 / n.
    """
    at = np.arange(size, dtype=np.int64) * scale[1] + offset
    first = at // scale[0]
    return np.clip(np.stack([first, first + 1], axis=1), 0, length - 1), at - first * scale[0]


def _resize(code: NNCode, op: ResizeOp) -> SSAValue:
    x, result = code.plain(op.input), declared(op.output)
    scale, offset, border = (
        code.sizes(v, n) for v, n in ((op.scale, "scale"), (op.offset, "offset"), (op.border, "border"))
    )
    shape = shape_of(x)
    lengths = [((shape[1 + i] - 1) * scale[2 * i] - offset[i] + border[i]) // scale[2 * i + 1] + 1 for i in (0, 1)]
    axes = [places(shape[1 + i], lengths[i], (scale[2 * i], scale[2 * i + 1]), offset[i]) for i in (0, 1)]
    if not op.is_bilinear:
        for i, (taps, distance) in enumerate(axes):
            nearest = np.where(distance * 2 >= scale[2 * i], taps[:, 1], taps[:, 0])
            if not np.array_equal(nearest, np.arange(shape[1 + i])):
                x = code.insert(nn.GatherOp, [x, code.constant(nearest.astype(np.int32))], {"axis": 1 + i})
        return x
    if not is_integer(result):
        weights = [_weights(distance / scale[2 * i], 1.0) for i, (_, distance) in enumerate(axes)]
        return code.insert(nn.ResizeOp, [x], _tables([t for t, _ in axes], weights))
    if result != i32:
        code.refuse("interpolates i8 to i32, and floats", got=str(op.output.type), remedy="quantize it to 8 bits")
    whole = [_weights(distance, scale[2 * i]).astype(np.int32) for i, (_, distance) in enumerate(axes)]
    return code.insert(qint.ResizeOp, [x], _tables([t for t, _ in axes], whole), element=i32)


def _weights(distance: Array, whole: float) -> Array:
    return np.stack([whole - distance, distance], axis=1)


def _tables(taps: list[Int64s], weights: list[Array]) -> dict[str, Attribute | list[int]]:
    return {
        "axes": [1, 2],
        "taps": ArrayAttr(map(WeightsAttr, taps)),
        "weights": ArrayAttr(map(WeightsAttr, weights)),
    }


RULES: Mapping[type[Operation], Rule] = {
    **dict.fromkeys(KINDS, _reduction),
    tosa.ArgMaxOp: _argmax,
    tosa.MaxPool2DOp: _max_pool,
    tosa.AvgPool2DOp: _average_pool,
    ResizeOp: _resize,
}
