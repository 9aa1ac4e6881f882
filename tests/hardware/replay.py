"""Programs of networks for NVDLA, Gemmini and VTA as plain files, and what a model or a board made of them.

    python -m tests.hardware.replay FOLDER                    # writes FOLDER/NETWORK.npz, and traces below it
    python -m tests.hardware.replay --device gemmini FOLDER   # for Gemmini, or for vta
    python -m tests.hardware.replay --stream FOLDER           # one program for each input, as a driver runs it
    python -m tests.hardware.replay --compare EXPECTED GOT    # two such files: the first difference of each layer

A program begins after a reset: a layer of an input, or with --stream all layers of it. What it is expected to write is
what the functional model gives, and the reference of the network has confirmed. To confirm it on an RTL or a board, run
each program there, put what memory holds into a copy of the arrays `out`, save that as GOT, and compare.

The arrays of a file, for numpy.load; p is a program, and the part n of X is X[X_at[n]:X_at[n + 1]]:

    name, meta   of p: its name, and as JSON name, kind and shape (rows, columns, channels) of its layers
    op           rows of what a driver does, by op_at:
                 nvdla-small  (kind, address, value). Kind 0 writes a register at a byte address. Kind 1 reads it until
                              it holds the value. Kind 2 waits until GLB.S_INTR_STATUS (0x100c) has had all bits of the
                              value, and clears each by writing it back
                 gemmini      (function, rs1, rs2) of a command; function 127 is the processor's fence
                 vta          (address, instructions) of a stream in memory that runs to its end; all bases are 0
    seg          bytes to load, by seg_at: into program seg_program, at address seg_addr, before step seg_op. Those
                 of step 0 are memory before; later ones are what the host computes between layers
    out          bytes that memory must hold, by out_at: in program out_program, at address out_addr, before step
                 out_op, which is where a layer has ended; later layers may overwrite its result

Tensors lie in blocks of as many channels as meta calls lanes, a block in rows: NVDLA's surfaces have 8, VTA's vectors
16, and Gemmini's one block has all channels. See docs/devices/{nvdla,gemmini,vta}.md.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

import qmlir
from docs.measurements.accuracy import shared_file
from qmlir.devices.model.encoder import LayerEncoder, layer_encoder_of
from tests.backends.hardware.boards import Network, device_of
from tests.hardware.recorders import RECORDERS, Programs, Recording
from tests.models.networks import NETWORKS

Bytes = npt.NDArray[np.uint8]

RTL = {"mnist-8": 20, "kws": 3, "resnet8": 3}

INPUTS: Mapping[str, Mapping[str, int]] = {
    "nvdla-small": RTL,
    "gemmini": RTL | {"vww": 2, "mobilenet": 2},
    "vta": RTL | {"vww": 2, "mobilenet": 2},
}
"""Of each device: the networks, and how many inputs of each are run."""

SLOW_HOST = {"gemmini": 0.01, "vta": 0.01}
"""Products in a cycle of a host that is so slow that the device computes whatever it can; elsewhere the file's own."""


def programs_of(
    name: str,
    find: Callable[[str], Path],
    inputs: int,
    traces: Path | None = None,
    stream: bool = False,
    target: str = "nvdla-small",
) -> Programs:
    """The programs of a network: one for each layer of each input, or for each input.

    Args:
        name: A network of tests/models/networks.py.
        find: Gives the path of a file of shared data.
        inputs: How many inputs are run.
        traces: Where to write the jobs of the first input as traces of NVIDIA's form; None for none.
        stream: Whether all layers of an input are one program.
        target: The device.

    Raises:
        AssertionError: A byte that the functional model gives is not the reference's.
    """
    changes = {"fallback__macs_per_cycle": SLOW_HOST[target]} if target in SLOW_HOST else {}
    network, device = NETWORKS[name], device_of(target, **changes)
    found = Programs(64 if target == "gemmini" else 32)
    samples, _ = network.load(find)
    order = np.random.default_rng(0).permutation(len(samples))
    profiled = [samples[n] for n in order[: network.profiled]]
    quantized = qmlir.quantize(find(network.file), data=profiled, target=device, measure=False)
    layers = Network.of(quantized, device)
    encoder, _ = cast(tuple[LayerEncoder, Any], layer_encoder_of(device))
    for number, sample in enumerate(samples[n] for n in order[-inputs:]):
        own = None if number else traces
        recording = Recording(found, encoder, f"{name}_{number}", not stream, own)
        run = layers.run(sample, board=lambda program, into=recording: RECORDERS[target](program, into))
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
                if (sentence := _difference(layer["out"], layer["lanes"], own, other)) is not None:
                    found.append(f"{name}, layer {layer['layer']}: {sentence}")
    return found


def _difference(shape: Sequence[int], lanes: int, own: Bytes, other: Bytes | None) -> str | None:
    """How a result [rows, columns, channels] in blocks differs from what was expected; None if it does not."""
    if other is None or len(own) != len(other):
        return f"{len(own)} bytes expected, got {'none' if other is None else len(other)}"
    if not (wrong := np.flatnonzero(own != other)).size:
        return None
    rows, columns, _ = shape
    block, row, column, lane = (
        int(n) for n in np.unravel_index(wrong[0], (len(own) // (rows * columns * lanes), rows, columns, lanes))
    )
    at = f"byte {wrong[0]}: row {row}, column {column}, channel {block * lanes + lane}"
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
    parser.add_argument("--device", choices=[*RECORDERS], default="nvdla-small", help="the device: nvdla-small without")
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
    known = INPUTS[arguments.device]
    for name in arguments.network or known:
        path, count = arguments.folder / f"{name}.npz", known.get(name, 3)
        traces = arguments.folder / name if arguments.device == "nvdla-small" else None
        programs = programs_of(name, shared_file, count, traces, arguments.stream, arguments.device)
        np.savez_compressed(path, allow_pickle=False, **programs.arrays())
        more = "" if traces is None else f"; traces of the first in {traces}"
        sys.stdout.write(f"{path}: {len(programs.names)} programs of {count} inputs{more}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
