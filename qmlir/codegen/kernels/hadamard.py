"""Kernel of Hadamard transforms: additions and subtractions in place of a product with a matrix of ±1."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.interfaces import Epilogue
from qmlir.codegen.lowering import Kernel
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import Value
from qmlir.ir.types import dtype_of, vector_of

AT_ONCE = 8
"""The vectors that are held in registers, on which several stages are computed between a load and a store."""


def lanes_of(element: Attribute, machine: Capabilities) -> int:
    """Lanes of a vector of neighbours: 32 bytes, or 64 where elements of up to 4 bytes fill such registers."""
    return 16 if machine.wide_words and dtype_of(element).itemsize <= 4 else 8


@dataclass(frozen=True)
class Hadamard(Kernel):
    """y[o, :] = finish(x[o, :] · H); see `HadamardOp`. Buffers: x, the epilogue's parameters, [1] each, y.

    length    the elements of a block
    lanes     the most neighbours in a vector
    sums      the type in which elements are added
    epilogue  the computation on the sums, if there is one
    words     whether x has words, whose neighbours are added and subtracted by products with ±1 (`write_words`)
    """

    length: int
    lanes: int
    sums: Attribute
    epilogue: Epilogue | None = None
    words: bool = False

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *parameters, y = buffers
        if self.words and 2 * self.lanes <= self.length:
            self.write_words(code, buffers, begin, end)
            return
        lanes = min(self.lanes, self.length) if code.vectors else 1
        last = min(self.length, AT_ONCE * lanes)
        between = code.scratch((1, self.length), self.sums, "sums") if self.epilogue and last < self.length else None
        own = [p.load(0) for p in parameters]
        with code.loop(begin, end, name="block") as o:
            source, kept, part = x, o if between is None else code.index(0), self.length
            row = o
            while part > last:
                apart = max(part // AT_ONCE, last)
                with code.loop(0, self.length, part) as first, code.loop(0, apart, lanes) as i:
                    places = [first + i + j * apart for j in range(part // apart)]
                    vectors = self._stages(source, row, places, lanes, 1)
                    for vector, at in zip(vectors, places, strict=True):
                        (between or y).store(vector, kept, at)
                source, row, part = between or y, kept, apart
            with code.loop(0, self.length, last) as first:
                places = [first + j * lanes for j in range(last // lanes)]
                for vector, at in zip(self._stages(source, row, places, lanes, lanes), places, strict=True):
                    y.store(self._finished(vector, own), o, at)

    def write_words(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        """Writes the transform of words, in stages on pairs of vectors.

        A pair holds 2n neighbours: sums of two in one vector, differences in the other one, n of each. A stage within
        vectors swaps a bit of the lane with the bit that says which vector of the pair it is, and then adds and
        subtracts the vectors. So a stage takes two instructions for each vector. The order of the lanes that all swaps
        leave is put right at the end. Stages between pairs come last, so that words are read as they are.
        """
        x, *parameters, y = buffers
        pair = 2 * self.lanes
        part, order = min(self.length, AT_ONCE * self.lanes), _order_of_swaps(self.lanes)
        last = part == self.length
        in_place = last or self.epilogue is None
        between = y if in_place else code.scratch((1, self.length), self.sums, "sums")
        own = [p.load(0) for p in parameters]

        def ended(pair: tuple[Value, Value], o: Value, at: Value) -> None:
            y.store(self._finished(pair[0].shuffle(pair[1], order), own), o, at)

        with code.loop(begin, end, name="block") as o:
            kept = o if in_place else code.index(0)
            with code.loop(0, self.length, part) as first:
                places = [first + at for at in range(0, part, pair)]
                for vectors, at in zip(self._pairs_of_words(x, o, places), places, strict=True):
                    if last:
                        ended(vectors, o, at)
                    else:
                        for i, vector in enumerate(vectors):
                            between.store(vector, kept, at + i * self.lanes)
            apart = part
            while apart < self.length:
                count = min(AT_ONCE, self.length // apart)
                with code.loop(0, self.length, count * apart) as first, code.loop(0, apart, pair) as i:
                    places = [first + i + j * apart for j in range(count)]
                    sides = [
                        _butterflies([between.load(kept, at + side, lanes=self.lanes) for at in places])
                        for side in (0, self.lanes)
                    ]
                    for left, right, at in zip(*sides, places, strict=True):
                        if count * apart == self.length:
                            ended((left, right), o, at)
                        else:
                            between.store(left, kept, at)
                            between.store(right, kept, at + self.lanes)
                apart *= count

    def _pairs_of_words(self, x: Buffer, o: Value, places: Sequence[Value]) -> Sequence[tuple[Value, Value]]:
        """Loads pairs of vectors, and transforms the row of them and then each by itself."""
        code, lanes = x.code, self.lanes
        zeros, ones = code.zeros(self.sums, lanes), code.constant(1, vector_of(i16, 2 * lanes))
        turns = code.constant(-(1 << 16) + 1, vector_of(i32, lanes)).bits(i16)  # 1 and −1
        words = [x.load(o, at, lanes=2 * lanes) for at in places]
        sums, differences = ([code.dot_pairs(zeros, w, factors) for w in words] for factors in (ones, turns))
        found: list[tuple[Value, Value]] = []
        for a, b in zip(_butterflies(sums), _butterflies(differences), strict=True):
            for half in _halves(lanes):
                a, b = (a.shuffle(b, places) for places in _swap(lanes, half))
                a, b = a + b, a - b
            found.append((a, b))
        return found

    def _finished(self, sums: Value, parameters: Sequence[Value]) -> Value:
        if self.epilogue is None:
            return sums
        return self.epilogue.finish(sums, [p.spread(sums.lanes) for p in parameters])

    def _stages(self, x: Buffer, o: Value, places: Sequence[Value], lanes: int, width: int) -> list[Value]:
        """Loads vectors, and transforms the row of them and then each by itself, for `width` lanes."""
        vectors = [x.load(o, at, lanes=lanes if lanes > 1 else None).to(self.sums) for at in places]
        vectors = _butterflies(vectors)
        while width > 1:
            width //= 2
            vectors = [_within(v, width) for v in vectors]
        return vectors


def _butterflies(vectors: Sequence[Value]) -> list[Value]:
    """Transforms a row of vectors, lane by lane."""
    vectors = list(vectors)
    half = len(vectors) // 2
    while half:
        for i in range(0, len(vectors), 2 * half):
            for j in range(i, i + half):
                a, b = vectors[j], vectors[j + half]
                vectors[j], vectors[j + half] = a + b, a - b
        half //= 2
    return vectors


def _halves(lanes: int) -> Sequence[int]:
    """The values of a lane's bits, from the highest to 1."""
    return [1 << bit for bit in reversed(range(lanes.bit_length() - 1))]


def _swap(lanes: int, half: int) -> Sequence[Sequence[int]]:
    """The lanes of a pair of vectors after a lane's bit `half` and the vector's number are swapped."""
    taken = [k + (lanes if k & half else 0) for k in range(lanes)]
    return [k & ~half for k in taken], [k | half for k in taken]


def _order_of_swaps(lanes: int) -> Sequence[int]:
    """Where the elements of a pair lie, in their order, behind the stages of `Hadamard.write_words`.

    Before these stages, the sums of neighbours 2k and 2k + 1 are in lane k of the first vector.
    """
    held = [*range(0, 2 * lanes, 2), *range(1, 2 * lanes, 2)]
    for half in _halves(lanes):
        held = [held[place] for places in _swap(lanes, half) for place in places]
    return [held.index(k) for k in range(2 * lanes)]


def _within(vector: Value, half: int) -> Value:
    """Adds and subtracts lanes that are `half` lanes apart."""
    assert vector.lanes is not None
    lanes = range(vector.lanes)
    other = vector.shuffle(vector, [k ^ half for k in lanes])
    return (vector + other).shuffle(other - vector, [k + (len(lanes) if k & half else 0) for k in lanes])
