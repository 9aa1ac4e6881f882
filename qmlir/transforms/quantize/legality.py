"""What the quantizer's passes ask of operation and target alike."""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from qmlir.context import QmlirContext
from qmlir.dialects.nn.base import NNOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.quant.schemas import Precision
from qmlir.target import Target, load_target


def target_of(ctx: Context) -> Target:
    """The target the compiler chose; the CPU where nobody chose."""
    if isinstance(ctx, QmlirContext) and isinstance(ctx.target, Target):
        return ctx.target
    return load_target("cpu")


def data_values(op: Operation) -> Sequence[SSAValue]:
    """The tensors whose types a quantized operation needs: its data operands, weights included, and its results."""
    if isinstance(op, NNOp):
        return (*op.data_operands(), *op.results)
    if isinstance(op, MovementOp):
        return (*op.operands, *op.results)
    return ()


def storage_type(precision: Precision) -> IntegerType:
    """The storage type of a precision: int8 → i8, uint8 → ui8."""
    width = int(precision.removeprefix("u").removeprefix("int"))
    return IntegerType(width, Signedness.UNSIGNED if precision.startswith("u") else Signedness.SIGNLESS)


def storage_name(storage: IntegerType) -> str:
    """A storage type as targets write it: i8, u8."""
    unsigned = storage.signedness.data == Signedness.UNSIGNED
    return f"{'u' if unsigned else 'i'}{storage.width.data}"
