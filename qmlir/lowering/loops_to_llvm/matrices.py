"""Lowering of simd's matrices to AMX: registers of up to 16 rows of 64 bytes, and one instruction that multiplies two.

Each of LLVM's intrinsics gets the rows and the bytes of a row, from which LLVM configures the registers at the top of a
function and allocates them like others. There are eight.

There is no portable form: kernels that use matrices are chosen by the processor's features.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects.loops import root_of
from qmlir.dialects.simd.matrices import DotI8MatricesOp, LoadMatrixOp, PrefetchOp, StoreMatrixOp, matrix_shape
from qmlir.ir.types import is_vector
from qmlir.ir.upstream.llvm import MulOp
from qmlir.lowering.loops_to_llvm.lowering import NO_WRAP, X86_AMX, FunctionLowering, Rule, element_bytes
from qmlir.lowering.loops_to_llvm.memory import access_pointer

READ, SECOND_LEVEL, DATA = 0, 2, 1
"""Arguments of LLVM's prefetch: to be read, into the second-level cache, data."""


def _require_unit(f: FunctionLowering, op: Operation) -> None:
    """Refuses an operation if the processor has no matrix unit."""
    if not f.machine.matrices:
        f.refuse(op, "needs a matrix unit", got="no feature amx-int8", remedy="--loops-to-llvm=features=+amx-int8")


def _size(type: Attribute) -> tuple[int, int]:
    """The rows of a matrix, and the bytes of a row."""
    shape = matrix_shape(type)
    assert shape is not None
    assert is_vector(type)
    return shape[0], shape[1] * element_bytes(type.element_type)


def _words(f: FunctionLowering, *numbers: int) -> list[SSAValue]:
    return [f.integer(number, i16) for number in numbers]


def _distance(f: FunctionLowering, apart: SSAValue, type: Attribute) -> SSAValue:
    """Converts the distance between two rows from elements to bytes."""
    assert is_vector(type)
    size = element_bytes(type.element_type)
    return f.value(apart) if size == 1 else f.binary(MulOp, f.value(apart), f.integer(size), NO_WRAP)


def _load(f: FunctionLowering, op: LoadMatrixOp) -> None:
    _require_unit(f, op)
    type = op.result.type
    pointer, _ = access_pointer(f, op.x, [op.at])
    arguments = (*_words(f, *_size(type)), pointer, _distance(f, op.apart, type))
    f.define(op.result, f.intrinsic("llvm.x86.tileloadd64.internal", arguments, X86_AMX))


def _store(f: FunctionLowering, op: StoreMatrixOp) -> None:
    _require_unit(f, op)
    type = op.matrix.type
    pointer, _ = access_pointer(f, op.y, [op.at])
    f.written.add(root_of(op.y))
    arguments = (*_words(f, *_size(type)), pointer, _distance(f, op.apart, type), f.value(op.matrix))
    f.effect("llvm.x86.tilestored64.internal", arguments)


def _dot(f: FunctionLowering, op: DotI8MatricesOp) -> None:
    _require_unit(f, op)
    (rows, width), (_, depth) = _size(op.acc.type), _size(op.a.type)
    arguments = (*_words(f, rows, width, depth), *f.values((op.acc, op.a, op.b)))
    f.define(op.result, f.intrinsic("llvm.x86.tdpbssd.internal", arguments, X86_AMX))


def _prefetch(f: FunctionLowering, op: PrefetchOp) -> None:
    pointer, _ = access_pointer(f, op.x, [op.at])
    f.effect("llvm.prefetch.p0", (pointer, *(f.integer(number, i32) for number in (READ, SECOND_LEVEL, DATA))))


RULES: Mapping[type[Operation], Rule] = {
    LoadMatrixOp: _load,
    StoreMatrixOp: _store,
    DotI8MatricesOp: _dot,
    PrefetchOp: _prefetch,
}
