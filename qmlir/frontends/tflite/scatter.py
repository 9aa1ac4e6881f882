"""Converters of operators that write elements to given places: scatters, segment reductions, slice updates."""

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64

from qmlir.dialects import nn
from qmlir.dialects.windows import ints
from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.indexing import only, places_of
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.values import Constant, Refusal, Value, filled
from qmlir.ir.interfaces import Shape


def _filled(node: TFLiteNode, shape: Shape, value: float | None = None, *, least: bool = True) -> Constant:
    """Returns a constant tensor filled with one number, by default the smallest or largest of the output's type."""
    dtype = node.tensors[0].dtype
    if dtype is None or node.output_type() is not None or dtype.kind == "b":
        raise Refusal("it combines numbers that are quantized" if dtype is not None else "its type is not known")
    if value is None:
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        value = limits.min if least else limits.max
    return filled(shape, np.array(value, dtype))


def _check_places(node: TFLiteNode, indices: Value, shape: Shape) -> None:
    """Checks that constant indices [..., rank] lie inside the shape that they index."""
    if not node.rank(indices) or node.shape(indices)[-1] > len(shape):
        raise node.error(f"its indices must name at most {len(shape)} dimensions", str(list(node.shape(indices))))
    if isinstance(indices, Constant):
        limit = np.array(shape[: node.shape(indices)[-1]], np.int64)
        if ((indices.array < 0) | (indices.array >= limit)).any():
            raise node.error(f"its indices must lie inside {list(shape)}", str(indices.array.reshape(-1)[:8].tolist()))


@converts("SCATTER_ND", options="ScatterNdOptions")
def scatter_nd(node: TFLiteNode, indices: Value, updates: Value, shape: Value) -> Value:
    """A tensor of zeros, to which the updates are added at their places."""
    wanted = node.ints(shape, "shape")
    if min(wanted, default=0) < 0:
        raise node.error("its shape must not be negative", str(list(wanted)))
    _check_places(node, indices, wanted)
    zeros = _filled(node, wanted, 0)
    return node.compute(
        nn.ScatterReduceNDOp, [zeros, updates, places_of(node, indices)], {"reduction": StringAttr("add")}
    )


@converts("SPARSE_TO_DENSE", options="SparseToDenseOptions")
def sparse_to_dense(
    node: TFLiteNode, indices: Value, shape: Value, values: Value, default: Value, *, validate_indices: bool
) -> Value:
    """A tensor filled with a default, with other values at the indices."""
    wanted, rank = node.ints(shape, "shape"), node.rank(indices)
    if rank > 2 or node.rank(values) > 1 or min(wanted, default=0) < 0:
        raise node.error("it needs indices of rank 2 at most and a row of values", str(list(node.shape(indices))))
    count = node.shape(indices)[0] if rank else 1
    listed = node.reshaped(indices, (count, node.shape(indices)[1] if rank == 2 else 1))
    _check_places(node, listed, wanted)
    rows = node.insert(nn.BroadcastOp, [values], {"shape": ints([count])})
    background = node.insert(nn.BroadcastOp, [default], {"shape": ints(list(wanted))})
    return node.compute(nn.ScatterNDOp, [background, rows, places_of(node, listed)])


@converts("DYNAMIC_UPDATE_SLICE", options="DynamicUpdateSliceOptions")
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

SEGMENTS: Mapping[str, tuple[str, str, float | None, bool]] = {
    "UNSORTED_SEGMENT_SUM": ("UnsortedSegmentSumOptions", "add", 0, True),
    "UNSORTED_SEGMENT_PROD": ("UnsortedSegmentProdOptions", "mul", 1, True),
    "UNSORTED_SEGMENT_MAX": ("UnsortedSegmentMaxOptions", "max", None, True),
    "UNSORTED_SEGMENT_MIN": ("UnsortedSegmentMinOptions", "min", None, False),
}
"""Operator → (options, reduction, value of an empty segment, least).

If the value of an empty segment is None, it is the smallest number of the output's type if `least`, else the largest.
"""


def _segments(node: TFLiteNode, x: Value, ids: np.ndarray, empty: Constant, reduction: str) -> Value:
    """Reduces the rows of x by segment onto `empty`; rows with a negative segment id are left out."""
    kept = np.flatnonzero(ids.reshape(-1) >= 0)
    rows = node.reshaped(x, (ids.size, *node.shape(x)[ids.ndim :]))
    if len(kept) != ids.size:
        rows = node.insert(nn.GatherOp, [rows, Constant(kept.astype(np.int64))], {"axis": IntegerAttr(0, i64)})
    places = Constant(ids.reshape(-1)[kept].astype(np.int64)[:, None])
    return node.compute(nn.ScatterReduceNDOp, [empty, rows, places], {"reduction": StringAttr(reduction)})


def _unsorted(operator: str, options: str, reduction: str, empty: float | None, least: bool) -> None:
    @converts(operator, options=options)
    def convert(node: TFLiteNode, x: Value, ids: Value, count: Value) -> Value:
        segments, number = node.array(ids, "segments"), only(node, count, "number of segments")
        if segments.shape != node.shape(x)[: segments.ndim] or number < 0 or segments.max(initial=-1) >= number:
            raise node.error(f"it needs a segment below {number} for each row of {list(node.shape(x))}",
                             str(list(segments.shape)))  # fmt: skip
        shape = (number, *node.shape(x)[segments.ndim :])
        return _segments(node, x, segments, _filled(node, shape, empty, least=least), reduction)


for _operator, _entry in SEGMENTS.items():
    _unsorted(_operator, *_entry)


@converts("SEGMENT_SUM", options="SegmentSumOptions")
def segment_sum(node: TFLiteNode, x: Value, ids: Value) -> Value:
    """The sum of the rows of each segment; segment ids must be in ascending order."""
    segments = node.array(ids, "segments")
    if segments.shape != node.shape(x)[:1] or (np.diff(segments) < 0).any() or segments.min(initial=0) < 0:
        raise node.error(f"it needs segments in ascending order for each row of {list(node.shape(x))}",
                         str(segments.tolist()[:8]))  # fmt: skip
    shape = (int(segments.max(initial=-1)) + 1, *node.shape(x)[1:])
    return _segments(node, x, segments, _filled(node, shape, 0), "add")
