"""Attention at every length: exponentials against the row's maximum, one division behind the matrix product."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.compiler import to_integers
from qmlir.dialects.nn import AttendOp, SoftmaxOp
from qmlir.dialects.qint import RowQuotientOp
from qmlir.dialects.qint.requantize import int32
from qmlir.errors import NodeError
from tests.conftest import THOROUGH, crossed
from tests.frontends.onnx.agreement import Array, load, model, node, onnxruntime_run

WIDTH = 32


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def causal(length: int, layer: bool = True, width: int = WIDTH, deviation: float = 1 / 3) -> onnx.ModelProto:
    """One head of causal attention over linear layers, with scores of a deviation: a third as torch initializes it."""
    constants = {name: normal(width, width, seed=i) / np.sqrt(width) for i, name in enumerate("abcd")}
    factors = {"a": np.sqrt(deviation), "b": np.sqrt(deviation), "c": 1.0, "d": 1 / np.sqrt(3)}
    constants = {name: (array * factors[name]).astype(np.float32) for name, array in constants.items()}
    mask = np.triu(np.full((length, length), -np.inf, np.float32), 1)
    nodes = [
        *(node("MatMul", f"x {w}", name) for w, name in zip("abc", "qkv", strict=True)),
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "s"), node("Mul", "s factor", "scaled"), node("Add", "scaled mask", "masked"),
        node("Softmax", "masked", "p", axis=-1), node("MatMul", "p v", "o" if layer else "y"),
        *([node("MatMul", "o d", "y")] if layer else []),
    ]  # fmt: skip
    factor = np.array(width**-0.5, np.float32)
    return model(nodes, {"x": [1, length, width]}, {**constants, "factor": factor, "mask": mask})


def decibels(proto: onnx.ModelProto, network: ModuleOp, samples: Sequence[Array]) -> float:
    """The SQNR of a quantized network's results, which code and reference give alike."""
    compiled, wanted, found = qmlir.compile(network), list[Array](), list[Array]()
    for x in samples:
        wanted.append(onnxruntime_run(proto, {"x": x})[0])
        found.append(np.asarray(compiled(x)))
    assert np.array_equal(found[0], np.asarray(qmlir.reference(network)(samples[0])))
    signal, noise = np.array(wanted), np.array(wanted) - np.array(found)
    return float(10 * np.log10((signal**2).sum() / (noise**2).sum()))


def has(network: ModuleOp, kind: type[Any]) -> bool:
    return any(isinstance(op, kind) for op in network.walk())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "layer"), [(64, False), (512, True), *([(n, True) for n in (64, 1024, 2048)] if THOROUGH else [])]
)
def test_causal_attention(length: int, layer: bool) -> None:
    proto = causal(length, layer)
    network = qmlir.quantize(load(proto), data=[normal(1, length, WIDTH, seed=s) for s in range(10, 14)])
    assert all(entry.outcome == "quantized" for entry in qmlir.decisions(network))
    assert decibels(proto, network, [normal(1, length, WIDTH, seed=s) for s in (20, 21)]) >= 35


@pytest.mark.slow
@pytest.mark.parametrize(("length", "width"), [(64, 64), *([(128, 64), (512, 32), (512, 64)] if THOROUGH else [])])
def test_scores_of_deviation_1_cost_no_more_than_an_input_and_weights_of_8_bits(length: int, width: int) -> None:
    """The float network on an input in 8 bits, with weights in 8 bits, is the bound: attention itself costs nothing."""
    proto, coarse = (causal(length, width=width, deviation=1.0) for _ in range(2))
    data, samples = ([normal(1, length, width, seed=s) for s in seeds] for seeds in (range(30, 46), (20, 21)))
    network = qmlir.quantize(load(proto), data=data, measure=False)
    for held in coarse.graph.initializer:
        if held.name in "abcd":
            array = onnx.numpy_helper.to_array(held)
            steps = np.abs(array).max(0) / 127
            held.CopyFrom(onnx.numpy_helper.from_array(np.round(array / steps) * steps, held.name))
    step = np.float32(np.ptp(data) / 255)
    wanted, found = (
        np.array([onnxruntime_run(p, {"x": x})[0] for x in xs])
        for p, xs in ((proto, samples), (coarse, [np.round(x / step) * step for x in samples]))
    )
    bound = 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())
    assert decibels(proto, network, samples) >= min(35, bound - 0.5)


def heads(mask: str, groups: int = 2) -> tuple[onnx.ModelProto, list[dict[str, Array]]]:
    """Cross attention of two heads, of 6 queries to 21 keys, with a mask and shared values; and samples of it."""
    keep = np.arange(21) < np.arange(4, 10)[:, None]
    constants = {
        "r": np.array(0.5, np.float32),
        "m": np.where(keep, 0, {"infinite": -np.inf}.get(mask, -1e9)).astype(np.float32),
        "keep": keep,
        "none": np.array(-1e9, np.float32),
    }
    masked = "scaled" if mask == "none" else "masked"
    nodes = [
        node("Transpose", "k", "kt", perm=[0, 1, 3, 2]), node("MatMul", "q kt", "s"), node("Mul", "s r", "scaled"),
        *([node("Where", "keep scaled none", "masked")] if mask == "where" else []),
        *([node("Add", "scaled m", "masked")] if mask in ("infinite", "finite") else []),
        node("Softmax", masked, "p", axis=-1, name="share"), node("MatMul", "p v", "y", name="product"),
    ]  # fmt: skip
    shapes = {"q": [1, 2, 6, 8], "k": [1, 2, 21, 8], "v": [1, groups, 21, 8]}
    samples = [{n: normal(*s, seed=10 * i + j) for j, (n, s) in enumerate(shapes.items())} for i in range(8)]
    return model(nodes, shapes, constants), samples


FORMATS: dict[str, dict[str, Any]] = {
    "int8": {},
    "uint8": {"precision": "uint8"},
    "symmetric": {"schema": "symmetric"},
    "powers of two": {"schema": "symmetric_with_power2_scale"},
    "16x8": {"schema": "symmetric", "precision": "int16", "weight_precision": "int8"},
    "int16": {"schema": "symmetric_with_power2_scale", "precision": "int16"},
}


@pytest.mark.slow
@crossed({"format": list(FORMATS), "mask": ["none", "infinite", "finite", "where"], "groups": [2, 1]})
def test_masks_and_formats(mask: str, format: str, groups: int) -> None:
    proto, samples = heads(mask, groups)
    stored, late = (
        qmlir.quantize(load(proto), data=samples[:5], attention=way, **FORMATS[format]) for way in ("stored", "auto")
    )
    assert has(late, AttendOp)
    assert not has(late, SoftmaxOp)
    assert has(stored, SoftmaxOp)
    assert not has(stored, AttendOp)
    assert all(entry.outcome == "quantized" for entry in qmlir.decisions(late))
    wanted = np.array([onnxruntime_run(proto, x)[0] for x in samples[5:]])
    errors = []
    for network in (stored, late):
        compiled, reference = qmlir.compile(network), qmlir.reference(network)
        found = [np.asarray(compiled(x)) for x in samples[5:]]
        assert all(np.array_equal(y, reference(x)) for y, x in zip(found, samples[5:], strict=True))
        errors.append(((wanted - found) ** 2).sum())
    assert errors[1] < errors[0] * 1.01


@pytest.mark.parametrize("axis", [-1, -2])
def test_rows_are_moved_in_front_of_the_exponentials(axis: int) -> None:
    """Exporters reshape probabilities of heads before they multiply; transposes of rows move likewise."""
    turned = [] if axis == -1 else [node("Transpose", "p", "turned", perm=[0, 1, 3, 2])]
    nodes = [
        node("Softmax", "x", "p", axis=axis), *turned, node("Reshape", f"{'turned' if turned else 'p'} three", "r"),
        node("Transpose", "r", "t", perm=[1, 0, 2]), node("MatMul", "t v", "y"),
    ]  # fmt: skip
    constants = {"three": np.array([2, 4, 16]), "v": normal(4, 16, 5)}
    shape = [1, 2, 4, 16] if axis == -1 else [1, 2, 16, 4]
    proto = model(nodes, {"x": shape}, constants)
    samples = [normal(*shape, seed=s) for s in range(6)]
    network = qmlir.quantize(load(proto), data=samples[:4])
    assert has(network, AttendOp)
    assert decibels(proto, network, samples[:2]) > 39  # 37 with stored probabilities


@pytest.mark.parametrize(
    "why",
    ["", "returned", "kept float", "one operand", "other axis", "rule", "runtime", "numerics", "device", "right"],
)
def test_what_stays_stored(why: str) -> None:
    """A softmax stays as it is where something else reads it, or where a policy, a runtime or a device has its way."""
    axis = -2 if why == "other axis" else -1
    product = {"right": "v p", "one operand": "p p"}.get(why, "p v")
    nodes = [node("Softmax", "x", "p", axis=axis, name="share"), node("MatMul", product, "y", name="product")]
    inputs = {name: [1, 8, 8] for name in ("x", "v")}
    proto = model(nodes, inputs, outputs=("y", "p") if why == "returned" else ("y",))
    options: dict[str, Any] = {
        "kept float": {"policy": {"rules": [{"name": "share", "keep_float": True}]}},
        "rule": {"policy": {"rules": [{"name": "product", "attention": "stored"}]}},
        "runtime": {"runtime": "onnxruntime"},
        "device": {"target": "ethos-u55-like"},
    }.get(why, {})
    module = load(proto)
    if why == "numerics":
        module.attributes["qmlir.numerics"] = StringAttr("litert-reference")
    samples = [{name: normal(1, 8, 8, seed=2 * s + i) for i, name in enumerate(inputs)} for s in range(3)]
    network = qmlir.quantize(module, data=samples, **options)
    outcomes = {e.operation: e.outcome for e in qmlir.decisions(network) if e.operation in ("nn.softmax", "nn.attend")}
    if why:
        assert outcomes == {"nn.softmax": "float" if why == "kept float" else "quantized"}
    else:  # without any reason it is divided later
        assert outcomes == {"nn.attend": "quantized"}


def test_the_names_of_both_stay() -> None:
    proto, samples = heads("infinite")
    network = qmlir.quantize(load(proto), data=samples[:2])
    (entry,) = [e for e in qmlir.decisions(network) if e.operation == "nn.attend"]
    assert entry.node == "share+product"


def test_exports_compute_the_same(tmp_path: Path) -> None:
    """Spelled out in integers, a file has the network's bits; on floats between casts, what it means."""
    proto, samples = heads("infinite")
    network = qmlir.quantize(load(proto), data=samples[:5])
    wanted = np.asarray(qmlir.reference(network)(samples[6]))
    for format, apart in (("onnx-integer", 0.0), ("onnx-qdq", 2e-3), ("onnx-qoperator", 2e-3)):
        qmlir.export(network, tmp_path / "y.onnx", format=format)
        (found,) = onnxruntime_run(onnx.load(tmp_path / "y.onnx"), samples[6])
        assert np.abs(found - wanted).max() <= apart


def test_certificates_bound_the_quotients() -> None:
    """Sums fit their widths, and the quotient is rounded once; with room for fewer quotients there is no proof."""
    proto, samples = heads("infinite")
    network = qmlir.quantize(load(proto), data=samples[:5])
    _, certificate = certificate_of(network)
    (quotient,) = [o for o in certificate["operations"] if o["operation"] == "qint.row_quotient"]
    assert 0.5 <= quotient["rounding"]["error"] < 0.6
    integers = to_integers(network)
    (op,) = [o for o in integers.walk() if isinstance(o, RowQuotientOp)]
    op.offset = int32(op.offset.value.data // 4)
    with pytest.raises(NodeError, match="must have quotients below"):
        certificate_of(integers)
