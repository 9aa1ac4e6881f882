"""onnxruntime's products of integers that give floats, in domain com.microsoft.

onnxruntime computes each of them as a MatMulInteger, whose sums it multiplies by the product of the scales. Here they
are imported in the same way.
"""

import numpy as np
from xdsl.dialects.builtin import f32, i32

from qmlir.dialects.nn.elementwise import AddOp, MulOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.attention import self_attention
from qmlir.frontends.onnx.dynamic_quantization import quantized_by_its_range
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.qoperator import matmul_integer
from qmlir.frontends.onnx.quantization import MICROSOFT, dequantized, parameters, plain
from qmlir.ir.interfaces import element_of

converts = Table()


@converts("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    node: ONNXNode, a: Value, b: Value, a_scale: Value, b_scale: Value, a_zero_point: Value | None = None,
    b_zero_point: Value | None = None, bias: Value | None = None,
) -> Value:  # fmt: skip
    """y = (a − a_zero_point) · (b − b_zero_point) · a_scale · b_scale + bias."""
    sums = node.builder.ssa(matmul_integer(node, a, b, a_zero_point, b_zero_point))
    if isinstance(a_scale, Constant) and isinstance(b_scale, Constant):
        # The sums are read as integers whose scale is the product, so that they stay integers until then.
        steps = Constant(np.asarray(a_scale.array * b_scale.array))
        y = dequantized(node, sums, parameters(node, i32, steps, None, node.shape(sums), -1))
    else:
        steps = node.compute(MulOp, [a_scale, b_scale], part="scale")
        whole = plain(node, sums) if isinstance(element_of(sums), UniformType) else sums
        y = node.compute(MulOp, [node.converted(whole, f32), steps], part=None if bias is None else "product")
    return y if bias is None else node.compute(AddOp, [y, bias])


@converts("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    node: ONNXNode, a: Value, b: Value, b_scale: Value, b_zero_point: Value | None = None, bias: Value | None = None
) -> Value:
    """The product of a, quantized as DynamicQuantizeLinear does at run time, and of integers b."""
    stored, scale, zero_point = quantized_by_its_range(node, a, "quantized.")
    return matmul_integer_to_float(node, stored, b, scale, b_scale, zero_point, b_zero_point, bias)


@converts("QAttention", domain=MICROSOFT)
def quantized_attention(
    node: ONNXNode, x: Value, weights: Value, bias: Value, input_scale: Value, weight_scale: Value,
    mask_index: Value | None = None, input_zero_point: Value | None = None, weight_zero_point: Value | None = None,
    past: Value | None = None, *,
    do_rotary: int = 0, mask_filter_value: float = -10000.0, num_heads: int, past_present_share_buffer: int = 0,
    scale: float = 0.0, unidirectional: int = 0,
) -> Value:  # fmt: skip
    """Attention over the query, key and value that integer weights [I, 3 · H] compute from integers x [B, S, I]."""
    if mask_index is not None or past is not None or do_rotary:
        raise UnsupportedError("it has a mask, a past or rotations, which qmlir knows of ONNX's own Attention only")
    packed = matmul_integer_to_float(
        node, x, weights, input_scale, weight_scale, input_zero_point, weight_zero_point, bias
    )
    width = node.shape(packed)[-1]
    return self_attention(node, packed, (width // 3,) * 3, None, num_heads, scale, unidirectional)
