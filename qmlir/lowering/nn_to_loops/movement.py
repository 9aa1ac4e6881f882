"""Kernels of data movement: shapes, permutations, padding, slices, gathers and scatters."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, i1, i64
from xdsl.ir import SSAValue

from qmlir.codegen.code import WIDTHS, Buffer, Code
from qmlir.codegen.kernels.rows_of_tables import lower_gather, place_of, waits_for_its_layer
from qmlir.codegen.kernels.squares import square_side, transpose_square
from qmlir.codegen.lowering import Kernel, MainLowering, Rules, constant_array
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn.base import is_unsigned
from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, ScatterNDOp, ScatterReduceNDOp, TopKOp
from qmlir.dialects.nn.movement import (
    BroadcastOp,
    ConcatOp,
    ConstantOp,
    DilateOp,
    FillingOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.ir.fact import Heir, Movement, moved
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import is_integer

# ---------------------------------------------------------------------------------------------------------------
# Lowering of constants and data movement, for elements of any type; a reshape is a view of the same buffer.


def widths_of(tensor: SSAValue) -> tuple[int, ...]:
    """Lanes of the vectors that move a tensor's elements; empty for i1, because memory holds each i1 in a byte."""
    return () if element_of(tensor) == i1 else WIDTHS


@contextmanager
def loops_over(code: Code, sizes: Sequence[int], begin: Value, end: Value) -> Generator[list[Value]]:
    """Opens a loop for each dimension, the outermost over the items [begin, end), and yields the indices."""
    bounds = [(begin, end), *((0, size) for size in sizes[1:])] if sizes else []
    with ExitStack() as nest:
        yield [nest.enter_context(code.loop(*ends)) for ends in bounds]


@dataclass(frozen=True)
class Transpose(Kernel):
    """y[i_0, i_1, …] = x[…], where dimension k of y is dimension permutation[k] of x.

    Where neighbours in y are none in x, squares of `square` by `square` elements are transposed in registers, if there
    is such a square.
    """

    permutation: tuple[int, ...]
    widths: tuple[int, ...]
    square: int

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, length = y.shape
        neighbours = self.permutation[-1] == len(outer)
        if self.square and not neighbours and self.widths and min(length, x.shape[-1]) >= self.square:
            self._by_squares(code, x, y, begin, end)
            return
        with loops_over(code, outer, begin, end) as rows:
            code.spans(0, length, partial(self._copy, x, y, rows), self.widths if neighbours else ())

    def _read(self, x: Buffer, position: Sequence[Value], lanes: int | None = None) -> Value:
        """Loads from x what y has at a position, and what follows it in x."""
        return x.load(*(position[self.permutation.index(d)] for d in range(len(position))), lanes=lanes)

    def _copy(self, x: Buffer, y: Buffer, rows: Sequence[Value], i: Value, lanes: int | None) -> None:
        position = [*rows, i]
        y.store(self._read(x, position, lanes), *position)

    def _by_squares(self, code: Code, x: Buffer, y: Buffer, begin: Value, end: Value) -> None:
        """Transposes squares of the dimensions in which y's and x's neighbours lie; their rest element by element."""
        across, sizes = self.permutation.index(len(self.permutation) - 1), y.shape
        bounds = [(begin, end), *((code.index(0), code.index(size)) for size in sizes[1:-1])]
        others = [(d, ends) for d, ends in enumerate(bounds) if d != across]
        with ExitStack() as nest:
            at = {d: nest.enter_context(code.loop(*ends)) for d, ends in others}

            def rows_at(i: Value) -> list[Value]:
                return [i if d == across else at[d] for d in range(len(sizes) - 1)]

            def squares(i: Value, lanes: int | None) -> None:
                def copy(j: Value, also: int | None) -> None:
                    if also is None:
                        for r in range(lanes or 1):
                            self._copy(x, y, rows_at(i + r), j, None)
                        return
                    read = [self._read(x, [*rows_at(i), j + r], also) for r in range(also)]
                    for r, row in enumerate(transpose_square(read)):
                        y.store(row, *rows_at(i + r), j)

                code.spans(0, sizes[-1], copy, () if lanes is None else (lanes,))

            code.spans(*bounds[across], squares, (self.square,))


def _transpose(state: MainLowering, op: TransposeOp) -> None:
    shape, permutation = merge_permutation(shape_of(op.x), op.permutation.get_values())
    if list(permutation) == sorted(permutation):
        state.replace(op.y, state.view(state.buffer(op.x), shape_of(op.y)))
        return
    result = [shape[p] for p in permutation]
    kernel = Transpose(permutation, widths_of(op.y), square_side(state.machine))
    state.compute(kernel, op.y, result, (op.x, shape))


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
    rows = [(x, (outer, prod(shape_of(x)[axis:]))) for x in op.inputs if prod(shape_of(x))]
    state.compute(Concat(widths_of(op.y)[:1]), op.y, (outer, prod(shape[axis:])), *rows)


@dataclass(frozen=True)
class Pad(Kernel):
    """y = x surrounded by a constant; `pads` has the counts (before, after) of each dimension."""

    pads: tuple[tuple[int, int], ...]
    value: int | float
    widths: tuple[int, ...]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, size = x.shape
        low = self.pads[-1][0]
        with loops_over(code, y.shape[:-1], begin, end) as rows:
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
    kernel = Pad(pads, _stored_value(op), widths_of(op.y))
    state.compute(kernel, op.y, result, (op.x, shape), items=_rows(result))


def _rows(shape: Sequence[int]) -> int:
    """The size of the outermost loop of a kernel that moves rows: a shape of one dimension is one row."""
    return shape[0] if len(shape) > 1 else 1


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


def _stored_value(op: FillingOp) -> int | float:
    """The value of new elements as memory holds it: a number of the type, or its bits for types held as integers."""
    stored = op.stored_value()
    is_float = stored.dtype == np.float32 or stored.dtype == np.float64
    return float(stored) if is_float else int(stored.view(f"i{stored.itemsize}"))


@dataclass(frozen=True)
class Dilate(Kernel):
    """y[i · d, …] = x[i, …] with the dilation d of each dimension, and a constant everywhere else."""

    dilations: tuple[int, ...]
    value: int | float
    widths: tuple[int, ...]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, step = self.dilations
        with loops_over(code, y.shape[:-1], begin, end) as rows:
            source = [row // d if d > 1 else row for row, d in zip(rows, outer, strict=True)]

            def fill(i: Value, lanes: int | None) -> None:
                y.store(code.constant(self.value, y.element).spread(lanes), *rows, i)

            def copy(i: Value, lanes: int | None) -> None:
                y.store(x.load(*source, i, lanes=lanes), *rows, i * step)

            def inside() -> None:
                if step > 1:
                    code.spans(0, y.shape[-1], fill, self.widths)
                code.spans(0, x.shape[-1], copy, self.widths if step == 1 else ())

            dilated = [row % d for row, d in zip(rows, outer, strict=True) if d > 1]
            if not dilated:
                inside()
                return
            condition = dilated[0].below(1)
            for rest in dilated[1:]:
                condition = condition & rest.below(1)
            code.branch(condition, inside, lambda: code.spans(0, y.shape[-1], fill, self.widths))


def _dilate(state: MainLowering, op: DilateOp) -> None:
    if op.x.type == op.y.type:
        state.replace(op.y, state.buffer(op.x))
        return
    shape, dilations = merge_dilations(shape_of(op.x), op.dilations.get_values())
    result = [(size - 1) * d + 1 for size, d in zip(shape, dilations, strict=True)]
    kernel = Dilate(dilations, _stored_value(op), widths_of(op.y))
    state.compute(kernel, op.y, result, (op.x, shape), items=_rows(result))


def merge_dilations(shape: Sequence[int], dilations: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same dilation in fewer dimensions: neighbours that keep their sizes are merged, sizes of 1 dropped."""
    merged: list[tuple[int, int]] = []
    for size, d in zip(shape, dilations, strict=True):
        if merged and merged[-1][1] == 1 and (d == 1 or size == 1):
            merged[-1] = (merged[-1][0] * size, 1)
        elif merged and merged[-1] == (1, 1):
            merged[-1] = (size, d)
        else:
            merged.append((size, d if size > 1 else 1))
    return tuple(size for size, _ in merged), tuple(d for _, d in merged)


@dataclass(frozen=True)
class Broadcast(Kernel):
    """y = x, repeated along every dimension in which x has size 1."""

    widths: tuple[int, ...]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, length = y.shape
        with loops_over(code, outer, begin, end) as rows:
            source = [0 if size == 1 else row for size, row in zip(x.shape[:-1], rows, strict=True)]

            def copy(i: Value, lanes: int | None) -> None:
                value = x.load(*source, 0).spread(lanes) if x.shape[-1] == 1 else x.load(*source, i, lanes=lanes)
                y.store(value, *rows, i)

            code.spans(0, length, copy, self.widths)


def _broadcast(state: MainLowering, op: BroadcastOp) -> None:
    shape, result = merge_repeats(shape_of(op.x), shape_of(op.y))
    state.compute(Broadcast(widths_of(op.y)), op.y, result, (op.x, shape), items=_rows(result))


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
    buffer = state.constant(array)
    if isinstance(buffer.owner, ConstantBufferOp):
        buffer.owner.attributes.update(moved(op, Movement.TO_LOOPS, Heir.DATA))
    state.replace(op.y, buffer)


# ---------------------------------------------------------------------------------------------------------------
# Lowering of slices, gathers and scatters of elements of any type, and of top-k.


Step = tuple[int, int, int]
"""(offset, size, stride) along a dimension."""


@dataclass(frozen=True)
class Slice(Kernel):
    """y[i, …] = x[offset + i · stride, …]."""

    steps: tuple[Step, ...]
    widths: tuple[int, ...]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, (offset, size, stride) = self.steps
        with loops_over(code, [count for _, count, _ in outer], begin, end) as rows:
            source = [row * step + first for row, (first, _, step) in zip(rows, outer, strict=True)]

            def copy(i: Value, lanes: int | None) -> None:
                y.store(x.load(*source, i * stride + offset, lanes=lanes), *rows, i)

            code.spans(0, size, copy, self.widths if stride == 1 else ())


def _slice(state: MainLowering, op: SliceOp) -> None:
    shape, steps = merge_steps(shape_of(op.x), op.steps())
    result = [size for _, size, _ in steps]
    state.compute(Slice(steps, widths_of(op.y)), op.y, result, (op.x, shape), items=_rows(result))


def merge_steps(shape: Sequence[int], steps: Sequence[Step]) -> tuple[tuple[int, ...], tuple[Step, ...]]:
    """The same slice in fewer dimensions: a dimension that is taken whole merges into the dimension before it.

    Dimensions merge only if the dimension before has stride 1.
    """
    merged: list[tuple[int, Step]] = []
    for extent, (offset, size, stride) in zip(shape, steps, strict=True):
        step = (offset, size, stride if size > 1 else 1)
        if merged and step == (0, extent, 1) and merged[-1][1][2] == 1:
            before, (first, count, _) = merged[-1]
            merged[-1] = (before * extent, (first * extent, count * extent, 1))
        else:
            merged.append((extent, step))
    if not merged:
        merged.append((1, (0, 1, 1)))
    return tuple(extent for extent, _ in merged), tuple(step for _, step in merged)


def _gather(state: MainLowering, op: GatherOp) -> None:
    if not waits_for_its_layer(op):
        lower_gather(state, op)


@dataclass(frozen=True)
class GatherND(Kernel):
    """y[i, :] = x[indices[i, 0], …, indices[i, k−1], :]."""

    widths: tuple[int, ...]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, indices, y = buffers
        with code.loop(begin, end, name="row") as row:
            places = places_of(indices, row, x.shape)

            def copy(i: Value, lanes: int | None) -> None:
                y.store(x.load(*places, i, lanes=lanes), row, i)

            code.spans(0, x.shape[-1], copy, self.widths)


def places_of(indices: Buffer, row: Value, shape: Sequence[int]) -> list[Value]:
    """Returns the positions in the first dimensions of a shape that a row of indices refers to."""
    return [place_of(indices.load(row, d), shape[d]) for d in range(indices.shape[1])]


def _gather_nd(state: MainLowering, op: GatherNDOp) -> None:
    *listed, depth = shape_of(op.indices)
    shape, count = shape_of(op.x), prod(listed)
    inner = prod(shape[depth:])
    data, indices = (op.x, (*shape[:depth], inner)), (op.indices, (count, depth))
    state.compute(GatherND(widths_of(op.y)), op.y, (count, inner), data, indices)


@dataclass(frozen=True)
class Scatter(Kernel):
    """y = x; then y[indices[i, 0], …, indices[i, k−1], :] is set to updates[i, :] or combined with it, for i in order.

    The kernel has one item, because a later row may write to the position of an earlier row. x and y are flat.

    reduction   how updates are combined with elements: add, mul, max or min; None to replace the elements
    dims        the first k dimensions of x
    """

    reduction: str | None
    unsigned: bool
    dims: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_scatter_nd" if self.reduction is None else f"nn_scatter_{self.reduction}_nd"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, updates, indices, y = buffers
        count, inner = updates.shape
        with code.loop(begin, end, name="whole"):
            code.spans(0, x.shape[0], lambda i, lanes: y.store(x.load(i, lanes=lanes), i), self.widths)
            with code.loop(0, count, name="row") as row:
                at = code.index(0)
                for place, size in zip(places_of(indices, row, self.dims), self.dims, strict=True):
                    at = at * size + place
                base = at * inner

                def put(i: Value, lanes: int | None) -> None:
                    value = updates.load(row, i, lanes=lanes)
                    if self.reduction is not None:
                        value = _combined(self.reduction, y.load(base + i), value, self.unsigned)
                    y.store(value, base + i)

                code.spans(0, inner, put, self.widths if self.reduction is None else ())


def _combined(reduction: str, one: Value, other: Value, unsigned: bool) -> Value:
    match reduction:
        case "add":
            return one + other
        case "mul":
            return one * other
        case _:
            pair = (_signed_order(one), _signed_order(other)) if unsigned else (one, other)
            chosen = pair[0].maximum(pair[1]) if reduction == "max" else pair[0].minimum(pair[1])
            return _signed_order(chosen) if unsigned else chosen


def _signed_order(x: Value) -> Value:
    """Maps unsigned integers to signed integers of the same order, and back."""
    assert is_integer(x.element)
    return x ^ -(1 << x.element.width.data - 1)


def lower_scatter(state: MainLowering, op: ScatterNDOp | ScatterReduceNDOp) -> None:
    """Lowers an operation that gives rows of a copy of a tensor new values."""
    *listed, depth = shape_of(op.indices)
    shape, count = shape_of(op.x), prod(listed)
    reduction = op.reduction.data if isinstance(op, ScatterReduceNDOp) else None
    kernel = Scatter(reduction, is_unsigned(element_of(op.x)), shape[:depth], widths_of(op.y))
    flat, updates, indices = (prod(shape),), (count, prod(shape[depth:])), (count, depth)
    state.compute(kernel, op.y, flat, (op.x, flat), (op.updates, updates), (op.indices, indices), items=1)


@dataclass(frozen=True)
class TopK(Kernel):
    """y[o, :, i] = the positions a of the k largest (or smallest) elements x[o, a, i], sorted.

    It is an insertion sort: each position enters the sorted list of the best positions found so far, and the entries
    that come after it move down.
    """

    largest: bool
    unsigned: bool

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        _, n, inner = x.shape
        k = y.shape[1]

        def key(o: Value, place: Value, i: Value) -> Value:
            return order_key(x.load(o, place.to(INDEX), i), self.unsigned)

        def comes_before(one: Value, one_key: Value, other: Value, other_key: Value) -> Value:
            first = other_key < one_key if self.largest else one_key < other_key
            return first | ((one_key ^ other_key).below(1) & (one < other))

        with code.loop(begin, end, name="o") as o, code.loop(0, inner) as i, code.loop(0, n, name="place") as place:
            found = place.minimum(k)

            def exchange(p: Value, carried: list[Value]) -> list[Value]:
                own, own_key = carried
                other = y.load(o, p, i)
                other_key = key(o, other, i)
                before = comes_before(own, own_key, other, other_key)
                y.store(before.choose(own, other), o, p, i)
                return [before.choose(other, own), before.choose(other_key, own_key)]

            def insert() -> None:
                own = place.to(i64)
                last, _ = code.fold(0, found, [own, key(o, own, i)], exchange, name="p")
                with code.when(place < k):
                    y.store(last, o, place, i)

            with code.when(place < k):
                insert()
            with code.when(place >= k):
                worst, own = y.load(o, k - 1, i), place.to(i64)
                with code.when(comes_before(own, key(o, own, i), worst, key(o, worst, i))):
                    insert()


def order_key(x: Value, unsigned: bool) -> Value:
    """The integer key by which nn.top_k orders an element; the same as its `order_keys`."""
    if unsigned:
        return _signed_order(x)
    if not isinstance(x.element, AnyFloat):
        return x
    integer = IntegerType(x.element.bitwidth)
    most = (1 << x.element.bitwidth - 1) - 1
    infinity = {32: 0xFF << 23, 64: 0x7FF << 52}[x.element.bitwidth]
    bits = (x + 0.0).bits(integer)
    is_nan = bits.same(infinity) < (bits & most)
    canonical = is_nan.choose(infinity + 1, bits)
    return (canonical < 0).choose(canonical ^ most, canonical)


def _top_k(state: MainLowering, op: TopKOp) -> None:
    outer, length, inner = op.split()
    kernel = TopK(bool(op.largest), is_unsigned(element_of(op.x)))
    state.compute(kernel, op.y, (outer, op.k.value.data, inner), (op.x, (outer, length, inner)))


RULES: Rules = {
    TransposeOp: _transpose,
    ConcatOp: _concat,
    PadOp: _pad,
    DilateOp: _dilate,
    ReshapeOp: _reshape,
    ConstantOp: _constant,
    BroadcastOp: _broadcast,
    SliceOp: _slice,
    GatherOp: _gather,
    GatherNDOp: _gather_nd,
    ScatterReduceNDOp: lower_scatter,
    TopKOp: _top_k,
}
