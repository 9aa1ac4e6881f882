"""The pass `round-halves`: spells out that an operation on halves (f16, bf16) computes in f32 and rounds once.

    op(h, …)    → narrow(op(widen(h), …))

Enters: nn on any types. Leaves: nn that computes on no halves; casts and data movement have them. The results are the
same bits. Constants are widened at once, so that kernels see the weights of a layer; nothing else is simplified, since
a cast to halves and back rounds.
"""

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import CastOp, ConstantOp
from qmlir.dialects.nn.base import NNOp, is_half, with_floats
from qmlir.ir.fact import restated
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import replace


class RoundHalvesPass(ModulePass):
    """Computes operations on halves (f16, bf16) in f32, and rounds each result to halves.

    ```mlir
    %y = nn.add %a, %b : tensor<4xf16>, tensor<4xf16> -> tensor<4xf16>
    // becomes
    %0 = nn.cast %a : tensor<4xf16> -> tensor<4xf32>
    %1 = nn.cast %b : tensor<4xf16> -> tensor<4xf32>
    %2 = nn.add %0, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %y = nn.cast %2 : tensor<4xf32> -> tensor<4xf16>
    ```
    """

    name = "round-halves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        wide: dict[SSAValue, SSAValue] = {}
        for computing in [o for o in op.walk() if isinstance(o, NNOp) and any(map(is_half, o.operands))]:
            _compute_in_floats(computing, wide)
        for constant in [o for o in op.walk() if isinstance(o, ConstantOp) and not o.y.uses]:
            Rewriter.erase_op(constant)


def _compute_in_floats(op: Operation, wide: dict[SSAValue, SSAValue]) -> None:
    """Replaces an operation on halves by the operation on f32; `wide` holds the halves that are in f32 already."""
    for value in filter(is_half, op.operands):
        if value not in wide:
            wide[value] = _widened(value)
    new = with_floats(op, [wide.get(v, v) for v in op.operands], f32)
    casts = {r: CastOp.make([y], element=element_of(r)) for r, y in zip(op.results, new.results, strict=True)
             if is_half(r)}  # fmt: skip
    results = [casts[r].y if r in casts else y for r, y in zip(op.results, new.results, strict=True)]
    replace(PatternRewriter(op), op, [new, *casts.values()], results, doing=new)


def _widened(value: SSAValue) -> SSAValue:
    """The f32 of a value in halves, made where the value is made: a constant, or a cast."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        wide = ConstantOp(owner.value.array.astype(np.float32), TensorType(f32, shape_of(value)), restated(owner))
    else:
        wide = CastOp.make([value], element=f32)
    where = InsertPoint.after(owner) if isinstance(owner, Operation) else InsertPoint.at_start(owner)
    Rewriter.insert_op(wide, where)
    return wide.results[0]
