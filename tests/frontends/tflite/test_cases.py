"""Each operator alone, in every way of storing numbers that LiteRT takes: LiteRT is the oracle."""

from collections.abc import Sequence

import numpy as np
import pytest

import qmlir
from qmlir.frontends.opaque import refuse_opaque
from qmlir.frontends.tflite import load_tflite
from tests.conftest import crossed
from tests.frontends.tflite.cases import IN_FORMATS, Case
from tests.frontends.tflite.files import litert

EPSILON = 1e-5

pytestmark = pytest.mark.filterwarnings("ignore")


def assert_agrees(data: bytes, inputs: Sequence[np.ndarray], steps: int | None, *, reference: bool = True
) -> None:  # fmt: skip
    """The reference is within ε, or so many steps, of LiteRT; the CPU equals the reference.

    None is for results that tests/conformance compares, under LiteRT's own rounding too.
    """
    module = load_tflite(data)
    module.verify()
    refuse_opaque(module, "the case")
    meaning, machine = qmlir.reference(module), qmlir.compile(module)
    named = dict(zip([s.name for s in meaning.signature.inputs], inputs, strict=True))
    wanted = litert(data, inputs, reference=reference)
    for want, got, computed in zip(wanted, meaning.run(named), machine.run(named), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert np.array_equal(got, computed, equal_nan=True)
        if want.dtype.kind == "f":
            assert np.abs(want - got).max() <= EPSILON * np.abs(want).max()
        elif steps is not None:
            assert np.abs(want.astype(np.int64) - got.astype(np.int64)).max() <= steps


@crossed({"case, format": IN_FORMATS})
def test_operator(case: Case, format: str) -> None:
    inputs = case.data(format, np.random.default_rng(0))
    steps = None if format == "int16" and case.steps else case.steps
    assert_agrees(case.build(format), inputs, steps, reference=case.reference)
