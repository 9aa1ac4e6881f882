"""`move-casts`: moves the casts of a quantized network past data movement, next to the operations that compute.

Enters: nn with `quant.qcast` and `quant.dcast` as a model has them. Leaves: the same real values, with reshapes,
transposes, concats and max pools moved to the quantized side wherever no value changes by that, so that an operation
which computes has its casts right beside it.

    move(dcast(q), …) → dcast(move(q, …))     q, … of one type; a pad whose value that type holds
    qcast(move(x, …)) → move(qcast(x), …)     of one type, if nothing else reads the result of the move
    qcast(dcast(q))   → q                     of the same type

A dequantize cast only ever sinks, a quantize cast only ever rises, and each cast passes an operation once.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, FloatAttr, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import MaxPool2DOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.movement import FillingOp, MovementOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.facts import ON_FLOATS
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import replace, rewrite
from qmlir.numerics import fixed_point
from qmlir.transforms.quantize.apply.on_floats import is_on_floats


class MoveCastsPass(ModulePass):
    """Moves dequantize casts below data movement, and quantize casts above it.

    ```mlir
    %0 = quant.dcast %q : tensor<2x2x!quant.uniform<i8:f32, 0.5>> to tensor<2x2xf32>
    %1 = nn.reshape %0 {shape = array<i64: 4>} : tensor<2x2xf32> -> tensor<4xf32>
    // becomes
    %0 = nn.reshape %q {shape = array<i64: 4>} : tensor<2x2x!quant.uniform<i8:f32, 0.5>> -> …
    %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
    ```
    """

    name = "move-casts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        move_casts(op)


def move_casts(module: ModuleOp) -> bool:
    """Moves the casts of a module past data movement; returns whether anything changed."""
    return rewrite(module, (DropCastPair(), SinkDequantizeBelowMovement(), RaiseQuantizeAboveMovement()))


def _moves(op: Operation) -> bool:
    """Whether an operation only moves or chooses elements of its operands."""
    return isinstance(op, MovementOp | MaxPool2DOp) and keeps_scale(op) and len(op.results) == 1


def _on(op: Operation, data: Sequence[SSAValue], element: UniformType) -> Operation:
    """A copy of an operation on quantized data operands, with a result of the same quantized element type."""
    rest = op.operands[len(data) :]
    result = TensorType(element, shape_of(op.results[0]))
    return op.create(operands=[*data, *rest], result_types=[result], properties=dict(op.properties))


def holds_padding(op: Operation, element: UniformType) -> bool:
    """Whether a type holds a padding value exactly, under each of its scales; True for operations that do not pad."""
    if not isinstance(op, FillingOp) or (value := op.real_value()) is None:
        return True
    real = np.array(value.value.data)
    scales, points = np.array(element.scales), np.array(element.zero_points)
    stored = fixed_point.quantize(real, scales, points, element.storage_min, element.storage_max, np.int64)
    return bool((fixed_point.dequantize(stored, scales, points) == real).all())


def _as_cast(value: FloatAttr[AnyFloat], cast: QuantizeCastOp, element: UniformType) -> FloatAttr[AnyFloat]:
    """A pad's value as a cast rounds it; the cast may divide in float32 and has an integer for NaN."""
    (stored,) = cast.evaluate(np.array(value.value.data, np.float32))
    real = fixed_point.dequantize(stored.astype(np.int64), element.scale, element.zero_point)
    return FloatAttr(float(real), value.type)


class DropCastPair(RewritePattern):
    """qcast(dcast(q)) → q, of the same type."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: QuantizeCastOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        if isinstance(inner, DequantizeCastOp) and inner.input.type == op.result.type:
            replace(rewriter, op, [], [inner.input])


class SinkDequantizeBelowMovement(RewritePattern):
    """move(dcast(q), …) → dcast(move(q, …))."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not _moves(op) or not is_float(op.results[0]):
            return
        data = data_operands(op)
        sources = [v.owner.input for v in data if isinstance(v.owner, DequantizeCastOp)]
        kinds = {element_of(s) for s in sources}
        if len(sources) < len(data) or len(kinds) != 1:
            return
        (element,) = kinds
        if not isinstance(element, UniformType) or element.is_per_axis or not holds_padding(op, element):
            return
        moved = _on(op, sources, element)
        back = DequantizeCastOp(moved.results[0], op.results[0].type)
        if all(is_on_floats(v) for v in data):
            ON_FLOATS.put(back)
        replace(rewriter, op, [moved, back], doing=moved)


class RaiseQuantizeAboveMovement(RewritePattern):
    """qcast(move(x, …)) → move(qcast(x), …)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: QuantizeCastOp, rewriter: PatternRewriter) -> None:
        mover, element = op.input.owner, element_of(op.result)
        if not isinstance(mover, Operation) or not _moves(mover) or not isinstance(element, UniformType):
            return
        readers = [u.operation for u in op.input.uses if not isinstance(u.operation, ObserveOp)]
        alike = all(isinstance(r, QuantizeCastOp) and r.result.type == op.result.type for r in readers)
        # Every other cast of the value becomes this one, which therefore is the first of them.
        if element.is_per_axis or not alike or any(r.is_before_in_block(op) for r in readers):
            return
        casts = [QuantizeCastOp(v, TensorType(element, shape_of(v))) for v in data_operands(mover)]
        moved = _on(mover, [c.result for c in casts], element)
        if isinstance(mover, FillingOp) and (value := mover.real_value()) is not None:
            moved.properties["value"] = _as_cast(value, op, element)
        for observer in [u.operation for u in op.input.uses if isinstance(u.operation, ObserveOp)]:
            rewriter.erase(observer)
        for twin in [r for r in readers if r is not op]:
            replace(rewriter, twin, [], [op.result])
        replace(rewriter, op, [*casts, moved], absorbing=[mover])
