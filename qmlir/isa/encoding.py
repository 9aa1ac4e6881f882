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

WORD = 1 << 32

MOST_WAITS = 3
"""The greatest number of queues that a command waits for; the header has two bits for it."""

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
        """The command as 32-bit words."""
        body = [wait.queue << 28 | wait.finished for wait in self.waits]
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


def _word(value: int | Place) -> int:
    return value.memory << 28 | value.address if isinstance(value, Place) else value % WORD


def _value(command: type[Command], name: str, kind: Any, word: int) -> int | Place:
    if kind is Place:
        return Place(word >> 28, word & (1 << 28) - 1)
    if kind is Signed:
        return word - WORD if word >> 31 else word
    if kind is int:
        return word
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(f"{member.value} ({member.name.lower()})" for member in kind)
        raise StreamError(f"{command.__name__} {name} must be one of {known}", got=str(word)) from None
