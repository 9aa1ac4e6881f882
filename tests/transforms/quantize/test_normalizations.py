"""Normalizations of ONNX models end in integers, at 8 and at 16 bits, and are certified."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.checker import check_certificate
from qmlir.frontends.onnx import load_onnx
from tests.checker.networks import certified
from tests.conftest import crossed
from tests.frontends.onnx.agreement import floats, model, node

SHAPE = (2, 4, 6, 5)

OPERATORS = {
    "GroupNormalization": (node("GroupNormalization", "x c d", num_groups=2), 21),
    "InstanceNormalization": (node("InstanceNormalization", "x c d"), 17),
    "LayerNormalization": (node("LayerNormalization", "x s b"), 17),
    "RMSNormalization": (node("RMSNormalization", "x s"), 23),
    "MeanVarianceNormalization": (node("MeanVarianceNormalization", "x"), 17),
    "LpNormalization": (node("LpNormalization", "x", axis=1), 17),
}


@pytest.mark.slow
@crossed({"name": OPERATORS, "precision": ["int8", "int16"]})
def test_a_normalization_ends_in_integers(name: str, precision: str, tmp_path: Path) -> None:
    operator, opset = OPERATORS[name]
    constants = {"c": floats(4, seed=1), "d": floats(4, seed=2), "s": floats(5, seed=3), "b": floats(5, seed=4)}
    used = {key: value for key, value in constants.items() if key in operator.input}
    network = load_onnx(model(operator, {"x": SHAPE}, used, opset=opset))
    data = [{"x": floats(*SHAPE, seed=seed) * 2 + 1} for seed in range(4)]
    quantized = qmlir.quantize(network, data=data, precision=precision)
    assert {entry.outcome for entry in qmlir.decisions(quantized)} <= {"quantized"}
    reference, compiled = qmlir.reference(quantized), qmlir.compile(quantized)
    for sample in data:
        (got,), (exact,) = reference.run(sample), qmlir.reference(network).run(sample)
        np.testing.assert_array_equal(compiled.run(sample)[0], got)
        noise = np.mean((got - exact) ** 2) / np.mean(exact**2)
        assert -10 * np.log10(noise) > (30 if precision == "int8" else 75)
    assert check_certificate(certified(quantized, tmp_path).path)["operations"]


def test_a_division_by_a_sum_of_magnitudes_stays_float() -> None:
    module = load_onnx(model(node("LpNormalization", "x", axis=1, p=1), {"x": SHAPE}))
    (entry,) = qmlir.decisions(qmlir.quantize(module, data=[floats(*SHAPE)]))
    assert (entry.operation, entry.outcome) == ("nn.lp_normalization", "float")
    assert entry.reason == "its division by a sum of magnitudes has no integer form on this target"
