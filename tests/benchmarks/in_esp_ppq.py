"""One network in ESP-DL's quantizer, in a process of its own: quantized on some samples, and simulated on others.

    python in_esp_ppq.py MODEL SAMPLES RESULTS [--chip esp32p4]

MODEL is a float ONNX file of a fixed batch of 1. SAMPLES is an .npz file whose `profile` [n, 1, …] calibrates and whose
`score` [m, 1, …] is computed. RESULTS, an .npy file, gets the first output of each of these, [m, values]. The
quantizer has its default settings; its own executor simulates the network. The process needs numpy and esp-ppq only,
so that esp-ppq may live in an environment without qmlir; it is run by its path for that reason.
"""

import argparse
import importlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def floats_only(onnx: Any, network: Any) -> None:
    """Makes floats of weights that a network stores in integers, which the quantizer does not take."""
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in network.graph.initializer}
    for node in list(network.graph.node):
        if node.op_type == "DequantizeLinear" and all(name in stored for name in node.input):
            x, scale, *zero = (stored[name] for name in node.input)
            axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
            shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)] if scale.size > 1 else []
            real = x.astype(np.float32) - (zero[0].astype(np.float32).reshape(shape) if zero else 0)
            real = (real * scale.reshape(shape)).astype(np.float32)
            network.graph.initializer.append(onnx.numpy_helper.from_array(real, node.output[0]))
            network.graph.node.remove(node)


def main() -> None:
    """Quantizes the network, computes all samples and writes their outputs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("samples", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--chip", default="esp32p4")
    given = parser.parse_args()
    onnx, torch, api = (importlib.import_module(name) for name in ("onnx", "torch", "esp_ppq.api"))
    executor = importlib.import_module("esp_ppq.executor").TorchExecutor
    torch.set_num_threads(1)
    with np.load(given.samples) as data:
        profile, score = data["profile"], data["score"]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"  # the quantizer simplifies the file in place
        network = onnx.load(given.model)
        network.ir_version = min(network.ir_version, onnx.IR_VERSION)  # ours may be of a later onnx; operators are not
        floats_only(onnx, network)
        onnx.save(network, model)
        graph = api.espdl_quantize_onnx(
            str(model),
            str(model.with_suffix(".espdl")),
            [torch.from_numpy(x) for x in profile],
            len(profile),
            list(profile[0].shape),
            target=given.chip,
            error_report=False,
            skip_export=True,
        )
    run: Any = executor(graph, device="cpu")
    outputs: list[Any] = [run.forward(torch.from_numpy(x))[0] for x in score]
    np.save(given.results, np.stack([y.detach().numpy().reshape(-1) for y in outputs]))


if __name__ == "__main__":
    main()
