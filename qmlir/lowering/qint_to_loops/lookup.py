"""Lowering of lookup tables."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i16, i32

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Kernel, MainLowering, Rules
from qmlir.codegen.kernels.elementwise import RUN, merge_dimensions
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.qint.lookup import InterpolatedLookupOp, LookupOp, PairLookupOp
from qmlir.ir.interfaces import shape_of
from qmlir.numerics.tables import SEGMENT_BITS


@dataclass(frozen=True)
class Lookup(Kernel):
    """y[i] = table[x[i] + half]. Buffers: x [elements], table [2 · half], y [elements]."""

    elements: int

    @property
    def symbol(self) -> str:
        return "qint_lookup"

    @property
    def items(self) -> int:
        """The number of runs of `RUN` elements, over which the parallel loop runs."""
        return -(-self.elements // RUN)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, y = buffers
        half = table.shape[0] // 2
        with code.loop(begin * RUN, (end * RUN).minimum(self.elements)) as i:
            y.store(table.load(x.load(i).to(INDEX) + half), i)


def _lookup(state: MainLowering, op: LookupOp) -> None:
    elements = prod(shape_of(op.x))
    y = state.allocate_result(op.y)
    kernel = Lookup(elements)
    table = state.constant(op.table.array)
    state.call(kernel, [state.view(state.buffer(op.x), [elements]), table, state.view(y, [elements])], kernel.items)
    state.replace(op.y, y)


@dataclass(frozen=True)
class InterpolatedLookup(Kernel):
    """y[i] = t[k] + ((t[k+1] − t[k])·f + 64 >> 7) with k and f the upper and lower bits of x[i] + 2^15.

    Buffers: x [elements], table t [513], y [elements].
    """

    elements: int

    @property
    def symbol(self) -> str:
        return "qint_interpolated_lookup"

    @property
    def items(self) -> int:
        """The number of runs of `RUN` elements, over which the parallel loop runs."""
        return -(-self.elements // RUN)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, y = buffers
        with code.loop(begin * RUN, (end * RUN).minimum(self.elements)) as i:
            place = x.load(i).to(i32) + (1 << 15)
            knot, offset = (place >> SEGMENT_BITS).to(INDEX), place & (1 << SEGMENT_BITS) - 1
            base, slope = table.load(knot).to(i32), table.load(knot + 1).to(i32)
            line = (slope - base) * offset + (1 << SEGMENT_BITS - 1) >> SEGMENT_BITS
            y.store((base + line).to(i16), i)


def _interpolated_lookup(state: MainLowering, op: InterpolatedLookupOp) -> None:
    elements = prod(shape_of(op.x))
    y = state.allocate_result(op.y)
    kernel = InterpolatedLookup(elements)
    table = state.constant(op.table.array)
    state.call(kernel, [state.view(state.buffer(op.x), [elements]), table, state.view(y, [elements])], kernel.items)
    state.replace(op.y, y)


@dataclass(frozen=True)
class PairLookup(Kernel):
    """y[i, j, …] = table[lhs + 128, rhs + 128]. Buffers: lhs, rhs, table [256, 256], y.

    shape    the merged dimensions of the result
    present  for each operand, which of these dimensions it has
    """

    shape: tuple[int, ...]
    present: tuple[tuple[bool, ...], ...]

    @property
    def symbol(self) -> str:
        return "qint_pair_lookup"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        *operands, table, y = buffers
        with ExitStack() as nest:
            place = [
                nest.enter_context(code.loop(begin, end) if axis == 0 else code.loop(0, size))
                for axis, size in enumerate(self.shape)
            ]
            entry: list[Value] = []
            for x, present in zip(operands, self.present, strict=True):
                own = [p for p, has in zip(place, present, strict=True) if has] or [code.index(0)]
                entry.append(x.load(*own).to(INDEX) + 128)
            y.store(table.load(*entry), *place)


def _pair_lookup(state: MainLowering, op: PairLookupOp) -> None:
    shape, present = merge_dimensions(shape_of(op.y), [shape_of(op.lhs), shape_of(op.rhs)])
    y = state.allocate_result(op.y)
    views = [
        state.view(state.buffer(x), [size for size, has in zip(shape, p, strict=True) if has] or [1])
        for x, p in zip((op.lhs, op.rhs), present, strict=True)
    ]
    kernel = PairLookup(shape, present)
    state.call(kernel, [*views, state.constant(op.table.array), state.view(y, shape)], shape[0])
    state.replace(op.y, y)


RULES: Rules = {PairLookupOp: _pair_lookup, LookupOp: _lookup, InterpolatedLookupOp: _interpolated_lookup}
