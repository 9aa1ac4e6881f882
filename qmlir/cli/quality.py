"""`--measure`: `qmlir quantize` ends with how far its outputs are from float's, and with the operations to blame."""

import argparse
from typing import TYPE_CHECKING, Any, cast

from qmlir.cli.documents import prints_document
from qmlir.cli.terminal import progress, say, table_of, terminal
from qmlir.errors import OptionError, QmlirError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.analysis.auto_precision import Widened
    from qmlir.analysis.culprits import Culprit
    from qmlir.analysis.quality import OutputQuality, Quality
    from qmlir.samples.files import Samples


def require_samples(arguments: argparse.Namespace) -> None:
    """Refuses `--measure` for a command line without samples."""
    if arguments.measure and arguments.data is None and arguments.test_data is None:
        got, remedy = "neither --data nor --test-data", "give one of them"
        raise OptionError("--measure", "needs samples", got=got, remedy=remedy)


def measured_samples(
    everything: "Samples | None", used: "Samples | None", tests: "Samples | None"
) -> "tuple[Samples | None, bool]":
    """Returns the samples to compare networks on, and whether quantization has not seen them.

    Args:
        everything: All samples of `--data`, if given.
        used: Those of them that quantization uses.
        tests: Samples to test on, if there are any.
    """
    if tests is not None:
        from qmlir.analysis.measured import is_unseen

        return tests, is_unseen(tests, used)
    if everything is None or used is None:
        return None, False
    others = [number for number in everything.chosen if number not in {*used.chosen}]
    return (everything.of(others), True) if others else (used, False)


def without_aside(
    arguments: argparse.Namespace, module: "ModuleOp", samples: "Samples | None", tests: "Samples | None"
) -> "Samples | None":
    """Returns the samples to quantize on, without those that are kept aside to measure the network on."""
    from qmlir.analysis.measured import parted
    from qmlir.transforms.quantize.quantize import learns_ranges

    used = None if samples is None else samples.first(arguments.samples)
    if used is None or samples is None or tests is not None or len(used) < len(samples):
        return used
    if arguments.measure is False or arguments.profile is not None or not learns_ranges(module):
        return used
    return cast("Samples", parted(module, used, learns=True)[0])


def measure(
    arguments: argparse.Namespace,
    networks: "tuple[ModuleOp, ModuleOp]",
    samples: "Samples | None",
    held_out: bool,
    known: "Quality | None" = None,
) -> "tuple[Quality, list[Culprit]] | None":
    """Measures a quantized network, and writes the quality on it.

    Args:
        arguments: The command line.
        networks: The float network, and the network quantized from it.
        samples: The samples to compare on; None if there are none.
        held_out: Whether quantization has not seen these samples.
        known: The quality, if it was measured already.

    Returns:
        The quality, and the operations that cost the outputs most; None if nothing is measured.

    Raises:
        QmlirError: The user asked for it, and a network cannot be evaluated.
    """
    from qmlir.analysis.culprits import culprits
    from qmlir.analysis.quality import chosen_samples, measured, record_quality

    if samples is None or arguments.measure is False:
        return None
    chosen = chosen_samples(networks[0], samples, held_out=held_out)
    try:
        found = known or measured(*networks, progress(chosen, len(chosen), "measuring"), held_out=held_out)
        record_quality(networks[1], found)
        unseen = arguments.quiet and arguments.json is None and not prints_document(arguments)
        return found, [] if unseen else culprits(*networks, [*chosen[found.worst :], *chosen[: found.worst]])
    except QmlirError as error:
        if arguments.measure:
            raise
        say(f"not measured: {error}")
        return None


def print_quality(
    found: "tuple[Quality, list[Culprit]] | None", automatic: "Widened | None" = None
) -> dict[str, Any] | None:
    """Prints what was measured, with a warning for each output that is below what its bits allow.

    Args:
        found: What was measured; None for nothing.
        automatic: The network, if `--precision auto` has made it.

    Returns:
        The figures for a document.
    """
    if found is None:
        return None
    from qmlir.analysis.quality import REPAIR, warn_of_quality

    quality, worst = found
    if worst:
        say("operations that cost the outputs most, in dB if one alone is quantized:")
        rows = [(each.tensor, each.operation, _decibels(each.effect), _decibels(each.own)) for each in worst]
        headings = ("tensor", "operation", "output", "itself")
        terminal().print(table_of(headings, rows, headings[2:], names=("tensor",), whole=("operation",)))
    for output in quality.outputs:
        say(f"output {output.name}: {_reached(output)}, on {quality.origin}")
    warn_of_quality(quality, REPAIR if automatic is None else automatic.repair)
    return {**quality.as_dict(), "culprits": [each.as_dict() for each in worst]}


def _reached(output: "OutputQuality") -> str:
    if output.sqnr is None:
        share = "is 0 in the float network" if output.agreement is None else f"{100 * output.agreement:.2f} % equal"
        return share
    reached = f"SQNR {_decibels(output.sqnr)}{' dB' if output.sqnr < float('inf') else ''}"
    if output.agreement is not None:
        reached += f", {100 * output.agreement:.2f} % have float's first class"
    return reached


def _decibels(sqnr: float) -> str:
    return "exact" if sqnr == float("inf") else f"{sqnr:.1f}"
