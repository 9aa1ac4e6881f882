"""Lists of names: each string once, in order, and joined without being read."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmlir.ir import names as module
from qmlir.ir.names import Names, SourceNames

nested = st.recursive(st.text("abc", max_size=2), lambda parts: st.lists(parts, max_size=4), max_leaves=12)


def joined(parts: object) -> "str | Names":
    return parts if isinstance(parts, str) else Names(joined(p) for p in parts)  # type: ignore[union-attr]


def flat(parts: object) -> Iterator[str]:
    if isinstance(parts, str):
        yield parts
    else:
        for part in parts:  # type: ignore[union-attr]
            yield from flat(part)


@given(parts=st.lists(nested, max_size=4))
def test_joined_names_are_the_strings_in_order(parts: list[object]) -> None:
    expected = [name for name in dict.fromkeys(flat(parts)) if name]
    names = Names(joined(p) for p in parts)
    assert bool(names) >= bool(expected)
    assert list(names) == expected
    assert names == Names(expected)
    assert hash(names) == hash(Names(expected))
    assert len(names) == len(expected)


def test_a_long_chain_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 joins one after another each string is visited once, when somebody asks."""
    visited = 0
    leaves = module._leaves

    def counted(parts: "tuple[str | Names, ...]") -> Iterator[str]:
        nonlocal visited
        for leaf in leaves(parts):
            visited += 1
            yield leaf

    monkeypatch.setattr(module, "_leaves", counted)
    names = Names()
    for index in range(20_000):
        names = Names([names, str(index)])
    assert visited == 0
    assert (len(names), names[0], names[19_999]) == (20_000, "0", "19999")
    assert visited == 20_000


def test_parts_that_several_lists_share_are_visited_once() -> None:
    """Each level holds the one below twice: 2^200 paths."""
    names = Names(["a"])
    for _ in range(200):
        names = Names([names, names])
    assert list(names) == ["a"]


def test_absorbed_tensors_are_those_that_are_no_results() -> None:
    names = SourceNames(Names(["n"]), ("y",), Names(["a", "y", "b"]))
    assert names.absorbed == ("a", "b")
    assert names == SourceNames(Names(["n"]), ("y",), Names(["a", "b"]))
    assert not SourceNames(Names(), (), Names())
