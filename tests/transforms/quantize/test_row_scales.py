"""Contractions before functions that are steep for their data have a scale for each row of what they read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.checker.check import check
from qmlir.dialects.nn.contraction import ContractionOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.ir.rewriting import tensor_name
from qmlir.transforms.quantize.ranges.digits import products
from tests.checker.networks import certified
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load, model, node
from tests.transforms.quantize.calibrated import parsed, sqnr
from tests.transforms.quantize.exported import results_of_file

RNG = np.random.default_rng(9)
Array = Any

DECAY = np.logspace(0, -2, 64).astype(np.float32)
FILTERS = np.kron(np.eye(8), np.ones((8, 1))).astype(np.float32)
TONES = RNG.normal(size=(40, 64)).astype(np.float32) * DECAY
FRONT: Mapping[str, tuple[list[onnx.NodeProto], Mapping[str, Any], tuple[int, ...]]] = {
    "fully connected": (
        [node("MatMul", "x f", "a"), node("Mul", "a a", "p"), node("MatMul", "p m", "s")],
        {"f": TONES, "m": FILTERS},
        (16, 40),
    ),
    "with a bias": (
        [node("MatMul", "x f", "a"), node("Mul", "a a", "p"), node("Gemm", "p m b", "s")],
        {"f": TONES, "m": FILTERS, "b": np.full(8, 1e-4, np.float32)},
        (16, 40),
    ),
    "matrices": (
        [node("MatMul", "x f", "a"), node("Mul", "a a", "p"), node("MatMul", "p m", "s")],
        {"f": TONES, "m": np.stack([FILTERS, 2 * FILTERS])},
        (2, 8, 40),
    ),
    "filters on the left": (
        [node("MatMul", "f x", "a"), node("Mul", "a a", "p"), node("MatMul", "m p", "s")],
        {"f": np.stack([TONES.T] * 2), "m": np.stack([FILTERS.T] * 2)},
        (2, 40, 8),
    ),
    "pixels": (
        [node("Conv", "x f", "a"), node("Mul", "a a", "p"), node("Conv", "p m", "s")],
        {"f": TONES.T.reshape(64, 40, 1, 1).copy(), "m": FILTERS.T.reshape(8, 64, 1, 1).copy()},
        (1, 40, 4, 4),
    ),
    "windows": (
        [node("Conv", "x f", "a"), node("Mul", "a a", "p"), node("Conv", "p m", "s")],
        {"f": TONES.T.reshape(64, 40, 1, 1).copy(), "m": np.repeat(FILTERS.T.reshape(8, 64, 1, 1), 2, 3) / 2},
        (1, 40, 4, 4),
    ),
}
"""Powers of amplitudes that span two decades, and sums of the powers of neighbours."""


def front(name: str) -> tuple[ModuleOp, list[Array]]:
    nodes, constants, shape = FRONT[name]
    nodes = [*nodes, node("Max", "s e", "q"), node("Log", "q")]
    loud = [(RNG.normal(size=shape) * 10 ** RNG.uniform(-2, 0)).astype(np.float32) for _ in range(20)]
    return load(model(nodes, {"x": shape}, {**constants, "e": np.array(1e-7, np.float32)})), loud


def filters(module: ModuleOp) -> ContractionOp:
    """The contraction right before the logarithm."""
    return [op for op in module.walk() if isinstance(op, ContractionOp)][-1]


def widths(module: ModuleOp) -> list[list[int]]:
    """The storage widths of what each contraction reads, data and weights, in order."""
    found = [op for op in module.walk() if isinstance(op, ContractionOp)]
    return [[uniform(v).storage_width for v in op.operands[:2]] for op in found]


def outputs(network: Any, samples: Sequence[Array]) -> Array:
    return np.stack([network(x) for x in samples])


@crossed({"name": list(FRONT), "precision": ["int8", "int16"]})
def test_the_rows_have_scales_of_their_own(name: str, precision: str) -> None:
    """Before, one scale for all powers left 1 to 15 dB of the logarithm, of 8 bits as of 16."""
    module, data = front(name)
    q = qmlir.quantize(module, data=data[:10], precision=precision)
    op = filters(q)
    assert [uniform(v).storage_width for v in (*op.operands[:2], op.results[0])].count(32) == 2
    entries = [e for e in qmlir.decisions(q) if e.operation == op.name]
    assert entries[-1].outcome == "quantized"
    assert "i32" in entries[-1].reason
    truth, got = outputs(qmlir.reference(module), data[10:]), outputs(qmlir.reference(q), data[10:])
    np.testing.assert_array_equal(got, outputs(qmlir.compile(q), data[10:]))
    assert sqnr(truth, got) > (5 if precision == "int8" else 38)


@pytest.mark.parametrize("schema", ["symmetric", "symmetric_with_power2_scale"])
def test_every_schema_divides_rows(schema: str) -> None:
    module, data = front("fully connected")
    q = qmlir.quantize(module, data=data[:10], precision="int16", schema=schema)
    assert uniform(filters(q).operands[0]).storage_width == 32
    assert sqnr(outputs(qmlir.reference(module), data[10:]), outputs(qmlir.reference(q), data[10:])) > 38


def test_data_that_are_louder_than_the_profiles_do_not_saturate() -> None:
    module, data = front("matrices")
    policy = {"rules": [{"name": "x", "range": [-64.0, 64.0]}]}
    q = qmlir.quantize(module, data=[x / 10 for x in data[:10]], precision="int16", policy=policy)
    sums = [uniform(filters(n).results[0]) for n in (q, qmlir.quantize(module, data=data[:10], precision="int16"))]
    assert sums[0] == sums[1]


def test_rows_of_zeros_stay_zeros() -> None:
    module, data = front("fully connected")
    q = qmlir.quantize(module, data=data, precision="int16")
    silence = np.zeros_like(data[0])
    np.testing.assert_allclose(qmlir.compile(q)(silence), qmlir.reference(module)(silence), atol=1e-2)


def test_the_tensor_keeps_its_name_and_the_node_its_decision() -> None:
    module, data = front("fully connected")
    q = qmlir.quantize(module, data=data[:10])
    assert [e.node for e in qmlir.decisions(q) if e.operation == "nn.fully_connected"] == ["a", "s"]
    (named,) = [op for op in q.walk() if op.results and tensor_name(op.results[0]) == "s"]
    assert named.name == "nn.mul"


def test_a_rule_for_the_contraction_is_followed() -> None:
    module, data = front("fully connected")
    policy = {"rules": [{"name": "s", "precision": "int16"}]}
    q = qmlir.quantize(module, data=data[:10], policy=policy)
    assert uniform(filters(q).operands[0]).storage_width == 16


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_what_precedes_the_first_contraction_is_rounded_once_for_16_bits(precision: str) -> None:
    nodes, constants, shape = FRONT["fully connected"]
    emphasis = [node("Mul", "x c", "m1"), node("Sub", "x m1", "d")]
    nodes = [*emphasis, node("MatMul", "d f", "a"), *nodes[1:], node("Max", "s e", "q"), node("Log", "q")]
    small = {"c": np.array(0.97, np.float32), "e": np.array(1e-7, np.float32)}
    module = load(model(nodes, {"x": shape}, {**constants, **small}))
    _, data = front("fully connected")
    q = qmlir.quantize(module, data=data[:10], precision=precision)
    outcomes = [e.outcome for e in qmlir.decisions(q) if e.operation == "nn.mul"]
    assert outcomes[0] == ("float" if precision == "int16" else "quantized")


def test_a_device_keeps_few_products_float() -> None:
    """Devices read no data of 32 bits: a contraction with few of the products stays float there."""
    nodes = [node("MatMul", "x f", "a"), node("Mul", "a a", "p"), node("MatMul", "p m", "s"), node("Max", "s e", "q"),
             node("Log", "q")]  # fmt: skip
    tones = RNG.normal(size=(400, 64)).astype(np.float32) * DECAY
    module = load(model(nodes, {"x": (16, 400)}, {"f": tones, "m": FILTERS, "e": np.array(1e-6, np.float32)}))
    counts = [products(op) for op in module.walk()]
    assert sum(sorted(counts)[:-1]) < 0.05 * sum(counts)
    q = qmlir.quantize(module, data=[RNG.normal(size=(16, 400)).astype(np.float32) for _ in range(4)], target="nmp")
    second = [e for e in qmlir.decisions(q) if e.operation == "nn.fully_connected"][-1]
    assert (second.outcome, second.code) == ("float", "steep")


WORDS = """
func.func @main(%x: tensor<2x3x!quant.uniform<i32<-1073741824:1073741824>:f32, 1.0>>)
    -> tensor<2x2x!quant.uniform<i32:f32, 0.5>> {
  %w = nn.constant <tensor<3x2xi8>, [1, -2, 3, 127, 5, -128]>
    : tensor<3x2x!quant.uniform<i8:f32, 0.01>>
  %y = nn.matmul %x, %w : tensor<2x3x!quant.uniform<i32<-1073741824:1073741824>:f32, 1.0>>,
    tensor<3x2x!quant.uniform<i8:f32, 0.01>> -> tensor<2x2x!quant.uniform<i32:f32, 0.5>>
  func.return %y : tensor<2x2x!quant.uniform<i32:f32, 0.5>>
}
"""


def test_certificates_bound_the_sums_of_64_bits(tmp_path: Path) -> None:
    made = certified(parsed(WORDS), tmp_path)
    (sums,) = [o for o in made.certificate["operations"] if o["operation"] == "qint.matmul"]
    assert str(3 * 128 << 31) in str(sums)
    check(made.path)


@crossed({"format": ["onnx-qdq", "onnx-qoperator", "onnx-integer", "tflite"], "name": ["with a bias", "matrices"]})
def test_files_compute_what_the_network_computes(format: str, name: str, tmp_path: Path) -> None:
    module, data = front(name)
    q = qmlir.quantize(module, data=data[:10], schema="symmetric", weight_precision="int7")
    ours = outputs(qmlir.reference(q), data[10:])
    theirs = results_of_file(q, format, data[10:], tmp_path)
    assert sqnr(ours, theirs.reshape(ours.shape)) > 100


OCTAVE = np.cos(np.outer(np.arange(32), [0.3, 0.9, 1.5, 2.1])) * np.hanning(32)[:, None]
LOW = np.hanning(8) / np.hanning(8).sum()


def octaves() -> tuple[ModuleOp, list[Array]]:
    """A transform with constant Q: filters for two octaves, the lower one behind a low pass, then the log of powers."""
    filters = OCTAVE.T.reshape(4, 1, 1, 32).astype(np.float32)
    nodes = [node("Conv", "x f", "a1", strides=[1, 8]), node("Neg", "a1", "n1"),
             node("Conv", "x l", "d", strides=[1, 2]), node("Conv", "d f", "a2", strides=[1, 4]),
             node("Slice", "n1 o z t", "s1"),
             node("Concat", "s1 a2", "a", axis=1), node("Mul", "a c", "m"), node("Mul", "m m", "p"),
             node("ReduceSum", "p r", "s", keepdims=1), node("Sqrt", "s", "q"), node("Mul", "q q", "w"),
             node("Add", "w e", "v"), node("Log", "v")]  # fmt: skip
    constants = {"f": filters, "l": LOW.reshape(1, 1, 1, 8).astype(np.float32), "o": np.array([0]), "z": np.array([20]),
                 "t": np.array([3]), "r": np.array([2]), "e": np.array(1e-10, np.float32),
                 "c": np.linspace(1, 2, 8).astype(np.float32).reshape(1, 8, 1, 1)}  # fmt: skip
    module = load(model(nodes, {"x": (1, 1, 1, 228)}, constants))
    times = np.arange(228)
    draw = np.random.default_rng(4)
    heard = [np.sin(times * draw.uniform(0.2, 2)) + 1e-3 * draw.normal(size=228) for _ in range(16)]
    return module, [x.astype(np.float32).reshape(1, 1, 1, 228) for x in heard]


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_all_filters_before_a_logarithm_of_powers_divide_rows(precision: str) -> None:
    """Each keeps the digits of what is quiet beside a tone, the low pass as well; their weights have 16 bits.

    If they read 8 bits, the result has 10 dB, and 31 with 16 bits.
    """
    module, data = octaves()
    q = qmlir.quantize(module, data=data, precision=precision)
    assert widths(q) == [[32, 16]] * 3
    truth, got = outputs(qmlir.reference(module), data), outputs(qmlir.reference(q), data)
    np.testing.assert_array_equal(got, outputs(qmlir.compile(q), data))
    assert sqnr(truth, got) > 40


def test_stated_weights_are_kept_beside_divided_rows() -> None:
    module, data = octaves()
    assert widths(qmlir.quantize(module, data=data, precision="int16", weight_precision="int8")) == [[32, 8]] * 3


def gated(gain: float) -> tuple[ModuleOp, list[Array]]:
    """A gate of energies that span decades, as attention over time in an audio network has it."""
    weights = {"f": TONES, "g": (gain * RNG.normal(size=(64, 8))).astype(np.float32)}
    nodes = [node("MatMul", "x f", "a"), node("Mul", "a a", "p"), node("ReduceMean", "p", "m", axes=[0], keepdims=1),
             node("MatMul", "m g", "s"), node("Add", "s h", "t"), node("Sigmoid", "t")]  # fmt: skip
    module = load(model(nodes, {"x": (16, 40), "h": (1, 8)}, weights, opset=13))
    draw = np.random.default_rng(5)
    loud = [(draw.normal(size=(16, 40)) * 10 ** draw.uniform(-2, 0)).astype(np.float32) for _ in range(24)]
    return module, [{"x": x, "h": draw.uniform(-1, 1, (1, 8)).astype(np.float32)} for x in loud]


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_a_gate_of_energies_divides_rows(precision: str) -> None:
    """Most sums saturate the gate. The quiet ones, which do not, keep their digits: else, 7 and 29 dB remain."""
    module, data = gated(30)
    q = qmlir.quantize(module, data=data, precision=precision)
    assert widths(q) == [[8 if precision == "int8" else 16] * 2, [32, 16]]
    (*_, last) = [e for e in qmlir.decisions(q) if e.operation == "nn.fully_connected"]
    assert "i32" in last.reason
    truth, got = outputs(qmlir.reference(module), data), outputs(qmlir.reference(q), data)
    np.testing.assert_array_equal(got, outputs(qmlir.compile(q), data))
    assert sqnr(truth, got) > (26 if precision == "int8" else 70)


def test_a_gate_that_does_not_saturate_reads_integers() -> None:
    module, data = gated(0.01)
    assert widths(qmlir.quantize(module, data=data))[1] == [8, 8]


def masked(gain: float) -> tuple[ModuleOp, list[Array]]:
    """A mask of a layer that reads a rectified layer and a quiet branch, as networks that enhance speech have it."""
    draw = np.random.default_rng(5)
    weights = {"f": TONES, "g": (gain * draw.normal(size=(64, 8))).astype(np.float32)}
    nodes = [node("MatMul", "x f", "a"), node("LeakyRelu", "a", "l", alpha=0.001), node("Add", "l h", "t"),
             node("MatMul", "t g", "s"), node("Tanh", "s")]  # fmt: skip
    module = load(model(nodes, {"x": (16, 40), "h": (16, 64)}, weights))
    loud = [(draw.normal(size=(16, 40)) * 10 ** draw.uniform(-3, 0)).astype(np.float32) for _ in range(24)]
    return module, [{"x": x, "h": np.tile(x[:, :1] / 10, 64)} for x in loud]


@crossed({"gain": [0.3, 3], "precision": ["int8", "int16"]})
def test_a_mask_that_loud_data_saturate_divides_rows(gain: float, precision: str) -> None:
    """With rows of 16 bits, which leave more than half of the mask's decibels, the loud mask has 49 dB."""
    module, data = masked(gain)
    q = qmlir.quantize(module, data=data, precision=precision)
    bits = 8 if precision == "int8" else 16
    assert widths(q) == [[bits] * 2, [32, 16] if gain > 1 else [bits] * 2]
    truth, got = outputs(qmlir.reference(module), data), outputs(qmlir.reference(q), data)
    np.testing.assert_array_equal(got, outputs(qmlir.compile(q), data))
    assert sqnr(truth, got) > (17 if precision == "int8" else 59)


@crossed({"axis": [None, 0], "precision": ["int8", "int16"]})
def test_weights_that_the_file_stores_are_read_beside_divided_rows(axis: int | None, precision: str) -> None:
    """Files with weights of 8 bits and data of floats, as TFLite's dynamic range and ONNX's weights alone have them."""
    scales = np.array(0.01 if axis is None else np.linspace(0.01, 0.02, 8), np.float32)
    zero = np.zeros(scales.shape, np.int8)
    nodes = [node("Conv", "x f", "a"), node("Mul", "a a", "p"),
             node("DequantizeLinear", "mi ms mz", "m", **({} if axis is None else {"axis": axis})),
             node("Conv", "p m", "s"), node("Max", "s e", "q"), node("Log", "q")]  # fmt: skip
    stored = (100 * FILTERS.T).astype(np.int8).reshape(8, 64, 1, 1)
    tones, e = TONES.T.reshape(64, 40, 1, 1).copy(), np.array(1e-7, np.float32)
    module = load(model(nodes, {"x": (1, 40, 4, 4)}, {"f": tones, "mi": stored, "ms": scales, "mz": zero, "e": e}))
    data = [(RNG.normal(size=(1, 40, 4, 4)) * 10 ** RNG.uniform(-2, 0)).astype(np.float32) for _ in range(20)]
    q = qmlir.quantize(module, data=data[:10], precision=precision)
    assert widths(q)[1] == [32, 8]
    truth, got = outputs(qmlir.reference(module), data[10:]), outputs(qmlir.reference(q), data[10:])
    np.testing.assert_array_equal(got, outputs(qmlir.compile(q), data[10:]))
    assert sqnr(truth, got) > (5 if precision == "int8" else 38)
