"""The pass `nn-to-loops`: lowers float operations, data movement and casts to kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from qmlir.codegen.lowering import MainLowering, Rule, Rules, lower_tensor_ops
from qmlir.codegen.machine import capabilities
from qmlir.dialects.nn.attention import AttendOp
from qmlir.dialects.nn.base import NNOp, is_half, is_quantized
from qmlir.dialects.nn.rows import DivideRowsOp, MultiplyRowsOp, RowMagnitudesOp
from qmlir.ir.interfaces import ComposedOp
from qmlir.ir.passes import option
from qmlir.ir.registry import Registry
from qmlir.lowering.nn_to_loops import (
    contraction,
    custom,
    detection,
    elementwise,
    movement,
    normalization,
    reduction,
    renewed_states,
    resize,
    rotation,
)


def _if_plain(table: Mapping[type[Operation], Rule]) -> Rules:
    """The table for operations on f32, f64 and integers.

    nn-to-qint says what operations do on quantized types, round-halves what they do on f16 and bf16.
    """

    def plain(rule: Rule) -> Rule:
        def lower(state: MainLowering, op: NNOp) -> None:
            data = op.data_operands()[0]
            if not is_quantized(data) and not is_half(data):
                rule(state, op)

        return lower

    return {kind: plain(rule) for kind, rule in table.items()}


def _composed(state: MainLowering, op: ComposedOp) -> None:
    """Lowers an operation by the rules of its parts."""
    parts = op.parts()
    for part in parts:
        state.insert(part)
    op.results[0].replace_all_uses_with(parts[-1].results[0])
    for part in parts:
        RULES[type(part)](state, part)


COMPOSED: Rules = dict.fromkeys((AttendOp, RowMagnitudesOp, DivideRowsOp, MultiplyRowsOp), _composed)
"""The operations that have no kernels of their own."""

RULES: Registry[Rule] = Registry(
    *map(
        _if_plain,
        (
            contraction.RULES,
            elementwise.RULES,
            normalization.RULES,
            reduction.RULES,
            renewed_states.RULES,
            resize.RULES,
            rotation.RULES,
            COMPOSED,
        ),
    ),
    custom.RULES,
    detection.RULES,
    movement.RULES,
    renewed_states.MOVEMENT,
    elementwise.CASTS,
)
"""The kernels of the operations of nn and of casts."""


@dataclass(frozen=True)
class NNToLoopsPass(ModulePass):
    """Replaces each float operation by a call of a kernel function; quantized and qint operations stay.

    Before:

        %y = nn.relu %x : tensor<4xf32> -> tensor<4xf32>

    After:

        %x' = builtin.unrealized_conversion_cast %x : tensor<4xf32> to memref<4xf32>
        %y' = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
        func.call @nn_relu_0(%x', %y', %begin, %end) : (memref<4xf32>, memref<4xf32>, index, index) -> ()
        %y = builtin.unrealized_conversion_cast %y' : memref<4xf32> to tensor<4xf32>
    """

    name = "nn-to-loops"

    features: str = option("", "processor features to use, as in LLVM: +avx2,+fma; none is portable code")
    memory: Literal["fast", "small"] = option("fast", "what kernels are made for: speed, or little scratch memory")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_tensor_ops(op, RULES, capabilities(self.features, small=self.memory == "small"))
