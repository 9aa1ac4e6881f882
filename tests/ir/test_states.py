"""States of networks: what callers see of them, what is kept between calls, and what is refused."""

import threading
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.errors import InputError, OptionError
from qmlir.ir.context import make_context
from qmlir.ir.entries import joined
from qmlir.ir.signature import main_function, signature_of
from qmlir.ir.source import parse_text
from qmlir.samples.reading import in_sequences

DELAY = """
func.func @main(%x: tensor<1x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>},
    %s: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["s"]>,
                         qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<f32>, [0.5]>>})
    -> (tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["next"]>},
        tensor<1x2xf32> {qmlir.name = #qmlir.name<tensors ["y"]>}) {
  %t = nn.slice %s {offsets = array<i64: 0, 2>, sizes = array<i64: 1, 2>, strides = array<i64: 1, 1>}
      : tensor<1x4xf32> -> tensor<1x2xf32>
  %n = nn.concat %t, %x {axis = 1} : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x4xf32>
  %h = nn.slice %s {offsets = array<i64: 0, 0>, sizes = array<i64: 1, 2>, strides = array<i64: 1, 1>}
      : tensor<1x4xf32> -> tensor<1x2xf32>
  %y = nn.add %h, %x {qmlir.name = #qmlir.name<tensors ["sum"]>}
      : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %n, %y : tensor<1x4xf32>, tensor<1x2xf32>
}
"""
"""y = x + the x of two calls before; the state is a result before the output."""

SUMS = """
func.func @main(%x: tensor<1x2xf32>,
    %total: tensor<1x2xf32> {qmlir.name = #qmlir.name<tensors ["total"]>, qmlir.state = #qmlir.state<0>})
    -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %y = nn.add %total, %x : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %y, %y : tensor<1x2xf32>, tensor<1x2xf32>
}
"""
"""The sum of all x so far; the state is an output, too."""

X = [np.full((1, 2), i, np.float32) for i in range(6)]
WANTED = [0.5, 1.5, 2.0, 4.0, 6.0, 8.0]


@pytest.fixture
def delay() -> ModuleOp:
    return parse_text(make_context(), DELAY, "delay.mlir")


def test_a_caller_sees_inputs_and_outputs_only(delay: ModuleOp) -> None:
    signature = signature_of(main_function(delay))
    assert signature.described() == "x: float32[1, 2] → y: float32[1, 2], keeps s: float32[1, 4]"
    flat = signature.flat()
    assert [s.name for s in flat.inputs] == ["x", "s"]
    assert [s.name for s in flat.outputs] == ["next", "y"]
    assert flat.flat() is flat
    assert flat.output_bytes == 24


@pytest.mark.parametrize("make", [qmlir.reference, qmlir.compile])
def test_calls_follow_one_another(delay: ModuleOp, make: type) -> None:
    network = make(delay)
    for _ in range(2):
        assert [float(network(x)[0, 0]) for x in X] == WANTED
        network.reset()
    network(X[1])
    np.testing.assert_array_equal(network.state["s"], [[0.5, 0.5, 1, 1]])
    network.state = {"s": np.array([[7, 7, 8, 8]], np.float32)}
    assert [float(network(x)[0, 0]) for x in X[:3]] == [7, 9, 2]
    network.state["s"][...] = 100  # a copy
    assert float(network(X[0])[0, 0]) == 1


def test_a_bound_call_has_states_of_its_own(delay: ModuleOp) -> None:
    executable = qmlir.compile(delay)
    x = np.zeros((1, 2), np.float32)
    call = executable.bind(x)
    for _ in range(2):
        for value, wanted in zip(X, WANTED, strict=True):
            x[...] = value
            assert float(call()[0, 0]) == wanted
        call.reset()
    np.testing.assert_array_equal(executable.state["s"], np.full((1, 4), 0.5))


@pytest.mark.parametrize("make", [qmlir.reference, qmlir.compile])
def test_a_state_is_not_the_callers_array(make: type) -> None:
    text = """func.func @main(%x: tensor<2xf32>, %s: tensor<2xf32> {qmlir.state = #qmlir.state<1>})
        -> (tensor<2xf32>, tensor<2xf32>) { func.return %s, %x : tensor<2xf32>, tensor<2xf32> }"""
    network = make(parse_text(make_context(), text, "last.mlir"))
    x = np.ones(2, np.float32)
    network(x)
    x[...] = 5
    y = network(x)
    np.testing.assert_array_equal(y, [1, 1])
    y[...] = 7
    np.testing.assert_array_equal(network(x), [5, 5])


def test_what_is_no_state(delay: ModuleOp) -> None:
    network = qmlir.reference(delay)
    with pytest.raises(InputError, match='input "t": must be a state: s'):
        network.state = {"t": np.zeros((1, 4), np.float32)}
    with pytest.raises(InputError, match='input "s": must be float32'):
        network.state = {"s": np.zeros((1, 4))}
    with pytest.raises(InputError, match='input "s": must be one of x'):
        network({"x": X[0], "s": np.zeros((1, 4), np.float32)})


def test_calls_from_several_threads_lose_nothing(delay: ModuleOp) -> None:
    executable, results = qmlir.compile(delay), list[float]()
    one = np.ones((1, 2), np.float32)
    threads = [threading.Thread(target=lambda: results.append(float(executable(one)[0, 0]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [1.5, 1.5, *[2.0] * 6]


def test_code_on_disk_has_its_states(delay: ModuleOp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path))
    for _ in range(2):
        executable = qmlir.compile(delay)
        assert [float(executable(x)[0, 0]) for x in X] == WANTED
    assert len(list(tmp_path.iterdir())) == 1


# ---------------------------------------------------------------------------------------------------------------
# Samples that follow one another


def test_a_profile_is_of_sequences(delay: ModuleOp) -> None:
    ranges = {name: (t.lo, t.hi) for name, t in qmlir.profile(delay, X).tensors.items()}
    assert ranges["s"] == (0.0, 4.0)  # the state before the last call
    assert ranges["sum"] == (0.5, 8.0)
    anew = {name: (t.lo, t.hi) for name, t in qmlir.profile(delay, [X[:2], X[4:]]).tensors.items()}
    assert anew["s"] == (0.0, 4.0)
    assert anew["sum"] == (0.5, 5.5)
    assert qmlir.profile(delay, [X[:2], X[4:]]).samples == 4


def test_a_quantized_state_has_the_type_of_its_next_value(delay: ModuleOp) -> None:
    quantized = qmlir.quantize(delay, data=[X[:3], X[3:]])
    (state,) = signature_of(main_function(quantized)).states
    assert state.reset.dtype == np.int8
    reference, executable = qmlir.reference(quantized), qmlir.compile(quantized)
    for x, wanted in zip(X, WANTED, strict=True):
        found = executable(x)
        np.testing.assert_array_equal(found, reference(x))
        assert abs(float(found[0, 0]) - wanted) < 0.2


def test_sequences_are_for_networks_with_states(delay: ModuleOp) -> None:
    signature = signature_of(main_function(delay))
    given = [{"x": x} for x in X[:5]]
    assert [len(each) for each in in_sequences(given, 2, signature)] == [2, 2, 1]
    assert in_sequences(given, None, signature.flat()) is given
    with pytest.raises(OptionError, match="sequence: is for networks with states, got 2"):
        in_sequences(given, 2, signature.flat())


def test_a_state_of_an_operation_that_the_policy_keeps_float_is_float() -> None:
    text = """
    func.func @main(%x: tensor<1x4xf32>, %s: tensor<1x4xf32> {qmlir.state = #qmlir.state<0>})
        -> (tensor<1x4xf32>, tensor<1x4xf32>) {
      %0 = nn.add %x, %s : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
      %1 = nn.relu %0 : tensor<1x4xf32> -> tensor<1x4xf32>
      func.return %1, %0 : tensor<1x4xf32>, tensor<1x4xf32>
    }"""
    samples = list(np.random.default_rng(0).uniform(0.1, 1, (4, 1, 4)).astype(np.float32))
    for rules, outcome, dtype in (
        ([], "quantized", np.int8),
        ([{"kind": "relu", "keep-float": True}], "float", np.float32),
    ):
        module = parse_text(make_context(), text, "state.mlir")
        quantized = qmlir.quantize(module, data=[samples], policy={"rules": rules})
        assert [d.outcome for d in qmlir.decisions(quantized) if d.operation == "nn.relu"] == [outcome]
        (state,) = signature_of(main_function(quantized)).states
        assert state.reset.dtype == dtype


@pytest.mark.parametrize("make", [qmlir.reference, qmlir.compile])
def test_an_entry_keeps_the_states_that_it_has_not(delay: ModuleOp, make: type) -> None:
    sums = parse_text(make_context(), SUMS, "sums.mlir")
    network = make(joined({"delay": delay, "sums": sums}))
    for x in X[:3]:
        network(x)
        network["sums"](x)
        network["sums"](x)
    np.testing.assert_array_equal(network.state["s"], [[1, 1, 2, 2]])
    np.testing.assert_array_equal(network.state["total"], [[6, 6]])
    held = network.state
    network(X[5])
    np.testing.assert_array_equal(held["s"], [[1, 1, 2, 2]])
    network.state = held  # of the call before the last one
    assert float(network(X[0])[0, 0]) == 1
    np.testing.assert_array_equal(network["sums"](X[1]), [[7, 7]])


def test_replayed_calls_hold_their_states(delay: ModuleOp) -> None:
    calls = list(qmlir.compile(delay).replayed([X]))
    np.testing.assert_array_equal([call["s"][0, 0] for call in calls], [0.5, 0.5, 0, 1, 2, 3])
