"""Integer contractions: sums of zero-point-corrected products in i32, or in i64 where i32 could overflow.

`evaluate` computes matrix products in floats, because numpy's float products are compiled and its integer products are
not. Every step is exact in any order: products and sums stay below 2^24 in f32 or below 2^53 in f64, and where they
could exceed 2^53 they are computed in i64. A convolution goes by its own weights, which rarely are as large as their
type allows.

A sum of products has no formula of single elements that all forms share. Its meaning is the equation; each form sums in
the order and in the types that are fast for it: BLAS here, pairs of i16 in kernels, one product at a time in linalg.
"""

import abc
from collections.abc import Sequence
from math import prod
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr, TensorType, i8, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.requantize import ZERO, AccumulatingOp, largest_difference
from qmlir.dialects.windows import GroupedWindowOp, WindowOp, check_depthwise
from qmlir.ir.interfaces import (
    Array,
    Shape,
    element_of,
    fully_connected_shape,
    matmul_shape,
    shape_of,
)
from qmlir.ir.samples import Axes, kept_axis, matmul_axis

Exact: TypeAlias = type[np.float32 | np.float64 | np.int64]
"""A number type in which the sums of a contraction are exact."""


class ContractionOp(AccumulatingOp, abc.ABC):
    """Sums of products of two tensors, accumulated in i32 or i64."""

    WORDS: ClassVar[bool] = True

    @staticmethod
    def exact(terms: int, lhs: int, rhs: int) -> Exact:
        """The type in which a sum of `terms` products is exact, for factors of magnitude up to `lhs` and `rhs`."""
        largest = terms * lhs * rhs
        return np.float32 if largest < 1 << 24 else np.float64 if largest < 1 << 53 else np.int64

    def accumulate(self, products: Array, bias: Sequence[Array] = ()) -> Array:
        """Converts exact sums of any number type to accumulators and adds the bias."""
        acc = products.astype(np.int64 if self.accumulator() == i64 else np.int32)
        for b in bias:
            acc += b
        return acc


class WeightedOp(ContractionOp, abc.ABC):
    """A contraction of data with weights and an optional bias; the weights have zero point 0.

    (C1) the bias has the accumulators' type and one element for each output channel
    """

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    b = opt_operand_def(TensorType)
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    acc = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `,` $w (`,` $b^)? attr-dict `:` type($x) `,` type($w) (`,` type($b)^)? `->` type($acc)"

    def narrow_operands(self) -> Sequence[SSAValue]:
        return (self.x, self.w)

    @abc.abstractmethod
    def output_channels(self) -> int:
        """The number of output channels, read from the shape of the weights."""

    def check_bias(self) -> None:
        """Raises VerifyException if the bias does not fit the weights."""
        if self.b is None:
            return
        needed = TensorType(self.accumulator(), (self.output_channels(),))
        if self.b.type != needed:  # C1
            raise VerifyException(f"'{self.name}' needs a bias of type {needed}, got {self.b.type}")

    def exact_type(self, terms: int) -> Exact:
        """The type in which a sum of `terms` products is exact for all values of the data and the weights."""
        return self.exact(terms, largest_difference(self.x, self.zero_point.value.data), largest_difference(self.w, 0))

    def exact_for(self, rows: Array) -> Exact:
        """The type in which sums are exact for all values of the data and these weights, [O, terms]."""
        largest = int(np.abs(rows, dtype=np.int64).sum(axis=1).max(initial=0))
        return self.exact(1, largest_difference(self.x, self.zero_point.value.data), largest)

    def less_zero_point(self, x: Array, dtype: npt.DTypeLike) -> Array:
        """The data minus its zero point, in the given dtype."""
        less_zero_point = x.astype(dtype)
        less_zero_point -= self.zero_point.value.data
        return less_zero_point


@irdl_op_definition
class Conv2DOp(WeightedOp, GroupedWindowOp):
    """acc[n,h,w,o] = b[o] + Σ_{i,j,c} (x[n, h·s+i·d−top, w·s+j·d−left, c] − zero_point) · w[o,i,j,c].

    x [N,H,W,C], w [O,KH,KW,C], b [O], acc [N,OH,OW,O]. Padded elements contribute nothing. With `groups` G > 1,
    w is [O,KH,KW,C/G] and c counts within the output channel's group.

    (C1) the bias has the accumulators' type and one element for each output channel
    (C2) w has rank 4 and as many input channels as one group of x
    """

    name = "qint.conv2d"

    def output_channels(self) -> int:
        return shape_of(self.w)[0]

    def infer_shapes(self) -> Sequence[Shape]:
        x, w = shape_of(self.x), shape_of(self.w)
        self.check_convolution(x, w)  # C2
        self.check_bias()
        return [(x[0], *self.window_output(x, (w[1], w[2])), w[0])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, *bias = inputs
        groups, terms = self.group_count(), prod(w.shape[1:])
        dtype = self.exact_for(w.reshape(w.shape[0], terms))
        columns = w.reshape(groups, w.shape[0] // groups, terms).transpose(0, 2, 1).astype(dtype)
        windows = self.windows(self.less_zero_point(x, dtype), (w.shape[1], w.shape[2]), 0)
        # One product for all places of a group: one for each row of places would share each of them among threads.
        places = (prod(windows.shape[:3]), terms)
        products = [
            windows[..., g * w.shape[3] : (g + 1) * w.shape[3]].reshape(places) @ columns[g] for g in range(groups)
        ]
        sums = np.concatenate(products, axis=1).reshape(*windows.shape[:3], w.shape[0])
        return (self.accumulate(sums, bias),)


@irdl_op_definition
class DepthwiseConv2DOp(WeightedOp, WindowOp):
    """acc[n,h,w,o] = b[o] + Σ_{i,j} (x[n, h·s+i·d−top, w·s+j·d−left, o div m] − zero_point) · w[0,i,j,o].

    x [N,H,W,C], w [1,KH,KW,C·m], b [C·m], acc [N,OH,OW,C·m]. Padded elements contribute nothing.

    (C1) the bias has the accumulators' type and one element for each output channel
    (C2) w has rank 4, its first dimension is 1, and its last is a multiple of the input's channels
    """

    name = "qint.depthwise_conv2d"

    def output_channels(self) -> int:
        return shape_of(self.w)[-1]

    def infer_shapes(self) -> Sequence[Shape]:
        x, w = shape_of(self.x), shape_of(self.w)
        check_depthwise(self, x, w)  # C2
        self.check_bias()
        return [(x[0], *self.window_output(x, (w[1], w[2])), w[3])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, *bias = inputs
        window = (w.shape[1], w.shape[2])
        acc = self.accumulate(np.zeros((x.shape[0], *self.window_output(x.shape, window), w.shape[3])), bias)
        wide = np.repeat(self.less_zero_point(x, acc.dtype), w.shape[3] // x.shape[3], axis=3)
        # There is no matrix product here, so the products are computed and added in integers.
        for tap, weight in zip(
            self.taps(wide, window, 0), w.reshape(prod(window), w.shape[3]).astype(acc.dtype), strict=True
        ):
            acc += tap * weight
        return (acc,)


class MatrixOp(WeightedOp, abc.ABC):
    """A contraction of the rows of x with the rows of w: x [N,I], w [O,I], b [O], acc [N,O].

    (C2) x and w have rank 2 and the same last dimension
    """

    def output_channels(self) -> int:
        return shape_of(self.w)[0]

    def infer_shapes(self) -> Sequence[Shape]:
        shape = fully_connected_shape(self, shape_of(self.x), shape_of(self.w))  # C2
        self.check_bias()
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [1])


@irdl_op_definition
class FullyConnectedOp(MatrixOp):
    """acc[n,o] = b[o] + Σ_i (x[n,i] − zero_point) · w[o,i].

    x [N,I], w [O,I], b [O], acc [N,O].

    (C1) the bias has the accumulators' type and one element for each output channel
    (C2) x and w have rank 2 and the same last dimension
    """

    name = "qint.fully_connected"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, *bias = inputs
        dtype = self.exact_type(w.shape[1])
        return (self.accumulate(self.less_zero_point(x, dtype) @ w.astype(dtype).T, bias),)


class BlockedOp(ContractionOp, abc.ABC):
    """A fully connected layer whose sums of blocks of inputs are multiplied, and added in 64 bits.

    (C1) the bias is i64 with one element for each output channel
    (C2) x and w have rank 2 and the same last dimension, and m has a multiplier for each output and block
    (C3) the blocks are as long as each other: G divides I

    Subclasses declare the operands again, in their own order.
    """

    WORDS: ClassVar[bool] = False
    ACCUMULATORS: ClassVar[Sequence[Attribute]] = (i64,)

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    m = operand_def(TensorType)
    b = opt_operand_def(TensorType)
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    acc = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)

    def narrow_operands(self) -> Sequence[SSAValue]:
        return (self.x, self.w)

    def infer_shapes(self) -> Sequence[Shape]:
        shape = fully_connected_shape(self, shape_of(self.x), shape_of(self.w))  # C2
        multipliers = shape_of(self.m)
        if len(multipliers) != 2 or multipliers[0] != shape[1]:  # C2
            raise VerifyException(f"'{self.name}' needs multipliers [{shape[1]}, G], got {list(multipliers)}")
        if not multipliers[1] or shape_of(self.w)[1] % multipliers[1]:  # C3
            got = f"{multipliers[1]} blocks of {shape_of(self.w)[1]} inputs"
            raise VerifyException(f"'{self.name}' needs blocks that are as long as each other, got {got}")
        if self.b is not None and self.b.type != (needed := TensorType(i64, (shape[1],))):  # C1
            raise VerifyException(f"'{self.name}' needs a bias of type {needed}, got {self.b.type}")
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [1])

    def multiplied(self, x: Array, w: Array, m: Array) -> Array:
        """The sums of blocks times their multipliers, added, i64 [N, O]."""
        zero_point, size = self.zero_point.value.data, w.shape[1] // m.shape[1]
        dtype = self.exact(size, largest_difference(self.x, zero_point), largest_difference(self.w, 0))
        acc = np.zeros((x.shape[0], w.shape[0]), np.int64)
        for block in range(m.shape[1]):
            part = slice(block * size, (block + 1) * size)
            sums = (x[:, part].astype(dtype) - dtype(zero_point)) @ w[:, part].astype(dtype).T
            acc += sums.astype(np.int64) * m[:, block]
        return acc


@irdl_op_definition
class BlockedFullyConnectedOp(BlockedOp):
    """acc[n,o] = b[o] + Σ_g m[o,g] · Σ_{i in g} (x[n,i] − zero_point) · w[o,i].

    x [N,I], w [O,I], m [O,G], b [O], acc [N,O] i64; block g holds I / G neighbouring inputs. The sums of blocks have 32
    bits.

    (C1) the bias is i64 with one element for each output channel
    (C2) x and w have rank 2 and the same last dimension, and m has a multiplier for each output and block
    (C3) the blocks are as long as each other: G divides I
    """

    name = "qint.blocked_fully_connected"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    m = operand_def(TensorType)
    b = opt_operand_def(TensorType)

    assembly_format = (
        "$x `,` $w `,` $m (`,` $b^)? attr-dict `:` type($x) `,` type($w) `,` type($m) (`,` type($b)^)? `->` type($acc)"
    )

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, m, *bias = inputs
        return (self.accumulate(self.multiplied(x, w, m), bias),)


@irdl_op_definition
class AffineFullyConnectedOp(BlockedOp):
    """acc[n,o] = b[o] + Σ_g (m[o,g] · Σ_{i in g} d[n,i] · w[o,i] + k[o,g] · Σ_{i in g} d[n,i]), d = x − zero_point.

    x [N,I], w [O,I], m and k [O,G], b [O], acc [N,O] i64; block g holds I / G neighbouring inputs. Weights that are, in
    each block, a scale times an integer plus an offset have a multiplier m for the scale and k for the offset. Both
    sums of a block have 32 bits.

    (C1) the bias is i64 with one element for each output channel
    (C2) x and w have rank 2 and the same last dimension, and m has a multiplier for each output and block
    (C3) the blocks are as long as each other: G divides I
    (C4) k has the shape of m
    """

    name = "qint.affine_fully_connected"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    m = operand_def(TensorType)
    k = operand_def(TensorType)
    b = opt_operand_def(TensorType)

    assembly_format = (
        "$x `,` $w `,` $m `,` $k (`,` $b^)? attr-dict `:` "
        "type($x) `,` type($w) `,` type($m) `,` type($k) (`,` type($b)^)? `->` type($acc)"
    )

    def infer_shapes(self) -> Sequence[Shape]:
        shapes, needed = super().infer_shapes(), shape_of(self.m)
        if shape_of(self.k) != needed:  # C4
            raise VerifyException(f"'{self.name}' needs offsets {list(needed)}, got {list(shape_of(self.k))}")
        return shapes

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, m, k, *bias = inputs
        blocks = x.reshape(len(x), m.shape[1], -1).astype(np.int64) - self.zero_point.value.data
        return (self.accumulate(self.multiplied(x, w, m) + blocks.sum(axis=2) @ k.T.astype(np.int64), bias),)


@irdl_op_definition
class SaturatingFullyConnectedOp(MatrixOp):
    """acc[n,o] = b[o] + Σ_i sat16((x[n,2i] − z)·w[o,2i] + (x[n,2i+1] − z)·w[o,2i+1]), z the zero point.

    x [N,I], w [O,I], b [O], acc [N,O] i32. sat16 saturates to i16. If I is odd, the last product saturates by itself.

    (C1) the bias is i32 with one element for each output channel
    (C2) x and w have rank 2 and the same last dimension
    (C3) x and w are i8, so that a pair of products fits 32 bits
    (C4) x minus zero_point fits 16 bits, as where such sums are from: instructions that multiply bytes
    """

    name = "qint.saturating_fully_connected"
    ACCUMULATORS: ClassVar[Sequence[Attribute]] = (i32,)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, *bias = inputs
        less_zero_point = x.astype(np.int32) - self.zero_point.value.data
        acc = np.zeros((x.shape[0], w.shape[0]), np.int32)
        for i in range(0, w.shape[1], 2):
            pair = less_zero_point[:, i : i + 2].astype(np.float64) @ w[:, i : i + 2].T.astype(np.float64)
            acc += np.clip(pair, -(1 << 15), (1 << 15) - 1).astype(np.int32)
        return (acc + bias[0] if bias else acc,)

    def verify_(self) -> None:
        super().verify_()
        if element_of(self.x) != i8 or element_of(self.w) != i8:  # C3
            raise VerifyException(f"'{self.name}' multiplies i8 by i8, got {self.x.type} and {self.w.type}")
        if largest_difference(self.x, self.zero_point.value.data) >= 1 << 15:  # C4
            got = self.zero_point.value.data
            raise VerifyException(f"'{self.name}' needs data minus the zero point to fit 16 bits, got zero point {got}")


@irdl_op_definition
class MatMulOp(ContractionOp):
    """acc[…,m,n] = Σ_k (lhs[…,m,k] − lhs_zero_point) · (rhs[…,k,n] − rhs_zero_point).

    lhs [B…,M,K], rhs [B…,K,N], acc [B…,M,N]; the leading dimensions broadcast.

    (C1) both operands have rank 2 or more and agree on K
    (C2) the leading dimensions broadcast
    """

    name = "qint.matmul"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    lhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    rhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    acc = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($acc)"

    def infer_shapes(self) -> Sequence[Shape]:
        # C1, and the leading dimensions:
        # C2
        return [matmul_shape(self, shape_of(self.lhs), shape_of(self.rhs))]

    def sample_axis(self, axes: Axes) -> int:
        return matmul_axis(axes, shape_of(self.lhs), shape_of(self.rhs))

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        left, right = self.lhs_zero_point.value.data, self.rhs_zero_point.value.data
        largest = largest_difference(self.lhs, left), largest_difference(self.rhs, right)
        dtype = self.exact(inputs[0].shape[-1], *largest)
        lhs, rhs = inputs[0].astype(dtype), inputs[1].astype(dtype)
        lhs -= left
        rhs -= right
        return (self.accumulate(lhs @ rhs),)
