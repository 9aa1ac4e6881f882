"""A functional model of VTA: what a stream of instructions makes of the memory, bit for bit, without times.

Sums wrap at 32 bits. Every step of arithmetic writes the low 8 bits of its result to the result buffer as well, which
is all that a store can see. The three units run their instructions in order and wait for each other's tokens; which of
the units that could go on does so first is a parameter, so that a stream whose tokens are too few is found by its
bits.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from qmlir.backends.hardware.vta.instructions import (
    IN_FLIGHT,
    MEMORIES,
    Alu,
    AnyInstruction,
    Buffer,
    Finish,
    Gemm,
    InstructionError,
    Load,
    Looped,
    Operation,
    Store,
    Unit,
    instruction,
    text_of,
)
from qmlir.numerics import Array

Steps: TypeAlias = tuple[Array, Array, Array]
"""Of each step of arithmetic, in order: where its result lies, what it reads, and which weights."""

_TYPES = {
    Buffer.MICRO_OPS: ("<u4", ()),
    Buffer.WEIGHTS: ("i1", (16, 16)),
    Buffer.DATA: ("i1", (16,)),
    Buffer.SUMS: ("<i4", (16,)),
    Buffer.RESULTS: ("i1", (16,)),
}


class Machine:
    """VTA with external memory; base addresses are 0.

    Args:
        size: The bytes of the memory.
        in_flight: How many steps of an instruction may be on their way at once, none of which reads a sum that an
            earlier one writes. 0 leaves that out, as steps of the HLS design do that run as C++, one by one.

    memory   uint8, the external memory
    buffers  the buffers on the chip, an element of each along the first axis
    counts   how many instructions of each mnemonic have run
    steps    how many products of a data vector with a weight tile have been computed
    """

    def __init__(self, size: int, in_flight: int = IN_FLIGHT):
        self.memory = np.zeros(size, np.uint8)
        self._in_flight = in_flight
        self.buffers = {
            name: np.zeros((memory.elements, *_TYPES[name][1]), _TYPES[name][0]) for name, memory in MEMORIES.items()
        }
        self.counts: dict[str, int] = {}
        self.steps = 0

    def run(self, words: Iterable[int], first: Sequence[Unit] = ()) -> None:
        """Carries out a stream from its first instruction to its `finish`.

        Args:
            words: Words of 128 bits.
            first: The units that go on as long as they can, the most eager one first. Without any, instructions run
                in the order of the stream where tokens allow it.

        Raises:
            InstructionError: A word is no instruction, an instruction leaves a buffer or the memory or reads a sum that
                is still on its way, units wait for each other for ever, or the stream does not end with its only
                `finish`.
        """
        stream = [instruction(word) for word in words]
        ends = [n for n, each in enumerate(stream) if isinstance(each, Finish)]
        if ends != [len(stream) - 1]:
            got = f"{len(ends)} in {len(stream)} instructions"
            raise InstructionError("a stream must end with its only finish", where="stream", got=got)
        queues = {unit: deque((n, each) for n, each in enumerate(stream) if each.unit is unit) for unit in Unit}
        tokens: dict[tuple[Unit, Unit], int] = {}
        while waiting := [unit for unit in Unit if queues[unit]]:
            ready = [unit for unit in waiting if _ready(queues[unit][0][1], tokens)]
            if not ready:
                shown = "; ".join(f"{queues[unit][0][0]}: {text_of(queues[unit][0][1])}" for unit in waiting)
                raise InstructionError("units must not wait for each other for ever", where="stream", got=shown)
            unit = min(ready, key=lambda each: (first.index(each) if each in first else len(first), queues[each][0][0]))
            number, each = queues[unit].popleft()
            _exchange(each, tokens)
            try:
                self._step(each)
            except InstructionError as error:
                where = f"instruction {number}, {text_of(each)}"
                raise InstructionError(error.need, where=where, got=error.got) from None
            self.counts[each.name] = self.counts.get(each.name, 0) + 1

    def _step(self, each: AnyInstruction) -> None:
        match each:
            case Load():
                self._load(each)
            case Store():
                self._store(each)
            case Gemm():
                self._gemm(each)
            case Alu():
                self._alu(each)
            case Finish():
                pass

    # -- movement

    def _load(self, each: Load) -> None:
        above, below, left, right = each.above, each.below, each.left, each.right
        rows = each.rows
        if each.memory is Buffer.MICRO_OPS:
            rows = 1
        if each.memory not in (Buffer.DATA, Buffer.SUMS):
            above = below = left = right = 0
        held = self._external(each, rows, MEMORIES[each.memory].bytes)
        kind, shape = _TYPES[each.memory]
        block = np.zeros((above + rows + below, left + each.columns + right, *shape), kind)
        values = np.ascontiguousarray(self.memory[held]).view(kind)
        block[above : above + rows, left : left + each.columns] = values.reshape(rows, each.columns, *shape)
        number = block.shape[0] * block.shape[1]
        self._inside(each.memory, each.buffer_address + number - 1)
        self.buffers[each.memory][each.buffer_address : each.buffer_address + number] = block.reshape(-1, *shape)

    def _store(self, each: Store) -> None:
        held = self._external(each, each.rows, MEMORIES[Buffer.RESULTS].bytes)
        number = each.rows * each.columns
        self._inside(Buffer.RESULTS, each.buffer_address + number - 1)
        values = self.buffers[Buffer.RESULTS][each.buffer_address : each.buffer_address + number]
        self.memory[held] = values.view(np.uint8).reshape(held.shape)

    def _external(self, each: Load | Store, rows: int, size: int) -> Array:
        """The byte addresses [rows, columns · bytes] that a rectangle of elements has in external memory."""
        firsts = (each.address + np.arange(rows, dtype=np.int64) * each.stride) * size
        last = int(firsts[-1]) + each.columns * size if rows else 0
        if last > len(self.memory):
            need = f"the rectangle must lie in the {len(self.memory)} bytes of external memory"
            raise InstructionError(need, got=f"a last byte at {last - 1}")
        return firsts[:, None] + np.arange(each.columns * size)

    def _inside(self, buffer: Buffer, last: int) -> None:
        elements = MEMORIES[buffer].elements
        if last >= elements:
            name = buffer.name.lower().replace("_", "-")
            raise InstructionError(f"addresses must lie in the {elements} elements of {name}", got=f"{last}")

    # -- arithmetic

    def _steps(self, each: Looped, reads: Buffer | None, weights: tuple[int, int] = (0, 0)) -> Steps:
        """The steps of two loops over micro-ops; `reads` is the buffer of the source, None if nothing is read."""
        self._inside(Buffer.MICRO_OPS, each.end - 1)
        words = self.buffers[Buffer.MICRO_OPS][each.first : each.end].astype(np.int64)
        i, j = np.arange(each.outer)[:, None, None], np.arange(each.inner)[:, None]

        def places(first: Array, outer: int, inner: int, buffer: Buffer | None) -> Array:
            found = (first + i * outer + j * inner).reshape(-1)
            if buffer is not None and found.size:
                self._inside(buffer, int(found.max()))
            return found

        return (
            places(words & 2047, each.to_outer, each.to_inner, Buffer.SUMS),
            places(words >> 11 & 2047, each.from_outer, each.from_inner, reads),
            places(words >> 22, *weights, Buffer.WEIGHTS if reads is Buffer.DATA else None),
        )

    def _check_flight(self, to: Array, *reads: Array) -> None:
        """Refuses steps that read a sum which an earlier one has not written yet."""
        for behind in range(1, min(self._in_flight + 1, len(to))):
            for read in reads:
                if (early := np.flatnonzero(read[behind:] == to[:-behind])).size:
                    need = f"a step must not read a sum that one of the {self._in_flight} steps before it writes"
                    step = int(early[0]) + behind
                    raise InstructionError(need, got=f"sum {int(read[step])}, {behind} behind")

    def _gemm(self, each: Gemm) -> None:
        moved = (each.weights_outer, each.weights_inner)
        to, source, tiles = self._steps(each, Buffer.DATA, moved)
        self._check_flight(to, to)
        sums, results = self.buffers[Buffer.SUMS], self.buffers[Buffer.RESULTS]
        products = self._products(source, tiles)
        self.steps += len(to)
        if each.reset:
            # A sum that is reset a second time is 0 by then: its last product alone is seen.
            first = np.zeros(len(to), bool)
            first[np.unique(to, return_index=True)[1]] = True
            seen = products + np.where(first[:, None], sums[to], 0)
            last = len(to) - 1 - np.unique(to[::-1], return_index=True)[1]
            results[to[last]] = seen[last].astype(np.int8)
            sums[to] = 0
            return
        order = np.argsort(tiles, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(tiles[order])) + 1):
            if len(np.unique(to[group])) == len(group):
                sums[to[group]] += products[group]
            else:
                np.add.at(sums, to[group], products[group])
        results[to] = sums[to].astype(np.int8)

    def _products(self, source: Array, tiles: Array) -> Array:
        """The products [steps, 16] of data vectors with weight tiles, int32."""
        data, weights = self.buffers[Buffer.DATA], self.buffers[Buffer.WEIGHTS]
        found = np.empty((len(source), 16), np.int32)
        order = np.argsort(tiles, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(tiles[order])) + 1):
            if len(group):  # sixteen products of two bytes are exact in float32
                tile = weights[tiles[group[0]]].astype(np.float32)
                found[group] = data[source[group]].astype(np.float32) @ tile.T
        return found

    def _alu(self, each: Alu) -> None:
        to, source, _ = self._steps(each, None if each.immediate else Buffer.SUMS)
        self._check_flight(to, to, *(() if each.immediate else (source,)))
        sums, results = self.buffers[Buffer.SUMS], self.buffers[Buffer.RESULTS]
        for group in _independent(to, None if each.immediate else source):
            other = np.full((1, 16), each.value, np.int32) if each.immediate else sums[source[group]]
            sums[to[group]] = _computed(each.operation, sums[to[group]], other)
        results[to] = sums[to].astype(np.int8)


def _computed(operation: Operation, x: Array, y: Array) -> Array:
    """The results of an operation on int32, which wrap."""
    match operation:
        case Operation.MIN:
            return np.minimum(x, y)
        case Operation.MAX:
            return np.maximum(x, y)
        case Operation.ADD:
            return x + y
        case Operation.SHIFT:
            amount = ((y & 31) ^ 16) - 16  # the low five bits with their sign
            return np.where(amount < 0, x << np.maximum(-amount, 0), x >> np.maximum(amount, 0))


def _independent(to: Array, source: Array | None) -> list[Array]:
    """Parts of steps one after the other: within one, no step reads or writes what an earlier one has written."""
    steps = np.arange(len(to))
    if len(np.unique(to)) == len(to):
        if source is None:
            return [steps]
        written = np.full(int(max(to.max(initial=0), source.max(initial=0))) + 1, len(to))
        written[to] = steps
        if (written[source] >= steps).all():
            return [steps]
    parts, first, seen = list[Array](), 0, set[int]()
    for n in range(len(to)):
        place = int(to[n])
        if place in seen or (source is not None and int(source[n]) in seen):
            parts.append(steps[first:n])
            first = n
            seen.clear()
        seen.add(place)
    return [*parts, steps[first:]]


def _neighbours(each: AnyInstruction) -> tuple[list[tuple[Unit, Unit]], list[tuple[Unit, Unit]]]:
    """The ways of the tokens that an instruction takes, and of those that it gives: (from, to)."""
    unit = each.unit
    before = Unit(unit.value - 1) if unit is not Unit.LOAD else None
    behind = Unit(unit.value + 1) if unit is not Unit.STORE else None
    taken = [(other, unit) for other, flag in ((before, each.pop_previous), (behind, each.pop_next)) if flag and other]
    given = [
        (unit, other) for other, flag in ((before, each.push_previous), (behind, each.push_next)) if flag and other
    ]
    return taken, given


def _ready(each: AnyInstruction, tokens: dict[tuple[Unit, Unit], int]) -> bool:
    return all(tokens.get(way, 0) for way in _neighbours(each)[0])


def _exchange(each: AnyInstruction, tokens: dict[tuple[Unit, Unit], int]) -> None:
    taken, given = _neighbours(each)
    for way in taken:
        tokens[way] -= 1
    for way in given:
        tokens[way] = tokens.get(way, 0) + 1
