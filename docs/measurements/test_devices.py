"""What compiling for a device costs, and how much of the device it uses: ResNet-50 and MobileNetV2, random weights.

Each network and device in a process of its own, ranges that no data has given, cycles predicted from the program. The
models are those of the peers (`$QMLIR_PEERS`, see its build_models.py); `-s` shows the figures.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qmlir.devices import shipped_devices

FOLDER = Path(os.environ.get("QMLIR_PEERS", Path.home() / ".cache" / "qmlir-peers")) / "models"

pytestmark = [pytest.mark.slow, pytest.mark.models]

MOST_MEGABYTES = 1000

VELA = {("resnet50", "ethos-u55-like"): 59.4, ("mobilenetv2", "ethos-u55-like"): 29.8}
"""Utilization in per cent that Vela 5.2 estimates for an Ethos-U55 of 128 MACs with the same bandwidths.

Its weights are compressed and its reduction lanes take channels alone; ours take taps too, which is worth most in a
first layer of three channels.
"""

SCRIPT = """
import json, re, sys, time
from pathlib import Path
import qmlir
from qmlir.transforms.quantize.ranges.apply_profile import fill_ranges

def seconds():
    return time.perf_counter(), time.process_time()

model, target = sys.argv[1:]
network = qmlir.Pipeline("simplify", "insert-observers")(qmlir.load(model))
fill_ranges(network)
quantized = qmlir.quantize(network, target=target)
begun = seconds()
executable = qmlir.compile(quantized, target=target)
ended = seconds()
program = executable.program
report = executable.predicted
assert report.cycles == executable.predicted_cycles
json.dump({
    "seconds": ended[0] - begun[0],
    "processor": ended[1] - begun[1],
    "megabytes": int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024,
    "commands": len(program.commands),
    "cycles": report.cycles,
    "used": 100 * report.utilization,
    "bound": 100 * report.bound,
    "layers": [layer.bound / layer.cycles for layer in report.layers if layer.cycles > report.cycles / 100],
}, sys.stdout)
"""


@pytest.mark.parametrize("device", shipped_devices())
@pytest.mark.parametrize("network", ["resnet50", "mobilenetv2"])
def test_compile_for_a_device(network: str, device: str) -> None:
    model = FOLDER / f"{network}.onnx"
    if not model.exists():
        pytest.skip("the peers' models are not built")
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(model), device]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    theirs = VELA.get((network, device))
    beside = "" if theirs is None else f"; {found['used'] / theirs:.2f} times Vela's estimate"
    sys.stdout.write(
        f"{network:11} {device:15} {found['used']:5.1f} % used, {found['bound']:5.1f} % if nothing waited; layers "
        f"{min(found['layers']):.2f} of their bound at least; {found['cycles']} cycles, {found['commands']} commands; "
        f"{found['seconds']:.1f} s ({found['processor']:.1f} s of processor), {found['megabytes']:.0f} MB{beside}\n"
    )
    assert found["megabytes"] < MOST_MEGABYTES
