"""Constants with scales along an axis, in one scale: only with the same numbers."""

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i8
from xdsl.ir import Block

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.transforms.quantize.apply.one_scale import in_one_scale

SCALE = float(np.float32(0.007))


def constant(columns: list[list[int]], scales: list[float], points: list[int] | None = None) -> ConstantOp:
    """A constant with a scale for each column."""
    stored = np.array(columns, np.int8).T
    op = ConstantOp(stored, TensorType(UniformType.per_axis(i8, 1, scales, points), stored.shape))
    Block([op])
    return op


@pytest.mark.parametrize(
    ("scales", "points", "integers", "point"),
    [
        ([SCALE, SCALE], [3, 3], [[1, 60], [-2, -30]], 3),
        ([SCALE, SCALE], [3, -5], [[-2, 65], [-5, -25]], 0),
        ([SCALE, 2 * SCALE], None, [[1, 120], [-2, -60]], 0),
        ([2 * SCALE, SCALE], None, [[2, 60], [-4, -30]], 0),
    ],
)
def test_same_numbers_in_one_scale(
    scales: list[float], points: list[int] | None, integers: list[list[int]], point: int
) -> None:
    found = in_one_scale(constant([[1, -2], [60, -30]], scales, points).y)
    assert element_of(found) == UniformType.per_tensor(i8, SCALE, point)
    assert isinstance(found.owner, ConstantOp)
    np.testing.assert_array_equal(found.owner.value.array, integers)


@pytest.mark.parametrize(
    ("columns", "scales"),
    [
        ([[1, -2], [65, 0]], [SCALE, 2 * SCALE]),  # 130 does not fit
        ([[1, -2], [3, 4]], [SCALE, 1.5 * SCALE]),
        ([[1, -2], [3, 4]], [1e-38, 3e38]),
        # Three times a scale, rounded to float32, is no multiple of it: most products round otherwise.
        ([[1] * 42, list(range(1, 43))], [SCALE, float(np.float32(3 * SCALE))]),
    ],
)
def test_no_number_changes(columns: list[list[int]], scales: list[float]) -> None:
    given = constant(columns, scales).y
    assert in_one_scale(given) is given


def test_constants_without_elements() -> None:
    given = constant([[], []], [SCALE, 3 * SCALE]).y
    assert in_one_scale(given) is given
