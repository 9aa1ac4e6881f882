"""Ranges end where the functions that read a tensor are flat, and parts of states keep scales of their own."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn import FullyConnectedOp
from qmlir.dialects.nn.quantizable import uniform
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load, model, node
from tests.transforms.quantize.calibrated import parsed, sqnr

RNG = np.random.default_rng(11)
Array = Any
LOUD = [(RNG.normal(size=(1, 16)) * 10 ** RNG.uniform(-1, 2)).astype(np.float32) for _ in range(24)]
WEIGHTS = {"w": RNG.normal(size=(16, 8)).astype(np.float32)}


def outputs(network: Any, samples: list[Array]) -> Array:
    return np.stack([network(x) for x in samples])


def reach(module: ModuleOp) -> float:
    """The greatest number that the result of the network's layer holds."""
    (op,) = [o for o in module.walk() if isinstance(o, FullyConnectedOp)]
    element = uniform(op.y)
    return (element.storage_max - element.zero_point) * element.scale


ENDS = {"Sigmoid": (11, 17), "Tanh": (6, 9), "Erf": (4, 5), "Softsign": (1e3, 1e6), "Elu": (100, 1e6)}
"""Function → the ends of its range at 8 and at 16 bits; the last two have an end that is not flat."""


@crossed({"function": list(ENDS), "precision": ["int8", "int16"]})
def test_the_range_ends_where_the_function_is_flat(function: str, precision: str) -> None:
    module = load(model([node("MatMul", "x w", "s"), node(function, "s")], {"x": (1, 16)}, WEIGHTS))
    q = qmlir.quantize(module, data=LOUD[:12], precision=precision)
    steep = any(e.outcome == "float" for e in qmlir.decisions(q))
    assert steep is ((function, precision) == ("Softsign", "int8"))  # 8 bits of ±140 do not hold its digits near 0
    if not steep:
        least, most = ENDS[function]
        assert reach(q) <= most if most < 1e6 else reach(q) > least / 8
    np.testing.assert_array_equal(outputs(qmlir.reference(q), LOUD[12:]), outputs(qmlir.compile(q), LOUD[12:]))


def summed(combine: str = "Add") -> ModuleOp:
    """A gate of a sum of a layer's loud result, times a constant, and a quiet input, as a recurrent cell has it."""
    nodes = [node("MatMul", "x w", "s"), node("Mul", "s c", "p"), node(combine, "p h", "t"), node("Sigmoid", "t")]
    constants = WEIGHTS | {"c": np.linspace(1, 2, 8, dtype=np.float32)}
    return load(model(nodes, {"x": (1, 16), "h": (1, 8)}, constants))


@crossed({"combine": ["Add", "Sub"], "precision": ["int8", "int16"]})
def test_addends_end_with_their_sum(combine: str, precision: str) -> None:
    """With the ranges that were observed, 16 bits have 55 dB."""
    module = summed(combine)
    draw = np.random.default_rng(6)
    samples = [{"x": x, "h": draw.normal(size=(1, 8)).astype(np.float32)} for x in LOUD]
    q = qmlir.quantize(module, data=samples, precision=precision)
    assert 10 < reach(q) < 32
    exact, found = outputs(qmlir.reference(module), samples[12:]), outputs(qmlir.reference(q), samples[12:])
    np.testing.assert_array_equal(found, outputs(qmlir.compile(q), samples[12:]))
    assert sqnr(exact, found) > (13 if precision == "int8" else 58)


def test_an_addend_of_a_loud_sum_keeps_its_range() -> None:
    samples = [{"x": x, "h": x[:, :8] * np.float32(5)} for x in LOUD]
    assert reach(qmlir.quantize(summed(), data=samples[:12], precision="int16")) > 100


def test_what_another_operation_reads_keeps_its_range() -> None:
    nodes = [node("MatMul", "x w", "s"), node("Sigmoid", "s", "g"), node("Mul", "s g")]
    q = qmlir.quantize(load(model(nodes, {"x": (1, 16)}, WEIGHTS)), data=LOUD[:12], precision="int16")
    assert reach(q) > 100


def test_a_stated_range_is_kept() -> None:
    nodes = [node("MatMul", "x w", "s"), node("Sigmoid", "s")]
    policy = {"rules": [{"name": "s", "range": [-100.0, 100.0]}]}
    q = qmlir.quantize(load(model(nodes, {"x": (1, 16)}, WEIGHTS)), data=LOUD[:12], policy=policy)
    assert reach(q) == pytest.approx(100, rel=0.02)


STATE = """
func.func @main(%x: tensor<1x4xf32>, %s: tensor<2x4xf32> {{qmlir.state = #qmlir.state<1>}})
    -> (tensor<1x4xf32>, tensor<2x4xf32>) {{
  %h = nn.slice %s {{offsets = array<i64: 0, 0>, sizes = array<i64: 1, 4>, strides = array<i64: 1, 1>}}
    : tensor<2x4xf32> -> tensor<1x4xf32>
  %c = nn.slice %s {{offsets = array<i64: 1, 0>, sizes = array<i64: 1, 4>, strides = array<i64: 1, 1>}}
    : tensor<2x4xf32> -> tensor<1x4xf32>
  %i = nn.mul %x, %h : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %j = nn.add %i, %x : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %c2 = nn.add %c, %j : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %h2 = nn.tanh %{read} : tensor<1x4xf32> -> tensor<1x4xf32>
  %t = nn.concat %h2, %c2 {{axis = 0 : i64}} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<2x4xf32>
  func.return %h2, %t : tensor<1x4xf32>, tensor<2x4xf32>
}}"""


@crossed({"precision": ["int8", "int16"], "loud": [False, True]})
def test_parts_of_a_state_keep_their_scales(precision: str, loud: bool) -> None:
    """With one scale for both parts, the narrow part has 8 and 20 dB less."""
    module = parsed(STATE.format(read="j"))
    draw, drift = np.random.default_rng(7), 20.0 if loud else 0.0
    # Within ±2, so that the sequences that are compared stay in the ranges of those that are profiled; the same steps
    # once up and once down, so that their sum grows by the drift alone.
    steps = np.clip(draw.normal(size=(4, 15, 1, 4)), -2, 2)
    heard = (np.concatenate([steps, -steps], axis=1) + drift).astype(np.float32) / 10
    sequences = [[{"input0": x} for x in sequence] for sequence in heard]
    q = qmlir.quantize(module, data=sequences[:2], precision=precision)
    codes = {e.reason for e in qmlir.decisions(q) if e.operation in ("nn.concat", "nn.slice") and "parts" in e.reason}
    assert bool(codes) is loud
    found: list[list[Array]] = [[], [], []]
    for kept, network in zip(found, (qmlir.reference(module), qmlir.reference(q), qmlir.compile(q)), strict=True):
        for sequence in sequences[2:]:
            network.reset()
            kept += [np.asarray(network(sample)) for sample in sequence]
    np.testing.assert_array_equal(found[1], found[2])
    assert sqnr(np.stack(found[0]), np.stack(found[1])) > (25 if precision == "int8" else 70)


MEMORY = """
func.func @main(%x: tensor<1x4xf32>, %c: tensor<1x4xf32> {qmlir.state = #qmlir.state<1>})
    -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %b = nn.constant <tensor<4xf32>, [3.0, 1.0, 0.0, -1.0]> : tensor<4xf32>
  %t = nn.add %x, %b : tensor<1x4xf32>, tensor<4xf32> -> tensor<1x4xf32>
  %f = nn.sigmoid %t : tensor<1x4xf32> -> tensor<1x4xf32>
  %m = nn.mul %f, %c : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %i = nn.tanh %t : tensor<1x4xf32> -> tensor<1x4xf32>
  %n = nn.add %m, %i : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %h = nn.tanh %n : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %h, %n : tensor<1x4xf32>, tensor<1x4xf32>
}"""


@pytest.mark.filterwarnings("ignore:state")
@pytest.mark.parametrize(
    ("precision", "steps", "bias", "stays"),
    [("int8", 40, 3.0, False), ("int8", 100, 6.0, True), ("int16", 40, 3.0, True), ("int16", 4, 3.0, False)],
)
def test_a_memory_that_saturates_its_function_stays_float(precision: str, steps: int, bias: float, stays: bool) -> None:
    """One cell of four collects all steps. With one scale for all cells, the others have 29 and 73 dB of 40 steps.

    In 8 bits the memory stays in integers, unless these leave the function less than half of its decibels: with one
    scale for all, the others have 15 dB of 100 steps.
    """
    module = parsed(MEMORY.replace("3.0", str(bias)))
    heard = np.random.default_rng(3).normal(size=(6, steps, 1, 4)).astype(np.float32)
    sequences = [[{"input0": x} for x in sequence] for sequence in heard]
    q = qmlir.quantize(module, data=sequences, precision=precision)
    floats = [e.operation for e in qmlir.decisions(q) if e.outcome == "float"]
    assert floats == (["nn.mul", "nn.add", "nn.tanh"] if stays else [])
    found: list[list[Array]] = [[], [], []]
    for kept, network in zip(found, (qmlir.reference(module), qmlir.reference(q), qmlir.compile(q)), strict=True):
        for sequence in sequences:
            network.reset()
            kept += [np.asarray(network(sample))[..., 1:] for sample in sequence]
    np.testing.assert_array_equal(found[1], found[2])
    assert sqnr(np.stack(found[0]), np.stack(found[1])) > (28 if precision == "int8" else 78)


def test_a_rule_for_a_memory_is_followed() -> None:
    heard = np.random.default_rng(3).normal(size=(6, 40, 1, 4)).astype(np.float32)
    sequences = [[{"input0": x} for x in sequence] for sequence in heard]
    policy = {"rules": [{"kind": "add", "precision": "int16"}]}
    q = qmlir.quantize(parsed(MEMORY), data=sequences, policy=policy)
    assert not [e for e in qmlir.decisions(q) if e.operation == "nn.add" and e.outcome == "float"]
