"""Cast, CastLike and BitCast."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from qmlir.backends.reference import evaluate
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import FLOAT, agree, floats, kinds, main_of, model, node, ops_of, reason

FAR = np.array([1.5, -1.5, 300.0, -300.0, 1e10, -1e10, np.inf, -np.inf, np.nan, 0.25], np.float32)


def result(proto: onnx.ModelProto, *inputs: Any) -> Any:
    """What the reference makes of a model."""
    module = load_onnx(proto)
    module.verify()
    return evaluate(main_of(module), list(inputs))[0]


def test_to_the_same_type() -> None:
    assert kinds(agree(model(node("Cast", "x", to=FLOAT), {"x": [3]}))) == []


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (TensorProto.INT8, [1, -1, 127, -128, 127, -128, 127, -128, 0, 0]),
        (TensorProto.UINT8, [1, 0, 255, 0, 255, 0, 255, 0, 0, 0]),
        (TensorProto.INT64, [1, -1, 300, -300, 10**10, -(10**10), 2**63 - 1, -(2**63), 0, 0]),
        (TensorProto.UINT64, [1, 0, 300, 0, 10**10, 0, 2**64 - 1, 0, 0, 0]),
        (TensorProto.BOOL, [True] * 10),
    ],
)
def test_floats_saturate(code: int, wanted: list[int]) -> None:
    assert result(model(node("Cast", "x", to=code), {"x": [10]}), FAR).tolist() == wanted


def test_integers_keep_their_low_bits() -> None:
    x = np.array([200, -200, 65536 + 7, -1], np.int32)
    proto = model(node("Cast", "x", to=TensorProto.INT8), {"x": [4]}, element=TensorProto.INT32)
    assert result(proto, x).tolist() == [-56, 56, 7, -1]


def test_of_a_constant_at_import() -> None:
    """Also to types that no machine computes on."""
    constants = {"c": np.array([0.3, 500.0, np.nan], np.float32)}
    for code, name in ((TensorProto.FLOAT8E4M3FN, "float8_e4m3fn"), (TensorProto.BFLOAT16, "bfloat16")):
        proto = model([node("Cast", "c", "d", to=code), node("Identity", "d", "y")], {}, constants)
        (op,) = ops_of(load_onnx(proto))
        assert op.value.array.dtype.name == name  # type: ignore[attr-defined]


def test_like_another_tensor() -> None:
    proto = model(node("CastLike", "x t"), {"x": [10]}, {"t": np.zeros(1, np.int16)})
    assert result(proto, FAR)[:4].tolist() == [1, -1, 300, -300]


def test_bits() -> None:
    proto = model(node("BitCast", "x", to=TensorProto.INT32), {"x": [5]}, opset=26)
    x = floats(5)
    np.testing.assert_array_equal(result(proto, x), x.view(np.int32))


def test_refusals() -> None:
    assert "casts f32 to string" in reason(model(node("Cast", "x", to=TensorProto.STRING), {"x": [3]}))
    up = model(node("Cast", "x", to=TensorProto.FLOAT8E8M0), {"x": [3]}, opset=24)
    assert "rounds up to powers of two" in reason(up)
