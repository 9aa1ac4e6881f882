"""Forms of convolutions and matrix products, and the padding of sliding windows."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import i32, i64

from qmlir.backends.forms import Forms, constant, fused_bounds
from qmlir.backends.tflite.graph import Form, Graph, Options, Parameters, Tensor
from qmlir.backends.tflite.kernels import KERNELS, MOST_FACTOR, PROBABILITY
from qmlir.backends.tflite.values import INT8, INT16, UINT8, Values
from qmlir.dialects import nn
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import WindowOp
from qmlir.errors import QmlirWarning, UnsupportedError
from qmlir.formats.tflite import SAME, VALID, same_padding
from qmlir.ir.facts import ON_FLOATS, RESIDUAL
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.rewriting import node_name, tensor_name

exports: Forms[Values] = Forms()

# ---------------------------------------------------------------------------------------------------------------
# Padding of sliding windows: SAME or VALID if it matches, else a separate PAD operator.


def padding_name(op: WindowOp, image: Shape, window: tuple[int, int]) -> int | None:
    """Returns the code of SAME or VALID if it gives the window's padding on [N, H, W, C], else None."""
    top, bottom, left, right = op.padding_values()
    if not (top or bottom or left or right):
        return VALID
    axes = zip(image[1:3], window, op.stride_values(), op.dilation_values(), strict=True)
    return SAME if [same_padding(*axis) for axis in axes] == [(top, bottom), (left, right)] else None


def padded(graph: Graph, x: Tensor, op: WindowOp, fill: float | None = None) -> Tensor:
    """Pads an image as a window requires, with real zeros or with `fill`, a stored element."""
    top, bottom, left, right = op.padding_values()
    return pad(graph, x, [(0, 0), (top, bottom), (left, right), (0, 0)], fill)


def pad(graph: Graph, x: Tensor, amounts: list[tuple[int, int]], fill: float | None = None) -> Tensor:
    """Pads a tensor.

    Args:
        graph: The graph to which the operator is added.
        x: The tensor; for a quantized tensor PAD fills with the zero point.
        amounts: The elements before and after, for each dimension.
        fill: The padding element, a stored integer if the tensor is quantized; None for real zeros.
    """
    shape = tuple(low + size + high for size, (low, high) in zip(x.shape, amounts, strict=True))
    groups = _groups(amounts) if len(amounts) > KERNELS["PAD"].most else [[i] for i in range(len(amounts))]
    narrow = graph.reshaped(x, tuple(prod(x.shape[i] for i in group) for group in groups))
    form = x.form.shaped(tuple(prod(shape[i] for i in group) for group in groups))
    inputs = [narrow, graph.indices([amounts[group[0]] for group in groups])]
    if fill is None:
        return graph.reshaped(graph.operator("PAD", inputs, form), shape)
    filling = graph.constant(np.array(fill, x.dtype), x.form.parameters)
    return graph.reshaped(graph.operator("PADV2", [*inputs, filling], form), shape)


def _groups(amounts: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Groups the dimensions; neighbouring dimensions without padding share a group."""
    groups: list[list[int]] = []
    for i, amount in enumerate(amounts):
        if groups and amount == (0, 0) == amounts[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def strides(op: WindowOp) -> Options:
    """Returns the options for a window's strides."""
    down, right = op.stride_values()
    return {"StrideH": down, "StrideW": right}


def dilations(op: WindowOp) -> Options:
    """Returns the options for a window's dilations."""
    down, right = op.dilation_values()
    return {"DilationHFactor": down, "DilationWFactor": right}


# ---------------------------------------------------------------------------------------------------------------
# Forms of contractions: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED and BATCH_MATMUL.


GROUPED = 6
"""The first version of CONV_2D with groups."""

DILATED = 2
"""The first version of DEPTHWISE_CONV_2D with dilations."""

NARROW_BIAS = {"CONV_2D": 8, "FULLY_CONNECTED": 11}
"""Operators that take a 32-bit bias beside 16-bit data → the first version with the option for it."""

INT32 = 2
"""The schema's TensorType INT32."""

WEIGHTS = {INT8: INT8, INT16: INT8, UINT8: UINT8}
"""Type of the data → type in which the weights must be stored."""


LEAST_WEIGHT = (
    "{}: has weights of -128, which LiteRT computes with and TFLite's specification leaves out: kernels that add two "
    "products in 16 bits fail on them; quantize the weights in the narrow range"
)
"""Warning about int8 weights of −128. It is no error, because such models exist."""


@exports(nn.Conv2DOp)
def conv2d(op: nn.Conv2DOp, values: Values) -> None:
    """Writes CONV_2D; nn and TFLite both have weights [O, KH, KW, C/G], and C/G < C implies groups."""
    _convolve(op, values, "CONV_2D", {}, GROUPED if op.group_count() > 1 else 1)


@exports(nn.DepthwiseConv2DOp)
def depthwise_conv2d(op: nn.DepthwiseConv2DOp, values: Values) -> None:
    """Writes DEPTHWISE_CONV_2D; nn and TFLite both have weights [1, KH, KW, C·m]."""
    version = DILATED if op.dilation_values() != (1, 1) else 1
    _convolve(op, values, "DEPTHWISE_CONV_2D", {"DepthMultiplier": op.multiplier()}, version)


def _convolve(
    op: nn.Conv2DOp | nn.DepthwiseConv2DOp, values: Values, kind: str, options: Options, version: int
) -> None:
    inputs, (_, rows, columns, _) = weighted(op, values), shape_of(op.w)
    named = padding_name(op, shape_of(op.x), (rows, columns))
    if named is None:
        inputs[0] = padded(values.graph, inputs[0], op)
    window = {**strides(op), **dilations(op), "Padding": VALID if named is None else named}
    _biased(op, values, kind, inputs, {**options, **window}, version)


@exports(nn.FullyConnectedOp)
def fully_connected(op: nn.FullyConnectedOp, values: Values) -> None:
    """Writes FULLY_CONNECTED; nn and TFLite both have weights [O, I]."""
    _biased(op, values, "FULLY_CONNECTED", weighted(op, values), {}, 1)


@exports(nn.BlockedFullyConnectedOp)
def blocked_fully_connected(op: nn.BlockedFullyConnectedOp, values: Values) -> None:
    """Writes FULLY_CONNECTED of floats.

    Raises:
        UnsupportedError: The layer is quantized, or its weights are computed.
    """
    if len(arrays := [a for v in (op.w, op.s, op.z) if (a := constant(v)) is not None]) < 3:
        raise UnsupportedError("needs constant weights", "computed ones")
    if is_quantized(op.x):
        raise UnsupportedError("needs weights with a scale for each channel", f"one for each block of {op.size}",
                     "keep it float")  # fmt: skip
    weights = values.graph.constant(op.floats(arrays[0], arrays[1], arrays[2]), None, tensor_name(op.w))
    bias = values.graph.constant(np.zeros(shape_of(op.w)[0], np.float32)) if op.b is None else values.stored(op.b)
    values.finish(op, "FULLY_CONNECTED", [values.stored(op.x), weights, bias], {}, 1)


def _biased(op: WeightedOp, values: Values, kind: str, inputs: list[Tensor], options: Options, version: int) -> None:
    """Writes the operator with its bias."""
    b = bias(op, values, narrow=kind in NARROW_BIAS)
    if inputs[0].dtype == INT16 and b.dtype == np.int32:
        options, version = {**options, "QuantizedBiasType": INT32}, NARROW_BIAS[kind]
    form = values.form(op.y)
    if inputs[0].dtype == INT16 and form.dtype == INT8:
        y = values.graph.operator(kind, [*inputs, b], _wide(form), options, version)
        values.define(op.y, y, fused_bounds(op))
        return
    values.finish(op, kind, [*inputs, b], options, version)


@exports(nn.MatMulOp)
def matmul(op: nn.MatMulOp, values: Values) -> None:
    """Writes BATCH_MATMUL; if some of the tensors have 8 bits and some 16, all of them in 16 bits."""
    forms = [values.form(v) for v in (op.lhs, op.rhs, op.y)]
    mixed = {INT16} < {f.dtype for f in forms} and not any(f.parameters is None or f.parameters.axis for f in forms)
    if mixed and not ON_FLOATS.on(op):
        sides = [_of_16_bits(values.graph, values.stored(v)) for v in (op.lhs, op.rhs)]
        values.define(op.y, values.graph.operator("BATCH_MATMUL", sides, _wide(forms[2])), fused_bounds(op))
        return
    values.compute(op, "BATCH_MATMUL", [op.lhs, op.rhs])


@exports(nn.AttendOp)
def attend(op: nn.AttendOp, values: Values) -> None:
    """Writes SOFTMAX and BATCH_MATMUL in 16 bits: probabilities in steps of 1/256 would be too coarse for long rows."""
    graph, x, v, form = values.graph, values.stored(op.x), values.stored(op.v), values.form(op.y)
    forms = [x.form, v.form, form]
    if any(f.parameters is None or f.parameters.axis is not None for f in forms):
        shares = graph.operator("SOFTMAX", [values.real(op.x)], values.real(op.x).form, {"Beta": 1.0})
        plain = form.typed(shares.dtype)
        values.define(op.y, graph.operator("BATCH_MATMUL", [shares, values.real(op.v)], plain))
        return
    x, v, form = _of_16_bits(graph, x), _of_16_bits(graph, v), _wide(form)
    scale, point = PROBABILITY[x.dtype.name]
    shares = graph.operator("SOFTMAX", [x], replace(x.form, parameters=Parameters((scale,), (point,))), {"Beta": 1.0})
    values.define(op.y, graph.operator("BATCH_MATMUL", [shares, v], form))


def _of_16_bits(graph: Graph, x: Tensor) -> Tensor:
    """Returns the same numbers in 16 bits."""
    return x if x.dtype == INT16 else graph.operator("QUANTIZE", [x], _wide(x.form))


def _wide(form: Form) -> Form:
    """The form in 16 bits that holds all numbers of a form of bytes."""
    if form.dtype == INT16 or form.parameters is None:
        return form
    return Form(form.shape, INT16, Parameters((form.parameters.scale / 128,), (0,)))


def weighted(op: WeightedOp, values: Values) -> list[Tensor]:
    """Returns the tensors of data and weights.

    Raises:
        UnsupportedError: LiteRT has no kernel for these types of data, weights and result.
    """
    x, w = values.stored(op.x), values.stored(op.w)
    if x.form.parameters is None or w.form.parameters is None:
        return [x, w]
    y = values.form(op.y)
    if y.parameters is not None and y.dtype != x.dtype and (x.dtype, y.dtype) != (INT16, INT8):
        remedy = f"quantize its result in {8 * x.dtype.itemsize} bits"
        if RESIDUAL.on(op):
            remedy = "quantize with --residuals same --attention stored, which leave its result in 8 bits"
        raise UnsupportedError(f"needs a result of {x.dtype.name} beside data of {x.dtype.name}", y.dtype.name, remedy)
    if w.dtype != WEIGHTS[x.dtype]:
        raise UnsupportedError(f"needs weights of {WEIGHTS[x.dtype].name} beside data of {x.dtype.name}", w.dtype.name,
                     "quantize the weights in 8 bits")  # fmt: skip
    if w.dtype == INT8 and any(w.form.parameters.zero_points):
        raise UnsupportedError("needs weights of int8 with the zero point 0", str(element_of(op.w))[:160],
                     "quantize the weights symmetrically")  # fmt: skip
    if w.dtype == UINT8 and w.form.parameters.axis is not None:
        raise UnsupportedError("needs weights of uint8 with one scale", str(element_of(op.w))[:160],
                     "quantize the weights per tensor")  # fmt: skip
    if y.parameters is not None and x.dtype != INT16:
        factor = x.form.parameters.scale * max(w.form.parameters.scales) / y.parameters.scale
        if factor >= MOST_FACTOR:
            raise UnsupportedError(f"needs s_x · s_w / s_y below {MOST_FACTOR} beside bytes", f"{factor:.3g}",
                         "give its result a wider range")  # fmt: skip
    if w.dtype == INT8 and w.data is not None and w.data.min(initial=0) == np.iinfo(INT8).min:
        warnings.warn(LEAST_WEIGHT.format(node_name(op)), QmlirWarning, stacklevel=2)
    return [x, w]


def bias(op: WeightedOp, values: Values, *, narrow: bool) -> Tensor:
    """Returns the bias tensor; zeros if the operation has no bias, since CONV_2D needs a bias.

    Beside quantized data the bias is integers in steps of s_x · s_w.

    Args:
        op: The operation.
        values: The values of the function.
        narrow: Whether a 32-bit bias beside 16-bit data keeps 32 bits; LiteRT rounds by the width of the bias.

    Raises:
        UnsupportedError: The bias is computed or not in integers, or it does not fit its width.
    """
    x, w, shape = values.form(op.x), values.form(op.w), (op.output_channels(),)
    if x.parameters is None or w.parameters is None:
        return values.real(op.b) if op.b is not None else values.graph.constant(np.zeros(shape, x.dtype))
    array = np.zeros(shape, np.int64 if x.dtype == INT16 else np.int32) if op.b is None else _integers(op)
    if x.dtype != INT16 and array.dtype == np.int64:
        if not np.array_equal(array, array.astype(np.int32)):
            raise UnsupportedError("needs a bias of 32 bits", "one of 64", "quantize it with bias=int32")
        array = array.astype(np.int32)
    elif x.dtype == INT16 and not narrow:
        array = array.astype(np.int64)
    steps = np.float32(x.parameters.scale) * np.array(w.parameters.scales, np.float32)
    axis = None if w.parameters.axis is None else 0
    parameters = Parameters(tuple(steps.astype(np.float64).tolist()), (0,) * len(steps), axis)
    return values.graph.constant(array, parameters, "" if op.b is None else tensor_name(op.b))


def _integers(op: WeightedOp) -> Array:
    """Returns the bias as integers in steps of s_x · s_w; a bias of 8 or 16 bits is rescaled from its own steps."""
    element = element_of(op.b) if op.b is not None else None
    stored = element.storage if isinstance(element, UniformType) else element
    if stored in (i32, i64) and op.b is not None and (array := constant(op.b)) is not None:
        return array
    try:
        added = op.stored_bias() if isinstance(element, UniformType) else None
    except UnsupportedError as why:
        raise UnsupportedError(
            "needs a constant bias that fits its sums", why.need, "quantize it with bias=int32"
        ) from None
    if added is None:
        raise UnsupportedError("needs a constant bias in integers", str(element)[:160], "run quantize-bias")
    return added
