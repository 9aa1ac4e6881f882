"""`qint-to-linalg`: exports an integer network to upstream's dialects, for other compilers.

Enters: qint, the data movement of nn, constants, and casts of `quant` where the integers meet floats. Leaves: the same
functions in `func`, `linalg`, `arith`, `tensor` and `math` only, with plain integers in place of quantized types. Names
and quantization decisions are dropped, as upstream has no such attributes. A tool that executes the result computes the
same bits as `evaluate`: integer arithmetic, f64 in the casts, f32 and f64 under contracts that are defined in floats,
and no fast-math flags.

Float subgraphs cannot be exported; quantize the network without them (`--quantize=fail-on-float=true`).
"""

from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from qmlir.codegen.upstream import Rule, rebuild
from qmlir.dialects import nn
from qmlir.ir.registry import Registry
from qmlir.lowering.qint_to_linalg import casts, contraction, elementwise, movement, reduction
from qmlir.lowering.qint_to_linalg.structured import TensorCode


def _hadamard(code: TensorCode, op: Operation, x: SSAValue) -> NoReturn:
    need = "adds and subtracts halves of blocks, which is not written in linalg"
    code.refuse(need, remedy="quantize with rotate=residual, which has none")


RULES: Registry[Rule] = Registry(
    contraction.RULES, casts.RULES, elementwise.RULES, reduction.RULES, movement.RULES, {nn.HadamardOp: _hadamard}
)


class QIntToLinalgPass(ModulePass):
    """Exports an integer network to linalg, arith, tensor and math, for upstream's tools.

    ```mlir
    %acc = qint.fully_connected %x, %w {zero_point = 3 : i32} : tensor<1x4xi8>, tensor<3x4xi8> -> tensor<1x3xi32>
    // becomes
    %empty = tensor.empty() : tensor<1x3xi32>
    %zeros = linalg.fill ins(%0 : i32) outs(%empty : tensor<1x3xi32>) -> tensor<1x3xi32>
    %acc = linalg.generic {indexing_maps = […], iterator_types = ["parallel", "parallel", "reduction"]}
           ins(%x, %w : tensor<1x4xi8>, tensor<3x4xi8>) outs(%zeros : tensor<1x3xi32>) {
      ^bb0(%x: i8, %w: i8, %acc: i32): …   // %acc + (%x − 3) · %w in i32
    }
    ```
    """

    name = "qint-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rebuild(op, TensorCode, RULES, "linalg")
