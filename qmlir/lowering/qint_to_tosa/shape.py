"""Constants and data movement: of any element type; quantized elements are their stored integers."""

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn.shape import ConcatOp, ConstantOp, PadOp, ReshapeOp, TransposeOp
from qmlir.dialects.tosa import shape as tosa
from qmlir.lowering.qint_to_tosa.tensors import TosaCode


def _constant(code: TosaCode, op: ConstantOp) -> SSAValue:
    return code.constant(op.value.array)


def _reshape(code: TosaCode, op: ReshapeOp, x: SSAValue) -> SSAValue:
    return code.reshape(x, shape_of(op.y))


def _transpose(code: TosaCode, op: TransposeOp, x: SSAValue) -> SSAValue:
    properties: dict[str, Attribute] = {"perms": DenseArrayBase.from_list(i32, list(op.permutation.get_values()))}
    return code.op(tosa.TransposeOp, [x], element_of(x), shape_of(op.y), properties)


def _concat(code: TosaCode, op: ConcatOp, *inputs: SSAValue) -> SSAValue:
    properties: dict[str, Attribute] = {"axis": IntegerAttr(op.axis.value.data, i32)}
    return code.op(tosa.ConcatOp, [list(inputs)], element_of(inputs[0]), shape_of(op.y), properties)


def _pad(code: TosaCode, op: PadOp, x: SSAValue) -> SSAValue:
    return code.padded(x, op.low.get_values(), op.high.get_values(), op.stored_value())


RULES = {
    ConstantOp: _constant,
    ReshapeOp: _reshape,
    TransposeOp: _transpose,
    ConcatOp: _concat,
    PadOp: _pad,
}
