"""Attention and its masks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn.bitwise import AndOp, OrOp
from qmlir.dialects.nn.contraction import FullyConnectedOp
from qmlir.dialects.nn.elementwise import AddOp, EqualOp, LessEqualOp, LessOp, ModOp, SubOp, WhereOp
from qmlir.dialects.nn.indexing import GatherNDOp
from qmlir.dialects.nn.movement import BroadcastOp, SliceOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Ints, Value
from qmlir.frontends.onnx.movement import coordinates, known_places, scatter_rows, slice_properties
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import MICROSOFT
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
        raise node.error("it needs matrices", shape)
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
    node: ONNXNode, query: Value, key: Value | None = None, value: Value | None = None, bias: Value | None = None,
    key_padding_mask: Value | None = None, attention_bias: Value | None = None, past_key: Value | None = None,
    past_value: Value | None = None, *, mask_filter_value: float = -10000.0, num_heads: int, scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:  # fmt: skip
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
    node: ONNXNode, x: Value, weights: Value, bias: Value | None = None, mask_index: Value | None = None,
    past: Value | None = None, attention_bias: Value | None = None, *, mask_filter_value: float = -10000.0,
    num_heads: int, qkv_hidden_sizes: Ints = (), scale: float = 0.0, unidirectional: int = 0,
) -> Value:  # fmt: skip
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
        raise node.error(f"its query, key and value must have {total} elements together", sizes)
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
    node: ONNXNode, x: Value, position_ids: Value, cos_cache: Value, sin_cache: Value, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0,
) -> Value:  # fmt: skip
    """Rotates x [B, S, heads · size] or [B, heads, S, size] by the angles of its positions [B, S]."""
    if node.rank(position_ids) != 2:
        raise UnsupportedError("its positions are an offset, and qmlir takes one for each element of the sequence")
    if node.rank(x) == 3 and not num_heads:
        num_heads = node.shape(x)[2] // (2 * node.shape(cos_cache)[1])
    attributes = {"interleaved": interleaved, "num_heads": num_heads, "rotary_embedding_dim": rotary_embedding_dim}
    return node.operator("RotaryEmbedding", x, cos_cache, sin_cache, position_ids, since=SINCE, **attributes)


# ---------------------------------------------------------------------------------------------------------------
# onnxruntime's GroupQueryAttention: several heads of the query share a head of key and value, which have a cache.


@dataclass(frozen=True)
class _Positions:
    """Where the new keys of each element of the batch stand among all keys.

    starts  the number of keys before them: one integer for all elements, or integers [B] computed at run time
    new     the number of new keys
    total   the number of all keys, those of the cache included
    """

    starts: int | Value
    new: int
    total: int

    def rows(self, node: ONNXNode) -> Value:
        """Returns the position of each new key: [1, S], or [B, S] if the starts are computed at run time."""
        steps = np.arange(*node.room((self.new,)))[None]
        if isinstance(self.starts, int):
            return Constant(steps + self.starts)
        batch = node.shape(self.starts)[0]
        return node.insert(AddOp, [node.reshaped(self.starts, (batch, 1)), Constant(steps)])


@converts("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    node: ONNXNode, query: Value, key: Value | None = None, value: Value | None = None, past_key: Value | None = None,
    past_value: Value | None = None, seqlens_k: Value | None = None, total_sequence_length: Value | None = None,
    cos_cache: Value | None = None, sin_cache: Value | None = None, position_ids: Value | None = None,
    attention_bias: Value | None = None, *,
    do_rotary: int = 0, k_quant_type: str = "NONE", kv_cache_bit_width: int = 0, kv_num_heads: int,
    local_window_size: int = -1, num_heads: int, qk_output: int = 0, rotary_interleaved: int = 0, scale: float = 0.0,
    smooth_softmax: int = 0, softcap: float = 0.0, v_quant_type: str = "NONE",
) -> tuple[Value, ...]:  # fmt: skip
    """Causal attention of query [B, S, heads · size] over key and value [B, S, kv_heads · size] and over their past.

    Without a past, rows beyond `seqlens_k` are computed like the others: no other row reads them.

    Returns:
        The result [B, S, heads · size], and the key and the value with their past [B, kv_heads, T, size].
    """
    if smooth_softmax > 0 or qk_output:
        raise UnsupportedError("it smooths its softmax or gives its scores, which qmlir does not know")
    if kv_cache_bit_width or {k_quant_type, v_quant_type} != {"NONE"}:
        raise UnsupportedError("its cache is quantized, and qmlir's is floats")
    if seqlens_k is None or total_sequence_length is None:
        raise node.error("it needs seqlens_k and total_sequence_length", "none")
    if kv_num_heads < 1 or num_heads % kv_num_heads:
        raise node.error(f"its heads must be a multiple of {kv_num_heads}", str(num_heads))
    inputs = _separated(node, query, key, value, num_heads, kv_num_heads)
    batch, heads, length, _ = node.shape(inputs[0])
    if int(np.prod(node.shape(seqlens_k))) != batch:
        raise node.error(f"its seqlens_k must have {batch} elements", node.shape(seqlens_k))
    for name, x in (("seqlens_k", seqlens_k), ("position_ids", position_ids)):
        if x is not None and node.element(x) not in ("i32", "i64"):
            raise node.error(f"its {name} must be integers of 32 or 64 bits", node.element(x))
    if (past_key is None) != (past_value is None):
        raise node.error("its past must have a key and a value", "one of them")
    past = 0 if past_key is None else node.shape(past_key)[2]
    at = _positions(node, seqlens_k, total_sequence_length, length, past)
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise node.error("its rotations need cos_cache and sin_cache", "none")
        places = _spread(node, at.rows(node) if position_ids is None else _given(node, position_ids, at), batch)
        inputs[:2] = (_rotated(node, x, cos_cache, sin_cache, places, rotary_interleaved) for x in inputs[:2])
    queries, *present = inputs
    if past and past_key is not None and past_value is not None:
        present = [_behind(node, old, x, at) for old, x in zip((past_key, past_value), present, strict=True)]
    mask = _mask(node, at, local_window_size)
    addend = mask if attention_bias is None else _masked(node, mask, attention_bias)
    attributes = {name: number for name, number in (("scale", scale), ("softcap", softcap)) if number}
    y = node.operator("Attention", queries, *present, addend, since=SINCE, **attributes)
    result = node.reshaped(node.permuted(y, (0, 2, 1, 3)), (batch, length, heads * node.shape(y)[3]))
    return (result, *present)


def _separated(
    node: ONNXNode, query: Value, key: Value | None, value: Value | None, heads: int, shared: int
) -> list[Value]:
    """Returns query, key and value as [B, heads, S, size], from three tensors or from one that holds them all."""
    if node.rank(query) != 3:
        raise node.error("its query must be of rank 3", node.shape(query))
    inputs: list[Value] = [query]
    if key is None or value is None:
        width = node.shape(query)[2]
        if width % (heads + 2 * shared):
            raise node.error(f"its packed query must hold {heads + 2 * shared} heads", f"{width} elements")
        size = width // (heads + 2 * shared)
        inputs = parts(node, query, (heads * size, shared * size, shared * size))
    else:
        inputs += [key, value]
    found: list[Value] = []
    for x, count in zip(inputs, (heads, shared, shared), strict=True):
        batch, length, width = node.shape(x)
        if width % count:
            raise node.error(f"its query, key and value must be of {count} heads", f"{width} elements")
        found.append(node.permuted(node.reshaped(x, (batch, length, count, width // count)), (0, 2, 1, 3)))
    return found


def _positions(node: ONNXNode, seqlens: Value, total: Value, new: int, past: int) -> _Positions:
    """Returns the positions that `seqlens_k`, the number of keys of each element minus 1, and the total length say."""
    if not past and not isinstance(total, Constant):
        return _Positions(0, new, new)
    (count,) = node.ints(total, "total_sequence_length")
    if count == new:
        # As in onnxruntime, these are the first tokens, whatever the past holds.
        if past > 0:
            raise UnsupportedError(f"it has the first {new} tokens, and a past of {past} that is not read")
        return _Positions(0, new, new)
    if count < new or not past:
        raise node.error(f"its total_sequence_length must be {new} and that of its past", str(count))
    whole = max(count, past)
    if isinstance(seqlens, Constant):
        starts = np.unique(seqlens.array.astype(np.int64) + 1 - new)
        if starts.min() < 0 or starts.max() + new > whole:
            raise node.error(f"its seqlens_k must lie in [{new - 1}, {whole - 1}]", str(seqlens.array.tolist()))
        if len(starts) == 1:
            return _Positions(int(starts[0]), new, whole)
    wide = node.reshaped(node.converted(seqlens, i64), (int(np.prod(node.shape(seqlens))),))
    return _Positions(node.insert(AddOp, [wide, Constant(np.array(1 - new))]), new, whole)


def _given(node: ONNXNode, positions: Value, at: _Positions) -> Value:
    """Returns the positions by which new keys rotate: as given, except that the first tokens count from the first.

    onnxruntime reads only the first element of the first tokens' positions.
    """
    if node.rank(positions) != 2:
        raise node.error("its position_ids must be of rank 2", node.shape(positions))
    if at.total > at.new:
        return positions
    steps = np.arange(*node.room((at.new,)))[None]
    if isinstance(positions, Constant):
        return Constant(positions.array.reshape(-1)[0] + steps)
    return node.insert(AddOp, [sliced(node, node.builder.ssa(positions), [0, 0], [1, 1]), Constant(steps)])


def _spread(node: ONNXNode, positions: Value, batch: int) -> Value:
    """Returns positions [1, S] or [B, S] as [B, S]."""
    shape = (batch, node.shape(positions)[1])
    if isinstance(positions, Constant):
        return Constant(np.broadcast_to(positions.array, shape))
    return positions if node.shape(positions) == shape else node.insert(BroadcastOp, [positions], {"shape": shape})


def _rotated(node: ONNXNode, x: Value, cos: Value, sin: Value, positions: Value, interleaved: int) -> Value:
    dimensions = 2 * node.shape(cos)[1]
    attributes = {
        "interleaved": interleaved,
        "rotary_embedding_dim": 0 if dimensions == node.shape(x)[3] else dimensions,
    }
    return node.operator("RotaryEmbedding", x, cos, sin, positions, since=SINCE, **attributes)


def _behind(node: ONNXNode, past: Value, x: Value, at: _Positions) -> Value:
    """Writes new keys or values behind those of the past: [B, kv_heads, T, size]."""
    batch, heads, length, size = node.shape(past)
    if at.starts == length and at.total == length + at.new:
        return node.operator("Concat", past, x, since=13, axis=2)
    if at.total > length:
        room = Constant(np.zeros((batch, heads, at.total - length, size), dtype_of(element_of(node.builder.ssa(x)))))
        past = node.operator("Concat", past, room, since=13, axis=2)
    starts = Constant(np.full(batch, at.starts)) if isinstance(at.starts, int) else at.starts
    return node.newest("TensorScatter", past, x, starts, axis=2)


def _mask(node: ONNXNode, at: _Positions, window: int) -> Value:
    """Returns which keys each query reads, [1, 1, S, T] or [B, 1, S, T]: its own and those in a window before it."""
    keys = Constant(np.arange(*node.room((at.total,))))
    rows = at.rows(node)
    if isinstance(rows, Constant):
        places = rows.array[:, None, :, None]
        read = keys.array <= places
        return Constant(read & (keys.array > places - window) if window > 0 else read)
    batch, length = node.shape(rows)
    places = node.reshaped(rows, (batch, 1, length, 1))
    read = node.insert(LessEqualOp, [keys, places])
    if window <= 0:
        return read
    first = node.insert(AddOp, [places, Constant(np.array(-window))])
    return node.insert(AndOp, [read, node.insert(LessOp, [first, keys])])


def _masked(node: ONNXNode, mask: Value, bias: Value) -> Value:
    """Returns the bias where the mask holds, and elsewhere −∞."""
    never = Constant(np.array(-np.inf, dtype_of(element_of(node.builder.ssa(bias)))))
    return node.insert(WhereOp, [mask, bias, never])
