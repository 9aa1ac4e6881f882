"""The pass `qint-to-loops`: lowers integer operations to kernels."""

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.codegen.kernels.rows_of_tables import lower_gather
from qmlir.codegen.lowering import Rule, Rules, lower_tensor_ops
from qmlir.codegen.machine import capabilities
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.ir.passes import option
from qmlir.ir.registry import Registry
from qmlir.lowering.qint_to_loops import (
    attention,
    blocked,
    contraction,
    elementwise,
    normalization,
    reduction,
    rotation,
    rows,
)

RULES: Registry[Rule] = Registry(
    contraction.RULES,
    blocked.RULES,
    elementwise.RULES,
    reduction.RULES,
    normalization.RULES,
    attention.RULES,
    rows.RULES,
    rotation.RULES,
)

LAST: Rules = {GatherOp: lower_gather}
"""Look-ups in tables that layers read, too: nn-to-loops leaves them."""


@dataclass(frozen=True)
class QIntToLoopsPass(ModulePass):
    """Replaces each integer operation by a call of a kernel; a contraction and its requantization share a call.

    Before:

        %acc = qint.fully_connected %x, %w : tensor<1x4xi8>, tensor<3x4xi8> -> tensor<1x3xi32>
        %y = qint.requantize %acc {…} : tensor<1x3xi32> -> tensor<1x3xi8>

    After:

        %x' = builtin.unrealized_conversion_cast %x : tensor<1x4xi8> to memref<1x4xi8>
        %y' = memref.alloc() {alignment = 64 : i64} : memref<1x3xi8>
        func.call @qint_fully_connected_0(%x', %packed, %multiplier, %shift, %y', %begin, %end) : …
        %y = builtin.unrealized_conversion_cast %y' : memref<1x3xi8> to tensor<1x3xi8>
    """

    name = "qint-to-loops"

    features: str = option("", "processor features to use, as in LLVM: +avx2,+fma; none is portable code")
    memory: Literal["fast", "small"] = option("fast", "what kernels are made for: speed, or little scratch memory")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_tensor_ops(op, RULES, capabilities(self.features, small=self.memory == "small"), LAST)
