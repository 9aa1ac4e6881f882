"""Elementwise kernels: each operation's own formula, fused with the requantization that follows a product."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qmlir.codegen.code import WIDTHS
from qmlir.codegen.kernel import Array, MainLowering, Rules
from qmlir.codegen.kernels.elementwise import Formula, lower_elementwise
from qmlir.codegen.value import Value
from qmlir.dialects.qint import QINT
from qmlir.dialects.qint.elementwise import DivOp
from qmlir.dialects.qint.requantize import AccumulatingOp, ElementwiseOp, RequantizeOp
from qmlir.lowering.qint_to_loops.requantize import Requantize, fused_requantize, requantization


@dataclass(frozen=True)
class Requantized:
    """A formula and the requantization of its result, whose parameters come last."""

    formula: Formula
    requantize: Requantize

    def __call__(self, *elements: Any) -> Value:
        own = len(elements) - self.requantize.parameters
        return self.requantize.finish(self.formula(*elements[:own]), elements[own:])


def _elementwise(state: MainLowering, op: ElementwiseOp) -> None:
    (result,) = op.results
    if not result.uses:
        return  # an earlier kernel contains this requantization
    formula: Formula = op.formula()
    parameters: Sequence[Array] = op.parameters()
    if isinstance(op, RequantizeOp):
        formula, parameters = requantization(state, op)
    elif isinstance(op, AccumulatingOp) and (fused := fused_requantize(result)) is not None:
        requantize, after = requantization(state, fused)
        formula, parameters, result = Requantized(formula, requantize), [*parameters, *after], fused.y
    tables = [state.constant(table) for table in op.tables()]
    # xDSL compares scalars only, and vectors of indices have no loads.
    widths = () if tables or isinstance(op, DivOp) else WIDTHS
    operands = [*map(state.buffer, op.operands), *map(state.constant, parameters)]
    lower_elementwise(state, op.name.replace(".", "_"), formula, operands, result, widths, tables)


RULES: Rules = {op: _elementwise for op in QINT.operations if issubclass(op, ElementwiseOp)}
