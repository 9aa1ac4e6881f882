"""The encoding of commands as 32-bit words, and the error for words that encode no command.

    word 0       op:8 | words:8 | queue:4 | ctx:4 | waits:2 | zero:6     `words` counts all words of the command
    then waits   queue:4 | count:28                      the command starts when `queue` has finished `count` commands
    then fields  one word each: an unsigned number, a signed number, or a place memory:4 | address:28

The command classes describe the meaning of their fields (commands.py).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self, get_type_hints

from qmlir.errors import QmlirError

QUEUE_BITS = MEMORY_BITS = CONTEXT_BITS = 4
"""Bits of the number of a queue, a memory or a context."""

ADDRESS_BITS = COUNT_BITS = 28
"""Bits of a byte address in a memory, and of the count of finished commands in a wait."""

WAIT_BITS = 2
"""Bits of the number of waits."""

WORD_BITS = 32
"""Bits of any other field."""

WORD = 1 << WORD_BITS

MOST_WAITS = (1 << WAIT_BITS) - 1
"""The greatest number of queues that a command waits for."""

Signed = Annotated[int, "signed"]


class StreamError(QmlirError):
    """Raised for a command stream that is truncated, damaged or for another device."""


class Place(NamedTuple):
    """A location: the number of a memory in the device file, and a byte address in it."""

    memory: int
    address: int


class Wait(NamedTuple):
    """A condition for the start of a command: `queue` has finished at least `finished` of its commands."""

    queue: int
    finished: int


@dataclass(frozen=True)
class Command:
    """The base class of commands: the queue, the waits, and the number of the context if the command uses a context."""

    OP: ClassVar[int]
    queue: int
    waits: tuple[Wait, ...]
    ctx: int

    def words(self) -> list[int]:
        """The command as 32-bit words.

        Raises:
            StreamError: A number does not fit its bits.
        """
        if (found := beyond_bits(self)) is not None:
            raise StreamError("every number of a command must fit its bits", got=found)
        body = [wait.queue << COUNT_BITS | wait.finished for wait in self.waits]
        body += [_word(getattr(self, name)) for name in field_kinds(type(self))]
        return [self.OP | len(body) + 1 << 8 | self.queue << 16 | self.ctx << 20 | len(self.waits) << 24, *body]

    @classmethod
    def of(cls, queue: int, waits: tuple[Wait, ...], ctx: int, payload: Sequence[int]) -> Self:
        """Builds a command from its header fields and the words of its payload.

        Raises:
            StreamError: The number of words is wrong, or a word is not a valid value of its field.
        """
        kinds = field_kinds(cls)
        if len(payload) != len(kinds):
            raise StreamError(f"{cls.__name__} needs {len(kinds)} words after its waits", got=str(len(payload)))
        values = {
            name: _value(cls, name, kind, word) for (name, kind), word in zip(kinds.items(), payload, strict=True)
        }
        return cls(queue, waits, ctx, **values)


def mnemonic(command: type[Command]) -> str:
    """The mnemonic of a command class: `set-context` for `SetContext`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", command.__name__).lower()


@cache
def field_kinds(command: type[Command]) -> dict[str, Any]:
    """The fields of a command's payload: name → kind, which is int, Signed, Place or an enumeration."""
    hints = get_type_hints(command, include_extras=True)
    return {f.name: hints[f.name] for f in fields(command)[3:]}


def beyond_bits(command: Command) -> str | None:
    """A number of a command that does not fit its bits, with its field's name; None if every number does."""
    parts = [("queue", command.queue, QUEUE_BITS), ("ctx", command.ctx, CONTEXT_BITS)]
    parts.append(("waits", len(command.waits), WAIT_BITS))
    for wait in command.waits:
        parts += [("waits", wait.queue, QUEUE_BITS), ("waits", wait.finished, COUNT_BITS)]
    for name, kind in field_kinds(type(command)).items():
        value = getattr(command, name)
        if kind is Place:
            parts += [(name, value.memory, MEMORY_BITS), (name, value.address, ADDRESS_BITS)]
        elif kind is not Signed:
            parts.append((name, value, WORD_BITS))
        elif not -WORD <= 2 * value < WORD:
            return f"{name} {value} in {WORD_BITS} bits with a sign"
    return next((f"{name} {value} in {bits} bits" for name, value, bits in parts if value >> bits), None)


def _word(value: int | Place) -> int:
    return value.memory << ADDRESS_BITS | value.address if isinstance(value, Place) else value % WORD


def _value(command: type[Command], name: str, kind: Any, word: int) -> int | Place:
    if kind is Place:
        return Place(word >> ADDRESS_BITS, word & (1 << ADDRESS_BITS) - 1)
    if kind is Signed:
        return word - WORD if word >> 31 else word
    if kind is int:
        return word
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(f"{member.value} ({member.name.lower()})" for member in kind)
        raise StreamError(f"{command.__name__} {name} must be one of {known}", got=str(word)) from None
