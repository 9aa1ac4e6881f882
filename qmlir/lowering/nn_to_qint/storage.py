"""Conversion of unsigned and narrow storage to signed storage of 8 or 16 bits, with the same real values.

    u8<0:255>, scale s, zero point z     becomes   i8<-128:127>, scale s, zero point z − 128
    u4<0:15>, i4<-8:7>                   become    i8<0:15>, i8<-8:7>, parameters as they were

Stored integers decrease by 128 (16-bit storage: 32768) if they would not fit the signed type. The zero point decreases
alike, so scale · (q − z) is unchanged. Quantization is unchanged too, because it adds the zero point after it rounds.
The lowering to qint therefore sees signed integers only. The function's own arguments and results, and storage casts,
keep their types; an `nn.requantize` beside them changes the storage.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, f32, i8, i16, i32
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import NNOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.qmlir import MIXED, UNSIGNED, UNSIGNED_WEIGHTS
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.ir.interfaces import shape_of
from qmlir.ir.names import INTEGER_OPERATOR
from qmlir.ir.weights import WeightsAttr

HELD = 8
"""The widest storage in bits that becomes i8; wider storage of up to 16 bits becomes i16."""


def signed(type: UniformType) -> UniformType:
    """The type with i8 or i16 storage and the same real values.

    A type that is wider than 16 bits or does not express f32 is returned as it is.
    """
    bits = type.storage_width
    if bits > 16 or type.storage in (i8, i16) or type.expressed != f32:
        return type
    storage = i8 if bits <= HELD else i16
    moved = displacement(type)
    limits, points = (type.storage_min - moved, type.storage_max - moved), [z - moved for z in type.zero_points]
    if type.axis is None:
        return UniformType.per_tensor(storage, type.scale, points[0], *limits, type.expressed)
    return UniformType.per_axis(storage, type.axis, type.scales, points, *limits, type.expressed)


def displacement(type: UniformType) -> int:
    """The number by which a type's stored integers decrease when its storage becomes signed; 0 if they fit already."""
    held = 1 << (HELD - 1 if type.storage_width <= HELD else 15)
    return held if type.storage_max >= held else 0


Computing = NNOp | MovementOp | QuantizeCastOp | DequantizeCastOp | ConstantOp
"""Operations that depend on real values only; all others, such as a return or a storage cast, read stored integers."""


def sign_storage(block: Block, *, marks: bool = True) -> None:
    """Gives the quantized types of a function signed storage of 8 or 16 bits.

    Args:
        block: The function's body.
        marks: Whether operations get attributes that say which of their data were unsigned, so that they round like
            kernels for unsigned data; without them they round like kernels for signed data.
    """
    others = [o for o in block.ops if not isinstance(o, Computing)]
    entering = [v for v in (*block.args, *(r for o in others for r in o.results)) if _changes(v)]
    leaving = [
        (o, i, v, quantized_element(v.type))
        for o in others for i, v in enumerate(o.operands) if _changes(v) and v not in entering
    ]  # fmt: skip
    computing = [o for o in block.ops if isinstance(o, Computing)]
    if marks:
        _mark(computing)
    for op in computing:
        for result in [r for r in op.results if _changes(r)]:
            if isinstance(op, ConstantOp):
                _move_constant(op)
            Rewriter.replace_value_with_new_type(result, _signed_tensor(result))
    for value in entering:
        _enter(value, block)
    for op, index, value, type in leaving:
        change = RequantizeOp.make([op.operands[index]], element=type)
        Rewriter.insert_op(change, InsertPoint.before(op))
        op.operands[index] = change.y


def _mark(operations: Sequence[Operation]) -> None:
    """Sets the attributes that say which data of the operations are unsigned in the source model."""
    for op in operations:
        if isinstance(op, RequantizeOp) and _displacement(op.x) != _displacement(op.y):
            op.attributes[MIXED] = UnitAttr()
        if _computes(op):
            _mark_unsigned(op)


def _computes(op: Operation) -> bool:
    """Whether an operation computes new numbers from its data, which a runtime may round."""
    if isinstance(op, RequantizeOp):
        return INTEGER_OPERATOR in op.attributes
    return isinstance(op, NNOp) and not isinstance(op, MovementOp | ConstantOp)


def _mark_unsigned(op: Operation) -> None:
    """Marks which data and weights of an operation are unsigned: the source model may compute differently on these."""
    moved = set(map(_displacement, _activations(op)))
    if moved != {0}:
        op.attributes[UNSIGNED] = IntegerAttr(max(moved), i32)
    if len(moved) > 1:
        op.attributes[MIXED] = UnitAttr()
    if isinstance(op, WeightedOp) and _displacement(op.w):
        op.attributes[UNSIGNED_WEIGHTS] = UnitAttr()


def _activations(op: Operation) -> Sequence[SSAValue]:
    return (*op.operands[:1], *op.results) if isinstance(op, WeightedOp) else (*op.operands, *op.results)


def _displacement(value: SSAValue) -> int:
    type = quantized_element(value.type)
    return 0 if type is None else displacement(type)


def _changes(value: SSAValue) -> bool:
    type = quantized_element(value.type)
    return type is not None and signed(type) != type


def _signed_tensor(value: SSAValue) -> TensorType[UniformType]:
    type = quantized_element(value.type)
    assert type is not None
    return TensorType(signed(type), shape_of(value))


def _move_constant(op: ConstantOp) -> None:
    type = quantized_element(op.y.type)
    assert type is not None
    moved = op.value.array.astype(np.int32) - displacement(type)
    op.value = WeightsAttr(moved.astype(signed(type).numpy_dtype))


def _enter(value: SSAValue, block: Block) -> None:
    """Inserts a change to signed storage between an argument (or a storage cast's result) and its computing readers."""
    readers = [u for u in value.uses if isinstance(u.operation, Computing)]
    if not readers:
        return
    change = RequantizeOp.make([value], element=_signed_tensor(value).element_type)
    where = InsertPoint.after(value.op) if isinstance(value, OpResult) else InsertPoint.at_start(block)
    Rewriter.insert_op(change, where)
    for use in readers:
        use.operation.operands[use.index] = change.y
