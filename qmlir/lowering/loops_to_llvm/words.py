"""Operations of simd on processors without vectors, whose registers are words of 32 or 64 bits."""

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from qmlir.ir.types import vector_of
from qmlir.ir.upstream.llvm import AddOp, ExtractElementOp, MulOp, SelectOp, ShlOp, SubOp
from qmlir.lowering.loops_to_llvm.lowering import WRAP, FunctionLowering
from qmlir.lowering.loops_to_llvm.vector import lanes_of


def word_products(f: FunctionLowering, acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """acc plus sums of pairs of i16, or of quads of i8, which are extended to two pairs each (sxtb16), by smlad."""
    lanes, quads = lanes_of(acc), lanes_of(a) // lanes_of(acc) == 4
    apart = lanes_of(a) // lanes
    result = acc
    for lane in range(lanes):
        at = f.integer(lane, i32)
        words = [f.cast(llvm.BitcastOp, f.shuffle(x, x, range(lane * apart, (lane + 1) * apart)), i32) for x in (a, b)]
        total = f.emit(ExtractElementOp.create(operands=[acc, at], result_types=[i32]))
        for turn in (0, 8) if quads else (0,):
            turned = [f.intrinsic("llvm.fshr.i32", (x, x, f.integer(turn, i32)), i32) if turn else x for x in words]
            pairs = [f.intrinsic("llvm.arm.sxtb16", (x,), i32) for x in turned] if quads else turned
            total = f.intrinsic("llvm.arm.smlad", (*pairs, total), i32)
        result = f.emit(llvm.InsertElementOp.create(operands=[result, total, at], result_types=[acc.type]))
    return result


def wide_word_products(f: FunctionLowering, acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """acc plus sums of quads of i16 by i8: the even bytes of a word and the odd ones, extended, are two pairs."""
    result = acc
    for lane in range(lanes_of(acc)):
        at, first = f.integer(lane, i32), 4 * lane
        word = f.cast(llvm.BitcastOp, f.shuffle(b, b, range(first, first + 4)), i32)
        total = f.emit(ExtractElementOp.create(operands=[acc, at], result_types=[i32]))
        for half, turn in enumerate((0, 8)):
            pair = f.cast(llvm.BitcastOp, f.shuffle(a, a, range(first + 2 * half, first + 2 * half + 2)), i32)
            turned = f.intrinsic("llvm.fshr.i32", (word, word, f.integer(turn, i32)), i32) if turn else word
            factors = f.intrinsic("llvm.arm.sxtb16", (turned,), i32)
            total = f.intrinsic("llvm.arm.smlad", (pair, factors, total), i32)
        result = f.emit(llvm.InsertElementOp.create(operands=[result, total, at], result_types=[acc.type]))
    return result


def words_shifted(
    f: FunctionLowering,
    products: Sequence[tuple[SSAValue, SSAValue]],
    drop: SSAValue,
    offset: SSAValue | None,
    *,
    whole: bool,
) -> SSAValue:
    """(Σ products + 2^(drop − 1) + offset · 2^drop) >> drop: products of words have two, of which the high is shifted.

    For at least 33 bits, half a step is a number of high words; for 32 it is the highest bit of the low word.
    """
    wide = vector_of(i64, lanes_of(drop))
    total: SSAValue | None = None
    for data, factor in products:
        product = f.binary(MulOp, f.cast(llvm.SExtOp, data, wide), f.cast(llvm.SExtOp, factor, wide), WRAP)
        total = product if total is None else f.binary(AddOp, total, product, WRAP)
    assert total is not None
    rest = f.binary(SubOp, drop, f.splat(32, drop.type), WRAP)
    high = f.cast(llvm.TruncOp, f.binary(llvm.AShrOp, total, f.splat(32, wide)), drop.type)
    half = f.binary(llvm.LShrOp, f.binary(ShlOp, f.splat(1, drop.type), rest, WRAP), f.splat(1, drop.type))
    high = f.binary(AddOp, high, half, WRAP)
    if not whole:
        low = f.binary(llvm.LShrOp, f.cast(llvm.TruncOp, total, drop.type), f.splat(31, drop.type))
        even = f.compare("eq", rest, f.splat(0, drop.type))
        high = f.binary(AddOp, high, f.emit(SelectOp(even, low, f.splat(0, drop.type))), WRAP)
    shifted = f.binary(llvm.AShrOp, high, rest)
    return shifted if offset is None else f.binary(AddOp, shifted, offset, WRAP)
