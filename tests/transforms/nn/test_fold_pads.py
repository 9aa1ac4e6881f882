"""`fold-pads`: the bits of what is quantized stay, on devices and in exported files too, and no pad is left."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn import PadOp
from qmlir.transforms.nn.fold_pads import FoldPadsPass
from tests.frontends.onnx.agreement import floats, load, model, node, onnxruntime_run

WEIGHTS = {"w": floats(4, 3, 3, 3, seed=1), "d": floats(3, 1, 3, 3, seed=2), "v": floats(4, 3, 3, seed=3)}
ONE_SIDE, ALL_SIDES, CAUSAL = ([0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 4, 0, 0, 0])

NETWORKS = {
    "convolution": (ONE_SIDE, "Conv", "w", {"strides": [2, 2]}, (1, 3, 8, 8)),
    "convolution that pads": (ONE_SIDE, "Conv", "w", {"pads": [1, 0, 1, 0]}, (1, 3, 8, 8)),
    "depthwise": (ALL_SIDES, "Conv", "d", {"group": 3}, (1, 3, 8, 8)),
    "causal": (CAUSAL, "Conv", "v", {"dilations": [2]}, (1, 3, 12)),
    "mean": (ALL_SIDES, "AveragePool", None, {"kernel_shape": [3, 3], "strides": [2, 2]}, (1, 3, 7, 7)),
    "mean that counts": (
        ONE_SIDE, "AveragePool", None, {"kernel_shape": [3, 3], "pads": [1, 1, 0, 0], "count_include_pad": 1},
        (1, 3, 6, 6),
    ),
    "maximum": (ALL_SIDES, "MaxPool", None, {"kernel_shape": [3, 3], "strides": [2, 2]}, (1, 3, 7, 7)),
}  # fmt: skip


def _network(name: str) -> ModuleOp:
    """A rectifier, a pad, and what reads it: opset 10 holds pads as an attribute."""
    pads, kind, weights, attributes, shape = NETWORKS[name]
    nodes = [
        node("Relu", "x", "r"),
        node("Pad", "r", "p", pads=pads),
        node(kind, "p" if weights is None else f"p {weights}", **attributes),
    ]
    return load(model(nodes, {"x": list(shape)}, {k: v for k, v in WEIGHTS.items() if k == weights}, opset=10))


def _pads(module: ModuleOp) -> int:
    return sum(isinstance(op, PadOp) for op in module.walk())


@pytest.mark.parametrize("precision", ["int8", "int16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_bits_stay(name: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = NETWORKS[name][-1]
    data = [{"x": floats(*shape, seed=k)} for k in range(4)]
    folded = qmlir.quantize(_network(name), data=data, precision=precision)
    monkeypatch.setattr(FoldPadsPass, "PATTERNS", ())
    kept = qmlir.quantize(_network(name), data=data, precision=precision)
    assert (_pads(folded), _pads(kept)) == (0, 1)
    before = qmlir.reference(kept)(data[0])
    assert np.array_equal(qmlir.reference(folded)(data[0]), before)
    assert np.array_equal(qmlir.compile(folded)(data[0]), before)


@pytest.mark.parametrize("name", NETWORKS)
def test_exported_files_and_a_device_agree(name: str, tmp_path: Path) -> None:
    data = [{"x": floats(*NETWORKS[name][-1], seed=k)} for k in range(4)]
    folded = qmlir.quantize(_network(name), data=data, target="nmp")
    assert np.array_equal(qmlir.compile(folded, target="nmp")(data[0]), qmlir.reference(folded, "nmp")(data[0]))
    plain = qmlir.quantize(_network(name), data=data)
    qmlir.export(plain, path := tmp_path / "net.tflite")
    again = qmlir.load(path)
    assert np.array_equal(qmlir.reference(again)(data[0]), qmlir.reference(plain)(data[0]))
    assert _pads(qmlir.to_integers(again)) == 0


def test_a_quantized_file_folds_and_agrees_with_onnxruntime() -> None:
    """Pads between casts of one type, as a converter of a quantized network writes them."""
    arrays = {
        "s": np.float32(0.05), "z": np.uint8(7), "t": np.float32(0.5), "u": np.uint8(120),
        "q": np.random.default_rng(0).integers(-50, 50, (4, 3, 3, 3)).astype(np.int8), "c": np.float32(0.01),
        "n": np.int8(0),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "x8"), node("DequantizeLinear", "x8 s z", "xf"),
        node("Pad", "xf", "p", pads=ALL_SIDES), node("QuantizeLinear", "p s z", "p8"),
        node("DequantizeLinear", "p8 s z", "pf"), node("DequantizeLinear", "q c n", "w"),
        node("Conv", "pf w", "a"), node("QuantizeLinear", "a t u", "a8"), node("DequantizeLinear", "a8 t u"),
    ]  # fmt: skip
    proto = model(nodes, {"x": [1, 3, 8, 8]}, arrays, opset=10)
    network, x = load(proto), floats(1, 3, 8, 8, seed=5) * 3
    integers = qmlir.to_integers(network)
    assert _pads(integers) == 0
    assert any(op.name == "qint.conv2d" for op in integers.walk())
    assert np.array_equal(qmlir.reference(network)(x), onnxruntime_run(proto, {"x": x})[0])
