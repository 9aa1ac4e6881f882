"""onnxruntime's Attention, MultiHeadAttention and RotaryEmbedding, imported as ONNX's operators of these names.

ONNX defines its own Attention and RotaryEmbedding by function bodies: for Attention, matrix products around a softmax.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import FullyConnectedOp
from qmlir.dialects.nn.elementwise import AddOp
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.values import Constant, Ints, Refusal, Value
from qmlir.frontends.windows import sliced

SINCE = 23
"""The operator set whose Attention and RotaryEmbedding are used."""


@converts("MultiHeadAttention", domain="com.microsoft")
def multi_head_attention(
    node: Node,
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
        raise Refusal("its query, key and value are packed, and qmlir takes them one by one, of rank 3")
    if key_padding_mask is not None or past_key is not None or past_value is not None:
        raise Refusal("it has a padding mask or a past, which qmlir knows of ONNX's own Attention only")
    inputs = [query, key, value]
    if bias is not None:
        sizes = [node.shape(v)[2] for v in inputs]
        parts = zip(inputs, _parts(node, bias, sizes), "qkv", strict=True)
        inputs = [node.compute(AddOp, [x, b], part=name) for x, b, name in parts]
    return _attention(node, inputs, attention_bias, num_heads, scale, unidirectional)


@converts("Attention", domain="com.microsoft")
def attention(
    node: Node,
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
        raise Refusal("it has a mask or a past, which qmlir knows of ONNX's own Attention only")
    batch, length, width = node.shape(x)
    columns = node.shape(weights)[1]
    rows = node.reshaped(x, (batch * length, width))
    packed = node.compute(FullyConnectedOp, [rows, node.moved(weights, (1, 0)), bias], part="qkv")
    every = node.builder.ssa(node.reshaped(packed, (batch, length, columns)))
    sizes = qkv_hidden_sizes or (columns // 3,) * 3
    return _attention(node, _parts(node, every, sizes), attention_bias, num_heads, scale, unidirectional)


def _parts(node: Node, x: Value, sizes: Sequence[int]) -> list[Value]:
    """Splits the last dimension of x into parts of the given sizes."""
    *others, total = node.shape(x)
    if sum(sizes) != total:
        raise node.error(f"its query, key and value must have {total} elements together", str(list(sizes)))
    first, parts = 0, list[Value]()
    for size in sizes:
        if isinstance(x, Constant):
            parts.append(Constant(x.array[..., first : first + size], x.name))
        else:
            parts.append(sliced(node, x, [*(0 for _ in others), first], [*others, size]))
        first += size
    return parts


def _attention(
    node: Node, inputs: Sequence[Value], bias: Value | None, heads: int, scale: float, causal: int
) -> SSAValue:
    given = [*inputs, *([] if bias is None else [bias])]
    attributes: dict[str, float] = {"q_num_heads": heads, "kv_num_heads": heads, "is_causal": causal}
    if scale:
        attributes["scale"] = scale
    assert node.bodies is not None
    return node.builder.ssa(node.bodies.operator("Attention", given, since=SINCE, **attributes))


@converts("RotaryEmbedding", domain="com.microsoft")
def rotary_embedding(
    node: Node,
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
        raise Refusal("its positions are an offset, and qmlir takes one for each element of the sequence")
    if node.rank(x) == 3 and not num_heads:
        num_heads = node.shape(x)[2] // (2 * node.shape(cos_cache)[1])
    attributes = {"interleaved": interleaved, "num_heads": num_heads, "rotary_embedding_dim": rotary_embedding_dim}
    assert node.bodies is not None
    return node.bodies.operator("RotaryEmbedding", [x, cos_cache, sin_cache, position_ids], since=SINCE, **attributes)
