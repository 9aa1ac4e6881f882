"""TFLite operators are LiteRT's bits, or listed in `deviations.yaml` with a reason.

`make conformance` takes 8 draws of scales and zero points, holds the CPU to the reference on one, and prints the table;
`make test` takes one draw, of each operator two ways of storing numbers. Needs no models: the files are written here.
"""

from itertools import groupby

import pytest

from tests.conformance import deviations
from tests.conformance.litert import DRAWS, summary, totals
from tests.conformance.operators_tflite import subjects, survey
from tests.conftest import THOROUGH

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_operators(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = list(subjects())
    if not THOROUGH:
        stored = [list(each) for _, each in groupby(sorted(chosen, key=lambda s: s.name), key=lambda s: s.name)]
        chosen = [each[k % len(each)] for n, each in enumerate(stored) for k in (n, n + 1)[: len(each)]]
    draws = range(DRAWS) if THOROUGH else [1]
    surveyed = list(zip(chosen, survey(chosen, draws, machine=THOROUGH), strict=True))
    with capsys.disabled():
        print("\n" + (summary(surveyed) if THOROUGH else totals(surveyed)))  # noqa: T201
    wrong = deviations.differences(deviations.by_key(surveyed), whole=THOROUGH)
    assert not wrong, "\n".join(wrong)


def test_what_is_listed_is_surveyed() -> None:
    assert not deviations.unknown(subjects())
