"""The llvm dialect to machine code in memory.

emit.py      the llvm dialect as LLVM IR text           machine.py   text to optimized machine code
jit.py       machine code as a Python callable
"""

from xdsl.dialects.builtin import IntegerAttr, ModuleOp

from qmlir.backends.cpu.emit import emit_llvm_ir
from qmlir.backends.cpu.jit import Executable
from qmlir.backends.cpu.machine import Machine, host_features
from qmlir.dialects.loops import ARENA_SIZE, WEIGHTS_BLOB
from qmlir.dialects.weights import WeightsAttr
from qmlir.errors import PipelineError
from qmlir.signature import Signature

__all__ = ["Executable", "Machine", "build", "emit_llvm_ir", "host_features"]


def build(module: ModuleOp, signature: Signature, *, entry: str = "main", machine: Machine | None = None) -> Executable:
    """Machine code of a module that plan-memory and loops-to-llvm have been through.

    Args:
        module: llvm functions; the attributes of plan-memory say what weights and scratch memory they want.
        signature: What the entry's inputs and outputs are to numpy.
        entry: The function to call.
        machine: The processor; this machine's by default.
    """
    size, blob = module.attributes.get(ARENA_SIZE), module.attributes.get(WEIGHTS_BLOB)
    if not isinstance(size, IntegerAttr) or not isinstance(blob, WeightsAttr):
        raise PipelineError("cpu", "needs a module whose memory is planned", remedy="run plan-memory and loops-to-llvm")
    return Executable(
        emit_llvm_ir(module),
        weights=blob.array,
        arena_size=size.value.data,
        signature=signature,
        entry=entry,
        machine=machine,
    )
