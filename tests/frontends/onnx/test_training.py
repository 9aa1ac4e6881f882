"""Steps of optimizers against ONNX's evaluator; onnxruntime has them in a package of its own."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import qmlir
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from tests.conftest import crossed
from tests.frontends.onnx.agreement import FLOAT, INT64, load, reason

DOMAIN = "ai.onnx.preview.training"

CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "Adagrad": ("Adagrad", 1, {"decay_factor": 0.1, "epsilon": 1e-5, "norm_coefficient": 0.01}),
    "Adam": ("Adam", 2, {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-6, "norm_coefficient": 0.01}),
    "Adam, shrinking": ("Adam", 2, {"norm_coefficient_post": 0.25, "epsilon": 1e-6}),
    "Momentum": ("Momentum", 1, {"alpha": 0.9, "beta": 0.5, "mode": "standard", "norm_coefficient": 0.1}),
    "Nesterov": ("Momentum", 1, {"alpha": 0.9, "beta": 0.5, "mode": "nesterov", "norm_coefficient": 0.1}),
}


def step(operator: str, states: int, attributes: dict[str, Any], tensors: int = 2) -> onnx.ModelProto:
    """One step for tensors of [3, 2] and [4], or of as many of them."""
    shapes = [[3, 2], [4]][:tensors]
    values = [(f"{kind}{i}", s) for kind in "xgsq"[: states + 2] for i, s in enumerate(shapes)]
    outputs = [f"{kind}{i}_new" for kind in "xsq"[: states + 1] for i in range(len(shapes))]
    graph = helper.make_graph(
        [helper.make_node(operator, ["r", "t", *(n for n, _ in values)], outputs, domain=DOMAIN, **attributes)], "g",
        [helper.make_tensor_value_info("r", FLOAT, []), helper.make_tensor_value_info("t", INT64, []),
         *(helper.make_tensor_value_info(n, FLOAT, s) for n, s in values)],
        [helper.make_tensor_value_info(o, FLOAT, None) for o in outputs],
    )  # fmt: skip
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)], ir_version=9
    )


@crossed({"steps": [0, 7], "case": CASES})
def test_step(case: str, steps: int) -> None:
    proto, rng = step(*CASES[case]), np.random.default_rng(steps)
    given: dict[str, Any] = {
        i.name: np.abs(rng.normal(size=[d.dim_value for d in i.type.tensor_type.shape.dim])).astype(np.float32)
        for i in proto.graph.input
    } | {"t": np.array(steps, np.int64), "r": np.array(0.1, np.float32)}
    wanted: Any = ReferenceEvaluator(proto).run(None, given)
    module = load(proto)
    reference, executable = qmlir.reference(module)(given), qmlir.compile(module)(given)
    for output, expected in zip(proto.graph.output, wanted, strict=True):
        np.testing.assert_allclose(reference[output.name], expected, rtol=2e-6, atol=1e-7)
        np.testing.assert_array_equal(executable[output.name], reference[output.name])


def test_what_is_refused() -> None:
    assert 'its mode is "other"' in reason(step("Momentum", 1, CASES["Momentum"][2] | {"mode": "other"}, 1))
    with pytest.raises(NodeError, match="it must have 4 inputs for each tensor, got 3"):
        load_onnx(step("Adam", 1, {}, 1))
