"""Firmware of an encoder block: its commands on the model in C, with and without parts that the host computes."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.backends.npu.test_encoder import Size, encoder
from tests.cli.small import run
from tests.cli.test_bundles import LANGUAGES, status
from tests.cli.test_device_bundles import build, emulated, sources_of


def bundle(folder: Path, device: str, *options: str) -> Path:
    """The firmware of a block that is quantized for a device."""
    size = Size()
    onnx.save(encoder(size), folder / "encoder.onnx")
    np.savez(folder / "data.npz", x=size.samples(6)[:, 0])
    network = folder / "net.mlir"
    arguments = ("--data", folder / "data.npz", "--target", device, "-o", network)
    assert run("quantize", folder / "encoder.onnx", *arguments) == 0
    assert run("compile", network, "--target", device, "--bundle", "-o", folder / "out", *options) == 0
    return folder / "out"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "io"), [("npu-transformer", "float"), ("npu-transformer", "int8"), ("nmp", "int8"), ("vta", "float")]
)
def test_the_selftest_of_a_block(device: str, io: str, tmp_path: Path) -> None:
    """On vta, the host computes products, softmax and normalizations; float interfaces are cast by the host."""
    folder = bundle(tmp_path, device, "--cpu", "x86-64-v3", "--io", io)
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", sources_of(folder))) == 0


@pytest.mark.slow
@pytest.mark.parametrize("device", ["npu-transformer", "ethos-u55-like"])
def test_a_block_runs_in_an_emulator(device: str, tmp_path: Path) -> None:
    folder = bundle(tmp_path, device, "--cpu", "cortex-m55", "--io", "int8")
    assert emulated(folder, "cortex-m55", "selftest.c", sources_of(folder)) == 0
