"""Bad model files end in a typed error or in an import that verifies: no traceback, no hang, no flood of memory.

`make conformance` takes 2,000 mutants, `make test` 150 of them.
"""

import os
import re
import shutil
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from qmlir.errors import QmlirError
from qmlir.frontends.onnx import load_onnx
from tests.conformance.isolation import Died, isolated
from tests.conformance.mutations import base_models, mutant, write

COUNT = 2000 if os.environ.get("QMLIR_CONFORMANCE") else 150
SECONDS = 10
MEMORY = 2 << 30

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

BASES: list[bytes] = []


def outcome(number: int) -> str:
    """`imported`, `refused`, or what went wrong."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    made = mutant(number, BASES)
    folder = Path(tempfile.mkdtemp())
    try:
        module = load_onnx(write(folder, made))
        module.verify()
    except QmlirError as error:
        text = str(error)
        if "\n" in text or len(text) > 2000 or re.search(r"secret" * 2, text):
            return f"a bad text: {text[:300]}"
        return "refused"
    except BaseException:
        return f"{made.how}: {traceback.format_exc()[-1500:]}"
    finally:
        shutil.rmtree(folder)
    return "leaked" if "secretsecret" in str(module) else "imported"


def test_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    BASES[:] = base_models()
    results = dict(isolated(outcome, range(COUNT), seconds=SECONDS, memory=MEMORY))
    counts = Counter("died" if isinstance(r, Died) else r if len(r) < 12 else "wrong" for r in results.values())
    with capsys.disabled():
        print(f"\n{COUNT} mutated models: {dict(counts)}")  # noqa: T201
    wrong = {n: r for n, r in sorted(results.items()) if r not in ("imported", "refused")}
    told = (f"{n} ({mutant(n, BASES).how}): {r.why if isinstance(r, Died) else r}" for n, r in wrong.items())
    assert not wrong, "\n".join(told)
    assert min(counts["imported"], counts["refused"]) > COUNT // 20, "the mutants are all of one kind"
