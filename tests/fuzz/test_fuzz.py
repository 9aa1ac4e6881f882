"""A short run of the fuzzer, always the same; `make fuzz` runs longer ones."""

import warnings
from contextlib import suppress
from dataclasses import replace

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.frontends.onnx import load_onnx
from tests.conftest import ROOT, THOROUGH
from tests.frontends.tflite.files import Op, T
from tests.fuzz import devices
from tests.fuzz.cases import case, known
from tests.fuzz.checks import Case, Finding, check, rounds_to_halves
from tests.fuzz.device_cases import DeviceCase
from tests.fuzz.devices import Mismatch
from tests.fuzz.drawing import Drawing, Refused
from tests.fuzz.graphs import Graph, Node
from tests.fuzz.operators import TABLE
from tests.fuzz.options import Options, Shares
from tests.fuzz.oracle import Oracle
from tests.fuzz.shrink import shrunk, smaller
from tests.fuzz.tflite import File, TfliteCase

SEED = 0
EACH, BATCHES = 10, 6 if THOROUGH else 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_is_found(batch: int) -> None:
    shares = Shares(machine=0.1, device=0.0)
    for number in range(batch * EACH, (batch + 1) * EACH):
        assert check(case(SEED, number, shares)).findings == [], f"python -m tests.fuzz --seed {SEED} --number {number}"


SEQUENCES = (
    *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "SequenceMap", "SplitToSequence", "Optional", "OptionalGetElement", "OptionalHasElement"),
)
"""Operators of ONNX on sequences and optional tensors, while tensors of drawn networks are arrays: tests of their own
compare each with onnxruntime."""

ALONE = {
    **dict.fromkeys(("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
                    "onnxruntime draws other random numbers"),
    **dict.fromkeys((f"ai.onnx.preview.training.{name}" for name in ("Adagrad", "Adam", "Momentum")),
                    "onnxruntime has them in a package of its own"),
    **dict.fromkeys((f"ai.onnx.ml.{name}" for name in
                     ("FeatureVectorizer", "Imputer", "LabelEncoder", "LinearClassifier", "LinearRegressor",
                      "Normalizer", "OneHotEncoder", "Scaler", "ZipMap")),
                    "they stand at the ends of networks, on matrices"),
}  # fmt: skip
"""Operator of ONNX → why no network with it is drawn; tests of their own compare each with what ONNX says."""

UNDRAWN = {
    **dict.fromkeys(("CALL", "IF", "WHILE"), "files of one subgraph are drawn"),
    **dict.fromkeys(("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), "LiteRT has no order of equal scores"),
    "CUSTOM.TFLite_Detection_PostProcess": "LiteRT leaves what was in memory behind its results",
    **dict.fromkeys(("ASSIGN_VARIABLE", "CALL_ONCE", "LSTM", "READ_VARIABLE", "RNN", "SVDF",
                     "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "VAR_HANDLE"),
                    "LiteRT keeps the state of one sample for the next"),
    "LOCAL_RESPONSE_NORMALIZATION": "LiteRT's reference kernel, by which files are drawn, is wrong",
    **dict.fromkeys(("BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN"),
                    "LiteRT keeps the state of one sample for the next"),
    **dict.fromkeys(("CUSTOM.Convolution2DTransposeBias", "CUSTOM.MaxPoolingWithArgmax2D", "CUSTOM.MaxUnpooling2D"),
                    "LiteRT has no reference kernel of it"),
    "DENSIFY": "its data are constants, which it makes dense",
    "SEGMENT_SUM": "LiteRT has no reference kernel of it",
}  # fmt: skip
"""Operator of TFLite → why no file with it is drawn; tests of their own compare each with LiteRT."""


def test_every_operator_that_is_imported_can_be_drawn() -> None:
    """Those of OPERATORS.md, the page that is generated from the converters, but for some with a reason."""
    page, _, _ = (ROOT / "OPERATORS.md").read_text(encoding="utf-8").partition("## TFLite operators without")
    for part, prefix, undrawn in zip(
        page.split("# TFLite operators\n"), ("", "tflite."), ((*SEQUENCES, *ALONE), UNDRAWN), strict=True
    ):
        rows = (line.split("|")[1].strip() for line in part.splitlines() if line.startswith("| "))
        imported = {prefix + row for row in rows if row != "operator"}
        assert len(imported) > 100
        assert imported - set(known()) == {prefix + name for name in undrawn}


def test_every_twentieth_case_is_for_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is wrong on the device is a finding of the run."""
    drawn = case(0, 30, Shares(devices=("nmp", "vta")))
    assert drawn == DeviceCase(30, "vta")
    wrong = Mismatch(30, "vta", "value", "3 of 4 differ", devices.Options(True, False, {}), "module")
    monkeypatch.setattr(devices, "outcome", lambda seed, device: devices.Outcome(True, wrong))
    assert [f.key for f in check(drawn).findings] == [("network on vta", "value")]


def test_a_case_is_what_its_number_says() -> None:
    first, again = (case(3, 5, Shares()) for _ in range(2))
    assert isinstance(first, Case)
    assert isinstance(again, Case)
    assert str(first.options) == str(again.options)
    assert first.graph.nodes == again.graph.nodes
    for name, arrays in first.graph.samples.items():
        np.testing.assert_array_equal(arrays, again.graph.samples[name])


def test_a_collapse_is_shrunk_to_the_operators_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kind names those of the network that is left; the operators that are in its way go."""
    from tests.fuzz import checks

    def lossy(case: Case) -> checks.Outcome:
        kinds = sorted(n.operator for n in case.graph.nodes)
        return checks.Outcome(findings=[Finding("collapse", "-".join(kinds), "")] if "Sigmoid" in kinds else [])

    monkeypatch.setattr("tests.fuzz.shrink.check", lossy)
    nodes = (Node("Relu", ("x",), ("a",)), Node("Sigmoid", ("a",), ("b",)), Node("Neg", ("b",), ("c",)))
    graph = Graph(nodes, {}, {"x": (np.ones((1, 1), np.float32),)}, ("c",), 20)
    found = shrunk(Case(graph, Options()), ("collapse", "Neg-Relu-Sigmoid"), 20)
    assert found is not None
    assert found[1].key == ("collapse", "Sigmoid")


def test_a_finding_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong sigmoid is found in a network of four operations, and is all that is left of it."""
    from tests.fuzz import checks

    def wrong(case: Case) -> checks.Outcome:
        kinds = {n.operator for n in case.graph.nodes}
        return checks.Outcome(findings=[Finding("float", "values", "")] if "Sigmoid" in kinds else [])

    monkeypatch.setattr("tests.fuzz.shrink.check", wrong)
    nodes = (
        Node("Relu", ("x",), ("a",)),
        Node("Sigmoid", ("a",), ("b",)),
        Node("Add", ("b", "x"), ("c",)),
        Node("Neg", ("c",), ("d",)),
    )
    x = tuple(np.ones((2, 3), np.float32) for _ in range(3))
    graph = Graph(nodes, {}, {"x": x}, ("d", "a"), 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = shrunk(Case(graph, Options(schema="symmetric", data=True)), ("float", "values"), 20)
    assert found is not None
    smallest, _ = found
    assert [n.operator for n in smallest.graph.nodes] == ["Sigmoid"]
    assert smallest.options == Options()
    assert [a.shape for a in smallest.graph.samples["a"]] == [(1, 1)]


def test_axes_without_elements_are_not_shrunk() -> None:
    x = np.zeros((0, 4, 1), np.float32)
    graph = Graph((Node("Relu", ("x",), ("y",)),), {}, {"x": (x,)}, ("y",), 21)
    shapes = {case.graph.samples["x"][0].shape for case in smaller(Case(graph, Options())) if case.graph.samples}
    assert shapes == {(0, 2, 1), (0, 1, 1)}


def test_casts_to_integers_are_of_numbers_that_these_hold() -> None:
    """What others become ONNX leaves open."""
    for seed in range(60):
        d = Drawing(np.random.default_rng(seed))
        d.input((3, 4))
        TABLE["Cast"](d)
        first = next(n for n in d.nodes if n.operator == "Cast")
        cast = d.value(first.outputs[0])
        if cast.dtype.kind in "iu":
            low, high = d.range_of(first.inputs[0])
            assert np.iinfo(cast.dtype).min <= low <= high <= np.iinfo(cast.dtype).max


@pytest.mark.filterwarnings("ignore")
def test_means_are_of_some_elements() -> None:
    """ONNX leaves open what the mean of none is."""
    for seed in range(20):
        d = Drawing(np.random.default_rng(seed))
        d.input((2, 0))
        with suppress(Refused):
            TABLE["ReduceMean"](d)
        assert all(all(d.shape_of(n.inputs[0])) for n in d.nodes if n.operator == "ReduceMean")


def recurrent(output: float) -> Graph:
    """An LSTM of one step whose hidden state is sigmoid(output): its cell is 20."""
    shapes = {"w": (1, 4, 1), "r": (1, 4, 1), "h": (1, 2, 1)}
    bias = np.array([[0, output, 30, 0, 0, 0, 0, 0]], np.float32)  # gates: input, output, forget, cell
    constants = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    constants |= {"b": bias, "c": np.full((1, 2, 1), 20, np.float32)}
    x = tuple(np.ones((1, 2, 1), np.float32) for _ in range(2))
    node = Node("LSTM", ("x", "w", "r", "b", "", "h", "c"), ("y",), {"hidden_size": 1})
    return Graph((node,), constants, {"x": x}, ("y",), 21)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("output", [-12.0, -14.0, -16.0])
def test_tiny_gates_that_onnxruntime_approximates_are_no_finding(output: float) -> None:
    """In float64 qmlir's results are the right ones."""
    graph, exact = recurrent(output), 1 / (1 + np.exp(-np.float64(np.float32(output))))
    (feed, _), oracle = graph.feeds(), Oracle(graph)
    (ours,) = qmlir.reference(load_onnx(graph.model())).run(feed)
    theirs = oracle.run(feed)["y"]
    assert np.abs(ours / exact - 1).max() < 1e-6
    assert 1e-5 < np.abs(theirs / exact - 1).max()
    assert not {"float", "simplify"} & {f.check for f in check(Case(graph, Options())).findings}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", ["Elu", "Selu", "Celu"])
def test_tiny_differences_from_one_are_no_finding(operator: str) -> None:
    """onnxruntime computes exp(x) − 1, of which little is left near 0; qmlir's results are the right ones."""
    x = -np.logspace(-6.5, -4.5, 10, dtype=np.float32).reshape(1, 10)
    graph = Graph((Node(operator, ("x",), ("y",)),), {}, {"x": (x,)}, ("y",), 21)
    factor = 1.0507009873554805 * 1.6732632423543772 if operator == "Selu" else 1.0
    exact = factor * np.expm1(x.astype(np.float64))
    (feed,), oracle = graph.feeds(), Oracle(graph)
    (ours,) = qmlir.reference(load_onnx(graph.model())).run(feed)
    assert np.abs(ours / exact - 1).max() < 1e-6
    assert 1e-4 < np.abs(oracle.run(feed)["y"] / exact - 1).max()
    assert not {"float", "simplify"} & {f.check for f in check(Case(graph, Options())).findings}


@pytest.mark.filterwarnings("ignore")
def test_a_gate_that_is_wrong_by_more_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here by one part in a hundred of 0.0005."""
    module = load_onnx(recurrent(-7.59).model())
    monkeypatch.setattr("tests.fuzz.checks.load_onnx", lambda model: module.clone())
    assert {"float", "simplify"} <= {f.check for f in check(Case(recurrent(-7.6), Options())).findings}


def averages() -> Graph:
    """Averages of four numbers, quantized in unsigned steps of 1/4 without the last: 1/2 of one is a tie."""
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = (
        Node("AveragePool", ("x",), ("p",), attributes),
        Node("Quant", ("p", "scale", "zero", "bits"), ("q",), {"signed": 0, "narrow": 1}, "onnx.brevitas"),
        Node("Mish", ("q",), ("y",)),
    )
    constants = {"scale": np.float32(0.25), "zero": np.float32(2), "bits": np.float32(4)}
    x = np.array([[0, -0.5, 1, 0], [-0.5, -0.5, 0, 0]], np.float32).reshape(1, 1, 2, 4)
    return Graph(nodes, {n: np.asarray(a) for n, a in constants.items()}, {"x": (x,)}, ("y",), 21)


@pytest.mark.filterwarnings("ignore")
def test_a_tie_of_an_average_is_no_finding() -> None:
    """For fewer than 8 bits the file has a Clip, which leaves the average to floats when it is read again."""
    options = Options(precision="int16", calibration="moving_average", data=True, format="onnx-qdq")
    outcome = check(Case(averages(), options))
    assert (outcome.findings, outcome.refusals) == ([], {})


@pytest.mark.filterwarnings("ignore")
def test_the_sign_of_a_sum_that_is_nothing_but_noise_is_no_finding() -> None:
    """The imaginary part of a sum of real numbers is 0, of which onnxruntime has 3e-7 of either sign."""
    constants = {
        "step": np.array(4),
        "length": np.array(3),
        "scale": np.array([2, 1.5], np.float32).reshape(1, 1, 1, 2),
    }
    nodes = (
        Node("STFT", ("x", "step", "", "length"), ("s",), {"onesided": 1}),
        Node("BipolarQuant", ("s", "scale"), ("y",), {}, "onnx.brevitas"),
    )
    x = np.array([[-2.4026043, 0.42779502, -0.60539907], [-1.0758984, -0.71080136, -0.60539907],
                  [1.2219676, 0.26408753, -0.60539907], [-1.3603506, 1.2103646, -0.60539907]], np.float32)  # fmt: skip
    assert check(Case(Graph(nodes, constants, {"x": (x[..., None],)}, ("y",), 21), Options())).findings == []


@pytest.mark.filterwarnings("ignore")
def test_an_average_behind_a_clip_is_no_finding() -> None:
    """It is a convolution in the network that is read of the file, which rounds a tie as onnxruntime does."""
    attributes = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 1], "count_include_pad": 1}
    nodes = (Node("Relu", ("x",), ("p",)), Node("AveragePool", ("p",), ("y",), attributes))
    x = np.array([[-7, 43, -11], [32, -21, 4], [9, 5, 126]], np.float32).reshape(1, 1, 3, 3) / 256
    options = Options(schema="symmetric_with_power2_scale", calibration="minmax", glow_exact=True)
    case = Case(Graph(nodes, {}, {"x": (x,)}, ("y",), 21), replace(options, format="onnx-qoperator"))
    assert check(case).findings == []


@pytest.mark.filterwarnings("ignore")
def test_a_softmax_behind_a_clip_is_no_finding() -> None:
    """Of 12 bits the file has a Clip, which leaves the softmax to floats when it is read again: one is near a tie."""
    nodes = (
        Node("Softmax", ("x",), ("p",)),
        Node("Quant", ("p", "scale", "zero", "bits"), ("y",), {"signed": 0}, "finn.custom_op.general"),
    )
    constants = {"scale": np.float32(0.00023658570717088878), "zero": np.float32(1462), "bits": np.float32(12)}
    x = np.random.default_rng(2).normal(size=(4000, 5)).astype(np.float32)
    graph = Graph(nodes, {n: np.asarray(a) for n, a in constants.items()}, {"x": (x,)}, ("y",), 21)
    assert check(Case(graph, Options(precision="uint8", format="onnx-qoperator"))).findings == []


@pytest.mark.filterwarnings("ignore")
def test_what_onnxruntime_has_no_digits_of_is_measured_on_floats() -> None:
    """Its hyperbolic tangent of 1.5e-7 is 1.2e-7: what is reported is measured against the float network's."""
    constants = {
        "w": np.array([[[-0.0342, -0.0372], [0.2046, 0.1115]]], np.float32),
        "r": np.array([[[0.1748, 0.0449], [0.057, 0.0039]]], np.float32),
    }
    x = np.zeros((2, 5, 2), np.float32)
    x[1, 4] = 4.76837158203125e-07
    graph = Graph(
        (Node("RNN", ("x", "w", "r"), ("y", ""), {"hidden_size": 2}),), constants, {"x": (x, x * 0)}, ("y",), 21
    )
    (feed, _) = graph.feeds()
    (ours,) = qmlir.reference(load_onnx(graph.model())).run(feed)
    assert np.abs(Oracle(graph).run(feed)["y"] / ours - 1)[1, 0, 4].max() > 0.2
    options = Options(schema="symmetric", weight_precision="int6", weight_levels="codebook", data=True)
    assert check(Case(graph, options)).findings == []


@pytest.mark.filterwarnings("ignore")
def test_a_collapse_that_nothing_warns_of_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """One input is a hundred thousand times the others, of which 8 bits leave nothing."""
    x = np.full((4, 8), 1e-3, np.float32)
    x[:, 0] = 100
    constants = {"w": np.eye(8, dtype=np.float32)[:, 1:]}
    case = Case(Graph((Node("MatMul", ("x", "w"), ("y",)),), constants, {"x": (x,)}, ("y",), 21), Options(data=True))
    assert check(case).findings == []
    monkeypatch.setattr("qmlir.analysis.measured.warn_of_quality", lambda *_: None)
    (found,) = check(case).findings
    assert (found.check, found.kind) == ("reported", "silent")


@pytest.mark.filterwarnings("ignore")
def test_results_of_which_some_elements_count_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the network says beside them; onnxruntime's results end behind these."""
    samples = tuple(np.array(x, np.float32) for x in ([[1, 0], [3, 4]], [[0, 2], [3, 4]]))
    nodes = (Node("NonZero", ("x",), ("p",)), Node("Cast", ("p",), ("y",), {"to": 1}))
    case = Case(Graph(nodes, {}, {"x": samples}, ("y",), 21), Options())
    assert check(case).findings == []
    of_positive = replace(
        case.graph, nodes=(Node("Clip", ("x", "two"), ("c",)), Node("NonZero", ("c",), ("p",)), nodes[1])
    )
    module = load_onnx(replace(of_positive, constants={"two": np.array(2, np.float32)}).model())
    monkeypatch.setattr("tests.fuzz.checks.load_onnx", lambda model: module.clone())
    assert {f.check for f in check(case).findings} == {"float", "simplify"}


@pytest.mark.filterwarnings("ignore")
def test_halves_of_a_branch_may_differ_by_their_rounding() -> None:
    x = np.linspace(-3, 3, 8, dtype=np.float32)
    named = onnx.helper.make_empty_tensor_value_info
    nodes = [onnx.helper.make_node("Cast", ["x"], ["h"], to=10), onnx.helper.make_node("Cast", ["h"], ["b"], to=1)]
    rounds, keeps = (onnx.helper.make_graph(n, "g", [], [named("b")]) for n in (nodes, nodes[1:]))
    keeps.node[0].input[0] = "x"
    branches = {"then_branch": rounds, "else_branch": keeps}
    graph = Graph((Node("If", ("on",), ("y",), branches),), {"on": np.array([True])}, {"x": (x,)}, ("y",), 21)
    assert check(Case(graph, Options())).findings == []
    assert rounds_to_halves(graph.nodes[0])
    assert not rounds_to_halves(Node("If", ("on",), ("y",), {"then_branch": keeps, "else_branch": keeps}))


@pytest.mark.filterwarnings("ignore")
def test_what_the_c_library_decides_is_no_finding() -> None:
    """A breakpoint of a gelu's table that depends on how erfcf rounds; also of the file that is written again."""
    x = np.arange(-10240, -9728).astype(np.int16)[None]
    scales = {"x": 3.488693982944824e-05, "y": 2.5336703401990235e-05}
    tensors = tuple(T(name, x.shape, np.int16, scale=[scale], zero=[0]) for name, scale in scales.items())
    file = File(tensors, (Op("GELU", [0], [1], "GeluOptions", {"Approximate": False}),), (0,), (1,), ((x,),))
    assert check(TfliteCase(file, Options(numerics="litert-reference", format="tflite"))).findings == []
