"""Which bytes of each buffer hold values while each statement of a straight block runs, and what follows for a plan.

A statement touches bytes [first, end) of a buffer. While it runs, the buffer's values lie between the first byte that
this statement or a later one touches, `low`, and the end of the bytes that this statement or an earlier one touched,
`high`. Both only grow. Calls that compute stripes in turn (transforms/loops/stripe_calls.py) make windows of the
tensors between them:

    statement      1        2        3        4
    A (read)       [########[#######.[####....[.......        low grows
    B              [##......  [####..   [####.    [###        a window that moves
    C (written)    .......  #.......  ###.....  ######..      high grows

Two buffers may overlap if their windows never meet: the first lies before the other where `high` of the one is at most
`low` of the other at every statement, both counted from a common byte. The least distance of the two buffers for that
is their lead (ir/arena.py). In a call whose result may lie over an operand, the lead that the call names suffices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IntegerAttr, NoneAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qmlir.dialects.loops import VIEWS, root_of, whole_lines
from qmlir.ir.arena import Item
from qmlir.ir.facts import LEADS, STRIPES, THREADS
from qmlir.ir.stripes import Bytes, Stripes
from qmlir.ir.types import is_memref
from qmlir.numerics import Array


@dataclass(frozen=True)
class Statement:
    """A statement: the bytes of buffers that it touches, and over which operands its result may lie.

    result   the buffer that a call writes, if it may overlap operands
    over     operand → the least bytes from the result's start to the operand's
    """

    uses: Mapping[int, Bytes]
    result: int = -1
    over: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True)
class Call:
    """A call of a kernel that computes any of its steps.

    arguments   for each argument, the number of its buffer; −1 for memory outside the arena, and for numbers
    whole       for each argument, whether it is all of its buffer
    leads       the leads that the kernel names; buffers behind these are scratch memory
    bounds      the steps that the call computes
    """

    op: func.CallOp
    arguments: Sequence[int]
    whole: Sequence[bool]
    leads: Sequence[int]
    stripes: Stripes | None
    bounds: tuple[int, int]

    @property
    def result(self) -> int:
        """The number of the result among the arguments."""
        return len(self.leads) - 1

    @property
    def scratch(self) -> Sequence[int]:
        """The scratch buffers."""
        return [buffer for buffer in self.arguments[len(self.leads) :] if buffer >= 0]

    def statement(self, sizes: Sequence[int], bounds: tuple[int, int], scratch: Mapping[int, int]) -> Statement:
        """The statement of a call that computes the steps `bounds`.

        Args:
            sizes: The bytes of each buffer.
            bounds: The steps.
            scratch: Scratch buffers, each with the one that takes its place.
        """
        uses: dict[int, Bytes] = {}
        for i, buffer in enumerate(self.arguments):
            if buffer < 0:
                continue
            size, reads = sizes[buffer], None if self.stripes is None else self.stripes.reads.get(i)
            touched = (0, size)
            if self.stripes is not None and self.whole[i] and i == self.result:
                touched = self.stripes.written(*bounds, size)
            elif reads is not None and self.whole[i]:
                touched = reads.bytes(*bounds, size)
            number = scratch.get(buffer, buffer)
            before = uses.get(number, touched)
            uses[number] = (min(before[0], touched[0]), max(before[1], touched[1]))
        return Statement(uses, *self._over())

    def _over(self) -> tuple[int, Mapping[int, int]]:
        """The result, and the operands over which it may lie."""
        result = self.arguments[self.result] if self.leads else -1
        if result < 0 or list(self.arguments).count(result) > 1 or not self.whole[self.result]:
            return -1, {}
        over: dict[int, int] = {}
        for operand in dict.fromkeys(self.arguments):
            places = [i for i, buffer in enumerate(self.arguments) if buffer == operand]
            allowed = all(i < len(self.leads) and self.leads[i] >= 0 and self.whole[i] for i in places)
            if operand not in (-1, result) and allowed:
                over[operand] = max(self.leads[i] for i in places)
        return result, over


def looks_at_all(value: SSAValue) -> bool:
    """Whether a memref covers its whole root buffer, with the same elements in the same order and of the same type."""
    while isinstance(view := value.owner, VIEWS):
        source = view.operands[0]
        if not _same_elements(value.type, source.type):
            return False
        if isinstance(view, memref.SubviewOp | memref.ReinterpretCastOp) and any(view.static_offsets.get_values()):
            return False
        value = source
    return True


def _same_elements(a: Attribute, b: Attribute) -> bool:
    return (
        is_memref(a)
        and is_memref(b)
        and isinstance(a.layout, NoneAttr)
        and isinstance(b.layout, NoneAttr)
        and a.element_type == b.element_type
        and prod(a.get_shape()) == prod(b.get_shape())
    )


def statements_of(block: Block, buffers: Mapping[SSAValue, Item]) -> list[Statement | Call]:
    """The statements of a block without control flow that uses these buffers: one for each operation."""
    numbers = {buffer: n for n, buffer in enumerate(buffers)}
    sizes = [item.size for item in buffers.values()]
    found: list[Statement | Call] = []
    for op in block.ops:
        given = LEADS.of(op)
        if isinstance(op, func.CallOp) and given is not None and not THREADS.on(op):
            found.append(_call(op, given, numbers))
            continue
        touched = () if isinstance(op, (*VIEWS, memref.AllocOp)) else _touched(op)
        roots = dict.fromkeys(root_of(value) for value in touched)
        found.append(Statement({numbers[r]: (0, sizes[numbers[r]]) for r in roots if r in numbers}))
    return found


def _touched(op: Operation) -> list[SSAValue]:
    """The memrefs that an operation, or one inside it, takes."""
    return [value for inner in op.walk() for value in inner.operands if is_memref(value.type)]


def _call(op: func.CallOp, leads: Sequence[int], numbers: Mapping[SSAValue, int]) -> Call:
    stripes, steps = STRIPES.of(op), (0, 0)
    if stripes is not None:
        begin, end = map(_constant, op.arguments[-2:])
        if begin is None or end is None:
            stripes = None
        else:
            steps = (begin // stripes.items, -(-end // stripes.items))
    return Call(
        op,
        [numbers.get(root_of(value), -1) if is_memref(value.type) else -1 for value in op.arguments],
        [is_memref(value.type) and looks_at_all(value) for value in op.arguments],
        [int(lead) for lead in leads],
        stripes,
        steps,
    )


def _constant(value: SSAValue) -> int | None:
    """The number that a constant of the block is."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(number := value.owner.value, IntegerAttr):
        return number.value.data
    return None


class Occupancy:
    """The windows of buffers at each of some statements."""

    def __init__(self, sizes: Sequence[int], statements: Sequence[Statement], line: int = 1):
        """Finds the windows.

        Args:
            sizes: The bytes of each buffer.
            statements: The statements, each of which uses some buffers; every buffer is used.
            line: Buffers are placed, and take memory, in multiples of so many bytes.
        """
        count, steps = len(sizes), len(statements)
        self.statements, self.line = statements, line
        self.sizes = [whole_lines(size, line) for size in sizes]
        first, last = np.full((count, steps), 1 << 62), np.zeros((count, steps), np.int64)
        self.begin, self.end = np.full(count, steps), np.full(count, -1)
        for t, statement in enumerate(statements):
            for n, (low, high) in statement.uses.items():
                first[n, t], last[n, t] = low, self.sizes[n] if high == sizes[n] else high
                self.begin[n], self.end[n] = min(self.begin[n], t), t
        self.low = np.minimum.accumulate(first[:, ::-1], axis=1)[:, ::-1]
        self.high = np.maximum.accumulate(last, axis=1)
        self.live = self.high > self.low

    def items(self) -> list[Item]:
        """The buffers as items of an arena: their sizes, and the statements between which they live."""
        bounds = zip(self.sizes, self.begin, self.end, strict=True)
        return [Item("", size, int(begin), int(end)) for size, begin, end in bounds]

    def leads(self) -> dict[tuple[int, int], int]:
        """The pairs of buffers that may overlap although both are used before the one and after the other."""
        whole = np.asarray(self.sizes)[:, None]
        moving = np.flatnonzero((self.live & ((self.low > 0) | (self.high < whole))).any(axis=1)).tolist()
        pairs = {(i, j) for m in moving for n in range(len(self.sizes)) for i, j in ((m, n), (n, m)) if i != j}
        pairs |= {(s.result, operand) for s in self.statements for operand in s.over}
        together = {(i, j) for i, j in pairs if self.begin[i] <= self.end[j] and self.begin[j] <= self.end[i]}
        found = {(i, j): whole_lines(self._lead(i, j), self.line) for i, j in sorted(together)}
        return {pair: lead for pair, lead in found.items() if lead < self.sizes[pair[0]]}

    def _lead(self, one: int, other: int) -> int:
        """The least bytes from the start of a buffer to the start of another behind it."""
        both = self.live[one] & self.live[other]
        apart = np.where(both, self.high[one] - self.low[other], 0)
        for t, statement in enumerate(self.statements):
            if both[t] and statement.result == one and other in statement.over:
                before = self.high[one, t - 1] - self.low[other, t] if t and self.high[one, t - 1] else 0
                apart[t] = max(statement.over[other], before)
        return max(int(apart.max(initial=0)), 0)

    def bytes_at(self) -> Array:
        """The bytes at each statement that no plan undercuts.

        These are the bytes of all windows, but what a result may cover of operands, and at least the end of a window:
        no buffer begins before the arena.
        """
        window = np.where(self.live, self.high - self.low, 0)
        total = window.sum(axis=0)
        for t, statement in enumerate(self.statements):
            n = statement.result
            covered = 0
            for operand, lead in statement.over.items():
                most = min(window[n, t], window[operand, t], self.high[n, t] - lead - self.low[operand, t])
                covered += max(int(most), 0)
            total[t] -= min(covered, int(window[n, t])) if covered else 0
        return np.maximum(total, np.where(self.live, self.high, 0).max(axis=0, initial=0))
