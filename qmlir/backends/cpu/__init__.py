"""The CPU backend: compiles the llvm dialect to machine code in memory.

A cached network is loaded without the IR: `build` imports it when it is called.

emit.py      the llvm dialect as LLVM IR text           llvm.py      text to optimized machine code
debug_info.py   the layers' names in machine code
jit.py       machine code as a Python callable          pool.py      the threads that share loops
bound.py     calls on arrays that keep their places     frame.py     a call's scratch memory and tables
calls.py     calls of operators of the program         processors.py  names of systems and processors
alone.py     what code brings that has no C library
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from qmlir.backends.cpu.jit import Executable
from qmlir.backends.cpu.llvm import Machine, beyond_baseline, described, enabled, host_features
from qmlir.errors import PipelineError
from qmlir.ir.signature import Signature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.ir.upstream.dense import Dense

__all__ = ["Executable", "Machine", "beyond_baseline", "build", "described", "enabled", "host_features"]


def build(
    module: "ModuleOp", signature: Signature, *, entry: str = "main", machine: Machine | None = None,
    debug_info: bool = False, others: Mapping[str, Signature] | None = None, later: bool = False,
) -> Executable:  # fmt: skip
    """Compiles and loads a module that plan-memory and loops-to-llvm have lowered.

    Args:
        module: llvm functions, and two globals: the entry's weights and the bytes of scratch memory (arena) it needs.
        signature: Names, shapes and dtypes of the entry's inputs and outputs.
        entry: The name of the function to call.
        machine: The processor; by default the processor of this machine.
        debug_info: Whether debug lines name the layers.
        others: The signatures of further entries by their names; they share weights, arena and states with `entry`.
        later: Whether machine code is generated when it is asked for, and not now.

    Raises:
        QmlirError: The module calls an operator that the program does not define.
    """
    from xdsl.dialects import llvm
    from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr

    from qmlir.backends.cpu.emit import emit_llvm_ir
    from qmlir.dialects.loops import arena_size_symbol, external_functions, weights_symbol
    from qmlir.ir.upstream.dense import held_bytes

    held = {o.sym_name.data: o.value for o in module.ops if isinstance(o, llvm.GlobalOp)}
    size, blob = held.get(arena_size_symbol(entry)), held.get(weights_symbol(entry))
    if not isinstance(size, IntegerAttr) or not isinstance(blob, DenseIntOrFPElementsAttr):
        raise PipelineError("cpu", "needs a module whose memory is planned", remedy="run plan-memory and loops-to-llvm")
    functions = external_functions(module)
    calls = None
    if functions:
        from qmlir.backends.cpu.calls import OwnCalls

        calls = OwnCalls(functions)
    executable = Executable(
        emit_llvm_ir(module, machine, debug_info=debug_info),
        weights=held_bytes(cast("Dense", blob)),
        arena_size=size.value.data,
        signature=signature,
        entry=entry,
        machine=machine,
        calls=calls,
        later=later,
    )
    return executable.with_entries({entry: signature, **(others or {})})
