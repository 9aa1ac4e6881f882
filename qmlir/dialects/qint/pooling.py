"""Integer pools over windows, and weighted sums of neighbours.

What follows a sum (`mean`, `round_mean`) and the product of an element and its weights (`weighted`) are formulas that
`evaluate`, kernels and linalg share. The loops over windows and neighbours are written for each: they are slices of
arrays here, accumulators in registers in kernels, and affine positions in linalg.
"""

import abc
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from operator import mul
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, StringAttr, TensorType, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interpolation import InterpolationOp
from qmlir.dialects.qint.requantize import ZERO, AccumulatingOp, QIntOp, largest_difference, width_of
from qmlir.dialects.windows import WITHIN_IMAGES, WindowOp, pair
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.ir.types import dtype_of
from qmlir.numerics.elementary.lanes import I32, Lanes, N

# ---------------------------------------------------------------------------------------------------------------
# Integer pooling over the two spatial axes of [N, H, W, C].


class PoolOp(QIntOp, WindowOp, abc.ABC):
    """A pool over a sliding window that keeps the input's scale; x [N,H,W,C], y [N,OH,OW,C].

    (C1) the window is two positive extents
    """

    x = operand_def(TensorType)
    window = prop_def(DenseArrayBase.constr(i64))
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def window_values(self) -> tuple[int, int]:
        """The window's (rows, columns)."""
        return pair(self.window)

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [element_of(self.x)]

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if len(self.window) != 2 or min(self.window.get_values()) < 1:  # C1
            raise VerifyException(
                f"'{self.name}' needs a window of two positive extents, got {self.window.get_values()}"
            )
        rows, columns = self.window_output(x, self.window_values())
        return [(x[0], rows, columns, x[3])]


@irdl_op_definition
class MaxPool2DOp(PoolOp):
    """y = the maximum over the window without padded elements; for no elements, the type's least value."""

    name = "qint.max_pool2d"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (self.maximum(x, self.window_values(), np.iinfo(x.dtype).min),)


def mean(total: N, count: N, offset: int) -> N:
    """The formula of `AveragePool2DOp` for sums of elements: (total + offset · count) / count − offset, rounded."""
    if offset:
        total = total + count * offset
    half, sign = total.same(count.logical_shift(1)), total >> (8 * total.dtype.itemsize - 1)
    away = (half ^ sign) - sign  # half with the total's sign
    return (total + away).truncated_quotient(count) - offset


@irdl_op_definition
class AveragePool2DOp(PoolOp):
    """y = Σ (x + offset) / count − offset, rounded to nearest with halves away from −offset; the scale does not change.

    The sum runs over the stored integers. `count` is the number of window elements inside the image; with
    `count_include_pad` it is the size of the window, and each padded element counts as `zero_point`. This is TFLite's
    contract for average pools; `offset` is 128 for data that the source model stores as u8. The mean of no elements
    is 0.
    """

    name = "qint.average_pool2d"
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    offset = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    count_include_pad = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    def counts(self) -> Array:
        """The divisor of each output position, int64 [OH, OW]."""
        rows, columns = self.taps_inside(shape_of(self.x), self.window_values())
        if bool(self.count_include_pad):
            return np.full((len(rows), len(columns)), np.prod(self.window_values()))
        return np.maximum(rows[:, None] * columns, 1)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        fill = self.zero_point.value.data if bool(self.count_include_pad) else 0
        total = sum(self.taps(x.astype(np.int64), self.window_values(), fill))
        y = mean(Lanes(np.asarray(total)), Lanes(self.counts()[:, :, None]), self.offset.value.data)
        return (y.array.astype(x.dtype),)


@irdl_op_definition
class GlobalSumPoolOp(AccumulatingOp):
    """acc[n,0,0,c] = Σ_{h,w} (x[n,h,w,c] − zero_point), i32 or i64; a requantization then divides by the image's size.

    x [N,H,W,C], acc [N,1,1,C].

    (C1) x has rank 4
    """

    name = "qint.global_sum_pool"
    x = operand_def(TensorType)
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    acc = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($acc)"

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if len(x) != 4:  # C1
            raise VerifyException(f"'{self.name}' needs an input of rank 4 [N, H, W, C], got rank {len(x)}")
        return [(x[0], 1, 1, x[3])]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, WITHIN_IMAGES)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0].astype(np.int32) - np.int32(self.zero_point.value.data)
        return (x.sum(axis=(1, 2), keepdims=True, dtype=dtype_of(element_of(self.acc))),)


# ---------------------------------------------------------------------------------------------------------------
# Interpolation of integer tensors: weighted sums of neighbours along axes.


@irdl_op_definition
class ResizeOp(AccumulatingOp, InterpolationOp):
    """acc = the weighted sums of x − zero_point, i32 or i64, one axis after another (dialects/interpolation.py).

    The i32 weights are fixed-point numbers; a requantization after the operation divides by their power of two. Of sums
    that are longer than a requantization takes, the last step drops the low bits: acc = sum >> dropped.

    I1 to I3 of dialects/interpolation.py hold as for every interpolation.
    (P1) `dropped` is in [0, 62], and 0 for sums of 32 bits
    """

    name = "qint.resize"
    x = operand_def(TensorType)
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    dropped = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    acc = result_def(TensorType)

    WEIGHTS: ClassVar[str] = "int32"

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($acc)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [self.interpolated_shape(shape_of(self.x))]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        wide = dtype_of(element_of(self.acc))
        sums = self.interpolated(inputs[0].astype(wide) - wide.type(self.zero_point.value.data))
        return (sums >> self.dropped.value.data,)

    def verify_(self) -> None:
        super().verify_()
        bits, most = self.dropped.value.data, 62 if width_of(self.acc) == 64 else 0
        if not 0 <= bits <= most:  # P1
            raise VerifyException(f"'{self.name}' drops 0 to {most} bits of its sums, got {bits}")


IN_FLOATS = ("float32", "float32_product")
ROUNDINGS = ("half_up", "half_away", *IN_FLOATS)


def round_mean(total: N, rounding: str, bits: int) -> N:
    """total · 2^−bits as an integer, rounded as `InterpolateOp` defines; a float32 total is not scaled by 2^−bits."""
    if rounding in IN_FLOATS:
        return (total + 0.5).floor().to(I32)
    half = (1 << bits) >> 1
    if rounding == "half_up":
        return (total + half) >> bits
    sign = total >> 63
    return ((((total ^ sign) - sign + half) >> bits) ^ sign) - sign


def weighted(x: N, weights: Sequence[N], rounding: str) -> N:
    """x times its weights, in turn; for "float32_product", x times the product of the weights."""
    if rounding == "float32_product":
        return x * reduce(mul, weights)
    return reduce(mul, weights, x)


@irdl_op_definition
class InterpolateOp(QIntOp, InterpolationOp):
    """y = R(Σ w · (x + offset)) − offset: the weighted mean of neighbours along all axes at once, rounded once by R.

    The weight w of a neighbour is the product of its weights along each axis. The weights along an axis are multiples
    of 2^−b, where b is the entry of `bits` for that axis. A tap is a neighbour's index along an axis. `rounding`
    selects R and the arithmetic of the sum:

        half_up          the sum is exact, R rounds halves up
        half_away        the sum is exact, R rounds halves away from zero
        float32          (x + offset) is multiplied by the first axis' weight, then by the next axis' weight; each
                         product and each sum is rounded to float32; the last axis' taps are the outermost loop of the
                         sum; R(s) = floor(s + 1/2), where s + 1/2 is rounded to float32 too
        float32_product  like float32, but (x + offset) is multiplied by the product of the weights, which is computed
                         from the last axis to the first, and the first axis' taps are the outermost loop

    I1 to I3 of dialects/interpolation.py hold as for every interpolation.
    (P1) x has 8 or 16 bits
    (P2) `bits` has one entry for each axis, from 0 to 30; with the integer roundings, the weights of an element along
         an axis are not negative and add up to 1; with the float roundings, they lie between −2 and 2
    (P3) the rounding is one of the four; with the float roundings, weights have at most 24 significant bits
    (P4) the sums fit 62 bits, with the float roundings 24 bits
    """

    name = "qint.interpolate"
    x = operand_def(TensorType)
    bits = prop_def(DenseArrayBase.constr(i32))
    rounding = prop_def(StringAttr)
    offset = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    y = result_def(TensorType)

    WEIGHTS: ClassVar[str] = "int32"

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [element_of(self.x)]

    def infer_shapes(self) -> Sequence[Shape]:
        return [self.interpolated_shape(shape_of(self.x))]

    def float_weights(self) -> list[Array]:
        """The real weights of each axis, float32 [O, T]."""
        bits = self.bits.get_values()
        return [np.ldexp(w.astype(np.float32), -b) for (_, _, w), b in zip(self.tables(), bits, strict=True)]

    def computed_in_floats(self) -> bool:
        """Whether the sums are computed in float32."""
        return self.rounding.data in IN_FLOATS

    def steps(self) -> list[tuple[int, Array, Array]]:
        """(axis, taps, i64 or f32 weights) in the order of multiplication; the last entry's taps are the outermost."""
        weights = [w.astype(np.int64) for _, _, w in self.tables()]
        own = self.float_weights() if self.computed_in_floats() else weights
        steps = [(axis, taps, w) for (axis, taps, _), w in zip(self.tables(), own, strict=True)]
        return steps[::-1] if self.rounding.data == "float32_product" else steps

    def _neighbours(self, x: Array) -> Iterator[tuple[Array, list[Array]]]:
        """For each combination of taps: the elements of x there, and their weights along each axis."""
        steps = self.steps()
        for way in product(*(range(taps.shape[1]) for _, taps, _ in reversed(steps))):
            found, factors = x, list[Array]()
            for (axis, taps, own), tap in zip(steps, reversed(way), strict=True):
                found = np.take(found, taps[:, tap], axis=axis)
                factors.append(own[:, tap].reshape(-1, *[1] * (x.ndim - axis - 1)))
            yield found, factors

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        offset, dtype = self.offset.value.data, np.float32 if self.computed_in_floats() else np.int64
        total = Lanes(np.zeros(self.infer_shapes()[0], dtype))
        for x, factors in self._neighbours((inputs[0].astype(np.int64) + offset).astype(dtype)):
            total = total + weighted(Lanes(x), [Lanes(factor) for factor in factors], self.rounding.data)
        return ((self.rounded(total).array - offset).astype(inputs[0].dtype),)

    def rounded(self, total: N) -> N:
        """The sums rounded to integers by R: f32 sums become i32, i64 sums remain i64."""
        return round_mean(total, self.rounding.data, sum(self.bits.get_values()))

    def verify_(self) -> None:
        super().verify_()
        width, floats = width_of(self.x), self.computed_in_floats()
        if width not in (8, 16):  # P1
            raise VerifyException(f"'{self.name}' needs integers of 8 or 16 bits, got {element_of(self.x)}")
        if self.rounding.data not in ROUNDINGS:  # P3
            raise VerifyException(f"'{self.name}' rounds {', '.join(ROUNDINGS)}, got {self.rounding.data}")
        bits = self.bits.get_values()
        if len(bits) != len(self.axes) or any(not 0 <= b <= 30 for b in bits):  # P2
            raise VerifyException(f"'{self.name}' needs bits from 0 to 30 for each axis, got {list(bits)}")
        for (axis, _, weights), b in zip(self.tables(), bits, strict=True):
            parts = (weights >= 0).all() and (weights.astype(np.int64).sum(axis=1) == 1 << b).all()
            if not (np.abs(weights.astype(np.int64)) < 2 << b).all() if floats else not parts:  # P2
                raise VerifyException(f"'{self.name}' needs weights that are parts of 1 = 2^{b} along axis {axis}")
            if floats and not np.array_equal(weights.astype(np.float32).astype(np.int64), weights):  # P3
                raise VerifyException(f"'{self.name}' needs weights of 24 significant bits along axis {axis}")
        largest = largest_difference(self.x, -self.offset.value.data)
        if (floats and largest * 2 ** len(bits) >= 1 << 24) or (largest << sum(bits) >= 1 << 62 and not floats):  # P4
            raise VerifyException(
                f"'{self.name}' has sums beyond its bits: {largest} with {sum(bits)} behind the point"
            )
