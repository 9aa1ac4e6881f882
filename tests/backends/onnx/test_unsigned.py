"""Signed bytes as unsigned ones in exported files: the same numbers, fast in onnxruntime, and where sums saturate."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.errors import OptionError, QmlirWarning
from tests.backends.onnx.runtime import SATURATING, exported, run
from tests.backends.quantized_text import network

BYTES = "!quant.uniform<i8:f32, 0.5:-3>"


def computing(path: Path, x: np.ndarray) -> list[np.ndarray]:
    """The outputs of onnxruntime with all optimizations, which compute in integers."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [np.asarray(y) for y in session.run(None, {session.get_inputs()[0].name: x})]


def points(model: onnx.ModelProto) -> set[Any]:
    """The types that real values are quantized to."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return {arrays[n.input[2]].dtype for n in model.graph.node if n.op_type == "QuantizeLinear"}


def images(bits: int) -> ModuleOp:
    """Two convolutions, one of them depthwise, an addition, a concatenation and a pool; weights of some bits."""
    limit = 2 ** (bits - 1) - 1
    rng = np.random.default_rng(bits)
    w = ", ".join(map(str, rng.integers(-limit, limit + 1, 4 * 9 * 4)))
    d = ", ".join(map(str, rng.integers(-limit, limit + 1, 9 * 4)))
    q, wide = f"tensor<1x6x6x4x{BYTES}>", "!quant.uniform<i8:f32, 64.0:5>"
    weights = f"!quant.uniform<i8<{-limit}:{limit}>:f32, 0.25>"
    return network(f"""
      func.func @main(%x: tensor<1x6x6x4xf32>) -> (tensor<1x6x6x8xf32>, tensor<1x6x6x4x{wide}>) {{
        %q = quant.qcast %x : tensor<1x6x6x4xf32> to {q}
        %w = nn.constant <tensor<4x3x3x4xi8>, [{w}]> : tensor<4x3x3x4x{weights}>
        %d = nn.constant <tensor<1x3x3x4xi8>, [{d}]> : tensor<1x3x3x4x{weights}>
        %c = nn.conv2d %q, %w {{padding = array<i64: 1, 1, 1, 1>}}
           : {q}, tensor<4x3x3x4x{weights}> -> tensor<1x6x6x4x{wide}>
        %e = nn.depthwise_conv2d %q, %d {{padding = array<i64: 1, 1, 1, 1>}}
           : {q}, tensor<1x3x3x4x{weights}> -> tensor<1x6x6x4x{wide}>
        %a = nn.add %c, %e : tensor<1x6x6x4x{wide}>, tensor<1x6x6x4x{wide}> -> tensor<1x6x6x4x{wide}>
        %j = nn.concat %a, %c {{axis = 3 : i64}}
           : tensor<1x6x6x4x{wide}>, tensor<1x6x6x4x{wide}> -> tensor<1x6x6x8x{wide}>
        %y = quant.dcast %j : tensor<1x6x6x8x{wide}> to tensor<1x6x6x8xf32>
        func.return %y, %a : tensor<1x6x6x8xf32>, tensor<1x6x6x4x{wide}>
      }}""")


X = np.random.default_rng(0).uniform(-62, 65, (1, 6, 6, 4)).astype(np.float32)


@SATURATING
@pytest.mark.parametrize("bits", [7, 8])
def test_the_numbers_are_the_same(bits: int, tmp_path: Path) -> None:
    """Also those of a result that is quantized, which keeps its type."""
    module = images(bits)
    unsigned = exported(module, tmp_path / "u.onnx")
    kept = exported(module, tmp_path / "s.onnx", activations="kept")
    assert points(kept) == {np.dtype(np.int8)}
    assert np.dtype(np.uint8) in points(unsigned)
    assert [o.type.tensor_type.elem_type for o in unsigned.graph.output] == [
        onnx.TensorProto.FLOAT, onnx.TensorProto.INT8
    ]  # fmt: skip
    for a, b in zip(run(tmp_path / "u.onnx", [X]), run(tmp_path / "s.onnx", [X]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_weights_of_seven_bits_never_saturate(tmp_path: Path) -> None:
    """onnxruntime's integer kernels give what the file means, on any processor."""
    exported(images(7), tmp_path / "u.onnx")
    for fast, meant in zip(computing(tmp_path / "u.onnx", X), run(tmp_path / "u.onnx", [X]), strict=True):
        np.testing.assert_array_equal(fast, meant)


def dense(weight: int) -> ModuleOp:
    x, y = "!quant.uniform<i8:f32, 1.0:-128>", "!quant.uniform<i8:f32, 1024.0:-128>"
    w = "!quant.uniform<i8<-127:127>:f32, 0.25>"
    return network(f"""
      func.func @main(%x: tensor<1x64xf32>) -> tensor<1x8xf32> {{
        %q = quant.qcast %x : tensor<1x64xf32> to tensor<1x64x{x}>
        %w = nn.constant <tensor<8x64xi8>, [{", ".join(["64"] * 511)}, {weight}]> : tensor<8x64x{w}>
        %r = nn.fully_connected %q, %w {{qmlir.name = #qmlir.name<nodes ["dense"], tensors ["r"]>}}
           : tensor<1x64x{x}>, tensor<8x64x{w}> -> tensor<1x8x{y}>
        %y = quant.dcast %r : tensor<1x8x{y}> to tensor<1x8xf32>
        func.return %y : tensor<1x8xf32>
      }}""")


def test_who_can_saturate_is_told(tmp_path: Path) -> None:
    """Two products of 255 by 64 fit 16 bits, 255 · (64 + 65) does not."""
    exported(dense(64), tmp_path / "u.onnx")
    with pytest.warns(QmlirWarning, match=r"sums of 1 layer can saturate \(dense\): .*--for onnxruntime.*slow"):
        exported(dense(65), tmp_path / "u.onnx")
    exported(dense(65), tmp_path / "s.onnx", activations="kept")


def test_bytes_for_onnxruntime(tmp_path: Path) -> None:
    """What `quantize` makes for onnxruntime has unsigned data and weights of 7 bits, and needs no warning."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 8)).astype(np.float32)
    module = network("""
      func.func @main(%x: tensor<1x8xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x2xf32> {
        %w = nn.constant <tensor<2x8xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0,
                                            8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]> : tensor<2x8xf32>
        %y = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<tensors ["y"]>}
           : tensor<1x8xf32>, tensor<2x8xf32> -> tensor<1x2xf32>
        func.return %y : tensor<1x2xf32>
      }""")
    quantized = qmlir.quantize(module, data=[x], runtime="onnxruntime")
    assert "u8:f32" in str(quantized)
    assert "<-63:63>:f32" in str(quantized)
    assert points(exported(quantized, tmp_path / "q.onnx")) == {np.dtype(np.uint8)}
    wider = qmlir.quantize(module, data=[x], runtime="onnxruntime", weight_precision="int8")
    assert "<-127:127>:f32" in str(wider)
    with pytest.raises(OptionError, match=r"runtime: must be one of onnxruntime, got onnxruntim; did you mean"):
        qmlir.quantize(module, data=[x], runtime="onnxruntim")
    with pytest.raises(OptionError, match=r"activations: must be one of uint8, kept"):
        qmlir.export(quantized, tmp_path / "q.onnx", activations="int8")


@pytest.mark.parametrize("transposes", [0, 1])
def test_what_is_rounded_by_its_sign_stays_signed(transposes: int, tmp_path: Path) -> None:
    """Means of halves, of images that a pool reads in another order than the one in which they are stored."""
    q, y = f"tensor<1x4x4x2x{BYTES}>", f"tensor<1x3x4x2x{BYTES}>"
    x, read = "tensor<1x4x4x2xf32>", "%q"
    before = f"%q = quant.qcast %x : {x} to {q}"
    if transposes:
        x, read = "tensor<1x2x4x4xf32>", "%t"
        before = f"""%q = quant.qcast %x : {x} to tensor<1x2x4x4x{BYTES}>
        %t = nn.transpose %q {{permutation = array<i64: 0, 2, 3, 1>}} : tensor<1x2x4x4x{BYTES}> -> {q}"""
    module = network(f"""
      func.func @main(%x: {x}) -> tensor<1x3x4x2xf32> {{
        {before}
        %p = nn.average_pool2d {read} {{window = array<i64: 2, 1>}} : {q} -> {y}
        %y = quant.dcast %p : {y} to tensor<1x3x4x2xf32>
        func.return %y : tensor<1x3x4x2xf32>
      }}""")
    assert points(exported(module, tmp_path / "m.onnx")) == {np.dtype(np.int8)}
    shape = (1, 2, 4, 4) if transposes else (1, 4, 4, 2)
    data = (np.arange(32, dtype=np.float32) * 7 % 19 - 9).reshape(shape) / 2
    np.testing.assert_array_equal(qmlir.reference(qmlir.load(tmp_path / "m.onnx"))(data), qmlir.reference(module)(data))
