"""Networks on functional models of hardware, with their host: each layer from its words and the memory alone.

device = device_of("gemmini")
network = Network.of(quantized, device)
run = network.run(image)
run.differing     # layer → bytes that differ from the reference's
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import qmlir
from qmlir import stages
from qmlir.backends.hardware.gemmini import encoder as gemmini
from qmlir.backends.hardware.gemmini.machine import Machine
from qmlir.backends.hardware.nvdla import words as nvdla
from qmlir.backends.hardware.nvdla.layouts import cube_bytes, from_surfaces, to_surfaces
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.vta.driver import Driver
from qmlir.backends.layered import Call, LayerProgram, layer_program, renames
from qmlir.compiler import main_function, to_integers
from qmlir.devices import Device, text_of
from qmlir.devices.model.layer import PlacedLayer, Tensor
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.npu import HostOp, LayerOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.signature import TensorSpec
from qmlir.numerics import Array

ENCODERS = {"nvdla-small": "nvdla", "gemmini": "gemmini", "vta": "vta"}
"""Device file → the encoder of its own words."""


def device_of(name: str, **changes: object) -> Device:
    """A device with its encoder, and other keys changed: `quant__bias__type="i32"`."""
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    return qmlir.load_device(name).with_({"encoder": ENCODERS[name], **keys})


# ---------------------------------------------------------------------------------------------------------------
# Functional models


class Board(ABC):
    """A functional model with the memory of a network; constants lie there, and noise or 0 everywhere else."""

    def __init__(self, program: LayerProgram):
        self.program = program

    @abstractmethod
    def put(self, tensor: Tensor, values: Array) -> None:
        """Writes a tensor's int8 values to its place."""

    @abstractmethod
    def get(self, tensor: Tensor) -> Array:
        """Reads a tensor's int8 values from its place."""

    @abstractmethod
    def run(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        """Does what the words of a layer say."""


class NvdlaBoard(Board):
    """NVDLA's model."""

    def __init__(self, program: LayerProgram):
        super().__init__(program)
        self.memory = Memory((nvdla.BASE + address, data) for address, data in program.constants.items())
        self.device = Nvdla(self.memory)

    def put(self, tensor: Tensor, values: Array) -> None:
        image = values.reshape(tensor.shape[1:]).astype(np.int8)
        self.memory.write(nvdla.BASE + self.program.addresses[tensor.name], to_surfaces(image))

    def get(self, tensor: Tensor) -> Array:
        at, shape = nvdla.BASE + self.program.addresses[tensor.name], tensor.shape[1:]
        return from_surfaces(self.memory.read(at, cube_bytes(*shape)).tobytes(), *shape)

    def run(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        self.device.execute(map(nvdla.step_of, words))


class GemminiBoard(Board):
    """Gemmini's model; what no constant fills is noise."""

    def __init__(self, program: LayerProgram):
        super().__init__(program)
        size = gemmini.BASE + program.size
        self.memory: Array = np.random.default_rng(5).integers(0, 256, size, np.uint8)
        for address, data in program.constants.items():
            self.memory[gemmini.BASE + address :][: len(data)] = np.frombuffer(data, np.uint8)
        self.machine = Machine(self.memory)

    def put(self, tensor: Tensor, values: Array) -> None:
        self._held(tensor)[:] = values.astype(np.int8).reshape(-1)

    def get(self, tensor: Tensor) -> Array:
        return self._held(tensor).reshape(tensor.shape).copy()

    def run(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        self.machine.run_words(words)

    def _held(self, tensor: Tensor) -> Array:
        at = gemmini.BASE + self.program.addresses[tensor.name]
        return self.memory[at : at + tensor.bytes].view(np.int8)


class VtaBoard(Board):
    """VTA's model, whose driver reads the streams from the memory; its buffers hold noise."""

    def __init__(self, program: LayerProgram):
        super().__init__(program)
        self.driver = Driver(program)
        rng = np.random.default_rng(5)
        for held in self.driver.machine.buffers.values():
            held.reshape(-1).view(np.uint8)[:] = rng.integers(0, 256, held.nbytes)

    def put(self, tensor: Tensor, values: Array) -> None:
        self.driver.put(tensor, values)

    def get(self, tensor: Tensor) -> Array:
        return self.driver.get(tensor)

    def run(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        self.driver.run(placed)


BOARDS: Mapping[str, type[Board]] = {"nvdla": NvdlaBoard, "gemmini": GemminiBoard, "vta": VtaBoard}
"""Encoder → the model that its words run on."""


# ---------------------------------------------------------------------------------------------------------------
# Networks


def integers(spec: TensorSpec, samples: Iterable[Array], count: int) -> Iterator[Array]:
    """Yields inputs of a network whose ends are integers: samples as it stores them, and at last seeded noise."""
    assert spec.quantization is not None
    (scale, zero_point), ends = spec.quantization, np.iinfo(spec.dtype)
    for sample in islice(samples, count - 1):
        stored = np.rint(sample.reshape(spec.shape) / scale) + zero_point
        yield stored.clip(ends.min, ends.max).astype(spec.dtype)
    yield np.random.default_rng(0).integers(ends.min, ends.max, spec.shape, spec.dtype, endpoint=True)


@dataclass(frozen=True)
class Network:
    """A quantized network in layers of a device, what the encoder makes of them, and the model that they run on."""

    module: ModuleOp
    program: LayerProgram
    model: type[Board]

    @classmethod
    def of(cls, quantized: ModuleOp, device: Device) -> "Network":
        """The layers of a quantized network."""
        integers = to_integers(quantized, device)
        module = qmlir.Pipeline(*stages.to_layers(text_of(device)))(integers)
        program = layer_program(module)
        assert program is not None
        assert device.encoder is not None
        return cls(module, program, BOARDS[device.encoder])

    @property
    def calls(self) -> list[HostOp]:
        """What the host computes."""
        return [op for op in main_function(self.module).body.block.ops if isinstance(op, HostOp)]

    def run(self, *inputs: Array, board: Callable[[LayerProgram], Board] | None = None) -> "Run":
        """Runs the network.

        Args:
            inputs: Those of the network.
            board: Makes a board other than the plain one, which sees each layer as it is computed.
        """
        return Run(self, inputs, (board or self.model)(self.program))


class Run:
    """A run of a network: the differing bytes of each layer, by its number and name, and the network's outputs.

    What the reference computes of the same inputs is compared with the layer's tensor in memory as soon as its words
    have run. The host reads its operands from there.
    """

    def __init__(self, network: Network, inputs: Sequence[Array], board: Board):
        self.board, self._program = board, network.program
        self.differing: dict[str, int] = {}
        self.outputs: list[Array] = []
        self._host = dict[str, Array]()
        body = main_function(network.module).body.block
        self._expected: dict[SSAValue, Array] = dict(zip(body.args, inputs, strict=True))
        for tensor, array in zip(self._program.inputs, inputs, strict=True):
            self._put(tensor, array)
        steps, words = iter(self._program.steps), iter(self._program.words.commands)
        for op in body.ops:
            self._step(op, steps, words)
        assert next(steps, None) is None

    def _step(self, op: Any, steps: Iterator[Any], words: Iterator[Sequence[int]]) -> None:
        match op:
            case ConstantOp():
                (self._expected[op.y],) = op.evaluate()
            case HostOp():
                step = next(steps)
                assert isinstance(step, Call)
                given = [self._get(tensor, value) for tensor, value in zip(step.inputs, op.inputs, strict=True)]
                for tensor, array in zip(step.written, op.evaluate(*given), strict=True):
                    self._put(tensor, array)
                self._evaluate(op)
            case LayerOp():
                self._evaluate(op)
                if renames(op):
                    return
                placed = next(steps)
                assert isinstance(placed, PlacedLayer)
                self.board.run(placed, next(words))
                got, expected = self.board.get(placed.layer.output), self._expected[op.outputs[0]]
                at = f"{len(self.differing)} {placed.layer.name}"
                self.differing[at] = int((got.reshape(-1) != expected.reshape(-1)).sum())
            case func.ReturnOp():
                tensors = zip(self._program.outputs, op.operands, strict=True)
                self.outputs = [self._get(tensor, value) for tensor, value in tensors]
            case _:
                pass

    def _evaluate(self, op: HostOp | LayerOp) -> None:
        found = op.evaluate(*(self._expected[value] for value in op.inputs))
        self._expected.update(zip(op.outputs, found, strict=True))

    def _put(self, tensor: Tensor, array: Array) -> None:
        if tensor.bits != 8 or tensor.shape[0] != 1:
            self._host[tensor.name] = array  # no layer reads it
        else:
            self.board.put(tensor, array)

    def _get(self, tensor: Tensor, value: SSAValue) -> Array:
        if tensor.name in self._host:
            return self._host[tensor.name]
        if tensor.contents is not None:
            return self._expected[value]
        return self.board.get(tensor).reshape(shape_of(value))
