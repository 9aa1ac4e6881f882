"""Nodes in any order, which onnxruntime runs: in a graph, in its branches, and of onnxruntime's own converter."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.transformers.float16 import convert_float_to_float16

from qmlir.compiler import load, quantize
from qmlir.dialects.nn import CastOp
from qmlir.frontends.onnx.ordering import ordered
from qmlir.ir.signature import main_function
from qmlir.policies.ledger import decisions
from qmlir.transforms.nn.simplify import simplify
from tests.conftest import ROOT
from tests.frontends.onnx.agreement import agree, floats, model, node

DIGITS = ROOT / "examples" / "digits"


def kinds(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    return [n.op_type for n in nodes]


def test_a_graph_backwards() -> None:
    nodes = [node("Add", "b c"), node("Tanh", "b", "c"), node("Mul", "a w", "b"), node("Relu", "x", "a")]
    backwards = model(nodes, {"x": [3]}, {"w": floats(3)})
    agree(backwards)
    assert kinds(ordered(backwards).graph.node) == ["Relu", "Mul", "Tanh", "Add"]
    assert kinds(backwards.graph.node) == ["Add", "Tanh", "Mul", "Relu"]  # what the caller has stays as it is


def test_what_is_in_order_is_not_copied_and_what_need_not_move_stays() -> None:
    proto = model([node("Relu", "x", "a"), node("Tanh", "x", "b"), node("Add", "a b")], {"x": [3]})
    assert ordered(proto) is proto
    nodes = [node("Exp", "x", "e"), node("Add", "a b"), node("Tanh", "x", "b"), node("Relu", "x", "a")]
    assert kinds(ordered(model(nodes, {"x": [3]})).graph.node) == ["Exp", "Tanh", "Relu", "Add"]


def test_a_branch_reads_what_is_defined_later() -> None:
    float3 = [helper.make_tensor_value_info("t", TensorProto.FLOAT, [3])]
    then = helper.make_graph([node("Add", "u late", "t"), node("Neg", "late", "u")], "then", [], float3)
    otherwise = helper.make_graph([node("Relu", "late", "t")], "else", [], float3)
    branch = node("If", "c", then_branch=then, else_branch=otherwise)
    nodes = [branch, node("Less", "m z", "c"), node("ReduceMax", "x", "m", keepdims=0), node("Exp", "x", "late")]
    proto = model(nodes, {"x": [3]}, {"z": np.array(9, np.float32)})
    found = ordered(proto).graph.node
    assert kinds(found) == ["ReduceMax", "Less", "Exp", "If"]
    then = next(a.g for a in found[-1].attribute if a.name == "then_branch")
    assert kinds(then.node) == ["Neg", "Add"]


def test_a_cycle_and_tensors_defined_twice_stay_for_the_importer_to_refuse() -> None:
    for nodes in (
        [node("Add", "x y", "a"), node("Relu", "a")],
        [node("Add", "b b"), node("Relu", "x", "b"), node("Neg", "x", "b")],
    ):
        proto = model(nodes, {"x": [3]})
        assert ordered(proto) is proto


CONVERSIONS: dict[str, dict[str, Any]] = {
    "everything": {},
    "inputs and outputs in float32": {"keep_io_types": True},
    "convolutions in float32": {"keep_io_types": True, "op_block_list": ["Conv"]},
    "activations in float32": {"keep_io_types": False, "op_block_list": ["Relu", "MaxPool"]},
}


@pytest.mark.parametrize("options", CONVERSIONS.values(), ids=CONVERSIONS)
def test_networks_that_onnxruntime_converted_to_float16(options: dict[str, Any], tmp_path: Any) -> None:
    """They are quantized without a float between the layers; the casts that are left are at the edges."""
    converted: onnx.ModelProto = convert_float_to_float16(onnx.load(DIGITS / "digits.onnx"), **options)
    onnx.save(converted, tmp_path / "half.onnx")
    module = load(tmp_path / "half.onnx")
    simplify(module)
    block, halves = main_function(module).body.block, not options.get("keep_io_types")
    casts = [o for o in block.ops if isinstance(o, CastOp)]
    assert len(casts) == (2 if halves else 0)
    images = np.load(DIGITS / "digits.npz")["calibration_images"][:8, None]
    data = [image.astype(np.float16 if halves else np.float32) for image in images]
    quantized = quantize(module, data=data, rounding="nearest", fail_on_float=True)
    assert {e.outcome for e in decisions(quantized)} == {"quantized"}
    casts = [o for o in quantized.walk() if isinstance(o, CastOp)]
    if halves:
        first, last = casts
        assert first.x in main_function(quantized).body.block.args
        assert [u.operation.name for u in last.y.uses] == ["func.return"]
