"""Clamps arguments of functions that are defined on an interval, such as an arc sine, where integers reach beyond it.

In steps of 0.0076, for example, the argument 1.0 is stored as 1.0024, whose arc sine is NaN. For such an integer, a
lookup table holds the value at the end of the domain (`FunctionOp.scalar`). On floats the same takes a clamp between
the dequantize cast and the function: the quantizer inserts the clamp where a function stays float. If a quantized model
has such a clamp, as the files have that qmlir writes, the clamp counts as part of the function.
"""

import math

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ClampOp
from qmlir.dialects.nn.pointwise import FunctionOp
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.policies.ledger import decide, decision_of
from qmlir.policies.quantized_values import domain_bounds, uniform
from qmlir.transforms.nn.fuse_activation import activation_bounds, bound_properties
from qmlir.transforms.quantize.on_floats import is_on_floats


def clamp_to_domain(op: FunctionOp) -> None:
    """Clamps the argument of a function that stays float, if its dequantized integers reach beyond the domain."""
    back = op.x.owner
    if not isinstance(back, DequantizeCastOp):
        return
    bounds = domain_bounds(op, uniform(back.input))
    if bounds == (None, None):
        return
    clamp = ClampOp.make([op.x], bound_properties(bounds))
    if (decision := decision_of(op)) is not None:
        decide(clamp, decision.outcome.data, decision.code.data, decision.reason.data)
    Rewriter.insert_op(clamp, InsertPoint.before(op))
    op.operands[0] = clamp.y


def domain_clamp(op: Operation) -> Operation | None:
    """The clamp of dequantized integers to the domain of the function that reads it; None if there is no such clamp.

    Behind a dequantization that is an operator of the source model, a clamp stays as the model has it.
    """
    clamp = op.x.owner if isinstance(op, FunctionOp) else None
    if not isinstance(op, FunctionOp) or not isinstance(clamp, Operation):
        return None
    bounds = activation_bounds(clamp)
    if bounds is None or bounds == (None, None) or not isinstance(clamp.operands[0].owner, DequantizeCastOp):
        return None
    ends = zip(bounds, op.DOMAIN, strict=True)
    same = all(bound is None or (bound == end and math.isfinite(end)) for bound, end in ends)
    return clamp if same and not is_on_floats(clamp.operands[0]) else None


def argument_of(op: Operation, operand: SSAValue) -> SSAValue:
    """The operand that an operation on stored integers reads: not a clamp to its domain, but the value clamped."""
    clamp = domain_clamp(op)
    return operand if clamp is None else clamp.operands[0]
