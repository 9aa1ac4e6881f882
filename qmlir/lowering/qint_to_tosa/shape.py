"""Export of constants and data movement, for any element type; quantized elements become their stored integers."""

from xdsl.ir import SSAValue

from qmlir.dialects.nn.shape import BroadcastOp, ConcatOp, ConstantOp, PadOp, ReshapeOp, TransposeOp
from qmlir.ir.interfaces import shape_of
from qmlir.lowering.qint_to_tosa.tensors import TosaCode


def _constant(code: TosaCode, op: ConstantOp) -> SSAValue:
    return code.constant(op.value.array)


def _reshape(code: TosaCode, op: ReshapeOp, x: SSAValue) -> SSAValue:
    return code.reshape(x, shape_of(op.y))


def _transpose(code: TosaCode, op: TransposeOp, x: SSAValue) -> SSAValue:
    return code.transposed(x, op.permutation.get_values())


def _broadcast(code: TosaCode, op: BroadcastOp, x: SSAValue) -> SSAValue:
    return code.spread(x, shape_of(op.y))


def _concat(code: TosaCode, op: ConcatOp, *inputs: SSAValue) -> SSAValue:
    return code.side_by_side(inputs, op.axis.value.data)


def _pad(code: TosaCode, op: PadOp, x: SSAValue) -> SSAValue:
    return code.padded(x, op.low.get_values(), op.high.get_values(), op.stored_value())


RULES = {
    ConstantOp: _constant,
    ReshapeOp: _reshape,
    TransposeOp: _transpose,
    BroadcastOp: _broadcast,
    ConcatOp: _concat,
    PadOp: _pad,
}
