"""Fourier transforms: products with constant matrices of cosines and sines, of a length that is known at import."""

import numpy as np

from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Node
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.converters import Table
from qmlir.ir.interfaces import Array, element_of
from qmlir.ir.types import dtype_of

converts = Table()


def transform(length: int, *, inverse: bool, onesided: bool, components: int) -> Array:
    """Returns the matrix [length · components, bins · 2] of a discrete Fourier transform of rows (re₀, im₀, re₁, …).

    bin k of samples x is Σ_n x_n · e^(∓2πi·k·n / length), for an inverse transform divided by the length. Samples of
    one component are real. A one-sided transform has the bins 0 to ⌊length / 2⌋.
    """
    bins = length // 2 + 1 if onesided else length
    turns = np.outer(np.arange(length), np.arange(bins)) % length  # of whole numbers, so that angles are exact
    angles = 2 * np.pi * turns / length * (1 if inverse else -1)
    re, im = np.cos(angles), np.sin(angles)
    by_real, by_imaginary = np.stack([re, im], -1), np.stack([-im, re], -1)
    rows = np.stack([by_real, by_imaginary][:components], 1)  # [length, components, bins, 2]
    return rows.reshape(length * components, bins * 2) / (length if inverse else 1)


def _one_sided_inverse(bins: int, length: int) -> Array:
    """Returns the matrix [bins · 2, length] that brings the first bins of real samples back to these."""
    weights = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == length), 1.0, 2.0)[:, None]
    angles = 2 * np.pi * (np.outer(np.arange(bins), np.arange(length)) % length) / length
    rows = np.stack([weights * np.cos(angles), -weights * np.sin(angles)], 1)
    return rows.reshape(bins * 2, length) / length


@converts("DFT", since=17)
def dft_by_attribute(
    node: Node, x: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    """The transform along an axis, which is an attribute before version 20."""
    return _dft(node, x, dft_length, axis, bool(inverse), bool(onesided))


@converts("DFT", since=20)
def dft(
    node: Node, x: Value, dft_length: Value | None = None, axis: Value | None = None, *,
    inverse: int = 0, onesided: int = 0,
) -> Value:  # fmt: skip
    """The transform of x [B…, N, B…, 1 or 2] along an axis; the last dimension holds real and imaginary parts."""
    along = -2 if axis is None else node.ints(axis, "axis")[0]
    return _dft(node, x, dft_length, along, bool(inverse), bool(onesided))


def _dft(node: Node, x: Value, dft_length: Value | None, axis: int, inverse: bool, onesided: bool) -> Value:
    shape = node.shape(x)
    axis = node.axis(axis, len(shape))
    if len(shape) < 2 or shape[-1] not in (1, 2) or axis == len(shape) - 1:
        raise node.error("it must transform an axis before the last, which holds 1 or 2 parts", str(list(shape)))
    whole = 2 * (shape[axis] - 1) if inverse and onesided else shape[axis]
    length = whole if dft_length is None else node.ints(dft_length, "dft_length")[0]
    if length < 1:
        raise node.error("its dft_length must be positive", str(length))
    if onesided and shape[-1] == (1 if inverse else 2):
        raise UnsupportedError("it is one-sided, and its samples are not real")
    taken = min(shape[axis], length // 2 + 1 if inverse and onesided else length)
    if inverse and onesided:
        matrix, parts = _one_sided_inverse(taken, length), 1
    else:
        full = transform(length, inverse=inverse, onesided=onesided, components=shape[-1])
        matrix, parts = full[: taken * shape[-1]], 2  # samples beyond those that there are would be 0
    return _along(node, x, axis, taken, matrix, parts)


def _along(node: Node, x: Value, axis: int, taken: int, matrix: Array, parts: int) -> Value:
    """Multiplies the first samples along an axis, with their parts, by a matrix; results have so many parts."""
    assert node.bodies is not None
    shape = node.shape(x)
    others = [i for i in range(len(shape) - 1) if i != axis]
    order = [*others, axis, len(shape) - 1]
    moved = node.moved(x, order)
    if taken < shape[axis]:
        bounds = [Constant(np.array([v])) for v in (0, taken, len(order) - 2)]
        moved = node.bodies.operator("Slice", [moved, *bounds], since=13)
    before = [shape[i] for i in others]
    rows = node.reshaped(moved, [*before, taken * shape[-1]])
    factor = Constant(matrix.astype(_dtype(x)))
    y = node.bodies.operator("MatMul", [rows, factor], since=13)
    back = node.reshaped(y, [*before, matrix.shape[1] // parts, parts])
    return node.moved(back, np.argsort(order).tolist())


def _dtype(x: Value) -> np.dtype[np.generic]:
    return x.array.dtype if isinstance(x, Constant) else dtype_of(element_of(x))


@converts("STFT", since=17)
def stft(
    node: Node, signal: Value, frame_step: Value, window: Value | None = None, frame_length: Value | None = None, *,
    onesided: int = 1,
) -> Value:  # fmt: skip
    """Transforms of frames of a signal [B, N, 1 or 2], each frame_step later: [B, frames, bins, 2]."""
    assert node.bodies is not None
    step = node.ints(frame_step, "frame_step")[0]
    batch, samples, components = node.shape(signal)
    given = node.ints(frame_length, "frame_length")[0] if frame_length is not None else None
    length = given if given is not None else samples if window is None else node.shape(window)[0]
    if step < 1 or not 1 <= length <= samples or components not in (1, 2):
        raise node.error(f"its frames must lie in {samples} samples", f"frames of {length}, a step of {step}")
    if onesided and components == 2:
        raise UnsupportedError("it is one-sided, and its samples are not real")
    count = (samples - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = node.bodies.operator("Gather", [signal, Constant(places)], since=13, axis=1)
    if window is not None:
        shaped = node.reshaped(window, (length, 1))
        frames = node.bodies.operator("Mul", [frames, shaped], since=13)
    matrix = transform(length, inverse=False, onesided=bool(onesided), components=components)
    rows = node.reshaped(frames, (batch, count, length * components))
    y = node.bodies.operator("MatMul", [rows, Constant(matrix.astype(_dtype(signal)))], since=13)
    return node.reshaped(y, (batch, count, matrix.shape[1] // 2, 2))
