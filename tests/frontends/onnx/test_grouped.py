"""onnxruntime's GroupQueryAttention against onnxruntime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.errors import NodeError
from tests.conftest import crossed
from tests.frontends.onnx.agreement import Array, assert_close, floats, load, main_of, node, onnxruntime_run, reason
from tests.frontends.onnx.test_attention import contributed

B, S, HEADS, SHARED, SIZE = 2, 4, 4, 2, 16
NEW = {"q": [B, S, HEADS * SIZE], "k": [B, S, SHARED * SIZE], "v": [B, S, SHARED * SIZE]}
ANGLES = floats(16, SIZE // 2, seed=9)
CACHES = {"c": np.cos(ANGLES), "s": np.sin(ANGLES)}
PRESENT = "y present_key present_value"


def attention(
    inputs: str, shapes: Mapping[str, list[int]], constants: Mapping[str, Array], **attributes: Any
) -> onnx.ModelProto:
    """A model whose integers are constants, unless `shapes` has them."""
    heads = {"num_heads": HEADS, "kv_num_heads": SHARED}
    given = {name: constants[name] for name in inputs.split() if name in constants and name not in shapes}
    proto = contributed(node("GroupQueryAttention", inputs, PRESENT, **heads | attributes), dict(shapes), given)
    proto.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in PRESENT.split()[1:])
    for tensor in proto.graph.input:
        if tensor.name in ("lens", "places"):
            integer = TensorProto.INT32 if tensor.name == "lens" else TensorProto.INT64
            tensor.type.tensor_type.elem_type = integer
    return proto


def agree(proto: onnx.ModelProto, integers: Mapping[str, Array] | None = None) -> None:
    names = [(t.name, [d.dim_value for d in t.type.tensor_type.shape.dim]) for t in proto.graph.input]
    arrays = {name: floats(*shape, seed=i) for i, (name, shape) in enumerate(names)} | dict(integers or {})
    ours = evaluate(main_of(load(proto)), [arrays[name] for name, _ in names])
    for got, wanted in zip(ours, onnxruntime_run(proto, arrays), strict=True):
        assert_close(got, wanted)


def lengths(last: list[int], total: int) -> dict[str, Array]:
    return {"lens": np.array(last, np.int32) - 1, "total": np.array(total, np.int32)}


ATTRIBUTES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "softcap": {"softcap": 2.0},
    "window": {"local_window_size": 2},
    "no smoothing": {"smooth_softmax": 0},
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_first_tokens(name: str) -> None:
    agree(attention("q k v _ _ lens total", NEW, lengths([S, S], S), **ATTRIBUTES[name]))


def test_one_tensor_of_query_key_and_value() -> None:
    agree(attention("q _ _ _ _ lens total", {"q": [B, S, (HEADS + 2 * SHARED) * SIZE]}, lengths([S, S], S)))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotations(interleaved: int) -> None:
    inputs = "q k v _ _ lens total c s"
    agree(attention(inputs, NEW, lengths([S, S], S) | CACHES, do_rotary=1, rotary_interleaved=interleaved))


def test_lengths_of_run_time() -> None:
    """All rows that a sequence has agree; onnxruntime leaves the others undefined."""
    proto = attention("q k v _ _ lens total", NEW | {"lens": [B]}, lengths([S, S], S))
    arrays = {name: floats(*shape, seed=i) for i, (name, shape) in enumerate(NEW.items())}
    arrays["lens"] = np.array([S - 1, 1], np.int32)
    ours, theirs = evaluate(main_of(load(proto)), list(arrays.values())), onnxruntime_run(proto, arrays)
    assert_close(ours[0][0], theirs[0][0])
    assert_close(ours[0][1, :2], theirs[0][1, :2])


PAST = 3


def behind(new: int, past: int = PAST, batch: int = 1) -> dict[str, list[int]]:
    """The shapes of new tokens and of their past; onnxruntime takes several new tokens of a batch of 1 only."""
    shapes = {name: [batch, new, shape[2]] for name, shape in NEW.items()}
    return shapes | {"pk": [batch, SHARED, past, SIZE], "pv": [batch, SHARED, past, SIZE]}


@crossed({"new": [1, 2], "known": [True, False], "name": ATTRIBUTES})
def test_past(new: int, known: bool, name: str) -> None:
    total = PAST + new
    batch = 1 if new > 1 else B
    sizes = lengths([total] * batch, total)
    shapes = behind(new, batch=batch) | ({} if known else {"lens": [batch]})
    proto = attention("q k v pk pv lens total c s", shapes, sizes | CACHES, do_rotary=1, **ATTRIBUTES[name])
    agree(proto, {} if known else {"lens": sizes["lens"]})


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size", [SIZE, 2 * SIZE])
def test_rotations_from_a_given_position(size: int, known: bool) -> None:
    """Heads that rotate as a whole, and heads of 32 elements of which 16 rotate."""
    shapes = {name: [B, S, shape[2] * size // SIZE] for name, shape in NEW.items()}
    positions = {"places": np.array([[3, 4, 5, 6], [5, 6, 8, 2]])}
    constants = lengths([S, S], S) | CACHES | positions
    inputs = "q k v _ _ lens total c s places"
    agree(
        attention(inputs, shapes | ({} if known else {"places": [B, S]}), constants, do_rotary=1),
        {} if known else positions,
    )


@pytest.mark.parametrize("positions", [[[9, 1]], [[9], [2]]])
def test_rotations_at_given_positions(positions: list[list[int]]) -> None:
    batch, new = len(positions), len(positions[0])
    constants = lengths([PAST + new] * batch, PAST + new) | CACHES | {"places": np.array(positions)}
    agree(attention("q k v pk pv lens total c s places", behind(new, batch=batch), constants, do_rotary=1))


@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_bias_and_past(softcap: float) -> None:
    shapes = behind(2) | {"m": [1, HEADS, 2, PAST + 2]}
    agree(attention("q k v pk pv lens total _ _ _ m", shapes, lengths([5], 5), softcap=softcap))


def test_bias() -> None:
    agree(attention("q k v _ _ lens total _ _ _ m", NEW | {"m": [1, 1, S, S]}, lengths([S, S], S)))


@pytest.mark.parametrize("known", [True, False])
def test_sequences_of_several_lengths(known: bool) -> None:
    """The cache is longer than the keys; what it holds behind a sequence is not read."""
    sizes = lengths([6, 4], 6)
    shapes = behind(1, past=8, batch=B) | ({} if known else {"lens": [B]})
    proto = attention("q k v pk pv lens total c s", shapes, sizes | CACHES, do_rotary=1)
    del proto.graph.output[1:]
    agree(proto, {} if known else {"lens": sizes["lens"]})


def test_machine_code_appends_to_sequences_of_several_lengths() -> None:
    """The lengths come at run time; every key and value of the result agrees, too."""
    total = PAST + 1
    proto = attention(
        "q k v pk pv lens total c s", behind(1, batch=B) | {"lens": [B]}, lengths([total] * B, total) | CACHES,
        do_rotary=1, local_window_size=3,
    )  # fmt: skip
    shapes = behind(1, batch=B)
    arrays = {name: floats(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    arrays["lens"] = np.array([total - 1, total - 2], np.int32)
    module, wanted = load(proto), onnxruntime_run(proto, arrays)
    for ours, reference, theirs in zip(
        qmlir.compile(module).run(arrays), qmlir.reference(module).run(arrays), wanted, strict=True
    ):
        np.testing.assert_array_equal(ours, reference)
        assert_close(np.asarray(ours), theirs)


def test_what_is_refused() -> None:
    sizes = lengths([S, S], S)
    assert "smooths" in reason(attention("q k v _ _ lens total", NEW, sizes, smooth_softmax=1))
    assert "12 inputs" in reason(attention("q k v _ _ lens total _ _ _ _ sink", NEW, sizes | {"sink": floats(4)}))
    norms = {"qn": floats(4), "kn": floats(4)}
    assert "14 inputs" in reason(attention("q k v _ _ lens total _ _ _ _ _ qn kn", NEW, sizes | norms))
    assert "cache is quantized" in reason(attention("q k v _ _ lens total", NEW, sizes, kv_cache_bit_width=8))
    assert "not read" in reason(attention("q k v pk pv lens total", behind(S, batch=B), sizes))
    with pytest.raises(NodeError, match="its seqlens_k must have 2 elements"):
        load(attention("q k v _ _ lens total", NEW, lengths([S], S)))
    with pytest.raises(NodeError, match="its total_sequence_length must be"):
        load(attention("q k v _ _ lens total", NEW, lengths([S, S], S + 1)))
    with pytest.raises(NodeError, match="its seqlens_k must lie in"):
        load(attention("q k v pk pv lens total", behind(1), lengths([9], 4)))
    with pytest.raises(NodeError, match="a key and a value"):
        load(attention("q k v pk _ lens total", behind(1), lengths([4], 4)))
    with pytest.raises(NodeError, match="its seqlens_k must be integers"):
        load(attention("q k v _ _ lens total", NEW, sizes | {"lens": floats(B)}))
    places = {"places": floats(B, S)}
    with pytest.raises(NodeError, match="its position_ids must be integers"):
        load(attention("q k v _ _ lens total c s places", NEW, sizes | CACHES | places, do_rotary=1))
    with pytest.raises(NodeError, match="heads must be a multiple"):
        load(attention("q k v _ _ lens total", NEW, sizes, kv_num_heads=3))
    unknown = attention("q k v pk pv lens total", behind(1) | {"total": []}, lengths([4], 4))
    unknown.graph.input[-1].type.tensor_type.elem_type = TensorProto.INT32
    assert "total_sequence_length" in reason(unknown)
