"""simd → the processor's own instructions, or portable vector code if it has no such instruction.

Vectors are split into registers and joined again; LLVM optimizes both away. The choice of instructions depends on
`features` only, so a module can be lowered for any machine.
"""

from collections.abc import Mapping

from xdsl.dialects import llvm
from xdsl.dialects.builtin import VectorType, i32, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import simd
from qmlir.ir.upstream.llvm import AddOp, MulOp, ShlOp, SubOp
from qmlir.lowering.loops_to_llvm.lowering import WRAP, FunctionLowering, Rule
from qmlir.lowering.loops_to_llvm.vector import lanes_of

PAIR_PRODUCTS = (
    ("avx512bw", 32, "llvm.x86.avx512.pmaddw.d.512"),
    ("avx2", 16, "llvm.x86.avx2.pmadd.wd"),
    ("sse2", 8, "llvm.x86.sse2.pmadd.wd"),
)
"""Feature, lanes of i16 in a register, and the intrinsic that multiplies and adds pairs; widest first."""


def _dot_i16_pairs(f: FunctionLowering, op: simd.DotI16PairsOp) -> None:
    acc, a, b = f.values(op.operands)
    total = lanes_of(a)
    for feature, width, name in PAIR_PRODUCTS:
        if feature in f.features and total % width == 0:
            type = VectorType(i32, [width // 2])
            parts: list[SSAValue] = []
            for start in range(0, total, width):
                lanes = range(start, start + width)
                registers = (a, b) if width == total else (f.shuffle(a, a, lanes), f.shuffle(b, b, lanes))
                parts.append(f.intrinsic(name, registers, type))
            break
    else:
        parts = [_portable_pair_products(f, a, b)]
    f.define(op.result, f.binary(AddOp, acc, _joined(f, parts), WRAP))


def _portable_pair_products(f: FunctionLowering, a: SSAValue, b: SSAValue) -> SSAValue:
    total = lanes_of(a)
    type = VectorType(i32, [total // 2])
    halves: list[SSAValue] = []
    for first in (0, 1):
        lanes = range(first, total, 2)
        wide_a = f.cast(llvm.SExtOp, f.shuffle(a, a, lanes), type)
        wide_b = f.cast(llvm.SExtOp, f.shuffle(b, b, lanes), type)
        halves.append(f.binary(MulOp, wide_a, wide_b, WRAP))
    return f.binary(AddOp, halves[0], halves[1], WRAP)


def _joined(f: FunctionLowering, parts: list[SSAValue]) -> SSAValue:
    """Concatenates vectors of equal length, in a balanced tree of shuffles."""
    while len(parts) > 1:
        lanes = lanes_of(parts[0])
        if len(parts) % 2:  # an odd count: append the last vector again, and drop its copy at the end
            parts = [*parts, parts[-1]]
            joined = _joined(f, parts)
            return f.shuffle(joined, joined, range((len(parts) - 1) * lanes))
        parts = [f.shuffle(x, y, range(2 * lanes)) for x, y in zip(parts[0::2], parts[1::2], strict=True)]
    return parts[0]


def _mul_shift_round(f: FunctionLowering, op: simd.MulShiftRoundOp) -> None:
    wide = VectorType(i64, [lanes_of(f.value(op.a))])
    a, multiplier, shift = (f.cast(llvm.SExtOp, value, wide) for value in f.values(op.operands))
    right = f.binary(SubOp, f.splat(31, wide), shift, WRAP)
    half = f.binary(ShlOp, f.splat(1, wide), f.binary(SubOp, f.splat(30, wide), shift, WRAP), WRAP)
    product = f.binary(MulOp, a, multiplier, WRAP)
    rounded = f.binary(llvm.AShrOp, f.binary(AddOp, product, half, WRAP), right)
    f.define(op.result, f.cast(llvm.TruncOp, rounded, VectorType(i32, [lanes_of(a)])))


RULES: Mapping[type[Operation], Rule] = {
    simd.DotI16PairsOp: _dot_i16_pairs,
    simd.MulShiftRoundOp: _mul_shift_round,
}
