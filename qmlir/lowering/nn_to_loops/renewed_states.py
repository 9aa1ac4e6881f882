"""Kernels that renew rows of a state: its next value is the state itself with some rows replaced.

A decoder's cache of 2,048 places gets one row in a call. Here the next value begins as a copy of the state, in which a
kernel then replaces rows and touches no others:

    memref.copy %cache, %next
    func.call @nn_where_rows_0(%here, %row, %next, …)

`plan-memory` finds that nothing reads the old value behind the copy. Where a caller gives one array for both, the copy
is not done (loops_to_llvm/memory.py), and a call costs what it writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Block, SSAValue

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.nn import ScatterNDOp, WhereOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.states import state_values
from qmlir.lowering.nn_to_loops.elementwise import lower_pointwise
from qmlir.lowering.nn_to_loops.movement import loops_over, lower_scatter, places_of, widths_of


def _is_renewed(state: SSAValue, y: SSAValue) -> bool:
    """Whether a tensor is a state of the function, and `y` is its value in the next call."""
    while isinstance(state.owner, UnrealizedConversionCastOp | StorageCastOp):
        state = state.owner.operands[0]
    if not isinstance(block := state.owner, Block):
        return False
    return any(argument is state and _is_same(y, after) for argument, after in state_values(block))


def _is_same(y: SSAValue, after: SSAValue) -> bool:
    """Whether the second tensor holds the first one's integers."""
    while after is not y and isinstance(after.owner, StorageCastOp):
        after = after.owner.operands[0]
    return after is y


def _copied(lowering: MainLowering, state: SSAValue, y: SSAValue) -> SSAValue:
    """The buffer of a state's next value, which begins as a copy of the state."""
    buffer = lowering.allocate_result(y)
    lowering.insert(memref.CopyOp(lowering.buffer(state), buffer))
    return buffer


# ---------------------------------------------------------------------------------------------------------------
# Rows where a condition holds.


@dataclass(frozen=True)
class WhereRows(Kernel):
    """y[…, :] = x[…, :] for the rows whose condition is `chosen`; condition and x repeat along dimensions of size 1."""

    chosen: bool
    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_where_rows"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        condition, x, y = buffers
        *outer, size = y.shape

        def places(buffer: Buffer, row: Sequence[Value]) -> list[Value]:
            return [i if n > 1 else code.index(0) for i, n in zip(row, buffer.shape, strict=False)]

        with loops_over(code, outer, begin, end) as row:
            holds = condition.load(*places(condition, row), 0)
            with code.when(holds if self.chosen else holds ^ 1):
                at = places(x, row)

                def put(i: Value, lanes: int | None) -> None:
                    y.store(x.load(*at, i, lanes=lanes), *row, i)

                code.spans(0, size, put, self.widths)


def _kept(op: WhereOp) -> SSAValue | None:
    """The state of which an operation replaces whole rows; None if it does something else."""
    rank = len(shape_of(op.y))
    condition = _padded(op.condition, rank)
    if not rank or condition[-1] != 1 or not prod(shape_of(op.y)):
        return None
    for kept, new in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
        fits = shape_of(kept) == shape_of(op.y) and _padded(new, rank)[-1] == shape_of(op.y)[-1]
        if fits and _is_renewed(kept, op.y):
            return kept
    return None


def _padded(x: SSAValue, rank: int) -> tuple[int, ...]:
    """A shape with as many dimensions as a result, to which it is broadcast."""
    return (*(1,) * (rank - len(shape_of(x))), *shape_of(x))


def _where(lowering: MainLowering, op: WhereOp) -> None:
    kept, shape = _kept(op), shape_of(op.y)
    if kept is None:
        lower_pointwise(lowering, op)
        return
    new = op.lhs if kept is op.rhs else op.rhs
    own = (1, *shape) if len(shape) == 1 else shape  # a vector is one row
    y = _copied(lowering, kept, op.y)
    given = [lowering.view(lowering.buffer(x), _padded(x, len(own))) for x in (op.condition, new)]
    kernel = WhereRows(kept is op.rhs, widths_of(op.y))
    lowering.call(kernel, [*given, lowering.view(y, own)], own[0])
    lowering.replace(op.y, y)


# ---------------------------------------------------------------------------------------------------------------
# Rows at given places.


@dataclass(frozen=True)
class ScatterRows(Kernel):
    """y[indices[i, 0], …, indices[i, k−1], :] = updates[i, :], for i in order: a later row may replace an earlier one.

    The kernel has one item, and y is flat.

    dims  the first k dimensions of y
    """

    dims: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_scatter_rows"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        updates, indices, y = buffers
        count, size = updates.shape
        with code.loop(begin, end, name="whole"), code.loop(0, count, name="row") as row:
            base = code.index(0)
            for place, n in zip(places_of(indices, row, self.dims), self.dims, strict=True):
                base = base * n + place
            base = base * size

            def put(i: Value, lanes: int | None) -> None:
                y.store(updates.load(row, i, lanes=lanes), base + i)

            code.spans(0, size, put, self.widths)


def _scatter(lowering: MainLowering, op: ScatterNDOp) -> None:
    if not _is_renewed(op.x, op.y):
        lower_scatter(lowering, op)
        return
    *listed, depth = shape_of(op.indices)
    shape, count = shape_of(op.x), prod(listed)
    y = _copied(lowering, op.x, op.y)
    rows, indices = (count, prod(shape[depth:])), (count, depth)
    given = [lowering.view(lowering.buffer(x), seen) for x, seen in ((op.updates, rows), (op.indices, indices))]
    if prod(rows):
        kernel = ScatterRows(shape[:depth], widths_of(op.y))
        lowering.call(kernel, [*given, lowering.view(y, (prod(shape),))], 1)
    lowering.replace(op.y, y)


RULES: Rules = {WhereOp: _where}

MOVEMENT: Rules = {ScatterNDOp: _scatter}
"""For elements of any type."""
