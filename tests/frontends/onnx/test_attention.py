"""onnxruntime's attention against onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest

from qmlir.backends.reference import evaluate
from tests.frontends.onnx.agreement import (
    Array,
    agree,
    assert_close,
    floats,
    load,
    main_of,
    model,
    node,
    onnxruntime_run,
    reason,
)

B, S, HEADS, SIZE = 2, 5, 2, 4
WIDTH = HEADS * SIZE


def contributed(
    proto_node: onnx.NodeProto, shapes: dict[str, list[int]], constants: dict[str, Array]
) -> onnx.ModelProto:
    """A model of an operator of onnxruntime's own."""
    proto_node.domain = "com.microsoft"
    proto = model(proto_node, shapes, constants)
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return proto


ATTRIBUTES: list[dict[str, Any]] = [{}, {"scale": 0.3}, {"unidirectional": 1}]


@pytest.mark.parametrize("attributes", ATTRIBUTES)
@pytest.mark.parametrize("inputs", ["q k v", "q k v b", "q k v _ _ m"])
def test_multi_head_attention(inputs: str, attributes: dict[str, Any]) -> None:
    constants = {"b": floats(3 * WIDTH), "m": floats(1, HEADS, S, S, seed=3)}
    shapes = {name: [B, S, WIDTH] for name in "qkv"}
    agree(contributed(node("MultiHeadAttention", inputs, num_heads=HEADS, **attributes), shapes, constants))


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_attention(attributes: dict[str, Any]) -> None:
    constants = {"w": floats(6, 3 * WIDTH) / 2, "b": floats(3 * WIDTH)}
    agree(contributed(node("Attention", "x w b", num_heads=HEADS, **attributes), {"x": [B, S, 6]}, constants))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    angles = floats(8, SIZE // 2)
    constants = {"p": np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]), "c": np.cos(angles), "s": np.sin(angles)}
    proto = contributed(node("RotaryEmbedding", "x p c s", interleaved=interleaved), {"x": [B, S, WIDTH]}, constants)
    x = floats(B, S, WIDTH)
    assert_close(evaluate(main_of(load(proto)), [x])[0], onnxruntime_run(proto, {"x": x})[0])


def test_what_is_refused() -> None:
    shapes = {name: [B, S, WIDTH] for name in "qkv"}
    lengths = {"m": np.full(B, S, np.int32)}
    assert "packed" in reason(contributed(node("MultiHeadAttention", "q", num_heads=HEADS), {"q": [B, S, WIDTH]}, {}))
    assert "a padding mask" in reason(
        contributed(node("MultiHeadAttention", "q k v _ m", num_heads=HEADS), shapes, lengths)
    )
    assert "a mask" in reason(
        contributed(node("Attention", "q w _ m", num_heads=2), {"q": [B, S, WIDTH]}, lengths | {"w": floats(WIDTH, 24)})
    )
    past = {name: [B, HEADS, 1, WIDTH // HEADS] for name in ("pk", "pv")}
    assert "a past" in reason(
        contributed(node("MultiHeadAttention", "q k v _ _ _ pk pv", num_heads=HEADS), shapes | past, {})
    )
    caches = {"c": floats(8, 2), "s": floats(8, 2), "p": np.array([0])}
    assert "an offset" in reason(contributed(node("RotaryEmbedding", "q p c s"), {"q": [B, S, WIDTH]}, caches))
