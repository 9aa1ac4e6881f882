"""2,000 random layers with scales of their own for rows: machine code gives the reference's bits (random_layers.py).

Quotients and magnitudes of rows, layers that are multiplied by the magnitudes of the rows that they read, Hadamard
transforms between the requantizations that widen and narrow their integers, exponentials, attention, normalizations.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, i8, i16, i32, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn import ConstantOp, HadamardOp
from qmlir.dialects.qint import (
    AddOp,
    DivideRowsOp,
    ExponentialsOp,
    FullyConnectedOp,
    LayerNormOp,
    MatMulOp,
    MulOp,
    RequantizeOp,
    RMSNormOp,
    RowMagnitudesOp,
    RowQuotientOp,
)
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.ir.weights import WeightsAttr
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
    """A layer of bytes, rescaled in 32 bits, multiplied by the magnitudes of its rows, narrowed, and biased or not.

    The magnitudes are known before the layer, whose kernel multiplies by them, or behind it.
    """
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

    own = extreme(rng, 8, outputs) if rng.random() < 0.3 else None
    bias, before, left = extreme(rng, 16, outputs), rng.random() < 0.7, rng.random() < 0.8
    least, greatest = sorted(rng.integers(*ends(16), 2).tolist()) if rng.random() < 0.3 else ends(16)
    shift = int(rng.integers(25, 32))
    added = {
        "multipliers": DenseArrayBase.from_list(i64, rng.integers(1, 1 << shift, 2).tolist()),
        "shift": int32(shift),
        "zero_point": int32(int(rng.integers(-9, 9)) if rng.random() < 0.3 else 0),
        "min": int32(least),
        "max": int32(greatest),
    }
    if rng.random() < 0.4:  # all in one scale, most of them without a zero point
        added["multipliers"] = DenseArrayBase.from_list(i64, [1 << 30, 1 << 30])
        added |= {"shift": int32(30), "zero_point": int32(int(rng.random() < 0.2))}
    kind = rng.choice(["channels", "none", "same", "twice"], p=[0.6, 0.2, 0.1, 0.1])

    def graph(v: SSAValue) -> SSAValue:
        quotient = DivideRowsOp.make([v], {"limit": int32(127)}, element=i8).y
        magnitudes = RowMagnitudesOp.make([v], {}).y if before else None
        of_channels = [] if own is None else [ConstantOp(own.astype(np.int32)).y]
        acc = FullyConnectedOp.make([quotient, ConstantOp(weights).y, of_channels], {}, element=i32).acc
        wide = requantized(acc, rescaled)
        product = MulOp.make([wide, magnitudes or RowMagnitudesOp.make([v], {}).y], {}, element=i64).acc
        words = requantized(product, narrowed)
        if kind == "none":
            return words
        other = words if kind == "twice" else ConstantOp(bias if kind == "channels" else bias[:1]).y
        return AddOp.make([words, other] if left else [other, words], added, element=i16).y

    return Layer((x,), graph, f"multiplied {x.shape} {weights.shape}, {rescaled}, {narrowed}, {kind}, {added}, {left}")


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


def exponentials(rng: np.random.Generator) -> Layer:
    """Exponentials of 8 or 16 bits against the maximum along an axis, by tables of up to all differences."""
    bits, axis = int(rng.choice([8, 16], p=[0.2, 0.8])), int(rng.choice([1, 2], p=[0.2, 0.8]))
    x = extreme(rng, bits, up_to(rng, 5), up_to(rng, 20), up_to(rng, 200)) >> int(rng.integers(0, bits))
    table = rng.integers(0, ends(16)[1], up_to(rng, 1 << bits), "i2", endpoint=True)
    table[0] |= 1
    given = {"table": WeightsAttr(table), "axis": IntegerAttr(axis, i64)}
    drawn = f"exponentials {x.shape} {x.dtype} along {axis}, {table.size} entries"
    return Layer((x,), lambda v: ExponentialsOp.make([v], given).y, drawn)


def attended(rng: np.random.Generator) -> Layer:
    """Attention of words: exponentials, their sums of products with values in 32 or 64 bits, and quotients by rows."""
    rows, terms, columns = up_to(rng, 12), up_to(rng, 150), up_to(rng, 40)
    x, values = extreme(rng, 16, rows, terms) >> int(rng.integers(0, 16)), extreme(rng, 16, terms, columns)
    weight = int(rng.integers(255, 1 << int(rng.integers(9, 16))))
    wide = rng.random() < 0.4
    most = min(ends(16)[1], (1 << 63 if wide else 1 << 31) // (terms * weight) - 1)
    values = np.clip(values, -most, most)
    table = rng.integers(0, weight, up_to(rng, 1 << 16), "i2", endpoint=True)
    table[0] = weight
    fraction, narrow = int(rng.integers(10, 15)), int(rng.choice([8, 16], p=[0.2, 0.8]))
    unit = int(rng.integers(1 << fraction - 3, 1 << fraction + 1))
    quotient = {
        "unit": IntegerAttr(unit, i64),
        "fraction": int32(fraction),
        "offset": int32(1 << ((most * unit >> fraction) + 2).bit_length()),
        "zero_point": int32(int(rng.integers(-9, 9)) if rng.random() < 0.3 else 0),
        "min": int32(ends(narrow)[0]),
        "max": int32(ends(narrow)[1]),
    }

    def graph(v: SSAValue) -> SSAValue:
        e = ExponentialsOp.make([v], {"table": WeightsAttr(table), "axis": IntegerAttr(1, i64)}).y
        acc = MatMulOp.make([e, ConstantOp(values).y], {}, element=i64 if wide else i32).acc
        return RowQuotientOp.make([acc, e], quotient, element=IntegerType(narrow)).y

    return Layer((x,), graph, f"attention {x.shape} {values.shape} of {most}, {wide=}, {weight}, {quotient}")


def normalized(rng: np.random.Generator) -> Layer:
    """Layer and root-mean-square normalizations of rows of 8 or 16 bits, with the largest sums of squares, and of 0."""
    bits, narrow = (int(rng.choice([8, 16], p=[0.2, 0.8])) for _ in range(2))
    x = extreme(rng, bits, up_to(rng, 12), up_to(rng, 300)) >> int(rng.integers(0, bits))
    x[rng.random(len(x)) < 0.1] = ends(bits)[0] if rng.random() < 0.5 else 0
    fraction = int(rng.integers(6, 14))
    given = {
        "axis": IntegerAttr(1, i64),
        "end": IntegerAttr(2, i64),
        "multiplier": int32(int(rng.integers(1 << 30, 1 << 31))),
        "shift": int32(fraction // 2 + int(rng.integers(10, 20))),
        "fraction": int32(fraction),
        "epsilon": IntegerAttr(int(rng.integers(0, 1 << int(rng.integers(1, 40)))), i64),
        "min": int32(ends(narrow)[0]),
        "max": int32(ends(narrow)[1]),
    }
    operation = LayerNormOp if rng.random() < 0.6 else RMSNormOp
    if operation is RMSNormOp and rng.random() < 0.3:
        given["input_zero_point"] = int32(int(rng.integers(*ends(bits))))

    def graph(v: SSAValue) -> SSAValue:
        return operation.make([v], given, element=IntegerType(narrow)).y

    return Layer((x,), graph, f"{operation.name} {x.shape} {x.dtype}, {given}")


KINDS: tuple[Callable[[np.random.Generator], Layer], ...] = (
    quotients, multiplied, rotated, exponentials, attended, normalized
)  # fmt: skip


def draw(rng: np.random.Generator) -> Layer:
    return KINDS[int(rng.integers(len(KINDS)))](rng)


@batches
def test_rows(batch: int, form: Form) -> None:
    computes(draw, batch, form)
