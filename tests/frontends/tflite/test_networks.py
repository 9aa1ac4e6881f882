"""Contractions as they are stored, hybrid ones, casts inside, several outputs, names of signatures."""

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from tests.conftest import crossed
from tests.frontends.tflite.files import litert
from tests.frontends.tflite.networks import CONTRACTIONS, contraction, mixed
from tests.frontends.tflite.test_cases import assert_agrees

pytestmark = pytest.mark.filterwarnings("ignore")


def inputs_of(kind: str, format: str) -> list[np.ndarray]:
    random, shape = np.random.default_rng(0), CONTRACTIONS[kind][0]
    if format == "float32":
        return [random.standard_normal(shape).astype(np.float32)]
    limits = np.iinfo(format)
    return [random.integers(limits.min, limits.max + 1, shape).astype(format)]


@crossed(
    {
        "format, per_channel": [("float32", False), ("int8", True), ("int8", False), ("uint8", False)],
        "kind": CONTRACTIONS,
    }
)
def test_contraction(kind: str, format: str, per_channel: bool) -> None:
    assert_agrees(contraction(kind, format, per_channel=per_channel), inputs_of(kind, format), 1)


@pytest.mark.parametrize("kind", CONTRACTIONS)
def test_hybrid_weights_count_as_the_floats_they_stand_for(kind: str) -> None:
    """LiteRT quantizes activations at run time there; the same numbers as floats are the oracle."""
    (x,) = inputs_of(kind, "float32")
    module = load_tflite(contraction(kind, "float32", hybrid=True))
    (wanted,) = litert(contraction(kind, "float32"), [x])
    found = qmlir.reference(module)(x)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("format", ["int8", "int16", "uint8"])
def test_casts_inside_several_outputs_and_names(format: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    module = load_tflite(mixed(format))
    meaning, machine = qmlir.reference(module), qmlir.compile(module)
    assert [s.name for s in meaning.signature.inputs] == ["picture"]
    assert [s.name for s in meaning.signature.outputs] == ["sum", "again"]
    for want, got, computed in zip(litert(mixed(format), [x]), meaning.run(x), machine.run(x), strict=True):
        assert np.array_equal(got, computed)
        step = {"int8": 0.11, "uint8": 0.11, "int16": 0.0008}[format] if want.dtype.kind == "f" else 3
        assert np.abs(want.astype(np.float64) - got.astype(np.float64)).max() <= step * 1.001


@pytest.mark.parametrize("kind", [kind for kind in CONTRACTIONS if kind != "TRANSPOSE_CONV"])
def test_weights_of_4_bits(kind: str) -> None:
    assert_agrees(contraction(kind, "int8", per_channel=True, nibbles=True), inputs_of(kind, "int8"), 1)
