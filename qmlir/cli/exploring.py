"""`qmlir explore`: networks, quantized by policies, on variants of a device."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli.data import samples_at, stored_by
from qmlir.cli.documents import add_json_option, write_document
from qmlir.cli.flags import ArgumentParser, count, file_of, names_of
from qmlir.cli.models import load_known
from qmlir.cli.printed_options import add_config_file_options
from qmlir.cli.terminal import counting, say, table_of, terminal
from qmlir.cli.workers import add_worker_options, workers_from
from qmlir.display import bytes_text, counted
from qmlir.errors import OptionError
from qmlir.running.files import together, write_whole
from qmlir.settings.fields import LOADING

if TYPE_CHECKING:
    from qmlir.analysis.explore import Workload
    from qmlir.analysis.explore.result import Explored, Row


def add_explore_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir explore`."""
    add = parser.add_argument
    add("device", help="a device file, or the name of a device that comes with qmlir")
    add(
        "models",
        type=Path,
        nargs="+",
        metavar="MODEL",
        help="float networks: .onnx, .tflite, .gguf, .mlir, .pb, .pbtxt",
    )
    add(
        "--sweep",
        action="append",
        default=[],
        metavar="KEY=VALUE,…",
        help="values of a key of the device, such as array.lanes.k=8,16,32 or memory.act.bytes=64KiB,128KiB; may be "
        "repeated: all combinations are measured",
    )
    add("--policy", action="append", default=[], type=Path, metavar="FILE", help="a policy; may be repeated")
    add("--schema", action="append", default=[], metavar="SCHEMA", help="a policy of a schema; may be repeated")
    add("--precision", action="append", default=[], metavar="TYPE", help="a policy of a precision; may be repeated")
    with parser.section("samples"):
        add(
            "--data",
            action="append",
            default=[],
            type=Path,
            metavar="SAMPLES",
            help="quantize and measure errors on these samples (default: random ones for ranges, and no errors); "
            "once, or once for each model",
        )
        add("--samples", type=count, help="use at most this many samples (default: all)")
        add("--dtype", help="the type that raw files store, such as uint8")
        add("--preprocess", metavar="OPTIONS", help="how pictures become inputs, as for qmlir profile")
        add("--profile", action="append", default=[], type=Path, help="a profile; once for each model")
    with parser.section("how to read the models"):
        parser.add_options(*LOADING)
    add(
        "--front",
        type=names_of,
        metavar="NAME,…",
        help="what combinations are compared by (default: cycles,macs,memories,sqnr); also weights, stream, memory, "
        "utilization, host, agreement, seconds",
    )
    add("--csv", type=file_of(".csv"), help="write all rows as CSV")
    add("--plot", type=file_of(".svg"), help="write a picture of the rows, with a line along the best")
    add("--axes", type=names_of, metavar="X,Y", help="axes of the picture (default: cycles,sqnr, or cycles,macs)")
    add("--results", type=Path, metavar="FOLDER", help="keep results here (default: beside compiled networks)")
    add_worker_options(parser)
    add_config_file_options(parser)
    add_json_option(parser)


def run_explore(arguments: argparse.Namespace) -> None:
    """Measures all combinations, and prints a row for each."""
    from qmlir.analysis.explore import explore
    from qmlir.analysis.explore.result import FRONT, objectives_given
    from qmlir.analysis.explore.sweep import sweeps_of

    axes = arguments.axes or ()
    if axes and (len(axes) != 2 or arguments.plot is None):
        need = "must be two names, for --plot"
        raise OptionError("--axes", need, got=",".join(axes) if len(axes) != 2 else "no --plot")
    objectives_given(axes or FRONT)
    sweep, policies, loads = sweeps_of(arguments.sweep), _policies(arguments), _workloads(arguments)
    total = len(loads) * len(policies or [""])
    for values in sweep.values():
        total *= len(values)
    with workers_from(arguments) as workers, counting(total, "exploring") as done:
        options: dict[str, Any] = {"policies": policies or None, "front": arguments.front or FRONT, "done": done}
        found = explore(arguments.device, loads, sweep=sweep, results=arguments.results, workers=workers, **options)
    _print(found)
    asked = {arguments.csv: found.csv, arguments.plot: lambda: found.svg(*axes)}
    texts = {path: text for path, text in asked.items() if path is not None}
    with together():
        for path, text in texts.items():
            write_whole(path, text())
    files = list(texts)
    for path in files:
        say(f"{path}: written")
    fields = {"models": list(map(str, arguments.models)), "files": list(map(str, files))}
    write_document(arguments, "explore", fields | found.as_dict())


def _policies(arguments: argparse.Namespace) -> dict[str, Any]:
    """The policies of a command line by name: files by their stems, and one for each schema and precision."""
    found: dict[str, Any] = {}
    for path in arguments.policy:
        found[path.stem if path.stem not in found else str(path)] = path
    for name in ("schema", "precision"):
        found |= {value: {"default": {name: value}} for value in getattr(arguments, name)}
    return found


def _workloads(arguments: argparse.Namespace) -> "list[Workload]":
    """The networks of a command line with their samples.

    Raises:
        OptionError: There are neither as many samples, or profiles, as models, nor one for all.
    """
    from qmlir.analysis.explore import Workload
    from qmlir.compiler import main_function
    from qmlir.ir.signature import signature_of

    models: list[Path] = arguments.models
    data = _for_each("--data", arguments.data, models)
    profiles = _for_each("--profile", arguments.profile, models)
    found: list[Workload] = []
    for path, place, profile in zip(models, data, profiles, strict=True):
        own = argparse.Namespace(**{**vars(arguments), "model": path, "quantized": None})
        module = load_known(own)
        samples = None
        if place is not None:
            stored = stored_by((module, path), profile=profile)
            samples = samples_at(place, own, signature_of(main_function(module)), stored).first(arguments.samples)
        found.append(Workload(module, samples, profile=profile, name=path.stem))
    return found


def _for_each(option: str, given: list[Path], models: list[Path]) -> "list[Path | None]":
    if len(given) not in (0, 1, len(models)):
        got = f"{len(given)} for {counted(len(models), 'model')}"
        raise OptionError(option, "must be given once, or once for each model", got=got)
    return [*given] if len(given) == len(models) else [*(given or [None]) * len(models)]


HEADINGS = ("row", "cycles", "used", "constants", "memory", "host", "SQNR", "agree", "")


def _print(found: "Explored") -> None:
    """Prints what each row is, with the reason where the device does not serve it, and the figures of the others.

    The names stand before the table: beside the figures, a terminal of 80 columns has no room for them.
    """
    for number, row in enumerate(found, start=1):
        reason = f": {row.reason}" if row.figures is None else ""
        say(f"{number}  {row.model}, {row.variant.said}, {row.policy}{reason}")
    served = [(number, row) for number, row in enumerate(found, start=1) if row.figures is not None]
    if served:
        terminal().print(table_of(HEADINGS, (_cells(*each) for each in served), HEADINGS[:-1]))
    say(found.table().title)


def _cells(number: int, row: "Row") -> tuple[str, ...]:
    figures = row.figures
    assert figures is not None
    return (
        f"{number}",
        f"{figures.cycles}",
        f"{100 * figures.utilization:.1f} %",
        bytes_text(figures.weights + figures.stream),
        bytes_text(figures.memory),
        f"{figures.host}",
        "–" if figures.sqnr is None else f"{figures.sqnr:.2f}",
        "–" if figures.agreement is None else f"{figures.agreement:.2f} %",
        "front" if row.front else "",
    )
