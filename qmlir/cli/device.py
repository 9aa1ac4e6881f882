"""`qmlir device check`: prints a device's figures, and which operations of a network the device can compute."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from qmlir.cli.flags import ArgumentParser
from qmlir.cli.models import load_known
from qmlir.cli.terminal import cell, terminal
from qmlir.errors import OptionError

if TYPE_CHECKING:
    from qmlir.devices import Device
    from qmlir.devices.judgement import Verdict


def add_check_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir device check`."""
    parser.add_argument("device", help="a device file, or the name of a device that comes with qmlir")
    parser.add_argument("model", type=Path, nargs="?", help="an .onnx, .tflite or .mlir file")


def run_check(arguments: argparse.Namespace) -> None:
    """Prints a device's figures and, with a network, the operations that the device refuses.

    Raises:
        OptionError: The device computes no operation of the network.
    """
    from qmlir.analysis.placement import judge
    from qmlir.devices import load_device

    device = load_device(arguments.device)
    console = terminal()
    _print_figures(device, console)
    if arguments.model is None:
        return
    verdicts = judge(load_known(arguments), device)
    _print_verdicts(verdicts, device, console)
    if all(v.refusals for v in verdicts):
        raise OptionError(
            str(arguments.device), "must compute some operation of the network", got="none of them",
            remedy="see the reasons above; each names the key of the device file",
        )  # fmt: skip


def _print_figures(device: "Device", console: Console) -> None:
    from qmlir.transforms.npu.engines import Engines

    peak = device.peak_macs
    console.print(
        cell(f"{device.name}: {peak} MACs/cycle, {peak * device.clock / 1000:g} GMAC/s at {device.clock} MHz")
    )
    for mode in device.array.modes:
        console.print(cell(f"  {mode.a} by {mode.w} into {mode.acc}: {peak * mode.rate:g} MACs/cycle"))
    for memory in device.memory:
        where = "external" if memory.external else "inside"
        balance = ""
        if memory.bytes_per_cycle is not None:
            rate = memory.bytes_per_cycle.read
            balance = f", {rate:g} bytes/cycle: {rate / peak:.4g} bytes/MAC"
        console.print(cell(f"  memory {memory.id}: {memory.bytes} bytes {where}{balance}"))
    stays = Engines.of(device).staying
    kept = "results go out after each layer: there is no memory inside for both data and results"
    console.print(
        cell(f"  {kept if stays is None else f'results can stay in {stays.id} until the last layer reads them'}")
    )
    console.print(cell(f"  scales change by the contract {device.quant.contract}"))


def _print_verdicts(verdicts: "Sequence[Verdict]", device: "Device", console: Console) -> None:
    from qmlir.devices.judgement import share_on_device

    table = Table(box=None, pad_edge=False)
    for heading in ("node", "operation", "MACs", f"why not on {device.name}"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "MACs" else "left")
    refused = [v for v in verdicts if v.refusals]
    for v in refused:
        table.add_row(*map(cell, (v.node, v.operation, str(v.macs), "; ".join(v.refusals))))
    if refused:
        console.print(table)
    kinds = Counter(v.operation for v in verdicts if not v.refusals)
    taken = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "nothing"
    share = 100 * share_on_device(verdicts)
    console.print(cell(f"on the device: {taken}"))
    console.print(
        cell(
            f"{len(verdicts) - len(refused)} of {len(verdicts)} operations, {share:.1f} % of the MACs on {device.name}"
        )
    )
