"""`--layer-errors`: `qmlir quantize` ends with the least exact operations and the error at the outputs."""

import argparse
from typing import TYPE_CHECKING, Any

from qmlir.cli.documents import prints_document
from qmlir.cli.terminal import progress, say, table_of, terminal
from qmlir.display import counted
from qmlir.errors import OptionError, QmlirError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.dialects.builtin import ModuleOp

    from qmlir.analysis.worst import WorstOperations
    from qmlir.samples.files import Samples


def require_samples(arguments: argparse.Namespace) -> None:
    """Refuses `--layer-errors` for a command line without samples."""
    if arguments.layer_errors and arguments.data is None and arguments.test_data is None:
        got, remedy = "neither --data nor --test-data", "give one of them"
        raise OptionError("--layer-errors", "needs samples", got=got, remedy=remedy)


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
        return tests, used is None or tests.path.resolve() != used.path.resolve() or not {*tests.chosen} & {
            *used.chosen
        }
    if everything is None or used is None:
        return None, False
    others = [number for number in everything.chosen if number not in {*used.chosen}]
    return (everything.of(others), True) if others else (used, False)


def print_layer_errors(
    arguments: argparse.Namespace,
    networks: "tuple[ModuleOp, ModuleOp]",
    totals: "Mapping[str, int | None]",
    samples: "Samples | None",
    held_out: bool,
) -> dict[str, Any] | None:
    """Prints the least exact operations of a quantized network and the error at its outputs.

    Args:
        arguments: The command line.
        networks: The float network, and the network quantized from it.
        totals: The totals of the ledger.
        samples: The samples to compare on; None if there are none.
        held_out: Whether quantization has not seen these samples.

    Returns:
        The figures for a document; None if they are not measured.

    Raises:
        QmlirError: The user asked for the errors, and they cannot be measured.
    """
    from qmlir.analysis.worst import affordable_samples, worst_operations

    asked, unseen = arguments.layer_errors, arguments.quiet and arguments.json is None
    if samples is None or asked is False or (unseen and not prints_document(arguments)):
        return None
    count = affordable_samples(totals, at_any_cost=bool(asked))
    if not count:
        macs = f"{(totals['macs'] or 0) / 1e6:.0f} million MACs"
        work = f"{counted(totals['operations'] or 0, 'operation')} with {macs}"
        say(f"SQNR not measured: {work} take long; --layer-errors measures it")
        return None
    some = samples.first(count)
    try:
        found = worst_operations(*networks, progress(some, len(some), "measuring errors"))
    except QmlirError as error:
        if asked:
            raise
        say(f"SQNR not measured: {error}")
        return None
    _print(found, f"{found.samples} {'sample' if found.samples == 1 else 'samples'}", held_out)
    return {**found.as_dict(), "held_out": held_out}


def _print(found: "WorstOperations", share: str, held_out: bool) -> None:
    origin = "held out" if held_out else "that quantization used, too"
    if found.worst:
        say(f"lowest SQNR in dB, on {share} {origin}:")
        rows = [(r.tensor, r.operation, _decibels(r.isolated_sqnr), _decibels(r.cumulative_sqnr)) for r in found.worst]
        headings = ("tensor", "operation", "own SQNR", "whole SQNR")
        terminal().print(table_of(headings, rows, headings[2:], names=("tensor",), whole=("operation",)))
    for row in found.outputs:
        sqnr = _decibels(row.cumulative_sqnr)
        say(f"SQNR of output {row.tensor}: {sqnr if sqnr == 'exact' else f'{sqnr} dB'}")


def _decibels(sqnr: float | None) -> str:
    return "–" if sqnr is None else "exact" if sqnr == float("inf") else f"{sqnr:.1f}"
