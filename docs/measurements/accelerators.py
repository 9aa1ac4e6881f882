"""Networks on devices: what runs where, how fast, and whether the simulator's bits are those of the reference.

python -m docs.measurements.accelerators                     the whole table (`make npu`): 50 inputs each
python -m docs.measurements.accelerators -n 2 kws vta nmp    some networks, some devices, two inputs each
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.simulated import serial as one_by_one
from qmlir.compiler import to_integers
from qmlir.devices import load_device, shipped_devices
from qmlir.devices.legality.limits import legality_of
from qmlir.errors import QmlirError
from tests.backends.npu.accounts import mistakes
from tests.conftest import ROOT
from tests.models.networks import NETWORKS, Split, logits, split

SMALL = ("mnist-8", "cifar", "kws", "resnet8", "vww", "mobilenet")
"""The networks of the table."""

INPUTS = 50
"""How many inputs each runs on."""

Find = Callable[[str], Path]


@dataclass(frozen=True)
class Row:
    """A network on a device.

    computed       operations on the device, and of how many
    share          of its products on the device
    cycles         of one call, as simulated
    predicted      of one call, from the schedule
    utilization    products on the device, of those the array could compute in that time
    bound          the same if each layer took only what its busiest engine, bus or memory has to do
    mistakes       what is wrong with the report of its costs
    mismatches     inputs with another output than the reference
    serial         whether the first input gives the same with a barrier after each command
    tensors        bytes that the network's share in the external memory
    live           of them, the most that live at once
    constants      bytes of constants there
    seconds        to compile
    """

    network: str
    device: str
    precision: str
    computed: tuple[int, int]
    share: float
    cycles: int
    predicted: int
    utilization: float
    bound: float
    mistakes: Sequence[str]
    mismatches: int
    inputs: int
    serial: bool
    tensors: int
    live: int
    constants: int
    seconds: float


HEADINGS = (
    "network",
    "device",
    "type",
    "on device",
    "MACs",
    "cycles",
    "predicted",
    "used",
    "bound",
    "differ",
    "serial",
    "tensors",
    "live",
    "constants",
)


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    on_device = f"{row.computed[0]}/{row.computed[1]}"
    predicted = "same" if row.predicted == row.cycles else str(row.predicted)
    shares = (f"{100 * share:.1f} %" for share in (row.utilization, row.bound))
    differ, serial = f"{row.mismatches}/{row.inputs}", "same" if row.serial else "DIFFERS"
    who = (row.network, row.device, row.precision, on_device, f"{100 * row.share:.1f} %")
    bytes = (str(size) for size in (row.tensors, row.live, row.constants))
    return (*who, str(row.cycles), predicted, *shares, differ, serial, *bytes)


@dataclass(frozen=True)
class Prepared:
    """A float network with what it is quantized by."""

    name: str
    module: ModuleOp
    profile: Any
    data: Split


def prepare(name: str, find: Find) -> Prepared:
    """A network with its profile; each of its samples is an array of the only input."""
    network = NETWORKS[name]
    module = logits(qmlir.load(find(network.file)))
    data = split(network, find, 1.0)
    return Prepared(name, module, qmlir.profile(module, data.profile), data)


def measure(prepared: Prepared, device: str, precision: str, inputs: int) -> Row:
    """Compiles a network for a device and compares what the simulator makes of some inputs with the reference."""
    quantized = qmlir.quantize(prepared.module, prepared.profile, target=device, precision=precision)
    judged = legality_of(to_integers(quantized), load_device(device))
    started = time.perf_counter()
    executable = qmlir.compile(quantized, target=device)
    seconds = time.perf_counter() - started
    reference = qmlir.reference(quantized)
    samples = list(prepared.data.score[:inputs])
    results = executable.run_all(samples)
    mismatches = sum(not _same(ours, reference.run(x)) for x, ours in zip(samples, results, strict=True))
    report = executable.report
    assert report is not None
    alone = executable.with_program(one_by_one(executable.program, executable.device))
    macs = [v.macs for v in judged]
    filled = executable.filled.values()
    return Row(
        prepared.name, device, precision, (sum(not v.refusals for v in judged), len(judged)),
        report.products / sum(macs) if sum(macs) else 1.0, report.cycles, executable.predicted_cycles,
        report.utilization, report.bound, mistakes(report), mismatches, len(samples),
        _same(alone.run(samples[0]), results[0]),
        sum(f.tensors for f in filled), sum(f.bound for f in filled), sum(f.constants for f in filled), seconds,
    )  # fmt: skip


def _same(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def table(networks: Sequence[str], devices: Sequence[str], inputs: int, find: Find) -> Iterator[Row | QmlirError]:
    """A row for each network, device and type, or why there is none."""
    for name in networks:
        prepared = prepare(name, find)
        for device in devices:
            for precision in PRECISIONS.get(device, ("int8",)):
                try:
                    yield measure(prepared, device, precision, inputs)
                except QmlirError as error:
                    yield error


PRECISIONS = {"nmp": ("int8", "int16")}
"""Types that a device is measured with; int8 unless said here."""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; status 1 where something differs or does not compile."""
    parser = argparse.ArgumentParser(description="Networks on devices.")
    parser.add_argument("names", nargs="*", help="networks and devices; all unless given")
    parser.add_argument("-n", "--inputs", type=int, default=INPUTS, help="inputs of each network")
    arguments = parser.parse_args(argv)
    networks = [n for n in SMALL if n in arguments.names] or SMALL
    devices = [d for d in shipped_devices() if d in arguments.names] or shipped_devices()
    folder = Path(os.environ.get("QMLIR_SHARED", ROOT.parent / "shared"))
    widths = (10, 15, 6, 10, 8, 10, 10, 7, 7, 7, 7, 9, 9, 9)

    def line(texts: Sequence[str]) -> None:
        sys.stdout.write("  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)) + "\n")
        sys.stdout.flush()

    line(HEADINGS)
    wrong = 0
    for row in table(networks, devices, arguments.inputs, lambda name: folder / name):
        if isinstance(row, Row):
            line(cells(row))
            wrong += bool(row.mismatches or row.mistakes) or row.predicted != row.cycles or not row.serial
        else:
            sys.stdout.write(f"{row}\n")
            wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
