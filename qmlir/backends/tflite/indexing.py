"""Forms of slices, gathers, top-k and scatters."""

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import BOOL, INDEX, Form, Tensor
from qmlir.backends.tflite.shape import moved
from qmlir.backends.tflite.values import Values, constant
from qmlir.dialects import nn
from qmlir.dialects.nn.indexing import coordinates, places
from qmlir.ir.interfaces import Array, shape_of

WIDE = np.dtype(np.int64)
"""The element type of nn's indices."""


@exports(nn.SliceOp)
def slice_(op: nn.SliceOp, values: Values) -> None:
    """Writes SLICE, or STRIDED_SLICE if a stride is not 1."""
    graph, steps = values.graph, op.steps()
    if all(stride == 1 for _, _, stride in steps):
        parts = [graph.indices([offset for offset, _, _ in steps]), graph.indices([size for _, size, _ in steps])]
        moved(op, values, "SLICE", parts, {})
        return
    if 0 in shape_of(op.y):
        raise NoForm("needs elements to step to", str(list(shape_of(op.y))), "leave the empty slice out")
    ends = [offset + size * stride for offset, size, stride in steps]
    bounds = [graph.indices(part) for part in ([s[0] for s in steps], [max(e, 0) for e in ends], [s[2] for s in steps])]
    to_the_end = sum(1 << i for i, end in enumerate(ends) if end < 0)
    moved(op, values, "STRIDED_SLICE", bounds, {"EndMask": to_the_end})


@exports(nn.GatherOp)
def gather(op: nn.GatherOp, values: Values) -> None:
    """Writes GATHER."""
    axis = op.axis.value.data
    sizes = np.array(shape_of(op.x)[axis])
    moved(op, values, "GATHER", [_places(op.indices, sizes, values)], {"Axis": axis})


@exports(nn.GatherNDOp)
def gather_nd(op: nn.GatherNDOp, values: Values) -> None:
    """Writes GATHER_ND."""
    depth = shape_of(op.indices)[-1]
    if not depth:
        raise NoForm("needs indices that name a dimension", str(list(shape_of(op.indices))), "broadcast instead")
    sizes = np.array(shape_of(op.x)[:depth])
    moved(op, values, "GATHER_ND", [_places(op.indices, sizes, values)], {})


def _places(indices: SSAValue, sizes: Array, values: Values) -> Tensor:
    """Returns indices within bounds: TFLite has no negative indices and fails on indices outside."""
    array, graph = constant(indices), values.graph
    if array is not None:
        return graph.constant(places(array, sizes).astype(INDEX))
    x = values.stored(indices)
    last = graph.constant((sizes - 1).astype(x.dtype))
    negative = graph.pointwise("LESS", x, graph.number(0, x), dtype=BOOL)
    from_end = graph.pointwise("ADD", x, graph.constant(sizes.astype(x.dtype)))
    counted = graph.pointwise("SELECT_V2", negative, from_end, x)
    return graph.pointwise("MINIMUM", graph.pointwise("MAXIMUM", counted, graph.number(0, x)), last)


@exports(nn.TopKOp)
def top_k(op: nn.TopKOp, values: Values) -> None:
    """Writes the indices of TOPK_V2 along the last axis; for the smallest elements, of the negated input."""
    graph, x, axis = values.graph, values.stored(op.x), op.axis.value.data
    if not bool(op.largest):
        if x.dtype.kind != "f":
            raise NoForm("must look for the greatest elements", "the least", "look for the least of floats")
        x = graph.pointwise("NEG", x)
    order = [*(i for i in range(len(x.shape)) if i != axis), axis]
    back = [order.index(i) for i in range(len(order))]
    wide = graph.transposed(x, order)
    form = Form((*wide.shape[:-1], op.k.value.data), x.dtype)
    _, found = graph.several("TOPK_V2", [wide, graph.index(op.k.value.data)], [form, form.typed(INDEX)])
    values.hold(op.y, graph.converted(graph.transposed(found, back), WIDE))


@exports(nn.ScatterNDOp)
def scatter_nd(op: nn.ScatterNDOp, values: Values) -> None:
    """Writes a scatter with constant indices as a GATHER from the rows of x and of the updates.

    If several updates go to one place, the last update counts.

    Raises:
        NoForm: The indices are computed; TFLite's SCATTER_ND cannot be used, as it adds updates to a tensor of zeros.
    """
    indices, graph, shape = constant(op.indices), values.graph, shape_of(op.x)
    if indices is None or not indices.shape[-1]:
        raise NoForm("needs constant indices that name a dimension", str(op.indices.type), "concatenate slices instead")
    depth = indices.shape[-1]
    rows, width = prod(shape[:depth]), prod(shape[depth:])
    listed = coordinates(indices.reshape(-1, depth), shape)
    source = np.arange(rows)
    source[np.ravel_multi_index(listed, shape[:depth])] = rows + np.arange(len(listed[0]))
    parts = [graph.reshaped(values.stored(v), (prod(shape_of(v)) // width, width)) for v in (op.x, op.updates)]
    both, places = graph.joined(parts, 0), graph.constant(source.astype(INDEX))
    found = graph.operator("GATHER", [both, places], both.form.shaped((rows, width)), {"Axis": 0})
    values.hold(op.y, graph.reshaped(found, shape))


@exports(nn.ScatterReduceNDOp)
def scatter_reduce(op: nn.ScatterReduceNDOp, values: Values) -> None:
    """Raises NoForm: TFLite's SCATTER_ND only adds updates to a tensor of zeros."""
    raise NoForm("must be an operation that TFLite has", op.name, "rewrite the model without it")
