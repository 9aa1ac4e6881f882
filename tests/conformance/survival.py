"""What becomes of damaged model files: a typed error of one paragraph, or an import that verifies, and nothing else."""

import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
import pytest

from qmlir.errors import QmlirError
from tests.conformance.isolation import Died, isolated
from tests.conftest import THOROUGH

COUNT = 2000 if THOROUGH else 150
SECONDS = 10


class Damaged(Protocol):
    """A file that is probably no good model, and how it was made."""

    @property
    def how(self) -> str: ...


M = TypeVar("M", bound=Damaged)


def survey(
    capsys: pytest.CaptureFixture[str],
    what: str,
    mutant: Callable[[int], M],
    attempt: Callable[[M], str],
    memory: int,
) -> None:
    """Tries `COUNT` mutants, each in a process of its own, and fails if one does harm.

    Args:
        capsys: To print the counts past pytest.
        what: What the mutants are, for the counts.
        mutant: Number → mutant, the same each time.
        attempt: Imports a mutant and verifies it: `imported`, or a word for what went wrong.
        memory: The most bytes a process may take.
    """

    def outcome(number: int) -> str:
        """`imported`, `refused`, or what went wrong."""
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        made = mutant(number)
        try:
            return attempt(made)
        except QmlirError as error:
            text = str(error)
            bad = "\n" in text or len(text) > 2000 or "secretsecret" in text
            return f"a bad text: {text[:300]}" if bad else "refused"
        except BaseException:
            return f"{made.how}: {traceback.format_exc()[-1500:]}"

    results = dict(isolated(outcome, range(COUNT), seconds=SECONDS, memory=memory))
    counts = Counter("died" if isinstance(r, Died) else r if len(r) < 12 else "wrong" for r in results.values())
    with capsys.disabled():
        print(f"\n{COUNT} {what}: {dict(counts)}")  # noqa: T201
    wrong = {n: r for n, r in sorted(results.items()) if r not in ("imported", "refused")}
    told = (f"{n} ({mutant(n).how}): {r.why if isinstance(r, Died) else r}" for n, r in wrong.items())
    assert not wrong, "\n".join(told)
    assert min(counts["imported"], counts["refused"]) > COUNT // 20, "the mutants are all of one kind"
