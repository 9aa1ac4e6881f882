"""How contractions of integers multiply and add: one product a step, or the products of a pair or a quad at once.

Sums are exact modulo 2^32 or 2^64, so that the order of summation is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.interfaces import Arithmetic, ArithmeticOfParts, QuadArithmetic, TapArithmetic
from qmlir.codegen.lowering import Array
from qmlir.codegen.value import Value
from qmlir.dialects.qint.requantize import less_zero_point
from qmlir.dialects.simd import DotI16I8QuadsOp
from qmlir.ir.types import dtype_of


@dataclass(frozen=True)
class Integers(Arithmetic):
    """Multiplies integers minus their zero point (`prepare` subtracts it); the sums start with the bias."""

    zero_point: int
    sums: Attribute = i32

    @property
    def keeps(self) -> bool:
        return self.zero_point == 0

    @property
    def prepared(self) -> "Integers":
        return replace(self, zero_point=0)

    def prepare(self, x: Value, zero_point: Value | None = None) -> Value:
        if zero_point is not None:
            return x.to(self.element) - zero_point
        return less_zero_point(x, self.zero_point, dtype_of(self.element))

    def start(self, code: Code, bias: Buffer | None, block: Value, lanes: int) -> Value:
        return code.zeros(self.sums, lanes) if bias is None else bias.load(block * lanes, lanes=lanes).to(self.sums)


@dataclass(frozen=True)
class Pairs(Integers):
    """Multiplies pairs of i16, two channels a step; the sum of a pair's products fits i32."""

    group: int = 2
    element: Attribute = i16

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return w.chunk(at, 2 * lanes).to(i16)

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        if self.sums == i32:
            return self.add_pair(accumulator, x, place, w)
        return accumulator + self.add_pair(accumulator.code.zeros(i32, accumulator.lanes), x, place, w).to(i64)

    def add_pair(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        """Adds the sum of a pair's products to i32 accumulators."""
        pair = x.load(place, lanes=2).bits(i32).lane(0)
        return accumulator.code.dot_pairs(accumulator, pair.spread(accumulator.lanes).bits(i16), w)


@dataclass(frozen=True)
class SplitPairs(Pairs, ArithmeticOfParts):
    """Multiplies pairs of i16 by weights in two parts, w = 256·h + l with h in [−128, 127] and l in [0, 255].

    Products of two i16 need sums of i64, two of which take the place of an i32. Those of each part fit i32 over 128
    pairs: 256 · 2^15 · 255 < 2^31.
    """

    sums: Attribute = i64
    most_steps: ClassVar[int] = 128

    def parts(self, w: Value) -> Sequence[Value]:
        return [w >> 8, w & 255]

    def add_shared(self, sums: Sequence[Value], parts: Sequence[Value]) -> Sequence[Value]:
        return sums  # none

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        return self.add_pair(accumulator, x, place, w)

    def joined(self, accumulator: Value, sums: Sequence[Value]) -> Value:
        high, low = sums
        return accumulator + (high.to(i64) << 8) + low.to(i64)


@dataclass(frozen=True)
class WrappedPairs(Pairs, ArithmeticOfParts):
    """Multiplies two pairs of i16 a step, with sums that wrap, and their upper bytes as a quad.

    For x = 256·h + l and w = 256·k + m, with l and m in [0, 255], a product x·w is 2^16·h·k and a rest
    256·(h·m + l·k) + l·m, whose magnitude is at most 256·65280 − 65025. Over 128 products the rest has a magnitude
    below 2^31. So the sum of products modulo 2^32, minus 2^16·Σ h·k, is the rest's sum as an i32. These are three
    multiplications for four channels, where those of `SplitPairs` are four.

    The quads of upper bytes are unsigned by signed: Σ (h + 128)·k, and Σ 128·k, which all outputs share.

    The weights lie as those of pairs: a run has a multiple of 4 channels.
    """

    group: int = 4
    sums: Attribute = i64
    most_steps: ClassVar[int] = 32
    shared: ClassVar[int] = 1

    UPPER: ClassVar = (1, 5, 3, 7)
    """Places of the upper bytes of four i16, in the order of a quad."""

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return w.chunk(at, 4 * lanes).to(i16)

    def parts(self, w: Value) -> Sequence[Value]:
        first, second = self._pairs(w)
        upper = ((first >> 8) & 0xFF) | (second & -0x100)
        return [w, upper.bits(i8)]

    def _pairs(self, w: Value) -> tuple[Value, Value]:
        """The weights of the first pair and those of the second one."""
        assert w.lanes is not None
        return w.lanes_from(0, w.lanes // 2), w.lanes_from(w.lanes // 2, w.lanes // 2)

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        if w.element == i16:
            for i, pair in enumerate(self._pairs(w)):
                accumulator = self.add_pair(accumulator, x, place + 2 * i, pair)
            return accumulator
        words = x.load(place, lanes=4).bits(i64).lane(0).spread((accumulator.lanes or 1) // 2).bits(i8)
        upper = words.shuffle(words, [quad + i for quad in range(0, words.lanes or 8, 8) for i in 2 * self.UPPER])
        return accumulator.code.dot_quads(accumulator, upper ^ -128, w, pairs_fit=False)

    def add_shared(self, sums: Sequence[Value], parts: Sequence[Value]) -> Sequence[Value]:
        (offset,), (_, upper) = sums, parts
        return [offset.code.dot_quads(offset, upper.same(-128), upper, pairs_fit=False)]

    def joined(self, accumulator: Value, sums: Sequence[Value]) -> Value:
        wrapped, above = self._without_overlap(sums)
        # The sum that wraps is the lower half of the whole sum, so that no lane is extended.
        return accumulator + wrapped.interleave(above >> 16).bits(i64)

    def _without_overlap(self, sums: Sequence[Value]) -> tuple[Value, Value]:
        """The sum modulo 2^32, and the sum without its lowest 16 bits, both as i32."""
        wrapped, upper, offset = sums
        upper = upper - offset
        return wrapped, upper + (wrapped - (upper << 16) >> 16)


@dataclass(frozen=True)
class WrappedParts(WrappedPairs):
    """`WrappedPairs` of one stretch, whose accumulators keep the sum in two parts for an epilogue (`of_parts`).

    So the parts need not be joined in lanes of i64, from which a requantization takes them again.
    """

    def joined(self, accumulator: Value, sums: Sequence[Value]) -> Value:
        wrapped, above = self._without_overlap(sums)
        assert wrapped.lanes is not None
        return wrapped.shuffle(above, range(2 * wrapped.lanes)).bits(i64)


def of_parts(accumulator: Value) -> tuple[Value, Value]:
    """The lowest 16 bits of the sums of `WrappedParts`, and the sums without these, as i32."""
    both = accumulator.bits(i32)
    assert accumulator.lanes is not None
    low, above = (both.lanes_from(first, accumulator.lanes) for first in (0, accumulator.lanes))
    return low & 0xFFFF, above


@dataclass(frozen=True)
class _Bytes(Integers):
    """Multiplies bytes, several channels a step.

    The data keep their zero point. Because Σ (x − z)·w = Σ x·w − z·Σ w, the bias loses z·Σ w, and positions outside the
    image hold z. This is exact: all sums are exact modulo 2^32, and the result fits i32.
    """

    element: Attribute = i8
    outside: int = 0


@dataclass(frozen=True)
class _Quads(_Bytes, QuadArithmetic):
    """Multiplies quads of bytes, four channels a step."""

    group: int = 4

    @property
    def prepared(self) -> Self:
        return replace(self, zero_point=0, outside=0)

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return w.chunk(at, 4 * lanes)


@dataclass(frozen=True)
class Quads(_Quads):
    """Multiplies the data as u8 by the weights as i8: the data are read with 128 more, x + 128, as unsigned bytes.

    So z + 128 takes the place of the zero point z.

    pairs_fit   whether no sum of two neighbouring products leaves 16 bits (see `simd.dot_u8_i8_quads`)
    """

    pairs_fit: bool = False

    @property
    def keeps(self) -> bool:
        return False

    def prepare(self, x: Value, zero_point: Value | None = None) -> Value:
        return x ^ -128

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        quad = x.load(place, lanes=4).bits(i32).lane(0).spread(accumulator.lanes).bits(i8)
        return self.multiply_add(accumulator, quad, w)

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        return accumulator.code.dot_quads(accumulator, x, w, pairs_fit=self.pairs_fit)


@dataclass(frozen=True)
class SignedQuads(_Quads):
    """Multiplies data and weights as i8; the data are read where they are.

    Subclasses may have data that a tile holds as i16: each datum is extended once for all output channels.
    """

    @property
    def keeps(self) -> bool:
        return self.element == i8

    def prepare(self, x: Value, zero_point: Value | None = None) -> Value:
        return x if self.keeps else x.to(i16)

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        quad, lanes = x.load(place, lanes=4), accumulator.lanes or 1
        if accumulator.code.vectors and self.keeps:
            quad = quad.bits(i32).lane(0).spread(lanes).bits(i8)
        else:  # bytes that are loaded and extended at once, each by itself
            quad = quad.shuffle(quad, [*range(4)] * lanes)
        return self.multiply_add(accumulator, quad, w)

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        return accumulator.code.dot_signed_quads(accumulator, x, w)


@dataclass(frozen=True)
class Dots(_Bytes, ArithmeticOfParts):
    """Multiplies sixteen bytes of an output channel at once and adds the products to the channel's sum, a scalar."""

    group: int = 16
    by_channel: ClassVar[bool] = True

    @property
    def keeps(self) -> bool:
        return True

    @property
    def prepared(self) -> "Dots":
        return replace(self, zero_point=0, outside=0)

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return w.chunk(at, self.group * lanes)

    def prepare(self, x: Value, zero_point: Value | None = None) -> Value:
        return x

    def parts(self, w: Value) -> Sequence[Value]:
        assert w.lanes is not None
        return [w.lanes_from(first, self.group) for first in range(0, w.lanes, self.group)]

    def add_shared(self, sums: Sequence[Value], parts: Sequence[Value]) -> Sequence[Value]:
        return sums  # none

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        return accumulator.code.dot_bytes(accumulator, x.load(place, lanes=self.group), w)

    def joined(self, accumulator: Value, sums: Sequence[Value]) -> Value:
        return accumulator + accumulator.code.zeros(i32, len(sums)).with_lanes(sums)


@dataclass(frozen=True)
class WideQuads(SignedQuads):
    """Multiplies data that a tile holds as i16 by weights as i8."""

    element: Attribute = i16

    def arranged(self, weights: Array) -> Array:
        return weights.reshape(-1, 4)[:, DotI16I8QuadsOp.PLACES].reshape(-1)

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        return accumulator.code.dot_wide_quads(accumulator, x, w)


@dataclass(frozen=True)
class ExtendedQuads(WideQuads):
    """Multiplies quads of bytes whose weights are extended one by one, as they are unpacked or loaded from a table.

    The even bytes of the data and the odd ones, extended, are two pairs (sxtb16), and so are the weights as they lie.
    """

    element: Attribute = i8

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return super().weights(w, at, lanes).to(i16)

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        return accumulator.code.dot_wide_quads(accumulator, w, x)


@dataclass(frozen=True)
class WideExtendedQuads(ExtendedQuads):
    """Multiplies quads of such weights, and data that a tile holds as i16: two pairs of both."""

    element: Attribute = i16

    def arranged(self, weights: Array) -> Array:
        return weights

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        for first in (0, 2):
            places = [quad + first + i for quad in range(0, x.lanes or 4, 4) for i in range(2)]
            pairs = [v.shuffle(v, places) for v in (x, w)]
            accumulator = accumulator.code.dot_pairs(accumulator, *pairs)
        return accumulator


@dataclass(frozen=True)
class SaturatingPairs(Pairs):
    """Multiplies pairs of i16; the sum of a pair's products saturates at 16 bits before it is accumulated in i32."""

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        pair = self.add_pair(accumulator.code.zeros(i32, accumulator.lanes), x, place, w)
        return accumulator + pair.maximum(-(1 << 15)).minimum((1 << 15) - 1)


@dataclass(frozen=True)
class Singles(Integers):
    """Multiplies in the type of the sums, one channel a step, for data whose pairs do not fit `Pairs`."""

    group: int = 1
    element: Attribute = i32

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return w.chunk(at, lanes).to(self.sums)

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        return accumulator + x.load(place).to(self.sums) * w


@dataclass(frozen=True)
class IntegerTaps(TapArithmetic):
    """Depthwise arithmetic of integers: data minus zero point as `element`, products and sums in the type `sums`."""

    zero_point: int
    element: Attribute = i32
    sums: Attribute = i32
    group: int = 1
    outside: int = 0

    def prepare(self, x: Value) -> Value:
        return less_zero_point(x, self.zero_point, dtype_of(self.element))

    def weights(self, w: Value) -> Value:
        return w.to(self.sums)

    def start(self, code: Code, bias: Buffer | None, channel: Value, lanes: int | None) -> Value:
        return code.zeros(self.sums, lanes) if bias is None else bias.load(channel, lanes=lanes).to(self.sums)

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        return accumulator + x.to(self.sums) * w


@dataclass(frozen=True)
class ByteTaps(IntegerTaps):
    """Depthwise arithmetic of bytes that stay bytes in the ring, and are extended while a step loads them.

    The data keep their zero point z, as those of `PairTaps` do.
    """

    element: Attribute = i8

    @property
    def prepared(self) -> "ByteTaps":
        return replace(self, zero_point=0, outside=0)

    def prepare(self, x: Value) -> Value:
        return x


@dataclass(frozen=True)
class PairTaps(IntegerTaps):
    """Depthwise arithmetic of two taps a step, on data and weights that fit i16, with sums in i32.

    The data keep their zero point z. Because Σ (x − z)·w = Σ x·w − z·Σ w, `_taps` subtracts z·Σ w from the bias,
    and positions outside the image hold z. This is exact: products, the sum of a pair and the accumulators are exact
    modulo 2^32, and the result fits i32. (A pair overflows i32 in one case, (−2^15)² + (−2^15)² = 2^31, and wraps.)
    """

    element: Attribute = i16
    group: int = 2

    @property
    def prepared(self) -> "PairTaps":
        return replace(self, zero_point=0, outside=0)

    def prepare(self, x: Value) -> Value:
        return x.to(i16)

    def weights(self, w: Value) -> Value:
        return w.to(i16)

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        return accumulator.code.dot_pairs(accumulator, x, w)
