"""Numbers by which Gemm and FusedMatMul multiply products: the weights keep the integers that the file stores."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qmlir
from qmlir.dialects import nn
from qmlir.frontends.function import Blocked, Dequantized
from tests.frontends.onnx.quantized_models import (
    Array,
    dequantize,
    imported,
    model,
    node,
    onnxruntimes,
    parameters,
    quantize,
    results,
)

STEP = 0.1


def network(
    factors: dict[str, Any], axis: int | None, *, bias: str = "floats", dtype: type = np.int8, kind: str = "Gemm"
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A quantized product of data [4,8] and weights [8,5] with scales along an axis, or a single scale."""
    rng = np.random.default_rng(3)
    count = 1 if axis is None else (8, 5)[axis]
    scales = rng.uniform(0.005, 0.02, count)
    low = -127 if dtype is np.int8 else 0
    constants = {
        **parameters("p", 0.02, 3, np.int8),
        **parameters("r", STEP, -5, np.int8),
        **parameters("w", scales if axis is not None else scales[0], np.zeros(count) if axis is not None else 0, dtype),
        "w": rng.integers(low, 128, (8, 5)).astype(dtype),
    }
    names = "a wd"
    nodes = [quantize("x", "p", "xq"), dequantize("xq", "p", "a"), dequantize("w", "w", "wd", axis=axis or 0)]
    if bias == "floats":
        constants["b"] = rng.standard_normal(5).astype(np.float32)
        names += " b"
    elif bias == "integers":
        steps = (0.02 * scales if axis == 1 else np.full(5, 0.0002)).astype(np.float32)
        constants |= {"b": rng.integers(-999, 999, 5).astype(np.int32), **parameters("b", steps, np.zeros(5), np.int32)}
        nodes.append(dequantize("b", "b", "bd", axis=0))
        names += " bd"
    domain = ("com.microsoft",) if kind == "FusedMatMul" else ()
    nodes += [node(kind, names, "f", *domain, **factors), quantize("f", "r", "yq"), dequantize("yq", "r", "y")]
    return model(nodes, {"x": np.zeros((4, 8), np.float32)}, ["y"], constants), {
        "x": rng.standard_normal((4, 8)).astype(np.float32)
    }


def stored(proto: onnx.ModelProto) -> Array:
    (found,) = [numpy_helper.to_array(i) for i in proto.graph.initializer if i.name == "w"]
    return found


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("bias", ["none", "floats", "integers"])
@pytest.mark.parametrize(
    "factors",
    [{"alpha": 0.3}, {"alpha": -0.3}, {"beta": 0.5}, {"alpha": 0.5, "beta": 0.5}, {"alpha": 0.3, "beta": -2.0}],
)
def test_a_factor_changes_the_scales(factors: dict[str, float], bias: str, axis: int | None) -> None:
    proto, inputs = network(factors, axis, bias=bias)
    module = imported(proto)
    assert {entry.code for entry in qmlir.decisions(module)} == {"integer"}
    weights = [o for o in module.walk() if isinstance(o, nn.ConstantOp) and o.value.array.size == 40]
    (held,) = (op.value.array for op in weights)
    sign = -1 if factors.get("alpha", 1) < 0 else 1
    np.testing.assert_array_equal(held.reshape(5, 8).T, sign * stored(proto))
    (ours,), (theirs,) = results(module, inputs), onnxruntimes(proto, inputs, optimized=False)
    assert np.abs(ours - theirs).max() < 1.01 * STEP
    assert (ours == theirs).mean() > 0.95


def test_scales_along_the_input_axis_stay_the_reason() -> None:
    """A factor does not hide that the terms of a sum have different scales."""
    proto, inputs = network({"alpha": 0.5}, 0)
    module = imported(proto)
    assert [entry.code for entry in qmlir.decisions(module)] == ["blocked"]
    np.testing.assert_allclose(
        results(module, inputs)[0], onnxruntimes(proto, inputs, optimized=False)[0], atol=1.01 * STEP
    )


@pytest.mark.parametrize("axis", [None, 1])
def test_fused_products(axis: int | None) -> None:
    proto, inputs = network({"alpha": 0.3}, axis, bias="none", kind="FusedMatMul")
    module = imported(proto)
    assert {entry.code for entry in qmlir.decisions(module)} == {"integer"}
    (ours,), (theirs,) = results(module, inputs), onnxruntimes(proto, inputs, optimized=False)
    assert (ours == theirs).mean() > 0.95


@pytest.mark.parametrize("factor", [-1.0, 0.0, 1e-44, float("inf")])
def test_what_no_scale_expresses_becomes_floats(factor: float) -> None:
    """-128 has no negative in its type, and scales are positive, finite and no denormal numbers."""
    from xdsl.dialects.builtin import i8

    from qmlir.dialects.quant.types import UniformType

    constant = Dequantized(np.array([-128, 5], np.int8), UniformType.per_tensor(i8, 0.5), "w")
    with np.errstate(invalid="ignore"):
        scaled = constant.times(factor)
        expected = constant.array * np.float32(factor)
    assert not isinstance(scaled, Dequantized | Blocked)
    np.testing.assert_array_equal(scaled.array, expected)
    assert constant.times(1.0).array.tolist() == [-64, 2.5]
