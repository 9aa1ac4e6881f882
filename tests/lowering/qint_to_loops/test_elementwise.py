"""Integer sums of bytes and tables as machine code; test_random_elementwise.py draws the rest."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, TensorType, i8, i64

from qmlir.dialects.qint import AddOp, InterpolatedLookupOp
from qmlir.dialects.qint.requantize import int32
from qmlir.ir.weights import WeightsAttr
from tests.conftest import crossed
from tests.lowering.both import check, network, to_loops
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


def test_interpolated_lookup() -> None:
    """Between extreme breakpoints too."""
    x = np.arange(-32768, 32768).astype(np.int16)
    table = integers(1, 513, bits=16)
    table[5:9] = [-32768, 32767, -32768, -32768]
    check(lambda x: InterpolatedLookupOp.make([x], {"table": WeightsAttr(table)}).y, x)
