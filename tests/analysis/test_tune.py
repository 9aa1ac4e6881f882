"""Searches for a policy: limits, predictions, and real searches on a small network."""

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.counts import figures_of
from qmlir.analysis.tune import Tuned, tune
from qmlir.analysis.tune.assignment import Assignment, Layer
from qmlir.analysis.tune.chances import Chances
from qmlir.analysis.tune.front import Model, undominated
from qmlir.analysis.tune.layers import layers_of
from qmlir.analysis.tune.limits import Budget, Floor, budget_of, floor_of
from qmlir.analysis.tune.result import Point
from qmlir.analysis.tune.search import filled
from qmlir.analysis.tune.trials import Trial
from qmlir.errors import OptionError, QmlirError
from qmlir.settings.policy import Policy
from tests.cli.small import Small, write_small

# ---------------------------------------------------------------------------------------------------------------
# Limits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=24KiB", Budget("bytes", 24 * 1024)),
        ("bytes=60%", Budget("bytes", 0.6, share=True)),
        ("stored=24KiB", Budget("stored", 24 * 1024)),
        ("macs-bits=1e6", Budget("macs-bits", 1e6)),
        ("cycles:nmp=100000", Budget("cycles", 100000, device="nmp")),
        ("ms=1.5", Budget("ms", 1.5)),
    ],
)
def test_budgets(text: str, expected: Budget) -> None:
    assert budget_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sqnr=30", Floor("sqnr", 30)),
        ("agreement=int8-0.5", Floor("agreement", -0.5, relative=True)),
        ("top1=int8", Floor("top1", 0, relative=True)),
    ],
)
def test_floors(text: str, expected: Floor) -> None:
    assert floor_of(text) == expected


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("byte=3", "must be one of bytes, .* did you mean bytes"),
        ("bytes=0", "must be a positive number"),
        ("bytes=many", "must be a positive number"),
        ("bytes=0%", "must be a positive number"),
        ("cycles=5", "name the device"),
        ("bytes:nmp=5", "must be one of"),
        ("24", "name=number"),
    ],
)
def test_budgets_that_are_none(text: str, need: str) -> None:
    with pytest.raises(OptionError, match=need):
        budget_of(text)


@pytest.mark.parametrize("text", ["sqr=30", "sqnr=high", "sqnr=int80", "sqnr", "sqnr=inf", "sqnr=nan"])
def test_floors_that_are_none(text: str) -> None:
    with pytest.raises(OptionError):
        floor_of(text)


# ---------------------------------------------------------------------------------------------------------------
# Predictions

LAYERS = [
    Layer("x", "input", 0, 0, ("a",)),
    Layer("a", "nn.conv2d", 10, 1000, ("b", "c"), widens=True),
    Layer("b", "nn.conv2d", 100, 1000, ("c",), widens=True),
    Layer("c", "nn.fully_connected", 1000, 1000, (), widens=True),
]
LEVELS = (4, 6, 8)
WEIGHTS: dict[str, dict[float, float]] = {
    name: {bits: size * 4.0**-bits for bits in LEVELS} for name, size in (("a", 9), ("b", 1), ("c", 3))
}
RESULTS = {name: {8: 1e-6, 16: 1e-9} for name in "xabc"}


def model(**changes: Any) -> Model:
    given: dict[str, Any] = {"cost": "bytes", "fixed": 50.0, **changes}
    return Model(LAYERS, WEIGHTS, RESULTS, LEVELS, **given)


def test_a_result_has_16_bits_only_if_all_of_its_readers_have() -> None:
    base = Assignment.uniform(LAYERS, 8, {})
    quiet, loud = 1e-9, 1e-6
    weights = sum(each[8] for each in WEIGHTS.values())
    for wide, exact in (({"a"}, ""), ({"a", "b"}, "x"), ({"c"}, "c"), ({"b", "c"}, "bc"), ({"a", "b", "c"}, "xabc")):
        expected = weights + sum(quiet if name in exact else loud for name in "xabc")
        if wide == {"a", "b"}:
            expected = weights + quiet + 3 * loud  # only `a` reads the input; `c` still reads `a` and `b` in 8 bits
        if wide == {"a"}:
            expected = weights + quiet + 3 * loud
        assert model().noise(base.with_wide(frozenset(wide))) == pytest.approx(expected)


def test_costs_are_bits_of_the_types() -> None:
    uniform = Assignment.uniform(LAYERS, 4, {})
    assert model().bytes(uniform) == 50 + 5 + 50 + 500
    assert model().macs_bits(uniform) == 3 * 1000 * 4 * 8
    assert model().macs_bits(uniform.with_wide(frozenset("c"))) == 2 * 1000 * 4 * 8 + 1000 * 4 * 16


def test_the_front_is_that_of_all_assignments() -> None:
    every = [Assignment(tuple(zip("abc", bits, strict=True))) for bits in product(LEVELS, repeat=3)]
    best = undominated([model().predicted(each) for each in every])
    front = model().front({})
    for point in best:
        assert any(p.cost <= point.cost and p.noise <= point.noise for p in front)
    assert [p.cost for p in front] == sorted(p.cost for p in front)


def test_greedy_changes_reach_the_convex_hull_of_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = model().front({})
    monkeypatch.setattr("qmlir.analysis.tune.front.MOST_COMBINATIONS", 1)
    greedy = model().front({})
    assert not model().complete
    for point in greedy:  # none is beaten by more than a tenth of its noise at its own cost
        best = min(p.noise for p in exact if p.cost <= point.cost + 1e-9)
        assert point.noise <= best * 1.1


def test_assignments_within_a_budget_fit_it() -> None:
    for most in (650, 800, 1000):
        found = model().within({}, most, 5)
        assert found
        every = [Assignment(tuple(zip("abc", bits, strict=True))) for bits in product(LEVELS, repeat=3)]
        best = min(model().noise(each) for each in every if model().bytes(each) <= most)
        assert all(model().bytes(each.assignment) <= most for each in found)
        assert found[0].noise <= best


def test_assignments_within_a_budget_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy changes that begin with different assignments end with one; a search would make it once and no other."""
    monkeypatch.setattr("qmlir.analysis.tune.front.MOST_COMBINATIONS", 1)
    found = [each.assignment for each in model().within({}, 1000, 5)]
    assert len({(each.bits, each.wide) for each in found}) == len(found) == 5


def test_noise_of_levels_that_were_not_measured() -> None:
    """A bit more divides noise by four, about; groups divide it alike at all bits."""
    found = filled({4: 1.0, 4.25: 0.5, 8: 1e-3}, [4, 4.25, 5, 5.25, 8])
    assert found[5] == pytest.approx((7 / 15) ** 2)
    assert found[5.25] == pytest.approx(found[5] / 2)
    assert found == {**found, 4: 1.0, 4.25: 0.5, 8: 1e-3}


def test_a_policy_says_what_most_layers_have_by_default() -> None:
    assignment = Assignment((("a", 8), ("b", 4), ("c", 4)), frozenset({"c", "d"}), {"schema": "symmetric"})
    assert assignment.policy().as_dict() == {
        "default": {"schema": "symmetric", "weight-precision": "int4"},
        "rules": [
            {"name": "a", "weight-precision": "int8"},
            {"name": "c", "precision": "int16"},
            {"name": "d", "precision": "int16"},
        ],
    }


GROUPED = [replace(each, groups=6) if each.tensor == "b" else each for each in LAYERS]


def test_weights_in_groups_are_a_level_of_the_layers_that_take_groups() -> None:
    weights = {name: {**noises, 4.25: noises[4] / 2} for name, noises in WEIGHTS.items()}
    grouped = Model(GROUPED, weights, RESULTS, (*LEVELS, 4.25), cost="bytes", fixed=50.0)
    uniform = Assignment.uniform(GROUPED, 4.25, {})
    assert uniform.bits == (("a", 4), ("b", 4.25), ("c", 4))
    assert grouped.bytes(uniform) == 50 + 5 + (50 + 6) + 500
    assert grouped.macs_bits(uniform) == 1000 * (4 + 8 + 4) * 8  # m·q is multiplied as int8
    front = [dict(each.assignment.bits) for each in grouped.front({})]
    assert any(bits["b"] == 4.25 for bits in front)
    assert all(bits[name] != 4.25 for bits in front for name in "ac")


def test_a_policy_says_which_weights_have_groups() -> None:
    some = Assignment((("a", 4), ("b", 4.25), ("c", 4)))
    assert some.policy().as_dict() == {
        "default": {"weight-precision": "int4"},
        "rules": [{"name": "b", "granularity": "group-32"}],
    }
    most = Assignment((("a", 4.25), ("b", 4.25), ("c", 8)))
    assert most.policy().as_dict() == {
        "default": {"weight-precision": "int4", "granularity": "group-32"},
        "rules": [{"name": "c", "weight-precision": "int8", "granularity": "channel"}],
    }


def test_a_policy_says_which_weights_have_codebooks() -> None:
    settings = {"weight_levels": "codebook"}
    some = Assignment((("a", 4), ("b", 4.25), ("c", 4), ("d", 8)), settings=settings)
    assert some.policy().as_dict() == {
        "default": {"weight-levels": "codebook", "weight-precision": "int4"},
        "rules": [
            {"name": "b", "granularity": "group-32", "weight-levels": "even"},
            {"name": "d", "weight-precision": "int8", "weight-levels": "even"},
        ],
    }
    most = Assignment((("a", 8), ("b", 8), ("c", 5)), settings=settings)
    assert most.policy().as_dict() == {
        "default": {"weight-levels": "even", "weight-precision": "int8"},
        "rules": [{"name": "c", "weight-precision": "int5", "weight-levels": "codebook"}],
    }


def scored(sqnr: float, agreeing: int, predicted: float | None = None) -> Point:
    trial = Trial({}, sqnr, agreeing, None, None, 1000, 0, 0, 0)
    return Point(trial, Assignment(()), "", predicted)


def test_chances_follow_a_line_of_the_noise_with_its_scatter() -> None:
    exact = [scored(40, 990), scored(34, 980), scored(28, 960)]  # noise doubles in amplitude, and so do the losses
    chances = Chances(exact, "agreement")
    assert chances.slope == pytest.approx(100.0, rel=0.01)
    assert chances.scatter == pytest.approx(0.1)  # no more than counts of 1,000 samples have
    even = chances.of(10**-3.4, 98.0)
    assert even == pytest.approx(0.5, abs=0.02)
    assert chances.of(10**-3.6, 98.0) > even > chances.of(10**-3.2, 98.0)
    assert chances.of(10**-3.4, 97.9) > even
    loose = Chances([*exact, scored(34, 940)], "agreement")
    assert loose.scatter > chances.scatter
    late = Chances([*exact, scored(34, 980, predicted=31.0)], "agreement")  # predictions were 3 dB too low
    assert late.of(10**-3.1, 98.0) == pytest.approx(0.5, abs=0.02)


# ---------------------------------------------------------------------------------------------------------------
# Searches


def samples_of(small: Small) -> list[Any]:
    return [sample[None] for sample in small.samples]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("tune"))


@pytest.fixture(scope="module")
def found(small: Small) -> Tuned:
    samples = samples_of(small)
    return tune(small.onnx, samples, floor="sqnr=int8-12", results=small / "results", levels=(4, 6), most=14)


def test_layers_are_what_computes(small: Small) -> None:
    layers = layers_of(qmlir.quantize(small.onnx, data=samples_of(small)))
    assert [(each.tensor, each.kind, each.weights, each.readers) for each in layers] == [
        ("image", "input", 0, ("active",)),
        ("active", "nn.conv2d", 72, ("scores",)),
        ("scores", "nn.fully_connected", 192, ()),
    ]
    assert [each.widens for each in layers] == [False, True, True]


@pytest.mark.slow
def test_the_choice_is_the_cheapest_that_meets_the_floor(found: Tuned) -> None:
    least = found.reference.trial.sqnr - 12
    assert found.chosen.trial.sqnr >= least
    assert found.chosen.trial.bytes < 0.8 * found.reference.trial.bytes
    assert all(p.trial.bytes >= found.chosen.trial.bytes for p in found.points if p.trial.sqnr >= least)
    assert found.made <= 14
    costs = [(p.trial.bytes, p.trial.sqnr) for p in found.front]
    assert costs == sorted(costs)
    assert found.chosen in found.points


def test_the_policy_gives_the_network_of_the_trial(found: Tuned, small: Small, tmp_path: Path) -> None:
    found.save(path := tmp_path / "tuned.yaml")
    text = path.read_text()
    assert text.startswith("# qmlir tune, sqnr=int8-12: ")
    assert Policy.load(path).as_dict() == found.policy.as_dict()
    assert text.count("  # ") == len(found.policy.rules)
    samples = samples_of(small)
    quantized = qmlir.quantize(small.onnx, data=samples, policy=path)
    stored = [figures_of(op).weight_bytes for op in quantized.walk() if op.name.startswith("nn.") and op.operands]
    assert sum(stored) == found.chosen.trial.bytes
    executable, floats = qmlir.compile(quantized), qmlir.compile(small.onnx)
    truth, got = (np.stack([each(s).ravel() for s in samples]).astype(np.float64) for each in (floats, executable))
    error, signal = got - truth, truth - truth.mean(axis=1, keepdims=True)
    error -= error.mean(axis=1, keepdims=True)
    assert 10 * math.log10((signal**2).sum() / (error**2).sum()) == pytest.approx(found.chosen.trial.sqnr, abs=1e-6)


@pytest.mark.slow
def test_a_search_goes_on_where_it_stopped(found: Tuned, small: Small) -> None:
    files = {path: path.read_bytes() for path in (small / "results").iterdir()}
    # A search that goes on needs all trials, but not the effects of settings that gave way to better ones.
    damaged = next(path for path in sorted(files) if b'"sqnr"' in files[path])
    damaged.write_text("{")
    arguments: dict[str, Any] = {"floor": "sqnr=int8-12", "results": small / "results", "levels": (4, 6), "most": 14}
    again = tune(small.onnx, samples_of(small), **arguments)
    assert again.made == 1  # the damaged file is made anew
    assert again.as_dict() == found.as_dict()
    assert again.text() == found.text()
    assert {path: path.read_bytes() for path in files} == files
    assert tune(small.onnx, samples_of(small), **arguments).made == 0


@pytest.mark.slow
def test_any_number_of_workers_finds_the_same(found: Tuned, small: Small, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"floor": "sqnr=int8-12", "levels": (4, 6), "most": 14}
    again = tune(small.onnx, samples_of(small), results=tmp_path, workers=2, **arguments)
    assert again.text() == found.text()
    assert again.as_dict() == found.as_dict()
    assert again.made >= found.made
    files = {path.name: path.read_bytes() for path in (small / "results").iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


@pytest.mark.slow
def test_other_samples_are_other_results(found: Tuned, small: Small) -> None:
    before = len(list((small / "results").iterdir()))
    arguments: dict[str, Any] = {"floor": "sqnr=int8-12", "results": small / "results", "levels": (4, 6), "most": 1}
    assert tune(small.onnx, samples_of(small)[:4], **arguments).made == 1
    assert len(list((small / "results").iterdir())) > before


def test_settings_of_few_bits_are_tried_alone_and_groups_by_layer(found: Tuned) -> None:
    tried = [point.trial.policy["default"] for point in found.points if point.predicted is None]
    assert any(each.get("weight-range") == "full" for each in tried)
    assert not any("codebook" in json.dumps(point.trial.policy) for point in found.points)  # its layers are small
    assert any("group-32" in json.dumps(point.trial.policy) for point in found.points)


@pytest.mark.slow
def test_codebooks_are_tried_where_tables_take_little(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmlir.analysis.tune.search.MOST_TABLES", 1.0)
    limits: dict[str, Any] = {"floor": "sqnr=int8-12", "levels": (4, 6), "most": 14}
    found = tune(small.onnx, samples_of(small), results=tmp_path, **limits)
    settings = [point.trial.policy["default"] for point in found.points]
    assert any(each.get("weight-levels") == "codebook" for each in settings)
    assert not any("weight-range" in each for each in settings)  # codebooks gain here, and have no range
    even: dict[str, Any] = {**limits, "weight_levels": "even"}
    other = tune(small.onnx, samples_of(small), results=tmp_path, **even)
    assert not any("codebook" in json.dumps(point.trial.policy) for point in other.points)


@pytest.mark.parametrize("levels", ["even", "codebook"])
@pytest.mark.parametrize(("few", "more"), [(4, 4.25), (5, 5.25), (8, 16)])  # the biases of this one fit 32 bits
def test_the_bytes_of_layers_are_those_of_the_network(few: float, more: float, levels: str, small: Small) -> None:
    """Multipliers of groups and tables take bytes; biases of 64 bits beside weights of 16 would."""
    layers, settings = layers_of(qmlir.quantize(small.onnx, data=samples_of(small))), {"weight_levels": levels}
    policies = [Assignment.uniform(layers, bits, settings, wide=bits > 8).policy() for bits in (few, more)]
    less, all_of_it = (
        sum(
            figures_of(op).weight_bytes
            for op in qmlir.quantize(small.onnx, data=samples_of(small), policy=policy).walk()
            if op.name.startswith("nn.") and op.operands
        )
        for policy in policies
    )
    spared = 4 * sum(layer.outputs for layer in layers) if more > 8 else 0
    weighted = [layer for layer in layers if layer.weights]
    more_bytes = sum(each.bytes(each.able(more), settings) - each.bytes(few, settings) for each in weighted)
    assert all_of_it - less == more_bytes - spared
    assert levels == "codebook" or all_of_it > less  # for few weights, a table takes more than multipliers


def test_the_choice_under_a_floor_of_agreement_is_the_cheapest_that_meets_it(small: Small) -> None:
    found = tune(small.onnx, samples_of(small), floor="agreement=int8-10", results=small / "results", most=16)
    assert found.made <= 16
    least = (found.reference.trial.quality("agreement") or 0.0) - 10
    met = [point for point in found.points if (point.trial.quality("agreement") or 0.0) >= least]
    assert found.chosen.trial.bytes == min(point.trial.bytes for point in met)
    assert found.chosen.trial.bytes < found.reference.trial.bytes


@pytest.mark.slow
def test_a_budget_is_kept(small: Small) -> None:
    arguments: dict[str, Any] = {"results": small / "results", "levels": (4, 6), "most": 14}
    found = tune(small.onnx, samples_of(small), budget="bytes=75%", **arguments)
    assert found.chosen.trial.bytes <= 0.75 * found.reference.trial.bytes
    fits = [p.trial.sqnr for p in found.points if p.trial.bytes <= 0.75 * found.reference.trial.bytes]
    assert found.chosen.trial.sqnr == max(fits)
    narrow = tune(small.onnx, samples_of(small), budget="bytes=75%", precision="int8", **arguments)
    assert all("precision" not in rule for p in narrow.points for rule in p.trial.policy["rules"])


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["arena=110%", "stored=90%", "cycles:ethos-u55-like=100%", "macs-bits=60%"])
def test_budgets_that_a_compiler_knows(small: Small, budget: str) -> None:
    found = tune(small.onnx, samples_of(small), budget=budget, levels=(4,), most=3)
    limit = budget_of(budget)
    assert found.chosen.trial.cost(limit.cost) <= limit.within(found.reference.trial)


@pytest.mark.slow
def test_a_limit_that_nothing_meets(small: Small) -> None:
    with pytest.raises(QmlirError, match=r"no network of 1 that were tried meets sqnr=200, got \S+ at most"):
        tune(small.onnx, samples_of(small), floor="sqnr=200", most=1)
    with pytest.raises(QmlirError, match=r"no network of 1 that were tried meets bytes=10, got \S+ at least"):
        tune(small.onnx, samples_of(small), budget="bytes=10", most=1)


@pytest.mark.parametrize(
    ("arguments", "need"),
    [
        ({}, "or a floor must be given, and not both, got neither"),
        ({"floor": "sqnr=3", "budget": "bytes=3"}, "got both"),
        ({"floor": "top1=3"}, "give --labels"),
        ({"floor": "metric=3"}, "give --metric"),
        ({"floor": "sqnr=3", "most": 0}, "must be a positive number"),
        ({"floor": "sqnr=3", "levels": (4, 9)}, "from 2 to 7"),
        ({"floor": "sqnr=3", "schemas": "symmetric"}, "schemas"),
    ],
)
def test_arguments_that_cannot_be(small: Small, arguments: dict[str, Any], need: str) -> None:
    with pytest.raises(OptionError, match=need):
        tune(small.onnx, samples_of(small), **arguments)


def test_results_on_disk_are_plain(found: Tuned, small: Small) -> None:
    for path in (small / "results").iterdir():
        assert json.loads(path.read_text())
