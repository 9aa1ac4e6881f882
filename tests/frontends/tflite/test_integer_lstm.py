"""LSTM on integers against LiteRT, call for call and bit for bit; what of it is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.compiler import to_integers
from qmlir.errors import NodeError, UnsupportedError
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from qmlir.numerics.elementary import gemmlowp
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.policies.runtimes import follow
from tests.conftest import THOROUGH
from tests.frontends.tflite.files import RESOLVERS, T, constant, interpreter, run
from tests.frontends.tflite.integer_cells import Form, lstm

CALLS = 100 if THOROUGH else 40

FORMS = {
    "plain": Form(),
    "coupled gates, step by step": Form(coupled=True, time_major=True),
    "peepholes, clipped": Form(peepholes=True, cell_clip=0.7, steps=2),
    "projected": Form(outputs=3, steps=2),
    "projected to more": Form(outputs=6, projection_bias=False, proj_clip=0.3, steps=2),
    "peepholes of fewer": Form(outputs=3, peepholes=True, steps=2),
    "peepholes of fewer, all at once": Form(outputs=3, peepholes=True, time_major=True, steps=2),
    "sums that saturate": Form(loud=8, exponent=-15, steps=2),
    "normalized": Form(norms=True, cells=16, steps=2),
    "normalized with all else": Form(
        norms=True, coupled=True, peepholes=True, outputs=3, cells=7, cell_clip=0.7, time_major=True, steps=2
    ),
    "one step": Form(one_step=True, coupled=True, peepholes=True, outputs=4, exponent=-9),
}


COMPILED = ("plain", "projected to more", "normalized with all else", "one step")
"""Forms that machine code is compared on, too; in a thorough run it is on all."""


def data_of(shape: tuple[int, ...]) -> list[np.ndarray]:
    """The inputs of `CALLS` calls."""
    random = np.random.default_rng(1)
    return [random.integers(-128, 128, shape).astype(np.int8) for _ in range(CALLS)]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_call_gives_the_bits_of_litert(form: str) -> None:
    data = lstm(FORMS[form])
    theirs, module = interpreter(data, "litert-reference"), load_tflite(data)
    follow(module, "litert-reference")
    networks: list[Any] = [qmlir.reference(module)]
    if form in COMPILED or THOROUGH:
        networks.append(qmlir.compile(module))
    inputs = data_of(networks[0].signature.inputs[0].shape)
    wanted = np.stack([run(theirs, [x])[0] for x in inputs])
    assert len(np.unique(wanted)) > 10
    theirs.reset_all_variables()
    again = run(theirs, [inputs[-1]])[0]
    for network in networks:
        np.testing.assert_array_equal([network(x) for x in inputs], wanted)
        network.reset()
        np.testing.assert_array_equal(network(inputs[-1]), again)


@pytest.mark.parametrize("numerics", RESOLVERS)
def test_litert_computes_alike_in_all_three_ways(numerics: str) -> None:
    data = lstm(FORMS["peepholes of fewer"], 1)
    theirs, module = interpreter(data, numerics), load_tflite(data)
    follow(module, numerics)
    reference = qmlir.reference(module)
    for x in data_of(reference.signature.inputs[0].shape)[:20]:
        np.testing.assert_array_equal(reference(x), run(theirs, [x])[0])


WORDS = {
    "words": Form(words=True),
    "words, step by step, clipped": Form(words=True, time_major=True, steps=2, exponent=-15, cell_clip=0.6),
    "words that saturate": Form(words=True, steps=2, loud=8, exponent=-9),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", WORDS)
def test_words_are_those_of_litert_for_microcontrollers(form: str) -> None:
    micro = pytest.importorskip("tflite_micro").runtime
    data = lstm(WORDS[form])
    theirs, module = micro.Interpreter.from_bytes(data), load_tflite(data)
    follow(module, "litert-reference")
    reference, executable = qmlir.reference(module), qmlir.compile(module)
    random = np.random.default_rng(1)
    for call in range(CALLS):
        if call == CALLS - 1:
            for network in (theirs, reference, executable):
                network.reset()
        x = random.integers(-(1 << 15), 1 << 15, reference.signature.inputs[0].shape).astype(np.int16)
        theirs.set_input(x, 0)
        theirs.invoke()
        wanted = theirs.get_output(0)
        np.testing.assert_array_equal(reference(x), wanted)
        np.testing.assert_array_equal(executable(x), wanted)


@pytest.mark.parametrize("numerics", ["default", "litert-reference"])
@pytest.mark.parametrize("form", [Form(outputs=3, coupled=True, peepholes=True, norms=True), Form(words=True)])
def test_no_float_is_left(form: Form, numerics: str) -> None:
    module = load_tflite(lstm(form))
    follow(module, numerics)
    types = {str(v.type) for op in to_integers(module).walk() for v in (*op.operands, *op.results)}
    assert not [t for t in types if "f32>" in t and "quant" not in t]


def test_gates_saturate_after_their_sum() -> None:
    """A recurrent sum that 16 bits do not hold still counts in full, beside an input of the other sign."""
    form = Form(batch=1, steps=1, width=1, cells=1)
    weights = {f"w{g}": constant(f"w{g}", [[-127]], np.int8, scale=[0.1]) for g in "ifco"}
    recurrent = {f"r{g}": constant(f"r{g}", [[127]], np.int8, scale=[0.1]) for g in "ifco"}
    biases = {f"b{g}": constant(f"b{g}", [0], np.int32) for g in "ifco"}
    data = lstm(form, 0, **weights, **recurrent, **biases)
    theirs, module = interpreter(data, "litert-reference"), load_tflite(data)
    follow(module, "litert-reference")
    reference = qmlir.reference(module)
    for q in (-128, -128, 127, 100, 40):
        x = np.full((1, 1, 1), q, np.int8)
        np.testing.assert_array_equal(reference(x), run(theirs, [x])[0])


@pytest.mark.parametrize(
    ("function", "real"), [(gemmlowp.logistic, lambda x: 1 / (1 + np.exp(-x))), (gemmlowp.hyperbolic_tangent, np.tanh)]
)
@pytest.mark.parametrize("integer_bits", [0, 3, 6])
def test_functions_of_16_bits(function: Any, real: Any, integer_bits: int) -> None:
    every = np.arange(-(1 << 15), 1 << 15)
    found = function(Lanes(every), integer_bits, gemmlowp.HALF_WORD).array
    np.testing.assert_allclose(found / 2**15, real(every / 2 ** (15 - integer_bits)), rtol=0, atol=4e-4)


INNER = [T(f"gate{i}", (0,), np.int8, scale=[0.1]) for i in range(12)]
HIDDEN = T("c", (2, 4), np.int16, scale=[0.001], variable=True)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lstm(Form(), rf=constant("rf", np.ones((4, 4)), np.int8, scale=[1e-38])), "sums of products have the scale"),
        (lstm(Form(), inner=INNER), "it has 12 intermediate tensors"),
        (lstm(Form(), FusedActivationFunction=1), "with the activation TANH only"),
        (lstm(Form(exponent=-8)), "its cell state has the scale 0.00390625"),
        (lstm(Form(), c=HIDDEN), "its cell state has the scale 0.001 "),
        (lstm(Form(), x=T("x", (2, 3, 5), np.uint8, scale=[0.001])), "on data stored as int8"),
        (lstm(Form(words=True, one_step=True)), "a layer on sequences also on int16"),
        (
            lstm(Form(words=True, coupled=True)),
            "on int16 without peepholes, normalizations, projections and coupled gates",
        ),
        (lstm(Form(words=True, peepholes=True)), "on int16 without peepholes, normalizations, projections"),
        (lstm(Form(words=True, norms=True)), "on int16 without peepholes, normalizations, projections"),
        (
            lstm(Form(words=True), h=T("h", (2, 4), np.int16, scale=[0.001], zero=[1], variable=True)),
            "its output state of int16 has a zero point",
        ),
        (
            lstm(Form(words=True), bo=constant("bo", np.ones(4), np.int32, scale=[0.1])),
            "its biases are int32, and LiteRT adds int64",
        ),
        (lstm(Form(outputs=6, peepholes=True)), "its peepholes are projected to more elements"),
        (
            lstm(Form(), wo=constant("wo", np.ones((4, 5)), np.int8, scale=[0.1], zero=[1])),
            "its weights are not constants stored as int8",
        ),
        (
            lstm(Form(), bo=constant("bo", np.ones(4), np.int64, scale=[0.1])),
            "its biases are int64, and LiteRT adds int32",
        ),
        (
            lstm(Form(), inner=[*INNER[:4], T("hidden", (0,), np.int8, scale=[0.1])]),
            "its output has the scale 0.1 and the zero point 0 as an intermediate tensor",
        ),
        (
            lstm(Form(outputs=3), inner=[*INNER[:4], T("hidden", (0,), np.int8, scale=[0.1], zero=[-128])]),
            "it projects integers with the zero point −128",
        ),
    ],
)
def test_what_is_refused(data: bytes, reason: str) -> None:
    (kind,) = opaque_report(load_tflite(data))
    assert reason in kind.reason


@pytest.mark.parametrize(
    ("changes", "need"),
    [
        ({"x": T("x", (2, 3, 4), np.int8, scale=[0.1])}, "its input must have 5 elements"),
        ({"x": T("x", (2, 5), np.int8, scale=[0.1])}, "its input must have 3 dimensions"),
        ({"wo": constant("wo", np.ones(4), np.int8, scale=[0.1])}, "its weights must have two dimensions"),
        ({"rf": constant("rf", np.ones((4, 2)), np.int8, scale=[0.1])}, r"recurrent weights must be of shape \[4, 4\]"),
        ({"bf": None}, r"its biases must be of shape \[4\]"),
        ({"h": None}, r"its state, input 18, must be of shape \[2, 4\]"),
        ({"inner": [*INNER[:4], T("hidden", (0,), np.int8)]}, "its intermediate tensor 4 must have a scale"),
    ],
)  # fmt: skip
def test_what_is_wrong(changes: dict[str, Any], need: str) -> None:
    with pytest.raises(NodeError, match=need):
        load_tflite(lstm(Form(), **changes))


def test_it_is_not_exported(tmp_path: Path) -> None:
    """Its sums have more bits than its data, in which the formats have no layers; nothing is written."""
    module = load_tflite(lstm(Form()))
    for name, message in (("m.tflite", "needs a result of int8 beside data of int8"), ("m.onnx", "must store 16 bits")):
        with pytest.raises(UnsupportedError, match=message):
            qmlir.export(module, tmp_path / name)
    assert not list(tmp_path.iterdir())
