"""The textual form of commands: assembler, disassembler and listing. A line holds one command.

exec  convolve data=act:0x40 weights=wgt:0x0 … after load:2

On a device with tokens or descriptors, a listing adds to each command a comment with the form that its waits take
there: `; pop load push store`, or `; count 2 consumers load:7`, where `load:7` is the seventh command of queue load.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from qmlir.devices import Device
from qmlir.devices.descriptors import descriptors
from qmlir.devices.tokens import Tokens, tokens
from qmlir.errors.near_misses import near_misses
from qmlir.isa.commands import MNEMONICS
from qmlir.isa.encoding import Command, Place, StreamError, Wait, field_kinds, mnemonic

T = TypeVar("T")


def disassemble(commands: Sequence[Command], device: Device) -> str:
    """Commands as text, with the names of queues and memories."""
    return "".join(f"{_line(command, device)}\n" for command in commands)


def listing(commands: Sequence[Command], device: Device) -> str:
    """A program as text, with comments for the tokens or descriptors of the device.

    Args:
        commands: Commands that wait for earlier commands.
        device: The device.
    """
    match device.sync.kind:
        case "tokens":
            comments = [_tokens(own, device) for own in tokens(commands, device)]
        case "descriptor":
            comments = _links(commands, device)
        case _:
            comments = [""] * len(commands)
    lines = disassemble(commands, device).splitlines()
    return "".join(
        f"{line} ; {comment}\n" if comment else f"{line}\n" for line, comment in zip(lines, comments, strict=True)
    )


def _tokens(own: Tokens, device: Device) -> str:
    """The tokens that a command pops and pushes; empty if it does neither."""
    sides = (("pop", own.pops), ("push", own.pushes))
    return " ".join(f"{word} {_name(device.queue, queue)}" for word, queues in sides for queue in queues)


def _links(commands: Sequence[Command], device: Device) -> list[str]:
    """The count and the consumers of each command; an empty text for a command that has neither."""
    issued, names = Counter[int](), list[str]()
    for command in commands:
        issued[command.queue] += 1
        names.append(f"{_name(device.queue, command.queue)}:{issued[command.queue]}")
    found: list[str] = []
    for own in descriptors(commands, device):
        words = [f"count {own.count}"] if own.count else []
        words += ["consumers", *(names[consumer] for consumer in own.consumers)] if own.consumers else []
        found.append(" ".join(words))
    return found


def _line(command: Command, device: Device) -> str:
    kinds = field_kinds(type(command))
    words = [_name(device.queue, command.queue), mnemonic(type(command))]
    words += [f"ctx={command.ctx}"] if command.ctx else []
    words += [f"{name}={_text(getattr(command, name), device)}" for name in kinds]
    if command.waits:
        words += ["after", *(f"{_name(device.queue, wait.queue)}:{wait.finished}" for wait in command.waits)]
    return " ".join(words)


def _name(named: Sequence[object], index: int) -> str:
    """The name of a queue or memory; its number if the device has no such queue or memory."""
    return str(getattr(named[index], "id")) if index < len(named) else str(index)


def _text(value: object, device: Device) -> str:
    if isinstance(value, Place):
        return f"{_name(device.memory, value.memory)}:{value.address:#x}"
    return value.name.lower() if isinstance(value, IntEnum) else str(value)


def assemble(text: str, device: Device) -> list[Command]:
    """Parses commands from text; the text after a `;` is a comment.

    Raises:
        StreamError: A line is not a command; the error names the line and suggests near names.
    """
    return list(_commands(text, device))


def _commands(text: str, device: Device) -> Iterator[Command]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition(";")[0].split()
        if words:
            try:
                yield _command(words, device)
            except StreamError as error:
                raise StreamError(error.need, where=f"line {number}", got=error.got, remedy=error.remedy) from None


def _command(words: list[str], device: Device) -> Command:
    if len(words) < 2:
        raise StreamError("a line needs a queue and a command", got=" ".join(words))
    queues = {queue.id: index for index, queue in enumerate(device.queue)}
    queue, kind = _known(words[0], queues, "queue"), _known(words[1], MNEMONICS, "command")
    split = words.index("after") if "after" in words else len(words)
    given = dict(_pair(word) for word in words[2:split])
    waits = tuple(_wait(word, queues) for word in words[split + 1 :])
    ctx = _number(given.pop("ctx", "0"))
    kinds = field_kinds(kind)
    for name in given:
        _known(name, kinds, f"field of {words[1]}")
    if missing := [name for name in kinds if name not in given]:
        raise StreamError(f"{words[1]} needs {', '.join(missing)}")
    values = {name: _parsed(given[name], type, device) for name, type in kinds.items()}
    return kind(queue, waits, ctx, **values)


def _known(word: str, known: Mapping[str, T], what: str) -> T:
    if word not in known:
        raise StreamError(f"there is no such {what}", got=word, remedy=near_misses(word, known))
    return known[word]


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise StreamError("a field is written name=value", got=word)
    return name, value


def _wait(word: str, queues: dict[str, int]) -> Wait:
    name, _, finished = word.partition(":")
    return Wait(_known(name, queues, "queue"), _number(finished))


def _number(word: str) -> int:
    try:
        return int(word, 0)
    except ValueError:
        raise StreamError("must be a number", got=word) from None


def _parsed(word: str, kind: Any, device: Device) -> Any:
    if kind is Place:
        memory, _, address = word.partition(":")
        known = {memory.id: index for index, memory in enumerate(device.memory)}
        return Place(_known(memory, known, "memory"), _number(address))
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return _known(word, {member.name.lower(): member for member in kind}, "value")
    return _number(word)
