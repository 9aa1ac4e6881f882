"""Integer sums of bytes and tables as machine code; test_random_elementwise.py draws the rest."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, StringAttr, TensorType, i8, i16, i32, i64

from qmlir.backends.cpu import Machine
from qmlir.codegen.machine import capabilities
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import AddOp, InterpolatedLookupOp, MulOp, RequantizeOp
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.ir.facts import PARALLEL
from qmlir.ir.weights import WeightsAttr
from tests.conftest import crossed
from tests.lowering.both import check, features_of, network, to_loops
from tests.lowering.qint_to_loops.test_contraction import integers


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


@crossed({"bits": [8, 16], "count": [1, 7, 16, 33, 64, 4096 + 37], "bounds": [None, (0, 100), (-101, 77)]})
def test_add_in_one_scale(bits: int, count: int, bounds: tuple[int, int] | None) -> None:
    """Sums that saturate, of operands that have their scale; a row of constants is added to each of three rows."""
    element, (low, high) = IntegerType(bits), bounds or (-(1 << bits - 1), (1 << bits - 1) - 1)
    made = add_properties(bits, (0, 0), [1 << 29, 1 << 29], 29)
    made |= {"zero_point": int32(0), "min": int32(low), "max": int32(high)}
    ends = np.array([-(1 << bits - 1), (1 << bits - 1) - 1], f"i{bits // 8}")
    row = ConstantOp(np.resize(ends, count))
    a, b = (integers(seed, 3 * count, bits=bits).reshape(3, count) for seed in (1, 2))
    a[1:], b[1] = np.resize(ends, count), np.resize(ends, count)

    def graph(a: Any, b: Any) -> Any:
        both = AddOp.make([a, b], made, element=element).y
        return AddOp.make([row.y, both], made, element=element).y

    check(graph, a, b)


def test_a_constant_is_added_by_the_kernel_of_a_product() -> None:
    """Where the product alone is added, in its scale; a sum that something else reads keeps its product."""
    made = add_properties(16, (0, 0), [1 << 30, 1 << 30], 30) | {"zero_point": int32(0)}
    narrow = {
        "multiplier": int32s([1 << 30]),
        "shift": int32s([-14]),
        "contract": StringAttr("single"),
        "min": int32(-(1 << 15)),
        "max": int32((1 << 15) - 1),
    }
    a, b = (integers(seed, 5 * 48, bits=16).reshape(5, 48) for seed in (1, 2))
    row = integers(3, 48, bits=16)

    def graph(a: Any, b: Any, *, again: bool = False) -> Any:
        product = RequantizeOp.make([MulOp.make([a, b], {}, element=i32).acc], narrow, element=i16).y
        total = AddOp.make([product, ConstantOp(row).y], made, element=i16).y
        return [total, product] if again else total

    kernels = [
        sum(map(PARALLEL.on, to_loops(network(g, *(TensorType(i16, [5, 48]),) * 2)).body.block.ops))
        for g in (graph, lambda a, b: graph(a, b, again=True))
    ]
    packs = capabilities(features_of(Machine.host())).packed > 0
    assert kernels == [1 if packs else 2, 2]
    check(graph, a, b)
    check(lambda a, b: graph(a, b, again=True), a, b)


def test_interpolated_lookup() -> None:
    """Between extreme breakpoints too."""
    x = np.arange(-32768, 32768).astype(np.int16)
    table = integers(1, 513, bits=16)
    table[5:9] = [-32768, 32767, -32768, -32768]
    check(lambda x: InterpolatedLookupOp.make([x], {"table": WeightsAttr(table)}).y, x)
