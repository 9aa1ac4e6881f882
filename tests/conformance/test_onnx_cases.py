"""ONNX's own cases through the reference and the CPU: each passes, or is listed with qmlir's reason.

`make conformance` runs all of them (`QMLIR_CONFORMANCE=1`), `make test` each twentieth.
"""

import sys
from zlib import crc32

import onnx
import pytest

from tests.conformance import listing
from tests.conformance.cases import SUITES, Case, cases
from tests.conformance.outcomes import BACKENDS, FAILED, LISTED, PASSED, Outcome, Result
from tests.conformance.run import run
from tests.conformance.summary import summary
from tests.conftest import THOROUGH

LEAST = {"reference": 1760, "CPU": 1760}
"""How many of ONNX's 1,884 node cases pass on each back end."""

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def chosen() -> list[Case]:
    """All cases, or a twentieth that stays the same."""
    return [c for s in SUITES for c in cases(s) if THOROUGH or (s != "real" and crc32(c.name.encode()) % 20 == 0)]


def test_each_case_passes_or_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    taken = chosen()
    outcomes = run(taken)
    if THOROUGH:
        with capsys.disabled():
            sys.stdout.write("\n" + summary(taken, outcomes))
        assert not listing.unknown(taken)
        node = [o for (suite, _), o in outcomes.items() if suite == "node"]
        for backend, least in LEAST.items():
            assert listing.counts(node, backend)[PASSED] >= least
    wrong = listing.differences(outcomes)
    assert not wrong, "\n".join(wrong)


def test_the_list_sees_every_change() -> None:
    """A case that newly passes, is newly refused, or is refused otherwise; a defect always."""
    version, listed = listing.read()
    assert version == onnx.__version__, "update the list: python -m tests.conformance --update"
    key, (where, reason) = next(e for e in listed.items() if e[1][0] == "import")
    passes = next((c.suite, c.name) for c in cases("node") if (c.suite, c.name) not in listed)
    good, refused = Result(PASSED), Result(LISTED, reason)

    def seen(key: listing.Key, reference: Result, cpu: Result) -> list[str]:
        return listing.differences({key: Outcome((), reference, cpu)})

    assert (where, seen(key, refused, refused)) == ("import", [])
    assert "it passes, the list has: refused by import" in seen(key, good, good)[0]
    assert "refused by CPU" in seen(key, good, refused)[0]
    assert "refused by import: other, the list has" in seen(key, Result(LISTED, "other"), Result(LISTED, "other"))[0]
    assert seen(passes, good, good) == []
    assert "the list has: it passes" in seen(passes, refused, refused)[0]
    for backend in BACKENDS:
        bad = Result(FAILED, "wrong")
        both = (bad, good) if backend == "reference" else (good, bad)
        assert f"{backend}: wrong" in seen(passes, *both)[0]
