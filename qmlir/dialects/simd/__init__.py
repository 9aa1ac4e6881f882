"""simd: the few vector operations that processors have but for which LLVM has no portable name."""

import abc
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import UnitAttr, VectorType, i8, i16, i32
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.simd.matrices import DotI8MatricesOp, LoadMatrixOp, PrefetchOp, StoreMatrixOp
from qmlir.dialects.simd.sums import DotI8Op
from qmlir.ir.types import is_vector
from qmlir.numerics import Array

# ---------------------------------------------------------------------------------------------------------------
# Vector operations named after their computation, independent of a processor.
#
# `evaluate` defines each operation bit for bit on numpy arrays. lowering/loops_to_llvm/simd.py lowers the operation
# late: to an instruction that the processor's features offer, or to portable vector code. Vectors are 1-D.


def _lanes(type: Attribute) -> int | None:
    """Returns the number of lanes of a static 1-D vector type, None for other types."""
    if not isinstance(type, VectorType) or type.get_num_dims() != 1 or type.get_num_scalable_dims():
        return None
    return type.get_shape()[0]


@irdl_op_definition
class DotI16PairsOp(IRDLOperation):
    """Adds dot products of neighbouring pairs: acc[i] + a[2i]·b[2i] + a[2i+1]·b[2i+1] mod 2^32.

        %r = simd.dot_i16_pairs %acc, %a, %b : vector<8xi32>, vector<16xi16>

    (C1) `acc` and the result are one type, a 1-D vector of i32;
    (C2) `a` and `b` are one type, a 1-D vector of i16;
    (C3) `a` has twice as many lanes as `acc`.

    On x86 the operation is vpmaddwd + vpaddd, or vpdpwssd; on AArch64 it is two smlal, of even and of odd lanes.
    """

    name = "simd.dot_i16_pairs"

    ACC: ClassVar = VarConstraint("ACC", VectorType.constr(i32))
    PAIRS: ClassVar = VarConstraint("PAIRS", VectorType.constr(i16))

    acc = operand_def(ACC)  # C1
    a = operand_def(PAIRS)  # C2
    b = operand_def(PAIRS)
    result = result_def(ACC)

    traits = traits_def(Pure())
    assembly_format = "$acc `,` $a `,` $b attr-dict `:` type($acc) `,` type($a)"

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue):
        super().__init__(operands=[acc, a, b], result_types=[acc.type])

    def verify_(self) -> None:
        lanes, pairs = _lanes(self.acc.type), _lanes(self.a.type)
        if lanes is None:  # C1
            raise VerifyException(f"acc must be a 1-D vector, got {self.acc.type}")
        if pairs is None:  # C2
            raise VerifyException(f"a and b must be 1-D vectors, got {self.a.type}")
        if pairs != 2 * lanes:  # C3
            raise VerifyException(f"a must have twice the {lanes} lanes of acc, got {pairs}")

    @staticmethod
    def evaluate(acc: Array, a: Array, b: Array) -> Array:
        """Computes the result: acc int32 [n], a and b int16 [2n] → int32 [n]."""
        products = a.astype("i8") * b.astype("i8")
        return (acc + products[0::2] + products[1::2]).astype("i4")


@irdl_op_definition
class DotU8I8QuadsOp(IRDLOperation):
    """Adds dot products of four neighbours, unsigned by signed: acc[i] + Σ_{j<4} u8(a[4i+j])·b[4i+j] mod 2^32.

        %r = simd.dot_u8_i8_quads %acc, %a, %b : vector<8xi32>, vector<32xi8>

    The bits of `a` are read as unsigned integers, those of `b` as signed integers.

    (C1) `acc` and the result are one type, a 1-D vector of i32;
    (C2) `a` and `b` are one type, a 1-D vector of i8;
    (C3) `a` has four times as many lanes as `acc`.

    The unit property `pairs_fit` promises that b[2k] and b[2k+1] have no positive sum above 128 and no negative sum
    below −128: then u8(a[2k])·b[2k] + u8(a[2k+1])·b[2k+1] fits i16, whatever `a` is, because 255 · 128 < 2^15. The
    result is the same with and without the promise; it is undefined if the promise does not hold.

    On x86 the operation is vpdpbusd; without this instruction it is vpmaddubsw + vpmaddwd + vpaddd, whose sums of
    pairs saturate at 16 bits and therefore need the promise. On AArch64 it is usdot; without this instruction it is
    sdot of `a` minus 128, and 128 times the sums of `b`.
    """

    name = "simd.dot_u8_i8_quads"

    ACC: ClassVar = VarConstraint("ACC", VectorType.constr(i32))
    QUADS: ClassVar = VarConstraint("QUADS", VectorType.constr(i8))

    acc = operand_def(ACC)  # C1
    a = operand_def(QUADS)  # C2
    b = operand_def(QUADS)
    result = result_def(ACC)
    pairs_fit = opt_prop_def(UnitAttr)

    traits = traits_def(Pure())
    assembly_format = "$acc `,` $a `,` $b (`pairs_fit` $pairs_fit^)? attr-dict `:` type($acc) `,` type($a)"

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue, *, pairs_fit: bool = False):
        properties = {"pairs_fit": UnitAttr()} if pairs_fit else {}
        super().__init__(operands=[acc, a, b], result_types=[acc.type], properties=properties)

    def verify_(self) -> None:
        _require_quads(self.acc.type, self.a.type)  # C1, C2, C3

    @staticmethod
    def evaluate(acc: Array, a: Array, b: Array) -> Array:
        """Computes the result: acc int32 [n], a and b int8 [4n], of which a counts as uint8 → int32 [n]."""
        products = a.view(np.uint8).astype("i8") * b.astype("i8")
        return (acc + products.reshape(-1, 4).sum(1)).astype("i4")


@irdl_op_definition
class DotI8QuadsOp(IRDLOperation):
    """Adds dot products of four neighbours, both signed: acc[i] + Σ_{j<4} a[4i+j]·b[4i+j] mod 2^32.

        %r = simd.dot_i8_quads %acc, %a, %b : vector<4xi32>, vector<16xi8>

    (C1) `acc` and the result are one type, a 1-D vector of i32;
    (C2) `a` and `b` are one type, a 1-D vector of i8;
    (C3) `a` has four times as many lanes as `acc`.

    On AArch64 the operation is sdot.
    """

    name = "simd.dot_i8_quads"

    ACC: ClassVar = VarConstraint("ACC", VectorType.constr(i32))
    QUADS: ClassVar = VarConstraint("QUADS", VectorType.constr(i8))

    acc = operand_def(ACC)  # C1
    a = operand_def(QUADS)  # C2
    b = operand_def(QUADS)
    result = result_def(ACC)

    traits = traits_def(Pure())
    assembly_format = "$acc `,` $a `,` $b attr-dict `:` type($acc) `,` type($a)"

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue):
        super().__init__(operands=[acc, a, b], result_types=[acc.type])

    def verify_(self) -> None:
        _require_quads(self.acc.type, self.a.type)  # C1, C2, C3

    @staticmethod
    def evaluate(acc: Array, a: Array, b: Array) -> Array:
        """Computes the result: acc int32 [n], a and b int8 [4n] → int32 [n]."""
        products = a.astype("i8") * b.astype("i8")
        return (acc + products.reshape(-1, 4).sum(1)).astype("i4")


@irdl_op_definition
class DotI16I8QuadsOp(IRDLOperation):
    """Adds dot products of four neighbours of i16 by bytes: acc[i] + Σ_{j<4} a[4i+j]·b[4i+p(j)] mod 2^32.

        %r = simd.dot_i16_i8_quads %acc, %a, %b : vector<2xi32>, vector<8xi16>, vector<8xi8>

    (C1) `acc` and the result are one type, a 1-D vector of i32;
    (C2) `a` is a 1-D vector of i16, and `b` of i8;
    (C3) `a` and `b` have four times as many lanes as `acc`.

    The places p of the four bytes are 0, 2, 1, 3: the first two products are of the even bytes of a word.

    On Arm's profile M these are sxtb16 and smlad, which extend the even bytes of a word and multiply its halves.
    """

    name = "simd.dot_i16_i8_quads"

    ACC: ClassVar = VarConstraint("ACC", VectorType.constr(i32))

    PLACES: ClassVar = (0, 2, 1, 3)
    """The place in a quad of `b` of the byte that multiplies each number of `a`."""

    acc = operand_def(ACC)  # C1
    a = operand_def(VectorType.constr(i16))  # C2
    b = operand_def(VectorType.constr(i8))
    result = result_def(ACC)

    traits = traits_def(Pure())
    assembly_format = "$acc `,` $a `,` $b attr-dict `:` type($acc) `,` type($a) `,` type($b)"

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue):
        super().__init__(operands=[acc, a, b], result_types=[acc.type])

    def verify_(self) -> None:
        for name, factor in (("a", self.a.type), ("b", self.b.type)):
            _require_quads(self.acc.type, factor, name)  # C1, C2, C3

    @staticmethod
    def evaluate(acc: Array, a: Array, b: Array) -> Array:
        """Computes the result: acc int32 [n], a int16 and b int8 [4n] → int32 [n]."""
        places = list(DotI16I8QuadsOp.PLACES)
        products = a.astype("i8").reshape(-1, 4) * b.astype("i8").reshape(-1, 4)[:, places]
        return (acc + products.sum(1)).astype("i4")


@irdl_op_definition
class PermuteBytesOp(IRDLOperation):
    """Permutes bytes within each 16 lanes: result[i] = x[16·(i div 16) + places[i]].

        %r = simd.permute_bytes %x, %places : vector<32xi8>

    (C1) operands and result are one type, a 1-D vector of i8 with 8 lanes or a multiple of 16.

    `places` must lie in [0, 16), and below 8 if the vectors have 8 lanes; the result for others is undefined. A place
    may occur more than once.

    On x86 the operation is pshufb or vpshufb, on AArch64 tbl.
    """

    name = "simd.permute_bytes"

    BYTES: ClassVar = VarConstraint("BYTES", VectorType.constr(i8))

    x = operand_def(BYTES)  # C1
    places = operand_def(BYTES)
    result = result_def(BYTES)

    traits = traits_def(Pure())
    assembly_format = "$x `,` $places attr-dict `:` type($x)"

    def __init__(self, x: SSAValue, places: SSAValue):
        super().__init__(operands=[x, places], result_types=[x.type])

    def verify_(self) -> None:
        lanes = _lanes(self.x.type)
        if lanes is None or (lanes != 8 and lanes % 16):  # C1
            raise VerifyException(f"operands must be 1-D vectors with 8 or 16k lanes, got {self.x.type}")

    @staticmethod
    def evaluate(x: Array, places: Array) -> Array:
        """Computes the result: operands int8 [n] → int8 [n]."""
        first = np.arange(x.size) // 16 * 16
        return x[first + places]


@irdl_op_definition
class LookupBytesOp(IRDLOperation):
    """Looks bytes up in a table: result[i] = table[places[i]], where places are unsigned.

        %r = simd.lookup_bytes %table, %places : vector<256xi8>, vector<32xi8>

    (C1) places and result are one type, a 1-D vector of i8 with a multiple of 16 lanes.
    (C2) the table is a 1-D vector of i8 with 16, 32, 64, 128 or 256 lanes.

    The result for places beyond the table is undefined.

    On x86 the operation is a pshufb or vpshufb for each 16 entries; with AVX-512 VBMI it is a vpermb for up to 64
    entries, and a vpermi2b for each 128. On AArch64 it is a tbl for each 64. For up to 64 entries it is a swizzle for
    each 16 on WebAssembly, and loads from a table on the stack with MVE.
    """

    name = "simd.lookup_bytes"

    BYTES: ClassVar = VarConstraint("BYTES", VectorType.constr(i8))

    table = operand_def(VectorType.constr(i8))  # C2
    places = operand_def(BYTES)  # C1
    result = result_def(BYTES)

    traits = traits_def(Pure())
    assembly_format = "$table `,` $places attr-dict `:` type($table) `,` type($places)"

    def __init__(self, table: SSAValue, places: SSAValue):
        super().__init__(operands=[table, places], result_types=[places.type])

    def verify_(self) -> None:
        lanes = _lanes(self.places.type)
        if lanes is None or lanes % 16:  # C1
            raise VerifyException(f"places must be a 1-D vector with 16k lanes, got {self.places.type}")
        if _lanes(self.table.type) not in (16, 32, 64, 128, 256):  # C2
            raise VerifyException(f"the table must have 16, 32, 64, 128 or 256 entries, got {self.table.type}")

    @staticmethod
    def evaluate(table: Array, places: Array) -> Array:
        """Computes the result: table int8 [entries], places int8 [n] that count as uint8 → int8 [n]."""
        return table[places.view(np.uint8)]


@irdl_op_definition
class MulShiftRoundOp(IRDLOperation):
    """Requantizes each lane by the contract `single`: (a·multiplier + 2^(30−shift)) >> (31−shift) + offset mod 2^32.

        %r = simd.mul_shift_round %a, %multiplier, %shift : vector<8xi32>
        %s = simd.mul_shift_round %a, %multiplier, %shift, %offset : vector<8xi32>
        %t = simd.mul_shift_round %a, %multiplier, %shift, %offset drops_33 : vector<8xi32>

    The product is exact in 64 bits, and the shift is arithmetic: a single rounding, half up.

    (C1) operands and result are one type, a 1-D vector of i32 with an even number of lanes.

    `shift` must lie in [−31, −1], so that the rescaled value has at most 31 bits. `offset` · 2^(31−shift) must lie
    within ±2^61, so that the offset may be added to the product, as a part of the number that is added for rounding:
    it then costs nothing. The result for other values is undefined.

    The unit property `drops_33` promises that every shift is at most −2: at least 33 bits of the product are dropped.
    What is added before the shift is then a multiple of 2^32, so that x86 adds it to the high halves of the products:
    one addition for all lanes instead of one for the even and one for the odd. The result is the same with and without
    the promise; it is undefined if the promise does not hold.

    On AArch64 the operation is smull + srshl. sqrdmulh rounds at bit 31, which is below the last bit that is dropped:
    what follows it would round a second time, so it is never exact here.
    """

    name = "simd.mul_shift_round"

    VALUES: ClassVar = VarConstraint("VALUES", VectorType.constr(i32))

    a = operand_def(VALUES)  # C1
    multiplier = operand_def(VALUES)
    shift = operand_def(VALUES)
    offset = opt_operand_def(VALUES)
    drops_33 = opt_prop_def(UnitAttr)
    result = result_def(VALUES)

    traits = traits_def(Pure())
    assembly_format = "$a `,` $multiplier `,` $shift (`,` $offset^)? (`drops_33` $drops_33^)? attr-dict `:` type($a)"

    def __init__(
        self,
        a: SSAValue,
        multiplier: SSAValue,
        shift: SSAValue,
        offset: SSAValue | None = None,
        *,
        drops_33: bool = False,
    ):
        properties = {"drops_33": UnitAttr()} if drops_33 else {}
        super().__init__(operands=[a, multiplier, shift, offset], result_types=[a.type], properties=properties)

    def verify_(self) -> None:
        _require_even(self.a.type)  # C1

    @staticmethod
    def evaluate(a: Array, multiplier: Array, shift: Array, offset: Array | None = None) -> Array:
        """Computes the result: a, multiplier, shift and offset int32 [n] → int32 [n]."""
        right = 31 - shift.astype("i8")
        rescaled = (a.astype("i8") * multiplier.astype("i8") + (1 << (right - 1))) >> right
        return (rescaled if offset is None else rescaled + offset).astype("i4")


@irdl_op_definition
class MulAddShiftRoundOp(IRDLOperation):
    """Rescales two lanes and rounds their sum once, half up: (a·p + b·q + 2^(shift−1)) >> shift mod 2^32.

        %r = simd.mul_add_shift_round %a, %p, %b, %q, %shift : vector<8xi32>

    The products and their sum are exact in 64 bits, and the shift is arithmetic.

    (C1) operands and result are one type, a 1-D vector of i32 with an even number of lanes.

    `shift` must lie in [32, 62], and a·p + b·q + 2^(shift−1) below 2^63; the result for others is undefined.
    """

    name = "simd.mul_add_shift_round"

    VALUES: ClassVar = VarConstraint("VALUES", VectorType.constr(i32))

    a = operand_def(VALUES)  # C1
    p = operand_def(VALUES)
    b = operand_def(VALUES)
    q = operand_def(VALUES)
    shift = operand_def(VALUES)
    result = result_def(VALUES)

    traits = traits_def(Pure())
    assembly_format = "$a `,` $p `,` $b `,` $q `,` $shift attr-dict `:` type($a)"

    def __init__(self, a: SSAValue, p: SSAValue, b: SSAValue, q: SSAValue, shift: SSAValue):
        super().__init__(operands=[a, p, b, q, shift], result_types=[a.type])

    def verify_(self) -> None:
        _require_even(self.a.type)  # C1

    @staticmethod
    def evaluate(a: Array, p: Array, b: Array, q: Array, shift: Array) -> Array:
        """Computes the result: operands int32 [n] → int32 [n]."""
        products = a.astype("i8") * p.astype("i8") + b.astype("i8") * q.astype("i8")
        drop = shift.astype("i8")
        return ((products + (1 << (drop - 1))) >> drop).astype("i4")


@irdl_op_definition
class SaturateBytesOp(IRDLOperation):
    """Narrows lanes to bytes, each clamped to [−128, 127].

        %r = simd.saturate_bytes %x : vector<64xi32>, vector<64xi8>

    (C1) x is a 1-D vector of i32;
    (C2) the result is a 1-D vector of i8 with as many lanes.

    On x86 the operation packs pairs of registers (packssdw, packsswb), which keep the order within 128 bits only, and
    restores the order once.
    """

    name = "simd.saturate_bytes"

    x = operand_def(VectorType.constr(i32))  # C1
    result = result_def(VectorType.constr(i8))

    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `,` type($result)"

    def __init__(self, x: SSAValue):
        assert is_vector(x.type)
        super().__init__(operands=[x], result_types=[VectorType(i8, x.type.get_shape())])

    def verify_(self) -> None:
        lanes = _lanes(self.x.type)
        if lanes is None:  # C1
            raise VerifyException(f"x must be a 1-D vector, got {self.x.type}")
        if _lanes(self.result.type) != lanes:  # C2
            raise VerifyException(f"the result must have the {lanes} lanes of x, got {self.result.type}")

    @staticmethod
    def evaluate(x: Array) -> Array:
        """Computes the result: x int32 [n] → int8 [n]."""
        return x.clip(-128, 127).astype("i1")


class AddPairsOp(IRDLOperation, abc.ABC):
    """Adds two weighted integers, shifts and saturates the sum: sat((h + (l >> 16)) >> shift), all in i32 mod 2^32.

        h = k_h + a·high.0 + b·high.1          l = k_l + a·low.0 + b·low.1

    `.0` is the low half of an i32, `.1` the high half, both read as signed integers. The shifts are arithmetic, and the
    result is signed.

    (C1) `a`, `b` and the result are one type, a 1-D vector;
    (C2) the others are one type, a 1-D vector of i32;
    (C3) all have equally many lanes.

    `shift` must lie in [0, 31]; the result for others is undefined.
    """

    VALUES: ClassVar = VarConstraint("VALUES", VectorType.constr(i32))

    high = operand_def(VALUES)  # C2
    low = operand_def(VALUES)
    k_h = operand_def(VALUES)
    k_l = operand_def(VALUES)
    shift = operand_def(VALUES)

    traits = traits_def(Pure())

    def __init__(self, *operands: SSAValue):
        super().__init__(operands=operands, result_types=[operands[0].type])

    def verify_(self) -> None:
        a, high = self.operands[0].type, self.high.type
        lanes, values = _lanes(a), _lanes(high)
        if lanes is None:  # C1
            raise VerifyException(f"a and b must be 1-D vectors, got {a}")
        if values != lanes:  # C2, C3
            raise VerifyException(f"weights must be 1-D vectors with the {lanes} lanes of a, got {high}")

    @staticmethod
    def shifted(a: Array, b: Array, high: Array, low: Array, k_h: Array, k_l: Array, shift: Array) -> Array:
        """The sums before they saturate: a and b int64 [n], the others int32 [n] → int32 [n]."""

        def weighted(pairs: Array, start: Array) -> Array:
            return (start + a * pairs.astype("i2").astype("i8") + b * (pairs.astype("i8") >> 16)).astype("i4")

        return (weighted(high, k_h).astype("i8") + (weighted(low, k_l) >> 16)).astype("i4") >> shift


_PAIRS_FORMAT = "$a `,` $b `,` $high `,` $low `,` $k_h `,` $k_l `,` $shift attr-dict `:` type($a) `,` type($high)"


@irdl_op_definition
class AddBytesOp(AddPairsOp):
    """Adds two weighted bytes, shifts and saturates the sum; see `AddPairsOp`.

        %r = simd.add_bytes %a, %b, %high, %low, %k_h, %k_l, %shift : vector<64xi8>, vector<64xi32>

    The bits of `a` and `b` are read as unsigned integers.

    On x86 the operation interleaves bytes and packs sums within each 128 bits (punpcklbw, packssdw, packsswb).
    """

    name = "simd.add_bytes"

    BYTES: ClassVar = VarConstraint("BYTES", VectorType.constr(i8))

    a = operand_def(BYTES)  # C1
    b = operand_def(BYTES)
    result = result_def(BYTES)

    assembly_format = _PAIRS_FORMAT

    @staticmethod
    def evaluate(a: Array, b: Array, *factors: Array) -> Array:
        """Computes the result: a and b int8 [n], the others int32 [n] → int8 [n]."""
        first, second = (x.view("u1").astype("i8") for x in (a, b))
        return AddPairsOp.shifted(first, second, *factors).clip(-128, 127).astype("i1")


@irdl_op_definition
class AddWordsOp(AddPairsOp):
    """Adds two weighted words, shifts and saturates the sum; see `AddPairsOp`.

        %r = simd.add_words %a, %b, %high, %low, %k_h, %k_l, %shift : vector<32xi16>, vector<32xi32>

    On x86 the operation interleaves words and packs sums within each 128 bits (punpcklwd, packssdw).
    """

    name = "simd.add_words"

    WORDS: ClassVar = VarConstraint("WORDS", VectorType.constr(i16))

    a = operand_def(WORDS)  # C1
    b = operand_def(WORDS)
    result = result_def(WORDS)

    assembly_format = _PAIRS_FORMAT

    @staticmethod
    def evaluate(a: Array, b: Array, *factors: Array) -> Array:
        """Computes the result: a and b int16 [n], the others int32 [n] → int16 [n]."""
        first, second = (x.astype("i8") for x in (a, b))
        return AddPairsOp.shifted(first, second, *factors).clip(-(1 << 15), (1 << 15) - 1).astype("i2")


def _require_quads(acc: Attribute, factors: Attribute, name: str = "a") -> None:
    """Raises VerifyException for types that are not 1-D vectors of which the factors have four times the lanes."""
    lanes, quads = _lanes(acc), _lanes(factors)
    if lanes is None:  # C1
        raise VerifyException(f"acc must be a 1-D vector, got {acc}")
    if quads is None:  # C2
        raise VerifyException(f"a and b must be 1-D vectors, got {factors}")
    if quads != 4 * lanes:  # C3
        raise VerifyException(f"{name} must have four times the {lanes} lanes of acc, got {quads}")


def _require_even(type: Attribute) -> None:
    """Raises VerifyException for a type that is not a 1-D vector with an even number of lanes."""
    if (_lanes(type) or 1) % 2:
        raise VerifyException(f"operands must be 1-D vectors with an even number of lanes, got {type}")


SIMD = Dialect(
    "simd",
    [
        DotI16PairsOp,
        DotU8I8QuadsOp,
        DotI8QuadsOp,
        DotI16I8QuadsOp,
        DotI8Op,
        PermuteBytesOp,
        LookupBytesOp,
        MulShiftRoundOp,
        MulAddShiftRoundOp,
        SaturateBytesOp,
        AddBytesOp,
        AddWordsOp,
        LoadMatrixOp,
        StoreMatrixOp,
        PrefetchOp,
        DotI8MatricesOp,
    ],
)
