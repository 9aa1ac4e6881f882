"""Runs an exported file in its own runtime, onnxruntime or LiteRT, with all of its tensors.

The runtimes are no part of qmlir: a process of its own imports the runtime that a file needs, if it is installed. It
reads the inputs of all samples from one .npz file, and writes the tensors of each sample into another.

A tensor that the file rounds to integers is given as these integers mean, with the bits that store it. LiteRT runs
without delegates, which keep inner tensors to themselves; onnxruntime fuses no nodes for inner tensors, but the outputs
are those of its defaults.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from qmlir.errors import FileError, UnsupportedError
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import State

LIMIT = 600.0
"""Seconds after which a runtime is given up."""

_READ = """
import json, sys
import numpy as np
path, given, found = sys.argv[1:]
held = np.load(given)
count, names = int(held["count"]), [str(name) for name in held["names"]]
samples = [[held[f"{i} {j}"] for j in range(len(names))] for i in range(count)]
after, starts = json.loads(str(held["after"])), {*held["starts"].tolist()}
resets = {name: held[f"reset {i}"] for i, name in enumerate(after)}
tensors, bits, makers = {}, {}, {}
def taken(inputs):
    by_name = dict(zip(names, range(len(names))))
    given = [name for name in inputs if name not in after]
    return {name: by_name.get(name, i) for i, name in enumerate(given)}
"""

_WRITE = """
np.savez(found, about=json.dumps({"bits": bits, "makers": makers}), **tensors)
"""

ONNXRUNTIME = f"""{_READ}
import onnx, onnxruntime
onnxruntime.set_default_logger_severity(4)
model = onnx.load(path)
own = [output.name for output in model.graph.output]
inner = [name for node in model.graph.node for name in node.output if name and name not in own]
makers = {{name: node.op_type for node in model.graph.node for name in node.output}}
fused = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner)
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
plain = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
read = {{node.input[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}}
stored = [node for node in model.graph.node if node.op_type == "QuantizeLinear" and node.output[0] in read]
inputs = [given.name for given in fused.get_inputs()]
for i, arrays in enumerate(samples):
    kept = dict(resets) if i in starts else kept
    feed = {{name: arrays[j] for name, j in taken(inputs).items()}} | {{n: kept[n] for n in after if n in inputs}}
    values = dict(zip([*own, *inner], plain.run([*own, *inner], feed))) | feed
    values |= dict(zip(own, fused.run(own, feed)))
    kept = {{name: values[value] for name, value in after.items() if value in values}}
    for name in [*after, *after.values()]:  # integers between calls; the tensors beside them are the numbers
        if name in values and values[name].dtype.kind in "iu":
            del values[name]
    for node in stored:
        if node.output[0] not in values:
            continue
        integers, meant = values[node.output[0]], values[read[node.output[0]].output[0]]
        for name in (node.input[0], read[node.output[0]].output[0]):
            bits[name] = 8 * integers.dtype.itemsize
            if name not in own:
                values[name] = meant
    for name in [*inputs, *(name for node in model.graph.node for name in node.output)]:
        if name in values:
            tensors[f"{{i}} {{name}}"] = values[name]
{_WRITE}"""

LITERT = f"""{_READ}
from ai_edge_litert.interpreter import Interpreter, OpResolverType
resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
network = Interpreter(path, experimental_preserve_all_tensors=True, experimental_op_resolver_type=resolver)
network.allocate_tensors()
details, given = network.get_tensor_details(), network.get_input_details()
by_index = {{detail["index"]: detail for detail in details}}
for op in network._get_ops_details():
    for place in op["outputs"]:
        if place in by_index:
            makers[by_index[place]["name"]] = op["op_name"]
            if op["op_name"] == "DEQUANTIZE":
                bits[by_index[place]["name"]] = 8 * np.dtype(by_index[op["inputs"][0]]["dtype"]).itemsize
def scale_of(detail):
    return detail["quantization_parameters"]["scales"], detail["quantization_parameters"]["zero_points"]
by_name = {{detail["name"]: detail for detail in details}}
places = taken([detail["name"] for detail in given])
for i, arrays in enumerate(samples):
    if i in starts:
        kept = dict(resets)
        network.reset_all_variables()
    for detail in given:
        is_state = detail["name"] in after
        array = kept[detail["name"]] if is_state else arrays[places[detail["name"]]]
        scales, zeros = scale_of(detail)
        if not is_state and len(scales) and array.dtype.kind == "f" and detail["dtype"] != array.dtype:
            limits = np.iinfo(detail["dtype"])
            array = np.rint(array / scales[0] + zeros[0]).clip(limits.min, limits.max)
        network.set_tensor(detail["index"], array.astype(detail["dtype"]).reshape(detail["shape"]))
    network.invoke()
    kept = {{n: network.get_tensor(by_name[v]["index"]).copy() for n, v in after.items() if v in by_name}}
    for detail in details:
        try:
            value = network.get_tensor(detail["index"])
        except ValueError:
            continue
        scales, zeros = scale_of(detail)
        if len(scales) == 1 and value.dtype.kind in "iu":
            bits[detail["name"]] = 8 * value.dtype.itemsize
            value = ((value.astype(np.float64) - zeros[0]) * scales[0]).astype(np.float32)
        elif len(scales) > 1:
            continue
        tensors[f"{{i}} {{detail['name']}}"] = value
{_WRITE}"""


@dataclass(frozen=True)
class Runtime:
    """A runtime: its name, the module that Python imports, the package to install, and the program that runs a file."""

    name: str
    module: str
    package: str
    program: str


RUNTIMES: Mapping[str, Runtime] = {
    ".onnx": Runtime("onnxruntime", "onnxruntime", "onnxruntime", ONNXRUNTIME),
    ".tflite": Runtime("litert", "ai_edge_litert", "ai-edge-litert", LITERT),
}
"""Suffix of a file → the runtime that runs it."""


@dataclass(frozen=True)
class RuntimeTensors:
    """The tensors of a file on samples.

    samples  tensors by name, for each sample
    bits     tensor → the bits of the integers that store it; tensors of floats are left out
    makers   tensor → the operator of the file that makes it, where that is known
    """

    samples: Sequence[Mapping[str, Array]]
    bits: Mapping[str, int]
    makers: Mapping[str, str]


def tensors_in_runtime(
    path: Path, names: Sequence[str], samples: Sequence[Sequence[Array]], states: Sequence[State] = (),
    starts: Sequence[int] = (0,),
) -> RuntimeTensors:  # fmt: skip
    """Runs a file in its own runtime.

    Args:
        path: An .onnx or a .tflite file.
        names: The names of the inputs; inputs of the file with other names take the arrays in order.
        samples: The arrays of each sample, in the order of the names.
        states: Inputs of the file that live from call to call; others are variables of the file.
        starts: The numbers of the samples before which they are reset.

    Raises:
        UnsupportedError: The runtime is not installed.
        FileError: The runtime does not run the file on these samples.
    """
    runtime = RUNTIMES[path.suffix]
    if find_spec(runtime.module) is None:
        remedy = f"install it: pip install {runtime.package}; or let qmlir run the file: {path.name}@cpu"
        raise UnsupportedError.at("file", str(path), f"runs in {runtime.name}, which is not installed", remedy=remedy)
    with TemporaryDirectory(prefix="qmlir-") as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        arrays = {f"{i} {j}": array for i, sample in enumerate(samples) for j, array in enumerate(sample)}
        arrays |= {f"reset {i}": state.reset for i, state in enumerate(states)}
        after = json.dumps({state.argument.name: state.result.name for state in states})
        arrays |= {"after": np.array(after), "starts": np.array(list(starts)), "names": np.array(list(names))}
        np.savez(given, count=len(samples), **arrays)  # pyright: ignore[reportArgumentType]
        command = [sys.executable, "-W", "ignore", "-c", runtime.program, str(path.resolve()), str(given), str(found)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False, text=True)
        except subprocess.TimeoutExpired:
            raise FileError(path, f"must end in {runtime.name}", got=f"none within {LIMIT:g} s") from None
        if done.returncode or not found.exists():
            got = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no result").strip()
            raise FileError(path, f"must run in {runtime.name} on these samples", got=got)
        with np.load(found) as held:
            about = json.loads(str(held["about"]))
            by_sample: list[dict[str, Array]] = [{} for _ in samples]
            for key in held.files:
                if key != "about":
                    number, _, name = key.partition(" ")
                    by_sample[int(number)][name] = held[key]
    return RuntimeTensors(by_sample, about["bits"], about["makers"])
