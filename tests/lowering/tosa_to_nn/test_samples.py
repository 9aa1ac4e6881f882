"""`tosa-to-nn`: each operation means what TOSA's specification says, by the reference and in machine code."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.ir.upstream.tosa import TOSA
from qmlir.ir.upstream.tosa_0_80 import is_tosa
from qmlir.ir.verify import verify
from tests.lowering.both import run
from tests.lowering.tosa_to_nn.tosa_samples import SAMPLES, TosaSample

Array = npt.NDArray[Any]

TOLERANCES = {"f2": 2e-3, "V2": 2e-2, "f4": 2e-6}
"""dtype → the largest relative error; products and sums of float32 are rounded one by one."""


def assert_close(got: Array, expected: Array) -> None:
    """Integers are equal; floats are as near as their type allows."""
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected)
        return
    tolerance = TOLERANCES[got.dtype.str[1:]]
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_each_operation(sample: TosaSample) -> None:
    module = parse_text(make_context(), sample.text(), "sample.mlir")
    verify(module)
    read = Pipeline("tosa-to-nn")(module)
    verify(read)
    assert not any(map(is_tosa, read.walk()))
    inputs = sample.inputs(7)
    expected = sample.result_of(inputs)
    with np.errstate(all="ignore"):
        (got,) = evaluate(main_function(read), inputs)
    assert_close(got, expected)
    if any(op.operands for op in main_function(read).body.block.ops if op.name.startswith(("nn.", "qint."))):
        (reference,), (compiled,) = run(read, inputs)
        np.testing.assert_array_equal(reference, compiled)


UNREAD = {"tosa.cond_if", "tosa.yield", "tosa.const", "tosa.const_shape", "tosa.conv3d"}
"""Control flow, what holds constants, and what is refused."""


def test_no_operation_is_left_out() -> None:
    assert {op.name for op in TOSA.operations} - UNREAD == {f"tosa.{s.name}" for s in SAMPLES}
