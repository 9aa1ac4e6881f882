"""Forms of data movement and interpolation: shapes, slices, gathers, scatters, resizes."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms, constant, refuse_counted
from qmlir.backends.tflite.contraction import pad as pad_with
from qmlir.backends.tflite.graph import BOOL, INDEX, Form, Graph, Options, Tensor
from qmlir.backends.tflite.values import MOVED, Values, declared
from qmlir.dialects import nn
from qmlir.dialects.nn.indexing import coordinates, places
from qmlir.dialects.nn.movement import FillingOp, MovementOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, shape_of

exports: Forms[Values] = Forms()

# ---------------------------------------------------------------------------------------------------------------
# Forms of constants and data movement; quantized tensors move as their stored integers.


def moved(op: MovementOp, values: Values, kind: str, extra: Sequence[Tensor], options: dict[str, int]) -> None:
    """Writes one operator on the stored elements of the first operand; `extra` are the operator's other inputs."""
    x = values.stored(op.operands[0])
    values.hold(op.y, values.graph.operator(kind, [x, *extra], x.form.shaped(shape_of(op.y)), options))


@exports(nn.ConstantOp)
def make_constant(op: nn.ConstantOp, values: Values) -> None:
    """Writes nothing: a constant becomes a tensor when an operation reads it."""


@exports(nn.TransposeOp)
def transpose(op: nn.TransposeOp, values: Values) -> None:
    """Writes TRANSPOSE."""
    moved(op, values, "TRANSPOSE", [values.graph.indices(op.permutation.get_values())], {})


@exports(nn.ReshapeOp)
def reshape(op: nn.ReshapeOp, values: Values) -> None:
    """Writes RESHAPE."""
    values.hold(op.y, values.graph.reshaped(values.stored(op.x), shape_of(op.y)))


@exports(nn.BroadcastOp)
def broadcast(op: nn.BroadcastOp, values: Values) -> None:
    """Writes BROADCAST_TO."""
    moved(op, values, "BROADCAST_TO", [values.graph.indices(shape_of(op.y))], {})


@exports(nn.ConcatOp)
def concat(op: nn.ConcatOp, values: Values) -> None:
    """Writes CONCATENATION."""
    values.hold(op.y, values.graph.joined([values.stored(x) for x in op.inputs], op.axis.value.data))


def filling(op: FillingOp, values: Values) -> float:
    """Returns the element that an operation adds, as the tensor of its operand stores it."""
    stored = op.stored_value().item()
    return stored - MOVED if values.is_moved(declared(op.x)) else stored


@exports(nn.PadOp)
def pad(op: nn.PadOp, values: Values) -> None:
    """Writes PAD if the padding is zero, else PADV2."""
    x, fill = values.stored(op.x), filling(op, values)
    zero = x.form.parameters.zero_point if x.form.parameters is not None else 0
    values.hold(op.y, pad_with(values.graph, x, op.pads(), None if fill == zero else fill))


@exports(nn.DilateOp)
def dilate(op: nn.DilateOp, values: Values) -> None:
    """Writes DILATE; a tensor without dimensions, which LiteRT's kernel does not take, stays as it is."""
    x, graph = values.stored(op.x), values.graph
    if not x.shape:
        values.same(op.y, op.x)
        return
    if 0 in x.shape:
        raise UnsupportedError("needs elements to dilate", str(list(x.shape)), "leave the empty tensor out")
    fill = graph.constant(np.array(filling(op, values), x.dtype), x.form.parameters)
    moved(op, values, "DILATE", [graph.indices(op.dilations.get_values()), fill], {})


# ---------------------------------------------------------------------------------------------------------------
# Forms of slices, gathers, top-k and scatters.


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
        raise UnsupportedError("needs elements to step to", str(list(shape_of(op.y))), "leave the empty slice out")
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
        raise UnsupportedError(
            "needs indices that name a dimension", str(list(shape_of(op.indices))), "broadcast instead"
        )
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
    graph, x, axis = values.graph, values.real(op.x), op.axis.value.data
    if not bool(op.largest):
        if x.dtype.kind != "f":
            raise UnsupportedError("must look for the greatest elements", "the least", "look for the least of floats")
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
        UnsupportedError: The indices are computed; TFLite's SCATTER_ND cannot be used, as it adds updates to a tensor
            of zeros.
    """
    indices, graph, shape = constant(op.indices), values.graph, shape_of(op.x)
    if indices is None or not indices.shape[-1]:
        raise UnsupportedError(
            "needs constant indices that name a dimension", str(op.indices.type), "concatenate slices instead"
        )
    depth = indices.shape[-1]
    rows, width = prod(shape[:depth]), prod(shape[depth:])
    listed = coordinates(indices.reshape(-1, depth), shape)
    source = np.arange(rows)
    source[np.ravel_multi_index(listed, shape[:depth])] = rows + np.arange(len(listed[0]))
    parts = [graph.reshaped(values.stored(v), (prod(shape_of(v)) // width, width)) for v in (op.x, op.updates)]
    both, places = graph.joined(parts, 0), graph.constant(source.astype(INDEX))
    found = graph.operator("GATHER", [both, places], both.form.shaped((rows, width)), {"Axis": 0})
    values.hold(op.y, graph.reshaped(found, shape))


# ---------------------------------------------------------------------------------------------------------------
# Forms of resizing: TFLite's operators if they compute the same weights, else weighted sums of gathered elements.
#
# nn.resize has, for each axis, tables of taps and weights [O, T]: output element o is the weighted sum of T input
# elements (its taps).


EPSILON = 1e-6
"""The most by which weights may differ from TFLite's, which are float32."""

MODES = ((False, False), (True, False), (False, True))
"""TFLite's modes: (align_corners, half_pixel_centers)."""


@exports(nn.ResizeOp)
def resize(op: nn.ResizeOp, values: Values) -> None:
    """Writes RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR if its weights match, else GATHER, MUL and ADD for each tap."""
    image, result = shape_of(op.x), shape_of(op.y)
    wanted = {axis: _dense(taps, weights, image[axis]) for axis, taps, weights in op.tables()}
    if len(image) == 4 and set(wanted) <= {1, 2}:
        for kind, options, tables in _operators(image, result):
            if all(np.allclose(tables[a], wanted.get(a, np.eye(image[a])), rtol=0, atol=EPSILON) for a in (1, 2)):
                size = values.graph.indices(result[1:3])
                if kind == "RESIZE_BILINEAR" and values.form(op.x).parameters != values.form(op.y).parameters:
                    # The integer kernels keep the input's scale: a requantization behind them would round again.
                    x = values.real(op.x)
                    values.define(op.y, values.graph.operator(kind, [x, size], x.form.shaped(result), options))
                else:
                    values.compute(op, kind, [op.x], options, [size])
                return
    y = values.real(op.x)
    for axis, taps, weights in op.tables():
        y = _along(values.graph, y, axis, taps, weights)
    values.define(op.y, y)


def _operators(image: tuple[int, ...], result: tuple[int, ...]) -> Iterator[tuple[str, Options, dict[int, Array]]]:
    """Yields TFLite's operators with their options and the weights [O, I] that they use along rows and columns."""
    for kind, table in (("RESIZE_BILINEAR", _linear), ("RESIZE_NEAREST_NEIGHBOR", _nearest)):
        for align, half in MODES:
            options = {"AlignCorners": align, "HalfPixelCenters": half}
            yield kind, options, {axis: table(image[axis], result[axis], align, half) for axis in (1, 2)}


def _dense(taps: Array, weights: Array, size: int) -> Array:
    """Converts taps and weights [O, T] to dense weights [O, I] over all input elements."""
    dense = np.zeros((len(taps), size))
    np.add.at(dense, (np.arange(len(taps))[:, None], taps), weights)
    return dense


def _steps(size: int, length: int, align: bool) -> float:
    return (size - 1) / (length - 1) if align and length > 1 else size / length


def _linear(size: int, length: int, align: bool, half: bool) -> Array:
    shift = 0.5 if half else 0.0
    at = (np.arange(length) + shift) * _steps(size, length, align) - shift
    low = np.floor(at)
    taps = np.clip(np.stack([low, low + 1], axis=1), 0, size - 1).astype(np.int64)
    return _dense(taps, np.stack([1 - (at - low), at - low], axis=1), size)


def _nearest(size: int, length: int, align: bool, half: bool) -> Array:
    at = (np.arange(length) + (0.5 if half else 0.0)) * _steps(size, length, align)
    near = np.floor(at + 0.5) if align else np.floor(at)
    return _dense(np.clip(near, 0, size - 1).astype(np.int64)[:, None], np.ones((length, 1)), size)


def _along(graph: Graph, x: Tensor, axis: int, taps: Array, weights: Array) -> Tensor:
    """Returns x resized along one axis by taps and weights [O, T]."""
    total: Tensor | None = None
    form = x.form.shaped((*x.shape[:axis], len(taps), *x.shape[axis + 1 :]))
    for t in range(taps.shape[1]):
        places = graph.constant(taps[:, t].astype(INDEX))
        y = graph.operator("GATHER", [x, places], form, {"Axis": axis})
        if (weights[:, t] != 1).any():
            along = weights[:, t].astype(x.dtype).reshape(-1, *[1] * (len(x.shape) - axis - 1))
            y = graph.pointwise("MUL", y, graph.constant(along))
        total = y if total is None else graph.pointwise("ADD", total, y)
    assert total is not None, "no taps"
    return total


# ---------------------------------------------------------------------------------------------------------------
# Operations that TFLite lacks: its SCATTER_ND, for one, only adds updates to a tensor of zeros.


@exports(nn.NonMaxSuppressionOp, nn.NonZeroOp)
def counted(op: Operation, values: Values) -> None:
    """Refuses what has as many results as the data say.

    Raises:
        UnsupportedError: Always.
    """
    refuse_counted()


@exports(nn.CumulativeProductOp, nn.MaxPoolIndices2DOp, nn.RootQuotientOp, nn.SampleOp, nn.ScatterReduceNDOp)
def missing(op: Operation, values: Values) -> None:
    """Raises UnsupportedError: TFLite lacks the operation."""
    raise UnsupportedError("must be an operation that TFLite has", op.name, "rewrite the model without it")


@exports(nn.RowMagnitudesOp, nn.DivideRowsOp, nn.MultiplyRowsOp)
def of_rows(op: Operation, values: Values) -> None:
    """Raises UnsupportedError: TFLite's fully connected layers have no scale for each row of their data."""
    raise UnsupportedError("must be an operation that TFLite has", op.name, "quantize with activations=static")


@exports(nn.HadamardOp)
def hadamard(op: nn.HadamardOp, values: Values) -> None:
    """Raises UnsupportedError: TFLite has no product of integers with a matrix of ±1 that keeps all digits."""
    remedy = "quantize with rotate=residual, which has none"
    raise UnsupportedError("must be an operation that TFLite has", op.name, remedy)
