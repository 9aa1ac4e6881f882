"""Every operation of nn, quantized, exported and read again: the same bits, in integers where it was in integers.

The exporter writes some functions of 16 bits as several operators on floats, for want of an operator of TFLite's. One
network holds samples of all operations side by side, each with inputs and an output of its own.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32

import qmlir
from qmlir.backends.tflite import EXPORTS
from qmlir.compiler import Pipeline
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.ir.signature import signature_of
from qmlir.stages import IMPORTED
from tests.backends.side_by_side import main, on_floats, run, side_by_side
from tests.backends.tflite.test_samples import MISSING, refusal
from tests.conftest import THOROUGH
from tests.fuzz.checks import learnt
from tests.ops.samples import SAMPLES, Array

OTHERWISE = {
    "nn.layer_norm": "it is computed on floats, in several operators that round each",
    "nn.rms_norm": "it is computed on floats, in several operators that round each",
    "nn.lp_normalization-of_absolute_values": "it is computed on floats, in several operators that round each",
    "nn.attend": "its softmax is an operator by itself there, whose probabilities are rounded",
}
"""Operations and samples that may come out otherwise, and why."""

ON_FLOATS = {
    "nn.top_k-smallest,_all": "the largest of the opposite numbers, which TFLite has as floats only",
}
"""Samples that are computed on floats when they are read again, with the same results, and why."""

TIES = {"uint8": {"nn.average_pool2d"}}
"""Precision → operations whose ties may go the other way: averages round them away from the stored 0.

A network with signed bytes beside unsigned ones goes out with signed bytes only, whose 0 is another number.
"""

ALL = [
    s
    for s in SAMPLES
    if s.op in EXPORTS.entries
    and s.op.name not in OTHERWISE
    and str(s) not in OTHERWISE
    and refusal(s) is None
    and any(o.element == f32 for o in s.operands)
]
"""Samples that are quantized where the operation can be, and have a form in TFLite."""

TABLES = [s for s in SAMPLES if s.op in MISSING and issubclass(s.op, FunctionOp) and s.operands[0].element == f32]
"""Samples of functions that TFLite lacks, which go out as tables of bytes."""

OF_BYTES = [*ALL, *TABLES]

CHOICES = {
    "all": ALL,
    "all of bytes": OF_BYTES,
    **{f"third {n}": ALL[n::3] for n in range(3)},
    **{f"third {n} of bytes": OF_BYTES[n::3] for n in range(3)},
}
"""Which samples a network holds."""

OPTIONS: dict[str, dict[str, Any]] = {"int16": {"schema": "symmetric", "weight_precision": "int8"}}
"""What TFLite's form of a precision asks for."""


@cache
def quantized(precision: str, choice: str) -> tuple[ModuleOp, list[Array]]:
    """A network of samples, quantized, and its inputs."""
    module, arrays = side_by_side(CHOICES[choice])
    feed = dict(zip((i.name for i in signature_of(main(module)).inputs), arrays, strict=True))
    return qmlir.quantize(
        module, learnt(module, [feed], 128), precision=precision, **OPTIONS.get(precision, {})
    ), arrays


def check(choice: str, precision: str, path: Path) -> None:
    if precision != "int16":
        choice += " of bytes"
    module, arrays = quantized(precision, choice)
    qmlir.export(module, path, format="tflite")
    again = Pipeline(*IMPORTED)(qmlir.load(path))
    outputs = zip(CHOICES[choice], run(again, arrays), run(module, arrays), strict=True)
    different = [str(sample) for sample, ours, theirs in outputs if not np.array_equal(ours, theirs, equal_nan=True)]
    assert [each for each in different if each.split("-")[0] not in TIES.get(precision, ())] == []
    outcomes = zip(CHOICES[choice], on_floats(again), on_floats(module), strict=True)
    floats = {str(sample) for sample, ours, theirs in outcomes if ours and not theirs}
    assert floats == ON_FLOATS.keys() & set(map(str, CHOICES[choice]))


PRECISIONS = ("int8", "uint8", "int16")


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_bits_are_the_same(precision: str, tmp_path: Path) -> None:
    """`make test` takes a third of them under each precision, and each sample under one."""
    check("all" if THOROUGH else f"third {PRECISIONS.index(precision)}", precision, tmp_path / "again.tflite")
