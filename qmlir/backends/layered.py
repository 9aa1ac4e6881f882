"""The layers of a network for a device whose encoder takes layers: where their tensors lie, and their words.

Enters: `npu.layer` and `npu.host` on tensors, as npu-fuse leaves them. The simulator runs the commands of the same
layers, in tiles; the device gets these words instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qmlir.backends.npu.image import Image, TensorPlace
from qmlir.backends.npu.words import Words, checked_words
from qmlir.devices import Device
from qmlir.devices.description.device import Memory
from qmlir.devices.legality.layers import keeps_images, layer_of, tensor_of
from qmlir.devices.legality.limits import kind_of
from qmlir.devices.model.encoder import EncodedNetwork, LayerEncoder, described, layer_encoder_of, layer_refusal
from qmlir.devices.model.engines import Engines
from qmlir.devices.model.layer import Layer, PlacedLayer, Tensor
from qmlir.devices.model.module import device_of
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.npu import HostOp, LayerOp
from qmlir.errors import QmlirError, UnsupportedError
from qmlir.ir.arena import Item, place
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import main_function, signature_of
from qmlir.plugins import Plugin

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """A part of the network that the host computes.

    name     its name
    inputs   tensors that it reads
    written  tensors that it writes
    """

    name: str
    inputs: tuple[Tensor, ...]
    written: tuple[Tensor, ...]


@dataclass(frozen=True)
class LayerProgram:
    """A network in layers of a device, with places in the external memory that holds its tensors.

    memory     the id of that memory
    size       bytes of it, from its first one on, that the layers need
    steps      the layers, and between them what the host computes, in the order in which they run
    addresses  of each tensor, by its name
    sizes      bytes of each input and output of the network and of the host's calls, by its name
    constants  address → bytes that lie there before the first layer
    inputs     the network's inputs
    outputs    the network's outputs
    words      of each layer, in the device's own words
    """

    memory: str
    size: int
    steps: Sequence[PlacedLayer | Call]
    addresses: Mapping[str, int]
    sizes: Mapping[str, int]
    constants: Mapping[int, bytes]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    words: Words

    @property
    def layers(self) -> list[PlacedLayer]:
        """The layers alone."""
        return [step for step in self.steps if isinstance(step, PlacedLayer)]

    @property
    def image(self) -> Image:
        """What lies in the memory before the first layer, where inputs and outputs lie, and the steps."""

        def placed(tensor: Tensor) -> TensorPlace:
            at, size = self.addresses[tensor.name], self.sizes[tensor.name]
            return TensorPlace(tensor.name, self.memory, at, size, tensor.shape, tensor.bits)

        own, steps = iter(self.words.commands), list[dict[str, Any]]()
        for step in self.steps:
            if isinstance(step, PlacedLayer):
                steps.append({"layer": step.layer.name, "words": len(next(own))})
            else:
                sides = (("inputs", step.inputs), ("outputs", step.written))
                steps.append({"host": step.name} | {side: [asdict(placed(t)) for t in some] for side, some in sides})
        constants = {self.memory: self.constants} if self.constants else {}
        return Image(constants, [placed(t) for t in self.inputs], [placed(t) for t in self.outputs], steps)

    def encoded(self, name: str) -> EncodedNetwork:
        """The network in words, from which an encoder writes files of its own forms; `name` is an identifier of C."""
        sources = {0: [(self.addresses[tensor.name], tensor) for tensor in self.inputs]}
        calls, number = dict[int, list[str]](), 0
        for step in self.steps:
            if isinstance(step, Call):
                placed = [(self.addresses[tensor.name], tensor) for tensor in step.written]
                sources.setdefault(number, []).extend(placed)
                calls.setdefault(number, []).append(step.name)
            else:
                number += 1
        return EncodedNetwork(name, self.layers, self.words.commands, self.constants, sources, calls)


def own_files(program: LayerProgram, device: Device, form: str, name: str) -> dict[str, str]:
    """The files of a form that the device's encoder writes: names behind a folder, empty for a file alone, and texts.

    Raises:
        PluginError: The encoder raises.
    """
    found = layer_encoder_of(device)
    assert found is not None, "a program of layers has an encoder"
    encoder, plugin = found
    try:
        return dict(encoder.files(form, program.encoded(name)))
    except QmlirError:
        raise
    except Exception as error:  # the code of a package may raise anything
        raise plugin.fault(f"must write the form {form}", got=described(error)) from error


def renames(op: LayerOp) -> bool:
    """Whether the result of a layer is its input under another name, for which there are no words."""
    first = next(each for each in op.operations() if not isinstance(each, ConstantOp))
    return keeps_images(first) and not isinstance(first.operands[0].owner, ConstantOp)


def layers_listing(program: LayerProgram) -> str:
    """The layers as text, a line each, with addresses; and as comments their words, tensors and constants."""
    digits, lines = program.words.bits // 4, [f"; {program.size} bytes of {program.memory}"]
    for kind, tensors in (("input", program.inputs), ("output", program.outputs)):
        lines += [f"; {kind} {tensor.name} at {program.addresses[tensor.name]:#x}" for tensor in tensors]
    lines += [f"; {len(data)} bytes of constants at {address:#x}" for address, data in program.constants.items()]
    own = iter(program.words.commands)
    for step in program.steps:
        if isinstance(step, Call):
            lines.append(f"; the host computes {step.name}")
            continue
        shown = " ".join(f"{word:0{digits}x}" for word in next(own))
        places = ", ".join(f"{address:#x}" for address in step.inputs)
        lines.append(f"{step.layer}; {places} -> {step.output:#x}; words {shown}".rstrip())
    return "\n".join(lines) + "\n"


def layer_program(module: ModuleOp) -> LayerProgram | None:
    """The layers of a module on the level npu.layer; None if its device has no encoder of layers.

    Raises:
        UnsupportedError: The encoder refuses a layer, or what it needs does not fit the memory.
        PluginError: The encoder raises, or answers with something else than is asked for.
    """
    device = device_of(module)
    if (found := layer_encoder_of(device)) is None:
        return None
    encoder, plugin = found
    network = _Network(module, device)
    for step in network.steps:
        if isinstance(step, Layer) and (reason := layer_refusal(step, device)) is not None:
            raise UnsupportedError(reason, where=f"layer {step.name}")
    plan = _Plan(network, encoder, plugin, Engines.of(device).external)
    layers, listed = plan.layers, [str(layer.layer) for layer in plan.layers]
    words = checked_words(encoder.encode, layers, encoder.word_bits, listed, plugin, "layer")
    numbered, order = iter(layers), list[PlacedLayer | Call]()
    order += [next(numbered) if isinstance(step, Layer) else step for step in network.steps]
    return LayerProgram(
        plan.memory.id, plan.end, order, plan.addresses, plan.sizes, plan.contents, network.inputs, network.outputs,
        words,
    )  # fmt: skip


class _Network:
    """The steps of a network: layers as data and calls of the host, and its tensors, each with a name of its own."""

    def __init__(self, module: ModuleOp, device: Device):
        self.steps: list[Layer | Call] = []
        self.outputs: list[Tensor] = []
        self._device, self._names, self._taken = device, dict[SSAValue, str](), set[str]()
        function = main_function(module)
        specs = signature_of(function).flat().inputs
        for value, spec in zip(function.body.block.args, specs, strict=True):
            self._name(value, spec.name)
        self.inputs = [self._tensor(value) for value in function.body.block.args]
        for op in function.body.block.ops:
            match op:
                case LayerOp():
                    self._layer(op)
                case HostOp():
                    for value, inner in zip(op.outputs, op.yielded, strict=True):
                        self._name(value, tensor_name(inner))
                    tensors = (tuple(map(self._tensor, values)) for values in (op.inputs, op.outputs))
                    self.steps.append(Call(op.label.data, *tensors))
                case func.ReturnOp():
                    self.outputs = [self._tensor(value) for value in op.operands]
                case _:
                    pass

    def _layer(self, op: LayerOp) -> None:
        """Adds a layer, unless its result is its input under another name."""
        for argument, value in zip(op.block.args, op.inputs, strict=True):
            self._names[argument] = self._name(value)
        operations = [each for each in op.operations() if not isinstance(each, ConstantOp)]
        first, result = operations[0], op.outputs[0]
        if renames(op):
            self._names[result] = self._name(first.operands[0])
            return
        self._names[operations[-1].results[0]] = self._name(result, tensor_name(op.yielded[0]))
        kind = kind_of(first)
        if kind is None:
            raise UnsupportedError.at(first.name, op.label.data, "must be an operation that devices compute")
        self.steps.append(layer_of(operations, op.label.data, kind, self._name, self._device))

    def _tensor(self, value: SSAValue) -> Tensor:
        return tensor_of(value, self._name(value))

    def _name(self, value: SSAValue, wanted: str = "") -> str:
        """The name of a value's tensor, which no other tensor has."""
        if value not in self._names:
            plain = wanted or tensor_name(value) or "tensor"
            name, n = plain, 1
            while name in self._taken:
                name, n = f"{plain}.{n}", n + 1
            self._taken.add(name)
            self._names[value] = name
        return self._names[value]


class _Plan:
    """Places of tensors, constants and scratch memory: the former and the latter share bytes where they can."""

    def __init__(self, network: _Network, encoder: LayerEncoder, plugin: Plugin, memory: Memory):
        self.network, self.encoder, self.plugin, self.memory = network, encoder, plugin, memory
        self.addresses: dict[str, int] = {}
        self.contents: dict[int, bytes] = {}
        calls = [(*step.inputs, *step.written) for step in network.steps if isinstance(step, Call)]
        known = chain(network.inputs, network.outputs, *calls)
        self.sizes = {tensor.name: self._size(tensor) for tensor in known}
        self.scratch: list[int] = []
        self.constants: list[tuple[int, ...]] = []
        self.end = self._share()
        self._put_constants()
        if self.end > memory.addressable:
            need = f"layers must fit the {memory.addressable} bytes of the memory {memory.id}"
            raise UnsupportedError(need, f"{self.end} bytes by the encoder {plugin.name}", where="the network")

    @property
    def layers(self) -> list[PlacedLayer]:
        """The layers with their places."""
        layers = [step for step in self.network.steps if isinstance(step, Layer)]
        return [
            PlacedLayer(
                n, layer, tuple(self.addresses[t.name] for t in layer.inputs), self.addresses[layer.output.name],
                self.constants[n], self.scratch[n],
            )
            for n, layer in enumerate(layers)
        ]  # fmt: skip

    def _share(self) -> int:
        """Places tensors and scratch memory by their lives; returns the bytes that they take."""
        steps, lives = self.network.steps, dict[str, list[int]]()
        tensors: dict[str, Tensor] = {}
        touched = [(-1, self.network.inputs), (len(steps), self.network.outputs)]
        touched += [(n, (*step.inputs, *step.written)) for n, step in enumerate(steps)]
        for n, some in touched:
            for tensor in some:
                tensors.setdefault(tensor.name, tensor)
                lives.setdefault(tensor.name, []).append(n)
        shared = {name: tensor for name, tensor in tensors.items() if tensor.contents is None}
        items = [
            Item(name, self._aligned(self._size(tensor)), min(lives[name]), max(lives[name]))
            for name, tensor in shared.items()
        ]
        layers = [(n, step) for n, step in enumerate(steps) if isinstance(step, Layer)]
        items += [Item("scratch", self._aligned(self._scratch(layer)), n, n) for n, layer in layers]
        arena = place(items)
        self.addresses |= dict(zip(shared, arena.offsets, strict=False))
        self.scratch = list(arena.offsets[len(shared) :])
        self.end = arena.size
        for tensor in tensors.values():
            if tensor.contents is not None:
                self.addresses[tensor.name] = self._put(self._contents(tensor))
        return self.end

    def _put_constants(self) -> None:
        for layer in (step for step in self.network.steps if isinstance(step, Layer)):
            self.constants.append(tuple(self._put(data) for data in self._constants(layer)))

    def _put(self, data: bytes) -> int:
        """Places bytes behind everything else; returns their address."""
        at = self.end
        self.contents[at] = data
        self.end += self._aligned(len(data))
        return at

    def _aligned(self, size: int) -> int:
        return self.memory.aligned(size)

    # -- what the encoder says, which is the code of a package and may say anything

    def _size(self, tensor: Tensor) -> int:
        return self._count(partial(self.encoder.size, tensor), f"the bytes of the tensor {tensor.name}")

    def _scratch(self, layer: Layer) -> int:
        return self._count(partial(self.encoder.scratch, layer), f"the bytes of scratch memory of layer {layer.name}")

    def _count(self, ask: Callable[[], object], what: str) -> int:
        found = self._asked(ask, what)
        if not isinstance(found, int) or found < 0:
            raise self.plugin.fault(f"must say {what}, 0 or more", got=repr(found))
        return found

    def _contents(self, tensor: Tensor) -> bytes:
        what = f"the contents of the tensor {tensor.name}"
        found, size = self._asked(partial(self.encoder.contents, tensor), what), self._size(tensor)
        if len(data := self._bytes(found, what)) != size:
            raise self.plugin.fault(f"must give {what} in {size} bytes", got=f"{len(data)} bytes")
        return data

    def _constants(self, layer: Layer) -> list[bytes]:
        what = f"the constants of layer {layer.name}"
        return [self._bytes(data, what) for data in self._asked(lambda: list(self.encoder.constants(layer)), what)]

    def _bytes(self, given: object, what: str) -> bytes:
        if not isinstance(given, bytes):
            raise self.plugin.fault(f"must give {what} as bytes", got=f"a value of type {type(given).__name__}")
        return given

    def _asked(self, ask: Callable[[], T], what: str) -> T:
        try:
            return ask()
        except Exception as error:
            raise self.plugin.fault(f"must give {what}", got=described(error)) from error
