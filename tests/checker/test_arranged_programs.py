"""The checker on products of two computed matrices: programs hold, and what is wrong with an arranged one is caught."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.certify import certificate_of_program
from qmlir.analysis.certify.certificate import file_hashes
from qmlir.backends.npu.stream import Program
from qmlir.checker import CheckError, check_certificate
from qmlir.isa.commands import Arrange, Convolve
from tests.checker.networks import RNG

NETWORK = """
func.func @main(%x: tensor<2x40x6xf32>, %y: tensor<2x50x6xf32>) -> tensor<2x40x50xf32> {
  %0 = nn.add %x, %x : tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x6xf32>
  %1 = nn.add %y, %y : tensor<2x50x6xf32>, tensor<2x50x6xf32> -> tensor<2x50x6xf32>
  %2 = nn.transpose %1 {permutation = array<i64: 0, 2, 1>} : tensor<2x50x6xf32> -> tensor<2x6x50xf32>
  %3 = nn.matmul %0, %2 : tensor<2x40x6xf32>, tensor<2x6x50xf32> -> tensor<2x40x50xf32>
  func.return %3 : tensor<2x40x50xf32>
}
"""


@pytest.fixture(scope="module", params=["nmp", "npu-transformer", "ethos-u55-like"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and its certificate."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "float.mlir").write_text(NETWORK)
    samples = [
        {f"input{n}": RNG.normal(size=(2, rows, 6)).astype(np.float32) for n, rows in enumerate((40, 50))}
        for _ in range(4)
    ]
    device = qmlir.load_device(request.param).with_({"fallback.macs_per_cycle": 0.001})
    quantized = qmlir.quantize(folder / "float.mlir", data=samples, target=device, measure=False)
    qmlir.compile(quantized, target=device).save(folder / "net.npu")
    (folder / "net.json").write_text(json.dumps(certificate_of_program(folder / "net.npu")))
    return folder


def test_programs_hold(original: Path) -> None:
    """One matrix for each sample is arranged, and sums are of at most as many products as rows have elements."""
    commands = Program.load(original / "net.npu").commands
    assert sum(isinstance(command, Arrange) for command in commands) == 2
    assert check_certificate(original / "net.json")["sums"] >= 2
    certificate = json.loads((original / "net.json").read_text())
    ends = [each["range"] for each in certificate["commands"] if each["command"] == "convolve"]
    assert len(ends) == sum(isinstance(command, Convolve) for command in commands)
    assert all(max(map(abs, end)) <= 6 * 255 * 255 for end in ends)


def refused(original: Path, folder: Path, said: str, arranges: bool = True, **changes: Any) -> None:
    """Whether the checker refuses a program whose first arranged matrix is another one.

    Args:
        original: The folder of the program.
        folder: The folder of the changed one.
        said: What the error says.
        arranges: Whether queues arrange matrices on the device that the program names.
        changes: The fields of the command that change.
    """
    program = Program.load(original / "net.npu")
    commands = list(program.commands)
    number = next(n for n, command in enumerate(commands) if isinstance(command, Arrange))
    commands[number] = replace(commands[number], **changes)
    device = {key: value for key, value in program.device.items() if arranges or not key.endswith(".arranges")}
    shutil.copytree(original, folder, dirs_exist_ok=True)
    replace(program, commands=commands, device=device).save(folder / "net.npu")
    certificate = json.loads((original / "net.json").read_text())
    certificate["artefact"] = file_hashes([folder / "net.npu", folder / "net.host.mlir"])
    (folder / "net.json").write_text(json.dumps(certificate))
    with pytest.raises(CheckError, match=said):
        check_certificate(folder / "net.json")


def test_a_width_that_no_device_has(original: Path, tmp_path: Path) -> None:
    refused(original, tmp_path, "must be a command that a device executes, got 32 bits", bits=32)


def test_a_queue_that_does_not_arrange(original: Path, tmp_path: Path) -> None:
    refused(original, tmp_path, "must be a command that the device executes, got queue ., which arranges no", False)


@pytest.mark.parametrize("original", ["nmp", "npu-transformer"], indirect=True)
def test_floats_are_refused(original: Path, tmp_path: Path) -> None:
    """On ethos-u55-like, integers have taken the place of the network's floats by then."""
    place = Program.load(original / "net.npu").inputs[1].place
    refused(original, tmp_path, "must compute on integers, got floats in source", source=place)
