"""Recurrent layers over sequences, against LiteRT's first call; what of them is not taken."""

from typing import Any

import numpy as np
import pytest

from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from tests.frontends.tflite.files import Op, T, constant, model
from tests.frontends.tflite.test_cases import assert_agrees

BATCH, STEPS, WIDTH, HIDDEN = 2, 5, 3, 4
ABSENT = -1
TANH = 4

pytestmark = pytest.mark.filterwarnings("ignore")


def weights(name: str, *shape: int) -> T:
    random = np.random.default_rng(len(name) + sum(map(ord, name)))
    return constant(name, random.uniform(-0.8, 0.8, shape), np.float32)


def sequence(time_major: bool) -> tuple[int, int]:
    return (STEPS, BATCH) if time_major else (BATCH, STEPS)


def lstm(*, time_major: bool = False, peepholes: bool = False, absent: str = "", **options: Any) -> bytes:
    """A layer without the tensor called `absent`."""
    first = sequence(time_major)
    gates = "ifco"
    listed = [
        T("x", (*first, WIDTH)),
        *(weights(f"w{g}", HIDDEN, WIDTH) for g in gates),
        *(weights(f"r{g}", HIDDEN, HIDDEN) for g in gates),
        *(weights(f"p{g}", HIDDEN) for g in "ifo"),
        *(weights(f"b{g}", HIDDEN) for g in gates),
    ]
    states = [T(n, (BATCH, HIDDEN), variable=True) for n in ("h", "c")]
    left_out = {absent} | (set() if peepholes else {"pi", "pf", "po"})
    tensors = [t for t in [*listed, *states] if t.name not in left_out]
    at = {t.name: i for i, t in enumerate(tensors)}
    inputs = [at.get(t.name, ABSENT) for t in listed] + [ABSENT, ABSENT, at["h"], at["c"]] + [ABSENT] * 4
    given = {"FusedActivationFunction": TANH, "TimeMajor": time_major, **options}
    op = Op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [len(tensors)], "UnidirectionalSequenceLSTMOptions", given)
    return model([*tensors, T("y", (*first, HIDDEN))], [op], [0], [len(tensors)])


def rnn(*, time_major: bool = False, activation: int = TANH) -> bytes:
    first = sequence(time_major)
    tensors = [
        T("x", (*first, WIDTH)), weights("w", HIDDEN, WIDTH), weights("r", HIDDEN, HIDDEN), weights("b", HIDDEN),
        T("h", (BATCH, HIDDEN), variable=True), T("y", (*first, HIDDEN)),
    ]  # fmt: skip
    options = {"FusedActivationFunction": activation, "TimeMajor": time_major}
    return model(tensors, [Op("UNIDIRECTIONAL_SEQUENCE_RNN", range(5), [5], "SequenceRNNOptions", options)], [0], [5])


def x(time_major: bool) -> list[np.ndarray]:
    return [np.random.default_rng(0).standard_normal((*sequence(time_major), WIDTH)).astype(np.float32)]


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
def test_lstm(time_major: bool, peepholes: bool) -> None:
    assert_agrees(lstm(time_major=time_major, peepholes=peepholes), x(time_major), 0)


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("activation", [1, TANH])
def test_rnn(time_major: bool, activation: int) -> None:
    assert_agrees(rnn(time_major=time_major, activation=activation), x(time_major), 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lstm(CellClip=1.5), "it clips its states"),
        (lstm(absent="wi"), "it has no input gate"),
        (lstm(FusedActivationFunction=3), "its activation 3 is none that qmlir's cells have"),
        (rnn(activation=0), "its activation 0 is none"),
    ],
)
def test_what_is_not_taken(data: bytes, reason: str) -> None:
    (kind,) = opaque_report(load_tflite(data))
    assert reason in kind.reason
