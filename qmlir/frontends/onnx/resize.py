"""Interpolations: resizes, and samples at computed places."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, prod

import numpy as np
from xdsl.dialects.builtin import ArrayAttr

from qmlir.dialects.nn.contraction import MatMulOp
from qmlir.dialects.nn.elementwise import AddOp, MulOp
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.nn.movement import SliceOp
from qmlir.dialects.nn.resize import ResizeOp, SampleOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Floats, Ints, Value, filled
from qmlir.frontends.onnx.movement import pad_constant, scatter_rows, slice_properties, whole
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import channels_first, channels_last
from qmlir.ir.interfaces import Shape, element_of
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import Float64s, Int64s

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Resize and Upsample: a table of taps and weights for each axis, computed in f64 at import.
#
# A tap is the index of a neighbour: an element of the operand that takes part in an element of the result. In mode
# nearest, each axis is a gather, which moves elements of any type. In the other modes, an axis with a single tap of
# weight 1 for each element is a gather, too; `nn.resize` interpolates along the other axes.


@dataclass(frozen=True)
class Axis:
    """The resizing of one axis.

    axis, size     the axis, and its length in the result
    length         its length in the operand
    scale          length in the result over length in the operand, not rounded
    start, end     the part of the axis that is resized if the mode crops, as fractions; 0 and 1 for all of it
    """

    axis: int
    size: int
    length: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def idle(self) -> bool:
        """Whether the resizing leaves the axis as it is."""
        return self.scale == 1 and self.size == self.length and (self.start, self.end) == (0, 1)


# ---------------------------------------------------------------------------------------------------------------
# Coordinate transformations: where the result's elements lie in the operand


def _half_pixel(axis: Axis, o: Float64s) -> Float64s:
    return (o + 0.5) / axis.scale - 0.5


def _half_pixel_symmetric(axis: Axis, o: Float64s) -> Float64s:
    """Aligns the middle of the result with the middle of the operand, even if the size was rounded."""
    return axis.length / 2 * (1 - axis.size / (axis.scale * axis.length)) + _half_pixel(axis, o)


def _pytorch_half_pixel(axis: Axis, o: Float64s) -> Float64s:
    return _half_pixel(axis, o) if axis.size > 1 else np.zeros_like(o)


def _align_corners(axis: Axis, o: Float64s) -> Float64s:
    whole = axis.scale * axis.length
    return o * (axis.length - 1) / (whole - 1) if whole != 1 else np.zeros_like(o)


def _asymmetric(axis: Axis, o: Float64s) -> Float64s:
    return o / axis.scale


def _crop_and_resize(axis: Axis, o: Float64s) -> Float64s:
    whole, last = axis.scale * axis.length, axis.length - 1
    if whole == 1:
        return np.full_like(o, (axis.end - axis.start) * last / 2 + axis.start * last)
    return o * (axis.end - axis.start) * last / (whole - 1) + axis.start * last


TRANSFORMATIONS: dict[str, Callable[[Axis, Float64s], Float64s]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_crop_and_resize": _crop_and_resize,
}

ROUNDINGS: dict[str, Callable[[Axis, Float64s], Float64s]] = {
    "round_prefer_floor": lambda axis, x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda axis, x: np.floor(x + 0.5),
    "floor": lambda axis, x: np.floor(x),
    "ceil": lambda axis, x: np.ceil(x),
    "before version 11": lambda axis, x: np.ceil(x) if axis.scale < 1 else np.floor(x),
}
"""How `nearest_mode` rounds a coordinate to the index of the nearest element."""


# ---------------------------------------------------------------------------------------------------------------
# Weights of the neighbours


def _triangle(distance: Float64s) -> Float64s:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic(a: float) -> Callable[[Float64s], Float64s]:
    """Makes Keys' kernel of cubic convolution with parameter a."""

    def kernel(distance: Float64s) -> Float64s:
        x = np.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel


@dataclass(frozen=True)
class Filter:
    """An interpolation filter.

    kernel           weight of a neighbour by its distance
    reach            number of neighbours on each side
    antialias        whether the kernel widens when the result is smaller than the operand
    exclude_outside  whether neighbours beyond the border have weight 0; else the border's element replaces them
    """

    kernel: Callable[[Float64s], Float64s]
    reach: int
    antialias: bool
    exclude_outside: bool

    def table(self, axis: Axis, x: Float64s) -> tuple[Int64s, Float64s]:
        """Returns (taps, weights), [O, T] each, of the result's elements at the coordinates x [O]."""
        narrow = min(axis.scale, 1.0) if self.antialias else 1.0
        # The left neighbour is the element before x, even if x lies on an element.
        left = np.ceil(x).astype(np.int64) - 1
        first = floor(-self.reach / narrow) + 1
        taps = left[:, None] + np.arange(first, 2 - first)
        weights = self.kernel((taps - x[:, None]) * narrow)
        inside = (taps >= 0) & (taps < axis.length)
        if self.exclude_outside:
            weights = np.where(inside, weights, 0.0)
        if self.exclude_outside or self.antialias:
            total = weights.sum(axis=1, keepdims=True)
            weights = weights / np.where(total == 0, 1.0, total)
        used = np.flatnonzero((weights != 0).any(axis=0))
        kept = slice(used[0], used[-1] + 1) if used.size else slice(0, 1)
        return np.clip(taps, 0, axis.length - 1)[:, kept], weights[:, kept]


# ---------------------------------------------------------------------------------------------------------------
# The operators


@converts("Upsample", since=9, attributes=["scales"], before=7)
def upsample(node: ONNXNode, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """Upsamples by factors."""
    axes = _by_scales(node, node.shape(x), range(node.rank(x)), _floats(node, scales, "scales"))
    return _resize(node, x, axes, mode, "asymmetric", "before version 11", Filter(_triangle, 1, False, False), 0.0)


@converts("Resize", since=10)
def resize_scales(node: ONNXNode, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """Resizes by factors given by an input, as Upsample does."""
    return upsample(node, x, scales, mode=mode)


@converts("Resize", since=11)
def resize(
    node: ONNXNode, x: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None, *,
    antialias: int = 0, axes: Ints | None = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Value:  # fmt: skip
    """Resizes to given sizes or by given factors, in every mode."""
    shape = node.shape(x)
    over = list(range(len(shape))) if axes is None else [node.axis(a, len(shape)) for a in axes]
    factors = () if scales is None else _floats(node, scales, "scales")
    lengths = () if sizes is None else node.ints(sizes, "sizes")
    if bool(factors) == bool(lengths):
        raise node.error("it needs either scales or sizes", "both" if factors else "none")
    if factors:
        found = _by_scales(node, shape, over, factors)
    else:
        found = _by_sizes(node, shape, over, lengths, keep_aspect_ratio_policy)
    if coordinate_transformation_mode == "tf_crop_and_resize":
        found = _cropped(node, found, roi)
    kernel, reach = (_cubic(cubic_coeff_a), 2) if mode == "cubic" else (_triangle, 1)
    kind = Filter(kernel, reach, bool(antialias), bool(exclude_outside))
    return _resize(node, x, found, mode, coordinate_transformation_mode, nearest_mode, kind, extrapolation_value)


def _floats(node: ONNXNode, x: Value, what: str) -> Floats:
    return tuple(float(v) for v in node.array(x, what).reshape(-1))


def _by_scales(node: ONNXNode, shape: Shape, over: Sequence[int], scales: Sequence[float]) -> list[Axis]:
    if len(scales) != len(over) or not all(0 < s < float("inf") for s in scales):
        raise node.error(f"it needs {len(over)} scales above 0", scales)
    return [Axis(a, floor(shape[a] * s), shape[a], s) for a, s in zip(over, scales, strict=True)]


def _by_sizes(node: ONNXNode, shape: Shape, over: Sequence[int], sizes: Ints, policy: str) -> list[Axis]:
    if len(sizes) != len(over) or min(sizes, default=0) < 0 or 0 in [shape[a] for a in over]:
        raise node.error(f"it needs {len(over)} sizes that are not negative, of axes that are not empty", str(sizes))
    scales = [size / shape[a] for a, size in zip(over, sizes, strict=True)]
    if policy in ("not_larger", "not_smaller"):
        scale = min(scales) if policy == "not_larger" else max(scales)
        return [Axis(a, floor(scale * shape[a] + 0.5), shape[a], scale) for a in over]
    if policy != "stretch":
        raise node.error("its keep_aspect_ratio_policy must be stretch, not_larger or not_smaller", policy)
    return [Axis(a, size, shape[a], s) for a, size, s in zip(over, sizes, scales, strict=True)]


def _cropped(node: ONNXNode, axes: Sequence[Axis], roi: Value | None) -> list[Axis]:
    values = () if roi is None else _floats(node, roi, "roi")
    if len(values) != 2 * len(axes):
        raise node.error(f"its roi needs {2 * len(axes)} values", len(values))
    ends = zip(values[: len(axes)], values[len(axes) :], strict=True)
    return [Axis(a.axis, a.size, a.length, a.scale, *bounds) for a, bounds in zip(axes, ends, strict=True)]


def _resize(
    node: ONNXNode, x: Value, axes: Sequence[Axis], mode: str, transformation: str, nearest: str, kind: Filter,
    extrapolation: float,
) -> Value:  # fmt: skip
    """Resizes x along axes; `mode` is nearest, linear (older names: bilinear, trilinear) or cubic."""
    for what, value, known in (
        ("mode", mode, ("nearest", "linear", "bilinear", "trilinear", "cubic")),
        ("coordinate_transformation_mode", transformation, TRANSFORMATIONS),
        ("nearest_mode", nearest, ROUNDINGS),
    ):
        if value not in known:
            raise node.error(f"its attribute {what} must be one of {', '.join(known)}", value)
    if mode == "nearest" and kind.antialias:
        raise UnsupportedError("it antialiases nearest neighbours, which ONNX gives no meaning")
    todo = [a for a in axes if not a.idle]
    low, high = [0] * node.rank(x), [0] * node.rank(x)
    tables: list[tuple[int, Int64s, Float64s]] = []
    for axis in todo:
        if axis.length == 0:
            raise node.error("the axes it resizes must not be empty", node.shape(x))
        places = TRANSFORMATIONS[transformation](axis, np.arange(*node.room((axis.size,)), dtype=np.float64))
        if transformation == "tf_crop_and_resize":  # elements outside the operand are padding, not interpolated
            within = np.flatnonzero((places >= 0) & (places <= axis.length - 1))
            first, last = (within[0], within[-1] + 1) if within.size else (0, 0)
            low[axis.axis], high[axis.axis] = int(first), int(axis.size - last)
            places = places[first:last]
        if mode == "nearest":
            taps = np.clip(ROUNDINGS[nearest](axis, places), 0, axis.length - 1).astype(np.int64)
            tables.append((axis.axis, taps[:, None], np.ones((len(taps), 1))))
        else:
            tables.append((axis.axis, *kind.table(axis, places)))
    padded = any((*low, *high))
    y = _interpolated(node, x, tables, last=not padded)
    return pad_constant(node, y, low, high, extrapolation) if padded else y


def _interpolated(node: ONNXNode, x: Value, tables: Sequence[tuple[int, Int64s, Float64s]], *, last: bool) -> Value:
    """Resizes x along axes, each by a table of taps and weights [O, T].

    An axis with one tap of weight 1 for each element becomes a gather, which moves elements and keeps their scale.

    Args:
        node: The node.
        x: The operand.
        tables: (axis, taps, weights) for each axis.
        last: Whether the result is the node's output.
    """
    sums = [t for t in tables if t[2].shape[1] > 1 or (t[2] != 1).any()]
    moves = [t for t in tables if not any(t is other for other in sums)]
    for i, (axis, taps, _) in enumerate(moves):
        write = node.compute if last and not sums and i == len(moves) - 1 else node.insert
        x = write(GatherOp, [x, Constant(taps.reshape(-1))], {"axis": axis})
    if sums:
        properties = {
            "axes": [axis for axis, _, _ in sums],
            "taps": ArrayAttr([WeightsAttr(taps) for _, taps, _ in sums]),
            "weights": ArrayAttr([WeightsAttr(weights) for _, _, weights in sums]),
        }
        x = (node.compute if last else node.insert)(ResizeOp, [x], properties)
    return x


# ---------------------------------------------------------------------------------------------------------------
# Images sampled at computed places (GridSample, AffineGrid), and values scattered into images (MaxUnpool, Col2Im).


METHODS = {
    "bilinear": "linear",
    "linear": "linear",
    "nearest": "nearest",
    "bicubic": "cubic",
    "cubic": "cubic",
}
"""GridSample's modes, in older and newer spelling, as methods of nn.sample."""


@converts("GridSample", since=16)
def grid_sample(
    node: ONNXNode, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Value:
    """Samples the image x at places in [−1, 1], whose coordinates are ordered from the last axis to the first."""
    if mode not in METHODS or padding_mode not in ("zeros", "border", "reflection"):
        raise node.error("its mode must be nearest, linear or cubic, its padding zeros, border or reflection", mode)
    shape, places = node.shape(x), node.shape(grid)
    element = dtype_of(element_of(node.builder.ssa(x)))
    lengths = np.array(shape[2:], element)
    steps = whole(places)
    steps[-1] = len(lengths) - 1, len(lengths), -1
    unit = node.insert(SliceOp, [grid], slice_properties(steps))
    # [−1, 1] spans the outer edges: (g + 1) · L / 2 − 1/2; with align_corners the outer centres: (g + 1) · (L − 1) / 2.
    scaled = node.insert(AddOp, [unit, Constant(np.ones((), element))])
    half = (lengths - 1) / 2 if align_corners else lengths / 2
    at = node.insert(MulOp, [scaled, Constant(half.astype(element))])
    if not align_corners:
        at = node.insert(AddOp, [at, Constant(np.array(-0.5, element))])
    reflection = "reflect_centres" if align_corners else "reflect_edges"
    properties = {
        "method": METHODS[mode],
        "padding": reflection if padding_mode == "reflection" else padding_mode,
    }
    return channels_first(node, node.compute(SampleOp, [channels_last(node, x), at], properties))


@converts("AffineGrid", since=20)
def affine_grid(node: ONNXNode, theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    """Applies θ [N, d, d + 1] to a grid over [−1, 1], with coordinates ordered from the last axis to the first."""
    batch, _, *lengths = node.ints(size, "size")
    if node.shape(theta) != (batch, len(lengths), len(lengths) + 1):
        raise node.error(f"its theta must be {[batch, len(lengths), len(lengths) + 1]}", node.shape(theta))
    element = dtype_of(element_of(node.builder.ssa(theta)))
    node.room((*lengths, len(lengths) + 1))
    lines = [_line(length, bool(align_corners)) for length in lengths]
    axes = np.meshgrid(*lines, indexing="ij")
    grid = np.stack([*axes[::-1], np.ones(lengths)], -1).reshape(-1, len(lengths) + 1)
    y = node.compute(MatMulOp, [Constant(grid.astype(element)), node.permuted(theta, (0, 2, 1))])
    return node.reshaped(y, (batch, *lengths, len(lengths)))


def _line(length: int, align_corners: bool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns the places of an axis' elements in [−1, 1]."""
    if align_corners:
        return np.linspace(-1.0, 1.0, length)
    return (np.arange(length) * 2 + 1) / length - 1


@converts("MaxUnpool", since=9)
def max_unpool(
    node: ONNXNode, x: Value, indices: Value, output_shape: Value | None = None, *, kernel_shape: Ints, pads: Ints = (),
    strides: Ints = (),
) -> Value:  # fmt: skip
    """Returns zeros with the elements of x put back where a MaxPool found them.

    `indices` are indices into the whole flattened result, before it is extended to `output_shape`.
    """
    shape, count = node.shape(x), len(kernel_shape)
    low_high = pads or (0,) * 2 * count
    sizes = [
        (shape[i + 2] - 1) * (strides[i] if strides else 1) - low_high[i] - low_high[i + count] + kernel_shape[i]
        for i in range(count)
    ]
    result = (*shape[:2], *sizes)
    element = dtype_of(element_of(node.builder.ssa(x)))
    zeros = filled((prod(result),), element.type(0))
    flat, places = node.reshaped(x, (prod(shape),)), node.reshaped(indices, (prod(shape), 1))
    put = node.reshaped(scatter_rows(node, zeros, flat, places, "none"), result)
    if output_shape is None or (wanted := node.ints(output_shape, "output_shape")) == result:
        return put
    more = [after - before for before, after in zip(result, wanted, strict=True)]
    if min(more) < 0:
        raise node.error(f"its output_shape must hold {list(result)}", wanted)
    return pad_constant(node, put, [0] * len(more), more, 0.0)


@converts("Col2Im", since=18)
def col2im(
    node: ONNXNode, x: Value, image_shape: Value, block_shape: Value, *, dilations: Ints = (), pads: Ints = (),
    strides: Ints = (),
) -> Value:  # fmt: skip
    """Adds up blocks [N, C · ∏ block, positions] at their positions in the image [N, C, …]."""
    image, block = node.ints(image_shape, "image_shape"), node.ints(block_shape, "block_shape")
    rank = len(image)
    dilations, strides, pads = dilations or (1,) * rank, strides or (1,) * rank, pads or (0,) * 2 * rank
    batch, columns, positions = node.shape(x)
    channels = columns // prod(block)
    along = [_positions(image[i], block[i], dilations[i], strides[i], pads[i], pads[i + rank]) for i in range(rank)]
    padded = [image[i] + pads[i] + pads[i + rank] for i in range(rank)]
    if channels * prod(block) != columns or prod(a.shape[1] for a in along) != positions or min(pads) < 0:
        raise node.error("its blocks must tile the padded image", f"{columns} columns at {positions} positions")
    # [∏ block, positions, rank]: where each element lies in the padded image.
    node.room((columns, positions, rank))
    grids = np.meshgrid(*[a.reshape(-1) for a in along], indexing="ij")
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    split = [n for a in along for n in a.shape]
    places = np.stack([g.reshape(split).transpose(order).reshape(-1) for g in grids], -1)
    moved = node.permuted(
        node.reshaped(x, (batch * channels, prod(block) * positions)), (1, 0)
    )  # all images and channels share the same places
    zeros = filled((*padded, batch * channels), dtype_of(element_of(node.builder.ssa(x))).type(0))
    summed = scatter_rows(node, zeros, moved, Constant(places.astype(np.int64)), "add")
    steps = [*((pads[i], image[i], 1) for i in range(rank)), (0, batch * channels, 1)]
    inner = node.insert(SliceOp, [summed], slice_properties(steps)) if max(pads) else summed
    first = node.permuted(inner, (rank, *range(rank)))
    return node.reshaped(first, (batch, channels, *image))


def _positions(
    image: int, block: int, dilation: int, stride: int, low: int, high: int
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Returns the index of each element of each block along an axis of the padded image, [block, positions]."""
    count = (image + low + high - (dilation * (block - 1) + 1)) // stride + 1
    return np.arange(block)[:, None] * dilation + np.arange(count)[None, :] * stride
