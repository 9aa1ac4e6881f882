"""Calls whose items several threads share: calls of the pool, which calls back on ranges of items.

    func.call @k(%x, %y, %c0, %items) {qmlir.threads = 2 : i64}
    ⇒  store %x and %y to a frame on the stack
       llvm.call @qmlir.pool2.run(@k.share, %frame, %items, 2)

    llvm.func internal @k.share(%frame: !llvm.ptr, %share: i64, %begin: i64, %end: i64) {
      %x, %y = llvm.load … of the frame
      llvm.call @k(%x, %y, %begin, %end)
    }

Where the last buffers of a kernel are scratch memory (attribute `qmlir.scratch`), share s gets the s-th of those that
the frame's pointer begins.

The pool is an external function of the back end (backends/cpu/pool.py). It returns when all items are computed, so all
calls of an entry use one frame.
"""

from collections.abc import Iterable, Sequence

from xdsl.dialects import func, llvm
from xdsl.dialects.builtin import UnitAttr, i8, i64
from xdsl.ir import Block

from qmlir.dialects.loops import MOST_THREADS, RUN_SHARES, whole_lines
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import INPUTS, PARALLEL, SCRATCH, THREADS
from qmlir.ir.types import is_memref
from qmlir.ir.upstream.llvm import MulOp
from qmlir.lowering.loops_to_llvm.lowering import NO_WRAP, POINTER, FunctionLowering, byte_size
from qmlir.lowering.loops_to_llvm.memory import element_pointer, load, memref_type, store

POINTER_BYTES = 8

POOL = RUN_SHARES.removesuffix("run")
"""What the names of the pool's functions and variables begin with."""


def share_symbol(kernel: str) -> str:
    """The name of the function that computes a share of a kernel's items."""
    return f"{kernel}.share"


def shared_kernels(functions: Sequence[func.FuncOp]) -> list[func.FuncOp]:
    """The kernels with calls that several threads share.

    Raises:
        UnsupportedError: Such a call is not in the entry, or not of a kernel on a range of items; or a function has a
            name that the pool uses, or a function that this file writes.
    """
    kernels = {f.sym_name.data: f for f in functions if PARALLEL.on(f)}
    shared: dict[str, func.FuncOp] = {}
    for caller in functions:
        for call in caller.walk():
            if isinstance(call, func.CallOp) and THREADS.on(call):
                name = call.callee.string_value()
                _check(call, caller, kernels.get(name))
                shared[name] = kernels[name]
    for function in functions if shared else ():
        _check_name(function, shared)
    return list(shared.values())


def _check_name(op: func.FuncOp, shared: Iterable[str]) -> None:
    """Refuses a function whose name is wanted for the pool or for the shares of a kernel."""
    name = op.sym_name.data
    if name.startswith(POOL) or any(name == share_symbol(kernel) for kernel in shared):
        raise UnsupportedError.at(op.name, name, "must have another name: the pool of threads uses it")


def _check(op: func.CallOp, caller: func.FuncOp, kernel: func.FuncOp | None) -> None:
    """Refuses a call that cannot be shared."""

    def refuse(need: str, got: str | None = None) -> UnsupportedError:
        return UnsupportedError.at(op.name, caller.sym_name.data, need, got=got)

    if not 1 <= (THREADS.of(op) or 0) <= MOST_THREADS:
        raise refuse(f"must have 1 to {MOST_THREADS} threads in {THREADS}", str(THREADS.attribute(op)))
    if not INPUTS.on(caller):
        raise refuse(f"must be in the function with the attribute {INPUTS} to be shared by threads")
    if kernel is None:
        raise refuse(f"must call a function with the attribute {PARALLEL} to be shared by threads")
    *buffers, _, _ = kernel.function_type.inputs
    if op.results or not all(is_memref(type) for type in buffers):
        raise refuse("must take memrefs and a range of items, and return nothing, to be shared by threads")
    scratch, given = SCRATCH.of(kernel), SCRATCH.attribute(kernel)
    if given is not None and (scratch is None or not 0 <= scratch <= len(buffers)):
        raise refuse(f"must have 0 to {len(buffers)} buffers of its kernel in {SCRATCH}", f"{given}")


def call_shared(f: FunctionLowering, call: func.CallOp) -> None:
    """Lowers a call that `shared_kernels` has checked."""
    *buffers, begin, items = f.values(call.arguments)
    if f.known(begin) != 0:
        f.refuse(call, "must begin at item 0 to be shared by threads")
    frame = f.frame(POINTER_BYTES * max(len(other.operands) for other in _calls_beside(call)))
    for i, buffer in enumerate(buffers):
        store(f, buffer, element_pointer(f, frame, POINTER, None, i), POINTER_BYTES)
    share = f.emit(llvm.AddressOfOp(share_symbol(call.callee.string_value()), POINTER))
    f.call(RUN_SHARES, (share, frame, items, f.integer(THREADS.required(call)))).location = call.location


def _calls_beside(call: func.CallOp) -> Iterable[func.CallOp]:
    assert call.parent is not None
    return (op for op in call.parent.ops if isinstance(op, func.CallOp))


def share_function(kernel: func.FuncOp) -> llvm.FuncOp:
    """The function `(frame, share, begin, end)` by which the pool computes a share of the items of `kernel`."""
    name = kernel.sym_name.data
    f = FunctionLowering(share_symbol(name), {})
    block = f.place(Block(arg_types=(POINTER, i64, i64, i64)))
    frame, share, begin, end = block.args
    for argument, hint in zip(block.args, ("frame", "share", "begin", "end"), strict=True):
        argument.name_hint = hint
    count = len(kernel.function_type.inputs) - 2
    buffers = [load(f, element_pointer(f, frame, POINTER, None, i), POINTER, POINTER_BYTES) for i in range(count)]
    for i in range(count - (SCRATCH.of(kernel) or 0), count):
        apart = f.integer(whole_lines(byte_size(memref_type(kernel.args[i]))))
        buffers[i] = element_pointer(f, buffers[i], i8, f.binary(MulOp, share, apart, NO_WRAP), 0)
    f.call(name, (*buffers, begin, end))
    f.add(llvm.ReturnOp.create(operands=()))
    type = llvm.LLVMFunctionType([POINTER, i64, i64, i64])
    return llvm.FuncOp(
        f.name, type, llvm.LinkageAttr("internal"), body=f.finish(), other_props={"no_unwind": UnitAttr()}
    )


def pool_declaration() -> llvm.FuncOp:
    """The declaration of the external function that runs shares: `(share, frame, items, threads)`."""
    return llvm.FuncOp(RUN_SHARES, llvm.LLVMFunctionType([POINTER, POINTER, i64, i64]), llvm.LinkageAttr("external"))
