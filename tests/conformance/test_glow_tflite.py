"""Glow's TFLite test models with their own inputs and outputs: each reproduces, in the reference and on the CPU.

Each file of numbers begins with a byte that is none of them. What is not supported is in `UNSUPPORTED` with its reason.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from qmlir.ir.signature import TensorSpec
from tests.frontends.tflite.files import litert

COUNT = 94
EPSILON = 1e-5
LEADING = 1

DETECTION, INPUTS = "tflite_detection_post_processing", {".inp0": "boxes", ".inp1": "scores"}

UNSUPPORTED: dict[str, str] = {}
"""Models with an operator that is not imported, and why."""

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]


def numbers(path: Path, spec: TensorSpec) -> np.ndarray:
    """The numbers of an input or output; models of detection share theirs, and have no outputs."""
    if DETECTION in path.name and path.suffix in INPUTS:
        path = path.with_name(f"{DETECTION}_{INPUTS[path.suffix]}.bin")
    return np.frombuffer(path.read_bytes()[LEADING:], spec.dtype).reshape(spec.shape)


def disagreement(path: Path) -> str:
    """Why a model does not reproduce; empty if it does."""
    module = load_tflite(path)
    module.verify()
    if report := opaque_report(module):
        return "; ".join(f"{k.kind}: {k.reason}" for k in report)
    meaning, machine = qmlir.reference(module), qmlir.compile(module)
    inputs = {s.name: numbers(path.with_suffix(f".inp{i}"), s) for i, s in enumerate(meaning.signature.inputs)}
    results = zip(meaning.signature.outputs, meaning.run(inputs), machine.run(inputs), strict=True)
    given = litert(str(path), list(inputs.values())) if DETECTION in path.name else None
    for i, (spec, got, computed) in enumerate(results):
        want = numbers(path.with_suffix(f".out{i}"), spec) if given is None else given[i]
        if not np.array_equal(got, computed, equal_nan=True):
            return f"output {i}: the CPU differs from the reference"
        if want.dtype.kind == "f" and not np.abs(want - got).max() <= EPSILON * np.abs(want).max():
            return f"output {i}: off by {np.abs(want - got).max():g} of {np.abs(want).max():g}"
        if want.dtype.kind != "f" and not np.array_equal(want, got):
            return f"output {i}: {np.count_nonzero(want != got)} of {want.size} differ"
    return ""


def test_each_model_reproduces(shared: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(shared("conformance/glow-tests-models/tfliteModels").glob("*.tflite"))
    assert len(paths) == COUNT
    found = {path.stem: why for path in paths if (why := disagreement(path))}
    with capsys.disabled():
        sys.stdout.write(f"\nGlow's {COUNT} TFLite models: {COUNT - len(found)} reproduce\n")
        sys.stdout.writelines(f"  {name}: {why}\n" for name, why in found.items())
    assert found == UNSUPPORTED
