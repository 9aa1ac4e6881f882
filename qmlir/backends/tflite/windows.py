"""Padding of windows: SAME and VALID, which TFLite has names for, and any other as an operator of its own."""

from collections.abc import Sequence
from math import prod

import numpy as np

from qmlir.backends.tflite.graph import Graph, Options, Tensor
from qmlir.backends.tflite.kernels import KERNELS
from qmlir.dialects.interfaces import Shape
from qmlir.dialects.windows import WindowOp

SAME, VALID = 0, 1
"""Padding in the schema."""


def padding_name(op: WindowOp, image: Shape, window: tuple[int, int]) -> int | None:
    """SAME or VALID, if the padding of a window on [N, H, W, C] is one of them."""
    top, bottom, left, right = op.padding_values()
    if not (top or bottom or left or right):
        return VALID
    axes = zip(image[1:3], window, op.stride_values(), op.dilation_values(), strict=True)
    return SAME if [same_padding(*axis) for axis in axes] == [(top, bottom), (left, right)] else None


def same_padding(size: int, window: int, stride: int, dilation: int) -> tuple[int, int]:
    """Elements before and after an axis so that there are as many windows as strides; the odd one comes after."""
    windows = -(-size // stride)
    missing = max((windows - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return missing // 2, missing - missing // 2


def padded(graph: Graph, x: Tensor, op: WindowOp, fill: float | None = None) -> Tensor:
    """The image with the padding of a window around it: real zeros, or elements of one value."""
    top, bottom, left, right = op.padding_values()
    return pad(graph, x, [(0, 0), (top, bottom), (left, right), (0, 0)], fill)


def pad(graph: Graph, x: Tensor, amounts: list[tuple[int, int]], fill: float | None = None) -> Tensor:
    """A tensor with elements around it.

    Args:
        graph: Where the operator goes.
        x: Any tensor; of a quantized one the zero point is what PAD takes.
        amounts: Elements before and after, for each dimension.
        fill: The element, a stored integer of a quantized tensor; None for real zeros.
    """
    shape = tuple(low + size + high for size, (low, high) in zip(x.shape, amounts, strict=True))
    groups = _groups(amounts) if len(amounts) > KERNELS["PAD"].most else [[i] for i in range(len(amounts))]
    narrow = graph.reshaped(x, tuple(prod(x.shape[i] for i in group) for group in groups))
    form = x.form.shaped(tuple(prod(shape[i] for i in group) for group in groups))
    inputs = [narrow, graph.indices([amounts[group[0]] for group in groups])]
    if fill is None:
        return graph.reshaped(graph.operator("PAD", inputs, form), shape)
    filling = graph.constant(np.array(fill, x.dtype), x.form.parameters)
    return graph.reshaped(graph.operator("PADV2", [*inputs, filling], form), shape)


def _groups(amounts: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Dimensions, neighbours without padding together."""
    groups: list[list[int]] = []
    for i, amount in enumerate(amounts):
        if groups and amount == (0, 0) == amounts[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def strides(op: WindowOp) -> Options:
    """The options of a window's strides."""
    down, right = op.stride_values()
    return {"StrideH": down, "StrideW": right}


def dilations(op: WindowOp) -> Options:
    """The options of a window's dilations."""
    down, right = op.dilation_values()
    return {"DilationHFactor": down, "DilationWFactor": right}
