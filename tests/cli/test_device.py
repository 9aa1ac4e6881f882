"""`qmlir device check`: figures, what a device takes of a network, and why not the rest."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.cli import main as driver
from qmlir.devices import load_device
from qmlir.devices.legality.limits import EVERY
from tests.conftest import ROOT

DIGITS = str(ROOT / "examples" / "digits" / "digits.onnx")
GEMMINI = (ROOT / "qmlir" / "targets" / "gemmini.toml").read_text("utf-8")


def test_the_figures_of_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["device", "check", "nmp"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "nmp: 512 MACs/cycle, 204.8 GMAC/s at 400 MHz"
    assert "  i16 by i8 into i40: 256 MACs/cycle" in lines
    assert "  memory dram: 67108864 bytes external, 16 bytes/cycle: 0.03125 bytes/MAC" in lines
    assert "  results can stay in act until the last layer reads them" in lines
    assert lines[-1] == "  scales change by the contract shift"


def test_what_a_device_computes_without_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["device", "check", "vta"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    page = (ROOT / "DEVICES.md").read_text("utf-8")
    listed = re.findall(r"^\* \*\*(.*)\*\*(: .*)$", page[page.index("## vta") :], re.MULTILINE)
    assert len(listed) == len(EVERY)
    assert all(kind + limits in lines for kind, limits in listed)
    assert "factors between scales are powers of two from 4.657e-10 to 1" in lines
    assert driver.main(["device", "check", "vta", DIGITS]) == 0
    assert "lut: not computed" not in capsys.readouterr().out


def test_the_devices(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert driver.main(["device", "list"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^nmp +512  32 x 16, ws +act 256KiB, .*; outside dram 64MiB +shift", shown, re.MULTILINE)
    assert "vta: In the manner of TVM's VTA" in shown


def test_the_file_of_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["device", "show", "nmp", "--set", "array.lanes.k=16"]) == 0
    (tmp_path / "mine.toml").write_text(capsys.readouterr().out, "utf-8")
    assert load_device(tmp_path / "mine.toml") == load_device("nmp").with_({"array.lanes.k": 16})
    assert driver.main(["device", "show", "nmpp"]) == 1
    assert "did you mean nmp?" in capsys.readouterr().err


def test_the_figures_of_a_variant(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("--set", "array.lanes.k=16", "--set", "array.depthwise.lanes.taps=32")
    assert driver.main(["device", "check", "nmp", DIGITS, *changes]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("nmp: 512 MACs/cycle, 204.8 GMAC/s at 400 MHz\n")
    for line in ("  i8 by i8 into i32: 256 MACs/cycle", "  depthwise: 512 MACs/cycle", "100.0 % of the MACs on nmp"):
        assert line in shown


def test_a_device_without_a_memory_for_data_and_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["device", "check", "vta"]) == 0
    assert "  results go out after each layer: there is no memory inside for both" in capsys.readouterr().out


def test_a_network_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["device", "check", "gemmini", DIGITS]) == 0
    assert "100.0 % of the MACs on gemmini" in capsys.readouterr().out


def test_what_a_device_refuses_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(GEMMINI.replace("conv2d = {", "conv2d = { kernel_max = [1, 1],"), "utf-8")
    assert driver.main(["device", "check", str(tmp_path / "mine.toml"), DIGITS]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert "not on gemmini:" in lines
    first = lines.index(next(line for line in lines if re.fullmatch(r"\S+: qint.conv2d, \d+ MACs", line)))
    assert lines[first + 1 : first + 3] == [
        "  a window has at most 1x1 elements, got 3x3 (ops.conv2d.kernel_max)",
        "  key: ops.conv2d.kernel_max: [1, 1] → [3, 3]",
    ]
    assert "100.0 % of the MACs" not in shown


def test_a_device_that_computes_nothing_of_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ops = GEMMINI.index("[ops]")
    (tmp_path / "none.toml").write_text(GEMMINI[:ops] + '[ops]\nmul = {}\n[fallback]\nkind = "host"\n', "utf-8")
    assert driver.main(["device", "check", str(tmp_path / "none.toml"), DIGITS]) == 1
    assert "must compute some operation of the network, got none of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gemini", "did you mean gemmini?"),
        ("absent.toml", "must be a device file that can be read, got No such file or directory"),
    ],
)
def test_devices_that_are_none(device: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["device", "check", device]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_tensors_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program's tensors are those of the network that was compiled, bit for bit, whatever overlaps."""
    monkeypatch.chdir(tmp_path)
    data = f"{ROOT / 'examples' / 'digits' / 'digits.npz'}:calibration_images"
    quantize = ["quantize", DIGITS, "--data", data, "--samples", "20", "--target", "vta", "-o", "int8.mlir"]
    assert driver.main(quantize) == 0
    assert driver.main(["compile", "int8.mlir", "--target", "vta", "-o", "int8.npu"]) == 0
    run = ["--data", data, "--samples", "2", "--target", "vta", "--tensors"]
    assert driver.main(["run", "int8.npu", *run, "program.npz"]) == 0
    assert driver.main(["run", "int8.npu", *run, "serial.npz", "--serial"]) == 0
    assert driver.main(["run", "int8.mlir", *run, "network.npz"]) == 0
    program, after, network = (dict(np.load(f"{name}.npz")) for name in ("program", "serial", "network"))
    assert 3 < len(program) <= len(network)
    assert list(program) == list(after)
    for name, array in program.items():
        assert array.dtype == network[name].dtype
        assert (array == network[name]).all()
        assert (array == after[name]).all()


def test_a_program_without_names_of_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An older version wrote none: the error says what to do."""
    quantized = qmlir.quantize(qmlir.load(DIGITS), data=np.zeros((2, 1, 1, 8, 8), np.float32), target="vta")
    executable = qmlir.compile(quantized, target="vta")
    executable.with_program(replace(executable.program, tensors=())).save(tmp_path / "old.npu")
    data = tmp_path / "data.npy"
    np.save(data, np.zeros((1, 1, 1, 8, 8), np.float32))
    run = ["run", str(tmp_path / "old.npu"), "--target", "vta", "--data", str(data)]
    assert driver.main([*run, "--tensors", str(tmp_path / "all.npz")]) == 1
    assert "must know tensors by their names, got none; compile the network again" in capsys.readouterr().err
