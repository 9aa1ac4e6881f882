"""Forms of slices, gathers, scatters and top-k.

In nn, an index outside its dimension means the nearest element; in ONNX it is an error. Constant indices are brought
into range at export, computed indices by Max and Min nodes.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import INDEX, Tensor, tensor_type
from qmlir.backends.onnx.values import Values, constant
from qmlir.dialects import nn
from qmlir.dialects.nn.indexing import places
from qmlir.ir.interfaces import shape_of

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
    x = values.stored(indices)
    if x.dtype != INDEX:
        x = graph.node("Cast", x, to=tensor_type(INDEX), dtype=INDEX)
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
