"""Runs cases, each in a process that may be killed, and returns what became of them."""

from collections.abc import Sequence

from rich.progress import Progress

from tests.conformance.cases import Case
from tests.conformance.isolation import Died, isolated
from tests.conformance.listing import Key
from tests.conformance.outcomes import FAILED, Outcome, Result, attempt

SECONDS = 120
"""The most that one case may take, both back ends together."""

MEMORY = 6 << 30


def run(cases: Sequence[Case], *, jobs: int | None = None, progress: bool = False) -> dict[Key, Outcome]:
    """The outcome of each case."""
    outcomes: dict[Key, Outcome] = {}
    with Progress(transient=True, disable=not progress) as bar:
        task = bar.add_task("cases", total=len(cases))
        for index, result in isolated(attempt, cases, seconds=SECONDS, memory=MEMORY, jobs=jobs):
            if isinstance(result, Died):
                died = Result(FAILED, result.why)
                result = Outcome((), died, died)
            outcomes[cases[index].suite, cases[index].name] = result
            bar.advance(task)
    return outcomes
