"""Elementwise kernels, and interpolation kernels, whose elements are nested weighted sums of neighbours."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import MemRefType, i32, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import WIDTHS, Buffer, Code, element_bytes
from qmlir.codegen.lowering import Array, Kernel, MainLowering, memref_shape
from qmlir.codegen.value import INDEX, Value
from qmlir.ir.interfaces import shape_of
from qmlir.ir.stripes import Reads, Stripes
from qmlir.numerics.short_tables import ShortForm, shortened

# ---------------------------------------------------------------------------------------------------------------
# Elementwise kernels: any formula of any number of operands that broadcast to the result's shape.
#
# Neighbouring dimensions in which the same operands broadcast are merged first, so that most kernels run over one or
# two dimensions.


Formula: TypeAlias = Callable[..., Value]
"""Maps one element (or a vector of elements) of each operand to the result; a function or a frozen dataclass."""

RUN = 4096
"""Elements in one item of the parallel loop, for a kernel over a single merged dimension."""


INSERTED = 8
"""Words that are loaded one after another into a vector, which is stored at once: those of 128 bits."""


@dataclass(frozen=True)
class Elementwise(Kernel):
    """y[i, j, …] = formula(operands at i, j, …, tables); an operand is indexed only by the dimensions that it has.

    Buffers: the operands, the tables, y. The formula gets each table as a function from an entry's indices, integers of
    any width, to the entry.

    name      the kernel's symbol
    formula   the arithmetic
    shape     the merged dimensions of the result
    present   for each operand, which of these dimensions it has
    widths    lanes of the vectors, widest first; empty if the formula takes scalars only
    rest      the arithmetic of the last elements if theirs is another, for operands that have all dimensions or none
    first     the first of these elements
    """

    name: str
    formula: Formula
    shape: tuple[int, ...]
    present: tuple[tuple[bool, ...], ...]
    widths: tuple[int, ...]
    rest: Formula | None = None
    first: int = 0

    @property
    def symbol(self) -> str:
        return self.name

    @property
    def items(self) -> int:
        """The number of items of the parallel loop: the first dimension's size, or runs of `RUN` elements if 1-D."""
        return -(-self.shape[0] // (1 if len(self.shape) > 1 else RUN))

    def leads(self, types: Sequence[MemRefType[Attribute]]) -> Mapping[int, int]:
        """Elements are read before theirs are written, if the operand does not broadcast."""
        size, result = prod(self.shape), element_bytes(types[-1])
        whole = [i for i, present in enumerate(self.present) if all(present)]
        return {i: size * max(0, result - element_bytes(types[i])) for i in whole}

    def stripes(self, types: Sequence[MemRefType[Attribute]]) -> Stripes | None:
        step = prod(self.shape[1:]) if len(self.shape) > 1 else RUN
        whole = [i for i, present in enumerate(self.present) if all(present)]
        return Stripes(1, step * element_bytes(types[-1]), {i: Reads(step * element_bytes(types[i])) for i in whole})

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        operands, tables, y = buffers[: len(self.present)], buffers[len(self.present) : -1], buffers[-1]
        *outer, length = self.shape
        readers = [Entries(table) for table in tables]

        def run(rows: list[Value], first: Value | int, last: Value | int, formula: Formula = self.formula) -> None:
            def element(i: Value, lanes: int | None) -> None:
                position = [*rows, i]
                values: list[Value] = []
                for x, present in zip(operands, self.present, strict=True):
                    own = [p for p, has in zip(position, present, strict=True) if has] or [code.index(0)]
                    values.append(x.load(*own, lanes=lanes if present[-1] else None).spread(lanes))
                y.store(formula(*values, *readers), *position)

            code.spans(first, last, element, self.widths)

        if not outer:
            run([], begin * RUN, (end * RUN).minimum(length if self.rest is None else self.first))
            if self.rest is not None:
                run([], (begin * RUN).maximum(self.first), (end * RUN).minimum(length), self.rest)
            return
        with ExitStack() as nest:
            rows = [nest.enter_context(code.loop(begin, end))]
            rows += [nest.enter_context(code.loop(0, size)) for size in outer[1:]]
            run(rows, 0, length)


@dataclass(frozen=True)
class Entries:
    """A table as a formula gets it: a function from the integer indices of an entry to the entry."""

    table: Buffer

    def __call__(self, *place: Value) -> Value:
        return self.table.load(*(index.to(INDEX) for index in place))

    def of_bytes(self, places: Value) -> Value:
        """The entries of a table of 256 bytes at a vector of unsigned bytes."""
        return places.code.lookup_bytes(self.table.load(0, lanes=256), places)

    def of_row(self, places: Buffer, at: Sequence[Value], lanes: int, first: int = 0) -> Value:
        """The entries at `first` more than the words of `places` from `at` on, one after another, in a vector."""
        *row, i = at
        words = [places.load(*row, i + lane) for lane in range(lanes)]
        found = [self(word.to(i64, unsigned=not first) + first) for word in words]
        return self.table.code.zeros(self.table.element, lanes).with_lanes(found)


@dataclass(frozen=True)
class ShortTable:
    """How a formula reads a table of which a processor holds the short form.

    form    how an entry is computed from the form's words
    dtype   the type of an entry
    """

    form: ShortForm
    dtype: np.dtype[Any]

    def __call__(self, word: Callable[[Value], Value]) -> Callable[[Value], Value]:
        """A reader of the table's entries, given one of the form's words."""
        return lambda place: self.form.entry(place, word).to(self.dtype)


@dataclass(frozen=True)
class WithShortTable:
    """A formula of elements and one table, of which its kernel has the short form."""

    formula: Formula
    table: ShortTable

    def __call__(self, *operands: Any) -> Value:
        *elements, word = operands
        return self.formula(*elements, self.table(word))


SHORTENED = 4096
"""Bytes from which on a table takes its short form, where constants should be small rather than fast."""


def held_table(state: MainLowering, table: Array) -> tuple[SSAValue, ShortTable | None]:
    """The constant of a table, and how it is read if the processor holds its short form."""
    machine = state.machine
    if table.nbytes >= SHORTENED and (machine.small or machine.saves_memory) and (found := shortened(table)):
        form, words = found
        return state.constant(words), ShortTable(form, table.dtype)
    return state.constant(table), None


@dataclass(frozen=True)
class WordLookup(Kernel):
    """y[i] = table[x[i] + 2^15] for words x. Buffers: x, the table, y.

    name      the kernel's symbol
    length    the number of elements
    """

    name: str
    length: int

    @property
    def symbol(self) -> str:
        return self.name

    @property
    def items(self) -> int:
        """The number of items of the parallel loop."""
        return -(-self.length // RUN)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, y = buffers
        entries = Entries(table)

        def finish(i: Value, lanes: int | None) -> None:
            if lanes is None:
                y.store(entries(x.load(i).to(i64) + (1 << 15)), i)
            else:
                y.store(entries.of_row(x, [i], lanes, 1 << 15), i)

        code.spans(begin * RUN, (end * RUN).minimum(self.length), finish, (INSERTED,))


def lower_word_lookup(state: MainLowering, name: str, x: SSAValue, table: Array, result: SSAValue) -> None:
    """Calls the kernel that looks the words of a tensor up in a table of 2^16 entries."""
    shape = (prod(shape_of(result)),)
    kernel, y = WordLookup(name, *shape), state.allocate_result(result)
    if kernel.length:
        state.call(
            kernel, [state.view(state.buffer(x), shape), state.constant(table), state.view(y, shape)], kernel.items
        )
    state.replace(result, y)


def lower_elementwise(
    state: MainLowering,
    name: str,
    formula: Formula,
    operands: Sequence[SSAValue],
    result: SSAValue,
    widths: tuple[int, ...] = WIDTHS,
    tables: Sequence[SSAValue] = (),
    rest: Formula | None = None,
    count: int = 0,
) -> None:
    """Calls an elementwise kernel for the tensor `result`; `operands` are buffers that broadcast to its shape.

    `rest` is the arithmetic of the last `count` elements, if theirs is another; operands have all dimensions or none.
    """
    shape, present = merge_dimensions(shape_of(result), [memref_shape(x) for x in operands])
    y = state.allocate_result(result)
    views = [
        state.view(x, [size for size, has in zip(shape, p, strict=True) if has] or [1])
        for x, p in zip(operands, present, strict=True)
    ]
    assert rest is None or len(shape) == 1
    first = 0 if rest is None else shape[0] - count
    kernel = Elementwise(name, formula, shape, present, widths, rest, first)
    state.call(kernel, [*views, *tables, state.view(y, shape)], kernel.items)
    state.replace(result, y)


def merge_dimensions(
    shape: Sequence[int], operands: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[bool, ...], ...]]:
    """Merges neighbouring dimensions of a result in which the same operands broadcast; drops dimensions of size 1.

    Returns:
        The merged shape with at least one dimension, and for each operand which of these dimensions it has.
    """
    rank = len(shape)
    aligned = [[1] * (rank - len(s)) + list(s) for s in operands]
    merged: list[tuple[int, tuple[bool, ...]]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        has = tuple(s[axis] != 1 for s in aligned)
        if merged and merged[-1][1] == has:
            merged[-1] = (merged[-1][0] * size, has)
        else:
            merged.append((size, has))
    if not merged:
        merged = [(1, tuple(True for _ in operands))]
    assert prod(size for size, _ in merged) == prod(shape)
    return tuple(size for size, _ in merged), tuple(zip(*(has for _, has in merged), strict=True))


# ---------------------------------------------------------------------------------------------------------------
# Interpolation kernels: each element is a nested weighted sum of its neighbours, one sum along each resized axis.


@dataclass(frozen=True)
class Resize(Kernel):
    """y[o, …] = Σ over the taps of the last axis (Σ over the taps of the axis before it (… x)).

    Taps are the positions in x of the neighbours that an element of y is computed from. Buffers: x, then taps and
    weights of each axis, then y.

    name        the kernel's symbol
    axes        the resized axes, in the order in which they are resized
    zero_point  subtracted from integers, which are summed in the type of y; None for floats
    widths      lanes of the vectors over the last dimension; empty for scalars
    dropped     how many low bits of a sum are dropped
    """

    name: str
    axes: tuple[int, ...]
    zero_point: int | None
    widths: tuple[int, ...]
    dropped: int

    @property
    def symbol(self) -> str:
        return self.name

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *tables, y = buffers
        *outer, length = y.shape

        with ExitStack() as nest:
            rows = [
                nest.enter_context(code.loop(begin, end) if axis == 0 else code.loop(0, size))
                for axis, size in enumerate(outer)
            ]

            def compute(i: Value, lanes: int | None) -> None:
                place = [*rows, i]
                total = self._value(code, x, tables, place, place, len(self.axes), lanes, y.element)
                y.store(total >> self.dropped if self.dropped else total, *place)

            code.spans(0, length, compute, self.widths)

    def _value(
        self,
        code: Code,
        x: Buffer,
        tables: Sequence[Buffer],
        result: Sequence[Value],
        place: Sequence[Value],
        depth: int,
        lanes: int | None,
        sums: Attribute,
    ) -> Value:
        """The element at `place` of x after its first `depth` axes are resized, in the type `sums`.

        `result` is the position in y of the element that is computed; it selects the taps and weights.
        """
        if depth == 0:
            element = x.load(*place, lanes=lanes)
            return element if self.zero_point is None else (element.to(i32) - self.zero_point).to(sums)
        axis = self.axes[depth - 1]
        taps, weights = tables[2 * depth - 2 : 2 * depth]

        def step(t: Value, totals: list[Value]) -> list[Value]:
            own = list(place)
            own[axis] = taps.load(result[axis], t).to(INDEX)
            value = self._value(code, x, tables, result, own, depth - 1, lanes, sums)
            return [totals[0] + weights.load(result[axis], t).to(sums).spread(lanes) * value]

        zero = code.zeros(sums, lanes)
        return code.fold(0, taps.shape[1], [zero], step, name="t")[0]


def lower_resize(
    state: MainLowering,
    name: str,
    tables: Sequence[tuple[int, Array, Array]],
    x: SSAValue,
    y: SSAValue,
    zero_point: int | None = None,
    dropped: int = 0,
) -> None:
    """Calls the kernel for a tensor x and its result y.

    Each entry of `tables` is an axis, its taps, and its weights in the type of the sums.
    """
    shape, result, place = merged_around(shape_of(x), shape_of(y), [axis for axis, _, _ in tables])
    buffer = state.allocate_result(y)
    if prod(result):
        constants = [state.constant(table) for _, taps, weights in tables for table in (taps, weights)]
        kept = len(shape) - 1 not in place
        kernel = Resize(name, tuple(place), zero_point, WIDTHS if kept else (), dropped)
        items = result[0] if len(result) > 1 else 1
        state.call(kernel, [state.view(state.buffer(x), shape), *constants, state.view(buffer, result)], items)
    state.replace(y, buffer)


def merged_around(
    shape: Sequence[int], result: Sequence[int], axes: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """Merges neighbouring dimensions that are not resized.

    Returns:
        The shape, the result's shape and the axes, all in the merged dimensions.
    """
    sizes: list[tuple[int, int]] = []
    place: dict[int, int] = {}
    for axis, (before, after) in enumerate(zip(shape, result, strict=True)):
        if axis in axes:
            place[axis] = len(sizes)
        elif sizes and axis - 1 not in axes:
            sizes[-1] = (sizes[-1][0] * before, sizes[-1][1] * after)
            continue
        sizes.append((before, after))
    return tuple(b for b, _ in sizes), tuple(a for _, a in sizes), [place[a] for a in axes]
