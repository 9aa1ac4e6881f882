"""A folder of pictures, from float to scores: preprocessing is said once, samples are held out, budgets are told."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import qmlir
from qmlir.dialects.inputs import reading_notes
from qmlir.profiles.profile import Profile
from tests.cli.small import run

SCALE = "scale=0.00784314 mean=1"
RAW = "scale=0.00392157"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network that tells red, green and blue pictures apart, and ten pictures whose names start with their class."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["features"], "conv"),
        helper.make_node("GlobalAveragePool", ["features"], ["mean"], "pool"),
        helper.make_node("Flatten", ["mean"], ["z"], "flatten"),
        helper.make_node("Softmax", ["z"], ["scores"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes, "colours",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 6, 6])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "net.onnx"))
    (tmp_path / "pictures").mkdir()
    for i in range(10):
        pixels = rng.integers(0, 120, (6, 6, 3)).astype(np.uint8)
        pixels[:, :, i % 3] += 60
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{i % 3}_{i}.png")
    (tmp_path / "own_metric.py").write_text("def total(outputs, labels):\n    return outputs.sum() + len(labels)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.slow
def test_preprocessing_is_said_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("profile", "net.onnx", "--data", "pictures", "--preprocess", SCALE, "-o", "p.yaml") == 0
    assert Profile.load("p.yaml").notes.preprocess == SCALE
    capsys.readouterr()
    assert run("quantize", "net.onnx", "--profile", "p.yaml", "--data", "pictures", "-o", "q.mlir") == 0
    out = capsys.readouterr().out
    assert f"--preprocess '{SCALE}', as in p.yaml\n" in out
    assert "weights rounded and biases corrected on 10 samples\n" in out
    assert f'qmlir.preprocess = "{SCALE}"' in (folder / "q.mlir").read_text()
    assert run("run", "q.mlir", "--data", "pictures", "--labels", "names", "-o", "o.npz") == 0
    out = capsys.readouterr().out
    assert f"--preprocess '{SCALE}', as in q.mlir\n" in out
    assert "10 samples  " in out
    assert "100.00 %" in out
    x = np.stack([np.asarray(Image.open(f), np.float64) for f in sorted((folder / "pictures").iterdir())])
    inputs = (x * 0.00784314 - 1).transpose(0, 3, 1, 2).astype(np.float32)
    expected = qmlir.reference("q.mlir")
    np.testing.assert_array_equal(np.load("o.npz")["scores"], [expected(i[None]) for i in inputs])
    assert run("analyze", "net.onnx", "q.mlir", "--data", "pictures") == 0
    assert "as in q.mlir" in capsys.readouterr().out
    assert run("report", "net.onnx", "q.mlir", "--data", "pictures", "--seconds", 0, "-o", "r.html") == 0
    assert f"--preprocess '{SCALE}', as in q.mlir\n" in capsys.readouterr().out
    assert run("run", "q.mlir", "--data", "pictures", "--preprocess", RAW, "-o", "raw.npz") == 0
    assert "as in" not in capsys.readouterr().out
    assert not np.array_equal(np.load("raw.npz")["scores"], np.load("o.npz")["scores"])
    assert run("quantize", "net.onnx", "--profile", "p.yaml", "-o", "n.mlir") == 0
    assert reading_notes(qmlir.load("n.mlir")).preprocess == SCALE
    text = (folder / "q.mlir").read_text().replace(SCALE, "scale=much")
    (folder / "q.mlir").write_text(text)
    assert run("run", "q.mlir", "--data", "pictures") == 1
    assert "q.mlir: must say how samples are read in words of --preprocess, got --preprocess=scale" in (
        capsys.readouterr().err
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".npu"])
def test_files_of_other_formats_keep_how_pictures_are_read(
    folder: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    device = ["--target", "nmp"] if suffix == ".npu" else []
    said = ("--data", "pictures", "--preprocess", SCALE, *device, "-o", f"q{suffix}")
    assert run("quantize", "net.onnx", *said) == 0
    capsys.readouterr()
    assert run("run", f"q{suffix}", "--data", "pictures", "--samples", "2", *device) == 0
    assert f"--preprocess '{SCALE}', as in q{suffix}\n" in capsys.readouterr().out
    if suffix != ".npu":
        assert reading_notes(qmlir.load(f"q{suffix}")).preprocess == SCALE
        assert run("report", "net.onnx", f"q{suffix}", "--data", "pictures", "--seconds", "0", "-o", "r.html") == 0
        assert f"--preprocess '{SCALE}', as in q{suffix}\n" in capsys.readouterr().out


@pytest.mark.slow
def test_one_step_with_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For onnxruntime, with a batch that stays symbolic."""
    said = ("--data", "pictures", "--preprocess", SCALE, "--labels", "names", "--metric", "own_metric:total")
    assert run("quantize", "net.onnx", *said, "--for", "onnxruntime", "--samples", 4, "-o", "q.mlir") == 0
    out = capsys.readouterr().out
    assert "learned from 4 samples" in out
    assert "scored on 6 samples of pictures, quantized on the other 4, drawn with a fixed seed\n" in out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert lines["float"] == ["float", "100.00", "%", "100.00", "%", "0", "100.00", "%", "12"]
    assert lines["quantized"][:3] == ["quantized", "100.00", "%"]
    assert "top-1: 0 lost, 0 won; 100.00 % have float's first class; SQNR" in out
    assert run("export", "q.mlir", "-o", "q.onnx") == 0
    assert "warning" not in capsys.readouterr().err
    graph = onnx.load("q.onnx").graph
    assert [i.type.tensor_type.shape.dim[0].dim_param for i in (*graph.input, *graph.output)] == ["N", "N"]
    assert run("quantize", "net.onnx", *said, "--test-data", "pictures", "-o", "q.mlir") == 0
    assert "scored on 10 samples of pictures, quantized on the same\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--test-data", "pictures", "--no-measure"),
            "--test-data: is for a score; give --labels or --metric, too",
        ),
        (("--label-offset", "1"), "--label-offset: is for a score"),
        (
            ("--labels", "names", "--samples", "10"),
            "needs samples to score on, got 10 samples, of which 10 are for quan",
        ),
        (("--labels", "none.txt"), "none.txt: must be readable"),
        (("--metric", "own_metric"), "--metric: must be a Python function, module:function, got own_metric"),
        (("--metric", "own_metric:sum"), "that Python can import, own_metric:sum, got AttributeError"),
        (("--metric", "no_such:sum"), "got ModuleNotFoundError: No module named 'no_such'"),
        (("--metric", "math:pi"), "must name a function, got math:pi of type float"),
        (("--memory-budget", "much"), "must be bytes, or a size such as 512MiB or 2GiB, got much"),
        (("--for", "tensorrt"), "must be one of its values, got tensorrt"),
    ],
)
def test_bad_options(folder: Path, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = ("--data", "pictures", "--preprocess", SCALE, *options, "-o", "q.mlir")
    assert run("quantize", "net.onnx", *said) == 1
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (folder / "q.mlir").exists()


def test_pictures_in_python(folder: Path) -> None:
    samples = qmlir.read_samples("pictures", "net.onnx", preprocess=SCALE)
    assert [len(samples), *next(iter(samples))["image"].shape] == [10, 1, 3, 6, 6]
    quantized = qmlir.quantize("net.onnx", data=samples)
    assert reading_notes(quantized).preprocess == SCALE
    qmlir.save(quantized, "q.mlir")
    found = qmlir.score("net.onnx", "q.mlir", qmlir.read_samples("pictures", "q.mlir"), [0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert found.original.top1 == found.quantized.top1 == 10
    assert {entry.outcome for entry in qmlir.decisions("q.mlir")} == {"quantized"}


def test_a_budget_limits_samples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ("quantize", "net.onnx", "--data", "pictures", "--preprocess", SCALE, "-o", "q.mlir")
    assert run(*said, "--memory-budget", "12KiB") == 0
    captured = capsys.readouterr()
    assert "weights rounded and biases corrected on 3 of 10 samples\n" in captured.out
    assert "may take 0.0117188 MiB; --memory-budget, or memory_budget in Python, gives them more" in captured.err
    module = qmlir.load("net.onnx")
    samples = [np.full((1, 3, 6, 6), i, np.float32) for i in range(5)]
    with pytest.warns(qmlir.errors.QmlirWarning, match="on 3 of 5 samples"):
        qmlir.quantize(module, data=samples, memory_budget=12 << 10, preprocess=RAW)
