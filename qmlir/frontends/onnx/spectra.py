"""Spectra: Fourier transforms of a length that is known at import, and the bands of hearing that their bins go to.

A transform is a product with a constant matrix of cosines and sines.
"""

import numpy as np
from onnx import TensorProto

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import element_dtype
from qmlir.ir.interfaces import Array

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
    node: ONNXNode, x: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    """The transform along an axis, which is an attribute before version 20."""
    return _dft(node, x, dft_length, axis, bool(inverse), bool(onesided))


@converts("DFT", since=20)
def dft(
    node: ONNXNode, x: Value, dft_length: Value | None = None, axis: Value | None = None, *,
    inverse: int = 0, onesided: int = 0,
) -> Value:  # fmt: skip
    """The transform of x [B…, N, B…, 1 or 2] along an axis; the last dimension holds real and imaginary parts."""
    along = -2 if axis is None else node.ints(axis, "axis")[0]
    return _dft(node, x, dft_length, along, bool(inverse), bool(onesided))


def _dft(node: ONNXNode, x: Value, dft_length: Value | None, axis: int, inverse: bool, onesided: bool) -> Value:
    shape = node.shape(x)
    axis = node.axis(axis, len(shape))
    if len(shape) < 2 or shape[-1] not in (1, 2) or axis == len(shape) - 1:
        raise node.error("it must transform an axis before the last, which holds 1 or 2 parts", shape)
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


def _along(node: ONNXNode, x: Value, axis: int, taken: int, matrix: Array, parts: int) -> Value:
    """Multiplies the first samples along an axis, with their parts, by a matrix; results have so many parts."""
    shape = node.shape(x)
    others = [i for i in range(len(shape) - 1) if i != axis]
    order = [*others, axis, len(shape) - 1]
    moved = node.moved(x, order)
    if taken < shape[axis]:
        bounds = [Constant(np.array([v])) for v in (0, taken, len(order) - 2)]
        moved = node.operator("Slice", moved, *bounds, since=13)
    before = [shape[i] for i in others]
    rows = node.reshaped(moved, [*before, taken * shape[-1]])
    factor = Constant(matrix.astype(node.dtype(x)))
    y = node.operator("MatMul", rows, factor, since=13)
    back = node.reshaped(y, [*before, matrix.shape[1] // parts, parts])
    return node.moved(back, np.argsort(order).tolist())


@converts("STFT", since=17)
def stft(
    node: ONNXNode, signal: Value, frame_step: Value, window: Value | None = None, frame_length: Value | None = None, *,
    onesided: int = 1,
) -> Value:  # fmt: skip
    """Transforms of frames of a signal [B, N, 1 or 2], or [B, N], each frame_step later: [B, frames, bins, 2]."""
    step = node.ints(frame_step, "frame_step")[0]
    if len(node.shape(signal)) == 2:  # which onnxruntime takes for real samples
        signal = node.reshaped(signal, (*node.shape(signal), 1))
    if len(node.shape(signal)) != 3:
        raise node.error("its signal must be samples of a batch, [B, N, 1 or 2]", str(list(node.shape(signal))))
    batch, samples, components = node.shape(signal)
    given = node.ints(frame_length, "frame_length")[0] if frame_length is not None else None
    length = given if given is not None else samples if window is None else node.shape(window)[0]
    if step < 1 or not 1 <= length <= samples or components not in (1, 2):
        raise node.error(f"its frames must lie in {samples} samples", f"frames of {length}, a step of {step}")
    if onesided and components == 2:
        raise UnsupportedError("it is one-sided, and its samples are not real")
    count = (samples - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = node.operator("Gather", signal, Constant(places), since=13, axis=1)
    if window is not None:
        shaped = node.reshaped(window, (length, 1))
        frames = node.operator("Mul", frames, shaped, since=13)
    matrix = transform(length, inverse=False, onesided=bool(onesided), components=components)
    rows = node.reshaped(frames, (batch, count, length * components))
    y = node.operator("MatMul", rows, Constant(matrix.astype(node.dtype(signal))), since=13)
    return node.reshaped(y, (batch, count, matrix.shape[1] // 2, 2))


@converts("MelWeightMatrix", since=17)
def mel_weights(
    node: ONNXNode, num_mel_bins: Value, dft_length: Value, sample_rate: Value, lower_edge_hertz: Value,
    upper_edge_hertz: Value, *, output_datatype: int = TensorProto.FLOAT,
) -> Value:  # fmt: skip
    """Returns the matrix [bins of the transform, bands] of overlapping triangles, bands of equal width in mel."""
    bands, length, rate = (
        node.ints(v, w)[0]
        for v, w in ((num_mel_bins, "num_mel_bins"), (dft_length, "dft_length"), (sample_rate, "sample_rate"))
    )
    least, most = (
        float(node.array(v, w).reshape(-1)[0])
        for v, w in ((lower_edge_hertz, "lower_edge_hertz"), (upper_edge_hertz, "upper_edge_hertz"))
    )
    if bands < 0 or length < 1 or rate < 1 or not 0 <= least <= most:
        raise node.error("its sizes must be positive, and its edges in order")
    dtype = element_dtype(output_datatype)
    if dtype is None:
        raise UnsupportedError("its output_datatype is none of numpy's")
    node.room((length // 2 + 1, bands))
    return Constant(_triangles(bands, length, rate, least, most).astype(dtype))


def _triangles(bands: int, length: int, rate: int, least: float, most: float) -> Array:
    """Returns the weights of `mel_weights`; a band's edges are the centers of its neighbours, rounded down to bins."""
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (least, most))
    mel = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
    edges = ((length + 1) * (700 * (10 ** (mel / 2595) - 1)) // rate).astype(np.int64)
    bins, weights = np.arange(length // 2 + 1), np.zeros((length // 2 + 1, bands))
    for band, (left, center, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        rising, falling = (bins >= left) & (bins <= center), (bins >= center) & (bins < right)
        weights[rising, band] = (bins[rising] - left) / (center - left) if center > left else 1
        weights[falling, band] = (right - bins[falling]) / (right - center) if right > center else 0
    return weights
