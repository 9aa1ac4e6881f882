"""Walks over graphs: their order, and that neither depth nor meeting paths matter."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from qmlir.ir.traversal import contributing, needed_first, reached

DIAMOND = {"a": ["b", "c"], "b": ["d"], "c": ["d", "e"], "d": [], "e": []}


def test_each_item_once_depth_first() -> None:
    assert list(reached(["a"], DIAMOND.__getitem__)) == ["a", "b", "d", "c", "e"]
    assert list(reached(["c", "a"], DIAMOND.__getitem__)) == ["c", "d", "e", "a", "b"]
    assert list(reached([], DIAMOND.__getitem__)) == []


def test_what_is_needed_comes_first() -> None:
    assert list(needed_first(["a"], DIAMOND.__getitem__)) == ["d", "b", "e", "c", "a"]
    assert list(needed_first(["b", "b", "d"], DIAMOND.__getitem__)) == ["d", "b"]
    assert list(needed_first([], DIAMOND.__getitem__)) == []


def test_a_walk_ends_where_its_reader_does() -> None:
    asked: list[str] = []

    def following(item: str) -> Sequence[str]:
        asked.append(item)
        return DIAMOND[item]

    assert next(reached(["a"], following)) == "a"
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize("walk", [reached, needed_first])
def test_depth_and_meeting_paths_do_not_matter(walk: Callable[..., Iterator[int]]) -> None:
    """A chain of 5,000 items, each of which is followed by the next one twice: 2^5000 paths."""
    chain: Mapping[int, Sequence[int]] = {n: [n + 1, n + 1] for n in range(5000)} | {5000: []}
    found = list(walk([0], chain.__getitem__))
    assert found == list(range(5001)) if walk is reached else found == list(range(5001))[::-1]


def test_cycles_end() -> None:
    assert list(reached([0], lambda n: [(n + 1) % 3])) == [0, 1, 2]


def test_what_contributes_to_results() -> None:
    nodes = [("ab", "c"), ("a", "d"), ("c", "ef"), ("", "g"), ("d", "h")]

    def needed(ends: str) -> list[str]:
        return [outputs for _, outputs in contributing(nodes, ends, lambda n: n[0], lambda n: n[1])]

    assert needed("f") == ["c", "ef"]
    assert needed("hg") == ["d", "g", "h"]
    assert needed("a") == []
