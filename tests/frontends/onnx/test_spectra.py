"""Fourier transforms against numpy's and onnxruntime's."""

from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from tests.frontends.onnx.agreement import Array, floats, load, model, node, onnxruntime_run, reason

X = floats(2, 10, 3, 1)
COMPLEX = floats(2, 10, 3, 2, seed=1)


def parts(x: Array) -> Array:
    return np.stack([np.real(x), np.imag(x)], -1)


def whole(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


def close(got: Array, wanted: Array) -> None:
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


CASES: dict[str, tuple[Array, dict[str, Any], int | None, Array]] = {
    "real": (X, {}, None, parts(np.fft.fft(whole(X), axis=1))),
    "complex": (COMPLEX, {}, None, parts(np.fft.fft(whole(COMPLEX), axis=1))),
    "of another axis": (COMPLEX, {"axis": 2}, None, parts(np.fft.fft(whole(COMPLEX), axis=2))),
    "one-sided": (X, {"onesided": 1}, None, parts(np.fft.rfft(whole(X), axis=1))),
    "shorter": (X, {}, 7, parts(np.fft.fft(whole(X), 7, axis=1))),
    "longer": (COMPLEX, {}, 13, parts(np.fft.fft(whole(COMPLEX), 13, axis=1))),
    "inverse": (COMPLEX, {"inverse": 1}, None, parts(np.fft.ifft(whole(COMPLEX), axis=1))),
}


@pytest.mark.parametrize("name", CASES)
def test_transform(name: str) -> None:
    x, attributes, length, wanted = CASES[name]
    known = {} if length is None else {"n": np.array(length)}
    proto = model(node("DFT", "x n" if known else "x", "y", **attributes), {"x": list(x.shape)}, known, opset=17)
    module = load(proto)
    close(qmlir.reference(module)(x), wanted)
    close(qmlir.compile(module)(x), wanted)


def test_one_sided_spectra_come_back() -> None:
    """As ONNX's evaluator does, the samples have a last dimension of 1."""
    spectrum = parts(np.fft.rfft(whole(X), axis=1)).astype(np.float32)
    proto = model(
        node("DFT", "x _ a", inverse=1, onesided=1), {"x": list(spectrum.shape)}, {"a": np.array(1)}, opset=20
    )
    close(qmlir.reference(load(proto))(spectrum), X)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("inputs", ["x step w", "x step w n", "x step _ n"])
@pytest.mark.parametrize("shape", [[2, 40, 1], [2, 40]])
def test_short_time_transform(shape: list[int], inputs: str, onesided: int) -> None:
    """Samples without a dimension for their parts are real to onnxruntime."""
    constants = {"step": np.array(3), "w": np.hanning(8).astype(np.float32), "n": np.array(8)}
    used = {name: array for name, array in constants.items() if name in inputs.split()}
    proto = model(node("STFT", inputs, onesided=onesided), {"x": shape}, used, opset=17)
    x = floats(*shape)
    module = load(proto)
    close(qmlir.reference(module)(x), onnxruntime_run(proto, {"x": x})[0])
    close(qmlir.compile(module)(x), qmlir.reference(module)(x))


def test_what_is_refused() -> None:
    complex_data = model(node("DFT", "x", onesided=1), {"x": [2, 8, 2]}, opset=17)
    assert "its samples are not real" in reason(complex_data)
    computed = model([node("Cast", "n", "m", to=7), node("DFT", "x m")], {"x": [2, 8, 1], "n": [1]}, opset=17)
    assert "its dft_length" in str(opaque_report(load_onnx(computed)))
    with pytest.raises(NodeError, match="its dft_length must be positive"):
        load_onnx(model(node("DFT", "x n"), {"x": [2, 8, 1]}, {"n": np.array(0)}, opset=17))
    with pytest.raises(NodeError, match="an axis before the last"):
        load_onnx(model(node("DFT", "x"), {"x": [2, 8, 3]}, opset=17))
    with pytest.raises(NodeError, match="must lie in 8 samples"):
        load_onnx(model(node("STFT", "x s _ n"), {"x": [2, 8, 1]}, {"s": np.array(2), "n": np.array(9)}, opset=17))
    with pytest.raises(NodeError, match=r"must be samples of a batch, \[B, N, 1 or 2\], got \[8\]"):
        load_onnx(model(node("STFT", "x s _ n"), {"x": [8]}, {"s": np.array(2), "n": np.array(4)}, opset=17))
