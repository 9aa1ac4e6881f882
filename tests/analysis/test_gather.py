"""The facts of a report: what is read from networks, and what is measured on samples."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.facts import Facts
from qmlir.analysis.gather import COMPARED, Given, gather
from qmlir.errors import OptionError, QmlirError
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from tests.backends.quantized_text import network as text_network
from tests.cli.small import Small, write_small


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("facts"))


@pytest.fixture(scope="module")
def network(small: Small) -> ModuleOp:
    return qmlir.load(small.onnx)


@pytest.fixture(scope="module")
def quantized(small: Small, network: ModuleOp) -> ModuleOp:
    return qmlir.quantize(network, data=list(small.samples[:, None]))


@pytest.fixture(scope="module")
def facts(small: Small, network: ModuleOp, quantized: ModuleOp) -> Facts:
    samples = list(small.samples[:, None])
    labels = [int(np.argmax(qmlir.compile(network)(each))) for each in samples]
    return gather({"q": quantized, "f": network}, Given(samples, labels, seconds=0.0))


@pytest.mark.slow
def test_the_float_network_comes_first(facts: Facts) -> None:
    assert [(n.name, n.quantized) for n in facts.networks] == [("f", False), ("q", True)]
    assert (facts.compared, facts.profiled) == (6, 6)
    assert {*facts.missing} == {"times", "device"}


def test_errors_are_those_of_analyze(facts: Facts, small: Small, network: ModuleOp, quantized: ModuleOp) -> None:
    rows = {row.tensor: row for row in qmlir.analyze(network, quantized, list(small.samples[:, None]))}
    layers = {layer.result.name: layer for layer in facts.networks[1].layers if layer.errors}
    assert {"active", "scores"} <= {*layers}
    for name, layer in layers.items():
        assert layer.errors is not None
        assert layer.errors.own == rows[name].isolated_sqnr
        assert layer.errors.whole == rows[name].cumulative_sqnr


def test_counts_and_decisions(facts: Facts) -> None:
    floats, quantized = ({layer.name: layer for layer in n.layers} for n in facts.networks)
    conv = quantized["conv1+relu1"]
    assert conv.counts.macs == floats["conv1+relu1"].counts.macs == 8 * 8 * 4 * 2 * 9
    assert conv.counts.weight_bytes == 4 * 2 * 9 + 4 * 4
    assert (conv.counts.read, conv.counts.written) == (2 * 8 * 8, 4 * 8 * 8)
    assert floats["conv1+relu1"].counts.written == 4 * 4 * 8 * 8
    assert conv.decision is not None
    assert conv.decision.outcome == "quantized"
    assert floats["conv1+relu1"].decision is None
    assert {"conv1", "relu1", "features", "active"} <= {*conv.names}


def test_distributions_and_thresholds(facts: Facts, small: Small) -> None:
    layers = {layer.name: layer for layer in facts.networks[1].layers}
    active, kernel = layers["conv1+relu1"].result, layers["conv1+relu1"].weights
    assert active.histogram is not None
    assert sum(active.histogram.counts) == 6 * 4 * 8 * 8
    assert (active.low, active.beyond is not None) == (0.0, True)
    assert kernel is not None
    assert kernel.histogram is not None
    assert sum(kernel.histogram.counts) == 4 * 2 * 9
    assert (kernel.axis, kernel.channels) == (0, 4)
    assert kernel.high == pytest.approx(max(kernel.scales or ()) * 127)


@pytest.mark.slow
def test_values_beyond_the_thresholds_are_counted(small: Small, network: ModuleOp) -> None:
    policy = {"rules": [{"name": "active", "range": [0.0, 0.5]}]}
    samples = list(small.samples[:, None])
    narrow = qmlir.quantize(network, data=samples, policy=policy)
    found = gather({"f": network, "q": narrow}, Given(samples, seconds=0.0))
    (active,) = (layer.result for layer in found.networks[1].layers if layer.result.name == "active")
    values = np.concatenate([np.maximum(_features(network, each), 0).reshape(-1) for each in samples])
    assert active.high == pytest.approx(0.5)
    assert active.beyond == pytest.approx(float((values > 0.5).mean()), abs=0.01)


@pytest.mark.parametrize("steps", [0, 1, 2, 50, 10**6])
def test_distributions_of_weights_that_lie_close_together(steps: int, tmp_path: Path) -> None:
    """Weights that differ by few places of a float have fewer bins than a report shows otherwise."""
    high = np.float32(1) + steps * np.spacing(np.float32(1))
    weights = np.linspace(1, high, 8, dtype=np.float32).reshape(2, 4)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
        "close",
        [helper.make_tensor_value_info("x", 1, [1, 4])],
        [helper.make_tensor_value_info("y", 1, [1, 2])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph), tmp_path / "close.onnx")
    facts = gather({"f": qmlir.load(tmp_path / "close.onnx")}, Given(seconds=0.0))
    found = facts.networks[0].layers[0].weights
    assert found is not None
    assert found.histogram is not None
    assert sum(found.histogram.counts) == 8


def _features(network: ModuleOp, sample: np.ndarray) -> np.ndarray:
    from qmlir.analysis.tensors import tapped
    from qmlir.compiler import Pipeline, compile, main_function

    module, names = tapped(Pipeline("simplify")(network), main_function(Pipeline("simplify")(network)))
    return compile(module).run(sample)[-len(names) :][names.index("active")]


def test_accuracy(facts: Facts) -> None:
    floats, quantized = (n.accuracy for n in facts.networks)
    assert floats is not None
    assert quantized is not None
    assert (floats.samples, floats.top1, floats.top5, floats.agreement) == (6, 1.0, None, None)
    assert quantized.agreement == quantized.top1


@pytest.mark.slow
def test_accuracy_is_that_of_score() -> None:
    """Logits before a softmax count: in few bits, the softmax itself makes different logits equal."""
    network = softmax_of_logits()
    rng = np.random.default_rng(3)
    samples = [rng.uniform(size=(1, 8)).astype(np.float32) for _ in range(40)]
    labels = [int(np.argmax(each)) for each in samples]
    quantized = qmlir.quantize(network, data=samples)
    outputs = np.stack([qmlir.compile(quantized)(each).reshape(-1) for each in samples])
    found = qmlir.score(network, quantized, samples, labels)
    floats, integers = (
        n.accuracy for n in gather({"f": network, "q": quantized}, Given(samples, labels, seconds=0.0)).networks
    )
    assert floats is not None
    assert integers is not None
    assert (floats.top1, floats.top5) == (1.0, 1.0)
    assert found.quantized.top1 is not None
    assert found.quantized.top5 is not None
    assert found.agreeing is not None
    assert integers.top1 == found.quantized.top1 / 40
    assert integers.top5 == found.quantized.top5 / 40
    assert integers.agreement == found.agreeing / 40
    assert integers.top1 > float((outputs.argmax(axis=1) == labels).mean())


def softmax_of_logits() -> ModuleOp:
    return text_network("""
      func.func @main(%x: tensor<1x8xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x8xf32> {
        %y = nn.softmax %x {axis = 1 : i64, qmlir.name = #qmlir.name<tensors ["y"]>}
           : tensor<1x8xf32> -> tensor<1x8xf32>
        func.return %y : tensor<1x8xf32>
      }""")


def test_labels_need_one_output_of_classes() -> None:
    module = text_network("func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> { return %x : tensor<2x4xf32> }")
    with pytest.raises(QmlirError, match=r"labels need a network of one output with a number for each class"):
        gather({"f": module}, Given([np.zeros((2, 4), np.float32)], [0], seconds=0.0))


def test_times_of_layers_add_up(network: ModuleOp) -> None:
    (found,) = gather({"f": network}, Given(seconds=0.01)).networks
    assert found.timing is not None
    spent = [layer.seconds for layer in found.layers if layer.seconds is not None]
    assert len(spent) >= 2
    assert all(each > 0 for each in spent)
    assert found.timing.map.size == found.timing.arena


def test_cycles_are_those_of_the_device(small: Small, network: ModuleOp) -> None:
    quantized = qmlir.quantize(network, data=list(small.samples[:, None]), target="ethos-u55-like")
    (found,) = gather({"q": quantized}, Given(seconds=0.0, target="ethos-u55-like")).networks
    predicted = qmlir.compile(quantized, target="ethos-u55-like").predicted
    assert found.run is not None
    assert found.run.cycles == predicted.cycles
    costs = [layer.device for layer in found.layers if layer.device] + list(found.run.others.values())
    assert sum(cost.cycles for cost in costs) == predicted.cycles
    assert [roof.memory for roof in found.run.rooflines] == ["sram", "flash"]


def test_layers_that_a_device_fuses_are_in_its_table() -> None:
    """A convolution and the sum behind it are one layer of the device: its cost is the convolution's."""
    image = "tensor<1x8x8x8xf32>"
    weights = ", ".join(str(n % 7 - 3.0) for n in range(576))
    text = f"""
    func.func @main(%x: {image}) -> {image} {{
      %w = nn.constant <tensor<8x3x3x8xf32>, [{weights}]> : tensor<8x3x3x8xf32>
      %c = nn.conv2d %x, %w {{padding = array<i64: 1, 1, 1, 1>, qmlir.name = #qmlir.name<nodes ["conv"]>}}
        : {image}, tensor<8x3x3x8xf32> -> {image}
      %y = nn.add %x, %c {{qmlir.name = #qmlir.name<nodes ["sum"]>}} : {image}, {image} -> {image}
      func.return %y : {image}
    }}"""
    module = parse_text(make_context(), text, "network")
    samples = list(np.random.default_rng(0).standard_normal((4, 1, 8, 8, 8)).astype(np.float32))
    quantized = qmlir.quantize(module, data=samples, target="ethos-u55-like")
    (found,) = gather({"q": quantized}, Given(seconds=0.0, target="ethos-u55-like")).networks
    assert found.run is not None
    costs = {layer.operation: layer.device for layer in found.layers}
    conv, total = costs["nn.conv2d"], costs["nn.add"]
    assert conv is not None
    assert total is not None
    assert conv.cycles > 0
    assert (total.cycles, total.bound) == (0, 0)
    assert (conv.fused, total.fused) == ("sum", "conv")
    assert (
        sum(cost.cycles for cost in costs.values() if cost) + sum(cost.cycles for cost in found.run.others.values())
        == found.run.cycles
    )


def test_few_samples_are_compared(small: Small, network: ModuleOp, quantized: ModuleOp) -> None:
    samples = list(small.samples[:, None]) * 7
    assert gather({"f": network, "q": quantized}, Given(samples, seconds=0.0)).compared == COMPARED


def test_networks_that_are_too_many(network: ModuleOp, quantized: ModuleOp) -> None:
    for given, got in (({"a": network, "b": network}, "2 float"), ({}, "none")):
        with pytest.raises(OptionError, match=f"at most one float network.*got {got}"):
            gather(given, Given(seconds=0.0))
    with pytest.raises(OptionError, match="got 0 float and 3 quantized"):
        gather({"a": quantized, "b": quantized, "c": quantized}, Given(seconds=0.0))


@pytest.mark.parametrize(
    ("labels", "need"),
    [([0], "as many as samples"), ([0.5] * 6, "a list of integers"), ([0, 1, 2, 3, 0, 0], "from 0 to 2")],
)
def test_labels_that_do_not_fit(small: Small, network: ModuleOp, labels: list[float], need: str) -> None:
    with pytest.raises(OptionError, match=need):
        gather({"f": network}, Given(list(small.samples[:, None]), labels, seconds=0.0))


def test_a_network_that_was_quantized_elsewhere(shared_free: Path) -> None:
    """The casts of its file are folded, as for all that qmlir does with it."""
    (found,) = gather({"q": qmlir.load(shared_free)}, Given(seconds=0.0)).networks
    assert found.quantized
    assert {layer.operation for layer in found.layers} >= {"nn.conv2d", "nn.fully_connected"}
    assert all(layer.result.quantized for layer in found.layers if layer.operation == "nn.conv2d")


@pytest.fixture
def shared_free(quantized: ModuleOp, tmp_path: Path) -> Path:
    qmlir.export(quantized, tmp_path / "qdq.onnx", format="onnx-qdq", activations="kept")
    return tmp_path / "qdq.onnx"
