"""quant.qcast and quant.dcast as machine code against their numpy meaning, bit for bit."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32, f64, i8, i16, i32
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import QUANTIZATION, REST, UNSIGNED
from qmlir.numerics import fixed_point
from tests.conftest import crossed
from tests.lowering.both import check, network, quantized, to_loops

Array = npt.NDArray[Any]

u8, u16, u32 = (IntegerType(n, Signedness.UNSIGNED) for n in (8, 16, 32))

TYPES = {
    "asymmetric": UniformType.per_tensor(i8, 0.1, 3),
    "narrow range": UniformType.per_tensor(i8, 0.5, 0, -127, 127),
    "unsigned": UniformType.per_tensor(u8, 0.037, 128),
    "16 bits": UniformType.per_tensor(i16, 1e-4, -5),
    "unsigned 16 bits": UniformType.per_tensor(u16, 1e-4, 40000),
    "32 bits": UniformType.per_tensor(i32, 1e-8, 7),
    "unsigned 32 bits": UniformType.per_tensor(u32, 1e-8, 1 << 31),
    "zero point outside": UniformType.per_tensor(i8, 1.0, 300),
    "per last axis": UniformType.per_axis(i8, 2, [0.1 * (i + 1) for i in range(20)], list(range(-10, 10))),
    "per first axis": UniformType.per_axis(i8, 0, [0.1, 0.02, 5.0]),
    "per middle axis": UniformType.per_axis(u8, 1, [0.1, 0.02, 5.0, 1.0], [0, 1, 255, 128]),
}

SHAPE = (3, 4, 20)


def floats(scale: float) -> Array:
    """Values around a scale, many of them halfway between two steps, with special ones among them."""
    rng = np.random.default_rng(1)
    x = (rng.integers(-300, 300, SHAPE) * 0.5 * scale).astype(np.float32)
    x.reshape(-1)[:9] = np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-40, 0.5
    x.reshape(-1)[-120:] = rng.standard_normal(120) * 30 * scale
    return x


@crossed({"kind": TYPES, "quantization": fixed_point.QUANTIZATIONS})
def test_quantize(kind: str, quantization: str) -> None:
    type = TYPES[kind]

    def cast(x: SSAValue) -> SSAValue:
        op = QuantizeCastOp(x, quantized(SHAPE, type))
        QUANTIZATION.put(op, quantization)
        return op.result

    check(cast, floats(type.scales[0]))


@pytest.mark.parametrize("kind", TYPES)
def test_dequantize(kind: str) -> None:
    type = TYPES[kind]
    low, high = type.storage_min, type.storage_max
    stored = np.random.default_rng(1).integers(low, high, SHAPE, endpoint=True).astype(type.numpy_dtype)
    stored.reshape(-1)[:2] = low, high
    check(lambda q: DequantizeCastOp(q, TensorType(f32, SHAPE)).result, stored, types=[quantized(SHAPE, type)])


def test_there_and_back() -> None:
    type = TYPES["asymmetric"]
    check(
        lambda x: DequantizeCastOp(QuantizeCastOp(x, quantized(SHAPE, type)).result, TensorType(f32, SHAPE)).result,
        floats(0.1),
    )


def test_a_storage_cast_is_the_same_buffer() -> None:
    type = TYPES["asymmetric"]
    module = to_loops(network(lambda q: StorageCastOp(q, TensorType(i8, SHAPE)).result, quantized(SHAPE, type)))
    assert "func.call" not in [op.name for op in module.walk()]
    check(lambda q: StorageCastOp(q, quantized(SHAPE, type)).result, np.arange(240).astype(np.int8).reshape(SHAPE))


def test_scalars() -> None:
    type = TYPES["asymmetric"]
    check(lambda x: QuantizeCastOp(x, quantized((), type)).result, np.array(0.77, np.float32))


def test_refuses_storage_that_shares_bytes() -> None:
    type = UniformType.per_tensor(IntegerType(4), 0.1)
    with pytest.raises(UnsupportedError, match="needs storage of"):
        to_loops(network(lambda x: QuantizeCastOp(x, quantized((4,), type)).result, TensorType(f32, [4])))


def test_refuses_other_expressed_types() -> None:
    type = UniformType.per_tensor(i8, 0.1, expressed=f64)
    with pytest.raises(UnsupportedError, match="needs an expressed type of f32"):
        to_loops(network(lambda x: QuantizeCastOp(x, quantized((4,), type)).result, TensorType(f64, [4])))


@pytest.mark.parametrize("shape", [(), (5,), (3, 4, 2), (3, 7), (2, 4099), (4096,), (4097,)])
@pytest.mark.parametrize("kind", ["asymmetric", "unsigned", "16 bits", "32 bits"])
def test_the_last_elements_are_computed_in_a_way_of_their_own(kind: str, shape: tuple[int, ...]) -> None:
    type, random = TYPES[kind], np.random.default_rng(2)

    def quantize(x: SSAValue) -> SSAValue:
        op = QuantizeCastOp(x, quantized(shape, type))
        op.attributes |= QUANTIZATION.entry("float32_reciprocal") | REST.entry("exact_away")
        return op.result

    def dequantize(x: SSAValue) -> SSAValue:
        op = DequantizeCastOp(StorageCastOp(x, quantized(shape, type)).result, TensorType(f32, shape))
        op.attributes |= QUANTIZATION.entry("float32_apart") | REST.entry("exact")
        UNSIGNED.put(op, 128)
        return op.result

    check(quantize, np.asarray((random.integers(-99, 99, shape) + 0.5) * type.scale, np.float32))
    bits = type.storage_width
    check(dequantize, np.asarray(random.integers(-(1 << bits - 1), 1 << bits - 1, shape), f"i{bits // 8}"))


def test_the_last_elements_of_a_tensor_differ_from_the_others() -> None:
    op = QuantizeCastOp(create_ssa_value(TensorType(f32, [2, 6])), quantized((2, 6), UniformType.per_tensor(i8, 1.0)))
    op.attributes |= QUANTIZATION.entry("float32") | REST.entry("exact_away")
    (found,) = op.evaluate(np.full((2, 6), 2.5, np.float32))
    assert found.reshape(-1).tolist() == [2] * 8 + [3] * 4
