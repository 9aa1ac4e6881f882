"""Profiles collected in several threads: the same profile, the error of the first sample, arrays used again."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.errors import ProfileError
from qmlir.profiles import collect as collecting
from qmlir.profiles.collect import collect, threads_for
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import IN_NUMPY

Array = npt.NDArray[Any]


def empty() -> Profile:
    return Profile.empty({"x": (50,), "y": (50,)}, 16)


def evaluate(sample: Sequence[Array]) -> Mapping[str, Array]:
    (x,) = sample
    # Samples that were taken first end last.
    time.sleep(0.002 if x[0, 0] < 0 else 0)
    return {"x": x, "y": x * x}


def samples() -> Iterator[list[Array]]:
    """Each sample is in the same array as the one before."""
    held = np.empty((1, 50), np.float32)
    for seed in range(12):
        held[:] = np.random.default_rng(seed).standard_normal((1, 50))
        held[0, 0] = -1 if seed % 3 == 0 else 1
        yield [held]


def profiled(threads: int) -> Profile:
    return collect(samples(), evaluate, empty, IN_NUMPY, 400, threads)


def state(found: Profile) -> list[Any]:
    tensors = [
        (t.count, t.lo, t.hi, t.exponent, t.counts.tolist(), t.moments, t.extremes) for t in found.tensors.values()
    ]
    return [found.samples, list(found.tensors), *tensors]


@pytest.mark.parametrize("threads", [2, 3, 20])
def test_any_number_of_threads_has_the_same_profile(threads: int) -> None:
    assert state(profiled(threads)) == state(profiled(1))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_error_is_that_of_the_first_sample_that_fails(threads: int) -> None:
    def some_bad() -> Iterator[list[Array]]:
        for number, (x,) in enumerate(samples()):
            if number in (6, 7, 8):  # the first of them is slow
                x[0, 1] = np.nan
            yield [x]

    with pytest.raises(ProfileError, match="NaN on sample 6 "):
        collect(some_bad(), evaluate, empty, IN_NUMPY, 400, threads)


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_of_the_iterator_comes_after_those_of_samples(threads: int) -> None:
    def ends(bad: bool) -> Iterator[list[Array]]:
        x = np.full((1, 50), -1, np.float32)
        yield [x]
        yield [np.full((1, 50), np.inf if bad else 1, np.float32)]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        collect(ends(False), evaluate, empty, IN_NUMPY, 400, threads)
    with pytest.raises(ProfileError, match="infinity on sample 1 "):
        collect(ends(True), evaluate, empty, IN_NUMPY, 400, threads)


def test_samples_are_taken_in_the_callers_thread() -> None:
    takers: set[int] = set()

    def taken() -> Iterator[list[Array]]:
        for sample in samples():
            takers.add(threading.get_ident())
            yield sample

    collect(taken(), evaluate, empty, IN_NUMPY, 400, 3)
    assert takers == {threading.get_ident()}


def test_no_more_threads_than_pay_and_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "processors", lambda: 8)
    assert [threads_for(size) for size in (100, 2 << 20, 200 << 20, 1 << 40)] == [1, 8, 2, 1]
