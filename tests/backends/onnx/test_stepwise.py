"""The comparison with onnxruntime operation by operation."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.backends.onnx.stepwise import FloatErrors, Steps, compare
from tests.backends.quantized_text import network


def test_an_operation_on_unsigned_integers_gets_what_onnxruntime_computed(tmp_path: Path) -> None:
    """One step of the first operation's scale is 256 of the second's, which here is not at fault."""
    shape, pooled = "1x16x16x1", "1x8x16x1"
    u8, i16 = "!quant.uniform<u8:f32, 0.18816033:94>", "!quant.uniform<i16:f32, 7.35001289e-4>"
    module = network(f"""
      func.func @main(%x: tensor<{shape}xf32>) -> tensor<{pooled}xf32> {{
        %q = quant.qcast %x : tensor<{shape}xf32> to tensor<{shape}x{u8}>
        %p = nn.average_pool2d %q {{window = array<i64: 2, 1>, strides = array<i64: 2, 1>}}
          : tensor<{shape}x{u8}> -> tensor<{pooled}x{u8}>
        %r = nn.requantize %p : tensor<{pooled}x{u8}> -> tensor<{pooled}x{i16}>
        %y = quant.dcast %r : tensor<{pooled}x{i16}> to tensor<{pooled}xf32>
        func.return %y : tensor<{pooled}xf32>
      }}""")
    x = np.random.default_rng(0).uniform(-18, 18, (1, 16, 16, 1)).astype(np.float32)
    steps = compare(module, tmp_path / "shown.onnx", [x], "onnx-qoperator")
    assert steps.differing
    assert steps.most == 1


def test_an_operation_on_less_than_a_byte_gets_what_onnxruntime_computed(tmp_path: Path) -> None:
    """Averages with ties, of which one step is 4,681 of what comes then; it is not at fault."""
    shape = "1x6x6x2"
    u4, i16 = "!quant.uniform<u4<0:14>:f32, 0.235:2>", "!quant.uniform<i16:f32, 5.0202423e-5:-23406>"
    module = network(f"""
      func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
        %q = quant.qcast %x : tensor<{shape}xf32> to tensor<{shape}x{u4}>
        %p = nn.average_pool2d %q {{window = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>,
          count_include_pad = true}} : tensor<{shape}x{u4}> -> tensor<{shape}x{u4}>
        %r = nn.requantize %p : tensor<{shape}x{u4}> -> tensor<{shape}x{i16}>
        %y = quant.dcast %r : tensor<{shape}x{i16}> to tensor<{shape}xf32>
        func.return %y : tensor<{shape}xf32>
      }}""")
    x = np.random.default_rng(0).uniform(-1, 3, (1, 6, 6, 2)).astype(np.float32)
    steps = compare(module, tmp_path / "shown.onnx", [x])
    assert steps.differing
    assert steps.most == 1


def test_floats_that_cancel_have_the_room_that_their_last_places_leave(tmp_path: Path) -> None:
    """Pairs of nearly equal numbers, normalized: float32 means of them are off by some steps of 16 bits."""
    i16, out = "!quant.uniform<i16:f32, 1.6402289e-3>", "!quant.uniform<i16:f32, 6.10360876e-5>"
    module = network(f"""
      func.func @main(%x: tensor<256x2xf32>) -> tensor<256x2xf32> {{
        %q = quant.qcast %x : tensor<256x2xf32> to tensor<256x2x{i16}>
        %f = quant.dcast %q : tensor<256x2x{i16}> to tensor<256x2xf32>
        %n = nn.layer_norm %f {{axis = 1 : i64, epsilon = 1.0e-5 : f32}} : tensor<256x2xf32> -> tensor<256x2xf32>
        %r = quant.qcast %n : tensor<256x2xf32> to tensor<256x2x{out}>
        %y = quant.dcast %r : tensor<256x2x{out}> to tensor<256x2xf32>
        func.return %y : tensor<256x2xf32>
      }}""")
    random = np.random.default_rng(0)
    x = (random.uniform(-50, 50, (256, 1)) + random.uniform(-0.02, 0.02, (256, 2))).astype(np.float32)
    assert compare(module, tmp_path / "shown.onnx", [x]).most > 1
    assert compare(module, tmp_path / "shown.onnx", [x], errors=FloatErrors(noise=3e-7)).most <= 1
    apart = np.linspace(-1, 1, 512, dtype=np.float32).reshape(256, 2) * 50
    assert compare(module, tmp_path / "shown.onnx", [apart]) == compare(
        module, tmp_path / "shown.onnx", [apart], errors=FloatErrors(tiny=2e-8)
    )


def attention(out: str) -> ModuleOp:
    """Attention to 18 places whose scores are far below the greatest, on bytes, with results of a type."""
    x, v = "!quant.uniform<i8:f32, 0.0592:127>", "!quant.uniform<i8:f32, 0.00518:-17>"
    return network(f"""
      func.func @main(%x: tensor<4x18xf32>, %v: tensor<18x16xf32>) -> tensor<4x16xf32> {{
        %q = quant.qcast %x : tensor<4x18xf32> to tensor<4x18x{x}>
        %r = quant.qcast %v : tensor<18x16xf32> to tensor<18x16x{v}>
        %a = nn.attend %q, %r : tensor<4x18x{x}>, tensor<18x16x{v}> -> tensor<4x16x{out}>
        %y = quant.dcast %a : tensor<4x16x{out}> to tensor<4x16xf32>
        func.return %y : tensor<4x16xf32>
      }}""")


def test_attention_has_the_room_of_its_exponentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """17 exponentials below half a step of 2^-15 are 0 in integers: less than a step of bytes, some of 16 bits."""
    x = np.full((4, 18), -0.0592 * 188, np.float32)
    x[:, 3] = 0
    v = np.where(np.arange(18)[:, None] == 3, -0.57, 0.74) * np.ones((18, 16), np.float32)
    feeds = [{"input0": x, "input1": v.astype(np.float32)}]
    words, bytes_ = (f"!quant.uniform<{t}>" for t in ("i16:f32, 4.494e-5", "i8:f32, 0.00518:-17"))
    for out in (words, bytes_):
        assert compare(attention(out), tmp_path / "shown.onnx", feeds).most <= 1
    assert compare(attention(words), tmp_path / "shown.onnx", feeds, "onnx-integer").most == 0
    monkeypatch.setattr("tests.backends.onnx.stepwise._room_of_exponentials", lambda op, values: 0)
    assert compare(attention(words), tmp_path / "shown.onnx", feeds).most > 1
    assert compare(attention(bytes_), tmp_path / "shown.onnx", feeds).most <= 1


def test_each_channel_has_the_room_of_its_own_steps(tmp_path: Path) -> None:
    """The real number that is forgiven is two steps of one channel and none of the other."""
    type = "!quant.uniform<i8:f32:1, {0.25, 2.0}>"
    module = network(f"""
      func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {{
        %q = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x{type}>
        %y = quant.dcast %q : tensor<1x2x{type}> to tensor<1x2xf32>
        func.return %y : tensor<1x2xf32>
      }}""")
    x = np.array([[1.0, 8.0]], np.float32)
    steps = compare(module, tmp_path / "shown.onnx", [x], "onnx-qoperator", FloatErrors(tiny=0.5))
    assert steps == Steps(compared=4)


def test_what_is_beyond_its_room_counts_in_full() -> None:
    steps = Steps()
    steps.add(np.array([5, 7, 9]), np.array([3, 7, 4]), np.array([2, 0, 4]))
    assert steps == Steps(compared=3, differing=1, most=5)
