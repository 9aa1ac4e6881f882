"""Damaged files of every format that is read end in a typed error or a result; `make files` tries 5,000 of each."""

import pytest

from tests.conftest import THOROUGH
from tests.fuzz.files import FORMATS, outcome, survey

COUNT = 5000 if THOROUGH else 30

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FOUND = {
    "mlir": (1865, 4090, 4225),
    "safetensors": (3862, 4343),
    "toml": (33, 315, 619, 1414, 1810, 4764),
    "npz": (2151, 3518, 4313, 10, 17),
}
"""Files that once ended in something else."""


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files(kind: str) -> None:
    counts, wrong = survey(kind, range(COUNT))
    assert not wrong, "\n".join(f"{number}: {told}" for number, told in wrong.items())
    assert min(counts["read"], counts["refused"]) > 0, "they are all of one kind"


@pytest.mark.parametrize(("kind", "number"), [(kind, n) for kind, numbers in FOUND.items() for n in numbers])
def test_what_was_found(kind: str, number: int) -> None:
    assert outcome(kind, number) in ("read", "refused")
