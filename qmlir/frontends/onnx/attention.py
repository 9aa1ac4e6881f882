"""Attention and its masks."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn.bitwise import OrOp
from qmlir.dialects.nn.contraction import FullyConnectedOp
from qmlir.dialects.nn.elementwise import AddOp, EqualOp, LessOp, ModOp, SubOp, WhereOp
from qmlir.dialects.nn.indexing import GatherNDOp
from qmlir.dialects.nn.movement import BroadcastOp, SliceOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Ints, Value
from qmlir.frontends.onnx.movement import coordinates, known_places, scatter_rows, slice_properties
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.windows import sliced
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import dtype_of

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Operators that choose by an element's position: Trilu, OneHot, ReverseSequence, TensorScatter.


@converts("Trilu", since=14)
def triangle(node: ONNXNode, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
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
def one_hot(node: ONNXNode, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
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


def _element(node: ONNXNode, values: Value, index: int) -> Value:
    """Returns one element of a vector as a scalar."""
    if isinstance(values, Constant):
        return Constant(values.array[index])
    return node.reshaped(node.insert(SliceOp, [values], slice_properties([(index, 1, 1)])), ())


@converts("ReverseSequence", since=10)
def reverse_sequence(
    node: ONNXNode, x: Value, sequence_lens: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
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
    node: ONNXNode, x: Value, update: Value, write_indices: Value | None = None, *, axis: int = -2, mode: str = "linear"
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
    places = node.insert(BroadcastOp, [at], {"shape": listed})
    return scatter_rows(node, x, update, coordinates(node, listed, {axis: places}), "none")


# ---------------------------------------------------------------------------------------------------------------
# onnxruntime's Attention, MultiHeadAttention and RotaryEmbedding, imported as ONNX's operators of these names.
#
# ONNX defines its own Attention and RotaryEmbedding by function bodies: for Attention, matrix products around a
# softmax.


SINCE = 23
"""The operator set whose Attention and RotaryEmbedding are used."""


@converts("MultiHeadAttention", domain="com.microsoft")
def multi_head_attention(
    node: ONNXNode,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    key_padding_mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:
    """Attention over query, key and value [B, S, heads · size]; `bias` holds their three biases one after another."""
    if key is None or value is None or any(node.rank(v) != 3 for v in (query, key, value)):
        raise UnsupportedError("its query, key and value are packed, and qmlir takes them one by one, of rank 3")
    if key_padding_mask is not None or past_key is not None or past_value is not None:
        raise UnsupportedError("it has a padding mask or a past, which qmlir knows of ONNX's own Attention only")
    inputs = [query, key, value]
    if bias is not None:
        sizes = [node.shape(v)[2] for v in inputs]
        biases = zip(inputs, parts(node, bias, sizes), "qkv", strict=True)
        inputs = [node.compute(AddOp, [x, b], part=name) for x, b, name in biases]
    return _attention(node, inputs, attention_bias, num_heads, scale, unidirectional)


@converts("Attention", domain="com.microsoft")
def attention(
    node: ONNXNode,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask_index: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    qkv_hidden_sizes: Ints = (),
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:
    """Attention over the query, key and value that weights [I, Q + K + V] compute from x [B, S, I]."""
    if mask_index is not None or past is not None:
        raise UnsupportedError("it has a mask or a past, which qmlir knows of ONNX's own Attention only")
    batch, length, width = node.shape(x)
    columns = node.shape(weights)[1]
    rows = node.reshaped(x, (batch * length, width))
    packed = node.compute(FullyConnectedOp, [rows, node.moved(weights, (1, 0)), bias], part="qkv")
    every = node.reshaped(packed, (batch, length, columns))
    sizes = qkv_hidden_sizes or (columns // 3,) * 3
    return self_attention(node, every, sizes, attention_bias, num_heads, scale, unidirectional)


def self_attention(
    node: ONNXNode, packed: Value, sizes: Sequence[int], bias: Value | None, heads: int, scale: float, causal: int
) -> SSAValue:
    """Attention over query, key and value, which lie behind one another in the last dimension of [B, S, Q + K + V]."""
    return _attention(node, parts(node, node.builder.ssa(packed), sizes), bias, heads, scale, causal)


def parts(node: ONNXNode, x: Value, sizes: Sequence[int]) -> list[Value]:
    """Splits the last dimension of x into parts of the given sizes."""
    *others, total = node.shape(x)
    if sum(sizes) != total:
        raise node.error(f"its query, key and value must have {total} elements together", str(list(sizes)))
    first, found = 0, list[Value]()
    for size in sizes:
        if isinstance(x, Constant):
            found.append(Constant(x.array[..., first : first + size], x.name))
        else:
            found.append(sliced(node, x, [*(0 for _ in others), first], [*others, size]))
        first += size
    return found


def _attention(
    node: ONNXNode, inputs: Sequence[Value], bias: Value | None, heads: int, scale: float, causal: int
) -> SSAValue:
    given = [*inputs, *([] if bias is None else [bias])]
    attributes: dict[str, float] = {"q_num_heads": heads, "kv_num_heads": heads, "is_causal": causal}
    if scale:
        attributes["scale"] = scale
    return node.builder.ssa(node.operator("Attention", *given, since=SINCE, **attributes))


@converts("RotaryEmbedding", domain="com.microsoft")
def rotary_embedding(
    node: ONNXNode,
    x: Value,
    position_ids: Value,
    cos_cache: Value,
    sin_cache: Value,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """Rotates x [B, S, heads · size] or [B, heads, S, size] by the angles of its positions [B, S]."""
    if node.rank(position_ids) != 2:
        raise UnsupportedError("its positions are an offset, and qmlir takes one for each element of the sequence")
    if node.rank(x) == 3 and not num_heads:
        num_heads = node.shape(x)[2] // (2 * node.shape(cos_cache)[1])
    attributes = {"interleaved": interleaved, "num_heads": num_heads, "rotary_embedding_dim": rotary_embedding_dim}
    return node.operator("RotaryEmbedding", x, cos_cache, sin_cache, position_ids, since=SINCE, **attributes)
