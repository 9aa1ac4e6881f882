"""VTA's instructions as data, as words of 128 bits, and as text.

A stream is read by three units: `load` fetches data and weights, `compute` fetches micro-ops and sums and does all
arithmetic, `store` writes results. Each runs its instructions in order. The compute unit has the load unit before it
and the store unit behind it; a unit waits for a token of a neighbour (`pop`), and gives it one when it has finished
(`push`).

    >>> word = Load(memory=Buffer.DATA, address=3, columns=16, rows=1, stride=16, push_next=1).word
    >>> print(text_of(instruction(word)))
    load push_next=1 memory=data address=3 rows=1 columns=16 stride=16
    >>> parse("load push_next=1 memory=data address=3 rows=1 columns=16 stride=16").word == word
    True
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import Enum, IntEnum
from typing import Any, ClassVar, NamedTuple, TypeAlias

from qmlir.errors import QmlirError, near_misses

WORD_BITS = 128


class Buffer(IntEnum):
    """The buffers on the chip, by their numbers in instructions."""

    MICRO_OPS, WEIGHTS, DATA, SUMS, RESULTS = range(5)


class Memory(NamedTuple):
    """What a buffer holds.

    elements  how many elements
    bytes     of an element: a micro-op, 16 rows of 16 weights, 16 numbers of 8 bits, 16 sums of 32 bits
    """

    elements: int
    bytes: int


MEMORIES = {
    Buffer.MICRO_OPS: Memory(8192, 4),
    Buffer.WEIGHTS: Memory(1024, 256),
    Buffer.DATA: Memory(2048, 16),
    Buffer.SUMS: Memory(2048, 64),
    Buffer.RESULTS: Memory(2048, 16),
}
"""The buffers of the default configuration. Addresses in instructions count elements, also those in external memory."""


IN_FLIGHT = 15
"""Steps of an instruction that may be on their way at once: the Chisel design counts them in four bits.

None reads a sum that another one is about to write: the array and the vector unit do not wait for it, neither there nor
in the HLS design. An instruction begins when the one before it has ended.
"""


class Operation(IntEnum):
    """What the vector unit does with a sum and a second operand; `SHIFT` is to the right, by -16 to 15."""

    MIN, MAX, ADD, SHIFT = range(4)


class Unit(Enum):
    """The units, in the order in which they are neighbours."""

    LOAD, COMPUTE, STORE = range(3)


class InstructionError(QmlirError):
    """Raised for an instruction that cannot be written, read or carried out."""


class Bits(NamedTuple):
    """A field of an instruction: its name, its bits, and whether it has a sign."""

    name: str
    bits: int
    signed: bool = False


_TOKENS = (Bits("pop_previous", 1), Bits("pop_next", 1), Bits("push_previous", 1), Bits("push_next", 1))
_MOVED = (
    *(Bits("memory", 3), Bits("buffer_address", 16), Bits("address", 32), Bits("", 6)),
    *(Bits("rows", 16), Bits("columns", 16), Bits("stride", 16)),
    *(Bits("above", 4), Bits("below", 4), Bits("left", 4), Bits("right", 4)),
)
_LOOPS = (
    *(Bits("reset", 1), Bits("first", 13), Bits("end", 14), Bits("outer", 14), Bits("inner", 14), Bits("", 1)),
    *(Bits("to_outer", 11), Bits("to_inner", 11), Bits("from_outer", 11), Bits("from_inner", 11)),
)


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """What all instructions have: tokens. Opcode and fields lie in a word from bit 0 on."""

    OPCODE: ClassVar[int]
    FIELDS: ClassVar[tuple[Bits, ...]]

    pop_previous: int = 0
    pop_next: int = 0
    push_previous: int = 0
    push_next: int = 0

    @property
    def name(self) -> str:
        """Its mnemonic."""
        return type(self).__name__.lower()

    @property
    def unit(self) -> Unit:
        """The unit that carries it out."""
        return Unit.COMPUTE

    @property
    def word(self) -> int:
        """Its 128 bits.

        Raises:
            InstructionError: A field does not fit its bits.
        """
        word, at = self.OPCODE, 3
        for name, bits, signed in self.FIELDS:
            value = int(getattr(self, name)) if name else 0
            least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            if not least <= value <= most:
                raise InstructionError(f"{name} must be from {least} to {most}", where=self.name, got=str(value))
            word |= (value & (1 << bits) - 1) << at
            at += bits
        return word


@dataclass(frozen=True, kw_only=True)
class _Movement(Instruction):
    """A rectangle of elements: `rows` of `columns`, which lie `stride` elements apart in external memory."""

    FIELDS = (*_TOKENS, *_MOVED)

    memory: Buffer
    buffer_address: int = 0
    address: int = 0
    rows: int = 1
    columns: int = 1
    stride: int = 0
    above: int = 0
    below: int = 0
    left: int = 0
    right: int = 0


@dataclass(frozen=True, kw_only=True)
class Load(_Movement):
    """Reads a rectangle from external memory; data and sums get elements of zeros around it.

    Micro-ops and sums are loaded by the compute unit. Weights and micro-ops have no padding, micro-ops a single row.
    """

    OPCODE = 0

    @property
    def unit(self) -> Unit:
        """The load unit for data and weights."""
        return Unit.LOAD if self.memory in (Buffer.WEIGHTS, Buffer.DATA) else Unit.COMPUTE


@dataclass(frozen=True, kw_only=True)
class Store(_Movement):
    """Writes a rectangle of the results to external memory; padding and memory mean nothing."""

    OPCODE = 1

    memory: Buffer = Buffer.RESULTS

    @property
    def unit(self) -> Unit:
        """The store unit."""
        return Unit.STORE


@dataclass(frozen=True, kw_only=True)
class Looped(Instruction):
    """Micro-ops `first` to `end` for each turn of two nested loops, which move what they address.

    A micro-op's destination is moved by to_outer · i + to_inner · j, its source in the same way.
    """

    first: int = 0
    end: int = 1
    outer: int = 1
    inner: int = 1
    to_outer: int = 0
    to_inner: int = 0
    from_outer: int = 0
    from_inner: int = 0


@dataclass(frozen=True, kw_only=True)
class Gemm(Looped):
    """Adds the products of a data vector with the rows of a weight tile to a vector of sums, or resets the sums."""

    OPCODE = 2
    FIELDS = (*_TOKENS, *_LOOPS, Bits("weights_outer", 10), Bits("weights_inner", 10))

    reset: int = 0
    weights_outer: int = 0
    weights_inner: int = 0


@dataclass(frozen=True, kw_only=True)
class Finish(Instruction):
    """Ends the stream."""

    OPCODE = 3
    FIELDS = _TOKENS


@dataclass(frozen=True, kw_only=True)
class Alu(Looped):
    """An operation of a vector of sums with another one, or with a number; the first becomes the result."""

    OPCODE = 4
    FIELDS = (*_TOKENS, *_LOOPS, Bits("operation", 3), Bits("immediate", 1), Bits("value", 16, signed=True))

    reset: int = 0
    operation: Operation = Operation.ADD
    immediate: int = 0
    value: int = 0


class MicroOp(NamedTuple):
    """What a step of `Gemm` or `Alu` addresses: sums, then data (or sums), then weights."""

    to: int = 0
    source: int = 0
    weights: int = 0

    @property
    def word(self) -> int:
        """Its 32 bits."""
        for name, value, most in zip(self._fields, self, (2047, 2047, 1023), strict=True):
            if not 0 <= value <= most:
                raise InstructionError(f"{name} must be from 0 to {most}", where="micro-op", got=str(value))
        return self.to | self.source << 11 | self.weights << 22


AnyInstruction: TypeAlias = Load | Store | Gemm | Finish | Alu

KINDS: dict[int, type[AnyInstruction]] = {kind.OPCODE: kind for kind in (Load, Store, Gemm, Finish, Alu)}
_ENUMS: dict[str, type[IntEnum]] = {"memory": Buffer, "operation": Operation}


def _named(kind: type[IntEnum], value: int, where: str) -> IntEnum:
    if value not in tuple(kind):
        what = kind.__name__.lower()
        raise InstructionError(f"{what} must be from 0 to {len(kind) - 1}", where=where, got=str(value))
    return kind(value)


def instruction(word: int) -> AnyInstruction:
    """Returns the instruction that a word of 128 bits says; bits between fields mean nothing.

    Raises:
        InstructionError: The word is none of an instruction of the default configuration.
    """
    kind = KINDS.get(word & 7)
    if kind is None:
        raise InstructionError(f"opcode must be from 0 to {len(KINDS) - 1}", where=f"{word:032x}", got=str(word & 7))
    given, at = dict[str, Any](), 3
    for name, bits, signed in kind.FIELDS:
        value = word >> at & (1 << bits) - 1
        at += bits
        if name:
            value -= 1 << bits if signed and value >> bits - 1 else 0
            given[name] = _named(_ENUMS[name], value, kind.__name__.lower()) if name in _ENUMS else value
    if kind is Store:
        given["memory"] = Buffer.RESULTS
    return kind(**given)


def text_of(each: AnyInstruction) -> str:
    """An instruction as text: its mnemonic, and the fields that differ from what a field is without a word."""
    shown = [each.name]
    for field in fields(each):
        value = getattr(each, field.name)
        if field.name in _ENUMS or value != field.default:
            shown.append(f"{field.name}={value.name.lower() if isinstance(value, IntEnum) else value}")
    return " ".join(shown)


def parse(line: str) -> AnyInstruction:
    """Returns the instruction that a line of text says.

    Raises:
        InstructionError: The line is none, with the field that is wrong.
    """
    name, *rest = line.split() or [""]
    kinds = {kind.__name__.lower(): kind for kind in KINDS.values()}
    if name not in kinds:
        raise InstructionError("must be an instruction", where=line, got=name, remedy=near_misses(name, kinds))
    known, given = {field.name for field in fields(kinds[name])}, dict[str, Any]()
    for word in rest:
        field, _, value = word.partition("=")
        if field not in known:
            need = f"{name} must have fields of its own"
            raise InstructionError(need, where=line, got=field, remedy=near_misses(field, known))
        given[field] = _value(field, value, line)
    if name == "load" and "memory" not in given:
        raise InstructionError("load must name its memory", where=line)
    made = kinds[name](**given)
    _ = made.word  # each field fits its bits
    return made


def _value(field: str, text: str, line: str) -> int:
    names = {each.name.lower(): each for each in _ENUMS[field]} if field in _ENUMS else None
    if names is not None:
        if text not in names:
            need = f"{field} must be one of {', '.join(names)}"
            raise InstructionError(need, where=line, got=text)
        return names[text]
    try:
        return int(text)
    except ValueError:
        raise InstructionError(f"{field} must be an integer", where=line, got=text) from None


def assembled(text: str) -> list[int]:
    """The words of instructions as text, a line each; what follows a `;` is a comment.

    Raises:
        InstructionError: A line is no instruction.
    """
    lines = (line.partition(";")[0].strip() for line in text.splitlines())
    return [parse(line).word for line in lines if line]


def disassembled(words: Iterable[int]) -> Iterator[str]:
    """Yields a line for each word of a stream.

    Raises:
        InstructionError: A word is no instruction.
    """
    return (text_of(instruction(word)) for word in words)
