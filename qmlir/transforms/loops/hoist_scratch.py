"""The pass `hoist-scratch`: kernels get their scratch memory from the arena instead of the stack.

Enters: an entry function (attribute `qmlir.inputs`) that calls kernels on ranges of items, before its memory is
planned; kernels keep intermediate values in buffers of their own (`memref.alloca`). Leaves: the same calls, whose last
buffers are this scratch memory, allocated by the entry for the time of the call. So the arena's size is the memory that
a call needs; what remains on the stack are buffers of less than `least` bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import FunctionType, IndexType, IntegerAttr, MemRefType, ModuleOp, i8
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.loops import CACHE_LINE, whole_lines
from qmlir.errors import PipelineError
from qmlir.ir.facts import ARENA_SIZE, INPUTS, PARALLEL, SCRATCH, THREADS
from qmlir.ir.passes import option
from qmlir.transforms.loops.plan_memory import buffer_bytes


@dataclass(frozen=True)
class HoistScratchPass(ModulePass):
    """Makes the scratch buffers of each kernel arguments, which the entry allocates once for each share of a call.

    Before:

        func.func @main(%x: memref<16xi8>, %y: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
          func.call @f(%x, %y, %c0, %c16) {qmlir.threads = 2 : i64} : (…) -> ()
          func.return
        }
        func.func private @f(%x: memref<16xi8>, %y: memref<16xi8>, %begin: index, %end: index)
            attributes {qmlir.parallel} {
          %tile = memref.alloca() {alignment = 64 : i64} : memref<1000xi16>
          …
        }

    After, 2,048 bytes being 1,000 elements of 2 in whole cache lines:

        func.func @main(%x: memref<16xi8>, %y: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
          %shares = memref.alloc() {alignment = 64 : i64} : memref<4096xi8>
          %tile = memref.view %shares[%c0][] : memref<4096xi8> to memref<1000xi16>
          func.call @f(%x, %y, %tile, %c0, %c16) {qmlir.threads = 2 : i64} : (…) -> ()
          func.return
        }
        func.func private @f(%x: memref<16xi8>, %y: memref<16xi8>, %tile: memref<1000xi16>, %begin: index, %end: index)
            attributes {qmlir.parallel, qmlir.scratch = 1 : i64} {
          …
        }
    """

    name = "hoist-scratch"

    least: int = option(512, "bytes from which a buffer moves to the arena")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if ARENA_SIZE.on(op):
            raise PipelineError(self.name, "must run before plan-memory", got="a module whose memory is planned")
        functions = [f for f in op.body.block.ops if isinstance(f, func.FuncOp)]
        entries = [f for f in functions if INPUTS.on(f)]
        if not entries:
            raise PipelineError(self.name, f"needs one function with the attribute {INPUTS}", got="0")
        calls: dict[str, list[func.CallOp]] = {}
        for function in functions:
            for call in function.walk():
                if isinstance(call, func.CallOp):
                    calls.setdefault(call.callee.string_value(), []).append(call)
        for kernel in functions:
            symbol = kernel.sym_name.data
            here = calls.get(symbol, [])
            elsewhere = any(call.parent_op() not in entries for call in here)
            if PARALLEL.on(kernel) and not kernel.is_declaration and not elsewhere:
                _hoist(kernel, here, self.least)


def _hoist(kernel: func.FuncOp, calls: Sequence[func.CallOp], least: int) -> None:
    """Moves the scratch buffers of `kernel` to the entry, which makes all of its calls."""
    block = kernel.body.block
    static = [op for op in block.ops if isinstance(op, memref.AllocaOp) and not op.dynamic_sizes]
    buffers = [op for op in static if buffer_bytes(op.memref.type) >= least]
    if not buffers:
        return
    types = [buffer.memref.type for buffer in buffers]
    for buffer in buffers:
        argument = block.insert_arg(buffer.memref.type, len(block.args) - 2)
        argument.name_hint = buffer.memref.name_hint
        Rewriter.replace_op(buffer, [], [argument])
    kernel.function_type = FunctionType.from_lists(block.arg_types, kernel.function_type.outputs.data)
    SCRATCH.put(kernel, len(types))
    for call in calls:
        *arrays, begin, end = call.arguments
        scratch = [_allocate(call, type) for type in types]
        call.operands = [*arrays, *scratch, begin, end]


def _allocate(call: func.CallOp, type: MemRefType[Attribute]) -> SSAValue:
    """Allocates a scratch buffer for each share of a call; the value is that of share 0."""
    build = Builder(InsertPoint.before(call))
    threads = THREADS.of(call)
    if threads is None:
        return build.insert(memref.AllocOp.get(type.element_type, CACHE_LINE, type.get_shape())).memref
    size = threads * whole_lines(buffer_bytes(type))
    shares = build.insert(memref.AllocOp.get(i8, CACHE_LINE, [size])).memref
    first = build.insert(arith.ConstantOp(IntegerAttr(0, IndexType()))).result
    return build.insert(memref.ViewOp(shares, first, [], type)).result
