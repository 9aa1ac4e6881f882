"""TFLite operators are LiteRT's bits, or listed in `deviations.yaml` with a reason.

`make conformance` takes 8 draws of scales and zero points, holds the CPU to the reference on one, and prints the table;
`make test` takes one draw, of each operator two ways of storing numbers. Needs no models: the files are written here.
"""

import pytest

from tests.conformance import deviations
from tests.conformance.litert import DRAWS, summary, totals
from tests.conformance.operators_tflite import subjects, survey
from tests.conftest import THOROUGH, covering

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_operators(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = list(subjects())
    if not THOROUGH:
        formats = [frozenset({("name", hash(s.name)), ("format", hash(s.format))}) for s in chosen]
        chosen = [chosen[number] for number in covering(formats, times=2)]
    draws = range(DRAWS) if THOROUGH else [1]
    surveyed = list(zip(chosen, survey(chosen, draws, machine=THOROUGH), strict=True))
    with capsys.disabled():
        print("\n" + (summary(surveyed) if THOROUGH else totals(surveyed)))  # noqa: T201
    wrong = deviations.differences(deviations.by_key(surveyed), whole=THOROUGH)
    assert not wrong, "\n".join(wrong)


def test_what_is_listed_is_surveyed() -> None:
    assert not deviations.unknown(subjects())
