"""Lowering of control flow and of functions."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from xdsl.dialects import cf, func, llvm, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    UnitAttr,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qmlir.dialects.loops import CACHE_LINE, arena_size_symbol, root_of, weights_symbol
from qmlir.dialects.qmlir import ClockOp
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import ARENA_SIZE, THREADS, WEIGHTS_BLOB
from qmlir.ir.types import is_memref
from qmlir.ir.upstream.dense import dense_of
from qmlir.ir.upstream.llvm import AddOp
from qmlir.lowering.loops_to_llvm.aliasing import ArgumentFacts
from qmlir.lowering.loops_to_llvm.batches import arena_of_batch
from qmlir.lowering.loops_to_llvm.lowering import NO_WRAP, POINTER, FunctionLowering, Rule, lowered_type
from qmlir.lowering.loops_to_llvm.memory import element_pointer, load
from qmlir.lowering.loops_to_llvm.sharing import call_shared

# ---------------------------------------------------------------------------------------------------------------
# scf and cf → blocks and branches.
#
# %r = scf.for %i = %lb to %ub step %s iter_args(%a = %init) -> (T) { …; scf.yield %n }
#
#         br header(%lb, %init)
# header(%i, %r):  cond_br (%i < %ub), body, exit
# body:   …; br header(%i + %s, %n)
# exit:   uses of %r


def _for(f: FunctionLowering, op: scf.ForOp) -> None:
    lower, upper, step, *initial = f.values(op.operands)
    known_step = f.known(step)
    if known_step is not None and known_step <= 0:
        f.refuse(op, "must have a positive step", got=str(known_step))
    source = op.body.block
    header = Block(arg_types=[value.type for value in (lower, *initial)])
    body, exit = Block(), Block()
    induction = header.args[0]

    f.branch(header, (lower, *initial))
    f.place(header)
    f.branch_if(f.compare("slt", induction, upper), body, exit)

    f.place(body)
    for argument, lowered in zip(source.args, header.args, strict=True):
        f.define(argument, lowered)
    yielded = _lower_block(f, source)
    f.branch(header, (f.binary(AddOp, induction, step, NO_WRAP), *yielded))

    f.place(exit)
    for result, lowered in zip(op.results, header.args[1:], strict=True):
        f.define(result, lowered)


def _if(f: FunctionLowering, op: scf.IfOp) -> None:
    then, join = Block(), Block(arg_types=[f.lowered_type(result.type) for result in op.results])
    has_else = bool(op.false_region.blocks)
    otherwise = Block() if has_else else join

    f.branch_if(f.value(op.cond), then, otherwise)
    _lower_arm(f, then, op.true_region, join)
    if has_else:
        _lower_arm(f, otherwise, op.false_region, join)

    f.place(join)
    for result, lowered in zip(op.results, join.args, strict=True):
        f.define(result, lowered)


def _lower_arm(f: FunctionLowering, block: Block, region: Region, join: Block) -> None:
    f.place(block)
    f.branch(join, _lower_block(f, region.block))


def _lower_block(f: FunctionLowering, block: Block) -> Sequence[SSAValue]:
    """Lowers a structured body, and returns the lowered values that it yields."""
    operations = list(block.ops)
    if operations and isinstance(last := operations[-1], scf.YieldOp):
        f.lower(operations[:-1])
        return f.values(last.operands)
    f.lower(operations)
    return ()


def _branch(f: FunctionLowering, op: cf.BranchOp) -> None:
    f.branch(f.blocks[op.successor], f.values(op.arguments))


def _branch_if(f: FunctionLowering, op: cf.ConditionalBranchOp) -> None:
    then, otherwise = f.blocks[op.then_block], f.blocks[op.else_block]
    if then is otherwise and op.then_arguments and op.then_arguments != op.else_arguments:
        f.refuse(op, "must not reach one block with different values", remedy="select the values before")
    f.branch_if(f.value(op.cond), then, otherwise, f.values(op.then_arguments), f.values(op.else_arguments))


# ---------------------------------------------------------------------------------------------------------------
# func → llvm.func: kernels take pointers, the entry takes the four pointers of the ABI.
#
#     void net(const u8* weights, u8* arena, const void* const* inputs, void* const* outputs)
#
# Kernels get internal linkage and are not inlined. LLVM optimizes each kernel by itself, with the facts that the memory
# plan gives about its arguments (aliasing.py), and the entry remains a list of calls.


_INTERNAL, _EXTERNAL = llvm.LinkageAttr("internal"), llvm.LinkageAttr("external")


def lower_kernel(f: FunctionLowering, function: func.FuncOp) -> llvm.FuncOp:
    """Lowers a function that only this module calls; `set_argument_facts` adds facts when all calls are known."""
    _lower_body(f, function)
    return _function(function, _signature(function, f.index), f, _INTERNAL, noinline=True)


def declare_external(function: func.FuncOp, index: IntegerType = i64) -> llvm.FuncOp:
    """Declares a function that the back end links; it takes pointers to buffers."""
    return llvm.FuncOp(function.sym_name, _signature(function, index), _EXTERNAL)


def lower_entry(f: FunctionLowering, function: func.FuncOp, inputs: int) -> llvm.FuncOp:
    """Lowers the function that users call; pointers to inputs and outputs are loaded from the ABI's two tables."""
    if function.function_type.outputs.data:
        _refuse(function, "must return nothing", "its results are trailing arguments")
    for arg in function.args:
        if not is_memref(arg.type):
            _refuse(function, "must take memrefs only", f"an argument of type {arg.type}")
    type = llvm.LLVMFunctionType([POINTER] * 4)
    entry = f.place(Block(arg_types=type.inputs.data))
    weights, arena, input_table, output_table = entry.args
    f.define(function.args[0], weights)
    f.define(function.args[1], arena)
    for i, argument in enumerate(function.args[2:]):
        table, position = (input_table, i) if i < inputs else (output_table, i - inputs)
        slot = element_pointer(f, table, POINTER, None, position)
        f.define(argument, load(f, slot, POINTER, f.pointer_bytes))
    if len(function.body.blocks) != 1:
        _refuse(function, "must be straight code", f"{len(function.body.blocks)} blocks")
    f.lower(function.body.block.ops)
    aligned: dict[str, Attribute] = {"llvm.noalias": UnitAttr(), "llvm.align": IntegerAttr(CACHE_LINE, i64)}
    readonly: dict[str, Attribute] = {"llvm.noalias": UnitAttr(), "llvm.readonly": UnitAttr()}
    attributes = [{**aligned, **readonly}, aligned, readonly, readonly]
    lowered = _function(function, type, f, _EXTERNAL, noinline=False)
    lowered.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(a) for a in attributes])
    return lowered


def plan_globals(module: ModuleOp, entry: func.FuncOp) -> list[llvm.GlobalOp]:
    """The weights and the arena size that plan-memory noted on the module, as global constants for the caller."""
    size, blob, name = ARENA_SIZE.of(module), WEIGHTS_BLOB.of(module), entry.sym_name.data
    if size is None or blob is None:
        _refuse(
            entry,
            "must have its memory planned",
            f"{ARENA_SIZE.attribute(module)} and {WEIGHTS_BLOB.attribute(module)}",
        )
    held = blob.array.reshape(-1).view("i1")
    needed = IntegerAttr(arena_of_batch(entry, size), i64)
    bytes = dense_of(TensorType(i8, [held.size]), held)
    type = llvm.LLVMArrayType(held.size, i8)
    return [
        llvm.GlobalOp(type, weights_symbol(name), "external", constant=True, value=bytes, alignment=CACHE_LINE),
        llvm.GlobalOp(i64, arena_size_symbol(name), "external", constant=True, value=needed),
    ]


def set_argument_facts(kernel: llvm.FuncOp, facts: Mapping[int, ArgumentFacts]) -> None:
    """Writes the facts about a kernel's memref arguments as LLVM argument attributes."""
    attributes: list[DictionaryAttr] = []
    for i in range(len(kernel.function_type.inputs)):
        fact = facts.get(i)
        entries: dict[str, Attribute] = {}
        if fact is not None:
            entries["llvm.align"] = IntegerAttr(fact.alignment, i64)
            if fact.noalias:
                entries["llvm.noalias"] = UnitAttr()
            if fact.readonly:
                entries["llvm.readonly"] = UnitAttr()
        attributes.append(DictionaryAttr(entries))
    kernel.properties["arg_attrs"] = ArrayAttr(attributes)


def _signature(function: func.FuncOp, index: IntegerType) -> llvm.LLVMFunctionType:
    outputs = function.function_type.outputs.data
    if len(outputs) > 1:
        _refuse(function, "must return at most one value", f"{len(outputs)}")
    try:
        inputs = [lowered_type(t, index) for t in function.function_type.inputs]
        return llvm.LLVMFunctionType(inputs, lowered_type(outputs[0], index) if outputs else None)
    except UnsupportedError as error:
        _refuse(function, error.need)


def _lower_body(f: FunctionLowering, function: func.FuncOp) -> None:
    if function.is_declaration:
        _refuse(function, "must have a body: nothing is linked from outside")
    for block in function.body.blocks:
        f.blocks[block] = Block(arg_types=[f.lowered_type(arg.type) for arg in block.args])
        for argument, lowered in zip(block.args, f.blocks[block].args, strict=True):
            f.define(argument, lowered)
    for block in function.body.blocks:
        f.place(f.blocks[block])
        f.lower(block.ops)


def _function(
    source: func.FuncOp, type: llvm.LLVMFunctionType, f: FunctionLowering, linkage: llvm.LinkageAttr, *, noinline: bool
) -> llvm.FuncOp:
    properties: dict[str, Attribute | None] = {"no_unwind": UnitAttr()}
    if noinline:
        properties["no_inline"] = UnitAttr()
    return llvm.FuncOp(source.sym_name, type, linkage, body=f.finish(), other_props=properties)


def _refuse(function: func.FuncOp, need: str, got: str | None = None) -> NoReturn:
    raise UnsupportedError.at(function.name, function.sym_name.data, need, got=got)


def _call(f: FunctionLowering, op: func.CallOp) -> None:
    if len(op.results) > 1:
        f.refuse(op, "must return at most one value", got=f"{len(op.results)}")
    for argument in op.arguments:
        if is_memref(argument.type):
            f.written.add(root_of(argument))  # the callee may store to it
    if THREADS.on(op):
        call_shared(f, op)
        return
    results = [f.lowered_type(result.type) for result in op.results]
    call = f.call(op.callee.string_value(), f.values(op.arguments), results)
    call.location = op.location
    for result, lowered in zip(op.results, call.results, strict=True):
        f.define(result, lowered)


def _return(f: FunctionLowering, op: func.ReturnOp) -> None:
    f.add(llvm.ReturnOp.create(operands=f.values(op.arguments)))


def _clock(f: FunctionLowering, op: ClockOp) -> None:
    f.define(op.result, f.intrinsic(f"llvm.read{op.counter.data}counter", (), i64))


RULES: Mapping[type[Operation], Rule] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    cf.BranchOp: _branch,
    cf.ConditionalBranchOp: _branch_if,
    func.CallOp: _call,
    func.ReturnOp: _return,
    ClockOp: _clock,
}
