"""The file: names, signature, opsets, weights beside it; and what is refused, with nothing written."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.onnx import model as onnx_model
from qmlir.compiler import Pipeline
from qmlir.errors import FileError, OptionError, QmlirError, UnsupportedError
from tests.backends.onnx.runtime import exported, kinds, run
from tests.backends.quantized_text import network, numbers

TWICE = """
  func.func @main(%x: tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>})
      -> (tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["y"]>}, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>) {
    %r = nn.relu %x {qmlir.name = #qmlir.name<nodes ["r"], tensors ["r_out"]>} : tensor<2x3xf32> -> tensor<2x3xf32>
    %c = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
    func.return %r, %r, %x, %c : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>
  }"""


def fully_connected(name: str = "x") -> ModuleOp:
    listed = ", ".join(str(i / 2048) for i in range(2000))
    return network(f"""
      func.func @main(%x: tensor<2x500xf32> {{qmlir.name = #qmlir.name<tensors ["{name}"]>}}) -> tensor<2x4xf32> {{
        %w = nn.constant <tensor<4x500xf32>, [{listed}]> {{qmlir.name = #qmlir.name<tensors ["{name}"]>}}
           : tensor<4x500xf32>
        %y = nn.fully_connected %x, %w : tensor<2x500xf32>, tensor<4x500xf32> -> tensor<2x4xf32>
        func.return %y : tensor<2x4xf32>
      }}""")


def test_one_value_as_several_outputs(tmp_path: Path) -> None:
    """Also an argument and a constant."""
    model = exported(network(TWICE), tmp_path / "m.onnx")
    assert [o.name for o in model.graph.output] == ["y", "output1", "output2", "output3"]
    assert kinds(model) == ["Relu", "Identity", "Identity", "Identity"]
    assert model.graph.node[0].name == "r"
    x = numbers(2, 3)
    found = run(tmp_path / "m.onnx", [x])
    for theirs, ours in zip(found, [np.maximum(x, 0), np.maximum(x, 0), x, [1, 2]], strict=True):
        np.testing.assert_array_equal(theirs, ours)


def test_names_are_used_once(tmp_path: Path) -> None:
    """The signature's come first, whatever a constant is called."""
    model = exported(fully_connected("output0"), tmp_path / "m.onnx")
    names = [*(i.name for i in model.graph.input), *(t.name for t in model.graph.initializer),
             *(o for n in model.graph.node for o in n.output)]  # fmt: skip
    assert len(set(names)) == len(names)
    assert (model.graph.input[0].name, model.graph.output[0].name) == ("output0", "output0.1")


def test_weights_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_model, "LARGEST", 4096)
    path, module, x = tmp_path / "m.onnx", fully_connected(), numbers(2, 500)
    assert qmlir.export(module, path) == [path, tmp_path / "m.onnx.data"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert path.stat().st_size < 4096
    assert (tmp_path / "m.onnx.data").stat().st_size == 8000
    onnx.checker.check_model(str(path), full_check=True)
    np.testing.assert_allclose(run(path, [x])[0], qmlir.reference(module)(x), rtol=1e-5)
    np.testing.assert_array_equal(qmlir.reference(qmlir.load(path))(x), qmlir.reference(module)(x))


def test_an_older_opset(tmp_path: Path) -> None:
    model = exported(fully_connected(), tmp_path / "m.onnx", opset=13)
    assert model.opset_import[0].version == 13
    run(tmp_path / "m.onnx", [numbers(2, 500)])


def test_an_operator_that_an_opset_lacks(tmp_path: Path) -> None:
    module = network("""
      func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
        %y = nn.gelu %x : tensor<2x3xf32> -> tensor<2x3xf32>
        func.return %y : tensor<2x3xf32>
      }""")
    with pytest.raises(UnsupportedError, match=r"nn\.gelu .*needs ONNX's Gelu, got opset 19, .*; export with opset 20"):
        qmlir.export(module, tmp_path / "m.onnx", opset=19)
    exported(module, tmp_path / "m.onnx", opset=20)


@pytest.mark.parametrize("opset", [12, 1000])
def test_an_opset_that_is_none(opset: int, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=rf"opset: must lie in 13 … \d+, got {opset}"):
        qmlir.export(fully_connected(), tmp_path / "m.onnx", opset=opset)


def test_a_format_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"format: must be one of .*, got onnx-qdx; did you mean onnx-qdq"):
        qmlir.export(fully_connected(), tmp_path / "m.onnx", format="onnx-qdx")


def test_a_name_that_is_no_onnx_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"must be the name of an \.onnx file"):
        qmlir.export(fully_connected(), tmp_path / "m.tflite", format="onnx-qdq")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="must be writable, got no such file or directory"):
        qmlir.export(fully_connected(), tmp_path / "nowhere" / "m.onnx")


def test_a_module_beyond_nn(tmp_path: Path) -> None:
    module = network("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>
        %r = nn.relu %q : tensor<2x!quant.uniform<i8:f32, 0.5>> -> tensor<2x!quant.uniform<i8:f32, 0.25>>
        %y = quant.dcast %r : tensor<2x!quant.uniform<i8:f32, 0.25>> to tensor<2xf32>
        func.return %y : tensor<2xf32>
      }""")
    with pytest.raises(UnsupportedError, match=r"must be one of nn .*got qint\.requantize; export before nn-to-qint"):
        qmlir.export(Pipeline("nn-to-qint")(module), tmp_path / "m.onnx")


def test_an_operation_that_qmlir_does_not_know(tmp_path: Path) -> None:
    module = network("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = "qmlir.opaque"(%x) {kind = "onnx.Odd", reason = "no converter", source = {}}
           : (tensor<2xf32>) -> tensor<2xf32>
        func.return %y : tensor<2xf32>
      }""")
    with pytest.raises(QmlirError, match=r"every operation must be one that qmlir knows, got .*onnx\.Odd"):
        qmlir.export(module, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
