"""Convolutions tile by tile: the bits of the reference, however a device's memories cut them up."""

from pathlib import Path

import pytest

from qmlir.devices import shipped_devices
from qmlir.errors import PipelineError
from tests.conftest import ROOT, crossed
from tests.transforms.npu.contractions import Convolution, mismatches

SAME = (1, 1, 1, 1)

EVERYWHERE = {
    "3x3": Convolution((1, 9, 11, 8), (24, 3, 3, 8), padding=SAME),
    "1x1, two images": Convolution((2, 7, 5, 40), (18, 1, 1, 40)),
    "3x3, two images": Convolution((2, 7, 5, 4), (10, 3, 3, 4), padding=SAME),
    "stride and uneven padding": Convolution((1, 13, 12, 3), (20, 5, 3, 3), (2, 2), padding=(2, 1, 0, 1)),
    "padding beyond the image": Convolution((1, 2, 3, 4), (5, 5, 5, 4), padding=(4, 4, 4, 4)),
    "no bias": Convolution((1, 5, 5, 8), (8, 3, 3, 8), bias=False),
    "residual": Convolution((1, 14, 9, 16), (32, 3, 3, 16), padding=SAME, residual=True),
    "a whole row of pixels": Convolution((1, 1, 1, 300), (70, 1, 1, 300)),
}
"""Layers that all devices compute."""


@crossed({"name": EVERYWHERE, "device": shipped_devices()})
def test_bits(name: str, device: str) -> None:
    assert mismatches(EVERYWHERE[name], device) == 0


@pytest.mark.parametrize("device", [d for d in shipped_devices() if d != "vta"])
def test_depthwise(device: str) -> None:
    layer = Convolution((1, 11, 10, 40), (1, 3, 3, 40), (2, 2), padding=SAME, depthwise=True, residual=True)
    assert mismatches(layer, device) == 0


@pytest.mark.slow
@pytest.mark.parametrize("device", ["nvdla-small", "ethos-u55-like"])
def test_a_scale_for_each_channel(device: str) -> None:
    assert mismatches(Convolution((1, 9, 9, 16), (150, 3, 3, 16), padding=SAME, per_channel=True), device) == 0


def test_dilations() -> None:
    assert mismatches(Convolution((1, 12, 12, 8), (8, 3, 3, 8), dilations=(2, 2)), "ethos-u55-like") == 0


def test_numbers_of_16_bits() -> None:
    assert mismatches(Convolution((1, 9, 9, 16), (24, 3, 3, 16), padding=SAME, bits=16), "nmp") == 0


# ---------------------------------------------------------------------------------------------------------------
# Devices with little room


def device_file(folder: Path, *changes: tuple[str, str]) -> Path:
    """The device `nmp` with changes."""
    text = (ROOT / "qmlir" / "targets" / "nmp.toml").read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    written = folder / "mine.toml"
    written.write_text(text, encoding="utf-8")
    return written


def small(folder: Path, data: int, weights: int, sums: int) -> Path:
    """The device `nmp` with so many bytes in its memories."""
    return device_file(
        folder,
        ("bytes = 262144\nbanks = 8", f"bytes = {data}\nbanks = 1"),
        ("bytes = 262144", f"bytes = {weights}"),
        ("bytes = 131072", f"bytes = {sums}"),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "weights", "sums"), [(4096, 65536, 65536), (65536, 4096, 65536), (65536, 65536, 4096), (4096, 6144, 4096)]
)
def test_little_room(tmp_path: Path, data: int, weights: int, sums: int) -> None:
    device = small(tmp_path, data, weights, sums)
    for layer in (
        Convolution((1, 6, 70, 72), (24, 3, 3, 72), padding=SAME, residual=True),
        Convolution((1, 12, 13, 72), (70, 1, 1, 72), residual=True),
        Convolution((1, 1, 1, 1500), (10, 1, 1, 1500)),
    ):
        assert mismatches(layer, device, 1) == 0


def test_groups(tmp_path: Path) -> None:
    device = device_file(tmp_path, ("conv2d = { ", "conv2d = { groups = true, "))
    layer = Convolution((2, 6, 6, 24), (36, 3, 3, 8), padding=SAME, groups=3, residual=True)
    assert mismatches(layer, device) == 0


def test_no_room_at_all(tmp_path: Path) -> None:
    device = small(tmp_path, 65536, 1024, 65536)
    with pytest.raises(PipelineError, match=r"smallest tile must fit the memories, got \d+ bytes of weights in 1024"):
        mismatches(Convolution((1, 16, 16, 8), (4, 11, 11, 8)), device)
