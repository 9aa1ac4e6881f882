"""Chains of operations that are longer than Python's stack is deep: no code recurses over the depth of a graph.

The stack is made shallow here instead of the networks long, so that the tests end in seconds.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qmlir
from qmlir.backends.simulated import Simulated
from tests.cli.small import run
from tests.conftest import THOROUGH

LENGTH = 150
"""The operations of a chain."""

DEPTH = 120
"""The calls that may be under way at once: passes, and the printer and the parser, need about half of them."""


@contextmanager
def shallow_stack() -> Iterator[None]:
    """Lets calls nest no deeper than `DEPTH` below the caller."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


Make = Callable[[int, str, str], onnx.NodeProto]
"""Makes a node of a chain, from its place and the names of its input and output."""


def alternating(*makes: Make) -> Make:
    """Nodes of several kinds in turns."""
    return lambda place, x, y: makes[place % len(makes)](place, x, y)


def of(kind: str, others: str = "", **attributes: Any) -> Make:
    """Nodes of a kind with the same further inputs."""
    return lambda place, x, y: helper.make_node(kind, [x, *others.split()], [y], y, **attributes)


def window(place: int, x: str, y: str) -> onnx.NodeProto:
    """A maximum over windows."""
    return helper.make_node("MaxPool", [x], [y], y, kernel_shape=[2, 2], pads=[0, 0, 1, 1])


CHAINS: dict[str, Make] = {
    "functions": alternating(of("Sigmoid"), of("Tanh"), of("HardSwish")),
    "sums": of("Add", "x"),
    "differences with a number": alternating(of("Sub", "tenth"), of("Mul", "tenth")),
    "functions of other shapes": alternating(of("Sigmoid"), of("Reshape", "wide"), of("Tanh"), of("Reshape", "high")),
    "functions of transposed data": alternating(of("Sigmoid"), of("Transpose", perm=[0, 1, 3, 2])),
    "joined and cut": alternating(of("Concat", "x", axis=1), of("Slice", "one three one")),
    "padded and cut": alternating(of("Pad", "before"), of("Slice", "one three one")),
    "windows": window,
    "clipped": alternating(of("Sigmoid"), of("Clip", "zero tenth")),
    "sums with a mask": alternating(of("Add", "mask"), of("Transpose", perm=[0, 1, 3, 2])),
    "greatest": of("Max", "x"),
    "convolutions": of("Conv", "weights", pads=[1, 1, 1, 1]),
    "convolutions and rectifiers": alternating(of("Conv", "weights", pads=[1, 1, 1, 1]), of("Relu")),
    "leaky rectifiers": of("LeakyRelu", alpha=0.9),
    "products": alternating(of("Mul", "x"), of("Sigmoid")),
}
"""The kinds of chains, over data [1, 2, 4, 4]."""

CONSTANTS: Mapping[str, npt.NDArray[np.generic]] = {
    "tenth": np.array(0.1, np.float32),
    "zero": np.array(0.0, np.float32),
    "mask": np.where(np.eye(4) > 0, 0, -1e9).astype(np.float32),
    "wide": np.array([1, 1, 8, 4]),
    "high": np.array([1, 2, 4, 4]),
    "one": np.array([1]),
    "three": np.array([3]),
    "weights": np.eye(2)[:, :, None, None].astype(np.float32) * np.pad([[0.9]], 1).astype(np.float32),
    "before": np.array([0, 1, 0, 0, 0, 0, 0, 0]),
}


def chain(file: Path, kind: str, length: int) -> Path:
    """Writes a chain as a model; a maximum ends the sums with a mask."""
    names = ["x", *(f"t{i}" for i in range(1, length)), "z"]
    nodes = [CHAINS[kind](i, x, y) for i, (x, y) in enumerate(pairwise(names))]
    reduces = "mask" in kind
    nodes.append(
        helper.make_node("ReduceMax", ["z"], ["y"], axes=[3]) if reduces else helper.make_node("Sigmoid", ["z"], ["y"])
    )
    shape = [1, 2, 4, 4]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in used],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


SAMPLES = [np.random.default_rng(n).standard_normal((1, 2, 4, 4)).astype(np.float32) for n in range(2)]


def go_everywhere(model: Path, *, thorough: bool) -> None:
    """Takes a network to every level, file and check; compares machine code with the reference.

    Args:
        model: The network.
        thorough: Whether to compare tensors and write a report and a certificate too, which takes longer.
    """
    folder = model.parent
    module = qmlir.load(model)
    quantized = qmlir.quantize(module, data=SAMPLES)
    (saved, *_) = qmlir.save(quantized, folder / "int8.mlir")
    again = qmlir.load(saved)
    np.testing.assert_array_equal(qmlir.compile(again)(SAMPLES[1]), qmlir.reference(quantized)(SAMPLES[1]))
    assert str(qmlir.decisions(quantized))
    integers = qmlir.to_integers(quantized)
    for route in ("qint-to-tosa", "qint-to-linalg"):
        qmlir.Pipeline(route)(integers)
    for format in ("onnx-qdq", "onnx-integer", "tflite"):
        exported = folder / ("out.tflite" if format == "tflite" else "out.onnx")
        qmlir.export(quantized, exported, format=format)
        assert qmlir.load(exported)
    assert run("ledger", saved) == 0
    assert run("graph", saved, "-o", folder / "net.dot") == 0
    assert run("certify", saved, "-o", folder / "net.json") == 0
    assert run("certify", "--check", folder / "net.json") == 0
    if thorough:
        assert qmlir.analyze(module, quantized, SAMPLES)
        assert run("report", saved, "-o", folder / "net.html") == 0
        assert run("compile", saved, "-o", folder / "net.o", "--memory=small") == 0


SHARE = ("functions of other shapes", "joined and cut", "sums with a mask")


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHAINS if THOROUGH else SHARE)
def test_chains_longer_than_the_stack(kind: str, tmp_path: Path) -> None:
    go_everywhere(chain(tmp_path / "net.onnx", kind, 4), thorough=THOROUGH)  # imports what there is to import
    model = chain(tmp_path / "net.onnx", kind, LENGTH)
    with shallow_stack():
        go_everywhere(model, thorough=THOROUGH)


ON_DEVICES = ("functions", "sums", "convolutions", "convolutions and rectifiers", "leaky rectifiers", "products")


def on_a_device(model: Path) -> Simulated:
    """Quantizes and compiles a network for a device, and compares its simulator with the reference."""
    quantized = qmlir.quantize(qmlir.load(model), data=SAMPLES, target="ethos-u55-like")
    executable = qmlir.compile(quantized, target="ethos-u55-like")
    np.testing.assert_array_equal(executable(SAMPLES[1]), qmlir.reference(quantized)(SAMPLES[1]))
    return executable


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DEVICES if THOROUGH else ("products",))
def test_chains_on_a_device(kind: str, tmp_path: Path) -> None:
    """Chains have as many commands for each operation as short ones, and are compiled in as many calls."""
    short = on_a_device(chain(tmp_path / "net.onnx", kind, 20))
    model = chain(tmp_path / "net.onnx", kind, LENGTH)
    with shallow_stack():
        long = on_a_device(model)
    assert len(long.program.commands) < 1.2 * LENGTH / 20 * len(short.program.commands)


@pytest.mark.skipif(not THOROUGH, reason="a thousand operations take a minute")
@pytest.mark.parametrize("kind", ON_DEVICES)
def test_a_thousand_operations_on_a_device(kind: str, tmp_path: Path) -> None:
    assert len(on_a_device(chain(tmp_path / "net.onnx", kind, 1000)).program.commands) > 1000
