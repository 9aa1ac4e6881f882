"""MediaPipe's custom operators, against LiteRT's delegate, which computes them, and against what MediaPipe documents.

A network of two transposed convolutions is quantized, too: it becomes the integer form of a convolution.
"""

import struct
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import NodeError
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from tests.frontends.tflite.files import Op, T, constant, litert, model


def numbers(*values: int) -> bytes:
    """Options as the C structures of TFLite lie in memory."""
    return struct.pack(f"<{len(values)}i", *values)


def transposed(
    shape: tuple[int, ...],
    window: tuple[int, int],
    strides: tuple[int, int],
    *,
    same: bool,
    options: bytes | None = None,
) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A file of a transposed convolution, and its weights and bias."""
    random, outputs = np.random.default_rng(0), 3
    w = random.normal(size=(outputs, *window, shape[3])).astype(np.float32)
    b = random.normal(size=outputs).astype(np.float32)
    out = [
        (size - 1) * s + k - (max(0, k - (size - 1) % s - 1) if same else 0)
        for size, k, s in zip(shape[1:3], window, strides, strict=True)
    ]
    tensors = [T("x", shape), constant("w", w), constant("b", b), T("y", (shape[0], *out, outputs))]
    given = numbers(1 if same else 2, strides[1], strides[0]) if options is None else options
    op = Op("CUSTOM.Convolution2DTransposeBias", [0, 1, 2], [3], options=given)
    return model(tensors, [op], [0], [3]), w, b


def scattered(x: np.ndarray, w: np.ndarray, b: np.ndarray, strides: tuple[int, int], *, same: bool) -> np.ndarray:
    """What the operator computes: each element adds its multiple of the weights around its place."""
    n, rows, columns, _ = x.shape
    _, high, wide, _ = w.shape
    full = np.zeros((n, (rows - 1) * strides[0] + high, (columns - 1) * strides[1] + wide, len(b)))
    for i, j in np.ndindex(rows, columns):
        at = np.einsum("nc,okpc->nkpo", x[:, i, j], w.astype(np.float64))
        full[:, i * strides[0] : i * strides[0] + high, j * strides[1] : j * strides[1] + wide] += at
    cut = [
        max(0, k - (size - 1) % s - 1) if same else 0
        for size, k, s in zip((rows, columns), (high, wide), strides, strict=True)
    ]
    starts = [c // 2 for c in cut]
    ends = [full.shape[i + 1] - (c - c // 2) for i, c in enumerate(cut)]
    return full[:, starts[0] : ends[0], starts[1] : ends[1]] + b


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(
    ("window", "strides"), [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((4, 3), (2, 1)), ((3, 5), (1, 3)), ((1, 1), (2, 2))]
)
def test_a_transposed_convolution_with_a_bias(window: tuple[int, int], strides: tuple[int, int], *, same: bool) -> None:
    shape = (2, 5, 4, 6)
    data, w, b = transposed(shape, window, strides, same=same)
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    want = scattered(x, w, b, strides, same=same)
    module = load_tflite(data)
    np.testing.assert_allclose(qmlir.reference(module)(x), want, rtol=1e-4, atol=1e-5)


def test_litert_s_delegate_computes_the_same() -> None:
    data, _, _ = transposed((1, 6, 6, 8), (2, 2), (2, 2), same=True, options=numbers(1, 2, 2, 0, 0))
    x = np.random.default_rng(1).normal(size=(1, 6, 6, 8)).astype(np.float32)
    (want,) = litert(data, [x], reference=False)
    np.testing.assert_allclose(qmlir.reference(load_tflite(data))(x), want, rtol=1e-4, atol=1e-5)


def test_a_network_with_the_operator_is_quantized() -> None:
    data, w, b = transposed((1, 6, 6, 4), (3, 3), (2, 2), same=True)
    samples = list(np.random.default_rng(2).normal(size=(8, 1, 6, 6, 4)).astype(np.float32))
    quantized = qmlir.quantize(load_tflite(data), data=samples)
    found, want = qmlir.reference(quantized)(samples[0]), scattered(samples[0], w, b, (2, 2), same=True)
    assert np.abs(found - want).max() < 0.05 * np.abs(want).max()
    assert (qmlir.compile(quantized)(samples[0]) == found).all()


def pool(shape: tuple[int, ...], options: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An image, and the maxima of its windows with their places, as loops find them."""
    code, step_x, step_y, wide, high, _ = options
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    n, rows, columns, channels = shape
    counts = [-(-size // s) if code == 1 else (size - k) // s + 1
              for size, k, s in ((rows, high, step_y), (columns, wide, step_x))]  # fmt: skip
    before = [max(0, (c - 1) * s + k - size) // 2 if code == 1 else 0
              for c, size, k, s in ((counts[0], rows, high, step_y), (counts[1], columns, wide, step_x))]  # fmt: skip
    maxima, places = np.zeros((2, n, *counts, channels), np.float32)
    for i, j in np.ndindex(*counts):
        best = np.full((n, channels), -np.inf, np.float32)
        for k, p in np.ndindex(high, wide):
            row, column = i * step_y + k - before[0], j * step_x + p - before[1]
            if 0 <= row < rows and 0 <= column < columns:
                greater = x[:, row, column] > best
                best = np.where(greater, x[:, row, column], best)
                places[:, i, j] = np.where(greater, np.float32(k * wide + p) + np.float32(0.1), places[:, i, j])
        maxima[:, i, j] = best
    return x, maxima, places


@pytest.mark.parametrize("options", [(2, 2, 2, 2, 2, 0), (1, 2, 2, 3, 3, 0), (1, 3, 2, 2, 3, 0), (2, 1, 1, 3, 2, 0)])
def test_maxima_and_their_places(options: tuple[int, ...]) -> None:
    shape = (2, 7, 6, 3)
    x, maxima, places = pool(shape, options)
    tensors = [T("x", shape), T("y", maxima.shape), T("i", places.shape)]
    data = model(tensors, [Op("CUSTOM.MaxPoolingWithArgmax2D", [0], [1, 2], options=numbers(*options))], [0], [1, 2])
    module = load_tflite(data)
    for network in (qmlir.reference(module), qmlir.compile(module)):
        found = network.run(x)
        np.testing.assert_array_equal(found[0], maxima)
        np.testing.assert_array_equal(found[1], places)


def test_elements_return_to_the_places_of_the_maxima() -> None:
    shape = (2, 6, 6, 3)
    x, maxima, places = pool(shape, (2, 2, 3, 2, 3, 0))
    pooled = maxima.shape
    tensors = [T("x", shape), T("m", pooled), T("i", pooled), T("y", shape)]
    options = numbers(2, 2, 3, 2, 3, 0)
    operators = [
        Op("CUSTOM.MaxPoolingWithArgmax2D", [0], [1, 2], options=options),
        Op("CUSTOM.MaxUnpooling2D", [1, 2], [3], options=options),
    ]
    module = load_tflite(model(tensors, operators, [0], [3]))
    spread = np.kron(maxima, np.ones((1, 3, 2, 1), np.float32)).reshape(shape)
    want = np.where(x == spread, x, 0)
    np.testing.assert_array_equal(qmlir.reference(module)(x), want)
    np.testing.assert_array_equal(qmlir.compile(module)(x), want)
    assert (places % 1).round(3).max() == np.float32(0.1).round(3)


@pytest.mark.parametrize(
    ("options", "message"),
    [(b"", "needs its option padding"), (numbers(1, 2), "needs its option stride_h"),
     (numbers(7, 2, 2), r"must be 1 \(SAME\)"), (numbers(1, 0, 2), "must be at least 1"),
     (numbers(1, -5, 2), "must be at least 1")],
)  # fmt: skip
def test_options_that_lie_are_errors(options: bytes, message: str) -> None:
    with pytest.raises(NodeError, match=message):
        load_tflite(transposed((1, 4, 4, 2), (2, 2), (2, 2), same=True, options=options)[0])


def test_a_fused_activation_and_overlapping_windows_are_refused_with_the_reason() -> None:
    fused = load_tflite(transposed((1, 4, 4, 2), (2, 2), (2, 2), same=True, options=numbers(1, 2, 2, 3))[0])
    tensors = [T("x", (1, 2, 2, 1)), T("i", (1, 2, 2, 1)), T("y", (1, 6, 6, 1))]
    data = model(tensors, [Op("CUSTOM.MaxUnpooling2D", [0, 1], [2], options=numbers(2, 2, 2, 3, 3))], [0, 1], [2])
    for module, reason in ((fused, "it has the fused activation 3"), (load_tflite(data), "its windows overlap")):
        report: Any = opaque_report(module)
        assert reason in str(report)
