"""The function that computes a network for each sample of a batch, of an entry that `batch-samples` has marked.

    void net_batch(const u8* weights, u8* arena, const void* const* inputs, void* const* outputs, i64 samples)

The tables point to the first samples; the other samples follow in memory. Each sample is a call of the entry with
tables of its own, so its bits are those of a single call. With threads, as many samples as they share evenly are items
of the pool (backends/cpu/pool.py), and each share has an arena of its own: the arena of a batch is as many times as
large. Calls inside a share find the pool taken and do not divide their loops. The samples that remain come one after
another, and divide theirs. The size of the arena that callers are told is that of a batch.

    llvm.func internal @net_batch.share(%frame: !llvm.ptr, %share: i64, %begin: i64, %end: i64) {
      for %sample = %begin to %end:
        store the addresses of the sample to tables on the stack
        llvm.call @net(%weights, %arena_of_share, %inputs_of_sample, %outputs_of_sample)
    }
"""

from collections.abc import Sequence

from xdsl.dialects import func, llvm
from xdsl.dialects.builtin import IntegerType, UnitAttr, i8, i64
from xdsl.ir import Attribute, Block, SSAValue

from qmlir.dialects.loops import RUN_SHARES, batch_symbol, whole_lines
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import THREADS
from qmlir.ir.signature import batch_of
from qmlir.ir.upstream.llvm import AddOp, MulOp, SubOp
from qmlir.lowering.loops_to_llvm.lowering import NO_WRAP, POINTER, FunctionLowering, byte_size
from qmlir.lowering.loops_to_llvm.memory import element_pointer, load, memref_type, store
from qmlir.lowering.loops_to_llvm.sharing import share_symbol


def batch_functions(
    entry: func.FuncOp, inputs: int, arena: int, symbols: Sequence[str], index: IntegerType = i64
) -> list[llvm.FuncOp]:
    """Returns the function for batches of an entry, and that of a share of a batch; nothing for an unmarked entry.

    Args:
        entry: The entry, with weights and arena, inputs and outputs as arguments.
        inputs: The number of inputs.
        arena: The bytes of scratch memory of a call.
        symbols: The names of all functions of the module.
        index: The type of an index.

    Raises:
        UnsupportedError: A function has the name of one of these, or the entry has another number of inputs.
    """
    if (batch := batch_of(entry)) is None:
        return []
    name, kind = entry.sym_name.data, entry.name
    made = batch_symbol(name), share_symbol(batch_symbol(name))
    if taken := [symbol for symbol in made if symbol in symbols]:
        raise UnsupportedError.at(kind, taken[0], "must have another name: the function for batches has it")
    if len(batch.inputs) != inputs:
        raise UnsupportedError.at(kind, name, f"must be marked for {inputs} inputs", got=str(len(batch.inputs)))
    sizes = [byte_size(memref_type(argument)) for argument in entry.args[2:]]
    steps = [
        size if batched else 0 for size, batched in zip(sizes, [*batch.inputs, *[True] * len(sizes)], strict=False)
    ]
    return [_batch(name, _sharers(entry), index), _share(name, steps[:inputs], steps[inputs:], arena, index)]


def arena_of_batch(entry: func.FuncOp, arena: int) -> int:
    """Returns the bytes of scratch memory with which an entry, and its function for batches, can be called."""
    return whole_lines(arena) * _sharers(entry) if batch_of(entry) is not None and _sharers(entry) > 1 else arena


def _sharers(entry: func.FuncOp) -> int:
    return THREADS.of(entry) or 1


def _batch(name: str, threads: int, index: IntegerType) -> llvm.FuncOp:
    f = FunctionLowering(batch_symbol(name), {}, index=index)
    block = f.place(Block(arg_types=(*(POINTER,) * 4, i64)))
    *tables, count = block.args
    samples = count if index == i64 else f.cast(llvm.TruncOp, count, index)
    frame, share = f.frame(len(tables) * f.pointer_bytes), share_symbol(f.name)
    for i, table in enumerate(tables):
        store(f, table, element_pointer(f, frame, POINTER, None, i), f.pointer_bytes)
    begin: SSAValue = f.integer(0)
    if threads > 1:
        rest = f.binary(llvm.URemOp, samples, f.integer(threads))
        begin = f.binary(SubOp, samples, rest, NO_WRAP)
        shared, alone = Block(), Block()
        f.branch_if(f.compare("sgt", begin, f.integer(0)), shared, alone)
        f.place(shared)
        f.call(RUN_SHARES, (f.emit(llvm.AddressOfOp(share, POINTER)), frame, begin, f.integer(threads)))
        f.branch(alone)
        f.place(alone)
    f.call(share, (frame, f.integer(0), begin, samples))
    return _finished(f, block, llvm.LinkageAttr("external"))


def _share(name: str, inputs: Sequence[int], outputs: Sequence[int], arena: int, index: IntegerType) -> llvm.FuncOp:
    """Returns the function of a share; `inputs` and `outputs` are the bytes from sample to sample."""
    f = FunctionLowering(share_symbol(batch_symbol(name)), {}, index=index)
    block = f.place(Block(arg_types=(POINTER, index, index, index)))
    frame, share, begin, end = block.args
    weights, first, *given = [
        load(f, element_pointer(f, frame, POINTER, None, i), POINTER, f.pointer_bytes) for i in range(4)
    ]
    own = element_pointer(f, first, i8, f.binary(MulOp, share, f.integer(whole_lines(arena)), NO_WRAP), 0)
    tables = [f.stack_slot(max(len(steps), 1) * f.pointer_bytes, f.pointer_bytes) for steps in (inputs, outputs)]
    header, body, exit = Block(arg_types=(index,)), Block(), Block()
    (sample,) = header.args
    f.branch(header, (begin,))
    f.place(header)
    f.branch_if(f.compare("slt", sample, end), body, exit)
    f.place(body)
    for source, table, steps in zip(given, tables, (inputs, outputs), strict=True):
        for i, step in enumerate(steps):
            address = load(f, element_pointer(f, source, POINTER, None, i), POINTER, f.pointer_bytes)
            if step:
                address = element_pointer(f, address, i8, f.binary(MulOp, sample, f.integer(step), NO_WRAP), 0)
            store(f, address, element_pointer(f, table, POINTER, None, i), f.pointer_bytes)
    f.call(name, (weights, own, *tables))
    f.branch(header, (f.binary(AddOp, sample, f.integer(1), NO_WRAP),))
    f.place(exit)
    return _finished(f, block, llvm.LinkageAttr("internal"))


def _finished(f: FunctionLowering, block: Block, linkage: llvm.LinkageAttr) -> llvm.FuncOp:
    f.add(llvm.ReturnOp.create(operands=()))
    types: list[Attribute] = [argument.type for argument in block.args]
    function = llvm.FuncOp(f.name, llvm.LLVMFunctionType(types), linkage, body=f.finish())
    function.properties["no_unwind"] = UnitAttr()
    return function
