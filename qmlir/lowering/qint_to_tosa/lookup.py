"""Tables of 256 entries: `tosa.table` from i8 to i8, a gather to wider integers."""

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.qint.lookup import LookupOp
from qmlir.dialects.tosa.lookup import TableOp
from qmlir.lowering.qint_to_tosa.tensors import TosaCode, is_byte


def _lookup(code: TosaCode, op: LookupOp, x: SSAValue) -> SSAValue:
    if is_byte(op.y):
        return code.op(TableOp, [x, code.constant(op.table.array)], element_of(op.y), shape_of(x))
    return code.looked_up(code.table(op.table.array), code.plus(code.cast(x, i32), 128))


RULES = {LookupOp: _lookup}
