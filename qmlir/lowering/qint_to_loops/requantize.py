"""Requantization at the end of a fused kernel, and its faster forms for the CPU.

The arithmetic is the formula of `qint.requantize` (dialects/qint/requantize.py). Two forms that give the same bits
replace parts of it: one instruction for i32 lanes under `single` and `shift`, and the sum of `float_sum` in f32.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.kernels.interfaces import Epilogue
from qmlir.codegen.lowering import Array, MainLowering
from qmlir.codegen.value import Value
from qmlir.dialects.qint.requantize import Narrow, Requantization, RequantizeOp
from qmlir.numerics.contracts import CONTRACTS

WIDE = 64
"""Vectors of so many lanes, or of a multiple, fill registers with bytes; `saturate_bytes` packs them together."""


def float_sum(a: Value, factor: Value, constant: Value) -> Value:
    """`contracts.float_sum` with its sum in f32, which rounds the exact sum once as well."""
    return (a.to(f32) * factor + constant).round_even()


def packed(value: Value, narrow: Narrow, zero_point: Value | int) -> Value:
    """Adds a zero point to i64, or i32 of at most 31 bits, and clamps to the bounds of `narrow`, of 8 or 16 bits.

    The clamp to all of the storage comes first, because processors saturate while they pack lanes.
    """
    most = 1 << 8 * narrow.storage.itemsize - 1
    offset = zero_point.to(value.element) if isinstance(zero_point, Value) else zero_point
    y = value + offset
    if y.element == i32 and narrow.storage.itemsize == 1 and y.lanes is not None and y.lanes % WIDE == 0:
        y = y.code.saturate_bytes(y)
    else:
        y = y.maximum(-most).minimum(most - 1).to(narrow.storage)
    y = y if narrow.low == -most else y.maximum(narrow.low)
    return y if narrow.high == most - 1 else y.minimum(narrow.high)


IN_ONE = ("single", "shift")
"""The contracts whose rounding one instruction does on vectors of i32 (`multiply_shift_round`)."""

FASTER: Mapping[str, Callable[..., Value]] = {"float_sum": float_sum}
"""Contract → a form of its formula that is faster on a CPU."""


@dataclass(frozen=True)
class Requantize(Epilogue):
    """The requantization of accumulators; the parameters are those of its contract.

    dropped   the fewest bits of a product that are dropped; 31 stands for fewer, 33 for more. With 32 or 33 the
              rescaled value of an i32 has at most 31 bits
    folds     whether the output zero point may be added to products, before these are shifted
    offset    whether the output zero point is one more parameter, the last, and not a part of the formula
    lifted    the bits by which accumulators are shifted to the left, and their shifts made smaller, so that 33 bits are
              dropped: (a·2^n·m + 2^(d+n−1)) >> (d+n) is (a·m + 2^(d−1)) >> d
    fits      whether rescaled values are known to have at most 31 bits

    Shifts and zero points are stored in the fewest bytes that hold any of their kind: layers with many channels and few
    weights for each, as depthwise ones, would store more parameters than weights.
    """

    formula: Requantization
    dropped: int
    folds: bool
    parameters: int
    offset: bool = False
    lifted: int = 0
    fits: bool = False

    def __call__(self, x: Value, *parameters: Value) -> Value:
        return self.finish(x, parameters)

    def with_offset(self, parameters: Sequence[Array]) -> tuple["Requantize", Sequence[Array]]:
        """The same requantization with the zero point as a parameter, so that layers that differ in it share code.

        A requantization for which that would need more instructions stays as it is.
        """
        narrow = self.formula.narrow
        if self.formula.contract in FASTER or not self.rescales or narrow.storage.itemsize == 4:
            return self, parameters
        formula = replace(self.formula, narrow=replace(narrow, zero_point=0))
        zero_point = np.array([narrow.zero_point], np.int8 if narrow.storage == np.int8 else np.int16)
        return replace(self, formula=formula, parameters=self.parameters + 1, offset=True), [*parameters, zero_point]

    @property
    def rescales(self) -> bool:
        """Whether one instruction rescales vectors of i32 (`multiply_shift_round`)."""
        fits = self.fits or self.formula.narrow.fits_i32
        return self.dropped >= 32 and self.formula.contract in IN_ONE and fits

    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        a, contract, narrow = self.formula.difference(accumulator), self.formula.contract, self.formula.narrow
        parameters = [p if p.is_float else p.to(i32) for p in parameters]
        if contract in FASTER:
            return narrow(FASTER[contract](a, *parameters))
        in_one = self.rescales and a.dtype.itemsize == 4 and a.lanes is not None
        if self.rescales and a.dtype.itemsize == 4 and a.lanes is None and not a.code.vectors:
            return self.finish(accumulator.spread(2), parameters).lane(0)  # the other lane's code is dropped
        a = a << self.lifted if self.lifted else a
        if not in_one and not self.offset and not self.lifted:
            return self.formula(accumulator, *parameters)
        *factors, zero_point = parameters if self.offset else (*parameters, narrow.zero_point)
        if in_one:
            multiplier, shift = (p.spread(a.lanes) for p in factors)
            folded = a.same(zero_point) if self.folds and narrow.storage.itemsize < 4 else None
            rescaled = a.code.multiply_shift_round(a, multiplier, shift, folded, drops_33=self.dropped >= 33)
            zero_point = zero_point if folded is None else 0
        else:
            rescaled = CONTRACTS[contract](a.to(i64), *(p.to(i64) for p in factors))
        if narrow.storage.itemsize == 4:
            return narrow(rescaled)
        return packed(rescaled, narrow, zero_point)


def requantization(
    state: MainLowering, op: RequantizeOp, largest: int | None = None
) -> tuple[Requantize, Sequence[Array]]:
    """A requantization's arithmetic and its parameters, [channels] or [1] each.

    `largest` bounds the magnitudes of accumulators, if something is known of them.

    Raises:
        UnsupportedError: The contract has no lowering for the operation's clamp bounds.
    """
    formula, parameters = op.formula(), op.parameters()
    narrow = formula.narrow
    if not CONTRACTS[formula.contract].in_floats:
        multiplier, shift = parameters
        parameters = [multiplier, shift.astype(np.int8)]
    elif not narrow.fits_i32:
        need = f"needs bounds below 2^30 under the contract {formula.contract}"
        state.refuse(op, need, got=f"[{narrow.low}, {narrow.high}]")
    shifts = op.shift.get_values()
    dropped, lifted, fits = min(max(31 - max(shifts), 31), 33), 0, False
    if largest is not None and state.machine.vectors and formula.contract in IN_ONE and not formula.input_zero_point:
        lifted = max(0, max(shifts) + 2)
        fits = _rescaled(largest, max(shifts)) < 1 << 30
        if fits and (dropped < 32 or not narrow.fits_i32) and largest << lifted < 1 << 31:
            parameters, dropped = [parameters[0], parameters[1] - np.int8(lifted)], 33
            state.note_largest(op.y, _rescaled(largest, max(shifts)) + abs(narrow.zero_point))
        else:
            lifted, fits = 0, False
    folds = abs(narrow.zero_point) << 31 - min(shifts) + lifted <= 1 << 61
    return Requantize(formula, dropped, folds, len(parameters), lifted=lifted, fits=fits), parameters


def _rescaled(largest: int, shift: int) -> int:
    """A bound of |a · m · 2^(shift − 31)|, rounded, for magnitudes up to `largest` and multipliers below 2^31."""
    return (largest << shift if shift >= 0 else largest >> -shift) + 1


def fused_requantize(result: SSAValue) -> RequantizeOp | None:
    """The requantization that is the only user of a value, or None."""
    uses = list(result.uses)
    if len(uses) == 1 and isinstance(uses[0].operation, RequantizeOp):
        return uses[0].operation
    return None


def per_channel(parameters: Sequence[Array], channels: int) -> list[Array]:
    """Broadcasts parameters to one entry for each channel."""
    return [np.broadcast_to(p, (channels,)) for p in parameters]
