"""Programs of networks for NVDLA as plain files, and what a model or a board made of them against what was expected.

    python -m tests.hardware.replay FOLDER                    # writes FOLDER/NETWORK.npz, and traces below it
    python -m tests.hardware.replay --compare EXPECTED GOT    # two such files: the first difference of each layer

A file has the arrays of shared `conformance/nvdla/programs.npz` without cycles: a program for each layer of each input,
which begins after a reset, memory before, and the bytes of the layer's result after it. It is what the functional model
gives, which the reference has confirmed.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import qmlir
from docs.measurements.accuracy import shared_file
from qmlir.backends.hardware.nvdla.encoder import BASE, NVDLAEncoder, step_of
from qmlir.backends.hardware.nvdla.layouts import cube_bytes
from qmlir.backends.hardware.nvdla.replay import job_traces
from qmlir.backends.layered import LayerProgram
from qmlir.devices.model.layer import PlacedLayer
from tests.backends.hardware.boards import Network, NvdlaBoard, device_of
from tests.models.networks import NETWORKS

INPUTS = {"mnist-8": 20, "kws": 3, "resnet8": 3}
"""The networks, and how many inputs of each are run."""


@dataclass
class Programs:
    """Programs as arrays."""

    names: list[str] = field(default_factory=list[str])
    metas: list[str] = field(default_factory=list[str])
    steps: list[list[tuple[int, int, int]]] = field(default_factory=list[list[tuple[int, int, int]]])
    before: list[tuple[int, int, bytes]] = field(default_factory=list[tuple[int, int, bytes]])
    after: list[tuple[int, int, bytes]] = field(default_factory=list[tuple[int, int, bytes]])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of the file."""
        rows = np.array([row for steps in self.steps for row in steps], np.uint32)
        found: dict[str, npt.NDArray[Any]] = {
            "name": np.array(self.names), "meta": np.array(self.metas),
            "op": rows, "op_at": np.cumsum([0, *map(len, self.steps)]),
        }  # fmt: skip
        for name, parts in (("seg", self.before), ("out", self.after)):
            found[f"{name}_program"] = np.array([program for program, _, _ in parts], np.int32)
            found[f"{name}_addr"] = np.array([address for _, address, _ in parts], np.uint32)
            found[f"{name}_at"] = np.cumsum([0, *(len(data) for _, _, data in parts)])
            found[name] = np.frombuffer(b"".join(data for _, _, data in parts), np.uint8)
        return found


class Recorder(NvdlaBoard):
    """The functional model, which adds a program for each layer that it computes.

    Args:
        program: The network in layers.
        found: Gets the programs.
        encoder: Encodes each layer alone, as it begins after a reset.
        prefix: What the names of programs begin with.
        traces: Where to write the jobs of layers as traces of NVIDIA's form; None for none.
    """

    def __init__(self, program: LayerProgram, found: Programs, encoder: NVDLAEncoder, prefix: str, traces: Path | None):
        super().__init__(program)
        self._found, self._encoder, self._prefix, self._traces = found, encoder, prefix, traces

    def run(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        layer, found, number = placed.layer, self._found, len(self._found.names)
        (alone,) = self._encoder.encode(iter([placed]))
        found.names.append(f"{self._prefix}_{placed.number:02}")
        found.metas.append(json.dumps({"layer": layer.name, "kind": layer.kind, "out": layer.output.shape[1:]}))
        found.steps.append([(int(step.kind), step.address, step.value) for step in map(step_of, alone)])
        constants = self.program.constants
        read = [(at, cube_bytes(*t.shape[1:])) for at, t in zip(placed.inputs, layer.inputs, strict=True)]
        read += [(at, len(constants[at])) for at in placed.constants]
        for at, size in dict.fromkeys(read):
            found.before.append((number, BASE + at, self.memory.read(BASE + at, size).tobytes()))
        if self._traces is None:
            super().run(placed, words)
        else:
            for trace in job_traces(placed, constants, words, self.device, f"{placed.number:02}"):
                trace.write(self._traces)
        at, size = BASE + placed.output, cube_bytes(*layer.output.shape[1:])
        found.after.append((number, at, self.memory.read(at, size).tobytes()))


def programs_of(name: str, find: Callable[[str], Path], inputs: int, traces: Path | None = None) -> Programs:
    """The programs of a network, one for each layer of each input.

    Args:
        name: A network of tests/models/networks.py.
        find: Gives the path of a file of shared data.
        inputs: How many inputs are run.
        traces: Where to write the jobs of the first input as traces of NVIDIA's form; None for none.

    Raises:
        AssertionError: A byte that the functional model gives is not the reference's.
    """
    network, small, found = NETWORKS[name], device_of("nvdla-small"), Programs()
    samples, _ = network.load(find)
    order = np.random.default_rng(0).permutation(len(samples))
    profiled = [samples[n] for n in order[: network.profiled]]
    quantized = qmlir.quantize(find(network.file), data=profiled, target=small, measure=False)
    layers, encoder = Network.of(quantized, small), NVDLAEncoder(small)
    for number, sample in enumerate(samples[n] for n in order[-inputs:]):
        own = None if number else traces
        recorder = partial(Recorder, found=found, encoder=encoder, prefix=f"{name}_{number}", traces=own)
        run = layers.run(sample, board=recorder)
        assert set(run.differing.values()) == {0}, f"{name}: {run.differing}"
    return found


def differences(expected: Path, got: Path) -> list[str]:
    """What differs between two files of programs, a sentence for each layer."""
    with np.load(expected) as one, np.load(got) as two:
        theirs = {str(name): _result(two, n) for n, name in enumerate(two["name"])}
        found: list[str] = []
        for n, name in enumerate(one["name"]):
            own, other = _result(one, n), theirs.get(str(name))
            if other is None or len(own) != len(other):
                found.append(f"{name}: {len(own)} bytes expected, got {'none' if other is None else len(other)}")
            elif (wrong := np.flatnonzero(own != other)).size:
                rows, columns, _ = json.loads(str(one["meta"][n]))["out"]
                surface, rest = divmod(int(wrong[0]), rows * columns * 8)
                row, rest = divmod(rest, columns * 8)
                at = f"row {row}, column {rest // 8}, channel {surface * 8 + rest % 8}"
                bytes = f"{own[wrong[0]]:#04x} expected, got {other[wrong[0]]:#04x}"
                found.append(f"{name}: {wrong.size} of {len(own)} bytes differ, first at {at}: {bytes}")
    return found


def _result(file: Any, program: int) -> npt.NDArray[np.uint8]:
    """The bytes of the results of a program."""
    rows = np.flatnonzero(file["out_program"] == program)
    return np.concatenate([file["out"][file["out_at"][n] : file["out_at"][n + 1]] for n in rows])


def main(argv: Sequence[str] | None = None) -> int:
    """Writes or compares files of programs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hardware.replay", description="Programs of networks for NVDLA as files."
    )
    parser.add_argument("folder", type=Path, nargs="?", help="where to write")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("EXPECTED", "GOT"), help="compare two files")
    parser.add_argument("--network", choices=[*NETWORKS], action="append", help="one of these alone, with 3 inputs")
    arguments = parser.parse_args(argv)
    if arguments.compare:
        found = differences(*arguments.compare)
        sys.stdout.write(("\n".join(found) or "no byte differs") + "\n")
        return int(bool(found))
    if arguments.folder is None:
        parser.error("name a folder, or two files with --compare")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.network or INPUTS:
        path, count = arguments.folder / f"{name}.npz", INPUTS.get(name, 3)
        programs = programs_of(name, shared_file, count, arguments.folder / name)
        np.savez_compressed(path, allow_pickle=False, **programs.arrays())
        traces = f"traces of the first in {path.with_suffix('')}"
        sys.stdout.write(f"{path}: {len(programs.names)} programs of {count} inputs; {traces}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
