"""Integers spelled out in ONNX's operators: the same bits in onnxruntime as here, whatever a network's rounding is."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i32

import qmlir
from qmlir.backends.onnx_qdq import export_onnx
from qmlir.backends.onnx_qdq.arithmetic.forms import computes
from qmlir.backends.onnx_qdq.arithmetic.requantize import CONTRACTS
from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function
from qmlir.dialects import qint
from qmlir.dialects.interfaces import element_of
from qmlir.dialects.qint.requantize import NarrowingOp
from qmlir.errors import LoweringError
from qmlir.runtimes import follow
from tests.backends.onnx_qdq.runtime import exported, kinds, of_sample, run
from tests.backends.onnx_qdq.test_qoperator import W8, convolution
from tests.backends.quantized_text import I8, U8, numbers, unary
from tests.ops.samples import SAMPLES, Sample

FORMAT = "onnx-integer"

BESIDE = "qint.max_pool2d-windows_beside_the_image"
"""The sample that onnxruntime does not run: it wants padding narrower than the window."""

QINT_SAMPLES = [s for s in SAMPLES if s.op.name.startswith("qint.") and str(s) != BESIDE]


def is_refused(sample: Sample) -> bool:
    """Whether a sample may have no form: it is not on bytes, rounds otherwise, or its operation has none at all."""
    (op,) = [o for o in of_sample(sample).walk() if o.name == sample.op.name]
    elements = {element_of(value) for value in (*op.operands, *op.results)}
    wide = not elements <= {i8, i32} or (isinstance(op, NarrowingOp) and element_of(op.y) != i8)
    rounds = isinstance(op, qint.RequantizeOp) and op.contract.data not in CONTRACTS
    rounds = rounds or (isinstance(op, qint.SoftmaxOp) and op.division.data != "exact")
    return wide or rounds or sample.op not in computes.entries


@pytest.mark.parametrize("sample", QINT_SAMPLES, ids=str)
def test_a_sample_means_the_same_elsewhere(sample: Sample, tmp_path: Path) -> None:
    function, path, inputs = main_function(of_sample(sample)), tmp_path / "sample.onnx", sample.arrays()
    try:
        export_onnx(function, path, format=FORMAT)
    except LoweringError:
        assert is_refused(sample)
        return
    (ours,) = evaluate(function, inputs)
    np.testing.assert_array_equal(run(path, inputs)[0], ours)


@pytest.mark.parametrize("element", [I8, U8])
@pytest.mark.parametrize("operation", ["nn.tanh", "nn.sigmoid", "nn.relu"])
def test_functions_are_tables(element: str, operation: str, tmp_path: Path) -> None:
    module, x = unary(element, operation), numbers(2, 3, 4)
    model = exported(module, tmp_path / "m.onnx", format=FORMAT)
    assert not {"Tanh", "Sigmoid", "QuantizeLinear"} & set(kinds(model))
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x))


def test_other_roundings_are_refused(tmp_path: Path) -> None:
    module = convolution(I8, W8, I8)
    follow(module, "litert-reference")
    with pytest.raises(
        LoweringError, match=r"in one of the ways exact, float32, got float32_away; follow other numerics"
    ):
        qmlir.export(module, tmp_path / "m.onnx", format=FORMAT)
    assert not list(tmp_path.iterdir())


def test_operations_without_a_form_are_refused(tmp_path: Path) -> None:
    sample = next(s for s in SAMPLES if s.op is qint.SaturatingFullyConnectedOp)
    with pytest.raises(LoweringError, match=r"must have a form in ONNX's operators"):
        qmlir.export(of_sample(sample), tmp_path / "m.onnx", format=FORMAT)
