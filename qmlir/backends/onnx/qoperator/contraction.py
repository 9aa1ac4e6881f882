"""Forms of contractions: QLinearConv, QGemm and QLinearMatMul, with types whose sums are exact on every processor.

On processors without VNNI, onnxruntime adds products of u8 by s8 in pairs that saturate; products of u8 by u8 and of s8
by s8 do not saturate. Therefore the weights get the signedness of the data: integers and zero points are shifted by
128, which leaves the real values unchanged.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from qmlir.backends.onnx.contraction import DEPTHWISE_FILTERS, IMAGES, window_attributes
from qmlir.backends.onnx.graph import MICROSOFT, Tensor
from qmlir.backends.onnx.qoperator.forms import NoOperator, computes, scale_and_point
from qmlir.backends.onnx.values import Permutation, StoredValues, constant, identity
from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.marks import INTEGER_OPERATOR
from qmlir.ir.rewriting import tensor_name
from qmlir.policies.legality import NoIntegerForm, fits_32_bits, is_accumulator, stored_bias
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtime_kernels import followed_runtime
from qmlir.policies.runtimes import rounding_of


@computes(nn.Conv2DOp)
def conv2d(op: nn.Conv2DOp, values: StoredValues) -> None:
    """Writes QLinearConv; filters [O, KH, KW, C/G] become [O, C/G, KH, KW]."""
    _convolve(op, values, IMAGES, shape_of(op.w)[1:3], op.group_count())


@computes(nn.DepthwiseConv2DOp)
def depthwise_conv2d(op: nn.DepthwiseConv2DOp, values: StoredValues) -> None:
    """Writes QLinearConv with one group per input channel."""
    _convolve(op, values, DEPTHWISE_FILTERS, shape_of(op.w)[1:3], shape_of(op.x)[3])


def _convolve(
    op: nn.Conv2DOp | nn.DepthwiseConv2DOp,
    values: StoredValues,
    filters: Permutation,
    kernel: Sequence[int],
    groups: int,
) -> None:
    _require_sums(op)
    bias = _bias(op, values)
    weights = _factor(op, op.w, values, filters)
    y = values.graph.node(
        "QLinearConv",
        values.real(op.x, IMAGES),
        *scale_and_point(op.x, values),
        *weights,
        *scale_and_point(op.y, values),
        bias,
        kernel_shape=list(kernel),
        group=groups if groups != 1 else None,
        **window_attributes(op),
    )
    values.define(op.y, y, IMAGES)


@computes(nn.FullyConnectedOp)
def fully_connected(op: nn.FullyConnectedOp, values: StoredValues) -> None:
    """Writes QGemm with transB; nn's weights [O, I] keep their order."""
    _require_sums(op)
    bias = _bias(op, values)
    weights = _factor(op, op.w, values, identity(2))
    data, result = scale_and_point(op.x, values), scale_and_point(op.y, values)
    x = values.real(op.x)
    values.define(op.y, values.graph.node("QGemm", x, *data, *weights, bias, *result, domain=MICROSOFT, transB=1))


@computes(nn.MatMulOp)
def matmul(op: nn.MatMulOp, values: StoredValues) -> None:
    """Writes QLinearMatMul."""
    _require_sums(op)
    rhs = _factor(op, op.rhs, values, identity(len(shape_of(op.rhs))))
    lhs = values.real(op.lhs), *scale_and_point(op.lhs, values)
    values.define(op.y, values.graph.node("QLinearMatMul", *lhs, *rhs, *scale_and_point(op.y, values)))


def _factor(
    op: WeightedOp | nn.MatMulOp, w: SSAValue, values: StoredValues, permutation: Permutation
) -> Sequence[Tensor]:
    """Returns the second factor, its scale and its zero point; the factor gets the signedness of the data.

    Products of unsigned data and signed weights saturate on processors without VNNI. If the operation follows a runtime
    that saturates, and comes from an integer operator of the source model, the weights stay signed so that the exported
    operator saturates too.

    Raises:
        NoOperator: The factor has several zero points, or is computed and differs from the data in signedness.
    """
    element, unsigned = uniform(w), not uniform(op.operands[0]).is_signed
    if len(set(element.zero_points)) != 1:
        raise NoOperator
    saturates = INTEGER_OPERATOR in op.attributes and rounding_of(op.name, followed_runtime(op), "").pairs
    if element.is_signed != unsigned or saturates:
        return values.real(w, permutation), *scale_and_point(w, values)
    array, moved = constant(w), 128 if unsigned else -128
    if array is None:
        raise NoOperator
    dtype = np.dtype(np.uint8 if unsigned else np.int8)
    stored = (array.astype(np.int16) + moved).astype(dtype).transpose(permutation)
    scale, _ = scale_and_point(w, values)
    point = np.full(1 if element.axis is None else len(element.scales), element.zero_points[0] + moved, dtype)
    zero_point = values.graph.constant(point.reshape(() if element.axis is None else (-1,)))
    return values.graph.constant(stored, tensor_name(w)), scale, zero_point


def _require_sums(op: WeightedOp | nn.MatMulOp) -> None:
    """Raises NoOperator unless the sums fit 32 bits, the bias is constant, and the result is not the accumulator.

    onnxruntime adds products and a 32-bit bias in 32 bits; larger sums wrap around.
    """
    try:
        fits = fits_32_bits(op)
    except NoIntegerForm:
        raise NoOperator from None
    if not fits or is_accumulator(op.y, op):
        raise NoOperator


def _bias(op: WeightedOp, values: StoredValues) -> Tensor | None:
    """Returns the bias as int32 in steps of s_x · s_w; None if there is no bias. The sums must fit 32 bits."""
    stored = stored_bias(op)
    if stored is None or op.b is None:
        return None
    return values.graph.constant(stored.astype(np.int32), tensor_name(op.b))
