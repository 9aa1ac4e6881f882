"""Lowering of simd: to the processor's own instructions, or to portable vector code if it has no such instruction.

Vectors are split into registers and joined again; LLVM optimizes both away. The choice of instructions depends on
`features` only, so a module can be lowered for any machine. No name of a feature here is that of two architectures;
`neon` is on for every AArch64 processor that code is generated for, unless it is switched off.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import simd
from qmlir.ir.types import vector_of
from qmlir.ir.upstream.llvm import AddOp, MulOp, ShlOp, SubOp
from qmlir.lowering.loops_to_llvm.lowering import WRAP, FunctionLowering, Rule
from qmlir.lowering.loops_to_llvm.registers import Form, by_register, form_of, joined
from qmlir.lowering.loops_to_llvm.vector import lanes_of
from qmlir.lowering.loops_to_llvm.words import wide_word_products, word_products, words_shifted

PAIR_PRODUCTS = (
    ("avx512bw", 32, "llvm.x86.avx512.pmaddw.d.512"),
    ("avx2", 16, "llvm.x86.avx2.pmadd.wd"),
    ("sse2", 8, "llvm.x86.sse2.pmadd.wd"),
    ("simd128", 8, "llvm.wasm.dot"),
)
"""Feature, lanes of i16 in a register, and the intrinsic that multiplies and adds pairs; widest first."""

QUAD_SUMS = (
    ("avx512vnni", 64, "llvm.x86.avx512.vpdpbusd.512"),
    ("avx512vnni avx512vl", 32, "llvm.x86.avx512.vpdpbusd.256"),
    ("avx512vnni avx512vl", 16, "llvm.x86.avx512.vpdpbusd.128"),
    ("avxvnni", 32, "llvm.x86.avx512.vpdpbusd.256"),
    ("avxvnni", 16, "llvm.x86.avx512.vpdpbusd.128"),
)
"""Features, lanes of i8 in a register, and the intrinsic that adds quads of products to sums; widest first."""

NEON_QUAD_SUMS = (
    ("i8mm", 16, "llvm.aarch64.neon.usdot.v4i32.v16i8"),
    ("i8mm", 8, "llvm.aarch64.neon.usdot.v2i32.v8i8"),
)
"""The same of AArch64, whose intrinsics take bytes."""

NEON_SIGNED_QUAD_SUMS = (
    ("dotprod", 16, "llvm.aarch64.neon.sdot.v4i32.v16i8"),
    ("dotprod", 8, "llvm.aarch64.neon.sdot.v2i32.v8i8"),
)
"""The same for quads of which both factors are signed."""

BYTE_PAIR_PRODUCTS = (
    ("avx512bw", 64, "llvm.x86.avx512.pmaddubs.w.512"),
    ("avx2", 32, "llvm.x86.avx2.pmadd.ub.sw"),
    ("ssse3", 16, "llvm.x86.ssse3.pmadd.ub.sw.128"),
)
"""Feature, lanes of i8 in a register, and the intrinsic that multiplies pairs of bytes, with saturating sums."""


def _dot_i16_pairs(f: FunctionLowering, op: simd.DotI16PairsOp) -> None:
    f.define(op.result, _pairs_added(f, *f.values(op.operands)))


def _pairs_added(f: FunctionLowering, acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """acc[i] + a[2i]·b[2i] + a[2i+1]·b[2i+1] of i16."""
    if "neon" in f.machine.features:
        return _neon_pairs(f, acc, a, b)
    if f.machine.halves:
        return word_products(f, acc, a, b)
    products = _pair_products(f, a, b) or _portable_products(f, a, b, 2)
    return f.binary(AddOp, acc, products, WRAP)


def _pair_products(f: FunctionLowering, a: SSAValue, b: SSAValue) -> SSAValue | None:
    """a[2i]·b[2i] + a[2i+1]·b[2i+1] of i16 as i32, by one instruction a register; None if the processor has none."""
    form = form_of(f, PAIR_PRODUCTS, lanes_of(a))
    if form is None:
        return None
    _, width, name = form
    type = vector_of(i32, width // 2)
    return by_register(f, width, (a, b), lambda registers: f.intrinsic(name, registers, type))


def _neon_pairs(f: FunctionLowering, acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """acc plus sums of pairs by smlal of AArch64: the even lanes of both factors first, then the odd ones.

    Eight lanes of i16 fill a register, whose halves are multiplied into four sums each.
    """
    width = next((n for n in (8, 4) if lanes_of(acc) % n == 0), None)
    if width is None:
        return _portable_products(f, a, b, 2, start=acc)
    type = vector_of(i32, 4)

    def sums(registers: Sequence[SSAValue]) -> SSAValue:
        total, x, y = registers
        parts = [f.shuffle(total, total, range(i, i + 4)) if width > 4 else total for i in range(0, width, 4)]
        for first in (0, 1):
            factors = [f.shuffle(v, v, range(first, 2 * width, 2)) for v in (x, y)]
            for i in range(len(parts)):
                own = [f.shuffle(v, v, range(4 * i, 4 * i + 4)) if width > 4 else v for v in factors]
                product = f.intrinsic("llvm.aarch64.neon.smull.v4i32", own, type)
                parts[i] = f.binary(AddOp, parts[i], product, WRAP)
        return joined(f, parts)

    return by_register(f, width, (acc, a, b), sums)


def _portable_products(
    f: FunctionLowering,
    a: SSAValue,
    b: SSAValue,
    group: int,
    extend: type[Operation] = llvm.SExtOp,
    start: SSAValue | None = None,
) -> SSAValue:
    """Sums of products of `group` neighbours, in i32; `extend` extends `a`.

    With `start`, each product is added to what came before, the first one to `start`: of i16 these are smull and smlal
    of AArch64, and the lanes of what several operations multiply are taken apart once.
    """
    total = lanes_of(a)
    type = vector_of(i32, total // group)
    sums = start
    for first in range(group):
        lanes = range(first, total, group)
        wide_a = f.cast(extend, f.shuffle(a, a, lanes), type)
        wide_b = f.cast(llvm.SExtOp, f.shuffle(b, b, lanes), type)
        product = f.binary(MulOp, wide_a, wide_b, WRAP)
        sums = product if sums is None else f.binary(AddOp, sums, product, WRAP)
    assert sums is not None
    return sums


def _neon_quads(f: FunctionLowering, form: Form, acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """acc plus sums of quads by one instruction a register of AArch64."""
    _, width, name = form
    type = vector_of(i32, width // 4)
    return by_register(f, width // 4, (acc, a, b), lambda registers: f.intrinsic(name, registers, type))


def _words_products(f: FunctionLowering, extend: type[Operation], acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """acc plus sums of quads, of bytes that are extended to i16 first, where AArch64 multiplies into i32 (smlal)."""
    words = vector_of(i16, lanes_of(a))
    return _portable_products(f, f.cast(extend, a, words), f.cast(llvm.SExtOp, b, words), 4, start=acc)


def _unsigned_by_signed(f: FunctionLowering, acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue | None:
    """acc + Σ u8(a)·b by instructions that multiply signed bytes only; None if the processor has none.

    The signed byte of a xor 0x80 is u8(a) − 128 for every a, so each product is u8(a)·b = (u8(a) − 128)·b + 128·b, and

        acc + Σ u8(a)·b = (acc + Σ s8(a xor 0x80)·b) + 128·Σ b    mod 2^32.

    Both sides are equal as integers. Each addition of sdot and of vectors is exact modulo 2^32, and so is the shift by
    7 bits, which multiplies: therefore the lanes are equal modulo 2^32 even where a partial sum wraps. 128·Σ b depends
    on `b` alone and stands right behind its definition, once for all data that `b` multiplies. (udot of `a` and of
    b xor 0x80 would be as good, but its correction, −128·Σ u8(a), depends on the data.)
    """
    form = form_of(f, NEON_SIGNED_QUAD_SUMS, lanes_of(a))
    if form is None:
        return None

    def correction() -> SSAValue:
        totals = _neon_quads(f, form, f.splat(0, acc.type), f.splat(1, b.type), b)
        return f.binary(ShlOp, totals, f.splat(7, acc.type), WRAP)

    sums = _neon_quads(f, form, acc, f.binary(llvm.XOrOp, a, f.splat(-128, a.type)), b)
    return f.binary(AddOp, sums, f.derived("128 by quads", b, correction), WRAP)


def _dot_u8_i8_quads(f: FunctionLowering, op: simd.DotU8I8QuadsOp) -> None:
    acc, a, b = f.values(op.operands)
    if form := form_of(f, QUAD_SUMS, lanes_of(a)):
        _, width, name = form

        def sums(registers: Sequence[SSAValue]) -> SSAValue:
            first, *data = registers  # older LLVM takes bytes as words, and newer LLVM still reads this
            words = [f.cast(llvm.BitcastOp, x, first.type) for x in data]
            return f.intrinsic(name, (first, *words), first.type)

        f.define(op.result, by_register(f, width // 4, (acc, a, b), sums))
        return
    if "neon" in f.machine.features:
        form = form_of(f, NEON_QUAD_SUMS, lanes_of(a))
        result = _neon_quads(f, form, acc, a, b) if form else _unsigned_by_signed(f, acc, a, b)
        f.define(op.result, result or _words_products(f, llvm.ZExtOp, acc, a, b))
        return
    form = form_of(f, BYTE_PAIR_PRODUCTS, lanes_of(a)) if op.pairs_fit else None
    if form is None:
        products = _portable_products(f, a, b, 4, llvm.ZExtOp)
    else:
        _, width, name = form
        type = vector_of(i16, width // 2)
        pairs = by_register(f, width, (a, b), lambda registers: f.intrinsic(name, registers, type))
        ones = f.splat(1, pairs.type)
        products = _pair_products(f, pairs, ones) or _portable_products(f, pairs, ones, 2)
    f.define(op.result, f.binary(AddOp, acc, products, WRAP))


def _dot_i8_quads(f: FunctionLowering, op: simd.DotI8QuadsOp) -> None:
    acc, a, b = f.values(op.operands)
    if f.machine.halves:
        f.define(op.result, word_products(f, acc, a, b))
        return
    if "neon" in f.machine.features:
        form = form_of(f, NEON_SIGNED_QUAD_SUMS, lanes_of(a))
        sums = _neon_quads(f, form, acc, a, b) if form else _words_products(f, llvm.SExtOp, acc, a, b)
        f.define(op.result, sums)
        return
    f.define(op.result, f.binary(AddOp, acc, _portable_products(f, a, b, 4), WRAP))


def _dot_i16_i8_quads(f: FunctionLowering, op: simd.DotI16I8QuadsOp) -> None:
    acc, a, b = f.values(op.operands)
    if f.machine.halves:
        f.define(op.result, wide_word_products(f, acc, a, b))
        return
    in_order = f.shuffle(b, b, [first + place for first in range(0, lanes_of(b), 4) for place in op.PLACES])
    words = f.cast(llvm.SExtOp, in_order, a.type)
    f.define(op.result, f.binary(AddOp, acc, _portable_products(f, a, words, 4), WRAP))


def _dot_i8(f: FunctionLowering, op: simd.DotI8Op) -> None:
    acc, a, b = f.values(op.operands)
    lanes = lanes_of(a)
    if "mve" in f.machine.features and lanes == 16:
        # LLVM knows this in the portable form, too, but then keeps sums of several channels in a vector.
        plain = f.splat(0, i32)
        f.define(op.result, f.intrinsic("llvm.arm.mve.vmldava.v16i8", (plain, plain, plain, acc, a, b), i32))
        return
    wide = vector_of(i32, lanes)
    products = f.binary(MulOp, f.cast(llvm.SExtOp, a, wide), f.cast(llvm.SExtOp, b, wide), WRAP)
    total = f.intrinsic(f"llvm.vector.reduce.add.v{lanes}i32", (products,), i32)
    f.define(op.result, f.binary(AddOp, acc, total, WRAP))


# ---------------------------------------------------------------------------------------------------------------
# Products of 32 by 32 bits, summed, rounded half up and shifted right by at least 32 bits. Processors multiply the low
# halves of 64-bit lanes (vpmuldq), so even lanes are multiplied in place, and odd lanes behind a shift. The low halves
# of the sums only carry: the high halves are the lanes of the result, and what is left is a shift of 32-bit lanes.
#
# AArch64 multiplies two lanes of 32 bits into two of 64 (smull, smlal), and shifts these to the right with a rounding
# half up that no bit is lost of (srshl by a negative number): the low halves are the lanes of the result.
#
# Factors and shifts are often the same for many data. What is computed from them alone stands right behind their
# definition, once.
#
# Arm's MVE has the upper halves of products (vmulh) and the same shift of 32 bits (vrshl).


def _mul_shift_round(f: FunctionLowering, op: simd.MulShiftRoundOp) -> None:
    a, multiplier, shift, *offset = f.values(op.operands)
    if "neon" in f.machine.features:
        left = f.derived("negative drop", shift, lambda: f.binary(SubOp, shift, f.splat(31, shift.type), WRAP))
        rescaled = _neon_products_shifted(f, [a, multiplier], left)
        f.define(op.result, f.binary(AddOp, rescaled, offset[0], WRAP) if offset else rescaled)
        return
    if op.drops_33 is not None and "mve" in f.machine.features and lanes_of(a) % 4 == 0:
        rescaled = _high_products_shifted(f, a, multiplier, shift)
        f.define(op.result, f.binary(AddOp, rescaled, offset[0], WRAP) if offset else rescaled)
        return
    drop = f.derived("drop", shift, lambda: f.binary(SubOp, f.splat(31, shift.type), shift, WRAP))
    _products_shifted(f, op, [(a, multiplier)], drop, *offset, whole=op.drops_33 is not None)


def _mul_add_shift_round(f: FunctionLowering, op: simd.MulAddShiftRoundOp) -> None:
    a, p, b, q, shift = f.values(op.operands)
    if "neon" in f.machine.features:
        left = f.derived("negative shift", shift, lambda: f.binary(SubOp, f.splat(0, shift.type), shift, WRAP))
        f.define(op.result, _neon_products_shifted(f, [a, p, b, q], left))
        return
    _products_shifted(f, op, [(a, p), (b, q)], shift)


def _products_shifted(
    f: FunctionLowering,
    op: simd.MulShiftRoundOp | simd.MulAddShiftRoundOp,
    products: Sequence[tuple[SSAValue, SSAValue]],
    drop: SSAValue,
    offset: SSAValue | None = None,
    *,
    whole: bool = False,
) -> None:
    """Defines the result as (Σ products + 2^(drop − 1) + offset · 2^drop) >> drop, for data times factors.

    `whole` says that what is added is a multiple of 2^32, because at least 33 bits are dropped.
    """
    if not f.machine.vectors:
        f.define(op.result, words_shifted(f, products, drop, offset, whole=whole))
        return
    wide = vector_of(i64, lanes_of(drop) // 2)
    word = f.splat(32, wide)

    def extended(value: SSAValue) -> SSAValue:
        """The low halves of 64-bit lanes, sign-extended: the form of a factor in which LLVM knows vpmuldq."""
        doubled = f.cast(llvm.BitcastOp, value, wide)
        return f.binary(llvm.AShrOp, f.binary(ShlOp, doubled, word, WRAP), word)

    def lanes(value: SSAValue, first: int) -> SSAValue:
        """The even (first = 0) or odd lanes of i32 factors, each as an i64."""
        return extended(f.shuffle(value, value, [lane | 1 for lane in range(lanes_of(value))]) if first else value)

    def rounding(drop: SSAValue, offset: SSAValue | None, less: int) -> SSAValue:
        """(2 · offset + 1) · 2^(drop − less)"""
        odd = f.splat(1, drop.type)
        if offset is not None:
            odd = f.binary(AddOp, f.binary(AddOp, offset, offset, WRAP), odd, WRAP)
        return f.shift_left(odd, f.binary(SubOp, drop, f.splat(less, drop.type), WRAP))

    def rounding_of(first: int) -> SSAValue:
        """2^(drop − 1) + offset · 2^drop in the even (first = 0) or odd lanes."""
        return rounding(lanes(drop, first), None if offset is None else lanes(offset, first), 1)

    def product(data: SSAValue, factor: SSAValue, first: int) -> SSAValue:
        own = f.derived(f"lanes{first}", factor, lambda: lanes(factor, first))
        lane = f.binary(llvm.AShrOp, f.cast(llvm.BitcastOp, data, wide), word) if first else extended(data)
        return f.binary(MulOp, lane, own, WRAP)

    sums: list[SSAValue] = []
    for first in (0, 1):
        terms = [product(data, factor, first) for data, factor in products]
        if not whole:
            terms.append(f.derived(f"rounding{first}", drop, lambda first=first: rounding_of(first), offset))
        sums.append(reduce(lambda a, b: f.binary(AddOp, a, b, WRAP), terms))
    even, odd = f.binary(llvm.LShrOp, sums[0], word), f.binary(llvm.AndOp, sums[1], f.splat(-1 << 32, wide))
    high = f.cast(llvm.BitcastOp, f.binary(llvm.OrOp, even, odd), drop.type)
    if whole:
        added = f.derived("rounding", drop, lambda: rounding(drop, offset, 33), offset)
        high = f.binary(AddOp, high, added, WRAP)
    rest = f.derived("rest", drop, lambda: f.binary(SubOp, drop, f.splat(32, drop.type), WRAP))
    f.define(op.result, f.binary(llvm.AShrOp, high, rest))


def _high_products_shifted(f: FunctionLowering, a: SSAValue, multiplier: SSAValue, shift: SSAValue) -> SSAValue:
    """(a·multiplier + 2^(30−shift)) >> (31−shift) for shifts of at most −2, by vmulh and vrshl of Arm's MVE.

    What is added has no bits in the lower half of the product, so that it rounds the upper half, by −1 − shift bits.
    """
    left = f.derived("negative rest", shift, lambda: f.binary(AddOp, shift, f.splat(1, shift.type), WRAP))
    no, yes, type = f.splat(0, i32), f.splat(1, i32), vector_of(i32, 4)

    def shifted(registers: Sequence[SSAValue]) -> SSAValue:
        x, factor, by = registers
        high = f.intrinsic("llvm.arm.mve.vmulh.v4i32", (x, factor, no), type)
        return f.intrinsic("llvm.arm.mve.vshl.vector.v4i32.v4i32", (high, by, no, yes, no), type)

    return by_register(f, 4, (a, multiplier, left), shifted)


def _neon_products_shifted(f: FunctionLowering, factors: Sequence[SSAValue], left: SSAValue) -> SSAValue:
    """(Σ products + 2^(−left − 1)) >> −left for data and factors that take turns, two lanes at a time."""
    wide = vector_of(i64, 2)
    by = f.derived("wide", left, lambda: f.cast(llvm.SExtOp, left, vector_of(i64, lanes_of(left))))

    def shifted(registers: Sequence[SSAValue]) -> SSAValue:
        *data, by = registers
        extended = [f.cast(llvm.SExtOp, x, wide) for x in data]
        products = [f.binary(MulOp, x, y, WRAP) for x, y in zip(extended[0::2], extended[1::2], strict=True)]
        total = products[0]
        for product in products[1:]:
            total = f.binary(AddOp, total, product, WRAP)
        rounded = f.intrinsic("llvm.aarch64.neon.srshl.v2i64", (total, by), wide)
        return f.cast(llvm.TruncOp, rounded, vector_of(i32, 2))

    return by_register(f, 2, (*factors, by), shifted)


# ---------------------------------------------------------------------------------------------------------------
# Weighted sums of two bytes or words, by instructions that add the products of a pair of i16. Processors extend and
# truncate the lanes of a vector slowly: on x86 that takes two instructions for each 4 to 16 lanes. Interleaving two
# vectors within each 128 bits, and packing two vectors with saturation, take one.
#
# A register of bytes becomes four of pairs. In each 128 bits of pairs j = 0 … 3 lie the bytes 4j to 4j + 3 of the 16 in
# the same place, so that two steps of packing, which take the 128 bits of their operands in turn, restore the order:
#
#     a = a0 … a15, b = b0 … b15         pairs j = (a4j, b4j) … (a4j+3, b4j+3)
#     totals t0 … t3 of i32  →  packssdw t0, t1 and t2, t3 of i16  →  packsswb: r0 … r15


SATURATING_PACKS = (
    ("avx512bw", 64, "llvm.x86.avx512.packssdw.512 llvm.x86.avx512.packsswb.512"),
    ("avx2", 32, "llvm.x86.avx2.packssdw llvm.x86.avx2.packsswb"),
    ("sse2", 16, "llvm.x86.sse2.packssdw.128 llvm.x86.sse2.packsswb.128"),
)
"""Feature, lanes of i8 in a register, and the intrinsics that pack i32 to i16 and i16 to i8; widest first."""


def _add_bytes(f: FunctionLowering, op: simd.AddBytesOp) -> None:
    a, b, *factors = f.values(op.operands)
    if form := form_of(f, SATURATING_PACKS, lanes_of(a)):
        _, width, names = form
        packs = names.split()
        f.define(op.result, by_register(f, width, (a, b, *factors), lambda parts: _packed_sums(f, packs, *parts)))
        return
    wide = vector_of(i32, lanes_of(a))
    first, second = (f.cast(llvm.ZExtOp, x, wide) for x in (a, b))
    both = f.binary(llvm.OrOp, first, f.binary(ShlOp, second, f.splat(16, wide), WRAP))
    total = _weighted(f, f.cast(llvm.BitcastOp, both, vector_of(i16, 2 * lanes_of(a))), factors)
    for name, bound in (("smax", -128), ("smin", 127)):
        total = f.intrinsic(f"llvm.{name}.v{lanes_of(a)}i32", (total, f.splat(bound, wide)), wide)
    f.define(op.result, f.cast(llvm.TruncOp, total, a.type))


def _add_words(f: FunctionLowering, op: simd.AddWordsOp) -> None:
    a, b, *factors = f.values(op.operands)
    forms = [(features, lanes // 2, names.split()[0]) for features, lanes, names in SATURATING_PACKS]
    if form := form_of(f, forms, lanes_of(a)):
        _, width, pack = form

        def sums(parts: Sequence[SSAValue]) -> SSAValue:
            first, second, *own = parts
            totals: list[SSAValue] = []
            for half in (0, 4):  # punpcklwd and punpckhwd, whose pairs packssdw puts in order again
                places = [row + half + i for row in range(0, width, 8) for i in range(4)]
                pairs = f.shuffle(first, second, [n for place in places for n in (place, width + place)])
                totals.append(_weighted(f, pairs, [f.shuffle(x, x, places) for x in own]))
            return f.intrinsic(pack, totals, first.type)

        f.define(op.result, by_register(f, width, (a, b, *factors), sums))
        return
    lanes = lanes_of(a)
    pairs = f.shuffle(a, b, [n for lane in range(lanes) for n in (lane, lanes + lane)])
    total = _weighted(f, pairs, factors)
    for name, bound in (("smax", -(1 << 15)), ("smin", (1 << 15) - 1)):
        total = f.intrinsic(f"llvm.{name}.v{lanes}i32", (total, f.splat(bound, total.type)), total.type)
    f.define(op.result, f.cast(llvm.TruncOp, total, a.type))


def _saturate_bytes(f: FunctionLowering, op: simd.SaturateBytesOp) -> None:
    x = f.value(op.x)
    lanes = lanes_of(x)
    if form := form_of(f, SATURATING_PACKS, lanes):
        _, width, names = form
        words, packs = vector_of(i16, width // 2), names.split()

        def packed(registers: Sequence[SSAValue]) -> SSAValue:
            quarters = [
                f.shuffle(x, x, range(i, i + width // 4)) for x in registers for i in range(0, width, width // 4)
            ]
            halves = [f.intrinsic(packs[0], quarters[i : i + 2], words) for i in (0, 2)]
            mixed = f.intrinsic(packs[1], halves, vector_of(i8, width))
            # In the 16 bytes of each 128 bits lie four of every quarter.
            order = [16 * row + 4 * quarter + i for quarter in range(4) for row in range(width // 16) for i in range(4)]
            return f.shuffle(mixed, mixed, order)

        f.define(op.result, by_register(f, width, (x,), packed))
        return
    for name, bound in (("smax", -128), ("smin", 127)):
        x = f.intrinsic(f"llvm.{name}.v{lanes}i32", (x, f.splat(bound, x.type)), x.type)
    f.define(op.result, f.cast(llvm.TruncOp, x, op.result.type))


def _packed_sums(f: FunctionLowering, packs: Sequence[str], a: SSAValue, b: SSAValue, *factors: SSAValue) -> SSAValue:
    """The weighted sums of two registers of bytes."""
    width = lanes_of(a)
    rows, words = range(0, width, 16), vector_of(i16, width // 2)
    # The bytes of a half of each 128 bits in turn with those of another vector: punpcklbw and punpckhbw.
    turns = [[n for row in rows for i in range(row + half, row + half + 8) for n in (i, width + i)] for half in (0, 8)]
    zeros, totals = f.splat(0, a.type), list[SSAValue]()
    for j in range(4):
        places = [row + 4 * j + i for row in rows for i in range(4)]
        extended = f.shuffle(f.shuffle(a, b, turns[j // 2]), zeros, turns[j % 2])
        pairs = f.cast(llvm.BitcastOp, extended, words)
        totals.append(_weighted(f, pairs, [f.shuffle(x, x, places) for x in factors]))
    halves = [f.intrinsic(packs[0], totals[i : i + 2], words) for i in (0, 2)]
    return f.intrinsic(packs[1], halves, a.type)


def _weighted(f: FunctionLowering, pairs: SSAValue, factors: Sequence[SSAValue]) -> SSAValue:
    """(h + (l >> 16)) >> shift of pairs of i16."""
    high, low, k_h, k_l, shift = factors
    sums: list[SSAValue] = []
    for weights, start in ((high, k_h), (low, k_l)):
        own = f.cast(llvm.BitcastOp, weights, pairs.type)
        sums.append(_pairs_added(f, start, pairs, own))
    carried = f.binary(llvm.AShrOp, sums[1], f.splat(16, shift.type))
    total = f.binary(AddOp, sums[0], carried, WRAP)
    return f.binary(llvm.AShrOp, total, shift)


RULES: Mapping[type[Operation], Rule] = {
    simd.DotI16PairsOp: _dot_i16_pairs,
    simd.DotU8I8QuadsOp: _dot_u8_i8_quads,
    simd.DotI8QuadsOp: _dot_i8_quads,
    simd.DotI16I8QuadsOp: _dot_i16_i8_quads,
    simd.DotI8Op: _dot_i8,
    simd.MulShiftRoundOp: _mul_shift_round,
    simd.MulAddShiftRoundOp: _mul_add_shift_round,
    simd.SaturateBytesOp: _saturate_bytes,
    simd.AddBytesOp: _add_bytes,
    simd.AddWordsOp: _add_words,
}
