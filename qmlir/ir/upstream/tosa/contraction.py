"""TOSA's convolutions and matrix products."""

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    BFloat16Type,
    BoolAttr,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    IntegerType,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from qmlir.ir.upstream.tosa.base import TENSOR, TosaOp, element, fits, is_float, is_integer, known, numbers, sizes

i48 = IntegerType(48)

ACCUMULATORS: dict[Attribute, tuple[Attribute, ...]] = {
    i8: (i32,),
    i16: (i48,),
    Float16Type(): (Float16Type(), Float32Type()),
    BFloat16Type(): (Float32Type(),),
    Float32Type(): (Float32Type(),),
}
"""Element type of the data → allowed accumulator types; the accumulators of other element types are not checked."""


class SlidingOp(TosaOp, abc.ABC):
    """Base of the operations with a window that slides over the dimensions between the first and the last.

    (W1) strides and dilations are at least 1, paddings are 0 or more
    (W2) the last window ends at the end of the padded input
    (W3) the result's size along each dimension is the number of windows
    """

    def check_windows(
        self, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int]
    ) -> None:
        """Checks (W1) to (W3) for a kernel of the given sizes; all arguments begin with the first spatial dimension."""
        if min(*stride, *dilation) < 1 or min(pad) < 0:  # W1
            self.fail(
                f"needs strides and dilations of at least 1 and no negative padding, "
                f"got {list(stride)}, {list(dilation)} and {list(pad)}"
            )
        image = sizes(self.operands[0])
        if image is None:
            return
        for i, extent in enumerate(kernel):
            before, after = pad[2 * i : 2 * i + 2]
            if not known(image[i + 1]) or not known(extent):
                continue
            room = image[i + 1] - 1 + before + after - (extent - 1) * dilation[i]
            if room < 0 or room % stride[i]:  # W2
                self.fail(
                    f"needs input - 1 + padding - (kernel - 1) * dilation to be a multiple of the stride along "
                    f"dimension {i + 1}, got {image[i + 1]} - 1 + {before} + {after} - ({extent} - 1) * {dilation[i]} "
                    f"and a stride of {stride[i]}"
                )
            self.check_count(i + 1, room // stride[i] + 1)  # W3

    def check_count(self, dimension: int, count: int) -> None:
        """Checks that the result has `count` elements along a dimension."""
        result = sizes(self.results[0])
        if result is not None and not fits((result[dimension],), (count,)):
            self.fail(f"must yield {count} elements along dimension {dimension}, got {self.results[0].type}")

    def check_accumulator(self, type: Attribute, allowed: Mapping[Attribute, tuple[Attribute, ...]]) -> None:
        """Checks the type of the accumulator, given the types that TOSA allows for each element type of the input."""
        kind = element(self.operands[0])
        if kind in allowed and type not in allowed[kind]:
            names = " or ".join(map(str, allowed[kind]))
            self.fail(f"needs an acc_type of {names} for elements of type {kind}, got {type}")


class ConvolutionOp(SlidingOp, abc.ABC):
    """Base of the convolutions of data with weights, plus a bias; data and weights may have a zero point.

    (C1) input, weight and result have the operation's rank
    (C2) input and weight are both integers or both floats; acc_type is an allowed accumulator type of the input's
         element type
    (C3) the bias has one element, or one element for each output channel, and the result's element type
    (C4) each zero point has one element, of the element type of its operand, and is 0 unless that has 8 bits
    (C5) there are one stride, one dilation and two paddings for each spatial dimension
    (C6) the weights have as many input channels as the input; the result has as many channels as the weights have
         output channels, and as many images as the input
    """

    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    input_zp = operand_def(TENSOR)
    weight_zp = operand_def(TENSOR)
    stride = prop_def(DenseArrayBase.constr(i64))
    acc_type = prop_def(TypeAttribute)
    local_bound = opt_prop_def(BoolAttr)
    output = result_def(TENSOR)

    SPATIAL: ClassVar[int] = 2
    """The number of dimensions over which the window slides."""

    def channels(self, weight: tuple[int, ...]) -> tuple[int, int]:
        """Returns (input channels, output channels) for a shape of the weights, [O,K…,C] unless overridden."""
        return weight[-1], weight[0]

    def kernel(self, weight: tuple[int, ...]) -> Sequence[int]:
        """Returns the sizes of the window for a shape of the weights, [O,K…,C] unless overridden."""
        return weight[1:-1]

    def check_operands(self) -> None:
        """Checks (C1) to (C4) and (C6)."""
        self.check_rank(self.SPATIAL + 2, input=self.input, weight=self.weight, result=self.output)  # C1
        kinds = element(self.input), element(self.weight)
        if not (all(map(is_integer, kinds)) or all(map(is_float, kinds))):  # C2
            self.fail(f"needs input and weight that are both integers or both floats, got {kinds[0]} and {kinds[1]}")
        self.check_accumulator(self.acc_type, ACCUMULATORS)  # C2
        self.check_element(element(self.output), bias=self.bias)  # C3
        self.check_zero_point("input_zp", self.input_zp, self.input)  # C4
        self.check_zero_point("weight_zp", self.weight_zp, self.weight)  # C4
        shape, weight, result, bias = (sizes(v) for v in (self.input, self.weight, self.output, self.bias))
        if weight is None:
            return
        inputs, outputs = self.channels(weight)
        if shape is not None and not fits(shape[-1:], (inputs,)):  # C6
            self.fail(f"needs weights for the input's channels, got {self.weight.type} for {self.input.type}")
        if result is not None and not fits(result[-1:], (outputs,)):  # C6
            self.fail(f"must yield {outputs} channels, got {self.output.type}")
        if shape is not None and result is not None and not fits(result[:1], shape[:1]):  # C6
            self.fail(f"must yield as many images as it takes, got {self.output.type} from {self.input.type}")
        if bias is not None and bias != (1,) and not fits(bias, (outputs,)):  # C3
            self.fail(f"needs a bias of 1 or {outputs} elements, got {self.bias.type}")

    def check_counts(self, *per_dimension: DenseArrayBase[I64], pad: DenseArrayBase[I64]) -> None:
        """Checks (C5)."""
        if {len(a) for a in per_dimension} != {self.SPATIAL} or len(pad) != 2 * self.SPATIAL:  # C5
            counts = ", ".join(str(len(a)) for a in (*per_dimension, pad))
            self.fail(f"slides over {self.SPATIAL} dimensions, got properties for others: {counts} entries")


class DirectOp(ConvolutionOp, abc.ABC):
    """Base of the convolutions whose windows lie on the input; transposed convolutions have theirs on the output."""

    pad = prop_def(DenseArrayBase.constr(i64))
    dilation = prop_def(DenseArrayBase.constr(i64))

    def verify_(self) -> None:
        self.check_operands()
        self.check_counts(self.stride, self.dilation, pad=self.pad)
        weight = sizes(self.weight)
        if weight is not None:
            self.check_windows(self.kernel(weight), numbers(self.stride), numbers(self.pad), numbers(self.dilation))


@irdl_op_definition
class Conv2DOp(DirectOp):
    """2-D convolution: y[n,h,w,o] = b[o] + Σ_{i,j,c} (x[n, h·s+i·d−top, w·s+j·d−left, c] − x_zp) · (w[o,i,j,c] − w_zp).

    input [N,H,W,C], weight [O,KH,KW,C], output [N,OH,OW,O]; pad is top, bottom, left, right.
    """

    name = "tosa.conv2d"


@irdl_op_definition
class Conv3DOp(DirectOp):
    """`tosa.conv2d` over three dimensions: input [N,D,H,W,C], weight [O,KD,KH,KW,C], output [N,OD,OH,OW,O]."""

    name = "tosa.conv3d"
    SPATIAL: ClassVar = 3


@irdl_op_definition
class DepthwiseConv2DOp(DirectOp):
    """y[n,h,w,c·M+m] = b[c·M+m] + Σ_{i,j} (x[n, h·s+i·d−top, w·s+j·d−left, c] − x_zp) · (w[i,j,c,m] − w_zp).

    input [N,H,W,C], weight [KH,KW,C,M], output [N,OH,OW,C·M]; pad is top, bottom, left, right.
    """

    name = "tosa.depthwise_conv2d"

    def channels(self, weight: tuple[int, ...]) -> tuple[int, int]:
        _, _, inputs, each = weight
        return inputs, inputs * each if known(inputs) and known(each) else inputs if each == 1 else -1

    def kernel(self, weight: tuple[int, ...]) -> Sequence[int]:
        return weight[:2]


@irdl_op_definition
class TransposeConv2DOp(ConvolutionOp):
    """A transposed convolution: each input element adds its multiple of the kernel to the output, `stride` apart.

    input [N,H,W,C], weight [O,KH,KW,C], output [N,OH,OW,O] with OH = (H−1)·stride + out_pad top and bottom + KH, and
    OW likewise.

    (W1) strides are at least 1, and each out_pad is larger than minus the kernel's size
    (W3) the result's height and width are OH and OW
    """

    name = "tosa.transpose_conv2d"
    out_pad = prop_def(DenseArrayBase.constr(i64))

    def verify_(self) -> None:
        self.check_operands()
        self.check_counts(self.stride, pad=self.out_pad)
        image, weight = sizes(self.input), sizes(self.weight)
        stride, pad = numbers(self.stride), numbers(self.out_pad)
        if min(stride) < 1:  # W1
            self.fail(f"needs strides of at least 1, got {list(stride)}")
        if image is None or weight is None or sizes(self.output) is None:
            return
        for i, extent in enumerate(self.kernel(weight)):
            if not known(extent):
                continue
            if min(pad[2 * i : 2 * i + 2]) <= -extent:  # W1
                self.fail(f"needs an out_pad larger than minus the kernel's {extent}, got {list(pad)}")
            if known(image[i + 1]):
                count = (image[i + 1] - 1) * stride[i] + sum(pad[2 * i : 2 * i + 2]) + extent
                self.check_count(i + 1, count)  # W3


@irdl_op_definition
class MatMulOp(TosaOp):
    """Matrix product of each batch: y[n,h,w] = Σ_c (a[n,h,c] − a_zp) · (b[n,c,w] − b_zp).

    (C1) a [N,H,C], b [N,C,W] and the result [N,H,W] have rank 3 and agree in their dimensions
    (C2) a and b have the same integer type, or are both floats; the result has an allowed accumulator type, or the
         type of a float operand
    (C4) each zero point has one element, of the element type of its operand, and is 0 unless that has 8 bits
    """

    name = "tosa.matmul"
    a = operand_def(TENSOR)
    b = operand_def(TENSOR)
    a_zp = operand_def(TENSOR)
    b_zp = operand_def(TENSOR)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_rank(3, a=self.a, b=self.b, result=self.output)  # C1
        kinds = element(self.a), element(self.b)
        if is_integer(kinds[0]) != is_integer(kinds[1]) or (is_integer(kinds[0]) and kinds[0] != kinds[1]):  # C2
            self.fail(f"needs operands of one element type, got {kinds[0]} and {kinds[1]}")
        allowed = ACCUMULATORS.get(kinds[0])
        if allowed is not None and element(self.output) not in (*allowed, *filter(is_float, kinds)):  # C2
            names = " or ".join(map(str, allowed))
            self.fail(f"must yield elements of type {names} from {kinds[0]}, got {self.output.type}")
        self.check_zero_point("a_zp", self.a_zp, self.a)  # C4
        self.check_zero_point("b_zp", self.b_zp, self.b)  # C4
        a, b = sizes(self.a), sizes(self.b)
        if a is None or b is None:
            return
        if not fits(a[:1], b[:1]) or not fits(a[2:], b[1:2]):  # C1
            self.fail(f"needs a [N, H, C] and b [N, C, W], got {self.a.type} and {self.b.type}")
        self.check_result((a[0] if known(a[0]) else b[0], a[1], b[2]))  # C1


CONTRACTIONS = (Conv2DOp, Conv3DOp, DepthwiseConv2DOp, TransposeConv2DOp, MatMulOp)
"""All operations of this file."""
