"""Shared definitions of the loops level: functions on memrefs, written in xDSL's dialects and simd.

The loops level has no dialect. Kernels, the memory planner, the lowering to LLVM and the CPU back end share the
definitions of this module: names of attributes and globals, and the operations that are views.
"""

from collections.abc import Mapping

from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from qmlir.ir.arena import CACHE_LINE as CACHE_LINE
from qmlir.ir.facts import EXTERNAL_FUNCTIONS
from qmlir.ir.signature import MEMORY as MEMORY
from qmlir.ir.signature import MOST_THREADS as MOST_THREADS
from qmlir.ir.signature import RUN_SHARES as RUN_SHARES
from qmlir.ir.signature import batch_symbol as batch_symbol


def external_functions(module: ModuleOp) -> Mapping[str, Attribute]:
    """Returns what each external function of a module is, by symbol."""
    listed = EXTERNAL_FUNCTIONS.of(module)
    return {} if listed is None else listed.data


def whole_lines(size: int, line: int = CACHE_LINE) -> int:
    """The bytes of the cache lines, or of lines of another size, that `size` bytes take."""
    return -(-size // line) * line


def weights_symbol(entry: str) -> str:
    """Returns the name of the global that holds all constants on the llvm level, unique to an entry function."""
    return f"{entry}_weights"


def arena_size_symbol(entry: str) -> str:
    """Returns the name of the i64 global that holds the scratch memory size in bytes on the llvm level."""
    return f"{entry}_arena_size"


VIEWS = (
    memref.ViewOp,
    memref.SubviewOp,
    memref.ReinterpretCastOp,
    memref.CollapseShapeOp,
    memref.ExpandShapeOp,
    memref.CastOp,
)
"""Operations whose result is a view of their first operand's memory."""


def root_of(value: SSAValue) -> SSAValue:
    """Returns the memref from which a chain of views starts: a block argument, or a result of another operation."""
    while isinstance(value.owner, VIEWS):
        value = value.owner.operands[0]
    return value
