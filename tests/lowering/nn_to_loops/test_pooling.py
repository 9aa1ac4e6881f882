"""Float pools as machine code against their numpy meaning, bit for bit."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue

from qmlir.dialects.nn import AveragePool2DOp, GlobalAveragePoolOp, MaxPool2DOp
from qmlir.dialects.nn.reduction import AdditionOp
from qmlir.dialects.windows import ints
from qmlir.ir.facts import ADDITION
from tests.lowering.both import check

Array = npt.NDArray[Any]

# x shape, window, strides, padding, dilations
POOLS = {
    "halving": ((1, 8, 10, 16), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    "overlapping": ((2, 9, 7, 24), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "odd channels": ((1, 6, 6, 5), (3, 2), (1, 1), (1, 0, 0, 1), (1, 1)),
    "dilated": ((1, 7, 8, 8), (2, 3), (1, 2), (1, 1, 2, 2), (2, 2)),
    "taps beside the image": ((1, 1, 4, 3), (2, 1), (1, 1), (1, 1, 0, 0), (2, 1)),
    "whole image": ((2, 5, 4, 33), (5, 4), (1, 1), (0, 0, 0, 0), (1, 1)),
}


def floats(*shape: int) -> Array:
    """Normal values, a NaN and infinities among them."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x.reshape(-1)[:3] = np.array([np.nan, np.inf, -np.inf])[: x.size]
    return x


def properties(case: str) -> dict[str, Any]:
    """The properties of a case."""
    _, window, strides, padding, dilations = POOLS[case]
    return {
        "window": ints(window),
        "strides": ints(strides),
        "padding": ints(padding),
        "dilations": ints(dilations),
    }


@pytest.mark.parametrize("case", POOLS)
def test_max_pool(case: str) -> None:
    check(lambda x: MaxPool2DOp.make([x], properties(case)).y, floats(*POOLS[case][0]))


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("case", POOLS)
def test_average_pool(case: str, include: bool) -> None:
    made = properties(case) | {"count_include_pad": BoolAttr.from_bool(include)}
    check(lambda x: AveragePool2DOp.make([x], made).y, floats(*POOLS[case][0]))


def reciprocal(op: AdditionOp) -> SSAValue:
    """The result of an operation that adds as XNNPACK does."""
    ADDITION.put(op, "float32_reciprocal")
    return op.results[0]


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("case", POOLS)
def test_average_pool_by_nines(case: str, include: bool) -> None:
    made = properties(case) | {"count_include_pad": BoolAttr.from_bool(include)}
    check(lambda x: reciprocal(AveragePool2DOp.make([x], made)), floats(*POOLS[case][0]))


@pytest.mark.parametrize("shape", [(1, 7, 7, 40), (3, 2, 5, 3), (1, 1, 1, 1)])
def test_global_average_pool(shape: tuple[int, ...]) -> None:
    check(lambda x: GlobalAveragePoolOp.make([x]).y, floats(*shape))
    check(lambda x: reciprocal(GlobalAveragePoolOp.make([x])), floats(*shape))
