"""What `make test` runs a share of, `make conformance` runs whole; a share has every value of each parameter."""

import re

import pytest

from tests.conftest import ROOT, THOROUGH, crossed, taken_in_turn


def test_the_values_of_shorter_lists_are_taken_in_turn() -> None:
    assert list(taken_in_turn(["xy", [1, 2, 3], "k"])) == [("x", 1, "k"), ("y", 2, "k"), ("x", 3, "k")]


def test_a_further_turn_moves_the_others_on_like_a_counter() -> None:
    turns = ["".join(row) for row in taken_in_turn(["ab", "1234", "xy"], turns=4)]
    assert turns == [
        "a1x", "b2y", "a3x", "b4y", "b1x", "a2y", "b3x", "a4y", "a1y", "b2x", "a3y", "b4x", "b1y", "a2x", "b3y", "a4x"
    ]  # fmt: skip


@crossed({"low, high": [(1, 2), (3, 4)], "name": ["a", "b", "c"]})
def test_names_of_one_list_are_given_together(low: int, high: int, name: str, request: pytest.FixtureRequest) -> None:
    assert high == low + 1
    assert THOROUGH or request.node.name.endswith(("[1-2-a]", "[3-4-b]", "[1-2-c]"))


def test_the_long_forms_run() -> None:
    """Each test with two forms is part of `make conformance`."""
    (op_config,) = re.findall(r"^conformance:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert '-m "crossed and not models" tests' in op_config
    paths = [word for word in op_config.split() if word.startswith("tests/")]
    assert all((ROOT / path).exists() for path in paths)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT).as_posix()
        if name != "tests/test_combinations.py" and re.search(
            r"^from tests\.conftest import .*\bTHOROUGH\b", file.read_text(encoding="utf-8"), re.M
        ):
            assert any(name == path or name.startswith(f"{path}/") for path in paths), name
