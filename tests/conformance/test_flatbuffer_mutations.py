"""Bad TFLite files end in a typed error or in an import that verifies: no traceback, no hang, no flood of memory.

`make conformance` takes 2,000 mutants, `make test` 150 of them.
"""

import os
import traceback
import warnings
from collections import Counter

import numpy as np
import pytest

from qmlir.errors import QmlirError
from qmlir.frontends.tflite import load_tflite
from tests.conformance.flatbuffer_mutations import base_files, flatbuffer_mutant
from tests.conformance.isolation import Died, isolated

COUNT = 2000 if os.environ.get("QMLIR_CONFORMANCE") else 150
SECONDS = 10
MEMORY = 1 << 30

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

BASES: list[bytes] = []


def outcome(number: int) -> str:
    """`imported`, `refused`, or what went wrong."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    made = flatbuffer_mutant(number, BASES)
    try:
        load_tflite(made.data).verify()
    except QmlirError as error:
        text = str(error)
        return f"a bad text: {text[:300]}" if "\n" in text or len(text) > 2000 else "refused"
    except BaseException:
        return f"{made.how}: {traceback.format_exc()[-1500:]}"
    return "imported"


def test_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    BASES[:] = base_files()
    results = dict(isolated(outcome, range(COUNT), seconds=SECONDS, memory=MEMORY))
    counts = Counter("died" if isinstance(r, Died) else r if len(r) < 12 else "wrong" for r in results.values())
    with capsys.disabled():
        print(f"\n{COUNT} mutated TFLite files: {dict(counts)}")  # noqa: T201
    wrong = {n: r for n, r in sorted(results.items()) if r not in ("imported", "refused")}
    told = (f"{n} ({flatbuffer_mutant(n, BASES).how}): {r.why if isinstance(r, Died) else r}" for n, r in wrong.items())
    assert not wrong, "\n".join(told)
    assert min(counts["imported"], counts["refused"]) > COUNT // 20, "the mutants are all of one kind"
