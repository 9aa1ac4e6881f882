"""Static memory planning: every buffer of an entry function gets an address at compile time.

Enters: entry functions (attribute `qmlir.inputs`) without control flow. Each allocates a buffer for each intermediate
value, holds its constants as `qmlir.constant_buffer`, and ends by copying values to its out-arguments. Leaves: the
same calls on views of two memory blocks, `%weights` and `%arena`. The module's attributes hold the contents of the
weights block and the size of the arena.

A buffer is live from the first to the last statement that uses it or a view of it. Buffers are placed in order of
decreasing size, by best fit (ir/arena.py): the large buffers, which determine the arena's size, are placed while the
arena is empty, and the small buffers fill the gaps.

A buffer whose contents are only copied to an out-argument is replaced by that argument. An out-argument that begins as
a copy of an input, which nothing reads from there on, may be the same array as the input: `qmlir.in_place` says so.

Where memory is to be small, the arena is planned by several planners, of which the best plan is kept. The result of a
call may then lie over an operand that only this call still reads, as far ahead as the call says (`qmlir.leads`, see
codegen/leads.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

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
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qmlir.codegen.occupancy import Call, Occupancy, looks_at_all, statements_of
from qmlir.dialects.loops import CACHE_LINE, VIEWS, root_of, whole_lines
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.errors import PipelineError
from qmlir.ir.arena import Arena, Item, best_fit, place, plan, size_of
from qmlir.ir.facts import ARENA_BOUND, ARENA_SIZE, IN_PLACE, INPUTS, NAME, WEIGHTS_BLOB
from qmlir.ir.passes import option
from qmlir.ir.traversal import reached
from qmlir.ir.types import dtype_of, is_memref, is_numpys_own
from qmlir.ir.weights import WeightsAttr

SMALL_ALIGNMENT = 16
"""The alignment of buffers and constants where memory is to be small: the bytes of a vector of most processors."""


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Assigns every buffer of an entry function an offset in one arena, and every constant an offset in one blob.

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

    memory: Literal["fast", "small"] = option("fast", "small: results over operands, and the best of several plans")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if ARENA_SIZE.on(op):
            raise PipelineError(self.name, "must run once", got="a module whose memory is planned")
        plan_entries(op, entries_of(op, self.name), small=self.memory == "small")


def entries_of(module: ModuleOp, name: str) -> list[func.FuncOp]:
    """The entry functions, of straight code; there is at least one.

    Raises:
        PipelineError: The pass `name` finds no such function, or an entry with control flow.
    """
    entries = [f for f in module.body.block.ops if isinstance(f, func.FuncOp) and INPUTS.on(f)]
    if not entries:
        raise PipelineError(name, f"needs one function with the attribute {INPUTS}", got="0")
    if any(len(entry.body.blocks) != 1 for entry in entries):
        raise PipelineError(name, "needs an entry function of straight code")
    return entries


def plan_entries(module: ModuleOp, entries: Sequence[func.FuncOp], *, small: bool = False) -> None:
    """Plans the memory of entries, and rewrites the entries and the attributes of the module in place.

    Entries have the weights in common, and an arena that is large enough for each of them.
    """
    for entry in entries:
        without_needless_copies(entry)
        if pairs := list(in_place(entry)):
            IN_PLACE.put(entry, [place for pair in pairs for place in pair])
    aligned = SMALL_ALIGNMENT if small else CACHE_LINE
    held = [op for entry in entries for op in entry.body.block.ops if isinstance(op, ConstantBufferOp)]
    blob, constants = pack_constants(held, aligned)
    planned = [_placed(entry.body.block, small=small) for entry in entries]
    arena_size = max(size for _, size, _ in planned)
    for entry, (offsets, _, _) in zip(entries, planned, strict=True):
        block = entry.body.block
        weights = block.insert_arg(MemRefType(i8, [blob.size]), 0)
        weights.name_hint = "weights"
        memory = block.insert_arg(MemRefType(i8, [arena_size]), 1)
        memory.name_hint = "arena"
        entry.function_type = FunctionType.from_lists(block.arg_types, entry.function_type.outputs.data)
        if entry.arg_attrs is not None:
            entry.arg_attrs = ArrayAttr([DictionaryAttr({}), DictionaryAttr({}), *entry.arg_attrs])
        views = _Views(block)
        for op, offset in [each for each in constants if each[0].parent is block]:
            views.replace(op, weights, offset)
        for op in [op for op in block.ops if isinstance(op, memref.AllocOp)]:
            views.replace(op, memory, offsets[op.memref])
    if small:
        ARENA_BOUND.put(module, max(bound for _, _, bound in planned))
    ARENA_SIZE.put(module, arena_size)
    WEIGHTS_BLOB.put(module, WeightsAttr(blob))


def _placed(block: Block, *, small: bool) -> tuple[Mapping[SSAValue, int], int, int]:
    """The offsets of an entry's buffers in the arena, its size, and the bytes that no plan undercuts if it is small."""
    buffers = live_buffers(block)
    if small:
        arena = place_windows(occupancy(block, buffers))
        return dict(zip(buffers, arena.offsets, strict=True)), arena.size, arena.bound
    placed, size = place_buffers([*buffers.values()])
    return dict(zip(buffers, placed, strict=True)), size, 0


class _Views:
    """Replaces buffers by views; each offset constant is defined once, at the top of the block."""

    def __init__(self, block: Block):
        self.block = block
        self.offsets: dict[int, SSAValue] = {}

    def replace(self, op: ConstantBufferOp | memref.AllocOp, source: SSAValue, offset: int) -> None:
        """Replaces the buffer that `op` defines by a view of `source` at the byte `offset`."""
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
        NAME.set(view, NAME.of(op))
        Rewriter.replace_op(op, view)


# -- views and sizes --------------------------------------------------------------------------------------------


def buffer_bytes(type: Attribute) -> int:
    """The size of a buffer in bytes.

    Raises:
        PipelineError: The buffer is not static and row-major, or its elements are not whole bytes.
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


# -- out-arguments ----------------------------------------------------------------------------------------------


def without_needless_copies(entry: func.FuncOp) -> None:
    """Erases copies to out-arguments that may be the copied buffers, and what nothing uses."""
    forward_out_arguments(entry)
    for op in reversed(list(entry.body.block.ops)):
        unused = isinstance(op, (*VIEWS, memref.AllocOp, ConstantBufferOp)) and not any(r.uses for r in op.results)
        if unused or isinstance(op, memref.DeallocOp):  # a buffer's lifetime ends at its last use
            Rewriter.erase_op(op)


def forward_out_arguments(entry: func.FuncOp) -> None:
    """Replaces a buffer that is copied to an out-argument by that argument, and erases the copy.

    The copy remains if its source is an input, a constant, a part of a buffer, or a buffer that another out-argument
    has already replaced: then the out-argument needs its own copy of the data.
    """
    outputs = set(entry.args[INPUTS.required(entry) :])
    places = {op: place for place, op in enumerate(entry.body.block.ops)}
    for copy in [op for op in entry.body.block.ops if isinstance(op, memref.CopyOp)]:
        root = root_of(copy.source)
        if (
            copy.destination in outputs
            and len(list(copy.destination.uses)) == 1
            and isinstance(root.owner, memref.AllocOp)
            and looks_at_all(copy.source)
            and _is_final_after(root, copy, places)
        ):
            _become(root.owner, copy.destination)
            Rewriter.erase_op(copy)


def _is_final_after(root: SSAValue, copy: memref.CopyOp, places: Mapping[Operation, int]) -> bool:
    """Whether after `copy` the buffer `root` is only a source of copies, or deallocated; views have no `places`."""
    for value in all_views(root):
        for use in value.uses:
            user = _statement(use.operation, copy.parent)
            harmless = isinstance(user, memref.DeallocOp) or (isinstance(user, memref.CopyOp) and use.index == 0)
            if places.get(user, -1) > places[copy] and not harmless and not isinstance(user, VIEWS):
                return False
    return True


def in_place(entry: func.FuncOp) -> Iterator[tuple[int, int]]:
    """Yields the inputs that calls may renew where they are, each with the number of the out-argument that it is then.

    The out-argument begins as a copy of the input. Nothing reads the input behind the copy, and nothing uses the
    out-argument before it.
    """
    count, places = INPUTS.required(entry), {op: place for place, op in enumerate(entry.body.block.ops)}
    for copy in entry.body.block.ops:
        if not isinstance(copy, memref.CopyOp) or not looks_at_all(copy.source) or not looks_at_all(copy.destination):
            continue
        source, destination = root_of(copy.source), root_of(copy.destination)
        if not isinstance(source, BlockArgument) or not isinstance(destination, BlockArgument):
            continue
        if source.index < count <= destination.index and (
            all(places[op] <= places[copy] for op in _users(source, entry.body.block))
            and all(places[op] >= places[copy] for op in _users(destination, entry.body.block))
        ):
            yield source.index, destination.index - count


def _users(root: SSAValue, block: Block) -> Iterator[Operation]:
    """The statements that use a buffer or a view of it."""
    for value in all_views(root):
        yield from (_statement(u.operation, block) for u in value.uses if not isinstance(u.operation, VIEWS))


def _become(alloc: memref.AllocOp, argument: SSAValue) -> None:
    """Replaces a buffer by an out-argument with the same number of elements."""
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


def all_views(value: SSAValue) -> Iterator[SSAValue]:
    """A memref and every view of it."""

    def views(value: SSAValue) -> Iterator[SSAValue]:
        return (u.operation.results[0] for u in value.uses if isinstance(u.operation, VIEWS) and u.index == 0)

    return reached([value], views)


def _statement(op: Operation, block: Block | None) -> Operation:
    """The operation of `block` that contains `op`."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


# -- the arena --------------------------------------------------------------------------------------------------


def live_buffers(block: Block) -> dict[SSAValue, Item]:
    """The allocated buffers that are used, with their sizes and their lifetimes in statement numbers of the block."""
    position = {op: i for i, op in enumerate(block.ops)}
    buffers: dict[SSAValue, Item] = {}
    for op in block.ops:
        if not isinstance(op, memref.AllocOp):
            continue
        if op.alignment is not None and op.alignment.value.data > CACHE_LINE:
            got = f"{op.alignment.value.data}"
            raise PipelineError(PlanMemoryPass.name, f"aligns buffers to at most {CACHE_LINE} bytes", got=got)
        users = [use.operation for view in all_views(op.memref) for use in view.uses]
        uses = [position[_statement(user, block)] for user in users if not isinstance(user, VIEWS)]
        if uses:
            name = op.memref.name_hint or ""
            buffers[op.memref] = Item(name, buffer_bytes(op.memref.type), min(uses), max(uses))
    return buffers


def place_buffers(buffers: Sequence[Item]) -> tuple[list[int], int]:
    """Offsets at which buffers with overlapping lifetimes are disjoint, and the size of the arena in bytes."""
    order = sorted(range(len(buffers)), key=lambda n: (-buffers[n].size, buffers[n].first))
    aligned = [replace(buffer, size=whole_lines(buffer.size)) for buffer in buffers]
    offsets = plan(aligned, order, best_fit)
    assert offsets is not None
    return offsets, size_of(aligned, offsets)


def occupancy(block: Block, buffers: Mapping[SSAValue, Item]) -> Occupancy:
    """The windows of buffers, which are small and packed densely."""
    statements = [
        s.statement([item.size for item in buffers.values()], s.bounds, {}) if isinstance(s, Call) else s
        for s in statements_of(block, buffers)
    ]
    return Occupancy([item.size for item in buffers.values()], statements, SMALL_ALIGNMENT)


def place_windows(windows: Occupancy) -> Arena:
    """The best plan of several, in which buffers may overlap where their windows never meet."""
    bound = int(windows.bytes_at().max(initial=0))
    return place(windows.items(), leads=windows.leads(), bound=bound)


# -- the weights blob -------------------------------------------------------------------------------------------


COMPARED_FIRST = 1024
"""Bytes at the start of constants that decide whether all are compared: a hash of all takes 0.2 s for ResNet-50."""


def pack_constants(
    constants: Sequence[ConstantBufferOp], aligned: int = CACHE_LINE
) -> tuple[npt.NDArray[np.int8], list[tuple[ConstantBufferOp, int]]]:
    """Packs constants into one blob, equal bytes only once; returns the blob and the offset of each constant.

    Offsets are multiples of `aligned` bytes. The constants lose their arrays, each once the blob holds it.
    """
    sharing: dict[int, list[ConstantBufferOp]] = {}
    for op in constants:
        sharing.setdefault(id(op.value.array), []).append(op)  # equal attributes share an array, compared once
    most = sum(whole_lines(ops[0].value.array.nbytes, aligned) for ops in sharing.values())
    memory = np.zeros(most + CACHE_LINE, np.int8)  # takes memory where it is written to only
    begin, size = -memory.ctypes.data % CACHE_LINE, 0
    placed: dict[tuple[int, bytes], list[int]] = {}
    offsets: dict[ConstantBufferOp, int] = {}
    for ops in sharing.values():
        data = ops[0].value.array.reshape(-1).view(np.int8)
        alike = placed.setdefault((data.nbytes, data[:COMPARED_FIRST].tobytes()), [])
        held = (offset for offset in alike if np.array_equal(memory[begin + offset :][: data.nbytes], data))
        if (place := next(held, None)) is None:
            place = size
            alike.append(place)
            memory[begin + place :][: data.nbytes] = data
            size += whole_lines(data.nbytes, aligned)
        for op in ops:
            offsets[op] = place
            op.properties.clear()  # frees the array: weights would be in memory twice
    blob = memory[begin : begin + size]
    blob.flags.writeable = memory.flags.writeable = False  # read-only and aligned: nobody has to copy it from here on
    return blob, [(op, offsets[op]) for op in constants]
