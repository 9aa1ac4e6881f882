"""Means, sums and greatest elements along rows and columns are the device's, however a model spells them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.placement import judge
from qmlir.dialects import nn
from qmlir.dialects.nn.movement import MovementOp
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.isa.commands import Reduce
from tests.frontends.tflite.files import Op, T, constant, model

DEVICES = ("nvdla-small", "ethos-u55-like")
"""Devices of which one has pools of at most 8 by 8 elements."""


def network(*tail: onnx.NodeProto, **constants: list[int]) -> onnx.ModelProto:
    """A convolution with 8 channels of 7 by 7, and nodes that read `c` and write `y`."""
    weights = (np.random.default_rng(0).standard_normal((8, 4, 3, 3)) / 6).astype(np.float32)
    held = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in constants.items()]
    ends = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 7, 7])
    conv = helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held.append(numpy_helper.from_array(weights, "w"))
    graph = helper.make_graph([conv, *tail], "network", [ends], [result], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def reduced(kind: str, axes: list[int], keepdims: int, channels_last: bool = False) -> onnx.ModelProto:
    source = "t" if channels_last else "c"
    nodes = [helper.make_node("Transpose", ["c"], ["t"], perm=[0, 2, 3, 1])] if channels_last else []
    return network(*nodes, helper.make_node(kind, [source, "axes"], ["y"], keepdims=keepdims), axes=axes)


def pooled(kind: str, *shape: Any, **constants: list[int]) -> onnx.ModelProto:
    return network(helper.make_node(kind, ["c"], ["g"]), helper.make_node(*shape), **constants)


MODELS = {
    "mean": reduced("ReduceMean", [2, 3], 1),
    "mean without keepdims": reduced("ReduceMean", [2, 3], 0),
    "mean of axes in other order": reduced("ReduceMean", [-1, -2], 0),
    "mean, channels last": reduced("ReduceMean", [2, 1], 0, channels_last=True),
    "sum": reduced("ReduceSum", [2, 3], 0),
    "sum, channels last": reduced("ReduceSum", [1, 2], 0, channels_last=True),
    "max": reduced("ReduceMax", [2, 3], 0),
    "max, channels last": reduced("ReduceMax", [1, 2], 0, channels_last=True),
    "flatten": pooled("GlobalAveragePool", "Flatten", ["g"], ["y"]),
    "squeeze": pooled("GlobalAveragePool", "Squeeze", ["g", "axes"], ["y"], axes=[2, 3]),
    "reshape": pooled("GlobalAveragePool", "Reshape", ["g", "shape"], ["y"], shape=[0, -1]),
    "max pool": pooled("GlobalMaxPool", "Flatten", ["g"], ["y"]),
}


def on_the_host(module: ModuleOp, device: str) -> list[str]:
    """The kinds of the operations that compute on the host."""
    moves = {op.name for op in nn.NN.operations if issubclass(op, MovementOp)}
    return [v.operation for v in judge(module, device) if v.refusals and v.operation not in moves]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spelled", MODELS)
def test_onnx(spelled: str, device: str, tmp_path: Path) -> None:
    onnx.save(MODELS[spelled], tmp_path / "net.onnx")
    samples = np.random.default_rng(1).standard_normal((3, 1, 4, 7, 7)).astype(np.float32)
    quantized = qmlir.quantize(tmp_path / "net.onnx", data=samples, target=device)
    assert on_the_host(quantized, device) == []
    executable, reference = qmlir.compile(quantized, target=device), qmlir.reference(quantized)
    for sample in samples:
        assert np.array_equal(executable(sample), reference(sample))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep_dims", [True, False])
@pytest.mark.parametrize("axes", [[1, 2], [2, 1], [-2, -3]])
@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX"])
def test_tflite(kind: str, axes: list[int], keep_dims: bool, device: str, tmp_path: Path) -> None:
    shape = (2, 1, 1, 8) if keep_dims else (2, 8)
    result = 2.0 if kind == "SUM" else 0.05
    tensors = [
        T("x", (2, 7, 7, 8), np.int8, scale=[0.05], zero=[0]),
        constant("axes", axes, np.int32),
        T("y", shape, np.int8, scale=[result], zero=[0]),
    ]
    data = model(tensors, [Op(kind, [0, 1], [2], "ReducerOptions", {"KeepDims": keep_dims})], [0], [2])
    (tmp_path / "net.tflite").write_bytes(data)
    module = qmlir.load(tmp_path / "net.tflite")
    assert on_the_host(module, device) == []
    x = np.random.default_rng(0).integers(-128, 128, (2, 7, 7, 8)).astype(np.int8)
    assert np.array_equal(qmlir.compile(module, target=device)(x), qmlir.reference(module)(x))


SUM = """
func.func @main(%x: tensor<2x{rows}x{columns}x5xi8>) -> tensor<2x1x1x5xi8> {{
  %a = qint.global_sum_pool %x : tensor<2x{rows}x{columns}x5xi8> -> tensor<2x1x1x5xi32>
  %y = qint.requantize %a {{multiplier = array<i32: 1073741824>, shift = array<i32: -5>, contract = "away16",
    min = -128 : i32, max = 127 : i32}} : tensor<2x1x1x5xi32> -> tensor<2x1x1x5xi8>
  func.return %y : tensor<2x1x1x5xi8>
}}"""


@pytest.mark.parametrize(
    ("rows", "columns", "most", "commands"),
    [
        (81, 1, {"kernel_max": [8, 8]}, 4),  # 9 rows of 9 pixels, which are 2 by 2 windows
        (49, 1, {"kernel_max": [8, 8]}, 1),
        (50, 1, {"kernel_max": [16, 8]}, 1),  # 10 rows of 5
        (25, 5, {"kernel_max": [8, 8]}, 4),
        (11, 13, {"kernel_max": [4, 4], "kernel_area_max": 8}, 21),  # 4 by 2 pixels at a time
        (7, 7, {}, 1),
    ],
)
def test_a_sum_over_an_image_of_any_size(rows: int, columns: int, most: dict[str, Any], commands: int) -> None:
    """Commands of at most a window's size add to the sums of those before."""
    device = qmlir.load_device("nvdla-small").with_({"ops.avgpool": most})
    module = parse_text(make_context(), SUM.format(rows=rows, columns=columns), "network")
    assert not any(v.refusals for v in judge(module, device))
    compiled = qmlir.compile(module, target=device)
    reduces = [command for command in compiled.program.commands if isinstance(command, Reduce)]
    assert len(reduces) == 2 * commands  # of two images
    high, wide = most.get("kernel_max", [rows, columns])
    area = most.get("kernel_area_max", high * wide)
    assert all(c.rows <= high and c.columns <= wide and c.rows * c.columns <= area for c in reduces)
    x = np.random.default_rng(0).integers(-128, 128, (2, rows, columns, 5)).astype(np.int8)
    assert np.array_equal(compiled(x), qmlir.reference(module)(x))


def test_the_host_keeps_a_sum_that_it_computes_sooner() -> None:
    """A device that sums one element a cycle, beside a host that reads four bytes: the reason names both."""
    nvdla = qmlir.load_device("nvdla-small")
    text = """
    func.func @main(%x: tensor<1x25x5x64xi8>) -> tensor<1x1x1x64xi8> {
      %z = qint.add %x, %x {multipliers = array<i64: 65536, 65536>, shift = 20 : i32, min = -128 : i32, max = 127 : i32}
        : tensor<1x25x5x64xi8>, tensor<1x25x5x64xi8> -> tensor<1x25x5x64xi8>
      %a = qint.global_sum_pool %z : tensor<1x25x5x64xi8> -> tensor<1x1x1x64xi32>
      %y = qint.requantize %a {multiplier = array<i32: 1073741824>, shift = array<i32: -5>, contract = "away16",
        min = -128 : i32, max = 127 : i32} : tensor<1x1x1x64xi32> -> tensor<1x1x1x64xi8>
      func.return %y : tensor<1x1x1x64xi8>
    }"""
    module = parse_text(make_context(), text, "network")
    refused = {v.operation: v.refusals for v in judge(module, nvdla) if v.refusals}
    (why,) = refused["qint.global_sum_pool"]
    assert why.startswith("what nvdla-small computes instead must take no more cycles than the host, got ")
    assert why.endswith(" more as a sum of 4 parts (fallback)")
    assert refused["qint.requantize"] == (f"qint.global_sum_pool, with which it runs, stays on the host: {why}",)
    slow = nvdla.with_({"fallback.macs_per_cycle": 0.25})
    assert not any(v.refusals for v in judge(module, slow))
    assert qmlir.compile(module, target=slow).predicted_cycles > qmlir.compile(module, target=nvdla).predicted_cycles
