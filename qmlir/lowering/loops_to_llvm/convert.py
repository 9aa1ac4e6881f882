"""The pass `loops-to-llvm`: lowers a loops-level module with planned memory to the llvm dialect."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, llvm
from xdsl.dialects.builtin import IntegerType, ModuleOp, i64
from xdsl.passes import ModulePass

from qmlir.codegen.machine import Capabilities, capabilities
from qmlir.dialects.loops import RUN_SHARES
from qmlir.errors import OptionError, UnsupportedError
from qmlir.ir.fact import end
from qmlir.ir.facts import ARENA_SIZE, EXTERNAL, INPUTS, WEIGHTS_BLOB
from qmlir.ir.passes import option
from qmlir.ir.registry import Registry
from qmlir.lowering.loops_to_llvm import arith, control, matrices, memory, simd, tables, vector
from qmlir.lowering.loops_to_llvm.aliasing import argument_facts
from qmlir.lowering.loops_to_llvm.batches import batch_functions
from qmlir.lowering.loops_to_llvm.lowering import FunctionLowering, Rule
from qmlir.lowering.loops_to_llvm.sharing import pool_declaration, share_function, shared_kernels

RULES: Registry[Rule] = Registry(
    arith.RULES, memory.RULES, vector.RULES, simd.RULES, tables.RULES, matrices.RULES, control.RULES
)
"""Operation class → rule; operations of other classes are refused."""


@dataclass(frozen=True)
class LoopsToLLVMPass(ModulePass):
    """Lowers functions on memrefs, whose memory `plan-memory` has planned, to the llvm dialect.

    Before:

        func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xf32>, %y: memref<4xf32>)
            attributes {qmlir.inputs = 1 : i64} {
          "memref.copy"(%x, %y) : (memref<4xf32>, memref<4xf32>) -> ()
          func.return
        }

    After:

        llvm.func @main(%weights: !llvm.ptr, %arena: !llvm.ptr, %inputs: !llvm.ptr, %outputs: !llvm.ptr) {
          %x = llvm.load %inputs : !llvm.ptr -> !llvm.ptr
          %y = llvm.load %outputs : !llvm.ptr -> !llvm.ptr
          llvm.call_intrinsic "llvm.memcpy.p0.p0.i64"(%y, %x, %size, %volatile) : …
          llvm.return
        }
        llvm.mlir.global external constant @main_weights(dense<…> : tensor<896xi8>) … : !llvm.array<896 x i8>
        llvm.mlir.global external constant @main_arena_size(256 : i64) … : i64

    The weights and the size of the arena, which the entry's caller must provide, are attributes of the module before
    this pass and global constants after it. A linker finds them, and upstream's tools accept the module as it is.
    """

    name = "loops-to-llvm"

    features: str = option("", "processor features to use, as in LLVM: +avx2,+fma; none is portable code")
    index_bitwidth: int = option(64, "bits of an index and of an address: 32 or 64")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.index_bitwidth not in (32, 64):
            raise OptionError(f"{self.name} index-bitwidth", "must be 32 or 64", got=str(self.index_bitwidth))
        lower_module(op, capabilities(self.features), IntegerType(self.index_bitwidth))


def lower_module(module: ModuleOp, machine: Capabilities, index: IntegerType = i64) -> None:
    """Replaces every function of `module` by its llvm form, in place; `index` is the type of an index.

    Raises:
        UnsupportedError: An operation or type has no lowering; the module is unchanged.
    """
    functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
    strangers = [op for op in module.body.block.ops if not isinstance(op, func.FuncOp)]
    if strangers:
        raise UnsupportedError.at(strangers[0].name, "module", "must not stand beside functions")

    shared = shared_kernels(functions)
    if shared and index != i64:
        raise UnsupportedError.at(
            "module", shared[0].sym_name.data, "must not be shared by threads with indices of 32 bits"
        )
    lowered: dict[func.FuncOp, llvm.FuncOp] = {}
    states: dict[func.FuncOp, FunctionLowering] = {}
    calls: dict[str, list[func.CallOp]] = defaultdict(list)
    aligned = [arg for f in functions if INPUTS.on(f) for arg in f.args[:2]]
    called_by_kernels: set[str] = set()
    for source in functions:
        name = source.sym_name.data
        if EXTERNAL.on(source):
            lowered[source] = control.declare_external(source, index)
            continue
        state = states[source] = FunctionLowering(name, RULES, machine, index)
        is_entry = INPUTS.on(source)
        lowered[source] = (
            control.lower_entry(state, source, _input_count(module, source))
            if is_entry
            else control.lower_kernel(state, source)
        )
        for op in source.walk():
            if isinstance(op, func.CallOp):
                callee = op.callee.string_value()
                if is_entry:
                    calls[callee].append(op)
                else:
                    called_by_kernels.add(callee)

    for source, target in lowered.items():
        if source in states and not INPUTS.on(source):
            name = source.sym_name.data
            known_calls = [] if name in called_by_kernels else calls[name]
            control.set_argument_facts(target, argument_facts(source, states[source].written, known_calls, aligned))

    batched = [made for f in functions if INPUTS.on(f) for made in _batched(module, f, functions, index)]
    _replace(module, lowered)
    module.body.block.add_ops([*(share_function(kernel) for kernel in shared), *batched])
    if shared or any(RUN_SHARES in _callees(function) for function in batched):
        module.body.block.add_op(pool_declaration())


def _replace(module: ModuleOp, lowered: Mapping[func.FuncOp, llvm.FuncOp]) -> None:
    """Replaces functions by their lowered forms; adds the globals that an entry's caller needs (see `plan_globals`)."""
    first = next((source for source in lowered if INPUTS.on(source)), None)  # whose weights all entries share
    wanted = {} if first is None else {first: control.plan_globals(module, first)}
    for source, target in lowered.items():
        module.body.block.insert_ops_before([target, *wanted.get(source, ())], source)
    for source in lowered:
        source.detach()
        source.erase()
    end(module, "loops-to-llvm")


def _batched(
    module: ModuleOp, entry: func.FuncOp, functions: Sequence[func.FuncOp], index: IntegerType
) -> list[llvm.FuncOp]:
    """Returns the functions for batches of an entry."""
    symbols = [f.sym_name.data for f in functions]
    return batch_functions(entry, _input_count(module, entry), ARENA_SIZE.required(module), symbols, index)


def _callees(function: llvm.FuncOp) -> set[str]:
    return {op.callee.string_value() for op in function.walk() if isinstance(op, llvm.CallOp) and op.callee}


def _input_count(module: ModuleOp, entry: func.FuncOp) -> int:
    count, name = INPUTS.of(entry), entry.sym_name.data
    if not (ARENA_SIZE.on(module) and WEIGHTS_BLOB.on(module)) or len(entry.args) < 2:
        raise UnsupportedError.at(entry.name, name, "must have its memory planned", remedy="run plan-memory first")
    if count is None or not 0 <= count <= len(entry.args) - 2:
        need = "must say how many arguments are inputs"
        raise UnsupportedError.at(entry.name, name, need, got=str(INPUTS.attribute(entry)))
    return count
