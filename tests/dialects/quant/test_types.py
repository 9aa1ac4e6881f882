"""`!quant.uniform`: its text, its rules, its cost."""

import struct
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from qmlir.dialects.quant import QUANT
from qmlir.dialects.quant.syntax import float_text
from qmlir.dialects.quant.types import UniformType, quantized_element, storage_tensor

u8 = IntegerType(8, Signedness.UNSIGNED)


def parsed(text: str) -> Attribute:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(QUANT)
    return Parser(context, text).parse_type()


def uniform(text: str) -> UniformType:
    type = parsed(f"!quant.uniform<{text}>")
    assert isinstance(type, UniformType)
    return type


# Text.

# What upstream's own tests feed to mlir-opt (LLVM 22), and what it prints.
UPSTREAM = [
    ("i8<-8:7>:f32, 0.99872:127", "i8<-8:7>:f32, 9.987200e-01:127"),
    ("i8<-8:7>:f32, 0.99872:127  ", "i8<-8:7>:f32, 9.987200e-01:127"),
    ("u8:f32, 2.0e-2", "u8:f32, 2.000000e-02"),
    ("u8:f32, 2.0e+2", "u8:f32, 2.000000e+02"),
    ("i16:f32, 2.0e+2", "i16:f32, 2.000000e+02"),
    ("u16:f32, 2.0e+2", "u16:f32, 2.000000e+02"),
    ("i32:f32, 2.0e+2", "i32:f32, 2.000000e+02"),
    ("u32:f32, 2.0e+2", "u32:f32, 2.000000e+02"),
    ("u8:f32, 0x41646ABBA0000000:128", "u8:f32, 0x41646ABBA0000000:128"),
    ("u8:f16, 2.0e+2", "u8:f16, 2.000000e+02"),
    ("u8:f64, 2.0e+2", "u8:f64, 2.000000e+02"),
    ("u8:bf16, 2.0e+2", "u8:bf16, 2.000000e+02"),
    ("si8:f32, 1.0", "i8:f32, 1.000000e+00"),
    ("ui8:f32, 1.0", "u8:f32, 1.000000e+00"),
    ("u8:f32:1, {2.0e+2:-120,0.99872:127}", "u8:f32:1, {2.000000e+02:-120,9.987200e-01:127}"),
    ("i8:f32:1, {2.0e+2,0.99872}", "i8:f32:1, {2.000000e+02,9.987200e-01}"),
    ("i8:f32:1, {2.0e+2,0.99872:120}", "i8:f32:1, {2.000000e+02,9.987200e-01:120}"),
    ("i8<-128:127>:f32, 1.0:0", "i8:f32, 1.000000e+00"),
    ("i8:f32, 1.0:300", "i8:f32, 1.000000e+00:300"),
]


@pytest.mark.parametrize(("text", "printed"), UPSTREAM)
def test_prints_as_upstream(text: str, printed: str) -> None:
    assert str(uniform(text)) == f"!quant.uniform<{printed}>"


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (0.1, "1.000000e-01"),
        (1e-40, "9.9999999999999992E-41"),
        (float(np.float32(0.1)), "0.10000000149011612"),
        (1 / 255, "0.0039215686274509803"),
        (1 / 2550, "3.9215686274509802E-4"),
        (1 / 255000, "3.9215686274509803E-6"),
        (12345678.9, "12345678.9"),
        (12345678.0, "0x41678C29C0000000"),
        (123456789012345678.0, "1.2345678901234568E+17"),
    ],
)
def test_float_text(scale: float, text: str) -> None:
    """Upstream's three forms: short, 17 digits, bits."""
    assert float_text(scale) == text


def scales(expressed: Attribute) -> st.SearchStrategy[float]:
    low, high = {f16: (2.0**-24, 65504.0), bf16: (1e-38, 1e38), f32: (2.0**-149, 3e38), f64: (5e-324, 1e308)}[expressed]
    usual = st.floats(2.0**-20, 100.0, width=32, allow_subnormal=False)
    return st.one_of(usual, st.floats(low, high), st.integers(-24, 15).map(lambda e: 2.0**e))


@st.composite
def uniform_types(draw: st.DrawFn) -> UniformType:
    bits = draw(st.integers(1, 32))
    signedness = draw(st.sampled_from([Signedness.SIGNLESS, Signedness.SIGNED, Signedness.UNSIGNED]))
    least, greatest = (
        (0, 2**bits - 1) if signedness == Signedness.UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    low = draw(st.integers(least, greatest - 1))
    high = draw(st.integers(low + 1, greatest))
    limits = draw(st.sampled_from([(None, None), (low, high)]))
    expressed = draw(st.sampled_from([f16, bf16, f32, f64]))
    storage = IntegerType(bits, signedness)
    points = st.one_of(st.just(0), st.integers(-(2**33), 2**33))
    if draw(st.booleans()):
        return UniformType.per_tensor(storage, draw(scales(expressed)), draw(points), *limits, expressed)
    count = draw(st.integers(1, 12))
    values = draw(st.lists(scales(expressed), min_size=count, max_size=count))
    zeros = draw(st.lists(points, min_size=count, max_size=count))
    return UniformType.per_axis(storage, draw(st.integers(0, 5)), values, zeros, *limits, expressed)


@pytest.mark.slow
@settings(max_examples=600, deadline=None, derandomize=True)
@given(uniform_types())
def test_round_trip(type: UniformType) -> None:
    """parse ∘ print is the identity, alone and inside a tensor, and every bit of every scale survives."""
    text = str(type)
    again = parsed(text)
    assert again == type
    assert hash(again) == hash(type)
    assert str(again) == text
    assert isinstance(again, UniformType)
    assert [struct.pack("d", s) for s in again.scales] == [struct.pack("d", s) for s in type.scales]
    tensor = TensorType(type, [4, 2])
    assert parsed(str(tensor)) == tensor


# Rules. The messages say at least what upstream's say at the same place.

REJECTED = [
    ("i8<-4:3>:f32, 0.99872:127 23", "expected '>'"),
    ("i8<16>:f32, 0.99872:127", "expected ':'"),
    ("i8<-4:3:f32, 0.99872:127", "expected '>'"),
    ("i8<-4:3>f32, 0.99872:127", "expected ':'"),
    ("i8<-4:3>:f32 0.99872:127", "expected ','"),
    ("int8<-4:3>:f32, 0.99872:127", "illegal storage type prefix"),
    ("i<-4:3>:f32, 0.99872:127", "illegal storage type prefix"),
    ("i33:f32, 0.99872:127", "illegal storage type size: 33"),
    ("u0:f32, 0.99872:127", "illegal storage type size: 0"),
    ("i-1<-4:3>:f32, 0.99872:127", "illegal storage type prefix"),
    ("i123123123120<-4:3>:f32, 0.99872:127", "invalid integer width"),
    ("i8<2:1>:f32, 0.99872:127", r"illegal storage min and storage max: \(2:1\)"),
    ("i8<1:1>:f32, 0.99872:127", r"illegal storage min and storage max: \(1:1\)"),
    ("i4<-1:9>:f32, 0.99872:127", "illegal storage type maximum: 9"),
    ("i4<-9:1>:f32, 0.99872:127", "illegal storage type minimum: -9"),
    ("i8<-4:3>:f32, abc:127", "expected floating point literal"),
    ("i8<-4:3>:f32, 1:127", "expected floating point literal"),
    ("i8<-4:3>:f32, 0.1abc", "expected '>'"),
    ("i8<-4:3>:f32, 0.1:", "expected integer value"),
    ("i8<-4:3>:f32, 0.1:abc", "expected integer value"),
    ("i8<-4:3>:f33, 0.99872:127", "type expected"),
    ("i8<-4:3>:i32, 0.99872:127", "expressed type must be floating point"),
    ("i8<-4:3>:f80, 0.99872:127", "expressed type must be floating point of at most 64 bits"),
    ("i8<-4:3>:f32, -1.0:127", "scale out of expressed type range"),
    ("i8<-4:3>:f32, 0.0:127", "scale out of expressed type range"),
    ("i8:f32, 0x7FF8000000000000", "scale out of expressed type range"),
    ("i8:f32, 0x7FF0000000000000", "scale out of expressed type range"),
    ("i8:f32, 0x1FFFFFFFFFFFFFFFF", "expected floating point literal"),
    ("i8:f32, 1.0:99999999999999999999", "integer value too large"),
    ("i8<-4:3>:f32:, {2.000000e+02:-19.987200e-01:1}", "expected integer value"),
    ("i8<-4:3>:f32, {2.000000e+02,-19.987200e-01:1}", "expected floating point literal"),
    ("i8:f32:-1, {2.0,3.0:1}", "illegal quantized dimension: -1"),
    ("i8:f32:1, {}", "expected floating point literal|illegal number of scales"),
    ("i8:f16, 5.8e-8", "scale out of expressed type range"),
    ("i8:f16, 6.6e4", "scale out of expressed type range"),
    ("i8:f16:1, {2.0,5.8e-8}", "scale out of expressed type range"),
    ("i8:f16:1, {2.0,6.6e4}", "scale out of expressed type range"),
]


@pytest.mark.parametrize(("text", "message"), REJECTED)
def test_rejects(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        uniform(text)


def test_rejects_when_built() -> None:
    with pytest.raises(VerifyException, match="scale out of expressed type range"):
        UniformType.per_tensor(i8, float("nan"))
    with pytest.raises(VerifyException, match="illegal storage min and storage max"):
        UniformType.per_tensor(i8, 1.0, qmin=-200)
    with pytest.raises(VerifyException, match="illegal storage type size: 64"):
        UniformType.per_tensor(IntegerType(64), 1.0)
    with pytest.raises(VerifyException, match="illegal quantized dimension: -1"):
        UniformType.per_axis(i8, -1, [1.0])
    with pytest.raises(VerifyException, match="illegal number of scales and zeroPoints: 2, 1"):
        UniformType.per_axis(i8, 0, [1.0, 2.0], [0])
    with pytest.raises(VerifyException, match="illegal number of scales and zeroPoints: 0, 0"):
        UniformType.per_axis(i8, 0, [])


# Properties.


def test_properties() -> None:
    type = UniformType.per_tensor(i8, 0.5, -3, -127, 127)
    assert (type.storage_width, type.is_signed, type.storage_min, type.storage_max) == (8, True, -127, 127)
    assert (type.scale, type.zero_point, type.axis, type.is_per_axis, type.expressed) == (0.5, -3, None, False, f32)
    assert (type.storage_type, type.numpy_dtype) == (i8, np.int8)
    axis = UniformType.per_axis(u8, 1, [0.5, 0.25], [1, 2])
    assert (axis.axis, axis.scales, axis.zero_points, axis.is_signed) == (1, (0.5, 0.25), (1, 2), False)
    assert (axis.storage_type, axis.numpy_dtype) == (i8, np.uint8)
    scales, points = axis.parameters_along(3)
    assert scales.shape == points.shape == (1, 2, 1)
    assert UniformType.per_tensor(IntegerType(4), 1.0).numpy_dtype == np.int8
    assert UniformType.per_tensor(i16, 1.0).numpy_dtype == np.int16
    assert UniformType.per_tensor(IntegerType(17, Signedness.UNSIGNED), 1.0).numpy_dtype == np.uint32
    assert UniformType.per_tensor(i32, 1.0).numpy_dtype == np.int32


def test_tensors() -> None:
    type = UniformType.per_tensor(u8, 0.5, 3)
    tensor = TensorType(type, [2, 3])
    assert quantized_element(tensor) == quantized_element(type) == type
    assert quantized_element(TensorType(f32, [2])) is None
    assert quantized_element(f32) is None
    assert storage_tensor(tensor) == TensorType(i8, [2, 3])


def test_equality_is_of_bits() -> None:
    scale = float(np.float32(0.1))
    assert UniformType.per_tensor(i8, scale) != UniformType.per_tensor(i8, np.nextafter(scale, 1.0))
    assert UniformType.per_tensor(i8, scale) == UniformType.per_tensor(IntegerType(8, Signedness.SIGNED), scale)
    assert UniformType.per_tensor(i8, scale) != UniformType.per_tensor(u8, scale)
    assert UniformType.per_tensor(i8, 1.0) != UniformType.per_axis(i8, 0, [1.0])


def test_wide_types_are_cheap() -> None:
    """2048 channels: what every operation touching the type does takes microseconds (the bound is 100 times that)."""
    values = [float(s) for s in np.random.default_rng(0).uniform(0.01, 0.1, 2048).astype(np.float32)]
    a, b = UniformType.per_axis(i8, 0, values), UniformType.per_axis(i8, 0, values)
    start = time.perf_counter()
    for _ in range(100):
        assert a == b
        assert hash(a) == hash(b)
        assert a.scales[7] == values[7]
    assert time.perf_counter() - start < 0.5
