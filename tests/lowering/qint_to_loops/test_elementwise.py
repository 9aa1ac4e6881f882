"""Integer sums, products and tables as machine code against their numpy meaning."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, TensorType, i8, i16, i32, i64

from qmlir.dialects.qint import AddOp, InterpolatedLookupOp, LookupOp, MulOp
from qmlir.dialects.qint.requantize import int32
from qmlir.ir.weights import WeightsAttr
from tests.conftest import crossed
from tests.lowering.both import check, network, to_loops
from tests.lowering.qint_to_loops.test_contraction import integers, requantized

BROADCASTS = [
    ((4, 5), (4, 5)),
    ((1, 6, 7, 24), (24,)),
    ((24,), (2, 3, 24)),
    ((2, 1, 5), (1, 9, 1)),
    ((6000,), (6000,)),
    ((1, 1, 1, 1), (1, 3, 3, 17)),
]


def add_properties(bits: int, zero_points: tuple[int, int], multipliers: list[int], shift: int) -> dict[str, Any]:
    """Properties of a sum to `bits` bits."""
    return {
        "lhs_zero_point": int32(zero_points[0]),
        "rhs_zero_point": int32(zero_points[1]),
        "multipliers": DenseArrayBase.from_list(i64, multipliers),
        "shift": int32(shift),
        "zero_point": int32(5),
        "min": int32(-(1 << bits - 1)),
        "max": int32((1 << bits - 1) - 1),
    }


@pytest.mark.parametrize(("lhs", "rhs"), BROADCASTS, ids=str)
def test_add(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
    made = add_properties(8, (-3, 100), [0x7FFFFFFF, -0x12345678], 31)
    check(lambda a, b: AddOp.make([a, b], made, element=i8).y, integers(1, *lhs), integers(2, *rhs))


@crossed(
    {"zero_points": [(-128, 127), (127, -128), (-3, 100)], "count": [1, 7, 16, 63, 64, 100, 4096 + 32, 2 * 4096 + 5]}
)
def test_add_of_bytes(count: int, zero_points: tuple[int, int]) -> None:
    """Vectors of all widths and what they leave over; with the clamp of a ReLU."""
    made = add_properties(8, zero_points, [0x2AAAAAAB, -0x12345678], 30) | {"min": int32(5), "max": int32(126)}

    def graph(a: Any, b: Any) -> Any:
        return AddOp.make([a, b], made, element=i8).y

    a, b = integers(1, count), integers(2, count)
    module = to_loops(network(graph, *(TensorType(i8, [count]),) * 2))
    assert count < 8 or "simd.add_bytes" in str(module)
    check(graph, a, b)


@crossed({"bits": [8, 16, 32], "shift": [1, 5, 30, 62]})
def test_add_of_every_width(bits: int, shift: int) -> None:
    made = add_properties(bits, (7, -9), [0x40000001, 0x7FFFFFFF], shift)
    check(
        lambda a, b: AddOp.make([a, b], made, element=IntegerType(bits)).y,
        integers(1, 3, 37, bits=min(bits, 16)),
        integers(2, 3, 37, bits=min(bits, 16)),
    )


def test_add_of_accumulators() -> None:
    made = add_properties(16, (7, -9), [0x40000001, 0x3FFFFFFF], 40)
    check(lambda a, b: AddOp.make([a, b], made, element=i16).y, integers(1, 50, bits=32), integers(2, 50, bits=8))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("lhs", "rhs"), BROADCASTS, ids=str)
def test_mul(lhs: tuple[int, ...], rhs: tuple[int, ...], fused: bool) -> None:
    made = {"lhs_zero_point": int32(-128), "rhs_zero_point": int32(3)}

    def graph(a: Any, b: Any) -> Any:
        acc = MulOp.make([a, b], made).acc
        return requantized(acc, acc.type.get_shape()[-1], 3) if fused else acc

    check(graph, integers(1, *lhs), integers(2, *rhs))


@pytest.mark.parametrize("element", [i8, i16], ids=str)
def test_lookup_of_16_bits(element: IntegerType) -> None:
    x = np.random.default_rng(1).permutation(np.arange(-32768, 32768)).astype(np.int16)
    table = WeightsAttr(integers(1, 65536, bits=element.width.data))
    check(lambda x: LookupOp.make([x], {"table": table}).y, x)


def test_interpolated_lookup() -> None:
    """Between extreme knots too."""
    x = np.arange(-32768, 32768).astype(np.int16)
    table = integers(1, 513, bits=16)
    table[5:9] = [-32768, 32767, -32768, -32768]
    check(lambda x: InterpolatedLookupOp.make([x], {"table": WeightsAttr(table)}).y, x)


@pytest.mark.parametrize("element", [i8, i16, i32], ids=str)
def test_lookup(element: IntegerType) -> None:
    table = integers(1, 256, bits=element.width.data)
    x = np.concatenate([np.arange(-128, 128), np.zeros(5000)]).astype(np.int8)
    check(lambda x: LookupOp.make([x], {"table": WeightsAttr(table)}).y, x)
