"""The contract of the loops level, which is no dialect: functions on memrefs written in xDSL's dialects and simd.

Kernels, the memory planner, the lowering to LLVM and the back end meet in what stands here: the names of attributes
and globals, what a view is, and types narrowed so that a checker can follow.
"""

from typing_extensions import TypeIs
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerType, MemRefType, VectorType
from xdsl.ir import Attribute, SSAValue

INPUTS = "qmlir.inputs"
"""Attribute of the entry function: how many arguments are inputs; the rest are outputs (after weights and arena)."""

ARENA_SIZE = "qmlir.arena_size"
"""Attribute of a planned module: bytes of scratch memory a call needs."""

WEIGHTS_BLOB = "qmlir.weights_blob"
"""Attribute of a planned module: all constants, as `#qmlir.weights` of bytes."""


def weights_symbol(entry: str) -> str:
    """On the llvm level, where the entry's name is known to a linker: the global that holds all constants."""
    return f"{entry}_weights"


def arena_size_symbol(entry: str) -> str:
    """On the llvm level: the global that holds the bytes of scratch memory a call needs, an i64."""
    return f"{entry}_arena_size"


CACHE_LINE = 64
"""Bytes; the arena, the weights and every buffer in them start on a cache line."""

VIEWS = (
    memref.ViewOp,
    memref.SubviewOp,
    memref.ReinterpretCastOp,
    memref.CollapseShapeOp,
    memref.ExpandShapeOp,
    memref.CastOp,
)
"""Operations whose result is another look at their first operand's memory."""


def root_of(value: SSAValue) -> SSAValue:
    """The memref that a chain of views starts from: an argument or what allocates."""
    while isinstance(value.owner, VIEWS):
        value = value.owner.operands[0]
    return value


def is_memref(type: Attribute) -> TypeIs[MemRefType[Attribute]]:
    """Whether a type is a ranked memref, of any element type."""
    return isinstance(type, MemRefType)


def is_vector(type: Attribute) -> TypeIs[VectorType[Attribute]]:
    """Whether a type is a vector, of any element type."""
    return isinstance(type, VectorType)


def is_integer(type: Attribute) -> TypeIs[IntegerType]:
    """Whether a type is an integer of any width and signedness; index is none."""
    return isinstance(type, IntegerType)
