"""The public API as the quickstart shows it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

import qmlir
from qmlir.compiler import main_function
from qmlir.errors import OptionError, QmlirError


@pytest.fixture(scope="module")
def digits() -> Path:
    return Path(__file__).resolve().parent.parent / "examples" / "digits"


@pytest.mark.slow
def test_what_makes_no_code_imports_no_dialect_of_code(digits: Path, tmp_path: Path) -> None:
    """The llvm dialect alone takes a third of the time to import the compiler."""
    qmlir.save(qmlir.load(digits / "digits.onnx"), tmp_path / "digits.mlir")
    code = "import sys, qmlir; qmlir.load(sys.argv[1]); print(*sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "digits.mlir")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "xdsl.dialects.func" in loaded
    assert not {"xdsl.dialects.llvm", "xdsl.dialects.memref", "llvmlite", "onnx"} & set(loaded)


@pytest.mark.slow
def test_passes_compose_to_what_quantize_does(digits: Path, tmp_path: Path) -> None:
    module, data = qmlir.load(digits / "digits.onnx", bind={"batch": 1}), np.load(digits / "digits.npz")
    profile = qmlir.profile(module, [image[None] for image in data["calibration_images"][:20]])
    profile.save(tmp_path / "p.yaml")
    quantized = qmlir.quantize(module, profile, schema="symmetric")
    composed = qmlir.Pipeline(
        "fold-batch-norm",
        ("apply-profile", {"file": str(tmp_path / "p.yaml")}),
        ("quantize", {"schema": "symmetric"}),
    )(module)
    assert all(e.outcome == "quantized" for e in qmlir.decisions(composed))
    one, other = qmlir.compile(quantized), qmlir.compile(composed)
    for image in data["test_images"][:20]:
        np.testing.assert_array_equal(one(image[None]), other(image[None]))


def test_several_inputs_and_outputs_go_by_name(tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text("""
func.func @net(%a: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["left"]>},
               %b: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["right"]>})
    -> (tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["sum"]>},
        tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["product"]>}) {
  %s = nn.add %a, %b : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %p = nn.mul %a, %b : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %s, %p : tensor<1x4xf32>, tensor<1x4xf32>
}""")
    module = qmlir.load(tmp_path / "two.mlir")
    left, right = np.arange(4, dtype=np.float32)[None], np.full((1, 4), 3, np.float32)
    for network in (qmlir.compile(module), qmlir.compile(tmp_path / "two.mlir"), qmlir.reference(module)):
        results = network({"left": left, "right": right})
        np.testing.assert_array_equal(results["sum"], left + right)
        np.testing.assert_array_equal(results["product"], left * right)


def refused(call: Callable[[], object]) -> str:
    """The message of the error that a call raises."""
    with pytest.raises(QmlirError) as error:
        call()
    return str(error.value)


def test_wrong_options_name_near_misses(digits: Path) -> None:
    module = qmlir.load(digits / "model.mlir")
    assert "did you mean symmetric" in refused(lambda: qmlir.quantize(module, schema="symetric"))
    assert "did you mean quantize" in refused(lambda: qmlir.Pipeline("quantise"))
    assert "did you mean schema" in refused(lambda: qmlir.Pipeline(("quantize", {"shema": "symmetric"})))
    assert "type bool" in refused(lambda: qmlir.Pipeline(("quantize", {"per-channel": 1})))
    for threads in (0, -1, 257):
        message = f"threads: must be from 1 to 256, got {threads}"
        assert message in refused(lambda threads=threads: qmlir.compile(module, threads=threads))
    for wrong in (True, 2.0, "2", None):
        assert "threads: must be an integer" in refused(
            lambda wrong=wrong: qmlir.compile(module, threads=cast(Any, wrong))
        )
    with pytest.raises(OptionError):
        qmlir.Pipeline("no-such-pass-at-all")


def test_load_refuses_other_files(tmp_path: Path) -> None:
    (tmp_path / "net.txt").write_text("")
    assert "must be an .onnx, a .tflite, a .gguf or an .mlir file" in refused(lambda: qmlir.load(tmp_path / "net.txt"))
    assert "no such file" in refused(lambda: qmlir.load(tmp_path / "none.mlir"))
    (tmp_path / "bad.mlir").write_text("func.func @main() { oops }")
    assert "bad.mlir" in refused(lambda: qmlir.load(tmp_path / "bad.mlir"))


SAMPLES = [np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4) * scale for scale in (0.5, 1.0)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A layer and a relu."""
    weights = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    nodes = [helper.make_node("Gemm", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x], [y], [weights])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx"
    )
    return tmp_path / "net.onnx"


class _Renaming(ModulePass):
    """A pass of somebody else's: it calls the network another name."""

    name = "renaming"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main_function(op).sym_name = StringAttr("renamed")


def test_a_pipeline_takes_passes(model: Path) -> None:
    module = qmlir.load(model)
    assert main_function(qmlir.Pipeline("simplify", _Renaming())(module)).sym_name.data == "renamed"
    assert main_function(module).sym_name.data != "renamed"


@pytest.mark.parametrize("entry", [3, None, ("simplify",), ("simplify", 3), {"simplify": {}}])
def test_a_pipeline_refuses_what_is_no_pass(entry: Any) -> None:
    with pytest.raises(OptionError, match="Pipeline: takes names of passes, classes of passes, pairs of one of these"):
        qmlir.Pipeline("simplify", entry)


@pytest.fixture
def calls(model: Path, tmp_path: Path) -> dict[str, Callable[[Any], object]]:
    """What takes a module, called with one as its only unknown."""
    profile = qmlir.profile(model, SAMPLES)
    quantized = qmlir.quantize(model, profile)
    return {
        "profile": lambda m: qmlir.profile(m, SAMPLES),
        "quantize": lambda m: qmlir.quantize(m, profile),
        "reference": qmlir.reference,
        "compile": qmlir.compile,
        "bundle": lambda m: qmlir.bundle(m, tmp_path / "bundle", memory="fast"),
        "to_integers": qmlir.to_integers,
        "export": lambda m: qmlir.export(m, tmp_path / "out.onnx"),
        "analyze": lambda m: qmlir.analyze(m, quantized, SAMPLES),
        "Pipeline": qmlir.Pipeline("simplify"),
        "save": lambda m: qmlir.save(m, tmp_path / "out.mlir"),
        "decisions": qmlir.decisions,
    }


def test_what_takes_a_module_takes_a_path(calls: dict[str, Callable[[Any], object]], model: Path) -> None:
    for name, call in calls.items():
        if name not in ("Pipeline", "save"):
            call(str(model))


def test_what_takes_a_module_refuses_other_things(calls: dict[str, Callable[[Any], object]], model: Path) -> None:
    for name, call in calls.items():
        for other in (None, 3, np.zeros(3)):
            with pytest.raises(OptionError, match=r"module: must be a network .*; load it: qmlir.load\(path\)"):
                call(other)
        if name in ("Pipeline", "save"):
            with pytest.raises(OptionError, match=r"got '.*net\.onnx'; load it"):
                call(str(model))
            call(qmlir.load(model))  # the remedy


def test_profiles_and_policies_come_by_path_too(model: Path, tmp_path: Path) -> None:
    qmlir.profile(model, SAMPLES).save(tmp_path / "p.yaml")
    rules = {"rules": [{"layer": "last", "keep_float": True}]}
    quantized = qmlir.quantize(model, tmp_path / "p.yaml", policy=rules)
    assert [e.code for e in qmlir.decisions(quantized) if e.outcome == "float"] == ["policy"]
    wrong: list[tuple[str, Any]] = [("profile", 3), ("policy", 3), ("data", 3)]
    for name, value in wrong:
        given: dict[str, Any] = {"profile": tmp_path / "p.yaml", name: value}
        with pytest.raises(OptionError, match=f"^{'samples' if name == 'data' else name}: must be"):
            qmlir.quantize(model, **given)


@pytest.mark.parametrize("samples", ["x.npy", 3, None, {"x": 1}])
def test_samples_are_a_collection(model: Path, samples: Any) -> None:
    with pytest.raises(OptionError, match="samples: must be arrays"):
        qmlir.profile(model, samples)
