"""Every operation of nn, exported by itself, against its meaning in LiteRT; what TFLite lacks is refused."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.backends.tflite import EXPORTS
from qmlir.backends.tflite.elementwise import missing
from qmlir.compiler import main_function
from qmlir.dialects import nn
from qmlir.errors import UnsupportedError
from tests.backends.onnx.runtime import of_sample
from tests.backends.tflite.runtime import LiteRT
from tests.ops.samples import SAMPLES, Sample

pytestmark = pytest.mark.filterwarnings("ignore")

EPSILON = 1e-5
"""Of the largest magnitude in the result."""

MISSING = {
    nn.MaxPoolIndices2DOp, nn.SampleOp, nn.ScatterReduceNDOp, nn.CumulativeProductOp, nn.ShiftLeftOp, nn.ShiftRightOp,
    nn.RootQuotientOp, nn.HadamardOp, nn.RowMagnitudesOp, nn.DivideRowsOp, nn.MultiplyRowsOp,
    *(op for op, form in EXPORTS.entries.items() if form is missing),
}  # fmt: skip
"""Operations without a form, except for functions of quantized bytes."""

REFUSED = {
    "nn.max_pool2d-dilated": "needs a window without dilations",
    "nn.average_pool2d-dilated": "needs a window without dilations",
    "nn.local_response_normalization-even": "needs .* an odd size",
    "nn.local_response_normalization-wider_than_there_are_channels": r"needs \[N, H, W, C\]",
    "nn.mod-f32": "must have the divisor's sign",
    "nn.mod-as_C": "must have the divisor's sign",
    "nn.mod-ui32": "needs divisors that are constant",
    "nn.mod-i64_by_few": "needs divisors that are constant",
    "nn.div-i32": "needs divisors that are constant",
    "nn.div-ui8": "needs divisors that are constant",
    "nn.div-i64_by_few": "needs divisors that are constant",
    "nn.pow-i64_by_few": "needs exponents that are constant",
    "nn.pow-ui16": "needs exponents that are constant",
    **{f"nn.scatter_nd-{note}": "needs constant indices" for note in ("elements", "rows", "i8", "ui8")},
    "nn.top_k-ui8": "must look for the greatest",
    "nn.reduce_sum-of_no_element": "needs elements to reduce",
    "nn.reduce_mean-of_no_element": "needs elements to reduce",
    "nn.reduce_prod-of_no_element": "needs elements to reduce",
    "nn.reduce_max-of_no_element": "needs elements to reduce",
    "nn.reduce_min-of_no_element": "needs elements to reduce",
    "nn.matmul-i32": "must have sums of products that float32 represents",
    "nn.matmul-i64": "must have sums of products that float32 represents",
    "nn.fully_connected-i32": "must have sums of products that float32 represents",
    "nn.blocked_fully_connected-of_4_bits,_the_last_block_shorter": "needs constant weights",
    "nn.blocked_fully_connected-one_block": "needs constant weights",
    "nn.abs-i8": "as data of TFLite's ABS",
    "nn.abs-ui16": "as data of TFLite's ABS",
    "nn.neg-ui16": "as data of TFLite's NEG",
    "nn.sign-i8": "as data of TFLite's SIGN",
    "nn.sign-ui16": "as data of TFLite's SIGN",
    "nn.prelu-i32": "as data of TFLite's PRELU",
    "nn.prelu-ui8": "as data of TFLite's PRELU",
    "nn.squared_difference-ui8": "as data of TFLite's SQUARED_DIFFERENCE",
    "nn.add-ui8": "as data of TFLite's ADD",
    "nn.sub-ui8": "as data of TFLite's SUB",
    "nn.mul-ui8": "as data of TFLite's MUL",
    "nn.equal-ui8": "as data of TFLite's EQUAL",
    "nn.less-ui8": "as data of TFLite's LESS",
    "nn.less_equal-ui8": "as data of TFLite's LESS_EQUAL",
    "nn.and-i16": "as data of TFLite's LOGICAL_AND",
    "nn.or-i16": "as data of TFLite's LOGICAL_OR",
    "nn.reduce_sum-ui8": "as data of TFLite's SUM",
    "nn.reduce_prod-ui8": "as data of TFLite's REDUCE_PROD",
    **{f"nn.cast-f32_to_{kind}": "of a type that TFLite's CAST has" for kind in (
        "bf16", "8E4M3FN", "8E4M3FNUZ", "8E5M2", "8E5M2FNUZ", "4E2M1FN", "i4", "i2")},
}  # fmt: skip
"""Samples that a kernel does not take, and what the error says."""

FLOAT64 = {"nn.dilate-f64", "nn.sign-f64", "nn.cast-f32_to_f64", "nn.cast-i64_to_f64"}
"""Samples of f64 that have a kernel; all others are refused."""

BY_DEFAULT = {
    nn.CeilOp, nn.RoundOp, nn.EluOp, nn.SeluOp, nn.CeluOp, nn.LocalResponseNormalizationOp
}  # fmt: skip
"""Operations that only LiteRT's default kernels have, or have right: the reference LRN leaves out a neighbour."""

NN = [sample for sample in SAMPLES if sample.op.name.startswith("nn.")]


def refusal(sample: Sample) -> str | None:
    """What the error of a sample says; None for one that has a form."""
    if sample.op in MISSING:
        return "TFLite has"
    if sample.op in (nn.NonMaxSuppressionOp, nn.NonZeroOp):
        return "must have results whose sizes do not depend on the data"
    wide = "f64" in str(sample) and str(sample) not in FLOAT64
    return REFUSED.get(str(sample), "as data of TFLite's" if wide else None)


@pytest.mark.parametrize("sample", NN, ids=str)
def test_a_sample_means_the_same_in_litert(sample: Sample, tmp_path: Path) -> None:
    module, path = of_sample(sample), tmp_path / "sample.tflite"
    if (said := refusal(sample)) is not None:
        with pytest.raises(UnsupportedError, match=rf"{sample.op.name} .*{said}"):
            qmlir.export(module, path, format="tflite")
        assert not list(tmp_path.iterdir())
        return
    qmlir.export(module, path, format="tflite")
    (ours,) = evaluate(main_function(module), sample.arrays())
    (theirs,) = LiteRT(path, reference=sample.op not in BY_DEFAULT).run(sample.arrays())
    assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
    if ours.dtype.kind != "f":
        np.testing.assert_array_equal(theirs, ours)
        return
    largest = float(np.abs(ours[np.isfinite(ours)]).max(initial=0))
    np.testing.assert_allclose(theirs, ours, rtol=EPSILON, atol=EPSILON * largest)


def test_refused_samples_exist() -> None:
    assert {*REFUSED, *FLOAT64} <= {str(s) for s in NN}


def test_every_operation_has_a_form_or_a_refusal() -> None:
    missing = [op.name for op in nn.NN.operations if op not in EXPORTS.entries]
    assert not missing, "enter them in a file of qmlir/backends/tflite"
