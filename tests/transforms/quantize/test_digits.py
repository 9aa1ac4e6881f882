"""Functions that are steep for their data, and what comes before them, keep the digits that integers would lose."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline
from qmlir.dialects.nn import Conv2DOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.ir.facts import NUMERICS
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load, model, node
from tests.transforms.quantize.calibrated import parsed, sqnr
from tests.transforms.quantize.exported import results_of_file

RNG = np.random.default_rng(9)
Array = Any


def spread(*shape: int, decades: float = 2.0) -> list[Array]:
    """Twenty samples of positive numbers over many decades."""
    return [(RNG.lognormal(0, decades, shape) + 1e-3).astype(np.float32) for _ in range(20)]


def loud_and_quiet(*shape: int) -> list[Array]:
    """Twenty samples of which each is up to a hundred times as large as another."""
    return [(RNG.normal(size=shape) * 10 ** RNG.uniform(-2, 0)).astype(np.float32) for _ in range(20)]


def between(low: float, high: float, *shape: int) -> list[Array]:
    return [RNG.uniform(low, high, shape).astype(np.float32) for _ in range(20)]


def outcomes(module: ModuleOp) -> dict[str, list[str]]:
    """The outcomes of each kind of operation."""
    found: dict[str, list[str]] = {}
    for entry in qmlir.decisions(module):
        found.setdefault(entry.operation, []).append(entry.outcome)
    return found


def quantized(
    nodes: Sequence[onnx.NodeProto], data: Sequence[Array], constants: Mapping[str, Any] | None = None, **options: Any
) -> tuple[ModuleOp, float]:
    """A network quantized on half of the samples, and its decibels on the others; all ways to run it agree."""
    module = load(model(nodes, {"x": data[0].shape}, constants))
    result = qmlir.quantize(module, data=data[:10], **options)
    compiled, reference = qmlir.compile(result), qmlir.reference(result)
    truth, got = [], []
    for x in data[10:]:
        truth.append(qmlir.reference(module)(x))
        got.append(compiled(x))
        np.testing.assert_array_equal(got[-1], reference(x))
    return result, sqnr(np.stack(truth), np.stack(got))


STEEP: dict[str, tuple[list[onnx.NodeProto], Mapping[str, Any]]] = {
    "log": ([node("Log", "x")], {}),
    "reciprocal": ([node("Reciprocal", "x")], {}),
    "sqrt": ([node("Sqrt", "x", "s"), node("Reciprocal", "s")], {}),
    "pow": ([node("Pow", "x p")], {"p": np.float32(-0.5)}),
    "root": ([node("Pow", "x p", "q"), node("Log", "q")], {"p": np.float32(0.3)}),
    "log10": ([node("Log", "x", "l"), node("Mul", "l c")], {"c": np.float32(0.4343)}),
    "bounded": ([node("Max", "x c", "m"), node("Log", "m")], {"c": np.float32(1e-3)}),
}


@crossed({"name": list(STEEP), "precision": ["int8", "int16"], "schema": ["asymmetric", "symmetric_with_power2_scale"]})
def test_a_function_that_is_steep_for_its_data_stays_float(name: str, precision: str, schema: str) -> None:
    nodes, constants = STEEP[name]
    module, decibels = quantized(nodes, spread(1, 64), constants, precision=precision, schema=schema)
    assert decibels > 35
    steep = [e for e in qmlir.decisions(module) if e.code == "steep"]
    assert steep or precision == "int16"
    for entry in steep:
        assert entry.outcome == "float"
        assert "rounding" in entry.reason or "reads its result" in entry.reason


WIDE: dict[str, tuple[str, list[Array]]] = {
    "exponential": ("Exp", between(-400, 20, 1, 64)),
    "tangent": ("Tan", between(-1.57, 1.57, 1, 64)),
    "sine": ("Sin", between(-90, 90, 1, 64)),
    "inverse tangent": (
        "Atan",
        [x * RNG.choice(np.array([-1, 1], np.float32), x.shape) for x in spread(1, 64, decades=3.0)],
    ),
}


@pytest.mark.parametrize("name", WIDE)
def test_what_is_steep_follows_from_the_function_and_the_data(name: str) -> None:
    operator, data = WIDE[name]
    module, decibels = quantized([node(operator, "x")], data, precision="int8")
    assert "steep" in [e.code for e in qmlir.decisions(module)]
    assert decibels > 100


TAME = {
    "Log": (1, 100), "Sqrt": (1, 4), "Reciprocal": (1, 4), "Exp": (-2, 2), "Tanh": (-8, 8), "Sigmoid": (-8, 8),
    "Sin": (-3, 3), "Tan": (-1, 1), "Atan": (-4, 4), "Acosh": (1.5, 9), "Atanh": (-0.9, 0.9), "Erf": (-3, 3),
}  # fmt: skip


@crossed({"operator": list(TAME), "precision": ["int8", "int16"]})
def test_a_function_that_is_not_steep_for_its_data_is_quantized(operator: str, precision: str) -> None:
    module, decibels = quantized([node(operator, "x")], between(*TAME[operator], 1, 64), precision=precision)
    assert [e.outcome for e in qmlir.decisions(module)] == ["quantized"]
    assert decibels > (30 if precision == "int8" else 60)


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_a_rule_for_the_function_is_followed(precision: str) -> None:
    policy = {"rules": [{"kind": "log", "precision": precision}]}
    module, _ = quantized([node("Log", "x")], spread(1, 64), policy=policy)
    assert outcomes(module) == {"nn.log": ["quantized"]}


def test_without_a_histogram_numbers_lie_evenly_in_the_range() -> None:
    """Few of them are then near 0, so that a logarithm from 0 on is not steep."""
    text = """
    func.func @main(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {{
      calib.observe %x {{name = "x", range = [{low}, {high}]}} : tensor<1x64xf32>
      %y = nn.exp %x : tensor<1x64xf32> -> tensor<1x64xf32>
      calib.observe %y {{name = "y", range = [0.0, {most}]}} : tensor<1x64xf32>
      func.return %y : tensor<1x64xf32>
    }}"""
    for low, high, outcome in ((-4.0, 2.0, "quantized"), (-900.0, 60.0, "float")):
        module = parsed(text.format(low=low, high=high, most=math.exp(high)))
        assert outcomes(Pipeline("quantize")(module)) == {"nn.exp": [outcome]}


FILTERS = {"w": RNG.normal(size=(6, 4, 3, 3)).astype(np.float32), "b": RNG.normal(size=6).astype(np.float32)}
POWER = [
    node("Conv", "x w b", "re"), node("Conv", "x v", "im"), node("Mul", "re re", "r2"), node("Mul", "im im", "i2"),
    node("Add", "r2 i2", "p"), node("Add", "p e", "q"), node("Log", "q"),
]  # fmt: skip
CONSTANTS = FILTERS | {"v": FILTERS["w"][::-1].copy(), "e": np.float32(1e-3)}


@crossed({"precision": ["int8", "int16"], "schema": ["asymmetric", "symmetric", "symmetric_with_power2_scale"]})
def test_contractions_before_it_give_all_digits_of_their_sums(precision: str, schema: str) -> None:
    """Between them and the logarithm everything stays float; with rounded results the logarithm had 8 and 25 dB."""
    data = loud_and_quiet(1, 4, 8, 8)
    module, decibels = quantized(POWER, data, CONSTANTS, precision=precision, schema=schema)
    found = outcomes(module)
    assert found["nn.conv2d"] == ["quantized"] * 2
    assert {*found["nn.mul"], *found["nn.add"], *found["nn.log"]} == {"float"}
    for op in module.walk():
        if isinstance(op, Conv2DOp):
            assert uniform(op.y).storage_width == 32
    assert decibels > (15 if precision == "int8" else 60)


def test_a_contraction_that_integers_read_too_is_rounded_as_before() -> None:
    nodes = [*POWER[:-1], node("Log", "q", "l"), node("Conv", "re u", "z"), node("Concat", "l z", axis=1)]
    data = loud_and_quiet(1, 4, 8, 8)
    module, _ = quantized(nodes, data, CONSTANTS | {"u": RNG.normal(size=(6, 6, 1, 1)).astype(np.float32)})
    widths = [uniform(o.y).storage_width for o in module.walk() if isinstance(o, Conv2DOp)]
    assert widths == [8, 32, 8]


def test_what_the_policy_keeps_float_reads_all_digits_of_sums() -> None:
    data = loud_and_quiet(1, 4, 8, 8)
    nodes = [node("Conv", "x w b", "c"), node("Tanh", "c")]
    policy = {"rules": [{"kind": "tanh", "keep-float": True}]}
    _, before = quantized(nodes, data, FILTERS)
    module, after = quantized(nodes, data, FILTERS, policy=policy)
    assert [uniform(o.y).storage_width for o in module.walk() if isinstance(o, Conv2DOp)] == [32]
    assert outcomes(module)["nn.tanh"] == ["float"]
    assert after > before


def test_a_runtime_that_is_followed_gives_no_sums_of_32_bits() -> None:
    data = loud_and_quiet(1, 4, 8, 8)
    module = load(model(POWER, {"x": data[0].shape}, CONSTANTS))
    NUMERICS.put(module, "litert-reference")
    result = qmlir.quantize(module, data=data)
    assert {uniform(o.y).storage_width for o in result.walk() if isinstance(o, Conv2DOp)} == {8}
    assert outcomes(result)["nn.log"] == ["float"]


def test_a_product_with_a_number_under_scales_of_powers_of_two() -> None:
    """The number is no power of two, though all scales are."""
    data = between(-1, 1, 1, 64)
    options = {"precision": "int16", "schema": "symmetric_with_power2_scale"}
    module, decibels = quantized([node("Mul", "x c")], data, {"c": np.float32(0.4343)}, **options)
    assert outcomes(module) == {"nn.mul": ["quantized"]}
    assert decibels > 60


def test_a_device_rounds_what_its_host_reads() -> None:
    data = loud_and_quiet(1, 4, 8, 8)
    module = qmlir.quantize(load(model(POWER, {"x": data[0].shape}, CONSTANTS)), data=data, target="nmp")
    assert {uniform(o.y).storage_width for o in module.walk() if isinstance(o, Conv2DOp)} == {8}
    assert outcomes(module)["nn.log"] == ["float"]


@pytest.mark.parametrize("format", ["onnx-qdq", "onnx-qoperator", "onnx-integer", "tflite"])
def test_files_hold_contractions_on_floats(format: str, tmp_path: Path) -> None:
    """`onnx-integer` spells sums of 32 bits out; the other formats have no such results of layers."""
    data = loud_and_quiet(1, 4, 8, 8)
    module = qmlir.quantize(
        load(model(POWER, {"x": data[0].shape}, CONSTANTS)), data=data[:10], schema="symmetric", weight_precision="int7"
    )
    ours = np.stack([qmlir.reference(module)(x) for x in data[10:]])
    theirs = results_of_file(module, format, data[10:], tmp_path)
    assert sqnr(ours, theirs.reshape(ours.shape)) > 100
