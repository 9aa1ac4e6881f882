"""Weights that a model rounds and scales back keep their integers; a Clip of stored integers narrows their type."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.interfaces import element_of

RNG = np.random.default_rng(5)
WEIGHTS = RNG.normal(0, 1, (4, 6)).astype(np.float32)
SCALES = (np.abs(WEIGHTS).max(axis=1, keepdims=True) / 100).astype(np.float32)

Step = tuple[str, Any]
"""An operator, and its further constant inputs."""


def weights_of(steps: Sequence[Step]) -> Any:
    """The result of MatMul(x, W)'s second operand, where steps make W of WEIGHTS: the operation that defines it."""
    nodes, initializers, value = [], [numpy_helper.from_array(WEIGHTS, "w")], "w"
    for number, (operator, inputs) in enumerate(steps):
        names = [f"c{number}_{i}" for i in range(len(inputs))]
        initializers += [numpy_helper.from_array(np.asarray(v), n) for n, v in zip(names, inputs, strict=True)]
        nodes.append(helper.make_node(operator, [value, *names], [value := f"v{number}"]))
    nodes.append(helper.make_node("Add", ["x", value], ["y"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 6]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], initializers)
    module = load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    (add,) = [op for op in module.walk() if op.name == "nn.add"]
    return add.operands[1].owner


def f(value: float) -> Any:
    return np.float32(value)


SPELLINGS: dict[str, tuple[list[Step], tuple[int, int, int, int]]] = {
    "clip": ([("Div", [SCALES]), ("Round", []), ("Clip", [f(-127), f(127)]), ("Mul", [SCALES])], (8, -127, 127, 0)),
    "clip first": ([("Div", [SCALES]), ("Clip", [f(-100), f(99)]), ("Round", []), ("Mul", [SCALES])], (8, -100, 99, 0)),
    "max and min": (
        [("Div", [SCALES]), ("Round", []), ("Max", [f(-128)]), ("Min", [f(127)]), ("Mul", [SCALES])],
        (8, -128, 127, 0),
    ),
    "unsigned": (
        [
            ("Mul", [1 / SCALES]), ("Round", []), ("Add", [f(128)]), ("Clip", [f(0), f(255)]), ("Sub", [f(128)]),
            ("Mul", [SCALES]),
        ],
        (8, 0, 255, 128),
    ),
    "four bits": (
        [("Div", [SCALES * f(16)]), ("Round", []), ("Clip", [f(-8), f(7)]), ("Mul", [SCALES * f(16)])],
        (4, -8, 7, 0),
    ),
    "no bounds": ([("Div", [SCALES]), ("Round", []), ("Mul", [SCALES])], (8, -128, 127, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_rounded_weights(name: str) -> None:
    steps, (bits, low, high, zero_point) = SPELLINGS[name]
    cast = weights_of(steps)
    assert isinstance(cast, DequantizeCastOp)
    type, stored = element_of(cast.input), cast.input.owner
    assert isinstance(type, UniformType)
    assert isinstance(stored, ConstantOp)
    assert (type.storage_width, type.storage_min, type.storage_max) == (bits, low, high)
    assert set(type.zero_points) == {zero_point}
    factor = f(16) if bits == 4 else f(1)
    assert type.scales == tuple((SCALES * factor).ravel().astype(float))
    value = WEIGHTS
    for operator, inputs in steps:
        value = STEPS[operator](value, *inputs)
    np.testing.assert_array_equal(cast.evaluate(stored.value.array)[0], value)


STEPS: dict[str, Any] = {
    "Div": np.divide, "Mul": np.multiply, "Round": np.rint, "Add": np.add, "Sub": np.subtract, "Clip": np.clip,
    "Max": np.maximum, "Min": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize(
    "steps",
    [
        [("Div", [SCALES]), ("Round", []), ("Clip", [f(-127.5), f(127)]), ("Add", [f(0.5)]), ("Mul", [SCALES])],
        [("Div", [SCALES]), ("Clip", [f(-127), f(127)]), ("Mul", [SCALES])],
        [("Div", [SCALES]), ("Round", []), ("Clip", [f(-127), f(127)]), ("Mul", [-SCALES])],
        [("Div", [SCALES]), ("Round", []), ("Clip", [f(-127), f(127)]), ("Mul", [np.ones((4, 6), np.float32)])],
    ],
    ids=["fractions", "not rounded", "negative scale", "scales along two axes"],
)
def test_other_weights_stay_floats(steps: Sequence[Step]) -> None:
    assert isinstance(weights_of(steps), ConstantOp)


def test_clip_between_quantize_and_dequantize() -> None:
    arrays = {"s": f(0.25), "z": np.uint8(3), "high": np.uint8(127)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Clip", ["q", "", "high"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5]) for name in ("x", "y")]
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], initializers)
    module = load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    (back,) = [op for op in module.walk() if isinstance(op, DequantizeCastOp)]
    type, cast = element_of(back.input), back.input.owner
    assert isinstance(type, UniformType)
    assert isinstance(cast, QuantizeCastOp)
    assert (type.storage_min, type.storage_max, type.scale, type.zero_point) == (0, 127, 0.25, 3)
    x = np.array([-9, 0, 1, 31, 99], np.float32)
    np.testing.assert_array_equal(cast.evaluate(x)[0], [0, 3, 7, 127, 127])
