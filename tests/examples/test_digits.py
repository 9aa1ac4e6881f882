"""The digits example: what is committed is what the demonstration needs; training learns and can be repeated."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.compiler import main_function


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "examples" / "digits"


@pytest.fixture
def training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `examples/digits/train.py`."""
    monkeypatch.syspath_prepend(str(folder))
    train = importlib.import_module("train")
    monkeypatch.delitem(sys.modules, "train")
    monkeypatch.setattr(train, "EPOCHS", 1)
    return train


def test_committed_files(folder: Path) -> None:
    assert (folder / "digits.onnx").stat().st_size < 300_000
    model = onnx.load(folder / "digits.onnx")
    assert [n.op_type for n in model.graph.node].count("BatchNormalization") == 1
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert all(n.name for n in model.graph.node)
    data = np.load(folder / "digits.npz")
    assert data["calibration_images"].shape == (100, 1, 8, 8)
    assert data["test_images"].shape[1:] == (1, 8, 8)
    assert data["test_images"].dtype == np.float32
    assert len(data["test_images"]) == len(data["test_labels"])


def test_accuracy(folder: Path) -> None:
    data = np.load(folder / "digits.npz")
    module = qmlir.load(folder / "digits.onnx", bind={"batch": len(data["test_images"])})
    scores = qmlir.reference(module)(data["test_images"])
    assert (scores.argmax(axis=1) == data["test_labels"]).mean() > 0.97


def test_batch_norm_and_layout_fold_away(folder: Path) -> None:
    module = qmlir.Pipeline("simplify")(qmlir.load(folder / "digits.onnx"))
    kinds = [o.name for o in main_function(module).body.block.ops if o.name not in ("nn.constant", "func.return")]
    layers = ["nn.conv2d", "nn.conv2d", "nn.max_pool2d", "nn.conv2d", "nn.max_pool2d", "nn.reshape"]
    assert kinds == ["nn.reshape", *layers, *["nn.fully_connected"] * 2]


@pytest.mark.slow
def test_training_is_deterministic_and_learns(training: ModuleType) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 10, 500)
    images = rng.normal(0, 0.1, (500, 8, 8, 1)).astype(np.float32)
    images[np.arange(500), labels % 5 + 1, labels // 5 * 4 + 1] += 2  # a spot for each class
    one, two = (training.train(images, labels, np.random.default_rng(0)) for _ in range(2))
    for a, b in zip(one.layers, two.layers, strict=True):
        assert all(np.array_equal(p, b.parameters[key]) for key, p in a.parameters.items())
    assert training.accuracy(one, images, labels) > 0.2  # of ten classes, after one epoch
    onnx.checker.check_model(training.export(one))


def test_gradients(training: ModuleType) -> None:
    """Each parameter's gradient against a difference quotient, in float64."""
    rng = np.random.default_rng(0)
    network = training.Network(rng)
    for layer in network.layers:
        layer.parameters = {key: p.astype(np.float64) for key, p in layer.parameters.items()}
    images, labels = rng.random((4, 8, 8, 1)), np.array([0, 1, 2, 3])

    def loss() -> float:
        scores = network.forward(images, training=True)
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(4), labels]))

    loss()
    network.backward(training.cross_entropy_gradient(network.forward(images, training=True), labels))
    for layer in network.layers:
        for key, parameter in layer.parameters.items():
            index = tuple(int(rng.integers(n)) for n in parameter.shape)
            gradient, value = layer.gradients[key][index], parameter[index]
            parameter[index] = value + 1e-5
            above = loss()
            parameter[index] = value - 1e-5
            below = loss()
            parameter[index] = value
            assert gradient == pytest.approx((above - below) / 2e-5, rel=1e-3, abs=1e-6), (type(layer), key)


def test_model_mlir(folder: Path) -> None:
    """Float or integer, it tells a horizontal stroke from a vertical one."""
    path = folder / "model.mlir"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40
    module = qmlir.load(path)
    for schema in ("asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale"):
        quantized = qmlir.Pipeline(("quantize", {"schema": schema}))(module)
        for run in (qmlir.reference(module), qmlir.reference(quantized)):
            for position in range(1, 7):
                image = np.zeros((1, 8, 8, 1), np.float32)
                image[0, position, 1:7] = 1
                assert run(image).argmax() == 0, (schema, position)
                assert run(image.swapaxes(1, 2)).argmax() == 1, (schema, position)
