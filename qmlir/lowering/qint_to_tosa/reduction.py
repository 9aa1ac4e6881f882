"""Export of maxima and minima of signed integers along axes, one axis after another."""

from xdsl.dialects.builtin import IntegerAttr, Signedness, i32
from xdsl.ir import SSAValue

from qmlir.codegen.way_out import check_comparable
from qmlir.dialects.nn import reduction as nn
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.upstream.tosa import reduction as tosa
from qmlir.lowering.qint_to_tosa.tensors import TosaCode

KINDS: dict[type[nn.ExtremeOp], type[tosa.ReductionOp]] = {
    nn.ReduceMaxOp: tosa.ReduceMaxOp,
    nn.ReduceMinOp: tosa.ReduceMinOp,
}


def _extreme(code: TosaCode, op: nn.ExtremeOp, x: SSAValue) -> SSAValue:
    element = check_comparable(code, op.x)
    if element.signedness.data == Signedness.UNSIGNED or element.width.data > 32:
        code.refuse("compares signed integers of up to 32 bits in tosa", got=str(element), remedy="store it as i8")
    for axis in op.axes.get_values():
        sizes = [1 if d == axis else size for d, size in enumerate(shape_of(x))]
        x = code.op(KINDS[type(op)], [x], element_of(x), sizes, {"axis": IntegerAttr(axis, i32)})
    return x


RULES = {kind: _extreme for kind in KINDS}
