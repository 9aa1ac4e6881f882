"""Bad TFLite files end in a typed error or in an import that verifies: no traceback, no hang, no flood of memory.

`make conformance` takes 2,000 mutants, `make test` 150 of them.
"""

import pytest

from qmlir.frontends.tflite import load_tflite
from tests.conformance.flatbuffer_mutations import Mutant, base_files, flatbuffer_mutant
from tests.conformance.survival import survey

MEMORY = 1 << 30

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def attempt(made: Mutant) -> str:
    """`imported`, unless it raises."""
    load_tflite(made.data).verify()
    return "imported"


def test_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    bases = base_files()
    survey(capsys, "mutated TFLite files", lambda number: flatbuffer_mutant(number, bases), attempt, MEMORY)
