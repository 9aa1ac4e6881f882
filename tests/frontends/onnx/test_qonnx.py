"""QONNX's Quant: integers of any width, against its definition in numpy."""

import re
from typing import Any

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.dialects.quant.types import quantized_element
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.onnx.qonnx import DOMAINS
from qmlir.frontends.opaque import opaque_report
from qmlir.policies.ledger import decisions
from tests.conftest import crossed
from tests.frontends.onnx.quantized_models import (
    QONNX,
    Array,
    float_operations,
    imported,
    model,
    node,
    onnxruntimes,
    results,
)

RNG = np.random.default_rng(8)
X = {"x": RNG.uniform(-3, 3, (2, 6)).astype(np.float32)}


def quant(x: Array, scale: Any, zero: float, bits: int, *, signed: bool = True, narrow: bool = False) -> Array:
    """The definition, half to even."""
    low, high = (-(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1 - narrow)
    return (np.clip(np.rint(x.astype(np.float64) / scale + zero), low, high) - zero) * scale


def network(bits: int, scale: Any, zero: float = 0.0, *, inputs: str = "x", **attributes: Any) -> onnx.ModelProto:
    constants = {"s": np.asarray(scale, np.float32), "z": np.float32(zero), "b": np.float32(bits)}
    nodes = [node("Quant", f"{inputs} s z b", "y", QONNX, **attributes)]
    return model(nodes, X, ["y"], constants)


@pytest.mark.parametrize("imports", [True, False])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("kind", ["Quant", "BipolarQuant", "Trunc"])
def test_every_domain_with_an_operator_set_and_without(kind: str, domain: str, imports: bool) -> None:
    """Files of FINN's and Brevitas' older exporters import no operator set of the domain."""
    inputs = {"Quant": "x s z b", "BipolarQuant": "x s", "Trunc": "x s z i o"}[kind]
    given = {"s": np.float32(0.25), "z": np.float32(0), "b": np.float32(4), "i": np.float32(6), "o": np.float32(4)}
    constants = {name: np.asarray(value) for name, value in given.items() if name in inputs.split()}
    proto = model([node(kind, inputs, "y", domain)], X, ["y"], constants)
    del proto.opset_import[1:]
    if imports:
        proto.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    expected = {
        "Quant": quant(X["x"], 0.25, 0, 4),
        "BipolarQuant": np.where(X["x"] >= 0, 0.25, -0.25),
        "Trunc": truncated(X["x"], 0.25, 0, 2, np.floor) * 0.25,
    }[kind]
    np.testing.assert_array_equal(results(imported(proto), X)[0], expected.astype(np.float32))


@crossed({"narrow": [True, False], "signed": [True, False], "bits": [2, 3, 4, 7, 8, 12, 16]})
def test_every_width(bits: int, signed: bool, narrow: bool) -> None:
    scale = np.float32(5 / 2**bits)
    proto = network(bits, scale, 0.0 if signed else 2.0, signed=int(signed), narrow=int(narrow), rounding_mode="ROUND")
    module = load_onnx(proto)
    types = {quantized_element(r.type) for o in module.walk() for r in o.results} - {None}
    (type,) = types
    assert type is not None
    assert (type.storage_width, type.is_signed) == (bits, signed)
    (got,) = results(imported(proto), X)
    expected = quant(X["x"], scale, 0.0 if signed else 2.0, bits, signed=signed, narrow=narrow)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_layer_of_few_bits_is_computed_in_integers() -> None:
    """Weights of 3 bits with a scale for each output, data of 5 bits unsigned, results of 6."""
    w = RNG.standard_normal((4, 6)).astype(np.float32)
    scales = RNG.uniform(0.2, 0.5, (4, 1)).astype(np.float32)
    nodes = [
        node("Quant", "x xs z xb", "a", QONNX, signed=0),
        node("Quant", "w ws z wb", "v", QONNX, narrow=1),
        node("Gemm", "a v", "g", transB=1),
        node("Relu", "g", "r"),
        node("Quant", "r ys z yb", "y", QONNX, signed=0),
    ]
    constants = {
        "w": w, "ws": scales, "xs": np.float32(0.1), "ys": np.float32(0.25), "z": np.float32(0),
        "wb": np.float32(3), "xb": np.float32(5), "yb": np.float32(6),
    }  # fmt: skip
    proto = model(nodes, X, ["y"], constants)
    module = imported(proto, "default")
    assert not float_operations(module)
    a, v = quant(X["x"], np.float32(0.1), 0, 5, signed=False), quant(w, scales, 0, 3, narrow=True)
    expected = quant(np.maximum(a @ v.T, 0), np.float32(0.25), 0, 6, signed=False)
    assert np.abs(results(module, X)[0] - expected).max() <= 0.2501


@crossed(
    {
        "kind, inputs, attributes": [
            ("Pad", "v pads", {}),
            ("Pad", "v pads fill", {}),
            ("Transpose", "v", {"perm": [1, 0]}),
            ("Concat", "v v", {"axis": 0}),
            ("Gather", "v index", {"axis": 1}),
            ("Clip", "v fill", {}),
            ("Sigmoid", "v", {}),
            ("Add", "v v", {}),
            ("Where", "mask v v", {}),
            ("ReduceMax", "v", {}),
        ],
        "zero": [0.0, 2.0],
    }
)
def test_readers_of_data_with_a_scale_for_each_channel_stay_float(
    kind: str, inputs: str, attributes: dict[str, Any], zero: float
) -> None:
    nodes = [node("Quant", "x s z b", "v", QONNX, signed=0), node(kind, inputs, "y", **attributes)]
    scales = np.linspace(0.2, 0.7, 6).astype(np.float32).reshape(1, 6)
    constants = {"s": scales, "z": np.float32(zero), "b": np.float32(4), "pads": np.array([0, 1, 1, 0]),
                 "fill": np.float32(0.7), "index": np.array([1, 0]), "mask": np.array([[True], [False]])}  # fmt: skip
    used = {name: array for name, array in constants.items() if name in f"x s z b {inputs}".split()}
    module = imported(model(nodes, X, ["y"], used), "default")
    assert {d.outcome for d in decisions(module)} == {"float"}
    rest = {name: array for name, array in used.items() if name not in ("s", "z", "b")}
    expected = model(nodes[1:], {"v": X["x"]}, ["y"], rest)
    values = quant(X["x"], scales, zero, 4, signed=False).astype(np.float32)
    np.testing.assert_allclose(results(module, X)[0], onnxruntimes(expected, {"v": values})[0], rtol=1e-6)


@pytest.mark.parametrize("mode", ["CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"])
def test_constants_are_rounded_in_every_mode(mode: str) -> None:
    ties = np.array([[-1.5, -0.5, 0.5, 1.5, -1.2, 1.7]], np.float32)
    rounded = {
        "CEIL": [-1, 0, 1, 2, -1, 2],
        "FLOOR": [-2, -1, 0, 1, -2, 1],
        "UP": [-2, -1, 1, 2, -2, 2],
        "DOWN": [-1, 0, 0, 1, -1, 1],
        "HALF_UP": [-2, -1, 1, 2, -1, 2],
        "HALF_DOWN": [-1, 0, 0, 1, -1, 2],
    }
    nodes = [node("Quant", "w s z b", "v", QONNX, rounding_mode=mode), node("Add", "x v", "y")]
    constants = {"w": ties, "s": np.float32(1), "z": np.float32(0), "b": np.float32(4)}
    (got,) = results(imported(model(nodes, X, ["y"], constants)), X)
    np.testing.assert_array_equal(got, X["x"] + np.array(rounded[mode], np.float32))


# ---------------------------------------------------------------------------------------------------------------
# BipolarQuant and Trunc


def bipolar(scale: Any) -> onnx.ModelProto:
    return model([node("BipolarQuant", "x s", "y", QONNX)], X, ["y"], {"s": np.asarray(scale, np.float32)})


@pytest.mark.parametrize("scale", [0.3, np.linspace(0.2, 0.7, 6).reshape(1, 6), [[[0.4]]]])
def test_bipolar(scale: Any) -> None:
    step = np.asarray(scale, np.float32).reshape(-1)
    x = np.concatenate([X["x"], np.array([[0, -0.0, 1e-30, -1e-30, 7, -7]], np.float32)])
    expected = np.where(x >= 0, step, -step)
    proto = model([node("BipolarQuant", "x s", "y", QONNX)], {"x": x}, ["y"], {"s": np.asarray(scale, np.float32)})
    np.testing.assert_array_equal(results(imported(proto), {"x": x})[0], expected)
    weights = model([node("BipolarQuant", "w s", "v", QONNX), node("Add", "x v", "y")], {"x": x}, ["y"],
                    {"s": np.asarray(scale, np.float32), "w": x})  # fmt: skip
    np.testing.assert_array_equal(results(imported(weights), {"x": x})[0], x + expected)
    for network in (proto, weights):
        types = {quantized_element(r.type) for o in load_onnx(network).walk() for r in o.results} - {None}
        ((storage, low, high),) = {(t.storage_width, t.storage_min, t.storage_max) for t in types if t is not None}
        assert (storage, low, high) == (2, -1, 1)


def test_a_layer_of_signs_is_computed_in_integers() -> None:
    w = RNG.standard_normal((4, 6)).astype(np.float32)
    nodes = [
        node("Quant", "x xs z xb", "a", QONNX),
        node("BipolarQuant", "w ws", "v", QONNX),
        node("Gemm", "a v", "g", transB=1),
        node("Quant", "g ys z yb", "y", QONNX),
    ]
    constants = {"w": w, "ws": np.float32(0.5), "xs": np.float32(0.125), "ys": np.float32(0.25), "z": np.float32(0),
                 "xb": np.float32(8), "yb": np.float32(8)}  # fmt: skip
    module = imported(model(nodes, X, ["y"], constants), "default")
    assert not float_operations(module)
    sums = quant(X["x"], 0.125, 0, 8) @ np.where(w >= 0, 0.5, -0.5).T
    assert np.abs(results(module, X)[0] - quant(sums.astype(np.float32), 0.25, 0, 8)).max() <= 0.2501


def truncated(x: Array, scale: Any, zero: float, power: int, rounding: Any) -> Array:
    """QONNX's definition of the rounded integers, in float32."""
    return rounding(np.rint(x / np.float32(scale) + np.float32(zero)) / np.float32(2.0**power))


MODES = {"FLOOR": np.floor, "CEIL": np.ceil, "ROUND": np.rint}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("zero", [0.0, 16.0])
def test_trunc_by_widths(mode: str, zero: float, constant: bool) -> None:
    constants = {"s": np.float32(1 / 64), "z": np.float32(zero), "i": np.float32(9), "o": np.float32(5), "n": X["x"]}
    trunc = node("Trunc", "n s z i o" if constant else "x s z i o", "v", QONNX, rounding_mode=mode)
    used = constants if constant else {name: array for name, array in constants.items() if name != "n"}
    proto = model([trunc, node("Neg", "v", "y")], X, ["v"] if not constant else ["v", "y"], used)
    expected = (truncated(X["x"], 1 / 64, zero, 4, MODES[mode]) - np.float32(zero)) * np.float32(1 / 64)
    np.testing.assert_array_equal(results(imported(proto), X)[0], expected)


@crossed({"zero": [0.0, 16.0], "narrow": [0, 1], "signed": [0, 1], "mode": MODES, "constant": [False, True]})
def test_trunc_by_scales(zero: float, narrow: int, signed: int, mode: str, constant: bool) -> None:
    """The result has a type of 4 bits, to whose range it is clamped."""
    x = np.linspace(-3, 4, 24, dtype=np.float32).reshape(2, 12)
    constants = {
        "s": np.float32(1 / 64), "z": np.float32(zero), "i": np.float32(9), "t": np.float32(1 / 4),
        "p": np.float32(zero / 16), "o": np.float32(4), "n": x,
    }  # fmt: skip
    inputs = f"{'n' if constant else 'x'} s z i t p o"
    trunc = node("Trunc", inputs, "v", QONNX, rounding_mode=mode, signed=signed, narrow=narrow)
    proto = model(
        [trunc, node("Neg", "v", "y")], {"x": x}, ["v", "y"], {n: constants[n] for n in "szitpon" if n in inputs}
    )
    low, high = (-8 + narrow, 7) if signed else (0, 15 - narrow)
    rounded = np.clip(truncated(x, 1 / 64, zero, 4, MODES[mode]), low, high)
    expected = (rounded - np.float32(zero / 16)) * np.float32(1 / 4)
    assert len(np.unique(expected)) > 5
    np.testing.assert_array_equal(results(imported(proto), {"x": x})[0], expected)
    types = {quantized_element(r.type) for o in load_onnx(proto).walk() for r in o.results} - {None}
    assert {(t.storage_width, t.is_signed, t.storage_min, t.storage_max) for t in types if t is not None} == {
        (4, bool(signed), low, high)
    }


def trunc_network(inputs: str, *, rounding_mode: str = "FLOOR", **values: float) -> onnx.ModelProto:
    given = {"s": 1.0, "z": 0.0, "i": 8.0, "o": 4.0, "t": 4.0} | values
    used = {name: np.array(value, np.float32) for name, value in given.items() if name in inputs.split()}
    return model([node("Trunc", inputs, "y", QONNX, rounding_mode=rounding_mode)], X, ["y"], used)


def test_trunc_needs_its_inputs() -> None:
    with pytest.raises(NodeError, match="it needs the width, or the scale"):
        load_onnx(trunc_network("x s z i"))


REFUSED = {
    "signs with a scale below 0": (bipolar(-0.5), "its parameters make no quantized type"),
    "signs with scales for each element": (bipolar(np.ones((2, 6))), "one for each index of one axis"),
    "a truncation to one bit": (trunc_network("x s z i t z o", o=1), "it has 1 bits"),
    "a truncation from a scale of 0": (trunc_network("x s z i t z o", s=0), "its scales are not positive"),
    "a truncation to a scale of 0": (trunc_network("x s z i t z o", t=0), "output's scales are not positive"),
    "a truncation of an odd zero point": (trunc_network("x s z i t z o", z=2), "are no integers"),
    "a truncation by UP at run time": (trunc_network("x s z i o", rounding_mode="UP"), "by UP at run time"),
    "one bit": (network(1, np.float32(1)), "it has 1 bits"),
    "too many bits": (network(24, np.float32(1)), "it has 24 bits"),
    "rounding at run time": (network(8, np.float32(1), rounding_mode="FLOOR"), "rounds by FLOOR at run time"),
    "an unknown rounding": (network(8, np.float32(1), rounding_mode="DICE"), "rounds by DICE, which"),
    "an odd zero point": (network(8, np.float32(1), 3.0), "an odd zero point before it rounds"),
    "a zero point that is none": (network(8, np.float32(1), 0.5), "its zero points are no integers"),
    "scales for each element": (network(8, np.ones((2, 6))), "one for each index of one axis"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    proto, message = REFUSED[name]
    assert re.search(message, str(opaque_report(load_onnx(proto))))


def test_integers_with_a_scale_for_each_channel_are_quantized_from_floats() -> None:
    """Integers that are converted to floats and quantized stay integers with a single scale only."""
    nodes = [node("Cast", "x", "f", to=onnx.TensorProto.FLOAT), node("Quant", "f s z b", "y", QONNX, signed=0)]
    scale = np.array([1.5e-5, 1.25e-5], np.float32).reshape(1, 2, 1, 1)
    x = {"x": np.array([True, False, True, True]).reshape(1, 2, 2, 1)}
    proto = model(nodes, x, ["y"], {"s": scale, "z": np.array(19256, np.float32), "b": np.array(16, np.float32)})
    quantized = qmlir.quantize(imported(proto), data=x["x"][None])
    wanted = quant(x["x"].astype(np.float32), scale, 19256, 16, signed=False)
    np.testing.assert_allclose(qmlir.reference(quantized)(x["x"]), wanted, rtol=1e-6)
