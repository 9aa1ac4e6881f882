"""Integer pools as machine code against their numpy meaning."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import BoolAttr

from qmlir.dialects.qint import AveragePool2DOp, GlobalSumPoolOp, MaxPool2DOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.windows import ints
from tests.conftest import crossed
from tests.lowering.both import check
from tests.lowering.qint_to_loops.test_contraction import integers, requantized

# x shape, window, strides, padding, dilations
POOLS = {
    "halving": ((1, 8, 10, 16), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    "overlapping": ((2, 9, 7, 24), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "odd channels": ((1, 6, 6, 5), (3, 2), (1, 1), (1, 0, 0, 1), (1, 1)),
    "dilated": ((1, 7, 8, 8), (2, 3), (1, 2), (1, 1, 2, 2), (2, 2)),
    "windows beside the image": ((1, 2, 3, 3), (2, 2), (1, 1), (3, 3, 2, 4), (1, 1)),
    "whole image": ((2, 5, 4, 33), (5, 4), (1, 1), (0, 0, 0, 0), (1, 1)),
}


def properties(case: str) -> dict[str, Any]:
    """The properties of a case."""
    _, window, strides, padding, dilations = POOLS[case]
    return {
        "window": ints(window),
        "strides": ints(strides),
        "padding": ints(padding),
        "dilations": ints(dilations),
    }


@crossed({"case": POOLS, "bits": [8, 16, 32]})
def test_max_pool(case: str, bits: int) -> None:
    check(lambda x: MaxPool2DOp.make([x], properties(case)).y, integers(1, *POOLS[case][0], bits=bits))


@crossed({"case": POOLS, "include": [False, True], "bits": [8, 32]})
def test_average_pool(case: str, include: bool, bits: int) -> None:
    made = properties(case) | {"count_include_pad": BoolAttr.from_bool(include), "zero_point": int32(-100)}
    check(lambda x: AveragePool2DOp.make([x], made).y, integers(1, *POOLS[case][0], bits=bits))


@crossed({"shape": [(1, 7, 7, 40), (3, 2, 5, 3), (1, 1, 1, 1)], "bits": [8, 16], "fused": [False, True]})
def test_global_sum_pool(shape: tuple[int, ...], bits: int, fused: bool) -> None:
    def graph(x: Any) -> Any:
        acc = GlobalSumPoolOp.make([x], {"zero_point": int32(-128)}).acc
        return requantized(acc, shape[3], 3) if fused else acc

    check(graph, integers(1, *shape, bits=bits))


def test_halves_are_rounded_away_from_zero() -> None:
    x = np.array([[1, 2], [-1, -2], [3, 4], [-3, -4]], np.int8).reshape(4, 1, 2, 1)
    check(lambda x: AveragePool2DOp.make([x], {"window": ints([1, 2])}).y, x)
