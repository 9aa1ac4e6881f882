"""Shared definitions of the loops level: functions on memrefs, written in xDSL's dialects and simd.

The loops level has no dialect. Kernels, the memory planner, the lowering to LLVM and the CPU back end share the
definitions of this module: names of attributes and globals, and the operations that are views.
"""

from collections.abc import Mapping

from xdsl.dialects import memref
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, SSAValue

from qmlir.ir.arena import CACHE_LINE as CACHE_LINE
from qmlir.ir.signature import MEMORY as MEMORY
from qmlir.ir.signature import MOST_THREADS as MOST_THREADS
from qmlir.ir.signature import RUN_SHARES as RUN_SHARES
from qmlir.ir.signature import batch_symbol as batch_symbol

INPUTS = "qmlir.inputs"
"""Attribute of the entry function: the number of inputs; after weights and arena, its other arguments are outputs."""

ARENA_SIZE = "qmlir.arena_size"
"""Attribute of a planned module: the size in bytes of the scratch memory that a call needs."""

ARENA_BOUND = "qmlir.arena_bound"
"""Attribute of a planned module: bytes that no plan of its buffers undercuts."""

WEIGHTS_BLOB = "qmlir.weights_blob"
"""Attribute of a planned module: all constants as a single `#qmlir.weights` of bytes."""

LAYER = "qmlir.layer"
"""Attribute of an operation: its number, given before the lowering to loops; the calls that compute it carry it."""

KERNELS = "qmlir.kernels"
"""Attribute of a module whose operations were numbered (`LAYER`): number → the kernel that computes the operation, and
why it was chosen (codegen/kernels/choice.py)."""

TIMED = "qmlir.timed"
"""Attribute of a module whose calls are timed: the number of the operation that each call computes, −1 if unknown."""

THREADS = "qmlir.threads"
"""Attribute of a kernel call in the entry: how many threads share the items; a call without it is one thread's."""

EXTERNAL = "qmlir.external"
"""Attribute of a declaration: the back end links the function, which takes pointers to its buffers."""

EXTERNAL_FUNCTIONS = "qmlir.external_functions"
"""Attribute of a module: what each external function is, by symbol (lowering/nn_to_loops/custom.py)."""

SCRATCH = "qmlir.scratch"
"""Attribute of a kernel: how many of its last buffers are scratch memory, of which each share of a call has its own."""


LEADS = "qmlir.leads"
"""Attribute of a kernel call: for each buffer, the last of which is the result, the bytes by which the result's memory
must begin before the buffer's if the two overlap (codegen/leads.py); −1 if they must lie apart."""

STRIPES = "qmlir.stripes"
"""Attribute of a kernel call: the bytes that the call touches while it computes some of its items (ir/stripes.py)."""


def external_functions(module: ModuleOp) -> Mapping[str, Attribute]:
    """Returns what each external function of a module is, by symbol."""
    listed = module.attributes.get(EXTERNAL_FUNCTIONS)
    return listed.data if isinstance(listed, DictionaryAttr) else {}


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
