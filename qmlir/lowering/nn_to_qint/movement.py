"""Integer forms of data movement, interpolation, reductions and pools."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.interpolation import PLACE_BITS, Places, Table, recognized
from qmlir.dialects.nn.movement import FillingOp, MovementOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.nn.reduction import ArgumentOp, ExtremeOp
from qmlir.dialects.nn.resize import INTERPOLATION_BITS
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import Shape, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.scales import mean, requantize, stored, summed_from, sums_of
from qmlir.numerics.fixed_point import fixed_point_rows
from qmlir.policies.runtime_kernels import sign_shift
from qmlir.policies.runtimes import Rounding

# ---------------------------------------------------------------------------------------------------------------
# Lowering of data movement: the same operation on the stored integers.


def lower_movement(op: MovementOp | ExtremeOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers reshape, concat, slice, reduced maxima and the like: only the element type changes."""
    element = uniform(op.y)
    properties = dict(op.properties)
    if isinstance(op, FillingOp) and (real := op.real_value()) is not None:
        properties["value"] = IntegerAttr(stored(real.value.data, element), element.storage_type)
    return [type(op).make([operands] if isinstance(op, nn.ConcatOp) else operands, properties)]


def lower_search(
    op: ArgumentOp | nn.TopKOp | nn.MaxPoolIndices2DOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers a search for extreme elements: stored integers have the order of the real numbers, and their ties."""
    return [type(op).make(operands, dict(op.properties))]


# ---------------------------------------------------------------------------------------------------------------
# Lowering of interpolation: fixed-point weights, 32-bit sums and one rounding, or a followed runtime's arithmetic.


WEIGHT_BITS = 11
"""Fractional bits of XNNPACK's weights."""

FLOAT_BITS = 30
"""Fractional bits of the fixed-point form of float32 weights."""


def lower_resize(op: nn.ResizeOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers an interpolation: acc = Σ w · 2^b · (x − z_x), then y = z_y + acc · s_x / (s_y · 2^(b · axes))."""
    if (runtimes := _as_a_runtime(op, operands, rounding)) is not None:
        return [runtimes]
    if op.rounds_itself():
        taps = [taps for _, taps, _ in op.tables()]
        rows = [fixed_point_rows(weights, INTERPOLATION_BITS) for weights in op.float32_weights()]
        return [_interpolated(op, operands, INTERPOLATION_BITS, "half_up", list(zip(taps, rows, strict=True)))]
    fixed, (accumulator, rounding) = op.fixed_weights(), sums_of(op, rounding)
    properties = {
        "axes": op.axes,
        "taps": op.taps,
        "weights": ArrayAttr([WeightsAttr(w) for w in fixed.weights]),
        "zero_point": int32(uniform(op.x).zero_point),
        "dropped": int32(fixed.dropped),
    }
    sums = qint.ResizeOp.make(operands, properties, element=accumulator)
    return [sums, requantize(sums.acc, op, rounding)]


def _float_table(places: Places) -> Table | None:
    """Neighbours, and float32 weights as multiples of 2^−`FLOAT_BITS`; None if a weight is not such a multiple."""
    taps, weights = places.linear_in_float32()
    steps = np.ldexp(weights.astype(np.float64), FLOAT_BITS)
    return (taps, steps) if (steps == np.rint(steps)).all() and (np.abs(weights) < 2).all() else None


_FORMS: Mapping[str, tuple[int, str, Callable[[Places], Table | None]]] = {
    "fixed_places": (PLACE_BITS, "half_away", Places.fixed),
    "fixed_weights": (WEIGHT_BITS, "half_up", lambda places: places.rounded(WEIGHT_BITS)),
    "float32": (FLOAT_BITS, "float32", _float_table),
    "float32_product": (FLOAT_BITS, "float32_product", _float_table),
}
"""`Rounding.function` → (fractional bits, rounding, function from places to neighbours and weights)."""


def _as_a_runtime(op: nn.ResizeOp, operands: Sequence[SSAValue], rounding: Rounding) -> qint.InterpolateOp | None:
    """An interpolation of stored integers with the followed runtime's weights.

    Returns:
        The operation; None if the scale or zero point changes, or the runtime has no such interpolation.
    """
    data, result = uniform(op.x), uniform(op.y)
    if rounding.function not in _FORMS or (data.scale, data.zero_point) != (result.scale, result.zero_point):
        return None
    bits, way, weighted = _FORMS[rounding.function]
    shape, own = shape_of(op.x), op.tables()
    if len(shape) != 4 or not {axis for axis, _, _ in own} <= {1, 2}:  # no operator of LiteRT's
        return None
    if (found := recognized([(shape[axis], taps, weights) for axis, taps, weights in own])) is None:
        return None
    tables = [table for places in found if (table := weighted(places)) is not None]
    return _interpolated(op, operands, bits, way, tables) if len(tables) == len(own) else None


def _interpolated(
    op: nn.ResizeOp, operands: Sequence[SSAValue], bits: int, rounding: str, tables: Sequence[Table]
) -> qint.InterpolateOp:
    properties = {
        "axes": op.axes,
        "taps": ArrayAttr([WeightsAttr(taps) for taps, _ in tables]),
        "weights": ArrayAttr([WeightsAttr(weights.astype(np.int32)) for _, weights in tables]),
        "bits": int32s([bits] * len(tables)),
        "rounding": StringAttr(rounding),
        "offset": int32(sign_shift(op)),
    }
    return qint.InterpolateOp.make(operands, properties)


# ---------------------------------------------------------------------------------------------------------------
# Lowering of sums and means along axes: exact integer sums, then one requantization.


def lower_reduction(
    op: nn.ReduceSumOp | nn.ReduceMeanOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers a sum: acc = Σ (x − z_x), then y = z_y + acc · s_x / s_y; a mean has the additional factor 1/n."""
    new, columns = _as_images(operands[0], op.axes.get_values())
    averages = isinstance(op, nn.ReduceMeanOp)
    base = summed_from(op, rounding) if averages else uniform(op.x).zero_point
    accumulator, rounding = sums_of(op, rounding)
    total = qint.GlobalSumPoolOp.make([columns], {"zero_point": int32(base)}, element=accumulator)
    narrow = mean(total.acc, op, rounding) if averages else requantize(total.acc, op, rounding)
    return [*new, total, narrow, reshape(narrow.y, shape_of(op.y))]


def lower_sums(
    op: nn.CumulativeSumOp | nn.HadamardOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers running or signed sums: acc[i] = Σ ±(x[j] − z_x), then y[i] = z_y + acc[i] · s_x / s_y."""
    data, (accumulator, rounding) = uniform(op.x), sums_of(op, rounding)
    low, high = data.storage_min - data.zero_point, data.storage_max - data.zero_point
    less_zero_point = qint.RequantizeOp.make(
        operands,
        {
            "input_zero_point": int32(data.zero_point),
            "multiplier": int32s([1 << 30]),  # with the shift, a factor of 1
            "shift": int32s([1]),
            "contract": StringAttr("single"),
            "min": int32(low),
            "max": int32(high),
        },
        element=i32,
    )
    new: list[Operation] = [less_zero_point]
    if accumulator != i32:
        new.append(nn.CastOp.make([less_zero_point.y], element=accumulator))
    sums = type(op).make([new[-1].results[0]], dict(op.properties))
    return [*new, sums, requantize(sums.y, op, rounding)]


def _as_images(x: SSAValue, axes: Sequence[int]) -> tuple[list[Operation], SSAValue]:
    """Reshapes a tensor to images [kept before, reduced, 1, kept after], whose rows are the reduced elements.

    Returns:
        The operations that do so, and the images.
    """
    shape = shape_of(x)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    before = [axis for axis in kept if not axes or axis < axes[0]]
    new: list[Operation] = []
    if any(axes[0] < axis < axes[-1] for axis in kept if axes):
        new.append(nn.TransposeOp.make([x], {"permutation": ints([*axes, *kept])}))
        x, before = new[0].results[0], []
    after = [axis for axis in kept if axis not in before]
    sizes = [prod(shape[axis] for axis in group) for group in (before, axes, after)]
    new.append(reshape(x, (sizes[0], sizes[1], 1, sizes[2])))
    return new, new[-1].results[0]


def reshape(x: SSAValue, shape: Shape) -> nn.ReshapeOp:
    """A reshape of stored integers."""
    return nn.ReshapeOp.make([x], {"shape": ints(shape)})


# ---------------------------------------------------------------------------------------------------------------
# Lowering of pools: max and average pools keep the scale of their data, a global mean may change it.


WINDOW = ("window", "strides", "padding", "dilations", "groups", "count_include_pad")


def window_properties(op: Operation) -> dict[str, Attribute]:
    """The properties of an operation that say how its window moves; the integer form has the same."""
    return {k: op.properties[k] for k in WINDOW if k in op.properties}


def lower_max_pool(op: nn.MaxPool2DOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a max pool: the maximum of stored integers represents the maximum of the real values."""
    return [qint.MaxPool2DOp.make(operands, window_properties(op))]


def lower_average_pool(op: nn.AveragePool2DOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers an average pool to the mean of stored integers; padding that is counted has the value of the zero point.

    If the source model stores the data unsigned, its runtime rounds unsigned means: halves up.
    """
    numbers = {"zero_point": int32(uniform(op.x).zero_point), "offset": int32(sign_shift(op))}
    return [qint.AveragePool2DOp.make(operands, window_properties(op) | numbers)]


def lower_global_average_pool(
    op: nn.GlobalAveragePoolOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers a global average pool: acc = Σ (x − z_x), then y = z_y + acc · s_x / (s_y · n)."""
    properties = {"zero_point": int32(summed_from(op, rounding))}
    accumulator, rounding = sums_of(op, rounding)
    total = qint.GlobalSumPoolOp.make(operands, properties, element=accumulator)
    return [total, mean(total.acc, op, rounding)]
