"""`qmlir bench`: how long a call of a network takes, layer by layer, and the share of the processor's peak it reaches.

qmlir/analysis/timing.py measures; this module prints, writes and compares the figures.
"""

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from qmlir.cli.data import samples_of, stored_in
from qmlir.cli.documents import FORMAT, add_json_option, write_document
from qmlir.cli.flags import ArgumentParser, count, file_of
from qmlir.cli.models import load_simplified
from qmlir.cli.terminal import is_verbose, say, shortened, table_of, terminal
from qmlir.errors import FileError, printable
from qmlir.settings.fields import SAMPLES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.ir.interfaces import Array

FORMER = "qmlir-bench-1"
"""The format of files that older versions wrote, with the same fields."""

SECONDS = 2.0
"""Seconds of measured calls by default; the timed calls take as long again."""

SLOWEST = 12
"""The layers that are listed unless the user asks for more."""

INPUTS = 16
"""The most different inputs; they are used in turn."""


def add_bench_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir bench`."""
    parser.add_argument("--runs", type=count, help="measure this many calls (default: those of --seconds)")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="measure calls this long (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs, if there is no --data (default: 0)")
    with parser.section("samples"):
        parser.add_options(*SAMPLES, what="inputs, used in turn; by default one random input")
    help = f"list the N slowest layers (default: {SLOWEST}; all with --verbose)"
    parser.add_argument("--slowest", type=count, metavar="N", help=help)
    parser.add_argument("--against", type=file_of(".json"), help="compare with an earlier run's .json file")
    add_json_option(parser)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text}")
    return value


def run_bench(arguments: argparse.Namespace) -> None:
    """Measures a network, prints the figures, and writes or compares them if asked to."""
    against: Path | None = arguments.against
    earlier = None if against is None else _read(against)
    figures = measure(arguments)
    most = arguments.slowest or (len(figures["layers"]) if is_verbose() else SLOWEST)
    _show(figures, most)
    if earlier is not None and against is not None:
        _compare(earlier, figures, against, most)
    write_document(arguments, "bench", figures)


# ---------------------------------------------------------------------------------------------------------------
# Measuring


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compiles the network of a command line, and returns its figures."""
    from qmlir.analysis.timing import measure
    from qmlir.backends.cpu.arguments import machine_given

    machine = machine_given(arguments.cpu, arguments.features, arguments.triple)
    module = load_simplified(arguments)
    figures = measure(
        module, _inputs(arguments, module), machine=machine, seconds=arguments.seconds, runs=arguments.runs
    )
    return {"model": str(arguments.model), **figures}


def _inputs(arguments: argparse.Namespace, module: "ModuleOp") -> "list[Mapping[str, Array]]":
    """The inputs that a command line asks for: samples of its data, or one random input."""
    from qmlir.analysis.timing import random_inputs
    from qmlir.compiler import main_function
    from qmlir.ir.signature import signature_of

    signature = signature_of(main_function(module))
    if arguments.data is not None:
        return list(islice(samples_of(arguments, signature, stored_in(arguments.model)), INPUTS))
    return [random_inputs(signature, arguments.seed)]


# ---------------------------------------------------------------------------------------------------------------
# Showing


def _show(figures: Mapping[str, Any], slowest: int) -> None:
    layers, peak, latency = figures["layers"], figures["peak"], figures["latency"]
    whole = figures["timed_seconds"]
    shown = _slowest(layers, slowest)
    unit = _unit(latency["median"])
    rows = [
        (*_row(layer["name"], layer["seconds"], layer["macs"], whole, peak, unit), layer["kernel"]) for layer in shown
    ]
    inside = math.fsum(layer["seconds"] for layer in layers)
    if rest := len(layers) - len(shown):
        others = [layer for layer in layers if not any(layer is s for s in shown)]
        spent, macs = math.fsum(layer["seconds"] for layer in others), sum(layer["macs"] for layer in others)
        rows.append((*_row(f"{rest} others", spent, macs, whole, peak, unit), ""))
    rows.append((*_row("around the layers", max(whole - inside, 0.0), 0, whole, peak, unit), ""))
    numbers = (unit, "share", "MMAC", "GMAC/s", "of peak")
    terminal().print(table_of(("layer", *numbers, "kernel"), rows, numbers, names=("layer",)))
    if is_verbose() and (chosen := [(layer["name"], layer["kernel"], layer["why"]) for layer in shown if layer["why"]]):
        terminal().print(table_of(("layer", "kernel", "why"), chosen, names=("layer",)))
    least, median, most = (_in(unit, latency[key]) for key in ("min", "median", "p90"))
    say(f"{least} {unit} at least, {median} median, {most} in 90 % of {latency['runs']} calls")
    rate = figures["macs"] / latency["median"]
    say(f"{_millions(figures['macs'])} MMAC a call, {rate / 1e9:.1f} GMAC/s: "
        f"{100 * rate / peak['macs_per_second']:.1f} % of the peak of one thread")  # fmt: skip
    say(f"peak: {peak['macs_per_second'] / 1e9:.1f} GMAC/s, measured on {figures['processor'] or 'this processor'}")
    say(f"      with {peak['measured']}")
    sizes = figures["bytes"]
    say(f"{sizes['weights']} bytes of weights, {sizes['arena']} of arena, {sizes['code']} of code")


def _slowest(layers: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The slowest layers in the order of the network, at most `most` of them."""
    chosen = sorted(range(len(layers)), key=lambda n: -layers[n]["seconds"])[:most]
    return [layers[n] for n in sorted(chosen)]


def _row(name: str, seconds: float, macs: int, whole: float, peak: Mapping[str, Any], unit: str) -> tuple[str, ...]:
    rate = macs / seconds if seconds else 0.0
    products = (_millions(macs), f"{rate / 1e9:.1f}", f"{100 * rate / peak['macs_per_second']:.1f} %")
    share = f"{100 * seconds / whole:.1f} %"
    return (name, _in(unit, seconds), share, *(products if macs else ("", "", "")))


def _unit(seconds: float) -> str:
    """The unit in which a call of a network is told."""
    return "µs" if seconds < 1e-3 else "ms"


def _in(unit: str, seconds: float) -> str:
    return f"{1e6 * seconds:.2f}" if unit == "µs" else f"{1000 * seconds:.3f}"


def _millions(macs: int) -> str:
    """A number of MACs in millions, with the digits that small layers need."""
    return f"{macs / 1e6:.2f}" if macs >= 1e5 else f"{macs / 1e6:.4f}"


# ---------------------------------------------------------------------------------------------------------------
# Comparing with an earlier run


def _read(path: Path) -> dict[str, Any]:
    """Reads the figures of an earlier run.

    Raises:
        FileError: The file cannot be read, or is not what `--json` writes.
    """
    need = f"must be what `qmlir bench --json` writes, of format {FORMAT}"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        layers = [(str(row["name"]), float(row["seconds"])) for row in found["layers"]]
        latency = {key: float(found["latency"][key]) for key in ("min", "median", "p90")}
        format = found["format"] if found.get("document", "bench") == "bench" else found["document"]
        known = format in (FORMAT, FORMER) and all(map(math.isfinite, [*latency.values(), *(s for _, s in layers)]))
    except OSError as error:
        raise FileError(path, "must be readable", got=error) from None
    except (ValueError, RecursionError, KeyError, TypeError):
        raise FileError(path, need, got="something else") from None
    if not known:
        raise FileError(path, need, got="no numbers" if format in (FORMAT, FORMER) else f"format {format}")
    return cast(dict[str, Any], found)


def _compare(earlier: Mapping[str, Any], figures: Mapping[str, Any], against: Path, slowest: int) -> None:
    """Prints the times of both runs and their ratio, for each layer and for a call."""
    before = dict(_named(earlier["layers"]))
    unit = _unit(max(run["latency"]["median"] for run in (earlier, figures)))
    rows: list[tuple[str, ...]] = []
    shown = _slowest(figures["layers"], slowest)
    for key, layer in _named(figures["layers"]):
        then = before.pop(key, None)
        if any(layer is s for s in shown):
            rows.append(_change(key[0], None if then is None else then["seconds"], layer["seconds"], unit))
    rows += [_change(key[0], then["seconds"], None, unit) for key, then in before.items()]
    for which in ("min", "median", "p90"):
        rows.append(_change(f"a call: {which}", earlier["latency"][which], figures["latency"][which], unit))
    say("")
    numbers = (f"{unit} then", f"{unit} now", "now / then")
    heading = f"against {shortened(printable(against.name), 20)}"
    terminal().print(table_of((heading, *numbers), rows, numbers, names=(heading,)))


def _named(layers: Sequence[dict[str, Any]]) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    """Yields each layer with its name and how many layers before it have the same name."""
    met: dict[str, int] = {}
    for layer in layers:
        name = str(layer["name"])
        yield (name, met.get(name, 0)), layer
        met[name] = met.get(name, 0) + 1


def _change(name: str, then: float | None, now: float | None, unit: str) -> tuple[str, ...]:
    ratio = f"{now / then:.3f}" if then and now is not None else "–"
    return (name, *("–" if s is None else _in(unit, s) for s in (then, now)), ratio)
