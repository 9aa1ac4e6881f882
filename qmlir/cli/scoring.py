"""`--labels` and `--metric`: the samples to score networks on, and what a score looks like on the terminal."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from qmlir.cli.flags import ArgumentParser
from qmlir.cli.terminal import say, table_of, terminal
from qmlir.display import counted
from qmlir.errors import OptionError

if TYPE_CHECKING:
    from qmlir.analysis.scores import Comparison, Metric, NetworkScore
    from qmlir.ir.signature import Signature
    from qmlir.numerics import Int64s
    from qmlir.samples.files import Samples

PART = 5
"""Without a number of samples, one in so many serves for quantization, and the others are scored."""


def add_scoring_options(parser: ArgumentParser, *, splits: bool) -> None:
    """Adds `--labels`, `--metric` and what belongs to them.

    Args:
        parser: The parser of a command.
        splits: Whether the command's samples serve for something else, so that others are needed to score on.
    """
    held_out = (
        f"; without --test-data, --samples of the samples of --data (default: one in {PART}), drawn with a fixed "
    )
    held_out += "seed, serve for quantization, and the others are scored"
    what = "float and quantized network" if splits else "outputs"
    parser.add_options("labels", "label-offset", what=what, more=held_out if splits else "")
    parser.add_options("metric", *["test-data"] if splits else [])


@dataclass(frozen=True)
class Trial:
    """What networks are scored on.

    samples   the samples
    labels    their classes; None if only a metric is asked for
    metric    the user's own score, if any
    said      where the samples come from, in a sentence
    """

    samples: "Samples"
    labels: "Int64s | None"
    metric: "Metric | None"
    said: str = ""


def wants_score(arguments: argparse.Namespace) -> bool:
    """Whether the command line asks for a score; raises `OptionError` for options that need one without it."""
    if arguments.labels is not None or arguments.metric is not None:
        return True
    measures = getattr(arguments, "measure", False) is not False  # test samples serve for this, too
    tests = None if measures else getattr(arguments, "test_data", None)
    for name, given in (("--test-data", tests), ("--label-offset", arguments.label_offset)):
        if given:
            raise OptionError(name, "is for a score", remedy="give --labels or --metric, too")
    return False


def trial_of(arguments: argparse.Namespace, samples: "Samples", signature: "Signature", said: str = "") -> Trial:
    """Returns the trial on some samples of a network with a signature.

    Raises:
        QmlirError: There are labels, and the network has not one output of classes.
        OptionError: A label is not a class of the network.
    """
    metric = None if arguments.metric is None else metric_of(arguments.metric)
    labels = None
    if arguments.labels is not None:
        from qmlir.analysis.scores import classes_of, require_classes
        from qmlir.cli.labels import read_labels

        count = classes_of([spec.shape for spec in signature.outputs])
        labels = read_labels(arguments.labels, samples, arguments.label_offset)
        require_classes(labels, count)
    return Trial(samples, labels, metric, said)


def held_out(
    arguments: argparse.Namespace, samples: "Samples | None", tests: "Samples | None", signature: "Signature"
) -> "tuple[Samples | None, Trial]":
    """Returns the samples for quantization, and the trial on others.

    Args:
        arguments: The command line.
        samples: All samples of `--data`, if given.
        tests: All samples of `--test-data`, if given.
        signature: The network's signature.

    Raises:
        OptionError: There are no samples to score on, or a label is not a class of the network.
        QmlirError: There are labels, and the network has not one output of classes.
    """
    if tests is not None:
        used = None if samples is None else samples.first(arguments.samples)
        same = used is not None and tests.path.resolve() == used.path.resolve()
        said = f"scored on {counted(len(tests), 'sample')} of {tests.path}"
        return used, trial_of(
            arguments, tests, signature, f"{said}, quantized on {'the same' if same else 'others'}" if used else said
        )
    if samples is None:
        raise OptionError("--labels", "needs samples", got="no --data", remedy="give --test-data or --data")
    count = arguments.samples or max(1, len(samples) // PART)
    if count >= len(samples):
        got = f"{counted(len(samples), 'sample')}, of which {count} are for quantization"
        raise OptionError(
            "--labels", "needs samples to score on", got=got, remedy="give fewer --samples, or --test-data"
        )
    used, rest = samples.split(count)
    said = f"scored on {counted(len(rest), 'sample')} of {samples.path}, "
    said += f"quantized on the other {count}, drawn with a fixed seed"
    return used, trial_of(arguments, rest, signature, said)


def metric_of(text: str) -> "Metric":
    """Imports a user's function, by `module:function`; modules in the working directory are found.

    Raises:
        OptionError: There is no such module or function, or importing the module fails.
    """
    module, _, name = text.partition(":")
    if not module or not name:
        raise OptionError("--metric", "must be a Python function, module:function", got=text)
    sys.path.insert(0, "")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # importing runs the user's code
        need = f"must name a function that Python can import, {module}:{name}"
        got = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise OptionError("--metric", need, got=got) from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise OptionError("--metric", "must name a function", got=f"{text} of type {type(found).__name__}")
    return cast("Metric", found)


def print_comparison(found: "Comparison", trial: Trial) -> None:
    """Prints the scores of two networks."""
    say(trial.said)
    _print_scores([("float", found.original), ("quantized", found.quantized)], found.samples)
    if found.lost is not None and found.won is not None and found.agreeing is not None:
        share = 100 * found.agreeing / found.samples
        changed = f"top-1: {found.lost} lost, {found.won} won"
        say(f"{changed}; {share:.2f} % have float's first class; SQNR {found.sqnr:.1f} dB")


def print_score(found: "NetworkScore", samples: int) -> None:
    """Prints the score of one network."""
    _print_scores([("outputs", found)], samples)


def _print_scores(rows: "Sequence[tuple[str, NetworkScore]]", samples: int) -> None:
    headings: list[str] = []
    cells = [[name] for name, _ in rows]
    if rows[0][1].top1 is not None:
        headings += ["top-1", "top-5", "ties", "top-1, ties in parts"]
        for row, (_, found) in zip(cells, rows, strict=True):
            counts = (found.top1, found.top5, found.shared)
            first, five, shared = (f"{100 * (count or 0) / samples:.2f} %" for count in counts)
            row += [first, five, str(found.tied), shared]
    if rows[0][1].metric is not None:
        headings.append("metric")
        for row, (_, found) in zip(cells, rows, strict=True):
            row.append(f"{found.metric:.6g}")
    terminal().print(table_of((counted(samples, "sample"), *headings), cells, numbers=headings))
