"""Integers stay exact where `evaluate` goes through floats, and refuse what they cannot represent."""

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, StringAttr, TensorType, i8, i32, i64
from xdsl.ir import SSAValue

from qmlir.dialects import qint
from qmlir.dialects.qint.requantize import int32, int32s, largest_difference
from qmlir.numerics.fixed_point import NumericsError


def value(bits: int, *shape: int) -> SSAValue:
    return test.TestOp(result_types=[TensorType(IntegerType(bits), shape)]).res[0]


@pytest.mark.parametrize(
    ("bits", "zero_point", "largest"), [(8, 0, 128), (8, -128, 255), (8, 127, 255), (16, 5, 32773), (8, 1000, 1128)]
)
def test_largest_difference(bits: int, zero_point: int, largest: int) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    assert largest_difference(value(bits, 1), zero_point) == largest
    assert largest == max(abs(low - zero_point), abs(high - zero_point))


@pytest.mark.parametrize("terms", [513, 514, 515, 1023, 1024])
@pytest.mark.parametrize("zero_point", [0, -128])
def test_sums_are_exact_on_both_sides_of_f32(terms: int, zero_point: int) -> None:
    """f32 holds integers up to 2^24, just what 1023 or 514 of the largest products reach."""
    op = qint.FullyConnectedOp.make([value(8, 2, terms), value(8, 2, terms), []], {"zero_point": int32(zero_point)})
    fits = terms * (255 if zero_point else 128) * 128 < 1 << 24
    assert (op.exact_type(terms) is np.float32) == fits
    x = np.full((2, terms), 127 if zero_point else -128, np.int8)
    x[1, ::2] -= 1 if zero_point else -1
    w = np.full((2, terms), -128, np.int8)
    w[1, ::3] = 127
    expected = (x.astype(np.int64) - zero_point) @ w.astype(np.int64).T
    np.testing.assert_array_equal(op.evaluate(x, w)[0], expected)


@pytest.mark.parametrize("terms", [514, 515, 1023, 1024, 1600])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("weight", [-128, 82, 0])
def test_sums_of_convolutions_are_exact_for_their_weights(terms: int, groups: int, weight: int) -> None:
    """514 weights of −128 stay below 2^24, and so do 800 of 82; their types alone would not say so."""
    shapes = (1, 2, 2, terms * groups), (2 * groups, 1, 1, terms)
    given = {"zero_point": int32(-128), "groups": int32(groups)}
    op = qint.Conv2DOp.make([value(8, *shapes[0]), value(8, *shapes[1]), []], given)
    w = np.full(shapes[1], weight, np.int8)
    w[1, :, :, ::3] = 0
    fits = terms * 255 * abs(weight) < 1 << 24
    assert (op.exact_for(w.reshape(-1, terms)) is np.float32) == fits
    x = np.full(shapes[0], 127, np.int8)
    x[0, 1, ::2] -= 1
    parts = (x.astype(np.int64) + 128).reshape(4, groups, terms)
    expected = np.einsum("pgk,gok->pgo", parts, w.astype(np.int64).reshape(groups, 2, terms)).reshape(1, 2, 2, -1)
    np.testing.assert_array_equal(op.evaluate(x, w)[0], expected)


def test_wide_sums_are_exact_in_f64() -> None:
    """The bias is added to integers, not to f32, where it would lose bits."""
    op = qint.FullyConnectedOp.make([value(8, 1, 1), value(8, 1, 1), [value(32, 1)]])
    bias = np.array([(1 << 30) + 1], np.int32)
    assert op.evaluate(np.array([[1]], np.int8), np.array([[1]], np.int8), bias)[0].item() == (1 << 30) + 2


def test_sums_beyond_f64_are_exact() -> None:
    """f64 would lose their last bit."""
    far = {"zero_point": int32(-(1 << 31) + 32768)}
    op = qint.FullyConnectedOp.make([value(16, 1, 201), value(16, 1, 201), []], far, element=i64)
    assert op.exact_type(201) is np.int64
    x, w = np.full((1, 201), 32767, np.int16), np.full((1, 201), 32767, np.int16)
    assert op.evaluate(x, w)[0].item() == 201 * ((1 << 31) - 1) * 32767 > 1 << 53


def test_sums_of_64_bits() -> None:
    """An i64 accumulator where it is asked for; the bias has its type."""
    left, right = np.full((1, 3), -32768, np.int16), np.full((3, 1), -32768, np.int16)
    op = qint.MatMulOp.make([value(16, 1, 3), value(16, 3, 1)], element=i64)
    assert op.acc.type == TensorType(i64, [1, 1])
    assert op.evaluate(left, right)[0].tolist() == [[3 << 30]]
    wide = qint.FullyConnectedOp.make([value(16, 1, 3), value(16, 1, 3), [value(64, 1)]], element=i64)
    wide.verify()
    bias = np.array([1 << 40])
    assert wide.evaluate(left, right.T, bias)[0].tolist() == [[(3 << 30) + (1 << 40)]]


def test_depthwise_sums_of_i16_are_exact() -> None:
    op = qint.DepthwiseConv2DOp.make([value(16, 1, 1, 1, 1), value(16, 1, 1, 1, 1), []], {"zero_point": int32(-32768)})
    x, w = np.full((1, 1, 1, 1), 32767, np.int16), np.full((1, 1, 1, 1), 32767, np.int16)
    assert op.evaluate(x, w)[0].item() == 65535 * 32767


def test_accumulators_beyond_a_contract_are_refused() -> None:
    properties = {
        "multiplier": int32s([1 << 30]),
        "shift": int32s([-5]),
        "contract": StringAttr("double"),
        "input_zero_point": int32(1),
        "min": int32(-128),
        "max": int32(127),
    }
    op = qint.RequantizeOp.make([value(32, 1)], properties, element=i8)
    op.verify()
    with pytest.raises(NumericsError, match="contract double needs accumulators within ±2147483648"):
        op.evaluate(np.array([-(1 << 31)], np.int32))


def test_sums_of_accumulators_may_use_all_64_bits() -> None:
    """What the verifier admits does not overflow: here the sum reaches 2^62 + 2^61 + 2^32."""
    properties = {
        "multipliers": DenseArrayBase.from_list(i64, [-(1 << 30), -(1 << 30)]),
        "shift": int32(62),
        "min": int32(-128),
        "max": int32(127),
    }
    op = qint.AddOp.make([value(32, 1), value(32, 1)], properties, element=i8)
    op.verify()
    least = np.array([-(1 << 31)], np.int32)
    assert op.evaluate(least, least)[0].item() == 1
    assert op.y.type == TensorType(i8, [1])
    assert op.lhs.type == TensorType(i32, [1])
