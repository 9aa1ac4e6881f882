"""What other quantizers reach on the samples that ours is scored on, profiled on the same ones.

The network on which that matters is vww: it is profiled on pictures of one source and scored on those of two, and a few
that leave the observed ranges hold most of the error, so that a figure says more about the pictures than about the
tool. onnxruntime quantizes the float network that we write, and computes it in floats with casts; LiteRT's file comes
quantized, on other samples. `make models` scores all samples; a plain run leaves this out. Figures go to standard
error: run with `-s`.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import qmlir
from tests.models.networks import NETWORKS, Array, logits, split, sqnr
from tests.models.test_networks import SHARE

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(SHARE < 1, reason="figures are of all samples: make models"),
    pytest.mark.filterwarnings("ignore"),
]

Outputs = Callable[[Array], Array]
"""Logits of samples [n, …] → [n, classes]."""

METHODS = ("MinMax", "Percentile")
"""onnxruntime's calibrations; its Entropy gives what MinMax gives, at the number of bins that it counts in."""


class Samples(CalibrationDataReader):
    """Hands out samples one by one, as onnxruntime wants them."""

    def __init__(self, name: str, samples: Array):
        self.feeds: Iterator[dict[str, Array]] = iter([{name: x} for x in samples])

    def get_next(self) -> Any:
        return next(self.feeds, None)


def _session(path: Path) -> onnxruntime.InferenceSession:
    """A network as it is written: nothing is fused, so that products of 8 bits do not saturate."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _run(path: Path, samples: Array) -> Array:
    session = _session(path)
    name = session.get_inputs()[0].name
    outputs: list[Any] = [session.run(None, {name: x}) for x in samples]
    return np.stack([y.reshape(-1) for (y,) in outputs])


def _onnxruntime(written: Path, method: str, profile: Array, samples: Array) -> Array:
    """Weights per channel, activations of 8 bits with a free zero point."""
    quantized = written.with_name(f"{method}.onnx")
    quantize_static(
        written,
        quantized,
        Samples(_session(written).get_inputs()[0].name, profile),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=getattr(CalibrationMethod, method),
    )
    return _run(quantized, samples)


def _litert(path: Path, samples: Array) -> Array:
    """The logits of a quantized file, from before its softmax."""
    machine = Interpreter(
        str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, experimental_preserve_all_tensors=True
    )
    machine.allocate_tensors()
    (taken,) = machine.get_input_details()
    operators: list[dict[str, Any]] = machine._get_ops_details()
    (before,) = (int(o["inputs"][0]) for o in operators if o["op_name"] == "SOFTMAX")
    (scale, zero_point), (step, zero) = taken["quantization"], machine._get_tensor_details(before, 0)["quantization"]
    found: list[Array] = []
    for x in samples:
        machine.set_tensor(taken["index"], np.clip(np.rint(x / scale) + zero_point, -128, 127).astype(np.int8))
        machine.invoke()
        found.append((machine.get_tensor(before).reshape(-1).astype(np.float32) - zero) * step)
    return np.stack(found)


def test_vww_loses_less_than_with_other_tools(shared: Callable[[str], Path], tmp_path: Path) -> None:
    network = NETWORKS["vww"]
    module, data = logits(qmlir.load(shared(network.file))), split(network, shared)
    qmlir.export(module, tmp_path / "float.onnx")
    quant_pre_process(tmp_path / "float.onnx", tmp_path / "written.onnx")

    def ours(network: Any) -> Array:
        run = qmlir.compile(network).run
        return np.stack([run(x)[0].reshape(-1) for x in data.score])

    truth = ours(module)
    assert np.abs(_run(tmp_path / "written.onnx", data.score) - truth).max() <= 1e-5 * np.abs(truth).max()
    found = {
        "qmlir": ours(qmlir.quantize(module, qmlir.profile(module, data.profile), data=data.profile)),
        **{f"onnxruntime, {m}": _onnxruntime(tmp_path / "written.onnx", m, data.profile, data.score) for m in METHODS},
        "LiteRT, the network's own int8 file": _litert(shared("models/tflite/vww_mbv1_i8.tflite"), data.score),
    }
    decibels = {tool: sqnr(truth, got) for tool, got in found.items()}
    for tool, got in found.items():
        alike, labelled = int((truth.argmax(1) == got.argmax(1)).sum()), data.labelled
        text = f"SQNR {decibels[tool]:5.1f} dB, of those with a label {sqnr(truth[:labelled], got[:labelled]):5.1f} dB"
        text += f", agreement {100 * alike / len(truth):.2f} % ({alike} of {len(truth)})"
        sys.stderr.write(f"\nvww               {tool:36s} {text}\n")
    assert decibels["qmlir"] == max(decibels.values())
