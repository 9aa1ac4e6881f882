"""Exported files in onnxruntime: node by node as they are written, and with its default optimizations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

import qmlir
from tests.ops.samples import Sample

Array = npt.NDArray[Any]

SATURATING = pytest.mark.filterwarnings("ignore:on x86 processors without VNNI")
"""The mark of tests that export weights of 8 bits beside unsigned bytes; test_unsigned.py is about the warning."""


def session(path: Path, *, optimized: bool = False) -> onnxruntime.InferenceSession:
    """onnxruntime with its optimizations off, or as it is by default."""
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4  # errors come as exceptions
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path: Path, inputs: Sequence[Array]) -> list[Array]:
    """The outputs for inputs in order, node by node as written, once the default optimizations have given the same.

    They may move numbers that are rounded by a step, unless the file spells out all integers.
    """
    plain, optimized = (computed(session(path, optimized=o), inputs) for o in (False, True))
    assert [(y.shape, y.dtype) for y in optimized] == [(y.shape, y.dtype) for y in plain]
    if not rounds(onnx.load(str(path))):
        for ours, theirs in zip(plain, optimized, strict=True):
            if ours.dtype.kind in "iub":
                np.testing.assert_array_equal(theirs, ours, "with and without optimizations")
    return plain


def computed(loaded: onnxruntime.InferenceSession, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a session for inputs in order."""
    names = [i.name for i in loaded.get_inputs()]
    return [np.asarray(y) for y in loaded.run(None, dict(zip(names, inputs, strict=True)))]


def rounds(model: onnx.ModelProto) -> bool:
    """Whether a model has casts to quantized integers, or operators that round like them."""
    return any(kind in ("QuantizeLinear", "QGemm") or kind.startswith("QLinear") for kind in kinds(model))


def exported(module: ModuleOp, path: Path, **options: Any) -> onnx.ModelProto:
    """A module as a file that ONNX's checker, with shape inference, has found right."""
    qmlir.export(module, path, **options)
    onnx.checker.check_model(str(path), full_check=True)
    return onnx.load(str(path))


def kinds(model: onnx.ModelProto) -> list[str]:
    """The operators of a model, in order."""
    return [node.op_type for node in model.graph.node]


def of_sample(sample: Sample) -> ModuleOp:
    """A network of one operation on its arguments."""
    block = Block(arg_types=[operand.type for operand in sample.operands])
    op = sample.build(block.args)
    block.add_ops([op, func.ReturnOp(op.results[0])])
    function = func.FuncOp("main", (block.arg_types, [op.results[0].type]), Region(block))
    return ModuleOp([function])
