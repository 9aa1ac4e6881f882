"""Every operation of nn, quantized, exported and read again: the same bits, in integers where it was in integers.

onnxruntime loads the files with its default optimizations, and finds the same integers with and without them where a
file spells integers out.

The exporter writes some operations as several nodes, for want of an operator of ONNX's. One network holds samples of
all operations side by side, each with inputs and an output of its own.
"""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.utils
import pytest
from xdsl.dialects.builtin import ModuleOp, f32

import qmlir
from qmlir.backends.onnx import EXPORTS
from qmlir.compiler import Pipeline
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.ir.facts import QUANTIZATION
from qmlir.ir.signature import signature_of
from qmlir.policies.runtimes import follow
from qmlir.stages import IMPORTED
from tests.backends.onnx.runtime import SATURATING, session
from tests.backends.onnx.test_samples import COUNTED
from tests.backends.side_by_side import main, on_floats, run, side_by_side
from tests.conftest import THOROUGH
from tests.fuzz.checks import learnt
from tests.ops.samples import SAMPLES, Array

pytestmark = SATURATING

OTHERWISE = {
    "nn.sample": "its places are scaled to [-1, 1] and back, on floats, which rounds",
    "nn.mod-floored_f32": "ONNX has no such remainder of floats: it is computed from a quotient, which rounds",
    "nn.attend": "its softmax is an operator by itself there, whose probabilities are rounded",
}
"""Operations and samples that may come out otherwise, and why."""

NO_SUMS_AND_TABLES = {
    "nn.blocked_fully_connected", "nn.layer_norm", "nn.local_response_normalization", "nn.log_softmax",
    "nn.lp_normalization", "nn.rms_norm", "nn.maximum", "nn.minimum", "nn.mod", "nn.pow", "nn.prelu",
    "nn.squared_difference",
}  # fmt: skip
"""Operations whose integers onnx-integer has no form for."""

ALL = [
    s
    for s in SAMPLES
    if s.op in EXPORTS.entries
    and s not in COUNTED
    and s.op.name not in OTHERWISE
    and str(s) not in OTHERWISE
    and any(o.element == f32 for o in s.operands)
]
"""Samples that are quantized where the operation can be."""

CHOICES = {"all": ALL, **{f"third {n}": ALL[n::3] for n in range(3)}}
CHOICES |= {
    f"{choice} for onnx-integer": [s for s in samples if s.op.name not in NO_SUMS_AND_TABLES]
    for choice, samples in CHOICES.items()
}
"""Which samples a network holds."""


@cache
def quantized(precision: str, choice: str) -> tuple[ModuleOp, list[Array]]:
    """A network of samples, quantized, and its inputs; its casts are QuantizeLinear's."""
    module, arrays = side_by_side(CHOICES[choice])
    feed = dict(zip((i.name for i in signature_of(main(module)).inputs), arrays, strict=True))
    module = qmlir.quantize(module, learnt(module, [feed], 128), precision=precision)
    for cast in [o for o in module.walk() if isinstance(o, QuantizeCastOp)]:
        QUANTIZATION.put(cast, "float32")
    return module, arrays


PRECISIONS = ("int8", "uint8", "int16")


def share(precision: str) -> str:
    """All samples; `make test` takes a third of them under each precision, and each sample under one."""
    return "all" if THOROUGH else f"third {PRECISIONS.index(precision)}"


def check(choice: str, precision: str, form: str, numerics: str, path: Path) -> None:
    if form == "onnx-integer":
        choice += " for onnx-integer"
    module, arrays = quantized(precision, choice)
    module = module.clone()
    follow(module, numerics)
    qmlir.export(module, path, format=form)
    again = Pipeline(*IMPORTED)(qmlir.load(path, numerics=numerics))
    outputs = zip(CHOICES[choice], run(again, arrays), run(module, arrays), strict=True)
    different = [str(sample) for sample, ours, theirs in outputs if not np.array_equal(ours, theirs, equal_nan=True)]
    assert different == []
    _optimized(path, choice, arrays, on_floats(module), exact=form == "onnx-integer")
    if form != "onnx-integer":
        outcomes = zip(CHOICES[choice], on_floats(again), on_floats(module), strict=True)
        assert [str(sample) for sample, ours, theirs in outcomes if ours and not theirs] == []


NOT_IN_ONNXRUNTIME = {
    "nn.local_response_normalization-even": "onnxruntime has no LRN of an even size",
    **dict.fromkeys((f"nn.cast-f32_to_{kind}" for kind in (
        "bf16", "8E4M3FN", "8E4M3FNUZ", "8E5M2", "8E5M2FNUZ", "4E2M1FN", "i4", "i2")), "numpy has no such type"),
}  # fmt: skip
"""Samples that onnxruntime does not run, or does not give the result of."""


def _optimized(path: Path, choice: str, arrays: list[Array], floats: list[bool], *, exact: bool) -> None:
    """Runs a file in onnxruntime with and without its optimizations, but for samples that it does not run."""
    model = onnx.load(str(path))
    kept = [i for i, sample in enumerate(CHOICES[choice]) if str(sample) not in NOT_IN_ONNXRUNTIME]
    names = [model.graph.output[i].name for i in kept]
    inputs = [i.name for i in model.graph.input]
    if len(kept) < len(floats):
        path = path.with_name("kept.onnx")
        onnx.save(onnx.utils.Extractor(model).extract_model(inputs, names), str(path))
    feed = dict(zip(inputs, arrays, strict=True))
    sessions = [session(path, optimized=optimized) for optimized in (False, True)]
    feed = {i.name: feed[i.name] for i in sessions[0].get_inputs()}
    results = [each.run(names, feed) for each in sessions]
    for index, plain, optimized in zip(kept, *results, strict=True):
        assert (optimized.shape, optimized.dtype) == (plain.shape, plain.dtype)
        if exact and not floats[index]:
            np.testing.assert_array_equal(optimized, plain, str(CHOICES[choice][index]))


EACH = [
    ("int8", "onnx-qdq", "default"),
    ("int8", "onnx-qoperator", "onnxruntime"),
    ("uint8", "onnx-qdq", "onnxruntime"),
    ("uint8", "onnx-qoperator", "default"),
    ("int16", "onnx-qdq", "default"),
    ("int16", "onnx-qoperator", "onnxruntime"),
    ("int8", "onnx-integer", "onnxruntime"),
    ("uint8", "onnx-qoperator", "onnxruntime"),
    ("int16", "onnx-qdq", "onnxruntime"),
    ("int8", "onnx-integer", "default"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "form", "numerics"), EACH)
def test_the_bits_are_the_same(precision: str, form: str, numerics: str, tmp_path: Path) -> None:
    check(share(precision), precision, form, numerics, tmp_path / "again.onnx")
