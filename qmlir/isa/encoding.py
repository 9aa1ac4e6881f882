"""What all commands have in common: how they are written as words, and what is wrong with words that are none.

    word 0       op:8 | words:8 | queue:4 | ctx:4 | waits:2 | zero:6     `words` counts all words of the command
    then waits   queue:4 | count:28                      start when that queue has finished `count` commands
    then fields  one word each: a number, a signed number, or a place, memory:4 | address:28

Words have 32 bits. What the fields mean stands on the commands themselves (commands.py).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self, get_type_hints

from qmlir.errors import QmlirError

WORD = 1 << 32

MOST_WAITS = 3
"""A command waits for at most so many queues: their number has two bits."""

Signed = Annotated[int, "signed"]


class StreamError(QmlirError):
    """A command stream that no assembler wrote: truncated, damaged, or for another device."""


class Place(NamedTuple):
    """Where something lies: the number of a memory in the device file, and an address in bytes."""

    memory: int
    address: int


class Wait(NamedTuple):
    """A command starts only when `queue` has `finished` so many of its commands."""

    queue: int
    finished: int


@dataclass(frozen=True)
class Command:
    """What all commands have: their queue, what they wait for, and a context where they use one."""

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
        """The command whose fields are these words.

        Raises:
            StreamError: There are too many or too few, or one has a value that the field has not.
        """
        kinds = field_kinds(cls)
        if len(payload) != len(kinds):
            raise StreamError(f"{cls.__name__} needs {len(kinds)} words after its waits", got=str(len(payload)))
        values = {
            name: _value(cls, name, kind, word) for (name, kind), word in zip(kinds.items(), payload, strict=True)
        }
        return cls(queue, waits, ctx, **values)


def mnemonic(command: type[Command]) -> str:
    """`SetContext` as `set-context`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", command.__name__).lower()


@cache
def field_kinds(command: type[Command]) -> dict[str, Any]:
    """The fields of a command's payload: name → int, Signed, Place or an enumeration."""
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
