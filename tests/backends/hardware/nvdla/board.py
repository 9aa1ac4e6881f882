"""A network on NVDLA's functional model, with its host: each layer is run from its words and the memory alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import qmlir
from qmlir import stages
from qmlir.backends.hardware.nvdla.encoder import BASE, step_of
from qmlir.backends.hardware.nvdla.layouts import cube_bytes, from_surfaces, to_surfaces
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.layered import Call, LayerProgram, layer_program
from qmlir.compiler import main_function, to_integers
from qmlir.devices import Device, text_of
from qmlir.devices.model.layer import PlacedLayer, Tensor
from qmlir.dialects.npu import HostOp, LayerOp

Array = np.ndarray[Any, np.dtype[Any]]

Watch = Callable[[PlacedLayer, Sequence[int], Nvdla], None]
"""Computes a layer from its words on the functional model."""


def device(**changes: object) -> Device:
    """NVDLA small with its encoder, and other keys changed: `quant__bias__type="i32"`."""
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    return qmlir.load_device("nvdla-small").with_({"encoder": "nvdla", **keys})


@dataclass(frozen=True)
class Network:
    """A quantized network, its layers on the device, and what the encoder makes of them."""

    module: ModuleOp
    program: LayerProgram

    @classmethod
    def of(cls, quantized: ModuleOp, device: Device) -> "Network":
        """The layers of a quantized network."""
        integers = to_integers(quantized, device)
        module = qmlir.Pipeline(*stages.to_layers(text_of(device)))(integers)
        program = layer_program(module)
        assert program is not None
        return cls(module, program)

    def run(self, *inputs: Array, watch: "Watch | None" = None) -> "Run":
        """Runs the network on the functional model.

        Args:
            inputs: Those of the network.
            watch: Computes each layer from its words in place of the model alone, and sees what is computed.
        """
        return Run(self, inputs, watch)


class Run:
    """A run of a network: the differing bytes of each layer, and the network's outputs."""

    def __init__(self, network: Network, inputs: tuple[Array, ...], watch: "Watch | None" = None):
        self._watch = watch
        self._program = network.program
        self._memory, self._host = Memory(), dict[str, Array]()
        for address, data in self._program.constants.items():
            self._memory.write(BASE + address, data)
        self.differing: dict[str, int] = {}
        self.outputs: list[Array] = []
        self._device, function = Nvdla(self._memory), main_function(network.module)
        self._expected: dict[SSAValue, Array] = dict(zip(function.body.block.args, inputs, strict=True))
        for tensor, array in zip(self._program.inputs, inputs, strict=True):
            self._put(tensor, array)
        steps, words = iter(self._program.steps), iter(self._program.words.commands)
        for op in function.body.block.ops:
            self._step(op, steps, words)

    def _step(self, op: Any, steps: Iterator[Any], words: Iterator[Any]) -> None:
        match op:
            case HostOp():
                step = next(steps)
                assert isinstance(step, Call)
                given = [self._get(t, v) for t, v in zip(step.inputs, op.inputs, strict=True)]
                for tensor, array in zip(step.written, op.evaluate(*given), strict=True):
                    self._put(tensor, array)
                self._evaluate(op)
            case LayerOp():
                self._evaluate(op)
                name = self._program.layers[len(self.differing)].layer if self._more() else None
                if name is None or name.name != op.label.data:
                    return  # a tensor under another name
                placed = next(steps)
                if self._watch is None:
                    self._device.execute(map(step_of, next(words)))
                else:
                    self._watch(placed, next(words), self._device)
                got, expected = self._get(placed.layer.output), self._expected[op.outputs[0]]
                at = f"{len(self.differing)} {placed.layer.name}"
                self.differing[at] = int((got.reshape(-1) != expected.reshape(-1)).sum())
            case func.ReturnOp():
                tensors = zip(self._program.outputs, op.operands, strict=True)
                self.outputs = [self._get(tensor, value) for tensor, value in tensors]
            case _:
                pass

    def _more(self) -> bool:
        return len(self.differing) < len(self._program.layers)

    def _evaluate(self, op: HostOp | LayerOp) -> None:
        found = op.evaluate(*(self._expected[value] for value in op.inputs))
        self._expected.update(zip(op.outputs, found, strict=True))

    def _put(self, tensor: Tensor, array: Array) -> None:
        if tensor.bits != 8 or tensor.shape[0] != 1:
            self._host[tensor.name] = array
        else:
            image = array.reshape(tensor.shape[1:]).astype(np.int8)
            self._memory.write(BASE + self._program.addresses[tensor.name], to_surfaces(image))

    def _get(self, tensor: Tensor, value: SSAValue | None = None) -> Array:
        if tensor.name in self._host:
            return self._host[tensor.name]
        size = cube_bytes(*tensor.shape[1:])
        data = self._memory.read(BASE + self._program.addresses[tensor.name], size)
        image = from_surfaces(data.tobytes(), *tensor.shape[1:])
        return image if value is None else image.reshape(value.type.get_shape())  # type: ignore[attr-defined]
