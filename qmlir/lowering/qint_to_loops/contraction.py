"""Lowering of integer contractions, fused with the requantization that follows.

Accumulators are exact modulo 2^32 or 2^64, and the pass that built the operation has proved that the sums fit them.
The order of summation is therefore free, and a step may multiply several channels at once (candidates.py).

An i64 accumulator takes twice the registers of an i32. If the weights show that the sums of products fit i32, they are
accumulated in i32; at the end the sum is widened to i64 and the bias is added.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.kernels.choice import Candidate, choose
from qmlir.codegen.kernels.interfaces import Epilogue
from qmlir.codegen.kernels.packed_weights import levels_to_pack
from qmlir.codegen.kernels.packing import Window, in_fewer_bytes, pack_columns, window_of
from qmlir.codegen.kernels.task import A, Broadcast, Task
from qmlir.codegen.lowering import Array, MainLowering, Rules
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import Value
from qmlir.dialects.qint.contraction import (
    Conv2DOp,
    DepthwiseConv2DOp,
    FullyConnectedOp,
    MatMulOp,
    SaturatingFullyConnectedOp,
    WeightedOp,
)
from qmlir.dialects.qint.requantize import Narrow, largest_difference
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.lowering.qint_to_loops.arithmetic import (
    Integers,
    IntegerTaps,
    Pairs,
    SaturatingPairs,
    Singles,
    SplitPairs,
    WrappedPairs,
    WrappedParts,
    of_parts,
)
from qmlir.lowering.qint_to_loops.candidates import (
    LARGEST,
    PAIRS,
    SATURATING,
    SINGLES,
    SUMS,
    TAPS,
    fits_i16,
    pairs_fit_sums,
)
from qmlir.lowering.qint_to_loops.requantize import fused_requantize, packed, per_channel, requantization

LEAST_SHARING = 4
"""The fewest outputs that share what a step of `WrappedPairs` computes of weights alone."""


@dataclass(frozen=True)
class Accumulators(Epilogue):
    """Yields the accumulators as they are."""

    parameters: int = 0

    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        return accumulator


@dataclass(frozen=True)
class Widened(Epilogue):
    """Widens i32 sums to i64, adds the bias (the first parameter) if `has_bias`, and applies another epilogue."""

    then: Epilogue
    has_bias: bool
    parameters: int

    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        wide, rest = accumulator.to(i64), list(parameters)
        if self.has_bias:
            wide = wide + rest.pop(0).to(i64)
        return self.then.finish(wide, rest)


@dataclass(frozen=True)
class RescaledParts(Epilogue):
    """Rescales sums in two parts (`WrappedParts`) under `single64`; the parameters are the multiplier and the shift.

    With a sum of a·2^16 + l and b = 31 − shift, which is 33 to 48, this is `single64` with its half added to the upper
    product: (a·m + (l·m >> 16) + 2^(b−17)) >> (b−16). Even lanes and odd ones are multiplied where they are in lanes of
    i64. The results of even lanes lie in the lower halves, and those of odd lanes are shifted to the upper ones.
    """

    narrow: Narrow
    parameters: int = 2

    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        low, above = of_parts(accumulator)
        multiplier, shift = parameters
        kept = 15 - shift.to(i32)

        def rescaled(odd: bool) -> Value:
            """The rescaled sums of even or odd lanes, in the half of an i64 that is theirs."""

            def of(lanes: Value) -> Value:
                wide = lanes.bits(i64)
                return wide >> 32 if odd else (wide << 32) >> 32

            total = of(above) * of(multiplier) + (of(low) * of(multiplier) >> 16)
            total = total + (kept.code.constant(1, total.type) << of(kept) - 1)
            return total << 32 - of(kept) if odd else total >> of(kept)

        both = rescaled(odd=True) & -(1 << 32) | rescaled(odd=False) & (1 << 32) - 1
        return packed(both.bits(i32), self.narrow, self.narrow.zero_point)


def _in_parts(state: MainLowering, op: MatMulOp, rows: Integers) -> Integers:
    """`WrappedParts` in place of `WrappedPairs` where the sums of one stretch are only rescaled to words or bytes."""
    fused = fused_requantize(op.acc)
    if type(rows) is not WrappedPairs or fused is None or fused.contract.data != "single64":
        return rows
    terms, least = shape_of(op.lhs)[-1], 31 - max(fused.shift.get_values())
    short = 0 < terms <= WrappedPairs.group * WrappedPairs.most_steps
    fits = 33 <= least and 31 - min(fused.shift.get_values()) <= 48 and terms << 61 - least < 1 << 30
    narrow = fused.formula().narrow
    plain = not fused.input_zero_point.value.data and narrow.storage.itemsize <= 2
    return WrappedParts(rows.zero_point) if short and fits and plain else rows


def ending(
    state: MainLowering, accumulators: SSAValue, channels: int | None, largest: int | None = None
) -> tuple[SSAValue, Epilogue, list[Array]]:
    """The result of a kernel that computes accumulators: their requantization if it is their only user.

    `largest` bounds the magnitudes of accumulators, if something is known of them.

    Returns:
        The tensor that the kernel computes, its epilogue, and the epilogue's parameters, [channels] each; with None for
        `channels`, [1] if all channels have the same.
    """
    fused = fused_requantize(accumulators)
    if fused is None:
        return accumulators, Accumulators(), []
    epilogue, parameters = requantization(state, fused, largest)
    epilogue, parameters = epilogue.with_offset(parameters)
    return fused.y, epilogue, [*parameters] if channels is None else per_channel(parameters, channels)


def widened(epilogue: Epilogue, bias: Array | None, parameters: list[Array]) -> tuple[Epilogue, None, list[Array]]:
    """Epilogue, bias and parameters of a kernel that sums in i32 although the operation's accumulators are i64.

    The kernel itself gets no bias: the epilogue adds it.
    """
    given = [] if bias is None else [in_fewer_bytes(bias, np.int32)]
    return Widened(epilogue, bias is not None, epilogue.parameters + len(given)), None, [*given, *parameters]


def _largest_sum(op: WeightedOp, weights: Array, axis: int) -> int:
    """The largest magnitude of sums of products with these weights; `axis` is that of the output channels."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    most = np.abs(weights.astype(np.int64)).sum(axis=others).max(initial=0)
    return int(most) * largest_difference(op.x, op.zero_point.value.data)


def _lower(
    state: MainLowering, op: WeightedOp, window: Window, weights: Array,
    arithmetic_of: Callable[[int, Attribute], A], candidates: Sequence[Candidate[A]], *, axis: int = 0, groups: int = 1,
) -> None:  # fmt: skip
    """Lowers an operation with constant weights.

    Args:
        state: The lowering.
        op: The operation.
        window: Its geometry.
        weights: The weights [O, KH, KW, C / groups], or of a depthwise convolution [1, KH, KW, O].
        arithmetic_of: Makes the arithmetic that is always exact, of the data's zero point and the type of the sums.
        candidates: The kernels.
        axis: The axis of the output channels.
        groups: The groups of a grouped convolution.
    """
    zero_point, wide = op.zero_point.value.data, element_of(op.acc) == i64
    largest = _largest_sum(op, weights, axis)
    widens = wide and largest <= LARGEST
    bias = None if op.b is None else state.require_constant(op, op.b, "bias")
    of_bias = 0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
    result, epilogue, parameters = ending(state, op.acc, weights.shape[axis], largest + of_bias)
    if widens:
        epilogue, bias, parameters = widened(epilogue, bias, parameters)
    task = Task(
        name=op.name.replace(".", "_"),
        window=window,
        outputs=weights.shape[axis],
        arithmetic=arithmetic_of(zero_point, i64 if wide and not widens else i32),
        epilogue=epilogue,
        groups=groups,
        result=result,
        x=state.buffer(op.x),
        weights=weights[0] if axis else weights,
        bias=bias,
        parameters=parameters,
        largest=largest_difference(op.x, zero_point),
        levels=levels_to_pack(op.w, weights, groups=axis == 0 and groups == 1),
    )
    choose(state, task, candidates)


def _conv2d(state: MainLowering, op: Conv2DOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    window = window_of(op, shape_of(op.x), shape_of(op.acc), weights.shape[1:3])
    _lower(state, op, window, weights, Singles, SUMS, groups=op.group_count())


def _fully_connected(state: MainLowering, op: FullyConnectedOp | SaturatingFullyConnectedOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    rows, channels = shape_of(op.x)
    window = Window(1, 1, rows, channels, (1, 1), (1, rows))
    saturates = isinstance(op, SaturatingFullyConnectedOp)
    kind, candidates = (SaturatingPairs, SATURATING) if saturates else (Singles, SUMS)
    _lower(state, op, window, weights[:, None, None, :], kind, candidates)


def _depthwise(state: MainLowering, op: DepthwiseConv2DOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    window = window_of(op, shape_of(op.x), shape_of(op.acc), weights.shape[1:3])

    def taps(zero_point: int, sums: Attribute) -> IntegerTaps:
        return IntegerTaps(zero_point, i16 if fits_i16(element_of(op.x), zero_point) else i32, sums)

    _lower(state, op, window, weights, taps, TAPS, axis=3)


def _matmul(state: MainLowering, op: MatMulOp) -> None:
    lhs, rhs, shape = shape_of(op.lhs), shape_of(op.rhs), shape_of(op.acc)
    rows, columns = _both_sides(op, state.machine)
    rows = _in_parts(state, op, rows)
    result, epilogue, parameters = ending(state, op.acc, rhs[-1])
    if isinstance(rows, WrappedParts) and (fused := fused_requantize(op.acc)) is not None:
        multiplier, shift = fused.parameters()
        epilogue = RescaledParts(fused.formula().narrow)
        parameters = per_channel([multiplier, shift.astype(np.int8)], rhs[-1])
    window = Window(int(np.prod(shape[:-2], dtype=np.int64)), 1, lhs[-2], lhs[-1], (1, 1), (1, lhs[-2]))
    x = state.buffer(op.lhs)
    task = Task(
        name="qint_matmul",
        window=window,
        outputs=rhs[-1],
        arithmetic=rows,
        epilogue=epilogue,
        x_batch=Broadcast.of(lhs[:-2], shape[:-2]),
        w_batch=Broadcast.of(rhs[:-2], shape[:-2]),
        result=result,
        x=x,
        weights=pack_columns(state, "qint_pack_columns", state.buffer(op.rhs), columns),
        parameters=parameters,
    )
    choose(state, task, [PAIRS if isinstance(rows, Pairs) else SINGLES])


def _both_sides(op: MatMulOp, machine: Capabilities) -> tuple[Integers, Integers]:
    """The arithmetic of a matrix product for its left and for its right operand.

    They differ in the zero point, and where the steps of the product take two pairs of the packed right operand.
    """
    sides = ((op.lhs, op.lhs_zero_point.value.data), (op.rhs, op.rhs_zero_point.value.data))
    sums = i64 if element_of(op.acc) == i64 else i32
    fit = all(fits_i16(element_of(x), zero_point) for x, zero_point in sides)
    first, second = (largest_difference(x, zero_point) for x, zero_point in sides)
    kind = Pairs if fit and pairs_fit_sums(sums, first, second) else Singles
    if fit and machine.vectors and sums == i64:
        kind = SplitPairs
    rows, columns = (kind(zero_point, sums) for _, zero_point in sides)
    outputs, terms = shape_of(op.lhs)[-2:]
    if kind == SplitPairs and machine.upper_quads and outputs >= LEAST_SHARING and terms % 4 == 0:
        rows = WrappedPairs(rows.zero_point)
    return rows, columns


RULES: Rules = {
    Conv2DOp: _conv2d,
    DepthwiseConv2DOp: _depthwise,
    FullyConnectedOp: _fully_connected,
    SaturatingFullyConnectedOp: _fully_connected,
    MatMulOp: _matmul,
}
