"""A gate of a recurrent cell near 0 has a scale of its own; gates that a fixed scale suits share one."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects import nn
from qmlir.profiles.profile import Profile
from qmlir.settings.policy import Policy, rule_of
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load, model, node
from tests.transforms.quantize.calibrated import Array, sqnr, text_of

STEPS, WIDTH, HIDDEN = 2, 8, 8
SMALL, ORDINARY = -7.6, 0.0
"""Biases of a gate under which its values are near 0.0005 and near 0.5."""

GATES = {"LSTM": 4, "GRU": 3}
OUTPUT, UPDATE = 1, 0
"""The gates that the biases here are of: the LSTM's second, the GRU's first."""


def samples() -> list[Array]:
    random = np.random.default_rng(1)
    return [random.normal(size=(STEPS, 1, WIDTH)).astype(np.float32) for _ in range(64)]


@cache
def network(operator: str, bias: float) -> tuple[ModuleOp, Profile]:
    """A recurrent layer one of whose gates has a bias, and its profile."""
    random, count = np.random.default_rng(0), GATES[operator]
    gate = OUTPUT if operator == "LSTM" else UPDATE
    biases = np.zeros((1, 2 * count * HIDDEN), np.float32)
    biases[0, gate * HIDDEN : (gate + 1) * HIDDEN] = bias
    weights = {
        "w": random.normal(0, 0.4, (1, count * HIDDEN, WIDTH)).astype(np.float32),
        "r": random.normal(0, 0.05, (1, count * HIDDEN, HIDDEN)).astype(np.float32),
        "b": biases,
    }
    layer = node(operator, "x w r b", "y yh", hidden_size=HIDDEN)
    module = load(model(layer, {"x": [STEPS, 1, WIDTH]}, weights, outputs=("yh",)))
    return module, qmlir.profile(module, samples())


def without_slices(profile: Profile) -> Profile:
    """A profile of files that were written before slices were observed."""
    tensors = {name: t for name, t in profile.tensors.items() if ".slice" not in name}
    assert len(tensors) < len(profile.tensors)
    return Profile(**{**vars(profile), "tensors": tensors})


def quality(module: ModuleOp, quantized: ModuleOp) -> float:
    exact, ours = qmlir.reference(module), qmlir.reference(quantized)
    return sqnr(*(np.array([run(x) for x in samples()]) for run in (exact, ours)))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "uint8"])
def test_a_gate_near_zero_keeps_its_values(precision: str) -> None:
    module, profile = network("LSTM", SMALL)
    shared = quality(module, qmlir.quantize(module, without_slices(profile), precision=precision))
    own = quality(module, qmlir.quantize(module, profile, precision=precision))
    assert shared < 12
    assert own > 22


def test_compiled_it_has_the_same_bits() -> None:
    module, profile = network("LSTM", SMALL)
    quantized = qmlir.quantize(module, profile, fail_on_float=True)
    x = samples()[0]
    np.testing.assert_array_equal(qmlir.compile(quantized)(x), qmlir.reference(quantized)(x))


@crossed({"operator": GATES, "precision": ["int8", "int16"]})
def test_gates_that_the_scale_suits_share_a_function(operator: str, precision: str) -> None:
    module, profile = network(operator, ORDINARY)
    ours = qmlir.quantize(module, profile, precision=precision)
    assert text_of(ours) == text_of(qmlir.quantize(module, without_slices(profile), precision=precision))


def test_all_gates_near_zero_of_a_gru_are_finer_too() -> None:
    module, profile = network("GRU", SMALL)
    quantized = qmlir.quantize(module, profile)
    functions = [op for op in quantized.walk() if isinstance(op, nn.SigmoidOp)]
    assert len(functions) == 2 * STEPS


def test_parameters_of_glow_stay() -> None:
    module, profile = network("LSTM", SMALL)
    ours = qmlir.quantize(module, profile, glow_exact=True, calibration="minmax")
    theirs = qmlir.quantize(module, without_slices(profile), glow_exact=True, calibration="minmax")
    assert text_of(ours) == text_of(theirs)


def test_what_stays_float_stays_one_function() -> None:
    module, profile = network("LSTM", SMALL)
    quantized = qmlir.quantize(module, profile, policy=Policy(rules=[rule_of("kind=sigmoid keep-float=true")]))
    assert len([op for op in quantized.walk() if isinstance(op, nn.SigmoidOp)]) == STEPS


def test_a_saved_profile_knows_the_slices(tmp_path: Path) -> None:
    module, profile = network("LSTM", SMALL)
    profile.save(tmp_path / "net.yaml")
    assert text_of(qmlir.quantize(module, tmp_path / "net.yaml")) == text_of(qmlir.quantize(module, profile))
