"""Calls on bound arrays read and fill these very arrays, and need nothing but what they hold."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from qmlir.errors import InputError
from tests.backends.cpu.test_jit import WEIGHTS, B, X, executable

OFFSETS = WEIGHTS.reshape(64, 64)


def test_calls_follow_what_the_arrays_hold() -> None:
    x, b = X.copy(), B.copy()
    call = executable().bind({"b": b, "x": x})
    first = call()
    assert list(first) == ["y", "c"]
    assert (first["y"] == x + OFFSETS).all()
    x += 1
    b[...] = -3
    second = call()
    assert second["y"] is first["y"] is call.results[0]
    assert (second["y"] == x + OFFSETS).all()
    assert second["c"].tolist() == [[-3]]
    assert call.inputs[0] is x


def test_a_bound_call_keeps_its_executable() -> None:
    call = executable().bind({"x": X, "b": B})
    for _ in range(3):
        executable()({"x": X, "b": B})
        gc.collect()
    assert (call()["y"] == X + OFFSETS).all()


def test_bound_calls_side_by_side() -> None:
    exe = executable()
    calls = [exe.bind({"x": np.full((64, 64), i, np.float32), "b": B}) for i in range(16)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for i, result in enumerate(pool.map(lambda call: call(), calls)):
                assert (result["y"] == i + OFFSETS).all()


@pytest.mark.parametrize("x", [np.asfortranarray(X), X.astype(">f4"), np.zeros((64, 128), np.float32)[:, ::2]])
def test_refuses_an_array_that_it_would_have_to_copy(x: np.ndarray) -> None:
    with pytest.raises(InputError, match=r'input "x".*read where it is'):
        executable().bind({"x": x, "b": B})


def test_refuses_what_a_call_refuses() -> None:
    with pytest.raises(InputError, match=r"must be float32\[64, 64\]"):
        executable().bind({"x": X[:1], "b": B})
