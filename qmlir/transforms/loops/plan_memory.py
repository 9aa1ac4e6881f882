"""Static memory planning: every buffer of the entry function gets an address before anything runs.

Enters: an entry function (attribute `qmlir.inputs`) of straight code that allocates a buffer for each intermediate
value, holds its constants as `qmlir.constant_buffer`, and ends by copying values to its out-arguments. Leaves: the
same calls on views of two blocks, `%weights` and `%arena`, and in the module's attributes the contents of the one
and the size of the other.

A buffer lives from the first to the last statement that touches it or a view of it. Buffers are placed largest
first, each into the smallest gap between those that live at the same time and already have a place (best fit): the
large ones, which decide the arena's size, find it empty, and the small ones fill what is left.

A buffer that is only made to be copied to an out-argument becomes that argument.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qmlir.dialects.dtypes import dtype_of, is_numpys_own
from qmlir.dialects.loops import ARENA_SIZE, CACHE_LINE, INPUTS, VIEWS, WEIGHTS_BLOB, is_memref, root_of
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.dialects.weights import WeightsAttr
from qmlir.errors import PipelineError


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Gives every buffer of the entry function its place in one arena, every constant its place in one blob.

    Before:

        func.func @main(%x: memref<16xi8>, %y: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
          %w = qmlir.constant_buffer <tensor<4xi8>, [1, 2, 3, 4]> : memref<4xi8>
          %a = memref.alloc() {alignment = 64 : i64} : memref<16xi8>
          %b = memref.alloc() {alignment = 64 : i64} : memref<16xi8>
          func.call @f(%x, %w, %a) : (memref<16xi8>, memref<4xi8>, memref<16xi8>) -> ()
          func.call @g(%a, %b) : (memref<16xi8>, memref<16xi8>) -> ()
          "memref.copy"(%b, %y) : (memref<16xi8>, memref<16xi8>) -> ()
          func.return
        }

    After, in a module with `qmlir.arena_size = 64` and `qmlir.weights_blob`:

        func.func @main(%weights: memref<64xi8>, %arena: memref<64xi8>, %x: memref<16xi8>, %y: memref<16xi8>)
            attributes {qmlir.inputs = 1 : i64} {
          %0 = arith.constant 0 : index
          %w = memref.view %weights[%0][] : memref<64xi8> to memref<4xi8>
          %a = memref.view %arena[%0][] : memref<64xi8> to memref<16xi8>
          func.call @f(%x, %w, %a) : (memref<16xi8>, memref<4xi8>, memref<16xi8>) -> ()
          func.call @g(%a, %y) : (memref<16xi8>, memref<16xi8>) -> ()
          func.return
        }
    """

    name = "plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if ARENA_SIZE in op.attributes:
            raise PipelineError(self.name, "must run once", got="a module whose memory is planned")
        entries = [f for f in op.body.block.ops if isinstance(f, func.FuncOp) and INPUTS in f.attributes]
        if len(entries) != 1:
            raise PipelineError(self.name, f"needs one function with the attribute {INPUTS}", got=f"{len(entries)}")
        plan_entry(op, entries[0])


def plan_entry(module: ModuleOp, entry: func.FuncOp) -> None:
    """Plans the memory of `entry` and rewrites it and the module's attributes in place."""
    if len(entry.body.blocks) != 1:
        raise PipelineError(PlanMemoryPass.name, "needs an entry function of straight code")
    block = entry.body.block
    forward_out_arguments(entry)
    for op in reversed(list(block.ops)):
        unused = isinstance(op, (*VIEWS, memref.AllocOp, ConstantBufferOp)) and not any(r.uses for r in op.results)
        if unused or isinstance(op, memref.DeallocOp):  # a buffer dies at its last use
            Rewriter.erase_op(op)

    blob, constants = pack_constants([op for op in block.ops if isinstance(op, ConstantBufferOp)])
    buffers = live_buffers(block)
    arena_size = place_buffers(buffers)

    weights = block.insert_arg(MemRefType(i8, [blob.size]), 0)
    weights.name_hint = "weights"
    arena = block.insert_arg(MemRefType(i8, [arena_size]), 1)
    arena.name_hint = "arena"
    entry.function_type = FunctionType.from_lists(block.arg_types, entry.function_type.outputs.data)
    if entry.arg_attrs is not None:
        entry.arg_attrs = ArrayAttr([DictionaryAttr({}), DictionaryAttr({}), *entry.arg_attrs])

    views = _Views(block)
    offsets = {buffer.value: buffer.offset for buffer in buffers}
    for op, offset in constants:
        views.replace(op, weights, offset)
    for op in [op for op in block.ops if isinstance(op, memref.AllocOp)]:
        views.replace(op, arena, offsets[op.memref])

    module.attributes[ARENA_SIZE] = IntegerAttr(arena_size, i64)
    module.attributes[WEIGHTS_BLOB] = WeightsAttr(blob)


class _Views:
    """Puts views in the place of buffers; offsets stand once, at the top of the block."""

    def __init__(self, block: Block):
        self.block = block
        self.offsets: dict[int, SSAValue] = {}

    def replace(self, op: ConstantBufferOp | memref.AllocOp, source: SSAValue, offset: int) -> None:
        """Replaces the buffer that `op` makes by the bytes of `source` from `offset` on."""
        if offset not in self.offsets:
            constant = arith.ConstantOp(IntegerAttr(offset, IndexType()))
            first = self.block.first_op
            assert first is not None
            self.block.insert_op_before(constant, first)
            self.offsets[offset] = constant.result
        type = op.results[0].type
        assert is_memref(type)
        view = memref.ViewOp(source, self.offsets[offset], [], type)
        view.result.name_hint = op.results[0].name_hint
        Rewriter.replace_op(op, view)


# -- views and sizes --------------------------------------------------------------------------------------------


def looks_at_all(value: SSAValue) -> bool:
    """Whether a memref is all of its root, from the first element to the last, in order and in its element type."""
    while isinstance(view := value.owner, VIEWS):
        source = view.operands[0]
        if not _same_elements(value.type, source.type):
            return False
        if isinstance(view, memref.SubviewOp | memref.ReinterpretCastOp) and any(view.static_offsets.get_values()):
            return False
        value = source
    return True


def _same_elements(a: Attribute, b: Attribute) -> bool:
    return (
        is_memref(a)
        and is_memref(b)
        and isinstance(a.layout, NoneAttr)
        and isinstance(b.layout, NoneAttr)
        and a.element_type == b.element_type
        and prod(a.get_shape()) == prod(b.get_shape())
    )


def buffer_bytes(type: Attribute) -> int:
    """Bytes a buffer takes.

    Raises:
        PipelineError: the buffer has no size before it runs, or elements that are not whole bytes.
    """
    given = str(type)
    if not is_memref(type) or not isinstance(type.layout, NoneAttr) or min(type.get_shape(), default=0) < 0:
        raise PipelineError(PlanMemoryPass.name, "needs static buffers in row-major order", got=given)
    element = type.element_type
    try:
        dtype = np.dtype(np.int64) if isinstance(element, IndexType) else dtype_of(element)
    except KeyError:
        dtype = None
    if dtype is None or not is_numpys_own(dtype):
        raise PipelineError(PlanMemoryPass.name, "needs elements that memory holds one by one", got=given)
    return prod(type.get_shape()) * dtype.itemsize


def _aligned(size: int) -> int:
    return -(-size // CACHE_LINE) * CACHE_LINE


# -- out-arguments ----------------------------------------------------------------------------------------------


def forward_out_arguments(entry: func.FuncOp) -> None:
    """Lets a buffer that is copied to an out-argument be that argument, and drops the copy.

    It is kept where the value is an input, a constant, a part of a buffer, or returned before: then the result
    needs memory of its own.
    """
    inputs = entry.attributes[INPUTS]
    assert isinstance(inputs, IntegerAttr)
    outputs = set(entry.args[inputs.value.data :])
    for copy in [op for op in entry.body.block.ops if isinstance(op, memref.CopyOp)]:
        root = root_of(copy.source)
        if (
            copy.destination in outputs
            and len(list(copy.destination.uses)) == 1
            and isinstance(root.owner, memref.AllocOp)
            and looks_at_all(copy.source)
            and _is_final_after(root, copy)
        ):
            _become(root.owner, copy.destination)
            Rewriter.erase_op(copy)


def _is_final_after(root: SSAValue, copy: memref.CopyOp) -> bool:
    """Whether nothing but copies from it touches a buffer after `copy`."""
    later: set[Operation] = set()
    op = copy.next_op
    while op is not None:
        later.add(op)
        op = op.next_op
    for value in _all_views(root):
        for use in value.uses:
            user = _statement(use.operation, copy.parent)
            harmless = isinstance(user, memref.DeallocOp) or (isinstance(user, memref.CopyOp) and use.index == 0)
            if user in later and not harmless and not isinstance(user, VIEWS):
                return False
    return True


def _become(alloc: memref.AllocOp, argument: SSAValue) -> None:
    """Replaces a buffer by an out-argument of as many elements."""
    type = alloc.memref.type
    for use in list(alloc.memref.uses):
        if isinstance(use.operation, memref.DeallocOp):
            Rewriter.erase_op(use.operation)
    if type == argument.type:
        Rewriter.replace_op(alloc, [], [argument])
        return
    shape = type.get_shape()
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    Rewriter.replace_op(alloc, memref.ReinterpretCastOp(argument, [], [], [], [0], shape, strides, type))


def _all_views(value: SSAValue) -> Iterable[SSAValue]:
    """A memref and every view of it."""
    yield value
    for use in value.uses:
        if isinstance(use.operation, VIEWS) and use.index == 0:
            yield from _all_views(use.operation.results[0])


def _statement(op: Operation, block: Block | None) -> Operation:
    """The operation of `block` that contains `op`."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


# -- the arena --------------------------------------------------------------------------------------------------


@dataclass
class Buffer:
    """A buffer of `size` bytes that lives from statement `first` to statement `last`, both included."""

    value: SSAValue
    size: int
    first: int
    last: int
    offset: int = 0

    def lives_with(self, other: "Buffer") -> bool:
        """Whether some statement touches both."""
        return self.first <= other.last and other.first <= self.last


def live_buffers(block: Block) -> list[Buffer]:
    """The allocated buffers that something uses, with their lifetimes in statements of the block."""
    position = {op: i for i, op in enumerate(block.ops)}
    buffers: list[Buffer] = []
    for op in block.ops:
        if not isinstance(op, memref.AllocOp):
            continue
        if op.alignment is not None and op.alignment.value.data > CACHE_LINE:
            got = f"{op.alignment.value.data}"
            raise PipelineError(PlanMemoryPass.name, f"aligns buffers to at most {CACHE_LINE} bytes", got=got)
        users = [use.operation for view in _all_views(op.memref) for use in view.uses]
        uses = [position[_statement(user, block)] for user in users if not isinstance(user, VIEWS)]
        if uses:
            buffers.append(Buffer(op.memref, buffer_bytes(op.memref.type), min(uses), max(uses)))
    return buffers


def place_buffers(buffers: Sequence[Buffer]) -> int:
    """Gives each buffer an offset such that buffers that live together do not overlap; the arena's size in bytes."""
    placed: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: (-b.size, b.first)):
        neighbours = sorted((b for b in placed if b.lives_with(buffer)), key=lambda b: b.offset)
        buffer.offset = _best_gap(neighbours, _aligned(buffer.size))
        placed.append(buffer)
    return max((b.offset + _aligned(b.size) for b in placed), default=0)


def _best_gap(neighbours: Sequence[Buffer], size: int) -> int:
    """Offset of the smallest gap of at least `size` bytes, or the end. Neighbours come by offset."""
    best: tuple[int, int] | None = None
    end = 0
    for neighbour in neighbours:
        gap = neighbour.offset - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, neighbour.offset + _aligned(neighbour.size))
    return end if best is None else best[1]


# -- the weights blob -------------------------------------------------------------------------------------------


def pack_constants(
    constants: Sequence[ConstantBufferOp],
) -> tuple[npt.NDArray[np.int8], list[tuple[ConstantBufferOp, int]]]:
    """Lays constants out in one blob, equal bytes once; the blob and the offset of each constant."""
    offsets: dict[tuple[int, bytes], int] = {}
    seen: dict[int, int] = {}
    parts: list[tuple[int, npt.NDArray[np.int8]]] = []
    result: list[tuple[ConstantBufferOp, int]] = []
    size = 0
    for op in constants:
        array = op.value.array
        if id(array) not in seen:  # the array is shared where an attribute is: then nothing is read
            data = array.reshape(-1).view(np.int8)
            key = (data.nbytes, blake2b(data.data, digest_size=32).digest())
            if key not in offsets:
                offsets[key] = size
                parts.append((size, data))
                size += _aligned(data.nbytes)
            seen[id(array)] = offsets[key]
        result.append((op, seen[id(array)]))
    blob = np.zeros(size, np.int8)
    for offset, data in parts:
        blob[offset : offset + data.nbytes] = data
    return blob, result
