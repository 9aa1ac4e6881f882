"""`qint-to-tosa`: exports an integer network to TOSA 1.0 or 0.80, for compilers and devices that read TOSA.

Enters: qint, the data movement of nn, constants, and casts of `quant` where the integers meet floats. Leaves: the same
functions in `func` and `tosa` only, with plain integers in place of quantized types. Names and quantization decisions
are dropped, as upstream has no such attributes. A tool that executes the result as TOSA specifies it computes the same
bits as `evaluate`.

The pass refuses operations that TOSA cannot express exactly: rounding contracts other than single, shift and double
(and upup where it rounds once), sums of products of i16, computed indices and other elements of 64 bits, and float
subgraphs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from qmlir.codegen.upstream import Rule, rebuild
from qmlir.dialects import nn, qint
from qmlir.ir.passes import option
from qmlir.ir.registry import Registry
from qmlir.lowering.qint_to_tosa import contraction, elementwise, movement, reduction, requantize
from qmlir.lowering.qint_to_tosa.tensors import TosaCode
from qmlir.lowering.qint_to_tosa.version_0_80 import respell

INEXPRESSIBLE: Mapping[type[Operation], str] = {
    qint.RescaledAddOp: "rounds each operand by itself, which is not written in tosa",
    qint.FloatAddOp: "has no exact form in tosa, which has no fused multiply-add of floats",
    qint.InterpolateOp: "rounds a mean {rounding}, in a way that is not written in tosa",
    qint.DivOp: "multiplies by a reciprocal in 64 bits, and tosa has no integers so wide",
    qint.L2NormalizationOp: "divides by a root in 64 bits, and tosa has no integers so wide",
    qint.LayerNormOp: "divides by a root in 64 bits, and tosa has no integers so wide",
    qint.RMSNormOp: "divides by a root in 64 bits, and tosa has no integers so wide",
    qint.LocalResponseNormalizationOp: "takes a power of a sum of 64 bits, and tosa has no integers so wide",
    qint.SoftmaxOp: "divides by a sum of 64 bits, and tosa divides integers of 32 only",
    qint.ExponentialsOp: "has exponentials, and a quotient of 64 bits behind them, which is not written in tosa",
    qint.RowQuotientOp: "divides by a sum of 64 bits, and tosa divides integers of 32 only",
    qint.RowMagnitudesOp: "takes magnitudes for quotients in 64 bits, which tosa has not",
    qint.DivideRowsOp: "divides by magnitudes in 64 bits, and tosa divides integers of 32 only",
    qint.LogSoftmaxOp: "takes the logarithm of a sum of 64 bits, and tosa has no integers so wide",
    nn.HadamardOp: "adds and subtracts halves of blocks, which is not written in tosa",
}
"""Operation that TOSA cannot express exactly → the reason; {rounding} is the operation's property."""

ROUNDING_REMEDY = "load the model with numerics=default, or lower it with --qint-to-linalg"
OTHER_REMEDIES: Mapping[type[Operation], str] = {
    qint.DivOp: "lower it with --qint-to-linalg",
    qint.L2NormalizationOp: "lower it with --qint-to-linalg",
    qint.LayerNormOp: "lower it with --qint-to-linalg",
    qint.RMSNormOp: "lower it with --qint-to-linalg",
    qint.LocalResponseNormalizationOp: "lower it with --qint-to-linalg",
    qint.SoftmaxOp: "lower it with --qint-to-linalg, or leave the softmax to what reads the scores",
    qint.ExponentialsOp: "lower it with --qint-to-linalg",
    qint.RowQuotientOp: "lower it with --qint-to-linalg",
    qint.RowMagnitudesOp: "lower it with --qint-to-linalg",
    qint.DivideRowsOp: "lower it with --qint-to-linalg",
    qint.LogSoftmaxOp: "lower it with --qint-to-linalg, or leave it to what reads the scores",
    nn.HadamardOp: "quantize with rotate=residual, which has none",
}


def _refuse(code: TosaCode, op: Operation, *operands: SSAValue) -> NoReturn:
    need = INEXPRESSIBLE[type(op)].format(rounding=op.rounding.data if isinstance(op, qint.InterpolateOp) else "")
    code.refuse(need, remedy=OTHER_REMEDIES.get(type(op), ROUNDING_REMEDY))


RULES: Registry[Rule] = Registry(
    contraction.RULES, requantize.RULES, elementwise.RULES, reduction.RULES, movement.RULES,
    dict.fromkeys(INEXPRESSIBLE, _refuse),
)  # fmt: skip


@dataclass(frozen=True)
class QIntToTosaPass(ModulePass):
    """Exports an integer network to tosa, for upstream's tools.

    ```mlir
    %y = qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: -4>, contract = "single",
           zero_point = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x4xi32> -> tensor<2x4xi8>
    // becomes, with the numbers as constants of one element each
    %y = "tosa.rescale"(%x, %multiplier, %shift, %input_zp, %output_zp) <{scale32 = true,
           rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, per_channel = false, …}> : (…) -> tensor<2x4xi8>
    ```
    """

    name = "qint-to-tosa"
    version: Literal["1.0", "0.80"] = option("1.0", "the version of TOSA: LLVM has 1.0 from 20 on, 0.80 before")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rebuild(op, TosaCode, RULES, "tosa")
        if self.version == "0.80":
            respell(op)
