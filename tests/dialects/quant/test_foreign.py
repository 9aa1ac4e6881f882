"""Upstream's further types: their text, their rules, and that what cannot compute with them says so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import func, test
from xdsl.dialects.builtin import (
    Builtin,
    FloatData,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    bf16,
    f4E2M1FN,
    f8E4M3FN,
    f8E5M2,
    f16,
    f32,
    f64,
    i8,
    tf32,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant import QUANT
from qmlir.dialects.quant.foreign import (
    AnyType,
    CalibratedType,
    FloatStorageType,
    SubChannelType,
)
from qmlir.dialects.quant.ops import DequantizeCastOp, StorageCastOp
from qmlir.dialects.quant.syntax import default_range, float_format
from qmlir.dialects.quant.types import PER_TENSOR, packed_scales, packed_zero_points, quantized_element
from qmlir.errors import QmlirError
from qmlir.ir.signature import signature_of

u8 = IntegerType(8, Signedness.UNSIGNED)


def parsed(text: str) -> Attribute:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(QUANT)
    return Parser(context, text).parse_type()


# Round trips.

FLOATS = st.sampled_from([f16, bf16, f32, f64, tf32, f8E5M2])


@st.composite
def storages(draw: st.DrawFn) -> tuple[IntegerType, int, int]:
    bits = draw(st.integers(1, 32))
    storage = IntegerType(bits, draw(st.sampled_from([Signedness.SIGNLESS, Signedness.UNSIGNED])))
    return storage, *draw(ranges(storage))


@st.composite
def ranges(draw: st.DrawFn, storage: Attribute) -> tuple[int, int]:
    least, greatest = default_range(storage)
    low = draw(st.integers(least, greatest - 1))
    return draw(st.sampled_from([(least, greatest), (low, draw(st.integers(low + 1, greatest)))]))


@st.composite
def scales(draw: st.DrawFn, expressed: Attribute) -> float:
    format = float_format(expressed)
    assert format is not None
    powers = st.integers(max(format.lowest, -60), 10).map(lambda e: 2.0**e)
    return draw(st.one_of(powers, st.floats(2.0**-10, 100.0), st.floats(format.smallest, format.largest)))


@st.composite
def sub_channels(draw: st.DrawFn) -> Attribute:
    storage, low, high = draw(storages())
    expressed = draw(FLOATS)
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    count = 1
    for length in shape:
        count *= length
    axes = draw(st.lists(st.integers(0, 4), max_size=3))
    blocks = [(axis, draw(st.integers(1, 1 << 40))) for axis in axes]
    values = draw(st.lists(scales(expressed), min_size=count, max_size=count))
    points = draw(st.lists(st.integers(*default_range(storage)), min_size=count, max_size=count))
    return SubChannelType.of(storage, blocks, shape, values, points, low, high, expressed)


@st.composite
def float_storages(draw: st.DrawFn) -> Attribute:
    storage = draw(st.sampled_from([f8E5M2, f8E4M3FN, f4E2M1FN]))
    low, high = draw(ranges(storage))
    expressed = draw(FLOATS)
    axis = draw(st.sampled_from([PER_TENSOR, 0, 3]))
    count = 1 if axis == PER_TENSOR else draw(st.integers(1, 4))
    values = draw(st.lists(scales(expressed), min_size=count, max_size=count))
    points = draw(st.lists(st.integers(-(2**40), 2**40), min_size=count, max_size=count))
    parameters = packed_scales(values), packed_zero_points(points), IntAttr(axis)
    return FloatStorageType(storage, IntAttr(low), IntAttr(high), expressed, *parameters)


@st.composite
def anys(draw: st.DrawFn) -> Attribute:
    storage, low, high = draw(storages())
    return AnyType(storage, IntAttr(low), IntAttr(high), draw(st.one_of(st.just(NoneAttr()), FLOATS)))


@st.composite
def calibrateds(draw: st.DrawFn) -> Attribute:
    ends = draw(st.lists(st.floats(allow_nan=False), min_size=2, max_size=2, unique=True))
    return CalibratedType(draw(FLOATS), *(FloatData(end) for end in sorted(ends)))


@pytest.mark.slow
@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.one_of(sub_channels(), float_storages(), anys(), calibrateds()))
def test_round_trip(type: Attribute) -> None:
    text = str(type)
    again = parsed(text)
    assert again == type
    assert hash(again) == hash(type)
    assert str(again) == text
    tensor = TensorType(type, [4, 2])
    assert parsed(str(tensor)) == tensor


def test_types_of_one_name_differ() -> None:
    texts = ["i8:f32, 1.0", "i8:f32:0, {1.0}", "i8:f32:{0:1}, {1.0}", "i8:f32:{0:2}, {1.0}", "i8:f32:{}, {{1.0}}"]
    assert len({parsed(f"!quant.uniform<{t}>") for t in texts}) == len(texts)


def test_block_parameters() -> None:
    type = parsed("!quant.uniform<u8:f16:{0:1, 2:4}, {{{0.1:200},{0.2:-56}}}>")
    assert isinstance(type, SubChannelType)
    assert type.block_sizes == ((0, 1), (2, 4))
    assert type.shape == (1, 2, 1)
    assert type.zero_points == (200, 200)
    assert type.scales[0] == 0.0999755859375  # the nearest f16
    assert type.storage_type == i8
    assert (type.storage_min, type.storage_max) == (0, 255)


# Rules that the text cannot break.


def test_rejects_when_built() -> None:
    with pytest.raises(VerifyException, match=r"shape of scales and zeroPoints \(2 vs 2\) does not match: need \(1,\)"):
        SubChannelType.of(i8, [], [1], [1.0, 2.0])
    with pytest.raises(VerifyException, match="does not match"):
        SubChannelType.of(i8, [], [], [1.0])
    with pytest.raises(VerifyException, match="illegal quantized dimension: -1"):
        SubChannelType.of(i8, [(-1, 1)], [1], [1.0])
    with pytest.raises(VerifyException, match="illegal block size: 0"):
        SubChannelType.of(i8, [(0, 0)], [1], [1.0])
    with pytest.raises(VerifyException, match="illegal storage min and storage max"):
        SubChannelType.of(u8, [], [1], [1.0], qmin=-1)
    with pytest.raises(VerifyException, match="scale out of expressed type range"):
        SubChannelType.of(u8, [], [1], [1e9], expressed=f16)
    with pytest.raises(VerifyException, match="illegal storage type: need an integer or one of f8E5M2"):
        AnyType(f32, IntAttr(0), IntAttr(1), NoneAttr())


# Who computes refuses.

FOREIGN = [
    "!quant.uniform<i8:f32:{0:2}, {1.0}>",
    "!quant.uniform<f8E5M2:f32, 1.0>",
    "!quant.any<i8:f32>",
    "!quant.calibrated<f32<0.0:1.0>>",
]


@pytest.mark.parametrize("text", FOREIGN)
def test_the_compiler_refuses(text: str) -> None:
    type = parsed(text)
    assert quantized_element(TensorType(type, [2])) is None
    cast = DequantizeCastOp(test.TestOp(result_types=[TensorType(type, [2])]).res[0], TensorType(f32, [2]))
    cast.verify()
    with pytest.raises(QmlirError, match=r"quant.dcast: needs one scale, .* quantize per tensor or per axis"):
        _ = cast.quantized


@pytest.mark.parametrize("text", FOREIGN)
def test_a_signature_refuses(text: str) -> None:
    function = func.FuncOp("main", ([TensorType(parsed(text), [2])], []))
    with pytest.raises(QmlirError, match=r'tensor "input0": needs integers .*; quantize per tensor or per axis'):
        signature_of(function)


def test_storage_cast_of_any() -> None:
    type = parsed("!quant.any<ui8>")
    StorageCastOp(test.TestOp(result_types=[type]).res[0], i8).verify()
