"""Programs of networks for NVDLA as plain files, and what a model or a board made of them against what was expected.

    python -m tests.hardware.replay FOLDER                    # writes FOLDER/NETWORK.npz, and traces below it
    python -m tests.hardware.replay --stream FOLDER           # one program for each input, as a driver runs it
    python -m tests.hardware.replay --compare EXPECTED GOT    # two such files: the first difference of each layer

A program begins after a reset: a layer of an input, or with --stream all layers of it. What it is expected to write is
what the functional model gives, and the reference of the network has confirmed. To confirm it on an RTL or a board, run
each program there, put what memory holds into a copy of the arrays `out`, save that as GOT, and compare.

The arrays of a file, for numpy.load; p is a program, and the part n of X is X[X_at[n]:X_at[n + 1]]:

    name, meta   of p: its name, and as JSON name, kind and shape (rows, columns, channels) of its layers
    op           rows (kind, address, value), by op_at. Kind 0 writes a register at a byte address. Kind 1 reads
                 it until it holds the value. Kind 2 waits until GLB.S_INTR_STATUS (0x100c) has had all bits of
                 the value, and clears each by writing it back
    seg          bytes to load, by seg_at: into program seg_program, at address seg_addr, before step seg_op. Those
                 of step 0 are memory before; later ones are what the host computes between layers
    out          bytes that memory must hold, by out_at: in program out_program, at address out_addr, before step
                 out_op, which is where a layer has ended; later layers may overwrite its result

Tensors lie in surfaces of 8 channels, a surface in rows; see docs/devices/nvdla.md.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import qmlir
from docs.measurements.accuracy import shared_file
from qmlir.backends.hardware.nvdla.encoder import BASE, NVDLAEncoder, step_of
from qmlir.backends.hardware.nvdla.layouts import cube_bytes
from qmlir.backends.hardware.nvdla.replay import job_traces
from qmlir.backends.layered import Call, LayerProgram
from qmlir.devices.model.layer import PlacedLayer
from tests.backends.hardware.boards import Network, NvdlaBoard, device_of
from tests.models.networks import NETWORKS

Bytes = npt.NDArray[np.uint8]

INPUTS = {"mnist-8": 20, "kws": 3, "resnet8": 3}
"""The networks, and how many inputs of each are run."""


class Part(NamedTuple):
    """Bytes of memory at an address, before a step of a program."""

    program: int
    step: int
    address: int
    data: bytes


@dataclass
class Programs:
    """Programs as arrays."""

    names: list[str] = field(default_factory=list[str])
    metas: list[str] = field(default_factory=list[str])
    steps: list[list[tuple[int, int, int]]] = field(default_factory=list[list[tuple[int, int, int]]])
    before: list["Part"] = field(default_factory=list["Part"])
    after: list["Part"] = field(default_factory=list["Part"])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of the file."""
        rows = np.array([row for steps in self.steps for row in steps], np.uint32)
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


class Recorder(NvdlaBoard):
    """The functional model, which adds a program for each layer that it computes, or one for all of them.

    Args:
        program: The network in layers.
        found: Gets the programs.
        encoder: Encodes each layer alone, as it begins after a reset; None for one program of all layers.
        prefix: What the names of programs begin with.
        traces: Where to write the jobs of layers as traces of NVIDIA's form; None for none.
    """

    def __init__(
        self, program: LayerProgram, found: Programs, encoder: NVDLAEncoder | None, prefix: str, traces: Path | None
    ):
        super().__init__(program)
        self._found, self._encoder, self._prefix, self._traces = found, encoder, prefix, traces

    def run(self, placed: PlacedLayer, words: Sequence[int]) -> None:
        found, constants, commands = self._found, self.program.constants, words
        read, wanted = self._inputs(placed), placed.constants
        if self._encoder is not None:
            (commands,) = self._encoder.encode(iter([placed]))
            self._begin(f"{self._prefix}_{placed.number:02}", [placed])
        else:
            if not placed.number:
                self._begin(self._prefix, self.program.layers)
            read = read if self._behind_host(placed) else []
            wanted = () if placed.number else tuple(constants)
        number, own = len(found.steps) - 1, found.steps[-1]
        for at, size in dict.fromkeys([*read, *((at, len(constants[at])) for at in wanted)]):
            found.before.append(Part(number, len(own), BASE + at, self.memory.read(BASE + at, size).tobytes()))
        own += [(int(step.kind), step.address, step.value) for step in map(step_of, commands)]
        if self._traces is None:
            super().run(placed, words)
        else:
            for trace in job_traces(placed, constants, words, self.device, f"{placed.number:02}"):
                trace.write(self._traces)
        at, size = BASE + placed.output, cube_bytes(*placed.layer.output.shape[1:])
        found.after.append(Part(number, len(own), at, self.memory.read(at, size).tobytes()))

    def _begin(self, name: str, layers: Sequence[PlacedLayer]) -> None:
        """Begins a program of layers."""
        about = [{"layer": p.layer.name, "kind": p.layer.kind, "out": p.layer.output.shape[1:]} for p in layers]
        self._found.names.append(name)
        self._found.metas.append(json.dumps({"layers": about}))
        self._found.steps.append([])

    def _inputs(self, placed: PlacedLayer) -> list[tuple[int, int]]:
        """Address and bytes of each tensor that a layer reads."""
        return [(at, cube_bytes(*t.shape[1:])) for at, t in zip(placed.inputs, placed.layer.inputs, strict=True)]

    def _behind_host(self, placed: PlacedLayer) -> bool:
        """Whether a layer is the first one, or the host computes something just before it."""
        steps = self.program.steps
        before = steps[: next(n for n, step in enumerate(steps) if step is placed)]
        return not before or isinstance(before[-1], Call)


def programs_of(
    name: str, find: Callable[[str], Path], inputs: int, traces: Path | None = None, stream: bool = False
) -> Programs:
    """The programs of a network: one for each layer of each input, or for each input.

    Args:
        name: A network of tests/models/networks.py.
        find: Gives the path of a file of shared data.
        inputs: How many inputs are run.
        traces: Where to write the jobs of the first input as traces of NVIDIA's form; None for none.
        stream: Whether all layers of an input are one program.

    Raises:
        AssertionError: A byte that the functional model gives is not the reference's.
    """
    network, small, found = NETWORKS[name], device_of("nvdla-small"), Programs()
    samples, _ = network.load(find)
    order = np.random.default_rng(0).permutation(len(samples))
    profiled = [samples[n] for n in order[: network.profiled]]
    quantized = qmlir.quantize(find(network.file), data=profiled, target=small, measure=False)
    layers, encoder = Network.of(quantized, small), None if stream else NVDLAEncoder(small)
    for number, sample in enumerate(samples[n] for n in order[-inputs:]):
        own = None if number else traces
        recorder = partial(Recorder, found=found, encoder=encoder, prefix=f"{name}_{number}", traces=own)
        run = layers.run(sample, board=recorder)
        assert set(run.differing.values()) == {0}, f"{name}: {run.differing}"
    return found


def differences(expected: Path, got: Path) -> list[str]:
    """What differs between two files of programs, a sentence for each layer, in the order in which they run."""
    with np.load(expected) as one, np.load(got) as two:
        theirs = {str(name): _results(two, n) for n, name in enumerate(two["name"])}
        found: list[str] = []
        for n, name in enumerate(one["name"]):
            layers, others = json.loads(str(one["meta"][n]))["layers"], theirs.get(str(name), [])
            for number, (layer, own) in enumerate(zip(layers, _results(one, n), strict=True)):
                other = others[number] if number < len(others) else None
                if (sentence := _difference(layer["out"], own, other)) is not None:
                    found.append(f"{name}, layer {layer['layer']}: {sentence}")
    return found


def _difference(shape: Sequence[int], own: Bytes, other: Bytes | None) -> str | None:
    """How a result [rows, columns, channels] differs from what was expected; None if it does not."""
    if other is None or len(own) != len(other):
        return f"{len(own)} bytes expected, got {'none' if other is None else len(other)}"
    if not (wrong := np.flatnonzero(own != other)).size:
        return None
    rows, columns, _ = shape
    surface, rest = divmod(int(wrong[0]), rows * columns * 8)
    row, rest = divmod(rest, columns * 8)
    at = f"row {row}, column {rest // 8}, channel {surface * 8 + rest % 8}"
    values = f"{own[wrong[0]]:#04x} expected, got {other[wrong[0]]:#04x}"
    return f"{wrong.size} of {len(own)} bytes differ, first at {at}: {values}"


def _results(file: Any, program: int) -> list[Bytes]:
    """The bytes of the result of each layer of a program."""
    rows = np.flatnonzero(file["out_program"] == program)
    return [file["out"][file["out_at"][n] : file["out_at"][n + 1]] for n in rows]


def main(argv: Sequence[str] | None = None) -> int:
    """Writes or compares files of programs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hardware.replay", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("folder", type=Path, nargs="?", help="where to write")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("EXPECTED", "GOT"), help="compare two files")
    parser.add_argument("--stream", action="store_true", help="write one program for each input, with all its layers")
    parser.add_argument("--network", choices=[*NETWORKS], action="append", help="one of these alone, with 3 inputs")
    arguments = parser.parse_args(argv)
    if arguments.compare:
        try:
            found = differences(*arguments.compare)
        except (OSError, KeyError, ValueError) as error:
            parser.error(f"--compare needs two files that this command wrote, or copies with other bytes: {error}")
        sys.stdout.write(("\n".join(found) or "no byte differs") + "\n")
        return int(bool(found))
    if arguments.folder is None:
        parser.error("name a folder, or two files with --compare")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.network or INPUTS:
        path, count = arguments.folder / f"{name}.npz", INPUTS.get(name, 3)
        programs = programs_of(name, shared_file, count, arguments.folder / name, arguments.stream)
        np.savez_compressed(path, allow_pickle=False, **programs.arrays())
        traces = f"traces of the first in {path.with_suffix('')}"
        sys.stdout.write(f"{path}: {len(programs.names)} programs of {count} inputs; {traces}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
