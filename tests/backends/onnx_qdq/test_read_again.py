"""Random networks, exported and read again: the same integers; under onnxruntime what is on floats stays there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import IMPORTED, Pipeline
from qmlir.frontends.onnx import load_onnx
from qmlir.ledger import decisions
from qmlir.runtimes import follow
from tests.backends.onnx_qdq.runtime import exported
from tests.backends.quantized_text import network
from tests.frontends.onnx.agreement import model, node
from tests.graphs import Graph, quantized

EACH = 15

WEIGHTS = "!quant.uniform<i8<-127:127>:f32, 0.25>"


def test_weights_beside_unsigned_data_do_not_saturate(tmp_path: Path) -> None:
    """They are written as unsigned ones around 128, whose sums onnxruntime adds exactly."""
    values = np.random.default_rng(0).integers(-127, 128, 4 * 32).tolist()
    x, y = "!quant.uniform<u8:f32, 0.5:125>", "!quant.uniform<u8:f32, 64.0:120>"
    module = network(f"""
      func.func @main(%x: tensor<8x32xf32>) -> tensor<8x4xf32> {{
        %q = quant.qcast %x : tensor<8x32xf32> to tensor<8x32x{x}>
        %w = nn.constant <tensor<4x32xi8>, {values}> : tensor<4x32x{WEIGHTS}>
        %r = nn.fully_connected %q, %w : tensor<8x32x{x}>, tensor<4x32x{WEIGHTS}> -> tensor<8x4x{y}>
        %y = quant.dcast %r : tensor<8x4x{y}> to tensor<8x4xf32>
        func.return %y : tensor<8x4xf32>
      }}""")
    follow(module, "onnxruntime")
    exported(module, tmp_path / "again.onnx", format="onnx-qoperator")
    again = qmlir.load(tmp_path / "again.onnx", numerics="onnxruntime")
    sample = np.random.default_rng(1).uniform(-70, 70, (8, 32)).astype(np.float32)
    np.testing.assert_array_equal(qmlir.reference(again)(sample), qmlir.reference(module)(sample))


RESIZES: dict[str, dict[str, Any]] = {
    "linear": {"sizes": (10, 7)},
    "corners": {"sizes": (9, 3), "coordinate_transformation_mode": "align_corners"},
    "cubic": {"sizes": (8, 11), "mode": "cubic"},
    "rows": {"sizes": (7, 4)},
    "smaller": {"sizes": (2, 3), "antialias": 1},
}


@pytest.mark.parametrize(("form", "precision"), [("onnx-qdq", "int16"), ("onnx-qoperator", "uint8")])
@pytest.mark.parametrize("mode", RESIZES)
def test_an_interpolation_is_one_again(mode: str, form: str, precision: Any, tmp_path: Path) -> None:
    """It is written as sums on floats, which round otherwise where an exact result is between two steps."""
    attributes = {"mode": "linear", **RESIZES[mode]}
    sizes = np.array([1, 2, *attributes.pop("sizes")], np.int64)
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 4)).astype(np.float32)
    module = load_onnx(model(node("Resize", "x _ _ sizes", **attributes), {"x": x.shape}, {"sizes": sizes}))
    module = qmlir.quantize(module, qmlir.profile(module, [x]), precision=precision, schema="asymmetric")
    exported(module, tmp_path / "again.onnx", format=form)
    again = Pipeline(*IMPORTED)(qmlir.load(tmp_path / "again.onnx"))
    (entry,) = decisions(again)
    assert (entry.operation, entry.outcome) == ("nn.resize", decisions(module)[0].outcome)
    np.testing.assert_array_equal(qmlir.reference(again)(x), qmlir.reference(module)(x))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "uint8"])
@pytest.mark.parametrize("form", ["onnx-qdq", "onnx-qoperator"])
def test_the_bits_are_the_same(form: str, precision: str, tmp_path: Path) -> None:
    """Also under onnxruntime, whose sums of u8 by s8 saturate: the weights beside u8 are written as u8."""
    path = tmp_path / "again.onnx"
    compared = 0

    def check(module: ModuleOp, graph: Graph) -> bool:
        nonlocal compared
        for numerics in ("default", "onnxruntime"):
            followed = module.clone()
            follow(followed, numerics)
            exported(followed, path, format=form)
            again = Pipeline(*IMPORTED)(qmlir.load(path, numerics=numerics))
            if numerics != "default" and any(entry.outcome == "float" for entry in decisions(again)):
                continue  # onnxruntime computes an interpolation on floats, as it is written
            ours, theirs = qmlir.reference(followed), qmlir.reference(again)
            for sample in graph.samples:
                for a, b in zip(ours.run(sample), theirs.run(sample), strict=True):
                    np.testing.assert_array_equal(a, b)
            compared += 1
        return True

    assert quantized("asymmetric", EACH, check, precision=precision) >= EACH * 4 // 5
    assert compared >= EACH // 2
