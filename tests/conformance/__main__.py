"""ONNX's cases by hand.

python -m tests.conformance                          all of them, and the summary
python -m tests.conformance --operator Gather Pad    those of some operators
python -m tests.conformance --case test_gather       those whose name holds a text
python -m tests.conformance --verbose …              what became of each
python -m tests.conformance --update …               writes unsupported.yaml anew for the cases that ran
"""

import argparse
import sys

from tests.conformance import listing
from tests.conformance.cases import SUITES, cases
from tests.conformance.outcomes import BACKENDS, FAILED
from tests.conformance.run import run
from tests.conformance.summary import summary


def main() -> int:
    """Exit status 1 if a case has a defect or differs from the list."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="ONNX's own test cases")
    parser.add_argument("--suite", nargs="*", choices=SUITES, default=SUITES)
    parser.add_argument("--operator", nargs="*", help="cases of these operators only")
    parser.add_argument("--case", default="", help="cases whose name holds this text only")
    parser.add_argument("--jobs", type=int, help="processes; by default one for each processor")
    parser.add_argument("--verbose", action="store_true", help="say what became of each case")
    parser.add_argument("--update", action="store_true", help="write the list of unsupported cases anew")
    arguments = parser.parse_args()
    chosen = [
        c
        for suite in arguments.suite
        for c in cases(suite)
        if (arguments.operator is None or c.operator in arguments.operator) and arguments.case in c.name
    ]
    outcomes = run(chosen, jobs=arguments.jobs, progress=True)
    if arguments.verbose:
        for (suite, name), outcome in sorted(outcomes.items()):
            constants = f" with constant {', '.join(outcome.constants)}" if outcome.constants else ""
            results = "; ".join(f"{b}: {outcome.of(b).status} {outcome.of(b).text}" for b in BACKENDS)
            sys.stdout.write(f"{suite}/{name}{constants}: {results}\n")
    sys.stdout.write(summary(chosen, outcomes))
    if arguments.update:
        listing.write(outcomes)
    wrong = listing.differences(outcomes) if listing.FILE.exists() else []
    for line in wrong:
        sys.stdout.write(line + "\n")
    return 1 if wrong or any(FAILED in (o.reference.status, o.cpu.status) for o in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
