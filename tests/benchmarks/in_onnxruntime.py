"""Times of quantized exports in onnxruntime, beside float: `python -m tests.benchmarks.in_onnxruntime`.

Each network is quantized on random inputs and exported as `onnx-qdq` in several ways. All sessions and that of the
float network live in one process and are called in turn, A B C A B C; a ratio is the median over the rounds, so it
compares what the machine did at the same time. With one thread, the time is that of the thread on its processor, which
other work on the machine does not add to. The networks have random weights: only times mean something here.

    for onnxruntime   quantize(runtime="onnxruntime"): unsigned activations, weights of 7 bits; goal: at most 0.6
    default           quantize() and export(): signed bytes become unsigned at export
    kept signed       quantize() and export(activations="kept")

ResNet-50 and MobileNetV2 are those of `$QMLIR_PEERS`; the SqueezeNet is made here.
"""

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import qmlir
from qmlir.cli.terminal import say, table_of, terminal
from tests.benchmarks.peers import PEERS

GOAL = 0.6
"""The ratio that networks for onnxruntime have to reach."""

RECIPES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "for onnxruntime": ({"runtime": "onnxruntime"}, {}),
    "default": ({}, {}),
    "kept signed": ({}, {"activations": "kept"}),
}
"""Name → the options of `quantize` and of `export`."""


def squeezenet(path: Path, size: int = 224, classes: int = 1000, seed: int = 0) -> Path:
    """Writes SqueezeNet 1.1 with random weights of He's variance; its batch is symbolic."""
    rng = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def convolution(x: str, name: str, before: int, after: int, kernel: int, **attributes: Any) -> str:
        deviation = np.sqrt(2 / (before * kernel * kernel))
        w = (rng.standard_normal((after, before, kernel, kernel)) * deviation).astype(np.float32)
        b = (rng.standard_normal(after) / 16).astype(np.float32)
        weights.extend((numpy_helper.from_array(w, f"{name}.w"), numpy_helper.from_array(b, f"{name}.b")))
        nodes.append(helper.make_node("Conv", [x, f"{name}.w", f"{name}.b"], [name], name, **attributes))
        nodes.append(helper.make_node("Relu", [name], [f"{name}.relu"], f"{name}.relu"))
        return f"{name}.relu"

    def pool(x: str) -> str:
        y = f"{x}.pool"
        nodes.append(helper.make_node("MaxPool", [x], [y], y, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1))
        return y

    def fire(x: str, name: str, before: int, squeezed: int, expanded: int) -> str:
        s = convolution(x, f"{name}.squeeze", before, squeezed, 1)
        sides = [convolution(s, f"{name}.expand1", squeezed, expanded, 1),
                 convolution(s, f"{name}.expand3", squeezed, expanded, 3, pads=[1, 1, 1, 1])]  # fmt: skip
        nodes.append(helper.make_node("Concat", sides, [name], name, axis=1))
        return name

    x = pool(convolution("image", "conv1", 3, 64, 3, strides=[2, 2]))
    channels = 64
    for number, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64), start=2):
        x = fire(x, f"fire{number}", channels, squeezed, 4 * squeezed)
        channels = 8 * squeezed
        x = pool(x) if number in (3, 5) else x
    x = convolution(x, "conv10", channels, classes, 1)
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["mean"], "mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["scores"], "flatten"))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, size, size])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", classes])
    graph = helper.make_graph(nodes, "squeezenet", [image], [scores], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def exports_of(model: Path, folder: Path, recipes: Mapping[str, Any] = RECIPES) -> dict[str, Path]:
    """Quantizes a network by each recipe, on two random inputs, and exports it.

    Returns:
        The exported files by recipe.
    """
    module = qmlir.Pipeline("simplify")(qmlir.load(model))
    signature = qmlir.compile(module, cache=False).signature
    rng = np.random.default_rng(0)
    samples = [
        {spec.name: rng.standard_normal(spec.shape).astype(spec.dtype) for spec in signature.inputs} for _ in range(2)
    ]
    profile = qmlir.profile(module, samples)
    files: dict[str, Path] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (quantizing, exporting) in recipes.items():
            quantized = qmlir.quantize(module, profile, **quantizing)
            files[name] = folder / f"{name.replace(' ', '-')}.onnx"
            qmlir.export(quantized, files[name], **exporting)
    return files


def ratios(model: Path, exports: Mapping[str, Path], rounds: int, threads: int = 1) -> dict[str, float]:
    """Returns the median ratio of each export's time to the float network's, over rounds in which all take turns."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    calls = {name: _call(path, threads) for name, path in {"float": model, **exports}.items()}
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            spent[name].append(clock() - start)
    return {
        name: statistics.median(a / b for a, b in zip(spent[name], spent["float"], strict=True)) for name in exports
    }


def _call(path: Path, threads: int) -> Callable[[], object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    inputs = {
        i.name: rng.standard_normal([n if isinstance(n, int) else 1 for n in i.shape]).astype(np.float32)
        for i in session.get_inputs()
    }
    return lambda: session.run(None, inputs)


def main() -> None:
    """Measures the networks and prints the ratios."""
    parser = argparse.ArgumentParser(description="Times of quantized exports in onnxruntime, in parts of float's.")
    parser.add_argument("--rounds", type=int, default=20, help="how often each session is called (default: 20)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each session (default: 1)")
    parser.add_argument("--models", nargs="*", type=Path, help="other .onnx files of float networks")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = arguments.models or [
            squeezenet(folder / "squeezenet.onnx"), PEERS / "mobilenetv2.onnx", PEERS / "resnet50.onnx"
        ]  # fmt: skip
        rows: list[tuple[str, ...]] = []
        for model in models:
            if not model.exists():
                say(f"left out: there is no {model}")
                continue
            found = ratios(model, exports_of(model, folder), arguments.rounds, arguments.threads)
            rows.append((model.stem, *(f"{found[recipe]:.2f}" for recipe in RECIPES)))
        terminal().print(table_of(("quantized ÷ float time", *RECIPES), rows, numbers=tuple(RECIPES)))
        say(f"goal for onnxruntime: at most {GOAL}")


if __name__ == "__main__":
    main()
