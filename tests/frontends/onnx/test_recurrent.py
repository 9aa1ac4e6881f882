"""RNN, GRU and LSTM against onnxruntime, and against ONNX's own reference where that knows more."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from qmlir.backends.reference import evaluate
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from tests.conftest import crossed
from tests.frontends.onnx.agreement import (
    Array,
    agree,
    assert_close,
    floats,
    load,
    main_of,
    model,
    node,
    onnxruntime_run,
    reason,
)

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
T, N, WIDTH, H = 4, 3, 5, 6
"""Steps, batch, elements of the input, elements of the state."""


def parameters(operator: str, directions: int = 1) -> dict[str, Array]:
    """Weights and biases, of a size that leaves the functions room."""
    rows = GATES[operator] * H
    shapes = {"w": (directions, rows, WIDTH), "r": (directions, rows, H), "b": (directions, 2 * rows)}
    return {name: floats(*shape, seed=i) / 2 for i, (name, shape) in enumerate(shapes.items())}


def states(operator: str, directions: int = 1) -> dict[str, list[int]]:
    return {name: [directions, N, H] for name in (("h", "c") if operator == "LSTM" else ("h",))}


def outputs_of(operator: str) -> tuple[str, ...]:
    return ("y", "yh", "yc") if operator == "LSTM" else ("y", "yh")


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", GATES)
def test_all_outputs(operator: str, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    outputs = outputs_of(operator)
    recurrent = node(
        operator, f"x w r b _ {' '.join(states(operator))}", " ".join(outputs), hidden_size=H, direction=direction
    )
    agree(
        model(recurrent, {"x": [T, N, WIDTH]} | states(operator, count), parameters(operator, count), outputs=outputs)
    )


@pytest.mark.parametrize("operator", GATES)
def test_halves_are_computed_in_f32(operator: str) -> None:
    """In steps of halves near 1, a GRU's 1 − z would be 0 where z is 0.9999."""
    constants = {name: (6 * array).astype(np.float16) for name, array in parameters(operator).items()}
    nodes = [
        node("Cast", "x", "x16", to=TensorProto.FLOAT16),
        node(operator, "x16 w r b", "y16", hidden_size=H),
        node("Cast", "y16", "y", to=TensorProto.FLOAT),
    ]
    proto = model(nodes, {"x": [T, N, WIDTH]}, constants)
    x = floats(T, N, WIDTH).astype(np.float16).astype(np.float32)  # onnxruntime need not round what it widens again
    (ours,), (theirs,) = evaluate(main_of(load(proto)), [x]), onnxruntime_run(proto, {"x": x})
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2**-23)


@pytest.mark.parametrize("operator", GATES)
def test_without_bias_and_states(operator: str) -> None:
    constants = parameters(operator)
    del constants["b"]
    agree(model(node(operator, "x w r", hidden_size=H), {"x": [T, N, WIDTH]}, constants))
    agree(model(node(operator, "x w r", "_ y", hidden_size=H), {"x": [1, 1, WIDTH]}, constants))


@pytest.mark.parametrize("operator", GATES)
def test_computed_weights(operator: str) -> None:
    shapes = {name: array.shape for name, array in parameters(operator, 2).items()}
    agree(model(node(operator, "x w r b", hidden_size=H, direction="bidirectional"), {"x": [T, N, WIDTH]} | shapes))


@crossed({"constant": [True, False], "operator": GATES, "direction": ["forward", "reverse", "bidirectional"]})
def test_sequences_of_different_length(operator: str, direction: str, constant: bool) -> None:
    count = 2 if direction == "bidirectional" else 1
    lengths, outputs = np.array([2, 4, 1], np.int32), outputs_of(operator)
    recurrent = node(operator, "x w r b lengths", " ".join(outputs), hidden_size=H, direction=direction)
    given = {"lengths": lengths}
    proto = model(recurrent, {"x": [T, N, WIDTH]}, parameters(operator, count) | given, outputs=outputs)
    if constant:
        agree(proto)
        return
    x, (wanted, *_) = floats(T, N, WIDTH), onnxruntime_run(proto, {"x": floats(T, N, WIDTH)})
    proto.graph.initializer.pop()
    proto.graph.input.append(onnx.helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, [N]))
    assert_close(evaluate(main_of(load(proto)), [x, lengths])[0], wanted)


ACTIVATIONS: list[dict[str, Any]] = [
    {"activations": ["Relu"]},
    {"activations": ["LeakyRelu"], "activation_alpha": [0.3]},
    {"activations": ["Affine"], "activation_alpha": [0.6], "activation_beta": [0.1]},
    {"activations": ["ScaledTanh"], "activation_alpha": [0.6], "activation_beta": [0.4]},
    {"activations": ["HardSigmoid"]},
    {"activations": ["Elu"], "activation_alpha": [0.7]},
    {"activations": ["ThresholdedRelu"], "activation_alpha": [0.2]},
    {"activations": ["Softsign"]},
    {"activations": ["Softplus"]},
    {"clip": 0.4},
]


@pytest.mark.parametrize("attributes", ACTIVATIONS, ids=lambda a: "-".join(a.get("activations", ["clip"])))
def test_functions(attributes: dict[str, Any]) -> None:
    agree(model(node("RNN", "x w r b", hidden_size=H, **attributes), {"x": [T, N, WIDTH]}, parameters("RNN")))


@pytest.mark.parametrize("attributes", [
    {"linear_before_reset": 1}, {"clip": 0.3}, {"activations": ["HardSigmoid", "Softsign"]},
])  # fmt: skip
def test_gru(attributes: dict[str, Any]) -> None:
    agree(model(node("GRU", "x w r b", hidden_size=H, **attributes), {"x": [T, N, WIDTH]}, parameters("GRU")))


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("attributes", [
    {}, {"input_forget": 1}, {"clip": 0.3}, {"activations": ["HardSigmoid", "Relu", "Tanh"]},
])  # fmt: skip
def test_lstm(attributes: dict[str, Any], peepholes: bool) -> None:
    constants = parameters("LSTM") | {"p": floats(1, 3 * H, seed=9)}
    inputs = "x w r b _ _ _ p" if peepholes else "x w r b"
    agree(model(node("LSTM", inputs, hidden_size=H, **attributes), {"x": [T, N, WIDTH]}, constants))


def test_functions_of_each_direction_in_order() -> None:
    attributes = {
        "activations": ["LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid"],
        "activation_alpha": [0.3, 0.15],
        "activation_beta": [0.45],
        "direction": "bidirectional",
    }
    agree(model(node("GRU", "x w r b", hidden_size=H, **attributes), {"x": [T, N, WIDTH]}, parameters("GRU", 2)))


@pytest.mark.parametrize("operator", GATES)
def test_batch_first(operator: str) -> None:
    """As with time first, transposed; onnxruntime has no such layout."""
    outputs, shapes = outputs_of(operator), states(operator)
    attributes = {"hidden_size": H, "direction": "reverse"}
    inputs = f"x w r b _ {' '.join(shapes)}"
    shared, weights = " ".join(outputs), parameters(operator)
    time_first = model(
        node(operator, inputs, shared, **attributes), {"x": [T, N, WIDTH]} | shapes, weights, outputs=outputs
    )
    batch_first = model(
        node(operator, inputs, shared, layout=1, **attributes),
        {"x": [N, T, WIDTH]} | {name: [N, 1, H] for name in shapes},
        weights,
        outputs=outputs,
    )
    arrays = [floats(T, N, WIDTH), *(floats(1, N, H, seed=i + 1) for i, _ in enumerate(shapes))]
    wanted = evaluate(main_of(load(time_first)), arrays)
    got = evaluate(main_of(load(batch_first)), [np.ascontiguousarray(a.swapaxes(0, 1)) for a in arrays])
    assert np.array_equal(got[0], wanted[0].transpose(2, 0, 1, 3))
    for ours, other in zip(got[1:], wanted[1:], strict=True):
        assert np.array_equal(ours, other.swapaxes(0, 1))


def test_names_say_where_a_value_belongs() -> None:
    module = load(model(node("RNN", "x w r b", hidden_size=H), {"x": [2, N, WIDTH]}, parameters("RNN")))
    text = str(module)
    for name in ("y.forward.inputs", "y.forward.0.recurrent", "y.forward.1.hidden"):
        assert f'"{name}"' in text


def test_what_is_refused_and_what_does_not_fit() -> None:
    constants = parameters("RNN")
    assert "unrolled into 2000 steps" in reason(
        model(node("RNN", "x w r b", hidden_size=H), {"x": [2000, 1, WIDTH]}, constants)
    )
    for attributes, need in (
        ({"direction": "sideways"}, "its attribute direction must be forward, reverse or bidirectional"),
        ({"activations": ["Sine"]}, "must be ONNX's"),
        ({"direction": "bidirectional"}, "its W must be of shape"),
        ({"hidden_size": H + 1}, "its hidden_size must be that of its weights"),
    ):
        with pytest.raises(NodeError, match=need):
            load_onnx(model(node("RNN", "x w r b", **attributes), {"x": [T, N, WIDTH]}, constants))
    with pytest.raises(NodeError, match="4 gates of 6"):
        load_onnx(model(node("LSTM", "x w r b"), {"x": [T, N, WIDTH]}, constants))
    proto = model(node("GRU", "x w r b", activations=["Tanh"]), {"x": [T, N, WIDTH]}, parameters("GRU"))
    with pytest.raises(NodeError, match="it needs 2 activation functions"):
        load_onnx(proto)
