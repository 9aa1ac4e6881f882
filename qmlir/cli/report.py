"""`qmlir report`: a page that shows what quantization did to each layer of a network."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli.data import samples_for
from qmlir.cli.documents import add_json_option, write_document
from qmlir.cli.flags import ArgumentParser, file_of
from qmlir.cli.models import load_known
from qmlir.cli.terminal import progress, say
from qmlir.errors import OptionError
from qmlir.settings.fields import LOADING, SAMPLES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

SECONDS = 1.0
"""How long calls of each network are measured by default."""


def add_report_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir report`."""
    add = parser.add_argument
    models = (
        "the float model and one or two networks quantized from it, or fewer of these: .onnx, .tflite, .gguf or .mlir"
    )
    add("models", type=Path, nargs="+", metavar="MODEL", help=models)
    with parser.section("how to read the models"):
        parser.add_options(*LOADING)
    with parser.section("samples"):
        what = "samples, for the error of each layer and the distribution of its values"
        parser.add_options(*SAMPLES, what=what)
        parser.add_options("labels", "label-offset", what="each network", more="")
    add("--profile", type=Path, help="the distributions of tensors (default: learned from --data)")
    parser.add_options("target", "set", what="show the cycles on a device")
    add("--seconds", type=_seconds, default=SECONDS, help="measure calls of each network so long; 0: not (default: 1)")
    add("--title", help="the page's title (default: the name of the first model)")
    add("-o", "--output", type=file_of(".html"), required=True, help="the .html file to write")
    add_json_option(parser)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, or 0, got {text}")
    return value


def run_report(arguments: argparse.Namespace) -> None:
    """Gathers the facts of some networks, and writes the page that shows them."""
    from qmlir.cli.labels import read_labels
    from qmlir.profiles.profile import Profile
    from qmlir.reports.report import report, require_plots

    require_plots()
    paths: list[Path] = arguments.models
    names = _names(paths)
    if arguments.labels is not None and arguments.data is None:
        raise OptionError("--labels", "are of the samples of --data", got="no --data")
    if arguments.labels is None and arguments.label_offset:
        raise OptionError("--label-offset", "is for labels", remedy="give --labels, too")
    found = None if arguments.profile is None else Profile.load(arguments.profile)
    modules = [_load(path, arguments) for path in paths]
    samples = labels = None
    if arguments.data is not None:
        samples = samples_for(arguments, modules, paths, arguments.profile)
    if arguments.labels is not None and samples is not None:
        labels = read_labels(arguments.labels, samples, arguments.label_offset)
    made = report(
        *modules,
        data=None if samples is None else progress(samples, len(samples), "reading samples"),
        labels=labels,
        profile=found,
        target=arguments.target,
        seconds=arguments.seconds,
        names=names,
        title=arguments.title or paths[0].name,
    )
    made.save(arguments.output)
    for sentence in made.facts.missing.values():
        say(sentence)
    say(f"{arguments.output}: written, {len(made.html.encode()) / 1e6:.1f} MB; open it in a browser")
    fields = {"models": list(map(str, paths)), "files": [str(arguments.output)]}
    write_document(arguments, "report", fields | {"missing": list(made.facts.missing.values())})


def _load(path: Path, arguments: argparse.Namespace) -> "ModuleOp":
    """Loads one of the models; the options of loading are for files of other formats than .mlir."""
    own = argparse.Namespace(**{**vars(arguments), "model": path})
    if path.suffix == ".mlir":
        own.signature, own.weights, own.shape, own.state = None, None, [], []
        own.inputs, own.outputs = None, None
    return load_known(own)


def _names(paths: list[Path]) -> list[str]:
    """What the page calls the models: names that differ, and as short as they can."""
    for names in ([path.stem for path in paths], [path.name for path in paths], [str(path) for path in paths]):
        if len({*names}) == len(names):
            return names
    raise OptionError("MODEL", "must be different files", got=", ".join(map(str, paths)))
