"""Forms of resizing: TFLite's operators if they compute the same weights, else weighted sums of gathered elements.

nn.resize has, for each axis, tables of taps and weights [O, T]: output element o is the weighted sum of T input
elements (its taps).
"""

from collections.abc import Iterator

import numpy as np

from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import INDEX, Graph, Options, Tensor
from qmlir.backends.tflite.values import Values
from qmlir.dialects import nn
from qmlir.ir.interfaces import Array, shape_of

EPSILON = 1e-6
"""The most by which weights may differ from TFLite's, which are float32."""

MODES = ((False, False), (True, False), (False, True))
"""TFLite's modes: (align_corners, half_pixel_centers)."""


@exports(nn.ResizeOp)
def resize(op: nn.ResizeOp, values: Values) -> None:
    """Writes RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR if its weights match, else GATHER, MUL and ADD for each tap."""
    image, result = shape_of(op.x), shape_of(op.y)
    wanted = {axis: _dense(taps, weights, image[axis]) for axis, taps, weights in op.tables()}
    if len(image) == 4 and set(wanted) <= {1, 2}:
        for kind, options, tables in _operators(image, result):
            if all(np.allclose(tables[a], wanted.get(a, np.eye(image[a])), rtol=0, atol=EPSILON) for a in (1, 2)):
                size = values.graph.indices(result[1:3])
                if kind == "RESIZE_BILINEAR" and values.form(op.x).parameters != values.form(op.y).parameters:
                    # The integer kernels keep the input's scale: a requantization behind them would round again.
                    x = values.real(op.x)
                    values.define(op.y, values.graph.operator(kind, [x, size], x.form.shaped(result), options))
                else:
                    values.compute(op, kind, [op.x], options, [size])
                return
    y = values.real(op.x)
    for axis, taps, weights in op.tables():
        y = _along(values.graph, y, axis, taps, weights)
    values.define(op.y, y)


def _operators(image: tuple[int, ...], result: tuple[int, ...]) -> Iterator[tuple[str, Options, dict[int, Array]]]:
    """Yields TFLite's operators with their options and the weights [O, I] that they use along rows and columns."""
    for kind, table in (("RESIZE_BILINEAR", _linear), ("RESIZE_NEAREST_NEIGHBOR", _nearest)):
        for align, half in MODES:
            options = {"AlignCorners": align, "HalfPixelCenters": half}
            yield kind, options, {axis: table(image[axis], result[axis], align, half) for axis in (1, 2)}


def _dense(taps: Array, weights: Array, size: int) -> Array:
    """Converts taps and weights [O, T] to dense weights [O, I] over all input elements."""
    dense = np.zeros((len(taps), size))
    np.add.at(dense, (np.arange(len(taps))[:, None], taps), weights)
    return dense


def _steps(size: int, length: int, align: bool) -> float:
    return (size - 1) / (length - 1) if align and length > 1 else size / length


def _linear(size: int, length: int, align: bool, half: bool) -> Array:
    shift = 0.5 if half else 0.0
    at = (np.arange(length) + shift) * _steps(size, length, align) - shift
    low = np.floor(at)
    taps = np.clip(np.stack([low, low + 1], axis=1), 0, size - 1).astype(np.int64)
    return _dense(taps, np.stack([1 - (at - low), at - low], axis=1), size)


def _nearest(size: int, length: int, align: bool, half: bool) -> Array:
    at = (np.arange(length) + (0.5 if half else 0.0)) * _steps(size, length, align)
    near = np.floor(at + 0.5) if align else np.floor(at)
    return _dense(np.clip(near, 0, size - 1).astype(np.int64)[:, None], np.ones((length, 1)), size)


def _along(graph: Graph, x: Tensor, axis: int, taps: Array, weights: Array) -> Tensor:
    """Returns x resized along one axis by taps and weights [O, T]."""
    total: Tensor | None = None
    form = x.form.shaped((*x.shape[:axis], len(taps), *x.shape[axis + 1 :]))
    for t in range(taps.shape[1]):
        places = graph.constant(taps[:, t].astype(INDEX))
        y = graph.operator("GATHER", [x, places], form, {"Axis": axis})
        if (weights[:, t] != 1).any():
            along = weights[:, t].astype(x.dtype).reshape(-1, *[1] * (len(x.shape) - axis - 1))
            y = graph.pointwise("MUL", y, graph.constant(along))
        total = y if total is None else graph.pointwise("ADD", total, y)
    assert total is not None, "no taps"
    return total
