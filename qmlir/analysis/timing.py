"""Measures on this processor how long a call of a network takes, layer by layer.

The network is compiled twice. One executable is what users get, and its calls give the latency. The other one reads a
counter around each call of a kernel (the pass `time-calls`), which gives the time of each layer; both return the same
outputs. The counter's ticks become seconds by the wall clock of all timed calls together.
"""

import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.analysis.counts import figures_of
from qmlir.analysis.layers import chosen_kernels, number_layers
from qmlir.backends.cpu.llvm import Machine
from qmlir.backends.cpu.peak import measure_peak
from qmlir.compiler import to_integers
from qmlir.devices.legality.limits import source_nodes
from qmlir.errors import QmlirError
from qmlir.ir.facts import TIMED
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import Signature
from qmlir.running.machine_code import to_machine_code

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable

SECONDS = 2.0
"""Seconds of measured calls by default; the timed calls take as long again."""

WARM_UP = 3
"""Calls that are not measured, in front of the others."""

LEAST_TIMED = 0.1
"""The least seconds of timed calls: over less, ticks of the counter would not be converted accurately."""

OTHER: Mapping[str, Any] = {"name": "other", "operation": "", "macs": 0, "weight_bytes": 0, "kernel": "", "why": ""}
"""The layer of calls that no operation asked for."""

X86 = ("x86_64", "amd64", "i386", "i686")
"""What Python calls x86."""


def measure(
    module: ModuleOp,
    inputs: Sequence[Array | Mapping[str, Array]],
    *,
    machine: Machine | None = None,
    seconds: float = SECONDS,
    runs: int | None = None,
) -> dict[str, Any]:
    """Compiles a network, and measures its calls.

    Args:
        module: A network; it stays unchanged.
        inputs: Arrays for the only input, or dicts of arrays by input name; they are used in turn.
        machine: The processor to generate code for; by default this one.
        seconds: How long to measure.
        runs: The number of calls to measure, instead of `seconds`.

    Returns:
        Plain data, as `qmlir bench --json` writes them: seconds, bytes, and numbers of products.

    Raises:
        QmlirError: The processor has no counter that can be read.
    """
    machine = machine or Machine.host()
    lowered = to_integers(module)
    described = [_described(op) for op in number_layers(lowered)]
    plain = to_machine_code(lowered.clone(), machine=machine)
    counter = "cycle" if platform.machine().lower() in X86 else "steady"
    timed = to_machine_code(lowered, machine=machine, counter=counter)
    for layer, (kernel, why) in zip(described, chosen_kernels(lowered, len(described)), strict=True):
        layer |= {"kernel": kernel, "why": why}
    numbers = TIMED.required(lowered)
    begin = [state.reset for state in plain.signature.states]  # each timed call is the first
    arrays = [plain.signature.joined(plain.signature.arrays(each), begin) for each in inputs]
    latency = _latency(_caller(plain, arrays), seconds, runs)
    ticks = _Ticks(timed, plain.run_in_order(arrays[0]), arrays[0])
    _latency(_caller(timed, arrays, ticks.add), seconds, runs, LEAST_TIMED)
    calls, whole = ticks.seconds()
    layers = _layers(described, numbers, calls)
    peak = measure_peak(machine)
    return {
        "processor": machine.cpu,
        "latency": latency,
        "timed_seconds": whole,
        "layers": layers,
        "macs": sum(layer["macs"] for layer in layers),
        "peak": {"macs_per_second": peak.products, "measured": peak.what, "threads": 1},
        "bytes": {"weights": plain.sizes.weights, "arena": plain.sizes.arena, "code": plain.sizes.code},
    }


def _described(op: Operation) -> dict[str, Any]:
    """The name, the kind and the figures of an operation."""
    figures = figures_of(op)
    return {
        "name": source_nodes(op),
        "operation": op.name,
        "macs": figures.macs,
        "weight_bytes": figures.weight_bytes,
    }


def random_inputs(signature: Signature, seed: int) -> dict[str, Array]:
    """Random arrays for the inputs of a network.

    Floats are of the normal distribution, integers of 8 and 16 bits of their whole range; wider ones are 0 or 1, since
    they may be indices.
    """
    rng = np.random.default_rng(seed)

    def array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if dtype.kind in "iu" and dtype.itemsize <= 2:
            limits = np.iinfo(dtype)
            return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        if dtype.kind in "iub":
            return rng.integers(0, 2, shape).astype(dtype)
        return rng.standard_normal(shape).astype(dtype)

    return {spec.name: array(spec.shape, spec.dtype) for spec in signature.inputs}


def _caller(
    executable: "Executable",
    inputs: Sequence[Sequence[Array]],
    taken: Callable[[Array, int, int], None] | None = None,
) -> Callable[[], float]:
    """Returns a function that calls a network on the next input, and returns the seconds of the call.

    Args:
        executable: The network.
        inputs: The inputs, used in turn.
        taken: Called with the last output, and with the wall clock in nanoseconds before and after the call.
    """
    following = cycle(inputs)

    def call() -> float:
        arrays = next(following)
        start = time.perf_counter_ns()
        results = executable.run_in_order(arrays)
        end = time.perf_counter_ns()
        if taken is not None:
            taken(results[-1], start, end)
        return (end - start) / 1e9

    return call


def _latency(call: Callable[[], float], seconds: float, runs: int | None, least: float = 0.0) -> dict[str, Any]:
    """Measures calls for some seconds, or a number of calls if it is given.

    Args:
        call: Makes a call, and returns its seconds.
        seconds: How long to measure; at least one call is measured.
        runs: The number of calls.
        least: The least seconds, even if the number of calls is given.
    """
    for _ in range(WARM_UP):
        call()
    spent: list[float] = []
    start = time.perf_counter()

    def more() -> bool:
        passed = time.perf_counter() - start
        return passed < least or (passed < seconds if runs is None else len(spent) < runs)

    while not spent or more():
        spent.append(call())
    spent.sort()
    return {
        "runs": len(spent),
        "min": spent[0],
        "median": statistics.median(spent),
        "p90": spent[math.ceil(0.9 * len(spent)) - 1],
    }


class _Ticks:
    """The counter's readings in all timed calls, and the wall clock around them."""

    def __init__(self, timed: "Executable", expected: Sequence[Array], arrays: Sequence[Array]):
        """Checks that the timed code returns what the other code returns."""
        outputs = timed.run_in_order(arrays)[:-1]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(expected, outputs, strict=True)), "timing changes results"
        self.readings: list[Array] = []
        self.walls: list[int] = []
        self.begun = self.ended = 0

    def add(self, readings: Array, start: int, end: int) -> None:
        """Records one call: its readings, and the wall clock in nanoseconds before and after it."""
        if not self.readings:
            self.begun = start
        self.ended = end
        self.readings.append(readings)
        self.walls.append(end - start)

    def seconds(self) -> tuple[Array, float]:
        """The seconds of each call of a kernel, and of a call of the network: means over the faster half of the calls.

        The slower half was interrupted more often. Means add up, unlike medians.

        Raises:
            QmlirError: The counter stands still.
        """
        table, walls = np.stack(self.readings), np.array(self.walls) / 1e9
        ticks = int(table[-1, -1] - table[0, 0])
        if ticks <= 0 and len(table[0]) > 1:
            raise QmlirError("has no counter that user code can read", where=f"the processor ({platform.machine()})")
        faster = np.argsort(walls)[: (len(walls) + 1) // 2]
        seconds = np.diff(table[faster], axis=1).mean(axis=0) * ((self.ended - self.begun) / 1e9 / max(ticks, 1))
        return seconds, float(walls[faster].mean())


def _layers(described: Sequence[Mapping[str, Any]], numbers: Sequence[int], seconds: Array) -> list[dict[str, Any]]:
    """The layers in the order of their first calls, each with the seconds of all its calls."""
    layers: dict[int, dict[str, Any]] = {}
    for number, spent in zip(numbers, seconds.tolist(), strict=True):
        known = described[number] if number >= 0 else OTHER
        layers.setdefault(number, {**known, "seconds": 0.0})["seconds"] += spent
    return list(layers.values())
