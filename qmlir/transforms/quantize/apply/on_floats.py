"""Float subgraphs that the followed runtime computes on floats, and functions whose arguments integers reach beyond."""

import math
from collections.abc import Container

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects import nn
from qmlir.dialects.nn import ClampOp
from qmlir.dialects.nn.elementwise import FunctionOp, UnaryOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands, data_results, uniform
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.facts import ON_FLOATS
from qmlir.policies.ledger import decide, decision_of
from qmlir.policies.runtimes import follows_litert, runtime_of
from qmlir.transforms.nn.fuse_activation import activation_bounds, bound_properties

# --------------------------------------------------------------------------------------------------------------- Tells
# which float subgraphs the followed runtime computes on floats, and which of these float subgraphs integers can
# replace.
#
# A float subgraph is a float operation between a dequantize cast and a quantize cast. LiteRT computes a network as its
# file
# says: it computes operators between a DEQUANTIZE and a QUANTIZE on floats, even if it has an integer kernel of the
# same name, which rounds otherwise. Such a float subgraph becomes an operation on quantized types only if that gives
# the same bits:
#
#     data movement, maxima         the same elements
#     choices and comparisons       the same elements, truth values or indices
#     an elementwise function       a table of the float subgraph's result for each stored integer
#
# The frontend marks the casts that are operators (`ON_FLOATS`). Casts that the quantizer inserts have no mark, so a
# network that a user quantizes is computed on integers.


TABLED_BITS = 16
"""The largest width, in bits, of stored data for which a lookup table is built."""


def is_on_floats(value: SSAValue) -> bool:
    """Whether a value comes out of a dequantization that is an operator of the source model."""
    return isinstance(value.owner, DequantizeCastOp) and ON_FLOATS.on(value.owner)


def computes_on_floats(op: Operation, chosen: Container[SSAValue] = ()) -> bool:
    """Whether the runtime that a network follows computes an operation between casts on floats.

    Args:
        op: The operation, on floats.
        chosen: Constants that the quantizer has rounded; operations that read them are quantized by a user.
    """
    if not follows(op) or not all(_is_the_models(v, chosen) for v in data_operands(op)):
        return False
    return all(ON_FLOATS.on(u.operation) for u in op.results[0].uses if isinstance(u.operation, QuantizeCastOp))


def _is_the_models(value: SSAValue, chosen: Container[SSAValue]) -> bool:
    if is_on_floats(value):
        return True
    source = value.owner.input if isinstance(value.owner, DequantizeCastOp) else None
    return source is not None and isinstance(source.owner, nn.ConstantOp) and source not in chosen


def follows(op: Operation) -> bool:
    """Whether the module follows a runtime that runs the operator between a file's casts on floats."""
    return follows_litert(runtime_of(module_of(op)))


def module_of(op: Operation) -> ModuleOp:
    """The module that an operation is part of."""
    while (parent := op.parent_op()) is not None:
        op = parent
    assert isinstance(op, ModuleOp)
    return op


def moves_numbers(op: Operation) -> bool:
    """Whether an operation on quantized types moves, chooses or compares the same elements as it does on floats."""
    if isinstance(op, nn.MaximumOp | nn.MinimumOp):
        return op.chooses_integers()
    moves = isinstance(op, MovementOp | nn.MaxPool2DOp | nn.ReduceMaxOp | nn.ReduceMinOp | nn.WhereOp)
    return moves or not data_results(op)


def has_table(op: Operation) -> bool:
    """Whether a lookup table can hold the results of an operation on quantized types for all stored integers."""
    types = [uniform(v) for v in (*op.operands, *op.results)] if isinstance(op, UnaryOp) else []
    return bool(types) and all(lists(type) for type in types)


def lists(type: UniformType) -> bool:
    """Whether a lookup table can have an entry for each integer of a type."""
    return type.storage_width <= TABLED_BITS and not type.is_per_axis


# ---------------------------------------------------------------------------------------------------------------
# Clamps arguments of functions that are defined on an interval, such as an arc sine, where integers reach beyond it.
#
# In steps of 0.0076, for example, the argument 1.0 is stored as 1.0024, whose arc sine is NaN. For such an integer, a
# lookup table holds the value at the end of the domain (`FunctionOp.scalar`). On floats the same takes a clamp between
# the dequantize cast and the function: the quantizer inserts the clamp where a function stays float. If a quantized
# model has such a clamp, as the files have that qmlir writes, the clamp counts as part of the function.


def clamp_to_domain(op: FunctionOp) -> None:
    """Clamps the argument of a function that stays float, if its dequantized integers reach beyond the domain."""
    back = op.x.owner
    if not isinstance(back, DequantizeCastOp):
        return
    bounds = op.domain_bounds(uniform(back.input))
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
    """The operand that the integer form reads; a clamp to the operation's domain is skipped, since tables clamp."""
    clamp = domain_clamp(op)
    return operand if clamp is None else clamp.operands[0]
