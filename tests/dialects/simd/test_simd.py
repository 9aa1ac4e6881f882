"""simd: what the verifier refuses and what the operations mean in numpy."""

import numpy as np
import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.simd import (
    AddBytesOp,
    AddWordsOp,
    DotI8Op,
    DotI8QuadsOp,
    DotI16I8QuadsOp,
    DotI16PairsOp,
    DotU8I8QuadsOp,
    LookupBytesOp,
    MulShiftRoundOp,
    PermuteBytesOp,
)
from qmlir.ir.context import make_context


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ('"simd.dot_i16_pairs"(%i4, %s8, %s8) : (vector<4xi32>, vector<8xi16>, vector<8xi16>) -> vector<8xi32>', "i32"),
        ('"simd.dot_i16_pairs"(%i4, %s8, %s4) : (vector<4xi32>, vector<8xi16>, vector<4xi16>) -> vector<4xi32>', "i16"),
        ("simd.dot_i16_i8_quads %i4, %b16, %b16 : vector<4xi32>, vector<16xi8>, vector<16xi8>", "i16"),
        ('"simd.dot_i8"(%s4, %b16, %b16) : (vector<4xi16>, vector<16xi8>, vector<16xi8>) -> i32', "i32"),
        ("simd.permute_bytes %s8, %s8 : vector<8xi16>", "attribute i8 but got i16"),
        ("simd.mul_shift_round %s4, %s4, %s4 : vector<4xi16>", "i32"),
    ],
)
def test_types_of_elements(operation: str, message: str) -> None:
    """The numbers of lanes are those of filecheck_tests/dialects/simd/invalid.mlir."""
    source = f"""
func.func @f(%i4: vector<4xi32>, %s4: vector<4xi16>, %s8: vector<8xi16>, %b16: vector<16xi8>) {{
  %r = {operation}
  func.return
}}"""
    with pytest.raises(VerifyException, match=message):
        Parser(make_context(), source).parse_module().verify()


def test_dot_wraps() -> None:
    least = np.full(2, -(2**15), np.int16)
    assert DotI16PairsOp.evaluate(np.zeros(1, np.int32), least, least).tolist() == [-(2**31)]
    acc, a, b = np.array([5, 6], np.int32), np.array([1, 2, 3, 4], np.int16), np.array([10, 20, 30, 40], np.int16)
    assert DotI16PairsOp.evaluate(acc, a, b).tolist() == [55, 256]


def test_quads_are_unsigned_by_signed_and_wrap() -> None:
    a, b = np.array([255, 1, 0, 2] * 2, np.uint8).view(np.int8), np.array([-128, 127, 5, -1] * 2, np.int8)
    acc = np.array([0, -(2**31)], np.int32)
    total = 255 * -128 + 127 - 2
    assert DotU8I8QuadsOp.evaluate(acc, a, b).tolist() == [total, 2**31 + total]


def test_signed_quads_wrap() -> None:
    a, b = np.array([-128, 1, 0, 2] * 2, np.int8), np.array([-128, 127, 5, -1] * 2, np.int8)
    acc = np.array([0, 2**31 - 1], np.int32)
    total = 128 * 128 + 127 - 2
    assert DotI8QuadsOp.evaluate(acc, a, b).tolist() == [total, -(2**31) + total - 1]


def test_wide_quads_take_even_bytes_first_and_wrap() -> None:
    a, b = np.array([-(2**15), 300, 0, 2] * 2, np.int16), np.array([-128, 5, 127, -1] * 2, np.int8)
    acc = np.array([0, 2**31 - 1], np.int32)
    total = 2**15 * 128 + 300 * 127 - 2
    assert DotI16I8QuadsOp.evaluate(acc, a, b).tolist() == [total, -(2**31) + total - 1]


def test_a_dot_product_of_bytes_wraps() -> None:
    least = np.full(16, -128, np.int8)
    acc = np.array([2**31 - 1], np.int32)
    assert DotI8Op.evaluate(acc, least, least).tolist() == [-(2**31) + 16 * 2**14 - 1]


def test_bytes_stay_in_their_group() -> None:
    places = np.array([15, 0] * 16, np.int8)
    assert PermuteBytesOp.evaluate(np.arange(32, dtype=np.int8), places).tolist() == [15, 0] * 8 + [31, 16] * 8


def test_places_in_a_table_are_unsigned() -> None:
    table = np.arange(256).astype(np.uint8).view(np.int8)
    places = np.array([0, 127, -128, -1] * 4, np.int8)
    assert LookupBytesOp.evaluate(table, places).tolist() == places.tolist()
    assert LookupBytesOp.evaluate(table[:32] - 9, np.array([31, 0] * 8, np.int8)).tolist() == [22, -9] * 8


def test_sums_of_bytes_carry_and_saturate() -> None:
    """Both bytes count as unsigned; the lower sum carries into the higher one, down for what is negative."""
    a, b = np.array([-1, 0, 100, 100], np.int8), np.array([1, -128, 100, 100], np.int8)
    high = np.array([2 + (3 << 16), 1, 10 + (10 << 16), -10 + (-10 << 16)], np.int32)
    low = np.array([-1, -1 << 16, 0, 0], np.int32)  # halves (−1, −1) and (0, −1)
    k_h, k_l, shift = np.array([5, 0, 0, 0], np.int32), np.array([0, 1, 0, 0], np.int32), np.array([1] * 4, np.int32)
    first = (5 + 255 * 2 + 3 - 1) >> 1  # 255 · −1 + 1 · −1 carries −1
    second = (0 - 1) >> 1  # 128 · −1 + 1 carries −1, and nothing is rounded up
    assert first > 127
    assert AddBytesOp.evaluate(a, b, high, low, k_h, k_l, shift).tolist() == [127, second, 127, -128]


def test_sums_of_words_carry_and_saturate() -> None:
    """Both words are signed; the lower sum carries into the higher one, down for what is negative."""
    a, b = np.array([-1, 0, 1000, 1000], np.int16), np.array([1, -(2**15), 1000, 1000], np.int16)
    high = np.array([2 + (3 << 16), 1, 100 + (100 << 16), -100 + (-100 << 16)], np.int32)
    low = np.array([-1, 1 << 16, 0, 0], np.int32)  # halves (−1, −1) and (0, 1)
    k_h, k_l, shift = np.array([5, 0, 0, 0], np.int32), np.array([0, -1, 0, 0], np.int32), np.array([1] * 4, np.int32)
    first = (5 - 2 + 3 + 0) >> 1  # −1 · −1 + 1 · −1 carries nothing
    second = (0 - 1) >> 1  # −2^15 − 1 carries −1
    assert AddWordsOp.evaluate(a, b, high, low, k_h, k_l, shift).tolist() == [first, second, 2**15 - 1, -(2**15)]


def test_requantization_rounds_half_up() -> None:
    a = np.array([3, -3, 1, 5, 2**31 - 1], np.int32)
    multiplier = np.array([2**30] * 5, np.int32)  # a half
    shift = np.array([-1, -1, -1, -2, -1], np.int32)  # and half of that
    assert MulShiftRoundOp.evaluate(a, multiplier, shift).tolist() == [1, -1, 0, 1, 2**29]
