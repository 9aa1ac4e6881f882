"""TFLite operators against LiteRT by hand: a table of operator × way of storing numbers × numerics.

python -m tests.conformance.litert                       everything, and the table
python -m tests.conformance.litert --operator ADD MUL    some operators
python -m tests.conformance.litert --format int8         one way of storing numbers
python -m tests.conformance.litert --draws 40            more scales and zero points than the 8 of `make conformance`
python -m tests.conformance.litert --update …            writes deviations.yaml anew for what was surveyed
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.conformance import deviations
from tests.conformance.operators_tflite import NUMERICS, Finding, Findings, Subject, subjects, survey

DRAWS = 8
"""Of `make conformance`."""

Surveyed = Sequence[tuple[Subject, Findings]]


def summary(surveyed: Surveyed) -> str:
    """The table: outputs compared, or differing and by how many steps at most."""
    table = Table(box=None, pad_edge=False, title="TFLite operators against LiteRT", title_justify="left")
    table.add_column("operator")
    table.add_column("numbers")
    for numerics in NUMERICS:
        table.add_column(numerics, justify="right")
    for subject, found in surveyed:
        table.add_row(subject.name, subject.format, *(_cell(found.get(n)) for n in NUMERICS))
    table.add_section()
    table.add_row("all", "", *(_counts(total) for total in _totals(surveyed).values()))
    console = Console(width=140, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
        console.print("a number: outputs, all equal; a/b by s: a of b outputs differ, by s steps at most (floats: ε of "
                      "the largest); ·: LiteRT has no such kernel")  # fmt: skip
    return captured.get()


def totals(surveyed: Surveyed) -> str:
    """Outputs that differ, of those compared, in each numerics."""
    counts = (f"{n} {total.differing} of {total.compared}" for n, total in _totals(surveyed).items())
    return "TFLite operators against LiteRT, outputs that differ: " + ", ".join(counts)


def _totals(surveyed: Surveyed) -> Findings:
    found = {n: Finding() for n in NUMERICS}
    for _, findings in surveyed:
        for numerics, finding in findings.items():
            found[numerics] += finding
    return found


def _cell(finding: Finding | None) -> str:
    if finding is None:
        return "·"
    if finding.wrong or finding.refused:
        return "WRONG" if finding.wrong else "refused"
    return _counts(finding) + (f" by {finding.most}" if finding.differing else "")


def _counts(finding: Finding) -> str:
    return f"{finding.differing}/{finding.compared}" if finding.differing else str(finding.compared)


def main() -> int:
    """Exit status 1 if something has a defect or differs from the list."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.litert", description="operators against LiteRT")
    parser.add_argument("--operator", nargs="*", help="these operators only")
    parser.add_argument("--format", nargs="*", help="these ways of storing numbers only")
    parser.add_argument("--draws", type=int, default=DRAWS, help="scales and zero points of each")
    parser.add_argument("--machine", action="store_true", help="hold the CPU to the reference too")
    parser.add_argument("--update", action="store_true", help="write the list of deviations anew")
    arguments = parser.parse_args()
    chosen = [
        s
        for s in subjects()
        if (arguments.operator is None or s.operator in arguments.operator)
        and (arguments.format is None or s.format in arguments.format)
    ]
    surveyed = list(zip(chosen, survey(chosen, range(arguments.draws), machine=arguments.machine), strict=True))
    sys.stdout.write(summary(surveyed))
    findings = deviations.by_key(surveyed)
    if arguments.update:
        deviations.write(findings)
    wrong = deviations.differences(findings, whole=arguments.draws >= DRAWS)
    sys.stdout.writelines(line + "\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
