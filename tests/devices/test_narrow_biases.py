"""Devices whose biases have 8 or 16 bits: numbers that are moved left to the steps of the sums."""

import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import qmlir
from qmlir.devices import load_device
from qmlir.devices.legality.limits import refusals
from qmlir.devices.legality.requirements import requirements
from qmlir.devices.model.stored import trailing_zeros
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.qint.contraction import Conv2DOp
from qmlir.frontends.onnx import load_onnx
from tests.conftest import crossed
from tests.frontends.onnx.agreement import floats, model, node
from tests.models.networks import sqnr
from tests.transforms.npu.contractions import Convolution

Array = npt.NDArray[Any]

DEVICES = ["ethos-u55-like", "gemmini", "nmp", "nvdla-small", "vta"]


def device_file(name: str, type: str, folder: Path) -> Path:
    """A device that comes with the package, with biases of another type."""
    text = (resources.files("qmlir") / "targets" / f"{name}.toml").read_text("utf-8")
    changed, count = re.subn(r'bias = \{ type = "i\d+"', f'bias = {{ type = "{type}"', text)
    assert count == 1
    path = folder / f"{name}-{type}.toml"
    path.write_text(changed, "utf-8")
    return path


@crossed({"name": DEVICES, "type": ["i8", "i16"]})
def test_a_network_on_a_device(name: str, type: str, tmp_path: Path) -> None:
    """Its own bits, next to no worse than with wide biases, and as many bytes as the file says."""
    file = device_file(name, type, tmp_path)
    assert requirements(load_device(file)).bias == f"int{type[1:]}"
    weights = floats(16, 4, 3, 3) * np.geomspace(1, 0.05, 16, dtype=np.float32)[:, None, None, None]
    bias = 3 * floats(16, seed=1)
    module = load_onnx(model(node("Conv", "x w b"), {"x": (1, 4, 8, 8)}, {"w": weights, "b": bias}))
    samples = [floats(1, 4, 8, 8, seed=seed) for seed in range(4)]
    truth = np.stack([np.asarray(qmlir.reference(module)(x)) for x in samples])
    found: dict[Any, float] = {}
    for target in (file, name):
        quantized = qmlir.quantize(module, qmlir.profile(module, samples), target=target)
        machine, meaning = qmlir.compile(quantized, target=target), qmlir.reference(quantized)
        got = np.stack([np.asarray(machine(x)) for x in samples])
        np.testing.assert_array_equal(got, np.stack([np.asarray(meaning(x)) for x in samples]))
        found[target] = sqnr(truth, got)
        if target is file:
            (op,) = (o for o in quantized.walk() if isinstance(o, WeightedOp))
            assert op.b is not None
            assert isinstance(op.b.owner, ConstantOp)
            assert op.b.owner.value.array.dtype == np.dtype(f"int{type[1:]}")
            steps = uniform(op.x).scale * np.array(uniform(op.w).scales)
            moved = np.array(uniform(op.b).scales) / steps
            assert len(set(moved.tolist())) == 1, "all of a layer are moved alike"
            assert float(np.log2(moved[0])).is_integer()
    assert found[file] > found[name] - 1.5


def test_numbers_of_more_bits_are_refused(tmp_path: Path) -> None:
    device = load_device(device_file("gemmini", "i8", tmp_path))
    (op,) = (o for o in Convolution((1, 4, 4, 8), (8, 1, 1, 8)).module("single").walk() if isinstance(o, Conv2DOp))
    assert "a bias has at most 8 bits before it is moved left" in " ".join(refusals(op, device))
    assert not any("bias" in text for text in refusals(op, load_device("gemmini")))


@pytest.mark.parametrize(("numbers", "zeros"), [([0, 0], 0), ([8, -48], 3), ([1 << 40], 31), ([-1, 2], 0)])
def test_by_how_much_a_bias_is_moved(numbers: list[int], zeros: int) -> None:
    assert trailing_zeros(np.array(numbers)) == zeros
