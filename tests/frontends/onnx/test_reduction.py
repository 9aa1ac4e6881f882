"""Reductions against onnxruntime."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from qmlir.backends.reference import evaluate
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.rewriting import tensor_name
from tests.conftest import crossed
from tests.frontends.onnx.agreement import agree, kinds, main_of, model, node, reason

OPERATORS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
)
AXES: list[list[int]] = [[0], [-1], [1, 2], [0, 2], [0, 1, 2, 3]]


@crossed({"operator": OPERATORS, "keepdims": [0, 1], "axes": AXES}, turns=3)
def test_over_axes(operator: str, keepdims: int, axes: list[int]) -> None:
    shape = {"x": [2, 3, 4, 5]}
    agree(model(node(operator, "x a", keepdims=keepdims), shape, {"a": np.array(axes)}, opset=18))
    if operator != "ReduceSum":
        agree(model(node(operator, "x", keepdims=keepdims, axes=axes), shape, opset=13))


@pytest.mark.parametrize("operator", OPERATORS)
def test_over_all_axes_and_over_none(operator: str) -> None:
    agree(model(node(operator, "x"), {"x": [2, 3]}, opset=18))
    agree(model(node(operator, "x", noop_with_empty_axes=0), {"x": [2, 3]}, {"a": np.zeros(0, np.int64)}, opset=18))
    if operator in ("ReduceSum", "ReduceMax", "ReduceMean"):
        agree(model(node(operator, "x", noop_with_empty_axes=1), {"x": [2, 3]}, opset=18))


def test_log_of_a_sum() -> None:
    nodes = [node("Abs", "x", "m"), node("ReduceLogSum", "m a")]
    agree(model(nodes, {"x": [2, 3, 4]}, {"a": np.array([1])}, opset=18))


HALVES = [
    *((operator, {}, [1, 3]) for operator in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")),
    *(("GlobalLpPool", {"p": p}, None) for p in (1, 2, 3)),
    *(("LpPool", {"p": p, "kernel_shape": [3, 3]}, None) for p in (1, 2, 3)),
    ("LpNormalization", {"p": 2}, None),
]  # fmt: skip
"""Operators that sum magnitudes, squares or cubes, their attributes, and axes that are an input."""


@pytest.mark.parametrize(("operator", "attributes", "axes"), HALVES)
def test_halves_are_rounded_once(operator: str, attributes: dict[str, Any], axes: list[int] | None) -> None:
    """Squares of f16 are beyond f16: all is computed in f32, where these sums are exact, as in onnxruntime."""
    most = 40 if attributes.get("p") == 3 else 300
    x = np.random.default_rng(0).integers(1, most, (2, 3, 8, 8)).astype(np.float16)
    inputs, constants = ("x", {}) if axes is None else ("x a", {"a": np.array(axes)})
    whole = [node("Mul", "x tenth", "s"), node(operator, inputs.replace("x", "s"), **attributes)]
    scaled = operator == "ReduceSumSquare"  # whose results are beyond f16, too
    nodes = whole if scaled else node(operator, inputs, **attributes)
    constants |= {"tenth": np.array(1 / 16, np.float16)} if scaled else {}
    proto = model(nodes, {"x": [*x.shape]}, constants, opset=18, element=TensorProto.FLOAT16)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    module = load_onnx(proto)
    (found,) = evaluate(main_of(module), [x])
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, expected, strict=True)
    names = [tensor_name(op.results[0]) for op in main_of(module).body.block.ops if op.results]
    assert names.count("y") == 1  # the result of 16 bits, and not that of 32 before it


def test_a_mean_is_a_pool() -> None:
    """So that it has an integer form, whatever the axes."""
    for axes in AXES:
        proto = model(node("ReduceMean", "x a"), {"x": [2, 3, 4, 5]}, {"a": np.array(axes)}, opset=18)
        assert "nn.global_average_pool" in kinds(agree(proto))


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_places(operator: str, axis: int) -> None:
    for attributes in ({}, {"keepdims": 0}, {"select_last_index": 1}):
        nodes = [node(operator, "x", "p", axis=axis, **attributes), node("Cast", "p", "y", to=TensorProto.FLOAT)]
        agree(model(nodes, {"x": [3, 4, 5]}))


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums(exclusive: int, reverse: int) -> None:
    for axis in (0, -1):
        sums = node("CumSum", "x a", exclusive=exclusive, reverse=reverse)
        agree(model(sums, {"x": [3, 4]}, {"a": np.array(axis)}))


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_hardmax(opset: int, axis: int) -> None:
    agree(model(node("Hardmax", "x", axis=axis), {"x": [3, 4, 5]}, opset=opset))


def test_of_integers() -> None:
    proto = model(node("ReduceMean", "x", axes=[0]), {"x": [4]}, opset=13, element=TensorProto.INT32)
    module = load_onnx(proto)
    module.verify()
    assert evaluate(main_of(module), [np.array([1, 2, 3, 9], np.int32)])[0].tolist() == [3]


def test_computed_axes_are_refused() -> None:
    nodes = [node("Cast", "a", "i", to=TensorProto.INT64), node("ReduceSum", "x i")]
    assert "computed at run time" in reason(model(nodes, {"x": [3], "a": [1]}))
