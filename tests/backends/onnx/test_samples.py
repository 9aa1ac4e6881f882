"""Every operation of nn, exported by itself, against its meaning: in onnxruntime, or in ONNX's own evaluator.

onnxruntime has no kernels for some operators on some types; ONNX's evaluator has.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

import qmlir
from qmlir.backends.onnx import EXPORTS
from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function
from qmlir.dialects import nn
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import ComposedOp
from qmlir.ir.types import is_numpys_own
from tests.backends.onnx.runtime import Array, exported, of_sample, run
from tests.ops.samples import SAMPLES, Sample

EPSILON = 1e-5
"""Of the largest magnitude in the result."""

REFUSED = {
    "nn.matmul-ui8": "MatMul",
    "nn.celu-f64": "Celu",
    "nn.prelu-ui8": "PRelu",
    "nn.pow-ui16": "Pow",
    "nn.reduce_sum-ui8": "ReduceSum",
    "nn.reduce_prod-ui8": "ReduceProd",
}
"""Samples whose types ONNX's operator does not take."""

OPEN = {
    "nn.local_response_normalization-even": "onnxruntime has no LRN of an even size, and ONNX's evaluator errs",
    "nn.sample-far_away": "places 1e30 elements away lose all digits when they are scaled to [-1, 1]",
    "nn.pow-i64_by_few": "ONNX says nothing of integer powers that wrap around or of negative exponents",
    "nn.cast-f32_to_i8": "ONNX says nothing of floats beyond the range of an integer",
    "nn.fully_connected-i32": "ONNX says nothing of sums that wrap around",
    "nn.reduce_mean-of_no_element": "ONNX says nothing of a mean of no elements",
    "nn.reduce_sum-i32": "ONNX says nothing of sums that wrap around",
    "nn.reduce_prod-i32": "ONNX says nothing of products that wrap around",
}
"""Samples that may come out otherwise elsewhere, and why."""

NN = [sample for sample in SAMPLES if sample.op.name.startswith("nn.")]


def elsewhere(path: Path, inputs: list[Array]) -> Array:
    """The result in onnxruntime, or in ONNX's evaluator where the former lacks a kernel or a type."""
    model = onnx.load(str(path))
    types = {t.type.tensor_type.elem_type for t in (*model.graph.input, *model.graph.output)}
    if all(is_numpys_own(onnx.helper.tensor_dtype_to_np_dtype(t)) for t in types):
        try:
            return run(path, inputs)[0]
        except NoKernel:
            pass
    named = dict(zip([i.name for i in model.graph.input], inputs, strict=True))
    results: Any = ReferenceEvaluator(model).run(None, named)
    return np.asarray(results[0])


COUNTED = [s for s in NN if s.op in (nn.NonMaxSuppressionOp, nn.NonZeroOp)]
"""Samples whose results have as many elements as the data say."""


MISSING = [s for s in NN if s.op is nn.RootQuotientOp]
"""Samples of an operation that ONNX has not."""


@pytest.mark.parametrize("sample", [s for s in NN if str(s) not in REFUSED and s not in COUNTED + MISSING], ids=str)
def test_a_sample_means_the_same_elsewhere(sample: Sample, tmp_path: Path) -> None:
    module, path, inputs = of_sample(sample), tmp_path / "sample.onnx", sample.arrays()
    exported(module, path)
    if str(sample) in OPEN:
        return
    (ours,) = evaluate(main_function(module), inputs)
    theirs = elsewhere(path, inputs)
    assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
    if ours.dtype.kind != "f" and is_numpys_own(ours.dtype):
        np.testing.assert_array_equal(theirs, ours)
        return
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    largest = float(np.abs(ours[np.isfinite(ours)]).max(initial=0))
    np.testing.assert_allclose(theirs, ours, rtol=EPSILON, atol=EPSILON * largest)


@pytest.mark.parametrize("sample", MISSING, ids=str)
def test_operations_that_onnx_has_not(sample: Sample, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=rf"{sample.op.name} .*must be an operation that ONNX has"):
        qmlir.export(of_sample(sample), tmp_path / "sample.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", REFUSED)
def test_types_that_onnx_does_not_take(name: str, tmp_path: Path) -> None:
    sample = next(s for s in NN if str(s) == name)
    with pytest.raises(UnsupportedError, match=rf"{sample.op.name} .*ONNX's {REFUSED[name]} in opset .*, got tensor\("):
        qmlir.export(of_sample(sample), tmp_path / "sample.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sample", COUNTED, ids=str)
def test_sizes_that_depend_on_the_data_are_refused(sample: Sample, tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match=r"must have results whose sizes do not depend .* front of it, by --outputs"
    ):
        qmlir.export(of_sample(sample), tmp_path / "sample.onnx")
    assert not list(tmp_path.iterdir())


def test_a_window_of_an_even_size_leans_as_onnx_says() -> None:
    (sample,) = (s for s in NN if str(s) == "nn.local_response_normalization-even")
    op = sample.build()
    assert isinstance(op, nn.LocalResponseNormalizationOp)
    (x,) = sample.arrays()
    size, alpha, beta, bias = (getattr(op, name).value.data for name in ("size", "alpha", "beta", "bias"))
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0), ((size - 1) // 2, size // 2)))
    sums = np.lib.stride_tricks.sliding_window_view(squares, size, 1).sum(-1)
    np.testing.assert_allclose(op.evaluate(x)[0], x / (bias + alpha / size * sums) ** beta, rtol=1e-5)


def test_open_samples_exist() -> None:
    assert set(OPEN) <= {str(s) for s in NN}


def test_every_operation_has_a_form() -> None:
    missing = [op.name for op in nn.NN.operations if op not in EXPORTS.entries and not issubclass(op, ComposedOp)]
    assert not missing, "enter them in a file of qmlir/backends/onnx"
