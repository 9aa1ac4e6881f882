"""Bad model files end in a typed error or in an import that verifies: no traceback, no hang, no flood of memory.

`make conformance` takes 2,000 mutants, `make test` 150 of them.
"""

import shutil
import tempfile
from pathlib import Path

import pytest

from qmlir.frontends.onnx import load_onnx
from tests.conformance.mutations import Mutant, base_models, mutant, write
from tests.conformance.survival import survey

MEMORY = 2 << 30

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def attempt(made: Mutant) -> str:
    """`imported`, or `leaked` where a file outside the model's folder came in."""
    folder = Path(tempfile.mkdtemp())
    try:
        module = load_onnx(write(folder, made))
        module.verify()
    finally:
        shutil.rmtree(folder)
    return "leaked" if "secretsecret" in str(module) else "imported"


def test_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    bases = base_models()
    survey(capsys, "mutated models", lambda number: mutant(number, bases), attempt, MEMORY)
