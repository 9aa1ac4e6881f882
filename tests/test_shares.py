"""What `make test` runs a share of, `make conformance` runs whole; a share has every value of each parameter."""

import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.conftest import ROOT, Values, covering


def crossed(*sizes: int) -> list[Values]:
    """All combinations of parameters with so many values each."""
    return [frozenset((f"p{n}", v) for n, v in enumerate(values)) for values in product(*map(range, sizes))]


def count(combinations: list[Values], chosen: list[int], value: tuple[str, int]) -> int:
    return sum(value in combinations[number] for number in chosen)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(5,), (3, 4), (7, 2), (11, 3, 2), (4, 4, 4)])
def test_every_value_is_there_so_many_times(sizes: tuple[int, ...], times: int) -> None:
    combinations = crossed(*sizes)
    chosen = covering(combinations, times)
    assert len(set(chosen)) == len(chosen)
    for n, size in enumerate(sizes):
        for v in range(size):
            there = count(combinations, list(range(len(combinations))), (f"p{n}", v))
            assert count(combinations, chosen, (f"p{n}", v)) >= min(times, there)


@pytest.mark.parametrize(("sizes", "least"), [((5,), 5), ((3, 4), 4), ((30, 2), 30), ((11, 5, 2), 11)])
def test_no_more_than_the_longest_parameter_asks_for(sizes: tuple[int, ...], least: int) -> None:
    assert len(covering(crossed(*sizes))) == least


def test_values_of_a_short_parameter_take_turns() -> None:
    combinations = crossed(12, 3)
    chosen = covering(combinations)
    assert [count(combinations, chosen, ("p1", v)) for v in range(3)] == [4, 4, 4]


def test_combinations_that_are_left_out_by_hand_need_not_be_there() -> None:
    combinations = [values for values in crossed(3, 3) if not values >= {("p0", 1), ("p1", 1)}]
    covered = frozenset().union(*(combinations[number] for number in covering(combinations)))
    assert covered == frozenset().union(*combinations)


ROWS = """
import pytest

@pytest.mark.crossed
@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (1, 3), (2, 2), (2, 3)])
@pytest.mark.parametrize("batch", [1, 4])
def test_two_lists(rows, columns, batch): ...

@pytest.mark.crossed
@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (1, 3), (2, 2), (2, 3)])
def test_one_list(rows, columns): ...
"""


@pytest.mark.slow
def test_what_one_list_gives_together_is_one_parameter(tmp_path: Path) -> None:
    """Each row of it runs, and each value of the other lists; the parameters of a single list are crossed."""
    (tmp_path / "test_rows.py").write_text(ROWS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "tests.conftest", "test_rows.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "QMLIR_CONFORMANCE": ""}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    found = re.findall(r"::(\w+)\[(.*)\]", done.stdout)
    rows = [name.split("-") for test, name in found if test == "test_two_lists"]
    assert sorted("-".join(sorted(row[1:])) for row in rows) == ["1-2", "1-3", "2-2", "2-3"]
    assert {row[0] for row in rows} == {"1", "4"}
    assert [test for test, _ in found].count("test_one_list") == 2


def test_the_long_forms_run() -> None:
    """Each test with two forms is part of `make conformance`."""
    (recipe,) = re.findall(r"^conformance:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert '-m "crossed and not models" tests' in recipe
    paths = [word for word in recipe.split() if word.startswith("tests/")]
    assert all((ROOT / path).exists() for path in paths)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT).as_posix()
        if re.search(r"^from tests\.conftest import .*\bTHOROUGH\b", file.read_text(encoding="utf-8"), re.M):
            assert any(name == path or name.startswith(f"{path}/") for path in paths), name
