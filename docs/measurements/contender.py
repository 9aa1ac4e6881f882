"""One contender of peers.py, in a process of its own: a runtime with one network, which calls it when it is told to.

    python contender.py RUNTIME MODEL THREADS [--cpu NAME]

The process prints a line of JSON once the network is loaded and has been called (`Loaded`). Then it reads lines, each
a number of seconds, calls the network so long, and answers with a line of JSON (`Turn`). It needs numpy and its own
runtime only, so that peers may live in an environment without qmlir; it is run by its path for that reason.
"""

import argparse
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Call: TypeAlias = Callable[[], object]

LEAST_CALLS = 3
"""The least calls of a turn."""

JIFFIES = 100
"""Ticks of /proc/stat in a second."""


@dataclass(frozen=True)
class Loaded:
    """What it takes until a network can be called, from the import of its runtime to the end of the first call.

    seconds    of the wall clock
    megabytes  the peak of the process's memory
    """

    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Turn:
    """The calls of a turn, and what else used the machine meanwhile.

    median   seconds of a call
    least    seconds of a call
    calls    how many there were
    own      the processor time of this process divided by the time of the turn: 1.0 for a thread that always ran
    others   the processor time of all other processes divided by the time of the turn
    stolen   the processor time that other virtual machines took, divided by the time of the turn
    """

    median: float
    least: float
    calls: int
    own: float
    others: float
    stolen: float


def random_array(shape: Any, dtype: Any) -> Any:
    """Random data for an input: floats of the normal distribution, bytes of their whole range; open sizes are 1."""
    shape = [size if isinstance(size, int | np.integer) and size > 0 else 1 for size in shape]
    rng, dtype = np.random.default_rng(0), np.dtype(dtype)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def onnxruntime(model: str, threads: int, cpu: str | None) -> Call:
    """Inputs and outputs are bound once, so that a call copies nothing."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    types = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8}
    for x in session.get_inputs():
        binding.bind_ortvalue_input(x.name, ort.OrtValue.ortvalue_from_numpy(random_array(x.shape, types[x.type])))
    for y in session.get_outputs():
        binding.bind_output(y.name, "cpu")
    return lambda: session.run_with_iobinding(binding)


def openvino(model: str, threads: int, cpu: str | None) -> Call:
    """One stream tuned for latency; floats stay float32."""
    ov = importlib.import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = ov.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    for i, x in enumerate(compiled.inputs):
        shape = [1 if size.is_dynamic else size.get_length() for size in x.partial_shape]
        array = random_array(shape, x.element_type.to_dtype())
        request.set_input_tensor(i, ov.Tensor(array, shared_memory=True))
    return lambda: request.infer()


def litert(model: str, threads: int, cpu: str | None) -> Call:
    """LiteRT with XNNPACK, its default delegate."""
    runtime = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = runtime.Interpreter(model_path=model, num_threads=threads)
    interpreter.allocate_tensors()
    for x in interpreter.get_input_details():
        interpreter.set_tensor(x["index"], random_array(x["shape"], x["dtype"]))
    return lambda: interpreter.invoke()


def compiled(model: str, threads: int, cpu: str | None) -> tuple[Any, Any]:
    """Our executable and its inputs."""
    package = importlib.import_module("qmlir")
    executable = package.compile(model, threads=threads, cpu=cpu)
    inputs = {x.name: random_array(x.shape, x.dtype) for x in executable.signature.inputs}
    return executable, next(iter(inputs.values())) if len(inputs) == 1 else inputs


def qmlir(model: str, threads: int, cpu: str | None) -> Call:
    """A call checks its inputs and makes its outputs."""
    executable, inputs = compiled(model, threads, cpu)
    return lambda: executable(inputs)


def qmlir_bound(model: str, threads: int, cpu: str | None) -> Call:
    """Inputs and outputs are bound once, as the peers' are."""
    executable, inputs = compiled(model, threads, cpu)
    return executable.bind(inputs)


RUNTIMES: Mapping[str, Callable[[str, int, str | None], Call]] = {
    "qmlir": qmlir,
    "qmlir-bound": qmlir_bound,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "litert": litert,
}


def peak_megabytes() -> float:
    """The peak of this process's memory; 0 where /proc does not tell."""
    path = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+)", path.read_text()) if path.exists() else None
    return int(found[1]) / 1024 if found else 0.0


def jiffies() -> tuple[int, int]:
    """The ticks in which any processor of the machine was busy, and those that were stolen; 0 where nothing tells."""
    path = Path("/proc/stat")
    if not path.exists():
        return 0, 0
    user, nice, system, _, _, irq, soft, steal = map(int, path.read_text().split("\n")[0].split()[1:9])
    return user + nice + system + irq + soft, steal


def turn(call: Call, seconds: float) -> Turn:
    """Calls a network for some seconds, after one call that is not measured."""
    call()
    spent: list[float] = []
    busy, stolen = jiffies()
    own, start = time.process_time(), time.perf_counter()
    end = start
    while end - start < seconds or len(spent) < LEAST_CALLS:
        begun = time.perf_counter()
        call()
        end = time.perf_counter()
        spent.append(end - begun)
    own, (busy_then, stolen_then) = time.process_time() - own, jiffies()
    whole = end - start
    spent.sort()
    others = max(0.0, (busy_then - busy) / JIFFIES - own) / whole
    steal = (stolen_then - stolen) / JIFFIES / whole
    return Turn(spent[len(spent) // 2], spent[0], len(spent), own / whole, others, steal)


def pin(threads: int) -> None:
    """Keeps the process on as many processors as it has threads: the last of those that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def main() -> None:
    """Loads a network and takes turns until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runtime", choices=RUNTIMES)
    parser.add_argument("model")
    parser.add_argument("threads", type=int)
    parser.add_argument("--cpu")
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")  # what a runtime prints itself goes elsewhere
    os.dup2(2, 1)
    pin(given.threads)
    start = time.perf_counter()
    try:
        call = RUNTIMES[given.runtime](given.model, given.threads, given.cpu)
    except ModuleNotFoundError as error:
        answers.write(json.dumps({"missing": error.name}) + "\n")
        return
    call()
    answers.write(json.dumps(asdict(Loaded(time.perf_counter() - start, peak_megabytes()))) + "\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(asdict(turn(call, float(line)))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
