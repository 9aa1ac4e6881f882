"""LEAKY_RELU on integers with slopes of both signs: every input, halfway between two results too, as LiteRT rounds."""

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.frontends.tflite.files import RESOLVERS, Op, T, interpreter, model, run

EVERY = {
    "int8": np.arange(-128, 128, dtype=np.int8),
    "uint8": np.arange(256, dtype=np.uint8),
    "int16": np.arange(-(1 << 15), 1 << 15, dtype=np.int16),
}
"""Each integer of a type."""


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("factor", [1.0, 0.7])
@pytest.mark.parametrize("alpha", [0.5, -0.5, -0.25, -0.75, -1.0, -1.25, -0.3, -2.0])
@pytest.mark.parametrize("format", EVERY)
def test_every_input(format: str, alpha: float, factor: float, numerics: str) -> None:
    data = EVERY[format]
    zero = 0 if format == "int16" else 131 if format == "uint8" else 3
    scales = {"x": 0.05, "y": 0.05 * factor}
    tensors = [T(name, (1, data.size), data.dtype, scale=[scale], zero=[zero]) for name, scale in scales.items()]
    file = model(tensors, [Op("LEAKY_RELU", [0], [1], "LeakyReluOptions", {"Alpha": alpha}, version=2)], [0], [1])
    module = load_tflite(file)
    follow(module, numerics)
    (theirs,) = run(interpreter(file, numerics), [data[None]])
    np.testing.assert_array_equal(qmlir.reference(module)(data[None]), theirs)
