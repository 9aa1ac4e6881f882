"""Kernel of Hadamard transforms: additions and subtractions in place of a product with a matrix of ±1."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.interfaces import Epilogue
from qmlir.codegen.lowering import Kernel
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import Value
from qmlir.ir.types import dtype_of

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
    """

    length: int
    lanes: int
    sums: Attribute
    epilogue: Epilogue | None = None

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *parameters, y = buffers
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

    def _finished(self, sums: Value, parameters: Sequence[Value]) -> Value:
        if self.epilogue is None:
            return sums
        return self.epilogue.finish(sums, [p.spread(sums.lanes) for p in parameters])

    def _stages(self, x: Buffer, o: Value, places: Sequence[Value], lanes: int, width: int) -> list[Value]:
        """Loads vectors, and transforms the row of them and then each by itself, for `width` lanes."""
        vectors = [x.load(o, at, lanes=lanes if lanes > 1 else None).to(self.sums) for at in places]
        half = len(vectors) // 2
        while half:
            for i in range(0, len(vectors), 2 * half):
                for j in range(i, i + half):
                    a, b = vectors[j], vectors[j + half]
                    vectors[j], vectors[j + half] = a + b, a - b
            half //= 2
        while width > 1:
            width //= 2
            vectors = [_within(v, width) for v in vectors]
        return vectors


def _within(vector: Value, half: int) -> Value:
    """Adds and subtracts lanes that are `half` lanes apart."""
    assert vector.lanes is not None
    lanes = range(vector.lanes)
    other = vector.shuffle(vector, [k ^ half for k in lanes])
    return (vector + other).shuffle(other - vector, [k + (len(lanes) if k & half else 0) for k in lanes])
