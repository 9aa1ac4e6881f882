"""Finds the layers whose sums can saturate in onnxruntime on x86 processors without VNNI.

There, onnxruntime multiplies unsigned data by signed weights with an instruction that adds two neighbouring products
in 16 bits, and saturates. Sums are exact if any two weights of an output channel add up to at most 128 in magnitude:
255 · 128 < 2^15. Weights of 7 bits, from -64 to 63, always do. Depthwise convolutions are computed otherwise.
"""

import warnings

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Operation

from qmlir.backends.forms import constant
from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.types import UniformType
from qmlir.display import counted
from qmlir.errors import QmlirWarning
from qmlir.ir.interfaces import Array, element_of
from qmlir.ir.rewriting import node_name

MOST = 2**15 // 255
"""The largest sum of two weights whose products with data up to 255 fit 16 bits: 128."""


def saturating_layers(function: func.FuncOp, *, unsigned: bool) -> list[str]:
    """Returns the names of layers whose sums can saturate.

    Args:
        function: A network on quantized types.
        unsigned: Whether signed data are stored as unsigned bytes in the exported file.
    """
    return [node_name(op) for op in function.body.block.ops if _can_saturate(op, unsigned)]


def warn_of_saturation(function: func.FuncOp, *, unsigned: bool) -> None:
    """Warns of layers whose sums can saturate; for the arguments see `saturating_layers`."""
    if layers := saturating_layers(function, unsigned=unsigned):
        named = ", ".join(layers[:3]) + (", …" if len(layers) > 3 else "")
        count = counted(len(layers), "layer")
        text = f"on x86 processors without VNNI, onnxruntime's sums of {count} can saturate ({named}): "
        text += "weights of 8 bits meet unsigned bytes; quantize for onnxruntime (--for onnxruntime), which takes "
        text += "weights of 7 bits" + (
            ", or keep activations signed (--onnx-activations kept), which is slow" * unsigned
        )
        warnings.warn(text, QmlirWarning, stacklevel=3)


def _can_saturate(op: Operation, unsigned: bool) -> bool:
    if isinstance(op, nn.DepthwiseConv2DOp) or not isinstance(op, WeightedOp):
        return False
    data, weights, array = element_of(op.x), element_of(op.w), constant(op.w)
    if not isinstance(data, UniformType) or not isinstance(weights, UniformType) or array is None:
        return False
    multiplied = data.numpy_dtype == np.uint8 or (unsigned and data.numpy_dtype == np.int8)
    return multiplied and array.dtype == np.int8 and bool(_pairs(array).max(initial=0) > MOST)


def _pairs(weights: Array) -> Array:
    """Returns the largest magnitude of a sum of two weights [O, …], for each output channel."""
    rows = np.sort(weights.reshape(len(weights), -1).astype(np.int32), axis=1)
    return np.maximum(rows[:, -2:].sum(axis=1), -rows[:, :2].sum(axis=1))
