"""`python -m tests.fuzz`: a run of the fuzzer; exits with status 1 if something was found.

    make fuzz N=20000 SEED=1 SECONDS=3600 OUT=build/fuzz
    python -m tests.fuzz --seed 1 --number 4711         # one case again, with what it finds

Cases run in processes of their own, with limits of memory and time: one that crashes or hangs is a finding too.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tests.conformance.isolation import Died, isolated
from tests.fuzz.cases import case, known
from tests.fuzz.checks import Finding, Outcome, check
from tests.fuzz.options import Shares
from tests.fuzz.report import Report
from tests.fuzz.shrink import Key, shrunk, source, write

TIME, MEMORY = 60.0, 4 << 30
"""Seconds of processor time and bytes that a case may take."""

BATCH = 400
"""Cases after which processes are started anew, and new findings shrunk."""

SHRINKING = 40.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fuzzer; returns the exit status."""
    options = _options(arguments)
    shares = Shares(options.machine, options.device if options.devices else 0.0, tuple(options.devices))
    if options.number is not None:
        return _one(options.seed, options.number, shares)
    report, began = Report(), time.monotonic()
    seen: set[Key] = set()
    for first in range(options.start, options.start + options.n, BATCH):
        numbers = range(first, min(first + BATCH, options.start + options.n))
        fresh = _batch(options, shares, numbers, report, began)
        _shrink(options, shares, {k: n for k, n in fresh.items() if k not in seen}, report)
        seen |= set(fresh)
        if options.seconds and time.monotonic() - began > options.seconds:
            break
    _say(report.text(known()), f"\nseed {options.seed}, {time.monotonic() - began:.0f} s")
    return 1 if report.findings else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=1000, help="how many graphs")
    parser.add_argument("--start", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0, help="stop after so many; 0: never")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where tests of what is found are written")
    parser.add_argument("--number", type=int, help="run this case alone")
    parser.add_argument("--machine", type=float, default=0.3, help="share of the graphs that are compiled for the CPU")
    parser.add_argument("--device", type=float, default=0.1, help="share of the graphs that go to a device")
    parser.add_argument(
        "--devices", nargs="*", default=["nmp", "vta", "gemmini", "nvdla-small", "ethos-u55-like", "npu-transformer"]
    )
    return parser.parse_args(arguments)


def _work(seed: int, shares: Shares, number: int) -> Outcome:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    return check(case(seed, number, shares))


def _batch(
    options: argparse.Namespace, shares: Shares, numbers: Sequence[int], report: Report, began: float
) -> dict[Key, int]:
    """Runs some cases; returns one case of each kind of finding."""
    found: dict[Key, int] = {}
    work = partial(_work, options.seed, shares)
    for index, outcome in isolated(work, numbers, seconds=TIME, memory=MEMORY, jobs=options.jobs):
        number = numbers[index]
        if isinstance(outcome, Died):
            outcome = Outcome(findings=[Finding("process", outcome.why, f"case {number}")])
        report.add(number, outcome)
        for finding in outcome.findings:
            found.setdefault(finding.key, number)
        if report.cases % 50 == 0:
            rate = report.cases / (time.monotonic() - began)
            kinds = len(report.findings)
            _say(f"{report.cases} graphs, {rate:.1f} a second, {kinds} kinds of findings", to=sys.stderr)
    return found


def _shrink(options: argparse.Namespace, shares: Shares, fresh: dict[Key, int], report: Report) -> None:
    """Writes a test of each kind of finding, one of those that are of one kind once they are shrunk."""
    tasks, written = list(fresh.items()), set[Key]()

    def work(task: tuple[Key, int]) -> tuple[Any, Finding] | None:
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        return shrunk(case(options.seed, task[1], shares), task[0], SHRINKING)

    for index, result in isolated(work, tasks, seconds=2 * SHRINKING, memory=MEMORY, jobs=options.jobs):
        key, number = tasks[index]
        found = None if isinstance(result, Died) else result
        if (found := found or _whole(options.seed, shares, key, number, report)) is None:
            _say(f"{': '.join(key)}: case {number}, which ends a process", to=sys.stderr)
            continue
        if found[1].key in written:
            continue
        written.add(found[1].key)
        origin = f"Found by `python -m tests.fuzz --seed {options.seed} --number {number}`."
        _say(f"{': '.join(key)}: {write(options.out, *found, origin)}", to=sys.stderr)


def _whole(seed: int, shares: Shares, key: Key, number: int, report: Report) -> tuple[Any, Finding] | None:
    """A case as it was drawn, with its finding; None if even to draw it ends the process, as a runtime may crash."""
    ((_, drawn),) = isolated(lambda number: case(seed, number, shares), [number], seconds=TIME, memory=MEMORY, jobs=1)
    return None if isinstance(drawn, Died) else (drawn, Finding(*key, report.findings[key][0][1]))


def _one(seed: int, number: int, shares: Shares) -> int:
    chosen = case(seed, number, shares)
    _say(source(chosen))
    outcome = check(chosen)
    _say(*(f"refused {step}: {why}" for step, why in outcome.refusals))
    _say(*(f"FOUND {f.check}: {f.kind}\n  {f.detail}" for f in outcome.findings))
    return 1 if outcome.findings else 0


def _say(*lines: str, to: TextIO = sys.stdout) -> None:
    to.write("".join(f"{line}\n" for line in lines))
    to.flush()


if __name__ == "__main__":
    sys.exit(main())
