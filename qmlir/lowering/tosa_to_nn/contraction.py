"""Convolutions and matrix products: nn's on floats; on integers quantized layers (layers.py), else sums in qint."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.requantize import int32
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.types import is_integer
from qmlir.ir.upstream.tosa import contraction as tosa
from qmlir.ir.upstream.tosa.base import numbers, sizes
from qmlir.lowering.tosa_to_nn.code import NNCode, Property, Rule, declared
from qmlir.lowering.tosa_to_nn.movement import filler, reversed_along

# ---------------------------------------------------------------------------------------------------------------
# A convolution with the operands and the layout of nn.


@dataclass(frozen=True)
class Layer:
    """A convolution or a fully connected layer in nn's layout.

    kind        the class in nn
    integers    the class in qint
    x           the data, which may be of a quantized type
    zero_point  the zero point of the data; 0 for floats
    w           the weights, an array if they are constant
    w_point     the zero point of the weights; 0 for floats
    b           the bias, an array if it is constant; None if it is 0
    properties  how the window moves
    shape       the shape of the result in tosa; for a fully connected layer, [N, 1, 1, O]
    """

    kind: type[nn.Conv2DOp] | type[nn.DepthwiseConv2DOp] | type[nn.FullyConnectedOp]
    integers: type[qint.Conv2DOp] | type[qint.DepthwiseConv2DOp] | type[qint.FullyConnectedOp]
    x: SSAValue
    zero_point: int
    w: SSAValue | Array
    w_point: int
    b: SSAValue | Array | None
    properties: Mapping[str, Property]


def layer_of(code: NNCode, op: tosa.ConvolutionOp, *, dense: bool = True) -> Layer:
    """Returns a convolution of tosa in nn's layout.

    Args:
        code: Receives the operations that move data.
        op: The convolution.
        dense: Whether a convolution of images of one pixel becomes a fully connected layer.
    """
    x, w = code.raw(op.input), code.array(op.weight)
    weights = code.plain(op.weight) if w is None else w
    whole = is_integer(declared(op.input))
    points = [code.number(v, n) if whole else 0 for v, n in ((op.input_zp, "input_zp"), (op.weight_zp, "weight_zp"))]
    b = _bias(code, op)
    if isinstance(op, tosa.TransposeConv2DOp):
        return _transposed(code, op, x, weights, points, b)
    assert isinstance(op, tosa.DirectOp)
    properties = {"strides": numbers(op.stride), "padding": numbers(op.pad), "dilations": numbers(op.dilation)}
    if isinstance(op, tosa.DepthwiseConv2DOp):
        rows, columns, channels, each = weights.shape if isinstance(weights, np.ndarray) else shape_of(weights)
        flat = _reshaped(code, weights, (1, rows, columns, channels * each))
        return Layer(nn.DepthwiseConv2DOp, qint.DepthwiseConv2DOp, x, points[0], flat, points[1], b, properties)
    batch, height, width, inputs = shape_of(x)
    outputs, *kernel, _ = weights.shape if isinstance(weights, np.ndarray) else shape_of(weights)
    if dense and (height, width, *kernel) == (1, 1, 1, 1) and not any(numbers(op.pad)):
        rows = code.reshape(x, (batch, inputs))
        matrix = _reshaped(code, weights, (outputs, inputs))
        return Layer(nn.FullyConnectedOp, qint.FullyConnectedOp, rows, points[0], matrix, points[1], b, {})
    return Layer(nn.Conv2DOp, qint.Conv2DOp, x, points[0], weights, points[1], b, properties)


def _reshaped(code: NNCode, w: SSAValue | Array, shape: tuple[int, ...]) -> SSAValue | Array:
    return w.reshape(shape) if isinstance(w, np.ndarray) else code.reshape(w, shape)


def _bias(code: NNCode, op: tosa.ConvolutionOp) -> SSAValue | Array | None:
    """The bias with one element for each output channel; None for zeros."""
    outputs = declared_channels(op)
    array = code.array(op.bias)
    if array is None:
        b = code.plain(op.bias)
        return b if shape_of(b) == (outputs,) else code.insert(nn.BroadcastOp, [b], {"shape": [outputs]})
    return np.broadcast_to(array.reshape(-1), (outputs,)) if array.any() else None


def declared_channels(op: tosa.ConvolutionOp) -> int:
    """The number of output channels, from the shape of the weights."""
    return op.channels(sizes(op.weight) or ())[1]


def _transposed(
    code: NNCode, op: tosa.TransposeConv2DOp, x: SSAValue, w: SSAValue | Array, points: list[int],
    b: SSAValue | Array | None,
) -> Layer:  # fmt: skip
    """A convolution of the image with zeros between its elements, by the weights turned by 180 degrees."""
    stride, out_pad = numbers(op.stride), numbers(op.out_pad)
    if max(stride) > 1:
        fill = filler(element_of(x), points[0])
        x = code.insert(nn.DilateOp, [x], {"dilations": (1, *stride, 1), "value": fill})
    turned = np.flip(w, (1, 2)) if isinstance(w, np.ndarray) else reversed_along(code, w, (1, 2))
    _, *kernel, _ = w.shape if isinstance(w, np.ndarray) else shape_of(w)
    padding = [kernel[i // 2] - 1 + pad for i, pad in enumerate(out_pad)]
    return Layer(nn.Conv2DOp, qint.Conv2DOp, x, points[0], turned, points[1], b, {"padding": padding})


# ---------------------------------------------------------------------------------------------------------------
# Sums: in floats by nn, in integers by qint.


def _convolution(code: NNCode, op: tosa.ConvolutionOp) -> SSAValue:
    layer = layer_of(code, op)
    if is_integer(element_of(code.stored(layer.x))):
        y = _integer_sums(code, op, layer)
    else:
        operands = ((layer.w, op.weight), (layer.b, op.bias))
        w, b = (code.constant(v, source) if isinstance(v, np.ndarray) else v for v, source in operands)
        assert w is not None
        y = code.insert(layer.kind, [layer.x, w, [] if b is None else [b]], layer.properties)
    if layer.kind is nn.FullyConnectedOp:
        batch, outputs = shape_of(y)
        y = code.reshape(y, (batch, 1, 1, outputs))
    return code.cast(y, declared(op.output))


def _integer_sums(code: NNCode, op: tosa.ConvolutionOp, layer: Layer) -> SSAValue:
    """The sums as accumulators of qint: i32, or i64 in place of i48."""
    x, accumulator = code.stored(layer.x), declared(op.output)
    if element_of(x) not in (i8, i16) or accumulator not in (i32, i64):
        got = f"{element_of(x)} and {accumulator}"
        code.refuse("sums products of i8 and i16 in i32 or i48", got=got, remedy="quantize it to 8 or 16 bits")
    w = layer.w
    if not isinstance(w, np.ndarray):
        return _wide_sums(code, layer, x, w, accumulator)
    less_zero_point = w.astype(np.int32) - layer.w_point
    narrow = np.int8 if np.abs(less_zero_point).max(initial=0) < 128 else np.int16
    weights = code.constant(less_zero_point.astype(narrow), op.weight)
    dtype = np.int64 if accumulator == i64 else np.int32
    bias = [code.constant(layer.b.astype(dtype), op.bias)] if isinstance(layer.b, np.ndarray) else []
    properties = {**layer.properties, "zero_point": int32(layer.zero_point)}
    sums = code.insert(layer.integers, [x, weights, bias], properties, element=accumulator)
    if layer.b is None or isinstance(layer.b, np.ndarray):
        return sums
    return code.insert(nn.AddOp, [sums, code.cast(layer.b, accumulator)])  # qint's kernels take a constant bias only


def _wide_sums(code: NNCode, layer: Layer, x: SSAValue, w: SSAValue, accumulator: Attribute) -> SSAValue:
    """The sums with computed weights, which qint's kernels do not take, by nn on integers as wide as the sums."""
    data, weights = (
        code.plus(code.cast(v, accumulator), -point) for v, point in ((x, layer.zero_point), (w, layer.w_point))
    )
    b = code.constant(layer.b) if isinstance(layer.b, np.ndarray) else layer.b
    bias = [] if b is None else [code.cast(b, accumulator)]
    return code.insert(layer.kind, [data, weights, bias], layer.properties)


def _matmul(code: NNCode, op: tosa.MatMulOp) -> SSAValue:
    a, b, result = code.plain(op.a), code.plain(op.b), declared(op.output)
    if not is_integer(element_of(a)):
        return code.cast(code.insert(nn.MatMulOp, [a, b]), result)
    if element_of(a) not in (i8, i16) or result not in (i32, i64):
        code.refuse(
            "sums products of i8 and i16 in i32 or i48", got=str(op.a.type), remedy="quantize it to 8 or 16 bits"
        )
    points = {
        "lhs_zero_point": int32(code.number(op.a_zp, "a_zp")),
        "rhs_zero_point": int32(code.number(op.b_zp, "b_zp")),
    }
    return code.insert(qint.MatMulOp, [a, b], points, element=result)


def _conv3d(code: NNCode, op: tosa.Conv3DOp) -> SSAValue:
    code.refuse("has no form in nn, whose windows have two dimensions", remedy="write it as convolutions of slices")


RULES: Mapping[type[Operation], Rule] = {
    tosa.Conv2DOp: _convolution,
    tosa.DepthwiseConv2DOp: _convolution,
    tosa.TransposeConv2DOp: _convolution,
    tosa.MatMulOp: _matmul,
    tosa.Conv3DOp: _conv3d,
}
