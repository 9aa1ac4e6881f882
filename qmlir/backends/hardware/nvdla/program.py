"""Programs for NVDLA: what a driver does to the registers, and the memory that it does it with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from qmlir.backends.hardware.nvdla.registers import BY_ADDRESS, pack, register


class Kind(IntEnum):
    """What a driver does at one step."""

    WRITE = 0
    """Writes the value to the register at the address."""

    POLL = 1
    """Reads the register at the address until it holds the value."""

    WAIT = 2
    """Waits until `GLB.S_INTR_STATUS` has had all bits of the value, and clears each by writing it back; no address."""


class Command(NamedTuple):
    """A step of a driver: its kind, the byte address of a register, and 32 bits."""

    kind: Kind
    address: int
    value: int

    def __str__(self) -> str:
        place = BY_ADDRESS.get(self.address)
        name = f"{place.unit}.{place.name}" if place else f"{self.address:#x}"
        match self.kind:
            case Kind.WRITE:
                return f"write {name} {self.value:#x}"
            case Kind.POLL:
                return f"poll {name} {self.value:#x}"
            case Kind.WAIT:
                return f"wait {self.value:#x}"


def write(unit: str, name: str, value: int | None = None, /, **fields: int) -> Command:
    """Returns the write of a register by its names: the value whole, or of its fields.

    Raises:
        QmlirError: There is no such register or field, or a value has too many bits for its field.

    >>> str(write("CACC", "D_CLIP_CFG", CLIP_TRUNCATE=3))
    'write CACC.D_CLIP_CFG 0x3'
    """
    bits = pack(unit, name, **fields) if value is None else value & 0xFFFFFFFF
    return Command(Kind.WRITE, register(unit, name).address, bits)


def poll(unit: str, name: str, value: int) -> Command:
    """Returns the step that reads a register until it holds a value."""
    return Command(Kind.POLL, register(unit, name).address, value)


def wait(bits: int) -> Command:
    """Returns the step that waits until the interrupts of all the bits have come."""
    return Command(Kind.WAIT, 0, bits)


@dataclass(frozen=True)
class Program:
    """Steps of a driver in order, and what memory holds before: bytes at their addresses, without overlaps."""

    commands: Sequence[Command]
    segments: Sequence[tuple[int, bytes]] = ()

    @classmethod
    def from_rows(cls, rows: Iterable[Iterable[int]], segments: Sequence[tuple[int, bytes]] = ()) -> "Program":
        """Returns a program of rows (kind, address, value) of numbers, such as an array of three columns."""
        commands = (tuple(int(number) for number in row) for row in rows)
        return cls([Command(Kind(kind), address, value) for kind, address, value in commands], segments)
