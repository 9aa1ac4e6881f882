"""The interval of every integer that a network computes, from its weights and the ranges of its inputs.

`prove` walks a function on the qint level once, in program order. An interval [low, high] holds all values that a
tensor can have; that of accumulators is kept for each channel. The intervals of sums hold in any order of summation:
a partial sum may leave out any of its terms, so every term counts as if it could also be 0 (padding does that too).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from qmlir.analysis.certify.rounding import Requantized, requantized
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.bitwise import BitwiseOp
from qmlir.dialects.nn.elementwise import ComparisonOp
from qmlir.dialects.nn.indexing import IndexedOp
from qmlir.dialects.nn.movement import FillingOp, MovementOp
from qmlir.dialects.nn.reduction import ArgumentOp, ExtremeOp
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.qint.elementwise import CentredOp
from qmlir.dialects.qint.normalization import AlongAxisOp
from qmlir.dialects.qint.requantize import NarrowingOp, Requantization
from qmlir.dialects.qint.root_normalization import RootNormalizationOp
from qmlir.dialects.quant.ops import QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import NodeError
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.registry import Registry
from qmlir.ir.rewriting import node_name
from qmlir.ir.types import is_integer
from qmlir.numerics import fixed_point, tables
from qmlir.numerics.elementary.lanes import Lanes

Bounds = npt.NDArray[Any]
"""Python integers, [1] or one for each channel: object arrays, which do not overflow."""


@dataclass(frozen=True)
class Interval:
    """The least and the greatest value of a tensor: one of each, or one for each index of the last axis."""

    lowest: Bounds
    highest: Bounds

    @staticmethod
    def of(low: int, high: int) -> "Interval":
        """One interval for all elements."""
        return Interval(np.array([int(low)], object), np.array([int(high)], object))

    @property
    def low(self) -> int:
        """The least value of any channel."""
        return int(min(self.lowest))

    @property
    def high(self) -> int:
        """The greatest value of any channel."""
        return int(max(self.highest))

    def whole(self) -> "Interval":
        """One interval for all channels."""
        return Interval.of(self.low, self.high)

    def join(self, *others: "Interval") -> "Interval":
        """The interval that holds all of these."""
        every = (self, *others)
        return Interval.of(min(i.low for i in every), max(i.high for i in every))

    def moved(self, by: int) -> "Interval":
        """The interval of the values plus a number."""
        return Interval(self.lowest + by, self.highest + by)


@dataclass
class Proof:
    """What is proved about an operation.

    result         the interval of its result; None if the result is not of integers
    accumulators   the interval of its sums, if it sums products or elements
    partial        the interval of all partial sums, likewise
    bits           the width of these sums
    requantized    what a requantization rounds off
    operands       the intervals of the operands that hold integers, in order
    """

    result: Interval | None
    accumulators: Interval | None = None
    partial: Interval | None = None
    bits: int = 0
    requantized: Requantized | None = None
    operands: tuple[Interval, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def slack(self) -> int:
        """How many times the partial sums could double before they overflow."""
        assert self.partial is not None
        return self.bits - needed_bits(self.partial)


def needed_bits(interval: Interval) -> int:
    """The width of the narrowest signed integer that holds an interval."""
    return max((n if n >= 0 else ~n).bit_length() for n in (interval.low, interval.high)) + 1


Read = Callable[[SSAValue], Interval]
"""The interval of an operand."""


def prove(function: func.FuncOp) -> dict[Operation, Proof]:
    """Returns what is proved about each operation of a function on the qint level.

    Raises:
        NodeError: Integers of an operation may overflow, or no rule says which values its results can have.
    """
    intervals: dict[SSAValue, Interval] = {
        argument: whole_type(argument)
        for argument in function.body.block.args
        if isinstance(element_of(argument), IntegerType | UniformType)
    }
    proofs: dict[Operation, Proof] = {}
    for op in function.body.block.ops:
        if not any(isinstance(element_of(r), IntegerType | UniformType) for r in op.results):
            continue
        if (rule := RULES.get(type(op))) is None:
            need = "must be an operation on quantized numbers, or one that moves, compares or chooses numbers"
            got = f"{element_of(op.results[0])}, whose sums and products no rule bounds"
            raise NodeError(op.name, node_name(op), need, got=got, remedy="leave it out: --outputs cuts a network")
        proof = rule(op, lambda value: intervals[value])
        proof.operands = tuple(intervals[v] for v in op.operands if v in intervals)
        if proof.partial is not None:
            _require_width(op, proof.partial, proof.bits)
        if proof.result is not None:
            intervals[op.results[0]] = proof.result
            _require_type(op, proof.result)
        proofs[op] = proof
    return proofs


def _require_width(op: Operation, sums: Interval, bits: int) -> None:
    for channel, (low, high) in enumerate(zip(sums.lowest, sums.highest, strict=True)):
        if low < -(1 << bits - 1) or high >= 1 << bits - 1:
            where = f" in channel {channel}" if len(sums.lowest) > 1 else ""
            need = f"must have sums that fit its {bits}-bit accumulator"
            remedy = "give it a 64-bit accumulator, or a lower precision"
            raise NodeError(op.name, node_name(op), need, got=f"sums from {low} to {high}{where}", remedy=remedy)


def _require_type(op: Operation, result: Interval) -> None:
    bits = _width(op.results[0])
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if bits > 1 else (0, 1)
    if result.low < least or result.high > most:
        need = f"must have results that fit {bits} bits"
        remedy = "give it a wider result"
        raise NodeError(op.name, node_name(op), need, got=f"{result.low} to {result.high}", remedy=remedy)


def _width(value: SSAValue) -> int:
    element = element_of(value)
    return element.storage_width if isinstance(element, UniformType) else cast(IntegerType, element).width.data


def whole_type(value: SSAValue) -> Interval:
    """All values that the stored bits of a value can stand for, read as signed integers; booleans are 0 and 1."""
    bits = _width(value)
    return Interval.of(0, 1) if bits == 1 else Interval.of(-(1 << bits - 1), (1 << bits - 1) - 1)


def _zero_too(interval: Interval) -> Interval:
    """The interval of a term that may also be left out."""
    return Interval(np.minimum(interval.lowest, 0), np.maximum(interval.highest, 0))


# ---------------------------------------------------------------------------------------------------------------
# Values that enter, and values that move


def _scast(op: StorageCastOp, read: Read) -> Proof:
    unsigned = any(isinstance(e, UniformType) and not e.is_signed for e in map(element_of, (op.input, op.result)))
    return Proof(whole_type(op.result) if unsigned else read(op.input))


def _constant(op: nn.ConstantOp, read: Read) -> Proof:
    array = op.value.array
    return Proof(Interval.of(int(array.min()), int(array.max())) if array.size else Interval.of(0, 0))


def _quantized(op: QuantizeCastOp, read: Read) -> Proof:
    element = cast(UniformType, element_of(op.result))
    return Proof(Interval.of(element.storage_min, element.storage_max) if element.is_signed else whole_type(op.result))


def _moved(op: MovementOp, read: Read) -> Proof:
    data = op.operands[:-1] if isinstance(op, IndexedOp) else op.operands
    found = read(data[0]).join(*map(read, data[1:]))
    if isinstance(op, FillingOp):
        is_integer, value = isinstance(op.value, IntegerAttr), int(op.value.value.data)
        found = found.join(Interval.of(value, value) if is_integer else whole_type(op.y))
    return Proof(found)


def _converted(op: nn.CastOp, read: Read) -> Proof:
    """A cast of integers keeps their low bits; the interval stays where these bits hold it as signed numbers."""
    whole, types = whole_type(op.y), (element_of(op.x), element_of(op.y))
    if not all(is_integer(e) and e.signedness.data != Signedness.UNSIGNED for e in types):
        return Proof(whole)
    found = read(op.x).whole()
    return Proof(found if whole.low <= found.low and found.high <= whole.high else whole)


def _same(op: Operation, read: Read) -> Proof:
    return Proof(read(op.operands[0]).whole())


def _chosen(op: nn.WhereOp, read: Read) -> Proof:
    return Proof(read(op.operands[1]).join(read(op.operands[2])))


def _extremum(op: nn.MaximumOp | nn.MinimumOp, read: Read) -> Proof:
    lhs, rhs = read(op.lhs), read(op.rhs)
    of = max if isinstance(op, nn.MaximumOp) else min
    return Proof(Interval.of(of(lhs.low, rhs.low), of(lhs.high, rhs.high)))


def _boolean(op: Operation, read: Read) -> Proof:
    return Proof(whole_type(op.results[0]))


def _argument(op: ArgumentOp | nn.TopKOp, read: Read) -> Proof:
    return Proof(Interval.of(0, max(0, shape_of(op.operands[0])[op.axis.value.data] - 1)))


def _place(op: nn.MaxPoolIndices2DOp, read: Read) -> Proof:
    """Of a place in an image; −1 where a window lies beside it."""
    return Proof(Interval.of(-1, max(0, prod(shape_of(op.x)[1:3]) - 1)))


def _listed(op: nn.NonZeroOp, read: Read) -> Proof:
    """Of places in a tensor; −1 behind the last of them."""
    return Proof(Interval.of(-1, max(0, *shape_of(op.x)) - 1))


# ---------------------------------------------------------------------------------------------------------------
# Sums


def _sums(result: Interval, partial: Interval, op: Operation) -> Proof:
    return Proof(result, result, partial, cast(IntegerType, element_of(op.results[0])).width.data)


def _terms(weights: npt.NDArray[Any], data: Interval) -> Interval:
    """The interval of Σ w·d for each row of weights, each product or 0."""
    above = np.maximum(weights, 0).sum(axis=1, dtype=np.int64).astype(object)
    below = np.minimum(weights, 0).sum(axis=1, dtype=np.int64).astype(object)
    low, high = min(data.low, 0), max(data.high, 0)
    return Interval(above * low + below * high, above * high + below * low)


def _constant_of(value: SSAValue, op: Operation) -> npt.NDArray[Any]:
    if isinstance(value.owner, nn.ConstantOp):
        return value.owner.value.array
    raise NodeError(op.name, node_name(op), "must have constant weights and bias")


def _rows(op: WeightedOp) -> npt.NDArray[Any]:
    """The weights of each output channel, [channels, terms]."""
    weights = _constant_of(op.w, op)
    if isinstance(op, qint.DepthwiseConv2DOp):
        return weights.reshape(-1, weights.shape[-1]).T
    return weights.reshape(weights.shape[0], -1)


def _weighted(op: WeightedOp, read: Read) -> Proof:
    return _with_bias(op, op.b, _terms(_rows(op), read(op.x).moved(-op.zero_point.value.data)))


def _with_bias(op: Operation, bias: SSAValue | None, sums: Interval) -> Proof:
    b = np.zeros(1, object) if bias is None else _constant_of(bias, op).astype(object)
    result = Interval(sums.lowest + b, sums.highest + b)
    partial = Interval(np.minimum(sums.lowest, result.lowest), np.maximum(sums.highest, result.highest))
    return _sums(result, partial, op)


def _saturating(op: qint.SaturatingFullyConnectedOp, read: Read) -> Proof:
    weights, data = _rows(op), _zero_too(read(op.x).moved(-op.zero_point.value.data))
    if weights.shape[1] % 2:
        weights = np.pad(weights, ((0, 0), (0, 1)))
    pairs = _terms(weights.reshape(-1, 2), data)
    limit = 1 << 15
    lowest = np.maximum(pairs.lowest, -limit).reshape(len(weights), -1).sum(axis=1)
    highest = np.minimum(pairs.highest, limit - 1).reshape(len(weights), -1).sum(axis=1)
    return _with_bias(op, op.b, Interval(lowest, highest))


def _blocked(op: qint.BlockedFullyConnectedOp, read: Read) -> Proof:
    weights, factors = _constant_of(op.w, op), _constant_of(op.m, op).astype(object)
    channels, blocks = factors.shape
    sums = _terms(weights.reshape(channels * blocks, -1), read(op.x).moved(-op.zero_point.value.data))
    _require_width(op, sums, 32)
    ends = [end.reshape(channels, blocks) * factors for end in (sums.lowest, sums.highest)]
    lowest, highest = np.minimum(*ends).sum(axis=1), np.maximum(*ends).sum(axis=1)
    proof = _with_bias(op, op.b, Interval(lowest, highest))
    proof.extra["block_sums"] = [sums.low, sums.high]
    return proof


def _product(lhs: Interval, rhs: Interval) -> Interval:
    ends = [a * b for a in (lhs.low, lhs.high) for b in (rhs.low, rhs.high)]
    return Interval.of(min(ends), max(ends))


def _centred(op: CentredOp | qint.MatMulOp, read: Read) -> tuple[Interval, Interval]:
    lhs, rhs = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    return read(op.lhs).whole().moved(-lhs), read(op.rhs).whole().moved(-rhs)


def _matmul(op: qint.MatMulOp, read: Read) -> Proof:
    count = shape_of(op.lhs)[-1]
    term = _zero_too(_product(*_centred(op, read)))
    total = Interval(term.lowest * count, term.highest * count)
    return _sums(total, total, op)


def _mul(op: qint.MulOp, read: Read) -> Proof:
    product = _product(*_centred(op, read))
    return _sums(product, product, op)


def _global_sum(op: qint.GlobalSumPoolOp, read: Read) -> Proof:
    count = prod(shape_of(op.x)[1:3])
    data = read(op.x).whole().moved(-op.zero_point.value.data)
    partial = _zero_too(data)
    scaled = [Interval(i.lowest * count, i.highest * count) for i in (data, partial)]
    return _sums(scaled[0], scaled[1], op)


def _running_sum(op: nn.CumulativeSumOp, read: Read) -> Proof:
    count = op.split()[1]
    data = _zero_too(read(op.x).whole())
    total = Interval(data.lowest * count, data.highest * count)
    return _sums(total, total, op)


def _resize(op: qint.ResizeOp, read: Read) -> Proof:
    data = _zero_too(read(op.x).whole().moved(-op.zero_point.value.data))
    widest = data
    for _, _, weights in op.tables():
        rows = _terms(weights, data)
        data = _zero_too(rows).whole()
        widest = widest.join(data)
    return _sums(data, widest, op)


# ---------------------------------------------------------------------------------------------------------------
# Results that are narrowed


def _clamped(op: NarrowingOp, low: int, high: int) -> Interval:
    bounds = op.lower.value.data, op.upper.value.data
    low, high = (min(max(n + op.zero_point.value.data, bounds[0]), bounds[1]) for n in (low, high))
    return Interval.of(low, high)


def _limits(op: NarrowingOp, read: Read) -> Proof:
    """Of an operation whose result is only known to be clamped."""
    return Proof(Interval.of(op.lower.value.data, op.upper.value.data))


def _requantized(op: qint.RequantizeOp, read: Read) -> Proof:
    formula: Requantization = op.formula()
    data = read(op.x).moved(-formula.input_zero_point)
    found = requantized(op, data.lowest, data.highest)
    return Proof(_clamped(op, found.least, found.most), requantized=found)


def _add(op: qint.AddOp, read: Read) -> Proof:
    factors, shift = op.multipliers.get_values(), op.shift.value.data
    parts = [_product(i, Interval.of(m, m)) for i, m in zip(_centred(op, read), factors, strict=True)]
    half = 1 << shift - 1
    low, high = (sum(ends) for ends in ([p.low for p in parts], [p.high for p in parts]))
    proof = Proof(_clamped(op, (low + half) >> shift, (high + half) >> shift))
    proof.accumulators = proof.partial = Interval.of(min(low, 0), max(high, 0) + half)
    proof.bits = 64
    return proof


def _rescaled_add(op: qint.RescaledAddOp, read: Read) -> Proof:
    left, names = op.left.value.data, (op.operand_contract.data, op.contract.data)
    multipliers, shifts = op.multipliers.get_values(), op.shifts.get_values()
    parts: list[Interval] = []
    for index, data in enumerate(_centred(op, read)):
        ends = np.array([data.low << left, data.high << left], np.int64)
        found = fixed_point.requantize(ends, multipliers[index], shifts[index], names[0])
        parts.append(Interval.of(*found.tolist()))
    if bool(op.subtract):
        parts[1] = Interval.of(-parts[1].high, -parts[1].low)
    total = Interval.of(parts[0].low + parts[1].low, parts[0].high + parts[1].high)
    _require_width(op, total, 32)
    found = fixed_point.requantize(np.array([total.low, total.high]), multipliers[2], shifts[2], names[1])
    return Proof(_clamped(op, *found.tolist()), total, total, 32)


def _average(op: qint.AveragePool2DOp, read: Read) -> Proof:
    data, offset, count = read(op.x).whole(), op.offset.value.data, int(op.counts().max(initial=1))
    if bool(op.count_include_pad):
        data = data.join(Interval.of(op.zero_point.value.data, op.zero_point.value.data))
    rows, columns = op.taps_inside(shape_of(op.x), op.window_values())
    if not rows.all() or not columns.all():
        data = data.join(Interval.of(0, 0))  # the mean of no elements
    term = _zero_too(data.moved(offset))
    total = Interval.of(term.low * count - count // 2, term.high * count + count // 2)
    return Proof(data, total, total, 64)


def _maximum(op: qint.MaxPool2DOp, read: Read) -> Proof:
    data = read(op.x).whole()
    rows, columns = op.taps_inside(shape_of(op.x), op.window_values())
    if not rows.all() or not columns.all():
        least = whole_type(op.x).low
        data = data.join(Interval.of(least, least))
    return Proof(data)


def _lookup(op: qint.LookupOp, read: Read) -> Proof:
    data = read(op.x)
    reached = op.table.array[data.low + op.half : data.high + op.half + 1]
    return Proof(Interval.of(int(reached.min()), int(reached.max())))


def _interpolated(op: qint.InterpolatedLookupOp, read: Read) -> Proof:
    data = read(op.x)
    places = np.arange(data.low, data.high + 1).astype(np.int16)
    found = tables.between_knots(
        Lanes(places.astype(np.int64) + (1 << 15)), lambda at: Lanes(op.table.array.astype(np.int64)[at.array])
    ).array
    return Proof(Interval.of(int(found.min()), int(found.max())))


def _pair(op: qint.PairLookupOp, read: Read) -> Proof:
    lhs, rhs = read(op.lhs), read(op.rhs)
    reached = op.table.array[lhs.low + 128 : lhs.high + 129, rhs.low + 128 : rhs.high + 129]
    return Proof(Interval.of(int(reached.min()), int(reached.max())))


def _softmax(op: qint.SoftmaxOp, read: Read) -> Proof:
    return _exponentials(op, read, Interval.of(op.lower.value.data, op.upper.value.data))


def _log_softmax(op: qint.LogSoftmaxOp, read: Read) -> Proof:
    return _exponentials(op, read, whole_type(op.y))


def _exponentials(op: qint.SoftmaxOp | qint.LogSoftmaxOp, read: Read, result: Interval) -> Proof:
    data = read(op.x)
    reached = op.table.array[: data.high - data.low + 1]
    total = Interval.of(0, int(reached.max()) * cast(AlongAxisOp, op).split()[1])
    return Proof(result, total, total, 64)


def _l2(op: qint.L2NormalizationOp, read: Read) -> Proof:
    data = read(op.x).moved(-op.input_zero_point.value.data)
    total = Interval.of(0, max(data.low**2, data.high**2) * op.split()[1])
    return Proof(Interval.of(op.lower.value.data, op.upper.value.data), total, total, 32)


def _layer_norm(op: qint.LayerNormOp, read: Read) -> Proof:
    data, count = read(op.x), op.split()[1]
    return _over_root(op, count**2 * max(data.low**2, data.high**2))


def _rms_norm(op: qint.RMSNormOp, read: Read) -> Proof:
    data = read(op.x).moved(-op.input_zero_point.value.data)
    return _over_root(op, op.split()[1] * max(data.low**2, data.high**2))


def _over_root(op: RootNormalizationOp, squares: int) -> Proof:
    """Of a division by a root: its sums are the radicands, for which their root leaves 62 bits and the sign."""
    fraction, epsilon = op.fraction.value.data, op.epsilon.value.data
    radicand = Interval.of(0, (squares << fraction if fraction >= 0 else squares >> -fraction) + epsilon)
    _require_width(op, radicand, 63)
    return Proof(Interval.of(op.lower.value.data, op.upper.value.data), radicand, radicand, 63)


def _local_response(op: qint.LocalResponseNormalizationOp, read: Read) -> Proof:
    data, count = read(op.x).moved(-op.input_zero_point.value.data), min(sum(op.neighbours()) + 1, shape_of(op.x)[-1])
    squares, fraction = count * max(data.low**2, data.high**2), op.fraction.value.data
    base = (squares << fraction if fraction >= 0 else squares >> -fraction) + op.bias.value.data
    sums, bits = Interval.of(0, base), op.bits.value.data + 1
    return Proof(Interval.of(op.lower.value.data, op.upper.value.data), sums, sums, bits)


RULES: Registry[Callable[[Any, Read], Proof]] = Registry({
    StorageCastOp: _scast,
    QuantizeCastOp: _quantized,
    nn.ConstantOp: _constant,
    MovementOp: _moved,
    ExtremeOp: _same,
    nn.CastOp: _converted,
    nn.WhereOp: _chosen,
    nn.MaximumOp: _extremum,
    nn.MinimumOp: _extremum,
    ComparisonOp: _boolean,
    BitwiseOp: _boolean,
    nn.NotOp: _boolean,
    ArgumentOp: _argument,
    nn.TopKOp: _argument,
    nn.MaxPoolIndices2DOp: _place,
    nn.NonZeroOp: _listed,
    WeightedOp: _weighted,
    qint.SaturatingFullyConnectedOp: _saturating,
    qint.BlockedFullyConnectedOp: _blocked,
    qint.MatMulOp: _matmul,
    qint.MulOp: _mul,
    qint.GlobalSumPoolOp: _global_sum,
    nn.CumulativeSumOp: _running_sum,
    qint.ResizeOp: _resize,
    qint.RequantizeOp: _requantized,
    qint.AddOp: _add,
    qint.RescaledAddOp: _rescaled_add,
    qint.FloatAddOp: _limits,
    qint.DivOp: _limits,
    qint.AveragePool2DOp: _average,
    qint.MaxPool2DOp: _maximum,
    qint.InterpolateOp: _same,
    qint.LookupOp: _lookup,
    qint.InterpolatedLookupOp: _interpolated,
    qint.PairLookupOp: _pair,
    qint.SoftmaxOp: _softmax,
    qint.LogSoftmaxOp: _log_softmax,
    qint.L2NormalizationOp: _l2,
    qint.LayerNormOp: _layer_norm,
    qint.RMSNormOp: _rms_norm,
    qint.LocalResponseNormalizationOp: _local_response,
})  # fmt: skip
"""The rule of each operation: the nearest class that has one holds."""
