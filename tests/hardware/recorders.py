"""Functional models that write down what they run: programs of layers, memory before, and the bytes of results."""

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from qmlir.backends.hardware.gemmini.encoder import BASE as GEMMINI_BASE
from qmlir.backends.hardware.nvdla.layouts import ATOM
from qmlir.backends.hardware.nvdla.replay import job_traces
from qmlir.backends.hardware.nvdla.words import BASE as NVDLA_BASE
from qmlir.backends.hardware.nvdla.words import step_of
from qmlir.backends.hardware.vta.driver import INSTRUCTION
from qmlir.backends.hardware.vta.layout import LANES
from qmlir.backends.layered import LayerProgram
from qmlir.devices.model.encoder import LayerEncoder
from qmlir.devices.model.layer import PlacedLayer, Tensor
from qmlir.numerics import Array
from tests.backends.hardware.boards import Board, GemminiBoard, NvdlaBoard, VtaBoard


class Part(NamedTuple):
    """Bytes of memory at an address, before a step of a program."""

    program: int
    step: int
    address: int
    data: bytes


@dataclass
class Programs:
    """Programs as arrays.

    bits  of the numbers of a step
    """

    bits: int = 32
    names: list[str] = field(default_factory=list[str])
    metas: list[str] = field(default_factory=list[str])
    steps: list[list[tuple[int, ...]]] = field(default_factory=list[list[tuple[int, ...]]])
    before: list[Part] = field(default_factory=list[Part])
    after: list[Part] = field(default_factory=list[Part])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of the file."""
        rows = np.array([row for steps in self.steps for row in steps], f"u{self.bits // 8}")
        found: dict[str, npt.NDArray[Any]] = {
            "name": np.array(self.names), "meta": np.array(self.metas),
            "op": rows, "op_at": np.cumsum([0, *map(len, self.steps)]),
        }  # fmt: skip
        for name, parts in (("seg", self.before), ("out", self.after)):
            found[f"{name}_program"] = np.array([part.program for part in parts], np.int32)
            found[f"{name}_op"] = np.array([part.step for part in parts], np.int32)
            found[f"{name}_addr"] = np.array([part.address for part in parts], np.uint32)
            found[f"{name}_at"] = np.cumsum([0, *(len(part.data) for part in parts)])
            found[name] = np.frombuffer(b"".join(part.data for part in parts), np.uint8)
        return found


@dataclass(frozen=True)
class Recording:
    """What a recorder writes.

    found    gets the programs
    encoder  that of the device
    prefix   what the names of programs begin with
    alone    whether each layer is a program of its own, as it begins after a reset
    traces   where to write NVDLA's jobs as traces of NVIDIA's form; None for none
    """

    found: Programs
    encoder: LayerEncoder
    prefix: str
    alone: bool = True
    traces: Path | None = None


class Recorder(Board):
    """A functional model that adds a program for each layer that it computes, or one for all of them.

    base   what is added to addresses of tensors and constants
    lanes  channels of a block of a tensor; 0 where channels lie last
    """

    base: ClassVar[int] = 0
    lanes: ClassVar[int] = 0

    def __init__(self, program: LayerProgram, board: Board, recording: Recording):
        super().__init__(program)
        self._board, self._recording = board, recording
        self._put: list[tuple[int, int]] = []  # what the host has written since the last layer: address and bytes

    @abstractmethod
    def _read(self, address: int, size: int) -> bytes:
        """Bytes of the memory."""

    @abstractmethod
    def _steps(self, placed: PlacedLayer, words: Sequence[int]) -> list[tuple[int, ...]]:
        """What a driver does for a layer."""

    def _code(self, placed: PlacedLayer) -> tuple[int, int] | None:
        """Address and bytes of what the device itself reads of a layer's words, where it does."""

    def put(self, tensor: Tensor, values: Array) -> None:
        self._board.put(tensor, values)
        self._put.append(self._place(self.program.addresses[tensor.name], tensor))

    def get(self, tensor: Tensor) -> Array:
        return self._board.get(tensor)

    def run(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        found, constants, commands = self._recording.found, self.program.constants, words
        if self._recording.alone:
            (commands,) = self._recording.encoder.encode(iter([placed]))
            self._begin(f"{self._recording.prefix}_{placed.number:02}", layers := [placed])
            held, wanted = list(map(self._place, placed.inputs, placed.layer.inputs)), placed.constants
        else:
            first, layers = not placed.number, self.program.layers
            if first:
                self._begin(self._recording.prefix, layers)
            held, wanted, layers = [*self._put], tuple(constants) if first else (), layers if first else []
        self._put.clear()
        held += [(self.base + at, len(constants[at])) for at in wanted]
        held += [code for layer in layers if (code := self._code(layer)) is not None]
        number, own = len(found.steps) - 1, found.steps[-1]
        for at, size in dict.fromkeys(held):
            found.before.append(Part(number, len(own), at, self._read(at, size)))
        own += self._steps(placed, commands)
        self._compute(placed, words)
        at, size = self._place(placed.output, placed.layer.output)
        found.after.append(Part(number, len(own), at, self._read(at, size)))

    def _compute(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        self._board.run(placed, words)

    def _place(self, address: int, tensor: Tensor) -> tuple[int, int]:
        """Address and bytes of a tensor."""
        return self.base + address, self._recording.encoder.size(tensor)

    def _begin(self, name: str, layers: Sequence[PlacedLayer]) -> None:
        """Begins a program of layers."""
        about = list[dict[str, Any]]()
        for each in layers:
            _, *shape = each.layer.output.shape
            about.append({"layer": each.layer.name, "kind": each.layer.kind, "out": shape})
            about[-1]["lanes"] = self.lanes or shape[-1]
        self._recording.found.names.append(name)
        self._recording.found.metas.append(json.dumps({"layers": about}))
        self._recording.found.steps.append([])


class NvdlaRecorder(Recorder):
    """NVDLA's model. A step writes or reads a register, or waits."""

    base, lanes = NVDLA_BASE, ATOM

    def __init__(self, program: LayerProgram, recording: Recording):
        self._model = NvdlaBoard(program)
        super().__init__(program, self._model, recording)

    def _read(self, address: int, size: int) -> bytes:
        return self._model.memory.read(address, size).tobytes()

    def _steps(self, placed: PlacedLayer, words: Sequence[int]) -> list[tuple[int, ...]]:
        return [(int(step.kind), step.address, step.value) for step in map(step_of, words)]

    def _compute(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        if (folder := self._recording.traces) is None:
            super()._compute(placed, words)
            return
        for trace in job_traces(words, self._model.device, f"{placed.number:02}"):
            trace.write(folder)


class GemminiRecorder(Recorder):
    """Gemmini's model. A step is a command."""

    base = GEMMINI_BASE

    def __init__(self, program: LayerProgram, recording: Recording):
        self._model = GemminiBoard(program)
        super().__init__(program, self._model, recording)

    def _read(self, address: int, size: int) -> bytes:
        return self._model.memory[address : address + size].tobytes()

    def _steps(self, placed: PlacedLayer, words: Sequence[int]) -> list[tuple[int, ...]]:
        return list(zip(words[::3], words[1::3], words[2::3], strict=True))


class VtaRecorder(Recorder):
    """VTA's model. A step runs a stream, which lies in memory."""

    lanes = LANES

    def __init__(self, program: LayerProgram, recording: Recording):
        self._model = VtaBoard(program)
        super().__init__(program, self._model, recording)

    def _read(self, address: int, size: int) -> bytes:
        return self._model.driver.machine.memory[address : address + size].tobytes()

    def _steps(self, placed: PlacedLayer, words: Sequence[int]) -> list[tuple[int, ...]]:
        return [self._model.driver.streams[placed.number]]

    def _code(self, placed: PlacedLayer) -> tuple[int, int] | None:
        address, instructions = self._model.driver.streams[placed.number]
        return address, INSTRUCTION * instructions


RECORDERS = {"nvdla-small": NvdlaRecorder, "gemmini": GemminiRecorder, "vta": VtaRecorder}
"""Device file → what records its programs."""
