"""Lowering of simd's operations that take bytes by their places: in 16 lanes, or in a table."""

from collections.abc import Mapping

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import simd
from qmlir.ir.types import vector_of
from qmlir.ir.upstream.llvm import AddOp, ExtractElementOp, SelectOp, SubOp
from qmlir.lowering.loops_to_llvm.lowering import WRAP, FunctionLowering, Rule
from qmlir.lowering.loops_to_llvm.memory import store
from qmlir.lowering.loops_to_llvm.registers import Form, by_register, form_of
from qmlir.lowering.loops_to_llvm.vector import lanes_of

BYTE_PERMUTATIONS = (
    ("avx512bw", 64, "llvm.x86.avx512.pshuf.b.512"),
    ("avx2", 32, "llvm.x86.avx2.pshuf.b"),
    ("ssse3", 16, "llvm.x86.ssse3.pshuf.b.128"),
    ("neon", 16, "llvm.aarch64.neon.tbl1.v16i8"),
)
"""Feature, lanes of i8 in a register, and the intrinsic that permutes the bytes of each 16 lanes; widest first."""


def _permute_bytes(f: FunctionLowering, op: simd.PermuteBytesOp) -> None:
    x, places = f.values(op.operands)
    lanes = lanes_of(x)
    if lanes == 8:
        x, places = (f.shuffle(v, v, [*range(8), *[-1] * 8]) for v in (x, places))
    if form := form_of(f, BYTE_PERMUTATIONS, lanes_of(x)):
        _, width, name = form
        type = vector_of(i8, width)
        result = by_register(f, width, (x, places), lambda registers: f.intrinsic(name, registers, type))
    else:
        result = _portable_permutation(f, x, places)
    f.define(op.result, f.shuffle(result, result, range(8)) if lanes == 8 else result)


def _portable_permutation(f: FunctionLowering, x: SSAValue, places: SSAValue) -> SSAValue:
    """Takes the bytes one by one."""
    result = x
    for lane in range(lanes_of(x)):
        place = f.emit(ExtractElementOp.create(operands=[places, f.integer(lane, i32)], result_types=[i8]))
        place = f.binary(llvm.AndOp, place, f.integer(15, i8))  # an undefined lane must not lead out of the vector
        place = f.binary(AddOp, f.cast(llvm.ZExtOp, place, i32), f.integer(lane // 16 * 16, i32), WRAP)
        byte = f.emit(ExtractElementOp.create(operands=[x, place], result_types=[i8]))
        operands = [result, byte, f.integer(lane, i32)]
        result = f.emit(llvm.InsertElementOp.create(operands=operands, result_types=[x.type]))
    return result


# ---------------------------------------------------------------------------------------------------------------
# Tables of 16 to 256 bytes. A register holds 16, 64 or 128 entries, and an instruction takes entries of it by the low
# bits of the places; the results for other places are nothing, or are chosen between.


def _lookup_bytes(f: FunctionLowering, op: simd.LookupBytesOp) -> None:
    table, places = f.values(op.operands)
    lanes, entries = lanes_of(places), lanes_of(table)
    if "neon" in f.machine.features:
        result = by_register(f, 16, (places,), lambda registers: _neon_lookup(f, table, registers[0]))
    elif "simd128" in f.machine.features and entries <= 64:
        result = by_register(f, 16, (places,), lambda registers: _wasm_lookup(f, table, registers[0]))
    elif "mve" in f.machine.features and entries <= 64:
        result = by_register(f, 16, (places,), lambda registers: _mve_lookup(f, table, registers[0]))
    elif "avx512vbmi" in f.machine.features and entries > 16 and (entries <= 64 or lanes % 64 == 0):
        whole = f.shuffle(places, places, [*range(lanes), *[-1] * (-lanes % 64)]) if lanes % 64 else places
        result = by_register(f, 64, (whole,), lambda registers: _lookup_in_registers(f, table, registers[0]))
        result = f.shuffle(result, result, range(lanes)) if lanes % 64 else result
    elif form := form_of(f, BYTE_PERMUTATIONS, lanes):
        result = by_register(f, form[1], (places,), lambda registers: _lookup_in_rows(f, form, table, registers[0]))
    else:
        result = _lookup_one_by_one(f, table, places)
    f.define(op.result, result)


def _lookup_in_registers(f: FunctionLowering, table: SSAValue, places: SSAValue) -> SSAValue:
    """By vpermb, which takes 6 bits of a place, or vpermi2b, which takes 7.

    In a table of 256 the eighth bit, a byte's sign, chooses between two vpermi2b.
    """
    type, entries = places.type, lanes_of(table)

    def register(k: int) -> SSAValue:
        return f.shuffle(table, table, [(64 * k + i) % entries for i in range(64)])

    registers = [f.derived(f"register{k}", table, lambda k=k: register(k)) for k in range(-(-entries // 64))]
    if len(registers) == 1:
        return f.intrinsic("llvm.x86.avx512.permvar.qi.512", (registers[0], places), type)
    halves = [
        f.intrinsic("llvm.x86.avx512.vpermi2var.qi.512", (low, places, high), type)
        for low, high in zip(registers[::2], registers[1::2], strict=True)
    ]
    if len(halves) == 1:
        return halves[0]
    return f.emit(SelectOp(f.compare("slt", places, f.splat(0, type)), halves[1], halves[0]))


def _lookup_in_rows(f: FunctionLowering, form: Form, table: SSAValue, places: SSAValue) -> SSAValue:
    """By a pshufb for each row of 16 entries, which takes the low 4 bits of a place and yields 0 for a negative byte.

    The table has up to 16 rows, T[0] to T[15]. Let a place below 128 be 16·h + l. From step to step 16 is
    subtracted, in numbers that stay at −128, so in step k the place is negative, for good, if k > h, and else its low
    bits are l. With D[0] = T[0] and D[k] = T[k] xor T[k−1] the steps yield D[0][l], …, D[h][l], 0, …, whose xor is
    T[h][l]. Places from 128 on are negative as bytes, and yield 0; for them the same is done with rows 8 to 15, and
    with places xor 128, where the others yield 0.
    """
    _, width, name = form
    type, rows = places.type, lanes_of(table) // 16

    def row(k: int) -> SSAValue:
        return f.shuffle(table, table, [16 * k + i % 16 for i in range(width)])

    def difference(k: int) -> SSAValue:
        return f.binary(llvm.XOrOp, row(k), row(k - 1)) if k % 8 else row(k)

    differences = [f.derived(f"difference{k} of {width}", table, lambda k=k: difference(k)) for k in range(rows)]
    result: SSAValue | None = None
    sixteen = f.splat(16, type)
    for half in range(0, rows, 8):
        place = places if half == 0 else f.binary(llvm.XOrOp, places, f.splat(-128, type))
        for k in range(half, min(half + 8, rows)):
            if k > half:
                place = f.intrinsic(f"llvm.ssub.sat.v{width}i8", (place, sixteen), type)
            found = f.intrinsic(name, (differences[k], place), type)
            result = found if result is None else f.binary(llvm.XOrOp, result, found)
    assert result is not None
    return result


def _neon_lookup(f: FunctionLowering, table: SSAValue, places: SSAValue) -> SSAValue:
    """By a tbl for each 64 entries, which yields 0 for places beyond them; places below 0 wrap, beyond all entries."""
    rows, parts = _rows(f, table), list[SSAValue]()
    for first in range(0, len(rows), 4):
        own = rows[first : first + 4]
        place = _places_from(f, places, 16 * first)
        parts.append(f.intrinsic(f"llvm.aarch64.neon.tbl{len(own)}.v16i8", (*own, place), places.type))
    return _either(f, parts)


def _wasm_lookup(f: FunctionLowering, table: SSAValue, places: SSAValue) -> SSAValue:
    """By a swizzle for each 16 entries, which yields 0 for places beyond them; places below 0 wrap."""
    found = [
        f.intrinsic("llvm.wasm.swizzle", (row, _places_from(f, places, 16 * k)), places.type)
        for k, row in enumerate(_rows(f, table))
    ]
    return _either(f, found)


def _mve_lookup(f: FunctionLowering, table: SSAValue, places: SSAValue) -> SSAValue:
    """By loads of 16 bytes from addresses of their own (vldrb), of a table on the stack."""

    def stored() -> SSAValue:
        slot = f.stack_slot(lanes_of(table), 16)
        store(f, table, slot, 16)
        return slot

    slot = f.derived("slot of the table", table, stored)
    numbers = [f.integer(number, i32) for number in (8, 0, 1)]  # bits of an element, shift of places, unsigned
    return f.intrinsic("llvm.arm.mve.vldr.gather.offset.v16i8.p0.v16i8", (slot, places, *numbers), places.type)


def _rows(f: FunctionLowering, table: SSAValue) -> list[SSAValue]:
    """The registers of 16 entries of a table."""
    firsts = range(0, lanes_of(table), 16)
    return [f.derived(f"row{k}", table, lambda k=k: f.shuffle(table, table, range(k, k + 16))) for k in firsts]


def _places_from(f: FunctionLowering, places: SSAValue, first: int) -> SSAValue:
    """Places counted from entry `first` on, as bytes that wrap."""
    return f.binary(SubOp, places, f.splat((first + 128) % 256 - 128, places.type), WRAP) if first else places


def _either(f: FunctionLowering, found: list[SSAValue]) -> SSAValue:
    """Adds vectors of which at most one is not 0 in each lane, as a balanced tree."""
    while len(found) > 1:
        found = [f.binary(llvm.OrOp, *pair) for pair in zip(found[::2], found[1::2], strict=True)]
    return found[0]


def _lookup_one_by_one(f: FunctionLowering, table: SSAValue, places: SSAValue) -> SSAValue:
    result = places
    for lane in range(lanes_of(places)):
        place = f.emit(ExtractElementOp.create(operands=[places, f.integer(lane, i32)], result_types=[i8]))
        byte = f.emit(ExtractElementOp.create(operands=[table, f.cast(llvm.ZExtOp, place, i32)], result_types=[i8]))
        operands = [result, byte, f.integer(lane, i32)]
        result = f.emit(llvm.InsertElementOp.create(operands=operands, result_types=[places.type]))
    return result


RULES: Mapping[type[Operation], Rule] = {simd.PermuteBytesOp: _permute_bytes, simd.LookupBytesOp: _lookup_bytes}
