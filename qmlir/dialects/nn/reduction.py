"""Reductions along axes, and pools over windows."""

import abc
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, f32, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import AxisOp, Elements, NNOp, is_quantized
from qmlir.dialects.nn.quantizable import ALL_STORAGES, NARROW, Scales, Sums, uniform, widest
from qmlir.dialects.quant.rules import FreeScale, SameScale
from qmlir.dialects.windows import WITHIN_IMAGES, WindowOp, pair
from qmlir.ir.facts import ADDITION
from qmlir.ir.interfaces import Array, Shape, UnaryTensorOp, element_of, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.ir.types import dtype_of
from qmlir.numerics.additions import ADDITIONS, IN_ORDER, NINE, added_nine, added_runs
from qmlir.numerics.elementary.lanes import Lanes

# ---------------------------------------------------------------------------------------------------------------
# Reductions along axes, indices of extreme elements, and cumulative sums and products.


class ReductionOp(UnaryTensorOp, NNOp, abc.ABC):
    """A reduction of all elements along `axes`, which remain as dimensions of size 1.

    Elements are combined in row-major order.

    (C1) the axes ascend and lie within the rank
    """

    axes = prop_def(DenseArrayBase.constr(i64))

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axes = shape_of(self.x), self.axes.get_values()
        if sorted(set(axes)) != list(axes) or not all(0 <= a < len(shape) for a in axes):  # C1
            raise VerifyException(f"'{self.name}' needs ascending axes in [0, {len(shape)}), got {list(axes)}")
        return [tuple(1 if i in axes else size for i, size in enumerate(shape))]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, self.axes.get_values())

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        axes = self.axes.get_values()
        kept = [i for i in range(x.ndim) if i not in axes]
        sizes = (prod(x.shape[i] for i in group) for group in (axes, kept))
        rows = x.transpose(*axes, *kept).reshape(*sizes)
        with np.errstate(all="ignore"):
            y = self.reduced(rows) if len(rows) else np.full(rows.shape[1:], self.identity(), x.dtype)
        return (y.reshape(self.infer_shapes()[0]),)

    @abc.abstractmethod
    def reduced(self, rows: Array) -> Array:
        """Combines at least one row, [rows, kept elements], from the first row to the last."""

    @abc.abstractmethod
    def identity(self) -> float:
        """The result of a reduction over no elements."""


class AdditionOp(NNOp, abc.ABC):
    """An operation that adds or multiplies floats in the order that the attribute `qmlir.addition` names.

    (A1) `qmlir.addition`, if present, is a name in `ADDITIONS`, and the elements are f32
    """

    ADDITIONS: ClassVar[tuple[str, ...]] = ADDITIONS
    """The names in `additions.ADDITIONS` that the operation can follow."""

    def verify_(self) -> None:
        super().verify_()
        way = self.addition
        if way is not None and (way not in self.ADDITIONS or element_of(self.operands[0]) != f32):  # A1
            known = " or ".join(self.ADDITIONS)
            raise VerifyException(f"'{self.name}' {ADDITION} must be {known} on f32, got {way}")

    @property
    def addition(self) -> str | None:
        """How floats are added: a name in `additions.ADDITIONS`, or None for the operation's own way."""
        return ADDITION.of(self)

    def _accumulated(self, function: np.ufunc, rows: Array) -> Array:
        """Running sums or products of the rows, in f64, or in f32 where a way to add is named."""
        if self.addition is None:
            return accumulated(function, rows)
        running = function.accumulate(rows, axis=0, dtype=rows.dtype)
        return running + rows.dtype.type(0) if function is np.add else running  # sums begin with +0


class AccumulationOp(ReductionOp, AdditionOp, abc.ABC):
    """A sum, mean or product: floats are accumulated in f64 and rounded once, integers wrap around.

    `qmlir.addition` may name another way to accumulate floats.
    """

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS

    def run(self) -> int:
        """The number of elements along the last of the axes, and along those right before it."""
        shape, axes = shape_of(self.x), self.axes.get_values()
        last = [axis for place, axis in enumerate(axes) if axes[-1] - axis == len(axes) - 1 - place]
        return prod(shape[axis] for axis in last)


class ReduceToSumOp(AccumulationOp, abc.ABC):
    """A sum or mean along axes, whose integer form sums stored integers."""

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    traits = traits_def(FreeScale())

    def count(self) -> int:
        """The number of elements combined into each result element."""
        return prod(shape_of(self.x)[axis] for axis in self.axes.get_values())

    def sums(self) -> Sums:
        return Sums.up_to(self.count() * widest(uniform(self.x)), "the sum along its axes")


@irdl_op_definition
class ReduceSumOp(ReduceToSumOp):
    """y = the sum along `axes`; 0 for no elements."""

    name = "nn.reduce_sum"

    def reduced(self, rows: Array) -> Array:
        if self.addition == "float32_reciprocal":
            return added_runs(rows, self.run())
        return self._accumulated(np.add, rows)[-1].astype(rows.dtype)

    def identity(self) -> float:
        return 0

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) / scales(self.y)


@irdl_op_definition
class ReduceMeanOp(ReduceToSumOp):
    """y = the mean along `axes`: the sum divided by the number of elements, in f64, rounded once; NaN for no elements.

    (C2) quantized data have at least one element along the axes, since NaN has no stored integer
    """

    name = "nn.reduce_mean"
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    def infer_shapes(self) -> Sequence[Shape]:
        shapes = super().infer_shapes()
        if is_quantized(self.x) and not self.count():  # C2
            raise VerifyException(f"'{self.name}' has no quantized mean of no elements, got axes "
                                  f"{list(self.axes.get_values())} of {list(shape_of(self.x))}")  # fmt: skip
        return shapes

    def reduced(self, rows: Array) -> Array:
        if self.addition == "float32_reciprocal":
            return added_runs(rows, self.run(), float(np.float32(1) / np.float32(len(rows))))
        return (self._accumulated(np.add, rows)[-1] / len(rows)).astype(rows.dtype)

    def identity(self) -> float:
        return np.nan

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) / (scales(self.y) * scales.dtype(self.count()))


@irdl_op_definition
class ReduceProdOp(AccumulationOp):
    """y = the product along `axes`; 1 for no elements."""

    name = "nn.reduce_prod"
    ADDITIONS: ClassVar[tuple[str, ...]] = IN_ORDER
    WHY_FLOAT: ClassVar[str] = "its products have as many digits as all factors together, which no accumulator holds"

    def reduced(self, rows: Array) -> Array:
        return self._accumulated(np.multiply, rows)[-1].astype(rows.dtype)

    def identity(self) -> float:
        return 1


def accumulated(function: np.ufunc, rows: Array) -> Array:
    """Running sums or products of the rows, combined strictly in order, which numpy's `reduce` does not guarantee."""
    return function.accumulate(rows.astype(np.float64) if rows.dtype.kind == "f" else rows, axis=0, dtype=wide(rows))


def wide(x: Array) -> np.dtype[np.generic]:
    """The dtype in which sums and products are computed: float64 for floats, else the array's own dtype."""
    return np.dtype(np.float64) if x.dtype.kind == "f" else x.dtype


class ExtremeOp(ReductionOp, abc.ABC):
    """The greatest or the least element; on i1, whether any element or every element is true."""

    ELEMENTS: ClassVar[Elements] = Elements.PLAIN | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    traits = traits_def(SameScale())

    def limits(self) -> tuple[float, float]:
        """The least and the greatest value of the element type."""
        dtype = dtype_of(element_of(self.x))
        if dtype.kind == "f":
            return -np.inf, np.inf
        return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


@irdl_op_definition
class ReduceMaxOp(ExtremeOp):
    """y = the greatest element along `axes`, NaN if any is NaN; for no elements, the type's least value."""

    name = "nn.reduce_max"

    def reduced(self, rows: Array) -> Array:
        y: Array = rows.max(axis=0)
        if y.dtype.kind == "f":  # numpy does not define which zero is greater; here +0 > −0
            y = np.where((y == 0) & ~((rows == 0) & ~np.signbit(rows)).any(axis=0), -np.zeros_like(y), y + 0)
        return y

    def identity(self) -> float:
        return self.limits()[0]


@irdl_op_definition
class ReduceMinOp(ExtremeOp):
    """y = the least element along `axes`, NaN if any is NaN; for no elements, the type's greatest value."""

    name = "nn.reduce_min"

    def reduced(self, rows: Array) -> Array:
        y: Array = rows.min(axis=0)
        if y.dtype.kind == "f":
            y = np.where((y == 0) & ((rows == 0) & np.signbit(rows)).any(axis=0), -np.zeros_like(y), y + 0)
        return y

    def identity(self) -> float:
        return self.limits()[1]


class ArgumentOp(AxisOp, abc.ABC):
    """The i64 index along `axis` of the first (with `last`, the last) extreme element; NaN is the most extreme value.

    The axis remains as a dimension of size 1.

    (C1) the axis lies within the rank
    (C2) the axis is not empty
    """

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    YIELDS: ClassVar[Attribute | None] = i64

    last = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axis = shape_of(self.x), self.axis.value.data
        if self.split()[1] == 0:  # C2
            raise VerifyException(f"'{self.name}' has nothing to choose from along axis {axis} of {list(shape)}")
        return [(*shape[:axis], 1, *shape[axis + 1 :])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        axis, length = self.axis.value.data, self.split()[1]
        x = np.flip(inputs[0], axis) if bool(self.last) else inputs[0]
        found = self.first(x, axis)
        return ((length - 1 - found if bool(self.last) else found).astype(np.int64),)

    @abc.abstractmethod
    def first(self, x: Array, axis: int) -> Array:
        """The index of the first extreme element; the axis remains with size 1."""


@irdl_op_definition
class ArgMaxOp(ArgumentOp):
    """The index of the greatest element along `axis`."""

    name = "nn.arg_max"

    def first(self, x: Array, axis: int) -> Array:
        return x.argmax(axis, keepdims=True)


@irdl_op_definition
class ArgMinOp(ArgumentOp):
    """The index of the least element along `axis`."""

    name = "nn.arg_min"

    def first(self, x: Array, axis: int) -> Array:
        return x.argmin(axis, keepdims=True)


class CumulativeOp(AxisOp, AdditionOp, abc.ABC):
    """y[i] = x[0] ∘ … ∘ x[i] along `axis`: floats accumulate in f64, each result rounded once; integers wrap around.

    `qmlir.addition` may name another way to accumulate floats.

    With `exclusive`, y[i] leaves out x[i] itself. With `reverse`, the accumulation starts at the end of the axis.

    (C1) the axis lies within the rank
    """

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS

    ADDITIONS: ClassVar[tuple[str, ...]] = IN_ORDER

    START: ClassVar[int]
    """The result for no elements."""

    exclusive = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    reverse = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    def infer_shapes(self) -> Sequence[Shape]:
        self.split()
        return [shape_of(self.x)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        rows = x.reshape(self.split()).swapaxes(0, 1)
        rows = rows[::-1] if bool(self.reverse) else rows
        if bool(self.exclusive):
            rows = np.concatenate([np.full_like(rows[:1], self.START), rows[:-1]])
        with np.errstate(all="ignore"):
            y = self.gathered(rows).astype(x.dtype)
        y = y[::-1] if bool(self.reverse) else y
        return (np.ascontiguousarray(y.swapaxes(0, 1)).reshape(x.shape),)

    @abc.abstractmethod
    def gathered(self, rows: Array) -> Array:
        """Running sums or products of the rows, [along, before, after]."""


@irdl_op_definition
class CumulativeSumOp(CumulativeOp):
    """y[i] = x[0] + … + x[i] along `axis`; the integer form sums stored integers and requantizes each sum."""

    name = "nn.cumulative_sum"
    START: ClassVar[int] = 0

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    traits = traits_def(FreeScale())

    def sums(self) -> Sums:
        return Sums.up_to(self.split()[1] * widest(uniform(self.x)), "the sum along its axis")

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) / scales(self.y)

    def gathered(self, rows: Array) -> Array:
        return self._accumulated(np.add, rows)


@irdl_op_definition
class CumulativeProductOp(CumulativeOp):
    """y[i] = x[0] · … · x[i] along `axis`."""

    name = "nn.cumulative_product"
    WHY_FLOAT: ClassVar[str] = "each of its products has more digits than the one before, which no single scale holds"
    START: ClassVar[int] = 1

    def gathered(self, rows: Array) -> Array:
        return self._accumulated(np.multiply, rows)


# ---------------------------------------------------------------------------------------------------------------
# Pooling over the two spatial axes of [N, H, W, C].


class WindowPoolOp(UnaryTensorOp, NNOp, WindowOp, abc.ABC):
    """An operation that reduces the elements of a sliding window; x [N,H,W,C], y [N,OH,OW,C].

    (C1) the window is two positive extents, and each padding is smaller than the extent of the dilated window
    (C2) on quantized types each window has an element inside the image: a dilated window may step over the whole image,
         and neither the maximum (−∞) nor the mean (NaN) of no elements has a stored integer
    """

    window = prop_def(DenseArrayBase.constr(i64))

    def window_values(self) -> tuple[int, int]:
        """The window's (rows, columns)."""
        return pair(self.window)

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if len(self.window) != 2 or min(self.window.get_values()) < 1:  # C1
            raise VerifyException(
                f"'{self.name}' needs a window of two positive extents, got {self.window.get_values()}"
            )
        output = self.window_output(x, self.window_values())
        spans = [(k - 1) * d + 1 for k, d in zip(self.window_values(), self.dilation_values(), strict=True)]
        if any(pad >= span for pad, span in zip(self.padding_values(), np.repeat(spans, 2), strict=True)):  # C1
            raise VerifyException(f"'{self.name}' padding must be smaller than its window, got {self.padding_values()}")
        if is_quantized(self.x) and not all(n.all() for n in self.taps_inside(x, self.window_values())):  # C2
            raise VerifyException(
                f"'{self.name}' on quantized values has windows that lie beside the image: window "
                f"{self.window_values()}, padding {self.padding_values()}, dilations {self.dilation_values()}"
            )
        return [(x[0], *output, x[3])]


class PoolOp(WindowPoolOp, abc.ABC):
    """A pool whose result has the scale and zero point of its input."""

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    traits = traits_def(SameScale())


@irdl_op_definition
class MaxPool2DOp(PoolOp):
    """y = the maximum over the window; padded elements are ignored."""

    name = "nn.max_pool2d"
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (self.maximum(x, self.window_values(), least(x.dtype)),)


@irdl_op_definition
class MaxPoolIndices2DOp(WindowPoolOp):
    """y = the position of the window's maximum in the image: row · W + column of its first greatest element.

    i64 [N,OH,OW,C]. Padded elements and NaNs are ignored; a window without any other element yields −1.
    """

    name = "nn.max_pool2d_indices"
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    YIELDS: ClassVar[Attribute | None] = i64

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        rows, columns = x.shape[1:3]
        places = np.arange(rows * columns, dtype=np.int64).reshape(1, rows, columns, 1)
        best = np.zeros(self.infer_shapes()[0], x.dtype)
        found = np.full(best.shape, -1, np.int64)
        taps = zip(
            self.taps(x, self.window_values(), 0),
            self.taps(places, self.window_values(), -1),
            strict=True,
        )
        for tap, place in taps:
            greater = (place >= 0) & ((tap > best) | ((found < 0) & (tap == tap)))
            best, found = np.where(greater, tap, best), np.where(greater, place, found)
        return (found,)


def least(dtype: np.dtype[Any]) -> float:
    """The identity of max in a dtype: −∞ for floats, the least integer for integers."""
    return -np.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


@irdl_op_definition
class AveragePool2DOp(PoolOp, AdditionOp):
    """y = the sum over the window divided by the number of window elements inside the image.

    Floats are added row by row in f32, or as `qmlir.addition` names. With `count_include_pad`, the divisor is the size
    of the window at every position.
    """

    name = "nn.average_pool2d"
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED
    ROUNDS_BY_SIGN: ClassVar[bool] = True  # the mean of stored integers, halves away from zero

    count_include_pad = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    def counts(self) -> Array:
        """The divisor of each output position, int64 [OH, OW]."""
        rows, columns = self.taps_inside(shape_of(self.x), self.window_values())
        if bool(self.count_include_pad):
            return np.full((len(rows), len(columns)), np.prod(self.window_values()))
        return rows[:, None] * columns

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        total, counts = np.zeros(self.infer_shapes()[0], x.dtype), self.counts()[None, :, :, None].astype(x.dtype)
        with np.errstate(all="ignore"):  # the mean of no elements is NaN
            if self.addition == "float32_reciprocal":
                return (self._added_by_nines(x, total) * (x.dtype.type(1) / counts),)
            for tap in self.taps(x, self.window_values(), 0.0):
                total += tap
            return (total / counts,)

    def _added_by_nines(self, x: Array, zero: Array) -> Array:
        rows, columns = self.window_values()
        taps = list(self.taps(x, (rows, columns), 0.0))
        ordered = [Lanes(taps[i * columns + j]) for j in range(columns) for i in range(rows)]
        ordered += [Lanes(zero)] * (-len(ordered) % NINE)
        total = Lanes(zero)
        for at in range(0, len(ordered), NINE):
            total = added_nine(total, ordered[at : at + NINE])
        return total.array


@irdl_op_definition
class GlobalAveragePoolOp(UnaryTensorOp, AdditionOp):
    """y[n,0,0,c] = the mean of x[n,:,:,c]; floats are added in f32, or as `qmlir.addition` names.

    x [N,H,W,C], y [N,1,1,C]. The result has its own scale, because a mean has a narrower range than its input.

    (C1) x has rank 4 and its images are not empty
    """

    name = "nn.global_average_pool"
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    traits = traits_def(FreeScale())

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if len(x) != 4:  # C1
            raise VerifyException(f"'{self.name}' needs an input of rank 4 [N, H, W, C], got rank {len(x)}")
        if 0 in x[1:3]:  # C1
            raise VerifyException(f"'{self.name}' has nothing to average in images of shape {list(x)}")
        return [(x[0], 1, 1, x[3])]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, WITHIN_IMAGES)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        rows = x.reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[3])
        # np.add.accumulate adds in order; np.sum would add pairwise.
        total, count = np.add.accumulate(rows, axis=1, dtype=x.dtype)[:, -1], x.dtype.type(rows.shape[1])
        mean = total * (x.dtype.type(1) / count) if self.addition == "float32_reciprocal" else total / count
        return (mean[:, None, None, :],)

    def count(self) -> int:
        """The number of elements averaged into each result element."""
        _, rows, columns, _ = shape_of(self.x)
        return rows * columns

    def sums(self) -> Sums:
        return Sums.up_to(self.count() * widest(uniform(self.x)), "the sum over the image")

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) / (scales(self.y) * scales.dtype(self.count()))
