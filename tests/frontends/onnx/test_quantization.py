"""QuantizeLinear and DequantizeLinear in every arrangement, against onnxruntime, bit for bit."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qmlir
from qmlir.compiler import to_integers
from qmlir.dialects.nn import ConstantOp, FullyConnectedOp
from qmlir.dialects.quant.types import quantized_element
from qmlir.errors import PipelineError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from tests.frontends.onnx.quantized_models import (
    Array,
    dequantize,
    float_operations,
    imported,
    model,
    node,
    onnxruntimes,
    parameters,
    quantize,
    results,
)

RNG = np.random.default_rng(5)

X = {"x": RNG.uniform(-3, 3, (2, 6, 5, 4)).astype(np.float32)}
P = parameters("p", 0.02, 131)
Q = parameters("q", 0.031, 117)
R = parameters("r", 0.05, 0)


def fallback(*nodes: onnx.NodeProto, last: str = "r", end: str = "f") -> list[onnx.NodeProto]:
    """x quantized by p and dequantized as `a`; the nodes; `f` quantized and dequantized as `y`."""
    return [
        quantize("x", "p", "xq"),
        dequantize("xq", "p", "a"),
        *nodes,
        quantize(end, last, "yq"),
        dequantize("yq", last, "y"),
    ]


def agrees(
    proto: onnx.ModelProto, inputs: Mapping[str, Array], floats: set[str] | None = None, *, optimized: bool = True
) -> None:
    """Our bits are onnxruntime's, and nothing but `floats` is computed in floats."""
    module = imported(proto)
    assert float_operations(module) == (floats or set())
    for ours, theirs in zip(results(module, inputs), onnxruntimes(proto, inputs, optimized=optimized), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


WEIGHTS = RNG.integers(-63, 63, (8, 6, 3, 3), np.int8)
"""No sum of two products with u8 data goes beyond 16 bits, where onnxruntime saturates on processors without VNNI."""
PER_AXIS = parameters("w", RNG.uniform(0.001, 0.01, 8), np.zeros(8), np.int8)
STEPS = (np.float32(0.02) * PER_AXIS["w_s"]).astype(np.float32)


def convolution(**constants: Array) -> onnx.ModelProto:
    weights = {"w": WEIGHTS, **PER_AXIS, **parameters("b", STEPS, np.zeros(8), np.int32)}
    weights["b"] = RNG.integers(-3000, 3000, 8, np.int32)
    nodes = fallback(
        dequantize("w", "w", "wf", axis=0),
        dequantize("b", "b", "bf", axis=0),
        node("Conv", "a wf bf", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "f"),
    )
    return model(nodes, X, ["y"], {**P, **R, **weights, **constants})


def test_convolution_with_weights_per_axis_and_a_relu() -> None:
    agrees(convolution(), X)


def test_unsigned_weights_with_a_zero_point_for_each_channel() -> None:
    """onnxruntime has no kernel for that, so it computes floats: sums may differ in their last bits."""
    proto = convolution(w=WEIGHTS.view(np.uint8), **parameters("w", PER_AXIS["w_s"], RNG.integers(90, 160, 8)))
    module = imported(proto)
    assert not float_operations(module)
    (ours,), (theirs,) = results(module, X), onnxruntimes(proto, X)
    assert np.abs(ours - theirs).max() <= 0.0501
    assert (ours == theirs).mean() > 0.99


@pytest.mark.parametrize("bits", [2, 4])
def test_narrow_weights(bits: int) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    kind = {2: getattr(TensorProto, "INT2", None), 4: TensorProto.INT4}[bits]
    if kind is None:
        pytest.skip("this onnx has no int2")
    values = RNG.integers(low, high, (8, 6, 3, 3), endpoint=True)
    zeros = helper.make_tensor("w_z", kind, [8], [0] * 8)
    nodes = fallback(dequantize("w", "w", "wf", axis=0), node("Conv", "a wf", "f", pads=[1, 1, 1, 1]))
    scales = {"w_s": PER_AXIS["w_s"] * np.float32(20)}
    packed = {"w": helper.make_tensor("w", kind, values.shape, values.reshape(-1)), "w_z": zeros}
    narrow = model(nodes, X, ["y"], {**P, **R, **scales, **packed}, opset=25 if bits == 2 else 21)
    same = model(nodes, X, ["y"], {**P, **R, **scales, "w": values.astype(np.int8), "w_z": np.zeros(8, np.int8)})
    module = imported(narrow)
    assert f"i{bits}:f32:0" in str(module).replace("uniform<", "").replace("<i", "i")
    assert not float_operations(module)
    np.testing.assert_array_equal(results(module, X)[0], onnxruntimes(same, X, optimized=True)[0])


MATRIX = {
    "m": RNG.integers(-127, 127, (4, 7), np.int8),
    **parameters("m", RNG.uniform(0.001, 0.01, 7), np.zeros(7), np.int8),
}


ARRANGEMENTS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "relu": (fallback(node("Relu", "a", "f"), last="q"), Q),
    "clip": (fallback(node("Clip", "a lo hi", "f"), last="q"), {**Q, "lo": np.float32(-1), "hi": np.float32(1.37)}),
    "sigmoid": (fallback(node("Sigmoid", "a", "f"), last="s"), parameters("s", 1 / 256, 0)),
    "another scale": (fallback(last="q", end="a"), Q),
    "reshape": (fallback(node("Reshape", "a shape", "f"), last="p"), {"shape": np.array([2, -1])}),
    "transpose": (fallback(node("Transpose", "a", "f", perm=[0, 2, 3, 1]), last="p"), {}),
    "transpose and another scale": (fallback(node("Transpose", "a", "f", perm=[3, 0, 2, 1]), last="q"), Q),
    "max pool": (fallback(node("MaxPool", "a", "f", kernel_shape=[3, 2], pads=[1, 0, 1, 0]), last="p"), {}),
    "pool, reshape, relu": (
        fallback(
            node("MaxPool", "a", "c", kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", "c shape", "d"),
            node("Relu", "d", "f"),
            last="q",
        ),
        {**Q, "shape": np.array([2, -1])},
    ),
    "global average": (fallback(node("GlobalAveragePool", "a", "f"), last="q"), Q),
    "concat of two scales": (
        fallback(quantize("a", "q", "bq"), dequantize("bq", "q", "b"), node("Concat", "a b", "f", axis=1)),
        {**Q, **R},
    ),
    "sum of two scales": (
        fallback(
            quantize("a", "q", "bq"),
            dequantize("bq", "q", "b"),
            node("Reshape", "b shape", "c"),
            node("Add", "a c", "f"),
        ),
        {**Q, **R, "shape": np.array([2, 6, 5, 4])},
    ),
    "product": (fallback(quantize("a", "q", "bq"), dequantize("bq", "q", "b"), node("Mul", "a b", "f")), {**Q, **R}),
    "pad": (
        fallback(node("Pad", "a pads zero", "f"), last="p"),
        {"pads": np.array([0, 0, 1, 2, 0, 0, 1, 0]), "zero": np.float32(0)},
    ),
    "slice": (
        fallback(node("Slice", "a b e x1", "f"), last="p"),
        {"b": np.array([1, 0]), "e": np.array([3, 2]), "x1": np.array([2, 3])},
    ),
    "product with columns' scales": (
        fallback(dequantize("m", "m", "mf", axis=1), node("MatMul", "a mf", "f")),
        {**R, **MATRIX},
    ),
    "shared dequantization": (
        fallback(node("Relu", "a", "c"), quantize("c", "q", "cq"), dequantize("cq", "q", "d"), node("Add", "a d", "f")),
        {**Q, **R},
    ),
    "two quantizations": (
        [*fallback(node("Relu", "a", "f"), last="q"), quantize("f", "r", "zq"), dequantize("zq", "r", "z"),
         node("Add", "y z", "t"), quantize("t", "p", "tq"), dequantize("tq", "p", "last")],
        {**Q, **R},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_arrangement(name: str) -> None:
    nodes, constants = ARRANGEMENTS[name]
    proto = model(nodes, X, [nodes[-1].output[0]], {**P, **constants})
    # One value under two types is computed as floats: two roundings of an integer would be two of it.
    twice = name == "two quantizations"
    agrees(proto, X, {"nn.relu"} if twice else None, optimized=twice)


def test_sums_in_a_matrix_product_are_exact() -> None:
    """Gemm with transposed weights, a bias of another rank, and a Clip that fuses."""
    weights = {"w": RNG.integers(-127, 127, (9, 4), np.int8), **parameters("w", 0.004, 0, np.int8)}
    bias = {
        "b": RNG.integers(-900, 900, (1, 9), np.int32),
        **parameters("b", np.float32(0.02) * np.float32(0.004), 0, np.int32),
    }
    nodes = [
        quantize("x", "p", "xq"), dequantize("xq", "p", "a"), node("Reshape", "a shape", "rows"),
        dequantize("w", "w", "wf"), dequantize("b", "b", "bf"), node("Gemm", "rows wf bf", "g", transB=1),
        node("Clip", "g lo hi", "f"), quantize("f", "r", "yq"), dequantize("yq", "r", "y"),
    ]  # fmt: skip
    bounds = {"shape": np.array([-1, 4]), "lo": np.float32(0), "hi": np.float32(1)}
    agrees(model(nodes, X, ["y"], {**P, **R, **weights, **bias, **bounds}), X, optimized=False)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_integers_at_both_edges(dtype: type[np.uint8 | np.int8]) -> None:
    """Arguments and results stay what they are in the model; inside there are no floats."""
    inputs = {"x": RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 8), dtype, endpoint=True)}
    nodes = [dequantize("x", "p", "a"), node("Relu", "a", "f"), quantize("f", "q", "y")]
    constants = {**parameters("p", 0.02, 31, dtype), **parameters("q", 0.017, 17, dtype)}
    proto = model(nodes, inputs, ["y"], constants)
    agrees(proto, inputs)
    assert "f32>" not in re.sub(r"!quant\.uniform<[^>]*>", "", str(to_integers(imported(proto))))


def test_an_integer_input_that_is_read_in_several_ways() -> None:
    inputs = {"x": RNG.integers(0, 255, (3, 8), np.uint8, endpoint=True)}
    nodes = [
        dequantize("x", "p", "a"), dequantize("x", "q", "b"), node("Add", "a b", "c"),
        node("Cast", "x", "d", to=TensorProto.FLOAT), node("Add", "c d", "y"),
    ]  # fmt: skip
    proto = model(nodes, inputs, ["y"], {**P, **Q})
    np.testing.assert_array_equal(results(imported(proto), inputs)[0], onnxruntimes(proto, inputs)[0])


def test_stored_integers_read_under_another_type() -> None:
    """The same bits by other parameters, and as numbers."""
    nodes = [
        quantize("x", "p", "xq"), node("Reshape", "xq shape", "flat"), dequantize("flat", "q", "y"),
        node("Cast", "flat", "n", to=TensorProto.INT32), node("Concat", "flat flat", "both", axis=0),
    ]  # fmt: skip
    proto = model(nodes, X, ["y", "n", "both"], {**P, **Q, "shape": np.array([-1])})
    agrees(proto, X)


def test_weights_quantized_in_the_model() -> None:
    """QuantizeLinear of a float constant, then DequantizeLinear; a Transpose between."""
    weights = RNG.standard_normal((7, 4)).astype(np.float32) * np.float32(0.1)
    nodes = fallback(
        quantize("w", "w", "wq", axis=0), dequantize("wq", "w", "wd", axis=0), node("Transpose", "wd", "wt"),
        node("MatMul", "a wt", "f"),
    )  # fmt: skip
    constants = {**P, **R, "w": weights, **parameters("w", RNG.uniform(0.001, 0.003, 7), np.zeros(7), np.int8)}
    proto = model(nodes, X, ["y"], constants)
    module = imported(proto)
    assert not float_operations(module)
    (ours,), (theirs,) = results(module, X), onnxruntimes(proto, X)
    assert (ours == theirs).mean() > 0.999
    assert np.abs(ours - theirs).max() <= 0.0501


def test_blocked_weights_of_a_convolution_are_a_float_fallback() -> None:
    """Those of a fully connected layer, and of windows of one element, are computed in integers: see test_blocks.py."""
    blocks = {
        "w": RNG.integers(-7, 7, (4, 64, 2, 1), np.int8),
        **parameters("w", RNG.uniform(0.01, 0.1, (4, 2, 2, 1)), np.zeros((4, 2, 2, 1)), np.int8),
    }
    inputs = {"x": RNG.standard_normal((3, 64, 2, 2)).astype(np.float32)}
    nodes = fallback(dequantize("w", "w", "wf", axis=1, block_size=32), node("Conv", "a wf", "f"))
    proto = model(nodes, inputs, ["y"], {**P, **R, **blocks})
    module = imported(proto)
    (entry,) = [e for e in qmlir.decisions(module) if e.outcome == "float"]
    assert (entry.operation, entry.code) == ("nn.conv2d", "blocked")
    assert "a scale for each block of 32" in entry.reason
    np.testing.assert_allclose(results(module, inputs)[0], onnxruntimes(proto, inputs)[0], atol=0.0501)
    # A profile does not quantize them anew.
    profile = qmlir.profile(load_onnx(proto), [inputs["x"]])
    again = qmlir.quantize(load_onnx(proto), profile)
    assert [e.code for e in qmlir.decisions(again) if e.outcome == "float"] == ["blocked"]


@pytest.mark.parametrize("spelled", [False, True])
def test_weights_alone_may_be_integers(*, spelled: bool) -> None:
    """Samples are profiled as for a float network; the integers stay, by DequantizeLinear or by Cast and Mul."""
    weights = {"w": RNG.integers(-120, 120, (6, 4), np.int8), "w_s": np.float32(0.01)}
    floats = [node("Cast", "w", "c", to=TensorProto.FLOAT), node("Mul", "c w_s", "f")]
    dequantized = floats if spelled else [node("DequantizeLinear", "w w_s", "f")]
    inputs = {"x": RNG.standard_normal((3, 6)).astype(np.float32)}
    proto = model([*dequantized, node("MatMul", "x f", "y")], inputs, ["y"], weights)
    module = qmlir.quantize(load_onnx(proto), data=[inputs["x"]])
    assert [d.outcome for d in qmlir.decisions(module)] == ["quantized"]
    (layer,) = (o for o in module.walk() if isinstance(o, FullyConnectedOp))
    assert isinstance(layer.w.owner, ConstantOp)
    np.testing.assert_array_equal(layer.w.owner.value.array, weights["w"].T)
    np.testing.assert_allclose(qmlir.reference(module)(inputs["x"]), onnxruntimes(proto, inputs)[0], atol=0.1)
    with pytest.raises(PipelineError, match="needs ranges"):
        qmlir.quantize(load_onnx(proto))


@pytest.mark.slow
def test_what_is_still_float_is_quantized_by_a_profile_around_what_is_fixed() -> None:
    """The imported types are constraints; the float half of the network gets types of its own."""
    weights = {"v": RNG.standard_normal((5, 6, 3, 3)).astype(np.float32) * np.float32(0.2)}
    fixed_half, proto = convolution(), onnx.ModelProto()
    proto.CopyFrom(fixed_half)
    proto.graph.node.extend([node("Conv", "x v", "g"), node("Relu", "g", "z")])
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights["v"], "v"))
    proto.graph.output.append(onnx.ValueInfoProto(name="z"))
    inputs = {"x": X["x"] * np.float32(0.8)}  # within the range of the imported type
    profile = qmlir.profile(load_onnx(proto), [inputs["x"], -inputs["x"]])
    module = qmlir.quantize(load_onnx(proto), profile)
    assert not float_operations(module)
    fixed = {quantized_element(r.type) for o in imported(fixed_half).walk() for r in o.results} - {None}
    assert fixed <= {quantized_element(r.type) for o in module.walk() for r in o.results}
    ours, z = results(module, inputs)
    np.testing.assert_array_equal(ours, results(imported(fixed_half, "default"), inputs)[0])
    theirs = onnxruntimes(proto, inputs)[1]
    assert np.abs(z - theirs).max() < 0.02 * np.abs(theirs).max()


@pytest.mark.parametrize("options", [{}, {"bias": "int8"}, {"precision": "int16"}])
def test_a_bias_in_integers_beside_weights_in_floats_is_quantized(options: dict[str, Any]) -> None:
    constants = {
        "v": RNG.standard_normal((4, 6)).astype(np.float32),
        "b": np.array([100, -300, 50, 7], np.int32),
        "s": np.float32(0.01),
    }
    nodes = [node("DequantizeLinear", "b s", "c"), node("Gemm", "x v c", "y", transB=1)]
    inputs = {"x": RNG.standard_normal((3, 6)).astype(np.float32)}
    proto = model(nodes, inputs, ["y"], constants, 17)
    profile = qmlir.profile(load_onnx(proto), [inputs["x"], -inputs["x"]])
    module = qmlir.quantize(load_onnx(proto), profile, **options)
    assert not float_operations(module)
    (theirs,) = onnxruntimes(proto, inputs)
    assert np.abs(results(module, inputs)[0] - theirs).max() < 0.02 * np.abs(theirs).max()


def test_saved_and_loaded_it_gives_the_same_bits(tmp_path: Path) -> None:
    """The runtime that is followed is in the text too."""
    module = imported(convolution(), "onnxruntime")
    qmlir.save(module, tmp_path / "q.mlir")
    assert 'qmlir.numerics = "onnxruntime"' in (tmp_path / "q.mlir").read_text()
    np.testing.assert_array_equal(results(qmlir.load(tmp_path / "q.mlir"), X)[0], results(module, X)[0])


def test_parameters_computed_at_run_time() -> None:
    """Of the tensor, and of an axis; quantized and back."""
    nodes = [
        node("ReduceMax", "x axes", "m", keepdims=0), node("Mul", "m step", "s"),
        node("Cast", "m", "z", to=TensorProto.UINT8),
        node("QuantizeLinear", "x s z", "q", axis=1), node("DequantizeLinear", "q s z", "y", axis=1),
        node("ReduceMax", "x", "t", keepdims=0), node("Mul", "t step", "ts"), node("QuantizeLinear", "x ts p_z", "tq"),
        node("DequantizeLinear", "tq ts p_z", "ty"),
    ]  # fmt: skip
    constants = {**P, "axes": np.array([0, 2, 3]), "step": np.float32(1 / 200)}
    agrees(model(nodes, X, ["q", "y", "tq", "ty"], constants), X, None, optimized=False)


REFUSED = {
    "a scale that is not positive": ([quantize("x", "bad", "y")], "its parameters make no quantized type"),
    "halves": ([node("QuantizeLinear", "x p_s e", "y")], "it quantizes to float16, and qmlir to integers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    nodes, message = REFUSED[name]
    constants = {**P, **parameters("bad", -1.0, 0), "e": np.array(0, np.float16)}
    report = opaque_report(load_onnx(model(nodes, X, ["y"], constants)))
    assert re.search(message, str(report))


FLOATS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "padded with a number between two steps": ([node("Pad", "a pads half", "y")], {"half": np.float32(0.51)}),
    "padded with infinity": ([node("Pad", "a pads half", "y")], {"half": np.float32(np.inf)}),
    "an average": ([node("AveragePool", "a", "y", kernel_shape=[2, 3], pads=[1, 1, 0, 1])], {}),
    "an average with the padding in it": (
        [node("AveragePool", "a", "y", kernel_shape=[2, 2], auto_pad="SAME_UPPER", count_include_pad=1)],
        {},
    ),
    "two types in one tensor": ([dequantize("xq", "q", "b"), node("Concat", "a b", "y", axis=1)], Q),
    "beside a float constant": ([node("Concat", "a c", "y", axis=1)], {"c": np.full((2, 1, 5, 4), 0.517, np.float32)}),
    "where": (
        [node("Greater", "a half", "m"), node("Where", "m a half", "y")],
        {"half": np.float32(0.51)},
    ),
    "clamped": ([node("Clip", "a half high", "y")], {"half": np.float32(-0.51), "high": np.float32(0.513)}),
}


@pytest.mark.parametrize("name", FLOATS)
def test_what_is_not_quantized_again_is_not_rounded(name: str) -> None:
    nodes, constants = FLOATS[name]
    pads = {"pads": np.array([0, 1, 0, 1, 0, 0, 2, 0])}
    proto = model([quantize("x", "p", "xq"), dequantize("xq", "p", "a"), *nodes], X, ["y"], {**P, **pads, **constants})
    (ours,), (theirs,) = results(imported(proto), X), onnxruntimes(proto, X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


MOVERS = [node("Pad", "a pads half", "f"), node("AveragePool", "a", "f", kernel_shape=[2, 3])]


@pytest.mark.parametrize("mover", MOVERS, ids=lambda n: n.op_type)
def test_a_result_that_is_read_in_integers_and_in_floats_is_not_rounded_for_the_latter(mover: onnx.NodeProto) -> None:
    constants = {**P, **R, "pads": np.array([0, 1, 0, 1, 0, 0, 2, 0]), "half": np.float32(0.51)}
    proto = model(fallback(mover), X, ["y", "f"], constants)
    ours, theirs = results(imported(proto), X), onnxruntimes(proto, X)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)
    assert np.abs(ours[0] - theirs[0]).max() <= 0.0501


@pytest.mark.parametrize("value", [0.17, 0.23, 0.25, -0.39, np.inf])
def test_what_a_pad_fills_with_is_rounded_as_the_quantization_behind_it_rounds(value: float) -> None:
    """0.17 / 0.02 is a tie in float32 and none in float64."""
    constants = {**P, "pads": np.array([0, 1, 0, 1, 0, 0, 2, 0]), "value": np.float32(value)}
    agrees(model(fallback(node("Pad", "a pads value", "f"), last="p"), X, ["y"], constants), X, optimized=False)


@pytest.mark.parametrize(("kind", "scale"), [("Sub", 0.013), ("Div", 1.0)])
def test_operands_that_are_stored_as_integers_stay_so(kind: str, scale: float) -> None:
    """Only a constant of floats is negated or inverted: no range is known for what that would be."""
    stored = np.array([1, 2, 4, 8], np.int8)
    constants = {"c": stored} | P | R | parameters("s", scale, 0, np.int8)
    nodes = fallback(dequantize("c", "s", "d"), node(kind, "a d", "f"))
    module = imported(model(nodes, X, ["y"], constants), "default")
    assert not float_operations(module)
    (theirs,) = onnxruntimes(model(nodes, X, ["y"], constants), X)
    assert np.abs(results(module, X)[0] - theirs).max() <= 0.0501


@pytest.mark.parametrize("order", ["xq cq", "cq xq", "cq dq"])
def test_integers_that_are_clipped_are_joined_with_others(order: str) -> None:
    bounds = {"lo": np.uint8(120), "hi": np.uint8(150), "low": np.uint8(100), "high": np.uint8(140)}
    nodes = [
        quantize("x", "p", "xq"),
        node("Clip", "xq lo hi", "cq"),
        node("Clip", "xq low high", "dq"),
        node("Concat", order, "jq", axis=1),
        dequantize("jq", "p", "y"),
    ]
    agrees(model(nodes, X, ["y"], {**P, **{n: np.array(v) for n, v in bounds.items()}}), X)
