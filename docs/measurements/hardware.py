"""`make hardware`: networks on functional models of real accelerators, a table for each of NVDLA, Gemmini and VTA.

python -m docs.measurements.hardware                     all networks on all devices, 3 inputs each
python -m docs.measurements.hardware -n 1 kws vta        some networks, some devices, one input each

Each network is quantized by the device's rules, with integers at both ends, and compiled beside a host that is so slow
that the device computes whatever it can. It runs from words and memory alone, on samples and on seeded noise. Each
layer's bytes in the model's memory are compared with those of the reference. The columns are

    layers     of the device, and calls of the host between them; lines below name what the host computes, and why
    MACs       the per cent of the network's products that the device computes
    differ     bytes of layers and of the outputs that differ, and how many were compared, over all inputs
    cycles     of the device in one call: those of its cost model, which the line above the table names
    used       per cent: the network's products on the device, of those that its array could compute in this time
    issued     what the driver issues for one call, which the line above names
    words      bytes of it
    constants  bytes of weights, biases and tables in memory

The status is 1 if a byte differs. Networks of $QMLIR_SHARED and, with seeded weights, of $QMLIR_PEERS that are not
there are left out with a line.
"""

import argparse
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import qmlir
from docs.measurements.accuracy import shared_file
from docs.measurements.peers import PEERS
from qmlir.backends.hardware.gemmini.costs import costs_of
from qmlir.backends.hardware.nvdla.timing import layer_cycles
from qmlir.compiler import to_integers
from qmlir.devices import Device
from qmlir.devices.legality.limits import legality_of
from qmlir.devices.model.properties import products
from qmlir.devices.model.timeline import HOST
from qmlir.dialects.npu import HostOp
from qmlir.errors import QmlirError, QmlirWarning
from tests.backends.hardware.boards import GemminiBoard, Network, NvdlaBoard, Run, device_of, integers
from tests.conftest import ROOT
from tests.models.networks import NETWORKS, logits, split

SHARED = ("mnist-8", "kws", "resnet8", "vww", "mobilenet")
"""The networks of $QMLIR_SHARED, with samples of their own."""

SEEDED = ("mobilenetv2", "resnet50")
"""Those of $QMLIR_PEERS: images of normal numbers, as their weights are random."""

NAMES = ("digits", *SHARED, *SEEDED)

INPUTS = 3
"""How many inputs each network runs on: samples, and noise at last."""

PROFILED = 16
"""The most samples that a network is quantized on."""

WIDTH = 80
"""Columns of the table."""


@dataclass(frozen=True)
class Accelerator:
    """A device of the table.

    lanes   products of its array in a cycle
    words   words of what a driver issues
    cycles  what the cycles are
    issued  what a driver issues
    """

    lanes: int
    words: int
    cycles: str
    issued: str


ACCELERATORS: Mapping[str, Accelerator] = {
    "nvdla-small": Accelerator(64, 1, "of each job, as fitted to the RTL", "accesses to registers"),
    "gemmini": Accelerator(256, 3, "by the costs of Gemmini's sources, without latency", "commands"),
    "vta": Accelerator(256, 1, "predicted by qmlir's device file, not measured", "instructions"),
}

CHOICES = (*NAMES, *ACCELERATORS)
"""What the command line names: networks and devices."""


@dataclass(frozen=True)
class Row:
    """A network on a device, as the columns have it; `calls` says what the host computes in each of its calls."""

    network: str
    layers: int
    calls: Sequence[str]
    share: float
    differing: int
    compared: int
    cycles: int
    used: float
    issued: int
    words: int
    constants: int


class NotThere(Exception):
    """A network's file is missing; the message says which."""


# ---------------------------------------------------------------------------------------------------------------
# Networks


def prepared(name: str, find: Callable[[str], Path], peers: Path) -> tuple[ModuleOp, Sequence[Any], Sequence[Any]]:
    """A float network up to its logits, samples to quantize it on, and samples to run.

    Raises:
        NotThere: Its file is missing.
    """
    if name == "digits":
        folder = ROOT / "examples" / "digits"
        data = np.load(folder / "digits.npz")
        profiled, samples = (list(data[kind][:, None]) for kind in ("calibration_images", "test_images"))
        return qmlir.load(folder / "digits.onnx"), profiled, samples
    if name in SEEDED:
        if not (file := peers / f"{name}.onnx").exists():
            raise NotThere(f"there is no {file}")
        rng = np.random.default_rng(0)
        images = [rng.standard_normal((1, 3, 224, 224)).astype(np.float32) for _ in range(4 + INPUTS)]
        return qmlir.load(file), images[:4], images[4:]
    network = NETWORKS[name]
    if not (file := find(network.file)).exists():
        raise NotThere(f"there is no {file}")
    samples = split(network, find, 0.05)
    return logits(qmlir.load(file)), list(samples.profile[:PROFILED]), list(samples.score)


# ---------------------------------------------------------------------------------------------------------------
# Measuring


def measured(
    name: str, target: str, module: ModuleOp, profiled: Sequence[Any], samples: Sequence[Any], count: int
) -> Row:
    """The row of a network."""
    device, about = device_of(target, fallback__macs_per_cycle=0.01), ACCELERATORS[target]
    quantized = qmlir.quantize(module, data=list(profiled), target=device, io="int8", measure=False)
    network, reference = Network.of(quantized, device), qmlir.reference(quantized)
    program, (spec,) = network.program, reference.signature.inputs
    runs, differing = list[Run](), 0
    for x in integers(spec, samples, count):
        runs.append(run := network.run(x))
        outputs = zip(run.outputs, reference.run(x), strict=True)
        differing += sum(run.differing.values()) + sum(int((got != expected).sum()) for got, expected in outputs)
    ends = (*(placed.layer.output for placed in program.layers), *program.outputs)
    cycles = _cycles(runs[0], quantized, device)
    needed = sum(verdict.macs for verdict in legality_of(to_integers(quantized, device), device))
    own = needed - sum(products(op) for call in network.calls for op in call.operations())
    words = program.words.all
    return Row(
        name,
        len(program.layers),
        [_said(call) for call in network.calls],
        own / needed if needed else 1.0,
        differing,
        len(runs) * sum(tensor.bytes for tensor in ends),
        cycles,
        own / (about.lanes * cycles) if cycles else 0.0,
        len(words) // about.words,
        len(words) * program.words.bits // 8,
        sum(map(len, program.constants.values())),
    )


def _said(call: HostOp) -> str:
    """What the host computes, and why."""
    return call.label.data if call.reasons is None else call.reasons.data


def _cycles(run: Run, quantized: ModuleOp, device: Device) -> int:
    """The cycles of a call, as the device's entry in `ACCELERATORS` says."""
    if isinstance(run.board, NvdlaBoard):
        return sum(layer_cycles(run.board.program))
    if isinstance(run.board, GemminiBoard):
        words = run.board.program.words.all
        return costs_of(zip(words[::3], words[1::3], words[2::3], strict=True)).cycles
    layers = qmlir.compile(quantized, target=device).predicted.layers
    return sum(layer.cycles for layer in layers if HOST not in layer.busy)


# ---------------------------------------------------------------------------------------------------------------
# Showing

HEADINGS = ("network", "layers", "MACs", "differ", "cycles", "used", "issued", "words", "constants")
WIDTHS = (11, 6, 5, 11, 10, 4, 7, 9, 9)


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    layers, differ = f"{row.layers}+{len(row.calls)}", f"{row.differing}/{row.compared}"
    shares = (f"{100 * row.share:.4g}", f"{100 * row.used:.1f}")
    numbers = (row.issued, row.words, row.constants)
    return row.network, layers, shares[0], differ, str(row.cycles), shares[1], *map(str, numbers)


def line(texts: Sequence[str]) -> str:
    """A line of the table: the network on the left, numbers on the right."""
    first, *rest = zip(texts, WIDTHS, strict=True)
    return " ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)])


def shown(row: Row) -> Iterator[str]:
    """The lines of a row: its figures, and what the host computes."""
    yield line(cells(row))
    for call in row.calls:
        yield from textwrap.wrap(f"the host computes {call}", WIDTH, initial_indent="  ", subsequent_indent="    ")


def main(argv: Sequence[str] | None = None, find: Callable[[str], Path] = shared_file, peers: Path = PEERS) -> int:
    """Prints the tables; status 1 where a byte differs or a network does not compile."""
    warnings.simplefilter("ignore", QmlirWarning)
    parser = argparse.ArgumentParser(prog="python -m docs.measurements.hardware", description="Networks on hardware.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CHOICES)} (all)")
    parser.add_argument("-n", "--inputs", type=int, default=INPUTS, help=f"inputs of each network ({INPUTS})")
    given = parser.parse_args(argv)
    if unknown := [name for name in given.names if name not in CHOICES]:
        parser.error(f"a name must be one of {', '.join(CHOICES)}, got {', '.join(unknown)}")
    names = [name for name in NAMES if name in given.names] or NAMES
    wrong = False
    for target in [each for each in ACCELERATORS if each in given.names] or ACCELERATORS:
        about = ACCELERATORS[target]
        _say(f"{target}: {about.issued}; cycles {about.cycles}", "", line(HEADINGS))
        for name in names:
            try:
                row = measured(name, target, *prepared(name, find, peers), given.inputs)
            except NotThere as reason:
                _say(f"{name:{WIDTHS[0]}} is left out: {reason}")
            except QmlirError as error:
                _say(f"{name:{WIDTHS[0]}} {error}")
                wrong = True
            else:
                _say(*shown(row))
                wrong |= row.differing > 0
        _say("")
    return int(wrong)


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{each}\n" for each in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
