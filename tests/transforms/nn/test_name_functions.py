"""Functions, normalizations and softmaxes are named however a model spells them: random spellings, and real exports."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.ir.signature import main_function
from qmlir.transforms.nn.simplify import simplify
from tests.conftest import THOROUGH
from tests.transforms.nn.spellings import KINDS, Spelling, spelling

MOVEMENT = {"nn.constant", "nn.reshape", "nn.transpose", "nn.clamp"}

BESIDE = {
    "attention": "mul add where div",
    "log_sum_exp": "reduce_max reduce_min maximum is_inf where neg sub add mul pow",
}
"""What stays beside a name: the factor of the scores and their mask; a greatest element that the model has itself."""

SHARE = 20 if THOROUGH else 3
"""How many spellings there are of each kind."""


def named(model: onnx.ModelProto, path: Path) -> ModuleOp:
    """A model as it is after `simplify`."""
    onnx.save(model, path)
    module = qmlir.load(path)
    simplify(module)
    return module


def counted(module: ModuleOp) -> Counter[str]:
    """How often each operation of a network occurs."""
    return Counter(op.name for op in main_function(module).body.block.ops if op.name != "func.return")


def misses(given: Spelling, path: Path) -> str:
    """What is wrong with the network that a spelling becomes; empty if it has its names and no other operation."""
    module = named(given.model, path)
    (expected,) = ort.InferenceSession(path).run(None, dict(given.inputs))
    np.testing.assert_allclose(np.asarray(expected), given.wanted, rtol=1e-3, atol=2e-5)
    kinds = counted(module)
    left = set(kinds) - MOVEMENT - set(given.names) - {f"nn.{k}" for k in BESIDE.get(given.kind, "").split()}
    if left or not set(given.names) <= set(kinds):
        return f"{given.kind}: {dict(kinds)} of {[node.op_type for node in given.model.graph.node]}"
    (y,) = evaluate(main_function(module), [given.inputs[i.name] for i in given.model.graph.input])
    np.testing.assert_allclose(y, given.wanted, rtol=1e-3, atol=2e-5)
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_spellings_are_named(kind: str, tmp_path: Path) -> None:
    seeds = [i * len(KINDS) + KINDS.index(kind) for i in range(SHARE)]
    assert not [found for seed in seeds if (found := misses(spelling(seed), tmp_path / "net.onnx"))]


def kept(operators: Sequence[tuple[str, float | None]], x: np.ndarray[Any, Any], path: Path) -> None:
    """Holds a chain of operators, each with a second operand if one is given, to onnxruntime on an input."""
    tensors = ["x", *(f"t{i}" for i in range(1, len(operators))), "y"]
    nodes, constants = list[onnx.NodeProto](), list[onnx.TensorProto]()
    for i, (operator, number) in enumerate(operators):
        operands = [tensors[i]]
        if number is not None:
            constants.append(onnx.numpy_helper.from_array(np.array(number, np.float32), f"c{i}"))
            # The second operand of Clip is the least number.
            operands += ["", f"c{i}"] if operator == "Clip" and number > 1e-3 else [f"c{i}"]
        nodes.append(helper.make_node(operator, operands, [tensors[i + 1]]))
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name in "xy"]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (y,) = evaluate(main_function(named(model, path)), [x])
    (expected,) = ort.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_allclose(y, np.asarray(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [3, 6, 64, 5000])
@pytest.mark.parametrize("most", [0.02, 0.5, 0.95, 0.999])
def test_what_cuts_shares_off_is_no_part_of_a_softmax(count: int, most: float, tmp_path: Path) -> None:
    """However many elements share: of 64, each of the 5 that are tried first would have 5/64 at most."""
    x = np.random.default_rng(0).normal(size=(2, count)).astype(np.float32)
    x[0, 1] = 30
    kept([("Softmax", None), ("Clip", most)], x, tmp_path / "net.onnx")


@pytest.mark.parametrize("least", [1e-4, 1e-6, 1e-12, 1e-20])
@pytest.mark.parametrize("operator", ["Clip", "Max", "Add"])
@pytest.mark.parametrize("first", ["Softmax", "Relu", "Abs", "Sigmoid"])
def test_what_keeps_a_logarithm_finite_stays(first: str, operator: str, least: float, tmp_path: Path) -> None:
    x = np.array([[-2e4, -90, -1, 0, 1e-7, 1, 30, 2e4]], np.float32)
    kept([(first, None), (operator, least), ("Log", None)], x, tmp_path / "net.onnx")


@pytest.mark.parametrize("most", [50, 1500, 65504, 2e6])
@pytest.mark.parametrize("operator", ["Clip", "Min"])
@pytest.mark.parametrize("first", ["Relu", "LeakyRelu", "Abs", "Softplus", "HardSwish"])
def test_what_bounds_a_function_stays(first: str, operator: str, most: float, tmp_path: Path) -> None:
    x = np.array([[-4e6, -2e4, -1, 0, 1, 30, 2e4, 1e5, 3e6]], np.float32)
    kept([(first, None), (operator, most)], x, tmp_path / "net.onnx")
