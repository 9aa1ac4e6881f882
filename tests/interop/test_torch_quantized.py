"""Networks that PyTorch quantized keep their parameters: fake quantization in any spelling, QAT, PT2E, torchao."""

import warnings
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from tests.conftest import THOROUGH
from tests.interop.torch_models import has_torch
from tests.interop.torch_quantizers import ACTIVATIONS, SPELLINGS, converted, prepared, quantizer, trained, weights_only

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the exporters' own
    pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed: pip install 'qmlir[torch]'"),
]

has_torchao = pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed: pip install torchao")

IMAGES = np.random.default_rng(1).standard_normal((8, 1, 3, 16, 16)).astype(np.float32)


def export(network: Any, x: Any, path: Path, *, dynamo: bool = True) -> Any:
    """Exports a network without folding what it computes from weights, and returns what PyTorch computes of x."""
    torch: Any = import_module("torch")

    how = {"dynamo": True, "optimize": False, "external_data": False} if dynamo else {"dynamo": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (torch.from_numpy(x),), str(path), input_names=["x"], verbose=False, **how)
    with torch.no_grad():
        return network(torch.from_numpy(x)).numpy()


def tensors() -> Any:
    return [import_module("torch").from_numpy(x) for x in IMAGES]


def data_types(module: Any) -> list[UniformType]:
    """The types that data are quantized to, in order."""
    types = [element_of(op.result) for op in module.walk() if isinstance(op, QuantizeCastOp) and op.result.uses]
    return [t for t in types if isinstance(t, UniformType)]


def floats_of(module: Any) -> dict[str, str]:
    """Each operation that stays float, with its reason code."""
    qmlir.compiler.Pipeline(*qmlir.stages.IMPORTED).apply(module, qmlir.compiler.make_context())
    return {e.operation: e.code for e in qmlir.decisions(module) if e.outcome == "float"}


def by_either(spellings: Iterable[str]) -> list[Any]:
    """Each spelling with one of the exporters in turn, dynamo first; `make conformance` tries both."""
    turns = [(s, d) for i, s in enumerate(spellings) for d in (True, False) if THOROUGH or d == (i % 2 == 0)]
    return [pytest.param(s, d, id=f"{s} by {'dynamo' if d else 'torchscript'}") for s, d in turns]


def near_halves(scale: float) -> Any:
    """Numbers around all steps and halves of a scale, beyond the range too, and their neighbours in float32."""
    at = (np.arange(-600, 600) / 2 * np.float64(np.float32(scale))).astype(np.float32)
    return np.concatenate([at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))])


@pytest.mark.parametrize(("spelling", "dynamo"), by_either(SPELLINGS))
def test_one_quantization(spelling: str, dynamo: bool, tmp_path: Path) -> None:
    """The bits of the chain; a quotient halfway between two integers may go to the other one in some spellings."""
    zero_point = 0 if spelling.startswith("clip") else 3
    x = near_halves(0.03)
    expected = export(quantizer(spelling, 0.03, zero_point, -128, 127), x, tmp_path / "net.onnx", dynamo=dynamo)
    module = qmlir.load(tmp_path / "net.onnx")
    (type,) = data_types(module)
    assert type == UniformType.per_tensor(type.storage, type.scale, zero_point, -128, 127)
    assert type.storage_width == 8
    assert type.is_signed
    assert type.scale == pytest.approx(np.float32(0.03), rel=0 if spelling != "clip the data" else 1e-7)
    steps = (qmlir.reference(module)(x) - expected) / type.scale
    assert np.abs(steps).max() < 1.001
    if spelling in ("divide", "multiply", "integers", "clip first"):
        assert np.abs(steps).max() < 1e-3  # the integers of the chain; the product may differ in its last bit
    halfway = np.abs(x / np.float32(0.03) % 1 - 0.5) < 1e-4
    assert (np.abs(steps[~halfway]) < 1e-3).all()


@pytest.mark.parametrize(("spelling", "dynamo"), by_either(["integers", "divide", "clip first", "multiply"]))
def test_whole_networks(spelling: str, dynamo: bool, tmp_path: Path) -> None:
    """Every layer is computed in integers, with the scales of the export, and within a step of PyTorch's result."""
    network = trained(spelling)
    expected = export(network, IMAGES[0], tmp_path / "net.onnx", dynamo=dynamo)
    module = qmlir.load(tmp_path / "net.onnx")
    points = [0 if spelling.startswith("clip") else z for _, z in ACTIVATIONS]
    found = [(t.scale, t.zero_point) for t in data_types(module)]
    assert found == [(float(np.float32(s)), z) for (s, _), z in zip(ACTIVATIONS, points, strict=True)]
    weights = [op for op in module.walk() if isinstance(op, ConstantOp) and is_quantized(op.y)]
    for op, layer in zip(weights, network.layers, strict=True):
        type = element_of(op.y)
        assert isinstance(type, UniformType)
        assert (type.storage_min, type.storage_max) == (-127, 127)
        assert type.scales == tuple(layer.scale.reshape(-1).numpy().astype(float))
    reference, compiled = qmlir.reference(module), qmlir.compile(module)
    assert np.array_equal(compiled(IMAGES[0]), reference(IMAGES[0]))
    assert np.abs(reference(IMAGES[0]) - expected).max() <= ACTIVATIONS[-1][0] * 1.001
    assert floats_of(module) == {}


@pytest.mark.parametrize(("backend", "bits"), [("fbgemm", 7), ("qnnpack", 8)])
def test_fake_quantize_modules(backend: str, bits: int, tmp_path: Path) -> None:
    """QuantizeLinear and DequantizeLinear, with a Clip of the integers between them where 7 bits are used."""
    network = prepared(backend, tensors())
    expected = export(network, IMAGES[0], tmp_path / "net.onnx", dynamo=False)
    module = qmlir.load(tmp_path / "net.onnx")
    types = data_types(module)
    assert {(t.storage_min, t.storage_max) for t in types} == {(0, (1 << bits) - 1)}
    fake = network.network.linear.activation_post_process
    assert (types[-1].scale, types[-1].zero_point) == (float(fake.scale), int(fake.zero_point))
    reference = qmlir.reference(module)
    # PyTorch multiplies by the reciprocal of a scale and adds the zero point before it rounds.
    assert np.abs(reference(IMAGES[0]) - expected).max() <= types[-1].scale * 1.001
    assert np.array_equal(qmlir.compile(module)(IMAGES[0]), reference(IMAGES[0]))
    # The network does not quantize the sum, so nothing is known of it and of what follows.
    assert set(floats_of(module).values()) == {"no-range"}


@has_torchao
def test_pt2e(tmp_path: Path) -> None:
    """What the quantizer for x86 leaves float, a sum and what follows, is quantized on data around the rest."""
    network = converted(tensors())
    nodes = [n for n in network.graph.nodes if str(n.target) == "quantized_decomposed.quantize_per_tensor.default"]
    expected = export(network, IMAGES[0], tmp_path / "net.onnx")
    module = qmlir.load(tmp_path / "net.onnx")
    asked = [tuple(n.args[1:3]) for n in nodes]
    assert [(t.scale, t.zero_point) for t in data_types(module)] == [(float(np.float32(s)), z) for s, z in asked]
    reference = qmlir.reference(module)
    np.testing.assert_allclose(reference(IMAGES[0]), expected, rtol=1e-5, atol=1e-6)
    quantized = qmlir.quantize(module, qmlir.profile(module, list(IMAGES)))
    # The exporter's sum reads the activation before it is quantized, so the activation has to stay a float.
    left = {(e.operation, e.code) for e in qmlir.decisions(quantized) if e.outcome == "float"}
    assert left <= {("nn.conv2d", "shared"), ("nn.relu", "shared")}
    found = qmlir.reference(quantized)(IMAGES[0])
    assert np.array_equal(qmlir.compile(quantized)(IMAGES[0]), found)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


@has_torchao
@pytest.mark.parametrize(("bits", "block"), [(8, None), (8, 16), (4, 32)])
def test_weights_of_torchao(bits: int, block: int | None, tmp_path: Path) -> None:
    """Weights with a scale for each channel are read as the floats that they stand for; blocks keep their integers."""
    x = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
    expected = export(weights_only(bits, block), x, tmp_path / "net.onnx")
    module = qmlir.load(tmp_path / "net.onnx")
    np.testing.assert_allclose(qmlir.reference(module)(x), expected, rtol=1e-5, atol=1e-6)
    blocks = [op for op in module.walk() if isinstance(op, BlockedFullyConnectedOp)]
    wanted = [] if block is None else [(f"i{bits}", block)] * 2
    assert [(str(element_of(op.w)), op.size) for op in blocks] == wanted
    quantized = qmlir.quantize(module, data=[x])
    assert {e.outcome for e in qmlir.decisions(quantized)} == {"quantized"}
    found = qmlir.reference(quantized)(x)
    assert np.array_equal(qmlir.compile(quantized)(x), found)
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
