"""The file: names, signature, versions, alignment; and what is refused, with nothing written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import qmlir
from qmlir.backends.tflite import model as tflite_model
from qmlir.backends.tflite.kernels import KERNELS
from qmlir.compiler import Pipeline
from qmlir.errors import FileError, OptionError, QmlirError, UnsupportedError
from qmlir.formats.tflite import options_of
from tests.backends.quantized_text import I8, I16, network, numbers, unary
from tests.backends.tflite.runtime import LiteRT, kinds, schema

pytestmark = pytest.mark.filterwarnings("ignore")

TWICE = """
  func.func @main(%x: tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>})
      -> (tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["y"]>}, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>) {
    %r = nn.relu %x {qmlir.name = #qmlir.name<nodes ["r"], tensors ["r_out"]>} : tensor<2x3xf32> -> tensor<2x3xf32>
    %c = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
    func.return %r, %r, %x, %c : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>
  }"""

LAYER = """
  func.func @main(%x: tensor<2x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<2x2xf32> {
    %w = nn.constant <tensor<2x4xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]>
       {qmlir.name = #qmlir.name<tensors ["output0"]>} : tensor<2x4xf32>
    %y = nn.fully_connected %x, %w : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x2xf32>
    func.return %y : tensor<2x2xf32>
  }"""


def graph_of(path: Path) -> Any:
    return schema.Model.GetRootAs(path.read_bytes()).Subgraphs(0)


def names(path: Path) -> list[str]:
    graph = graph_of(path)
    return [graph.Tensors(i).Name().decode() for i in range(graph.TensorsLength())]


def versions(path: Path) -> dict[str, int]:
    """The version of each operator."""
    model = schema.Model.GetRootAs(path.read_bytes())
    known = {number: name for name, number in vars(schema.BuiltinOperator).items()}
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    return {known[c.BuiltinCode()]: c.Version() for c in codes}


def test_one_value_as_several_outputs(tmp_path: Path) -> None:
    """Also an argument and a constant: each is a tensor of its own, under the signature's name."""
    path, x = tmp_path / "m.tflite", numbers(2, 3)
    assert qmlir.export(network(TWICE), path, format="tflite") == [path]
    assert kinds(path) == ["RELU", "RESHAPE", "RESHAPE", "RESHAPE"]
    runner = Interpreter(str(path)).get_signature_runner("serving_default")
    assert [*runner.get_input_details()] == ["x"]
    found = runner(x=x)
    expected = {"y": np.maximum(x, 0), "output1": np.maximum(x, 0), "output2": x, "output3": [1, 2]}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_names_are_used_once(tmp_path: Path) -> None:
    """The signature's come first, whatever a constant is called."""
    path = tmp_path / "m.tflite"
    qmlir.export(network(LAYER), path, format="tflite")
    assert len(set(names(path))) == len(names(path))
    assert {"x", "output0", "output0.1"} <= set(names(path))
    assert names(path)[graph_of(path).Outputs(0)] == "output0"


def test_constants_are_aligned(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    qmlir.export(network(LAYER), path, format="tflite")
    model = schema.Model.GetRootAs(path.read_bytes())
    assert model.Buffers(0).DataLength() == 0
    for i in range(1, model.BuffersLength()):
        data = model.Buffers(i).DataAsNumpy()
        assert (data.ctypes.data - np.frombuffer(model._tab.Bytes, np.uint8).ctypes.data) % 16 == 0


@pytest.mark.parametrize(("element", "version"), [("f32", 1), (I8, 2), (I16, 3)])
def test_versions_follow_the_types(element: str, version: int, tmp_path: Path) -> None:
    x = f"tensor<2x3x{element}>"
    add = f"%y = nn.add %x, %x : {x}, {x} -> {x}"
    module = network(f"func.func @main(%x: {x}) -> {x} {{ {add} func.return %y : {x} }}")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    assert versions(tmp_path / "m.tflite") == {"ADD": version}


def test_16_bit_sums_need_no_powers_of_two(tmp_path: Path) -> None:
    """The schema's default says that they do."""
    x = f"tensor<2x3x{I16}>"
    module = network(f"func.func @main(%x: {x}) -> {x} {{ %y = nn.add %x, %x : {x}, {x} -> {x} func.return %y : {x} }}")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    operator, options = graph_of(tmp_path / "m.tflite").Operators(0), schema.AddOptions()
    options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
    assert not options.PotScaleInt16()


@pytest.mark.parametrize(("dilations", "version"), [("1, 1", 1), ("1, 2", 2)])
def test_versions_follow_the_options(dilations: str, version: int, tmp_path: Path) -> None:
    columns = 3 if version == 1 else 2
    module = network(f"""
      func.func @main(%x: tensor<1x4x4x1xf32>) -> tensor<1x3x{columns}x1xf32> {{
        %w = nn.constant <tensor<1x2x2x1xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<1x2x2x1xf32>
        %y = nn.depthwise_conv2d %x, %w {{dilations = array<i64: {dilations}>}}
           : tensor<1x4x4x1xf32>, tensor<1x2x2x1xf32> -> tensor<1x3x{columns}x1xf32>
        func.return %y : tensor<1x3x{columns}x1xf32>
      }}""")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    assert versions(tmp_path / "m.tflite") == {"DEPTHWISE_CONV_2D": version}


def test_weights_stored_as_integers_beside_floats(tmp_path: Path) -> None:
    """As in files of others: the floats that they stand for, behind a DEQUANTIZE with scales along an axis."""
    w = "!quant.uniform<i8<-127:127>:f32:0, {0.5, 0.25}>"
    module = network(f"""
      func.func @main(%x: tensor<2x4xf32>) -> tensor<2x2xf32> {{
        %q = nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<2x4x{w}>
        %w = quant.dcast %q : tensor<2x4x{w}> to tensor<2x4xf32>
        %y = nn.fully_connected %x, %w : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x2xf32>
        func.return %y : tensor<2x2xf32>
      }}""")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    assert versions(tmp_path / "m.tflite") == {"DEQUANTIZE": 5, "FULLY_CONNECTED": 1}
    x = numbers(2, 4)
    np.testing.assert_allclose(LiteRT(tmp_path / "m.tflite").run([x])[0], qmlir.reference(module)(x), rtol=1e-5)


def test_what_no_output_needs_is_left_out(tmp_path: Path) -> None:
    module = network("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %a = nn.exp %x : tensor<2xf32> -> tensor<2xf32>
        %y = nn.relu %x : tensor<2xf32> -> tensor<2xf32>
        func.return %y : tensor<2xf32>
      }""")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    assert kinds(tmp_path / "m.tflite") == ["RELU"]


def test_the_file_comes_back(tmp_path: Path) -> None:
    module = unary(I8, "nn.requantize", result="!quant.uniform<i8:f32, 0.25:7>")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(qmlir.reference(qmlir.load(tmp_path / "m.tflite"))(x), qmlir.reference(module)(x))


def test_all_kernels_are_of_the_schema() -> None:
    for kind in KERNELS:
        assert hasattr(schema.BuiltinOperator, kind)
        assert not options_of(kind) or any(hasattr(getattr(schema, u), options_of(kind)) for u in tflite_model.UNIONS)


def test_options_of_the_second_union(tmp_path: Path) -> None:
    module = network("""
      func.func @main(%x: tensor<2x3xf32>) -> tensor<3x5xf32> {
        %y = nn.dilate %x {dilations = array<i64: 2, 2>, value = -1.5 : f32} : tensor<2x3xf32> -> tensor<3x5xf32>
        func.return %y : tensor<3x5xf32>
      }""")
    path, x = tmp_path / "m.tflite", numbers(2, 3)
    qmlir.export(module, path, format="tflite")
    assert kinds(path) == ["DILATE"]
    operator = schema.Model.GetRootAs(path.read_bytes()).Subgraphs(0).Operators(0)
    assert operator.BuiltinOptionsType() == schema.BuiltinOptions.NONE
    assert operator.BuiltinOptions2Type() == schema.BuiltinOptions2.DilateOptions
    np.testing.assert_array_equal(LiteRT(path).run([x])[0], qmlir.reference(module)(x))
    np.testing.assert_array_equal(qmlir.reference(qmlir.load(path))(x), qmlir.reference(module)(x))


def test_what_has_no_elements_is_not_dilated(tmp_path: Path) -> None:
    """LiteRT's kernel does not take it."""
    module = network("""
      func.func @main(%x: tensor<0x3xf32>) -> tensor<0x5xf32> {
        %y = nn.dilate %x {dilations = array<i64: 2, 2>, value = 0.0 : f32} : tensor<0x3xf32> -> tensor<0x5xf32>
        func.return %y : tensor<0x5xf32>
      }""")
    with pytest.raises(UnsupportedError, match="needs elements to dilate"):
        qmlir.export(module, tmp_path / "m.tflite", format="tflite")


@pytest.mark.parametrize(
    ("element", "said"),
    [("bf16", "as data of TFLite's RESHAPE, got bfloat16"), ("f8E5M2", "as data of TFLite's RESHAPE, got float8_e5m2")],
)
def test_a_type_that_no_kernel_takes(element: str, said: str, tmp_path: Path) -> None:
    x = f"tensor<2x{element}>"
    module = network(f"func.func @main(%x: {x}) -> {x} {{ func.return %x : {x} }}")
    with pytest.raises(UnsupportedError, match=said):
        qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    assert not list(tmp_path.iterdir())


INTEGERS = ["ui64", "i64", "i32", "f32", "i1"]


@pytest.mark.parametrize("other", INTEGERS)
@pytest.mark.parametrize("role", ["data", "a result"])
def test_casts_of_uint64(role: str, other: str, tmp_path: Path) -> None:
    """LiteRT runs none, though its schema has the type; it moves them."""
    x, y = (f"tensor<2x{e}>" for e in (("ui64", other) if role == "data" else (other, "ui64")))
    module = network(f"func.func @main(%x: {x}) -> {y} {{ %y = nn.cast %x : {x} -> {y} func.return %y : {y} }}")
    with pytest.raises(UnsupportedError, match="of a type that TFLite's CAST has, got uint64"):
        qmlir.export(module, tmp_path / "m.tflite", format="tflite")


def test_a_type_that_the_schema_lacks(tmp_path: Path) -> None:
    module = network("""
      func.func @main(%x: tensor<2xf8E5M2>, %y: tensor<2xf32>) -> tensor<2xf32> {
        %r = nn.relu %y : tensor<2xf32> -> tensor<2xf32>
        func.return %r : tensor<2xf32>
      }""")
    with pytest.raises(UnsupportedError, match="must have elements that TFLite has, got float8_e5m2"):
        qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    assert not list(tmp_path.iterdir())


def test_more_than_a_flatbuffer_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tflite_model, "LARGEST", 16)
    with pytest.raises(FileError, match="must hold less than 2 GB of constants; quantize the network"):
        qmlir.export(network(LAYER), tmp_path / "m.tflite", format="tflite")
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_no_tflite_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"must be the name of a \.tflite file"):
        qmlir.export(network(LAYER), tmp_path / "m.onnx", format="tflite")


def test_an_opset(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="opset: is for ONNX's formats, got 17"):
        qmlir.export(network(LAYER), tmp_path / "m.tflite", format="tflite", opset=17)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="must be writable, got no such file or directory"):
        qmlir.export(network(LAYER), tmp_path / "nowhere" / "m.tflite", format="tflite")


def test_a_file_that_was_there_stays(tmp_path: Path) -> None:
    """Until its successor is complete."""
    (tmp_path / "m.tflite").write_bytes(b"before")
    with pytest.raises(UnsupportedError):
        qmlir.export(unary("!quant.uniform<i16:f32, 0.5:1>", "nn.relu"), tmp_path / "m.tflite", format="tflite")
    assert (tmp_path / "m.tflite").read_bytes() == b"before"


def test_a_module_beyond_nn(tmp_path: Path) -> None:
    module = Pipeline("nn-to-qint")(unary(I8, "nn.requantize", result="!quant.uniform<i8:f32, 0.25:7>"))
    with pytest.raises(UnsupportedError, match=r"must be one of nn or a cast .*; export before nn-to-qint"):
        qmlir.export(module, tmp_path / "m.tflite", format="tflite")


def test_opaque_operations(tmp_path: Path) -> None:
    module = network("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = "qmlir.opaque"(%x) {kind = "tflite.HASHTABLE", reason = "no", source = {}}
           : (tensor<2xf32>) -> tensor<2xf32>
        func.return %y : tensor<2xf32>
      }""")
    with pytest.raises(QmlirError, match=r"every operation must be one that qmlir knows"):
        qmlir.export(module, tmp_path / "m.tflite", format="tflite")


def test_litert_runs_a_scalar(tmp_path: Path) -> None:
    module = network("""
      func.func @main(%x: tensor<f32>) -> tensor<f32> {
        %y = nn.clamp %x {min = -1.5 : f32, max = 2.5 : f32} : tensor<f32> -> tensor<f32>
        func.return %y : tensor<f32>
      }""")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    assert LiteRT(tmp_path / "m.tflite").run([np.array(9, np.float32)])[0] == np.float32(2.5)
