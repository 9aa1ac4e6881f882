"""States that still grow where the profile ends: `quantize` says so, and `quality` names what saturates later."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import qmlir
from qmlir.analysis.quality import ENOUGH
from qmlir.errors import QmlirWarning, QualityWarning
from qmlir.transforms.quantize.ranges.growing_states import growing_states
from tests.analysis.test_quality import FLOAT, write


def filtered(folder: Path, keep: float) -> Any:
    """present = keep · past + (1 − keep) · x, which charges in about 1 / (1 − keep) steps."""
    nodes = [
        helper.make_node("Mul", ["past", "keep"], ["decayed"]),
        helper.make_node("Mul", ["x", "share"], ["part"]),
        helper.make_node("Add", ["part", "decayed"], ["present"]),
        helper.make_node("Relu", ["present"], ["y"]),
    ]
    held = {"keep": np.float32(keep), "share": np.float32(1 - keep)}
    outputs = {"y": (FLOAT, [1, 8]), "present": (FLOAT, [1, 8])}
    return qmlir.load(write(folder / "f.onnx", nodes, outputs, held, past=[1, 8]), state={"past": "present"})


def sequences(count: int, steps: int, seed: int = 0) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [[draw.uniform(0.5, 1.5, (1, 8)).astype(np.float32) for _ in range(steps)] for _ in range(count)]


def quantized(module: Any, data: Any, **options: Any) -> Any:
    return qmlir.quantize(module, data=data, precision="int16", **options)


def test_a_filter_that_is_not_charged_is_named_and_longer_sequences_mend_it(tmp_path: Path) -> None:
    module, later = filtered(tmp_path, 0.99), sequences(1, 300, seed=1)
    with pytest.warns(QmlirWarning, match=r'state "past" still grows .* quantize on sequences in which it reaches'):
        q = quantized(module, sequences(2, 20), measure=False)
    with pytest.warns(QualityWarning, match=r'tensor "past" saturates.*, and 3 tensors .* from 0 to 0\.9\d'):
        found = qmlir.quality(q, module, data=later)
    assert found.sqnr is not None
    assert found.sqnr < 10
    assert [each.tensor for each in found.exceeded] == ["past", "decayed", "present", "y"]
    assert all(0.5 < each.share < 1 and each.most > each.high for each in found.exceeded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        long = quantized(module, sequences(1, 500), measure=False)
        better = qmlir.quality(long, module, data=later)
    assert better.sqnr is not None
    assert better.sqnr > 45
    assert not better.exceeded


def test_ranges_by_rules_mend_it(tmp_path: Path) -> None:
    """The rules that the warning shows, for each of the tensors."""
    module, later = filtered(tmp_path, 0.99), sequences(1, 300, seed=1)
    rules = [{"name": name, "range": [0, 1.1]} for name in ("past", "decayed", "y")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = quantized(module, sequences(2, 20), measure=False, policy={"rules": rules})
        found = qmlir.quality(q, module, data=later)
    assert found.sqnr is not None
    assert found.sqnr > 45


def test_sequences_are_kept_aside_and_what_exceeds_the_ranges_is_said(tmp_path: Path) -> None:
    module = filtered(tmp_path, 0.5)
    data = sequences(ENOUGH, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = qmlir.quality(quantized(module, data))
    assert (found.held_out, found.samples) == (True, 20)
    from qmlir.analysis.quality import kept_aside

    for number in kept_aside(module, ENOUGH):
        data[number] = [4 * x for x in data[number]]
    with pytest.warns(QualityWarning, match="saturates"):
        quantized(module, data)


def steps(of: Callable[[int], float], count: int = 40) -> list[dict[str, Any]]:
    return [{"s": np.full((1, 4), of(k) if k else 0, np.float32)} for k in range(count)]


@pytest.mark.parametrize(
    ("of", "reach"),
    [
        (lambda k: k, 4 * 39),  # a sum
        (lambda k: 1 - np.exp(-k / 20), 1),
        (lambda k: 1 - np.exp(-k / 8), None),  # charged
        (lambda k: 1, None),
        (lambda k: np.sin(k), None),
        (lambda k: 1 / (k + 1), None),
        (lambda k: 3 if k == 39 else 1, None),  # an outlier is no growth
    ],
)
def test_what_grows(of: Callable[[int], float], reach: float | None) -> None:
    found = [*growing_states([*steps(of), *steps(of)], ["s"])]
    assert [growth.steps for growth in found] == ([] if reach is None else [39])
    if reach is not None:
        assert found[0].reach == pytest.approx(reach, rel=0.05)


def test_few_steps_and_integers_say_nothing() -> None:
    assert not [*growing_states(steps(lambda k: k, 6), ["s"])]
    assert not [*growing_states([{"s": np.full(2, k)} for k in range(40)], ["s"])]
