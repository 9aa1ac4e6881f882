"""Arithmetic on several operands against onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto

from qmlir.backends.reference import evaluate
from qmlir.compiler import to_integers
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.names import names_of
from tests.conftest import crossed
from tests.frontends.onnx.agreement import (
    agree,
    floats,
    kinds,
    load,
    main_of,
    model,
    node,
    onnxruntime_run,
    ops_of,
    reason,
)


@crossed({"shape": [(2, 3, 4), (4,), (3, 1), ()], "operator": ["Add", "Sub", "Mul"], "opset": [7, 13, 14]}, turns=2)
def test_broadcast_like_numpy(opset: int, operator: str, shape: tuple[int, ...]) -> None:
    agree(model(node(operator, "a b"), {"a": [2, 3, 4], "b": shape}, opset=opset))
    agree(model(node(operator, "a b"), {"a": [2, 3, 4]}, {"b": floats(*shape)}, opset=opset))
    agree(model(node(operator, "b a"), {"a": [2, 3, 4]}, {"b": floats(*shape)}, opset=opset))


def test_sub_of_a_constant_is_one_sum() -> None:
    assert kinds(agree(model(node("Sub", "a b"), {"a": [4]}, {"b": floats(4)}))) == ["nn.add"]


def test_div_by_powers_of_two_is_a_product() -> None:
    b = np.array([2, -0.25, 1, 1024], np.float32)
    assert kinds(agree(model(node("Div", "a b"), {"a": [3, 4]}, {"b": b}))) == ["nn.mul"]


def test_div_by_anything_else_is_a_division() -> None:
    for divisor in (3.0, 0.1, 2.0**-130):
        b = np.array(divisor, np.float32)
        assert kinds(agree(model(node("Div", "a b"), {"a": [4]}, {"b": b}))) == ["nn.div"]
    assert kinds(agree(model(node("Div", "a b"), {"a": [4], "b": [4]}))) == ["nn.div"]


def test_powers_that_have_a_name() -> None:
    for exponent, kind in ((2, "nn.mul"), (-1, "nn.reciprocal"), (3, "nn.pow")):
        proto = model(node("Pow", "a b"), {"a": [4]}, {"b": np.array(exponent, np.float32)})
        assert kinds(agree(proto)) == [kind]
    root = model([node("Abs", "a", "c"), node("Pow", "c b")], {"a": [4]}, {"b": np.array(0.5, np.float32)})
    assert kinds(agree(root)) == ["nn.abs", "nn.sqrt"]
    of_whole = model(node("Pow", "a b"), {"a": [4]}, {"b": np.array([2, 3, 4, 0], np.int64)})
    assert kinds(agree(of_whole)) == ["nn.cast", "nn.cast", "nn.pow", "nn.cast"]


def test_a_quantized_exponent_is_looked_up_with_its_base() -> None:
    """1² / 2 is halfway between two codes: a table rounds it to the even one, as onnxruntime does, a product up."""
    nodes = [
        node("QuantizeLinear", "x sx zero", "q"),
        node("DequantizeLinear", "q sx zero", "base"),
        node("DequantizeLinear", "b sb", "exponent"),
        node("Pow", "base exponent", "power"),
        node("QuantizeLinear", "power sy zero", "r"),
        node("DequantizeLinear", "r sy zero"),
    ]
    scales = {name: np.array(value, np.float32) for name, value in (("sx", 0.125), ("sb", 1 / 32), ("sy", 2))}
    proto = model(nodes, {"x": [256]}, scales | {"b": np.array([64], np.int8), "zero": np.array(0, np.int8)})
    integers = to_integers(load(proto))
    assert "qint.pair_lookup" in kinds(integers)
    x = np.arange(-128, 128, dtype=np.float32) / 8
    np.testing.assert_array_equal(evaluate(main_of(integers), [x])[0], onnxruntime_run(proto, {"x": x})[0])


@pytest.mark.parametrize("operator", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_number_of_inputs(operator: str, count: int) -> None:
    names = "abcd"[:count]
    shapes: list[list[int]] = [[3, 4], [4], [3, 1], []]
    agree(model(node(operator, " ".join(names)), {n: shapes[i] for i, n in enumerate(names)}))


def test_names_of_the_steps_of_a_sum() -> None:
    module = agree(model(node("Sum", "a b c", name="sum"), {n: [3] for n in "abc"}))
    assert [s for o in ops_of(module) for s in names_of(o).tensors] == ["y.of2", "y"]


def test_prelu() -> None:
    slopes = {"s": floats(3, 1, 1)}
    assert kinds(agree(model(node("PRelu", "x s"), {"x": [1, 3, 4, 4]}, slopes))) == ["nn.prelu"]
    one = {"s": np.array([0.25], np.float32)}
    assert kinds(agree(model(node("PRelu", "x s"), {"x": [1, 3, 4, 4]}, one))) == ["nn.leaky_relu"]


def test_halves_are_computed_in_f32() -> None:
    module = load_onnx(model(node("Add", "a b"), {"a": [4], "b": [4]}, element=TensorProto.FLOAT16))
    module.verify()
    assert kinds(module) == ["nn.cast", "nn.cast", "nn.add", "nn.cast"]
    a, b = (floats(4, seed=i).astype(np.float16) for i in range(2))
    (y,) = evaluate(main_of(module), [a, b])
    np.testing.assert_array_equal(y, a + b, strict=True)


def test_types_that_go_together() -> None:
    mixed = model(node("Add", "a b"), {"a": [4]}, {"b": np.ones(4)})
    assert "f32, f64" in reason(mixed)
    of_doubles = model(node("Sin", "a"), {"a": [4]}, element=TensorProto.DOUBLE)
    assert "got f64" in reason(of_doubles)
