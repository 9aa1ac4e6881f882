"""Leads: the least distance at which writing a result leaves what is still to be read."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from qmlir.codegen.kernels.row_groups import RowGroups
from qmlir.codegen.leads import least_lead


def survives(lead: int, written: list[int], read: list[int], *, buffered: bool) -> bool:
    """Whether no step overwrites a byte that it or a later step reads: byte b of the operand lies at lead + b."""
    for step, end in enumerate(written):
        needed = read[step + 1 :] if buffered else read[step:]
        if any(lead + first < max(written[: step + 1]) for first in needed) and end >= 0:
            return False
    return True


steps = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=12)


@given(steps, st.booleans())
def test_no_shorter_lead_survives(steps: list[tuple[int, int]], buffered: bool) -> None:
    written, read = [end for end, _ in steps], [first for _, first in steps]
    lead = least_lead(written, read, buffered=buffered)
    assert survives(lead, written, read, buffered=buffered)
    assert survives(lead + 7, written, read, buffered=buffered)
    assert lead == 0 or not survives(lead - 1, written, read, buffered=buffered)


def test_without_steps_a_result_is_in_place() -> None:
    assert least_lead([], [], buffered=False) == 0


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("group", [1, 2])
def test_stripes_know_their_first_row(stride: int, dilation: int, group: int) -> None:
    """`top` and `end` are the numbers that the generated code computes with `first` and `count`."""
    bands = RowGroups(3, stride, dilation, 1, group)
    for row in range(6):
        first = row * stride // group if bands.shared else row * bands.count
        assert bands.end(row) == first + bands.count
        window = row * stride - 1
        assert window - group < bands.top(row) <= window
        if bands.shared:
            assert bands.top(row, prepared=first + 1) == (first + 1) * group - 1
