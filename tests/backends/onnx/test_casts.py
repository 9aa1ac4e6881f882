"""Casts of exported files in onnxruntime."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.backends.onnx.runtime import exported, kinds, run
from tests.backends.quantized_text import network


@pytest.mark.parametrize("form", ["onnx-qdq", "onnx-qoperator"])
@pytest.mark.parametrize(
    ("stored", "integer", "clipped"),
    [
        ("i8:f32, 4.0", "ui8", True),
        ("i8:f32, 1.0078125:10", "i8", True),
        ("i16:f32, 1.5", "i16", True),
        ("u8:f32, 1.0", "ui8", False),
        ("i8:f32, 1.0", "i32", False),
    ],
)
def test_quantized_values_beyond_the_range_of_an_integer_type(
    stored: str, integer: str, clipped: bool, form: str, tmp_path: Path
) -> None:
    """They become its nearest integer, as in the reference: Cast leaves that open, and onnxruntime wraps around."""
    type = f"tensor<7x!quant.uniform<{stored}>>"
    module = network(f"""
      func.func @main(%x: tensor<7xf32>) -> tensor<7x{integer}> {{
        %q = quant.qcast %x : tensor<7xf32> to {type}
        %f = quant.dcast %q : {type} to tensor<7xf32>
        %y = nn.cast %f : tensor<7xf32> -> tensor<7x{integer}>
        func.return %y : tensor<7x{integer}>
      }}""")
    path = tmp_path / "cast.onnx"
    assert ("Clip" in kinds(exported(module, path, format=form))) == clipped
    x = np.array([0, 254, 256, -3, -256, 1e9, -1e9], np.float32)
    wanted = qmlir.reference(module)(x)
    (got,) = run(path, [x])
    np.testing.assert_array_equal(got, wanted)
