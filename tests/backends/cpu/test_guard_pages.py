"""Networks stay within their memory: no access to a byte before or behind weights, arena, inputs and outputs.

Each run is a process (guarded.py), so that a fault fails a test and names the network. `make test` runs some random
layers, operations and networks; `make conformance` runs more, and `make models` those of trained networks.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backends.cpu.guarded import RUN
from tests.conftest import ROOT, THOROUGH

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="mprotect is POSIX's")

THOROUGHLY = pytest.mark.skipif(not THOROUGH, reason="make conformance runs them")

LAYERS, NETWORKS, OPERATIONS = (30, 6, 40) if THOROUGH else (15, 3, 20)
"""Cases of a process."""

MODELS = (
    "models/tflite/ad_fcae_i8.tflite",
    "models/tflite/kws_dscnn_i8.tflite",
    "models/tflite/resnet8_cifar_i8.tflite",
    "models/tflite/str_ww_i8.tflite",
    "models/tflite/vww_mbv1_i8.tflite",
    "models/onnx/mnist-8.onnx",
)


def run(*arguments: object) -> None:
    """Runs guarded.py; a process that a signal ends, and one that raises an error, fail the test with its last line."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.backends.cpu.guarded", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stdout.splitlines()[-1:] or ["nothing"]
    assert (done.returncode, last) == (0, ["done"]), f"{last[0]}\n{done.stderr[-3000:]}"


def batches(cases: int, each: int) -> list[object]:
    """(first, last) of batches of `each` cases; `make test` runs the first batch."""
    starts = range(0, cases, each)
    return [
        pytest.param(first, min(first + each, cases), marks=() if first == 0 else THOROUGHLY, id=str(first))
        for first in starts
    ]


@pytest.mark.parametrize(("first", "last"), batches(300, LAYERS))
def test_random_layers(first: int, last: int) -> None:
    run("layer", first, last)


@pytest.mark.parametrize(("first", "last"), batches(60, NETWORKS))
def test_random_networks(first: int, last: int) -> None:
    run("network", first, last)


@pytest.mark.parametrize(("first", "last"), batches(len(RUN), OPERATIONS))
def test_operations(first: int, last: int) -> None:
    run("operation", first, last)


@pytest.mark.models
@pytest.mark.parametrize("file", MODELS)
def test_trained_networks(file: str, shared: Callable[[str], Path]) -> None:
    run("file", shared(file))


@pytest.mark.slow
@pytest.mark.parametrize("side", ["behind", "before"])
@pytest.mark.parametrize("access", ["read", "write"])
def test_a_byte_beside_a_region_is_a_fault(side: str, access: str) -> None:
    """The tests above test something: the process ends by a signal."""
    script = f"""
import ctypes
from tests.backends.cpu.guarded import Region
region = Region(100, {side == "behind"})
place = region.address + (100 if {side == "behind"} else -1)
assert ctypes.string_at(region.address, 100) == b"\\xa5" * 100
print("here", flush=True)
ctypes.{"string_at(place, 1)" if access == "read" else "memset(place, 0, 1)"}
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode < 0, done.stdout) == (True, "here\n"), done.stderr
