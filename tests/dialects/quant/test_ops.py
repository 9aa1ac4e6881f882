"""The casts: their text, their verifiers and their meaning on arrays."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    Builtin,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i32,
)
from xdsl.dialects.func import Func
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant import QUANT
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import QmlirError

u8 = IntegerType(8, Signedness.UNSIGNED)
q8 = UniformType.per_tensor(i8, 0.5, 3)
qu8 = UniformType.per_tensor(u8, 0.5, 128)
per_axis = UniformType.per_axis(i8, 1, [0.5, 0.25], [0, 3], -127, 127)


def value(type: Attribute) -> SSAValue:
    return test.TestOp(result_types=[type]).res[0]


def tensor(element: Attribute, *shape: int) -> TensorType[Attribute]:
    return TensorType(element, shape)


def verified(op: QuantizeCastOp | DequantizeCastOp | StorageCastOp) -> None:
    op.verify()


def test_round_trip() -> None:
    context = Context()
    for dialect in (Builtin, Func, QUANT):
        context.load_dialect(dialect)
    text = """builtin.module {
  func.func @casts(%x : tensor<4xf32>, %s : f32, %u : tensor<*xf32>) {
    %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
    %1 = quant.scast %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xi8>
    %2 = quant.scast %1 {note = "kept"} : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
    %3 = quant.dcast %2 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xf32>
    %4 = quant.qcast %s : f32 to !quant.uniform<u4:f32, 1.000000e-01>
    %5 = quant.qcast %u : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:2, {1.000000e+00,2.000000e+00:4}>>
    func.return
  }
}"""
    module = Parser(context, text).parse_module()
    module.verify()
    again = Parser(context, str(module)).parse_module()
    assert str(again) == str(module)
    assert module.is_structurally_equivalent(again)
    assert 'quant.scast %1 {note = "kept"} : tensor<4xi8> to' in str(module)


# Verifiers.


@pytest.mark.parametrize(
    ("op", "operand", "result", "message"),
    [
        (DequantizeCastOp, f32, f32, "operand #0 must be scalar or tensor of quantized type, got f32"),
        (DequantizeCastOp, q8, q8, "result #0 must be scalar or tensor of floating-point"),
        (QuantizeCastOp, f32, f32, "result #0 must be scalar or tensor of quantized type"),
        (QuantizeCastOp, q8, q8, "operand #0 must be scalar or tensor of floating-point"),
        (QuantizeCastOp, f32, tensor(q8), "input and result are both scalars or both tensors with matching shape"),
        (QuantizeCastOp, tensor(f32, 2, 3), tensor(q8, DYNAMIC_INDEX, 3), "both tensors with matching shape"),
        (DequantizeCastOp, tensor(q8, 2, 3), tensor(f32, 3, 2), "both tensors with matching shape"),
        (QuantizeCastOp, f64, q8, "expressed type in quantized type expected to match float type: got f32 and f64"),
        (DequantizeCastOp, q8, f64, "expressed type in quantized type expected to match float type"),
        (QuantizeCastOp, f32, per_axis, "scalar types may not use per-axis quantization"),
        (QuantizeCastOp, tensor(f32, 2), tensor(per_axis, 2), "quantized dimension must be less than tensor rank"),
        (
            QuantizeCastOp,
            tensor(f32, 2, 3),
            tensor(per_axis, 2, 3),
            "quantized dimension size does not match number of scales: dimension 1 has size 3, and there are 2 scales",
        ),
        (StorageCastOp, f32, q8, "operand #0 must be scalar or tensor of signless integer or quantized type"),
        (StorageCastOp, u8, qu8, "operand #0 must be scalar or tensor of signless integer or quantized type"),
        (StorageCastOp, q8, f32, "result #0 must be scalar or tensor of signless integer or quantized type"),
        (StorageCastOp, i8, i8, "input must be integer and result must be quantized, or vice versa"),
        (StorageCastOp, q8, qu8, "input must be integer and result must be quantized, or vice versa"),
        (StorageCastOp, i32, q8, "storage type in quantized type expected to match integer type: got i8 and i32"),
        (StorageCastOp, tensor(q8, 2), tensor(i8, 3), "both tensors with matching shape"),
        (StorageCastOp, i8, per_axis, "scalar types may not use per-axis quantization"),
    ],
)
def test_rejects(
    op: type[QuantizeCastOp | DequantizeCastOp | StorageCastOp], operand: Attribute, result: Attribute, message: str
) -> None:
    with pytest.raises(VerifyException, match=message):
        verified(op(value(operand), result))


def test_accepts_unknown_dimensions() -> None:
    verified(
        QuantizeCastOp(value(tensor(f32, DYNAMIC_INDEX, DYNAMIC_INDEX)), tensor(per_axis, DYNAMIC_INDEX, DYNAMIC_INDEX))
    )
    verified(StorageCastOp(value(tensor(per_axis, 7, 2)), tensor(i8, 7, 2)))
    verified(StorageCastOp(value(tensor(i8, 7)), tensor(qu8, 7)))


# Meaning.


def test_qcast_and_dcast() -> None:
    x = np.array([-1e9, -1.75, -1.25, 0.0, 0.25, 0.75, np.nan, 1e9], np.float32)
    quantize = QuantizeCastOp(value(tensor(f32, 8)), tensor(q8, 8))
    (q,) = quantize.evaluate(x)
    # x / 0.5 = −3.5, −2.5, 0, 0.5, 1.5: half to even before the zero point is added.
    assert q.dtype == np.int8
    assert q.tolist() == [-128, -1, 1, 3, 3, 5, 3, 127]
    (y,) = DequantizeCastOp(quantize.result, tensor(f32, 8)).evaluate(q)
    assert y.dtype == np.float32
    assert y.tolist() == [-65.5, -2.0, -1.0, 0.0, 0.0, 1.0, 0.0, 62.0]


def test_per_axis_and_range() -> None:
    x = np.array([[1.0, 1.0], [-100.0, -100.0]], np.float32)
    (q,) = QuantizeCastOp(value(tensor(f32, 2, 2)), tensor(per_axis, 2, 2)).evaluate(x)
    assert q.tolist() == [[2, 7], [-127, -127]]
    (y,) = DequantizeCastOp(value(tensor(per_axis, 2, 2)), tensor(f32, 2, 2)).evaluate(q)
    assert y.tolist() == [[1.0, 1.0], [-63.5, -32.5]]


@pytest.mark.parametrize(("expressed", "dtype"), [(f16, np.float16), (f64, np.float64)])
def test_other_expressed_types(expressed: Attribute, dtype: type[np.floating]) -> None:
    type = UniformType.per_tensor(i8, 2.0**-10, 0, expressed=expressed)
    (y,) = DequantizeCastOp(value(tensor(type, 1)), tensor(expressed, 1)).evaluate(np.array([3], np.int8))
    assert y.dtype == dtype
    assert float(y[0]) == 3 / 1024


def test_bf16_cannot_be_evaluated() -> None:
    type = UniformType.per_tensor(i8, 1.0, 0, expressed=bf16)
    with pytest.raises(QmlirError, match="numpy has no type for it; express it as f32"):
        DequantizeCastOp(value(type), bf16).evaluate(np.array([3], np.int8))


def test_scast_keeps_the_bits() -> None:
    to_storage = StorageCastOp(value(tensor(qu8, 3)), tensor(i8, 3))
    (stored,) = to_storage.evaluate(np.array([0, 127, 200], np.uint8))
    assert stored.dtype == np.int8
    assert stored.tolist() == [0, 127, -56]
    (back,) = StorageCastOp(to_storage.result, tensor(qu8, 3)).evaluate(stored)
    assert back.dtype == np.uint8
    assert back.tolist() == [0, 127, 200]


def test_scast_below_a_byte() -> None:
    u4 = UniformType.per_tensor(IntegerType(4, Signedness.UNSIGNED), 1.0)
    (stored,) = StorageCastOp(value(tensor(u4, 2)), tensor(IntegerType(4), 2)).evaluate(np.array([3, 15], np.uint8))
    assert stored.tolist() == [3, -1]
    (back,) = StorageCastOp(value(tensor(IntegerType(4), 2)), tensor(u4, 2)).evaluate(stored)
    assert back.tolist() == [3, 15]
