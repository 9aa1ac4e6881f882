"""Lowering of pointwise operations: the operation's own formula becomes an elementwise kernel."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute

from qmlir.codegen.code import WIDTHS
from qmlir.codegen.kernel import MainLowering, Rules
from qmlir.codegen.kernels.elementwise import lower_elementwise
from qmlir.codegen.value import Value
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import PointwiseOp
from qmlir.ir.interfaces import element_of

F64_WIDTHS = (8,)
"""Lanes of vectors for formulas that compute in f64: 16 lanes would leave no registers for intermediate values."""

VECTORS: dict[type[PointwiseOp], tuple[int, ...]] = {
    nn.AddOp: WIDTHS,
    nn.SubOp: WIDTHS,
    nn.MulOp: WIDTHS,
    nn.ReluOp: WIDTHS,
    nn.ClampOp: WIDTHS,
    nn.SigmoidOp: F64_WIDTHS,
    nn.TanhOp: F64_WIDTHS,
}
"""Operation → lanes of its vectors. Only formulas without comparisons are written as vectors, because xDSL compares
scalars only; LLVM vectorizes the kernels of all other formulas."""


@dataclass(frozen=True)
class OpFormula:
    """An operation's formula; two formulas are equal if the operations' class, properties and element types are."""

    kind: type[PointwiseOp]
    properties: tuple[tuple[str, Attribute], ...]
    elements: tuple[Attribute, ...]
    op: PointwiseOp = field(compare=False)

    @staticmethod
    def of(op: PointwiseOp) -> "OpFormula":
        elements = tuple(element_of(v) for v in (*op.operands, *op.results))
        return OpFormula(type(op), tuple(sorted(op.properties.items())), elements, op)

    def __call__(self, *operands: Value) -> Value:
        return self.op.formula(*operands)


def _pointwise(state: MainLowering, op: PointwiseOp) -> None:
    formula = OpFormula.of(op)
    widths = () if i1 in formula.elements else VECTORS.get(type(op), ())
    buffers = [state.buffer(x) for x in op.operands]
    lower_elementwise(state, op.name.replace(".", "_"), formula, buffers, op.results[0], widths)


def _same(state: MainLowering, op: nn.RequantizeOp) -> None:
    state.replace(op.y, state.buffer(op.x))


RULES: Rules = {
    **{op: _pointwise for op in nn.NN.operations if issubclass(op, PointwiseOp)},
    nn.RequantizeOp: _same,
}
