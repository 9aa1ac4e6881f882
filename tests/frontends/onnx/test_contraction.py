"""Gemm and MatMul against onnxruntime, version by version."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper

from qmlir.backends.reference import evaluate
from tests.conftest import crossed
from tests.frontends.onnx.agreement import agree, floats, kinds, load, main_of, model, node, reason


@crossed(
    {
        "scales": [{}, {"alpha": 0.7, "beta": 1.3}, {"beta": 0.0}],
        "trans_b": [0, 1],
        "trans_a": [0, 1],
        "opset": [7, 9, 11, 13],
    },
    turns=2,
)
def test_gemm_with_constant_weights(opset: int, trans_a: int, trans_b: int, scales: dict[str, float]) -> None:
    proto = model(
        node("Gemm", "a b c", transA=trans_a, transB=trans_b, **scales),
        {"a": [5, 3] if trans_a else [3, 5]},
        {"b": floats(*((4, 5) if trans_b else (5, 4))), "c": floats(4, seed=1)},
        opset=opset,
    )
    assert kinds(agree(proto)) == ["nn.fully_connected"]


@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 4), (1, 1), (3, 1), (3, 4)])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_gemm_addends_of_every_shape(shape: tuple[int, ...], beta: float) -> None:
    constants = {"b": floats(5, 4), "c": floats(*shape, seed=1)}
    module = agree(model(node("Gemm", "a b c", beta=beta), {"a": [3, 5]}, constants))
    is_bias = shape in ((), (1,), (4,), (1, 4), (1, 1))
    assert kinds(module) == ["nn.fully_connected"] + [] * is_bias + ["nn.add"] * (not is_bias)
    agree(model(node("Gemm", "a b c", beta=beta), {"a": [3, 5], "c": shape}, {"b": constants["b"]}))


def test_gemm_without_addend_needs_version_11() -> None:
    agree(model(node("Gemm", "a b"), {"a": [3, 5]}, {"b": floats(5, 4)}, opset=11))


@pytest.mark.parametrize("attributes", [{}, {"alpha": 0.7}, {"transB": 1}, {"alpha": 0.7, "transA": 1, "transB": 1}])
@pytest.mark.parametrize("addend", [False, True])
def test_gemm_of_two_computed_factors(attributes: dict[str, Any], addend: bool) -> None:
    shapes = {"a": [5, 3] if "transA" in attributes else [3, 5], "b": [4, 5] if "transB" in attributes else [5, 4]}
    agree(model(node("Gemm", "a b c" if addend else "a b", **attributes), shapes, {"c": floats(4)}))


def test_gemm_of_constant_data_and_computed_weights() -> None:
    agree(model(node("Gemm", "a b", transA=1), {"b": [5, 4]}, {"a": floats(5, 3)}))


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
@pytest.mark.parametrize("attributes", [{}, {"alpha": 3.0, "beta": 2.0}])
def test_gemm_and_matmul_of_other_types(dtype: npt.DTypeLike, attributes: dict[str, float]) -> None:
    arrays = [(floats(*shape, seed=i) * 9).astype(dtype) for i, shape in enumerate([(3, 5), (5, 4), (4,)])]
    element = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    for constants in ({}, {"b": arrays[1], "c": arrays[2]}):
        inputs = {n: a for n, a in zip("abc", arrays, strict=True) if n not in constants}
        for nodes in ([node("Gemm", "a b c", **attributes)], [node("MatMul", "a b", "z"), node("Add", "z c", "y")]):
            proto = model(nodes, {n: a.shape for n, a in inputs.items()}, constants, element=element)
            (got,) = evaluate(main_of(load(proto)), list(inputs.values()))
            alpha, beta = (attributes.get(n, 1) if len(nodes) == 1 else 1 for n in ("alpha", "beta"))
            wanted = dtype(alpha) * (arrays[0] @ arrays[1]) + dtype(beta) * arrays[2]  # type: ignore[operator]
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-14)


def test_gemm_of_integers_by_a_fraction_is_refused() -> None:
    proto = model(node("Gemm", "a b", alpha=0.5), {"a": [3, 5], "b": [5, 4]}, element=TensorProto.INT32)
    assert "multiplies integers by 0.5" in reason(proto)


@pytest.mark.parametrize("opset", [7, 9, 13])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (2, 1, 3, 5), (5,)])
def test_matmul_with_constant_matrix(opset: int, shape: tuple[int, ...]) -> None:
    module = agree(model(node("MatMul", "a b"), {"a": shape}, {"b": floats(5, 4)}, opset=opset))
    assert [k for k in kinds(module) if k != "nn.reshape"] == ["nn.fully_connected"]


@pytest.mark.parametrize(("a", "b"), [
    ((3, 5), (5, 4)), ((2, 3, 5), (2, 5, 4)), ((2, 1, 3, 5), (7, 5, 4)), ((5,), (5,)), ((3, 5), (5,)),
    ((5,), (2, 5, 4)),
])  # fmt: skip
def test_matmul_of_two_computed_factors(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    agree(model(node("MatMul", "a b"), {"a": a, "b": b}))
    agree(model(node("MatMul", "a b"), {"b": b}, {"a": floats(*a)}))
    agree(model(node("MatMul", "a b"), {"a": a}, {"b": floats(*b)}))


@pytest.mark.parametrize("shape", [(2, 2), (3, 2, 2), (1, 1), (2, 3, 3)])
def test_det(shape: tuple[int, ...]) -> None:
    agree(model(node("Det", "x"), {"x": shape}))


def test_det_of_larger_matrices_is_refused() -> None:
    assert "4 rows" in reason(model(node("Det", "x"), {"x": [4, 4]}))
