"""Attention as PyTorch's two exporters write it becomes layers, one product of scores and `nn.attend`."""

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from tests.conftest import THOROUGH
from tests.interop.test_torch_exporters import Way
from tests.interop.torch_attention import LENGTH, WIDTH, encoder, multi_head, scaled_dot_product, spelled
from tests.interop.torch_models import has_torch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the exporters' own
    pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed: pip install 'qmlir[torch]'"),
]

NETWORKS: dict[str, Callable[[], Any]] = {
    "multi head": multi_head,
    "causal multi head": lambda: multi_head(causal=True),
    "multi head with weights": lambda: multi_head(causal=True, weights=True),
    "causal": lambda: scaled_dot_product(causal=True),
    "mask": lambda: scaled_dot_product(mask="bool"),
    "bias": lambda: scaled_dot_product(mask="float"),
    "shared keys": lambda: scaled_dot_product(causal=True, groups=2),
    "einsum": lambda: spelled("einsum"),
    "late": lambda: spelled("late"),
    "quarters": lambda: spelled("quarters"),
}
WAYS = [Way(False, 17, False, False), Way(True, 18, False, False), Way(True, 23, False, False)]
CASES = [(name, way) for i, name in enumerate(NETWORKS) for way in (WAYS if THOROUGH else WAYS[i % 3 : i % 3 + 1])]


def results(network: Any, quantized: Any, samples: list[Any]) -> tuple[Any, Any]:
    """The results of a network on samples, and those of the quantized network."""
    torch: Any = import_module("torch")

    run = qmlir.compile(quantized)
    with torch.no_grad():
        wanted = np.array([network(torch.from_numpy(x)).numpy() for x in samples])
    found = np.array([np.asarray(run(x)) for x in samples])
    assert np.array_equal(found[0], np.asarray(qmlir.reference(quantized)(samples[0])))
    return wanted, found


def sqnr(wanted: Any, found: Any, axis: int | None = None) -> Any:
    """The SQNR in dB of a quantized network's results, or of each row along an axis."""
    return 10 * np.log10((wanted**2).sum(axis) / ((wanted - found) ** 2).sum(axis))


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("name", "way"), CASES, ids=str)
def test_exported_attention(name: str, way: Way, tmp_path: Path) -> None:
    torch: Any = import_module("torch")

    torch.manual_seed(0)
    network = NETWORKS[name]().eval()
    samples = [normal(s, 1, LENGTH, WIDTH) for s in range(12)]
    way.export(network, {"x": samples[0]}, tmp_path / "net.onnx")
    quantized = qmlir.quantize(tmp_path / "net.onnx", data=samples[:8], measure=False)
    kinds = Counter(op.name for op in quantized.walk())
    assert all(e.outcome == "quantized" for e in qmlir.decisions(quantized))
    assert (kinds["nn.attend"], kinds["nn.matmul"], kinds["nn.softmax"], kinds["nn.fully_connected"]) == (1, 1, 0, 4)
    assert not kinds["nn.mul"] + kinds["nn.div"]
    assert sqnr(*results(network, quantized, samples[8:])) > 34


SIZES = [(2, 96, 4), *([(12, 768, 12)] if THOROUGH else [])]


@pytest.mark.parametrize("makers", ["layers", "gains", "shifts"])
@pytest.mark.parametrize(("layers", "width", "heads"), SIZES)
def test_encoders_with_outlier_channels(layers: int, width: int, heads: int, makers: str, tmp_path: Path) -> None:
    """By default, in int8 and integers only: with the outliers, and without them, which would hide the others' noise.

    Half of the rows count where gains make the outliers: others lie so close to where another outlier would lead that
    the float network moves them as far for an input with 40 dB.
    """
    network = encoder(layers, width, heads, makers).eval()
    samples = [normal(s, 1, 32, width) for s in range(10)]
    WAYS[0].export(network, {"x": samples[0]}, tmp_path / "net.onnx")
    quantized = qmlir.quantize(tmp_path / "net.onnx", data=samples[:8], measure=False)
    assert all(e.outcome == "quantized" for e in qmlir.decisions(quantized))
    wanted, found = results(network, quantized, samples[8:])
    others = np.argsort((wanted**2).mean((0, 1, 2)))[:-4]
    for channels in (slice(None), others):
        pair = wanted[..., channels], found[..., channels]
        assert (np.median(sqnr(*pair, axis=-1)) if makers == "gains" else sqnr(*pair)) > 30
