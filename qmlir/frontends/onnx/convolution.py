"""Conv and ConvTranspose, of any number of spatial dimensions, as convolutions over the rows and columns of images.

    one dimension      the columns of an image of one row
    two                as they are
    more               one dimension less at a time: the taps of the outermost dimension become channels, and its output
                       positions become part of the batch
    transposed         one convolution for each phase, which is the residue of the output position modulo the stride;
                       the results are interleaved. Where phases do not apply, such as for dilated weights or weights
                       that are not plain constants, zeros are inserted between the input's elements instead

A tap is one element of a convolution's window. Padding, slices and concatenations move elements and compute nothing,
so all of these forms quantize as convolutions do.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn.shape import ConcatOp
from qmlir.frontends.builder import Node
from qmlir.frontends.convolution import convolved, spread
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.layout import channels_first, channels_last
from qmlir.frontends.onnx.windows import check_window, geometry
from qmlir.frontends.values import Constant, Ints, Value
from qmlir.frontends.windows import Geometry, sliced, span

SPARSEST = 16
"""The largest ratio of phases to kernel elements for which a transposed convolution is computed phase by phase."""


@converts("Conv")
def conv(
    node: Node,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
    """Convolves x [N,C,…] with w [O,C/group,…] and bias b [O] → y [N,O,…]."""
    image, kernel = _spatial(node, x, w, kernel_shape)
    channels, outputs, inputs = node.shape(x)[1], *node.shape(w)[:2]
    if group < 1 or inputs * group != channels or outputs % group:
        raise node.error(
            f"its weights must have {channels} input channels in {group} groups and outputs for each group",
            f"weights {list(node.shape(w))}",
        )
    windows = geometry(node, image, kernel, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad)
    weights = node.moved(w, (0, *range(2, node.rank(w)), 1))  # OI… → O…I
    return channels_first(node, convolved(node, channels_last(node, x), weights, b, windows, group))


@converts("ConvTranspose")
def conv_transpose(
    node: Node,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    output_padding: Ints = (),
    output_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
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
    check_window(node, rank, kernel, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad)
    for what, values in (("output_padding", output_padding), ("output_shape", output_shape)):
        if len(values) not in (0, rank) or min(values, default=0) < 0:
            raise node.error(f"its attribute {what} needs {rank} values, none negative", str(list(values)))
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    more, pads = output_padding or (0,) * rank, pads or (0,) * 2 * rank
    low, high = pads[:rank], pads[rank:]
    if output_shape or auto_pad.startswith("SAME"):
        wanted = output_shape or tuple(n * s for n, s in zip(image, strides, strict=True))
        full = _full_size(image, kernel, strides, dilations, more)
        low, high = _surplus([n - size for n, size in zip(full, wanted, strict=True)], auto_pad)
    elif auto_pad == "VALID":
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


def _spatial(node: Node, x: Value, w: Value, kernel_shape: Ints) -> tuple[Ints, Ints]:
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
        raise node.error(f"its kernel_shape must be that of its weights, {list(kernel)}", str(list(kernel_shape)))
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
    node: Node,
    image: SSAValue,
    weights: Constant,
    bias: Value | None,
    strides: Ints,
    low: Ints,
    size: Sequence[int],
    groups: int,
) -> SSAValue:
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
        bias = node.reshaped(node.insert(ConcatOp, [[apart] * phases], {"axis": IntegerAttr(1, i64)}), (len(array),))
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
