"""Images sampled at computed places (GridSample, AffineGrid), and values scattered into images (MaxUnpool, Col2Im)."""

from math import prod

import numpy as np
from xdsl.dialects.builtin import StringAttr

from qmlir.dialects.nn.contraction import MatMulOp
from qmlir.dialects.nn.elementwise import AddOp, MulOp
from qmlir.dialects.nn.indexing import SliceOp
from qmlir.dialects.nn.sampling import SampleOp
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.indexing import scatter_rows, slice_properties, whole
from qmlir.frontends.onnx.layout import channels_first, channels_last
from qmlir.frontends.onnx.shape import pad_constant
from qmlir.frontends.values import Constant, Ints, Value, filled
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import element_of

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
    node: Node, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
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
        "method": StringAttr(METHODS[mode]),
        "padding": StringAttr(reflection if padding_mode == "reflection" else padding_mode),
    }
    return channels_first(node, node.compute(SampleOp, [channels_last(node, x), at], properties))


@converts("AffineGrid", since=20)
def affine_grid(node: Node, theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    """Applies θ [N, d, d + 1] to a grid over [−1, 1], with coordinates ordered from the last axis to the first."""
    batch, _, *lengths = node.ints(size, "size")
    if node.shape(theta) != (batch, len(lengths), len(lengths) + 1):
        raise node.error(f"its theta must be {[batch, len(lengths), len(lengths) + 1]}", str(list(node.shape(theta))))
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
    node: Node,
    x: Value,
    indices: Value,
    output_shape: Value | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
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
        raise node.error(f"its output_shape must hold {list(result)}", str(list(wanted)))
    return pad_constant(node, put, [0] * len(more), more, 0.0)


@converts("Col2Im", since=18)
def col2im(
    node: Node,
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
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
