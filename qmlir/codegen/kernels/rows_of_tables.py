"""Kernels that look up rows of a table: of one that lies row behind row, or of one that a layer has packed.

A decoder's embedding and its last layer may be one table of weights. The layer reads it in blocks of output channels
(packing.py), and a row is spread over its block. A look-up reads one row a token, so it takes the packed form as well,
and the table need not be there a second time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import i1

from qmlir.codegen.code import WIDTHS, Buffer, Code
from qmlir.codegen.kernels.pairing import GROUP
from qmlir.codegen.lowering import Array, Kernel, MainLowering, PackedTable, constant_array
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.qint import FullyConnectedOp
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.weights import WeightsAttr


def place_of(index: Value, size: int) -> Value:
    """The position of an index in a dimension: negative indices count from the end, then it is clamped to the size."""
    wide = index.to(INDEX)
    return (wide < 0).choose(wide + size, wide).maximum(0).minimum(size - 1)


@dataclass(frozen=True)
class Gather(Kernel):
    """y[o · m + j, :] = x[o, indices[j], :]."""

    widths: tuple[int, ...]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, indices, y = buffers
        (count,) = indices.shape
        with code.loop(begin, end, name="row") as row:
            place = place_of(indices.load(row % count), x.shape[1])

            def copy(i: Value, lanes: int | None) -> None:
                y.store(x.load(row // count, place, i, lanes=lanes), row, i)

            code.spans(0, x.shape[2], copy, self.widths)


@dataclass(frozen=True, eq=False)
class PackedRows(PackedTable):
    """A table in blocks of rows: the packed form [blocks, steps, lanes, group].

    table   the bytes, [rows, channels]
    packed  the bytes in the layer's order: row r is in block r div lanes
    lanes   the rows of a block
    group   the neighbouring bytes of a row
    """

    table: Array
    packed: Array
    lanes: int
    group: int

    def look_up(self) -> tuple[Kernel, Sequence[Array]]:
        rows, channels = self.table.shape
        shape = -(-rows // self.lanes), -(-channels // self.group), self.lanes, self.group
        return GatherPacked(rows), [self.packed.reshape(shape)]


@dataclass(frozen=True)
class GatherPacked(Kernel):
    """y[j, c] = x[i div lanes, c div group, i mod lanes, c mod group] with i = indices[j], of a table with `rows`."""

    rows: int

    @property
    def symbol(self) -> str:
        return "nn_gather_packed"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, indices, y = buffers
        _, _, lanes, group = x.shape
        with code.loop(begin, end, name="row") as row:
            place = place_of(indices.load(row), self.rows)
            block, lane = place // lanes, place % lanes
            with code.loop(0, y.shape[1], name="channel") as channel:
                y.store(x.load(block, channel // group, lane, channel % group), row, channel)


@dataclass(frozen=True, eq=False)
class PairedRows(PackedTable):
    """A table whose channels are paired (pairing.py): a row is what its block keeps, and the rest of some channels.

    table   the bytes, [rows, channels]
    order   int8 [blocks, channels]: the places of channels in their groups
    extra   int32: the channels that appear once more, block behind block
    counts  int32 [blocks, 2]: how many of these a block has, and how many there are before them
    packed  the bytes in the layer's order, block behind block
    lanes   the rows of a block
    group   the neighbouring bytes of a row
    """

    table: Array
    order: Array
    extra: Array
    counts: Array
    packed: Array
    lanes: int
    group: int

    def look_up(self) -> tuple[Kernel, Sequence[Array]]:
        kernel = GatherPaired(len(self.table), self.lanes, self.group)
        return kernel, [self.order, self.extra, self.counts, self.packed]


@dataclass(frozen=True)
class GatherPaired(Kernel):
    """y[j, :] of the row indices[j] of a table with `rows`, in the form of `PairedRows`."""

    rows: int
    lanes: int
    group: int

    @property
    def symbol(self) -> str:
        return "nn_gather_paired"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        order, extra, counts, x, indices, y = buffers
        channels, step = y.shape[1], self.lanes * self.group
        with code.loop(begin, end, name="row") as row:
            place = place_of(indices.load(row), self.rows)
            block, lane = place // self.lanes, place % self.lanes
            before = counts.load(block, code.index(1)).to(INDEX)
            first = (block * channels + before) * self.lanes + lane * self.group
            with code.loop(0, channels, name="channel") as i:
                at = (i // GROUP) * GROUP + order.load(block, i).to(INDEX)
                y.store(x.load(first + (i // self.group) * step + i % self.group), row, at)
            with code.loop(0, counts.load(block, code.index(0)).to(INDEX), name="more") as i:
                at, behind = extra.load(before + i).to(INDEX), i + channels
                rest = x.load(first + (behind // self.group) * step + behind % self.group)
                y.store(y.load(row, at) + rest, row, at)


def lower_gather(state: MainLowering, op: GatherOp) -> None:
    """Calls the kernel of a look-up, by the form of its table that is there."""
    axis, x, count = op.axis.value.data, shape_of(op.x), prod(shape_of(op.indices))
    outer, inner = prod(x[:axis]), prod(x[axis + 1 :])
    if (packed := _packed(state, op)) is None:
        widths = () if element_of(op.y) == i1 else WIDTHS
        data = op.x, (outer, x[axis], inner)
        state.compute(Gather(widths), op.y, (outer * count, inner), data, (op.indices, (count,)))
        return
    kernel, constants = packed.look_up()
    held = [state.insert(ConstantBufferOp(WeightsAttr(array))).results[0] for array in constants]
    y = state.allocate_result(op.y)
    if count:
        indices = state.view(state.buffer(op.indices), (count,))
        state.call(kernel, [*held, indices, state.view(y, (count, inner))], count)
    state.replace(op.y, y)


def waits_for_its_layer(op: GatherOp) -> bool:
    """Whether a layer's weights are the table in which an operation looks up rows; that layer is lowered first."""
    table = _table(op)
    return table is not None and any(
        shape_of(layer.w) == table.shape and _same(constant_array(layer.w), table)
        for layer in (op.parent.ops if op.parent is not None else ())
        if isinstance(layer, FullyConnectedOp)
    )


def _packed(state: MainLowering, op: GatherOp) -> PackedTable | None:
    """The packed form of a look-up's table; None if no layer has packed it."""
    table = _table(op)
    if table is None:
        return None
    known = (packed for block, packed in state.packed_tables if block is op.parent)
    return next((packed for packed in known if _same(packed.table, table)), None)


def _table(op: GatherOp) -> Array | None:
    """The bytes of a table of which whole rows are looked up; None of all others."""
    rank = len(shape_of(op.x))
    table = constant_array(op.x) if rank == 2 and op.axis.value.data == 0 else None
    return None if table is None or table.dtype != np.int8 else table


def _same(one: Array | None, other: Array) -> bool:
    return one is not None and one.dtype == other.dtype and np.array_equal(one, other)
