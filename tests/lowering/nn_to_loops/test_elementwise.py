"""Float elementwise operations, activations and softmax as machine code against their numpy meaning, bit for bit."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, f64, i64

from qmlir.codegen.kernels.elementwise import merge_dimensions
from qmlir.dialects.nn import AddOp, ClampOp, MulOp, ReluOp, RequantizeOp, SigmoidOp, SoftmaxOp, TanhOp
from qmlir.dialects.nn.base import bound
from qmlir.lowering.nn_to_loops.normalization import MOST_KEPT
from tests.conftest import crossed
from tests.lowering.both import check

Array = npt.NDArray[Any]

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, 0.5, 1.5, 88.8, -103.9], np.float32
)


def values(seed: int, *shape: int, scale: float = 4.0) -> Array:
    """Values of all magnitudes around `scale`, starting with as many special ones as fit."""
    rng = np.random.default_rng(seed)
    x = np.array(rng.standard_normal(shape) * scale * rng.choice([1e-3, 1.0, 10.0], shape), np.float32)
    flat = x.reshape(-1)
    flat[: min(flat.size, SPECIAL.size)] = SPECIAL[: flat.size]
    return x


SHAPES = [(1,), (), (3, 5), (2, 17, 3), (1, 8, 9, 16), (5000,)]


@crossed({"op": [ReluOp, SigmoidOp, TanhOp, RequantizeOp], "shape": SHAPES})
def test_unary(op: Any, shape: tuple[int, ...]) -> None:
    check(lambda x: op.make([x]).y, values(1, *shape))


@pytest.mark.parametrize("op", [SigmoidOp, TanhOp])
def test_functions_over_their_whole_range(op: Any) -> None:
    exponents = np.linspace(-160, 10, 20001).astype(np.float64)
    x = np.concatenate([2.0**exponents, -(2.0**exponents), np.linspace(-20, 20, 20001)]).astype(np.float32)
    check(lambda x: op.make([x]).y, x)


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (None, 0.1), (-1e-3, None), (2.0, 2.0)])
@pytest.mark.parametrize("kind", [f32, f64])
def test_clamp(low: float | None, high: float | None, kind: Any) -> None:
    properties = {"min": low, "max": high}
    made = {k: None if v is None else FloatAttr(v, kind) for k, v in properties.items()}
    check(lambda x: ClampOp.make([x], made).y, values(1, 200))


BROADCASTS = [
    ((4, 5), (4, 5)),
    ((1, 6, 7, 24), (24,)),
    ((1, 6, 7, 24), (1, 1, 1, 1)),
    ((24,), (2, 3, 24)),
    ((2, 1, 5), (1, 9, 1)),
    ((2, 3, 1, 17), (3, 6, 1)),
    ((), (3, 3)),
    ((1,), (1, 1)),
    ((3, 1), (1, 40)),
    ((10000,), (10000,)),
]


@pytest.mark.parametrize(("lhs", "rhs"), BROADCASTS, ids=str)
@pytest.mark.parametrize("op", [AddOp, MulOp])
def test_binary(op: Any, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
    properties = {"min": bound(-5.0)}
    check(lambda a, b: op.make([a, b], properties).y, values(1, *lhs), np.roll(values(2, *rhs), 5))


def test_an_operand_used_twice() -> None:
    check(lambda a: AddOp.make([a, a]).y, values(1, 33))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1, 10), 1), ((3, 4, 5), 1), ((3, 17), 0), ((2, 1000), 1), ((2, 3, 8), 2), ((4420, 2), 1), ((7,), 0)]
    + [((2, length), 1) for length in (9, 16, MOST_KEPT - 3, MOST_KEPT, MOST_KEPT + 1, MOST_KEPT + 8)],
)
def test_softmax(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(shape) * 6).astype(np.float32)
    check(lambda x: SoftmaxOp.make([x], {"axis": IntegerAttr(axis, i64)}).y, x)


@pytest.mark.slow
def test_softmax_sees_every_place_of_a_row() -> None:
    greatest = np.where(np.eye(19), 50, np.arange(19)).astype(np.float32)
    for rows in (greatest, np.where(np.eye(19), np.nan, greatest).astype(np.float32)):
        check(lambda x: SoftmaxOp.make([x], {"axis": IntegerAttr(1, i64)}).y, rows)


def test_softmax_not_finite() -> None:
    rows = np.array([[np.nan, 1, 2], [np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [-np.inf, 3, 1e38], [-1e38, 0, 0]])
    check(lambda x: SoftmaxOp.make([x], {"axis": IntegerAttr(1, i64)}).y, rows.astype(np.float32))
    check(lambda x: SoftmaxOp.make([x], {"axis": IntegerAttr(0, i64)}).y, rows.astype(np.float32))


def test_dimensions_that_all_operands_treat_alike_merge() -> None:
    assert merge_dimensions((2, 3, 4), [(2, 3, 4), (2, 3, 4)]) == ((24,), ((True,), (True,)))
    assert merge_dimensions((1, 6, 7, 8), [(1, 6, 7, 8), (8,)]) == ((42, 8), ((True, True), (False, True)))
    assert merge_dimensions((2, 3), [(2, 3), ()]) == ((6,), ((True,), (False,)))
    assert merge_dimensions((), [()]) == ((1,), ((True,),))
