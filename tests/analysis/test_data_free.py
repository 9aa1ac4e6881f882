"""Ranges from batch normalizations alone: the statistics, the rules beside draws, networks, and refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import qmlir
from qmlir.analysis.data_free import Spread, data_free_profile, product_of, rectified, sum_of
from qmlir.cli.main import main as run
from qmlir.errors import FileError, OptionError, QmlirWarning
from tests.conftest import ROOT
from tests.transforms.quantize.calibrated import sqnr

Array = npt.NDArray[Any]
DIGITS = ROOT / "examples" / "digits"


def pictures(count: int, seed: int) -> list[Array]:
    """Of 16x16 pixels from 0 to 1, with coarse structure."""
    draw = np.random.default_rng(seed)
    coarse = draw.uniform(0, 1, (count, 1, 3, 4, 4)).repeat(4, axis=3).repeat(4, axis=4)
    return list(np.clip(coarse + draw.normal(0, 0.1, coarse.shape), 0, 1).astype(np.float32))


class Network:
    """Writes a residual network whose batch normalizations hold the statistics of its data, as if it were trained."""

    def __init__(self) -> None:
        self.draw = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}

    def node(self, kind: str, inputs: list[str], result: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [result], **attributes))
        return result

    def normalized(self, x: str, name: str, shape: tuple[int, ...], *, relu: bool = True, **attributes: Any) -> str:
        """A convolution, a batch normalization and a relu."""
        draw, (outputs, *_) = self.draw, shape
        self.constants[f"{name}_w"] = draw.standard_normal(shape)
        pads = [shape[-1] // 2] * 4
        self.node("Conv", [x, f"{name}_w"], f"{name}_c", pads=pads, **attributes)
        new = {"s": draw.uniform(0.5, 2, outputs), "b": draw.normal(0, 0.7, outputs)}
        new |= {"m": np.zeros(outputs), "v": np.ones(outputs)}
        self.constants |= {f"{name}_{key}": value for key, value in new.items()}
        y = self.node("BatchNormalization", [f"{name}_c", *(f"{name}_{key}" for key in new)], f"{name}_bn")
        return self.node("Relu", [y], f"{name}_r") if relu else y

    def model(self, result: str) -> onnx.ModelProto:
        constants = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in self.constants.items()]
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 16, 16])
        y = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [x], [y], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def train(self, *layers: str) -> None:
        for name in layers:
            session = ort.InferenceSession(self.model(f"{name}_c").SerializeToString())
            y = np.concatenate([np.asarray(session.run(None, {"x": x})[0]) for x in pictures(64, 1)])
            self.constants |= {f"{name}_m": y.mean(axis=(0, 2, 3)), f"{name}_v": y.var(axis=(0, 2, 3))}


@pytest.fixture(scope="module")
def network() -> Network:
    net = Network()
    first = net.normalized("x", "c1", (8, 3, 3, 3))
    deep = net.normalized(net.normalized(first, "dw", (8, 1, 3, 3), group=8), "c2", (8, 8, 1, 1), relu=False)
    total = net.node("Relu", [net.node("Add", [first, deep], "sum")], "sum_r")
    last = net.normalized(total, "c3", (16, 8, 3, 3), strides=[2, 2])
    net.constants |= {"fw": net.draw.standard_normal((5, 16)), "fb": net.draw.standard_normal(5)}
    flat = net.node("Flatten", [net.node("GlobalAveragePool", [last], "mean")], "flat")
    net.node("Gemm", [flat, "fw", "fb"], "logits", transB=1)
    net.train("c1", "dw", "c2", "c3")
    return net


@pytest.fixture
def path(network: Network, tmp_path: Path) -> Path:
    onnx.save(network.model("logits"), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_ranges_are_those_of_the_statistics(network: Network, path: Path) -> None:
    found = data_free_profile(path, (0, 1)).tensors
    bias, scale = (network.constants[f"c2_{key}"] for key in "bs")
    low, high = (bias - 6 * scale).min(), (bias + 6 * scale).max()
    np.testing.assert_allclose((found["c2_bn"].lo, found["c2_bn"].hi), (low, high), rtol=1e-4)
    for name in ("c1", "dw", "c3"):
        bias, scale = (network.constants[f"{name}_{key}"] for key in "bs")
        np.testing.assert_allclose(
            (found[f"{name}_r"].lo, found[f"{name}_r"].hi), (0, (bias + 6 * scale).max()), rtol=1e-4
        )
    assert (found["x"].lo, found["x"].hi) == (0, 1)


def test_deviations_scale_the_ranges(network: Network, path: Path) -> None:
    found = data_free_profile(path, (0, 1), deviations=3).tensors["dw_r"]
    assert found.hi == pytest.approx((network.constants["dw_b"] + 3 * network.constants["dw_s"]).max(), rel=1e-4)


def test_hardly_a_value_lies_outside(path: Path) -> None:
    free, seen = data_free_profile(path, (0, 1)), qmlir.profile(path, pictures(64, 2))
    assert list(free.tensors) == list(seen.tensors)
    for name, tensor in seen.tensors.items():
        inside = free.tensors[name]
        assert inside.hi - inside.lo > 0.85 * (tensor.hi - tensor.lo)


def test_a_network_is_quantized_without_a_sample(path: Path, tmp_path: Path) -> None:
    data_free_profile(path, (0, 1)).save(tmp_path / "free.yaml")
    quantized = qmlir.quantize(path, tmp_path / "free.yaml", fail_on_float=True)
    exact, meaning = qmlir.reference(qmlir.load(path)), qmlir.reference(quantized)
    truth, got = (np.concatenate([f(x) for x in pictures(30, 3)]) for f in (exact, meaning))
    assert sqnr(truth, got) > 25


@pytest.mark.slow
def test_the_ledger_and_the_report_say_so(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each operation that a range was estimated for says so, as text, in JSON and on the page; others do not."""
    monkeypatch.chdir(tmp_path)
    data_free_profile(path, (0, 1)).save("free.yaml")
    assert run(["quantize", str(path), "--profile", "free.yaml", "-o", "q.mlir", "--ledger", "q.json"]) == 0
    estimated = [e.node for e in qmlir.decisions("q.mlir") if "statistics of batch normalizations" in e.reason]
    assert len(estimated) > 5
    assert f"{len(estimated)} of them in ranges that were estimated without data" in capsys.readouterr().out
    ledger = json.loads(Path("q.json").read_text())
    assert ledger["totals"]["data_free"] == len(estimated)
    assert [d["node"] for d in ledger["decisions"] if "without data" in d["reason"]] == estimated
    page = qmlir.report(path, "q.mlir", seconds=0).html
    assert "Ranges of q are estimated from statistics of batch normalizations, without data." in page
    qmlir.save(qmlir.quantize(path, data=pictures(4, 3)), "seen.mlir")
    assert not any("without data" in e.reason for e in qmlir.decisions("seen.mlir"))
    assert "estimated from" not in qmlir.report(path, "seen.mlir", seconds=0).html


def test_a_profile_of_ranges_is_read_as_it_was_written(path: Path, tmp_path: Path) -> None:
    found = data_free_profile(path, (0, 1))
    found.save(tmp_path / "free.yaml")
    read = qmlir.Profile.load(tmp_path / "free.yaml")
    assert {n: (t.lo, t.hi, t.key, t.shape) for n, t in read.tensors.items()} == {
        n: (t.lo, t.hi, t.key, t.shape) for n, t in found.tensors.items()
    }


@pytest.mark.slow
def test_a_trained_network_is_quantized_without_a_sample() -> None:
    profile = data_free_profile(DIGITS / "digits.onnx", (0, 1))
    quantized = qmlir.compile(qmlir.quantize(DIGITS / "digits.onnx", profile, fail_on_float=True))
    exact = qmlir.compile(qmlir.load(DIGITS / "digits.onnx"))
    images = np.load(DIGITS / "digits.npz")["test_images"][:, None]
    assert np.mean([exact(x).argmax() == quantized(x).argmax() for x in images]) > 0.98


# ---------------------------------------------------------------------------------------------------------------
# The rules, beside draws


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (-2.0, 0.7), (3.0, 2.0)])
def test_rectified_moments(mean: float, deviation: float) -> None:
    drawn = np.maximum(np.random.default_rng(0).normal(mean, deviation, 1_000_000), 0)
    first, second = rectified(np.array(mean), np.array(deviation**2))
    assert float(first) == pytest.approx(drawn.mean(), abs=0.005)
    assert float(second) == pytest.approx(drawn.var(), abs=0.01)


def test_clamps_on_both_sides_keep_their_bounds() -> None:
    spread = Spread.normal(np.array([5.0]), np.array([4.0]), 6).clamped(0.0, 6.0)
    drawn = np.clip(np.random.default_rng(0).normal(5, 2, 1_000_000), 0, 6)
    assert (spread.low[0], spread.high[0]) == (0, 6)
    assert spread.mean[0] == pytest.approx(drawn.mean(), abs=0.05)
    assert spread.variance[0] == pytest.approx(drawn.var(), abs=0.15)


def test_sums_of_independent_tensors() -> None:
    one, other = Spread.normal(np.array([1.0]), np.array([9.0]), 6), Spread.normal(np.array([2.0]), np.array([16.0]), 6)
    total = sum_of(one, other, 6)
    assert (total.mean[0], total.variance[0], total.low[0], total.high[0]) == (3, 25, 3 - 30, 3 + 30)
    narrow = sum_of(Spread.even((1,), 0, 1), Spread.even((1,), 0, 1), 6)
    assert (narrow.low[0], narrow.high[0]) == (0, 2)


def test_products_with_constants() -> None:
    constant = Spread(*(np.array([v]) for v in (-2.0, 0.0, -2.0, -2.0)))
    found = product_of(Spread.even((1,), 0, 3), constant)
    assert found is not None
    assert (found.mean[0], found.variance[0], found.low[0], found.high[0]) == (-3, 3, -6, 0)
    assert product_of(Spread.even((1,), 0, 3), Spread.even((1,), 0, 3)) is None


# ---------------------------------------------------------------------------------------------------------------
# Refusals


def test_what_no_statistics_reach_is_named(tmp_path: Path) -> None:
    net = Network()
    one, other = net.normalized("x", "c1", (4, 3, 3, 3)), net.normalized("x", "c2", (4, 3, 3, 3))
    net.node("Relu", [net.node("Mul", [one, other], "product")], "result")
    onnx.save(net.model("result"), tmp_path / "net.onnx")
    with pytest.warns(QmlirWarning, match=r'no statistics reach .* "result": no rule for nn.mul'):
        found = data_free_profile(tmp_path / "net.onnx", (0, 1))
    assert found.tensors["c1_r"].count == 1
    assert found.tensors["result"].count == 0


def test_networks_without_statistics_are_refused(tmp_path: Path) -> None:
    net = Network()
    net.node("Relu", ["x"], "result")
    onnx.save(net.model("result"), tmp_path / "net.onnx")
    with pytest.raises(FileError, match="must have batch normalizations with constant parameters, got none"):
        data_free_profile(tmp_path / "net.onnx", (0, 1))
    with pytest.raises(FileError, match=r"must be an \.onnx file with batch normalizations, got a \.mlir file"):
        data_free_profile(ROOT / "examples" / "digits" / "model.mlir", (0, 1))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((1, 0), "must be two finite numbers, the least and the greatest"),
        ((0, float("inf")), "must be two finite numbers"),
        ({"y": (0, 1)}, 'needs a range for the input "x", got ranges for y'),
    ],
)
def test_ranges_of_inputs_are_checked(given: Any, said: str, path: Path) -> None:
    with pytest.raises(OptionError, match=said):
        data_free_profile(path, given)
    with pytest.raises(OptionError, match="deviations: must be a number above 0, got 0"):
        data_free_profile(path, (0, 1), deviations=0)


def test_what_refusals_advise(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiling on samples, exporting batch normalizations, and giving a range of the input."""
    monkeypatch.chdir(tmp_path)
    np.save("samples.npy", np.concatenate(pictures(4, 1)))
    net = Network()
    net.node("Relu", ["x"], "result")
    onnx.save(net.model("result"), "bare.onnx")
    assert run(["profile", "bare.onnx", "--data-free", "--input-range", "0,1", "-o", "a.yaml"]) == 1
    assert not run(["profile", "bare.onnx", "--data", "samples.npy", "-o", "a.yaml"])
    assert run(["profile", str(path), "--data-free", "-o", "b.yaml"]) == 1
    assert not run(["profile", str(path), "--data-free", "--input-range", "0,1", "-o", "b.yaml"])


def test_the_command_writes_the_same_profile(path: Path, tmp_path: Path) -> None:
    arguments = ["--data-free", "--input-range", "x=0,1", "--deviations", "5", "-o", str(tmp_path / "free.yaml")]
    assert not run(["profile", str(path), *arguments])
    data_free_profile(path, (0, 1), 5).save(tmp_path / "python.yaml")
    assert (tmp_path / "free.yaml").read_bytes() == (tmp_path / "python.yaml").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--data: is needed, got none; give --data, or --data-free with --input-range"),
        (["--data-free"], "--data-free: needs --input-range, got none"),
        (["--data-free", "--input-range", "wide"], "--input-range: must be LO,HI or NAME=LO,HI, got wide"),
        (["--data-free", "--data", "x.npy"], "--data-free: cannot go with --data"),
        (["--data-free", "--per-channel"], "--data-free: cannot go with --per-channel"),
        (["--data", "x.npy", "--input-range", "0,1"], "--input-range: goes with --data-free only"),
        (["--data", "x.npy", "--deviations", "3"], "--deviations: goes with --data-free only"),
    ],
)
def test_the_command_refuses(
    options: list[str], said: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", str(path), *options, "-o", str(tmp_path / "free.yaml")]) == 1
    assert said in capsys.readouterr().err
