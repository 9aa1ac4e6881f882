"""Faults planted in Gemmini's encoder: layers on the functional model, beside what their data say, find each."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.backends.hardware import gemmini
from qmlir.devices.model.layer import Addition, ImageSum, Pool
from tests.backends.hardware.faults import faulty
from tests.backends.hardware.gemmini import test_encoder as layers
from tests.backends.hardware.gemmini.test_encoder import CONVOLUTIONS, convolution, layer, same, scale, tensor

PLANTED = {
    "rows below that are read": ("products", "first + size - whole, 0), size - before", "0, 0), size - before"),
    "padding of rows for columns": ("products", "step.padding[2]", "step.padding[1]"),
    "sums that begin anew": ("products", "bias=bias if begins else 0", "bias=bias"),
    "results of a part of the sums": ("products", "output=target if ends else 0", "output=target"),
    "a stride of 1 in the scratchpad": ("products", "a_stride=step.stride[1]", "a_stride=1"),
    "weights of another part": ("products", "self.part.at + self.input", "self.input"),
    "biases of the first outputs": ("products", "self.placed.constants[1] + 4 * output", "self.placed.constants[1]"),
    "groups side by side": ("products", "n * inputs : (n + 1) * inputs, n *", "0 * inputs : (0 + 1) * inputs, n *"),
    "too many neighbours at once": ("products", "min(DIM // inputs, step.kernel[1])", "step.kernel[1] + 1"),
    "a tile too large for the scratchpad": ("tiles", "held <= HALF and", "held <= 4 * HALF and"),
    "terms of the first loop again": ("products", "b=b[0] + term * b[1] + column", "b=b[0] + column"),
    "a first loop that adds": ("products", "adds=int(bool(bias) or not begins)", "adds=1"),
    "ones where there are more": ("products", "a[0] + (term if a[1] else 0)", "a[0] + term"),
    "an operand that is not rescaled": ("products", "small=1, scale=scale)", "small=1)"),
    "padding that counts as 0": ("moves", 'PADDING = b"\\x80"', 'PADDING = b"\\x00"'),
    "windows one row too far": ("moves", "line * stride * wide", "line * wide"),
    "channels 64 later": ("moves", "channel + block * DIM,", "block * DIM,"),
    "a ReLU that is forgotten": ("encoder", "activation=int(scale.lower == 0)", "activation=0"),
    "half of the scale": ("encoder", "2.0 ** float(scale.shifts[0] - 31)", "2.0 ** float(scale.shifts[0] - 32)"),
    "places without the base": ("encoder", "address + BASE for address", "address + 0 for address"),
}
"""Faults: the module, its text, and what stands there instead."""


def representative() -> None:
    """Compares layers of each kind."""
    rng = np.random.default_rng(3)
    names = ("3x3", "of few channels", "of two strides", "of very many channels", "of small groups", "fully connected")
    for name in (*names, "fully connected without bias", "fully connected and large"):
        shape, outputs, kernel, given = CONVOLUTIONS[name]
        step = convolution(rng, shape[3], outputs, kernel, **given)
        same(layer([step, scale(1 / (90 * step.weights[0].size ** 0.5), relu=True)], shape))
    wide = convolution(rng, 16, 40, (3, 3), padding=(1, 1, 2, 0))
    same(layer([wide, scale(0.001)], (1, 30, 40, 16)))
    same(layer([ImageSum(0), scale(0.01)], (1, 120, 120, 3)))
    same(layer([Pool(False, (3, 3), (2, 2), (1, 1), (1, 0, 1, 0), False, 0)], (1, 13, 12, 70)))
    same(layer([Pool(False, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), False, 0)], (1, 4, 600, 5)))
    dark = layer([Pool(False, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), False, 0)], (1, 9, 9, 20))
    x = rng.integers(-128, -60, (1, 9, 9, 20))
    assert (layers.computed(dark, [x]) == layers.evaluated(dark, [x])).all()
    other = Addition(tensor("o", 1, 5, 6, 7), 0, 0, 2, 2, 1, 0, -128, 127, 8)
    same(layer([scale(0.6), other], (1, 5, 6, 7)))


@pytest.mark.slow
@pytest.mark.parametrize("fault", PLANTED)
def test_layers_find_each_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str) -> None:
    encoder = faulty(gemmini, tmp_path, *PLANTED[fault])("encoder")
    monkeypatch.setattr(layers, "ENCODER", encoder.Gemmini(qmlir.load_device("gemmini")))
    try:
        representative()
    except Exception:  # a fault may raise anything, or a comparison fails
        return
    pytest.fail("no layer differs")


@pytest.mark.slow
def test_an_encoder_without_a_fault_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    encoder = faulty(gemmini, tmp_path, "encoder", "class Gemmini", "class Gemmini")("encoder")
    monkeypatch.setattr(layers, "ENCODER", encoder.Gemmini(qmlir.load_device("gemmini")))
    representative()
