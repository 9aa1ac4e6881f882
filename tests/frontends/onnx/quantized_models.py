"""Small quantized models, written with onnx.helper, and what onnxruntime makes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import refuse_opaque
from qmlir.policies.runtimes import follow
from qmlir.stages import IMPORTED

Array = npt.NDArray[Any]

MICROSOFT = "com.microsoft"
QONNX = "qonnx.custom_op.general"


def node(kind: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node: `node("Relu", "x", "y")`; names are separated by spaces, and `_` is an input left out."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), name=f"{kind}_{outputs}", domain=domain, **attributes)


def quantize(x: str, parameters: str, y: str, **attributes: Any) -> onnx.NodeProto:
    """QuantizeLinear with `<parameters>_s` and `<parameters>_z`."""
    return node("QuantizeLinear", f"{x} {parameters}_s {parameters}_z", y, **attributes)


def dequantize(x: str, parameters: str, y: str, **attributes: Any) -> onnx.NodeProto:
    """DequantizeLinear likewise."""
    return node("DequantizeLinear", f"{x} {parameters}_s {parameters}_z", y, **attributes)


def parameters(name: str, scale: Any, zero_point: Any, dtype: npt.DTypeLike = np.uint8) -> dict[str, Array]:
    """The constants that `quantize` and `dequantize` read."""
    return {f"{name}_s": np.array(scale, np.float32), f"{name}_z": np.array(zero_point, dtype)}


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    constants: Mapping[str, Array | onnx.TensorProto],
    opset: int = 21,
) -> onnx.ModelProto:
    """A model whose inputs have the types and shapes of the arrays."""
    tensors = [
        value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value, name)
        for name, value in constants.items()
    ]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        tensors,
    )
    domains = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid(QONNX, 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def imported(proto: onnx.ModelProto, numerics: str = "onnxruntime-vnni") -> ModuleOp:
    """The model on quantized types."""
    module = load_onnx(proto)
    refuse_opaque(module, "the model")
    follow(module, numerics)
    return Pipeline(*IMPORTED)(module)


def results(module: ModuleOp, inputs: Mapping[str, Array]) -> list[Array]:
    """Machine code's results, which are those of the reference bit for bit."""
    outputs = [np.asarray(a) for a in qmlir.compile(module).run(dict(inputs))]
    for ours, theirs in zip(qmlir.reference(module).run(dict(inputs)), outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return outputs


def onnxruntimes(proto: onnx.ModelProto, inputs: Mapping[str, Array], *, optimized: bool = False) -> list[Array]:
    """What onnxruntime computes, by default without its optimizations."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(a) for a in session.run(None, dict(inputs))]


def float_operations(module: ModuleOp) -> set[str]:
    """The operations that stay float."""
    return {entry.operation for entry in qmlir.decisions(module) if entry.outcome == "float"}
