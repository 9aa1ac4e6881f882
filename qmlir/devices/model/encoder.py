"""Encoders, which turn the commands of a program into a device's own words; packages and programs add them.

    class Plain(Encoder):
        word_bits = 32

        def encode(self, commands: Iterator[Issued]) -> Iterator[Sequence[int]]:
            for issued in commands:
                yield [issued.command.OP, *(place.address for place in issued.places.values())]

A device file names its encoder by the key `encoder`. The encoder may refuse commands. It is asked where an operation is
judged, so that the host computes what the device's words cannot say; where tiles are chosen, so that tiles keep to the
sizes that words can say; and once more about every command of the finished program (backends/npu/words.py).

Where the unit of work of a device is a whole layer, its encoder is a `LayerEncoder`: it gets layers before any tiles
are chosen (layer.py), lays out tensors and constants as the device has them, and divides layers by rules of its own.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, TypeVar, cast, overload

from qmlir.devices.description.device import Device
from qmlir.devices.model.agreement import disagreement
from qmlir.devices.model.layer import Layer, PlacedLayer, Tensor
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


@dataclass(frozen=True)
class EncodedNetwork:
    """A network in the words of a device, for files in forms of its encoder's own.

    name       an identifier of C that stands for the network
    layers     its layers, with their places
    words      of each layer
    constants  address → bytes that lie there before the first layer
    sources    number of a layer → address and tensor of what is put into memory before it: before the first layer the
               inputs of the network, before others what the host computes
    calls      number of a layer → what the host computes before it
    """

    name: str
    layers: Sequence[PlacedLayer]
    words: Sequence[Sequence[int]]
    constants: Mapping[int, bytes]
    sources: Mapping[int, Sequence[tuple[int, Tensor]]]
    calls: Mapping[int, Sequence[str]]


class LayerEncoder(abc.ABC):
    """Turns whole layers into the words of one device, such as writes of registers.

    Tensors and constants lie in the external memory that the device file has for tensors, at multiples of its `align`.
    The encoder says how large they are, the compiler where they are. A tensor is there from the layer that writes it to
    the last that reads it; the scratch memory of a layer is there during the layer.

    word_bits  bits of a word, a multiple of 8
    device     the device, as its file describes it
    forms      forms that it can write beside those of words, each with the suffix of its file; empty for a folder
    made_for   device files of which these forms mean this encoder, where they name none
    hardware   what a device file has to say of the hardware, whose words they are: key → its value, `AtMost` or `OneOf`
    """

    word_bits: ClassVar[int] = 32
    forms: ClassVar[Mapping[str, str]] = {}
    made_for: ClassVar[Sequence[str]] = ()
    hardware: ClassVar[Mapping[str, object]] = {}

    def __init__(self, device: Device):
        self.device = device

    def refuses(self, layer: Layer) -> str | None:
        """Returns why the device cannot compute a layer, as a sentence; None if it can.

        Operations are judged one by one, each with the requantization that ends its sums; a refused one is left to the
        host. Then it is asked about each layer to which an operation might be fused; a refused one is not. The names of
        layers and tensors mean nothing in these two cases. Last, it is asked about every layer of the network.
        """
        return None

    def size(self, tensor: Tensor) -> int:
        """Returns the bytes of a tensor in memory; by default, those of its elements one after the other.

        Inputs and outputs of the network and of the host's parts are tensors as well.
        """
        return tensor.bytes

    def contents(self, tensor: Tensor) -> bytes:
        """Returns what a tensor with contents has in memory, as many bytes as it takes; by default, its elements."""
        assert tensor.contents is not None
        return tensor.contents.astype(tensor.contents.dtype.newbyteorder("<")).tobytes()

    def constants(self, layer: Layer) -> Sequence[bytes]:
        """Returns what else has to be in memory for a layer: weights, biases, tables, each as the device reads it."""
        return ()

    def scratch(self, layer: Layer) -> int:
        """Returns the bytes of memory that a layer needs beside its tensors and constants."""
        return 0

    @abc.abstractmethod
    def encode(self, layers: Iterator[PlacedLayer]) -> Iterator[Sequence[int]]:
        """Yields the words of each layer of a network, in order; a layer may have none."""

    def files(self, form: str, network: EncodedNetwork) -> Iterator[tuple[str, str]]:
        """Yields the files of a form: a name behind the folder, empty for the one file of the form, and its text."""
        raise NotImplementedError(f"{type(self).__name__} has no forms of its own")


AnyEncoder = Encoder | LayerEncoder

E = TypeVar("E", bound="type[AnyEncoder]")


@overload
def register_encoder(name: str) -> Callable[[E], E]: ...


@overload
def register_encoder(name: str, encoder: E) -> E: ...


def register_encoder(name: str, encoder: "type[AnyEncoder] | None" = None) -> Any:
    """Adds an encoder of device words, which device files then name: `encoder = "plain"`.

    Args:
        name: Small letters, digits, `-` and `_`. A name that the program registered before gets the new encoder.
        encoder: A subclass of `Encoder` or `LayerEncoder` of `qmlir.devices.model.encoder`. None to use this as a
            decorator.

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

    encoder: AnyEncoder
    plugin: Plugin


def encoder_of(device: Device) -> Named | None:
    """Returns the encoder that a device file names; None if it names none.

    Raises:
        PluginError: There is no such encoder, its package cannot be imported, it is no encoder, or the device file says
            something else of its hardware.
    """
    if device.encoder is None:
        return None
    found = plugin(ENCODERS, device.encoder)
    if found is None:
        known = plugins_in(ENCODERS)
        need = "encoder must be one that a package or the program offers"
        raise PluginError(need, where=device.name, got=device.encoder, remedy=near_misses(device.encoder, known))
    return _made(found, device)


@lru_cache(maxsize=16)
def _made(found: Plugin, device: Device) -> Named:
    """The encoder of a plugin for a device."""
    loaded: object = found.load()
    given, kind = f"{loaded!r} of type {type(loaded).__name__}", cast(Any, loaded)
    if not (isinstance(loaded, type) and issubclass(loaded, Encoder | LayerEncoder)):
        raise found.fault("must be a subclass of Encoder or LayerEncoder", got=given)
    bits = cast(object, kind.word_bits)
    if not isinstance(bits, int) or bits % 8 or not 8 <= bits <= MOST_WORD_BITS:
        raise found.fault(f"must have words of a multiple of 8 bits, at most {MOST_WORD_BITS}", got=repr(bits))
    if issubclass(loaded, LayerEncoder) and (wrong := disagreement(device, loaded.hardware)) is not None:
        need, got = wrong
        remedy = "correct the device file, or name another encoder"
        raise PluginError(f"{need} for the encoder {found.name}", where=device.name, got=got, remedy=remedy)
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
    named = encoder_of(device)
    if named is None or not isinstance(named.encoder, Encoder):
        return None
    return _refusal(named, partial(named.encoder.refuses, command), f"a {type(command).__name__}", device)


def layer_encoder_of(device: Device) -> tuple[LayerEncoder, Plugin] | None:
    """The encoder of whole layers of a device, with its plugin; None if it has none.

    Raises:
        PluginError: The encoder cannot be used.
    """
    named = encoder_of(device)
    return None if named is None or isinstance(named.encoder, Encoder) else (named.encoder, named.plugin)


def command_encoder_of(device: Device) -> tuple[Encoder, Plugin] | None:
    """The encoder of commands of a device, with its plugin; None if it has none.

    Raises:
        PluginError: The encoder cannot be used.
    """
    named = encoder_of(device)
    return (named.encoder, named.plugin) if named is not None and isinstance(named.encoder, Encoder) else None


def encoder_that_writes(form: str, device: Device) -> str | None:
    """The name of the encoder that writes a form for a device: the one that its file names, or one of qmlir's for it.

    None if there is no such encoder.

    Raises:
        PluginError: The encoder that the device file names cannot be used.
    """
    if device.encoder is not None:
        own = layer_encoder_of(device)
        return device.encoder if own is not None and form in own[0].forms else None
    for name in plugins_in(ENCODERS):
        found = plugin(ENCODERS, name)
        if found is None or found.package != "qmlir":
            continue  # packages are imported where a device file names them
        kind = found.load()
        if issubclass(kind, LayerEncoder) and form in kind.forms and device.name in kind.made_for:
            return name
    return None


def layer_refusal(layer: Layer, device: Device) -> str | None:
    """Why a device cannot compute a layer, as a sentence with the key; None if it can, or encodes commands.

    Raises:
        PluginError: The encoder cannot be used, raises, or answers with something else than a sentence.
    """
    named = encoder_of(device)
    if named is None or isinstance(named.encoder, Encoder):
        return None
    return _refusal(named, partial(named.encoder.refuses, layer), f"a layer of kind {layer.kind}", device)


def _refusal(named: Named, ask: Callable[[], object], what: str, device: Device) -> str | None:
    """What an encoder answers to the question whether it refuses something."""
    need, where = f"must say why it refuses {what}, or None", device.name
    try:
        found = ask()
    except Exception as error:  # the code of a package may raise anything
        raise named.plugin.fault(need, where=where, got=described(error)) from error
    if found is None:
        return None
    if not isinstance(found, str) or not found.strip():
        raise named.plugin.fault(need, where=where, got=repr(found))
    return f"{' '.join(found.split())} (encoder {named.plugin.name})"
