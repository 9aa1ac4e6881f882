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
from qmlir.codegen.lowering import Array, Kernel, MainLowering, PackedRows, constant_array
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
            with code.loop(code.index(0), code.index(y.shape[1]), name="channel") as channel:
                y.store(x.load(block, channel // group, lane, channel % group), row, channel)


def lower_gather(state: MainLowering, op: GatherOp) -> None:
    """Calls the kernel of a look-up, by the form of its table that is there."""
    axis, x, count = op.axis.value.data, shape_of(op.x), prod(shape_of(op.indices))
    outer, inner = prod(x[:axis]), prod(x[axis + 1 :])
    if (rows := _packed(state, op)) is None:
        widths = () if element_of(op.y) == i1 else WIDTHS
        data = op.x, (outer, x[axis], inner)
        state.compute(Gather(widths), op.y, (outer * count, inner), data, (op.indices, (count,)))
        return
    table = state.insert(ConstantBufferOp(WeightsAttr(rows.packed.reshape(rows.shape)))).results[0]
    y = state.allocate_result(op.y)
    if count:
        arguments = [table, state.view(state.buffer(op.indices), (count,)), state.view(y, (count, inner))]
        state.call(GatherPacked(x[axis]), arguments, count)
    state.replace(op.y, y)


def waits_for_its_layer(op: GatherOp) -> bool:
    """Whether a table whose rows are looked up is a layer's weights, too, so that the layer is lowered first."""
    table = _table(op)
    return table is not None and any(
        shape_of(layer.w) == table.shape and _same(constant_array(layer.w), table)
        for layer in (op.parent.ops if op.parent is not None else ())
        if isinstance(layer, FullyConnectedOp)
    )


def _packed(state: MainLowering, op: GatherOp) -> PackedRows | None:
    """The packed form of a look-up's table; None if no layer has packed it."""
    table = _table(op)
    if table is None:
        return None
    return next((rows for block, rows in state.packed_rows if block is op.parent and _same(rows.table, table)), None)


def _table(op: GatherOp) -> Array | None:
    """The bytes of a table of which whole rows are looked up; None of all others."""
    rank = len(shape_of(op.x))
    table = constant_array(op.x) if rank == 2 and op.axis.value.data == 0 else None
    return None if table is None or table.dtype != np.int8 else table


def _same(one: Array | None, other: Array) -> bool:
    return one is not None and one.dtype == other.dtype and np.array_equal(one, other)
