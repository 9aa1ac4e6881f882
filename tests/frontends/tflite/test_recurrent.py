"""Recurrent layers against LiteRT, call for call; what of them is not taken."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from tests.conftest import crossed
from tests.frontends.tflite.files import Op, T, constant, interpreter, model, run
from tests.frontends.tflite.test_cases import assert_agrees

BATCH, STEPS, WIDTH, HIDDEN = 2, 5, 3, 4
ABSENT = -1
TANH = 4

pytestmark = pytest.mark.filterwarnings("ignore")


def weights(name: str, *shape: int) -> T:
    random = np.random.default_rng(len(name) + sum(map(ord, name)))
    return constant(name, random.uniform(-0.8, 0.8, shape), np.float32)


def sequence(time_major: bool, *, steps: bool = True) -> tuple[int, ...]:
    if not steps:
        return (BATCH,)
    return (STEPS, BATCH) if time_major else (BATCH, STEPS)


def lstm(
    *, time_major: bool = False, peepholes: bool = False, absent: str = "", steps: bool = True, **options: Any
) -> bytes:
    """A layer without the tensor called `absent`; without `steps`, a call computes one step.

    `options` may replace tensors by name, too.
    """
    first = sequence(time_major, steps=steps)
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
    listed = [options.pop(t.name, t) for t in listed]
    tensors = [t for t in [*listed, *states] if t.name not in left_out]
    at = {t.name: i for i, t in enumerate(tensors)}
    inputs = [at.get(t.name, ABSENT) for t in listed] + [ABSENT, ABSENT, at["h"], at["c"]] + [ABSENT] * 4
    given = {"FusedActivationFunction": TANH, **({"TimeMajor": time_major} if steps else {}), **options}
    kind = "UNIDIRECTIONAL_SEQUENCE_LSTM" if steps else "LSTM"
    op = Op(kind, inputs, [len(tensors)], "UnidirectionalSequenceLSTMOptions" if steps else "LSTMOptions", given)
    return model([*tensors, T("y", (*first, HIDDEN))], [op], [0], [len(tensors)])


def rnn(
    *, time_major: bool = False, activation: int = TANH, steps: bool = True, options: Any = None, **changed: T
) -> bytes:
    first = sequence(time_major, steps=steps)
    tensors = [
        T("x", (*first, WIDTH)), weights("w", HIDDEN, WIDTH), weights("r", HIDDEN, HIDDEN), weights("b", HIDDEN),
        T("h", (BATCH, HIDDEN), variable=True), T("y", (*first, HIDDEN)),
    ]  # fmt: skip
    tensors = [changed.get(t.name, t) for t in tensors]
    options = {"FusedActivationFunction": activation, **({"TimeMajor": time_major} if steps else {}), **(options or {})}
    kind, table = ("UNIDIRECTIONAL_SEQUENCE_RNN", "SequenceRNNOptions") if steps else ("RNN", "RNNOptions")
    return model(tensors, [Op(kind, range(5), [5], table, options)], [0], [5])


def direction(kind: str, d: str, *, peepholes: bool) -> tuple[list[T | None], list[T]]:
    """The weights and the states of one of a layer's two directions; None for what is left out."""
    h = HIDDEN
    if kind == "RNN":
        own = [weights(f"{d}w", h, WIDTH), weights(f"{d}r", h, h), weights(f"{d}b", h)]
        return [*own, T(f"{d}h", (BATCH, h), variable=True)], []
    listed: list[T | None] = [weights(f"{d}{n}{g}", h, w) for n, w in (("w", WIDTH), ("r", h)) for g in "ifco"]
    listed += [weights(f"{d}p{g}", h) if peepholes else None for g in "ifo"]
    listed += [weights(f"{d}b{g}", h) for g in "ifco"]
    return [*listed, None, None], [T(f"{d}{n}", (BATCH, h), variable=True) for n in "hc"]


def bidirectional(
    kind: str, *, time_major: bool = False, merged: bool = False, peepholes: bool = False, steps: int = STEPS,
    linked: bool = False, options: Any = None, **changed: T,
) -> bytes:  # fmt: skip
    """A layer of two directions; `linked` gives it its input as the auxiliary input, too."""
    first = (steps, BATCH) if time_major else (BATCH, steps)
    parts, states = zip(*(direction(kind, d, peepholes=peepholes) for d in "fb"), strict=True)
    image = T("x", (*first, WIDTH))
    listed: list[T | None] = [image, *parts[0], *parts[1], *states[0], *states[1], image if linked else None]
    listed += [None] * (8 if kind == "LSTM" else 2)
    tensors = list({t.name: changed.get(t.name, t) for t in listed if t is not None}.values())
    at = {t.name: i for i, t in enumerate(tensors)}
    shapes = {"y": (*first, 2 * HIDDEN)} if merged else dict.fromkeys(("yf", "yb"), (*first, HIDDEN))
    outputs = list(range(len(tensors), len(tensors) + len(shapes)))
    options = {
        "FusedActivationFunction": TANH, "TimeMajor": time_major, "MergeOutputs": merged, **(options or {}),
    }  # fmt: skip
    inputs = [ABSENT if t is None else at[t.name] for t in listed]
    op = Op(f"BIDIRECTIONAL_SEQUENCE_{kind}", inputs, outputs, f"BidirectionalSequence{kind}Options", options)
    return model([*tensors, *(T(name, shape) for name, shape in shapes.items())], [op], [0], outputs)


def x(time_major: bool) -> list[np.ndarray]:
    return [np.random.default_rng(0).standard_normal((*sequence(time_major), WIDTH)).astype(np.float32)]


@pytest.mark.slow
@crossed({"peepholes": [False, True], "time_major": [False, True]})
def test_lstm(time_major: bool, peepholes: bool) -> None:
    assert_agrees(lstm(time_major=time_major, peepholes=peepholes), x(time_major), 0)


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("activation", [1, TANH])
def test_rnn(time_major: bool, activation: int) -> None:
    assert_agrees(rnn(time_major=time_major, activation=activation), x(time_major), 0)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_layers_of_two_directions(kind: str, *, time_major: bool, merged: bool) -> None:
    if kind == "LSTM" and merged and not time_major:
        pytest.skip("LiteRT joins the directions of several sequences from memory that it has not set")
    data = bidirectional(kind, time_major=time_major, merged=merged, peepholes=merged)
    theirs, module = interpreter(data, "litert-reference"), load_tflite(data)
    reference, executable = qmlir.reference(module), qmlir.compile(module)
    random = np.random.default_rng(0)
    for _ in range(3):  # the states live from call to call
        x = random.standard_normal(reference.signature.inputs[0].shape).astype(np.float32)
        wanted, found, again = run(theirs, [x]), executable.run(x), reference.run(x)
        assert len(wanted) == len(found) == (1 if merged else 2)
        for ours, other, their in zip(found, again, wanted, strict=True):
            np.testing.assert_array_equal(ours, other)
            np.testing.assert_allclose(ours, their, rtol=0, atol=1e-5)


def test_two_directions_of_one_step() -> None:
    data = bidirectional("LSTM", steps=1)
    x = np.random.default_rng(0).standard_normal((BATCH, 1, WIDTH)).astype(np.float32)
    for ours, their in zip(
        qmlir.reference(load_tflite(data)).run(x), run(interpreter(data, "litert-reference"), [x]), strict=True
    ):
        np.testing.assert_allclose(ours, their, rtol=0, atol=1e-5)


def as_bytes(tensor: T) -> T:
    """Weights as the converter stores them beside float data: int8 with one scale."""
    scale = float(np.float32(np.abs(tensor.data).max() / 127))
    stored = np.rint(tensor.data / scale).astype(np.int8)
    return T(tensor.name, tensor.shape, np.int8, stored, [scale], [0])


def hybrid(kind: str, *, asymmetric: bool) -> bytes:
    """A layer on floats whose weights, but for the biases, are stored as integers.

    The outputs of both directions stay apart: LiteRT joins those of several sequences from memory that it has not set.
    """
    options: dict[str, Any] = {"AsymmetricQuantizeInputs": asymmetric}
    if kind == "RNN":
        matrices: dict[str, Any] = {
            t.name: as_bytes(t) for t in (weights("w", HIDDEN, WIDTH), weights("r", HIDDEN, HIDDEN))
        }
        return rnn(options=options, **matrices)
    shapes = {"w": (HIDDEN, WIDTH), "r": (HIDDEN, HIDDEN)}
    if kind == "LSTM":
        own: dict[str, Any] = {f"{n}{g}": as_bytes(weights(f"{n}{g}", *shapes[n])) for n in "wr" for g in "ifco"}
        return lstm(**own, **options)
    both: dict[str, Any] = {
        f"{d}{n}{g}": as_bytes(weights(f"{d}{n}{g}", *shapes[n])) for d in "fb" for n in "wr" for g in "ifco"
    }
    return bidirectional("LSTM", options=options, **both)


@pytest.mark.slow
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "BIDIRECTIONAL"])
def test_weights_of_bytes_beside_floats(kind: str, *, asymmetric: bool) -> None:
    """LiteRT quantizes data and state anew at each step; products of the floats that weights stand for differ more."""
    data = hybrid(kind, asymmetric=asymmetric)
    theirs, module = interpreter(data, "litert-reference"), load_tflite(data)
    reference = qmlir.reference(module)
    executable = qmlir.compile(module) if kind == "RNN" else qmlir.reference(module)
    random = np.random.default_rng(0)
    for call in range(8):
        x = random.standard_normal(reference.signature.inputs[0].shape).astype(np.float32) * (call != 3)
        for found, again, wanted in zip(executable.run(x), reference.run(x), run(theirs, [x]), strict=True):
            np.testing.assert_array_equal(found, again)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6)


STORED = constant("wf", np.ones((HIDDEN, WIDTH)), np.int8, scale=[0.1])
"""Weights of bytes."""

CALLS = {
    "LSTM": lstm(steps=False), "LSTM with peepholes": lstm(steps=False, peepholes=True), "RNN": rnn(steps=False),
    "sequences of an LSTM": lstm(), "sequences of an RNN": rnn(time_major=True),
}  # fmt: skip


@pytest.mark.parametrize("layer", CALLS)
def test_states_live_from_call_to_call(layer: str) -> None:
    theirs, module = interpreter(CALLS[layer], "litert-reference"), load_tflite(CALLS[layer])
    reference, executable = qmlir.reference(module), qmlir.compile(module)
    random = np.random.default_rng(0)
    for _ in range(20):
        x = random.standard_normal(reference.signature.inputs[0].shape).astype(np.float32)
        (wanted,), found = run(theirs, [x]), executable(x)
        np.testing.assert_array_equal(found, reference(x))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    theirs.reset_all_variables()
    executable.reset()
    np.testing.assert_allclose(executable(x), run(theirs, [x])[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lstm(CellClip=1.5), "it clips its states"),
        (lstm(absent="wi"), "it has no input gate"),
        (lstm(steps=False, KernelType=1), "it is of LiteRT's kernel for unsigned bytes"),
        (lstm(FusedActivationFunction=3), "its activation 3 is none that qmlir's cells have"),
        (rnn(activation=0), "its activation 0 is none"),
        (lstm(wf=STORED), "only some of its weights are integers"),
        (rnn(w=replace(STORED, name="w"), steps=False), "only some of its weights are integers"),
        (rnn(x=T("x", (BATCH, STEPS, WIDTH), np.int8, scale=[0.1])), "LiteRT computes it on floats only"),
        (lstm(x=T("x", (BATCH, STEPS, WIDTH), np.int32)), "it computes on i32"),
        (bidirectional("LSTM", linked=True), "it has an auxiliary input"),
        (bidirectional("RNN", linked=True), "it has an auxiliary input"),
        (bidirectional("LSTM", fwf=replace(STORED, name="fwf")), "only some of its weights are integers"),
        (bidirectional("RNN", x=T("x", (BATCH, STEPS, WIDTH), np.int8, scale=[0.1])), "LiteRT computes it on floats"),
    ],
)
def test_what_is_not_taken(data: bytes, reason: str) -> None:
    (kind,) = opaque_report(load_tflite(data))
    assert reason in kind.reason
