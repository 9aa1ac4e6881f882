"""Variables of TFLite models, call for call as LiteRT keeps them; what of them is not taken."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import NodeError
from qmlir.frontends.opaque import opaque_report, refuse_opaque
from qmlir.frontends.tflite import load_tflite
from qmlir.ir.signature import main_function
from qmlir.ir.states import states_of
from qmlir.policies.runtimes import follow
from tests.conftest import crossed
from tests.frontends.tflite.files import RESOLVERS, Array, Op, T, constant, interpreter, model, run
from tests.frontends.tflite.streaming import NAME, frames, handle, keywords

ACT = "FusedActivationFunction"
CALLS = 100

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
@pytest.mark.parametrize("numerics", RESOLVERS)
def test_a_keyword_model_equals_litert_call_for_call(numerics: str, tmp_path: Path) -> None:
    data = keywords()
    (tmp_path / "net.tflite").write_bytes(data)
    module = qmlir.load(tmp_path / "net.tflite", numerics=numerics)
    refuse_opaque(module, "the model")
    theirs, reference, executable = interpreter(data, numerics), qmlir.reference(module), qmlir.compile(module)
    assert sorted(executable.state) == ["frames", "window"]
    results = set[bytes]()
    for x in frames(CALLS):
        (wanted,) = run(theirs, [x])
        found = executable(x)
        np.testing.assert_array_equal(found, reference(x))
        np.testing.assert_array_equal(found, wanted)
        results.add(found.tobytes())
    assert len(results) > CALLS / 2
    executable.reset()
    np.testing.assert_array_equal(executable(next(frames(1))), run(interpreter(data, numerics), [next(frames(1))])[0])


def test_a_keyword_model_on_a_device() -> None:
    module = load_tflite(keywords())
    device, reference = qmlir.compile(module, target="ethos-u55-like"), qmlir.reference(module, "ethos-u55-like")
    for x in frames(5):
        np.testing.assert_array_equal(device(x), reference(x))


# ---------------------------------------------------------------------------------------------------------------
# SVDF


def svdf(
    *,
    quantized: bool,
    activation: int = 1,
    rank: int = 2,
    batch: int = 2,
    biased: bool = True,
    places: int = 4,
    **changed: Any,
) -> bytes:
    """A layer of 8 filters; `changed` replaces tensors."""
    random = np.random.default_rng(rank)
    filters, width, units = 8, 6, 8 // rank

    def weights(name: str, shape: tuple[int, ...], dtype: Any, most: int, scale: float) -> T:
        if not quantized:
            return constant(name, random.standard_normal(shape), np.float32)
        return constant(name, random.integers(-most, most, shape), dtype, scale=[scale])

    def data(name: str, shape: tuple[int, ...], dtype: Any, scale: float, zero: int, **more: Any) -> T:
        return T(name, shape, dtype, scale=[scale], zero=[zero], **more) if quantized else T(name, shape, **more)

    tensors = {
        "x": data("x", (batch, width), np.int8, 0.047, 3),
        "wf": weights("wf", (filters, width), np.int8, 127, 0.013),
        "wt": weights("wt", (filters, places), np.int16, 20000, 1 / 32768),
        "b": weights("b", (units,), np.int32, 1000, 0.0017 / 32768),
        "s": data("s", (batch, filters * places), np.int16, 0.0017, 0, variable=True),
        "y": data("y", (batch, units), np.int8, 0.061, -128 if activation else 4),
    }
    options = {"Rank": rank, ACT: activation}
    inputs = [0, 1, 2, 3 if biased else -1, 4]
    return model([*{**tensors, **changed}.values()], [Op("SVDF", inputs, [5], "SVDFOptions", options)], [0], [5])


@crossed({"biased": [True, False], "rank": [1, 2], "numerics": RESOLVERS})
def test_svdf_on_bytes(numerics: str, rank: int, biased: bool) -> None:
    assert_steps(svdf(quantized=True, rank=rank, biased=biased), numerics, 0.0)


def test_svdf_of_one_place() -> None:
    assert_steps(svdf(quantized=True, places=1), "litert-reference", 0.0, 5)


@pytest.mark.parametrize("activation", [0, 1, 3])
def test_svdf_on_floats(activation: int) -> None:
    assert_steps(svdf(quantized=False, activation=activation), "litert-reference", 1e-5)


def assert_steps(data: bytes, numerics: str, epsilon: float, calls: int = 30) -> None:
    """The results of calls one after another are within ε of LiteRT's, and machine code equals the reference."""
    module = load_tflite(data)
    refuse_opaque(module, "the layer")
    follow(module, numerics)
    theirs, reference, executable = interpreter(data, numerics), qmlir.reference(module), qmlir.compile(module)
    (spec,) = reference.signature.inputs
    random = np.random.default_rng(0)
    for _ in range(calls):
        x = random.standard_normal(spec.shape).astype(np.float32)
        if spec.dtype != np.float32:
            x = random.integers(-128, 128, spec.shape).astype(spec.dtype)
        (wanted,), found = run(theirs, [x]), executable(x)
        np.testing.assert_array_equal(found, reference(x))
        assert np.abs(found.astype(np.float64) - wanted).max() <= epsilon * max(np.abs(wanted).max(), 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (svdf(quantized=True, activation=0), "with the activation RELU only"),
        (svdf(quantized=True, s=T("s", (2, 32), np.int16, scale=[0.1], zero=[1], variable=True)), "with zero point 0"),
        (svdf(quantized=False, s=T("s", (2, 32), np.int16, scale=[0.1], variable=True)), "not stored as LiteRT does"),
        (svdf(quantized=False, s=constant("s", np.zeros((2, 32)), np.float32)), 'its state "s" is no variable tensor'),
        (svdf(quantized=False, s=T("s", (2, 32), np.int64, variable=True)), "on f32 with a state of i64"),
        (
            svdf(quantized=False, wf=constant("wf", np.ones((8, 6)), np.int8, scale=[0.1])),
            "its weights are integers beside float data",
        ),
    ],
)
def test_svdf_that_is_not_taken(data: bytes, reason: str) -> None:
    (kind,) = opaque_report(load_tflite(data))
    assert reason in kind.reason


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (svdf(quantized=False, s=T("s", (2, 31), variable=True)), "must fit its input"),
        (svdf(quantized=False, s=T("s", (2, 4, 8), variable=True)), "must have rank 2"),
    ],
)
def test_svdf_that_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(NodeError, match=message):
        load_tflite(data)


# ---------------------------------------------------------------------------------------------------------------
# Resource variables


ADD, RELU = ("AddOptions", {ACT: 0}), ("", {})


def counter(
    *, initial: Sequence[Op] | None = None, assigns: bool = True, held: Array | None = None, assigned: int = 3
) -> bytes:
    """y = relu(sum of all x so far), from 0.5 on."""
    first = constant("first", np.full((1, 4), 0.5) if held is None else held, np.float32)
    given = [Op("VAR_HANDLE", [], [0], "VarHandleOptions", NAME), Op("ASSIGN_VARIABLE", [0, 1], [])]
    others = [([handle(), first, T("computed", (1, 4))], given if initial is None else initial, [], [])]
    tensors = [T("x", (1, 4 if assigned else 1)), handle(), T("old", (1, 4)), T("new", (1, 4)), T("y", (1, 4))]
    operators = [
        Op("CALL_ONCE", [], [], "CallOnceOptions", {"InitSubgraphIndex": 1}),
        Op("VAR_HANDLE", [], [1], "VarHandleOptions", NAME),
        Op("READ_VARIABLE", [1], [2], "ReadVariableOptions"),
        Op("ADD", [0, 2], [3], *ADD),
        *([Op("ASSIGN_VARIABLE", [1, assigned], [])] if assigns else []),
        Op("RELU", [3], [4]),
    ]
    return model(tensors, operators, [0], [4], others=others)


def test_a_resource() -> None:
    assert_steps(counter(), "litert-reference", 0.0)
    (state,) = states_of(main_function(load_tflite(counter()))).values()
    assert state.index == 1


def test_a_resource_that_is_only_read_is_a_constant() -> None:
    assert not states_of(main_function(load_tflite(counter(assigns=False))))
    assert_steps(counter(assigns=False), "litert-reference", 0.0)


def test_a_resource_that_is_written_first_is_no_state() -> None:
    tensors = [T("x", (1, 4)), handle(), T("y", (1, 4))]
    operators = [
        Op("VAR_HANDLE", [], [1], "VarHandleOptions", NAME),
        Op("ASSIGN_VARIABLE", [1, 0], []),
        Op("READ_VARIABLE", [1], [2], "ReadVariableOptions"),
    ]
    module = load_tflite(model(tensors, operators, [0], [2]))
    assert not states_of(main_function(module))
    x = np.arange(4, dtype=np.float32)[None]
    np.testing.assert_array_equal(qmlir.reference(module)(x), x)


def test_resources_that_are_not_taken() -> None:
    undefined = load_tflite(counter(initial=[]))
    assert {k.kind: k.reason for k in opaque_report(undefined)} == {
        "tflite.READ_VARIABLE": 'no CALL_ONCE gives its variable "frames" a value'
    }
    (other,) = opaque_report(load_tflite(counter(held=np.zeros((1, 1)))))
    assert other.reason == 'a CALL_ONCE gives its variable "frames" float32[1, 1], and it reads tensor<1x4xf32>'
    (shape,) = opaque_report(load_tflite(counter(assigned=0)))
    assert shape.reason == 'it assigns tensor<1x1xf32> to its variable "frames", which is tensor<1x4xf32>'


def test_what_a_refused_subgraph_has_assigned_is_taken_back() -> None:
    inner = [T("a", (1, 4)), handle(), T("b", (1, 4)), T("c", (1, 4))]
    refused = [
        Op("VAR_HANDLE", [], [1], "VarHandleOptions", NAME),
        Op("RELU", [0], [2]),
        Op("ASSIGN_VARIABLE", [1, 2], []),
        Op("CUSTOM.Mine", [2], [3]),
    ]
    tensors = [T("x", (1, 4)), handle(), T("y", (1, 4)), T("z", (1, 4)), T("sum", (1, 4))]
    operators = [
        Op("VAR_HANDLE", [], [1], "VarHandleOptions", NAME),
        Op("ASSIGN_VARIABLE", [1, 0], []),
        Op("CALL", [0], [2], "CallOptions", {"Subgraph": 1}),
        Op("READ_VARIABLE", [1], [3], "ReadVariableOptions"),
        Op("ADD", [2, 3], [4], *ADD),
    ]
    module = load_tflite(model(tensors, operators, [0], [4], others=[(inner, refused, [0], [3])]))
    module.verify()
    assert [kind.kind for kind in opaque_report(module)] == ["tflite.CALL"]


def test_a_variable_tensor_of_any_operator() -> None:
    tensors = [T("x", (2, 4)), T("s", (2, 4), variable=True), T("y", (2, 4))]
    module = load_tflite(model(tensors, [Op("ADD", [0, 1], [2], *ADD)], [0], [2]))
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(qmlir.reference(module)(x), x)
