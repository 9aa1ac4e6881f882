"""Quantized networks in onnxruntime: stored integers within one step, and the forms that quantization takes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qmlir
from qmlir.errors import UnsupportedError
from tests.backends.onnx.runtime import exported, kinds, run
from tests.backends.onnx.stepwise import compare
from tests.backends.quantized_text import I8, I16, U8, network, numbers, unary

# ---------------------------------------------------------------------------------------------------------------
# The form of what is quantized


def test_a_convolution(tmp_path: Path) -> None:
    """Exact parameters along the right axis, weights in their storage, the bias in steps of s_x · s_w."""
    module = network("""
      func.func @main(%x: tensor<1x3x3x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x3x3x2xf32> {
        %q = quant.qcast %x : tensor<1x3x3x2xf32> to tensor<1x3x3x2x!quant.uniform<i8:f32, 0.5:-3>>
        %w = nn.constant <tensor<2x1x1x2xi8>, [1, -127, 5, 7]> {qmlir.name = #qmlir.name<tensors ["w"]>}
           : tensor<2x1x1x2x!quant.uniform<i8<-127:127>:f32:0, {0.25, 0.125}>>
        %b = nn.constant <tensor<2xi32>, [100, -7]> {qmlir.name = #qmlir.name<tensors ["b"]>}
           : tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>
        %c = nn.conv2d %q, %w, %b {qmlir.name = #qmlir.name<nodes ["conv", "relu"], tensors ["c"]>, min = 0.0 : f32}
           : tensor<1x3x3x2x!quant.uniform<i8:f32, 0.5:-3>>,
             tensor<2x1x1x2x!quant.uniform<i8<-127:127>:f32:0, {0.25, 0.125}>>,
             tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>> -> tensor<1x3x3x2x!quant.uniform<i8:f32, 1.5:-128>>
        %y = quant.dcast %c : tensor<1x3x3x2x!quant.uniform<i8:f32, 1.5:-128>> to tensor<1x3x3x2xf32>
        func.return %y : tensor<1x3x3x2xf32>
      }""")
    model = exported(module, tmp_path / "m.onnx")
    # What saturates at 0 needs no Relu; the only transposes are at the edges.
    assert kinds(model) == ["QuantizeLinear", "DequantizeLinear", "Transpose", "QuantizeLinear", "DequantizeLinear",
                            "DequantizeLinear", "DequantizeLinear", "Conv", "QuantizeLinear", "DequantizeLinear",
                            "Transpose"]  # fmt: skip
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = {node.output[0]: node for node in model.graph.node}
    conv = nodes["c"]
    assert (conv.op_type, conv.name) == ("Conv", "conv+relu")
    data, weights, bias = (nodes[name] for name in conv.input)
    assert [arrays[n].tolist() for n in data.input[1:]] == [0.5, -3 + 128]  # the same numbers as unsigned bytes
    assert (weights.input[0], bias.input[0]) == ("w", "b")
    assert (arrays["w"].dtype, arrays["w"].shape) == (np.int8, (2, 2, 1, 1))
    assert [arrays[n].tolist() for n in weights.input[1:]] == [[0.25, 0.125], [0, 0]]
    assert (arrays["b"].dtype, arrays[bias.input[1]].tolist()) == (np.int32, [0.125, 0.0625])
    assert [a.i for node in (weights, bias) for a in node.attribute if a.name == "axis"] == [0, 0]
    assert [i.name for i in model.graph.input] == ["x"]
    steps = compare(module, tmp_path / "s.onnx", [numbers(1, 3, 3, 2)])
    assert (steps.most, steps.compared) == (0, 72)


@pytest.mark.parametrize("element", [I8, U8])
@pytest.mark.parametrize(
    ("operation", "more", "expected"),
    [
        ("nn.relu", "", ["Relu"]),
        ("nn.clamp", "{min = 0.0 : f32, max = 6.0 : f32}", ["Clip"]),
        ("nn.clamp", "{max = 3.1 : f32}", ["Clip"]),
        ("nn.clamp", "{min = -500.0 : f32, max = 500.0 : f32}", []),
        ("nn.tanh", "", ["Tanh"]),
    ],
)
def test_functions_and_clamps(element: str, operation: str, more: str, expected: list[str], tmp_path: Path) -> None:
    module = unary(element, operation, more=more)
    found = kinds(exported(module, tmp_path / "m.onnx"))
    assert found == ["QuantizeLinear", "DequantizeLinear", *expected, "QuantizeLinear", "DequantizeLinear"]
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x))


@pytest.mark.parametrize("element", [I8, U8, I16])
@pytest.mark.parametrize(
    ("operation", "more", "kind"),
    [("nn.reshape", "{shape = array<i64: 2, 3, 4>}", ""),
     ("nn.pad", "{low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 0>, value = 0.0 : f32}", "Pad"),
     ("nn.broadcast", "{shape = array<i64: 2, 3, 4>}", "Expand")],
)  # fmt: skip
def test_movement_is_between_casts(element: str, operation: str, more: str, kind: str, tmp_path: Path) -> None:
    """Which change nothing, as both have one scale; a reshape to the same shape is no node."""
    module = unary(element, operation, more=more)
    moved = ["DequantizeLinear", kind, "QuantizeLinear"] if kind else []
    assert kinds(exported(module, tmp_path / "m.onnx")) == ["QuantizeLinear", *moved, "DequantizeLinear"]
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x))


def test_a_narrow_range_is_clipped(tmp_path: Path) -> None:
    """QuantizeLinear saturates at the ends of its type only."""
    module = unary(I8, "nn.requantize", result="!quant.uniform<i8<-100:50>:f32, 0.25:7>")
    assert "Clip" in kinds(exported(module, tmp_path / "m.onnx"))
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x))


def test_four_bits_are_stored_in_eight(tmp_path: Path) -> None:
    module = unary("!quant.uniform<i4:f32, 4.0:1>", "nn.requantize", result=I8)
    model = exported(module, tmp_path / "m.onnx")
    assert onnx.TensorProto.INT4 not in {t.data_type for t in model.graph.initializer}
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x))


def test_transposes_cancel(tmp_path: Path) -> None:
    """Channels first outside, channels last inside: in ONNX nothing is left of it, through all that keeps layouts."""
    module = network("""
      func.func @main(%x: tensor<1x4x5x6xf32>) -> tensor<1x8x5x6xf32> {
        %a = nn.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x4x5x6xf32> -> tensor<1x5x6x4xf32>
        %p = nn.max_pool2d %a {window = array<i64: 1, 1>} : tensor<1x5x6x4xf32> -> tensor<1x5x6x4xf32>
        %c = nn.constant <tensor<4xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
        %s = nn.add %p, %c : tensor<1x5x6x4xf32>, tensor<4xf32> -> tensor<1x5x6x4xf32>
        %m = nn.softmax %s {axis = 3 : i64} : tensor<1x5x6x4xf32> -> tensor<1x5x6x4xf32>
        %k = nn.concat %m, %a {axis = 3 : i64} : tensor<1x5x6x4xf32>, tensor<1x5x6x4xf32> -> tensor<1x5x6x8xf32>
        %y = nn.transpose %k {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x5x6x8xf32> -> tensor<1x8x5x6xf32>
        func.return %y : tensor<1x8x5x6xf32>
      }""")
    model = exported(module, tmp_path / "m.onnx")
    assert kinds(model) == ["MaxPool", "Add", "Softmax", "Concat"]
    x = numbers(1, 4, 5, 6)
    np.testing.assert_allclose(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x), rtol=1e-5)


def test_results_wider_than_sixteen_bits(tmp_path: Path) -> None:
    module = unary(I8, "nn.requantize", result="!quant.uniform<i32:f32, 0.5>")
    with pytest.raises(UnsupportedError, match=r"must store 16 bits or less, got .*i32.*; keep its result float"):
        qmlir.export(module, tmp_path / "m.onnx")


def test_zero_points_beyond_the_storage(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="zero points that int8 holds, got 300"):
        qmlir.export(unary("!quant.uniform<i8:f32, 0.5:300>", "nn.relu"), tmp_path / "m.onnx")


@pytest.mark.parametrize("bias", ["", ", %b"])
def test_a_layer_of_plain_integers_is_a_product(bias: str, tmp_path: Path) -> None:
    """onnxruntime has no Gemm of integers."""
    types = "tensor<2x3xi32>, tensor<4x3xi32>" + (", tensor<4xi32>" if bias else "")
    module = network(f"""
      func.func @main(%x: tensor<2x3xi32>) -> tensor<2x4xi32> {{
        %w = nn.constant <tensor<4x3xi32>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12]> : tensor<4x3xi32>
        %b = nn.constant <tensor<4xi32>, [5, 0, -7, 90000]> : tensor<4xi32>
        %y = nn.fully_connected %x, %w{bias} : {types} -> tensor<2x4xi32>
        func.return %y : tensor<2x4xi32>
      }}""")
    assert kinds(exported(module, tmp_path / "m.onnx")) == (["MatMul", "Add"] if bias else ["MatMul"])
    x = np.array([[1, -2, 3], [400, 50, 6]], np.int32)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x))
