"""Measures whether onnxruntime computes a quantized network faster than its float network, on this machine.

onnxruntime is no part of qmlir: a process of its own imports it, if it is installed.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from xdsl.dialects.builtin import ModuleOp

from qmlir.compiler import export, main_function
from qmlir.dialects.nn.base import is_quantized
from qmlir.errors import QmlirError

RUNTIME = "onnxruntime"

SECONDS = 1.0
"""How long both networks run together, if that gives `FEWEST` calls of each."""

FEWEST, MOST = 3, 200
"""The least and the most calls of each network that are timed."""

LIMIT = 30.0
"""Seconds after which the measurement is given up."""

ALIKE = 0.05
"""The share of the time by which the two may differ and count as equally fast."""

PROGRAM = """
import json, sys, time
import numpy as np
import onnxruntime

onnxruntime.set_default_logger_severity(4)
paths, (seconds, fewest, most) = sys.argv[1:3], map(float, sys.argv[3:])
types = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
calls, times = [], [[], []]
for path in paths:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {}
    for given in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in given.shape]
        dtype = types.get(given.type, given.type[len("tensor("):-1])
        values = np.random.default_rng(0).normal(size=shape) if given.type in types else np.zeros(shape)
        feed[given.name] = values.astype(dtype)
    session.run(None, feed)
    calls.append((session, feed))
began = time.perf_counter()
while len(times[0]) < fewest or (time.perf_counter() - began < seconds and len(times[0]) < most):
    for own, (session, feed) in zip(times, calls):
        start = time.perf_counter()
        session.run(None, feed)
        own.append(time.perf_counter() - start)
medians = [sorted(own)[len(own) // 2] for own in times]
sys.stdout.write(json.dumps({"version": onnxruntime.__version__, "calls": len(times[0]), "seconds": medians}))
"""
"""Times two files in turns and prints the medians. Integers are 0, so that they are valid as indices."""


@dataclass(frozen=True)
class RuntimeSpeed:
    """Times of two networks in onnxruntime, with its default options.

    version      onnxruntime's version
    calls        how many calls of each network were timed, in turns
    on_floats    the median of a call of the float network, in seconds
    on_integers  the median of a call of the quantized network, in seconds
    """

    version: str
    calls: int
    on_floats: float
    on_integers: float

    @property
    def ratio(self) -> float:
        """How many times as fast the quantized network is."""
        return self.on_floats / self.on_integers

    def text(self) -> str:
        """Returns a sentence that says which network is faster."""
        if abs(self.ratio - 1) <= ALIKE:
            comparison = "is as fast as the float network"
        elif self.ratio > 1:
            comparison = f"is {self.ratio:.2g} times as fast as the float network"
        else:
            comparison = f"is slower than the float network, {1 / self.ratio:.2g} times its time"
        times = f"{1e3 * self.on_integers:.3g} ms a call for {1e3 * self.on_floats:.3g} ms"
        return f"in onnxruntime {self.version} on this machine, the quantized network {comparison} ({times})"

    def as_dict(self) -> dict[str, object]:
        """Returns the figures of a document."""
        return {
            "runtime": RUNTIME, "version": self.version, "calls": self.calls, "float_ms": 1e3 * self.on_floats,
            "quantized_ms": 1e3 * self.on_integers, "faster": self.ratio > 1 + ALIKE,
        }  # fmt: skip


class NotMeasuredError(QmlirError):
    """Raised if onnxruntime cannot time the networks; the message is the reason."""


def runtime_speed(module: ModuleOp, quantized: ModuleOp, file: Path | None = None) -> RuntimeSpeed:
    """Times a float network and the quantized one in onnxruntime, in turns, for about a second.

    Args:
        module: The network as it was before it was quantized.
        quantized: The quantized network.
        file: The .onnx file of the quantized network, if it is written already.

    Raises:
        NotMeasuredError: onnxruntime is not installed, the first network is not a float network, or onnxruntime does
            not run one of them.
    """
    if find_spec(RUNTIME) is None:
        raise NotMeasuredError("it is not installed")
    if any(is_quantized(value) for op in main_function(module).walk() for value in op.results):
        raise NotMeasuredError("the model that was given is quantized already, so that there is no float network")
    with TemporaryDirectory(prefix="qmlir-") as folder:
        floats, integers = Path(folder) / "float.onnx", file or Path(folder) / "quantized.onnx"
        try:
            export(module, floats)
            if file is None:
                export(quantized, integers)
        except QmlirError as error:
            raise NotMeasuredError(str(error)) from None
        return _timed(floats, integers.resolve(), Path(folder))


def _timed(floats: Path, integers: Path, folder: Path) -> RuntimeSpeed:
    limits = map(str, (SECONDS, FEWEST, MOST))
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(floats), str(integers), *limits]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT, cwd=folder, check=False, text=True)
    except subprocess.TimeoutExpired:
        raise NotMeasuredError(f"it takes more than {LIMIT:.0f} s") from None
    except OSError as error:
        raise NotMeasuredError(f"a process for it does not start: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"its process ended with status {done.returncode}"]
        raise NotMeasuredError(said[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    return RuntimeSpeed(found["version"], found["calls"], *found["seconds"])
