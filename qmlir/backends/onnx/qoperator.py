"""Forms that write operations on quantized types as integer operators, such as QLinearConv and com.microsoft's QGemm.

onnxruntime computes these operators in integers even with its optimizations off: sums are exact and each result is
rounded once. A network that is rounded as onnxruntime rounds (policies/runtimes.py) therefore gives the same integers
in the compiler and in onnxruntime. An operation without such an operator is written on floats between casts.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms, constant
from qmlir.backends.onnx.contraction import IMAGES, convolution
from qmlir.backends.onnx.elementwise import operands_in_order
from qmlir.backends.onnx.graph import MICROSOFT, Tensor
from qmlir.backends.onnx.reduction import pool_attributes
from qmlir.backends.onnx.values import Permutation, StoredValues, Values, identity
from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import PointwiseOp
from qmlir.dialects.nn.quantizable import data_values, is_weight, uniform
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.onnx import ON_INTEGERS, WRITTEN
from qmlir.ir.facts import INTEGER_OPERATOR, ON_FLOATS
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.policies.runtime_kernels import followed_runtime
from qmlir.policies.runtimes import rounding_of

# ---------------------------------------------------------------------------------------------------------------
# The table of forms on integers: operation class → the function that writes such an operation as an integer operator.
#
#     @computes(nn.AddOp)
#     def add(op: nn.AddOp, values: StoredValues) -> None: ...
#
# A form works on stored integers. It either adds its node, or raises `IntegerFormError` before it adds anything.


computes: Forms[StoredValues] = Forms()
"""The table; used as a decorator, it enters a form."""


class IntegerFormError(UnsupportedError):
    """Raised if no integer operator exists for an operation's types or attributes; it is then written on floats."""

    def __init__(self) -> None:
        super().__init__("has no operator on integers")


def on_integers(exports: Forms[Values]) -> Forms[Values]:
    """Returns the forms on real values with each form on integers tried first."""
    forms = computes.entries | {op: _moved(exports.entries[op]) for op in MOVED}
    return exports.replaced({op: _attempted(form, exports.entries[op]) for op, form in forms.items()})


def _attempted(
    form: Callable[[Any, StoredValues], None], otherwise: Callable[[Any, Values], None]
) -> Callable[[Operation, Values], None]:
    def write(op: Operation, values: Values) -> None:
        try:
            _require_bytes(op)
            form(op, StoredValues(values))
        except IntegerFormError:
            otherwise(op, values)

    return write


def _require_bytes(op: Operation) -> None:
    """Raises IntegerFormError unless data and weights are bytes for f32, and data are per tensor and of one signedness.

    Empty tensors have no integer operators: onnxruntime 1.32 crashes on QLinearAdd and QLinearMul of an empty tensor by
    a scalar, and gives 0 or uninitialized memory, not the zero point, for sums without terms. The test of empty tensors
    in tests/backends/onnx/test_qoperator.py passes without this condition once onnxruntime computes them.
    """
    values = data_values(op)
    if ON_FLOATS.on(op) or any(0 in shape_of(value) for value in values):
        raise IntegerFormError
    signs = {_signed_byte(v) for v in values if not is_weight(v, op)}
    if len(signs) != 1 or None in signs or any(_signed_byte(v) is None for v in values):
        raise IntegerFormError
    if any(uniform(v).is_per_axis and not is_weight(v, op) for v in values):
        raise IntegerFormError


def _signed_byte(value: SSAValue) -> bool | None:
    """Returns whether a value's bytes are signed; None unless the value is stored as int8 or uint8 for f32."""
    element = element_of(value)
    if not isinstance(element, UniformType) or element.storage_width > 8 or element.expressed != f32:
        return None
    low, high = (-128, 127) if element.is_signed else (0, 255)
    return element.is_signed if all(low <= z <= high for z in element.zero_points) else None


def scale_and_point(value: SSAValue, values: StoredValues) -> Sequence[Tensor]:
    """Returns the scale and the zero point of a value's integers; lists if the value is quantized per axis."""
    element = uniform(value)
    return values.parameters(element, element.numpy_dtype)


# ---------------------------------------------------------------------------------------------------------------
# Forms of contractions: QLinearConv, QGemm and QLinearMatMul, with types whose sums are exact on every processor.
#
# On processors without VNNI, onnxruntime adds products of u8 by s8 in pairs that saturate; products of u8 by u8 and of
# s8 by s8 do not saturate. Therefore the weights get the signedness of the data: integers and zero points are shifted
# by 128, which leaves the real values unchanged.


@computes(nn.Conv2DOp, nn.DepthwiseConv2DOp)
def convolve(op: nn.Conv2DOp | nn.DepthwiseConv2DOp, values: StoredValues) -> None:
    """Writes QLinearConv."""
    _require_sums(op)
    bias = _bias(op, values)
    filters, attributes = convolution(op)
    weights = _factor(op, op.w, values, filters)
    data, result = scale_and_point(op.x, values), scale_and_point(op.y, values)
    x = values.real(op.x, IMAGES)
    y = values.graph.node("QLinearConv", x, *data, *weights, *result, bias, **attributes)
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
        IntegerFormError: The factor has several zero points, or is computed and differs from the data in signedness.
    """
    element, unsigned = uniform(w), not uniform(op.operands[0]).is_signed
    if len(set(element.zero_points)) != 1:
        raise IntegerFormError
    saturates = INTEGER_OPERATOR.on(op) and rounding_of(op.name, followed_runtime(op), "").pairs
    if element.is_signed != unsigned or saturates:
        return values.real(w, permutation), *scale_and_point(w, values)
    array, moved = constant(w), 128 if unsigned else -128
    if array is None:
        raise IntegerFormError
    dtype = np.dtype(np.uint8 if unsigned else np.int8)
    stored = (array.astype(np.int16) + moved).astype(dtype).transpose(permutation)
    scale, _ = scale_and_point(w, values)
    point = np.full(1 if element.axis is None else len(element.scales), element.zero_points[0] + moved, dtype)
    zero_point = values.graph.constant(point.reshape(() if element.axis is None else (-1,)))
    return values.graph.constant(stored, tensor_name(w)), scale, zero_point


def _require_sums(op: WeightedOp | nn.MatMulOp) -> None:
    """Raises IntegerFormError unless the sums fit 32 bits, the bias is constant, and the result is not the accumulator.

    onnxruntime adds products and a 32-bit bias in 32 bits; larger sums wrap around.
    """
    try:
        fits = op.fits_32_bits()
    except UnsupportedError:
        raise IntegerFormError from None
    if not fits or op.is_accumulator(op.y):
        raise IntegerFormError


def _bias(op: WeightedOp, values: StoredValues) -> Tensor | None:
    """Returns the bias as int32 in steps of s_x · s_w; None if there is no bias. The sums must fit 32 bits."""
    stored = op.stored_bias()
    if stored is None or op.b is None:
        return None
    return values.graph.constant(stored.astype(np.int32), tensor_name(op.b))


# ---------------------------------------------------------------------------------------------------------------
# Forms of elementwise operations that onnxruntime has on integers: QLinearAdd, QLinearMul, QLinearSigmoid and others.


@computes(*ON_INTEGERS)
def named(op: PointwiseOp, values: StoredValues) -> None:
    """Writes the operation as one node, in which a scale and a zero point follow each tensor."""
    operator = WRITTEN[type(op)]
    order, data = operands_in_order(values, op.operands, shape_of(op.results[0]))
    operands = [(x, *scale_and_point(v, values)) for x, v in zip(data, op.operands, strict=True)]
    attributes = {name: getattr(op, own).value.data for name, (own, _) in operator.attributes.items()}
    inputs = *chain.from_iterable(operands), *scale_and_point(op.results[0], values)
    y = values.graph.node(f"QLinear{operator.kind}", *inputs, domain=MICROSOFT, **attributes)
    values.define(op.results[0], y, order)


# ---------------------------------------------------------------------------------------------------------------
# Forms of average pools: QLinearAveragePool and QLinearGlobalAveragePool (max pools are in movement.py).


@computes(nn.AveragePool2DOp)
def average_pool2d(op: nn.AveragePool2DOp, values: StoredValues) -> None:
    """Writes QLinearAveragePool; raises IntegerFormError if the window is dilated."""
    if op.dilation_values() != (1, 1):
        raise IntegerFormError
    _mean(
        "QLinearAveragePool",
        op,
        values,
        count_include_pad=1 if bool(op.count_include_pad) else None,
        **pool_attributes(op),
    )


@computes(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp, values: StoredValues) -> None:
    """Writes QLinearGlobalAveragePool."""
    _mean("QLinearGlobalAveragePool", op, values)


def _mean(kind: str, op: nn.AveragePool2DOp | nn.GlobalAveragePoolOp, values: StoredValues, **attributes: Any) -> None:
    parameters = (*scale_and_point(op.x, values), *scale_and_point(op.y, values))
    y = values.graph.node(kind, values.real(op.x, IMAGES), *parameters, domain=MICROSOFT, channels_last=0, **attributes)
    values.define(op.y, y, IMAGES)


# ---------------------------------------------------------------------------------------------------------------
# The form of softmax: QLinearSoftmax.


@computes(nn.SoftmaxOp)
def softmax(op: nn.SoftmaxOp, values: StoredValues) -> None:
    """Writes QLinearSoftmax with the semantics of operator set 13, a softmax along one axis."""
    order = values.order(op.x)
    parameters = (*scale_and_point(op.x, values), *scale_and_point(op.y, values))
    axis = order.index(op.axis.value.data)
    x = values.real(op.x, order)
    values.define(
        op.y, values.graph.node("QLinearSoftmax", x, *parameters, domain=MICROSOFT, axis=axis, opset=13), order
    )


# ---------------------------------------------------------------------------------------------------------------
# The form of clamps that keep the scale.


@computes(nn.ReluOp, nn.ClampOp)
def clamp(op: nn.ReluOp | nn.ClampOp, values: StoredValues) -> None:
    """Writes Clip on the stored integers; raises IntegerFormError if the quantized type changes."""
    if element_of(op.x) != element_of(op.y):
        raise IntegerFormError
    graph, order = values.graph, values.order(op.x)
    x = values.real(op.x, order)
    if isinstance(op, nn.ReluOp):
        x = graph.node("Clip", x, graph.constant(values.number(op.y, 0.0).astype(x.dtype)))
    values.define(op.y, x, order)


# ---------------------------------------------------------------------------------------------------------------
# Forms of operations that move or compare elements: if all data have one type, they work on the stored integers.


MOVED = (
    nn.MaxPool2DOp, nn.ReduceMaxOp, nn.ReduceMinOp, nn.ReshapeOp, nn.ConcatOp, nn.PadOp, nn.BroadcastOp, nn.SliceOp,
    nn.GatherOp, nn.GatherNDOp, nn.ScatterNDOp,
)  # fmt: skip


def _moved(form: Callable[[Any, Values], None]) -> Callable[[Operation, StoredValues], None]:
    """Returns the writer of a data movement for stored integers; IntegerFormError if the quantized types differ.

    Args:
        form: The writer for real values; it moves stored integers of one quantized type just as well.
    """

    def move(op: Operation, values: StoredValues) -> None:
        if len({uniform(value) for value in data_values(op)}) != 1:
            raise IntegerFormError
        form(op, values)

    return move
