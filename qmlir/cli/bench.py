"""`qmlir bench`: how long a call of a network takes, layer by layer, and the share of the processor's peak it reaches.

The network is compiled twice. One executable is what users get, and its calls give the latency. The other one reads a
counter around each call of a kernel (the pass `time-calls`), which gives the time of each layer; both return the same
outputs. The counter's ticks become seconds by the wall clock of all timed calls together.
"""

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from qmlir.cli.data import add_data_options, samples_of
from qmlir.cli.flags import ArgumentParser, count, file_of
from qmlir.cli.models import load_simplified
from qmlir.cli.terminal import say, table_of, terminal
from qmlir.errors import FileError, QmlirError

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.jit import Executable
    from qmlir.ir.interfaces import Array
    from qmlir.ir.signature import Signature

FORMAT = "qmlir-bench-1"

SECONDS = 2.0
"""Seconds of measured calls by default; the timed calls take as long again."""

WARM_UP = 3
"""Calls that are not measured, in front of the others."""

LEAST_TIMED = 0.1
"""The least seconds of timed calls: over less, ticks of the counter would not be converted accurately."""

INPUTS = 16
"""The most different inputs; they are used in turn."""

NAME_WIDTH = 32
"""The most columns of a layer's name, so that the table fits 80 columns."""


def add_bench_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir bench`."""
    parser.add_argument("--runs", type=count, help="measure this many calls (default: those of --seconds)")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="measure calls this long (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs, if there is no --data (default: 0)")
    add_data_options(parser, "inputs, used in turn; by default one random input", required=False)
    parser.add_argument("--slowest", type=count, metavar="N", help="list the N slowest layers only (default: all)")
    parser.add_argument("--json", type=file_of(".json"), help="write all figures to this .json file")
    parser.add_argument("--against", type=file_of(".json"), help="compare with an earlier run's .json file")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text}")
    return value


def run_bench(arguments: argparse.Namespace) -> None:
    """Measures a network, prints the figures, and writes or compares them if asked to."""
    earlier = None if arguments.against is None else _read(arguments.against)
    figures = measure(arguments)
    _show(figures, arguments.slowest)
    if earlier is not None:
        _compare(earlier, figures, arguments)
    if arguments.json is not None:
        from qmlir.files import write_whole

        write_whole(arguments.json, json.dumps(figures, indent=2) + "\n")
        say(f"{arguments.json}: written")


# ---------------------------------------------------------------------------------------------------------------
# Measuring. All figures are plain data, as `--json` writes them: seconds, bytes, and numbers of products.


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compiles the network of a command line, and returns its figures."""
    from qmlir.backends.cpu.machine import measure_peak
    from qmlir.compiler import machine_given, to_integers, to_machine_code
    from qmlir.dialects.loops import TIMED

    machine = machine_given(arguments.cpu, arguments.features, arguments.triple)
    lowered = to_integers(load_simplified(arguments))
    described = number_layers(lowered)
    plain = to_machine_code(lowered.clone(), machine=machine)
    counter = "cycle" if platform.machine().lower() in X86 else "steady"
    timed = to_machine_code(lowered, machine=machine, counter=counter)
    numbers: Any = lowered.attributes[TIMED]
    inputs = [plain.signature.arrays(x) for x in _inputs(arguments, plain.signature)]
    latency = _latency(_caller(plain, inputs), arguments.seconds, arguments.runs)
    ticks = _Ticks(timed, plain.run_in_order(inputs[0]), inputs[0])
    _latency(_caller(timed, inputs, ticks.add), arguments.seconds, arguments.runs, LEAST_TIMED)
    calls, whole = ticks.seconds()
    layers = _layers(described, numbers.get_values(), calls)
    peak = measure_peak(machine)
    return {
        "format": FORMAT,
        "model": arguments.model.name,
        "processor": machine.cpu,
        "latency": latency,
        "timed_seconds": whole,
        "layers": layers,
        "macs": sum(layer["macs"] for layer in layers),
        "peak": {"macs_per_second": peak.products, "measured": peak.what, "threads": 1},
        "bytes": {"weights": plain.sizes.weights, "arena": plain.sizes.arena, "code": plain.sizes.code},
    }


X86 = ("x86_64", "amd64", "i386", "i686")
"""What Python calls x86."""


def number_layers(module: "ModuleOp") -> list[dict[str, Any]]:
    """Gives each operation of a network on the qint level a number; returns names, kinds and products by number."""
    from xdsl.dialects.builtin import IntegerAttr, i64

    from qmlir.compiler import main_function
    from qmlir.devices.legality import source_nodes
    from qmlir.devices.properties import products
    from qmlir.dialects.loops import LAYER

    described: list[dict[str, Any]] = []
    for op in main_function(module).body.block.ops:
        if op.results:
            op.attributes[LAYER] = IntegerAttr(len(described), i64)
            described.append({"name": source_nodes(op), "operation": op.name, "macs": products(op)})
    return described


def _inputs(arguments: argparse.Namespace, signature: "Signature") -> "list[Any]":
    """The inputs that a command line asks for: samples of its data, or one random input."""
    if arguments.data is not None:
        return list(islice(samples_of(arguments, signature), INPUTS))
    return [random_inputs(signature, arguments.seed)]


def random_inputs(signature: "Signature", seed: int) -> "dict[str, Array]":
    """Random arrays for the inputs of a network.

    Floats are of the normal distribution, integers of 8 and 16 bits of their whole range; wider ones are 0 or 1, since
    they may be indices.
    """
    import numpy as np

    rng = np.random.default_rng(seed)

    def array(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> "Array":
        if dtype.kind in "iu" and dtype.itemsize <= 2:
            limits = np.iinfo(dtype)
            return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        if dtype.kind in "iub":
            return rng.integers(0, 2, shape).astype(dtype)
        return rng.standard_normal(shape).astype(dtype)

    return {spec.name: array(spec.shape, spec.dtype) for spec in signature.inputs}


def _caller(
    executable: "Executable",
    inputs: "Sequence[Sequence[Array]]",
    taken: "Callable[[Array, int, int], None] | None" = None,
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

    def __init__(self, timed: "Executable", expected: "Sequence[Array]", arrays: "Sequence[Array]"):
        """Checks that the timed code returns what the other code returns."""
        outputs = timed.run_in_order(arrays)[:-1]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(expected, outputs, strict=True)), "timing changes results"
        self.readings: list[Array] = []
        self.walls: list[int] = []
        self.begun = self.ended = 0

    def add(self, readings: "Array", start: int, end: int) -> None:
        """Records one call: its readings, and the wall clock in nanoseconds before and after it."""
        if not self.readings:
            self.begun = start
        self.ended = end
        self.readings.append(readings)
        self.walls.append(end - start)

    def seconds(self) -> "tuple[Array, float]":
        """The seconds of each call of a kernel, and of a call of the network: means over the faster half of the calls.

        The slower half was interrupted more often. Means add up, unlike medians.

        Raises:
            QmlirError: The counter stands still.
        """
        import numpy as np

        table, walls = np.stack(self.readings), np.array(self.walls) / 1e9
        ticks = int(table[-1, -1] - table[0, 0])
        if ticks <= 0 and len(table[0]) > 1:
            raise QmlirError("has no counter that user code can read", where=f"the processor ({platform.machine()})")
        faster = np.argsort(walls)[: (len(walls) + 1) // 2]
        seconds = np.diff(table[faster], axis=1).mean(axis=0) * ((self.ended - self.begun) / 1e9 / max(ticks, 1))
        return seconds, float(walls[faster].mean())


def _layers(described: Sequence[Mapping[str, Any]], numbers: Sequence[int], seconds: "Array") -> list[dict[str, Any]]:
    """The layers in the order of their first calls, each with the seconds of all its calls."""
    layers: dict[int, dict[str, Any]] = {}
    for number, spent in zip(numbers, seconds.tolist(), strict=True):
        known = described[number] if number >= 0 else {"name": "other", "operation": "", "macs": 0}
        layers.setdefault(number, {**known, "seconds": 0.0})["seconds"] += spent
    return list(layers.values())


# ---------------------------------------------------------------------------------------------------------------
# Showing


def _show(figures: Mapping[str, Any], slowest: int | None) -> None:
    layers, peak, latency = figures["layers"], figures["peak"], figures["latency"]
    whole = figures["timed_seconds"]
    shown = _slowest(layers, slowest)
    rows = [_row(layer["name"], layer["seconds"], layer["macs"], whole, peak) for layer in shown]
    inside = math.fsum(layer["seconds"] for layer in layers)
    if rest := len(layers) - len(shown):
        others = [layer for layer in layers if not any(layer is s for s in shown)]
        spent, macs = math.fsum(layer["seconds"] for layer in others), sum(layer["macs"] for layer in others)
        rows.append(_row(f"{rest} others", spent, macs, whole, peak))
    rows.append(_row("around the layers", max(whole - inside, 0.0), 0, whole, peak))
    numbers = ("ms", "share", "MMAC", "GMAC/s", "of peak")
    terminal().print(table_of(("layer", *numbers), rows, numbers))
    say(f"{_ms(latency['min'])} ms at least, {_ms(latency['median'])} median, {_ms(latency['p90'])} in 90 % of "
        f"{latency['runs']} calls")  # fmt: skip
    rate = figures["macs"] / latency["median"]
    say(f"{figures['macs'] / 1e6:.1f} MMAC a call, {rate / 1e9:.1f} GMAC/s: "
        f"{100 * rate / peak['macs_per_second']:.1f} % of the peak of one thread")  # fmt: skip
    say(f"peak: {peak['macs_per_second'] / 1e9:.1f} GMAC/s, measured on {figures['processor'] or 'this processor'}")
    say(f"      with {peak['measured']}")
    sizes = figures["bytes"]
    say(f"{sizes['weights']} bytes of weights, {sizes['arena']} of arena, {sizes['code']} of code")


def _slowest(layers: Sequence[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    """The slowest layers in the order of the network; all if `most` is None."""
    chosen = sorted(range(len(layers)), key=lambda n: -layers[n]["seconds"])[:most]
    return [layers[n] for n in sorted(chosen)]


def _row(name: str, seconds: float, macs: int, whole: float, peak: Mapping[str, Any]) -> tuple[str, ...]:
    rate = macs / seconds if seconds else 0.0
    products = (f"{macs / 1e6:.2f}", f"{rate / 1e9:.1f}", f"{100 * rate / peak['macs_per_second']:.1f} %")
    share = f"{100 * seconds / whole:.1f} %"
    return (shortened(name), _ms(seconds), share, *(products if macs else ("", "", "")))


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3f}"


def shortened(name: str, width: int = NAME_WIDTH) -> str:
    """The name without its middle if it is longer than `width`."""
    half = (width - 1) // 2
    return name if len(name) <= width else f"{name[: width - 1 - half]}…{name[-half:]}"


# ---------------------------------------------------------------------------------------------------------------
# Comparing with an earlier run


def _read(path: Path) -> dict[str, Any]:
    """Reads the figures of an earlier run.

    Raises:
        FileError: The file cannot be read, or is not what `--json` writes.
    """
    need = f"must be what `qmlir bench --json` writes ({FORMAT})"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        layers = [(str(row["name"]), float(row["seconds"])) for row in found["layers"]]
        latency = {key: float(found["latency"][key]) for key in ("min", "median", "p90")}
        known = found["format"] == FORMAT and all(map(math.isfinite, [*latency.values(), *(s for _, s in layers)]))
    except OSError as error:
        raise FileError(path, "must be readable", got=error) from None
    except (ValueError, RecursionError, KeyError, TypeError):
        raise FileError(path, need, got="something else") from None
    if not known:
        raise FileError(path, need, got=f"format {found['format']}" if found["format"] != FORMAT else "no numbers")
    return cast(dict[str, Any], found)


def _compare(earlier: Mapping[str, Any], figures: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    """Prints the times of both runs and their ratio, for each layer and for a call."""
    before = dict(_named(earlier["layers"]))
    rows: list[tuple[str, ...]] = []
    shown = _slowest(figures["layers"], arguments.slowest)
    for key, layer in _named(figures["layers"]):
        then = before.pop(key, None)
        if any(layer is s for s in shown):
            rows.append(_change(key[0], None if then is None else then["seconds"], layer["seconds"]))
    rows += [_change(key[0], then["seconds"], None) for key, then in before.items()]
    for which in ("min", "median", "p90"):
        rows.append(_change(f"a call: {which}", earlier["latency"][which], figures["latency"][which]))
    say("")
    numbers = ("ms then", "ms now", "now / then")
    terminal().print(table_of((f"against {shortened(arguments.against.name, 20)}", *numbers), rows, numbers))


def _named(layers: Sequence[dict[str, Any]]) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    """Yields each layer with its name and how many layers before it have the same name."""
    met: dict[str, int] = {}
    for layer in layers:
        name = str(layer["name"])
        yield (name, met.get(name, 0)), layer
        met[name] = met.get(name, 0) + 1


def _change(name: str, then: float | None, now: float | None) -> tuple[str, ...]:
    ratio = f"{now / then:.3f}" if then and now is not None else "–"
    return (shortened(name), *("–" if s is None else _ms(s) for s in (then, now)), ratio)
