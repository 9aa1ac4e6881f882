"""Export of constants and data movement, for any element type; quantized elements become their stored integers."""

from collections.abc import Sequence

from xdsl.dialects import tensor
from xdsl.ir import SSAValue

from qmlir.codegen.value import Value
from qmlir.codegen.way_out import signless
from qmlir.dialects.nn.shape import BroadcastOp, ConcatOp, ConstantOp, PadOp, ReshapeOp, TransposeOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.lowering.qint_to_linalg.structured import TensorCode, copied, loops, tensor_of


def _constant(code: TensorCode, op: ConstantOp) -> SSAValue:
    return code.constant(op.value.array)


def _reshape(code: TensorCode, op: ReshapeOp, x: SSAValue) -> SSAValue:
    return code.reshape(x, shape_of(op.y))


def _transpose(code: TensorCode, op: TransposeOp, x: SSAValue) -> SSAValue:
    permutation: Sequence[int] = op.permutation.get_values()
    written = loops(len(permutation))
    read = [written[permutation.index(d)] for d in range(len(permutation))]
    into = (code.empty(shape_of(op.y), element_of(x)), written)
    return code.generic([(x, read)], into, len(permutation), copied)


def _broadcast(code: TensorCode, op: BroadcastOp, x: SSAValue) -> SSAValue:
    def same(x: Value) -> Value:
        return x

    return code.elementwise([x], tensor_of(element_of(x), shape_of(op.y)), same)


def _concat(code: TensorCode, op: ConcatOp, *inputs: SSAValue) -> SSAValue:
    """Writes a concatenation as slices inserted one after another."""
    axis = op.axis.value.data
    y = code.empty(shape_of(op.y), element_of(inputs[0]))
    at = 0
    for x in inputs:
        shape = shape_of(x)
        offsets = [at if d == axis else 0 for d in range(len(shape))]
        y = code.add(tensor.InsertSliceOp.from_static_parameters(x, y, offsets, shape))
        at += shape[axis]
    return y


def _pad(code: TensorCode, op: PadOp, x: SSAValue) -> SSAValue:
    value = signless(op.stored_value())
    number = -int(value) if value.dtype.kind == "b" else value.item()  # an i1 of 1 is the signed number −1
    return code.padded(x, op.low.get_values(), op.high.get_values(), number)


RULES = {
    ConstantOp: _constant,
    ReshapeOp: _reshape,
    TransposeOp: _transpose,
    BroadcastOp: _broadcast,
    ConcatOp: _concat,
    PadOp: _pad,
}
