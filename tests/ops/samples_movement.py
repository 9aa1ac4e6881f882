"""Samples of selection and interpolation: slices, gathers, scatters, order, resizing."""

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    f16,
    f64,
    i64,
)
from xdsl.ir import Attribute

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import bound
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.dialects.windows import ints
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import fixed_point
from tests.ops.sample import Operand, Sample, axis, f, i, pads, zero

Properties = dict[str, Attribute | None]


def at(bits: int, *shape: int, size: int) -> Operand:
    """Indices into a dimension, from its end too, and a few beyond it."""
    return Operand(shape, IntegerType(bits), -size - 1, size)


def steps(offsets: list[int], sizes: list[int], strides: list[int]) -> Properties:
    """The properties of nn.slice."""
    return {"offsets": ints(offsets), "sizes": ints(sizes), "strides": ints(strides)}


def dilated(dilations: list[int], value: Attribute | None) -> Properties:
    """The properties of nn.dilate."""
    return {"dilations": ints(dilations), "value": value}


def shape(*sizes: int) -> Properties:
    return {"shape": ints(sizes)}


def order(along: int, k: int, *, largest: bool = True) -> Properties:
    """The properties of nn.top_k."""
    return {**axis(along), "k": IntegerAttr(k, i64), "largest": BoolAttr.from_bool(largest)}


def reduced(how: str) -> Properties:
    return {"reduction": StringAttr(how)}


def tables(sizes: dict[int, tuple[int, int]], taps: int = 2) -> Properties:
    """Tables for nn.resize: random neighbours and weights that add up to one; sizes are axis → (before, after)."""
    rng = np.random.default_rng(7)
    weights = [rng.uniform(-0.2, 1, (after, taps)) for _, after in sizes.values()]
    return {
        "axes": ints(list(sizes)),
        "taps": ArrayAttr([WeightsAttr(rng.integers(0, b, (a, taps))) for b, a in sizes.values()]),
        "weights": ArrayAttr([WeightsAttr(w / w.sum(axis=1, keepdims=True)) for w in weights]),
    }


def fixed(sizes: dict[int, tuple[int, int]], bits: int) -> Properties:
    """The same tables, with weights in multiples of 2^−bits."""
    made = tables(sizes)
    weights = made["weights"]
    assert isinstance(weights, ArrayAttr)
    rows = [fixed_point.fixed_point_rows(w.array, bits) for w in weights if isinstance(w, WeightsAttr)]
    return made | {"weights": ArrayAttr([WeightsAttr(r) for r in rows])}


def parts(sizes: dict[int, tuple[int, int]], bits: int, rounding: str, offset: int = 0) -> Properties:
    """Tables for qint.interpolate: random neighbours and weights that are parts of one."""
    rng = np.random.default_rng(9)
    first = [rng.integers(0, (1 << bits) + 1, (after, 1)) for _, after in sizes.values()]
    return {
        "axes": ints(list(sizes)),
        "taps": ArrayAttr([WeightsAttr(rng.integers(0, b, (a, 2))) for b, a in sizes.values()]),
        "weights": ArrayAttr([WeightsAttr(np.hstack([w, (1 << bits) - w]).astype(np.int32)) for w in first]),
        "bits": int32s([bits] * len(sizes)),
        "rounding": StringAttr(rounding),
        "offset": int32(offset),
    }


def sampled(method: str, padding: str) -> Properties:
    """The properties of nn.sample."""
    return {"method": StringAttr(method), "padding": StringAttr(padding)}


def u8(*sizes: int) -> Operand:
    return Operand(sizes, IntegerType(8, Signedness.UNSIGNED), 0, 255)


FLOAT_SAMPLES = (
    Sample(nn.BroadcastOp, "a row", (f(5),), shape(3, 5)),
    Sample(nn.BroadcastOp, "a column", (f(2, 1, 3, 1),), shape(2, 4, 3, 18)),
    Sample(nn.BroadcastOp, "a scalar", (f(),), shape(2, 3)),
    Sample(nn.DilateOp, "rows and columns", (f(2, 3, 4, 5),), dilated([1, 2, 3, 1], bound(0))),
    Sample(nn.DilateOp, "another value", (f(3, 1, 7),), dilated([2, 5, 3], bound(-0.7))),
    Sample(nn.DilateOp, "saturated value", (f(1, 5),), dilated([9, 2], bound(99))),
    Sample(nn.DilateOp, "nothing", (f(2, 3),), dilated([1, 1], bound(1))),
    Sample(nn.SliceOp, "the middle", (f(3, 5, 4),), steps([1, 2, 0], [2, 2, 4], [1, 1, 1])),
    Sample(nn.SliceOp, "backwards", (f(3, 9),), steps([2, 8], [3, 4], [-1, -2])),
    Sample(nn.SliceOp, "nothing", (f(3, 4),), steps([0, 0], [3, 0], [1, 1])),
    Sample(nn.GatherOp, "rows", (f(4, 5), at(64, 2, 3, size=4)), axis(0)),
    Sample(nn.GatherOp, "columns", (f(2, 5, 3), at(32, 7, size=5)), axis(1)),
    Sample(nn.GatherOp, "one", (f(2, 5), at(64, size=5)), axis(1)),
    Sample(nn.GatherNDOp, "elements", (f(3, 4), at(64, 5, 2, size=3))),
    Sample(nn.GatherNDOp, "rows", (f(3, 4, 6), at(32, 2, 2, 1, size=3))),
    Sample(nn.ScatterNDOp, "elements", (f(3, 4), f(5), at(64, 5, 2, size=3))),
    Sample(nn.ScatterNDOp, "rows", (f(4, 6), f(2, 6), at(32, 2, 1, size=4))),
    Sample(nn.ScatterReduceNDOp, "add", (f(2, 3), f(40), at(64, 40, 2, size=2)), reduced("add")),
    Sample(nn.ScatterReduceNDOp, "mul", (f(4, 6), f(3, 6), at(32, 3, 1, size=4)), reduced("mul")),
    Sample(nn.ScatterReduceNDOp, "max", (f(5), f(9), at(64, 9, 1, size=5)), reduced("max")),
    Sample(nn.ScatterReduceNDOp, "min", (f(5), f(9), at(64, 9, 1, size=5)), reduced("min")),
    Sample(nn.TopKOp, "largest", (f(3, 20),), order(1, 5)),
    Sample(nn.TopKOp, "smallest, all", (f(6, 2, 3),), order(0, 6, largest=False)),
    Sample(nn.ResizeOp, "one axis", (f(2, 5, 3),), tables({1: (5, 7)})),
    Sample(nn.ResizeOp, "rows and columns", (f(2, 4, 5, 18),), tables({1: (4, 7), 2: (5, 3)}, 4)),
    Sample(nn.ResizeOp, "channels first", (f(1, 2, 4, 5),), tables({3: (5, 9), 2: (4, 8)})),
    Sample(nn.SampleOp, "linear", (f(2, 4, 5, 18), f(2, 3, 2, 2, low=-2, high=7)), sampled("linear", "zeros")),
    Sample(nn.SampleOp, "nearest", (f(1, 4, 5, 2), f(1, 20, 2, 2, low=-9, high=9)), sampled("nearest", "border")),
    Sample(nn.SampleOp, "cubic", (f(1, 6, 5, 3), f(1, 20, 2, 2, low=-9, high=9)), sampled("cubic", "reflect_edges")),
    Sample(nn.SampleOp, "mirrored", (f(1, 6, 5, 3), f(1, 20, 2, 2, low=-9, high=9)),
           sampled("linear", "reflect_centres")),
)  # fmt: skip

INTEGER_SAMPLES = (
    Sample(nn.BroadcastOp, "i8", (i(8, 3, 1),), shape(2, 3, 20)),
    Sample(nn.DilateOp, "i8", (i(8, 3, 2, 40),), dilated([2, 3, 1], IntegerAttr(-128, 8))),
    Sample(nn.DilateOp, "i16", (i(16, 9),), dilated([4], IntegerAttr(32767, 16))),
    Sample(nn.SliceOp, "i8", (i(8, 3, 40),), steps([0, 3], [2, 33], [2, 1])),
    Sample(nn.GatherOp, "i8", (i(8, 4, 3), at(64, 5, size=4)), axis(0)),
    Sample(nn.GatherNDOp, "i16", (i(16, 3, 2, 4), at(32, 5, 2, size=2))),
    Sample(nn.ScatterNDOp, "i8", (i(8, 6), i(8, 4), at(64, 4, 1, size=6))),
    Sample(nn.ScatterReduceNDOp, "i8", (i(8, 6), i(8, 20), at(64, 20, 1, size=6)), reduced("add")),
    Sample(nn.ScatterReduceNDOp, "i32", (i(32, 6), i(32, 20), at(64, 20, 1, size=6)), reduced("max")),
    Sample(nn.TopKOp, "i8", (i(8, 3, 40, most=9),), order(1, 7)),
)
"""On integers, beside those on floats above."""

QINT_SAMPLES = (
    Sample(qint.InterpolateOp, "half up", (i(8, 2, 5, 3),), parts({1: (5, 7)}, 15, "half_up", 128)),
    Sample(qint.InterpolateOp, "half away", (i(16, 1, 4, 5, 9),), parts({1: (4, 8), 2: (5, 3)}, 10, "half_away")),
    Sample(qint.InterpolateOp, "in floats", (i(8, 1, 4, 5, 3),), parts({1: (4, 7), 2: (5, 9)}, 24, "float32", 128)),
    Sample(qint.InterpolateOp, "in floats, weights first", (i(8, 1, 4, 5, 3),),
           parts({1: (4, 7), 2: (5, 9)}, 24, "float32_product", 128)),
    Sample(qint.ResizeOp, "one axis", (i(8, 2, 5, 3),), fixed({1: (5, 7)}, 14)),
    Sample(qint.ResizeOp, "rows and columns", (i(8, 1, 4, 5, 18),), fixed({1: (4, 7), 2: (5, 3)}, 10) | zero(-128)),
    Sample(qint.ResizeOp, "i16, channels first", (i(16, 1, 2, 4, 5),), fixed({3: (5, 9), 2: (4, 8)}, 6) | zero(5)),
    Sample(qint.ResizeOp, "64 bits", (i(16, 1, 4, 5, 18),), fixed({1: (4, 7), 2: (5, 3)}, 15) | zero(-32768), i64),
    Sample(qint.ResizeOp, "64 bits, fewer kept", (i(16, 1, 2, 4, 5),),
           fixed({3: (5, 9), 2: (4, 8)}, 20) | zero(5) | {"dropped": int32(11)}, i64),
)  # fmt: skip

OTHER_SAMPLES = (
    Sample(nn.PadOp, "ui8", (u8(2, 3),), pads([1, 0], [0, 2], IntegerAttr(200, IntegerType(8, Signedness.UNSIGNED)))),
    Sample(nn.PadOp, "i1", (Operand((2, 3), IntegerType(1), 0, 1),), pads([1, 0], [0, 2], IntegerAttr(1, 1))),
    Sample(nn.PadOp, "f16", (Operand((2, 3), f16, -9, 9),), pads([1, 0], [0, 2], FloatAttr(-0.7, f16))),
    Sample(nn.PadOp, "f64", (Operand((2, 3), f64, -9, 9),), pads([1, 0], [0, 2], FloatAttr(0.1, f64))),
    Sample(nn.DilateOp, "ui8", (u8(2, 3),), dilated([2, 3], IntegerAttr(200, IntegerType(8, Signedness.UNSIGNED)))),
    Sample(nn.DilateOp, "i1", (Operand((2, 3), IntegerType(1), 0, 1),), dilated([1, 2], IntegerAttr(1, 1))),
    Sample(nn.DilateOp, "f16", (Operand((2, 3), f16, -9, 9),), dilated([3, 2], FloatAttr(-0.7, f16))),
    Sample(nn.DilateOp, "f64", (Operand((2, 3), f64, -9, 9),), dilated([2, 1], FloatAttr(0.1, f64))),
    Sample(nn.BroadcastOp, "f16", (Operand((3, 1), f16, -9, 9),), shape(3, 20)),
    Sample(nn.SliceOp, "i1", (Operand((3, 40), IntegerType(1), 0, 1),), steps([0, 3], [2, 33], [2, 1])),
    Sample(nn.GatherOp, "f64", (Operand((3, 4), f64, -9, 9), at(64, 5, size=3)), axis(0)),
    Sample(nn.ScatterNDOp, "ui8", (u8(6), u8(4), at(64, 4, 1, size=6))),
    Sample(nn.ScatterReduceNDOp, "ui8", (u8(6), u8(20), at(64, 20, 1, size=6)), reduced("max")),
    Sample(nn.TopKOp, "ui8", (u8(3, 40),), order(1, 7, largest=False)),
    Sample(nn.TopKOp, "f64", (Operand((3, 40), f64, -9, 9),), order(1, 7)),
    Sample(nn.SampleOp, "volume", (f(1, 3, 4, 5, 2), f(1, 20, 3, low=-2, high=6)), sampled("linear", "reflect_edges")),
    Sample(nn.SampleOp, "far away", (f(1, 3, 2, 2), f(1, 20, 2, low=-1e30, high=1e30)), sampled("linear", "border")),
    Sample(nn.ResizeOp, "f64", (Operand((2, 5, 3), f64, -9, 9),), tables({1: (5, 7)})),
)
"""On elements of other types."""
