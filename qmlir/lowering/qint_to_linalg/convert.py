"""`qint-to-linalg`: an integer network in upstream's dialects, for other compilers.

Enters: qint, the data movement of nn, constants, and casts of `quant` where the integers meet floats. Leaves: the same
functions in `func`, `linalg`, `arith`, `tensor` and `math` only, with plain integers where quantized types were; names
and decisions are gone, as upstream knows no such attributes. What runs the result gets `evaluate`'s bits: integer
arithmetic, and without any fast-math flag f64 in the casts, f32 and f64 where a contract is defined in floats.

Float islands have no way out: whoever wants one quantizes without them (`--quantize=fail-on-float=true`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from qmlir.lowering.qint_to_linalg import (
    casts,
    contraction,
    elementwise,
    indexing,
    lookup,
    normalization,
    pooling,
    reduction,
    requantize,
    resize,
    shape,
)
from qmlir.lowering.qint_to_linalg.structured import TensorCode
from qmlir.lowering.way_out import Rule, rebuild

RULES: Mapping[type[Operation], Rule] = {
    **contraction.RULES,
    **requantize.RULES,
    **elementwise.RULES,
    **pooling.RULES,
    **resize.RULES,
    **lookup.RULES,
    **normalization.RULES,
    **reduction.RULES,
    **shape.RULES,
    **indexing.RULES,
    **casts.RULES,
}


@dataclass(frozen=True)
class QIntToLinalgPass(ModulePass):
    """Rewrites integer networks to linalg, arith, tensor and math, for upstream's tools.

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
