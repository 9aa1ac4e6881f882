"""Selection as machine code: what merges, and indices that would leave the buffer."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType, f32, i64

from qmlir.dialects.nn import GatherNDOp, GatherOp, ScatterNDOp, TopKOp
from qmlir.lowering.nn_to_loops.movement import merge_steps
from tests.lowering.both import check

FARTHEST = [0, 2, -1, -3, 3, -4, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63)]


def test_dimensions_taken_whole_merge() -> None:
    assert merge_steps((2, 3, 4), [(0, 2, 1), (0, 3, 1), (0, 4, 1)]) == ((24,), ((0, 24, 1),))
    assert merge_steps((2, 3, 4), [(0, 2, 1), (1, 2, 1), (0, 4, 1)]) == ((2, 12), ((0, 2, 1), (4, 8, 1)))
    assert merge_steps((2, 3, 4), [(1, 2, -1), (0, 3, 1), (0, 4, 1)]) == ((2, 12), ((1, 2, -1), (0, 12, 1)))
    assert merge_steps((5, 4), [(3, 1, -2), (0, 4, 1)]) == ((20,), ((12, 4, 1),))
    assert merge_steps((), []) == ((1,), ((0, 1, 1),))


def test_indices_never_leave_the_buffer() -> None:
    indices = np.array(FARTHEST)
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    check(lambda x, i: GatherOp.make([x, i], {"axis": IntegerAttr(0, i64)}).y, x, indices)
    check(lambda x, i: GatherNDOp.make([x, i]).y, x, np.stack([indices, indices[::-1]], -1))
    updates = np.arange(10, dtype=np.float32) - 50
    check(lambda x, u, i: ScatterNDOp.make([x, u, i]).y, x, updates, np.stack([indices, indices[::-1]], -1))


def test_the_last_of_several_rows_counts() -> None:
    rows = np.array([[0], [0], [2], [0]])
    x, updates = np.zeros((3, 18), np.float32), np.arange(72, dtype=np.float32).reshape(4, 18)

    def graph(x: Any, u: Any, i: Any) -> Any:
        return ScatterNDOp.make([x, u, i]).y

    check(graph, x, updates, rows)


@pytest.mark.parametrize("k", [0, 1, 4, 9])
def test_order_of_zeros_ties_and_nan(k: int) -> None:
    x = np.array([[0.0, -0.0, np.nan, 1, np.inf, 1, -np.inf, -np.nan, -1]], np.float32)
    for largest in (True, False):
        properties = {"axis": IntegerAttr(1, i64), "k": IntegerAttr(k, i64), "largest": BoolAttr.from_bool(largest)}
        check(lambda x, p=properties: TopKOp.make([x], p).y, x)
    value = test.TestOp(result_types=[TensorType(f32, x.shape)]).res[0]
    (places,) = TopKOp.make([value], {"axis": IntegerAttr(1, i64), "k": IntegerAttr(9, i64)}).evaluate(x)
    np.testing.assert_array_equal(places, [[2, 7, 4, 3, 5, 0, 1, 8, 6]])
