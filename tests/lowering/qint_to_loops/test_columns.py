"""Convolutions over a single column of places, as exporters write those over time: the bits of the reference."""

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import Conv2DOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.windows import ints
from tests.conftest import crossed
from tests.lowering.both import check
from tests.lowering.qint_to_loops.test_contraction import integers, requantized
from tests.lowering.qint_to_loops.test_packed_weights import FEATURES

ALL = {**FEATURES, "vnni of 512": "+avx512f,+avx512bw,+avx512vnni,+avx2,+ssse3,+sse2"}


@crossed({
    "taps": [1, 3, 5], "stride": [1, 2], "dilation": [1, 3], "padding": [(0, 0), (2, 1)], "groups": [1, 3],
    "batch": [1, 2], "features": ALL,
})  # fmt: skip
def test_columns(
    taps: int, stride: int, dilation: int, padding: tuple[int, int], groups: int, batch: int, features: str
) -> None:
    w = np.random.default_rng(taps).integers(-128, 127, (21, taps, 1, 12 // groups), np.int8, endpoint=True)
    properties = {
        "zero_point": int32(-7),
        "strides": ints((stride, 1)),
        "dilations": ints((dilation, 1)),
        "padding": ints((*padding, 0, 0)),
        "groups": IntegerAttr(groups, i64),
    }

    def graph(x: SSAValue) -> SSAValue:
        bias = ConstantOp(np.arange(21, dtype=np.int32) * 100).y
        return requantized(Conv2DOp.make([x, ConstantOp(w).y, bias], properties).acc, 21, 3)

    check(graph, integers(1, batch, 31, 1, 12), features=ALL[features])


@pytest.mark.parametrize("padding", [(1, 0), (0, 1)])
def test_padding_beside_the_column(padding: tuple[int, int]) -> None:
    """A window of two columns, one of which is padding."""
    w = integers(1, 9, 3, 2, 4)
    properties = {"padding": ints((1, 1, *padding)), "zero_point": int32(3)}
    check(
        lambda x: requantized(Conv2DOp.make([x, ConstantOp(w).y, []], properties).acc, 9, 3), integers(2, 1, 11, 1, 4)
    )
