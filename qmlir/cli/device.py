"""`qmlir device`, and `compile` and `run` for a device: what it computes, programs, and their cost."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qmlir.backends.npu import SIMULATORS
from qmlir.cli.documents import add_json_option, cost_fields, prints_document, signature_fields, write_document
from qmlir.cli.flags import ArgumentParser, choice, file_of
from qmlir.cli.models import load_known, load_simplified
from qmlir.cli.terminal import is_verbose, say, shortened, table_of, terminal
from qmlir.display import counted
from qmlir.errors import OptionError

T = TypeVar("T")

# ---------------------------------------------------------------------------------------------------------------
# `qmlir device list` and `qmlir device show`: the devices that come with qmlir, and the file of one.
# `qmlir device check`: prints a device's figures, and which operations of a network the device can compute.


if TYPE_CHECKING:
    from qmlir.analysis.placement import Gain
    from qmlir.backends.npu.report import Report
    from qmlir.backends.simulated import Simulated
    from qmlir.devices import Device
    from qmlir.devices.legality.limits import Legality
    from qmlir.ir.callable_network import Sample
    from qmlir.policies.ledger import Entry


def run_list(arguments: argparse.Namespace) -> None:
    """Prints the devices that come with qmlir."""
    from qmlir.devices.description.summary import summaries

    console, found = terminal(), summaries()
    headings = ("device", "MACs/cycle", "array", "memories", "contract")
    whole = ("device", "contract")
    console.print(table_of(headings, map(_row, found), numbers=("MACs/cycle",), whole=whole))
    say("")
    for device in found:
        say(f"{device['name']}: {device['description']}")
    write_document(arguments, "device list", {"devices": found})


def _row(device: Mapping[str, Any]) -> tuple[object, ...]:
    """The cells of a device in the list."""
    lanes = device["array"]["lanes"]
    array = " x ".join(str(lanes[key]) for key in ("k", "n", "m") if lanes[key] > 1 or key != "m")
    inside = [f"{memory['id']} {_size(memory['bytes'])}" for memory in device["memories"] if not memory["external"]]
    outside = [f"{memory['id']} {_size(memory['bytes'])}" for memory in device["memories"] if memory["external"]]
    memories = f"{', '.join(inside)}; outside {', '.join(outside)}"
    return (
        device["name"],
        device["macs_per_cycle"],
        f"{array}, {device['array']['dataflow']}",
        memories,
        device["contract"],
    )


def _size(size: int) -> str:
    """A number of bytes in the largest unit that divides it, in one word, so that no line breaks inside it."""
    power = next((power for power in (2, 1) if size % 1024**power == 0), 0)
    return f"{size // 1024**power}{('B', 'KiB', 'MiB')[power]}"


def add_show_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir device show`."""
    parser.add_argument("device", help="a device file, or the name of a device that comes with qmlir")
    add_json_option(parser)
    parser.add_options("set")


def run_show(arguments: argparse.Namespace) -> None:
    """Prints a device as the text of a device file."""
    from qmlir.devices import load_device
    from qmlir.devices.description.summary import summary, toml_of

    device = load_device(arguments.device)
    if not prints_document(arguments):
        sys.stdout.write(toml_of(device))
    write_document(arguments, "device show", {"device": summary(device)})


def add_check_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir device check`."""
    parser.add_argument("device", help="a device file, or the name of a device that comes with qmlir")
    parser.add_argument(
        "model", type=Path, nargs="?", help="an .onnx, .tflite, .gguf or .mlir file, or a Caffe2 net (.pb, .pbtxt)"
    )
    add_json_option(parser)
    parser.add_options("set")


def run_check(arguments: argparse.Namespace) -> None:
    """Prints a device's figures and, with a network, the operations that the device refuses.

    Raises:
        OptionError: The device computes no operation of the network.
    """
    from qmlir.analysis.placement import explain
    from qmlir.devices import load_device
    from qmlir.devices.description.summary import summary

    device = load_device(arguments.device)
    _print_figures(device, operations=arguments.model is None)
    if arguments.model is None:
        write_document(arguments, "device check", {"device": summary(device), "model": None, "network": None})
        return
    judged, gains = explain(load_known(arguments), device)
    _print_legality(judged, device)
    _print_gains(judged, gains, device)
    network = _network(judged, gains)
    fields = {"device": summary(device), "model": str(arguments.model), "network": network}
    write_document(arguments, "device check", fields)
    if all(v.refusals for v in judged):
        raise OptionError(
            device.name, "must compute some operation of the network", got="none of them",
            remedy="see the reasons above; each names the key of the device file",
        )  # fmt: skip


def _network(judged: "Sequence[Legality]", gains: "Sequence[Gain]") -> dict[str, Any]:
    """What becomes of a network's operations, and what keys of the device file would change, for a document."""
    from qmlir.devices.legality.limits import share_on_device

    return {
        "share": share_on_device(judged),
        "operations": [asdict(each) for each in judged],
        "gains": [asdict(each) for each in gains],
    }


def _print_figures(device: "Device", operations: bool) -> None:
    """Prints a device's figures and, with `operations`, what it computes."""
    from qmlir.devices.legality.limits import operations_of
    from qmlir.devices.model.encoder import encoder_of
    from qmlir.devices.model.engines import Engines

    peak = device.peak_macs
    say(f"{device.name}: {peak} MACs/cycle, {peak * device.clock / 1000:g} GMAC/s at {device.clock} MHz")
    for mode in device.array.modes:
        rate = device.array.lanes.products * mode.rate
        say(f"  {mode.a} by {mode.w} into {mode.acc}: {rate:g} MACs/cycle")
    if device.array.depthwise is not None:
        say(f"  depthwise: {device.array.depthwise.lanes.products} MACs/cycle")
    for memory in device.memory:
        where = "external" if memory.external else "inside"
        balance = ""
        if memory.bytes_per_cycle is not None:
            rate = memory.bytes_per_cycle.read
            balance = f", {rate:g} bytes/cycle: {rate / peak:.4g} bytes/MAC"
        say(f"  memory {memory.id}: {memory.bytes} bytes {where}{balance}")
    stays = Engines.of(device).staying
    kept = "results go out after each layer: there is no memory inside for both data and results"
    say(f"  {kept if stays is None else f'results can stay in {stays.id} until the last layer reads them'}")
    for kind, limits in operations_of(device).items() if operations else ():
        say(f"  {kind}: {limits}")
    if (named := encoder_of(device)) is not None:
        say(f"  words of {named.encoder.word_bits} bits by the encoder {named.plugin.called}")
    say(f"  factors between scales are {_factors_text(device)}")
    say(f"  scales change by the contract {device.quant.contract}")


def _factors_text(device: "Device") -> str:
    """The factors that a device applies, in words."""
    from qmlir.devices.legality.requirements import factors_of

    if (factors := factors_of(device)) is None:
        return "any of float32"
    kind = "powers of two" if factors.bits == 1 else "numbers"
    error = "" if factors.bits == 1 else f", each with an error of at most 2^-{factors.precision} of it"
    return f"{kind} from {factors.least:.4g} to {factors.most:.4g}{error}"


def _print_legality(judged: "Sequence[Legality]", device: "Device") -> None:
    from qmlir.devices.legality.limits import share_on_device

    refused = [v for v in judged if v.refusals]
    if refused:
        say(f"not on {device.name}:")
    if len(refused) > LISTED and not is_verbose():
        _print_reasons(refused, device)
    elif refused:
        for each in refused:
            _print_refused(each)
    kinds = Counter(v.operation for v in judged if not v.refusals)
    taken = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "nothing"
    macs = f", {100 * share_on_device(judged):.1f} % of the MACs" if any(v.macs for v in judged) else ""
    say(f"on the device: {taken}")
    say(f"{len(judged) - len(refused)} of {len(judged)} operations{macs} on {device.name}")


def _print_refused(judged: "Legality") -> None:
    """Prints an operation with its reasons and the keys that would bring it to the device, or why none would."""
    macs = f", {judged.macs} MACs" if judged.macs else ""
    say(f"{shortened(judged.node, NAME_WIDTH)}: {judged.operation}{macs}")
    for sentence in judged.refusals:
        say(f"  {sentence}")
    for change in judged.keys:
        say(f"  key: {change}")
    if judged.no_key:
        say(f"  no key: {judged.no_key}")


def _need(sentence: str) -> str:
    """What a refusal needs, without what it got."""
    return sentence.partition(", got")[0]


def _alike(items: Iterable[T], alike: Callable[[T], str]) -> list[list[T]]:
    """The items that are alike in a text, together; those met first come first."""
    met: dict[str, list[T]] = {}
    for item in items:
        met.setdefault(alike(item), []).append(item)
    return list(met.values())


def _print_gains(judged: "Sequence[Legality]", gains: "Sequence[Gain]", device: "Device") -> None:
    """Prints what keys of the device file would bring to the device, those first that bring the most products."""
    for found in sorted(_alike((v for v in judged if v.no_key), lambda v: _need(v.no_key)), key=len, reverse=True):
        such = f", such as {found[0].node}" if len({v.no_key for v in found}) > 1 else ""
        say(f"no key for {counted(len(found), 'operation')}{such}: {found[0].no_key}")
    if not gains:
        return
    headings = (f"keys of {device.name}", "operations", "MACs", "host's cycles")
    rows = [
        ("; ".join(map(str, each.keys)), each.operations, f"{100 * each.share:+.1f} %", f"{-each.cycles:+d}")
        for each in gains
    ]
    terminal().print(table_of(headings, rows, numbers=headings[1:]))


NAME_WIDTH = 60
"""The most characters of a node's name where an operation is listed; names of merged nodes are longer."""

LISTED = 12
"""The most refused operations that are listed one by one unless the user asks for details."""


def _print_reasons(refused: "Sequence[Legality]", device: "Device") -> None:
    """Prints each reason with the number of operations that it is about; one sentence stands for each key."""
    met = _alike(((sentence, each) for each in refused for sentence in each.refusals), lambda one: _need(one[0]))
    rows = [(found[0][0], len(found), found[0][1].node) for found in sorted(met, key=len, reverse=True)]
    headings = (f"why not on {device.name}", "operations", "such as")
    terminal().print(table_of(headings, rows, numbers=("operations",), names=("such as",)))
    say("--verbose lists them")


# ---------------------------------------------------------------------------------------------------------------
# `qmlir compile --target` and `qmlir run --target`: programs for a device, and their cost.


PROGRAM_SUFFIX = ".npu"
LISTING_SUFFIX = ".s"

WORD_SUFFIXES = {"bin": ".bin", "hex": ".ihex", "readmemh": ".hex", "c": ".c"}
"""Form of a program in the device's own words → the suffix of its file."""

OWN_FORMS = ("registers", "trace")
"""Forms that some encoders write beside those of words."""

SHOWN = 0.01
"""The least share of the time of a layer that `qmlir compile` lists by itself."""


def chunks(items: Iterable[T], count: int) -> Iterator[list[T]]:
    """Yields the items in lists of `count`; the last list may be shorter."""
    rest = iter(items)
    while some := list(islice(rest, count)):
        yield some


def target_text(arguments: argparse.Namespace) -> str | None:
    """Returns the device of a command line for a document: its name or path, or its keys as JSON after `--set`."""
    from qmlir.devices import text_of

    return None if arguments.target is None else text_of(arguments.target)


def change_device(arguments: argparse.Namespace) -> None:
    """Replaces the name of a device on the command line by the device with the keys that `--set` changes.

    Raises:
        OptionError: There is no device to change, no such key, or the changed device breaks the schema.
    """
    from qmlir.devices import load_device
    from qmlir.devices.description.changing import settings_of

    if not getattr(arguments, "set", None):
        return
    name = "target" if hasattr(arguments, "target") else "device"
    if getattr(arguments, name) is None:
        raise OptionError("--set", "changes a device, which --target names", got="no device")
    arguments.named_device = getattr(arguments, name)
    setattr(arguments, name, load_device(getattr(arguments, name)).with_(settings_of(arguments.set)))


def add_simulation_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir run --target`."""
    parser.add_argument("--serial", action="store_true", help="let nothing on the accelerator overlap")
    parser.add_argument(
        "--simulator",
        **choice(SIMULATORS),
        help="execute the accelerator's commands in C, compiled by a C compiler, or in Python, with the same results "
        "(default: auto, in C where that saves time)",
    )
    parser.add_argument(
        "--trace",
        type=file_of(".json"),
        help="write when each command of the accelerator ran and what it waited for, for ui.perfetto.dev or "
        "chrome://tracing; a microsecond there is a cycle",
    )
    help = "write what the accelerator's memories hold before and after each command and layer, for testbenches"
    parser.add_argument("--vectors", type=Path, metavar="FOLDER", help=f"{help}, into this new folder; of one sample")
    help = "with --vectors: the bytes that a command or layer reads and writes, or whole memories (default: changes)"
    parser.add_argument("--vector-images", **choice(("changes", "whole")), help=help)


def check_vectors(arguments: argparse.Namespace, samples: int) -> None:
    """Refuses vectors of several samples, and a folder that cannot be made, before anything is simulated.

    Raises:
        OptionError: There is more than one sample.
        FileError: The folder has files.
    """
    from qmlir.running.files import require_empty

    if arguments.vectors is None:
        return
    if samples != 1:
        got, remedy = counted(samples, "sample"), "add --samples 1"
        raise OptionError("--vectors", "is for one sample", got=got, remedy=remedy)
    require_empty(arguments.vectors)


def write_vectors(arguments: argparse.Namespace, simulated: "Simulated", sample: "Sample") -> list[Path]:
    """Writes golden vectors, if `--vectors` asks for them; returns the files to name in a document."""
    if arguments.vectors is None:
        return []
    index = simulated.write_vectors(sample, arguments.vectors, arguments.vector_images or "changes")
    commands = len(simulated.program.commands)
    say(f"{arguments.vectors}: vectors of {counted(commands, 'command')}, listed in {index.name}")
    return [index]


def write_trace(arguments: argparse.Namespace, simulated: "Simulated") -> None:
    """Writes the timeline of a call, if `--trace` asks for it."""
    from qmlir.backends.npu.chrome import write_chrome_trace

    if arguments.trace is None:
        return
    trace = simulated.trace
    write_chrome_trace(trace, arguments.trace)
    say(f"{arguments.trace}: written, {len(trace.spans)} commands in {trace.cycles} cycles")


def run_compile(arguments: argparse.Namespace) -> None:
    """Runs `qmlir compile --target`: writes the program for a device, and the code that the host runs beside it."""
    from qmlir.compiler import compile
    from qmlir.devices import load_device
    from qmlir.running.files import require_empty

    if arguments.emit == "llvm-ir":
        known = ", ".join((*WORD_SUFFIXES, *OWN_FORMS))
        raise OptionError("--emit", f"must be obj, asm, {known} with --target", got="llvm-ir")
    target = load_device(arguments.target)  # first, so that an unknown device is reported before a wrong suffix
    if arguments.emit in OWN_FORMS:
        target, suffix = _own_form(target, arguments.emit)
    else:
        suffixes = WORD_SUFFIXES | {"obj": PROGRAM_SUFFIX, "asm": LISTING_SUFFIX}
        suffix = suffixes[arguments.emit]
    given = "" if arguments.emit == "obj" else f" --emit {arguments.emit}"
    if not suffix:
        require_empty(arguments.output)
    elif arguments.output.suffix != suffix:
        raise OptionError("--output", f"must end in {suffix} with --target{given}", got=str(arguments.output))
    executable = compile(load_simplified(arguments), target=target)
    if arguments.emit == "obj":
        files = executable.save(arguments.output)
    elif arguments.emit in OWN_FORMS:
        files = _write_own_form(executable, arguments.output, arguments.emit)
    else:
        files = _write_words(executable, arguments.output, arguments.emit)
    program = print_program(executable, files)
    made = {"model": str(arguments.model), "target": target_text(arguments), "files": [str(path) for path in files]}
    fields = {**made, "code": None, "program": program}
    write_document(arguments, "compile", fields | signature_fields(executable.signature))


def _own_form(device: "Device", form: str) -> tuple["Device", str]:
    """A device with the encoder that writes a form of its own, and the suffix of the file, empty for a folder.

    Raises:
        OptionError: No encoder writes it for this device.
    """
    from qmlir.devices.model.encoder import encoder_that_writes, layer_encoder_of

    name = encoder_that_writes(form, device)
    if name is None:
        need = "must be a form that the device's encoder writes"
        got = f"{form} for {device.name}, " + (
            f"encoder {device.encoder}" if device.encoder else "which has no encoder"
        )
        raise OptionError("--emit", need, got=got, remedy=f"choose one of asm, {', '.join(WORD_SUFFIXES)}")
    device = device if device.encoder else device.with_({"encoder": name})
    found = layer_encoder_of(device)
    assert found is not None
    return device, found[0].forms[form]


def _write_own_form(executable: "Simulated", path: Path, form: str) -> list[Path]:
    """Writes a form of the encoder's own: a file with the memories' constants beside it, or a folder."""
    from qmlir.backends.layered import own_files
    from qmlir.backends.npu import image
    from qmlir.cli.bundle import entry_name
    from qmlir.running.files import together, write_whole

    layered, name = executable.layered, entry_name(path.stem)
    assert layered is not None
    files: dict[Path, str | bytes] = {
        path / own: text for own, text in own_files(layered, executable.device, form, name).items()
    }
    if path in files:
        files |= image.image_files(layered.image, "c", path, name)
    for folder in {each.parent for each in files}:
        folder.mkdir(parents=True, exist_ok=True)
    with together():
        for each, content in files.items():
            write_whole(each, content)
    say(f"{path}: {counted(len(files), 'file')} by the encoder {executable.device.encoder}")
    return list(files) if path in files else [path]


def print_program(executable: "Simulated", files: Iterable[Path]) -> dict[str, Any]:
    """Prints a program's files, its figures and its predicted cost; returns the same for a document."""
    from qmlir.devices.model.costs import demand
    from qmlir.isa.blocks import Footprint
    from qmlir.isa.commands import Host
    from qmlir.policies.ledger import REMEDIES

    for path in files:
        say(f"{path}: written")
    _say_host([entry for entry in executable.ledger if entry.code in ("host", *REMEDIES)])
    program = executable.program
    for call in (command for command in program.commands if isinstance(command, Host)):
        asked, name = demand(call, executable.device, Footprint()), program.routines[call.routine].name
        moved = f"{call.read} bytes and writes {call.written}"
        say(f"{name} reads {moved}: {asked.setup + asked.busy} cycles")
    say(
        f"{counted(len(program.commands), 'command')}, "
        f"{sum(len(s.data) for s in program.segments)} bytes of constants, "
        f"{len(program.routines)} routines of the host"
    )
    for memory, filled in executable.filled.items():
        least = f"{filled.bound} live at once" if filled.bound < filled.tensors else "as many as live at once"
        say(f"{memory}: {filled.tensors} bytes of tensors, {least}; {filled.constants} of constants")
    print_report(executable.predicted, executable.device, SHOWN)
    return {
        "commands": len(program.commands),
        "constant_bytes": sum(len(s.data) for s in program.segments),
        "memories": [{"name": memory, **asdict(filled)} for memory, filled in executable.filled.items()],
        "decisions": [entry.as_dict() for entry in executable.ledger],
        "cost": cost_fields(executable.predicted, executable.device),
    }


def _say_host(entries: "Sequence[Entry]") -> None:
    """Prints which operations run on the host and why; one stands for all with the same reason but other numbers."""
    each = [[entry] for entry in entries]
    for first, *others in each if is_verbose() else _alike(entries, lambda e: re.sub(r"-?[0-9]+", "", e.reason)):
        count = f"{len(others) + 1} operations, such as " if others else ""
        say(f'on the host: {count}{first.operation} "{first.node}": {first.reason}')


def _write_words(executable: "Simulated", path: Path, emit: str) -> list[Path]:
    """Writes the commands as text, or in the device's own words with the memories' constants, for `--emit`."""
    from qmlir.backends.layered import layers_listing
    from qmlir.backends.npu import image, words
    from qmlir.backends.npu.stream import listing
    from qmlir.cli.bundle import entry_name
    from qmlir.running.files import together, write_whole

    program, device, layered = executable.program, executable.device, executable.layered
    if emit == "asm" and device.encoder is None:
        write_whole(path, listing(program.commands, device))
        return [path]
    own, files = executable.words, dict[Path, str | bytes]()
    match emit:
        case "asm" if layered is not None:
            files[path] = layers_listing(layered)
        case "asm":
            said = words.decoded(own.all, device)
            files[path] = words.words_listing(listing(program.commands if said is None else said, device), own)
        case "bin":
            files[path] = words.binary(own)
        case "hex":
            files[path] = image.intel_hex({0: words.binary(own)})
        case "readmemh":
            files[path] = words.readmemh(own)
        case _:
            files[path] = words.c_array(own, entry_name(path.stem))
    if emit != "asm":
        held = image.image_of(program, device) if layered is None else layered.image
        files |= image.image_files(held, emit, path, entry_name(path.stem))
    with together():
        for each, content in files.items():
            write_whole(each, content)
    by = "" if device.encoder is None else f" by the encoder {device.encoder}"
    say(f"{path}: {counted(len(own.all), 'word')} of {own.bits} bits{by}")
    return list(files)


def require_target(arguments: argparse.Namespace) -> None:
    """Checks that a device is named if the command needs one, and that a program is not asked for what it lacks."""
    program = arguments.model.suffix == PROGRAM_SUFFIX
    given = {"--serial": arguments.serial, "--trace": arguments.trace, "--vectors": arguments.vectors}
    given["--simulator"] = arguments.simulator
    simulating = next((option for option, value in given.items() if value), None)
    if arguments.vector_images is not None and arguments.vectors is None:
        raise OptionError("--vector-images", "is for vectors", remedy="add --vectors, or leave it out")
    if arguments.vectors is not None and arguments.simulator == "c":
        need = "must be python with --vectors, for which the memories are read before each command"
        raise OptionError("--simulator", need, got="c", remedy="leave it out")
    if arguments.target is None and (program or simulating):
        need = "must name the device that the program is for" if program else f"must name a device with {simulating}"
        raise OptionError("--target", need, got="nothing")
    if arguments.reference and (program or simulating):
        raise OptionError("--reference", "evaluates networks, not programs", remedy="leave it out")


def refuse_code_options(arguments: argparse.Namespace) -> None:
    """Refuses options that choose the code's processor, where a device is named or nothing is compiled."""
    chosen = [f"--{name}" for name in ("cpu", "features", "triple", "memory", "io") if getattr(arguments, name, None)]
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
    if arguments.simulator is not None:
        executable = executable.with_simulator(arguments.simulator)
    return executable.with_program(serial(executable.program, executable.device)) if arguments.serial else executable


def prepare(simulated: "Simulated | None", samples: int) -> None:
    """Compiles what runs of so many samples need before they are timed, if a device is simulated."""
    if simulated is not None:
        simulated.prepare(samples)


def print_report(report: "Report", device: "Device", least: float = 0.0) -> None:
    """Prints the cost and the bound of each layer; layers below a share `least` of the time share one line."""
    shown = [layer for layer in report.layers if layer.cycles >= least * report.cycles]
    rows: list[tuple[object, ...]] = []
    for layer in shown:
        shares = (f"{100 * layer.used(report.peak, cycles):.1f} %" for cycles in (layer.cycles, layer.bound))
        rows.append((layer.name, layer.cycles, layer.bound, layer.bound_by, layer.products, *shares))
    if rest := len(report.layers) - len(shown):
        cycles = sum(layer.cycles for layer in report.layers) - sum(layer.cycles for layer in shown)
        rows.append((f"{rest} of less than {100 * least:g} %", cycles, *[""] * 5))
    numbers = ("cycles", "bound", "MACs", "used", "at most")
    console = terminal()
    console.print(table_of(("layer", "cycles", "bound", "by", *numbers[2:]), rows, numbers, names=("layer",)))
    say(f"{report.cycles} cycles on {device.name}, {report.cycles / device.clock:.1f} µs at {device.clock} MHz")
    say(f"{100 * report.utilization:.1f} % of its MACs used, {100 * report.bound:.1f} % if nothing waited")
