"""What PyTorch's two exporters write of a network is read, equals PyTorch's results, quantizes and compiles.

Operator sets 18 to 23, weights in the file or beside it, a batch that is fixed or symbolic. Here each network is
exported in some of these ways, in turn; `make conformance` tries all of them.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from tests.conftest import THOROUGH
from tests.interop.torch_models import MODELS, SAMPLES, Arrays, has_torch, outputs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the exporters' own
    pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed: pip install 'qmlir[torch]'"),
]

OPSETS = range(18, 24)


@dataclass(frozen=True)
class Way:
    """A way to export.

    dynamo   the exporter on torch.export; else the older one on TorchScript
    opset    the operator set
    dynamic  whether the batch is symbolic
    beside   whether the weights are in a file beside the model
    """

    dynamo: bool
    opset: int
    dynamic: bool
    beside: bool

    def __str__(self) -> str:
        words = ("dynamo" if self.dynamo else "torchscript", str(self.opset), "dynamic" * self.dynamic)
        return "-".join(filter(None, (*words, "beside" * self.beside)))

    def export(self, network: Any, samples: Arrays, path: Path) -> None:
        torch: Any = import_module("torch")

        examples = tuple(torch.from_numpy(a[: self.batch]) for a in samples.values())
        options: dict[str, Any] = {"input_names": list(samples), "opset_version": self.opset, "verbose": False}
        if self.dynamo:
            options |= {"dynamo": True, "external_data": self.beside}
            if self.dynamic:
                options["dynamic_shapes"] = tuple({0: torch.export.Dim("batch")} for _ in examples)
        else:
            options |= {"dynamo": False}
            if self.dynamic:
                options["dynamic_axes"] = {name: {0: "batch"} for name in samples}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(network, examples, str(path), **options)

    @property
    def batch(self) -> int:
        return 2 if self.dynamic else 1


EVERY = [
    Way(d, o, b, w) for d in (True, False) for o in OPSETS for b in (True, False) for w in (True, False) if d or not w
]


def ways(number: int) -> Sequence[Way]:
    """The ways that a network is exported in: all, or one, a different one for each network."""
    if THOROUGH:
        return EVERY
    dynamo = number % 3 != 2
    return [Way(dynamo, OPSETS[number % len(OPSETS)], number % 2 == 0, dynamo and number % 4 == 0)]


CASES = [(name, way) for number, name in enumerate(MODELS) for way in ways(number)]


def batches(samples: Arrays, size: int) -> list[Any]:
    """The samples in batches as calls take them."""
    whole = [{name: a[i : i + size] for name, a in samples.items()} for i in range(0, SAMPLES, size)]
    return whole if len(samples) > 1 else [next(iter(batch.values())) for batch in whole]


@pytest.mark.parametrize(("name", "way"), CASES, ids=str)
def test_export(name: str, way: Way, tmp_path: Path) -> None:
    network, samples = MODELS[name].made(), MODELS[name].samples()
    path, expected = tmp_path / "net.onnx", outputs(network, samples)
    way.export(network, samples, path)
    assert (tmp_path / "net.onnx.data").exists() == way.beside
    module = qmlir.load(path, bind={"batch": way.batch} if way.dynamic else None)
    calls = batches(samples, way.batch)
    exact = qmlir.reference(module)
    assert np.abs(np.concatenate([exact(c) for c in calls]) - expected).max() <= 1e-5 * np.abs(expected).max()

    quantized = qmlir.quantize(module, data=calls)
    assert [entry for entry in qmlir.decisions(quantized) if entry.outcome == "float"] == []
    reference, compiled = qmlir.reference(quantized), qmlir.compile(quantized)
    found = [reference(c) for c in calls]
    for call, result in zip(calls, found, strict=True):
        assert np.array_equal(compiled(call), result)
    noise = np.mean((np.concatenate(found) - expected) ** 2) / np.mean(expected**2)
    assert -10 * np.log10(noise) > 20
