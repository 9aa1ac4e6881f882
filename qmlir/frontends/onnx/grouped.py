"""onnxruntime's GroupQueryAttention: several heads of the query share a head of key and value, which have a cache."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i64

from qmlir.dialects.nn.bitwise import AndOp
from qmlir.dialects.nn.elementwise import AddOp, LessEqualOp, LessOp, WhereOp
from qmlir.dialects.nn.movement import BroadcastOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.attention import SINCE, parts
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.quantization import MICROSOFT
from qmlir.frontends.windows import sliced
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import dtype_of

converts = Table()


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
        raise node.error(f"its seqlens_k must have {batch} elements", str(list(node.shape(seqlens_k))))
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
        raise node.error("its query must be of rank 3", str(list(node.shape(query))))
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
        raise node.error("its position_ids must be of rank 2", str(list(node.shape(positions))))
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
