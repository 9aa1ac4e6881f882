"""The commands of a program in a device's own words, as the encoder writes them that the device file names.

devices/model/encoder.py says what an encoder is. A device without one has the 32-bit words of isa/encoding.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import index
from typing import SupportsIndex, TypeVar

from qmlir.backends.npu.stream import Program, disassemble
from qmlir.devices import Device
from qmlir.devices.model.encoder import Awaited, Encoder, Issued, Located, command_encoder_of, described, refusal
from qmlir.errors import UnsupportedError
from qmlir.isa.commands import Arithmetic, Mark, Post, SetContext, decode
from qmlir.isa.encoding import WORD_BITS, Command, Place, StreamError, field_kinds, mnemonic
from qmlir.plugins import Plugin, PluginError

T = TypeVar("T")


@dataclass(frozen=True)
class Words:
    """The words of a program.

    bits      bits of a word, a multiple of 8
    commands  the words of each command, in the order of the program; each word is a number from 0 to 2^bits − 1. Where
              the encoder takes layers, they are those of each layer
    listed    each command, or layer, as text
    """

    bits: int
    commands: Sequence[Sequence[int]]
    listed: Sequence[str]

    @property
    def all(self) -> list[int]:
        """Every word, one command after the other."""
        return [word for words in self.commands for word in words]


def issued(program: Program, device: Device) -> Iterator[Issued]:
    """Yields the commands of a program as encoders get them."""
    layer, contexts, queues = "", dict[int, SetContext](), [queue.id for queue in device.queue]
    for number, command in enumerate(program.commands):
        if isinstance(command, Mark):
            layer = program.layers[command.layer] if command.layer < len(program.layers) else str(command.layer)
        kinds = field_kinds(type(command))
        places: dict[str, Place] = {name: getattr(command, name) for name, kind in kinds.items() if kind is Place}
        yield Issued(
            number,
            mnemonic(type(command)),
            command,
            queues[command.queue],
            layer,
            {name: Located(device.memory[place.memory].id, place.address) for name, place in places.items()},
            tuple(Awaited(queues[wait.queue], wait.finished) for wait in command.waits),
            contexts.get(command.ctx) if isinstance(command, Post | Arithmetic) else None,
        )
        if isinstance(command, SetContext):
            contexts[command.ctx] = command


def encoded(program: Program, device: Device) -> Words:
    """Returns the words of a program for its device.

    Where the encoder takes layers instead, these are the words of isa/encoding.py: the device gets other ones.

    Raises:
        StreamError: The program was made for another device.
        UnsupportedError: The encoder refuses a command; the error names the command, its layer and the reason.
        PluginError: The encoder raises, yields no words of its width, or decodes them to other commands.
    """
    program.require(device)
    listed = disassemble(program.commands, device).splitlines()
    if (found := command_encoder_of(device)) is None:
        return Words(WORD_BITS, [command.words() for command in program.commands], listed)
    encoder, plugin = found
    commands = list(issued(program, device))
    for each in commands:
        if (reason := refusal(each.command, device)) is not None:
            raise UnsupportedError(reason, where=_where(each, listed))
    lines = [_where(each, listed) for each in commands]
    words = checked_words(encoder.encode, commands, encoder.word_bits, lines, plugin, "command")
    words = replace(words, listed=listed)
    decoded = _decoded(encoder, plugin, words.all)
    if decoded is not None:
        _require_same(plugin, decoded, commands, listed, device)
    return words


def decoded(words: Sequence[int], device: Device) -> list[Command] | None:
    """Returns the commands that words of a device say; None if its encoder has no decoder.

    Raises:
        StreamError: The words of a device without an encoder are no commands.
        PluginError: The decoder raises, or returns something else than commands.
    """
    return decode(words) if (found := command_encoder_of(device)) is None else _decoded(*found, words)


def words_listing(text: str, words: Words) -> str:
    """Adds to each line of a program's listing (stream.listing) the words of its command, as a comment."""
    digits = words.bits // 4
    lines: list[str] = []
    for line, own in zip(text.splitlines(), words.commands, strict=True):
        shown = " ".join(f"{word:0{digits}x}" for word in own)
        lines.append(f"{line} {'' if ';' in line else '; '}{'words' if own else 'no words'} {shown}".rstrip())
    return "\n".join(lines) + "\n"


def _where(each: Issued, listed: Sequence[str]) -> str:
    return f"command {each.number} of layer {each.layer or '(none)'}, {listed[each.number]}"


def checked_words(
    encode: Callable[[Iterator[T]], Iterator[Sequence[int]]], items: Sequence[T], bits: int, lines: Sequence[str],
    plugin: Plugin, what: str,
) -> Words:  # fmt: skip
    """The words of commands or layers as an encoder yields them, checked one by one.

    Args:
        encode: The encoder's function.
        items: What it encodes.
        bits: The bits of a word.
        lines: Each of the items as text, for errors.
        plugin: The encoder's plugin.
        what: What each item is: a command, or a layer.

    Raises:
        PluginError: The encoder raises, or yields no words of its width for each of the items.
    """
    found = list[Sequence[int]]()

    def fault(need: str, got: str) -> PluginError:
        where = lines[len(found)] if len(found) < len(items) else None
        return plugin.fault(need, where=where, got=got)

    try:
        for each in islice(encode(iter(items)), len(items) + 1):
            own = list(each)
            if wrong := [word for word in own if not _is_word(word, bits)]:
                raise fault(f"must encode each {what} in words of {bits} bits", _shown(wrong[0]))
            found.append([index(word) for word in own])
    except PluginError:
        raise
    except Exception as error:  # the code of a package may raise anything
        raise fault(f"must encode every {what} that it does not refuse", described(error)) from error
    if len(found) != len(items):
        got = f"those of {len(found)}" if len(found) < len(items) else "those of more"
        raise plugin.fault(f"must yield the words of each of {len(items)} {what}s", got=got)
    if not any(found):
        raise plugin.fault("must encode a program in words", got="none")
    return Words(bits, found, lines)


def _is_word(word: object, bits: int) -> bool:
    return isinstance(word, SupportsIndex) and 0 <= index(word) < 1 << bits


def _shown(word: object) -> str:
    return hex(word) if isinstance(word, int) else f"{word!r} of type {type(word).__name__}"


def _decoded(encoder: Encoder, plugin: Plugin, words: Sequence[int]) -> list[Command] | None:
    try:
        answer = encoder.decode(words)
        found = None if answer is None else list(answer)
    except StreamError:
        raise
    except Exception as error:  # the code of a package may raise anything
        raise plugin.fault("must decode words, or say by a StreamError what is wrong", got=described(error)) from error
    for number, each in enumerate(found or ()):
        if not isinstance(each, Command):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise plugin.fault("must decode words to commands", where=f"command {number}", got=repr(each))
    return found


def _require_same(
    plugin: Plugin, decoded: Sequence[Command], commands: Sequence[Issued], listed: Sequence[str], device: Device
) -> None:
    """Checks that a decoder gives the commands that were encoded, so that the words say everything about them."""
    need = "must decode its words to the commands that they encode"
    for each, back in zip(commands, decoded, strict=False):
        if back != each.command:
            got = disassemble([back], device).strip() if back.queue < len(device.queue) else repr(back)
            raise plugin.fault(need, where=_where(each, listed), got=got)
    if len(decoded) != len(commands):
        raise plugin.fault(need, got=f"{len(decoded)} commands of {len(commands)}")


# ---------------------------------------------------------------------------------------------------------------
# Words as files


def binary(words: Words) -> bytes:
    """The words one after the other, each little-endian."""
    return b"".join(word.to_bytes(words.bits // 8, "little") for word in words.all)


def readmemh(words: Words) -> str:
    """The words as Verilog's `$readmemh` reads them: a line each, in hexadecimal digits; commands are comments."""
    lines = ["// " + f"{words.bits} bits a word, {len(words.all)} words of {len(words.commands)} commands"]
    for text, own in zip(words.listed, words.commands, strict=True):
        lines += [f"// {text}", *(f"{word:0{words.bits // 4}x}" for word in own)]
    return "\n".join(lines) + "\n"


C_BITS = (8, 16, 32, 64)
"""Bits of the integers of C."""


def c_array(words: Words, name: str) -> str:
    """The words as an array of C, `const uint64_t NAME[]`; commands are comments.

    Raises:
        UnsupportedError: C has no integers of so many bits.
    """
    if words.bits not in C_BITS:
        known = ", ".join(map(str, C_BITS))
        raise UnsupportedError(
            f"words of a C array must have {known} bits", got=str(words.bits), remedy="write them by --emit bin"
        )
    suffix = "ull" if words.bits == 64 else "u"
    lines = ["#include <stdint.h>", "", f"const uint32_t {name}_count = {len(words.all)};"]
    lines += ["", f"const uint{words.bits}_t {name}[] = {{"]
    for text, own in zip(words.listed, words.commands, strict=True):
        lines.append(f"    // {text}")
        lines += [f"    0x{word:0{words.bits // 4}x}{suffix}," for word in own]
    return "\n".join([*lines, "};"]) + "\n"
