"""Modules of PyTorch are exported and read by `qmlir.load` and `qmlir.quantize`."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import qmlir
from qmlir.errors import OptionError

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

X = np.random.default_rng(0).standard_normal((8, 1, 6)).astype(np.float32)


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4))


class Product(torch.nn.Module):
    def forward(self, left: Any, right: Any) -> Any:
        return torch.relu(left) * right


@pytest.mark.slow
def test_a_module_is_loaded_for_an_example() -> None:
    """It keeps its mode: dropout is left out of the network, and there when training goes on."""
    module = network().train()
    module[3].eval()
    for example in (X[0], [torch.from_numpy(X[0])], {"input": X[0]}):
        loaded = qmlir.load(module, example=example)
        assert [each.training for each in module] == [True, True, True, False]
        expected = module.eval()(torch.from_numpy(X[0])).detach().numpy()
        module.train()
        module[3].eval()
        np.testing.assert_allclose(qmlir.reference(loaded)(X[0]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_module_of_several_inputs() -> None:
    left, right = X[0], X[1]
    run = qmlir.reference(qmlir.load(Product(), example=(left, right)))
    np.testing.assert_array_equal(run({"left": left, "right": right}), np.maximum(left, 0) * right)


@pytest.mark.slow
def test_a_module_is_quantized_for_its_first_sample() -> None:
    quantized = qmlir.quantize(network(), data=list(X))
    assert {entry.outcome for entry in qmlir.decisions(quantized)} == {"quantized"}
    expected = network().eval()(torch.from_numpy(X[0])).detach().numpy()
    assert np.abs(qmlir.reference(quantized)(X[0]) - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [True, False])
def test_the_symbolic_batch_of_an_encoder(dynamo: bool, tmp_path: Path) -> None:
    """PyTorch's attention puts positions before samples, and merges samples with heads."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    x = np.random.default_rng(1).standard_normal((8, 6, 16)).astype(np.float32)
    batch = {"dynamic_shapes": ({0: torch.export.Dim("batch")},)} if dynamo else {"dynamic_axes": {"x": {0: "batch"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter
        torch.onnx.export(
            encoder, (torch.from_numpy(x[:2]),), tmp_path / "net.onnx", dynamo=dynamo, verbose=False,
            input_names=["x"], output_names=["y"], **batch,
        )  # fmt: skip
    network, samples = qmlir.load(tmp_path / "net.onnx"), [row[None] for row in x]
    quantized = qmlir.quantize(network, data=samples)
    expected = np.concatenate([np.asarray(qmlir.reference(quantized)(sample)) for sample in samples])
    np.testing.assert_array_equal(qmlir.compile(quantized, batch=8)(x), expected)
    bound = qmlir.load(tmp_path / "net.onnx", bind={"batch": 8})
    again = qmlir.quantize(bound, qmlir.profile(network, samples))
    assert np.asarray(qmlir.reference(again)(x)).shape == expected.shape
    qmlir.export(quantized, tmp_path / "int8.onnx", activations="kept")
    (got,) = onnxruntime.InferenceSession(tmp_path / "int8.onnx").run(None, {"x": x})
    assert np.abs(np.asarray(got) - expected).max() < 0.05 * np.abs(expected).max()


class Unexportable(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        if x.sum().item() > 0:
            return x.numpy().tolist()
        raise RuntimeError("a\nlong\nstory")


@pytest.mark.slow
def test_what_is_refused() -> None:
    with pytest.raises(OptionError, match="example: must be what the module of PyTorch is called with, got none; give"):
        qmlir.load(network())
    with pytest.raises(OptionError, match="must hold arrays or tensors, got 'x' of type str"):
        qmlir.load(network(), example="x")
    with pytest.raises(OptionError, match=r"Sequential: must be a module that torch\.onnx\.export exports"):
        qmlir.load(network(), example=X[0, :, :5])
    with pytest.raises(OptionError, match="Unexportable: must be a module that"):
        qmlir.load(Unexportable(), example=X[0])
    with pytest.raises(OptionError, match=r"got a module of PyTorch; load it first: qmlir\.load\(module, example=…\)"):
        qmlir.compile(network())
    with pytest.raises(OptionError, match=r"example: is for a module of PyTorch.*; leave it out"):
        qmlir.load("examples/digits/digits.onnx", example=X[0])


def test_pytorch_is_imported_by_who_gives_a_module() -> None:
    """Neither import nor a file needs PyTorch."""
    code = "import sys, qmlir; qmlir.quantize('examples/digits/digits.onnx', data=[]) if 0 else qmlir.load(sys.argv[1])"
    command = [sys.executable, "-c", f"{code}; print('torch' in sys.modules)", "examples/digits/digits.onnx"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["False"]
