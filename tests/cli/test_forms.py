"""`qmlir quantize -o` with the suffix of a runnable form: the bytes of two commands; what does not fit is refused."""

import json
from pathlib import Path

import pytest

from qmlir.cli import quantizing
from qmlir.settings.fields import OPTIONS
from tests.cli.small import Small, run

DEVICE = "ethos-u55-like"

CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "onnx": ((), ("export",), "net.onnx"),
    "onnx for a runtime": (("--for", "onnxruntime"), ("export",), "net.onnx"),
    "onnx in a format": ((), ("export", "--format", "onnx-integer", "--opset", "21"), "net.onnx"),
    "onnx with signed bytes": ((), ("export", "--onnx-activations", "kept"), "net.onnx"),
    "onnx that rounds as a device": (("--target", DEVICE), ("export",), "net.onnx"),
    "tflite": ((), ("export",), "net.tflite"),
    "machine code": ((), ("compile",), "net.o"),
    "machine code of threads": ((), ("compile", "--threads", "2"), "net.o"),
    "machine code for another processor": ((), ("compile", "--triple", "aarch64-linux-gnu"), "net.o"),
    "machine code that rounds as a device": (("--target", DEVICE), ("compile",), "net.o"),
    "a device's program": (("--target", DEVICE), ("compile", "--target", DEVICE), "net.npu"),
}
"""Case → options of `quantize`, the second command with the options of its own, and the file."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_one_command_writes_what_two_write(small: Small, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    options, (second, *own), name = CASES[case]
    one, two = small / "one", small / "two"
    one.mkdir()
    two.mkdir()
    start = ("quantize", small.onnx, "--data", small.data, *options)
    assert run(*start, *(o for o in own if o not in options), "-o", one / name, "--json", small / "d.json") == 0
    printed = capsys.readouterr().out
    assert run(*start, "-o", small / "q.mlir", "-q") == 0
    assert run(second, small / "q.mlir", *own, "-o", two / name) == 0
    written = {file.name: file.read_bytes() for file in one.iterdir()}
    assert written == {file.name: file.read_bytes() for file in two.iterdir()}
    assert name in written
    for line in capsys.readouterr().out.splitlines():
        assert line.replace(str(two), str(one)) in printed
    document = json.loads((small / "d.json").read_text())
    assert {Path(file).name for file in document["files"]} == set(written)
    suffix = Path(name).suffix
    assert (document["code"] is not None, document["program"] is not None) == (suffix == ".o", suffix == ".npu")


def test_scores_and_ledger_beside_a_form(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "labels.txt").write_text("0\n1\n2\n0\n1\n2\n")
    more = ("--labels", small / "labels.txt", "--ledger", small / "l.json", "-o", small / "net.tflite")
    assert run("quantize", small.onnx, "--data", small.data, *more) == 0
    assert "top" in capsys.readouterr().out
    assert json.loads((small / "l.json").read_text())["model"] == str(small / "net.tflite")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-o x.pb", "must be a file name that ends in .mlir or .onnx or .tflite or .o or .npu, got x.pb"),
        ("-o x.npu", "--target: must name the device of an .npu file, got nothing; name one of `qmlir device list`"),
        ("-o x.npu --target no-such", "no-such"),
        ("-o x.o --opset 17", "--opset: is for .onnx files, got -o x.o; leave it out, or name such a file"),
        ("-o x.tflite --onnx-activations kept", "--onnx-activations: is for .onnx files, got -o x.tflite"),
        ("-o x.onnx --onnx-activations kept --format onnx-integer", "is for the format onnx-qdq, got onnx-integer"),
        ("-o x.mlir --format onnx-qdq", "--format: is for .onnx and .tflite files, got -o x.mlir"),
        ("-o x.onnx --format tflite", "--format: needs the suffix .tflite for tflite, got -o x.onnx; leave it out"),
        ("-o x.tflite --format onnx-qdq", "--format: needs the suffix .onnx for onnx-qdq, got -o x.tflite"),
        ("-o x.onnx --threads 2", "--threads: is for .o files, got -o x.onnx"),
        ("-o x.npu --target vta --cpu native", "--cpu: is for .o files, got -o x.npu"),
        ("-o x.o --for onnxruntime", "--for: is for .mlir and .onnx files, got -o x.o"),
        ("-o x.onnx --opset 12", "opset: must lie in 13 … "),
        ("-o x.o --threads 257", "threads: must be from 1 to 256, got 257"),
        ("-o x.o --cpu no-such", "cpu: must be native or a processor that LLVM knows, got no-such"),
        ("-o nowhere/x.mlir", "nowhere/x.mlir: must be writable, got no such file or directory; make its folder first"),
        ("-o x.mlir --ledger nowhere/x.json", "nowhere/x.json: must be writable"),
        ("-o x.mlir --save-profile nowhere/x.yaml", "nowhere/x.yaml: must be writable"),
        ("-o x.mlir --json nowhere/x.json", "nowhere/x.json: must be writable"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(
    small: Small, options: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.folder)
    monkeypatch.setattr(quantizing, "load_known", _no_work)
    before = sorted(small.folder.iterdir())
    assert run("quantize", small.onnx, "--data", small.data, *options.split()) == 1
    printed = capsys.readouterr()
    assert message in " ".join(printed.err.split())
    assert printed.out == ""
    assert sorted(small.folder.iterdir()) == before


@pytest.mark.parametrize("given", [(), ("--data", "data.npz"), ("--profile", "p.yaml")])
def test_ranges_come_from_data_or_a_profile(
    small: Small, given: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.folder)
    assert run("profile", small.onnx, "--data", small.data, "-o", "p.yaml", "-q") == 0
    assert run("quantize", small.onnx, *given, "-o", "x.onnx", "--for", "onnxruntime") == (0 if given else 1)
    error = capsys.readouterr().err
    assert error.startswith("error: --data: must give samples, from which the ranges") == (not given)
    assert "calib.observe" not in error


def test_a_folder_that_does_not_exist(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("quantize", small.onnx, "--data", small / "photo", "-o", small / "x.onnx") == 1
    assert "photo: must be a file or a folder of samples, got none of this name" in capsys.readouterr().err


def _no_work(arguments: object) -> None:
    pytest.fail("the model was read although the options cannot hold")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("-o x.o --opset 17", "-o x.onnx --opset 17"),
        ("-o x.onnx --format tflite", "-o x.onnx"),
        ("-o x.npu", f"-o x.npu --target {DEVICE}"),
        ("-o nowhere/x.mlir", "-o nowhere/x.mlir"),
    ],
)
def test_remedies(small: Small, wrong: str, right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.folder)
    start = ("quantize", small.onnx, "--data", small.data, "-q")
    assert run(*start, *wrong.split()) == 1
    Path("nowhere").mkdir()
    assert run(*start, *right.split()) == 0


def test_each_form_has_a_case() -> None:
    assert {Path(name).suffix for _, _, name in CASES.values()} | {".mlir"} == set(OPTIONS["output"].values)
