"""Contractions: convolutions, fully connected layers and matrix products."""

import abc
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import TensorType, f32, i8, i16, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Clamped, Elements, is_float, is_quantized
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.nn.quantizable import NARROW, Float64s, Int64s, Scales, Sums, is_plain_sum, uniform, widest
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.rules import AccumulatorScale, FreeScale
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import GroupedWindowOp, WindowOp, check_depthwise
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import (
    Array,
    BinaryTensorOp,
    Shape,
    element_of,
    fully_connected_shape,
    matmul_shape,
    shape_of,
)
from qmlir.ir.samples import Axes, kept_axis, matmul_axis
from qmlir.ir.weights import Weights
from qmlir.numerics.blocks import blocks_of_rows
from qmlir.numerics.contracts import WIDE_LIMIT
from qmlir.numerics.products import add_products

SAME_SCALE = 2.0**-20
"""Two scales whose relative difference is below this are meant to be equal: float32 has 24 bits."""

SCALES_OF_TERMS = "its weights have scales that differ between the terms of a sum, which integer sums cannot share"
"""Why weights with scales along another axis than that of output channels have no integer form."""

BLOCK = 1 << 22
"""The most elements of windows that `evaluate` copies at a time; an element of x occurs in several windows."""

_held_sums: WeakKeyDictionary[Weights, dict[tuple[int, tuple[int, ...]], Int64s]] = WeakKeyDictionary()
"""Σ |w| for each output channel of constant weights, by channel axis and zero points: passes ask for it seven times."""


class ContractionOp(Clamped, abc.ABC):
    """Sums of products, whose integer form may accumulate in the widest sums of the target."""

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    y = result_def(TensorType)

    def is_accumulator(self, value: SSAValue) -> bool:
        return not isinstance(value.owner, ConstantOp) and not self.is_weight(value) and is_plain_sum(value)


class WeightedOp(ContractionOp, abc.ABC):
    """A contraction of data with weights and an optional bias.

    The bias has shape [O]. On plain data it has the data's type. On quantized data it is quantized i32 with scale
    s_x·s_w[o] and zero point 0, or quantized i8 or i16 with its own scale (rule AccumulatorScale), or a plain i32 or
    i64 tensor whose scale s_x·s_w[o] is implied. Between the passes `quantize-ops` and `quantize-bias`, a quantized
    operation has an f32 bias.

    (C1) the bias has one element for each output channel
    (C3) weights quantized per axis have one scale for each output channel
    (C4) the bias has the data's type; for quantized data it is f32, quantized i8, i16 or i32, or plain i32 or i64

    The integer form requires that computed weights have one zero point, and that the bias is constant and fits 48 bits
    in steps of the sums.

    The sums count in steps of s_x · s_w, which differ by output channel. A bias q with the scale s_b and the zero point
    z_b adds, rounded half to even,

        rint((q − z_b) · s_b / (s_x · s_w))

    A float bias has s_b = 1 and z_b = 0. A plain integer bias counts in the steps of the sums. A quantized 32-bit bias
    does so too, so that its quotient is a whole number before rounding; an 8-bit or 16-bit bias has a scale of its own.
    All values are known when the network is lowered: at run time, integers are added.
    """

    CHANNEL_AXIS: ClassVar[int] = 0
    """The weight axis that indexes output channels."""

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    b = opt_operand_def(TensorType)

    traits = traits_def(FreeScale(), AccumulatorScale(data=0, weights=1, bias=2))
    assembly_format = "$x `,` $w (`,` $b^)? attr-dict `:` type($x) `,` type($w) (`,` type($b)^)? `->` type($y)"

    def data_operands(self) -> Sequence[SSAValue]:
        return (self.x, self.w)

    def is_weight(self, value: SSAValue) -> bool:
        return value is self.w

    def output_channels(self) -> int:
        """The number of output channels, read from the shape of the weights."""
        return shape_of(self.w)[self.CHANNEL_AXIS]

    def check_bias(self) -> None:
        """Raises VerifyException if the bias does not fit the weights."""
        if self.b is not None and shape_of(self.b) != (self.output_channels(),):  # C1
            raise VerifyException(
                f"'{self.name}' needs a bias of shape [{self.output_channels()}], got {list(shape_of(self.b))}"
            )

    def verify_(self) -> None:
        super().verify_()
        weights = element_of(self.w)
        if isinstance(weights, UniformType) and weights.axis not in (None, self.CHANNEL_AXIS):  # C3
            raise VerifyException(
                f"'{self.name}' weights must be quantized along axis {self.CHANNEL_AXIS}, got axis {weights.axis}; "
                "quantize them per output channel or per tensor"
            )
        if self.b is None or element_of(self.b) == (f32 if is_quantized(self.x) else element_of(self.x)):
            return
        bias = element_of(self.b)
        stored = bias.storage in (i8, i16, i32) if isinstance(bias, UniformType) else bias in (i32, i64)
        if not is_quantized(self.x) or not stored:  # C4
            raise VerifyException(
                f"'{self.name}' needs a bias of its data's type, or beside quantized data one of f32, of quantized i8, "
                f"i16 or i32, or of plain i32 or i64, got {bias} beside {element_of(self.x)}"
            )

    def start(self, shape: Shape, dtype: npt.DTypeLike, bias: tuple[Array, ...]) -> Array:
        """The initial accumulators of the given shape: the bias broadcast along the last axis, or zeros."""
        start = bias[0].astype(dtype) if bias else np.zeros(self.output_channels(), dtype)
        return np.broadcast_to(start, shape).copy()

    # -- the integer form ------------------------------------------------------------------------------------------

    def check_integer_form(self) -> None:
        if uniform(self.w).axis not in (None, self.CHANNEL_AXIS):
            raise UnsupportedError(SCALES_OF_TERMS, code="blocked")
        if len(set(uniform(self.w).zero_points)) > 1 and not isinstance(self.w.owner, ConstantOp):
            raise UnsupportedError("computed weights with several zero points have no integer form")

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales.product(self.x, self.w) / scales(self.y)

    def sums(self) -> Sums:
        bounds = self._weight_sums() * widest(uniform(self.x))
        if (bias := self.stored_bias()) is not None:
            bounds = np.maximum(bounds + bias, bounds - bias - 1)  # i32 holds one more number below zero than above
        return Sums(bounds, "the sum of products", by_channel=True)

    def _weight_sums(self) -> Int64s:
        """Returns Σ |w| for each output channel: exact for constant weights, else the most that their type allows."""
        shape, channels = shape_of(self.w), self.output_channels()
        if isinstance(self.w.owner, ConstantOp):
            weights = self.w.owner.value
            key, held = (self.CHANNEL_AXIS, uniform(self.w).zero_points), _held_sums.setdefault(weights.data, {})
            if key not in held:
                _, points = uniform(self.w).parameters_along(len(shape))
                each = np.broadcast_to(points.astype(np.int32), shape)
                stored, zeros = (np.moveaxis(a, self.CHANNEL_AXIS, 0) for a in (weights.array, each))
                held[key] = np.zeros(channels, np.int64)
                for block in blocks_of_rows(channels):
                    sizes = np.abs(stored[block].astype(np.int32) - zeros[block])
                    held[key][block] = sizes.sum(axis=tuple(range(1, sizes.ndim)), dtype=np.int64)
            return held[key]
        weights = uniform(self.w)
        low, high = min(weights.zero_points), max(weights.zero_points)
        most = max(abs(weights.storage_min - high), abs(weights.storage_max - low))
        return np.full(channels, most * (prod(shape) // max(channels, 1)), np.int64)

    def less_zero_point(self, stored: Array) -> Array:
        """Returns stored weights minus their zero points, int32."""
        _, zero_points = uniform(self.w).parameters_along(stored.ndim)
        return stored.astype(np.int32) - zero_points.astype(np.int32)

    def bias_constant(self) -> ConstantOp | None:
        """The constant that holds the bias, also behind a dequantization; None if it is computed or absent."""
        owner = self.b.owner if self.b is not None else None
        if isinstance(owner, DequantizeCastOp) and is_quantized(owner.input):
            owner = owner.input.owner
        return owner if isinstance(owner, ConstantOp) else None

    def bias_numbers(self) -> Float64s | None:
        """The real numbers of a constant bias; None if the bias is computed or absent."""
        constant = self.bias_constant()
        if constant is None or self.b is None:
            return None
        stored, back = constant.value.array, self.b.owner
        return np.asarray(back.evaluate(stored)[0] if isinstance(back, DequantizeCastOp) else stored, np.float64)

    def bias_in_steps(self) -> Float64s | None:
        """The bias in steps of the sums, before it is rounded; None if the bias is computed or absent.

        Scales that are meant to be equal (`SAME_SCALE`) count as equal, because exporters round s_x · s_w to float32.
        """
        constant = self.bias_constant()
        if constant is None or self.b is None:
            return None
        numbers, own = constant.value.array.astype(np.float64), element_of(constant.y)
        if isinstance(own, UniformType):
            numbers = numbers - np.array(own.zero_points)
        elif not is_float(self.b):
            return numbers
        scales = np.array(own.scales) if isinstance(own, UniformType) else np.ones(1)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            ratios = scales / (uniform(self.x).scale * np.array(uniform(self.w).scales))
            return numbers * np.where(np.abs(ratios - 1) < SAME_SCALE, 1.0, ratios)

    def stored_bias(self) -> Int64s | None:
        """The integers that the bias adds to the sums; None without a bias.

        Raises:
            UnsupportedError: The bias is computed at run time, or does not fit 48 bits.
        """
        if self.b is None:
            return None
        if (steps := self.bias_in_steps()) is None:
            raise UnsupportedError(
                "its bias is computed at run time; only a constant bias can be quantized", code="bias"
            )
        stored = np.rint(steps)
        fits = np.abs(stored) <= WIDE_LIMIT  # false for NaN too
        if not fits.all():
            channel, scales = int((~fits).argmax()), uniform(self.w).scales
            step = uniform(self.x).scale * scales[channel % len(scales)]
            raise UnsupportedError(
                f"its bias {stored[channel] * step:g} in channel {channel} does not fit "
                f"{WIDE_LIMIT.bit_length() + 1} bits in steps of {step:g}",
                code="bias",
            )
        return stored.astype(np.int64)


@irdl_op_definition
class Conv2DOp(WeightedOp, GroupedWindowOp):
    """y[n,h,w,o] = b[o] + Σ_{i,j,c} x[n, h·s+i·d−top, w·s+j·d−left, c] · w[o,i,j,c], then the clamp.

    x [N,H,W,C], w [O,KH,KW,C] (OHWI), b [O], y [N,OH,OW,O]; see WindowOp for strides, padding and dilations. With
    `groups` G > 1, w is [O,KH,KW,C/G] and c counts within the output channel's group.

    (C1) the bias has one element for each output channel
    (C2) w has rank 4 and as many input channels as one group of x
    (C3) weights quantized per axis have one scale for each output channel: axis 0
    (C4) the bias has the data's type; for quantized data it is f32, quantized i8, i16 or i32, or plain i32 or i64
    """

    name = "nn.conv2d"

    def infer_shapes(self) -> Sequence[Shape]:
        x, w = shape_of(self.x), shape_of(self.w)
        self.check_convolution(x, w)  # C2
        self.check_bias()
        return [(x[0], *self.window_output(x, (w[1], w[2])), w[0])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, *bias = inputs
        windows = self.windows(x, (w.shape[1], w.shape[2]), 0)
        groups, y = self.group_count(), self.start((*windows.shape[:3], w.shape[0]), x.dtype, tuple(bias))
        products, outputs = prod(w.shape[1:]), w.shape[0] // groups
        weights = np.moveaxis(w.reshape(groups, outputs, products), 2, 0)[:, None]  # [products, 1, groups, outputs]
        for block in blocks(windows) if y.size and products else ():  # without elements, -1 has no meaning
            taps = windows[block].reshape(-1, *w.shape[1:3], groups, w.shape[3]).transpose(1, 2, 4, 0, 3)
            sums = y[block].reshape(-1, groups, outputs)  # a view: sums added here are added to y
            add_products(sums, taps.reshape(products, -1, groups, 1), weights)
        return (self.clamp(y),)


@irdl_op_definition
class DepthwiseConv2DOp(WeightedOp, WindowOp):
    """y[n,h,w,o] = b[o] + Σ_{i,j} x[n, h·s+i·d−top, w·s+j·d−left, o div m] · w[0,i,j,o], then the clamp.

    x [N,H,W,C], w [1,KH,KW,C·m] with m output channels for each input channel, b [C·m], y [N,OH,OW,C·m].

    (C1) the bias has one element for each output channel
    (C2) w has rank 4, its first dimension is 1, and its last is a multiple of the input's channels
    (C3) weights quantized per axis have one scale for each output channel: axis 3
    (C4) the bias has the data's type; for quantized data it is f32, quantized i8, i16 or i32, or plain i32 or i64
    """

    name = "nn.depthwise_conv2d"

    CHANNEL_AXIS: ClassVar[int] = 3

    def multiplier(self) -> int:
        """The number of output channels for each input channel, m."""
        return shape_of(self.w)[3] // shape_of(self.x)[3]

    def infer_shapes(self) -> Sequence[Shape]:
        x, w = shape_of(self.x), shape_of(self.w)
        check_depthwise(self, x, w)  # C2
        self.check_bias()
        return [(x[0], *self.window_output(x, (w[1], w[2])), w[3])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, *bias = inputs
        window = (w.shape[1], w.shape[2])
        wide = np.repeat(x, w.shape[3] // x.shape[3], axis=3)
        windows = self.windows(wide, window, 0)
        y = self.start((*windows.shape[:3], w.shape[3]), x.dtype, tuple(bias))
        for row, weights in enumerate(w[0]):  # views, as the taps of a whole window would be copied
            add_products(y, np.moveaxis(windows[:, :, :, row], 3, 0), weights[:, None, None, None])
        return (self.clamp(y),)


@irdl_op_definition
class FullyConnectedOp(WeightedOp):
    """y[n,o] = b[o] + Σ_i x[n,i] · w[o,i], then the clamp.

    x [N,I], w [O,I], b [O], y [N,O].

    (C1) the bias has one element for each output channel
    (C2) x and w have rank 2 and the same last dimension
    (C3) weights quantized per axis have one scale for each output channel: axis 0
    (C4) the bias has the data's type; for quantized data it is f32, quantized i8, i16 or i32, or plain i32 or i64
    """

    name = "nn.fully_connected"

    def infer_shapes(self) -> Sequence[Shape]:
        shape = fully_connected_shape(self, shape_of(self.x), shape_of(self.w))  # C2
        self.check_bias()
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [1])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, *bias = inputs
        y = self.start((x.shape[0], w.shape[0]), x.dtype, tuple(bias))
        add_products(y, x.T[:, :, None], w.T[:, None])
        return (self.clamp(y),)


@irdl_op_definition
class MatMulOp(BinaryTensorOp, ContractionOp):
    """y[…,m,n] = Σ_k lhs[…,m,k] · rhs[…,k,n], then the clamp; both operands may be computed values.

    lhs [B…,M,K], rhs [B…,K,N], y [B…,M,N]; the leading dimensions broadcast as in numpy.

    (C1) both operands have rank 2 or more and agree on K
    (C2) the leading dimensions broadcast
    """

    name = "nn.matmul"

    traits = traits_def(FreeScale())

    def infer_shapes(self) -> Sequence[Shape]:
        return [matmul_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # C1, C2

    def sample_axis(self, axes: Axes) -> int:
        return matmul_axis(axes, shape_of(self.lhs), shape_of(self.rhs))

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        lhs, rhs = inputs
        y = np.zeros(self.infer_shapes()[0], lhs.dtype)
        left, right = (v.reshape((1,) * (y.ndim - v.ndim) + v.shape) for v in (lhs, rhs))
        add_products(y, np.moveaxis(left, -1, 0)[..., None], np.moveaxis(right, -2, 0)[..., None, :])
        return (self.clamp(y),)

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales.product(self.lhs, self.rhs) / scales(self.y)

    def sums(self) -> Sums:
        bound = shape_of(self.lhs)[-1] * widest(uniform(self.lhs)) * widest(uniform(self.rhs))
        return Sums.up_to(bound, "a sum of products")


def blocks(windows: Array) -> Iterator[tuple[slice, slice]]:
    """Yields the images and rows of windows [N, OH, OW, KH, KW, C] in blocks of about `BLOCK` elements."""
    images, rows = windows.shape[:2]
    of_row = max(1, prod(windows.shape[2:]))
    some_rows = max(1, min(rows, BLOCK // of_row))
    some = max(1, BLOCK // (of_row * some_rows)) if some_rows == rows else 1
    for image in range(0, images, some):
        for row in range(0, rows, some_rows):
            yield slice(image, image + some), slice(row, row + some_rows)


def real_bias(constant: ConstantOp) -> Float64s:
    """The real numbers of a constant bias that is stored as floats or in a quantized type."""
    numbers, own = constant.value.array.astype(np.float64), element_of(constant.y)
    if not isinstance(own, UniformType):
        return numbers
    return (numbers - np.array(own.zero_points)) * np.array(own.scales)
