"""Tables of 256 entries."""

from xdsl.dialects import tensor
from xdsl.ir import SSAValue

from qmlir.dialects.interfaces import tensor_type
from qmlir.dialects.qint.lookup import LookupOp
from qmlir.lowering.qint_to_linalg.structured import TensorCode
from qmlir.lowering.value import INDEX, Value


def _lookup(code: TensorCode, op: LookupOp, x: SSAValue) -> SSAValue:
    table = code.constant(op.table.array)
    type = tensor_type(op.y)

    def formula(x: Value) -> Value:
        return x.code.emit(tensor.ExtractOp, [table, (x.to(INDEX) + 128).ssa], type.element_type)

    return code.elementwise([x], type, formula)


RULES = {LookupOp: _lookup}
