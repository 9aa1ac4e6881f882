"""The comparison with onnxruntime operation by operation."""

from pathlib import Path

import numpy as np

from tests.backends.onnx_qdq.stepwise import compare
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
