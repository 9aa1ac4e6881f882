"""From a quantized model file to the first inference, in a process of its own: cold, and from the cache.

Beside it, the same with onnxruntime, which interprets the file instead of compiling it. Times are the processor's,
imports included, because other work on the machine changes them least; `-s` shows the figures and their ratios. The
models are those of the peers (`$QMLIR_PEERS`, see their build_models.py).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("QMLIR_PEERS", Path.home() / ".cache" / "qmlir-peers")) / "models"

MOST_MEGABYTES = {"resnet50": 400, "mobilenetv2": 250, "minilm": 300}
"""Peaks that a compilation may reach; how much freed memory the allocator keeps varies by 50 MB (ResNet-50)."""

MOST_OF_COLD = 0.25
"""What reading from the cache may take of a compilation."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.models,
    pytest.mark.skipif(not (FOLDER / "resnet50_qdq_u8s8.onnx").exists(), reason="the peers' models are not built"),
]

MEASURE = """
import json, os, re, sys, time
import numpy as np
start = time.perf_counter()

def report(run, specs):
    random = np.random.default_rng(0)
    run([random.integers(0, 2, shape).astype(dtype) for shape, dtype in specs])
    seconds, spent = time.perf_counter() - start, os.times()
    peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
    figures = {"seconds": seconds, "processor": spent.user + spent.system, "megabytes": int(peak) / 1024}
    json.dump(figures, sys.stdout)
"""

OURS = """
import qmlir
network = qmlir.compile(sys.argv[1])
report(network.run_in_order, [(spec.shape, spec.dtype) for spec in network.signature.inputs])
"""

THEIRS = """
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
names = [given.name for given in session.get_inputs()]
types = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
specs = [([n if isinstance(n, int) else 1 for n in given.shape], types[given.type]) for given in session.get_inputs()]
report(lambda arrays: session.run(None, dict(zip(names, arrays))), specs)
"""


def measured(script: str, model: Path, cache: Path) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-c", MEASURE + script, str(model)]
    environment = {**os.environ, "QMLIR_CACHE": str(cache)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", MOST_MEGABYTES)
def test_first_inference(name: str, tmp_path: Path) -> None:
    model = FOLDER / f"{name}_qdq_u8s8.onnx"
    cold, cached, theirs = (measured(script, model, tmp_path) for script in (OURS, OURS, THEIRS))
    for what, row in (("cold", cold), ("cached", cached), ("onnxruntime", theirs)):
        figures = f"{row['processor']:6.2f} s of processor, {row['seconds']:6.2f} s, {row['megabytes']:4.0f} MB"
        sys.stdout.write(f"{name:12} {what:12} {figures}, {row['processor'] / cold['processor']:.3f} of cold\n")
    assert cached["processor"] < MOST_OF_COLD * cold["processor"]
    assert cold["megabytes"] < MOST_MEGABYTES[name]
