"""A channel whose weights are next to nothing beside its bias keeps that bias, whatever stores the layer."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import LEAST_FACTOR
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.interfaces import shape_of
from qmlir.numerics.schemas import SCHEMAS
from tests.conftest import crossed
from tests.frontends.onnx.agreement import floats, model, node

Array = npt.NDArray[Any]

QUIET = {"1e-5": 1e-5, "1e-12": 1e-12, "1e-30": 1e-30, "0": 0.0}
"""What the weights of each channel but the first are multiplied with."""

BITS = {"int8": 8, "int16": 16}

STORAGE = [("int8", "same"), ("int16", "same"), ("int16", "int8")]


def layer(kind: str, biased: bool = True) -> ModuleOp:
    """A layer with a loud channel and quiet ones."""
    shapes = {"Conv": ((1, 3, 6, 6), (5, 3, 3, 3)), "depthwise": ((1, 5, 6, 6), (5, 1, 3, 3)), "Gemm": ((4, 9), (5, 9))}
    x, w = shapes[kind]
    weights = floats(*w)
    for channel, factor in enumerate(QUIET.values(), start=1):
        weights[channel] *= np.float32(factor)
    attributes: dict[str, Any] = {"depthwise": {"group": 5}, "Gemm": {"transB": 1}}.get(kind, {})
    bias = np.array([0.1, 5, 3, -2, 1], np.float32)
    operator = node("Gemm" if kind == "Gemm" else "Conv", "x w b" if biased else "x w", **attributes)
    return load_onnx(model(operator, {"x": x}, {"w": weights} | ({"b": bias} if biased else {})))


def inputs(module: ModuleOp) -> list[Array]:
    (x,) = main_function(module).args
    return [floats(*shape_of(x), seed=seed) for seed in range(2)]


def outputs(module: ModuleOp, samples: Sequence[Array]) -> Array:
    """[channels, elements]."""
    meaning = qmlir.reference(module)
    got = np.stack([np.asarray(meaning(x)) for x in samples])
    return np.moveaxis(got, 2, 0).reshape(got.shape[2], -1).astype(np.float64)


def multiplied(module: ModuleOp) -> Array:
    """The factors of all contractions."""
    return np.concatenate([op.factors() for op in module.walk() if isinstance(op, WeightedOp)])


@crossed({"kind": ["Conv", "depthwise", "Gemm"], "precision, weights": STORAGE})
def test_each_channel_is_as_exact_as_its_storage(kind: str, precision: Any, weights: Any) -> None:
    module = layer(kind)
    samples = inputs(module)
    exact, profile = outputs(module, samples), qmlir.profile(module, samples)
    for schema, per_channel in product(SCHEMAS, (True, False)):
        options: dict[str, Any] = {"schema": schema, "precision": precision, "per_channel": per_channel}
        quantized = qmlir.quantize(module, profile, weight_precision=weights, **options)
        step = np.abs(exact).max() / (1 << BITS[precision] - 2)
        errors = np.abs(outputs(quantized, samples) - exact)
        # Of the loud channel the weights' own rounding is seen beside it.
        assert (errors[1:] <= step).all(), (options, errors.max(axis=1) / step)
        assert (multiplied(quantized) >= LEAST_FACTOR).all(), options


@pytest.mark.parametrize("precision", BITS)
def test_a_quiet_channel_without_a_bias_has_a_multiplier(precision: Any) -> None:
    module = layer("Conv", biased=False)
    quantized = qmlir.quantize(module, qmlir.profile(module, inputs(module)), precision=precision)
    assert (multiplied(quantized) >= LEAST_FACTOR).all()
    (x, *_) = inputs(module)
    np.testing.assert_array_equal(qmlir.compile(quantized)(x), qmlir.reference(quantized)(x))
