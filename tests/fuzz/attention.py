"""How attention is drawn: ONNX's and onnxruntime's, linear attention, and the rotations and convolutions beside it."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fuzz.drawing import Drawing, Refused
from tests.fuzz.graphs import Node
from tests.fuzz.operators import draws


def _heads(d: Drawing, size: int) -> int:
    return d.choice([n for n in range(1, size + 1) if size % n == 0])


@draws("Attention")
def _attention(d: Drawing, operator: str) -> None:
    d.since(23)
    scale = d.choice([None, None, 0.4])
    common: dict[str, Any] = {"is_causal": d.choice([None, None, 1]), "softcap": d.choice([None, None, 2.0])}
    if d.chance(0.4):
        x = d.pick(3, 3, fits=lambda s: all(s))
        batch, length, width = d.shape_of(x)
        heads = _heads(d, width)
        d.add(operator, x, x, d.pick(3, 3, fits=lambda s: s == d.shape_of(x)), _mask(d, (batch, heads, length, length)),
              q_num_heads=heads, kv_num_heads=heads, scale=scale, **common)  # fmt: skip
        return
    x = d.pick(4, 4, fits=lambda s: all(s))
    batch, heads, length, size = d.shape_of(x)
    shared = d.choice([n for n in range(1, heads + 1) if heads % n == 0])
    keys = x if shared == heads else d.constant(d.floats((batch, shared, d.integer(1, 5), size)))
    values = d.constant(d.floats((*d.shape_of(keys)[:3], d.integer(1, 4)))) if d.chance(0.6) else keys
    mask = _mask(d, (batch, heads, length, d.shape_of(keys)[2]))
    d.add(operator, x, keys, values, mask, scale=scale, **common)


def _mask(d: Drawing, shape: tuple[int, ...]) -> str:
    """What is added to scores, which scores count, or no mask. Some score of each row counts."""
    kind = d.integer(0, 4)
    sizes = shape[d.integer(0, 2) :]
    if kind == 0:
        return d.constant(d.floats(sizes))
    if kind == 1:
        counts = d.rng.random(sizes) < 0.7
        counts[..., 0] = True
        return d.constant(counts)
    return ""


@draws("com.microsoft.MultiHeadAttention")
def _multi_head_attention(d: Drawing, operator: str) -> None:
    x = d.pick(3, 3, fits=lambda s: all(s))
    batch, length, width = d.shape_of(x)
    heads = _heads(d, width)
    other = d.constant(d.floats((batch, d.integer(1, 5), width))) if d.chance(0.4) else x
    bias = d.constant(d.floats((3 * width,))) if d.chance(0.5) else ""
    added = d.constant(d.floats((d.choice([1, batch]), heads, length, d.shape_of(other)[1]))) if d.chance(0.3) else ""
    causal = 1 if other == x and d.chance(0.3) else None
    scale = d.choice([None, 0.3])
    d.add(operator, x, other, other, bias, "", added, num_heads=heads, unidirectional=causal, scale=scale)


@draws("com.microsoft.Attention")
def _packed_attention(d: Drawing, operator: str) -> None:
    x = d.pick(3, 3, fits=lambda s: all(s))
    batch, length, inner = d.shape_of(x)
    heads = d.integer(1, 3)
    width, last = heads * d.integer(1, 3), heads * d.integer(1, 3)
    sizes = [width, width, last] if d.chance(0.3) else None
    columns = 2 * width + (last if sizes else width)
    weights, bias = d.constant(d.floats((inner, columns), 0.5)), d.constant(d.floats((columns,)))
    added = d.constant(d.floats((batch, heads, length, length))) if d.chance(0.3) else ""
    d.add(operator, x, weights, bias, "", "", added, num_heads=heads, qkv_hidden_sizes=sizes,
          unidirectional=d.choice([None, 1]), scale=d.choice([None, 0.3]))  # fmt: skip


@draws("com.microsoft.GroupQueryAttention")
def _grouped_attention(d: Drawing, operator: str) -> None:
    x = d.pick(3, 3, fits=lambda s: all(s))
    batch, length, width = d.shape_of(x)
    # onnxruntime takes heads of a multiple of 8 elements, and turns those of a multiple of 16.
    size, shared, turns = d.choice([8, 16]), d.integer(1, 2), d.chance(0.5)
    size, heads = 16 if turns else size, shared * d.integer(1, 3)
    x = d.add("MatMul", x, d.constant(d.floats((width, heads * size), 1 / np.sqrt(width))))[0]
    past = d.integer(1, 4) if (batch == 1 or length == 1) and d.chance(0.5) else 0
    keys, values = (x if shared == heads and d.chance(0.5) else d.constant(d.floats((batch, length, shared * size)))
                    for _ in range(2))  # fmt: skip
    old = [d.constant(d.floats((batch, shared, past, size))) if past else "" for _ in range(2)]
    last = d.constant(np.full(batch, past + length - 1), np.int32)
    total = d.constant(past + length, np.int32)
    angles = d.rng.uniform(-3, 3, (past + length, size // 2))
    caches = [d.constant(f(angles)) for f in (np.cos, np.sin)] if turns else []
    d.add(operator, x, keys, values, *old, last, total, *caches, outputs=3, num_heads=heads, kv_num_heads=shared,
          do_rotary=int(turns), rotary_interleaved=d.choice([None, 1]) if turns else None,
          local_window_size=d.choice([None, None, 2]), scale=d.choice([None, 0.3]),
          softcap=d.choice([None, None, 2.0]))  # fmt: skip


@draws("ai.onnx.preview.FlexAttention")
def _flexible_attention(d: Drawing, operator: str) -> None:
    d.since(18)
    x = d.pick(4, 4, fits=lambda s: all(s))
    batch, heads, length, size = d.shape_of(x)
    shared = d.choice([n for n in range(1, heads + 1) if heads % n == 0])
    keys = d.constant(d.floats((batch, shared, d.integer(1, 5), size)))
    values = d.constant(d.floats((batch, shared, d.shape_of(keys)[2], d.integer(1, 4))))
    shape = (batch, heads, length, d.shape_of(keys)[2])
    modifiers: dict[str, Any] = {name: _modifier(d, shape) for name in ("score_mod", "prob_mod") if d.chance(0.5)}
    d.add(operator, x, keys, values, scale=d.choice([None, 0.3]), **modifiers)


def _modifier(d: Drawing, shape: tuple[int, ...]) -> onnx.GraphProto:
    """A subgraph that changes scores or probabilities element by element."""
    if d.float != np.float32:
        raise Refused("halves")
    x, a, y, factor = (d.name() for _ in range(4))
    nodes = [Node("Mul", (x, factor), (a,)), Node(d.choice(["Tanh", "Softplus", "Identity"]), (a,), (y,))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in (x, y)]
    constant = onnx.numpy_helper.from_array(np.array(d.choice([0.5, 2.0]), np.float32), factor)
    return helper.make_graph([n.proto() for n in nodes], d.name(), ends[:1], ends[1:], [constant])


@draws("LinearAttention")
def _linear_attention(d: Drawing, operator: str) -> None:
    d.since(27)
    x = d.pick(3, 3, fits=lambda s: all(s) and s[1] <= 5)
    batch, length, width = d.shape_of(x)
    heads = _heads(d, width)
    size, wide = width // heads, d.integer(1, 3)
    rule = d.choice(["linear", "gated", "delta", "gated_delta"])
    values = d.constant(d.floats((batch, length, heads * wide)))
    past = d.constant(d.floats((batch, heads, size, wide))) if d.chance(0.4) else ""
    decay = d.constant(-np.abs(d.floats((batch, length, heads)))) if "gated" in rule else ""
    rate = d.constant(d.rng.uniform(0, 1, (batch, length, heads))) if "delta" in rule else ""
    d.add(operator, x, x, values, past, decay, rate, outputs=2, q_num_heads=heads, kv_num_heads=heads,
          update_rule=rule, scale=d.choice([None, 0.5]))  # fmt: skip


@draws("CausalConvWithState")
def _causal_convolution(d: Drawing, operator: str) -> None:
    d.since(27)
    x = d.pick(3, 3, fits=lambda s: all(s))
    batch, channels, _ = d.shape_of(x)
    kernel = d.integer(1, 4)
    bias = d.constant(d.floats((channels,))) if d.chance(0.5) else ""
    past = d.constant(d.floats((batch, channels, kernel - 1))) if d.chance(0.5) and kernel > 1 else ""
    activation = d.choice([None, "silu", "swish", "none"])
    d.add(operator, x, d.weights(channels, 1, kernel), bias, past, outputs=2, activation=activation)


@draws("RotaryEmbedding")
def _rotary(d: Drawing, operator: str) -> None:
    d.since(23)
    x = d.pick(4, 4, fits=lambda s: all(s) and s[3] % 2 == 0)
    n, _, length, size = d.shape_of(x)
    angles = d.rng.uniform(-3, 3, (n, length, size // 2))
    d.add(operator, x, d.constant(np.cos(angles)), d.constant(np.sin(angles)), interleaved=d.choice([None, 1]))


@draws("com.microsoft.RotaryEmbedding")
def _microsoft_rotary(d: Drawing, operator: str) -> None:
    x = d.pick(3, 3, fits=lambda s: all(s) and s[2] % 2 == 0)
    batch, length, width = d.shape_of(x)
    size = d.choice([s for s in range(2, width + 1, 2) if width % s == 0])
    angles = d.rng.uniform(-3, 3, (length + 2, size // 2))
    places = d.constant(d.rng.integers(0, length + 2, (batch, length)))
    d.add(operator, x, places, d.constant(np.cos(angles)), d.constant(np.sin(angles)),
          interleaved=d.choice([None, 1]))  # fmt: skip
