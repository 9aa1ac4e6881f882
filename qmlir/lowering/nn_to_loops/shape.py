"""Lowering of constants and data movement, for elements of any type; a reshape is a view of the same buffer."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from qmlir.codegen.code import WIDTHS, Buffer, Code
from qmlir.codegen.kernel import Kernel, MainLowering, Rules, constant_array
from qmlir.codegen.value import Value
from qmlir.dialects.nn.shape import BroadcastOp, ConcatOp, ConstantOp, PadOp, ReshapeOp, TransposeOp
from qmlir.ir.interfaces import element_of, shape_of


def widths_of(tensor: SSAValue) -> tuple[int, ...]:
    """Lanes of the vectors that move a tensor's elements; empty for i1, because memory holds each i1 in a byte."""
    return () if element_of(tensor) == i1 else WIDTHS


@dataclass(frozen=True)
class Transpose(Kernel):
    """y[i_0, i_1, …] = x[…], where dimension k of y is dimension permutation[k] of x."""

    permutation: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_transpose"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, length = y.shape
        place = [self.permutation.index(d) for d in range(len(y.shape))]
        neighbours = self.permutation[-1] == len(self.permutation) - 1
        with ExitStack() as nest:
            rows = [nest.enter_context(code.loop(begin, end))] if outer else []
            rows += [nest.enter_context(code.loop(0, size)) for size in outer[1:]]

            def copy(i: Value, lanes: int | None) -> None:
                position = [*rows, i]
                y.store(x.load(*(position[p] for p in place), lanes=lanes), *position)

            code.spans(0, length, copy, self.widths if neighbours else ())


def _transpose(state: MainLowering, op: TransposeOp) -> None:
    shape, permutation = merge_permutation(shape_of(op.x), op.permutation.get_values())
    if list(permutation) == sorted(permutation):
        state.replace(op.y, state.view(state.buffer(op.x), shape_of(op.y)))
        return
    result = [shape[p] for p in permutation]
    y = state.allocate_result(op.y)
    kernel = Transpose(permutation, widths_of(op.y))
    state.call(kernel, [state.view(state.buffer(op.x), shape), state.view(y, result)], result[0])
    state.replace(op.y, y)


def merge_permutation(shape: Sequence[int], permutation: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same transpose in fewer dimensions: size-1 dimensions are dropped, dimensions that stay together merged.

    Returns:
        The merged shape and permutation.
    """
    kept = [p for p in permutation if shape[p] != 1]
    runs: list[list[int]] = []
    for p in kept:
        follows = runs and all(shape[d] == 1 for d in range(runs[-1][-1] + 1, p)) and p > runs[-1][-1]
        if follows:
            runs[-1].append(p)
        else:
            runs.append([p])
    starts = sorted(run[0] for run in runs)
    sizes = {run[0]: prod(shape[p] for p in run) for run in runs}
    return tuple(sizes[s] for s in starts), tuple(starts.index(run[0]) for run in runs)


@dataclass(frozen=True)
class Concat(Kernel):
    """y[o, :] = the concatenation of the rows x_0[o, :], x_1[o, :], …."""

    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_concat"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        *sources, y = buffers
        with code.loop(begin, end, name="row") as o:
            offset = 0
            for x in sources:

                def copy(i: Value, lanes: int | None, x: Buffer = x, offset: int = offset) -> None:
                    y.store(x.load(o, i, lanes=lanes), o, i + offset)

                code.spans(0, x.shape[1], copy, self.widths)
                offset += x.shape[1]


def _concat(state: MainLowering, op: ConcatOp) -> None:
    axis, shape = op.axis.value.data, shape_of(op.y)
    outer = prod(shape[:axis])
    y = state.allocate_result(op.y)
    rows = [state.view(state.buffer(x), (outer, prod(shape_of(x)[axis:]))) for x in op.inputs if prod(shape_of(x))]
    state.call(Concat(widths_of(op.y)[:1]), [*rows, state.view(y, (outer, prod(shape[axis:])))], outer)
    state.replace(op.y, y)


@dataclass(frozen=True)
class Pad(Kernel):
    """y = x surrounded by a constant; `pads` has the counts (before, after) of each dimension."""

    pads: tuple[tuple[int, int], ...]
    value: int | float
    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_pad"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, size = x.shape
        low = self.pads[-1][0]
        with ExitStack() as nest:
            rows: list[Value] = []
            for axis, _ in enumerate(outer):
                bounds = (begin, end) if axis == 0 else (0, y.shape[axis])
                rows.append(nest.enter_context(code.loop(*bounds)))
            source = [row - before for row, (before, _) in zip(rows, self.pads[:-1], strict=True)]

            def fill(i: Value, lanes: int | None) -> None:
                y.store(code.constant(self.value, y.element).spread(lanes), *rows, i)

            def copy(i: Value, lanes: int | None) -> None:
                y.store(x.load(*source, i, lanes=lanes), *rows, i + low)

            def inside() -> None:
                code.spans(0, low, fill, self.widths)
                code.spans(0, size, copy, self.widths)
                code.spans(low + size, y.shape[-1], fill, self.widths)

            padded = [(s, n) for s, n, p in zip(source, outer, self.pads[:-1], strict=True) if p != (0, 0)]
            if not padded:
                inside()
                return
            condition = padded[0][0].below(padded[0][1])
            for row, count in padded[1:]:
                condition = condition & row.below(count)
            code.branch(condition, inside, lambda: code.spans(0, y.shape[-1], fill, self.widths))


def _pad(state: MainLowering, op: PadOp) -> None:
    if all(p == (0, 0) for p in op.pads()):
        state.replace(op.y, state.buffer(op.x))
        return
    shape, pads = merge_pads(shape_of(op.x), op.pads())
    result = [low + size + high for size, (low, high) in zip(shape, pads, strict=True)]
    y = state.allocate_result(op.y)
    arguments = [state.view(state.buffer(op.x), shape), state.view(y, result)]
    state.call(Pad(pads, _stored_value(op), widths_of(op.y)), arguments, result[0] if len(result) > 1 else 1)
    state.replace(op.y, y)


def merge_pads(
    shape: Sequence[int], pads: Sequence[tuple[int, int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """The same padding in fewer dimensions: a dimension without padding merges into the dimension before it."""
    merged: list[tuple[int, tuple[int, int]]] = []
    for size, (low, high) in zip(shape, pads, strict=True):
        if merged and (low, high) == (0, 0):
            before, (first, last) = merged[-1]
            merged[-1] = (before * size, (first * size, last * size))
        elif merged and merged[-1][0] == 1 and merged[-1][1] == (0, 0):
            merged[-1] = (size, (low, high))
        else:
            merged.append((size, (low, high)))
    return tuple(size for size, _ in merged), tuple(pad for _, pad in merged)


def _stored_value(op: PadOp) -> int | float:
    """The padding value as memory holds it: a number of the element type, or its bits for types held as integers."""
    stored = op.stored_value()
    is_float = stored.dtype == np.float32 or stored.dtype == np.float64
    return float(stored) if is_float else int(stored.view(f"i{stored.itemsize}"))


@dataclass(frozen=True)
class Broadcast(Kernel):
    """y = x, repeated along every dimension in which x has size 1."""

    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_broadcast"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, length = y.shape
        with ExitStack() as nest:
            rows = [
                nest.enter_context(code.loop(begin, end) if axis == 0 else code.loop(0, count))
                for axis, count in enumerate(outer)
            ]
            source = [0 if size == 1 else row for size, row in zip(x.shape[:-1], rows, strict=True)]

            def copy(i: Value, lanes: int | None) -> None:
                value = x.load(*source, 0).spread(lanes) if x.shape[-1] == 1 else x.load(*source, i, lanes=lanes)
                y.store(value, *rows, i)

            code.spans(0, length, copy, self.widths)


def _broadcast(state: MainLowering, op: BroadcastOp) -> None:
    y = state.allocate_result(op.y)
    if prod(shape_of(op.y)):
        shape, result = merge_repeats(shape_of(op.x), shape_of(op.y))
        arguments = [state.view(state.buffer(op.x), shape), state.view(y, result)]
        state.call(Broadcast(widths_of(op.y)), arguments, result[0] if len(result) > 1 else 1)
    state.replace(op.y, y)


def merge_repeats(shape: Sequence[int], result: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same broadcast in fewer dimensions: neighbours that are both repeated or both kept are merged."""
    merged: list[tuple[int, int]] = []
    for size, wanted in zip((*[1] * (len(result) - len(shape)), *shape), result, strict=True):
        if wanted == 1:
            continue
        if merged and (merged[-1][0] == 1) == (size == 1):
            merged[-1] = (merged[-1][0] * size, merged[-1][1] * wanted)
        else:
            merged.append((size, wanted))
    if not merged:
        merged.append((1, 1))
    return tuple(size for size, _ in merged), tuple(wanted for _, wanted in merged)


def _reshape(state: MainLowering, op: ReshapeOp) -> None:
    state.replace(op.y, state.view(state.buffer(op.x), shape_of(op.y)))


def _constant(state: MainLowering, op: ConstantOp) -> None:
    array = constant_array(op.y)
    assert array is not None
    state.replace(op.y, state.constant(array))


RULES: Rules = {
    TransposeOp: _transpose,
    ConcatOp: _concat,
    PadOp: _pad,
    ReshapeOp: _reshape,
    ConstantOp: _constant,
    BroadcastOp: _broadcast,
}
