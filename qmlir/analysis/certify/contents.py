"""What is known about the bytes of a device's memories while a program is proved, command by command.

Each byte carries a label. A label names a kind of bytes (unknown, constant, floats), or the interval of the elements
that a command wrote. An element of several bytes is known as long as all of its bytes are where the command put them;
a transfer that cuts an element makes its whole target unknown. Unknown bytes may hold every value of their bits.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from qmlir.analysis.certify.intervals import Interval
from qmlir.backends.npu.machine import strided, unpacked
from qmlir.devices import Device
from qmlir.isa.blocks import Block
from qmlir.numerics import Int64s

UNKNOWN, CONSTANT, ENTERING, LEAVING = range(4)
"""The labels that are no interval; ENTERING and LEAVING are floats of the network's inputs and outputs."""

PHASES = 8
"""A byte's code is its label times PHASES plus its place in its element."""

Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


class Contents:
    """The bytes of all memories that a program touches."""

    def __init__(self, device: Device, touched: Iterable[Block]):
        """Memories of unknown bytes.

        Args:
            device: The device.
            touched: Every block that the program touches; each lies within its memory.
        """
        ends = [0] * len(device.memory)
        for block in touched:
            if not block.empty:
                ends[block.place.memory] = max(ends[block.place.memory], block.end)
        self._codes = [np.zeros((1, end), np.int32) for end in ends]
        self._bytes = [np.zeros((1, end), np.uint8) for end in ends]
        self._width = [0] * (LEAVING + 1)
        self._low, self._high = [0] * (LEAVING + 1), [0] * (LEAVING + 1)

    def load(self, block: Block, data: bytes) -> None:
        """Puts constant bytes into a block, row after row."""
        self._held(block)[...] = np.frombuffer(data, np.uint8).reshape(-1, block.rows, block.size)
        self._coded(block)[...] = CONSTANT * PHASES

    def fill(self, block: Block, value: int) -> None:
        """Puts one constant byte into a whole block."""
        self._held(block)[...] = value
        self._coded(block)[...] = CONSTANT * PHASES

    def mark(self, block: Block, label: int) -> None:
        """Gives a block a label that is no interval."""
        self._coded(block)[...] = label * PHASES

    def labels(self, block: Block) -> set[int]:
        """The labels of a block's bytes."""
        return set((np.unique(self._coded(block)) // PHASES).tolist())

    def copy(self, source: Block, target: Block) -> None:
        """Copies a block; a copy that cuts elements is unknown."""
        codes = self._coded(source).copy()
        self._held(target)[...] = self._held(source).copy()
        widths = np.array(self._width)[codes[..., [0, -1]] // PHASES] if codes.size else np.zeros((1, 1, 2), int)
        phases = codes[..., [0, -1]] % PHASES if codes.size else widths
        whole = not phases[..., 0].any() and (phases[..., 1] == np.maximum(widths[..., 1] - 1, 0)).all()
        self._coded(target)[...] = codes if whole else UNKNOWN * PHASES

    def write(self, block: Block, elements: Interval, bits: int) -> None:
        """Writes elements with an interval each along a block's rows, or with one interval for all."""
        width, first = bits // 8, len(self._width)
        self._width += [width] * len(elements.lowest)
        self._low += elements.lowest.tolist()
        self._high += elements.highest.tolist()
        labels = np.arange(first, len(self._width), dtype=np.int32)[:, None] * PHASES + np.arange(width, dtype=np.int32)
        row = labels.reshape(-1)
        self._coded(block)[...] = np.tile(row, block.size // len(row))

    def read(self, block: Block, bits: int) -> Interval:
        """The interval of each element along a block's rows; it holds for all rows and planes."""
        width, half = bits // 8, 1 << bits - 1
        codes = self._coded(block).reshape(-1, block.size // width, width)
        label = codes[..., 0] // PHASES
        known = np.array(self._width)[label] == width
        for phase in range(width):
            known &= codes[..., phase] == label * PHASES + phase
        low = np.where(known, np.array(self._low, np.int64)[label], -half)
        high = np.where(known, np.array(self._high, np.int64)[label], half - 1)
        if (constant := (codes // PHASES == CONSTANT).all(axis=-1)).any():
            held = self._numbers(block, width).reshape(constant.shape)
            low, high = np.where(constant, held, low), np.where(constant, held, high)
        return Interval(low.min(axis=0).astype(object), high.max(axis=0).astype(object))

    def elements(self, block: Block, bits: int) -> tuple[Int64s, Int64s]:
        """The interval of every element of a dense block, in order."""
        dense = Block(block.place, bits // 8, block.bytes // (bits // 8), 1, bits // 8)
        codes = self._coded(dense)
        if (codes == CONSTANT * PHASES).all():
            held = self._numbers(dense, bits // 8).reshape(-1)
            return held, held
        row = self.read(Block(block.place, block.bytes), bits)
        return row.lowest.astype(np.int64), row.highest.astype(np.int64)

    def packed(self, block: Block, bits: int, count: int) -> tuple[Int64s, Int64s]:
        """The interval of each of `count` packed weights of a dense block, in order."""
        if self.labels(block) == {CONSTANT}:
            held = unpacked(self._held(block).reshape(-1), bits, count)
            return held, held
        half = np.int64(1 << bits - 1)
        return np.full(count, -half), np.full(count, half - 1)

    def unpack(self, source: Block, target: Block, bits: int) -> None:
        """Writes packed weights of a dense block as bytes."""
        low, high = self.packed(source, bits, target.bytes)
        if self.labels(source) == {CONSTANT}:
            self.load(target, low.astype(np.int8).tobytes())
        else:
            self.write(target, Interval.of(int(low[0]), int(high[0])), 8)

    def _numbers(self, block: Block, width: int) -> Int64s:
        return np.ascontiguousarray(self._held(block)).view(f"<i{width}").astype(np.int64)

    def _coded(self, block: Block) -> Codes:
        """The codes of a block as a view [planes, rows, size]."""
        return strided(self._codes[block.place.memory], block)[0]

    def _held(self, block: Block) -> Bytes:
        """The bytes of a block as a view [planes, rows, size]."""
        return strided(self._bytes[block.place.memory], block)[0]
