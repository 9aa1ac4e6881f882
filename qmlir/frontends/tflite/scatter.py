"""Scatters, sorts and selections."""

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value, filled, sized
from qmlir.frontends.tflite.movement import places_of
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.ir.interfaces import Array, Shape

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Converters of operators that write elements to given places: scatters, segment reductions, slice updates.


def _filled(node: TFLiteNode, shape: Shape, value: float | None = None, *, least: bool = True) -> Constant:
    """Returns a constant tensor filled with one number, by default the smallest or largest of the output's type."""
    dtype = node.tensors[0].dtype
    if dtype is None or node.output_type() is not None or dtype.kind == "b":
        raise UnsupportedError(
            "it combines numbers that are quantized" if dtype is not None else "its type is not known"
        )
    if value is None:
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        value = limits.min if least else limits.max
    return filled(shape, np.array(value, dtype))


def _check_places(node: TFLiteNode, indices: Value, shape: Shape) -> None:
    """Checks that constant indices [..., rank] lie inside the shape that they index."""
    if not node.rank(indices) or node.shape(indices)[-1] > len(shape):
        raise node.error(f"its indices must name at most {len(shape)} dimensions", node.shape(indices))
    if isinstance(indices, Constant):
        limit = np.array(shape[: node.shape(indices)[-1]], np.int64)
        if ((indices.array < 0) | (indices.array >= limit)).any():
            raise node.error(f"its indices must lie inside {list(shape)}", str(indices.array.reshape(-1)[:8].tolist()))


@converts("SCATTER_ND")
def scatter_nd(node: TFLiteNode, indices: Value, updates: Value, shape: Value) -> Value:
    """A tensor of zeros, to which the updates are added at their places."""
    wanted = node.ints(shape, "shape")
    if min(wanted, default=0) < 0:
        raise node.error("its shape must not be negative", wanted)
    _check_places(node, indices, wanted)
    zeros = _filled(node, wanted, 0)
    return node.compute(nn.ScatterReduceNDOp, [zeros, updates, places_of(node, indices)], {"reduction": "add"})


@converts("SPARSE_TO_DENSE")
def sparse_to_dense(
    node: TFLiteNode, indices: Value, shape: Value, values: Value, default: Value, *, validate_indices: bool
) -> Value:
    """A tensor filled with a default, with other values at the indices."""
    wanted, rank = node.ints(shape, "shape"), node.rank(indices)
    if rank > 2 or node.rank(values) > 1 or min(wanted, default=0) < 0:
        raise node.error("it needs indices of rank 2 at most and a row of values", node.shape(indices))
    count = node.shape(indices)[0] if rank else 1
    listed = node.reshaped(indices, (count, node.shape(indices)[1] if rank == 2 else 1))
    _check_places(node, listed, wanted)
    rows = node.insert(nn.BroadcastOp, [values], {"shape": [count]})
    background = node.insert(nn.BroadcastOp, [default], {"shape": wanted})
    return node.compute(nn.ScatterNDOp, [background, rows, places_of(node, listed)])


@converts("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(node: TFLiteNode, x: Value, update: Value, start: Value) -> Value:
    """x with a slice replaced by the update; the start is clamped so that the update lies inside x."""
    shape, part = node.shape(x), node.shape(update)
    if (
        len(part) != len(shape)
        or node.shape(start) != (len(shape),)
        or any(n > size for n, size in zip(part, shape, strict=True))
    ):
        raise node.error("its update must fit its input and have a start for each dimension",
                         f"{list(part)} in {list(shape)}")  # fmt: skip
    last = np.array([size - n for size, n in zip(shape, part, strict=True)], np.int64)
    grid = np.moveaxis(np.indices(node.room((*part, len(shape)))[:-1], dtype=np.int64), 0, -1)
    first = node.insert(nn.MaximumOp, [node.converted(start, i64), Constant(np.zeros((), np.int64))])
    begin = node.insert(nn.MinimumOp, [first, Constant(last)])
    places = node.insert(nn.AddOp, [Constant(grid), begin])
    moved = [node.quantized(x), node.quantized(update), places]
    return node.retyped(node.compute(nn.ScatterNDOp, moved), node.output_type())


# ---------------------------------------------------------------------------------------------------------------
# Segments

SEGMENTS: Mapping[str, tuple[str, float | None, bool]] = {
    "UNSORTED_SEGMENT_SUM": ("add", 0, True),
    "UNSORTED_SEGMENT_PROD": ("mul", 1, True),
    "UNSORTED_SEGMENT_MAX": ("max", None, True),
    "UNSORTED_SEGMENT_MIN": ("min", None, False),
}
"""Operator → (reduction, value of an empty segment, least).

If the value of an empty segment is None, it is the smallest number of the output's type if `least`, else the largest.
"""


def _segments(node: TFLiteNode, x: Value, ids: np.ndarray, empty: Constant, reduction: str) -> Value:
    """Reduces the rows of x by segment onto `empty`; rows with a negative segment id are left out."""
    kept = np.flatnonzero(ids.reshape(-1) >= 0)
    rows = node.reshaped(x, (ids.size, *node.shape(x)[ids.ndim :]))
    if len(kept) != ids.size:
        rows = node.insert(nn.GatherOp, [rows, Constant(kept.astype(np.int64))], {"axis": 0})
    places = Constant(ids.reshape(-1)[kept].astype(np.int64)[:, None])
    return node.compute(nn.ScatterReduceNDOp, [empty, rows, places], {"reduction": reduction})


def _unsorted(operator: str, reduction: str, empty: float | None, least: bool) -> None:
    @converts(operator)
    def convert(node: TFLiteNode, x: Value, ids: Value, count: Value) -> Value:
        segments, number = node.array(ids, "segments"), node.only(count, "number of segments")
        if segments.shape != node.shape(x)[: segments.ndim] or number < 0 or segments.max(initial=-1) >= number:
            raise node.error(f"it needs a segment below {number} for each row of {list(node.shape(x))}", segments.shape)
        shape = (number, *node.shape(x)[segments.ndim :])
        return _segments(node, x, segments, _filled(node, shape, empty, least=least), reduction)


for _operator, _entry in SEGMENTS.items():
    _unsorted(_operator, *_entry)


@converts("SEGMENT_SUM")
def segment_sum(node: TFLiteNode, x: Value, ids: Value) -> Value:
    """The sum of the rows of each segment; segment ids must be in ascending order."""
    segments = node.array(ids, "segments")
    if segments.shape != node.shape(x)[:1] or (np.diff(segments) < 0).any() or segments.min(initial=0) < 0:
        raise node.error(f"it needs segments in ascending order for each row of {list(node.shape(x))}",
                         str(segments.tolist()[:8]))  # fmt: skip
    shape = (int(segments.max(initial=-1)) + 1, *node.shape(x)[1:])
    return _segments(node, x, segments, _filled(node, shape, 0), "add")


# ---------------------------------------------------------------------------------------------------------------
# Converters of operators that select elements or return positions: top-k, one-hot, diagonals, buckets, unique.


@converts("ONE_HOT")
def one_hot(node: TFLiteNode, indices: Value, depth: Value, on: Value, off: Value, *, axis: int) -> Value:
    """`on` at the index along a new axis, `off` elsewhere."""
    shape, count = node.shape(indices), node.only(depth, "depth")
    at = node.axis(axis, len(shape) + 1)
    if count < 0 or any(int(np.prod(node.shape(v))) != 1 for v in (on, off)):
        raise node.error("it needs a depth that is not negative and two values", str(count))
    place = node.converted(indices, i64)
    steps = np.arange(*node.room((count,)), dtype=np.int64).reshape(count, *[1] * (len(shape) - at))
    wide = node.reshaped(place, (*shape[:at], 1, *shape[at:]))
    chosen = node.insert(nn.EqualOp, [wide, Constant(steps)])
    values = [node.reshaped(node.floats(v), ()) for v in (on, off)]
    return node.finished(node.compute(nn.WhereOp, [chosen, *values]))


@converts("TOPK_V2")
def top_k(node: TFLiteNode, x: Value, k: Value) -> tuple[Value, ...]:
    """The k largest elements of each row in descending order, and their indices."""
    count, rank = node.only(k, "k"), node.rank(x)
    if not rank or not 0 <= count <= node.shape(x)[-1]:
        raise node.error(f"its k must lie in the last of {list(node.shape(x))}", str(count))
    properties = {"axis": rank - 1, "k": count}
    places = node.insert(nn.TopKOp, [node.stored(x)], properties)
    values = node.moved_elements(nn.GatherNDOp, [x, coordinates(node, places)])
    return values, node.converted(places, i32)


def coordinates(node: TFLiteNode, places: SSAValue) -> SSAValue:
    """Turns places along the last axis into indices for nn.gather_nd, i64 [..., rank]."""
    shape = node.shape(places)
    fixed = np.indices(node.room((*shape, len(shape)))[:-1], dtype=np.int64)[:-1]
    parts: list[Value] = [Constant(i[..., None]) for i in fixed]
    parts.append(node.reshaped(places, (*shape, 1)))
    return node.insert(nn.ConcatOp, [parts], {"axis": len(shape)})


@converts("BUCKETIZE")
def bucketize(node: TFLiteNode, x: Value, *, boundaries: tuple[float, ...]) -> Value:
    """For each element, the number of boundaries (in ascending order) that it reaches."""
    if list(boundaries) != sorted(boundaries):
        raise node.error("its boundaries must ascend", str(boundaries[:8]))
    if node.element(x) != "f32":
        raise UnsupportedError(f"it sorts {node.element(x)} into buckets, and qmlir f32")
    wide = node.reshaped(x, (*node.shape(x), 1))
    reached = node.insert(nn.LessEqualOp, [Constant(np.array(boundaries, np.float32)), wide])
    total = node.insert(nn.ReduceSumOp, [node.converted(reached, i32)], {"axes": [node.rank(x)]})
    return node.reshaped(total, node.shape(x))


def _diagonal(node: TFLiteNode, shape: Shape) -> Constant:
    return Constant(np.eye(*node.room(shape[-2:]), dtype=np.bool_))


@converts("MATRIX_DIAG")
def matrix_diag(node: TFLiteNode, x: Value) -> Value:
    """Square matrices with the rows of x on their diagonals and zeros elsewhere."""
    shape = node.shape(x)
    if not shape or node.is_quantized(x):
        raise UnsupportedError("it makes matrices of a scalar" if not shape else "it makes matrices of quantized rows")
    wide = node.reshaped(x, (*shape, 1))
    zero = Constant(np.zeros((), _dtype(node)))
    return node.compute(nn.WhereOp, [_diagonal(node, (*shape, shape[-1])), wide, zero])


def _dtype(node: TFLiteNode) -> np.dtype[np.generic]:
    dtype = node.tensors[0].dtype
    if dtype is None:
        raise UnsupportedError(f"its output is of type {node.tensors[0].kind}")
    return dtype


@converts("MATRIX_SET_DIAG")
def matrix_set_diag(node: TFLiteNode, x: Value, diagonal: Value) -> Value:
    """x with the diagonals of its matrices replaced."""
    shape = node.shape(x)
    if len(shape) < 2 or node.shape(diagonal) != (*shape[:-2], min(shape[-2:])):
        raise node.error("its diagonal must have as many elements as each matrix on its own",
                         f"{list(node.shape(diagonal))} for {list(shape)}")  # fmt: skip
    rows, columns = shape[-2:]
    column = node.reshaped(node.floats(diagonal), (*shape[:-2], min(rows, columns), 1))
    if columns < rows:  # the rows below the square have no diagonal element: the value gathered there is not used
        taken = Constant(np.minimum(np.arange(*node.room((rows,)), dtype=np.int64), columns - 1))
        column = node.insert(nn.GatherOp, [column, taken], {"axis": len(shape) - 2})
    return node.finished(node.compute(nn.WhereOp, [_diagonal(node, shape), column, node.floats(x)]))


# ---------------------------------------------------------------------------------------------------------------
# Operators whose result's shape depends on the elements: for constants only


def _known(node: TFLiteNode, x: Value) -> Array:
    if not isinstance(x, Constant):
        raise UnsupportedError("the shape of its result is known only when it runs")
    return x.array


@converts("UNIQUE")
def unique(node: TFLiteNode, x: Value, *, idx_out_type: int) -> tuple[Value, ...]:
    """The distinct elements in order of first appearance, and for each element the index of its value among them."""
    array = _known(node, x).reshape(-1)
    values, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    dtype = node.tensors[1].dtype if len(node.tensors) > 1 else np.dtype(np.int32)
    return Constant(values[order]), Constant(np.argsort(order)[inverse].astype(dtype))


@converts("RANGE")
def range_(node: TFLiteNode, start: Value, limit: Value, delta: Value) -> Value:
    """Numbers from `start` in steps of `delta`, up to but without `limit`."""
    arrays = [_known(node, v).reshape(-1) for v in (start, limit, delta)]
    if any(a.size != 1 for a in arrays) or not np.isfinite(arrays).all() or not arrays[2][0]:
        raise node.error("it needs a start, a limit and a step that is not 0", [a.tolist()[:4] for a in arrays])
    first, last, step = (a[0].item() for a in arrays)
    count = max(int(np.ceil((last - first) / step)), 0)
    steps = np.arange(*node.room((count,))).astype(arrays[0].dtype)
    return Constant((arrays[0] + steps * arrays[2]).astype(arrays[0].dtype))


@converts("BROADCAST_ARGS")
def broadcast_args(node: TFLiteNode, a: Value, b: Value) -> Value:
    """The shape that two shapes broadcast to, as a constant."""
    shapes = node.ints(a, "shape"), node.ints(b, "shape")
    try:
        found = np.broadcast_shapes(*(sized(s) for s in shapes))
    except ValueError:
        raise node.error("its shapes must broadcast", [list(s) for s in shapes]) from None
    return Constant(np.array(found, _dtype(node)))


@converts("ZEROS_LIKE")
def zeros_like(node: TFLiteNode, x: Value) -> Value:
    """Zeros in the shape of x."""
    if node.is_quantized(x):
        raise UnsupportedError("it makes zeros like a quantized tensor")
    return filled(node.shape(x), _dtype(node).type(0))
