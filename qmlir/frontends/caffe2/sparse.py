"""Operators on segments: sums of rows that indices choose, and tables of lengths and ranges.

A vector of lengths splits a list into segments. The number of elements in the list is known at import, how they are
distributed is not: segment s has the elements from its start, the sum of the lengths before it, up to its end. Element
j lies in segment s if start[s] ≤ j < end[s]; the sum over segments is a product with the matrix of these truths.
"""

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import MatMulOp
from qmlir.dialects.nn.indexing import GatherOp, ScatterNDOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.caffe2.node import Caffe2Node
from qmlir.frontends.converters import Table
from qmlir.frontends.detection import non_zero_places
from qmlir.frontends.function import Constant, Ints, Value, filled
from qmlir.frontends.windows import sliced
from qmlir.ir.interfaces import Array, element_of
from qmlir.ir.types import dtype_of

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Segments


def _vector(node: Caffe2Node, x: Value, what: str) -> int:
    """Checks that an input is a vector of integers, and returns its length."""
    if node.rank(x) != 1 or node.element(x) not in ("i32", "i64"):
        raise node.error(f"its {what} must be a vector of int32 or int64", f"{node.element(x)} {list(node.shape(x))}")
    return node.shape(x)[0]


def _bounds(node: Caffe2Node, lengths: Value) -> tuple[SSAValue, SSAValue]:
    """Returns the starts and the ends of segments, as i64 vectors."""
    wide = node.converted(lengths, i64)
    starts = node.insert(nn.CumulativeSumOp, [wide], {"axis": 0, "exclusive": True})
    return starts, node.insert(nn.AddOp, [starts, wide])


def _membership(node: Caffe2Node, lengths: Value, count: int) -> SSAValue:
    """Returns whether each of `count` elements lies in each segment, i1 [segments, count]."""
    segments = node.shape(lengths)[0]
    node.room((segments, count))
    starts, ends = (node.builder.ssa(node.reshaped(b, (segments, 1))) for b in _bounds(node, lengths))
    places = Constant(np.arange(count, dtype=np.int64).reshape(1, count))
    return node.insert(
        nn.AndOp, [node.insert(nn.LessEqualOp, [starts, places]), node.insert(nn.LessOp, [places, ends])]
    )


def _summed(node: Caffe2Node, rows: Value, lengths: Value, *, mean: bool = False) -> Value:
    """Adds the sums of the rows of each segment; or the means, 0 of a segment without rows.

    Elements that no segment has do not count, whatever they are: they are replaced by 0 before they are summed.
    """
    count, *inner = node.shape(rows)
    segments = _vector(node, lengths, "lengths")
    element = element_of(node.builder.ssa(rows))
    size = int(np.prod(inner))
    inside = _membership(node, lengths, count)
    flat = node.reshaped(rows, (count, size))
    used = node.insert(nn.ReduceMaxOp, [inside], {"axes": [0]})
    zero = Constant(np.array(0, dtype_of(element)))
    clean = node.insert(nn.WhereOp, [node.reshaped(used, (count, 1)), flat, zero])
    weights = node.converted(inside, element)
    if not mean:
        return node.reshaped(node.compute(MatMulOp, [weights, clean]), (segments, *inner))
    counts = node.converted(node.insert(nn.MaximumOp, [lengths, node.number(1, lengths)]), element)
    sums = node.insert(MatMulOp, [weights, clean])
    y = node.compute(nn.DivOp, [sums, node.reshaped(counts, (segments, 1))])
    return node.reshaped(y, (segments, *inner))


@converts("LengthsSum", "LengthsMean")
def lengths_sum(node: Caffe2Node, x: Value, lengths: Value) -> Value:
    """The sum or the mean of the rows of each segment."""
    if not node.rank(x):
        raise node.error("its data must have rows", "a scalar")
    return _summed(node, node.real(x), lengths, mean=node.kind == "LengthsMean")


@converts("LengthsToRanges")
def lengths_to_ranges(node: Caffe2Node, lengths: Value) -> Value:
    """The start and the length of each segment, [segments, 2]."""
    count = _vector(node, lengths, "lengths")
    starts = node.insert(nn.CumulativeSumOp, [lengths], {"axis": 0, "exclusive": True})
    return node.compute(ConcatOp, [[node.reshaped(v, (count, 1)) for v in (starts, lengths)]], {"axis": 1})


@converts("LengthsRangeFill")
def lengths_range_fill(node: Caffe2Node, lengths: Value, *, maxOutputSize: int | None = None) -> Value:
    """The numbers from 0 up to each length, one list behind the other; zeros up to `maxOutputSize`, which Glow adds."""
    _vector(node, lengths, "lengths")
    if maxOutputSize is None:
        raise UnsupportedError("the shape of its result is known only when it runs: it has no maxOutputSize")
    if maxOutputSize < 1:
        raise node.error("its maxOutputSize must be at least 1", str(maxOutputSize))
    starts, _ = _bounds(node, lengths)
    numbers = _within(node, lengths, starts, maxOutputSize)
    return node.compute(nn.CastOp, [numbers], element=i32)


def _within(node: Caffe2Node, lengths: Value, starts: SSAValue, count: int) -> SSAValue:
    """Returns the place of each of `count` elements in its segment, i64; 0 for elements that no segment has."""
    inside = _membership(node, lengths, count)
    places = Constant(np.arange(count, dtype=np.int64).reshape(1, count))
    own = node.insert(nn.SubOp, [places, node.reshaped(starts, (node.shape(lengths)[0], 1))])
    chosen = node.insert(nn.WhereOp, [inside, own, Constant(np.array(0, np.int64))])
    return node.builder.ssa(node.reshaped(node.insert(nn.ReduceSumOp, [chosen], {"axes": [0]}), (count,)))


@converts("GatherRanges")
def gather_ranges(
    node: Caffe2Node, x: Value, ranges: Value, *, maxOutputSize: int | None = None
) -> tuple[Value, Value]:
    """The elements of all ranges [rows, ranges, 2] of starts and lengths, and how many each row has.

    The elements are followed by zeros up to `maxOutputSize`, which Glow adds.
    """
    if maxOutputSize is None:
        raise UnsupportedError("the shape of its result is known only when it runs: it has no maxOutputSize")
    shape, size = node.shape(ranges), node.shape(x)
    if len(shape) != 3 or shape[2] != 2 or len(size) != 1 or not size[0] or maxOutputSize < 1:
        raise node.error("it needs a vector and ranges [rows, ranges, 2]", f"{list(size)} and {list(shape)}")
    rows, each, _ = shape
    parts = [sliced(node, node.builder.ssa(ranges), [0, 0, i], [rows, each, 1]) for i in (0, 1)]
    firsts, lengths = (node.reshaped(p, (rows * each,)) for p in parts)
    starts, _ = _bounds(node, lengths)
    inside = _membership(node, lengths, maxOutputSize)
    places = Constant(np.arange(maxOutputSize, dtype=np.int64).reshape(1, maxOutputSize))
    base = node.insert(nn.SubOp, [node.converted(firsts, i64), starts])
    source = node.insert(nn.AddOp, [places, node.reshaped(base, (rows * each, 1))])
    zero = Constant(np.array(0, np.int64))
    chosen = node.insert(nn.WhereOp, [inside, source, zero])
    indices = node.reshaped(node.insert(nn.ReduceSumOp, [chosen], {"axes": [0]}), (maxOutputSize,))
    used = node.reshaped(node.insert(nn.ReduceMaxOp, [inside], {"axes": [0]}), (maxOutputSize,))
    found = node.insert(GatherOp, [x, indices], {"axis": 0})
    y = node.compute(nn.WhereOp, [used, found, Constant(np.array(0, dtype_of(element_of(found))))])
    counts = node.also(nn.ReduceSumOp, [node.reshaped(lengths, (rows, each))], {"axes": [1]}, output=1)
    return y, node.reshaped(counts, (rows,))


# ---------------------------------------------------------------------------------------------------------------
# Sums of rows that indices choose, of tables of floats or of bytes with a scale and a bias for each row


_FUSED = "Fused8BitRowwise", "Fused4BitRowwise"
"""What ends the names of operators on tables of bytes, whose rows end with their scale and bias."""


@converts(
    "SparseLengthsSum", "SparseLengthsMean", "SparseLengthsMeanFused8BitRowwise",
    *(f"SparseLengthsSum{fused}" for fused in _FUSED),
)  # fmt: skip
def sparse_lengths_sum(node: Caffe2Node, x: Value, indices: Value, lengths: Value) -> Value:
    """The sum or the mean of the rows that the indices of each segment choose."""
    return _sparse(node, _table(node, x), None, indices, lengths)


@converts("SparseLengthsWeightedSum", *(f"SparseLengthsWeightedSum{fused}" for fused in _FUSED))
def sparse_lengths_weighted_sum(node: Caffe2Node, x: Value, weights: Value, indices: Value, lengths: Value) -> Value:
    """The sum of the rows that the indices of each segment choose, each times its weight."""
    return _sparse(node, _table(node, x), weights, indices, lengths)


@converts("SparseLengthsSum8BitsRowwise")
def rowwise_sum(node: Caffe2Node, x: Value, indices: Value, lengths: Value, scale_bias: Value) -> Value:
    """The sum of rows of bytes that the indices of each segment choose."""
    return _sparse(node, _rowwise(node, x, scale_bias), None, indices, lengths)


@converts("SparseLengthsWeightedSum8BitsRowwise")
def rowwise_weighted_sum(
    node: Caffe2Node, x: Value, weights: Value, indices: Value, lengths: Value, scale_bias: Value
) -> Value:
    """The sum of rows of bytes that the indices of each segment choose, each times its weight."""
    return _sparse(node, _rowwise(node, x, scale_bias), weights, indices, lengths)


def _sparse(node: Caffe2Node, table: Value, weights: Value | None, indices: Value, lengths: Value) -> Value:
    """Adds the sums of chosen rows."""
    count = _vector(node, indices, "indices")
    if not node.rank(table) or (weights is not None and node.shape(weights) != (count,)):
        raise node.error("it needs rows, and a weight for each index", node.shape(table))
    rows = node.insert(GatherOp, [node.widened(table), indices], {"axis": 0})
    if weights is not None:
        inner = [1] * (node.rank(rows) - 1)
        rows = node.insert(nn.MulOp, [rows, node.reshaped(node.real(weights), (count, *inner))])
    return _summed(node, rows, lengths, mean=node.kind.endswith("Mean") or "Mean" in node.kind)


def _bytes(node: Caffe2Node, x: Value) -> Array:
    """The bytes of a table, which must be known at import."""
    array = node.array(x, "table of bytes")
    if array.dtype != np.uint8 or array.ndim != 2:
        raise node.error("its table must be a matrix of uint8", f"{array.dtype} {list(array.shape)}")
    return array


def _rowwise(node: Caffe2Node, x: Value, scale_bias: Value) -> Value:
    """Returns a table of floats: bytes times the scale of their row, plus its bias."""
    table, parameters = _bytes(node, x), node.array(scale_bias, "scales and biases")
    if parameters.shape != (len(table), 2):
        raise node.error(f"it needs a scale and a bias for each of {len(table)} rows", parameters.shape)
    node.room(table.shape)
    scales, biases = parameters[:, :1].astype(np.float32), parameters[:, 1:].astype(np.float32)
    with np.errstate(all="ignore"):
        return Constant(table.astype(np.float32) * scales + biases)


def _fused(node: Caffe2Node, x: Value) -> Value:
    """Returns a table of floats: rows of 8-bit or 4-bit numbers, each row followed by its own scale and bias."""
    table = _bytes(node, x)
    narrow = "4Bit" in node.kind
    dtype = np.dtype("<f2" if narrow else "<f4")
    size = 2 * dtype.itemsize
    if table.shape[1] < size:
        raise node.error(f"its rows must end with {size} bytes of scale and bias", f"{table.shape[1]} bytes")
    stored, tail = table[:, :-size], np.ascontiguousarray(table[:, -size:]).view(dtype).astype(np.float32)
    node.room((len(table), stored.shape[1] * (2 if narrow else 1)))
    if narrow:
        stored = np.stack([stored & 15, stored >> 4], axis=2).reshape(len(table), -1)
    with np.errstate(all="ignore"):
        return Constant(stored.astype(np.float32) * tail[:, :1] + tail[:, 1:])


def _table(node: Caffe2Node, x: Value) -> Value:
    """Returns the table of an operator as floats."""
    return _fused(node, x) if "Fused" in node.kind else node.real(x)


# ---------------------------------------------------------------------------------------------------------------
# Dense tensors of values and their places


@converts("SparseToDense")
def sparse_to_dense(node: Caffe2Node, indices: Value, values: Value, like: Value | None = None,
                    *, output_first_dim: int = 0) -> Value:  # fmt: skip
    """Zeros with rows added at indices; as many rows as a third tensor, or the argument `output_first_dim`, has."""
    count = _vector(node, indices, "indices")
    shape = node.shape(node.real(values))
    if not shape or shape[0] != count:
        raise node.error(f"it needs a row for each of {count} indices", shape)
    if like is not None and not node.rank(like):
        raise node.error("its third input must have rows", "a scalar")
    size = output_first_dim or (node.shape(like)[0] if like is not None else 0)
    if size < 1:
        raise UnsupportedError("the shape of its result is known only when it runs")
    zeros = filled((size, *shape[1:]), np.array(0, dtype_of(element_of(node.builder.ssa(values)))))
    rows = node.reshaped(indices, (count, 1))
    return node.compute(nn.ScatterReduceNDOp, [zeros, values, rows], {"reduction": "add"})


@converts("SparseToDenseMask")
def sparse_to_dense_mask(
    node: Caffe2Node, indices: Value, values: Value, default: Value, lengths: Value | None = None, *, mask: Ints,
    return_presence_mask: bool = False,
) -> Value:  # fmt: skip
    """For each number of the mask, the value whose index is that number; the default if no index is."""
    if return_presence_mask:
        raise UnsupportedError("it returns a mask of what is present")
    count = _vector(node, indices, "indices")
    shape = node.shape(node.real(values))
    if not shape or shape[0] != count or not mask or len(set(mask)) != len(mask):
        raise node.error(f"it needs a value for each of {count} indices, and a mask of different numbers",
                         f"{list(shape)} and {list(mask)[:8]}")  # fmt: skip
    inner, ids = shape[1:], len(mask)
    if int(np.prod(node.shape(default))) != int(np.prod(inner)):
        raise node.error(f"its default must have shape {list(inner)}", node.shape(default))
    wide = node.converted(indices, i64)
    batch = 1 if lengths is None or not node.rank(lengths) else _vector(node, lengths, "lengths")
    node.room((batch, ids, count))
    wanted = Constant(np.array(mask, np.int64).reshape(1, ids, 1))
    match = node.insert(nn.EqualOp, [node.reshaped(wide, (1, 1, count)), wanted])
    if lengths is not None:
        inside = _membership(node, node.reshaped(lengths, (batch,)), count)
        match = node.insert(nn.AndOp, [match, node.reshaped(inside, (batch, 1, count))])
    # The last of several values of one index counts: the one at the greatest place.
    places = Constant(np.arange(1, count + 1, dtype=np.int64).reshape(1, 1, count))
    chosen = node.insert(nn.WhereOp, [match, places, Constant(np.array(0, np.int64))])
    last = node.insert(nn.ReduceMaxOp, [chosen], {"axes": [2]})
    first = node.reshaped(node.insert(BroadcastOp, [node.reshaped(default, inner)], {"shape": inner}), (1, *inner))
    table = node.insert(ConcatOp, [[first, values]], {"axis": 0})
    whole = (batch, ids) if lengths is not None and node.rank(lengths) else (ids,)
    return node.compute(GatherOp, [table, node.reshaped(last, whole)], {"axis": 0})


@converts("BatchSparseToDense")
def batch_sparse_to_dense(
    node: Caffe2Node, lengths: Value, indices: Value, values: Value, like: Value | None = None, *,
    dense_last_dim: int = -1, default_value: float = 0.0,
) -> Value:  # fmt: skip
    """A matrix with a row for each segment: its values at its indices, a default elsewhere."""
    batch, count = _vector(node, lengths, "lengths"), _vector(node, indices, "indices")
    columns = dense_last_dim if like is None else node.shape(like)[-1]
    if columns < 1 or node.shape(node.real(values)) != (count,):
        raise node.error(f"it needs columns, and a value for each of {count} indices",
                         f"{columns} and {list(node.shape(values))}")  # fmt: skip
    inside = _membership(node, lengths, count)
    rows = node.insert(nn.WhereOp, [inside, Constant(np.arange(batch, dtype=np.int64).reshape(-1, 1)),
                                    Constant(np.array(0, np.int64))])  # fmt: skip
    row = node.insert(nn.ReduceSumOp, [rows], {"axes": [0]})
    places = [node.reshaped(v, (count, 1)) for v in (row, node.converted(indices, i64))]
    at = node.insert(ConcatOp, [places], {"axis": 1})
    empty = filled((batch, columns), np.array(default_value, np.float32))
    return node.compute(ScatterNDOp, [empty, values, at])


@converts("FillExamplesWithIndicator")
def fill_examples(node: Caffe2Node, x: Value, indicator: Value) -> Value:
    """The rows of x at the places where the indicator is not 0, in order, and rows of 0 elsewhere."""
    count = _vector(node, indicator, "indicator")
    shape = node.shape(node.real(x))
    if not shape or not shape[0]:
        raise node.error("its data must have rows", shape)
    zero = node.insert(nn.EqualOp, [indicator, node.number(0, indicator)])
    present = node.insert(nn.NotOp, [zero])
    before = node.insert(nn.CumulativeSumOp, [node.converted(present, i64)], {"axis": 0, "exclusive": True})
    rows = node.insert(GatherOp, [x, before], {"axis": 0})
    condition = node.reshaped(present, (count, *[1] * (len(shape) - 1)))
    return node.compute(nn.WhereOp, [condition, rows, Constant(np.array(0, dtype_of(element_of(rows))))])


@converts("SparseLabelSplit")
def sparse_label_split(
    node: Caffe2Node, lengths: Value, indices: Value, values: Value, *, num_labels: int,
    keep_gradient_offset_map: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """The values of each label, then the segments that they lie in; at last the place of each value among its label's.

    How many values a label has, only the data say. Glow asks for equally many of each label.
    """
    count, segments = _vector(node, indices, "indices"), _vector(node, lengths, "lengths")
    if node.shape(values) != (count,):
        raise node.error(f"it must have a value for each of {count} indices", node.shape(values))
    if num_labels < 1:
        raise node.error("its num_labels must be at least 1", str(num_labels))
    numbers = Constant(np.arange(segments, dtype=np.int32).reshape(segments, 1))
    inside = _membership(node, lengths, count)
    owners = node.insert(nn.WhereOp, [inside, numbers, Constant(np.array(0, np.int32))])
    owner = node.reshaped(node.insert(nn.ReduceSumOp, [owners], {"axes": [0]}), (count,))
    node.room((num_labels, count))
    labels = Constant(np.arange(num_labels).reshape(num_labels, 1).astype(node.dtype(indices)))
    chosen = node.insert(nn.EqualOp, [labels, node.reshaped(indices, (1, count))])  # [labels, count]
    of_label = list[Value]()
    for label in range(num_labels):
        mask = node.reshaped(sliced(node, chosen, (label, 0), (1, count)), (count,))
        of_label.append(node.reshaped(non_zero_places(node, mask, f"label{label}"), (count,)))
    results = [node.insert(GatherOp, [x, places], {"axis": 0}) for x in (values, owner) for places in of_label]
    if not keep_gradient_offset_map:
        return tuple(results)
    order = node.insert(nn.CumulativeSumOp, [node.converted(chosen, i32)], {"axis": 1, "exclusive": True})
    own = node.insert(nn.WhereOp, [chosen, order, Constant(np.array(0, np.int32))])
    return *results, node.reshaped(node.insert(nn.ReduceSumOp, [own], {"axes": [0]}), (count,))
