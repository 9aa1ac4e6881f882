"""`qmlir device check`, and `compile` and `run` for a device: what it computes, programs, and their cost."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console

from qmlir.cli.flags import ArgumentParser
from qmlir.cli.models import load_known, load_simplified
from qmlir.cli.terminal import cell, say, table_of, terminal
from qmlir.errors import OptionError

# ---------------------------------------------------------------------------------------------------------------
# `qmlir device check`: prints a device's figures, and which operations of a network the device can compute.


if TYPE_CHECKING:
    from qmlir.backends.npu.report import Report
    from qmlir.backends.simulated import Simulated
    from qmlir.devices import Device
    from qmlir.devices.legality import Verdict


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
    from qmlir.transforms.npu.tile.engines import Engines

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
    from qmlir.devices.legality import share_on_device

    refused = [v for v in verdicts if v.refusals]
    if refused:
        headings = ("node", "operation", "MACs", f"why not on {device.name}")
        rows = [(v.node, v.operation, v.macs, "; ".join(v.refusals)) for v in refused]
        console.print(table_of(headings, rows, numbers=("MACs",)))
    kinds = Counter(v.operation for v in verdicts if not v.refusals)
    taken = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "nothing"
    share = 100 * share_on_device(verdicts)
    console.print(cell(f"on the device: {taken}"))
    console.print(
        cell(
            f"{len(verdicts) - len(refused)} of {len(verdicts)} operations, {share:.1f} % of the MACs on {device.name}"
        )
    )


# ---------------------------------------------------------------------------------------------------------------
# `qmlir compile --target` and `qmlir run --target`: programs for a device, and their cost.


PROGRAM_SUFFIX = ".npu"
LISTING_SUFFIX = ".s"

SHOWN = 0.01
"""The least share of the time of a layer that `qmlir compile` lists by itself."""

AT_ONCE = 16
"""The number of inputs that `qmlir run` gives to the simulator at once."""

T = TypeVar("T")


def chunks(items: Iterable[T], count: int) -> Iterator[list[T]]:
    """Yields the items in lists of `count`; the last list may be shorter."""
    rest = iter(items)
    while some := list(islice(rest, count)):
        yield some


def add_target_option(parser: ArgumentParser, help: str) -> None:
    """Adds the option that names a device."""
    parser.add_argument("--target", metavar="DEVICE", help=f"{help}: a device file, or one that comes with qmlir")


def write_program(arguments: argparse.Namespace) -> None:
    """Runs `qmlir compile --target`: writes the program for a device, and the code that the host runs beside it."""
    from qmlir.compiler import compile
    from qmlir.devices import load_device
    from qmlir.devices.costs import demand
    from qmlir.isa.blocks import Footprint
    from qmlir.isa.commands import Host
    from qmlir.policies.ledger import REMEDIES

    if arguments.emit == "llvm-ir":
        raise OptionError("--emit", "must be obj or asm with --target", got="llvm-ir")
    load_device(arguments.target)  # first, so that an unknown device is reported before a wrong suffix
    listed = arguments.emit == "asm"
    suffix, given = (LISTING_SUFFIX, " --emit asm") if listed else (PROGRAM_SUFFIX, "")
    if arguments.output.suffix != suffix:
        raise OptionError("--output", f"must end in {suffix} with --target{given}", got=str(arguments.output))
    executable = compile(load_simplified(arguments), target=arguments.target)
    for path in [_write_listing(executable, arguments.output)] if listed else executable.save(arguments.output):
        say(f"{path}: written")
    for entry in executable.ledger:
        if entry.code in ("host", *REMEDIES):
            say(f'on the host: {entry.operation} "{entry.node}": {entry.reason}')
    program = executable.program
    for call in (command for command in program.commands if isinstance(command, Host)):
        asked, name = demand(call, executable.device, Footprint()), program.routines[call.routine].name
        moved = f"{call.read} bytes and writes {call.written}"
        say(f"{name} reads {moved}: {asked.setup + asked.busy} cycles")
    say(
        f"{len(program.commands)} commands, {sum(len(s.data) for s in program.segments)} bytes of constants, "
        f"{len(program.routines)} routines of the host"
    )
    for memory, filled in executable.filled.items():
        least = f"{filled.bound} live at once" if filled.bound < filled.tensors else "as many as live at once"
        say(f"{memory}: {filled.tensors} bytes of tensors, {least}; {filled.constants} of constants")
    print_report(executable.predicted, executable.device, SHOWN)


def _write_listing(executable: "Simulated", path: Path) -> Path:
    """Writes the commands as text, for `--emit asm`."""
    from qmlir.backends.npu.stream import listing
    from qmlir.files import write_whole

    write_whole(path, listing(executable.program.commands, executable.device).encode())
    return path


def require_target(arguments: argparse.Namespace) -> None:
    """Checks that a device is named if the command needs one, and that `--reference` is not given a program."""
    program = arguments.model.suffix == PROGRAM_SUFFIX
    if arguments.target is None and (program or arguments.serial):
        need = "must name the device that the program is for" if program else "must name a device with --serial"
        raise OptionError("--target", need, got="nothing")
    if arguments.reference and (program or arguments.serial):
        raise OptionError("--reference", "evaluates networks, not programs", remedy="leave it out")


def refuse_code_options(arguments: argparse.Namespace) -> None:
    """Refuses options that choose the code's processor, where a device is named or nothing is compiled."""
    chosen = [f"--{name}" for name in ("cpu", "features", "triple") if getattr(arguments, name) is not None]
    if chosen and (arguments.target is not None or getattr(arguments, "reference", False)):
        other = "--target" if arguments.target is not None else "--reference"
        raise OptionError(chosen[0], f"must not be given with {other}")


def program_of(arguments: argparse.Namespace) -> "Simulated":
    """Returns the program of a file, or compiles a network to one; with --serial, no commands overlap."""
    from qmlir.backends.simulated import serial
    from qmlir.compiler import compile, load_program

    if arguments.model.suffix == PROGRAM_SUFFIX:
        executable = load_program(arguments.model, arguments.target)
    else:
        executable = compile(load_simplified(arguments), target=arguments.target)
    return executable.with_program(serial(executable.program, executable.device)) if arguments.serial else executable


def print_report(report: "Report", device: "Device", least: float = 0.0) -> None:
    """Prints the cost and the bound of each layer; layers below a share `least` of the time share one line."""
    shown = [layer for layer in report.layers if layer.cycles >= least * report.cycles]
    rows: list[tuple[object, ...]] = []
    for layer in shown:
        shares = (f"{100 * layer.used(report.peak, cycles):.1f} %" for cycles in (layer.cycles, layer.bound))
        rows.append((layer.name, layer.cycles, layer.bound, layer.bound_by, layer.products, *shares))
    if rest := len(report.layers) - len(shown):
        cycles = sum(layer.cycles for layer in report.layers) - sum(layer.cycles for layer in shown)
        rows.append((f"{rest} of less than {100 * least:g} %", cycles))
    numbers = ("cycles", "bound", "MACs", "used", "at most")
    console = terminal()
    console.print(table_of(("layer", "cycles", "bound", "by", *numbers[2:]), rows, numbers))
    console.print(
        cell(
            f"{report.cycles} cycles on {device.name}, {report.cycles / device.clock:.1f} "
            f"µs at {device.clock} MHz; {100 * report.utilization:.1f} % of its MACs used, "
            f"{100 * report.bound:.1f} % if nothing waited"
        )
    )
