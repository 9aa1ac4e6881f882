"""The quality of a quantized network: of each output, on samples kept aside, whatever the output holds."""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import qmlir
from qmlir import compiler
from qmlir.analysis import quality as measuring
from qmlir.analysis.quality import ENOUGH, KEPT, PART, OutputQuality, affordable_samples, chosen_samples, kept_aside
from qmlir.compiler import load, main_function, reference
from qmlir.errors import QmlirError, QualityWarning
from qmlir.ir.replayed import Replayed
from qmlir.running import learning
from tests.cli.small import Small, write_small

RNG = np.random.default_rng(7)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("quality"))


def write(path: Path, nodes: list[Any], outputs: dict[str, Any], constants: dict[str, Any], **state: Any) -> Path:
    """Writes a network of the input x [1, 8], and of a state if one is given."""
    inputs = {"x": [1, 8], **state}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, *of) for name, of in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def samples(count: int) -> list[Any]:
    return [RNG.standard_normal((1, 8)).astype(np.float32) for _ in range(count)]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs of floats, of classes, of an index, always 0, and with numbers that are none."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["classes"]),
        helper.make_node("ArgMax", ["classes"], ["index"], axis=1, keepdims=1),
        helper.make_node("Mul", ["x", "nothing"], ["zeros"]),
        helper.make_node("Reshape", ["x", "square"], ["pairs"]),
        helper.make_node("Sqrt", ["pairs"], ["roots"]),
    ]
    outputs = {
        "classes": (FLOAT, [1, 4]), "index": (INT64, [1, 1]), "zeros": (FLOAT, [1, 8]), "pairs": (FLOAT, [2, 4]),
        "roots": (FLOAT, [2, 4]),
    }  # fmt: skip
    constants = {
        "w": RNG.standard_normal((8, 4)).astype(np.float32),
        "nothing": np.float32(0),
        "square": np.array([2, 4]),
    }
    return write(tmp_path_factory.mktemp("several") / "net.onnx", nodes, outputs, constants)


def test_each_output_has_the_figures_that_it_can_have(several: Path) -> None:
    data = [abs(each) + 0.1 for each in samples(9)]  # quantization takes no roots of negative numbers
    q = qmlir.quantize(several, data=data)
    found = qmlir.quality(q)
    assert (found.samples, found.held_out) == (8, False)
    by_name = {output.name: output for output in found.outputs}
    assert list(by_name) == ["classes", "index", "zeros", "pairs", "roots"]
    assert (by_name["classes"].sqnr or 0) > 30
    assert (by_name["classes"].allowed or 0) > 40
    assert by_name["classes"].agreement in [n / 8 for n in range(6, 9)]
    assert by_name["index"] == OutputQuality("index", None, by_name["classes"].agreement, None)
    assert by_name["zeros"].sqnr is None
    assert by_name["pairs"].agreement is None  # two axes: no classes
    assert found.sqnr == min(output.sqnr for output in found.outputs if output.sqnr is not None)
    assert not found.below
    negative = qmlir.quality(q, several, data=samples(4))  # float has no roots of some
    assert negative.held_out
    assert negative.outputs[4].sqnr is not None


def test_what_python_says_is_the_error_of_the_outputs(small: Small) -> None:
    data = [each[None] for each in small.samples]
    q = qmlir.quantize(small.onnx, data=data)
    float_network, network = reference(small.onnx), reference(q)
    truth, found = (np.stack([each(sample) for sample in data]).astype(np.float64) for each in (float_network, network))
    (output,) = qmlir.quality(q).outputs
    sqnr = 10 * math.log10((truth**2).sum() / ((found - truth) ** 2).sum())
    assert output.sqnr == pytest.approx(sqnr, abs=0.01)
    step = (max(truth.max(), 0) - min(truth.min(), 0)) / 255
    assert output.allowed == pytest.approx(10 * math.log10((truth**2).mean() / (step**2 / 12)), abs=0.01)
    assert "scores" in repr(qmlir.quality(q))


def test_samples_are_kept_aside_where_there_are_enough(small: Small) -> None:
    module = load(small.onnx)
    assert kept_aside(module, ENOUGH - 1) == []
    aside = kept_aside(module, 100)
    assert len(aside) == min(100 // PART, KEPT)
    assert aside == kept_aside(module, 100)
    data = [RNG.standard_normal((1, 2, 8, 8)).astype(np.float32) for _ in range(ENOUGH)]
    used = [each for number, each in enumerate(data) if number not in kept_aside(module, ENOUGH)]
    q = qmlir.quantize(module, data=data)
    assert (qmlir.quality(q).samples, qmlir.quality(q).held_out) == (ENOUGH // PART, True)
    alone = qmlir.quantize(module, data=used, measure=False)
    assert str(main_function(q)) == str(main_function(alone))
    with pytest.raises(QmlirError, match="must have been measured, got nothing; give the float network and data"):
        qmlir.quality(alone)
    assert qmlir.quality(alone, module, data=used).samples == ENOUGH - ENOUGH // PART
    profile = qmlir.profile(module, data)  # has seen them all
    assert not qmlir.quality(qmlir.quantize(module, profile, data=data)).held_out


@pytest.mark.parametrize(("seconds", "count"), [(1e9, 20), (1e-9, 1)])
def test_time_bounds_the_samples_and_one_is_always_measured(
    small: Small, monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    monkeypatch.setattr(measuring, "SECONDS", seconds)
    module = load(small.onnx)
    assert affordable_samples(module) == (measuring.MOST if count > 1 else 1)
    data: list[Any] = list(range(20))
    assert len(chosen_samples(module, data, held_out=True)) == count
    assert len(chosen_samples(module, data, held_out=False)) == min(count, 8)


def decaying(folder: Path) -> Path:
    """A network with a state: past → present."""
    nodes = [
        helper.make_node("Mul", ["past", "half"], ["decayed"]),
        helper.make_node("Add", ["x", "decayed"], ["present"]),
        helper.make_node("Tanh", ["present"], ["y"]),
    ]
    outputs = {"y": (FLOAT, [1, 8]), "present": (FLOAT, [1, 8])}
    return write(folder / "s.onnx", nodes, outputs, {"half": np.float32(0.5)}, past=[1, 8])


def test_a_network_with_states_is_measured_in_order(tmp_path: Path) -> None:
    module, data = load(decaying(tmp_path), state={"past": "present"}), samples(50)
    q = qmlir.quantize(module, data=data)
    found = qmlir.quality(q)
    assert (found.held_out, [output.name for output in found.outputs]) == (False, ["y"])
    assert found.sqnr is not None
    assert found.sqnr > 30
    sequences = qmlir.quality(q, module, data=[data[:5], data[5:10]])
    assert sequences.samples == 10


def test_time_bounds_the_calls_of_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, data = load(decaying(tmp_path), state={"past": "present"}), samples(50)
    monkeypatch.setattr(measuring, "MOST", 12)
    taken = chosen_samples(module, [data[:5], data[5:10], data[10:20], data[20:]], held_out=False)
    assert [len(sequence) for sequence in taken] == [5, 5, 2]
    assert len(chosen_samples(module, data, held_out=False)) == 12
    monkeypatch.setattr(measuring, "SECONDS", 1e-9)
    assert [len(sequence) for sequence in chosen_samples(module, [data], held_out=False)] == [measuring.LEAST]


def test_ranges_and_single_calls_come_from_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The float network is compiled once; the calls have the states of a run of the network by itself."""
    module, data = load(decaying(tmp_path), state={"past": "present"}), samples(10)
    sequences = [data[:4], data[4:]]
    expected = list(qmlir.compile(module).replayed(sequences))
    made: list[Any] = []
    real = learning.to_machine_code
    monkeypatch.setattr(learning, "to_machine_code", lambda *args, **named: made.append(args) or real(*args, **named))
    monkeypatch.setattr(compiler, "compile", lambda *args: made.append(args) or pytest.fail("is compiled again"))
    calls = compiler.give_ranges(ranged := module.clone(), None, sequences)
    assert isinstance(calls, Replayed)
    assert len(made) == 1
    for call, other in zip(calls, expected, strict=True):
        assert {name: array.tolist() for name, array in call.items()} == {n: a.tolist() for n, a in other.items()}
    assert compiler.give_ranges(ranged, None, calls) is calls
    assert len(made) == 1
    assert str(compiler.quantize(ranged, data=calls)) == str(compiler.quantize(module, data=sequences))


def test_a_warning_names_an_output_that_is_below_what_its_bits_allow(small: Small) -> None:
    data = [each[None] for each in small.samples]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        qmlir.quantize(small.onnx, data=data)
    policy = {"rules": [{"name": "scores", "range": [-0.01, 0.01]}]}
    with pytest.warns(QualityWarning, match=r"reaches 0\.\d dB, less than half of the \d\d\.\d dB that its bits allow"):
        q = qmlir.quantize(small.onnx, data=data, policy=policy)
    assert [output.name for output in qmlir.quality(q).below] == ["scores"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        qmlir.quantize(small.onnx, data=data, policy=policy, measure=False)


@pytest.mark.parametrize("arguments", [{"module": "net"}, {"data": []}])
def test_half_of_the_arguments(small: Small, arguments: dict[str, Any]) -> None:
    q = qmlir.quantize(small.onnx, data=[each[None] for each in small.samples])
    given = {**arguments, **({"module": small.onnx} if "module" in arguments else {})}
    with pytest.raises(QmlirError, match="give both"):
        qmlir.quality(q, **given)
    with pytest.raises(QmlirError, match="at least one sample"):
        qmlir.quality(q, small.onnx, data=[])
