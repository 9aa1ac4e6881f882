"""What `precision=auto` aims at: a margin for samples that nobody measured, and logits where decisions are few."""

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import qmlir
from qmlir.analysis.logits import CloseDecisions, outputs_of, returning
from qmlir.analysis.quality import OutputQuality, Quality
from qmlir.analysis.target import AGREEMENT, COUNTED, FUNCTIONS, MARGIN, TARGET, Judge, Verdict
from qmlir.compiler import quantize

SAMPLES = [np.random.default_rng(i).standard_normal((1, 24)).astype(np.float32) for i in range(8)]


def _saved(path: Path, function: str, classes: int, gain: float) -> Path:
    """A layer whose first class always wins, and a function that makes probabilities of its logits."""
    rng = np.random.default_rng(1)
    bias = np.zeros(classes, np.float32)
    bias[0] = 40
    constants = {"w": rng.standard_normal((24, classes)).astype(np.float32) * np.float32(gain), "b": bias}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["logits"]),
        helper.make_node(function, ["logits"], ["p"]),
        helper.make_node("Reshape", ["p", "shape"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "decided",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [classes])],
        [
            *(numpy_helper.from_array(value, name) for name, value in constants.items()),
            numpy_helper.from_array(np.array([classes]), "shape"),
        ],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


@pytest.mark.parametrize("gain", [0.02, 2.0])
def test_probabilities_that_never_move_are_judged_by_their_logits(gain: float, tmp_path: Path) -> None:
    module = qmlir.load(_saved(tmp_path / "net.onnx", "Softmax", 6, gain))
    judge = Judge(module, SAMPLES, held_out=True)
    quantized = quantize(module, data=SAMPLES)
    verdict = judge.verdict(quantized)
    assert verdict.quality.sqnr is not None
    assert verdict.quality.sqnr > TARGET
    assert verdict.quality == qmlir.quality(quantized, module, SAMPLES)
    assert math.isfinite(verdict.close)
    floats, integers = judge.with_logits(quantized)
    assert [len(outputs_of(each)) for each in (floats, integers)] == [2, 2]
    both = [[qmlir.reference(each)(x) for x in SAMPLES] for each in (floats, integers)]
    own = CloseDecisions(1)
    for exact, found in zip(*both, strict=True):
        assert isinstance(exact, dict)
        assert isinstance(found, dict)
        own.add(list(exact.values())[1], list(found.values())[1])
    assert own.sqnr == pytest.approx(verdict.close)


def test_the_error_of_a_close_decision() -> None:
    """p = (1/2, 1/2) becomes sigmoid(±d) where the first two logits err by d beside each other."""
    classes, single = CloseDecisions(1), CloseDecisions(None)
    classes.add(np.array([[1.0, 5.0, 3.0]], np.float32), np.array([[9.0, 5.5, 3.25]], np.float32))
    single.add(np.array([7.0], np.float32), np.array([7.25], np.float32))
    moved = 1 / (1 + np.exp(-0.25)) - 0.5
    expected = -10 * math.log10(0.25 * 2 * moved**2 / 0.5)
    assert classes.sqnr == pytest.approx(expected)
    assert single.sqnr == pytest.approx(expected)
    assert (classes.decisions, single.decisions) == (1, 1)
    assert CloseDecisions(None).sqnr == math.inf


@pytest.mark.parametrize(("classes", "counted"), [(3, True), (COUNTED, False)])
def test_many_decisions_speak_for_themselves(classes: int, counted: bool, tmp_path: Path) -> None:
    module = qmlir.load(_saved(tmp_path / "net.onnx", "Sigmoid", classes, 1))
    verdict = Judge(module, SAMPLES[:2], held_out=True).verdict(quantize(module, data=SAMPLES))
    assert math.isfinite(verdict.close) == counted


def test_an_output_without_probabilities_has_no_logits(tmp_path: Path) -> None:
    module = qmlir.load(_saved(tmp_path / "net.onnx", "Tanh", 3, 1))
    judge = Judge(module, SAMPLES, held_out=False)
    quantized = quantize(module, data=SAMPLES)
    assert judge.verdict(quantized).close == math.inf
    assert len(outputs_of(judge.with_logits(quantized)[1])) == 1
    assert len(outputs_of(returning(module, [0], *FUNCTIONS))) == 2  # the output itself, twice


@pytest.mark.parametrize(
    ("sqnr", "agreement", "samples", "close", "enough"),
    [
        (TARGET + MARGIN, None, 1, math.inf, True),
        (TARGET + MARGIN / 2 + 0.1, None, 4, math.inf, True),
        (TARGET + MARGIN / 2 - 0.1, None, 4, math.inf, False),
        (TARGET + MARGIN, 1.0, 8, TARGET, False),
        (12.0, AGREEMENT, COUNTED, math.inf, True),
        (12.0, 1.0, COUNTED - 1, math.inf, False),
        (None, None, 1, math.inf, True),
    ],
)
def test_fewer_samples_have_to_show_more(
    sqnr: float | None, agreement: float | None, samples: int, close: float, enough: bool
) -> None:
    quality = Quality(samples, True, (OutputQuality("y", sqnr, agreement, 45.0),))
    assert (Verdict(quality, close).missing <= 0) == enough


def test_the_worst_sample_comes_first(tmp_path: Path) -> None:
    """A sample far beyond what was profiled saturates."""
    module = qmlir.load(_saved(tmp_path / "net.onnx", "Tanh", 3, 0.01))
    quantized = quantize(module, data=SAMPLES)
    tried = [*SAMPLES[:2], SAMPLES[2] * 50, *SAMPLES[3:]]
    verdict = Judge(module, tried, held_out=True).verdict(quantized)
    assert verdict.quality.worst == 2
    assert verdict.worst_samples(2)[0] is tried[2]
    assert verdict.worst_samples(2)[1] is tried[3]
