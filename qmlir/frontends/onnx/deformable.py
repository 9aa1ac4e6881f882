"""DeformConv and RoiAlign, whose windows lie at computed places: the image is sampled, then convolved or pooled."""

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import Conv2DOp
from qmlir.dialects.nn.elementwise import AddOp, AndOp, DivOp, LessEqualOp, MaximumOp, MulOp, SubOp, WhereOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, GatherOp, SliceOp
from qmlir.dialects.nn.reduction import AveragePool2DOp
from qmlir.dialects.nn.resize import SampleOp
from qmlir.dialects.windows import ints
from qmlir.frontends.builder import Node
from qmlir.frontends.function import Constant, Ints, Refusal, Value
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.movement import slice_properties
from qmlir.frontends.onnx.types import channels_first, channels_last
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import dtype_of


def _sampled(node: Node, image: Value, places: Value, padding: str) -> SSAValue:
    """Interpolates a channels-last image linearly at the given places."""
    properties = {"method": StringAttr("linear"), "padding": StringAttr(padding)}
    return node.insert(SampleOp, [image, places], properties)


@converts("DeformConv", since=19)
def deform_conv(
    node: Node,
    x: Value,
    w: Value,
    offset: Value,
    b: Value | None = None,
    mask: Value | None = None,
    *,
    dilations: Ints = (1, 1),
    group: int = 1,
    kernel_shape: Ints = (),
    offset_group: int = 1,
    pads: Ints = (0, 0, 0, 0),
    strides: Ints = (1, 1),
) -> Value:
    """Samples each tap of each window at its own place, then convolves the samples with a 1x1 window."""
    if node.rank(x) != 4:
        raise Refusal(f"it works on {node.rank(x) - 2} spatial dimensions, and qmlir on 2")
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
    properties = {"groups": IntegerAttr(group, i64)} if group > 1 else {}
    return channels_first(node, node.compute(Conv2DOp, [windows, weights, b], properties))


@converts("RoiAlign", since=10)
def roi_align_from_edges(
    node: Node,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:
    """RoiAlign before version 16, whose coordinates count from the image's edges."""
    return roi_align(
        node, x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", mode=mode,
        output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )  # fmt: skip


@converts("RoiAlign", since=16)
def roi_align(
    node: Node,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:
    """Pools regions [x0, y0, x1, y1] of images into bins; a bin is the mean of samples at a few places inside it."""
    if mode != "avg":
        raise Refusal(f"it takes the {mode} of weighted neighbours, and qmlir means")
    if sampling_ratio < 1:
        raise Refusal("how many places its bins have depends on the regions; it needs a sampling_ratio")
    batch, count = node.shape(x)[0], node.shape(rois)[0]
    element = dtype_of(element_of(node.builder.ssa(x)))
    image = channels_last(node, x)
    if batch > 1:
        image = node.insert(GatherOp, [image, batch_indices], {"axis": IntegerAttr(0, i64)})
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    scaled = node.insert(MulOp, [rois, Constant(np.array(spatial_scale, element))])
    corners = node.insert(SubOp, [scaled, Constant(np.array(shift, element))]) if shift else scaled
    lines: list[Value] = []
    inside: list[Value] = []
    for axis, bins in ((1, output_height), (0, output_width)):
        low, high = (
            node.insert(SliceOp, [corners], slice_properties([(0, count, 1), (column, 1, 1)]))
            for column in (axis, axis + 2)
        )
        size = node.insert(SubOp, [high, low])
        if not shift:
            size = node.insert(MaximumOp, [size, Constant(np.ones((), element))])
        each = node.insert(DivOp, [size, Constant(np.array(bins, element))])
        # The sampling places in units of a bin, the centres of its parts: [1, bins · ratio].
        node.room((bins, sampling_ratio))
        parts = (np.arange(bins * sampling_ratio) + 0.5) / sampling_ratio
        line = node.insert(AddOp, [low, node.insert(MulOp, [each, Constant(parts[None].astype(element))])])
        length = node.shape(image)[1 if axis else 2]
        bounds = [
            node.insert(LessEqualOp, [Constant(np.array(-1, element)), line]),
            node.insert(LessEqualOp, [line, Constant(np.array(length, element))]),
        ]
        lines.append(line)
        inside.append(node.insert(AndOp, bounds))
    rows, columns = output_height * sampling_ratio, output_width * sampling_ratio
    grid = [
        node.insert(BroadcastOp, [node.reshaped(v, shape)], {"shape": ints((count, rows, columns, 1))})
        for v, shape in zip(lines, ((count, rows, 1, 1), (count, 1, columns, 1)), strict=True)
    ]
    places: Value = node.insert(ConcatOp, [grid], {"axis": IntegerAttr(3, i64)})
    if node.shape(image)[0] == 1:
        places = node.reshaped(places, (1, count * rows, columns, 2))
    found = node.reshaped(_sampled(node, image, places, "border"), (count, rows, columns, node.shape(x)[1]))
    both = node.insert(AndOp, [
        node.reshaped(inside[0], (count, rows, 1, 1)), node.reshaped(inside[1], (count, 1, columns, 1))
    ])  # fmt: skip
    counted = node.insert(WhereOp, [both, found, Constant(np.zeros((), element))])
    window = ints((sampling_ratio, sampling_ratio))
    return channels_first(node, node.compute(AveragePool2DOp, [counted], {"window": window, "strides": window}))
