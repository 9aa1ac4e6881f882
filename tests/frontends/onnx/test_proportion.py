"""Work and memory of an import are in proportion to the model: counted in calls and bytes, not in seconds."""

import sys
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from qmlir.compiler import IMPORTED, Pipeline
from qmlir.dialects.interfaces import Array
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import model, node


def chain(count: int, operators: tuple[str, ...]) -> onnx.ModelProto:
    nodes = [node(operators[i % len(operators)], f"t{i}", f"t{i + 1}", name=f"node_{i}") for i in range(count)]
    return model(nodes, {"t0": [2, 2]}, outputs=[f"t{count}"])


def sums(count: int) -> onnx.ModelProto:
    constants: dict[str, Array] = {f"c{i}": np.array([i, 1], np.float32) for i in range(count)}
    nodes = [node("Add", f"t{i} c{i}", f"t{i + 1}") for i in range(count)]
    return model(nodes, {"t0": [2]}, constants, outputs=[f"t{count}"])


def fan(count: int) -> onnx.ModelProto:
    nodes = [node("Identity", "x", f"t{i}") for i in range(count)]
    return model([*nodes, node("Concat", " ".join(f"t{i}" for i in range(count)), axis=0)], {"x": [2]})


GRAPHS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "identities": lambda n: chain(n, ("Identity",)),
    "functions": lambda n: chain(n, ("Sin", "Sigmoid")),
    "transposes": lambda n: chain(n, ("Transpose", "Relu", "Transpose", "Sin")),
    "sums that fall together": sums,
    "names of one value": fan,
}


def calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls."""
    count = 0

    def event(frame: object, kind: str, argument: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("graph", GRAPHS)
def test_work_grows_with_the_nodes(graph: str) -> None:
    def work(count: int) -> int:
        proto = GRAPHS[graph](count)
        return calls(lambda: Pipeline(*IMPORTED)(load_onnx(proto)))

    work(4)  # imports modules
    few, many = work(75), work(300)
    assert many < 4.4 * few
