"""Export of requantization as `tosa.rescale`, for the contracts that equal one of its two rounding modes.

With a shift of n = 31 − s bits and p = a · multiplier, `tosa.rescale` computes

    SINGLE_ROUND   (p + 2^(n−1)) >> n
    DOUBLE_ROUND   (p + 2^(n−1) ± 2^30) >> n     if n > 31, with + for a ≥ 0 and − for a < 0
                   (p + 2^(n−1)) >> n            otherwise

SINGLE_ROUND equals the contracts `single` and `shift`. DOUBLE_ROUND equals `double`, which rounds half up at bit 31 and
then half away from zero at the remaining bits: the two nested floors are one floor of the sum, and below zero rounding
half away means adding one less than for half up.

Below zero, `upup` equals neither mode, unless no bits are left for its second step. `tosa.rescale` requires n in
[2, 62] and |a| below 2^(n−1). Accumulators beyond that are bounded first, if the final clamp hides the difference.
"""

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, IntegerType, i8, i16, i32
from xdsl.dialects.tosa import RoundingMode, RoundingModeAttr
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.qint.base import largest_difference, width_of
from qmlir.dialects.qint.requantize import NarrowingOp, RequantizeOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.upstream.tosa import elementwise
from qmlir.ir.upstream.tosa import requantize as tosa
from qmlir.lowering.qint_to_tosa.tensors import TosaCode

ROUNDINGS: Mapping[str, RoundingMode] = {
    "single": RoundingMode.SINGLE_ROUND,
    "shift": RoundingMode.SINGLE_ROUND,
    "double": RoundingMode.DOUBLE_ROUND,
}
"""Contract → the rounding mode of `tosa.rescale` that equals it."""

ONE_STEP = {"upup": RoundingMode.SINGLE_ROUND}
"""The same for contracts that equal a rounding mode only if no shift is negative, so that they round once."""

HIDDEN = 1 << 27
"""A bounded accumulator is rescaled to a magnitude of at least this: (2^(n−1) − 1) · 2^29 >> n."""


def narrowed(code: TosaCode, op: NarrowingOp, value: SSAValue) -> SSAValue:
    """Narrows an i32 to the result's type: clamp(value + zero_point, min, max)."""
    bounds = op.lower.value.data, op.upper.value.data
    return code.cast(code.bounded(code.plus(value, op.zero_point.value.data), *bounds), element_of(op.y))


def _requantize(code: TosaCode, op: RequantizeOp, x: SSAValue) -> SSAValue:
    multiplier = np.array(op.multiplier.get_values(), np.int32)
    shift = np.array(op.shift.get_values(), np.int64)
    shift[multiplier == 0] = 0
    rounding = _rounding(code, op, shift)
    bits = 31 - shift
    if bits.min() < 2:
        code.refuse("needs shifts of at most 29 in tosa", got=str(shift.max()), remedy="store the result more coarsely")
    zero_point = op.input_zero_point.value.data
    if element_of(x) == i16 and zero_point:
        x, zero_point = code.minus(code.cast(x, i32), zero_point), 0
    elif element_of(x) == i32 and zero_point:
        code.refuse("takes no zero point off an i32 in tosa", got=str(zero_point), remedy="subtract it before")
    x = _within_reach(code, op, x, bits)
    # Whether `rescale` itself can add the zero point and saturate to the result's type.
    direct = (element_of(op.y) == i8 and -128 <= op.zero_point.value.data <= 127) or (
        element_of(op.y) == i16 and not op.zero_point.value.data
    )
    element = element_of(op.y) if direct else i32
    operands = [
        x,
        code.constant(multiplier),
        code.constant(bits.astype(np.int8)),
        code.zero_point(zero_point, element_of(x)),
        code.zero_point(op.zero_point.value.data if direct else 0, element),
    ]
    properties: dict[str, Attribute] = {
        "rounding_mode": RoundingModeAttr(rounding),
        "scale32": BoolAttr.from_bool(True),
        "per_channel": BoolAttr.from_bool(len(multiplier) > 1),
        "input_unsigned": BoolAttr.from_bool(False),
        "output_unsigned": BoolAttr.from_bool(False),
    }
    scaled = code.op(tosa.RescaleOp, operands, element, shape_of(x), properties)
    return _clamped(code, op, scaled) if direct else narrowed(code, op, scaled)


def _rounding(code: TosaCode, op: RequantizeOp, shift: np.ndarray) -> RoundingMode:
    contract = op.contract.data
    rounding = ROUNDINGS.get(contract)
    if rounding is None and shift.min() >= 0:
        rounding = ONE_STEP.get(contract)
    if rounding is None:
        code.refuse(
            f"needs a contract of {', '.join(ROUNDINGS)}: tosa.rescale rounds in no other way",
            got=contract,
            remedy="lower it with one of these",
        )
    return rounding


def _within_reach(code: TosaCode, op: RequantizeOp, x: SSAValue, bits: np.ndarray) -> SSAValue:
    """The accumulators, bounded to the range for which `rescale` is defined if they may exceed it.

    Raises:
        LoweringError: The accumulators may exceed the range, and the result would show the bound.
    """
    width = width_of(op.x)
    largest = 1 << 31 if width == 32 else largest_difference(op.x, op.input_zero_point.value.data)
    limits = np.int64(1) << bits - 1
    if largest <= limits.min():
        return x
    low, high = (bound.value.data - op.zero_point.value.data for bound in (op.lower, op.upper))
    if element_of(x) != i32 or max(abs(low), abs(high)) >= HIDDEN:
        code.refuse(
            f"needs accumulators below 2^{int(bits.min()) - 1} in tosa, which {element_of(x)} goes beyond",
            got=f"a result in [{low}, {high}] that shows it",
            remedy="store the result in at most 16 bits" if element_of(x) == i32 else "store the result more coarsely",
        )
    most = np.minimum(limits - 1, (1 << 31) - 1).astype(np.int32)
    least = np.maximum(-limits, -(1 << 31)).astype(np.int32)
    if len(limits) == 1:
        return code.bounded(x, int(least[0]), int(most[0]))
    return code.bounded(x, code.constant(least), code.constant(most))


def _clamped(code: TosaCode, op: RequantizeOp, y: SSAValue) -> SSAValue:
    """Clamps the saturated result to the operation's bounds."""
    element = IntegerType(width_of(op.y))
    half = 1 << element.width.data - 1
    low, high = op.lower.value.data, op.upper.value.data
    if (low, high) == (-half, half - 1):
        return y
    properties: dict[str, Attribute] = {"min_val": IntegerAttr(low, element), "max_val": IntegerAttr(high, element)}
    return code.op(elementwise.ClampOp, [y], element, shape_of(y), properties)


RULES = {RequantizeOp: _requantize}
