"""A program for a device as a file of commands, and as text: assembly and disassembly."""

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any, Self, TypeVar, cast

import numpy as np
from pydantic import ValidationError

from qmlir.devices import Device
from qmlir.devices.description.problems import problems
from qmlir.devices.model.waits import Tokens, descriptors, tokens
from qmlir.errors import FileError, near_misses
from qmlir.isa.blocks import Block, Footprint
from qmlir.isa.commands import MNEMONICS, decode, encode
from qmlir.isa.encoding import Command, Place, StreamError, Wait, field_kinds, mnemonic
from qmlir.running.files import replacing, settle

# ---------------------------------------------------------------------------------------------------------------
# The program file: commands, their initial data, and the device for which the program was compiled.
#
#     magic "QMLIRNPU" · version u32 · length of text u32 · words of commands u32 · bytes of data u32
#     text      JSON: the device's keys, where inputs and outputs lie, which of them are states, names of layers and
#               tensors, the host's routines, data segments
#     commands  32-bit words (isa/commands.py)
#     data      the segments' bytes, one after the other
#     CRC-32    of everything before it
#
# All numbers are little-endian. The file holds the keys of the device file, so that an error about another device can
# name the keys that differ.


MAGIC = b"QMLIRNPU"
VERSION = 4
HEADER = Struct("<8s4I")
DTYPES = {
    "i1": np.dtype(np.bool_),
    **{f"i{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
}
"""Element type → its numpy type in memory."""


@dataclass(frozen=True)
class Port:
    """The place of an input or output tensor of the network or of a host routine; dense, channels last.

    shape   its dimensions
    type    its element type, a key of DTYPES
    """

    name: str
    place: Place
    shape: tuple[int, ...]
    type: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the tensor's elements."""
        return DTYPES[self.type]

    @property
    def block(self) -> Block:
        """The bytes of the tensor."""
        return Block(self.place, prod(self.shape) * self.dtype.itemsize)


@dataclass(frozen=True)
class Routine:
    """A routine that the host runs, with the places of its input and output tensors."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def footprint(self) -> Footprint:
        """The bytes that the routine reads and writes."""
        return Footprint(tuple(port.block for port in self.inputs), tuple(port.block for port in self.outputs))


@dataclass(frozen=True)
class Segment:
    """Bytes that lie in a memory before the first command."""

    place: Place
    data: bytes

    @property
    def block(self) -> Block:
        """The bytes of the segment."""
        return Block(self.place, len(self.data))


@dataclass(frozen=True)
class Kept:
    """A value that the host keeps between runs of a program.

    input   the number of the input that is the value before a run
    output  the number of the output that is the value behind it
    reset   the bytes before the first run; empty for zeros
    """

    input: int
    output: int
    reset: bytes = b""


@dataclass(frozen=True)
class Named:
    """A tensor of the network that lies in a memory while the program runs.

    port   its name and its place
    after  how many commands have run, without those that only wait, when the tensor is there and not yet overwritten
    """

    port: Port
    after: int


@dataclass(frozen=True)
class Program:
    """A command stream with its data, ports and names.

    device     the keys of its device file, flat: `array.lanes.k` → 16
    layers     the layer names that `Mark` commands refer to
    routines   the routines that `Host` commands refer to
    states     the inputs and outputs that the host keeps from run to run
    tensors    the tensors of the network that have names
    notes      texts for people and for later commands, by their names, such as how samples are read
    """

    device: Mapping[str, object]
    commands: Sequence[Command]
    segments: Sequence[Segment] = ()
    inputs: Sequence[Port] = ()
    outputs: Sequence[Port] = ()
    layers: Sequence[str] = ()
    routines: Sequence[Routine] = ()
    states: Sequence[Kept] = ()
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    tensors: Sequence[Named] = ()

    def to_bytes(self) -> bytes:
        """The program as the bytes of a file."""
        text = json.dumps(
            {
                "device": dict(self.device),
                "inputs": [asdict(port) for port in self.inputs],
                "outputs": [asdict(port) for port in self.outputs],
                "states": [[kept.input, kept.output, kept.reset.hex()] for kept in self.states],
                "notes": dict(self.notes),
                "tensors": [[asdict(named.port), named.after] for named in self.tensors],
                "layers": list(self.layers),
                "routines": [asdict(routine) for routine in self.routines],
                "segments": [[*segment.place, len(segment.data)] for segment in self.segments],
            },
            separators=(",", ":"),
        ).encode()
        words = np.array(encode(self.commands), "<u4").tobytes()
        data = b"".join(segment.data for segment in self.segments)
        body = HEADER.pack(MAGIC, VERSION, len(text), len(words) // 4, len(data)) + text + words + data
        return body + zlib.crc32(body).to_bytes(4, "little")

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Parses a program that `to_bytes` wrote.

        Raises:
            StreamError: The bytes are not such a file.
        """
        text_size, word_count = _header(raw)
        body, checksum = raw[:-4], int.from_bytes(raw[-4:], "little")
        if zlib.crc32(body) != checksum:
            raise StreamError(
                "the checksum must fit the contents", got=f"{checksum:#010x}", remedy="copy the file again"
            )
        text_end = HEADER.size + text_size
        words = np.frombuffer(body, "<u4", word_count, text_end)
        about = _Text.parse(body[HEADER.size : text_end])
        data = body[text_end + 4 * word_count :]
        commands = decode(words.tolist())
        segments = about.segments(data)
        return cls(
            about.device, commands, segments, about.inputs, about.outputs, about.layers, about.routines, about.states,
            about.notes, about.tensors,
        )  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Writes the program file atomically."""
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a program file.

        Raises:
            FileError: The file cannot be read, or is not a program.
        """
        try:
            settle(Path(path))
            return cls.from_bytes(Path(path).read_bytes())
        except OSError as error:
            raise FileError(path, "must be a readable program", got=error) from None
        except StreamError as error:
            need = f"{error.where}: {error.need}" if error.where else error.need
            raise FileError(path, need, got=error.got, remedy=error.remedy) from None

    def require(self, device: Device) -> None:
        """Raises StreamError unless the program was compiled for this device; the error names the keys that differ."""
        theirs, ours = dict(self.device), flat(device)
        differ = [key for key in {**ours, **theirs} if theirs.get(key) != ours.get(key)]
        if differ:
            shown = ", ".join(
                f"{key} = {theirs.get(key, 'nothing')} there, {ours.get(key, 'nothing')} here" for key in differ[:5]
            )
            more = f" and {len(differ) - 5} more" if len(differ) > 5 else ""
            raise StreamError("must be made for this device", got=shown + more, remedy="compile the network again")


def _header(raw: bytes) -> tuple[int, int]:
    """The size of the text in bytes and of the commands in words, read from the header.

    Raises:
        StreamError: The header is not that of a program, or the file has another size than it says.
    """
    if len(raw) < HEADER.size + 4 or not raw.startswith(MAGIC):
        raise StreamError("must begin with QMLIRNPU", got=repr(raw[:8]), remedy="is it a program that qmlir compiled?")
    _, version, text_size, word_count, data_size = HEADER.unpack_from(raw)
    if version != VERSION:
        raise StreamError(f"must be of version {VERSION}", got=str(version), remedy="compile the network again")
    expected = HEADER.size + text_size + 4 * word_count + data_size + 4
    if len(raw) != expected:
        raise StreamError(f"must have {expected} bytes", got=str(len(raw)), remedy="copy the file again")
    return text_size, word_count


@dataclass(frozen=True)
class _Text:
    """The JSON part of a program file, validated."""

    device: Mapping[str, object]
    inputs: list[Port]
    outputs: list[Port]
    layers: list[str]
    routines: list[Routine]
    states: list[Kept]
    places: list[tuple[Place, int]]
    notes: dict[str, str]
    tensors: list[Named]

    @classmethod
    def parse(cls, text: bytes) -> Self:
        try:
            data = cast(dict[str, Any], json.loads(text))
            inputs, outputs = ([_port(entry) for entry in data[key]] for key in ("inputs", "outputs"))
            return cls(
                dict(data["device"]),
                inputs,
                outputs,
                [str(name) for name in data["layers"]],
                [_routine(entry) for entry in data["routines"]],
                [_kept(entry, inputs, outputs) for entry in data["states"]],
                [(_place(entry[:2]), _natural(entry[2])) for entry in data["segments"]],
                {str(name): str(text) for name, text in dict(data.get("notes", {})).items()},
                [Named(_port(port), _natural(after)) for port, after in data.get("tensors", [])],
            )
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            raise StreamError("its text must describe the program", got="text of another form") from None

    def segments(self, data: bytes) -> list[Segment]:
        if sum(size for _, size in self.places) != len(data):
            raise StreamError("its segments must fill its data", got=f"{len(data)} bytes")
        found: list[Segment] = []
        at = 0
        for place, size in self.places:
            found.append(Segment(place, data[at : at + size]))
            at += size
        return found


def _natural(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise ValueError(value)
    return value


def _place(value: Sequence[object]) -> Place:
    memory, address = value
    return Place(_natural(memory), _natural(address))


def _kept(entry: Sequence[Any], inputs: Sequence[Port], outputs: Sequence[Port]) -> Kept:
    kept = Kept(_natural(entry[0]), _natural(entry[1]), bytes.fromhex(entry[2]))
    before, after = inputs[kept.input], outputs[kept.output]
    if (before.shape, before.type) != (after.shape, after.type) or len(kept.reset) not in (0, before.block.size):
        raise ValueError(entry)
    return kept


def _routine(entry: Mapping[str, Any]) -> Routine:
    inputs, outputs = (tuple(_port(port) for port in entry[key]) for key in ("inputs", "outputs"))
    return Routine(str(entry["name"]), inputs, outputs)


def _port(entry: Mapping[str, Any]) -> Port:
    if entry["type"] not in DTYPES:
        raise ValueError(entry)
    return Port(str(entry["name"]), _place(entry["place"]), tuple(map(_natural, entry["shape"])), str(entry["type"]))


def flat(device: Device) -> dict[str, object]:
    """The keys of a device file as flat names with their values: `memory.0.bytes` → 262144; without its description."""
    found: dict[str, object] = {}

    def walk(value: object, key: str) -> None:
        if isinstance(value, dict):
            for name, inner in cast(dict[str, object], value).items():
                walk(inner, f"{key}.{name}" if key else name)
        elif isinstance(value, list):
            for index, inner in enumerate(cast(list[object], value)):
                walk(inner, f"{key}.{index}")
        else:
            found[key] = value

    walk(device.model_dump(mode="json", by_alias=True, exclude={"description"}), "")
    return found


def unflattened(keys: Mapping[str, object]) -> Device:
    """The device whose keys `flat` returned, for who has a program and no device file.

    Raises:
        StreamError: The keys describe no device.
    """
    data: dict[str, Any] = {}
    for key, value in keys.items():
        *outer, last = key.split(".")
        table = data
        for word in outer:
            inner = table.setdefault(word, {})
            table = cast(dict[str, Any], inner)
            if not isinstance(inner, dict):
                raise StreamError("its text must describe a device", got=f"{key} beside a value of {word}")
        table[last] = value
    try:
        device = Device.model_validate(_lists(data))
    except ValidationError as error:
        raise StreamError("its text must describe a device", got=problems(error, data, Device)) from None
    # A table without keys of its own, such as `ops.move`, leaves no key in a program.
    if any(keys.get(key) != value for key, value in flat(device).items()) or not keys.keys() <= flat(device).keys():
        raise StreamError("its text must describe a device", got="keys that no device has, or too few")
    return device


def _lists(data: Any) -> Any:
    """The tables whose keys are numbers as lists, at every depth."""
    if not isinstance(data, dict):
        return data
    table = {key: _lists(value) for key, value in cast(dict[str, Any], data).items()}
    return list(table.values()) if table and all(map(str.isdecimal, table)) else table


# ---------------------------------------------------------------------------------------------------------------
# The textual form of commands: assembler, disassembler and listing. A line holds one command.
#
# exec  convolve data=act:0x40 weights=wgt:0x0 … after load:2
#
# On a device with tokens or descriptors, a listing adds to each command a comment with the form that its waits take
# there: `; pop load push store`, or `; count 2 consumers load:7`, where `load:7` is the seventh command of queue load.


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
