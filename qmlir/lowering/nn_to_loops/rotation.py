"""Kernel of Hadamard transforms: additions and subtractions in place of a product with a matrix of ±1."""

from collections.abc import Sequence
from dataclasses import dataclass

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.nn.rotation import HadamardOp

LANES = 8
"""Lanes of a vector of neighbours."""

AT_ONCE = 8
"""The vectors that are held in registers, on which several stages are computed between a load and a store."""


@dataclass(frozen=True)
class Hadamard(Kernel):
    """y[o, :] = x[o, :] · H; see `HadamardOp`."""

    length: int

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        lanes = min(LANES, self.length) if code.vectors else 1
        last = min(self.length, AT_ONCE * lanes)
        with code.loop(begin, end, name="block") as o:
            source, part = x, self.length
            while part > last:
                apart = max(part // AT_ONCE, last)
                with code.loop(0, self.length, part) as first, code.loop(0, apart, lanes) as i:
                    places = [first + i + j * apart for j in range(part // apart)]
                    self._stages(source, y, o, places, lanes, 1)
                source, part = y, apart
            with code.loop(0, self.length, last) as first:
                places = [first + j * lanes for j in range(last // lanes)]
                self._stages(source, y, o, places, lanes, lanes)

    def _stages(self, x: Buffer, y: Buffer, o: Value, places: Sequence[Value], lanes: int, width: int) -> None:
        """Loads vectors, transforms the row of them and then each by itself, for `width` lanes, and stores them."""
        vectors = [x.load(o, at, lanes=lanes if lanes > 1 else None) for at in places]
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
        for vector, at in zip(vectors, places, strict=True):
            y.store(vector, o, at)


def _within(vector: Value, half: int) -> Value:
    """Adds and subtracts lanes that are `half` lanes apart."""
    assert vector.lanes is not None
    lanes = range(vector.lanes)
    low, high = (vector.shuffle(vector, [k & ~half | bit for k in lanes]) for bit in (0, half))
    return (low + high).shuffle(low - high, [k + (len(lanes) if k & half else 0) for k in lanes])


def _hadamard(state: MainLowering, op: HadamardOp) -> None:
    state.compute(Hadamard(op.block.value.data), op.y, op.blocks(), (op.x, op.blocks()))


RULES: Rules = {HadamardOp: _hadamard}
