"""What `qint-to-tosa` is tried on, here by the specification and in tests/interop by other compilers."""

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, f32, i8, i16, i32, i64
from xdsl.ir import SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.indexing import IndexedOp
from qmlir.dialects.nn.reduction import ExtremeOp
from qmlir.dialects.quant.ops import QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.lowering.qint_to_tosa.tensors import integers
from tests.interop.cases import ALL, Case, cast_cases, sample_case, stays
from tests.lowering.both import network
from tests.ops.samples import (
    COUNT_PAD,
    HALF,
    MOST,
    Operand,
    Sample,
    axis,
    b,
    groups,
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
from tests.ops.samples_movement import at, steps

FLOAT = "only integers, data movement and casts"
OWN = [StringAttr(contract) for contract in ("single", "shift", "double")]
"""The contracts that `tosa.rescale` follows."""

ROOTS = (qint.L2NormalizationOp, qint.LayerNormOp, qint.RMSNormOp)
"""Operations that divide by the root of a sum."""

REFUSED = {
    **{str(s): FLOAT for s in ALL if s.op.name.startswith("nn.") and not stays(s)},
    **{str(s): "needs indices of i32" for s in ALL if issubclass(s.op, IndexedOp) and s.operands[-1].element == i64},
    **{str(s): "compares integers of 8 bits" for s in ALL if issubclass(s.op, ExtremeOp) and not stays(s)},
    **{str(s): "elements of 64 bits" for s in ALL if s.op.name.startswith("qint.") and s.element == i64},
    "qint.conv2d-i16_data": "sums products of i8",
    "qint.fully_connected-i16_data_and_weights": "sums products of i8",
    "qint.average_pool2d-dilated": "sums products of i8",
    "qint.requantize-to_i32": "needs accumulators below 2",
    **{
        str(s): "needs a contract of single"
        for s in ALL
        if s.op is qint.RequantizeOp and s.properties["contract"] not in OWN
    },
    "qint.rescaled_add-broadcast": "rounds each operand by itself",
    "qint.rescaled_add-difference_of_i16,_each_rounded_its_way": "rounds each operand by itself",
    **{str(s): "divides by a sum of 64 bits" for s in ALL if s.op in (qint.SoftmaxOp, qint.RowQuotientOp)},
    **{str(s): "in 64 bits" for s in ALL if s.op in (qint.RowMagnitudesOp, qint.DivideRowsOp)},
    **{str(s): "which is not written in tosa" for s in ALL if s.op is nn.HadamardOp},
    "nn.row_magnitudes-f64": "elements of 64 bits",
    **{str(s): "a quotient of 64 bits behind them" for s in ALL if s.op is qint.ExponentialsOp},
    **{str(s): "takes the logarithm of a sum of 64 bits" for s in ALL if s.op is qint.LogSoftmaxOp},
    **{str(s): "multiplies by a reciprocal in 64 bits" for s in ALL if s.op is qint.DivOp},
    **{str(s): "divides by a root in 64 bits" for s in ALL if s.op in ROOTS},
    **{str(s): "takes a power of a sum of 64 bits" for s in ALL if s.op is qint.LocalResponseNormalizationOp},
    **{str(s): "in a way that is not written in tosa" for s in ALL if s.op is qint.InterpolateOp},
    "qint.float_add-same_shape": "no fused multiply-add",
    "qint.float_add-broadcast,_from_unsigned": "no fused multiply-add",
    "nn.pad-i1": "no constants of one bit",
    "nn.dilate-i1": "no constants of one bit",
    "nn.slice-i1": "no constants of one bit",
    "nn.slice-nothing": "without elements",
    "nn.pad-f64": "elements of 64 bits",
    "nn.dilate-f64": "elements of 64 bits",
    "nn.gather-f64": "elements of 64 bits",
    "nn.reduce_max-ui8": "compares signed integers",
    "nn.reduce_min-ui8": "compares signed integers",
    "nn.reduce_max-i1": "compares integers of 8 bits and more",
    "nn.reduce_min-i1": "compares integers of 8 bits and more",
}
"""Samples without a form in tosa, and what is said of them."""

MORE = (
    Sample(qint.Conv2DOp, "rows left over", (i(8, 2, 6, 7, 2), i(8, 3, 3, 2, 2), b(3)), zero(9) | window((2, 3))),
    Sample(qint.Conv2DOp, "padding left over", (i(8, 1, 5, 5, 2), i(8, 3, 2, 2, 2), b(3)),
           zero(-128) | window((3, 3), (0, 2, 1, 3))),
    Sample(qint.Conv2DOp, "image left over", (i(8, 1, 1, 2, 1), i(8, 2, 1, 1, 1)),
           zero(7) | window((3, 4), (2, 1, 3, 0))),
    Sample(qint.AveragePool2DOp, "dilated i8", (i(8, 1, 7, 7, 2),), window(dilations=(2, 3), window=(3, 2))),
    Sample(qint.AveragePool2DOp, "all values", (i(8, 1, 90, 3, 2),), window(window=(2, 1))),
    Sample(qint.AveragePool2DOp, "counting leftovers", (i(8, 1, 6, 5, 2),),
           COUNT_PAD | zero(127) | window((2, 3), (0, 1, 2, 2), window=(3, 3))),
    Sample(qint.MaxPool2DOp, "leftovers", (i(8, 1, 8, 7, 2),), window((3, 2), (1, 1, 0, 0), window=(2, 2))),
    Sample(qint.MaxPool2DOp, "dilated i16", (i(16, 2, 8, 7, 2),), window((2, 1), (1, 0, 1, 1), (3, 2), (2, 2))),
    Sample(qint.RequantizeOp, "beyond reach", (i(32, 200),), scaled([HALF + 99], [2]) | narrow(8, -7, -100), i8),
    Sample(qint.RequantizeOp, "channels beyond reach", (i(32, 90, 3),),
           scaled([HALF, MOST, HALF + 1], [0, 9, -3], "double") | narrow(16, 3), i16),
    Sample(qint.RequantizeOp, "double below zero", (i(32, 400, most=70),), scaled([MOST], [-5], "double") | narrow(),
           i8),
    Sample(qint.RequantizeOp, "double channels", (i(32, 90, 2),),
           scaled([MOST, HALF], [-25, -31], "double") | narrow(), i8),
    Sample(qint.RequantizeOp, "upup in one step", (i(8, 256),),
           scaled([HALF + 5], [1], "upup") | narrow() | {"input_zero_point": int32(-128)}, i8),
    Sample(qint.RequantizeOp, "i16 with zero points", (i(16, 300),),
           scaled([HALF + 5], [-2]) | narrow(16, 5) | {"input_zero_point": int32(-99)}, i16),
    Sample(qint.RequantizeOp, "i32 of i16", (i(16, 300),), scaled([MOST], [3]) | narrow(32, 100_000), i32),
    Sample(qint.AddOp, "of far scales", (i(8, 300), i(8, 300)),
           zeros(-128, 127) | summed([HALF + 1, 3], 44) | narrow(), i8),
    Sample(qint.AddOp, "of one", (i(8, 300), i(8, 300)), summed([HALF + 1, 0], 30) | narrow(), i8),
    Sample(qint.AddOp, "small shift", (i(8, 300), i(8, 300)), summed([2, -3], 1) | narrow(8, 4), i8),
    Sample(qint.AddOp, "of i16", (i(16, 300), i(16, 300)), summed([HALF - 1, HALF - 1], 31) | narrow(16), i16),
    Sample(qint.Conv2DOp, "weights of u8", (i(8, 1, 4, 4, 4), Operand((6, 2, 2, 2), i16, -200, 55), b(6)),
           groups(2) | zero(7) | window(padding=(1, 0, 0, 0))),
    Sample(qint.DepthwiseConv2DOp, "weights of u8", (i(8, 1, 5, 4, 3), Operand((1, 3, 3, 6), i16, -1, 254)),
           zero(-128)),
    Sample(qint.FullyConnectedOp, "weights of u8", (i(8, 3, 9), Operand((5, 9), i16, -255, 0), b(5)), zero(3)),
    Sample(qint.SaturatingFullyConnectedOp, "odd", (i(8, 3, 7), i(8, 4, 7), b(4)), zero(-128)),
    Sample(nn.SliceOp, "in steps", (i(8, 9, 7, 4),), steps([8, 1, 0], [3, 3, 4], [-3, 2, 1])),
    Sample(nn.SliceOp, "one row", (i(16, 5, 3),), steps([4, 2], [1, 2], [-7, -1])),
    Sample(nn.GatherOp, "middle", (i(8, 2, 4, 3), at(32, 5, 2, size=4)), axis(1)),
    Sample(nn.GatherNDOp, "elements", (i(8, 3, 4), at(32, 9, 2, size=3))),
    Sample(nn.ScatterNDOp, "again and again", (i(8, 3, 4, 2), i(8, 40, 2), at(32, 40, 2, size=3))),
    Sample(nn.ScatterNDOp, "rows of i16", (i(16, 4, 6), i(16, 2, 6), at(32, 2, 1, size=4))),
    Sample(nn.ReduceMaxOp, "of i8", (i(8, 3, 4, 5),), {"axes": integers([0, 2])}),
    Sample(nn.ReduceMinOp, "of i16", (i(16, 3, 4, 5),), {"axes": integers([1])}),
    Sample(nn.PadOp, "another i32", (i(32, 3, 2),), pads([0, 1], [2, 0], IntegerAttr(-(1 << 31), i32))),
)  # fmt: skip
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


def constant_indices() -> list[Case]:
    """Constant indices of 64 bits, which TOSA has no type for."""
    indices = np.array([[0, -1], [3, 9], [-4, -9]])
    x = np.arange(40, dtype=np.int8).reshape(4, 10)

    def gather(x: SSAValue) -> SSAValue:
        return nn.GatherOp.make([x, nn.ConstantOp(indices).y], axis(0)).y

    def gather_nd(x: SSAValue) -> SSAValue:
        return nn.GatherNDOp.make([x, nn.ConstantOp(indices).y]).y

    type = TensorType(i8, x.shape)
    return [Case("constant indices", network(g, type), [x]) for g in (gather, gather_nd)]


WIDE = ("i16", "i32")
"""Casts of these have no form in tosa."""


def tosa_cases() -> list[Case]:
    """Everything that has a form in tosa."""
    samples = [s for s in (*ALL, *MORE) if str(s) not in REFUSED]
    narrow_casts = [c for c in cast_cases() if not c.name.endswith(WIDE)]
    return [*map(sample_case, samples), *narrow_casts, *threshold_cases(), *constant_indices()]
