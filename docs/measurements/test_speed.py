"""Latency of trained networks beside onnxruntime's float, and what each stage of the compiler costs.

Contenders take turns, so that a ratio compares what the machine did at the same time; medians over the turns. Run
with `-s` to see the figures.
"""

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import qmlir
from qmlir.stages import OBSERVE, SIMPLIFY
from tests.models.networks import NETWORKS, split

pytestmark = [pytest.mark.models, pytest.mark.slow]

TURNS = 15


def _show(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")


def _seconds(contenders: Mapping[str, Callable[[], object]], turns: int = TURNS) -> dict[str, float]:
    """The median seconds of each contender's calls, taken in turn after a warm-up."""
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            if turn:
                spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in spent.items()}


@pytest.mark.parametrize("name", list(NETWORKS))
def test_latency(name: str, shared: Callable[[str], Path]) -> None:
    network = NETWORKS[name]
    path = shared(network.file)
    data = split(network, shared, 0.001)
    module = qmlir.load(path)
    floats = qmlir.compile(path)
    integers = qmlir.compile(qmlir.quantize(module, qmlir.profile(module, data.profile[:4])))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed: dict[str, Any] = {session.get_inputs()[0].name: data.score[0]}
    spent = _seconds(
        {
            "onnxruntime f32": lambda: session.run(None, feed),
            "qmlir f32": lambda: floats.run(data.score[0]),
            "qmlir int8": lambda: integers.run(data.score[0]),
        }
    )
    peer, ours = spent["onnxruntime f32"], spent["qmlir int8"]
    _show(
        f"{name:17s} one thread: onnxruntime f32 / qmlir int8 = {peer / ours:.2f}, "
        f"qmlir f32 / int8 = {spent['qmlir f32'] / ours:.2f}  ("
        + ", ".join(f"{k} {1000 * v:.3f} ms" for k, v in spent.items())
        + ")"
    )


def test_road(shared: Callable[[str], Path]) -> None:
    """Import, profile on 100 inputs, quantize and compile mnist-8: the whole road, and the share of each stage."""
    path = shared("models/onnx/mnist-8.onnx")
    data = split(NETWORKS["mnist-8"], shared, 0.001)
    marks = [time.perf_counter()]

    def mark(value: Any) -> Any:
        marks.append(time.perf_counter())
        return value

    module = mark(qmlir.load(path))
    mark(qmlir.Pipeline(*SIMPLIFY)(module))
    mark(qmlir.Pipeline(*OBSERVE)(module))
    profile = mark(qmlir.profile(module, data.profile))
    quantized = mark(qmlir.quantize(module, profile))
    mark(qmlir.compile(quantized))
    stages = ("load", "simplify", "observe", "profile", "quantize", "compile")
    spent = dict(zip(stages, (b - a for a, b in itertools.pairwise(marks)), strict=True))
    total = marks[-1] - marks[0]
    _show(f"mnist-8 road {total:.2f} s: " + ", ".join(f"{k} {100 * v / total:.0f} %" for k, v in spent.items()))


def test_drivers_start() -> None:
    """The time to the first line of help."""
    for tool in ("qmlir-opt", "qmlir"):
        command = [str(Path(sys.executable).parent / tool), "--help"]

        def call(command: list[str] = command) -> None:
            subprocess.run(command, check=True, capture_output=True)

        _show(f"{tool} --help {_seconds({tool: call}, turns=5)[tool]:.2f} s")
