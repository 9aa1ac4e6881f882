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


def test_pixels_that_have_no_allowed_number_of_rows() -> None:
    """81 pixels are 9 rows of 9 columns and no others that fit 8 by 8; 50 are 10 by 5, which fit 16 by 8."""
    device = qmlir.load_device("nvdla-small")
    text = """
    func.func @main(%x: tensor<1x{n}x1x4xi8>) -> tensor<1x1x1x4xi8> {{
      %a = qint.global_sum_pool %x : tensor<1x{n}x1x4xi8> -> tensor<1x1x1x4xi32>
      %y = qint.requantize %a {{multiplier = array<i32: 1073741824>, shift = array<i32: -5>, contract = "away16",
        min = -128 : i32, max = 127 : i32}} : tensor<1x1x1x4xi32> -> tensor<1x1x1x4xi8>
      func.return %y : tensor<1x1x1x4xi8>
    }}"""
    from qmlir.ir.context import make_context
    from qmlir.ir.source import parse_text

    for pixels, wide, fits in ((81, 8, False), (49, 8, True), (50, 16, True), (50, 8, False), (64, 8, True)):
        module = parse_text(make_context(), text.format(n=pixels), "network")
        narrow = device.with_({"ops.avgpool.kernel_max": [wide, 8]})
        judged = judge(module, narrow)
        assert any(v.refusals for v in judged) != fits
        if not fits:
            assert f"a window has at most {wide}x8 elements, got {pixels}x1 (ops.avgpool.kernel_max)" in str(judged)
