"""Entries of one network: prefill and decode of a decoder share parameters, weights and states."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.errors import OptionError, QmlirError
from qmlir.ir.entries import joined
from qmlir.ir.signature import entry_functions
from tests.frontends.onnx.decoder import PLACES, STATES, Sample, decoder, samples

ROWS = 4
Network = Any


def entries(folder: Path, *, seed: int = 0, **rows: int) -> dict[str, ModuleOp]:
    """The decoder with symbolic rows, bound for each entry."""
    onnx.save(decoder(rows="rows", seed=seed), folder / "decoder.onnx")
    return {name: qmlir.load(folder / "decoder.onnx", bind={"rows": n}, state=STATES) for name, n in rows.items()}


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleOp]:
    return entries(tmp_path_factory.mktemp("float"), prefill=ROWS, decode=1)


@pytest.fixture(scope="module")
def calibration() -> list[list[Sample]]:
    return [samples(PLACES // ROWS, seed, ROWS) for seed in range(6)]


@pytest.fixture(scope="module")
def quantized(floats: dict[str, ModuleOp], calibration: list[list[Sample]]) -> ModuleOp:
    return qmlir.quantize(floats, data=calibration, measure=False)


def single_rows(calls: list[Sample]) -> list[Sample]:
    return [{k: a[i : i + 1] for k, a in call.items()} for call in calls for i in range(len(call["token"]))]


def assert_any_split_is_the_same(network: Network) -> None:
    """Compares 14 tokens one by one with three calls of four and a rest of two, by outputs and states."""
    given = samples(4, 77, ROWS)
    network.reset()
    one_by_one = [network["decode"](row) for row in single_rows(given)[:14]]
    states = network.state
    network.reset()
    split = [row for call in given[:3] for row in network["prefill"](call)[:, None]]
    split += [network["decode"](row) for row in single_rows(given)[12:14]]
    np.testing.assert_array_equal(np.stack(split), np.stack(one_by_one))
    assert states.keys() == network.state.keys() == set(STATES)
    for name, state in network.state.items():
        assert state.any()
        np.testing.assert_array_equal(state, states[name])


@pytest.mark.parametrize("form", [qmlir.reference, qmlir.compile])
def test_a_prompt_may_go_through_any_entry(quantized: ModuleOp, form: Callable[[ModuleOp], Network]) -> None:
    network = form(quantized)
    assert [*network.entries] == ["prefill", "decode"]
    assert network["prefill"] is network
    assert_any_split_is_the_same(network)


def test_the_code_equals_the_reference(quantized: ModuleOp) -> None:
    reference, executable = qmlir.reference(quantized), qmlir.compile(quantized)
    for row in samples(3, 5, ROWS):
        np.testing.assert_array_equal(executable(row), reference(row))
    for row in samples(3, 6):
        np.testing.assert_array_equal(executable["decode"](row), reference["decode"](row))
    for name, state in executable.state.items():
        np.testing.assert_array_equal(state, reference.state[name])


def test_states_are_shared_reset_and_set(quantized: ModuleOp) -> None:
    executable = qmlir.compile(quantized)
    first = executable["decode"](samples(1)[0])
    assert executable.state["past_keys"].any()
    np.testing.assert_array_equal(executable.state["past_keys"], executable["decode"].state["past_keys"])
    held = executable["decode"].state
    executable["decode"].reset()
    np.testing.assert_array_equal(executable["decode"](samples(1)[0]), first)
    executable(samples(1, 3, ROWS)[0])
    executable.state = held
    np.testing.assert_array_equal(executable["decode"].state["past_values"], held["past_values"])


def test_weights_are_stored_once(quantized: ModuleOp, tmp_path: Path) -> None:
    files = qmlir.save(quantized, tmp_path / "two.mlir")
    alone = qmlir.save(qmlir.load(tmp_path / "two.mlir", entry="prefill"), tmp_path / "one.mlir")
    assert files[1].stat().st_size == alone[1].stat().st_size
    both, one = qmlir.compile(quantized), qmlir.compile(tmp_path / "one.mlir")
    assert both["decode"].weights.ctypes.data == both.weights.ctypes.data
    assert both.sizes.weights <= 1.1 * one.sizes.weights
    assert [f.sym_name.data for f in entry_functions(qmlir.load(tmp_path / "two.mlir"))] == ["prefill", "decode"]
    assert_any_split_is_the_same(qmlir.reference(tmp_path / "two.mlir"))


def test_code_on_disk_keeps_its_entries(quantized: ModuleOp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path))
    qmlir.compile(quantized)
    assert_any_split_is_the_same(qmlir.compile(quantized))


def test_an_entry_is_a_network_of_its_own(quantized: ModuleOp, tmp_path: Path) -> None:
    qmlir.save(quantized, tmp_path / "two.mlir")
    alone, both = qmlir.reference(qmlir.load(tmp_path / "two.mlir", entry="decode")), qmlir.reference(quantized)
    for row in samples(3):
        np.testing.assert_array_equal(alone(row), both["decode"](row))
    with pytest.raises(OptionError, match="entry: must name an entry of the network, got decoding; did you mean dec"):
        qmlir.load(tmp_path / "two.mlir", entry="decoding")


def test_an_entry_that_is_none(quantized: ModuleOp, floats: dict[str, ModuleOp]) -> None:
    with pytest.raises(QmlirError, match="entry: must be among the entries of the network: prefill, decode, got main"):
        qmlir.reference(quantized)["main"]
    with pytest.raises(QmlirError, match="none, as the network has one function"):
        qmlir.reference(floats["decode"])["decode"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"precision": "int16"}, {"schema": "symmetric", "io": "int8", "recipe": "none"}, {"bias": "int16"}]
)
def test_options(floats: dict[str, ModuleOp], calibration: list[list[Sample]], options: dict[str, Any]) -> None:
    quantized = qmlir.quantize(floats, data=calibration, measure=False, **options)
    assert_any_split_is_the_same(qmlir.compile(quantized))


def test_ranges_of_a_profile(floats: dict[str, ModuleOp], calibration: list[list[Sample]]) -> None:
    profile = qmlir.profile(floats["prefill"], calibration)
    assert_any_split_is_the_same(qmlir.reference(qmlir.quantize(floats, profile)))


def test_other_entries_have_the_types_and_constants_of_the_first(quantized: ModuleOp) -> None:
    first, second = entry_functions(quantized)
    for name in ("wq", "w1", "readout"):
        held = [
            op
            for function in (first, second)
            for op in function.body.block.ops
            if op.name == "nn.constant" and op.results[0].name_hint == name
        ]
        assert len(held) == 2
        assert held[0].results[0].type == held[1].results[0].type
        assert held[0].properties["value"] is held[1].properties["value"]


def test_another_model_is_refused(floats: dict[str, ModuleOp], tmp_path: Path) -> None:
    given = samples(PLACES // ROWS, 1, ROWS)
    qmlir.save(floats["decode"], tmp_path / "d.mlir")
    text = (tmp_path / "d.mlir").read_text().replace('tensors ["active"]', 'tensors ["renamed"]')
    (tmp_path / "d.mlir").write_text(text)
    other = {**floats, "decode": qmlir.load(tmp_path / "d.mlir")}
    with pytest.raises(QmlirError, match=r'tensor "renamed" of entry "decode": must be computed by nn\.fully_conne'):
        qmlir.quantize(other, data=[given], measure=False)


REFUSED = {
    "device": ({"target": "nmp"}, "target: takes a network of one function, got prefill, decode"),
    "search": ({"precision": "auto"}, "precision: auto takes a network of one function"),
    "run options": (
        {"policy": {"options": {"samples": 3}}},
        "policy: must hold no options of the command, got samples",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_takes_one_function(floats: dict[str, ModuleOp], case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(OptionError, match=message):
        qmlir.quantize(floats, data=[samples(2, 1, ROWS)], **options)


@pytest.mark.parametrize("name", ["main", "", "a b", "1st"])
def test_names(floats: dict[str, ModuleOp], name: str) -> None:
    with pytest.raises(OptionError, match="entry: must have a name of letters, digits and _, other than main"):
        qmlir.quantize({"prefill": floats["prefill"], name: floats["decode"]}, data=[])
    with pytest.raises(OptionError, match="entries: must be two or more, got 1"):
        qmlir.quantize({"prefill": floats["prefill"]}, data=[])


def test_what_takes_one_network_says_how_to_choose_it(quantized: ModuleOp, tmp_path: Path) -> None:
    for call in (lambda: qmlir.profile(quantized, []), lambda: qmlir.export(quantized, tmp_path / "net.onnx")):
        with pytest.raises(QmlirError, match=r"got prefill, decode; choose an entry by --entry NAME"):
            call()


def test_states_that_differ(floats: dict[str, ModuleOp], quantized: ModuleOp, calibration: list[list[Sample]]) -> None:
    apart = {
        "prefill": qmlir.quantize(floats["prefill"], data=calibration, recipe="none", measure=False),
        "decode": qmlir.quantize(floats["decode"], data=[samples(PLACES, 9)], recipe="none", measure=False),
    }
    with pytest.raises(QmlirError, match=r'state "past_keys" of entry "decode": must be int8\[16, 2, 4\] with scale'):
        qmlir.reference(joined(apart))
    qmlir.reference(quantized)  # the entries were quantized in one call


@pytest.mark.slow
def test_what_refusals_advise(floats: dict[str, ModuleOp], calibration: list[list[Sample]]) -> None:
    alone = floats["prefill"]
    assert qmlir.quantize(alone, data=calibration, target="nmp", measure=False)
    assert qmlir.quantize(alone, data=calibration, precision="auto", auto_seconds=1)
    rules = {"default": {"schema": "symmetric"}}
    assert len(entry_functions(qmlir.quantize(floats, data=calibration, policy=rules, measure=False))) == 2
