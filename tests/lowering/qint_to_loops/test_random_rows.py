"""2,000 random layers with scales of their own for rows: machine code gives the reference's bits (random_layers.py).

Quotients and magnitudes of rows, layers that are multiplied by the magnitudes of the rows that they read, and Hadamard
transforms between the requantizations that widen and narrow their integers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i8, i16, i32, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn import ConstantOp, HadamardOp
from qmlir.dialects.qint import DivideRowsOp, FullyConnectedOp, MulOp, RequantizeOp, RowMagnitudesOp
from qmlir.dialects.qint.requantize import int32, int32s
from tests.lowering.qint_to_loops.random_layers import (
    Form,
    Layer,
    batches,
    computes,
    ends,
    extreme,
    requantization,
    requantized,
    up_to,
    zero_point_of,
)


def quotients(rng: np.random.Generator) -> Layer:
    """Quotients to 8 or 16 bits, or magnitudes, of rows of 8, 16 or 32 bits, of which some are 0."""
    bits = int(rng.choice([8, 16, 32], p=[0.2, 0.6, 0.2]))
    x = extreme(rng, bits, up_to(rng, 20), up_to(rng, 300)) >> int(rng.integers(0, bits))
    x[rng.random(len(x)) < 0.1] = 0
    narrow = int(rng.choice([8, 16], p=[0.7, 0.3]))
    given: dict[str, Any] = {"zero_point": int32(zero_point_of(rng, min(bits, 16)) if rng.random() < 0.5 else 0)}
    limit = ends(narrow)[1] if rng.random() < 0.5 else int(rng.integers(1, ends(narrow)[1]))

    def graph(v: SSAValue) -> SSAValue:
        if rng.random() < 0.2:
            return RowMagnitudesOp.make([v], given).y
        return DivideRowsOp.make([v], {**given, "limit": int32(limit)}, element=IntegerType(narrow)).y

    return Layer((x,), graph, f"rows {x.shape} {x.dtype}, {limit}, {given}")


def multiplied(rng: np.random.Generator) -> Layer:
    """A layer of bytes, rescaled in 32 bits, multiplied by the magnitudes of its rows, and narrowed."""
    rows, inputs, outputs = up_to(rng, 30), up_to(rng, 200), up_to(rng, 80)
    x = extreme(rng, 16, rows, inputs) >> int(rng.integers(0, 16))
    weights = extreme(rng, 8, outputs, inputs)
    most = int(np.abs(weights.astype(int)).sum(axis=1).max()) * 127 + 1
    up = 30 - most.bit_length() - int(rng.integers(0, 4))  # products reach 30 bits, and sometimes more
    count = outputs if rng.random() < 0.7 else 1
    rescaled = {
        "multiplier": int32s(rng.integers(1 << 30, 1 << 31, count).tolist()),
        "shift": int32s(np.clip(up + rng.integers(-4, 2, count), -31, 30).tolist()),
        "contract": StringAttr("single"),
        "min": int32(ends(32)[0]),
        "max": int32(ends(32)[1]),
        "element": i32,
    }
    least, greatest = sorted(rng.integers(*ends(16), 2).tolist()) if rng.random() < 0.3 else ends(16)
    narrowed = {
        "multiplier": int32s([int(rng.integers(1 << 30, 1 << 31))]),
        "shift": int32s([int(rng.integers(-31, -13))]),
        "contract": StringAttr("single64"),
        "zero_point": int32(int(rng.integers(-9, 9)) if rng.random() < 0.3 else 0),
        "min": int32(least),
        "max": int32(greatest),
        "element": i16,
    }

    def graph(v: SSAValue) -> SSAValue:
        quotient = DivideRowsOp.make([v], {"limit": int32(127)}, element=i8).y
        acc = FullyConnectedOp.make([quotient, ConstantOp(weights).y, []], {}, element=i32).acc
        product = MulOp.make([requantized(acc, rescaled), RowMagnitudesOp.make([v], {}).y], {}, element=i64).acc
        return requantized(product, narrowed)

    return Layer((x,), graph, f"multiplied {x.shape} {weights.shape}, {rescaled}, {narrowed}")


def rotated(rng: np.random.Generator) -> Layer:
    """Hadamard transforms of 8 or 16 bits, widened to 32, narrowed again or not."""
    bits, block = int(rng.choice([8, 16])), 1 << int(rng.integers(1, 11))
    x = extreme(rng, bits, up_to(rng, 12), block * int(rng.integers(1, 4)))
    widening = {
        "multiplier": int32s([1 << 30]),
        "shift": int32s([1 if rng.random() < 0.9 else 0]),
        "contract": StringAttr("single"),
        "min": int32(ends(bits)[0] if rng.random() < 0.9 else -5),
        "max": int32(ends(bits)[1]),
        "element": i32,
    }
    narrowed = requantization(rng, block << bits - 1, x.shape[1]) if rng.random() < 0.8 else None

    def graph(v: SSAValue) -> SSAValue:
        wide = RequantizeOp.make([v], {k: p for k, p in widening.items() if k != "element"}, element=i32).y
        return requantized(HadamardOp.make([wide], {"block": IntegerAttr(block, i64)}).y, narrowed)

    return Layer((x,), graph, f"rotated {x.shape} {x.dtype} in blocks of {block}, {widening}, {narrowed}")


KINDS: tuple[Callable[[np.random.Generator], Layer], ...] = (quotients, multiplied, rotated)


def draw(rng: np.random.Generator) -> Layer:
    return KINDS[int(rng.integers(len(KINDS)))](rng)


@batches
def test_rows(batch: int, form: Form) -> None:
    computes(draw, batch, form)
