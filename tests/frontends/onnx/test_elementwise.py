"""Add, Sub, Mul and Div against onnxruntime."""

import numpy as np
import pytest

from tests.frontends.onnx.agreement import agree, floats, kinds, model, node, reason


@pytest.mark.parametrize("opset", [7, 13, 14])
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (4,), (3, 1), ()])
def test_broadcast_like_numpy(opset: int, operator: str, shape: tuple[int, ...]) -> None:
    agree(model(node(operator, "a b"), {"a": [2, 3, 4], "b": shape}, opset=opset))
    agree(model(node(operator, "a b"), {"a": [2, 3, 4]}, {"b": floats(*shape)}, opset=opset))
    agree(model(node(operator, "b a"), {"a": [2, 3, 4]}, {"b": floats(*shape)}, opset=opset))


def test_sub_of_a_constant_is_one_sum() -> None:
    assert kinds(agree(model(node("Sub", "a b"), {"a": [4]}, {"b": floats(4)}))) == ["nn.add"]


def test_div_by_powers_of_two_is_a_product() -> None:
    b = np.array([2, -0.25, 1, 1024], np.float32)
    assert kinds(agree(model(node("Div", "a b"), {"a": [3, 4]}, {"b": b}))) == ["nn.mul"]


def test_div_refuses_what_is_not_exact() -> None:
    for divisor in (3.0, 0.0, np.inf, 2.0**-130):
        proto = model(node("Div", "a b"), {"a": [4]}, {"b": np.array(divisor, np.float32)})
        assert "powers of two" in reason(proto)
    assert "computed at run time" in reason(model(node("Div", "a b"), {"a": [4], "b": [4]}))


def test_other_types_than_float32_are_refused() -> None:
    from onnx import TensorProto

    for element, name in ((TensorProto.INT32, "i32"), (TensorProto.DOUBLE, "f64"), (TensorProto.FLOAT16, "f16")):
        assert f"computes on {name}" in reason(model(node("Add", "a b"), {"a": [4], "b": [4]}, element=element))
    assert "f64" in reason(model(node("Add", "a b"), {"a": [4]}, {"b": np.ones(4)}))
