"""The formulas of NVIDIA's performance sheet, by the numbers that it prints itself; the table of a network."""

from pathlib import Path

import numpy as np
import pytest

from docs.measurements.nvdla_sheet import Sheet, main
from qmlir.devices.model.layer import Convolution, Layer, Pool, Tensor

PRINTED = Sheet(channels=16, kernels=128, resident=32, products=2048, buffer=512 << 10, bytes=10.24)
"""The configuration that the sheet comes with: 10 GB/s at 1 GHz, where it counts 100 cycles for 1 KiB."""

ROWS = {
    "Res2a_branch1": ((56, 64, 256, 1), 99600),
    "Res2a_branch2a": ((56, 256, 64, 1), 99600),
    "Res3a_branch1": ((56, 256, 512, 2), 247200),
    "Res3a_branch2a": ((56, 256, 128, 2), 101000),
    "Res3b_branch2a": ((28, 512, 128, 1), 55400),
    "Res5c_branch2a": ((7, 2048, 512, 1), 114650),
}
"""Layers of ResNet-50 in the sheet: rows and columns, channels, kernels, stride; cycles without the second memory."""


def layer(size: int, channels: int, kernels: int, stride: int, groups: int = 1) -> Layer:
    """A convolution of one element."""
    weights = np.zeros((kernels, 1, 1, channels // groups), np.int8)
    step = Convolution(weights, 0, None, 0, groups, (stride, stride), (1, 1), (0, 0, 0, 0), 32)
    ends = [Tensor(name, (1, n, n, c), 8) for name, n, c in (("x", size, channels), ("y", -(-size // stride), kernels))]
    return Layer("layer", "conv2d", (ends[0],), ends[1], (step,))


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_the_sheet(name: str) -> None:
    shape, cycles = ROWS[name]
    assert PRINTED.cycles(layer(*shape)) == cycles


def test_the_array_of_nv_small() -> None:
    """The array takes 8 channels and 8 kernels at once; layers of few products wait for the memory."""
    assert Sheet().cycles(layer(16, 64, 60, 1)) == 16 * 16 * 64
    assert Sheet().cycles(layer(16, 3, 10, 1)) == (16 * 16 * 8 + 8 * 10 + 16 * 16 * 16) / 8
    assert Sheet().cycles(layer(16, 64, 64, 1, groups=64)) is None
    pool = Pool(False, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), False, 0)
    ends = Tensor("x", (1, 4, 4, 8), 8), Tensor("y", (1, 2, 2, 8), 8)
    assert Sheet().cycles(Layer("pool", "maxpool", (ends[0],), ends[1], (pool,))) is None


@pytest.mark.slow
def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digits", "kws"], find=tmp_path.joinpath, peers=tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["digits", "sheet", "own", "share"]
    whole, every = (next(line.split() for line in lines if line.startswith(begin)) for begin in ("layers of", "all"))
    sheet, own, share = whole[-3:]
    assert float(share) == pytest.approx(100 * int(sheet) / int(own), abs=0.051)
    assert every[-3] == sheet
    assert int(every[-2]) > int(own)
    assert lines[-1].startswith("kws is left out: there is no ")


def test_a_name_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gemmini"])
    assert "a name must be one of digits, " in capsys.readouterr().err
