"""Operators that choose by an element's position: Trilu, OneHot, ReverseSequence, TensorScatter."""

import numpy as np
from xdsl.dialects.builtin import i64

from qmlir.dialects.nn.comparison import EqualOp, LessOp, WhereOp
from qmlir.dialects.nn.elementwise import AddOp, ModOp, SubOp
from qmlir.dialects.nn.indexing import GatherNDOp, SliceOp
from qmlir.dialects.nn.logic import OrOp
from qmlir.dialects.nn.shape import BroadcastOp
from qmlir.dialects.windows import ints
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.indexing import coordinates, known_places, scatter_rows, slice_properties
from qmlir.frontends.values import Constant, Value
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import element_of


@converts("Trilu", since=14)
def triangle(node: Node, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    """Replaces the elements on one side of diagonal k of each matrix by zeros."""
    shape = node.shape(x)
    if len(shape) < 2:
        raise node.error("it needs matrices", str(list(shape)))
    diagonal = 0 if k is None else node.ints(k, "k")[0]
    rows, columns = np.indices(node.room(shape[-2:]))
    kept = columns - rows >= diagonal if upper else columns - rows <= diagonal
    zero = np.zeros((), dtype_of(element_of(node.builder.ssa(x))))
    return node.compute(WhereOp, [Constant(kept), x, Constant(zero)])


@converts("OneHot", since=9)
def one_hot(node: Node, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """Returns `on` at each index along a new axis of size `depth`, else `off`; `values` are [off, on].

    An index outside [−depth, depth − 1] gives `off` everywhere.
    """
    count = int(node.array(depth, "depth").reshape(-1)[0])
    shape = list(node.shape(indices))
    place = node.axis(axis, len(shape) + 1)
    wide = node.converted(node.reshaped(indices, [*shape[:place], 1, *shape[place:]]), i64)
    line = np.arange(*node.room((count,))).reshape(-1, *[1] * (len(shape) - place))
    here, from_end = (node.insert(EqualOp, [wide, Constant(at)]) for at in (line, line - count))
    chosen = node.insert(OrOp, [here, from_end])
    off, on = (_element(node, values, i) for i in range(2))
    return node.compute(WhereOp, [chosen, on, off])


def _element(node: Node, values: Value, index: int) -> Value:
    """Returns one element of a vector as a scalar."""
    if isinstance(values, Constant):
        return Constant(values.array[index])
    return node.reshaped(node.insert(SliceOp, [values], slice_properties([(index, 1, 1)])), ())


@converts("ReverseSequence", since=10)
def reverse_sequence(node: Node, x: Value, sequence_lens: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Value:
    """Reverses the first `sequence_lens` elements of each sequence; the others stay in place."""
    if sorted((batch_axis, time_axis)) != [0, 1]:
        raise node.error("its batch_axis and time_axis must be 0 and 1", f"{batch_axis} and {time_axis}")
    shape = node.shape(x)[:2]
    spread = [1, 1]
    spread[batch_axis] = shape[batch_axis]
    lengths = node.converted(node.reshaped(sequence_lens, spread), i64)
    time = Constant(np.arange(*node.room((shape[time_axis],))).reshape([-1 if a == time_axis else 1 for a in range(2)]))
    last = node.insert(SubOp, [lengths, Constant(np.array(1))])
    turned = node.insert(SubOp, [last, time])
    places = node.insert(WhereOp, [node.insert(LessOp, [time, lengths]), turned, time])
    return node.compute(GatherNDOp, [x, coordinates(node, shape, {time_axis: places})])


@converts("TensorScatter", since=24)
def tensor_scatter(
    node: Node, x: Value, update: Value, write_indices: Value | None = None, *, axis: int = -2, mode: str = "linear"
) -> Value:
    """Writes an update into a cache x along an axis, at an index of its own for each batch element."""
    shape, new = node.shape(x), node.shape(update)
    axis = node.axis(axis, len(shape))
    if mode not in ("linear", "circular") or axis == 0:
        raise node.error("its mode must be linear or circular, its axis not the first", f"{mode} and {axis}")
    listed = new[: axis + 1]
    steps = Constant(np.arange(*node.room((listed[axis],))))
    if write_indices is None:
        write_indices = Constant(np.zeros(shape[0], np.int64))
    first = node.reshaped(write_indices, (shape[0], *[1] * axis))
    at = node.insert(AddOp, [node.converted(first, i64), steps])
    if mode == "circular":
        at = node.insert(ModOp, [at, Constant(np.array(shape[axis]))])
    elif isinstance(write_indices, Constant):
        known_places(node, write_indices.array + listed[axis] - 1, shape[axis])
    places = node.insert(BroadcastOp, [at], {"shape": ints(listed)})
    return scatter_rows(node, x, update, coordinates(node, listed, {axis: places}), "none")
