"""Windows of buffers: what they say of leads and bounds, checked byte by byte."""

from collections.abc import Mapping, Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from qmlir.codegen.occupancy import Occupancy, Statement
from qmlir.ir.arena import place
from qmlir.ir.stripes import Reads, Stripes

SIZE = 12

ranges = st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).map(lambda r: (r[0], min(SIZE, r[0] + r[1])))


@st.composite
def programs(draw: st.DrawFn) -> tuple[int, Sequence[Mapping[int, tuple[int, int]]]]:
    """A number of buffers, and for each statement the bytes that it touches of some of them; each is used."""
    count = draw(st.integers(1, 4))
    uses = draw(st.lists(st.dictionaries(st.integers(0, count - 1), ranges, max_size=3), min_size=1, max_size=8))
    return count, [*uses, {n: (0, SIZE) for n in range(count) if not any(n in use for use in uses)}]


def holding(uses: Sequence[Mapping[int, tuple[int, int]]], count: int) -> list[set[tuple[int, int]]]:
    """For each statement, the bytes (buffer, byte) that it or one before touched, and it or one behind touches."""
    touched = [{(n, b) for n, (low, high) in use.items() for b in range(low, high)} for use in uses]
    return [set().union(*touched[: t + 1]) & set().union(*touched[t:]) for t in range(len(uses))]


@pytest.mark.slow
@given(programs())
def test_values_of_a_plan_never_share_a_byte(program: tuple[int, Sequence[Mapping[int, tuple[int, int]]]]) -> None:
    count, uses = program
    windows = Occupancy([SIZE] * count, [Statement(use) for use in uses])
    arena = place(windows.items(), leads=windows.leads(), bound=int(windows.bytes_at().max()))
    for held in holding(uses, count):
        places = [arena.offsets[n] + byte for n, byte in held]
        assert len(set(places)) == len(places)
    assert arena.bound <= arena.size


@given(programs(), st.data())
def test_what_a_result_covers_lies_behind_the_lead(
    program: tuple[int, Sequence[Mapping[int, tuple[int, int]]]], data: st.DataObject
) -> None:
    """Operands of a call may be covered as far as the call says, if nothing behind the call reads them."""
    count, uses = program
    statements = [
        Statement(use, result, {n: data.draw(st.integers(0, SIZE)) for n in use if n != result})
        for use in uses
        for result in [min(use, default=-1)]
    ]
    windows = Occupancy([SIZE] * count, statements)
    for one, other in windows.leads():
        lead = windows.leads()[one, other]
        for t, statement in enumerate(statements):
            live = windows.live[[one, other], t].all()
            if live and not (statement.result == one and other in statement.over):
                assert windows.high[one, t] <= lead + windows.low[other, t]
            if live and statement.result == one and other in statement.over:
                assert lead >= statement.over[other]


def test_a_lone_pair_covers_the_larger_of_both_behind_the_lead() -> None:
    """A chain of calls, each of whose results may begin 10 bytes before its operand."""
    statements = [Statement({n: (0, 100), n + 1: (0, 100)}, n + 1, {n: 10}) for n in range(4)]
    windows = Occupancy([100] * 5, statements)
    assert windows.leads() == {(n + 1, n): 10 for n in range(4)}
    assert windows.bytes_at().tolist() == [110] * 4


def test_sizes_are_whole_lines() -> None:
    windows = Occupancy([5], [Statement({0: (0, 5)})], 16)
    assert windows.sizes == [16]
    assert windows.bytes_at().tolist() == [16]


@given(st.integers(1, 4), st.integers(0, 3), st.integers(1, 5), st.integers(1, 8), st.integers(0, 6))
def test_reads_span_the_stripes_of_all_steps(stride: int, origin: int, extent: int, steps: int, begin: int) -> None:
    reads, whole = Reads(3, stride, origin, extent), 30
    rows = {r for t in range(begin, begin + steps) for r in range(t * stride - origin, t * stride - origin + extent)}
    spanned = {3 * row + byte for row in range(min(rows), max(rows) + 1) for byte in range(3)}
    assert set(range(*reads.bytes(begin, begin + steps, whole))) == spanned & set(range(whole))


def test_an_attribute_holds_stripes() -> None:
    stripes = Stripes(4, 512, {0: Reads(96, 2, 1, 3), 2: Reads(512)})
    assert Stripes.of(stripes.attribute()) == stripes
    assert Stripes.of(None) is None
    np.testing.assert_array_equal([stripes.steps(end) for end in (0, 1, 512, 513)], [0, 1, 1, 2])
