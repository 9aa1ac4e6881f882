"""`qmlir export`: a network goes out and runs elsewhere; what is refused, with nothing written."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import qmlir
from tests.backends.onnx import runtime
from tests.backends.tflite.runtime import LiteRT
from tests.cli.small import Small, run


@pytest.mark.slow
def test_a_quantized_network(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml") == 0
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "q.mlir") == 0
    assert run("export", small / "q.mlir", "--format=onnx-qdq", "-o", small / "q.onnx") == 0
    assert f"{small / 'q.onnx'}: written\n" in capsys.readouterr().out
    session = onnxruntime.InferenceSession(str(small / "q.onnx"), providers=["CPUExecutionProvider"])
    ours = qmlir.compile(qmlir.load(small / "q.mlir"))
    (name,) = (i.name for i in session.get_inputs())
    for sample in small.samples:
        theirs = np.asarray(session.run(None, {name: sample[None]})[0])
        np.testing.assert_allclose(theirs, ours(sample[None]), atol=_step(small / "q.mlir"))


@pytest.mark.parametrize(("format", "numerics"), [("onnx-qoperator", "onnxruntime"), ("onnx-integer", "default")])
def test_the_same_integers_elsewhere(small: Small, format: str, numerics: str) -> None:
    """The rounding that quantize was told to follow stays with the file that it writes."""
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml") == 0
    options = ("--profile", small / "p.yaml", "--numerics", numerics)
    assert run("quantize", small.onnx, *options, "-o", small / "q.mlir") == 0
    assert run("export", small / "q.mlir", "--format", format, "-o", small / "q.onnx") == 0
    ours, theirs = qmlir.compile(qmlir.load(small / "q.mlir")), runtime.session(small / "q.onnx")
    (name,) = (i.name for i in theirs.get_inputs())
    for sample in small.samples:
        np.testing.assert_array_equal(np.asarray(theirs.run(None, {name: sample[None]})[0]), ours(sample[None]))


def _step(path: Path) -> float:
    """The scale of the only output."""
    from qmlir.compiler import main_function
    from qmlir.dialects.quant.ops import DequantizeCastOp

    (last,) = [o for o in main_function(qmlir.load(path)).walk() if isinstance(o, DequantizeCastOp)][-1:]
    return 1.001 * last.quantized.scale


def test_a_float_network(small: Small) -> None:
    assert run("export", small.onnx, "--opset", 17, "-o", small / "f.onnx") == 0
    model = onnx.load(str(small / "f.onnx"))
    assert model.opset_import[0].version == 17
    # One transpose: what flattens its image channels last has weights in that order.
    assert [n.op_type for n in model.graph.node] == ["Conv", "Relu", "MaxPool", "Transpose", "Reshape", "Gemm"]


@pytest.mark.filterwarnings("ignore")
def test_a_tflite_file(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", small.onnx, "--format=tflite", "-o", small / "f.tflite") == 0
    assert f"{small / 'f.tflite'}: written\n" in capsys.readouterr().out
    theirs, ours = LiteRT(small / "f.tflite"), qmlir.compile(qmlir.load(small.onnx))
    for sample in small.samples:
        np.testing.assert_allclose(theirs.run([sample[None]])[0], ours(sample[None]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format=onnx-qdx", "-o", "x.onnx"), "must be one of its values, got onnx-qdx; did you mean onnx-qdq?"),
        (("--opset=12", "-o", "x.onnx"), "opset: must lie in 13 … "),
        (("--opset=x", "-o", "x.onnx"), "must be a positive number, got x"),
        (("-o", "x.pb"), "must be a file name that ends in .onnx or .tflite, got x.pb"),
        (("--format=onnx-qdq", "-o", "x.tflite"), "an .onnx file for the format onnx-qdq; leave out the format"),
        (("--format=tflite", "-o", "x.onnx"), "x.onnx: must be the name of a .tflite file; let it end in .tflite"),
        (
            ("--format=tflite", "--opset=17", "-o", "x.tflite"),
            "--opset: is for .onnx files, got -o x.tflite; leave it out",
        ),
        (("--format=tflite", "-o", "nowhere/x.tflite"), "must be writable, got no such file or directory"),
        (("-o", "nowhere/x.onnx"), "must be writable, got no such file or directory"),
    ],
)
def test_bad_options(
    small: Small, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(small.onnx.parent)
    before = sorted(small.onnx.parent.iterdir())
    assert run("export", small.onnx, *options) == 1
    assert message in " ".join(capsys.readouterr().err.split())
    assert sorted(small.onnx.parent.iterdir()) == before


def test_what_is_quantized_already_is_said(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """A quantized file keeps its scales, whatever the command line asks for; a float one has no such line."""
    assert run("quantize", small.onnx, "--data", small.data, "-o", small / "q.tflite") == 0
    assert "quantized already" not in capsys.readouterr().out
    assert run("quantize", small / "q.tflite", "--data", small.data, "--schema=symmetric", "-o", small / "r.mlir") == 0
    assert "operations were quantized already: they keep types and scales" in capsys.readouterr().out
