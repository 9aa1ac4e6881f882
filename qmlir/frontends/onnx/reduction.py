"""Reductions along axes, and pools over windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import AddOp, DivOp, MulOp, PowOp, SubOp
from qmlir.dialects.nn.functions import AbsOp, SqrtOp
from qmlir.dialects.nn.reduction import (
    ArgumentOp,
    AveragePool2DOp,
    CumulativeOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    MaxPoolIndices2DOp,
    ReductionOp,
    WindowPoolOp,
)
from qmlir.errors import UnsupportedError
from qmlir.formats.onnx import ARGUMENTS, CUMULATIVE, REDUCTIONS
from qmlir.frontends.builder import Properties
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Ints, Value, filled
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import channels_first, channels_last
from qmlir.frontends.onnx.windows import Window
from qmlir.frontends.windows import Geometry, convolved, cropped, padded
from qmlir.ir.interfaces import Shape, element_of
from qmlir.ir.types import dtype_of

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Reductions over axes, ArgMax and ArgMin, cumulative sums and products, and Hardmax.
#
# Some reductions are composed of several operations: L1 and L2 norms, sums of squares, logarithms of sums. A mean
# becomes a global average pool, which has an integer form; the reduced axes become the image's spatial dimensions.
# Floats of 16 bits are computed in f32 and rounded once, as onnxruntime does: squares and sums are beyond their range.


Reducer = Callable[[ONNXNode, Value, list[int]], Value]
"""A reduction: (node, x, ascending axes) → the result, with the axes kept as dimensions of size 1."""


def _over(op: type[ReductionOp]) -> Reducer:
    return lambda node, x, axes: node.compute(op, [x], {"axes": axes})


def _step(
    node: ONNXNode, op: type[nn.AbsOp | nn.ReduceSumOp], x: Value, part: str, axes: list[int] | None = None
) -> Value:
    """Adds an operation that computes an intermediate tensor of the result, called `part`."""
    return node.compute(op, [x], {"axes": axes}, part=part)


def _l1(node: ONNXNode, x: Value, axes: list[int]) -> Value:
    magnitudes = _step(node, nn.AbsOp, node.widened(x), "magnitude")
    return node.compute(nn.ReduceSumOp, [magnitudes], {"axes": axes}, half=node.half_of(x))


def _sum_of_squares(
    node: ONNXNode, x: Value, axes: list[int], part: str | None = None, half: Attribute | None = None
) -> SSAValue:
    square = node.compute(nn.MulOp, [x, x], part="square")
    total = node.compute(nn.ReduceSumOp, [square], {"axes": axes}, part=part, half=half)
    node.mark_powers(2)
    return total


def _square_sum(node: ONNXNode, x: Value, axes: list[int]) -> Value:
    return _sum_of_squares(node, node.widened(x), axes, half=node.half_of(x))


def _l2(node: ONNXNode, x: Value, axes: list[int]) -> Value:
    squares = _sum_of_squares(node, node.widened(x), axes, "squares")
    y = _of_reals(node, nn.SqrtOp, squares, node.half_of(x))
    node.mark_powers(2)
    return y


def _log_sum(node: ONNXNode, x: Value, axes: list[int]) -> Value:
    return _of_reals(node, nn.LogOp, _step(node, nn.ReduceSumOp, node.widened(x), "sum", axes), node.half_of(x))


def _of_reals(node: ONNXNode, op: type[nn.SqrtOp | nn.LogOp], x: Value, half: Attribute | None) -> Value:
    """Applies a function to floats; integers are computed in f64 and the result is cast back, rounded toward zero."""
    value = node.builder.ssa(x)
    if node.element(value).startswith(("f", "bf")):
        return node.compute(op, [value], half=half)
    y = node.insert(op, [node.converted(value, f64)])
    return node.compute(nn.CastOp, [y], element=element_of(value))


def _log_sum_exp(node: ONNXNode, x: Value, axes: list[int]) -> Value:
    """Computes m + log Σ exp(x − m), where m is the greatest element, clamped to finite numbers."""
    most, half, x = float(np.finfo(np.float32).max), node.half_of(x), node.widened(x)
    greatest = node.compute(nn.ReduceMaxOp, [x], {"axes": axes}, part="greatest")
    m = node.compute(nn.ClampOp, [greatest], {"min": -most, "max": most}, part="shift")
    shifted = node.compute(nn.SubOp, [x, m], part="shifted")
    powers = node.compute(nn.ExpOp, [shifted], part="powers")
    total = _step(node, nn.ReduceSumOp, powers, "sum", axes)
    return node.compute(nn.AddOp, [node.compute(nn.LogOp, [total], part="log"), m], half=half)


def _mean(node: ONNXNode, x: Value, axes: list[int]) -> Value:
    """Computes the mean as a global average pool for f32, f16 and bf16, else as the sum divided by the count."""
    shape = node.shape(x)
    kept = [1 if i in axes else size for i, size in enumerate(shape)]
    count = prod(shape[a] for a in axes)
    if node.element(x) not in ("f32", "f16", "bf16") or count == 0:
        total = _step(node, nn.ReduceSumOp, x, "sum", axes)
        divisor = Constant(np.array(count).astype(dtype_of(element_of(node.builder.ssa(total)))))
        return node.compute(nn.DivOp, [total, divisor])
    if len(shape) == 4 and axes == [2, 3]:  # the usual image of a convolution, whose transposes cancel
        return channels_first(node, node.compute(nn.GlobalAveragePoolOp, [channels_last(node, x)]))
    if axes and axes != list(range(axes[0], axes[-1] + 1)):
        x = node.permuted(x, [*(i for i in range(len(shape)) if i not in axes), *axes])
        outer, inner = prod(kept), 1
    else:
        first, end = (axes[0], axes[-1] + 1) if axes else (len(shape), len(shape))
        outer, inner = prod(shape[:first]), prod(shape[end:])
    y = node.compute(nn.GlobalAveragePoolOp, [node.reshaped(x, (outer, count, 1, inner))])
    return node.reshaped(y, kept)


REDUCERS: dict[str, tuple[int, Reducer]] = {
    **{kind: (since, _over(op)) for op, (kind, since) in REDUCTIONS.items()},
    "ReduceMean": (18, _mean),
    "ReduceL1": (18, _l1),
    "ReduceL2": (18, _l2),
    "ReduceSumSquare": (18, _square_sum),
    "ReduceLogSum": (18, _log_sum),
    "ReduceLogSumExp": (18, _log_sum_exp),
}
"""Operator → (the operator set version from which the axes are an input, its reduction)."""


def _reduced(node: ONNXNode, reduce: Reducer, x: Value, axes: Sequence[int], keepdims: int) -> Value:
    y = reduce(node, x, node.axes(axes, node.rank(x)))
    if keepdims:
        return y
    gone = [a % max(node.rank(x), 1) for a in axes]
    return node.reshaped(y, [size for i, size in enumerate(node.shape(y)) if i not in gone])


def _reduction(reduce: Reducer) -> Callable[..., Value]:
    def convert(
        node: ONNXNode, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value:
        given = () if axes is None else node.ints(axes, "axes")
        if not given and not noop_with_empty_axes:
            given = tuple(range(node.rank(x)))
        return _reduced(node, reduce, x, given, keepdims)

    return convert


for _operator, (_since, _reduce) in REDUCERS.items():
    converts(_operator, since=_since, attributes=["axes"])(_reduction(_reduce))


def _argument(op: type[ArgumentOp]) -> Callable[..., Value]:
    def convert(node: ONNXNode, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
        axis = node.axis(axis, node.rank(x))
        y = node.compute(op, [x], {"axis": axis, "last": bool(select_last_index)})
        shape = node.shape(y)
        return y if keepdims else node.reshaped(y, [*shape[:axis], *shape[axis + 1 :]])

    return convert


for _argument_op, _operator in ARGUMENTS.items():
    converts(_operator)(_argument(_argument_op))


def _cumulative(op: type[CumulativeOp]) -> Callable[..., Value]:
    def convert(node: ONNXNode, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
        along = node.axis(node.only(axis, "axis"), node.rank(x))
        return node.compute(op, [x], {"axis": along, "exclusive": exclusive, "reverse": reverse})

    return convert


for _cumulative_op, (_operator, _since) in CUMULATIVE.items():
    converts(_operator, since=_since)(_cumulative(_cumulative_op))


@converts("Hardmax")
def hardmax_flattened(node: ONNXNode, x: Value, *, axis: int = 1) -> Value:
    """Hardmax before version 13: over all dimensions from `axis` on, as if they were one dimension."""
    return node.reshaped(hardmax(node, node.matrix(x, axis), axis=1), node.shape(x))


@converts("Hardmax", since=13)
def hardmax(node: ONNXNode, x: Value, *, axis: int = -1) -> Value:
    """Returns 1 at the first greatest element along an axis, else 0."""
    shape = node.shape(x)
    axis = node.axis(axis, len(shape))
    place = node.compute(nn.ArgMaxOp, [x], {"axis": axis}, part="place")
    indices = np.arange(*node.room((shape[axis],))).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    chosen = node.compute(nn.EqualOp, [Constant(indices.astype(np.int64)), place], part="chosen")
    return node.compute(nn.CastOp, [chosen], element=element_of(node.builder.ssa(x)))


# ---------------------------------------------------------------------------------------------------------------
# Pools over windows and over whole images, with any number of spatial dimensions.
#
# nn pools the rows and columns of images. A pool over one dimension pools an image of one row. A pool over more than
# two dimensions is split: the innermost two dimensions are pooled first, with the outer dimensions in the batch; then
# the outer dimensions are pooled, with the inner two in the channels. So a maximum is a maximum of maxima, and a mean
# is a mean of means, since the number of elements in a window is the product of its counts along each dimension.


@converts("MaxPool")
def max_pool(
    node: ONNXNode, x: Value, *, window: Window, ceil_mode: bool = False, kernel_shape: Ints, storage_order: int = 0
) -> Value | tuple[Value, Value]:
    """Returns the maximum over each window and, if used, its index in the whole tensor.

    With `storage_order` 1 the index counts along columns before rows.
    """
    windows = window.geometry(node, spatial(node, x), kernel_shape, ceil_mode=ceil_mode)
    if _overlooks_image(windows):
        raise UnsupportedError("its padding is as large as its window, which then may see no element")
    wants_places = bool(node.outputs[1:2] and node.outputs[1])
    if wants_places and (len(windows.kernel) > 2 or min(windows.low + windows.high) < 0):
        raise UnsupportedError(
            "the places of its maxima are used, which qmlir gives in one or two dimensions, not cropped"
        )
    image, windows = cropped(node, channels_last(node, x), windows)
    y = channels_first(node, _Pool(node, MaxPool2DOp).over(image, windows))
    if not wants_places:
        return y
    places = channels_first(node, _Pool(node, MaxPoolIndices2DOp).over(image, windows, "places"))
    return y, _counted_through(node, places, node.shape(x), bool(storage_order))


def _counted_through(node: ONNXNode, places: SSAValue, shape: Shape, columns_first: bool) -> SSAValue:
    """Converts indices into one image, row · width + column, to indices into the whole tensor [N, C, …]."""

    def number(value: int) -> Constant:
        return Constant(np.array(value, np.int64))

    size = prod(shape[2:])
    if columns_first and len(shape) == 4:
        row = node.insert(DivOp, [places, number(shape[3])])
        column = node.insert(SubOp, [places, node.insert(MulOp, [row, number(shape[3])])])
        places = node.insert(AddOp, [node.insert(MulOp, [column, number(shape[2])]), row])
    before = (
        np.arange(*node.room((shape[0] * shape[1],)), dtype=np.int64).reshape(*shape[:2], *(1 for _ in shape[2:]))
        * size
    )
    return node.compute(AddOp, [places, Constant(before)], output=1)


@converts("LpPool")
def lp_pool(
    node: ONNXNode, x: Value, *, window: Window, ceil_mode: bool = False, kernel_shape: Ints, p: int = 2
) -> Value:
    """y = (Σ |x|^p)^(1/p) over each window; the sum is a convolution with weights of 1."""
    windows = window.geometry(node, spatial(node, x), kernel_shape, ceil_mode=ceil_mode)
    return _lp_pool(node, x, windows, p)


@converts("GlobalLpPool")
def global_lp_pool(node: ONNXNode, x: Value, *, p: int = 2) -> Value:
    """y = (Σ |x|^p)^(1/p) over each image."""
    size = spatial(node, x)
    windows = Window().geometry(node, size, size)
    return _lp_pool(node, x, windows, p)


def _lp_pool(node: ONNXNode, x: Value, windows: Geometry, p: int) -> Value:
    if p < 1:
        raise node.error("its attribute p must be at least 1", str(p))
    if windows.is_pointwise():
        return node.compute(AbsOp, [x])  # of one element, without a power whose integers have half of its digits
    half, image, channels = node.half_of(x), node.builder.ssa(node.widened(channels_last(node, x))), node.shape(x)[1]
    match p:
        case 1:
            powers = node.compute(AbsOp, [image], part="powers")
        case 2:
            powers = node.compute(MulOp, [image, image], part="powers")
        case _:
            size = node.insert(AbsOp, [image])
            powers = node.compute(PowOp, [size, node.number(p, size)], part="powers")
    ones = filled((channels, *windows.kernel, 1), node.number(1, powers).array)
    last = p == 1 and half is None
    sums = convolved(node, powers, ones, None, windows, channels, part=None if last else "sums")
    match p:
        case 1:
            y = sums if last else node.compute(nn.CastOp, [sums], element=half)
        case 2:
            y = node.compute(SqrtOp, [sums], half=half)
        case _:
            y = node.compute(PowOp, [sums, node.number(1 / p, sums)], half=half)
    if p > 1:
        node.mark_powers(p)
    return channels_first(node, y)


@converts("AveragePool")
def average_pool(
    node: ONNXNode, x: Value, *, window: Window, ceil_mode: bool = False, count_include_pad: bool = False,
    kernel_shape: Ints,
) -> Value:  # fmt: skip
    """The mean over each window; padding counts as elements only if `count_include_pad` is set."""
    windows = window.geometry(node, spatial(node, x), kernel_shape, ceil_mode=ceil_mode)
    image, windows = cropped(node, channels_last(node, x), windows)
    include = count_include_pad and max(windows.low + windows.high) > 0
    if include and (max(windows.extra) > 0 or _overlooks_image(windows)):
        # Padding counts but what ceil_mode adds never does, so the padding becomes part of the image.
        image, include = padded(node, image, (0, *windows.low, 0), (0, *windows.high, 0)), False
        nothing = (0,) * len(windows.low)
        windows = Geometry(windows.kernel, windows.strides, windows.dilations, nothing, nothing, windows.extra)
    elif _overlooks_image(windows):
        raise UnsupportedError("its padding is as large as its window, which then may see no element")
    pool = _Pool(node, AveragePool2DOp, {"count_include_pad": include})
    return channels_first(node, pool.over(image, windows))


def spatial(node: ONNXNode, x: Value) -> Ints:
    """Returns the spatial sizes of an input [N, C, …].

    Raises:
        NodeError: The input has no spatial dimension.
    """
    shape = node.shape(x)
    if len(shape) < 3:
        raise node.error("its input must have at least one spatial dimension", shape)
    return shape[2:]


def _overlooks_image(windows: Geometry) -> bool:
    """Whether some window may lie entirely in the padding."""
    return any(
        max(low, high + extra) >= span
        for low, high, extra, span in zip(windows.low, windows.high, windows.extra, windows.spans(), strict=True)
    )


@dataclass(frozen=True)
class _Pool:
    """A pooling operation of a node, for channels-last images of any rank.

    node        the node
    op_type     the nn operation
    properties  properties of the operation besides its window
    """

    node: ONNXNode
    op_type: type[WindowPoolOp]
    properties: Properties = field(default_factory=dict[str, bool])

    def over(self, image: SSAValue, windows: Geometry, part: str | None = None) -> SSAValue:
        """Pools [N, …, C] → [N, …, C]; if `part` is given, as an intermediate tensor of that name."""
        batch, *sizes, channels = self.node.shape(image)
        match len(sizes):
            case 1:
                y = self.over(self._seen_as(image, (batch, 1, *sizes, channels)), windows.of_rows(), part)
                return self._seen_as(y, (batch, self.node.shape(y)[2], channels))
            case 2:
                properties = {**windows.properties(), "window": windows.kernel, **self.properties}
                return self.node.compute(self.op_type, [image], properties, part=part)
            case _:
                *outer, rows, columns = sizes
                planes = self._seen_as(image, (batch * prod(outer), rows, columns, channels))
                planes = self.over(planes, windows.along(slice(-2, None)), f"{part}.planes" if part else "planes")
                inner = self.node.shape(planes)[1:]
                stack = self._seen_as(planes, (batch, *outer, prod(inner)))
                y = self.over(stack, windows.along(slice(-2)), part)
                return self._seen_as(y, (batch, *self.node.shape(y)[1:-1], *inner))

    def _seen_as(self, x: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        return self.node.builder.ssa(self.node.reshaped(x, shape))


@converts("GlobalMaxPool")
def global_max_pool(node: ONNXNode, x: Value) -> Value:
    """The maximum of each channel of each image: a pool whose window is the whole image."""
    image, rank = _pixels(node, x)
    y = node.compute(MaxPool2DOp, [image], {"window": node.shape(image)[1:3]})
    return _of_rank(node, y, rank)


@converts("GlobalAveragePool")
def global_average_pool(node: ONNXNode, x: Value) -> Value:
    """The mean of each channel of each image."""
    image, rank = _pixels(node, x)
    return _of_rank(node, node.compute(GlobalAveragePoolOp, [image]), rank)


def _pixels(node: ONNXNode, x: Value) -> tuple[SSAValue, int]:
    """Returns the input [N, C, …] as images [N, H, W, C], of one row unless it has two dimensions; and its rank."""
    sizes, image = spatial(node, x), channels_last(node, x)
    if len(sizes) != 2:
        batch, channels = node.shape(x)[:2]
        image = node.builder.ssa(node.reshaped(image, (batch, 1, prod(sizes), channels)))
    return image, len(sizes) + 2


def _of_rank(node: ONNXNode, y: SSAValue, rank: int) -> Value:
    """Converts a result [N, 1, 1, C] to [N, C, 1, …] of the given rank."""
    batch, _, _, channels = node.shape(y)
    return channels_first(node, node.builder.ssa(node.reshaped(y, (batch, *(1,) * (rank - 2), channels))))
