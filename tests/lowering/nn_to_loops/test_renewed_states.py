"""States that calls renew where they are: the same numbers as the reference, in each way to call a network."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from tests.cli.small import run
from tests.cli.test_bundles import LANGUAGES, build, status

CALLS = 7

HEAD = "func.func @main(%i: tensor<{i}>, %x: tensor<{x}>, %s: tensor<{s}> {{qmlir.state = #qmlir.state<1{reset}>}})"

BEHIND = " -> (tensor<{s}>, tensor<{s}>) {{\n{body}\n  func.return %y, %n : tensor<{s}>, tensor<{s}>\n}}"


def network(body: str, i: str, x: str, s: str, reset: str = "") -> str:
    """A network of a state s, whose next value is %n; it also returns %y, like s."""
    return HEAD.format(i=i, x=x, s=s, reset=reset) + BEHIND.format(s=s, body=body)


def where(i: str, x: str, s: str, *, swapped: bool = False) -> str:
    """Rows of the state are replaced where %i is 1."""
    chosen, types = ("%s, %x", f"tensor<{s}>, tensor<{x}>") if swapped else ("%x, %s", f"tensor<{x}>, tensor<{s}>")
    bits = i.replace("i64", "i1")
    return f"""
  %one = nn.constant <tensor<i64>, [1]> : tensor<i64>
  %c = nn.equal %i, %one : tensor<{i}>, tensor<i64> -> tensor<{bits}>
  %n = nn.where %c, {chosen} : tensor<{bits}>, {types} -> tensor<{s}>"""


def scatter(i: str, x: str, s: str) -> str:
    return f"\n  %n = nn.scatter_nd %s, %x, %i : tensor<{s}>, tensor<{x}>, tensor<{i}> -> tensor<{s}>"


def sums(a: str, b: str, s: str) -> str:
    return f"\n  %y = nn.add {a}, {b} : tensor<{s}>, tensor<{s}> -> tensor<{s}>"


BEHIND_IT, BEFORE, BOTH = ("%n", "%n"), ("%s", "%s"), ("%s", "%n")

WHERES = [
    ("1x5x1xi64", "3x1x19xf32", "3x5x19xf32"),
    ("5x1xi64", "3x1x4xf32", "3x5x4xf32"),
    ("3x5x1xi64", "3x1x1xi16", "3x5x1xi16"),
    ("5x1xi64", "19xi8", "5x19xi8"),
    ("1xi64", "6xi32", "6xi32"),
]
SCATTERS = [
    ("2x1xi64", "2x19xf32", "3x19xf32"),
    ("3x2x2xi64", "3x2x6xi8", "3x3x6xi8"),
    ("4x1xi64", "4xi16", "3xi16"),
]


def samples(i: str, x: str, most: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    *shape, element = x.split("x")
    dtype = {"f32": np.float32, "i8": np.int8, "i16": np.int16, "i32": np.int32}[element]
    places = [int(n) for n in i.split("x")[:-1]]
    return [
        {
            "input0": rng.integers(0, most, places),
            "input1": rng.integers(-100, 100, [int(n) for n in shape]).astype(dtype),
        }
        for _ in range(CALLS)
    ]


def check(text: str, data: list[dict[str, np.ndarray]], *, in_place: bool) -> None:
    """A call, bound calls, and calls on arrays of the caller's own are what the reference computes."""
    module = parse_text(make_context(), text, "net.mlir")
    reference, executable = qmlir.reference(module), qmlir.compile(module, cache=False)
    (state,) = executable.signature.states
    assert state.in_place is in_place
    one, other = executable.kept.sets()
    assert (one["input2"] is other["input2"]) is in_place
    before, call = np.array(state.reset), executable.bind({name: np.zeros_like(a) for name, a in data[0].items()})
    for sample in [*data, None, *data[::-1]]:
        if sample is None:  # from the values before the first call, and then from others
            for each in (reference, executable, call):
                each.reset()
            before = np.array(state.reset)
            continue
        wanted = reference(sample)
        np.testing.assert_array_equal(executable(sample), wanted)
        np.testing.assert_array_equal(executable.state["input2"], reference.state["input2"])
        for given, array in zip(call.inputs, sample.values(), strict=True):
            given[...] = array
        np.testing.assert_array_equal(call(), wanted)
        kept = before.copy()
        y, after = executable.run_in_order([*sample.values(), before])
        np.testing.assert_array_equal(before, kept)
        np.testing.assert_array_equal(y, wanted)
        np.testing.assert_array_equal(after, reference.state["input2"])
        before = after
    executable.state = {"input2": state.reset + 1}
    reference.state = {"input2": state.reset + 1}
    np.testing.assert_array_equal(executable(data[0]), reference(data[0]))
    np.testing.assert_array_equal(executable(data[1]), reference(data[1]))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("i", "x", "s"), WHERES)
def test_rows_where_a_condition_holds(i: str, x: str, s: str, *, swapped: bool) -> None:
    text = network(where(i, x, s, swapped=swapped) + sums(*BEHIND_IT, s), i, x, s)
    check(text, samples(i, x, 2), in_place=True)


@pytest.mark.parametrize(("i", "x", "s"), SCATTERS)
def test_rows_at_places(i: str, x: str, s: str) -> None:
    """Of two rows for one place the last is kept, as in numpy."""
    check(network(scatter(i, x, s) + sums(*BEHIND_IT, s), i, x, s), samples(i, x, 3), in_place=True)


def test_the_value_before_the_first_call() -> None:
    i, x, s = SCATTERS[0]
    text = network(scatter(i, x, s) + sums(*BEHIND_IT, s), i, x, s, ", reset = #qmlir.weights<tensor<f32>, [0.5]>")
    check(text, samples(i, x, 3), in_place=True)


@pytest.mark.parametrize("read", [BEFORE, BOTH])
def test_an_old_value_that_is_read(read: tuple[str, str]) -> None:
    """In front of the call that writes rows the old value is there; behind it, the state is kept twice."""
    i, x, s = SCATTERS[0]
    rows, sum = scatter(i, x, s), sums(*read, s)
    check(network(rows + sum, i, x, s), samples(i, x, 3), in_place=False)
    if read == BEFORE:
        check(network(sum + rows, i, x, s), samples(i, x, 3), in_place=True)


@pytest.mark.parametrize(("i", "x", "s"), [("5x4xi64", "5x4xf32", "5x4xf32"), ("5x1xi64", "5x1xf32", "5x4xf32")])
def test_a_choice_that_is_not_of_whole_rows(i: str, x: str, s: str) -> None:
    check(network(where(i, x, s) + sums(*BEHIND_IT, s), i, x, s), samples(i, x, 2), in_place=False)


def test_a_state_that_stays_as_it_is() -> None:
    """Its next value is itself, and other numbers that are chosen make no state of it."""
    i, x, s = WHERES[1]
    text = network(where(i, x, s) + sums(*BEHIND_IT, s), i, x, s).replace("func.return %y, %n", "func.return %y, %s")
    check(text, samples(i, x, 2), in_place=True)


SWAP = """
func.func @main(%i: tensor<1x1xi64>, %x: tensor<1x4xf32>, %a: tensor<3x4xf32> {qmlir.state = #qmlir.state<1>},
    %b: tensor<3x4xf32> {qmlir.state = #qmlir.state<0>}) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %n = nn.scatter_nd %a, %x, %i : tensor<3x4xf32>, tensor<1x4xf32>, tensor<1x1xi64> -> tensor<3x4xf32>
  func.return %n, %b : tensor<3x4xf32>, tensor<3x4xf32>
}
"""


def test_states_that_change_places() -> None:
    module = parse_text(make_context(), SWAP, "net.mlir")
    reference, executable = qmlir.reference(module), qmlir.compile(module, cache=False)
    assert not any(state.in_place for state in executable.signature.states)
    for sample in samples("1x1xi64", "1x4xf32", 3):
        for each in (reference, executable):
            each.run(sample)
        for name, array in executable.state.items():
            np.testing.assert_array_equal(array, reference.state[name])


ENTRIES = """
func.func @write(%i: tensor<1x1xi64>, %x: tensor<1x4xi8>,
    %a: tensor<3x4xi8> {qmlir.name = #qmlir.name<tensors ["a"]>, qmlir.state = #qmlir.state<1>},
    %b: tensor<3x4xi8> {qmlir.name = #qmlir.name<tensors ["b"]>, qmlir.state = #qmlir.state<2>})
    -> (tensor<1x4xi8>, tensor<3x4xi8>, tensor<3x4xi8>) {
  %n = nn.scatter_nd %a, %x, %i : tensor<3x4xi8>, tensor<1x4xi8>, tensor<1x1xi64> -> tensor<3x4xi8>
  %m = nn.scatter_nd %b, %x, %i : tensor<3x4xi8>, tensor<1x4xi8>, tensor<1x1xi64> -> tensor<3x4xi8>
  func.return %x, %n, %m : tensor<1x4xi8>, tensor<3x4xi8>, tensor<3x4xi8>
}
func.func @shift(%b: tensor<3x4xi8> {qmlir.name = #qmlir.name<tensors ["b"]>, qmlir.state = #qmlir.state<0>})
    -> (tensor<3x4xi8>, tensor<3x4xi8>) {
  %last = nn.slice %b {offsets = array<i64: 2, 0>, sizes = array<i64: 1, 4>, strides = array<i64: 1, 1>}
      : tensor<3x4xi8> -> tensor<1x4xi8>
  %rest = nn.slice %b {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 4>, strides = array<i64: 1, 1>}
      : tensor<3x4xi8> -> tensor<2x4xi8>
  %n = nn.concat %last, %rest {axis = 0 : i64} : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<3x4xi8>
  func.return %n, %b : tensor<3x4xi8>, tensor<3x4xi8>
}
"""
"""Both entries have b, which one of them shifts; only the other has a."""


def test_entries_renew_a_state_in_place_together() -> None:
    module = parse_text(make_context(), ENTRIES, "net.mlir")
    reference, executable = qmlir.reference(module), qmlir.compile(module, cache=False)
    for name, kept in (("write", {"a": True, "b": False}), ("shift", {"b": False})):
        assert {s.argument.name: s.in_place for s in executable[name].signature.states} == kept
    for sample in samples("1x1xi64", "1x4xi8", 3):
        for name, given in (("write", sample), ("shift", {}), ("write", sample)):
            for one, other in zip(reference[name].run(given), executable[name].run(given), strict=True):
                np.testing.assert_array_equal(one, other)
        for name, array in executable.state.items():
            np.testing.assert_array_equal(array, reference.state[name])


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["fast", "small"])
@pytest.mark.parametrize("api", ["static", "dynamic"])
def test_bundles(api: str, memory: str, tmp_path: Path) -> None:
    """Blocks hold a once and b twice; the self-test exports and imports both."""
    model, folder = tmp_path / "net.mlir", tmp_path / "out"
    model.write_text(ENTRIES)
    assert run("compile", model, "--bundle", "--api", api, "--memory", memory, "-o", folder) == 0
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", "net.o")) == 0
    if api == "dynamic":
        assert f"NET_STATE_SIZE {64 * 4} " in (folder / "net.h").read_text()
