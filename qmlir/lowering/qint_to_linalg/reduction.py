"""Export of maxima and minima of integers along axes."""

from xdsl.dialects.builtin import Signedness
from xdsl.ir import SSAValue

from qmlir.codegen.value import Value
from qmlir.codegen.way_out import check_comparable
from qmlir.dialects.nn.reduction import ExtremeOp, ReduceMaxOp, ReduceMinOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.lowering.qint_to_linalg.structured import TensorCode, loops


def _extreme(code: TensorCode, op: ExtremeOp, x: SSAValue) -> SSAValue:
    element = check_comparable(code, op.x)
    unsigned = element.signedness.data == Signedness.UNSIGNED
    kept = [d for d in range(len(shape_of(x))) if d not in op.axes.get_values()]
    dims = loops(len(shape_of(x)))

    def further(x: Value, most: Value) -> Value:
        return (most.maximum if isinstance(op, ReduceMaxOp) else most.minimum)(x, unsigned=unsigned)

    start = code.filled(_signed(int(op.identity()), element.width.data), [shape_of(x)[d] for d in kept], element_of(x))
    found = code.generic([(x, dims)], (start, [dims[d] for d in kept]), len(dims), further)
    return code.reshape(found, shape_of(op.y))


def _signed(number: int, bits: int) -> int:
    """Converts an unsigned integer to the signed integer of the same bits."""
    return number - (1 << bits) if number >= 1 << bits - 1 else number


RULES = {ReduceMaxOp: _extreme, ReduceMinOp: _extreme}
