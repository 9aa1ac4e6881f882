"""Sums, means, products and running sums of floats as machine code against their numpy meaning, bit for bit."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType, f32, i64
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from qmlir.dialects import nn
from qmlir.dialects.nn.reduction import AdditionOp
from qmlir.dialects.windows import ints
from qmlir.ir.facts import ADDITION
from qmlir.numerics.additions import ADDITIONS
from tests.lowering.both import check

Array = np.ndarray[Any, np.dtype[np.float32]]

AXES = (
    ((40,), (0,)),
    ((3, 50), (1,)),
    ((50, 3), (0,)),
    ((3, 7, 11), (0, 2)),
    ((3, 7, 11), (1, 2)),
    ((3, 7, 1), (0, 2)),
    ((2, 3, 4, 5, 6), (1, 3)),
    ((2, 3, 4, 5, 6), (0, 2, 4)),
    ((2, 0, 3), (1,)),
)
"""Shapes and reduced axes: the first, the last, apart, and of one element."""


def floats(shape: tuple[int, ...]) -> Array:
    """Numbers whose sums depend on the order of additions, with zeros of both signs."""
    x = np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)
    x.reshape(-1)[::5] = -0.0
    return x


def adding(op: AdditionOp, addition: str) -> SSAValue:
    """The result of an operation that adds in a way."""
    ADDITION.put(op, addition)
    return op.results[0]


@pytest.mark.parametrize(("shape", "axes"), AXES)
@pytest.mark.parametrize("kind", [nn.ReduceSumOp, nn.ReduceMeanOp, nn.ReduceProdOp])
def test_reductions(kind: type[Any], shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    for addition in kind.ADDITIONS:
        check(lambda x, way=addition: adding(kind.make([x], {"axes": ints(axes)}), way), floats(shape))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("kind", [nn.CumulativeSumOp, nn.CumulativeProductOp])
def test_running_sums(kind: type[Any], exclusive: bool) -> None:
    properties = {"axis": IntegerAttr(1, i64), "exclusive": BoolAttr.from_bool(exclusive)}
    check(lambda x: adding(kind.make([x], properties), "float32"), floats((3, 40, 5)))


def test_the_order_of_additions_is_the_named_one() -> None:
    """1, 0 and twice 2^−24: one by one in float32 nothing is added; by runs the small numbers are added first."""
    x = np.array([[1, 0], [2.0**-24] * 2], np.float32).reshape(2, 1, 2)
    results: list[float] = []
    for addition in ADDITIONS:
        op = nn.ReduceSumOp.make([create_ssa_value(TensorType(f32, [2, 1, 2]))], {"axes": ints((0, 2))})
        adding(op, addition)
        results.append(float(op.evaluate(x)[0].item()))
    assert results == [1, 1 + 2.0**-23]
