"""Small models and the two ways to run them: ours, operation by operation, and onnxruntime's."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.backends.reference import evaluate
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import signature_of

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def floats(*shape: int, seed: int = 0) -> Array:
    """Normally distributed values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def node(operator: str, inputs: str, outputs: str = "y", /, **attributes: Any) -> onnx.NodeProto:
    """A node; names of inputs and outputs are separated by spaces, `_` leaves one out."""
    split = [["" if n == "_" else n for n in names.split()] for names in (inputs, outputs)]
    return helper.make_node(operator, split[0], split[1], **attributes)


def model(
    nodes: onnx.NodeProto | Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    constants: Mapping[str, Array] | None = None,
    *,
    opset: int = 21,
    outputs: Sequence[str] = ("y",),
    element: int = FLOAT,
    ir_version: int = 10,
) -> onnx.ModelProto:
    """A model whose inputs have the given shapes."""
    graph = helper.make_graph(
        [nodes] if isinstance(nodes, onnx.NodeProto) else list(nodes),
        "test",
        [helper.make_tensor_value_info(n, element, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def main_of(module: ModuleOp) -> func.FuncOp:
    """The module's only function."""
    function = module.body.block.first_op
    assert isinstance(function, func.FuncOp)
    return function


def ops_of(module: ModuleOp) -> list[Operation]:
    """The operations of main without the return."""
    return list(main_of(module).body.block.ops)[:-1]


def kinds(module: ModuleOp) -> list[str]:
    """What main computes: the operations' names, constants and transposes left out."""
    return [o.name for o in ops_of(module) if o.name not in ("nn.constant", "nn.transpose")]


def load(proto: onnx.ModelProto, **options: Any) -> ModuleOp:
    """Imports a model that has no opaque operation, and verifies the module."""
    module = load_onnx(proto, **options)
    module.verify()
    assert opaque_report(module) == []
    return module


def reason(proto: onnx.ModelProto) -> str:
    """Why the only opaque operation of a model is one."""
    module = load_onnx(proto)
    module.verify()
    (op,) = (o for o in ops_of(module) if isinstance(o, OpaqueOp))
    return op.reason.data


def onnxruntime_run(source: onnx.ModelProto | str, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs as onnxruntime computes them, without its optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    data = source if isinstance(source, str) else source.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return [np.asarray(y) for y in session.run(None, dict(inputs))]


def assert_close(got: Array, wanted: Array) -> None:
    """max|a − b| ≤ 1e-5 · max|b|, shapes and types equal."""
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    assert np.array_equal(np.isfinite(got), np.isfinite(wanted))
    finite = np.isfinite(wanted)
    if finite.any():
        assert np.abs(got[finite] - wanted[finite]).max() <= 1e-5 * np.abs(wanted[finite]).max()


def agree(proto: onnx.ModelProto, **options: Any) -> ModuleOp:
    """Checks that ours and onnxruntime's outputs agree on random inputs; returns the module."""
    module = load(proto, **options)
    function = main_of(module)
    arrays = [floats(*t.get_shape(), seed=i) for i, t in enumerate(function.function_type.inputs)]  # type: ignore[union-attr]
    initializers = {t.name for t in proto.graph.initializer}
    names = [i.name for i in proto.graph.input if i.name not in initializers]
    wanted = onnxruntime_run(proto, dict(zip(names, arrays, strict=True)))
    ours_counted = signature_of(function).counted(evaluate(function, arrays)).values()
    for ours, theirs in zip(ours_counted, wanted, strict=True):
        assert_close(ours, theirs)
    return module
