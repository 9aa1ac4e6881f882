"""Padding of sliding windows: SAME or VALID if it matches, else a separate PAD operator."""

from collections.abc import Sequence
from math import prod

import numpy as np

from qmlir.backends.tflite.graph import Graph, Options, Tensor
from qmlir.backends.tflite.kernels import KERNELS
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import Shape

SAME, VALID = 0, 1
"""The codes of the schema's enumeration Padding."""


def padding_name(op: WindowOp, image: Shape, window: tuple[int, int]) -> int | None:
    """Returns the code of SAME or VALID if it gives the window's padding on [N, H, W, C], else None."""
    top, bottom, left, right = op.padding_values()
    if not (top or bottom or left or right):
        return VALID
    axes = zip(image[1:3], window, op.stride_values(), op.dilation_values(), strict=True)
    return SAME if [same_padding(*axis) for axis in axes] == [(top, bottom), (left, right)] else None


def same_padding(size: int, window: int, stride: int, dilation: int) -> tuple[int, int]:
    """Returns the elements to pad before and after an axis so that ceil(size / stride) windows fit.

    If their number is odd, the additional element comes after the axis.
    """
    windows = -(-size // stride)
    missing = max((windows - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return missing // 2, missing - missing // 2


def padded(graph: Graph, x: Tensor, op: WindowOp, fill: float | None = None) -> Tensor:
    """Pads an image as a window requires, with real zeros or with `fill`, a stored element."""
    top, bottom, left, right = op.padding_values()
    return pad(graph, x, [(0, 0), (top, bottom), (left, right), (0, 0)], fill)


def pad(graph: Graph, x: Tensor, amounts: list[tuple[int, int]], fill: float | None = None) -> Tensor:
    """Pads a tensor.

    Args:
        graph: The graph to which the operator is added.
        x: The tensor; for a quantized tensor PAD fills with the zero point.
        amounts: The elements before and after, for each dimension.
        fill: The padding element, a stored integer if the tensor is quantized; None for real zeros.
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
    """Groups the dimensions; neighbouring dimensions without padding share a group."""
    groups: list[list[int]] = []
    for i, amount in enumerate(amounts):
        if groups and amount == (0, 0) == amounts[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def strides(op: WindowOp) -> Options:
    """Returns the options for a window's strides."""
    down, right = op.stride_values()
    return {"StrideH": down, "StrideW": right}


def dilations(op: WindowOp) -> Options:
    """Returns the options for a window's dilations."""
    down, right = op.dilation_values()
    return {"DilationHFactor": down, "DilationWFactor": right}
