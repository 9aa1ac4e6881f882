"""Float sums and products of two tensors."""

from dataclasses import dataclass

from qmlir.dialects.nn.elementwise import AddOp, BinaryOp, MulOp
from qmlir.lowering.kernel import MainLowering, Rule, Rules
from qmlir.lowering.kernels.elementwise import Formula, lower_elementwise
from qmlir.lowering.nn_to_loops.contraction import Clamp, clamp_of
from qmlir.lowering.value import Value


@dataclass(frozen=True)
class Add:
    """clamp(lhs + rhs)."""

    clamp: Clamp

    def __call__(self, lhs: Value, rhs: Value) -> Value:
        return self.clamp(lhs + rhs)


@dataclass(frozen=True)
class Mul:
    """clamp(lhs · rhs)."""

    clamp: Clamp

    def __call__(self, lhs: Value, rhs: Value) -> Value:
        return self.clamp(lhs * rhs)


def _binary(name: str, formula: type[Add | Mul]) -> Rule:
    def lower(state: MainLowering, op: BinaryOp) -> None:
        operands = [state.buffer(op.lhs), state.buffer(op.rhs)]
        made: Formula = formula(clamp_of(op.bounds()))
        lower_elementwise(state, name, made, operands, op.y)

    return lower


RULES: Rules = {AddOp: _binary("nn_add", Add), MulOp: _binary("nn_mul", Mul)}
