"""Operators that LiteRT has for floats only, beside quantized tensors: computed on the real numbers."""

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from tests.frontends.tflite.files import Op, T, model

POINTS = {"int8": 3, "uint8": 120, "int16": 0}


@pytest.mark.parametrize("format", POINTS)
def test_the_angle_of_quantized_points(format: str) -> None:
    scales, shape, point = (0.02, 0.03, 0.03), (1, 512), POINTS[format]
    tensors = [T(name, shape, format, None, [scale], [point]) for name, scale in zip("yxr", scales, strict=True)]
    reference = qmlir.reference(
        load_tflite(model(tensors, [Op("ATAN2", [0, 1], [2], "ATan2Options", {})], [0, 1], [2]))
    )
    random, limits = np.random.default_rng(0), np.iinfo(format)
    low, high = max(limits.min, point - 100), min(limits.max, point + 100)
    stored = {spec.name: random.integers(low, high + 1, shape).astype(format) for spec in reference.signature.inputs}
    (found,) = reference.run(stored)
    y, x = ((array - np.float64(point)) * scale for array, scale in zip(stored.values(), scales[:2], strict=True))
    steps = np.arctan2(y, x) / scales[2]
    assert np.abs(found.astype(float) - point - steps).max() < 0.501
