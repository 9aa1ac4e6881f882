"""Encoders whose weights onnxruntime's quantizer stored in 4 bits with a scale for each block, in both of its forms.

MatMulNBits, and MatMul behind a DequantizeLinear with blocks. The file is read without making floats of its weights,
equals onnxruntime's floats, and is quantized. What the integer multipliers of blocks cost is measured against the same
network with the scales as they are: its blocked layers are computed in floats between casts.

`make test` runs an encoder of one small layer, `make conformance` also one of MiniLM's sizes, and every combination of
forms. Weights are random and seeded.
"""

import logging
import sys
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.quant_utils import QuantFormat

import qmlir
from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.interfaces import element_of
from tests.conftest import THOROUGH

Array = npt.NDArray[Any]

SIZES = {"small": (1, 128, 4, 16, 256), "MiniLM": (6, 384, 12, 128, 1536)}
"""Layers, features, heads, rows, and features between the two linear layers of a network."""

CASES = (
    [("small", *case) for case in product(["QOperator", "QDQ"], [32, 128], [True, False], ["int8", "int16"])]
    + [("MiniLM", *case) for case in product(["QOperator", "QDQ"], [32, 128], [True, False], ["int8"])]
    if THOROUGH
    else [("small", "QOperator", 32, False, "int8"), ("small", "QDQ", 128, True, "int16")]
)
"""The encoder, the form, the block's size, whether zero points are in the middle, the precision of data."""

pytestmark = pytest.mark.slow


def encoder(size: str) -> onnx.ModelProto:
    """Attention and two linear layers with GELU, each with a sum and a layer normalization behind it."""
    layers, width, heads, rows, inner = SIZES[size]
    rng = np.random.default_rng(6)
    nodes, initializers = list[onnx.NodeProto](), list[onnx.TensorProto]()

    def constant(array: Array) -> str:
        initializers.append(numpy_helper.from_array(array, f"c{len(initializers)}"))
        return initializers[-1].name

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        result = f"{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [result], name=result, **attributes))
        return result

    def linear(x: str, inputs: int, outputs: int) -> str:
        weights = (rng.standard_normal((inputs, outputs)) * 0.7 / np.sqrt(inputs)).astype(np.float32)
        bias = (rng.standard_normal(outputs) * 0.02).astype(np.float32)
        return add("Add", add("MatMul", x, constant(weights)), constant(bias))

    def split(x: str, *order: int) -> str:
        shape = constant(np.array([1, rows, heads, width // heads]))
        return add("Transpose", add("Reshape", x, shape), perm=order)

    def normal(x: str) -> str:
        ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
        return add("LayerNormalization", x, constant(ones), constant(zeros), axis=-1)

    x, factor = "x", constant(np.array(np.sqrt(heads / width), np.float32))
    for _ in range(layers):
        query, key, value = (split(linear(x, width, width), *o) for o in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        chances = add("Softmax", add("Mul", add("MatMul", query, key), factor), axis=-1)
        seen = add("Transpose", add("MatMul", chances, value), perm=[0, 2, 1, 3])
        joined = add("Reshape", seen, constant(np.array([1, rows, width])))
        x = normal(add("Add", linear(joined, width, width), x))
        x = normal(add("Add", linear(add("Gelu", linear(x, width, inner)), inner, width), x))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, rows, width]) for n in ("x", x)]
    graph = helper.make_graph(nodes, size, ends[:1], ends[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def blocked(size: str, form: str, block: int, *, middle: bool) -> onnx.ModelProto:
    """The encoder with weights of 4 bits, by onnxruntime."""
    logging.getLogger("onnxruntime.quantization.matmul_nbits_quantizer").setLevel(logging.WARNING)
    quantizer = MatMulNBitsQuantizer(
        encoder(size), bits=4, block_size=block, is_symmetric=middle, quant_format=QuantFormat[form]
    )
    quantizer.process()
    model: onnx.ModelProto = quantizer.model.model  # type: ignore[assignment]
    kinds = {n.op_type for n in model.graph.node}
    assert ("MatMulNBits" in kinds, "DequantizeLinear" in kinds) == (form == "QOperator", form == "QDQ")
    return model


def theirs(model: onnx.ModelProto, samples: Sequence[Array]) -> list[Array]:
    """onnxruntime's results, with products of floats: by default it quantizes the data beside such weights."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(session.run(None, {"x": x})[0]) for x in samples]


def decibels(signal: Sequence[Array], other: Sequence[Array]) -> float:
    """The signal's power over that of the difference."""
    real = np.array(signal, np.float64)
    return float(10 * np.log10(np.square(real).sum() / np.square(real - np.array(other)).sum()))


def samples_of(size: str, seeds: Sequence[int]) -> list[Array]:
    _, width, _, rows, _ = SIZES[size]
    return [np.random.default_rng(seed).standard_normal((1, rows, width)).astype(np.float32) for seed in seeds]


@pytest.mark.parametrize(("size", "form", "block", "middle", "precision"), CASES)
def test_encoder(
    size: str, form: str, block: int, precision: str, *, middle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = blocked(size, form, block, middle=middle)
    inputs = samples_of(size, range(100, 104 if size == "MiniLM" else 112))
    module = load_onnx(proto)
    layers, width = SIZES[size][:2]
    weights = [op for op in module.walk() if isinstance(op, BlockedFullyConnectedOp)]
    assert len(weights) == 6 * layers
    assert {(str(element_of(op.w)), op.size) for op in weights} <= {("ui4", block), ("i4", block)}
    floats = [op.value.array for op in module.walk() if isinstance(op, ConstantOp) and op.value.array.dtype.kind == "f"]
    assert max(a.size for a in floats) < width * width, "no weights are floats"

    compiled = qmlir.compile(module)
    exact = [compiled(x) for x in inputs]
    np.testing.assert_array_equal(exact[0], qmlir.reference(module)(inputs[0]))
    expected = theirs(proto, inputs)
    assert np.abs(np.array(exact) - expected).max() <= 1e-5 * np.abs(expected).max()

    quantized = qmlir.quantize(module, data=samples_of(size, range(4)), precision=precision)
    outcomes = {(d.operation, d.outcome) for d in qmlir.decisions(quantized)}
    left = {"nn.mul"} if precision == "int16" else set[str]()  # products of more than 32 bits
    assert {operation for operation, outcome in outcomes if outcome == "float"} <= left
    compiled = qmlir.compile(quantized)
    integers = [compiled(x) for x in inputs]
    np.testing.assert_array_equal(integers[0], qmlir.reference(quantized)(inputs[0]))

    refused: list[BlockedFullyConnectedOp] = []

    def refuse(op: BlockedFullyConnectedOp) -> None:
        refused.append(op)
        raise UnsupportedError("the test computes it with the scales as they are", code="blocked")

    monkeypatch.setattr(BlockedFullyConnectedOp, "check_integer_form", refuse)
    compiled = qmlir.compile(quantized)
    scales = [compiled(x) for x in inputs]
    assert refused
    assert block >= width or not np.array_equal(integers, scales)  # a sum of one block has its channel's scale
    found, nominal = decibels(exact, integers), decibels(exact, scales)
    sys.stdout.write(f"\n{size} {form} {block} {precision}: {found:.2f} dB in integers, {nominal:.2f} dB without\n")
    assert found >= nominal - 0.1
