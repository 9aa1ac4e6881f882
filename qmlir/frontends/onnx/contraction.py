"""Convolutions, transposed and deformable ones too, and matrix products."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.nn.bitwise import AndOp
from qmlir.dialects.nn.contraction import Conv2DOp, FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.elementwise import AddOp, DivOp, LessEqualOp, MaximumOp, MulOp, SubOp, WhereOp
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, SliceOp
from qmlir.dialects.nn.reduction import AveragePool2DOp
from qmlir.dialects.nn.resize import SampleOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import AttributeGroup, Table
from qmlir.frontends.function import Blocked, Constant, Ints, Value
from qmlir.frontends.onnx.blocks import blocked_layer
from qmlir.frontends.onnx.movement import slice_properties
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import channels_first, channels_last
from qmlir.frontends.onnx.windows import Window
from qmlir.frontends.windows import Geometry, convolved, sliced, span, spread
from qmlir.ir.interfaces import Shape, element_of
from qmlir.ir.types import dtype_of

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Conv and ConvTranspose, of any number of spatial dimensions, as convolutions over the rows and columns of images.
#
#     one dimension      the columns of an image of one row
#     two                as they are
#     more               one dimension less at a time: the taps of the outermost dimension become channels, and its
#                        output positions become part of the batch
#     transposed         one convolution for each phase, which is the residue of the output position modulo the stride;
#                        the results are interleaved. Where phases do not apply, such as for dilated weights or weights
#                        that are not plain constants, zeros are inserted between the input's elements instead
#
# A tap is one element of a convolution's window. Padding, slices and concatenations move elements and compute nothing,
# so all of these forms quantize as convolutions do.


SPARSEST = 16
"""The largest ratio of phases to kernel elements for which a transposed convolution is computed phase by phase."""


@converts("Conv")
def conv(
    node: ONNXNode, x: Value, w: Value, b: Value | None = None, *, window: Window, group: int = 1,
    kernel_shape: Ints = (),
) -> Value:  # fmt: skip
    """Convolves x [N,C,…] with w [O,C/group,…] and bias b [O] → y [N,O,…]."""
    image, kernel = _spatial(node, x, w, kernel_shape)
    channels, outputs, inputs = node.shape(x)[1], *node.shape(w)[:2]
    if group < 1 or inputs * group != channels or outputs % group:
        raise node.error(
            f"its weights must have {channels} input channels in {group} groups and outputs for each group",
            f"weights {list(node.shape(w))}",
        )
    windows = window.geometry(node, image, kernel)
    pixels = channels_last(node, x)
    if isinstance(w, Blocked) and group == 1 and windows.is_pointwise():
        flat = node.reshaped(pixels, (int(np.prod(node.shape(pixels)[:-1])), channels))
        if (y := blocked_layer(node, flat, w.reshaped((outputs, inputs)), b)) is not None:
            return channels_first(node, node.builder.ssa(node.reshaped(y, (*node.shape(pixels)[:-1], outputs))))
    weights = node.moved(w, (0, *range(2, node.rank(w)), 1))  # OI… → O…I
    return channels_first(node, convolved(node, pixels, weights, b, windows, group))


@converts("ConvTranspose")
def conv_transpose(
    node: ONNXNode, x: Value, w: Value, b: Value | None = None, *, window: Window, group: int = 1,
    kernel_shape: Ints = (), output_padding: Ints = (), output_shape: Ints = (),
) -> Value:  # fmt: skip
    """Transposed convolution of x [N,C,…] with w [C,O/group,…] and bias b [O] → y [N,O,…].

    Each element of x scales w, and the scaled w is added to y at the position of that element.
    """
    image, kernel = _spatial(node, x, w, kernel_shape)
    (inputs, each), rank = node.shape(w)[:2], len(image)
    if group < 1 or inputs != node.shape(x)[1] or inputs % group:
        raise node.error(
            f"its weights must have {node.shape(x)[1]} input channels in {group} groups",
            f"weights {list(node.shape(w))}",
        )
    strides, dilations, pads = window.whole(node, kernel, rank)
    for what, values in (("output_padding", output_padding), ("output_shape", output_shape)):
        if len(values) not in (0, rank) or min(values, default=0) < 0:
            raise node.error(f"its attribute {what} needs {rank} values, none negative", values)
    more, low, high = output_padding or (0,) * rank, pads[:rank], pads[rank:]
    if output_shape or window.auto_pad.startswith("SAME"):
        wanted = output_shape or tuple(n * s for n, s in zip(image, strides, strict=True))
        full = _full_size(image, kernel, strides, dilations, more)
        low, high = _surplus([n - size for n, size in zip(full, wanted, strict=True)], window.auto_pad)
    elif window.auto_pad == "VALID":
        low = high = (0,) * rank
    split = node.reshaped(w, (group, inputs // group, each, *kernel))
    axes = range(3, 3 + rank)
    by_output = node.reshaped(node.moved(split, (0, 2, *axes, 1)), (group * each, *kernel, inputs // group))
    if (
        type(by_output) is Constant
        and max(strides) > 1 == max(dilations)
        and min(low) >= 0
        and _is_dense(kernel, strides)
    ):
        full = _full_size(image, kernel, strides, dilations, more)
        size = [n - before - after for n, before, after in zip(full, low, high, strict=True)]
        y = _by_phases(node, channels_last(node, x), by_output, b, strides, low, size, group)
        return channels_first(node, y)
    spans = [span(k, d) for k, d in zip(kernel, dilations, strict=True)]
    nothing = (0,) * rank
    windows = Geometry(
        kernel,
        (1,) * rank,
        dilations,
        tuple(s - 1 - p for s, p in zip(spans, low, strict=True)),
        # `spread` inserts zeros behind the last element, too.
        tuple(s - 1 - p + m - (step - 1) for s, p, m, step in zip(spans, high, more, strides, strict=True)),
        nothing,
    )
    weights = node.reversed(by_output, range(1, 1 + rank))
    stuffed = spread(node, channels_last(node, x), strides)
    return channels_first(node, convolved(node, stuffed, weights, b, windows, group))


def _spatial(node: ONNXNode, x: Value, w: Value, kernel_shape: Ints) -> tuple[Ints, Ints]:
    """Returns the spatial sizes of the input and of the weights.

    Raises:
        NodeError: The input and the weights have different numbers of spatial dimensions or none, or `kernel_shape`
            differs from the weights' shape.
    """
    image, kernel = node.shape(x)[2:], node.shape(w)[2:]
    if not image or len(image) != len(kernel):
        got = f"{list(node.shape(x))} and {list(node.shape(w))}"
        raise node.error("its input and weights must have as many spatial dimensions, and at least one", got)
    if kernel_shape and kernel_shape != kernel:
        raise node.error(f"its kernel_shape must be that of its weights, {list(kernel)}", kernel_shape)
    return image, kernel


def _full_size(image: Ints, kernel: Ints, strides: Ints, dilations: Ints, more: Ints) -> Ints:
    """Returns the spatial size of a transposed convolution's result before padding cuts it off."""
    sides = zip(image, kernel, strides, dilations, more, strict=True)
    return tuple(step * (n - 1) + m + span(k, d) for n, k, step, d, m in sides)


def _is_dense(kernel: Ints, strides: Ints) -> bool:
    """Whether enough phases of a transposed convolution have taps; if strides far exceed the kernel, few phases do."""
    return prod(strides) <= SPARSEST * prod(kernel)


def _surplus(totals: Sequence[int], auto_pad: str) -> tuple[Ints, Ints]:
    """Splits a surplus of elements into cuts (before, after); a negative surplus is added at the end."""
    less, more = [max(t, 0) // 2 for t in totals], [max(t, 0) - max(t, 0) // 2 for t in totals]
    low, high = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    return tuple(low), tuple(h + min(t, 0) for h, t in zip(high, totals, strict=True))


def _by_phases(
    node: ONNXNode, image: SSAValue, weights: Constant, bias: Value | None, strides: Ints, low: Ints,
    size: Sequence[int], groups: int,
) -> SSAValue:  # fmt: skip
    """Computes a transposed convolution phase by phase; its result is the `size` elements from `low` on.

    The weights are [O, …, C/groups]. Element q · stride + r of the full result depends on element q − j of the input
    through tap j · stride + r, so each phase r is a convolution of its own. A single convolution computes all phases,
    with output channels [groups, r, …, O/groups], and its result is then interleaved.
    """
    outputs, *kernel, inputs = weights.shape
    rank, each, phases = len(kernel), outputs // groups, prod(strides)
    taps = [-(-k // step) for k, step in zip(kernel, strides, strict=True)]
    missing = [(0, n * step - k) for n, step, k in zip(taps, strides, kernel, strict=True)]
    array = np.pad(weights.array, [(0, 0), *missing, (0, 0)])
    array = array.reshape(groups, each, *(n for pair in zip(taps, strides, strict=True) for n in pair), inputs)
    steps, places = range(3, 3 + 2 * rank, 2), range(2, 2 + 2 * rank, 2)
    array = array.transpose(0, *steps, 1, *places, 2 + 2 * rank).reshape(groups * phases * each, *taps, inputs)
    turned = Constant(np.flip(array, tuple(range(1, 1 + rank))), weights.name)
    if isinstance(bias, Constant):
        each_phase = np.repeat(bias.array.reshape(groups, 1, each), phases, axis=1)
        bias = Constant(each_phase.reshape(-1), bias.name)
    elif bias is not None:
        apart = node.reshaped(bias, (groups, 1, each))
        bias = node.reshaped(node.insert(ConcatOp, [[apart] * phases], {"axis": 1}), (len(array),))
    counts = [-(-(begin + n) // step) for begin, n, step in zip(low, size, strides, strict=True)]
    batch, *present, _ = node.shape(image)
    ones, nothing = (1,) * rank, (0,) * rank
    before, after = tuple(n - 1 for n in taps), tuple(n - own for n, own in zip(counts, present, strict=True))
    y = convolved(node, image, turned, bias, Geometry(tuple(taps), ones, ones, before, after, nothing), groups)
    split = node.reshaped(y, (batch, *counts, groups, *strides, each))
    interleaved = [axis for i in range(rank) for axis in (1 + i, 2 + rank + i)]
    together = node.moved(split, (0, *interleaved, 1 + rank, 2 + 2 * rank))
    shape = (batch, *(n * step for n, step in zip(counts, strides, strict=True)), outputs)
    whole = node.builder.ssa(node.reshaped(together, shape))
    return sliced(node, whole, [0, *low, 0], [batch, *size, outputs])


# ---------------------------------------------------------------------------------------------------------------
# Gemm, MatMul and determinants of small matrices; constant weights are brought into nn's order at import.


@converts("Gemm")
def gemm(
    node: ONNXNode, a: Value, b: Value, c: Value | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Value:  # fmt: skip
    """y = alpha · A' · B' + beta · C; if B is constant, the product is a fully connected layer."""
    for x in (a, b):
        if node.rank(x) != 2:
            raise node.error("its factors must be matrices", f"rank {node.rank(x)}")
    if node.element(a)[0] not in "fb" and not (float(alpha).is_integer() and float(beta).is_integer()):
        raise UnsupportedError(f"it multiplies integers by {alpha} and {beta}")
    data = node.permuted(a, (1, 0)) if transA else node.builder.ssa(a)
    rows, columns = node.shape(data)[0], node.shape(b)[0 if transB else 1]
    addend = None if beta == 0 else c
    bias = None if addend is None else _bias(node, addend, (rows, columns), beta)
    if isinstance(b, Constant):
        whole = addend is None or bias is not None
        scaled = b.times(alpha)
        if whole and (y := blocked_layer(node, data, scaled, bias, outputs=0 if transB else 1)) is not None:
            return y
        weights = node.permuted(scaled, (0, 1) if transB else (1, 0))
        if whole:
            return node.compute(FullyConnectedOp, [data, weights, bias])
        y = node.compute(FullyConnectedOp, [data, weights, None], part="product")
    else:
        if addend is None and alpha == 1:
            return node.compute(MatMulOp, [data, node.permuted(b, (1, 0)) if transB else b])
        y = node.compute(MatMulOp, [data, node.permuted(b, (1, 0)) if transB else b], part="product")
        if alpha != 1:
            factor = node.number(alpha, y)
            if addend is None:
                return node.compute(MulOp, [y, factor])
            y = node.compute(MulOp, [y, factor], part="scaled")
    assert addend is not None
    return node.compute(AddOp, [y, _scaled(node, addend, beta)])


def _bias(node: ONNXNode, c: Value, shape: Shape, beta: float) -> Value | None:
    """Returns beta · C as the bias [columns] of a fully connected layer; None unless C is the same for every row."""
    if isinstance(c, Constant):
        rows = c.array.shape[0] if c.array.ndim == 2 else 1
        if c.array.ndim > 2 or rows != 1 or c.array.shape[-1:] not in ((), (1,), shape[1:]):
            return None
        row = np.broadcast_to(c.array.reshape(-1), shape[1:])
        return (c if row.shape == c.shape else Constant(row, c.name)).times(beta)
    return c if beta == 1 and node.shape(c) == shape[1:] else None


def _scaled(node: ONNXNode, c: Value, beta: float) -> Value:
    """Returns beta · C."""
    if beta == 1:
        return c
    if isinstance(c, Constant):
        return c.times(beta)
    return node.compute(MulOp, [c, node.number(beta, c)], part="addend")


@converts("MatMul")
def matmul(node: ONNXNode, a: Value, b: Value) -> Value:
    """Multiplies as numpy's matmul does; if only B is constant, a matrix B makes a fully connected layer."""
    a_shape, b_shape = node.shape(a), node.shape(b)
    if not a_shape or not b_shape:
        raise node.error("its factors must have at least 1 dimension", "a scalar")
    # As in numpy, a vector A is a row and a vector B is a column; the added dimension is dropped from the result.
    left = node.reshaped(a, (1, *a_shape)) if len(a_shape) == 1 else a
    right = node.reshaped(b, (*b_shape, 1)) if len(b_shape) == 1 else b
    full = (*node.shape(left)[:-1], node.shape(right)[-1])
    if isinstance(right, Constant) and node.rank(right) == 2 and not isinstance(left, Constant):
        y = _fully_connected(node, left, right)
    else:
        y = node.compute(MatMulOp, [left, right])
        full = node.shape(y)
    if len(a_shape) == 1:
        full = (*full[:-2], full[-1])
    return node.reshaped(y, full[:-1] if len(b_shape) == 1 else full)


def _fully_connected(node: ONNXNode, x: Value, w: Constant) -> SSAValue:
    """Adds a fully connected layer: x [B…,M,K] · w [K,N] → [B·M, N]."""
    shape = node.shape(x)
    if shape[-1] != w.shape[0]:
        raise node.error("its factors must agree in the dimension they share", f"{list(shape)} and {list(w.shape)}")
    rows = node.reshaped(x, (int(np.prod(shape[:-1])), shape[-1]))
    y = blocked_layer(node, rows, w, None, outputs=1)
    return node.compute(FullyConnectedOp, [rows, node.permuted(w, (1, 0)), None]) if y is None else y


LARGEST_DETERMINANT = 3
"""The most rows of a matrix whose determinant is imported, as sums of products."""


@converts("Det")
def det(node: ONNXNode, x: Value) -> Value:
    """The determinant of each matrix of x: [B…, M, M] → [B…], as sums of products of elements."""
    if node.rank(x) < 2:
        raise node.error("its input must be matrices", node.shape(x))
    *batch, rows, columns = node.shape(x)
    if rows != columns or not rows:
        raise node.error("its matrices must be square", f"{rows} by {columns}")
    if rows > LARGEST_DETERMINANT:
        raise UnsupportedError(
            f"its matrices have {rows} rows, and qmlir knows determinants of up to {LARGEST_DETERMINANT}"
        )

    def element(i: int, j: int) -> SSAValue:
        nothing = [0] * len(batch)
        return sliced(node, node.builder.ssa(x), [*nothing, i, j], [*batch, 1, 1])

    def minor(row: int, among: tuple[int, ...], is_whole: bool = False) -> SSAValue:
        """Returns the determinant of the rows from `row` on in some columns; `is_whole` makes it the node's result."""
        total: SSAValue | None = None
        for place, column in enumerate(among):
            term, rest = element(row, column), tuple(c for c in among if c != column)
            if rest:
                term = node.insert(MulOp, [term, minor(row + 1, rest)])
            if total is None:
                total = term
                continue
            add = node.compute if is_whole and column == among[-1] else node.insert
            total = add(SubOp if place % 2 else AddOp, [total, term])
        assert total is not None
        return total

    return node.reshaped(minor(0, tuple(range(rows)), is_whole=True), batch)


# ---------------------------------------------------------------------------------------------------------------
# DeformConv and RoiAlign, whose windows lie at computed places: the image is sampled, then convolved or pooled.


def _sampled(node: ONNXNode, image: Value, places: Value, padding: str) -> SSAValue:
    """Interpolates a channels-last image linearly at the given places."""
    properties = {"method": "linear", "padding": padding}
    return node.insert(SampleOp, [image, places], properties)


@converts("DeformConv", since=19)
def deform_conv(
    node: ONNXNode, x: Value, w: Value, offset: Value, b: Value | None = None, mask: Value | None = None, *,
    dilations: Ints = (1, 1), group: int = 1, kernel_shape: Ints = (), offset_group: int = 1,
    pads: Ints = (0, 0, 0, 0), strides: Ints = (1, 1),
) -> Value:  # fmt: skip
    """Samples each tap of each window at its own place, then convolves the samples with a 1x1 window."""
    if node.rank(x) != 4:
        raise UnsupportedError(f"it works on {node.rank(x) - 2} spatial dimensions, and qmlir on 2")
    (n, channels, *size), (outputs, per_group, kh, kw) = node.shape(x), node.shape(w)
    oh, ow = node.shape(offset)[2:]
    taps = kh * kw
    if channels % offset_group or per_group * group != channels or node.shape(offset)[1] != 2 * offset_group * taps:
        raise node.error("its channels must divide into its groups", f"{channels}, {group} and {offset_group}")
    element = dtype_of(element_of(node.builder.ssa(x)))
    node.room((oh, ow, taps, 4))
    start = [np.arange(o) * s - p for o, s, p in zip((oh, ow), strides, pads, strict=False)]
    within = [np.arange(k) * d for k, d in zip((kh, kw), dilations, strict=True)]
    base = np.stack(np.meshgrid(*start, *within, indexing="ij"), 0)  # [4, OH, OW, KH, KW]
    base = np.stack([base[0] + base[2], base[1] + base[3]], -1).reshape(oh, ow, taps, 2)
    moved = node.permuted(node.reshaped(offset, (n, offset_group, taps, 2, oh, ow)), (0, 1, 4, 5, 2, 3))
    places = node.insert(AddOp, [moved, Constant(base.astype(element))])
    each = channels // offset_group
    image = node.permuted(node.reshaped(x, (n * offset_group, each, *size)), (0, 2, 3, 1))
    found: Value = _sampled(node, image, node.reshaped(places, (n * offset_group, oh * ow * taps, 2)), "zeros")
    if mask is not None:
        factors = node.permuted(node.reshaped(mask, (n, offset_group, taps, oh, ow)), (0, 1, 3, 4, 2))
        found = node.insert(MulOp, [found, node.reshaped(factors, (n * offset_group, oh * ow * taps, 1))])
    # [N, G', OH, OW, K, C/G'] → [N, OH, OW, G · K · C/G]
    spread = node.permuted(node.reshaped(found, (n, offset_group, oh, ow, taps, each)), (0, 2, 3, 4, 1, 5))
    grouped = node.permuted(node.reshaped(spread, (n, oh, ow, taps, group, per_group)), (0, 1, 2, 4, 3, 5))
    windows = node.reshaped(grouped, (n, oh, ow, channels * taps))
    weights = node.reshaped(node.permuted(w, (0, 2, 3, 1)), (outputs, 1, 1, taps * per_group))
    properties = {"groups": group} if group > 1 else {}
    return channels_first(node, node.compute(Conv2DOp, [windows, weights, b], properties))


@dataclass(frozen=True)
class Bins(AttributeGroup):
    """The attributes of a RoiAlign: the bins of a region, and the places in a bin."""

    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0


@converts("RoiAlign", since=10)
def roi_align_from_edges(node: ONNXNode, x: Value, rois: Value, batch_indices: Value, *, bins: Bins) -> Value:
    """RoiAlign before version 16, whose coordinates count from the image's edges."""
    return roi_align(node, x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", bins=bins)


@converts("RoiAlign", since=16)
def roi_align(
    node: ONNXNode, x: Value, rois: Value, batch_indices: Value, *,
    coordinate_transformation_mode: str = "half_pixel", bins: Bins,
) -> Value:  # fmt: skip
    """Pools regions [x0, y0, x1, y1] of images into bins; a bin is the mean of samples at a few places inside it."""
    if bins.mode != "avg":
        raise UnsupportedError(f"it takes the {bins.mode} of weighted neighbours, and qmlir means")
    if (ratio := bins.sampling_ratio) < 1:
        raise UnsupportedError("how many places its bins have depends on the regions; it needs a sampling_ratio")
    batch, count = node.shape(x)[0], node.shape(rois)[0]
    element = dtype_of(element_of(node.builder.ssa(x)))
    image = channels_last(node, x)
    if batch > 1:
        image = node.insert(GatherOp, [image, batch_indices], {"axis": 0})
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    scaled = node.insert(MulOp, [rois, Constant(np.array(bins.spatial_scale, element))])
    corners = node.insert(SubOp, [scaled, Constant(np.array(shift, element))]) if shift else scaled
    lines: list[Value] = []
    inside: list[Value] = []
    for axis, count_of in ((1, bins.output_height), (0, bins.output_width)):
        low, high = (
            node.insert(SliceOp, [corners], slice_properties([(0, count, 1), (column, 1, 1)]))
            for column in (axis, axis + 2)
        )
        size = node.insert(SubOp, [high, low])
        if not shift:
            size = node.insert(MaximumOp, [size, Constant(np.ones((), element))])
        each = node.insert(DivOp, [size, Constant(np.array(count_of, element))])
        # The sampling places in units of a bin, the centres of its parts: [1, bins · ratio].
        node.room((count_of, ratio))
        parts = (np.arange(count_of * ratio) + 0.5) / ratio
        line = node.insert(AddOp, [low, node.insert(MulOp, [each, Constant(parts[None].astype(element))])])
        length = node.shape(image)[1 if axis else 2]
        bounds = [
            node.insert(LessEqualOp, [Constant(np.array(-1, element)), line]),
            node.insert(LessEqualOp, [line, Constant(np.array(length, element))]),
        ]
        lines.append(line)
        inside.append(node.insert(AndOp, bounds))
    rows, columns = bins.output_height * ratio, bins.output_width * ratio
    grid = [
        node.insert(BroadcastOp, [node.reshaped(v, shape)], {"shape": (count, rows, columns, 1)})
        for v, shape in zip(lines, ((count, rows, 1, 1), (count, 1, columns, 1)), strict=True)
    ]
    places: Value = node.insert(ConcatOp, [grid], {"axis": 3})
    if node.shape(image)[0] == 1:
        places = node.reshaped(places, (1, count * rows, columns, 2))
    found = node.reshaped(_sampled(node, image, places, "border"), (count, rows, columns, node.shape(x)[1]))
    both = node.insert(AndOp, [
        node.reshaped(inside[0], (count, rows, 1, 1)), node.reshaped(inside[1], (count, 1, columns, 1))
    ])  # fmt: skip
    counted = node.insert(WhereOp, [both, found, Constant(np.zeros((), element))])
    window = (ratio, ratio)
    return channels_first(node, node.compute(AveragePool2DOp, [counted], {"window": window, "strides": window}))
