"""2,000 random products of integer matrices: machine code gives the reference's bits (random_layers.py).

Half of them are fully connected layers, of which some saturate pairs of products. The others are products of two
computed matrices, whose leading dimensions broadcast, and scores of attention.
"""

import numpy as np
from xdsl.dialects.builtin import IntegerType, StringAttr, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import FullyConnectedOp, MatMulOp, RequantizeOp
from qmlir.dialects.qint.contraction import SaturatingFullyConnectedOp
from qmlir.dialects.qint.requantize import int32, int32s
from tests.lowering.qint_to_loops.random_layers import (
    Form,
    Layer,
    Sums,
    batches,
    computes,
    ends,
    extreme,
    largest,
    requantization,
    requantized,
    up_to,
    weighted_data,
    zero_point_of,
)

MOST_WEIGHTS = 100_000


def fully_connected(rng: np.random.Generator) -> Layer:
    """Up to 2,000 inputs, 300 outputs, 40 rows; one row as often as more."""
    saturating = rng.random() < 0.15
    bits, weight_bits = (8, 8) if saturating else (int(rng.choice([8, 16], p=[0.8, 0.2])) for _ in range(2))
    outputs = up_to(rng, 300)
    inputs = up_to(rng, min(2000, MOST_WEIGHTS // outputs))
    rows = 1 if rng.random() < 0.5 else up_to(rng, 40)
    beyond = 0 if saturating else 0.05
    x, zero_point, w = weighted_data(rng, (bits, (rows, inputs)), (weight_bits, (outputs, inputs)), beyond)
    products = int(np.abs(w.astype(np.int64)).sum(1).max()) * largest(x, zero_point)
    sums = Sums.drawn(rng, (inputs + 1 << 15) if saturating else products, outputs)
    if saturating and sums.wide:
        sums = Sums(inputs + 1 << 15, False, None)
    then = None if rng.random() < 0.2 else requantization(rng, sums.most, outputs, sums.wide)
    kind = SaturatingFullyConnectedOp if saturating else FullyConnectedOp

    def graph(v: SSAValue) -> SSAValue:
        operands = [v, ConstantOp(w).y, sums.bias_operand()]
        return requantized(kind.make(operands, {"zero_point": int32(zero_point)}, element=sums.element).acc, then)

    drawn = f"{kind.name} {x.shape} {x.dtype}, {w.shape} {w.dtype}, zero point {zero_point}, {sums}, {then}"
    return Layer((x,), graph, drawn)


def leading(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Leading dimensions of two matrices that broadcast: up to two of 1 to 3, each missing or 1 on a side or not."""
    shape = rng.integers(1, 4, int(rng.integers(0, 3))).tolist()

    def side() -> tuple[int, ...]:
        own = [1 if rng.random() < 0.3 else n for n in shape]
        return tuple(own[int(rng.integers(0, len(own) + 1)) if rng.random() < 0.3 else 0 :])

    return side(), side()


def matmul(rng: np.random.Generator) -> Layer:
    """Matrices of up to 70 rows and 150 columns, sums of up to 400 products; kernels compute some of the matrices."""
    bits = [int(rng.choice([8, 16], p=[0.8, 0.2])) for _ in range(2)]
    rows, terms, columns = up_to(rng, 70), up_to(rng, 400), up_to(rng, 150)
    left, right = leading(rng)
    a, b = extreme(rng, bits[0], *left, rows, terms), extreme(rng, bits[1], *right, terms, columns)
    zero_points = zero_point_of(rng, bits[0]), zero_point_of(rng, bits[1])
    products = terms * largest(a, zero_points[0]) * largest(b, zero_points[1])
    sums = Sums.drawn(rng, products, columns)
    then = None if rng.random() < 0.2 else requantization(rng, sums.most, columns, sums.wide)
    properties = {"lhs_zero_point": int32(zero_points[0]), "rhs_zero_point": int32(zero_points[1])}
    computed = rng.random() < 0.3

    def graph(v: SSAValue, w: SSAValue) -> SSAValue:
        operands = [same(v, bits[0]), same(w, bits[1])] if computed else [v, w]
        return requantized(MatMulOp.make(operands, properties, element=sums.element).acc, then)

    return Layer((a, b), graph, f"{a.shape} {a.dtype}, {b.shape} {b.dtype}, {zero_points}, {sums}, {then}")


def scores(rng: np.random.Generator) -> Layer:
    """Products of words as attention has them, up to 160 terms in quads, that a multiplier of 31 bits rescales."""
    rows, quads, columns = 4 + up_to(rng, 40), up_to(rng, 40), up_to(rng, 100)
    shapes = (2, rows, 4 * quads), (2, 4 * quads, columns)
    a, b = (extreme(rng, 16, *shape) >> int(rng.integers(0, 12)) for shape in shapes)
    then = requantization(rng, 1 << int(rng.integers(24, 37)), columns, wide=True)
    least = int(rng.integers(-17, 0))
    then |= {
        "contract": StringAttr("single64"),
        "constant": None,
        "multiplier": int32s(rng.integers(1 << 30, 1 << 31, count := columns if rng.random() < 0.5 else 1).tolist()),
        "shift": int32s(rng.integers(least, min(least + 3, 0), count).tolist()),
    }

    def graph(v: SSAValue, w: SSAValue) -> SSAValue:
        return requantized(MatMulOp.make([v, w], {}, element=i64).acc, then)

    return Layer((a, b), graph, f"scores {a.shape}, {b.shape}, {then}")


def same(x: SSAValue, bits: int) -> SSAValue:
    """The tensor itself but for its least integer, computed by another kernel: a requantization by 1."""
    properties = {
        "multiplier": int32s([1 << 30]),
        "shift": int32s([1]),
        "contract": StringAttr("single"),
        "min": int32(ends(bits)[0] + 1),
        "max": int32(ends(bits)[1]),
    }
    return RequantizeOp.make([x], properties, element=IntegerType(bits)).y


def draw(rng: np.random.Generator) -> Layer:
    kinds = {fully_connected: 0.5, matmul: 0.35, scores: 0.15}
    return list(kinds)[int(rng.choice(len(kinds), p=list(kinds.values())))](rng)


@batches
def test_products_of_matrices(batch: int, form: Form) -> None:
    computes(draw, batch, form, ["qint_fully_connected", "qint_matmul"])
