"""What the command line or the network's signature makes wrong is refused before anything is compiled or measured."""

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qmlir
from qmlir.backends.cpu import llvm
from qmlir.errors import OptionError, QmlirError
from tests.cli.small import Array, run, write_small

REFUSED: dict[str, str] = {
    "quantize two.onnx --data data.npz --labels l.txt -o x.mlir": "labels need a network of one output with a number",
    "quantize small.onnx --data data.npz --labels seven.txt -o x.mlir": "labels: must be a class of the network, from",
    "quantize small.onnx --data data.npz --metric nosuch:f -o x.mlir": "--metric: must name a function that Python can",
    "quantize small.onnx --data data.npz --label-offset 1 -o x.mlir": "--label-offset: is for a score",
    "quantize small.onnx --data data.npz --target nosuch -o x.mlir": "target: must be one of",
    "quantize small.onnx --data data.npz --rule 'name=nosuch precision=int16' -o x.mlir": "must match an operation",
    "quantize small.onnx --data data.npz --granularity group-64 -o x.mlir": "granularity=group-64 needs weights of",
    "quantize small.onnx --data data.npz --target ethos-u55-like --precision uint8 -o x.mlir": "precision: must be one",
    "quantize small.onnx --data data.npz -o x.o --threads 2 --cpu cortex-m4": "threads: must be 1: there are none",
    "quantize small.onnx --data data.npz --test-data nosuch.npz -o x.mlir": "nosuch.npz: must be an .npy or .npz file",
    "tune two.onnx --data data.npz --labels l.txt --floor top1=10 -o t.yaml": "labels need a network of one output",
    "tune small.onnx --data data.npz --labels seven.txt --floor top1=10 -o t.yaml": "labels: must be a class of the",
    "tune small.onnx --data data.npz --budget cycles:nosuch=3 -o t.yaml": "target: must be one of",
    "tune small.onnx --data data.npz --floor top1=3 -o t.yaml": "floor: must be a quality that is measured, not top1",
    "tune small.onnx --data data.npz --floor metric=3 -o t.yaml": "floor: must be a quality that is measured, not metr",
    "tune small.onnx --data data.npz --floor sqnr=3 --target nosuch -o t.yaml": "target: must be one of",
    "tune small.onnx --data data.npz --floor sqnr=3 --front nowhere/f.csv -o t.yaml": "nowhere/f.csv: must be writable",
    "run two.onnx --data data.npz --labels l.txt": "labels need a network of one output with a number for each class",
    "run small.onnx --data data.npz --labels seven.txt": "labels: must be a class of the network, from 0 to 2, got 7",
    "run small.onnx --data data.npz --metric nosuch:f": "--metric: must name a function that Python can import",
    "run small.onnx --data data.npz --sequence 3": "sequence: is for networks with states, got 3",
    "run small.onnx --data data.npz --label-offset 2": "--label-offset: is for a score",
    "run small.onnx --data nosuch.npz": "nosuch.npz: must be an .npy or .npz file of plain arrays, got no such file",
    "run small.onnx --data data.npz --cpu cortex-m4": "code for cortex-m4: runs on thumbv7em-none-eabi only",
    "report two.onnx q2.mlir --data data.npz --labels l.txt -o r.html": "labels need a network of one output",
    "report small.onnx q.mlir --data data.npz --labels seven.txt -o r.html": "labels: must be a class of the network",
    "report small.onnx q.mlir --data data.npz --target nosuch -o r.html": "target: must be one of",
    "report small.onnx q.mlir --labels l.txt -o r.html": "--labels: are of the samples of --data, got no --data",
    "report small.onnx q.mlir --data data.npz --label-offset 2 -o r.html": "--label-offset: is for labels",
    "report small.onnx q.mlir --data data.npz --profile nosuch.yaml -o r.html": "nosuch.yaml: must be a readable",
    "report small.onnx q.mlir q.mlir --data data.npz -o r.html": "MODEL: must be different files",
    "bench q.mlir --cpu cortex-m4": "code for cortex-m4: runs on thumbv7em-none-eabi only",
    "bench q.mlir --against nosuch.json": "nosuch.json: must be",
    "explore nmp small.onnx --plot a.svg --axes a,b": "front: there is no objective a",
    "export small.onnx --onnx-activations kept -o x.tflite": "--onnx-activations: is for .onnx files, got -o x.tflite",
    "export small.onnx --opset 17 -o x.tflite": "--opset: is for .onnx files, got -o x.tflite",
    "export q.mlir --format onnx-integer --onnx-activations kept -o x.onnx": "-activations: is for the format onnx-qdq",
    "compile q.mlir --threads 999 -o x.o": "threads: must be from 1 to",
    "compile q.mlir --features +nosuch -o x.o": "features: must be features that LLVM knows",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of one output, one of two, and both quantized."""
    small = write_small(tmp_path_factory.mktemp("refusals"))
    proto = onnx.load(small.onnx)
    proto.graph.output.append(helper.make_tensor_value_info("pooled", TensorProto.FLOAT, [1, 4, 4, 4]))
    onnx.save(proto, small / "two.onnx")
    for name, out in (("small", "q"), ("two", "q2")):
        assert run("quantize", small / f"{name}.onnx", "--data", small.data, "-o", small / f"{out}.mlir", "-q") == 0
    (small / "l.txt").write_text("0\n1\n2\n0\n1\n2\n")
    (small / "seven.txt").write_text("0\n1\n2\n0\n1\n7\n")
    return small.folder


@pytest.fixture
def idle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No code is compiled here, which profiles, measures and searches begin with."""

    def work(*given: object) -> None:
        pytest.fail("something was compiled although the command line cannot hold")

    monkeypatch.chdir(folder)
    monkeypatch.setenv("QMLIR_CACHE", "off")
    monkeypatch.setattr(llvm, "optimize", work)


@pytest.mark.parametrize("command", REFUSED)
def test_it_is_refused_before_the_work(command: str, idle: None, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(Path().iterdir())
    assert run(*shlex.split(command)) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert error.startswith("error: ")
    assert REFUSED[command] in error
    assert sorted(Path().iterdir()) == before


PYTHON: dict[str, Callable[[], object]] = {
    "report on a device": lambda: qmlir.report("small.onnx", "q.mlir", target="nosuch"),
    "report with labels": lambda: qmlir.report("small.onnx", "q.mlir", data=samples(), labels=[0, 7]),
    "report on two outputs": lambda: qmlir.report("two.onnx", data=samples(), labels=[0, 1]),
    "quantize by a rule": lambda: qmlir.quantize(
        "small.onnx", data=samples(), policy={"rules": [{"name": "nosuch", "precision": "int16"}]}
    ),
    "tune on a device": lambda: qmlir.tune("small.onnx", samples(), floor="sqnr=3", target="nosuch"),
    "tune without labels": lambda: qmlir.tune("small.onnx", samples(), floor="top1=3"),
}


def samples() -> list[Array]:
    return [np.zeros((1, 2, 8, 8), np.float32)] * 2


@pytest.mark.parametrize("name", PYTHON)
def test_functions_refuse_early_too(name: str, idle: None) -> None:
    with pytest.raises((OptionError, QmlirError)):
        PYTHON[name]()


def test_a_network_that_a_device_does_not_compute_is_refused_before_samples_are_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from qmlir.analysis import gather

    def work(*given: object) -> None:
        pytest.fail("ranges were learned although the device computes nothing")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(gather, "learn", work)
    monkeypatch.setattr(gather, "compile", raising)
    assert run("report", "small.onnx", "q.mlir", "--data", "data.npz", "--target", "nmp", "-o", "r.html") == 1
    assert "nmp must compute some operation" in capsys.readouterr().err


def raising(*given: object, **options: object) -> None:
    raise QmlirError("nmp must compute some operation of the network")
