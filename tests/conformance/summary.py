"""The summary of a run: a table by operator and the totals of each suite."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from tests.conformance.cases import Case
from tests.conformance.listing import Key
from tests.conformance.outcomes import BACKENDS, FAILED, LISTED, PASSED, Outcome


def summary(cases: Iterable[Case], outcomes: Mapping[Key, Outcome]) -> str:
    """By operator: its cases, how many of them pass with inputs as they are and with parameters as constants."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    totals: dict[str, list[Outcome]] = {}
    for case in cases:
        if (outcome := outcomes.get((case.suite, case.name))) is not None:
            groups.setdefault((case.suite, case.operator), []).append(outcome)
            totals.setdefault(case.suite, []).append(outcome)
    table = Table(box=None, pad_edge=False, title="ONNX's cases by operator", title_justify="left")
    for column in ("suite", "operator"):
        table.add_column(column)
    for column in ("cases", "reference", "CPU", "as constants", "listed", "FAIL"):
        table.add_column(column, justify="right")
    for (suite, operator), found in sorted(groups.items()):
        table.add_row(suite, operator, *_row(found))
    table.add_section()
    for suite, found in totals.items():
        table.add_row(suite, "all", *_row(found))
    console = Console(width=120, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
        console.print(
            "as constants: passes that load inputs giving shapes, axes, pads, counts or quantization parameters as "
            "constants; listed: refused with a reason on one of the two, see unsupported.yaml"
        )
    return captured.get()


def _row(outcomes: list[Outcome]) -> list[str]:
    statuses = [{o.of(b).status for b in BACKENDS} for o in outcomes]
    numbers = (
        len(outcomes),
        *(sum(o.of(b).status == PASSED for o in outcomes) for b in BACKENDS),
        sum(o.reference.status == PASSED and bool(o.constants) for o in outcomes),
        sum(LISTED in s for s in statuses),
        sum(FAILED in s for s in statuses),
    )
    return [str(n) if n else "·" for n in numbers]
