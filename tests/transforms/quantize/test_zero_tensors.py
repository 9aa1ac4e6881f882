"""Zeros, as data or as weights: a contraction then has its bias as result, which their scale must hold."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.numerics.schemas import ZERO_RANGE_SCALE, Schema
from qmlir.policies.ledger import decisions
from qmlir.policies.runtimes import Runtime, follow
from qmlir.settings.policy import Policy
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load, model, node

Array = np.ndarray

X = -np.abs(np.random.default_rng(0).normal(size=(2, 3, 6, 6))).astype(np.float32) - 1

LEAST = {"int16": 80.0, "int8": 40.0}
"""dB: rounding the result alone leaves a little more."""


def network(weights: float, bias: float, *, relu: bool = True, convolution: bool = True) -> ModuleOp:
    """A contraction, of zeros if it is behind a relu that leaves nothing of X."""
    random = np.random.default_rng(1)
    b = random.normal(size=5).astype(np.float32) * np.float32(bias)
    first = node("Relu", "x", "r") if relu else node("Identity", "x", "r")
    if convolution:
        nodes = [first, node("Conv", "r w b")]
        w = random.normal(size=(5, 3, 3, 3))
    else:
        nodes = [first, node("Flatten", "r", "f"), node("Gemm", "f w b", transB=1)]
        w = random.normal(size=(5, 108))
    constants = {"w": (w * weights).astype(np.float32), "b": b}
    return qmlir.Pipeline("simplify")(load(model(nodes, {"x": X.shape}, constants)))


def decibels(module: ModuleOp, x: Array = X, **options: Any) -> float:
    """The signal to noise of the quantized network, of which nothing stays float."""
    q = qmlir.quantize(module, qmlir.profile(module, [x]), **options)
    assert {entry.outcome for entry in decisions(q)} == {"quantized"}
    exact, found = qmlir.reference(module)(x).astype(np.float64), qmlir.reference(q)(x)
    np.testing.assert_array_equal(qmlir.compile(q)(x), found)
    return float(10 * np.log10((exact**2).sum() / max(((found - exact) ** 2).sum(), 1e-300)))


SCHEMAS = ["asymmetric", "symmetric", "symmetric_with_power2_scale"]


@crossed({"precision": LEAST, "schema": SCHEMAS, "convolution": [True, False]})
def test_a_tensor_of_zeros_keeps_the_bias_behind_it(precision: str, schema: str, convolution: bool) -> None:
    """Under the scale 0.1 the steps of the sums are ten thousand times the bias."""
    module = network(1e4, 1e-2, convolution=convolution)
    assert decibels(module, precision=precision, schema=schema) > LEAST[precision] - 8 * ("power2" in schema)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_bias_that_is_large_beside_the_weights(schema: str) -> None:
    assert decibels(network(1e-4, 1e3), precision="int16", schema=schema) > 70


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("precision", LEAST)
def test_weights_of_zeros_keep_the_bias(precision: str, per_channel: bool) -> None:
    module = network(0.0, 1e-2, relu=False)
    assert decibels(module, X * np.float32(1e6), precision=precision, per_channel=per_channel) > LEAST[precision]


def test_no_contraction_asks_for_another_scale() -> None:
    """Of a fine bias or of none, and in Glow's own parameters, zeros have Glow's."""
    for module, options in [(network(1.0, 100.0), {}), (network(1e4, 1e-2), {"glow_exact": True})]:
        q = qmlir.quantize(module, qmlir.profile(module, [X]), precision="int8", **options)
        (op,) = (o for o in q.walk() if isinstance(o, WeightedOp))
        assert uniform(op.x).scale == ZERO_RANGE_SCALE


def test_zeros_that_a_result_is_too() -> None:
    """A clamp makes zeros of all; whose scale depends on whose comes to an end."""
    w = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
    nodes = [
        node("Relu", "x", "r"),
        node("Conv", "r w b", "c"),
        node("Relu", "c", "d"),
        node("Concat", "r d", "y", axis=1),
    ]
    module = load(model(nodes, {"x": X.shape}, {"w": w, "b": np.full(3, -1, np.float32)}))
    q = qmlir.quantize(module, qmlir.profile(module, [X]))
    assert not qmlir.reference(q)(X).any()
    assert [o for o in q.walk() if isinstance(o, nn.ConcatOp)]
    assert [o for o in q.walk() if isinstance(o, QuantizeCastOp)]


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("numerics", ["default", "litert-reference"])
def test_tables_of_16_bits_that_read_or_write_zeros(numerics: Runtime, schema: Schema) -> None:
    """LiteRT interpolates between values that lie 128 steps apart: each of 12.8 under the scale 0.1."""
    nodes = [
        node("Sub", "x x", "zeros"),
        node("Exp", "zeros", "ones"),
        node("Log", "ones", "none"),
        node("Add", "none x"),
    ]
    module = load(model(nodes, {"x": X.shape}))
    follow(module, numerics)
    quantized = qmlir.quantize(module, qmlir.profile(module, [X]), precision="int16", schema=schema)
    apart = qmlir.reference(quantized)(X) - X
    assert 10 * np.log10((X**2).sum() / np.square(apart).sum()) > 60


@pytest.mark.parametrize("convolution", [True, False])
def test_zeros_that_a_rule_gives_another_schema_keep_the_bias_behind_them(convolution: bool) -> None:
    """The contraction reads them through a type of its own, which is chosen once its weights have casts."""
    module = network(1e4, 1e-2, convolution=convolution)
    policy = Policy.of({"rules": [{"name": "r", "schema": "symmetric_with_power2_scale"}]})
    assert decibels(module, policy=policy) > LEAST["int8"]
