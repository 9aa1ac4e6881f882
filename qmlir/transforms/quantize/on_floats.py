"""Tells which islands the followed runtime computes on floats, and which of these islands integers can replace.

An island is a float operation between a dequantize cast and a quantize cast. LiteRT computes a network as its file
says: it computes operators between a DEQUANTIZE and a QUANTIZE on floats, even if it has an integer kernel of the same
name, which rounds otherwise. Such an island becomes an operation on quantized types only if that gives the same bits:

    data movement, maxima         the same elements
    an elementwise function       a table of the island's result for each stored integer

The frontend marks the casts that are operators (`ON_FLOATS`). Casts that the quantizer inserts have no mark, so a
network that a user quantizes is computed on integers.
"""

from collections.abc import Container

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import UnaryOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.marks import ON_FLOATS
from qmlir.policies.quantized_values import chooses_integers, data_operands, uniform
from qmlir.policies.runtimes import follows_litert, runtime_of

TABLED_BITS = 16
"""The largest width, in bits, of stored data for which a lookup table is built."""


def is_on_floats(value: SSAValue) -> bool:
    """Whether a value comes out of a dequantization that is an operator of the source model."""
    return isinstance(value.owner, DequantizeCastOp) and ON_FLOATS in value.owner.attributes


def computes_on_floats(op: Operation, chosen: Container[SSAValue] = ()) -> bool:
    """Whether the runtime that a network follows computes an operation between casts on floats.

    Args:
        op: The operation, on floats.
        chosen: Constants that the quantizer has rounded; operations that read them are quantized by a user.
    """
    if not follows(op) or not all(_is_the_models(v, chosen) for v in data_operands(op)):
        return False
    return all(
        ON_FLOATS in u.operation.attributes for u in op.results[0].uses if isinstance(u.operation, QuantizeCastOp)
    )


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
    """Whether an operation on quantized types moves or chooses the same elements as it does on floats."""
    if isinstance(op, nn.MaximumOp | nn.MinimumOp):
        return chooses_integers(op)
    return isinstance(op, MovementOp | nn.MaxPool2DOp | nn.ReduceMaxOp | nn.ReduceMinOp)


def has_table(op: Operation) -> bool:
    """Whether a lookup table can hold the results of an operation on quantized types for all stored integers."""
    types = [uniform(v) for v in (*op.operands, *op.results)] if isinstance(op, UnaryOp) else []
    return bool(types) and all(lists(type) for type in types)


def lists(type: UniformType) -> bool:
    """Whether a lookup table can have an entry for each integer of a type."""
    return type.storage_width <= TABLED_BITS and not type.is_per_axis
