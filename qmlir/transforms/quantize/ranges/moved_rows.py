"""States whose rows a network only moves, such as a decoder's keys and values: caches.

The next value of a cache is the state itself with some rows replaced, shifted or joined. Whoever changes how rows are
stored does so where rows enter, and back where something reads them; what moves them moves whatever a row is stored as.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ConcatOp, ReshapeOp, ScatterNDOp, SliceOp, TransposeOp, WhereOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.ir.interfaces import TensorOp, shape_of
from qmlir.ir.locations import locate


def moves_of(function: func.FuncOp, state: BlockArgument, after: SSAValue) -> Sequence[TensorOp]:
    """Returns the operations that move rows from a state, and from new rows, to its next value, in order.

    Args:
        function: The network.
        state: The argument; a row lies along its last axis.
        after: The state's next value.

    Returns:
        None of them if an operation computes on rows on the way, or if the next value has no rows of the state.
    """
    found: dict[TensorOp, None] = {}
    if not _trace(after, state, found):
        return ()
    return [o for o in function.body.block.ops if isinstance(o, TensorOp) and o in found]


def _trace(value: SSAValue, state: BlockArgument, found: dict[TensorOp, None]) -> bool:
    """Collects the operations that move whole rows to a value; returns whether rows of the state are among them."""
    if value is state:
        return True
    op = value.owner
    if not isinstance(op, TensorOp) or not _keeps_rows(op):
        return False
    if not any([_trace(v, state, found) for v in data_operands(op)]):
        return False
    found[op] = None
    return True


def _keeps_rows(op: Operation) -> bool:
    """Whether an operation moves whole rows: those of its result are rows of its operands."""
    if not isinstance(op, MovementOp | WhereOp):
        return False
    *_, size = shape_of(op.results[0]) or (0,)
    last = len(shape_of(op.results[0])) - 1
    if any(shape_of(v)[-1:] != (size,) for v in data_operands(op)):
        return False
    match op:
        case TransposeOp():
            return op.permutation.get_values()[-1] == last
        case SliceOp():
            return op.strides.get_values()[-1] == 1
        case ConcatOp():
            return op.axis.value.data != last
        case ScatterNDOp():
            return shape_of(op.indices)[-1] <= last
        case WhereOp():
            return shape_of(op.condition)[-1:] in ((), (1,))
        case _:
            return isinstance(op, ReshapeOp)


def moved(op: TensorOp, parts: Mapping[SSAValue, SSAValue], size: int | None) -> TensorOp:
    """Returns a move of something that belongs to each row, before the move of the rows.

    Args:
        op: The move of rows.
        parts: What belongs to the rows of its operands, by the operands.
        size: How many elements belong to a row; None for the rows themselves, stored otherwise.
    """
    operands = [parts.get(v, v) for v in op.operands]
    properties = dict(op.properties)
    name = op.SIZES if isinstance(op, MovementOp) else None
    if size is not None and name:
        sizes = cast("DenseArrayBase[IntegerType]", properties[name])
        properties[name] = DenseArrayBase.from_list(i64, [*sizes.get_values()[:-1], size])
    made = type(op).make([operands] if isinstance(op, ConcatOp) else operands, properties)
    if size is None:
        made.attributes |= op.attributes
        made.results[0].name_hint = op.results[0].name_hint
    locate([made], op.location)
    Rewriter.insert_op(made, InsertPoint.before(op))
    return made
