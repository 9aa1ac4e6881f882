"""Operators on integers: what is written, and that onnxruntime, its optimizations off, finds our integers with them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.errors import UnsupportedError
from qmlir.policies.ledger import decisions
from qmlir.policies.runtimes import follow
from tests.backends.onnx.runtime import exported, kinds, run
from tests.backends.quantized_text import I8, U8, network, numbers, unary
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load, node
from tests.frontends.onnx.agreement import model as onnx_model

FORMAT = "onnx-qoperator"
W8 = "!quant.uniform<i8<-127:127>:f32:0, {0.25, 0.125}>"


def onnxruntimes(module: ModuleOp) -> ModuleOp:
    """The module, rounded as onnxruntime rounds."""
    follow(module, "onnxruntime")
    return module


def equal(module: ModuleOp, path: Path, *shape: int) -> onnx.ModelProto:
    """The exported file, once its results have been found to be ours."""
    model = exported(onnxruntimes(module), path, format=FORMAT)
    x = numbers(*shape)
    np.testing.assert_array_equal(run(path, [x])[0], qmlir.reference(module)(x))
    return model


def of_layers(model: onnx.ModelProto) -> list[str]:
    """The operators but those that move to the order of the output, and quantize the moved again."""
    found = kinds(model)
    while found[-3:] == ["Transpose", "QuantizeLinear", "DequantizeLinear"]:
        del found[-3:]
    return [kind for kind in found if kind != "Transpose"]


# ---------------------------------------------------------------------------------------------------------------
# The form, and the same integers


def convolution(data: str, weights: str, result: str) -> ModuleOp:
    return network(f"""
      func.func @main(%x: tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32> {{
        %q = quant.qcast %x : tensor<1x3x3x2xf32> to tensor<1x3x3x2x{data}>
        %w = nn.constant <tensor<2x3x3x2xi8>, {np.random.default_rng(0).integers(-127, 128, 36).tolist()}>
           {{qmlir.name = #qmlir.name<tensors ["w"]>}} : tensor<2x3x3x2x{weights}>
        %b = nn.constant <tensor<2xi32>, [100, -7]> {{qmlir.name = #qmlir.name<tensors ["b"]>}}
           : tensor<2x!quant.uniform<i32:f32:0, {{0.125, 0.0625}}>>
        %c = nn.conv2d %q, %w, %b
           {{qmlir.name = #qmlir.name<nodes ["conv"]>, min = 0.0 : f32, padding = array<i64: 1, 1, 1, 1>}}
           : tensor<1x3x3x2x{data}>, tensor<2x3x3x2x{weights}>, tensor<2x!quant.uniform<i32:f32:0, {{0.125, 0.0625}}>>
           -> tensor<1x3x3x2x{result}>
        %y = quant.dcast %c : tensor<1x3x3x2x{result}> to tensor<1x3x3x2xf32>
        func.return %y : tensor<1x3x3x2xf32>
      }}""")


def test_a_convolution(tmp_path: Path) -> None:
    """Weights and bias as they are stored; of its clamp what saturating does not keep."""
    module = convolution(I8, W8, "!quant.uniform<i8:f32, 9.5>")
    model = equal(module, tmp_path / "m.onnx", 1, 3, 3, 2)
    assert of_layers(model) == ["QuantizeLinear", "QLinearConv", "Clip", "DequantizeLinear"]
    assert kinds(model)[-4:] == ["DequantizeLinear", "Transpose", "QuantizeLinear", "DequantizeLinear"]
    (conv,) = [node for node in model.graph.node if node.op_type == "QLinearConv"]
    assert (conv.name, conv.input[3], conv.input[8]) == ("conv", "w", "b")
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    assert [arrays[conv.input[i]].tolist() for i in (1, 2, 4, 5, 6, 7)] == [0.5, -3, [0.25, 0.125], [0, 0], 9.5, 0]
    assert {d.domain for d in model.opset_import} == {""}


def test_weights_beside_unsigned_data(tmp_path: Path) -> None:
    """Are unsigned too: sums of u8 by s8 saturate on some processors."""
    module = convolution(U8, W8, "!quant.uniform<u8:f32, 9.5:3>")
    arrays = {
        t.name: numpy_helper.to_array(t) for t in equal(module, tmp_path / "m.onnx", 1, 3, 3, 2).graph.initializer
    }
    expected = np.random.default_rng(0).integers(-127, 128, 36).reshape(2, 3, 3, 2).transpose(0, 3, 1, 2) + 128
    assert arrays["w"].dtype == np.uint8
    np.testing.assert_array_equal(arrays["w"], expected)


@pytest.mark.parametrize("element", [I8, U8])
def test_a_layer(element: str, tmp_path: Path) -> None:
    module = network(f"""
      func.func @main(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {{
        %q = quant.qcast %x : tensor<3x4xf32> to tensor<3x4x{element}>
        %w = nn.constant <tensor<2x4xi8>, [1, -127, 5, 7, 100, 50, -30, 3]> : tensor<2x4x{W8}>
        %b = nn.constant <tensor<2xf32>, [12.5, -0.7]> : tensor<2xf32>
        %c = nn.fully_connected %q, %w, %b
           : tensor<3x4x{element}>, tensor<2x4x{W8}>, tensor<2xf32> -> tensor<3x2x{element}>
        %y = quant.dcast %c : tensor<3x2x{element}> to tensor<3x2xf32>
        func.return %y : tensor<3x2xf32>
      }}""")
    model = equal(module, tmp_path / "m.onnx", 3, 4)
    assert kinds(model) == ["QuantizeLinear", "QGemm", "DequantizeLinear"]
    assert {d.domain: d.version for d in model.opset_import}["com.microsoft"] == 1


def long_biased(bias: str) -> ModuleOp:
    """A layer with a bias of 64 bits."""
    return network(f"""
      func.func @main(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {{
        %q = quant.qcast %x : tensor<3x4xf32> to tensor<3x4x{I8}>
        %w = nn.constant <tensor<2x4xi8>, [1, -127, 5, 7, 100, 50, -30, 3]> : tensor<2x4x{W8}>
        %b = nn.constant <tensor<2xi64>, {bias}> : tensor<2xi64>
        %c = nn.fully_connected %q, %w, %b
           : tensor<3x4x{I8}>, tensor<2x4x{W8}>, tensor<2xi64> -> tensor<3x2x{I8}>
        %y = quant.dcast %c : tensor<3x2x{I8}> to tensor<3x2xf32>
        func.return %y : tensor<3x2xf32>
      }}""")


def test_a_bias_of_64_bits_that_32_hold(tmp_path: Path) -> None:
    assert "QGemm" in kinds(equal(long_biased("[12, -7]"), tmp_path / "m.onnx", 3, 4))


@pytest.mark.parametrize("bias", ["[12, -5000000000]", "[2147483600, 0]"])
def test_sums_of_64_bits_are_not_cut(bias: str, tmp_path: Path) -> None:
    """Neither where the bias exceeds 32 bits nor where its sums with products may."""
    module = onnxruntimes(long_biased(bias))
    with pytest.raises(UnsupportedError, match="needs a bias of 32 bits, got one of 64; quantize it with bias=int32"):
        exported(module, tmp_path / "m.onnx", format=FORMAT)


@pytest.mark.slow
def test_products_whose_sums_exceed_32_bits(tmp_path: Path) -> None:
    """Stay on floats: 140,000 products of 127 by 127."""
    data, out = "!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i8:f32, 33554432.0>"
    module = network(f"""
      func.func @main(%x: tensor<1x140000xf32>, %z: tensor<140000x1xf32>) -> tensor<1x1xf32> {{
        %q = quant.qcast %x : tensor<1x140000xf32> to tensor<1x140000x{data}>
        %p = quant.qcast %z : tensor<140000x1xf32> to tensor<140000x1x{data}>
        %c = nn.matmul %q, %p : tensor<1x140000x{data}>, tensor<140000x1x{data}> -> tensor<1x1x{out}>
        %y = quant.dcast %c : tensor<1x1x{out}> to tensor<1x1xf32>
        func.return %y : tensor<1x1xf32>
      }}""")
    assert "MatMul" in kinds(exported(onnxruntimes(module), tmp_path / "m.onnx", format=FORMAT))
    x, z = np.full((1, 140000), 63.5, np.float32), np.full((140000, 1), 63.5, np.float32)
    np.testing.assert_array_equal(
        run(tmp_path / "m.onnx", [x, z])[0], qmlir.reference(module).run({"input0": x, "input1": z})[0]
    )


@pytest.mark.parametrize(("element", "operation"), [(I8, "add"), (I8, "mul"), (U8, "add"), (U8, "mul")])
def test_sums_and_products_of_two_orders(element: str, operation: str, tmp_path: Path) -> None:
    """A constant of a lower rank follows the order of the channels."""
    kind = f"tensor<1x2x3x4x{element}>"
    module = network(
        f"""
      func.func @main(%x: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {{
        %q = quant.qcast %x : tensor<1x2x3x4xf32> to {kind}
        %p = nn.max_pool2d %q {{window = array<i64: 1, 1>}} : {kind} -> {kind}
        %c = nn.constant <tensor<4xi8>, [1, 20, 3, 4]> : tensor<4x{element}>
        %r = nn.{operation} %p, %c : {kind}, tensor<4x{element}> -> {kind}
        %y = quant.dcast %r : {kind} to tensor<1x2x3x4xf32>
        func.return %y : tensor<1x2x3x4xf32>
      }}""".replace("xi8>, [1", "xi8>, [1" if element == I8 else "xui8>, [1")
    )
    assert of_layers(equal(module, tmp_path / "m.onnx", 1, 2, 3, 4)) == [
        "QuantizeLinear", "MaxPool", f"QLinear{operation.capitalize()}", "DequantizeLinear"]  # fmt: skip


@pytest.mark.parametrize("element", [I8, U8])
@pytest.mark.parametrize(
    ("operation", "more", "shape", "expected"),
    [
        ("nn.sigmoid", "", "2x3x4", ["QLinearSigmoid"]),
        ("nn.leaky_relu", "{alpha = 0.1 : f64}", "2x3x4", ["QLinearLeakyRelu"]),
        ("nn.relu", "", "2x3x4", ["Clip"]),
        ("nn.clamp", "{min = -1.0 : f32, max = 6.0 : f32}", "2x3x4", ["Clip"]),
        ("nn.pad", "{low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 0>, value = 1.0 : f32}", "2x3x4", ["Pad"]),
        ("nn.broadcast", "{shape = array<i64: 2, 3, 4>}", "2x3x4", ["Expand"]),
        ("nn.max_pool2d", "{window = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>}", "1x2x3x4",
         ["MaxPool"]),
        ("nn.tanh", "", "2x3x4", ["DequantizeLinear", "Tanh", "QuantizeLinear"]),
    ],
)  # fmt: skip
def test_one_operation(
    element: str, operation: str, more: str, shape: str, expected: list[str], tmp_path: Path
) -> None:
    """What has no operator on integers stays between casts."""
    module = unary(element, operation, shape=shape, more=more)
    found = of_layers(equal(module, tmp_path / "m.onnx", *map(int, shape.split("x"))))
    assert found == ["QuantizeLinear", *expected, "DequantizeLinear"]


@pytest.mark.parametrize("element", [I8, U8])
def test_a_mean_of_images(element: str, tmp_path: Path) -> None:
    module = network(f"""
      func.func @main(%x: tensor<2x3x5x4xf32>) -> tensor<2x1x1x4xf32> {{
        %q = quant.qcast %x : tensor<2x3x5x4xf32> to tensor<2x3x5x4x{element}>
        %r = nn.global_average_pool %q : tensor<2x3x5x4x{element}> -> tensor<2x1x1x4x{element}>
        %y = quant.dcast %r : tensor<2x1x1x4x{element}> to tensor<2x1x1x4xf32>
        func.return %y : tensor<2x1x1x4xf32>
      }}""")
    assert "QLinearGlobalAveragePool" in kinds(equal(module, tmp_path / "m.onnx", 2, 3, 5, 4))


@pytest.mark.parametrize("operation", ["add", "mul"])
def test_empty_tensors(operation: str, tmp_path: Path) -> None:
    """Are constants: onnxruntime's operators on integers, also those that its optimizations make, crash on them."""
    kind = f"tensor<3x2x0x{U8}>"
    module = network(f"""
      func.func @main(%x: tensor<3x2x0xf32>) -> tensor<3x2x0xf32> {{
        %q = quant.qcast %x : tensor<3x2x0xf32> to {kind}
        %c = nn.constant <tensor<ui8>, [1]> : tensor<{U8}>
        %r = nn.{operation} %q, %c : {kind}, tensor<{U8}> -> {kind}
        %y = quant.dcast %r : {kind} to tensor<3x2x0xf32>
        func.return %y : tensor<3x2x0xf32>
      }}""")
    model = exported(onnxruntimes(module), tmp_path / "m.onnx", format=FORMAT)
    assert {*kinds(model)} == {"DequantizeLinear"}
    assert run(tmp_path / "m.onnx", [np.zeros((3, 2, 0), np.float32)])[0].shape == (3, 2, 0)


def test_products_of_no_terms(tmp_path: Path) -> None:
    """Are the zero point, not 0 as of onnxruntime's operator on integers."""
    module = network(f"""
      func.func @main(%x: tensor<2x0xf32>) -> tensor<2x3xf32> {{
        %q = quant.qcast %x : tensor<2x0xf32> to tensor<2x0x{I8}>
        %c = nn.constant <tensor<0x3xi8>, "0x"> : tensor<0x3x{I8}>
        %r = nn.matmul %q, %c : tensor<2x0x{I8}>, tensor<0x3x{I8}> -> tensor<2x3x{I8}>
        %y = quant.dcast %r : tensor<2x3x{I8}> to tensor<2x3xf32>
        func.return %y : tensor<2x3xf32>
      }}""")
    assert "MatMul" in kinds(equal(module, tmp_path / "m.onnx", 2, 0))


def test_bytes_of_two_signs(tmp_path: Path) -> None:
    """No operator takes both: the operation stays between casts."""
    module = convolution(I8, W8, U8)
    assert "Conv" in kinds(exported(module, tmp_path / "m.onnx", format=FORMAT))


def test_sixteen_bits(tmp_path: Path) -> None:
    module = unary(
        "!quant.uniform<i16:f32, 0.015625>", "nn.max_pool2d", shape="1x2x3x4", more="{window = array<i64: 1, 1>}"
    )
    assert "DequantizeLinear" in kinds(exported(module, tmp_path / "m.onnx", format=FORMAT))[:2]


def test_our_file_comes_back(tmp_path: Path) -> None:
    """Imported again, and rounded as onnxruntime rounds, it is the same network."""
    module = onnxruntimes(convolution(I8, W8, "!quant.uniform<i8:f32, 9.5>"))
    exported(module, tmp_path / "m.onnx", format=FORMAT)
    x = numbers(1, 3, 3, 2)
    again = qmlir.load(tmp_path / "m.onnx", numerics="onnxruntime")
    np.testing.assert_array_equal(qmlir.reference(again)(x), qmlir.reference(module)(x))


POOL = {"kernel_shape": [3, 2], "strides": [1, 1], "pads": [1, 0, 0, 1]}

LEDGER: dict[str, tuple[str, dict[str, Any], str]] = {
    "average pool": ("AveragePool", POOL, "average_pool2d"),
    "average pool with its padding": ("AveragePool", {**POOL, "count_include_pad": 1}, "average_pool2d"),
    "global average pool": ("GlobalAveragePool", {}, ""),
    "max pool": ("MaxPool", POOL, ""),
    "softmax": ("Softmax", {"axis": 1}, ""),
    "log softmax": ("LogSoftmax", {"axis": 1}, "log_softmax"),
    "sigmoid": ("Sigmoid", {}, ""),
    "leaky relu": ("LeakyRelu", {}, ""),
    "sine": ("Sin", {}, ""),
    "sum along an axis": ("ReduceSum", {}, "reduce_sum"),
    "maximum along an axis": ("ReduceMax", {}, ""),
    "doubled": ("Add", {}, ""),
    "squared": ("Mul", {}, ""),
    "zero": ("Sub", {}, "sub"),
}
"""Operator, its attributes, and what the ledger says that onnxruntime computes in float32."""


@crossed({"case": LEDGER, "precision": ["uint8", "int8"]})
def test_the_ledger_says_whose_integers_are_not_onnxruntimes(case: str, precision: Any, tmp_path: Path) -> None:
    """All others are, of float networks that are quantized here; those are within a step."""
    kind, attributes, named = LEDGER[case]
    x = np.random.default_rng(len(case)).normal(0.4, 1.5, (3, 7, 9, 8)).astype(np.float32)
    inputs = "x x" if kind in ("Add", "Mul", "Sub") else "x"
    proto = onnx_model(node(kind, inputs, **attributes), {"x": x.shape})
    module = load(proto)
    follow(module, "onnxruntime")
    q = qmlir.quantize(module, qmlir.profile(module, [x]), precision=precision, schema="asymmetric")
    reasons = [d.reason for d in decisions(q) if "rounded as by default" in d.reason]
    want = f"rounded as by default: onnxruntime computes {named} in float32"
    assert [want in reason for reason in reasons] == ([True] if named else [])
    exported(q, tmp_path / "m.onnx", format=FORMAT)
    (got,) = run(tmp_path / "m.onnx", [x])
    ours = qmlir.reference(q)(x)
    step = [uniform(o.input).scale for o in q.walk() if isinstance(o, DequantizeCastOp)][-1]
    assert np.abs(got - ours).max() <= (1.01 * step if named else 0.0)
