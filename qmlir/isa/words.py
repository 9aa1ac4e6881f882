"""Decodes and encodes command streams, which are sequences of 32-bit words."""

from collections.abc import Sequence

from qmlir.isa.commands import BY_OP, End
from qmlir.isa.encoding import Command, StreamError, Wait


def decode(words: Sequence[int]) -> list[Command]:
    """Decodes the commands of a stream.

    Raises:
        StreamError: A command is unknown, truncated or malformed, waits for a later command, or follows `End`, or the
            stream does not end with `End`; the error of a command gives its number and its word.
    """
    commands: list[Command] = []
    issued: dict[int, int] = {}
    at = 0
    while at < len(words):
        try:
            command = _decode_one(words, at)
            for wait in command.waits:
                if wait.finished > issued.get(wait.queue, 0):
                    given = f"{wait.finished} of queue {wait.queue}, which has been given {issued.get(wait.queue, 0)}"
                    raise StreamError("a command may wait for earlier ones only", got=f"a wait for {given}")
            if commands and isinstance(commands[-1], End):
                raise StreamError("nothing may follow the end", got=type(command).__name__)
        except StreamError as error:
            raise StreamError(error.need, where=f"command {len(commands)} at word {at}", got=error.got) from None
        commands.append(command)
        issued[command.queue] = issued.get(command.queue, 0) + 1
        at += words[at] >> 8 & 0xFF
    if not commands or not isinstance(commands[-1], End):
        raise StreamError("a stream must end with the command End", got="one without")
    return commands


def _decode_one(words: Sequence[int], at: int) -> Command:
    head = words[at]
    op, length, queue, ctx, waits = head & 0xFF, head >> 8 & 0xFF, head >> 16 & 0xF, head >> 20 & 0xF, head >> 24 & 0x3
    if op not in BY_OP:
        raise StreamError("a command must be a known one", got=f"op {op:#04x}")
    if head >> 26:
        raise StreamError("the reserved bits of a command must be 0", got=f"{head >> 26:#x}")
    if length < 1 + waits or at + length > len(words):
        raise StreamError(f"a command of {length} words must lie whole in the stream", got=f"{len(words) - at} left")
    waiting = tuple(Wait(word >> 28, word & (1 << 28) - 1) for word in words[at + 1 : at + 1 + waits])
    return BY_OP[op].of(queue, waiting, ctx, words[at + 1 + waits : at + length])


def encode(commands: Sequence[Command]) -> list[int]:
    """Encodes commands as words, one command after the other."""
    return [word for command in commands for word in command.words()]
