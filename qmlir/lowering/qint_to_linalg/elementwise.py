"""Export of elementwise operations: each operation's own formula, in the body of one `linalg.generic`."""

from collections.abc import Callable

from xdsl.dialects import tensor
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.qint import QINT
from qmlir.dialects.qint.requantize import ElementwiseOp
from qmlir.ir.interfaces import element_of, tensor_type
from qmlir.ir.types import element_type_of
from qmlir.lowering.qint_to_linalg.structured import TensorCode


def reader(table: SSAValue) -> Callable[..., Value]:
    """A function from the integer indices of an entry of a tensor to the entry."""

    def read(*place: Value) -> Value:
        indices = [index.to(INDEX).ssa for index in place]
        return place[0].code.emit(tensor.ExtractOp, [table, *indices], element_of(table))

    return read


def _elementwise(code: TensorCode, op: ElementwiseOp, *operands: SSAValue) -> SSAValue:
    """Writes the formula: a parameter with one entry is a number in the body, others are read by the last dimension."""
    formula, parameters = op.formula(), op.parameters()
    readers = [reader(code.constant(table)) for table in op.tables()]

    def body(*elements: Value) -> Value:
        along, numbers = iter(elements[len(operands) :]), elements[0].code
        given = [
            next(along)
            if p.size > 1
            else numbers.constant(p.item(), i64 if p.dtype.kind == "i" else element_type_of(p.dtype))
            for p in parameters
        ]
        return formula(*elements[: len(operands)], *given, *readers)

    read = [*operands, *(code.constant(p) for p in parameters if p.size > 1)]
    return code.elementwise(read, tensor_type(op.results[0]), body)


RULES = {op: _elementwise for op in QINT.operations if issubclass(op, ElementwiseOp)}
