"""The checker on commands of whole rows: programs with them hold, and numbers that do not fit are refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.analysis.certify import certificate_of_program
from qmlir.backends.npu.stream import Program
from qmlir.checker import check_certificate
from qmlir.checker.row_commands import exponential_sums, radicands
from qmlir.checker.unproven import UnprovenError
from qmlir.isa.commands import Division, Norm, Normalize, Softmax
from qmlir.isa.encoding import Place
from tests.checker.networks import RNG

NETWORK = """
func.func @main(%x: tensor<6x20xf32>) -> tensor<6x20xf32> {
  %0 = nn.layer_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<6x20xf32> -> tensor<6x20xf32>
  %1 = nn.rms_norm %0 {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<6x20xf32> -> tensor<6x20xf32>
  %2 = nn.softmax %1 {axis = 1 : i64} : tensor<6x20xf32> -> tensor<6x20xf32>
  func.return %2 : tensor<6x20xf32>
}
"""

PLACE = Place(0, 0)
SOFTMAX = Softmax(
    *(0, (), 0, PLACE, PLACE, 8, 8, 6, 20, 20, 20, 0, -128, 127, PLACE, PLACE, Division.EXACT, 4, 256 << 12)
)
NORMALIZE = Normalize(
    *(0, (), 0, PLACE, PLACE, 8, 8, 6, 20, 20, 20, 0, -128, 127, Norm.LAYER, 0, 1 << 30, 26, 30, 999, 0)
)
TABLE = [(1 << 30, 1 << 30), (1 << 20, 1 << 29), (0, 5), (0, 0)]
BYTES = (-128, 127)


@pytest.mark.parametrize("device", ["nmp", "ethos-u55-like"])
@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_programs_hold(device: str, precision: str, tmp_path: Path) -> None:
    (tmp_path / "float.mlir").write_text(NETWORK)
    samples = [RNG.normal(size=(6, 20)).astype(np.float32) for _ in range(8)]
    target = qmlir.load_device(device).with_({"fallback.macs_per_cycle": 0.001})
    quantized = qmlir.quantize(tmp_path / "float.mlir", data=samples, target=target, precision=precision)
    qmlir.compile(quantized, target=target).save(tmp_path / "net.npu")
    kinds = {type(command) for command in Program.load(tmp_path / "net.npu").commands}
    assert Normalize in kinds
    assert (Softmax in kinds) == (precision == "int8" or device != "nmp")
    (tmp_path / "net.json").write_text(json.dumps(certificate_of_program(tmp_path / "net.npu")))
    assert check_certificate(tmp_path / "net.json")["sums"] >= len(kinds & {Softmax, Normalize})


def test_the_sums_of_exponentials() -> None:
    assert exponential_sums(SOFTMAX, BYTES, TABLE) == (1 << 30, 20 << 30)
    assert exponential_sums(SOFTMAX, (3, 4), TABLE[:2]) == (1 << 30, 20 << 30)


@pytest.mark.parametrize(
    ("command", "table"),
    [
        (SOFTMAX, [(0, 1 << 30), *TABLE[1:]]),
        (SOFTMAX, [TABLE[0], (-1, 5), *TABLE[2:]]),
        (replace(SOFTMAX, channels=1 << 20), TABLE),
        (replace(SOFTMAX, unit=1 << 32), TABLE),
        (replace(SOFTMAX, division=Division.NEWTON), [((1 << 24) - (1 << 11) - 1, 1 << 24), *TABLE[1:]]),
        (replace(SOFTMAX, division=Division.INTERPOLATED), TABLE),
    ],
)
def test_exponentials_that_cannot_be_divided(command: Softmax, table: list[tuple[int, int]]) -> None:
    with pytest.raises(UnprovenError):
        exponential_sums(command, BYTES, table)


def test_the_roots_of_sums() -> None:
    assert radicands(NORMALIZE, BYTES) == (0, ((20 * 128) ** 2 << 30) + 999)
    assert radicands(replace(NORMALIZE, norm=Norm.RMS, input_zero_point=3), (0, 5)) == (0, (20 * 9 << 30) + 999)


@pytest.mark.parametrize(
    "command",
    [
        replace(NORMALIZE, fraction=40),
        replace(NORMALIZE, shift=63),
        replace(NORMALIZE, shift=58),
        replace(NORMALIZE, multiplier=1 << 31),
        replace(NORMALIZE, epsilon_high=1 << 30),
        replace(NORMALIZE, channels=1 << 25),
    ],
)
def test_roots_that_do_not_fit(command: Normalize) -> None:
    with pytest.raises(UnprovenError):
        radicands(command, BYTES)
