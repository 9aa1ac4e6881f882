"""Encoders that PyTorch's exporters write (torch_transformers.py): integer-only, certified, exact, close to PyTorch."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.scores import sqnr
from qmlir.cli import main
from qmlir.compiler import Pipeline
from tests.interop.torch_networks import has_torch
from tests.interop.torch_transformers import NETWORKS, made, outputs, samples

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the exporters' own
    pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed: pip install 'qmlir[torch]'"),
]

CALIBRATION, COMPARED, SCORED = 64, 100, 40
"""Numbers of samples: to quantize on, to compare reference and machine code on, and to score on."""

LEAST = 30.0
"""The least offset-free SQNR against PyTorch's outputs, in dB, with residual streams of 16 bits."""

NORM_COST = 0.5
"""What integer normalizations may cost beside float normalizations, in dB."""

EXPORTERS: Mapping[str, Mapping[str, Any]] = {
    "dynamo": {"dynamo": True, "external_data": False},
    "attention": {"dynamo": True, "external_data": False, "opset_version": 23},
    "torchscript": {"dynamo": False, "opset_version": 17},
}
"""Options of torch.onnx.export: its default, ONNX's operator Attention where it writes it, and the older exporter."""


@dataclass(frozen=True)
class Exported:
    """A network as PyTorch has it and as it was exported, loaded and quantized.

    name       the network's name
    network    PyTorch's module
    module     the loaded file
    quantized  with residual streams of 16 bits
    """

    name: str
    network: Any
    module: ModuleOp
    quantized: ModuleOp


def quantize(module: ModuleOp, name: str, **options: Any) -> ModuleOp:
    return qmlir.quantize(module, data=samples(name, CALIBRATION, 1), residuals="int16", **options)


@pytest.fixture(scope="module", params=[(n, e) for e in EXPORTERS for n in NETWORKS], ids="-".join)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    torch: Any = import_module("torch")
    name, exporter = request.param
    network, path = made(name), tmp_path_factory.mktemp(name) / "net.onnx"
    (example,) = samples(name, 1, 0)
    options = {"input_names": list(example), "verbose": False, **EXPORTERS[exporter]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, tuple(map(torch.from_numpy, example.values())), str(path), **options)
    module = Pipeline("simplify")(qmlir.load(path))
    return Exported(name, network, module, quantize(module, name))


def found(module: ModuleOp, name: str) -> Any:
    run = qmlir.compile(module)
    return np.stack([np.asarray(run(x)).reshape(-1) for x in samples(name, SCORED, 2)])


def test_floats_are_pytorchs(exported: Exported) -> None:
    expected = outputs(exported.network, samples(exported.name, SCORED, 2))
    computed = found(exported.module, exported.name)
    assert np.abs(computed - expected).max() <= 2e-5 * np.abs(expected).max()


def test_nothing_stays_float(exported: Exported) -> None:
    decisions = qmlir.decisions(exported.quantized)
    assert [entry for entry in decisions if entry.outcome != "quantized"] == []
    assert any("widened with a residual stream" in entry.reason for entry in decisions)


def test_certificate(exported: Exported, tmp_path: Path) -> None:
    model, certificate = tmp_path / "net.mlir", tmp_path / "certificate.json"
    qmlir.save(exported.quantized, model)
    assert main.main(["certify", str(model), "-o", str(certificate)]) == 0
    assert main.main(["certify", "--check", str(certificate)]) == 0


def test_reference_is_machine_code(exported: Exported) -> None:
    reference, compiled = qmlir.reference(exported.quantized), qmlir.compile(exported.quantized)
    for x in samples(exported.name, COMPARED, 3):
        assert np.array_equal(reference(x), compiled(x))


def test_accuracy(exported: Exported) -> None:
    expected = outputs(exported.network, samples(exported.name, SCORED, 2))
    integers = sqnr(expected, found(exported.quantized, exported.name))
    rules = [{"kind": "layer_norm", "keep-float": True}]
    beside = sqnr(expected, found(quantize(exported.module, exported.name, policy={"rules": rules}), exported.name))
    assert integers >= LEAST
    assert integers >= beside - NORM_COST
