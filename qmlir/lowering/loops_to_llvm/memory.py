"""memref → pointers: an address is the buffer's pointer and one index, an `inbounds` GEP over the element type.

    %v = memref.load %m[%i, %j] : memref<8x16xf32>
    ⇒  %a = mul nsw %i, 16 ; %b = add nsw %a, %j ; %p = getelementptr inbounds float, %m, %b ; %v = load %p

A pointer always points to the first element of its memref, so it already includes the offset in a subview's type.
LLVM's vectorizer and alias analysis understand addresses with real element types and one linear index. Byte offsets
through integers would hide both.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.dialects import llvm, memref
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    UnitAttr,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.utils import get_dynamic_index_list
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from qmlir.dialects.loops import CACHE_LINE, root_of
from qmlir.errors import UnsupportedError
from qmlir.ir.types import is_memref
from qmlir.ir.upstream import GEP_INBOUNDS
from qmlir.ir.upstream.llvm import AddOp, MulOp, SelectOp
from qmlir.lowering.loops_to_llvm.lowering import (
    NO_WRAP,
    POINTER,
    FunctionLowering,
    Rule,
    byte_size,
    element_bytes,
    is_contiguous,
    mangled,
    static_strides,
)

DYNAMIC = -(2**63)
"""The entry in a list of static sizes or offsets that means: the number is an operand."""

STACK_LIMIT = 64 * 1024
"""The most bytes of stack that one `memref.alloca` may take."""

_INBOUNDS: Mapping[str, Attribute] = {
    "rawConstantIndices": DenseArrayBase.from_list(i32, (llvm.GEP_USE_SSA_VAL,)),
    "noWrapFlags": IntegerAttr(GEP_INBOUNDS, 32),
    "inbounds": UnitAttr(),
}
"""Properties of a GEP with one index, an operand; LLVM 19 reads `inbounds`, later versions read `noWrapFlags`."""


def memref_type(value: SSAValue) -> MemRefType[Attribute]:
    """The type of a memref value."""
    if not is_memref(value.type):
        raise UnsupportedError(f"memrefs must be ranked, got {value.type}")
    return value.type


def linear_index(
    f: FunctionLowering, indices: Sequence[SSAValue], strides: Sequence[int]
) -> tuple[SSAValue | None, int]:
    """Σ index·stride over lowered indices, as a value (None if all indices are constants) plus a constant."""
    total: SSAValue | None = None
    constant = 0
    for index, stride in zip(indices, strides, strict=True):
        known = f.known(index)
        if known is not None:
            constant += known * stride
            continue
        term = index if stride == 1 else f.binary(MulOp, index, f.integer(stride), NO_WRAP)
        total = term if total is None else f.binary(AddOp, total, term, NO_WRAP)
    return total, constant


def element_pointer(
    f: FunctionLowering, base: SSAValue, element: Attribute, index: SSAValue | None, constant: int
) -> SSAValue:
    """The address `base + (index + constant)` elements."""
    if index is None and constant == 0:
        return base
    if index is None:
        index = f.integer(constant)
    elif constant:
        index = f.binary(AddOp, index, f.integer(constant), NO_WRAP)
    return f.emit(
        llvm.GEPOp.create(
            operands=[base, index],
            result_types=[POINTER],
            properties={"elem_type": element, **_INBOUNDS},
        )
    )


def access_pointer(f: FunctionLowering, buffer: SSAValue, indices: Sequence[SSAValue]) -> tuple[SSAValue, int]:
    """The address of an element, and the alignment in bytes that its type guarantees."""
    type = memref_type(buffer)
    size = f.pointer_bytes if isinstance(type.element_type, IndexType) else element_bytes(type.element_type)
    element = i8 if type.element_type == i1 else f.lowered_type(type.element_type)
    index, constant = linear_index(f, f.values(indices), static_strides(type))
    return element_pointer(f, f.value(buffer), element, index, constant), size


def load(f: FunctionLowering, pointer: SSAValue, type: Attribute, alignment: int) -> SSAValue:
    """Emits a load of a value of an LLVM type; `alignment` is in bytes."""
    return f.emit(llvm.LoadOp.create(operands=[pointer], result_types=[type], properties=_aligned(alignment)))


def store(f: FunctionLowering, value: SSAValue, pointer: SSAValue, alignment: int) -> None:
    """Emits a store of a value of an LLVM type; `alignment` is in bytes."""
    f.add(llvm.StoreOp.create(operands=[value, pointer], properties=_aligned(alignment)))


@cache
def _aligned(alignment: int) -> Mapping[str, Attribute]:
    return {"alignment": IntegerAttr(alignment, i64), "ordering": IntegerAttr(0, i64)}


def _load(f: FunctionLowering, op: memref.LoadOp) -> None:
    pointer, alignment = access_pointer(f, op.operands[0], op.operands[1:])
    type = f.lowered_type(op.res.type)
    if type == i1:  # memory holds an i1 as a byte, 0 or 1
        f.define(op.res, f.cast(llvm.TruncOp, load(f, pointer, i8, 1), i1))
    else:
        f.define(op.res, load(f, pointer, type, alignment))


def _store(f: FunctionLowering, op: memref.StoreOp) -> None:
    value = f.value(op.operands[0])
    pointer, alignment = access_pointer(f, op.operands[1], op.operands[2:])
    f.written.add(root_of(op.operands[1]))
    store(f, f.cast(llvm.ZExtOp, value, i8) if value.type == i1 else value, pointer, alignment)


def _alloca(f: FunctionLowering, op: memref.AllocaOp) -> None:
    type = op.memref.type
    size = byte_size(type)
    if size > STACK_LIMIT:
        f.refuse(
            op,
            f"must stay within {STACK_LIMIT} bytes of stack",
            got=f"{size}",
            remedy="take the buffer as an argument, allocated in the entry function",
        )
    alignment = op.alignment.value.data if op.alignment else CACHE_LINE
    f.define(op.memref, f.stack_slot(size, alignment))


def _unplanned(f: FunctionLowering, op: Operation) -> None:
    f.refuse(
        op, "needs an address", remedy="run plan-memory first; kernels take buffers as arguments or use memref.alloca"
    )


ARRAYS = 2
"""The number of an entry's first argument that is an array of the caller's: weights and arena come before them. A state
may be renewed where it is; then the arrays before and behind the call are one, and nothing is copied."""


def _copy(f: FunctionLowering, op: memref.CopyOp) -> None:
    source, destination = memref_type(op.source), memref_type(op.destination)
    if not is_contiguous(source) or not is_contiguous(destination):
        f.refuse(op, "must copy contiguous memory", got=f"{source} to {destination}", remedy="copy with a loop")
    f.written.add(root_of(op.destination))
    size, places = f.integer(byte_size(source)), [f.value(op.destination), f.value(op.source)]
    if all(isinstance(root, BlockArgument) and root.index >= ARRAYS for root in map(root_of, op.operands)):
        same = f.compare("eq", *(f.cast(llvm.PtrToIntOp, place, f.index) for place in places))
        size = f.emit(SelectOp(same, f.integer(0), size))
    arguments = (*places, size, f.integer(0, i1))
    f.effect(f"llvm.memcpy.p0.p0.{mangled(f.index)}", arguments)


def _dim(f: FunctionLowering, op: memref.DimOp) -> None:
    axis = f.known(f.value(op.index))
    shape = memref_type(op.source).get_shape()
    if axis is None or not 0 <= axis < len(shape) or shape[axis] < 0:
        f.refuse(op, "must ask for a static dimension by a constant")
    f.define(op.result, f.integer(shape[axis]))


def _address(f: FunctionLowering, op: memref.ExtractAlignedPointerAsIndexOp) -> None:
    f.define(op.aligned_pointer, f.cast(llvm.PtrToIntOp, f.value(op.source), f.index))


# -- views of the same memory -----------------------------------------------------------------------------------


def _view(f: FunctionLowering, op: memref.ViewOp) -> None:
    byte_size(op.result.type)  # refuses dynamic shapes
    shift = f.value(op.byte_shift)
    known = f.known(shift)
    index, constant = (shift, 0) if known is None else (None, known)
    f.define(op.result, element_pointer(f, f.value(op.source), i8, index, constant))


def _subview(f: FunctionLowering, op: memref.SubviewOp) -> None:
    static_strides(op.result.type)
    offsets = get_dynamic_index_list(op.static_offsets.get_values(), op.offsets, DYNAMIC)
    lowered = [f.integer(o) if isinstance(o, int) else f.value(o) for o in offsets]
    source = memref_type(op.source)
    index, constant = linear_index(f, lowered, static_strides(source))
    element = i8 if source.element_type == i1 else f.lowered_type(source.element_type)
    f.define(op.result, element_pointer(f, f.value(op.source), element, index, constant))


def _reinterpret_cast(f: FunctionLowering, op: memref.ReinterpretCastOp) -> None:
    source = memref_type(op.source)
    static_strides(op.result.type)
    if not isinstance(source.layout, NoneAttr):
        f.refuse(op, "must look at a whole buffer", got=str(source), remedy="take it from the buffer itself")
    if op.result.type.element_type != source.element_type:
        f.refuse(op, "must keep the element type", got=f"{source} to {op.result.type}", remedy="use memref.view")
    (offset,) = get_dynamic_index_list(op.static_offsets.get_values(), op.offsets, DYNAMIC)
    index, constant = (None, offset) if isinstance(offset, int) else linear_index(f, [f.value(offset)], [1])
    element = i8 if source.element_type == i1 else f.lowered_type(source.element_type)
    f.define(op.result, element_pointer(f, f.value(op.source), element, index, constant))


def _reshape(f: FunctionLowering, op: memref.CollapseShapeOp | memref.ExpandShapeOp) -> None:
    source, result = memref_type(op.operands[0]), memref_type(op.results[0])
    same_size = byte_size(source) == byte_size(result)
    if not (is_contiguous(source) and is_contiguous(result) and same_size):
        f.refuse(op, "must look at contiguous memory of one size", got=f"{source} to {result}")
    f.define(op.results[0], f.value(op.operands[0]))


def _cast(f: FunctionLowering, op: memref.CastOp) -> None:
    if static_strides(memref_type(op.source)) != static_strides(memref_type(op.dest)):
        f.refuse(op, "must keep the strides", got=f"{op.source.type} to {op.dest.type}")
    f.define(op.dest, f.value(op.source))


RULES: Mapping[type[Operation], Rule] = {
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    memref.AllocaOp: _alloca,
    memref.AllocOp: _unplanned,
    memref.DeallocOp: _unplanned,
    memref.CopyOp: _copy,
    memref.DimOp: _dim,
    memref.ExtractAlignedPointerAsIndexOp: _address,
    memref.ViewOp: _view,
    memref.SubviewOp: _subview,
    memref.ReinterpretCastOp: _reinterpret_cast,
    memref.CollapseShapeOp: _reshape,
    memref.ExpandShapeOp: _reshape,
    memref.CastOp: _cast,
}
