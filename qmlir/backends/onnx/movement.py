"""Forms of data movement and interpolation: shapes, slices, gathers, scatters, resizes."""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms, constant, refuse_counted
from qmlir.backends.onnx.graph import INDEX, WIDER, Graph, Tensor
from qmlir.backends.onnx.values import Permutation, Values, channels_first, identity
from qmlir.dialects import nn
from qmlir.dialects.nn.indexing import places
from qmlir.ir.interfaces import Array, Shape, shape_of
from qmlir.ir.types import is_numpys_own

exports: Forms[Values] = Forms()

# ---------------------------------------------------------------------------------------------------------------
# Forms of constants and data movement.
#
# A quantized tensor is moved as real values between a DequantizeLinear and a QuantizeLinear of the same scale, which do
# not change it. Runtimes recognize this pattern and move the integers instead.


@exports(nn.ConstantOp)
def make_constant(op: nn.ConstantOp, values: Values) -> None:
    """Writes nothing: a constant becomes a tensor when an operation reads it, in the dimension order that it needs."""


@exports(nn.TransposeOp)
def transpose(op: nn.TransposeOp, values: Values) -> None:
    """Writes no node: records that the result is the operand in another dimension order."""
    values.view(op.y, op.x, tuple(op.permutation.get_values()))


@exports(nn.ReshapeOp)
def reshape(op: nn.ReshapeOp, values: Values) -> None:
    """Writes Reshape, or no node if only dimensions of size 1 move."""
    before, after = shape_of(op.x), shape_of(op.y)
    if (moved := unit_dimensions_moved(before, after)) is not None:
        values.view(op.y, op.x, moved)
        return
    keeps_zeros = 1 if 0 in after else None
    y = values.graph.node("Reshape", values.real(op.x), values.graph.indices(after), allowzero=keeps_zeros)
    values.define(op.y, y)


def unit_dimensions_moved(before: Shape, after: Shape) -> Permutation | None:
    """Returns the transpose that equals a reshape if the reshape only moves dimensions of size 1; else None."""
    if len(before) != len(after) or [s for s in before if s != 1] != [s for s in after if s != 1]:
        return None
    ones = iter([i for i, size in enumerate(before) if size == 1])
    others = iter([i for i, size in enumerate(before) if size != 1])
    return tuple(next(ones if size == 1 else others) for size in after)


@exports(nn.BroadcastOp)
def broadcast(op: nn.BroadcastOp, values: Values) -> None:
    """Writes Expand."""
    y = values.graph.node("Expand", values.real(op.x), values.graph.indices(shape_of(op.y)))
    values.define(op.y, y)


@exports(nn.ConcatOp)
def concat(op: nn.ConcatOp, values: Values) -> None:
    """Writes Concat in the dimension order of the first computed operand."""
    computed: list[SSAValue] = [x for x in op.inputs if constant(x) is None]
    order = values.order(computed[0]) if computed else identity(len(shape_of(op.y)))
    stored = [values.real(x, order) for x in op.inputs]
    values.define(op.y, values.graph.node("Concat", *stored, axis=order.index(op.axis.value.data)), order)


@exports(nn.PadOp)
def pad(op: nn.PadOp, values: Values) -> None:
    """Writes Pad; a quantized tensor is padded with the nearest real number that its integers represent."""
    order, fill = values.order(op.x), values.number(op.y, op.value.value.data)
    x, low, high = values.real(op.x, order), op.low.get_values(), op.high.get_values()
    number = fill.astype(x.dtype) if is_numpys_own(x.dtype) else fill.astype(np.float32).astype(x.dtype)
    amounts = values.graph.indices([*(low[p] for p in order), *(high[p] for p in order)])
    stored, wide = x.dtype, WIDER.get(x.dtype, x.dtype)
    y = values.graph.node("Pad", values.graph.cast(x, wide), amounts, values.graph.constant(number.astype(wide)))
    values.define(op.y, values.graph.cast(y, stored), order)


# ---------------------------------------------------------------------------------------------------------------
# Forms of slices, gathers, scatters and top-k.
#
# In nn, an index outside its dimension means the nearest element; in ONNX it is an error. Constant indices are brought
# into range at export, computed indices by Max and Min nodes.


FIRST = np.iinfo(INDEX).min
"""The end of a slice that runs backwards and includes the first element."""


@exports(nn.SliceOp)
def slices(op: nn.SliceOp, values: Values) -> None:
    """Writes Slice over all dimensions."""
    order = values.order(op.x)
    steps = [op.steps()[p] for p in order]
    ends = [offset + size * stride for offset, size, stride in steps]
    lists = (
        [offset for offset, _, _ in steps],
        [FIRST if end < 0 else end for end in ends],
        range(len(steps)),
        [stride for _, _, stride in steps],
    )
    y = values.graph.node("Slice", values.real(op.x, order), *map(values.graph.indices, lists))
    values.define(op.y, y, order)


def indices_inside(values: Values, indices: SSAValue, sizes: Sequence[int]) -> Tensor:
    """Returns indices as i64, brought into range.

    Args:
        values: The values of the function.
        indices: The indices: […] into one dimension, or […, k] into k dimensions.
        sizes: The sizes of the indexed dimensions; a single size holds for all indices.
    """
    graph, limits = values.graph, np.array(sizes, INDEX)
    if (array := constant(indices)) is not None:
        if len(sizes) == 1:
            return graph.constant(places(array, sizes[0]))
        return graph.constant(np.stack([places(array[..., d], size) for d, size in enumerate(sizes)], axis=-1))
    x = graph.cast(values.stored(indices), INDEX)
    limits = limits.reshape(()) if limits.size == 1 else limits
    return graph.node("Min", graph.node("Max", x, graph.constant(-limits)), graph.constant(limits - 1))


@exports(nn.GatherOp)
def gather(op: nn.GatherOp, values: Values) -> None:
    """Writes Gather."""
    axis = op.axis.value.data
    indices = indices_inside(values, op.indices, shape_of(op.x)[axis : axis + 1])
    values.define(op.y, values.graph.node("Gather", values.real(op.x), indices, axis=axis))


@exports(nn.GatherNDOp)
def gather_nd(op: nn.GatherNDOp, values: Values) -> None:
    """Writes GatherND; if the index tuples are empty, each selects the whole operand, which is written as Expand."""
    depth = shape_of(op.indices)[-1]
    graph, x = values.graph, values.real(op.x)
    if not depth:
        values.define(op.y, graph.node("Expand", x, graph.indices(shape_of(op.y))))
        return
    indices = indices_inside(values, op.indices, shape_of(op.x)[:depth])
    values.define(op.y, graph.node("GatherND", x, indices))


@exports(nn.ScatterNDOp)
def scatter_nd(op: nn.ScatterNDOp, values: Values) -> None:
    """Writes ScatterND."""
    indices = indices_inside(values, op.indices, shape_of(op.x)[: shape_of(op.indices)[-1]])
    y = values.graph.node("ScatterND", values.real(op.x), indices, values.real(op.updates))
    values.define(op.y, y)


@exports(nn.ScatterReduceNDOp)
def scatter_reduce_nd(op: nn.ScatterReduceNDOp, values: Values) -> None:
    """Writes ScatterND with a reduction."""
    indices = indices_inside(values, op.indices, shape_of(op.x)[: shape_of(op.indices)[-1]])
    x, updates = values.real(op.x), values.real(op.updates)
    values.define(op.y, values.graph.node("ScatterND", x, indices, updates, reduction=op.reduction.data))


@exports(nn.TopKOp)
def top_k(op: nn.TopKOp, values: Values) -> None:
    """Writes TopK and takes its second result, the indices."""
    order, graph = values.order(op.x), values.graph
    inputs = [values.real(op.x, order), graph.indices([op.k.value.data])]
    largest = None if bool(op.largest) else 0
    axis = order.index(op.axis.value.data)
    _, found = graph.several("TopK", inputs, [None, INDEX], axis=axis, largest=largest)
    values.define(op.y, found, order)


# ---------------------------------------------------------------------------------------------------------------
# The form of nn.resize: weighted sums of gathered elements.
#
# nn.resize has, for each axis, tables of taps and weights [O, T]: output element o is the weighted sum of T input
# elements (its taps).


@exports(nn.ResizeOp)
def resize(op: nn.ResizeOp, values: Values) -> None:
    """Writes Gather, Mul and Add for each tap.

    ONNX's Resize is not used: its modes cannot express all tables, and separate nodes keep the order of the sums.
    """
    order = values.order(op.x)
    y = values.real(op.x, order)
    for axis, taps, weights in op.tables():
        y = along(values.graph, y, order.index(axis), len(order), taps, weights)
    values.define(op.y, y, order)


def along(graph: Graph, x: Tensor, axis: int, rank: int, taps: Array, weights: Array) -> Tensor:
    """Returns x resized along one axis of `rank` by taps and weights [O, T]."""
    total: Tensor | None = None
    for t in range(taps.shape[1]):
        y = graph.node("Gather", x, graph.constant(taps[:, t]), axis=axis)
        if (weights[:, t] != 1).any():
            shape = [1] * rank
            shape[axis] = len(taps)
            y = graph.node("Mul", y, graph.constant(weights[:, t].astype(x.dtype).reshape(shape)))
        total = y if total is None else graph.node("Add", total, y)
    assert total is not None, "no taps"
    return total


# ---------------------------------------------------------------------------------------------------------------
# The form of sampling images at computed places: GridSample.


@exports(nn.SampleOp)
def sample(op: nn.SampleOp, values: Values) -> None:
    """Writes GridSample with converted places.

    nn's places count elements. ONNX's places run from −1 to 1 between the centres or the edges of the outer elements.
    """
    graph, (batch, *sizes, channels) = values.graph, shape_of(op.x)
    centres = op.padding.data == "reflect_centres"
    lengths = np.array(sizes[::-1], np.float64)  # the last axis comes first
    scale = 2 / np.maximum(lengths - 1, 1) if centres else 2 / lengths
    offset = np.full(len(sizes), -1.0) if centres else 1 / lengths - 1
    x, places = values.real(op.x, channels_first(len(sizes) + 2)), values.real(op.places)
    listed = list(shape_of(op.places)[1:-1])
    count = int(np.prod(listed, dtype=np.int64))
    flat = [batch, *[1] * (len(sizes) - 1), count]
    grid = graph.node("Reshape", places, graph.indices([*flat, len(sizes)]))
    grid = graph.node("Gather", grid, graph.indices(range(len(sizes) - 1, -1, -1)), axis=len(sizes) + 1)
    scaled = graph.node("Mul", grid, graph.constant(scale.astype(grid.dtype)))
    grid = graph.node("Add", scaled, graph.constant(offset.astype(grid.dtype)))
    found = graph.node(
        "GridSample",
        x,
        grid,
        mode=op.method.data,
        padding_mode=op.padding.data.partition("_")[0].replace("reflect", "reflection"),
        align_corners=int(centres),
    )
    last = graph.node("Transpose", found, perm=[0, *range(2, len(sizes) + 2), 1])
    values.define(op.y, graph.node("Reshape", last, graph.indices([batch, *listed, channels])))


@exports(nn.NonMaxSuppressionOp, nn.NonZeroOp)
def counted(op: Operation, values: Values) -> None:
    """Refuses what has as many results as the data say.

    Raises:
        UnsupportedError: Always.
    """
    refuse_counted()
