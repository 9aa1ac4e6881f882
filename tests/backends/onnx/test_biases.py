"""Biases of layers of 16 bits: written in 32 bits where these hold them, else refused with the remedy."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import qmlir
from qmlir.errors import UnsupportedError
from tests.backends.onnx.runtime import exported, run
from tests.frontends.onnx.agreement import load, model, node

Array = npt.NDArray[Any]
RANDOM = np.random.default_rng(2)
X = RANDOM.normal(size=(1, 3, 8, 8)).astype(np.float32)
W = RANDOM.normal(size=(8, 3, 3, 3)).astype(np.float32)
B = RANDOM.normal(size=8).astype(np.float32)


def convolution(w: Array, b: Array) -> onnx.ModelProto:
    return model([node("Conv", "x w b", "c", pads=[1] * 4), node("Relu", "c")], {"x": X.shape}, {"w": w, "b": b})


@pytest.mark.parametrize("weights", ["int8", "int16"])
@pytest.mark.parametrize("form", ["onnx-qdq", "onnx-qoperator"])
def test_a_bias_of_64_bits_that_32_hold(form: str, weights: str, tmp_path: Path) -> None:
    module = qmlir.quantize(
        load(convolution(W, B)), data=[X], precision="int16", weight_precision=weights, bias="int64"
    )
    file = exported(module, tmp_path / "m.onnx", format=form)
    (conv,) = [n for n in file.graph.node if n.op_type == "Conv"]
    (cast,) = [n for n in file.graph.node if conv.input[2] in n.output]
    (stored,) = [t for t in file.graph.initializer if t.name == cast.input[0]]
    assert stored.data_type == onnx.TensorProto.INT32
    (ours,), (theirs,) = qmlir.reference(module).run(X), run(tmp_path / "m.onnx", [X])
    step = np.diff(np.unique(ours)).min()
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1.01 * step)
    again = qmlir.reference(qmlir.load(tmp_path / "m.onnx")).run(X)[0]
    np.testing.assert_allclose(again, ours, rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", ["onnx-qdq", "onnx-qoperator"])
def test_a_bias_that_only_64_bits_hold(form: str, tmp_path: Path) -> None:
    """One channel has weights that are tiny beside its bias."""
    small = W * np.where(np.arange(8) == 5, np.float32(1e-24), np.float32(1))[:, None, None, None]
    network = load(convolution(small, np.where(np.arange(8) == 5, np.float32(1000), B)))
    refused = qmlir.quantize(network, data=[X], precision="int16", weight_precision="int8")
    with pytest.raises(UnsupportedError, match="needs a bias of 32 bits, got one of 64; quantize it with bias=int32"):
        qmlir.export(refused, tmp_path / "m.onnx", format=form)
    assert not list(tmp_path.iterdir())
    module = qmlir.quantize(network, data=[X], precision="int16", weight_precision="int8", bias="int32")
    exported(module, tmp_path / "m.onnx", format=form)
    (ours,), (theirs,) = qmlir.reference(module).run(X), run(tmp_path / "m.onnx", [X])
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1.01 * np.diff(np.unique(ours)).min())
