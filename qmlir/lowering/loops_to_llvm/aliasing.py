"""Alias analysis of kernel arguments: each memref is traced through views to a range of bytes of its buffer.

LLVM vectorizes a loop without run-time checks only if it knows that the loop does not write the memory that it reads.
The memory plan gives this knowledge: every argument of every kernel call is a range of bytes in the arena, in the
weights or in one of the caller's arrays. `argument_facts` derives `noalias`, `readonly` and an alignment for each
kernel argument, as far as they hold at every call.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from qmlir.dialects.loops import CACHE_LINE, VIEWS
from qmlir.errors import UnsupportedError
from qmlir.ir.types import is_memref
from qmlir.lowering.loops_to_llvm.lowering import byte_size, element_bytes


def constant_index(value: SSAValue) -> int | None:
    """The number of an integer or index constant (`arith.constant`); None for any other value."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


@dataclass(frozen=True)
class Extent:
    """The bytes of the buffer `root` that a memref covers.

    begin, end  the range of bytes that the memref may touch; None for the whole buffer
    start       the byte of the memref's first element; None if it is unknown
    """

    root: SSAValue
    begin: int | None
    end: int | None
    start: int | None

    def overlaps(self, other: "Extent") -> bool:
        """Whether two extents may share a byte; the planner and the ABI guarantee that different roots never do."""
        if self.root is not other.root:
            return False
        if self.begin is None or self.end is None or other.begin is None or other.end is None:
            return True
        return self.begin < other.end and other.begin < self.end

    @property
    def alignment(self) -> int:
        """The alignment of the first element in bytes, if the root starts on a cache line."""
        return 1 if self.start is None else gcd(self.start, CACHE_LINE)


def extent_of(value: SSAValue) -> Extent:
    """The bytes that a memref covers in its root, the buffer behind all views."""
    seen = [value]
    while isinstance(view := seen[-1].owner, VIEWS):
        seen.append(view.operands[0])
    root = seen.pop()
    extent = Extent(root, 0, _size(root), 0)
    for part in reversed(seen):
        extent = _extent_of_view(part, extent)
    return extent


def _extent_of_view(value: SSAValue, source: Extent) -> Extent:
    """The bytes that a view covers in the root, given those that the viewed memref covers."""
    view = value.owner
    if isinstance(view, memref.ViewOp):
        shift, size = constant_index(view.byte_shift), _size(value)
        if source.start is None or shift is None or size is None:
            return Extent(source.root, None, None, None)
        begin = source.start + shift
        return Extent(source.root, begin, begin + size, begin)
    if isinstance(view, memref.SubviewOp | memref.ReinterpretCastOp):
        # The view lies within the source's bytes; this bound suffices to tell buffers apart.
        still = all(offset == 0 for offset in view.static_offsets.get_values())
        return Extent(source.root, source.begin, source.end, source.start if still else None)
    return source


def _size(value: SSAValue) -> int | None:
    try:
        return byte_size(value.type) if is_memref(value.type) else None
    except UnsupportedError:
        return None


@dataclass
class ArgumentFacts:
    """Facts that hold for one memref argument at all calls of its kernel.

    readonly    whether the kernel does not store to the argument
    noalias     whether no other argument overlaps it, except for arguments that the kernel only reads, like this one
    alignment   the alignment of the first element in bytes
    natural     the natural alignment of an element in bytes: the least `alignment`
    """

    readonly: bool
    noalias: bool
    alignment: int
    natural: int


def argument_facts(
    kernel: func.FuncOp,
    written: Iterable[SSAValue],
    calls: Sequence[func.CallOp],
    aligned_roots: Iterable[SSAValue],
) -> Mapping[int, ArgumentFacts]:
    """Facts for each memref argument of `kernel`, by position.

    Args:
        kernel: The function.
        written: The arguments (roots) that the kernel may store to.
        calls: All calls of the kernel if all are in the entry function; empty otherwise.
        aligned_roots: Buffers that are known to start on a cache line.
    """
    written, aligned = set(written), set(aligned_roots)
    facts: dict[int, ArgumentFacts] = {}
    for i, arg in enumerate(kernel.args):
        if is_memref(arg.type):
            natural = element_bytes(arg.type.element_type)
            facts[i] = ArgumentFacts(arg not in written, bool(calls), CACHE_LINE if calls else natural, natural)
    for call in calls:
        extents = {i: extent_of(call.arguments[i]) for i in facts}
        for i, extent in extents.items():
            known = extent.alignment if extent.root in aligned else 1
            facts[i].alignment = max(facts[i].natural, min(facts[i].alignment, known))
            for j, other in extents.items():
                conflict = not (facts[i].readonly and facts[j].readonly)
                if i != j and conflict and extent.overlaps(other):
                    facts[i].noalias = False
    return facts
