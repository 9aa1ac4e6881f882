"""Lowering of interpolation: fixed-point weights, 32-bit sums and one rounding, or a followed runtime's arithmetic."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.places import PLACE_BITS, Places, Table, recognized
from qmlir.dialects.qint.base import int32, int32s
from qmlir.ir.interfaces import shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.scales import displaced, requantize
from qmlir.numerics.fixed_point import fixed_point_rows
from qmlir.policies.legality import INTERPOLATION_BITS, float32_weights, interpolation_weights, rounds_itself
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtimes import Rounding

WEIGHT_BITS = 11
"""Fractional bits of XNNPACK's weights."""

FLOAT_BITS = 30
"""Fractional bits of the fixed-point form of float32 weights."""


def lower_resize(op: nn.ResizeOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers an interpolation: acc = Σ w · 2^b · (x − z_x), then y = z_y + acc · s_x / (s_y · 2^(b · axes))."""
    if (runtimes := _as_a_runtime(op, operands, rounding)) is not None:
        return [runtimes]
    if rounds_itself(op):
        taps = [taps for _, taps, _ in op.tables()]
        rows = [fixed_point_rows(weights, INTERPOLATION_BITS) for weights in float32_weights(op)]
        return [_interpolated(op, operands, INTERPOLATION_BITS, "half_up", list(zip(taps, rows, strict=True)))]
    _, weights = interpolation_weights(op)
    properties = {
        "axes": op.axes,
        "taps": op.taps,
        "weights": ArrayAttr([WeightsAttr(w) for w in weights]),
        "zero_point": int32(uniform(op.x).zero_point),
    }
    sums = qint.ResizeOp.make(operands, properties)
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
        "offset": int32(displaced(op)),
    }
    return qint.InterpolateOp.make(operands, properties)
