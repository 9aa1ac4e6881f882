"""The simulator's memories: their bytes, and which bytes were ever written; and a command's operands in them.

Several samples may be simulated at once. Each sample is a network of its own with its own memories, and the same
commands change all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.accesses import Accesses
from qmlir.devices import Device
from qmlir.devices.description.device import Memory
from qmlir.isa.blocks import Block, Fault
from qmlir.isa.commands import SetContext
from qmlir.numerics import Int64s

Bytes = npt.NDArray[np.uint8]
T = TypeVar("T", np.uint8, np.bool_, np.int32)


class _Contents:
    """The part of a memory that a program touches.

    data      its bytes, uint8 [networks, size]
    written   which bytes were written, or were there from the start; the same for all networks. None if nobody asks
    """

    def __init__(self, memory: Memory, size: int, networks: int, *, tracked: bool):
        self.memory = memory
        self.data = np.zeros((networks, size), np.uint8)
        self.written = np.zeros((1, size), np.bool_) if tracked else None


class Memories:
    """All memories of a device."""

    def __init__(self, device: Device, sizes: Sequence[int], networks: int = 1, *, tracked: bool = True):
        """Memories without contents.

        Args:
            device: The device.
            sizes: How many bytes of each memory the program touches (`sizes_of`).
            networks: How many networks run at once.
            tracked: Whether the memories note which bytes were written, and refuse to read others.
        """
        self.networks = networks
        self._all = [
            _Contents(m, size, networks, tracked=tracked) for m, size in zip(device.memory, sizes, strict=True)
        ]

    def of(self, network: int) -> list[Bytes]:
        """The bytes of each memory of a network, 1-D; who writes there has to know what was written."""
        return [contents.data[network] for contents in self._all]

    def load(self, block: Block, data: bytes, network: int | None = None) -> None:
        """Writes bytes before the first command, for one network or, if `network` is None, for all networks."""
        contents = self._all[block.place.memory]
        chosen = slice(None) if network is None else slice(network, network + 1)
        strided(contents.data[chosen], block)[...] = np.frombuffer(data, np.uint8)
        self.note_written(block)

    def read(self, block: Block) -> Bytes:
        """A copy of a block, uint8 [networks, planes, rows, size].

        Raises:
            Fault: Some bytes of the block were never written.
        """
        self.require_written(block)
        return strided(self._all[block.place.memory].data, block).copy()

    def require_written(self, block: Block) -> None:
        """Raises Fault if some bytes of a block were never written."""
        contents = self._all[block.place.memory]
        if contents.written is None:
            return
        written = strided(contents.written, block)[0]
        if not written.all():
            plane, row, byte = np.argwhere(~written)[0]
            at = block.place.address + plane * block.plane_pitch + row * block.row_pitch + byte
            raise Fault(
                "must read what was written before", got=f"byte {at:#x} of {contents.memory.id}, which never was"
            )

    def is_touched(self, block: Block) -> bool:
        """Whether any byte of a block was written."""
        written = self._all[block.place.memory].written
        return written is not None and bool(strided(written, block).any())

    def image(self, number: int) -> tuple[Bytes, npt.NDArray[np.bool_]]:
        """The bytes of a memory as far as the program touches it, uint8 [networks, size], and which were ever written.

        Both are views; the second is [size].
        """
        contents = self._all[number]
        assert contents.written is not None, "who watches a run has it tracked"
        return contents.data, contents.written[0]

    def write(self, block: Block, data: Bytes) -> None:
        """Writes a block, uint8 [networks, planes, rows, size].

        Raises:
            Fault: The memory is read-only.
        """
        self.require_writable(block)
        strided(self._all[block.place.memory].data, block)[...] = data
        self.note_written(block)

    def require_writable(self, block: Block) -> None:
        """Raises Fault if a block lies in a read-only memory."""
        memory = self._all[block.place.memory].memory
        if memory.read_only:
            raise Fault("must write memory that can be written", got=memory.id)

    def note_written(self, block: Block) -> None:
        """Notes that the bytes of a block were written."""
        contents = self._all[block.place.memory]
        if contents.written is not None:
            strided(contents.written, block)[...] = True


def sizes_of(device: Device, touched: Iterable[Block]) -> list[int]:
    """How many bytes of each memory lie before the end of the last block; each block lies within its memory."""
    sizes = [0] * len(device.memory)
    for block in touched:
        if not block.empty:
            sizes[block.place.memory] = max(sizes[block.place.memory], block.end)
    return sizes


def strided(array: npt.NDArray[T], block: Block) -> npt.NDArray[T]:
    """The elements of a block as a view [networks, planes, rows, size]; the block lies within the array."""
    shape = (len(array), block.planes, block.rows, block.size)
    if block.empty:
        return np.zeros(shape, array.dtype)
    step = array.itemsize  # an array may hold more than a byte about each byte
    strides = (array.strides[0], block.plane_pitch * step, block.row_pitch * step, step)
    return np.lib.stride_tricks.as_strided(array[:, block.place.address :], shape, strides)


@dataclass(frozen=True)
class Operands:
    """The operands of a command in the memories: all that its execution reads and writes."""

    device: Device
    memories: Memories
    accesses: Accesses

    @property
    def context(self) -> SetContext:
        """The context that the command uses."""
        assert self.accesses.context is not None
        return self.accesses.context

    def bytes(self, name: str) -> Bytes:
        """Reads an operand, uint8 [networks, planes, rows, size]."""
        return self.memories.read(self.accesses.reads[name])

    def numbers(self, name: str, bits: int) -> Int64s:
        """Reads an operand of integers as int64 [networks, planes, rows, count]."""
        return np.ascontiguousarray(self.bytes(name)).view(f"<i{bits // 8}").astype(np.int64)

    def weights(self, name: str, bits: int, count: int) -> Int64s:
        """Reads an operand of weights, packed if they have fewer than 8 bits, as int64 [networks, 1, 1, count]."""
        return unpacked(self.bytes(name), bits, count) if bits < 8 else self.numbers(name, bits)

    def put(self, name: str, values: Int64s, bits: int) -> None:
        """Writes integers [networks, planes, rows, count] to an operand; each fits the given number of bits."""
        block, stored = self.accesses.writes[name], np.ascontiguousarray(values.astype(f"<i{bits // 8}"))
        self.memories.write(block, stored.view(np.uint8).reshape(-1, block.planes, block.rows, block.size))


def unpacked(held: Bytes, bits: int, count: int) -> Int64s:
    """The first `count` signed integers of 2 to 7 bits in bytes [..., size], as int64 [..., count].

    Each integer lies in a byte and the next one: bits `first` to `first + bits − 1` of both together.
    """
    first = np.arange(count) * bits
    byte, shift = first // 8, first % 8
    following = np.minimum(byte + 1, held.shape[-1] - 1)
    together = held[..., byte].astype(np.int64) + 256 * held[..., following].astype(np.int64)
    values = (together >> shift) % (1 << bits)
    return np.where(values < 1 << bits - 1, values, values - (1 << bits))
