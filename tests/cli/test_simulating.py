"""`--target` from the command line: quantize for a device, write its program, run that, with and without overlap."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.npu.c_model.library import compiler
from qmlir.backends.npu.stream import Program, assemble
from qmlir.backends.simulated import Simulated
from qmlir.devices import load_device
from tests.cli.small import Small, run


@pytest.fixture
def quantized(small: Small) -> Path:
    """The network as the device nmp asks for it."""
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "small.yaml") == 0
    output = small / "small.mlir"
    assert run("quantize", small.onnx, "--profile", small / "small.yaml", "--target", "nmp", "-o", output) == 0
    return output


def outputs(small: Small, *arguments: object) -> np.ndarray:
    file = small / "outputs.npz"
    assert run("run", *arguments, "--data", small.data, "-o", file) == 0
    with np.load(file) as arrays:
        return arrays["scores"]


@pytest.mark.slow
def test_a_program_gives_what_the_network_gives(
    small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = small / "small.npu"
    assert run("compile", quantized, "--target", "nmp", "-o", program) == 0
    assert (small / "small.host.mlir").exists()
    shown = capsys.readouterr().out
    for what in ("routines of the host", "at most", "conv1+relu1", "% if nothing waited"):
        assert what in shown
    assert re.search(r"host_0 reads \d+ bytes and writes \d+: \d+ cycles", shown)
    assert re.search(r"dram: [1-9]\d* bytes of tensors, as many as live at once; [1-9]\d* of constants", shown)
    expected = outputs(small, quantized)  # on this processor, rounded as the device does
    assert expected.shape == (6, 1, 3)
    for arguments in (
        (quantized, "--reference"),
        (quantized, "--target", "nmp"),
        (program, "--target", "nmp"),
        (program, "--target", "nmp", "--serial"),
        (program, "--target", "nmp", "--simulator", "python"),
        *([(program, "--target", "nmp", "--simulator", "c")] if compiler() else []),
    ):
        assert np.array_equal(outputs(small, *arguments), expected)
    shown = capsys.readouterr().out
    assert "conv1+relu1" in shown
    assert "of its MACs used" in shown


def test_a_run_is_timed_without_compiling(small: Small, quantized: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    prepare, run_all = Simulated.prepare, Simulated.run_all
    monkeypatch.setattr(Simulated, "prepare", lambda self, n: done.append(f"prepare {n}") or prepare(self, n))
    monkeypatch.setattr(Simulated, "run_all", lambda self, some: done.append("run") or run_all(self, some))
    assert run("run", quantized, "--target", "nmp", "--data", small.data, "--samples", 3) == 0
    assert done == ["prepare 3", "run"]


LISTED = {
    "vta": ("exec convolve .* after load:\\d+ ; pop load", "exec post .* ; push store"),
    "nvdla-small": ("load move .* ; count 1 consumers exec:\\d+", "exec convolve .* after load:\\d+ ; count 1"),
    "gemmini": ("exec convolve .* out_channels=4", "exec end status=0"),
}


@pytest.mark.parametrize("device", LISTED)
def test_commands_as_text(small: Small, quantized: Path, device: str) -> None:
    """With the tokens that queues pop and push, or counts and consumers; with nothing where addresses are compared."""
    assert run("quantize", small.onnx, "--profile", small / "small.yaml", "--target", device, "-o", quantized) == 0
    assert run("compile", quantized, "--target", device, "-o", small / "small.npu") == 0
    assert run("compile", quantized, "--target", device, "--emit", "asm", "-o", small / "small.s") == 0
    text = (small / "small.s").read_text("utf-8")
    assert assemble(text, load_device(device)) == Program.load(small / "small.npu").commands
    for line in LISTED[device]:
        assert re.search(rf"^{line}$", text, re.MULTILINE)


def test_what_goes_wrong_is_said(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, to_vta = (
        small / "small.npu",
        ("--profile", small / "small.yaml", "--target", "vta", "-o", small / "x.mlir"),
    )
    assert run("compile", quantized, "--target", "nmp", "-o", program) == 0
    for arguments, message in [
        (("compile", quantized, "--target", "nmp", "-o", small / "x.o"), "must end in .npu with --target"),
        (
            ("compile", quantized, "--target", "nmp", "--emit", "asm", "-o", program),
            "must end in .s with --target",
        ),
        (
            ("compile", quantized, "--target", "nmp", "--emit", "llvm-ir", "-o", program),
            "must be obj, asm, bin, hex, readmemh, c, registers, trace with --target",
        ),
        (("run", program, "--data", small.data), "must name the device that the program is for"),
        (("run", quantized, "--serial", "--data", small.data), "must name a device with --serial"),
        (("run", quantized, "--simulator", "c", "--data", small.data), "must name a device with --simulator"),
        (
            ("run", program, "--target", "nmp", "--simulator", "fortran", "--data", small.data),
            "command line: --simulator: must be one of its values, got fortran; known: auto, c, python",
        ),
        (("run", program, "--reference", "--target", "nmp", "--data", small.data), "evaluates networks, not programs"),
        (("run", program, "--target", "vta", "--data", small.data), "array.lanes.k = 32 there, 16 here"),
        (("compile", small.onnx, "--target", "nmp", "-o", program), "nmp must compute some operation of the network"),
        (
            ("quantize", small.onnx, "--precision", "int16", *to_vta),
            "precision: must be one of int8 for vta, got int16",
        ),
        (
            ("quantize", small.onnx, "--schema", "asymmetric", *to_vta),
            "schema: must be symmetric_with_power2_scale for vta, got asymmetric; leave it out",
        ),
    ]:
        capsys.readouterr()
        assert run(*arguments) == 1
        assert message in capsys.readouterr().err


def test_a_program_without_its_host(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = small / "small.npu"
    assert run("compile", quantized, "--target", "nmp", "-o", program) == 0
    (small / "small.host.mlir").unlink()
    capsys.readouterr()
    assert run("run", program, "--target", "nmp", "--data", small.data) == 1
    assert "small.host.mlir: must be a readable file" in capsys.readouterr().err


def test_a_trace(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = small / "trace.json"
    assert run("run", quantized, "--target", "nmp", "--data", small.data, "--trace", file) == 0
    shown = capsys.readouterr().out
    cycles = json.loads(file.read_text(encoding="utf-8"))["otherData"]["cycles"]
    assert f"{cycles} cycles on nmp" in shown
    assert re.search(rf"trace\.json: written, \d+ commands in {cycles} cycles", shown)
    assert run("run", quantized, "--target", "nmp", "--data", small.data, "--trace", file, "--serial") == 0
    assert json.loads(file.read_text(encoding="utf-8"))["otherData"]["cycles"] > cycles


def test_vectors(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, one = small / "small.npu", ("--data", small.data, "--samples", "1")
    assert run("compile", quantized, "--target", "nmp", "-o", program) == 0
    for name, images in (("changes", ()), ("whole", ("--vector-images", "whole"))):
        capsys.readouterr()
        folder = small / name
        assert run("run", program, "--target", "nmp", *one, "--vectors", folder, *images, "-o", small / "y.npz") == 0
        index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        assert index["images"] == name
        commands = len(Program.load(program).commands)
        assert f"vectors of {commands} commands, listed in index.json" in " ".join(capsys.readouterr().out.split())
        assert len(index["commands"]) == commands
        (port,) = index["outputs"]
        assert (port["name"], port["shape"], port["type"]) == ("scores", [1, 3], "f32")
        with np.load(folder / "vectors.npz") as arrays, np.load(small / "y.npz") as outputs:
            last = next(c for c in reversed(index["commands"]) if c["writes"])
            name = f"{last['number']}.writes.{last['writes'][0]['operand']}"
            assert arrays[name].tobytes() == outputs["scores"].tobytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--vectors: is for one sample, got 6 samples; add --samples 1"),
        (
            ("--samples", "1"),
            "full: must be a new or an empty folder, got a folder with files; choose another, or remove",
        ),
        (("--samples", "1", "--vector-images", "some"), "--vector-images: must be one of its values, got some"),
        (("--reference",), "--reference: evaluates networks, not programs"),
        (("--samples", "1", "--simulator", "c"), "--simulator: must be python with --vectors, for which the memories"),
    ],
)
def test_vectors_that_are_none(
    arguments: tuple[str, ...], message: str, small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (small / "full").mkdir()
    (small / "full" / "notes.txt").write_text("mine")
    given = ("run", quantized, "--target", "nmp", "--data", small.data, "--vectors", small / "full", *arguments)
    assert run(*given) == 1
    assert message in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in (small / "full").iterdir()] == ["notes.txt"]


def test_what_vectors_advise(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("run", quantized, "--target", "nmp", "--data", small.data)
    one, full = ("--samples", "1"), small / "full"
    assert run(*given, "--vectors", small / "v") == 1
    assert "add --samples 1" in capsys.readouterr().err
    assert run(*given, "--vectors", small / "v", *one) == 0
    assert run(*given, "--vectors", small / "v", *one) == 1
    assert "choose another, or remove it" in capsys.readouterr().err
    assert run(*given, "--vectors", full, *one) == 0
    shutil.rmtree(small / "v")
    assert run(*given, "--vectors", small / "v", *one) == 0
    assert run(*given, "--vector-images", "whole", *one) == 1
    assert "add --vectors, or leave it out" in " ".join(capsys.readouterr().err.split())
    assert run(*given, "--vector-images", "whole", *one, "--vectors", small / "w") == 0
    assert run(*given, *one) == 0


def test_vectors_need_a_device(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        (("--vectors", small / "v"), "--target: must name a device with --vectors, got nothing"),
        (("--vector-images", "whole"), "--vector-images: is for vectors; add --vectors, or leave it out"),
    ):
        assert run("run", quantized, "--data", small.data, *options) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "t.json"), "--target: must name a device with --trace, got nothing"),
        (("--trace", "t.txt", "--target", "nmp"), "--trace: must be a file name that ends in .json, got t.txt"),
        (("--trace", "t.json", "--target", "nmp", "--reference"), "--reference: evaluates networks, not programs"),
    ],
)
def test_traces_that_are_none(
    small: Small, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", small.onnx, "--data", small.data, *arguments) == 1
    assert message in capsys.readouterr().err
    assert not Path(arguments[1]).exists()


@pytest.mark.slow
def test_keys_of_the_device_are_changed(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    target = ("--target", "nmp", "--set", "array.lanes.k=16", "--set", "memory.act.bytes=65536")
    module, program = small / "small.mlir", small / "small.npu"
    assert run("quantize", small.onnx, "--data", small.data, *target, "-o", module) == 0
    assert run("compile", module, *target, "-o", program) == 0
    expected = outputs(small, module)
    assert np.array_equal(outputs(small, program, *target), expected)
    assert np.array_equal(outputs(small, module, *target, "--reference"), expected)
    keys = Program.load(program).device
    assert (keys["array.lanes.k"], keys["memory.0.bytes"]) == (16, 65536)
    capsys.readouterr()
    assert run("run", program, "--target", "nmp", "--data", small.data) == 1
    assert "array.lanes.k = 16 there, 32 here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "array.lanes.k=16"), "--set: changes a device, which --target names, got no device"),
        (("--target", "nmp", "--set", "array.lane.k=16"), "there is no such key of a device; did you mean array.lanes"),
        (("--target", "nmp", "--set", "array.lanes.k=wide"), "array.lanes.k: must be a whole number of lanes"),
        (("--target", "nmp", "--set", "array.lanes.k"), "--set: must be a key of the device and its value"),
        (("--target", "mnp", "--set", "array.lanes.k=16"), "did you mean nmp?"),
    ],
)
def test_changes_that_are_none(
    small: Small, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compile", small.onnx, *arguments, "-o", small / "small.npu") == 1
    assert message in capsys.readouterr().err
    assert not (small / "small.npu").exists()
