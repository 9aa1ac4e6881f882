"""Lowering of integer contractions, fused with the requantization that follows.

Accumulators are exact modulo 2^32 or 2^64, and the pass that built the operation has proved that the sums fit them.
The order of summation is therefore free: if data minus zero point and weights fit i16, a step multiplies two channels
at once (`simd.dot_i16_pairs`).

An i64 accumulator takes twice the registers of an i32. If the weights show that the sums of products fit i32, they are
accumulated in i32; at the end the sum is widened to i64 and the bias is added.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.kernel import (
    SMALL_SCRATCH,
    Arithmetic,
    Array,
    Epilogue,
    MainLowering,
    Rules,
    TapArithmetic,
)
from qmlir.codegen.kernels import matrices, sliding
from qmlir.codegen.kernels.bits import BYTE, codebook_of_weights, fit, groups_of_weights, width_of_weights
from qmlir.codegen.kernels.contraction import Broadcast, Task, lower_contraction
from qmlir.codegen.kernels.depthwise import LANES, DepthwiseTask, lower_depthwise
from qmlir.codegen.kernels.packing import Window, in_fewer_bytes, pack_columns, window_of
from qmlir.codegen.kernels.paired import lower_paired, pairing_for
from qmlir.codegen.kernels.winograd import lower_winograd, suits
from qmlir.codegen.value import Value
from qmlir.dialects.qint.contraction import (
    BlockedFullyConnectedOp,
    Conv2DOp,
    DepthwiseConv2DOp,
    FullyConnectedOp,
    MatMulOp,
    SaturatingFullyConnectedOp,
    WeightedOp,
)
from qmlir.dialects.qint.requantize import largest_difference
from qmlir.dialects.qmlir import CodebookAttr
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import is_integer
from qmlir.lowering.qint_to_loops.arithmetic import (
    ExtendedQuads,
    IntegerTaps,
    Pairs,
    PairTaps,
    Quads,
    SaturatingPairs,
    SignedQuads,
    Singles,
    WideExtendedQuads,
    WideQuads,
)
from qmlir.lowering.qint_to_loops.requantize import fused_requantize, per_channel, requantization


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


def fits_i16(element: Attribute, zero_point: int) -> bool:
    """Whether every integer of a type minus a zero point fits i16."""
    assert is_integer(element)
    least, greatest = -(1 << element.width.data - 1), (1 << element.width.data - 1) - 1
    return -(1 << 15) <= least - zero_point and greatest - zero_point < 1 << 15


LARGEST = (1 << 31) - 1
"""The greatest i32."""


def arithmetic_for(x: SSAValue, zero_point: int, *, other_fits: bool = True) -> Arithmetic:
    """The fastest exact arithmetic with i32 sums for data of a tensor's type.

    `other_fits` says whether the other operand, or the number of channels, permits pairs.
    """
    return Pairs(zero_point) if other_fits and fits_i16(element_of(x), zero_point) else Singles(zero_point)


def wide_arithmetic_for(x: SSAValue, zero_point: int, largest: int, *, other_fits: bool = True) -> Arithmetic:
    """The fastest exact arithmetic with i64 sums for data of a tensor's type.

    `largest` is the largest magnitude of the other operand; `other_fits` is as in `arithmetic_for`.
    """
    pairs = other_fits and fits_i16(element_of(x), zero_point)
    fits = 2 * largest * largest_difference(x, zero_point) <= LARGEST
    return Pairs(zero_point, i64) if pairs and fits else Singles(zero_point, i64)


def ending(state: MainLowering, accumulators: SSAValue, channels: int | None) -> tuple[SSAValue, Epilogue, list[Array]]:
    """The result of a kernel that computes accumulators: their requantization if it is their only user.

    Returns:
        The tensor that the kernel computes, its epilogue, and the epilogue's parameters, [channels] each; with None for
        `channels`, [1] if all channels have the same.
    """
    fused = fused_requantize(accumulators)
    if fused is None:
        return accumulators, Accumulators(), []
    epilogue, parameters = requantization(state, fused)
    epilogue, parameters = epilogue.with_offset(parameters)
    return fused.y, epilogue, [*parameters] if channels is None else per_channel(parameters, channels)


def widened(epilogue: Epilogue, bias: Array | None, parameters: list[Array]) -> tuple[Epilogue, None, list[Array]]:
    """Epilogue, bias and parameters of a kernel that sums in i32 although the operation's accumulators are i64.

    The kernel itself gets no bias: the epilogue adds it.
    """
    given = [] if bias is None else [in_fewer_bytes(bias, np.int32)]
    return Widened(epilogue, bias is not None, epilogue.parameters + len(given)), None, [*given, *parameters]


def _sums_fit_i32(op: WeightedOp, weights: Array, axis: int) -> bool:
    """Whether sums of products with these weights fit i32 for any data; `axis` is that of the output channels."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    most = np.abs(weights.astype(np.int64)).sum(axis=others).max(initial=0)
    return int(most) * largest_difference(op.x, op.zero_point.value.data) <= LARGEST


def _bias(state: MainLowering, op: WeightedOp) -> Array | None:
    return None if op.b is None else state.require_constant(op, op.b, "bias")


def _arithmetic(op: WeightedOp, weights: Array, *, wide: bool, pairs: bool) -> Arithmetic:
    """The fastest exact arithmetic for data of any width."""
    zero_point = op.zero_point.value.data
    if isinstance(op, SaturatingFullyConnectedOp):
        return SaturatingPairs(zero_point)
    if wide:
        largest = int(np.abs(weights.astype(np.int64)).max())
        return wide_arithmetic_for(op.x, zero_point, largest, other_fits=pairs)
    return arithmetic_for(op.x, zero_point, other_fits=pairs)


def _lower(state: MainLowering, op: WeightedOp, name: str, window: Window, weights: Array, groups: int = 1) -> None:
    """Lowers a contraction with constant weights [O, KH, KW, C / groups]."""
    zero_point, wide = op.zero_point.value.data, element_of(op.acc) == i64
    widens = wide and _sums_fit_i32(op, weights, 0)
    result, epilogue, parameters = ending(state, op.acc, weights.shape[0])
    bias = _bias(state, op)
    if widens:
        epilogue, bias, parameters = widened(epilogue, bias, parameters)
    pairs = groups == 1 or weights.shape[3] % 2 == 0  # a pair must not span two groups
    arithmetic = _arithmetic(op, weights, wide=wide and not widens, pairs=pairs)
    x, outputs, (bits, codebook) = state.buffer(op.x), weights.shape[0], _few_bits(op.w, weights)
    grouped = groups_of_weights(op.w, weights) if groups == 1 else None
    if grouped is not None:
        bits, codebook = grouped.bits, None
    task = Task(name, window, outputs, arithmetic, epilogue, x, weights, bias, parameters, groups=groups, bits=bits,
                grouped=grouped, codebook=codebook)  # fmt: skip
    by_bytes = not isinstance(arithmetic, SaturatingPairs) and arithmetic.sums == i32 and _are_bytes(op, weights)
    quads_fit = by_bytes and weights.shape[3] * (groups > 1) % 4 == 0  # none spans groups
    by_quads = quads_fit and state.machine.quads > 0
    wide_tile = int(np.prod(weights.shape[1:])) * 2 > SMALL_SCRATCH  # of pairs, for a single output
    if by_bytes and not state.small and grouped is None and matrices.suits(task, state.machine):
        arithmetic, bias = signed_quads(weights, zero_point, bias)
        task = replace(task, arithmetic=arithmetic, bias=bias)
        matrices.lower_matrices(state, task, result)
    elif quads_fit and not state.machine.vectors:
        kind = _quads_of_words(bits, wide=window.output[1] > 1) if state.machine.halves else SignedQuads
        arithmetic, bias = signed_quads(weights, zero_point, bias, kind)
        lower_contraction(state, replace(task, arithmetic=arithmetic, bias=bias), result)
    elif not (state.small or state.machine.saves_memory or bits < BYTE) and suits(
        task, largest_difference(op.x, zero_point), state.machine.quad_rate if by_quads else 1
    ):
        lower_winograd(state, replace(task, name="qint_winograd"), result)
    elif not by_bytes:
        lower_contraction(state, task, result)
    elif state.small and quads_fit and not by_quads and wide_tile:
        arithmetic, bias = signed_quads(weights, zero_point, bias)
        lower_contraction(state, replace(task, arithmetic=arithmetic, bias=bias), result)
    elif by_quads:
        make = signed_quads if state.machine.signed_quads else quads
        arithmetic, bias = make(weights, zero_point, bias)
        lower_contraction(state, replace(task, arithmetic=arithmetic, bias=bias), result)
    elif grouped is None and bits < BYTE and quads_fit and state.machine.byte_pairs and fit(weights, 7):
        # Twice 255 times a weight of 7 bits fits 16 bits.
        arithmetic, bias = quads(weights, zero_point, bias, pairs_fit=True)
        lower_contraction(state, replace(task, arithmetic=arithmetic, bias=bias), result)
    elif not state.small and bits == BYTE and state.machine.byte_pairs and (pairing := pairing_for(task)):
        arithmetic, bias = quads(weights, zero_point, bias, pairs_fit=True)
        lower_paired(state, replace(task, arithmetic=arithmetic, bias=bias), pairing, result)
    else:
        lower_contraction(state, task, result)


def _few_bits(w: SSAValue, weights: Array) -> tuple[int, CodebookAttr | None]:
    """The bits that each of a tensor's constant weights is to take, and the codebook in which they are places then."""
    bits, codebook = width_of_weights(w, weights), codebook_of_weights(w, weights)
    if codebook is None or codebook.bits.data >= bits:
        return bits, None
    return codebook.bits.data, codebook


def _are_bytes(op: WeightedOp, weights: Array) -> bool:
    """Whether data, weights and the zero point are bytes, and sums have 32 bits."""
    zero_point = op.zero_point.value.data
    return element_of(op.x) == i8 and weights.dtype == np.int8 and -128 <= zero_point <= 127


def quads(weights: Array, zero_point: int, bias: Array | None, *, pairs_fit: bool = False) -> tuple[Quads, Array]:
    """The arithmetic of quads for weights [O, …], and the bias with the zero point's share, modulo 2^32."""
    arithmetic = Quads(zero_point, outside=zero_point + 128, pairs_fit=pairs_fit)
    return arithmetic, _bias_without(weights, zero_point + 128, bias)


def signed_quads(
    weights: Array, zero_point: int, bias: Array | None, kind: type[SignedQuads] = SignedQuads
) -> tuple[SignedQuads, Array]:
    """The arithmetic of signed quads for weights [O, …], and the bias with the zero point's share, modulo 2^32."""
    return kind(zero_point, outside=zero_point), _bias_without(weights, zero_point, bias)


def _quads_of_words(bits: int, *, wide: bool) -> type[SignedQuads]:
    """The arithmetic of signed quads on processors that multiply halves of words; with `wide`, a tile extends data."""
    if bits == BYTE:
        return WideQuads if wide else SignedQuads
    return WideExtendedQuads if wide else ExtendedQuads


def _bias_without(weights: Array, offset: int, bias: Array | None) -> Array:
    """The bias of each output minus an offset of all data times the sum of its weights [O, …], modulo 2^32."""
    share = -offset * weights.sum(tuple(range(1, weights.ndim)), np.int64)
    return (share if bias is None else bias + share).astype(np.int32)


def _conv2d(state: MainLowering, op: Conv2DOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    window = window_of(op, shape_of(op.x), shape_of(op.acc), weights.shape[1:3])
    _lower(state, op, "qint_conv2d", window, weights, op.group_count())


def _fully_connected(state: MainLowering, op: FullyConnectedOp | SaturatingFullyConnectedOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    rows, channels = shape_of(op.x)
    window = Window(1, 1, rows, channels, (1, 1), (1, rows))
    name = op.name.replace(".", "_")
    _lower(state, op, name, window, weights[:, None, None, :])


def _blocked(state: MainLowering, op: BlockedFullyConnectedOp) -> None:
    """A row of x is a window of one row, whose taps are the blocks; neighbouring outputs are blocks apart.

    Zero points of bytes that stay in the data are subtracted from the bias, which is exact: the sums are linear in it.
    """
    weights, multipliers = (
        state.require_constant(op, v, what) for v, what in ((op.w, "weights"), (op.m, "multipliers"))
    )
    (rows, inputs), (outputs, blocks) = shape_of(op.x), multipliers.shape
    window = Window(1, 1, rows * blocks, inputs // blocks, (1, blocks), (1, rows), (1, blocks))
    result, epilogue, parameters = ending(state, op.acc, outputs)
    bias = None if op.b is None else state.require_constant(op, op.b, "bias")
    zero_point, offset = op.zero_point.value.data, 0
    bytes_of_both = element_of(op.x) == i8 and weights.dtype == np.int8 and -128 <= zero_point <= 127
    if not bytes_of_both or not state.machine.quads:
        arithmetic = arithmetic_for(op.x, zero_point)
    elif state.machine.signed_quads:
        arithmetic, offset = SignedQuads(zero_point, outside=zero_point), zero_point
    else:
        arithmetic, offset = Quads(zero_point, outside=zero_point + 128), zero_point + 128
    if offset:
        each = weights.reshape(outputs, blocks, -1).sum(axis=2, dtype=np.int64)
        share = -offset * (each * multipliers).sum(axis=1)
        bias = share if bias is None else bias + share
    bits, codebook = _few_bits(op.w, weights)
    task = Task("qint_blocked_fully_connected", window, outputs, arithmetic, epilogue, state.buffer(op.x),
                weights.reshape(outputs, 1, blocks, -1), bias, parameters, multipliers=multipliers,
                bits=bits, codebook=codebook)  # fmt: skip
    lower_contraction(state, task, result)


def _depthwise(state: MainLowering, op: DepthwiseConv2DOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    channels, wide = weights.shape[3], element_of(op.acc) == i64
    widens = wide and _sums_fit_i32(op, weights, 3)
    result, epilogue, parameters = ending(state, op.acc, channels)
    bias = _bias(state, op)
    if widens:
        epilogue, bias, parameters = widened(epilogue, bias, parameters)
    taps, tap_bias = _taps(op, weights, bias, i64 if wide and not widens else i32, vectors=state.machine.vectors)
    task = DepthwiseTask(
        "qint_depthwise_conv2d",
        window_of(op, shape_of(op.x), shape_of(op.acc), weights.shape[1:3]),
        channels,
        taps,
        epilogue,
        state.buffer(op.x),
        weights[0],
        tap_bias,
        parameters,
        *_few_bits(op.w, weights),
    )
    by_bytes = taps.sums == i32 and _are_bytes(op, weights) and not state.small
    if by_bytes and sliding.suits(task, state.machine):
        make, zero_point = signed_quads if state.machine.signed_quads else quads, op.zero_point.value.data
        sliding.lower_sliding(state, task, lambda weights: make(weights, zero_point, bias), result)
    else:
        lower_depthwise(state, op, task, result)


def _taps(
    op: DepthwiseConv2DOp, weights: Array, bias: Array | None, sums: Attribute, *, vectors: bool
) -> tuple[TapArithmetic, Array | None]:
    """The fastest exact arithmetic of a depthwise convolution, and the bias of its kernel."""
    zero_point = op.zero_point.value.data
    if not vectors or sums != i32 or weights.shape[3] < LANES[-1] or not -(1 << 15) <= zero_point < 1 << 15:
        return IntegerTaps(zero_point, i16 if fits_i16(element_of(op.x), zero_point) else i32, sums), bias
    if zero_point:
        share = -zero_point * weights.sum((0, 1, 2), np.int64)
        bias = (share if bias is None else bias + share).astype(np.int32)  # modulo 2^32
    return PairTaps(zero_point, outside=zero_point), bias


def _matmul(state: MainLowering, op: MatMulOp) -> None:
    lhs, rhs, shape = shape_of(op.lhs), shape_of(op.rhs), shape_of(op.acc)
    result, epilogue, parameters = ending(state, op.acc, rhs[-1])
    rows, columns = _both_sides(op)
    task = Task(
        "qint_matmul",
        Window(int(np.prod(shape[:-2], dtype=np.int64)), 1, lhs[-2], lhs[-1], (1, 1), (1, lhs[-2])),
        rhs[-1],
        rows,
        epilogue,
        state.buffer(op.lhs),
        pack_columns(state, "qint_pack_columns", state.buffer(op.rhs), columns),
        parameters=parameters,
        x_batch=Broadcast.of(lhs[:-2], shape[:-2]),
        w_batch=Broadcast.of(rhs[:-2], shape[:-2]),
    )
    lower_contraction(state, task, result)


def _both_sides(op: MatMulOp) -> tuple[Arithmetic, Arithmetic]:
    """The arithmetic of a matrix product for its left and for its right operand; they differ in the zero point."""
    left, right = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    pairs = fits_i16(element_of(op.lhs), left) and fits_i16(element_of(op.rhs), right)
    sides = ((op.lhs, left), (op.rhs, right))
    if element_of(op.acc) == i64:
        first, second = (largest_difference(*side) for side in sides)
        return (
            wide_arithmetic_for(op.lhs, left, second, other_fits=pairs),
            wide_arithmetic_for(op.rhs, right, first, other_fits=pairs),
        )
    rows, columns = (arithmetic_for(*side, other_fits=pairs) for side in sides)
    return rows, columns


RULES: Rules = {
    Conv2DOp: _conv2d,
    DepthwiseConv2DOp: _depthwise,
    FullyConnectedOp: _fully_connected,
    SaturatingFullyConnectedOp: _fully_connected,
    BlockedFullyConnectedOp: _blocked,
    MatMulOp: _matmul,
}
