"""2,000 random operations on elements: machine code gives the reference's bits (random_layers.py).

Sums, products and quotients of two tensors whose shapes broadcast, tables, and requantizations of what no contraction
computes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerType, StringAttr, i16, i64

from qmlir.dialects.qint import AddOp, DivOp, FloatAddOp, InterpolatedLookupOp, LookupOp, MulOp, RescaledAddOp
from qmlir.dialects.qint.requantize import float32_parts, int32, int32s
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import Array
from qmlir.numerics.contracts import CONTRACTS
from tests.lowering.qint_to_loops.random_layers import (
    Form,
    Layer,
    batches,
    computes,
    ends,
    extreme,
    largest,
    requantization,
    requantized,
    up_to,
    zero_point_of,
)


def shapes_of(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of rank 1 to 4 that broadcast: the same, one with dimensions of 1, or with fewer dimensions."""
    shape = tuple(up_to(rng, 60 if axis else 300) for axis in range(int(rng.integers(1, 5))))[::-1]
    while np.prod(shape) > 20_000:
        shape = tuple(max(1, n // 2) for n in shape)
    other = shape
    if rng.random() < 0.5:
        other = tuple(1 if rng.random() < 0.4 else n for n in shape)[int(rng.integers(0, len(shape))) :]
    return (shape, other) if rng.random() < 0.5 else (other, shape)


def operands(rng: np.random.Generator, beyond: float = 0.05) -> tuple[Array, Array, dict[str, Any], int]:
    """Two operands of 8 or 16 bits, their zero points as properties, and the largest difference from these."""
    shapes, bits = shapes_of(rng), [int(rng.choice([8, 16], p=[0.7, 0.3])) for _ in range(2)]
    a, b = extreme(rng, bits[0], *shapes[0]), extreme(rng, bits[1], *shapes[1])
    left, right = zero_point_of(rng, bits[0], beyond), zero_point_of(rng, bits[1], beyond)
    properties = {"lhs_zero_point": int32(left), "rhs_zero_point": int32(right)}
    return a, b, properties, max(largest(a, left), largest(b, right))


def narrowing(rng: np.random.Generator) -> tuple[dict[str, Any], IntegerType]:
    """Where a result is clamped, and its type of 8 or 16 bits."""
    bits = int(rng.choice([8, 16], p=[0.7, 0.3]))
    low, high = ends(bits)
    least, greatest = sorted(rng.integers(low, high, 2).tolist()) if rng.random() < 0.3 else (low, high)
    zero_point = int(rng.choice([low, 0, high, int(rng.integers(low, high))]))
    return {"zero_point": int32(zero_point), "min": int32(least), "max": int32(greatest)}, IntegerType(bits)


def multiplier_of(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 29, 1 << 31)) if rng.random() < 0.95 else 0


def add(rng: np.random.Generator) -> Layer:
    """Sums with one rounding; a multiplier may be negative."""
    a, b, properties, most = operands(rng)
    narrow, element = narrowing(rng)
    factors = (rng.integers(0, 1 << 31, 2) * rng.choice([1, -1], 2, p=[0.8, 0.2])).tolist()
    shift = int(np.clip(31 + np.log2(most) - element.width.data + rng.integers(-3, 4), 1, 62))
    properties |= {"multipliers": DenseArrayBase.from_list(i64, factors), "shift": int32(shift), **narrow}
    return Layer(
        (a, b), lambda v, w: AddOp.make([v, w], properties, element=element).y, _shown("add", a, b, properties)
    )


def add_bytes(rng: np.random.Generator) -> Layer:
    """All sums of two bytes, with multipliers for which pairs of products fit 32 bits, and others."""
    every = np.arange(-128, 128, dtype=np.int8)
    a, b = every.reshape(-1, 1), every if rng.random() < 0.9 else every[::-1].copy()
    narrow, element = narrowing(rng)
    factors = [int(rng.integers(-(1 << bits), 1 << bits)) for bits in rng.integers(8, 32, 2)]
    reach = 256.0 * max(map(abs, factors)) + 1
    shift = int(np.clip(np.log2(reach) + 1 - element.width.data + rng.integers(-3, 4), 1, 62))
    zero_points = {name: int32(zero_point_of(rng, 8, beyond=0)) for name in ("lhs_zero_point", "rhs_zero_point")}
    properties = {"multipliers": DenseArrayBase.from_list(i64, factors), "shift": int32(shift), **zero_points, **narrow}
    return Layer(
        (a, b), lambda v, w: AddOp.make([v, w], properties, element=element).y, _shown("add bytes", a, b, properties)
    )


def add_words(rng: np.random.Generator) -> Layer:
    """Sums of two words of all sizes, with multipliers for which pairs of products fit 32 bits, and others."""
    shapes = shapes_of(rng)
    a, b = (extreme(rng, 16, *shape) >> int(rng.integers(0, 15)) for shape in shapes)
    low, high = ends(16)
    least, greatest = sorted(rng.integers(low, high, 2).tolist()) if rng.random() < 0.3 else (low, high)
    factors = [int(rng.integers(-(1 << bits), 1 << bits)) for bits in rng.integers(12, 32, 2)]
    shift = int(np.clip(np.log2(sum(map(abs, factors)) + 1) + rng.integers(-2, 4), 1, 62))
    properties: dict[str, Any] = {
        "multipliers": DenseArrayBase.from_list(i64, factors),
        "shift": int32(shift),
        "zero_point": int32(int(rng.choice([low, 0, high, 5]))),
        "min": int32(least),
        "max": int32(greatest),
    }
    if rng.random() < 0.3:
        properties |= {name: int32(zero_point_of(rng, 16)) for name in ("lhs_zero_point", "rhs_zero_point")}
    return Layer(
        (a, b), lambda v, w: AddOp.make([v, w], properties, element=i16).y, _shown("add words", a, b, properties)
    )


def rescaled_add(rng: np.random.Generator) -> Layer:
    """Sums with three roundings, as TFLite's, and differences."""
    a, b, properties, most = operands(rng)
    narrow, element = narrowing(rng)
    names = [name for name, rule in CONTRACTS.items() if rule.step == 1 and rule.limit >= 1 << 31]
    left = int(rng.integers(0, 31 - int(most - 1).bit_length()))
    down = element.width.data - 1 - int(most).bit_length() - left
    shifts = [*(-rng.integers(0, 6, 2)).tolist(), int(np.clip(down + rng.integers(-1, 4), -31, 7))]
    properties |= {
        "left": int32(left),
        "multipliers": int32s([multiplier_of(rng) for _ in range(3)]),
        "shifts": int32s(shifts),
        "operand_contract": StringAttr(names[int(rng.integers(len(names)))]),
        "contract": StringAttr(names[int(rng.integers(len(names)))]),
        "subtract": BoolAttr.from_bool(bool(rng.random() < 0.3)),
        **narrow,
    }
    return Layer(
        (a, b),
        lambda v, w: RescaledAddOp.make([v, w], properties, element=element).y,
        _shown("rescaled add", a, b, properties),
    )


def float_add(rng: np.random.Generator) -> Layer:
    """Sums by fused multiply-adds of float32, as onnxruntime's."""
    a, b, _, most = operands(rng, beyond=0)
    narrow, element = narrowing(rng)
    ratios = 2.0 ** (element.width.data - np.log2(most) + rng.uniform(-2, 1, 2))
    properties = {
        "ratios": int32s([part for ratio in ratios for part in float32_parts(np.float32(ratio))]),
        "constant": int32s(float32_parts(np.float32(rng.uniform(-200, 200)))),
        "offset": int32(int(rng.choice([0, 128]))),
        **narrow,
    }
    return Layer(
        (a, b),
        lambda v, w: FloatAddOp.make([v, w], properties, element=element).y,
        _shown("float add", a, b, properties),
    )


def mul(rng: np.random.Generator) -> Layer:
    """Products, requantized or not; those that 32 bits may not hold wrap around and are not requantized."""
    a, b, properties, most = operands(rng)
    channels = max(a.shape[-1], b.shape[-1])
    keeps = most * most + (1 << 10) >= 1 << 31 or rng.random() < 0.2
    then = None if keeps else requantization(rng, most * most, channels)
    return Layer(
        (a, b),
        lambda v, w: requantized(MulOp.make([v, w], properties).acc, then),
        _shown("mul", a, b, {**properties, "then": then}),
    )


def div(rng: np.random.Generator) -> Layer:
    """Quotients as TFLite's; divisors may be 0."""
    a, b, properties, _ = operands(rng)
    narrow, element = narrowing(rng)
    properties |= {
        "multiplier": int32(multiplier_of(rng)),
        "shift": int32(int(rng.integers(-12, element.width.data))),
        "wraps": BoolAttr.from_bool(bool(rng.random() < 0.5)),
        **narrow,
    }
    return Layer(
        (a, b), lambda v, w: DivOp.make([v, w], properties, element=element).y, _shown("div", a, b, properties)
    )


def lookup(rng: np.random.Generator) -> Layer:
    """Tables of all bytes to 8, 16 or 32 bits, of all 16-bit integers, and tables of breakpoints."""
    shape, _ = shapes_of(rng)
    kind = rng.choice(["bytes", "words", "breakpoints"], p=[0.6, 0.2, 0.2])
    x = extreme(rng, 8 if kind == "bytes" else 16, *shape)
    entries, bits = {"bytes": (256, int(rng.choice([8, 16, 32]))), "words": (65536, int(rng.choice([8, 16])))}.get(
        kind, (513, 16)
    )
    table = WeightsAttr(rng.integers(*ends(bits), entries, f"i{bits // 8}", endpoint=True))
    operation = InterpolatedLookupOp if kind == "breakpoints" else LookupOp
    return Layer(
        (x,), lambda v: operation.make([v], {"table": table}).y, f"{operation.name} {x.shape} {x.dtype}, {bits}"
    )


def requantize(rng: np.random.Generator) -> Layer:
    """Requantizations of 8, 16, 32 or 64 bits that are kernels of their own."""
    shape, _ = shapes_of(rng)
    bits = int(rng.choice([8, 16, 32, 64], p=[0.3, 0.2, 0.35, 0.15]))
    reach = {64: 46, 32: 30}.get(bits, bits - 1)
    x = extreme(rng, bits, *shape) >> (bits - 1 - reach)
    then = requantization(rng, 1 << reach, shape[-1], bits == 64)
    then["input_zero_point"] = int32(int(rng.choice([0, -128, 127, 5])))
    return Layer((x,), lambda v: requantized(v, then), f"requantize {x.shape} {x.dtype}, {then}")


def _shown(name: str, a: Array, b: Array, properties: dict[str, Any]) -> str:
    return f"{name} {a.shape} {a.dtype}, {b.shape} {b.dtype}, {properties}"


KINDS: tuple[Callable[[np.random.Generator], Layer], ...] = (
    add, add_bytes, add_words, rescaled_add, float_add, mul, div, lookup, requantize, requantize,
)  # fmt: skip


def draw(rng: np.random.Generator) -> Layer:
    return KINDS[int(rng.integers(len(KINDS)))](rng)


@batches
def test_operations_on_elements(batch: int, form: Form) -> None:
    computes(draw, batch, form)
