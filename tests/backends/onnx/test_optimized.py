"""Files that onnxruntime's default optimizations once refused, or made operators of that have other results."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.backends.onnx.propagation import PASSED
from qmlir.policies.runtimes import follow
from tests.backends.onnx.runtime import SATURATING, computed, exported, kinds, session
from tests.backends.quantized_text import network
from tests.frontends.onnx.agreement import load, model, node

pytestmark = SATURATING

FORMATS = {"onnx-qdq": "default", "onnx-qoperator": "onnxruntime", "onnx-integer": "default"}

X = np.random.default_rng(0).normal(size=(1, 3, 6, 6)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 4, 2, 2)).astype(np.float32)
RELU, SHAPES = node("Relu", "x", "a"), {"x": X.shape}

MODELS = {
    "transposed convolution": model(node("ConvTranspose", "x w", strides=[2, 2]), SHAPES, {"w": W}),
    "transpose": model([RELU, node("Transpose", "a", perm=[0, 2, 3, 1])], SHAPES),
    "reshape": model([RELU, node("Reshape", "a s")], SHAPES, {"s": np.array([1, 4, 27])}),
    "slice": model(
        [RELU, node("Slice", "a b e")], SHAPES, {"b": np.array([0, 0, 1, 1]), "e": np.array([1, 3, 6, 5])}
    ),
    "read on floats": model(
        [RELU, node("MaxPool", "a", "b", kernel_shape=[2, 2]), node("Transpose", "b", "c", perm=[0, 1, 3, 2]),
         node("Sin", "c")], SHAPES,
    ),
    "largest": model([RELU, node("ArgMax", "a", axis=1)], SHAPES),
    "smallest": model([RELU, node("ArgMin", "a", axis=1)], SHAPES),
    "dilated average": model(node("AveragePool", "x", kernel_shape=[2, 2], dilations=[2, 2]), SHAPES),
}  # fmt: skip
for name in ("largest", "smallest"):
    MODELS[name].graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64


BYTES_ONLY = {"transposed convolution", "read on floats"}
"""Models of which onnx-integer refuses 16 bits: it has neither products nor pools of them."""


@pytest.mark.parametrize(("precision", "opset"), [("int8", 20), ("int8", None), ("uint8", None), ("int16", None)])
@pytest.mark.parametrize("name", MODELS)
def test_optimizations_change_nothing(name: str, precision: str, opset: int | None, tmp_path: Path) -> None:
    module = qmlir.quantize(load(MODELS[name]), data=[X], precision=precision)
    for form, numerics in FORMATS.items():
        if form == "onnx-integer" and precision == "int16" and name in BYTES_ONLY:
            continue
        follow(module, numerics)
        for activations in ("uint8", "kept"):
            options: dict[str, Any] = {"opset": opset, "activations": activations}
            exported(module, tmp_path / "m.onnx", format=form, **options)
            plain, optimized = (computed(session(tmp_path / "m.onnx", optimized=o), [X])[0] for o in (False, True))
            step = np.diff(np.unique(plain)).min(initial=1.0) if plain.dtype.kind == "f" else 0
            np.testing.assert_allclose(optimized, plain, rtol=0, atol=0 if form == "onnx-integer" else 1.01 * step)
            (ours,) = qmlir.reference(module).run(X)
            np.testing.assert_allclose(plain, ours, rtol=1e-6, atol=0 if form == "onnx-integer" else 1.01 * step)


@pytest.mark.parametrize("kind", sorted(PASSED))
def test_what_is_moved_is_quantized_again(kind: str, tmp_path: Path) -> None:
    """The operators are those that onnxruntime moves a DequantizeLinear past, and refuses the result."""
    attributes: dict[str, Any] = {"MaxPool": {"kernel_shape": [1, 1]}, "Transpose": {"perm": [0, 2, 1, 3]}}
    second = {"Reshape": [1, 3, 36, 1], "Squeeze": [0], "Unsqueeze": [0], "Slice": [0]}
    constants: dict[str, Any] = {"s": np.float32(0.1), "z": np.int8(0), "i": np.array(second.get(kind, [0]))}
    constants["end"] = np.array([1])
    operands = {"Slice": "a i end", "MaxPool": "a", "Transpose": "a"}.get(kind, "a i")
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "a")]
    nodes += [node(kind, operands, "b", **attributes.get(kind, {})), node("Sin", "b")]
    onnx.save(model(nodes, SHAPES, constants), str(tmp_path / "m.onnx"))
    with pytest.raises(Exception, match="output_dtype INT8 does not match"):
        session(tmp_path / "m.onnx", optimized=True)


def test_a_pair_that_is_there_is_not_added(tmp_path: Path) -> None:
    """Unsigned bytes, and operator sets in which QuantizeLinear does not state its type, need none."""
    module = qmlir.quantize(load(MODELS["transpose"]), data=[X], precision="int8")
    follow(module, "onnxruntime")
    added = kinds(exported(module, tmp_path / "m.onnx", format="onnx-qoperator")).count("QuantizeLinear")
    without = kinds(exported(module, tmp_path / "n.onnx", format="onnx-qoperator", opset=20)).count("QuantizeLinear")
    unsigned = kinds(exported(module, tmp_path / "u.onnx", format="onnx-qdq"))
    assert added == without + 1
    assert unsigned.count("QuantizeLinear") == kinds(
        exported(module, tmp_path / "u.onnx", format="onnx-qdq", opset=20)
    ).count("QuantizeLinear")


FINE, COARSE = "!quant.uniform<i16:f32, 0.00006103515625>", "!quant.uniform<i8:f32, 0.0078125>"
WEIGHTS = {
    "conv2d": (np.random.default_rng(2).uniform(-1, 1, (1, 2, 2, 3)).astype(np.float32), "1x4x4x3", "1x3x3x1"),
    "fully_connected": (np.random.default_rng(2).uniform(-0.4, 0.4, (4, 8)).astype(np.float32), "2x8", "2x4"),
}


@pytest.mark.parametrize("clamp", ["", "{min = 0.0 : f32}"])
@pytest.mark.parametrize("operation", WEIGHTS)
def test_layers_that_stay_float_keep_their_weights(operation: str, clamp: str, tmp_path: Path) -> None:
    """onnxruntime would quantize float weights that lie between a DequantizeLinear and a QuantizeLinear."""
    w, read, given = WEIGHTS[operation]
    weights = "x".join(map(str, w.shape))
    module = network(f"""
      func.func @main(%x: tensor<{read}xf32>) -> tensor<{given}x{FINE}> {{
        %q = quant.qcast %x : tensor<{read}xf32> to tensor<{read}x{COARSE}>
        %d = quant.dcast %q : tensor<{read}x{COARSE}> to tensor<{read}xf32>
        %w = nn.constant <tensor<{weights}xf32>, {w.ravel().tolist()}> : tensor<{weights}xf32>
        %r = nn.{operation} %d, %w {clamp} : tensor<{read}xf32>, tensor<{weights}xf32> -> tensor<{given}xf32>
        %y = quant.qcast %r : tensor<{given}xf32> to tensor<{given}x{FINE}>
        func.return %y : tensor<{given}x{FINE}>
      }}""")
    x = np.random.default_rng(3).uniform(-1, 1, tuple(map(int, read.split("x")))).astype(np.float32)
    (ours,) = qmlir.reference(module).run(x)
    for form in ("onnx-qdq", "onnx-qoperator"):
        exported(module, tmp_path / "m.onnx", format=form)
        for optimized in (False, True):
            (found,) = computed(session(tmp_path / "m.onnx", optimized=optimized), [x])
            np.testing.assert_allclose(found.astype(int), ours.astype(int), rtol=0, atol=1)
    again = qmlir.reference(qmlir.load(tmp_path / "m.onnx")).run(x)[0]
    np.testing.assert_allclose(again.astype(int), ours.astype(int), rtol=0, atol=1)


def test_a_choice_between_data_and_numbers_with_several_scales(tmp_path: Path) -> None:
    """onnxruntime would make it a QLinearWhere, and stop at the scales along an axis."""
    kept, along = "!quant.uniform<u8:f32, 0.1:120>", "!quant.uniform<u8:f32:1, {0.1, 0.2, 0.3, 0.4}>"
    numbers = np.random.default_rng(0).integers(0, 256, 12).tolist()
    module = network(f"""
      func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4x{kept}> {{
        %q = quant.qcast %x : tensor<3x4xf32> to tensor<3x4x{kept}>
        %d = quant.dcast %q : tensor<3x4x{kept}> to tensor<3x4xf32>
        %c = nn.constant <tensor<4xi1>, [true, false, false, true]> : tensor<4xi1>
        %n = nn.constant <tensor<3x4xui8>, {numbers}> : tensor<3x4x{along}>
        %e = quant.dcast %n : tensor<3x4x{along}> to tensor<3x4xf32>
        %r = nn.where %c, %d, %e : tensor<4xi1>, tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
        %y = quant.qcast %r : tensor<3x4xf32> to tensor<3x4x{kept}>
        func.return %y : tensor<3x4x{kept}>
      }}""")
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    (ours,) = qmlir.reference(module).run(x)
    for form in ("onnx-qdq", "onnx-qoperator"):
        exported(module, tmp_path / "m.onnx", format=form)
        for optimized in (False, True):
            (found,) = computed(session(tmp_path / "m.onnx", optimized=optimized), [x])
            np.testing.assert_array_equal(found, ours)
