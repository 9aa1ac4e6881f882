"""What each part of a network, quantized alone, does to the output."""

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.effects import effects
from qmlir.analysis.output_measure import OutputMeasure, decibels, relative_noise
from qmlir.analysis.own_errors import NearestWeights, Part, StoredResults, StoredWeights
from qmlir.analysis.rank_correlation import rank_correlation
from qmlir.errors import QmlirError
from tests.analysis.test_crosscheck import STATE, filtered, steps
from tests.cli.small import Small, run, write_small


def samples_of(small: Small) -> list[Any]:
    return [sample[None] for sample in small.samples]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("effects"))


class Given:
    """An error of one tensor, the same on all samples."""

    def __init__(self, tensor: str, error: Any):
        self.parts = [Part(tensor, "nn.conv2d", "result", "int8")]
        self.error = error

    def of(self, exact: Any) -> list[Any]:
        return [np.broadcast_to(self.error, exact[self.parts[0].tensor].shape).astype(np.float64)]


def test_an_error_moves_the_output_as_the_network_does(small: Small) -> None:
    """The last layer is linear: an error of its result is the output's; an offset of all classes is none."""
    measure = OutputMeasure(small.onnx, samples_of(small))
    error = np.array([[0.1, -0.2, 0.0]])
    (found,) = measure.effects(Given("scores", error))
    assert found.noise == pytest.approx(relative_noise(measure.truth, measure.truth + error), rel=1e-5)
    (offset,) = measure.effects(Given("scores", np.full((1, 3), 0.5)))
    assert offset.sqnr > 100
    (none,) = measure.effects(Given("active", 0.0))
    assert (none.noise, none.agreeing) == (0.0, 1.0)
    assert none.sqnr == math.inf


def test_a_part_alone_is_what_a_network_with_this_part_alone_is(small: Small) -> None:
    """Weights of one layer rounded, everything else in floats, is a network that can be made by hand."""
    measure = OutputMeasure(small.onnx, samples_of(small))
    rows = {row.tensor: row for row in measure.effects(NearestWeights(measure.origin, "int8"))}
    assert set(rows) == {"active", "scores"}
    rng = np.random.default_rng(1)  # that of write_small
    rng.standard_normal((4, 2, 3, 3))
    rng.standard_normal(4)
    dense = (rng.standard_normal((3, 64)) / 8).astype(np.float32)
    scale = np.abs(dense).max(axis=1, keepdims=True) / 127
    error = np.rint(dense / scale).clip(-127, 127) * scale - dense
    bias = rng.standard_normal(3).astype(np.float32)
    pooled = [measure.exact(sample)["pooled"] for sample in measure.samples]  # channels last
    flat = np.stack([p.transpose(0, 3, 1, 2).reshape(-1) for p in pooled])
    np.testing.assert_allclose(flat @ dense.T + bias, measure.truth, atol=1e-4)
    by_hand = relative_noise(measure.truth, measure.truth + flat @ error.T)
    assert rows["scores"].sqnr == pytest.approx(decibels(by_hand), abs=0.05)


@pytest.mark.slow
def test_the_sum_predicts_the_error_of_the_network(small: Small) -> None:
    quantized = qmlir.quantize(small.onnx, data=samples_of(small), rounding="nearest", calibration="minmax")
    report = effects(small.onnx, quantized, samples_of(small))
    assert {(r.tensor, r.part) for r in report.effects} == {
        ("image", "input"), ("active", "weights"), ("active", "result"), ("scores", "weights"), ("scores", "result"),
    }  # fmt: skip
    assert report.predicted == pytest.approx(sum(row.noise for row in report.effects))
    assert decibels(report.predicted) == pytest.approx(decibels(report.measured), abs=3.0)
    assert [row.noise for row in report.effects] == sorted((row.noise for row in report.effects), reverse=True)
    assert report.correlations.keys() == {"own", "gained", "informed"}
    assert all(-1 <= value <= 1 for value in report.correlations.values())


def larger(outputs: Any, labels: Any) -> float:
    return float(outputs.sum() + labels.sum())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_the_report_is_the_same_wherever_it_is_measured(small: Small, kind: str) -> None:
    quantized, samples = qmlir.quantize(small.onnx, data=samples_of(small)), samples_of(small) * 9
    # Processes cannot import this module, whose metric therefore runs in a thread.
    options = {} if kind == "processes" else {"metric": larger, "labels": np.arange(len(samples))}
    assert len(samples) > 32, "more than are used"
    here = effects(small.onnx, quantized, samples, **options)
    assert all(row.gained is not None for row in (*here.effects, *here.changed))
    assert all((row.metric is None) == (not options) for row in here.effects)
    if kind == "processes":
        there = effects(small.onnx, quantized, samples, workers=2, **options)
    else:
        with ThreadPoolExecutor(1) as executor:
            there = effects(small.onnx, quantized, samples, workers=executor, **options)
    assert json.dumps(there.as_dict()) == json.dumps(here.as_dict())


@pytest.mark.slow
def test_more_bits_move_the_output_less(small: Small) -> None:
    quantized = qmlir.quantize(small.onnx, data=samples_of(small), weight_precision="int4")
    measure = OutputMeasure(small.onnx, samples_of(small))
    (four, *_) = measure.effects(StoredWeights(quantized, measure.names))
    (sixteen, *_) = measure.effects(NearestWeights(measure.origin, "int16"))
    assert (four.tensor, four.precision, sixteen.precision) == ("active", "int4", "int16")
    assert sixteen.sqnr > four.sqnr + 50
    results, wide = (measure.effects(StoredResults(quantized, measure.names, halvings=n)) for n in (0, 8))
    assert all(fine.noise < coarse.noise / 1000 for coarse, fine in zip(results, wide, strict=True) if coarse.noise)


def test_a_metric_of_ones_own_reads_the_outputs(small: Small) -> None:
    def largest(outputs: Any, labels: Any) -> float:
        return float(np.abs(outputs).max())

    measure = OutputMeasure(small.onnx, samples_of(small), metric=largest)
    (row,) = measure.effects(Given("scores", np.array([[1000.0, 0.0, 0.0]])))
    assert row.metric is not None
    assert row.metric > 900


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 1, 2], [1, 2, 3], math.sqrt(3) / 2),
        ([1, 2], [1, 2], math.nan),
        ([1, 1, 1], [1, 2, 3], math.nan),
    ],
)
def test_rank_correlations(one: list[float], other: list[float], expected: float) -> None:
    assert rank_correlation(one, other) == pytest.approx(expected, nan_ok=True)


@pytest.mark.slow
def test_what_cannot_be_measured_is_refused(small: Small) -> None:
    with pytest.raises(QmlirError, match="at least one sample"):
        OutputMeasure(small.onnx, [])
    with pytest.raises(QmlirError, match="quantized tensors of the same names, got none"):
        effects(small.onnx, qmlir.load(small.onnx), samples_of(small))


def test_errors_stay_in_the_states_of_a_sequence(tmp_path: Path) -> None:
    """y[t] = 0.9 · y[t − 1] + 0.1 · x[t]: what an error leaves is 0.9 of it in the next step, and nothing behind."""
    module = qmlir.load(filtered(tmp_path), state=STATE)
    data, error = steps(12), np.array([[0.01, -0.02, 0.0, 0.03]])
    measure = OutputMeasure(module, [data[:8], data[8:]])
    (found,) = measure.effects(Given("part", error))
    kept = [(1 - 0.9 ** (t + 1)) / 0.1 for t in [*range(8), *range(4)]]
    moved = measure.truth + (np.array(kept)[:, None] * error).reshape(measure.truth.shape)
    assert found.noise == pytest.approx(relative_noise(measure.truth, np.maximum(moved, 0)), rel=1e-4)
    assert len(OutputMeasure(module, steps(40)).samples) == 32


def test_effects_of_a_network_with_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = qmlir.load(filtered(tmp_path), state=STATE)
    q = qmlir.quantize(module, data=steps(60), measure=False)
    found = effects(module, q, steps(24))
    assert {row.tensor for row in found.effects} == {"x", "decayed", "part", "present", "y"}
    assert found.effects[0].sqnr < decibels(found.effects[0].own) - 10, "errors add up in the state"
    runs = [[np.asarray(f(x)).ravel() for x in steps(24)] for f in (qmlir.compile(module), qmlir.compile(q))]
    truth, given = (np.stack(run) for run in runs)
    assert found.measured == pytest.approx(relative_noise(truth, given), rel=1e-6)
    qmlir.save(q, tmp_path / "q.mlir")
    np.save(tmp_path / "x.npy", np.stack(steps(24)))
    files = (tmp_path / "filter.onnx", tmp_path / "q.mlir", "--data", tmp_path / "x.npy")
    assert run("analyze", *files, "--state", "past=present", "--effect") == 0
    assert "their sum predicts" in capsys.readouterr().out


@pytest.mark.models
def test_effects_of_a_voice_detector(shared: Callable[[str], Path]) -> None:
    """Its output is a single probability: the steps together are a row."""
    known = {"state": {"state": "stateN"}, "constants": {"sr": np.array(16000)}, "bind": {"batch": 1, "sequence": 576}}
    module = qmlir.load(shared("models/more/silero_vad_op18_ifless.onnx"), **known)
    rng = np.random.default_rng(0)
    sequences = [
        [{"input": (rng.normal(size=(1, 576)) * np.sin(k + j)).astype(np.float32)} for k in range(6)] for j in range(3)
    ]
    q = qmlir.quantize(module, data=sequences, rounding="nearest", measure=False)
    found = effects(module, q, [sequences[0][:3]])
    parts = {(row.tensor, row.part): row for row in found.effects}
    assert ("output.linear", "weights") in parts
    assert all(np.isfinite(row.noise) and row.agreeing is None for row in found.effects)
    assert 0 < found.measured < math.inf
