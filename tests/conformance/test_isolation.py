"""Processes that crash, hang or take too much memory end by themselves, and the other tasks get done."""

import os
import time
from typing import Any

import pytest

from tests.conformance.isolation import Died, isolated

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def work(task: str) -> Any:
    if task == "crash":
        os._exit(7)
    if task == "hang":
        time.sleep(60)
    while task == "spin":
        pass
    if task == "fill":
        try:
            return len(bytearray(4 << 30))
        except MemoryError:
            return "refused"
    return task.upper()


def test_what_a_task_does_stays_its_own() -> None:
    tasks = ["a", "crash", "b", "hang", "c", "fill", "d"]
    results = dict(isolated(work, tasks, seconds=1, memory=2 << 30, jobs=2))
    assert [results[i] for i in (0, 2, 4, 6)] == ["A", "B", "C", "D"]
    assert results[1] == Died("its process ended with exit status 7")
    assert results[3] == Died("it took more than 6 s")
    assert results[5] == "refused"


@pytest.mark.slow
def test_a_task_that_computes_for_too_long() -> None:
    """However busy the machine is."""
    results = dict(isolated(work, ["spin", "a"], seconds=1, jobs=1, patience=60))
    assert results == {0: Died("it took more than 1 s of processor time"), 1: "A"}
