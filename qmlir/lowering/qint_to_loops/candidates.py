"""Kernels of integer contractions and depthwise convolutions, in order of preference (codegen/kernels/choice.py).

A task comes with the arithmetic that is always exact, `Singles` or `IntegerTaps`. A candidate puts another in its
place: one whose steps multiply more channels, or taps, at once. Data then keep their zero point where products are of
bytes, and the bias loses its share. All sums are exact, so the order of preference is that of speed:

    nibbles                  weights of 4 bits in blocks whose multipliers have 8 bits
    matrices, Winograd       several sums, or several outputs, of one instruction's products
    dot products             a register of products, whose sum is a scalar
    quads of bytes           four products a step: by one instruction, or by two halves of words without vectors
    pairs of bytes           the same where sums of two saturate, and weights are small or channels find partners
    split pairs of words     two products a step, by both bytes of weights, with sums that i32 holds for a while
    pairs of words, singles  two products a step, or one
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.kernels import matrix_unit, nibbles, paired, sliding, winograd
from qmlir.codegen.kernels.choice import Candidate
from qmlir.codegen.kernels.contraction import lower_contraction
from qmlir.codegen.kernels.depthwise import LANES, lower_depthwise
from qmlir.codegen.kernels.interfaces import Arithmetic, TapArithmetic
from qmlir.codegen.kernels.task import Task
from qmlir.codegen.lowering import SMALL_SCRATCH, Array, MainLowering
from qmlir.codegen.machine import Capabilities
from qmlir.ir.types import is_integer
from qmlir.lowering.qint_to_loops.arithmetic import (
    ByteTaps,
    Dots,
    ExtendedQuads,
    Pairs,
    PairTaps,
    Quads,
    SignedQuads,
    SplitPairs,
    WideExtendedQuads,
    WideQuads,
)
from qmlir.numerics.packing import BYTE, fit

LARGEST = (1 << 31) - 1
"""The greatest i32."""

LEAST_SPLIT = 32
"""The fewest products of a run for which sums of weights in two parts are worth their widening."""

NO_BYTES = "data or weights are no bytes, or sums have 64 bits"
"""Why a task does not suit kernels of bytes."""


def fits_i16(element: Attribute, zero_point: int) -> bool:
    """Whether every integer of a type minus a zero point fits i16."""
    assert is_integer(element)
    least, greatest = -(1 << element.width.data - 1), (1 << element.width.data - 1) - 1
    return -(1 << 15) <= least - zero_point and greatest - zero_point < 1 << 15


def pairs_fit_sums(sums: Attribute, largest: int, other: int) -> bool:
    """Whether the sum of two products fits i32, in which a step adds them; `largest` and `other` bound the factors."""
    return sums == i32 or 2 * largest * other <= LARGEST


# ---------------------------------------------------------------------------------------------------------------
# Arithmetics of a task


def _in_pairs(task: Task[Arithmetic]) -> Task[Arithmetic]:
    """The task in pairs of i16."""
    return replace(task, arithmetic=Pairs(task.arithmetic.zero_point, task.arithmetic.sums))


def _in_split_pairs(task: Task[Arithmetic]) -> Task[Arithmetic]:
    """The task in pairs of i16 by weights in two parts."""
    return replace(task, arithmetic=SplitPairs(task.arithmetic.zero_point, task.arithmetic.sums))


def _in_quads(task: Task[Arithmetic], *, pairs_fit: bool = False) -> Task[Arithmetic]:
    """The task in quads of unsigned by signed bytes; see `Quads` for `pairs_fit`."""
    zero_point = task.arithmetic.zero_point
    arithmetic = Quads(zero_point, outside=zero_point + 128, pairs_fit=pairs_fit)
    return replace(task, arithmetic=arithmetic, bias=_bias_without(task, zero_point + 128))


def _in_signed_bytes(task: Task[Arithmetic], kind: type[SignedQuads | Dots] = SignedQuads) -> Task[Arithmetic]:
    """The task in quads of signed bytes, or in more of them."""
    zero_point = task.arithmetic.zero_point
    return replace(task, arithmetic=kind(zero_point, outside=zero_point), bias=_bias_without(task, zero_point))


def _bias_without(task: Task[Arithmetic], offset: int) -> Array | None:
    """The bias minus an offset of all data times the sum of an output's weights, modulo 2^32 where i32 sums it."""
    weights, bias = task.weights, task.bias
    assert not isinstance(weights, SSAValue)
    assert not isinstance(bias, SSAValue)
    if task.multipliers is None:
        return bias_without(weights, offset, bias)
    if not offset:
        return bias
    share = -offset * (weights.sum(axis=(1, 3), dtype=np.int64) * task.multipliers).sum(axis=1)
    share = share if bias is None else bias + share
    return share.astype(np.int32) if task.narrow else share


def bias_without(weights: Array, offset: int, bias: Array | None) -> Array:
    """The bias of each output minus an offset of all data times the sum of its weights [O, …], modulo 2^32."""
    share = -offset * weights.sum(tuple(range(1, weights.ndim)), np.int64)
    return (share if bias is None else bias + share).astype(np.int32)


def _in(change: Callable[[Task[Arithmetic]], Task[Arithmetic]],
        kernel: Callable[[MainLowering, Task[Arithmetic]], None] = lower_contraction,
) -> Callable[[MainLowering, Task[Arithmetic]], None]:  # fmt: skip
    """A kernel for a task in another arithmetic."""
    return lambda state, task: kernel(state, change(task))


# ---------------------------------------------------------------------------------------------------------------
# What tasks suit


def _no_pairs(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why a step cannot multiply pairs of i16."""
    weights = task.weights
    assert not isinstance(weights, SSAValue)
    if not fits_i16(task.element, task.arithmetic.zero_point):
        return "data minus the zero point leave 16 bits"
    if task.groups > 1 and weights.shape[3] % 2:
        return "a pair would span two groups"
    other = int(np.abs(weights.astype(np.int64)).max(initial=0))
    return "" if pairs_fit_sums(task.arithmetic.sums, task.largest, other) else "the sum of two products leaves 32 bits"


def _no_split_pairs(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why sums of both bytes of the weights in i32, widened after each run, are slower than sums of pairs in i64."""
    if task.arithmetic.sums == i32:
        return "sums have 32 bits"
    weights = task.weights
    if isinstance(weights, SSAValue) or not task.is_plain or weights.dtype != np.int16:
        return "weights are no words of one group"
    if not fits_i16(task.element, task.arithmetic.zero_point):
        return "data minus the zero point leave 16 bits"
    short = task.window.channels * task.window.extent[1] < LEAST_SPLIT
    return f"a row of the window has less than {LEAST_SPLIT} products" if short else ""


def _no_quads(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why a step cannot multiply quads of bytes."""
    if not task.is_of_bytes or isinstance(task.weights, SSAValue):
        return NO_BYTES
    return "a quad would span two groups" if task.groups > 1 and task.weights.shape[3] % 4 else ""


def _no_single_quads(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why a step cannot multiply quads whose sums are the accumulators."""
    return _no_quads(task, machine) or ("sums are scaled" if task.multipliers is not None else "")


def _no_dots(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why a step does not multiply as many channels as a register holds."""
    if reason := _no_single_quads(task, machine):
        return reason
    if task.levels.bits < BYTE or task.grouped is not None:
        return "weights are packed"
    run = task.window.channels // task.groups
    if task.groups > 1 and run % machine.dots:
        return f"{machine.dots} channels would span two groups"
    if task.groups == 1 and run % machine.dots and task.window.dilations[1] == 1:
        run *= task.window.extent[1]
    return f"a run of {run} channels leaves most of {machine.dots} products empty" if 2 * run <= machine.dots else ""


def _no_matrices(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why the matrix unit does not suit."""
    return matrix_unit.why_not(task) if task.is_of_bytes else NO_BYTES


def _no_winograd(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why Winograd's kernels do not suit, or are slower than the sums that the processor would compute instead."""
    by_quads = machine.quads > 0 and not _no_quads(task, machine)
    return _no_pairs(task, machine) or winograd.why_not(task, machine.quad_rate if by_quads else 1)


def _no_quads_in_place(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why data are not read in place, as quads that are extended again for each output."""
    if reason := _no_single_quads(task, machine):
        return reason
    assert not isinstance(task.weights, SSAValue)
    of_pairs = int(np.prod(task.weights.shape[1:])) * 2
    return "" if of_pairs > SMALL_SCRATCH else "a tile of pairs is small"


def _no_small_weights(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why not every sum of two products of bytes fits 16 bits: twice 255 times a weight of 7 bits does."""
    if (reason := _no_single_quads(task, machine)) or task.grouped is not None or isinstance(task.weights, SSAValue):
        return reason or "weights are multiples by groups"
    return "" if task.levels.bits < BYTE and fit(task.weights, 7) else "weights have 8 bits"


def _no_partners(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why channels are not paired so that no sum of two products leaves 16 bits."""
    if not task.is_of_bytes or task.levels.bits < BYTE:
        return NO_BYTES if not task.is_of_bytes else "weights are packed"
    return "" if paired.pairing_for(task) else "too few channels find a partner, or too few outputs share windows"


def _sums_byte_pairs(machine: Capabilities) -> bool:
    return machine.byte_pairs and not machine.quads


def _sums_in_place(machine: Capabilities) -> bool:
    return machine.small and machine.vectors and not machine.quads


def _in_halves(task: Task[Arithmetic]) -> Task[Arithmetic]:
    """The task in quads of bytes of which two halves of a word are multiplied at once.

    Weights that are packed are extended as they are unpacked. A tile extends each datum once for all output channels;
    where a row has one output, data are read once anyway.
    """
    wide = task.window.output[1] > 1
    if task.levels.bits == BYTE:
        return _in_signed_bytes(task, WideQuads if wide else SignedQuads)
    return _in_signed_bytes(task, WideExtendedQuads if wide else ExtendedQuads)


def _lower_paired(state: MainLowering, task: Task[Arithmetic]) -> None:
    pairing = paired.pairing_for(task)
    assert pairing is not None
    zero_point = task.arithmetic.zero_point
    bytes_as_they_are = replace(task, arithmetic=SignedQuads(zero_point, outside=zero_point))
    on_windows = replace(paired.gathered(state, bytes_as_they_are), arithmetic=task.arithmetic)
    paired.lower_paired(state, _in_quads(on_windows, pairs_fit=True), pairing)


PAIRS, SINGLES = (Candidate(name, lower_contraction) for name in ("pairs of words", "single products"))
"""Kernels of products of two computed tensors, whose arithmetic is known."""

SATURATING = [Candidate("saturating pairs", lower_contraction)]
"""The kernel of sums of which each pair saturates."""

SUMS: Sequence[Candidate[Arithmetic]] = (
    Candidate(
        "matrix unit",
        _in(_in_signed_bytes, matrix_unit.lower_matrices),
        lambda machine: machine.matrices and not machine.small,
        _no_matrices,
    ),
    Candidate(
        "Winograd",
        _in(lambda task: replace(_in_pairs(task), name="qint_winograd"), winograd.lower_winograd),
        lambda machine: not (machine.small or machine.saves_memory),
        _no_winograd,
    ),
    Candidate("halves of words", _in(_in_halves), lambda m: m.halves, _no_single_quads),
    Candidate("words", _in(_in_signed_bytes), lambda m: not (m.vectors or m.halves), _no_single_quads),
    Candidate("quads of signed bytes", _in(_in_signed_bytes), lambda m: m.signed_quads, _no_quads),
    Candidate("quads of bytes", _in(_in_quads), lambda m: m.quads > 0 and not m.signed_quads, _no_quads),
    Candidate("dot products", _in(partial(_in_signed_bytes, kind=Dots)), lambda m: m.dots > 0, _no_dots),
    Candidate("quads in place", _in(_in_signed_bytes), _sums_in_place, _no_quads_in_place),
    Candidate("pairs of bytes", _in(partial(_in_quads, pairs_fit=True)), _sums_byte_pairs, _no_small_weights),
    Candidate("paired channels", _lower_paired, lambda m: _sums_byte_pairs(m) and not m.small, _no_partners),
    Candidate("split pairs of words", _in(_in_split_pairs), lambda m: m.vectors, _no_split_pairs),
    replace(PAIRS, lower=_in(_in_pairs), why_not=_no_pairs),
    SINGLES,
)
"""Kernels of contractions with constant weights."""

BLOCKED: Sequence[Candidate[Arithmetic]] = (
    Candidate("nibbles", nibbles.lower_nibbles, lambda m: m.vectors, nibbles.why_not),
    *SUMS,
)
"""Kernels of those whose weights have a multiplier for each block."""


# ---------------------------------------------------------------------------------------------------------------
# Depthwise convolutions


def _no_window(task: Task[TapArithmetic], machine: Capabilities) -> str:
    """Why a window of bytes does not slide along rows."""
    return sliding.why_not(task) if task.is_of_bytes else NO_BYTES


def _lower_sliding(state: MainLowering, task: Task[TapArithmetic]) -> None:
    zero_point, bias = task.arithmetic.zero_point, task.bias
    assert not isinstance(bias, SSAValue)
    signed = state.machine.signed_quads
    arithmetic = SignedQuads(zero_point, outside=zero_point) if signed else Quads(zero_point, outside=zero_point + 128)
    sliding.lower_sliding(state, task, arithmetic, lambda weights: bias_without(weights, arithmetic.outside, bias))


def _no_pair_taps(task: Task[TapArithmetic], machine: Capabilities) -> str:
    """Why a step cannot multiply two taps."""
    if task.arithmetic.sums != i32:
        return "sums have 64 bits"
    if task.outputs < LANES[-1]:
        return f"fewer than {LANES[-1]} channels"
    return "" if -(1 << 15) <= task.arithmetic.zero_point < 1 << 15 else "the zero point leaves 16 bits"


def _no_byte_taps(task: Task[TapArithmetic], machine: Capabilities) -> str:
    """Why the ring does not hold bytes."""
    if not task.is_of_bytes:
        return NO_BYTES
    if task.outputs < LANES[-1]:
        return f"fewer than {LANES[-1]} channels"
    return "weights are packed" if task.levels.bits < BYTE else ""


def _lower_taps(state: MainLowering, task: Task[TapArithmetic], kind: type[ByteTaps | PairTaps]) -> None:
    """The task in an arithmetic whose data keep their zero point."""
    zero_point, weights, bias = task.arithmetic.zero_point, task.weights, task.bias
    assert not isinstance(weights, SSAValue)
    assert not isinstance(bias, SSAValue)
    if zero_point:
        bias = bias_without(np.moveaxis(weights, -1, 0), zero_point, bias)
    lower_depthwise(state, replace(task, arithmetic=kind(zero_point, outside=zero_point), bias=bias))


TAPS: Sequence[Candidate[TapArithmetic]] = (
    Candidate("sliding window", _lower_sliding, lambda m: m.quads > 0 and not m.small, _no_window),
    Candidate("taps of bytes", partial(_lower_taps, kind=ByteTaps), lambda m: m.extending_loads, _no_byte_taps),
    Candidate("pairs of taps", partial(_lower_taps, kind=PairTaps), lambda m: m.vectors, _no_pair_taps),
    Candidate("single taps", lower_depthwise),
)
"""Kernels of depthwise convolutions."""
