"""What `qint-to-tosa` is tried on, here by the specification and in tests/interop by other compilers."""

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, f32, i8, i16, i32
from xdsl.ir import SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.quant.ops import QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from tests.interop.cases import ALL, MOVES, Case, cast_cases, sample_case
from tests.lowering.both import network
from tests.ops.samples import (
    COUNT_PAD,
    HALF,
    MOST,
    Sample,
    b,
    i,
    int32,
    narrow,
    pads,
    scaled,
    summed,
    window,
    zero,
    zeros,
)

FLOAT = "only integers, data movement and casts"
REFUSED = {
    "qint.conv2d-i16_data": "sums products of i8",
    "qint.fully_connected-i16_data_and_weights": "sums products of i8",
    "qint.average_pool2d-dilated": "sums products of i8",
    "qint.requantize-to_i32": "needs accumulators below 2",
    "qint.requantize-upup": "needs a contract of single",
    "qint.requantize-float_even": "needs a contract of single",
    "qint.requantize-float_even_ties": "needs a contract of single",
    **{str(s): FLOAT for s in ALL if s.op.name.startswith("nn.") and not issubclass(s.op, MOVES)},
}
"""Samples without a form in tosa, and what is said of them."""

MORE = (
    Sample(qint.Conv2DOp, "rows left over", (i(8, 2, 6, 7, 2), i(8, 3, 3, 2, 2), b(3)), zero(9) | window((2, 3))),
    Sample(
        qint.Conv2DOp,
        "padding left over",
        (i(8, 1, 5, 5, 2), i(8, 3, 2, 2, 2), b(3)),
        zero(-128) | window((3, 3), (0, 2, 1, 3)),
    ),
    Sample(
        qint.Conv2DOp, "image left over", (i(8, 1, 1, 2, 1), i(8, 2, 1, 1, 1)), zero(7) | window((3, 4), (2, 1, 3, 0))
    ),
    Sample(qint.AveragePool2DOp, "dilated i8", (i(8, 1, 7, 7, 2),), window(dilations=(2, 3), window=(3, 2))),
    Sample(qint.AveragePool2DOp, "all values", (i(8, 1, 90, 3, 2),), window(window=(2, 1))),
    Sample(
        qint.AveragePool2DOp,
        "counting leftovers",
        (i(8, 1, 6, 5, 2),),
        COUNT_PAD | zero(127) | window((2, 3), (0, 1, 2, 2), window=(3, 3)),
    ),
    Sample(qint.MaxPool2DOp, "leftovers", (i(8, 1, 8, 7, 2),), window((3, 2), (1, 1, 0, 0), window=(2, 2))),
    Sample(qint.MaxPool2DOp, "dilated i16", (i(16, 2, 8, 7, 2),), window((2, 1), (1, 0, 1, 1), (3, 2), (2, 2))),
    Sample(qint.RequantizeOp, "beyond reach", (i(32, 200),), scaled([HALF + 99], [2]) | narrow(8, -7, -100), i8),
    Sample(
        qint.RequantizeOp,
        "channels beyond reach",
        (i(32, 90, 3),),
        scaled([HALF, MOST, HALF + 1], [0, 9, -3], "double") | narrow(16, 3),
        i16,
    ),
    Sample(
        qint.RequantizeOp, "double below zero", (i(32, 400, most=70),), scaled([MOST], [-5], "double") | narrow(), i8
    ),
    Sample(
        qint.RequantizeOp, "double channels", (i(32, 90, 2),), scaled([MOST, HALF], [-25, -31], "double") | narrow(), i8
    ),
    Sample(
        qint.RequantizeOp,
        "upup in one step",
        (i(8, 256),),
        scaled([HALF + 5], [1], "upup") | narrow() | {"input_zero_point": int32(-128)},
        i8,
    ),
    Sample(
        qint.RequantizeOp,
        "i16 with zero points",
        (i(16, 300),),
        scaled([HALF + 5], [-2]) | narrow(16, 5) | {"input_zero_point": int32(-99)},
        i16,
    ),
    Sample(qint.RequantizeOp, "i32 of i16", (i(16, 300),), scaled([MOST], [3]) | narrow(32, 100_000), i32),
    Sample(
        qint.AddOp, "of far scales", (i(8, 300), i(8, 300)), zeros(-128, 127) | summed([HALF + 1, 3], 44) | narrow(), i8
    ),
    Sample(qint.AddOp, "of one", (i(8, 300), i(8, 300)), summed([HALF + 1, 0], 30) | narrow(), i8),
    Sample(qint.AddOp, "small shift", (i(8, 300), i(8, 300)), summed([2, -3], 1) | narrow(8, 4), i8),
    Sample(qint.AddOp, "of i16", (i(16, 300), i(16, 300)), summed([HALF - 1, HALF - 1], 31) | narrow(16), i16),
    Sample(nn.PadOp, "another i32", (i(32, 3, 2),), pads([0, 1], [2, 0], IntegerAttr(-(1 << 31), i32))),
)
"""What the ways through tosa differ in, beside the samples of every operation."""


def threshold_cases() -> list[Case]:
    """Quantization around each float at which the result changes, of scales of all kinds."""
    made: list[Case] = []
    for scale, zero_point in ((0.1, 3), (1 / 3, -128), (2.0**-99, 0), (2.0**99, 5), (0.0078125, 127), (7.3e-12, -1)):
        steps = ((np.arange(-129, 130) - zero_point + 0.5) * scale).astype(np.float32)
        around = np.stack([np.nextafter(steps, np.float32(-np.inf)), steps, np.nextafter(steps, np.float32(np.inf))])
        quantized = TensorType(UniformType.per_tensor(i8, scale, zero_point), around.shape)

        def quantize(x: SSAValue, quantized: TensorType[UniformType] = quantized) -> SSAValue:
            return StorageCastOp(QuantizeCastOp(x, quantized).result, TensorType(i8, quantized.get_shape())).result

        made.append(Case(f"thresholds of {scale}", network(quantize, TensorType(f32, around.shape)), [around]))
    return made


WIDE = ("i16", "i32")
"""Casts of these have no form in tosa."""


def tosa_cases() -> list[Case]:
    """Everything that has a form in tosa."""
    samples = [s for s in (*ALL, *MORE) if str(s) not in REFUSED]
    narrow_casts = [c for c in cast_cases() if not c.name.endswith(WIDE)]
    return [*map(sample_case, samples), *narrow_casts, *threshold_cases()]
