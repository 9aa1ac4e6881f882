"""Networks exported and read again: the same integers. Random ones are the fuzzer's (check `again`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import np_dtype_to_tensor_dtype
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.tflite import load_tflite
from qmlir.ir.facts import INTEGER_OPERATOR
from qmlir.policies.ledger import decisions
from qmlir.policies.runtimes import follow
from qmlir.stages import IMPORTED
from tests.backends.onnx.runtime import exported
from tests.backends.quantized_text import network
from tests.conftest import crossed
from tests.frontends.onnx.agreement import model, node
from tests.frontends.tflite.files import Op, T
from tests.frontends.tflite.files import model as tflite_model
from tests.fuzz.checks import learnt

WEIGHTS = "!quant.uniform<i8<-127:127>:f32, 0.25>"


def layer(mark: str) -> ModuleOp:
    """A layer of unsigned data and signed weights that follows onnxruntime on processors without VNNI."""
    values = np.random.default_rng(0).integers(-127, 128, 4 * 32).tolist()
    x, y = "!quant.uniform<u8:f32, 0.5:125>", "!quant.uniform<u8:f32, 64.0:120>"
    module = network(f"""
      func.func @main(%x: tensor<8x32xf32>) -> tensor<8x4xf32> {{
        %q = quant.qcast %x : tensor<8x32xf32> to tensor<8x32x{x}>
        %w = nn.constant <tensor<4x32xi8>, {values}> : tensor<4x32x{WEIGHTS}>
        %r = nn.fully_connected %q, %w {{{mark}}} : tensor<8x32x{x}>, tensor<4x32x{WEIGHTS}> -> tensor<8x4x{y}>
        %y = quant.dcast %r : tensor<8x4x{y}> to tensor<8x4xf32>
        func.return %y : tensor<8x4xf32>
      }}""")
    follow(module, "onnxruntime")
    return module


@pytest.mark.parametrize(("mark", "dtype"), [("", np.uint8), (INTEGER_OPERATOR, np.int8)])
def test_weights_beside_unsigned_data(mark: str, dtype: type, tmp_path: Path) -> None:
    """Unsigned ones around 128 are written, whose sums are exact; of an operator that saturates those that it has."""
    module = layer(mark)
    written = exported(module, tmp_path / "again.onnx", format="onnx-qoperator")
    assert [t.data_type for t in written.graph.initializer if len(t.dims) == 2] == [
        np_dtype_to_tensor_dtype(np.dtype(dtype))
    ]
    again = qmlir.load(tmp_path / "again.onnx", numerics="onnxruntime")
    sample = np.random.default_rng(1).uniform(-70, 70, (8, 32)).astype(np.float32)
    bits = qmlir.reference(module)(sample)
    np.testing.assert_array_equal(qmlir.reference(again)(sample), bits)
    follow(module, "onnxruntime-vnni")
    assert np.array_equal(qmlir.reference(module)(sample), bits) == (not mark)


RESIZES: dict[str, dict[str, Any]] = {
    "linear": {"sizes": (10, 7)},
    "corners": {"sizes": (9, 3), "coordinate_transformation_mode": "align_corners"},
    "cubic": {"sizes": (8, 11), "mode": "cubic"},
    "rows": {"sizes": (7, 4)},
    "smaller": {"sizes": (2, 3), "antialias": 1},
}


@crossed(
    {
        "mode": RESIZES,
        "form, precision": [("onnx-qdq", "int16"), ("onnx-qoperator", "uint8")],
        "numerics": ["default", "onnxruntime"],
    }
)
def test_an_interpolation_is_one_again(mode: str, form: str, precision: Any, numerics: str, tmp_path: Path) -> None:
    """It is written as sums on floats, which round otherwise where an exact result is between two steps."""
    attributes = {"mode": "linear", **RESIZES[mode]}
    sizes = np.array([1, 2, *attributes.pop("sizes")], np.int64)
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 4)).astype(np.float32)
    module = load_onnx(model(node("Resize", "x _ _ sizes", **attributes), {"x": x.shape}, {"sizes": sizes}))
    follow(module, numerics)
    module = qmlir.quantize(module, qmlir.profile(module, [x]), precision=precision, schema="asymmetric")
    exported(module, tmp_path / "again.onnx", format=form)
    again = Pipeline(*IMPORTED)(qmlir.load(tmp_path / "again.onnx", numerics=numerics))
    (entry,) = decisions(again)
    assert (entry.operation, entry.outcome) == ("nn.resize", decisions(module)[0].outcome)
    np.testing.assert_array_equal(qmlir.reference(again)(x), qmlir.reference(module)(x))


@pytest.mark.parametrize("form", ["onnx-qdq", "onnx-qoperator"])
@pytest.mark.parametrize("shape", [(5, 1), (1, 4), (1, 1), (3, 4), (2, 1), (1, 2)])
def test_an_interpolation_with_an_axis_that_stays_as_it_is_is_one_again(
    shape: Sequence[int], form: str, tmp_path: Path
) -> None:
    """The neighbours along an axis of one element are that element, which no operator has to take."""
    rows, columns = shape
    halved = 2 in shape  # to one element, their mean
    image = T("x", (5 if halved else 1, rows, columns, 3), np.uint8, scale=[0.007], zero=[3])
    wanted = (1 if rows == 1 or halved else 8, 1 if columns == 1 or halved else 7) if shape != (3, 4) else shape
    size = T("size", (2,), np.int32, data=np.array(wanted, np.int32))
    y = T("y", (image.shape[0], *wanted, 3), np.uint8, scale=[0.007], zero=[3])
    module = load_tflite(
        tflite_model(
            [image, size, y],
            [
                Op(
                    "RESIZE_BILINEAR",
                    [0, 1],
                    [2],
                    "ResizeBilinearOptions",
                    {"AlignCorners": not halved, "HalfPixelCenters": halved},
                    1,
                )
            ],
            [0],
            [2],
        )
    )
    exported(module, tmp_path / "again.onnx", format=form)
    again = qmlir.load(tmp_path / "again.onnx")
    x = np.random.default_rng(0).integers(0, 256, image.shape, np.uint8)
    np.testing.assert_array_equal(qmlir.reference(again)(x), qmlir.reference(module)(x))
    assert all(entry.outcome == "quantized" for entry in decisions(Pipeline(*IMPORTED)(again)))


@pytest.mark.parametrize("form", ["onnx-qdq", "onnx-qoperator"])
def test_a_stored_constant_on_another_scale_is_the_same_again(form: str, tmp_path: Path) -> None:
    """It becomes i8 in steps twice as long, between which every other integer of u8 lies in the middle."""
    stored = np.random.default_rng(0).integers(0, 255, (3, 4), np.uint8)
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    constants = {"c": stored, "scale": np.float32(0.002), "zero": np.uint8(1)}
    nodes = [node("DequantizeLinear", "c scale zero", "floats"), node("Mul", "x floats")]
    module = load_onnx(model(nodes, {"x": x.shape}, constants))
    module = qmlir.quantize(module, learnt(module, [{"x": x}], 2000), schema="symmetric", calibration="minmax")
    exported(module, tmp_path / "again.onnx", format=form)
    again = qmlir.load(tmp_path / "again.onnx")
    np.testing.assert_array_equal(qmlir.reference(again)(x), qmlir.reference(module)(x))
