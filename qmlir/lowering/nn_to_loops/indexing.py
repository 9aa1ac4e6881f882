"""Lowering of slices, gathers and scatters of elements of any type, and of top-k."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import AnyFloat, IntegerType, i64

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Kernel, MainLowering, Rules
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn.base import is_unsigned
from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, ScatterNDOp, ScatterReduceNDOp, SliceOp, TopKOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.predicates import is_integer
from qmlir.lowering.nn_to_loops.shape import widths_of

Step = tuple[int, int, int]
"""(offset, size, stride) along a dimension."""


@dataclass(frozen=True)
class Slice(Kernel):
    """y[i, …] = x[offset + i · stride, …]."""

    steps: tuple[Step, ...]
    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_slice"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, (offset, size, stride) = self.steps
        with ExitStack() as nest:
            rows = [
                nest.enter_context(code.loop(begin, end) if axis == 0 else code.loop(0, count))
                for axis, (_, count, _) in enumerate(outer)
            ]
            source = [row * step + first for row, (first, _, step) in zip(rows, outer, strict=True)]

            def copy(i: Value, lanes: int | None) -> None:
                y.store(x.load(*source, i * stride + offset, lanes=lanes), *rows, i)

            code.spans(0, size, copy, self.widths if stride == 1 else ())


def _slice(state: MainLowering, op: SliceOp) -> None:
    shape, steps = merge_steps(shape_of(op.x), op.steps())
    result = [size for _, size, _ in steps]
    y = state.allocate_result(op.y)
    arguments = [state.view(state.buffer(op.x), shape), state.view(y, result)]
    state.call(Slice(steps, widths_of(op.y)), arguments, result[0] if len(result) > 1 else 1)
    state.replace(op.y, y)


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


def _place(index: Value, size: int) -> Value:
    """The position of an index in a dimension: negative indices count from the end, then it is clamped to the size."""
    wide = index.to(INDEX)
    return (wide < 0).choose(wide + size, wide).maximum(0).minimum(size - 1)


@dataclass(frozen=True)
class Gather(Kernel):
    """y[o · m + j, :] = x[o, indices[j], :]."""

    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_gather"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, indices, y = buffers
        (count,) = indices.shape
        with code.loop(begin, end, name="row") as row:
            place = _place(indices.load(row % count), x.shape[1])

            def copy(i: Value, lanes: int | None) -> None:
                y.store(x.load(row // count, place, i, lanes=lanes), row, i)

            code.spans(0, x.shape[2], copy, self.widths)


def _gather(state: MainLowering, op: GatherOp) -> None:
    axis, x, count = op.axis.value.data, shape_of(op.x), prod(shape_of(op.indices))
    outer, inner = prod(x[:axis]), prod(x[axis + 1 :])
    y = state.allocate_result(op.y)
    if outer * count * inner:
        data = state.view(state.buffer(op.x), (outer, x[axis], inner))
        indices = state.view(state.buffer(op.indices), (count,))
        rows = outer * count
        state.call(Gather(widths_of(op.y)), [data, indices, state.view(y, (rows, inner))], rows)
    state.replace(op.y, y)


@dataclass(frozen=True)
class GatherND(Kernel):
    """y[i, :] = x[indices[i, 0], …, indices[i, k−1], :]."""

    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_gather_nd"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, indices, y = buffers
        with code.loop(begin, end, name="row") as row:
            places = _places(indices, row, x.shape)

            def copy(i: Value, lanes: int | None) -> None:
                y.store(x.load(*places, i, lanes=lanes), row, i)

            code.spans(0, x.shape[-1], copy, self.widths)


def _places(indices: Buffer, row: Value, shape: Sequence[int]) -> list[Value]:
    """The positions in the first dimensions of a shape that a row of indices refers to."""
    return [_place(indices.load(row, d), shape[d]) for d in range(indices.shape[1])]


def _gather_nd(state: MainLowering, op: GatherNDOp) -> None:
    y = state.allocate_result(op.y)
    if prod(shape_of(op.y)):
        *listed, depth = shape_of(op.indices)
        shape, count = shape_of(op.x), prod(listed)
        inner = prod(shape[depth:])
        data = state.view(state.buffer(op.x), (*shape[:depth], inner))
        indices = state.view(state.buffer(op.indices), (count, depth))
        state.call(GatherND(widths_of(op.y)), [data, indices, state.view(y, (count, inner))], count)
    state.replace(op.y, y)


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
                for place, size in zip(_places(indices, row, self.dims), self.dims, strict=True):
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


def _scatter(state: MainLowering, op: ScatterNDOp | ScatterReduceNDOp) -> None:
    *listed, depth = shape_of(op.indices)
    shape, count = shape_of(op.x), prod(listed)
    reduction = op.reduction.data if isinstance(op, ScatterReduceNDOp) else None
    kernel = Scatter(reduction, is_unsigned(element_of(op.x)), shape[:depth], widths_of(op.y))
    y = state.allocate_result(op.y)
    if prod(shape):
        flat = (prod(shape),)
        arguments = [
            state.view(state.buffer(op.x), flat),
            state.view(state.buffer(op.updates), (count, prod(shape[depth:]))),
            state.view(state.buffer(op.indices), (count, depth)),
            state.view(y, flat),
        ]
        state.call(kernel, arguments, 1)
    state.replace(op.y, y)


@dataclass(frozen=True)
class TopK(Kernel):
    """y[o, :, i] = the positions a of the k largest (or smallest) elements x[o, a, i], sorted.

    It is an insertion sort: each position enters the sorted list of the best positions found so far, and the entries
    that come after it move down.
    """

    largest: bool
    unsigned: bool

    @property
    def symbol(self) -> str:
        return "nn_top_k"

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
    axis, x, k = op.axis.value.data, shape_of(op.x), op.k.value.data
    outer, inner = prod(x[:axis]), prod(x[axis + 1 :])
    y = state.allocate_result(op.y)
    if prod(shape_of(op.y)):
        arguments = [state.view(state.buffer(op.x), (outer, x[axis], inner)), state.view(y, (outer, k, inner))]
        state.call(TopK(bool(op.largest), is_unsigned(element_of(op.x))), arguments, outer)
    state.replace(op.y, y)


RULES: Rules = {
    SliceOp: _slice,
    GatherOp: _gather,
    GatherNDOp: _gather_nd,
    ScatterNDOp: _scatter,
    ScatterReduceNDOp: _scatter,
    TopKOp: _top_k,
}
