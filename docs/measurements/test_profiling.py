"""What calibration costs on ResNet-50 and 32 pictures: profile, KL and quantization, beside onnxruntime's Entropy.

Each in a process of its own. The peak of memory is asserted; `-s` shows the figures.
The model is the one of the peers (`$QMLIR_PEERS`, see its build_models.py).
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("QMLIR_PEERS", Path.home() / ".cache" / "qmlir-peers")) / "models"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.models,
    pytest.mark.skipif(not (FOLDER / "resnet50_pre.onnx").exists(), reason="the peers' models are not built"),
]

SAMPLES = 32
MOST_MEGABYTES = 1000

COMMON = """
import json, re, sys, time
import numpy as np

def pictures():
    random = np.random.default_rng(0)
    for _ in range(int(sys.argv[2])):
        yield random.standard_normal((1, 3, 224, 224), np.float32)

def report(start):
    peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
    cpu = time.process_time()
    json.dump({"seconds": time.perf_counter() - start, "processor": cpu, "megabytes": int(peak) / 1024}, sys.stdout)
"""

OURS = """
import qmlir
start = time.perf_counter()
module = qmlir.load(sys.argv[1])
qmlir.quantize(module, qmlir.profile(module, pictures()), calibration="kl")
report(start)
"""

THEIRS = """
from contextlib import redirect_stdout
from onnxruntime.quantization.calibrate import CalibrationDataReader, CalibrationMethod, create_calibrator

class Reader(CalibrationDataReader):
    def __init__(self):
        self.pictures = pictures()

    def get_next(self):
        picture = next(self.pictures, None)
        return None if picture is None else {"input": picture}

start = time.perf_counter()
with redirect_stdout(sys.stderr):
    method = getattr(CalibrationMethod, sys.argv[3])
    calibrator = create_calibrator(sys.argv[1], None, sys.argv[4], calibrate_method=method)
    calibrator.collect_data(Reader())
    calibrator.compute_data()
report(start)
"""


def measured(script: str, model: str, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-c", COMMON + script, str(FOLDER / model), str(SAMPLES)]
    done = subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_profile_kl_and_quantize_resnet50(tmp_path: Path) -> None:
    ours = measured(OURS, "resnet50.onnx")
    found = {"qmlir, KL": ours}
    for method in ("Entropy", "MinMax"):
        found[f"onnxruntime, {method}"] = measured(THEIRS, "resnet50_pre.onnx", method, tmp_path / "augmented.onnx")
    for who, row in found.items():
        ratio = row["seconds"] / ours["seconds"]
        figures = f"{row['seconds']:6.1f} s ({row['processor']:.1f} s of processor), {row['megabytes']:5.0f} MB"
        sys.stdout.write(f"{who:22} {figures}, {ratio:.2f} times ours\n")
    assert ours["megabytes"] < MOST_MEGABYTES
