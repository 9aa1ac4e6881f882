"""Encoders, which turn the commands of a program into a device's own words; packages and programs add them.

    class Plain(Encoder):
        word_bits = 32

        def encode(self, commands: Iterator[Issued]) -> Iterator[Sequence[int]]:
            for issued in commands:
                yield [issued.command.OP, *(place.address for place in issued.places.values())]

A device file names its encoder by the key `encoder`. The encoder may refuse commands. It is asked where an operation is
judged, so that the host computes what the device's words cannot say; where tiles are chosen, so that tiles keep to the
sizes that words can say; and once more about every command of the finished program (backends/npu/words.py).
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, TypeVar, cast, overload

from qmlir.devices.description.device import Device
from qmlir.errors import near_misses
from qmlir.isa.commands import SetContext
from qmlir.isa.encoding import Command, Place, field_kinds
from qmlir.plugins import ENCODERS, Plugin, PluginError, plugin, plugins_in, register

MOST_WORD_BITS = 1024
"""The most bits of a word."""


class Located(NamedTuple):
    """A place with the name of its memory in the device file, and the byte address in it."""

    memory: str
    address: int


class Awaited(NamedTuple):
    """A wait with the name of its queue: `queue` has finished at least `finished` of its commands."""

    queue: str
    finished: int


@dataclass(frozen=True)
class Issued:
    """A command of a program, as an encoder gets it.

    number    its number in the program, from 0 on
    mnemonic  its kind in words: `convolve`, `set-context`
    command   the command: a dataclass of isa/commands.py with typed fields, and numbers for memories and queues
    queue     the name of its queue in the device file
    layer     the name of the layer that it belongs to; empty before the first
    places    name of a field → the memory and the address that the field names
    waits     what the command waits for
    context   the context that it uses (`Post`, `Arithmetic`); None if it uses none
    """

    number: int
    mnemonic: str
    command: Command
    queue: str
    layer: str
    places: Mapping[str, Located]
    waits: tuple[Awaited, ...]
    context: SetContext | None


class Encoder(abc.ABC):
    """Turns commands into the words of one device.

    word_bits  bits of a word, a multiple of 8
    device     the device, as its file describes it
    """

    word_bits: ClassVar[int] = 32

    def __init__(self, device: Device):
        self.device = device

    def refuses(self, command: Command) -> str | None:
        """Returns why the device's words cannot say a command, as a sentence; None if they can.

        Operations are judged, and tiles chosen, before memory is planned: the command then has no waits, and each of
        its places is byte 0 of memory 0. Operations are judged by commands for a single element of the result.
        """
        return None

    @abc.abstractmethod
    def encode(self, commands: Iterator[Issued]) -> Iterator[Sequence[int]]:
        """Yields the words of each command of a program, in order; a command may have none."""

    def decode(self, words: Sequence[int]) -> Iterable[Command] | None:
        """Returns the commands that words say; None if there is no decoder."""
        return None


E = TypeVar("E", bound="type[Encoder]")


@overload
def register_encoder(name: str) -> Callable[[E], E]: ...


@overload
def register_encoder(name: str, encoder: E) -> E: ...


def register_encoder(name: str, encoder: "type[Encoder] | None" = None) -> Any:
    """Adds an encoder of device words, which device files then name: `encoder = "plain"`.

    Args:
        name: Small letters, digits, `-` and `_`. A name that the program registered before gets the new encoder.
        encoder: A subclass of `qmlir.devices.model.encoder.Encoder`. None to use this as a decorator.

    Returns:
        The class itself.

    Raises:
        PluginError: The name is no name, or is that of an encoder of an installed package.

    >>> from qmlir.devices.model.encoder import Encoder
    >>> @register_encoder("as-they-are")
    ... class AsTheyAre(Encoder):
    ...     def encode(self, commands):
    ...         return (issued.command.words() for issued in commands)
    """
    if encoder is None:
        return partial(register_encoder, name)
    register(ENCODERS, name, encoder, ())
    return encoder


@dataclass(frozen=True)
class Named:
    """The encoder of a device, with the plugin that it comes from."""

    encoder: Encoder
    plugin: Plugin


def encoder_of(device: Device) -> Named | None:
    """Returns the encoder that a device file names; None if it names none.

    Raises:
        PluginError: There is no such encoder, its package cannot be imported, or it is no encoder.
    """
    if device.encoder is None:
        return None
    found = plugin(ENCODERS, device.encoder)
    if found is None:
        known = plugins_in(ENCODERS)
        near = near_misses(device.encoder, known) or "install the package that offers it, or leave the key out"
        raise PluginError(
            "encoder must be one that a package or the program offers", where=device.name, got=device.encoder,
            remedy=near,
        )  # fmt: skip
    return _made(found, device)


@lru_cache(maxsize=16)
def _made(found: Plugin, device: Device) -> Named:
    """The encoder of a plugin for a device."""
    loaded: object = found.load()
    given, kind = f"{loaded!r} of type {type(loaded).__name__}", cast(Any, loaded)
    if not (isinstance(loaded, type) and issubclass(loaded, Encoder)):
        raise found.fault("must be a subclass of Encoder", got=given)
    bits = cast(object, kind.word_bits)
    if not isinstance(bits, int) or bits % 8 or not 8 <= bits <= MOST_WORD_BITS:
        raise found.fault(f"must have words of a multiple of 8 bits, at most {MOST_WORD_BITS}", got=repr(bits))
    try:
        return Named(kind(device), found)
    except Exception as error:  # the code of a package may raise anything
        raise found.fault(f"must take the device {device.name}", got=described(error)) from error


def described(error: Exception) -> str:
    """An exception of a plugin in a line, for the error about it."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def unsayable(command: Command, device: Device) -> str | None:
    """Why the words of a device cannot say a command, wherever its places are: a sentence; None if they can.

    Raises:
        PluginError: The encoder cannot be used, raises, or answers with something else than a sentence.
    """
    if device.encoder is None:
        return None
    places = {name: Place(0, 0) for name, kind in field_kinds(type(command)).items() if kind is Place}
    return refusal(replace(command, waits=(), **places), device)


def refusal(command: Command, device: Device) -> str | None:
    """Why the words of a device cannot say a command, as a sentence with the key; None if they can.

    Raises:
        PluginError: The encoder cannot be used, raises, or answers with something else than a sentence.
    """
    if (named := encoder_of(device)) is None:
        return None
    try:
        found = cast(object, named.encoder.refuses(command))
    except Exception as error:  # the code of a package may raise anything
        need = f"must say why it refuses a {type(command).__name__}, or None"
        raise named.plugin.fault(need, where=device.name, got=described(error)) from error
    if found is None:
        return None
    if not isinstance(found, str) or not found.strip():
        need = f"must say why it refuses a {type(command).__name__}, or None"
        raise named.plugin.fault(need, where=device.name, got=repr(found))
    return f"{' '.join(found.split())} (encoder {named.plugin.name})"
