"""Chains of layers in stripes: their calls take turns, so that the tensors between them never exist as a whole.

A call of a kernel computes stripes of its result, such as rows of an image, from stripes of its operands
(ir/stripes.py). A chain of calls that follow one another is computed in parts. For each part of the last result, each
call computes the stripes that the calls behind it read and that no part before has computed:

    conv1 rows 0-9    conv2 rows 0-8    add rows 0-7
    conv1 rows 10-17  conv2 rows 9-16   add rows 8-15     ...

No stripe is computed twice, so the work and the bits are the same. What is live of a tensor between two calls is a
window of a few rows that moves (codegen/occupancy.py), and the plan of the arena lets windows share bytes.

A part costs code for its calls. The parts are searched that make the arena and this code the smallest: at the
statement at which most bytes are live, the best chain around it is divided, as long as that gains.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.codegen.occupancy import Call, Occupancy, Statement, statements_of
from qmlir.dialects.loops import VIEWS, root_of
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.errors import PipelineError
from qmlir.ir.fact import restated
from qmlir.ir.facts import ARENA_SIZE
from qmlir.transforms.loops.plan_memory import (
    SMALL_ALIGNMENT,
    entries_of,
    live_buffers,
    place_windows,
    without_needless_copies,
)

CALL = 64
"""The bytes of arena that a call more must save: about those of its code."""

LONGEST = 4
"""The most calls of a chain: the layers of a block of most networks."""

COUNTS = (2, 4, 8, 16)
"""The numbers of parts that are tried."""

ROUNDS = 16
"""The most chains that are divided."""

DEFINITIONS = (*VIEWS, memref.AllocOp, arith.ConstantOp, ConstantBufferOp)
"""Operations that may stand between the calls of a chain: they compute nothing."""

Chain = tuple[int, int]
"""The numbers of the first and of the last statement of a chain."""


@dataclass(frozen=True)
class StripeCallsPass(ModulePass):
    """Divides calls of the entry function into calls that take turns, where that makes the arena smaller.

    Before (of each call, `qmlir.stripes` says which bytes an item touches):

        func.call @double(%x, %a, %0, %8)
        func.call @double(%a, %y, %0, %8)

    After:

        func.call @double(%x, %a, %0, %4)
        func.call @double(%a, %y, %0, %4)
        func.call @double(%x, %a, %4, %8)
        func.call @double(%a, %y, %4, %8)
    """

    name = "stripe-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if ARENA_SIZE.on(op):
            raise PipelineError(self.name, "must run before plan-memory", got="a module whose memory is planned")
        for entry in entries_of(op, self.name):
            _divide(entry)


def _divide(entry: func.FuncOp) -> None:
    """Divides chains of an entry's calls where that makes the arena smaller."""
    without_needless_copies(entry)
    block = entry.body.block
    buffers = live_buffers(block)
    if not buffers:
        return
    given = zip(block.ops, statements_of(block, buffers), strict=True)
    statements = [statement for op, statement in given if not isinstance(op, DEFINITIONS)]
    schedule = Schedule(statements, [item.size for item in buffers.values()])
    divided = search(schedule)
    if not divided:
        return
    now, then = schedule.divided({}), schedule.divided(divided)
    saved = place_windows(now.windows).size - place_windows(then.windows).size
    if saved >= CALL * (len(then.parts) - len(now.parts)):
        for chain, parts in divided.items():
            _rewrite(schedule.calls(chain), turns(schedule.calls(chain), parts) or [])


@dataclass(frozen=True)
class Divided:
    """Statements, some of which are divided into stripes.

    windows  the windows of buffers
    parts    for each statement, the number of the statement that it is a part of
    """

    windows: Occupancy
    parts: Sequence[int]

    @property
    def peaks(self) -> list[tuple[int, int]]:
        """For each statement, the bytes at it that no plan undercuts, and the statement that it is a part of."""
        return list(zip(map(int, self.windows.bytes_at()), self.parts, strict=True))


@dataclass(frozen=True)
class Schedule:
    """The statements of an entry function, and the bytes of the buffers that they use."""

    statements: Sequence[Statement | Call]
    sizes: Sequence[int]

    def calls(self, chain: Chain) -> list[Call]:
        """The calls of a chain."""
        return [s for s in self.statements[chain[0] : chain[1] + 1] if isinstance(s, Call)]

    def divided(self, chains: Mapping[Chain, int]) -> Divided:
        """The schedule with some chains divided into parts."""
        sizes, found, parts = list(self.sizes), list[Statement](), list[int]()
        first = {chain[0]: chain for chain in chains}
        n = 0
        while n < len(self.statements):
            if (chain := first.get(n)) is None:
                statement = self.statements[n]
                whole = statement.statement(sizes, statement.bounds, {}) if isinstance(statement, Call) else statement
                found.append(whole)
                parts.append(n)
                n += 1
                continue
            calls, seen = self.calls(chain), set[int]()
            for position, bounds in turns(calls, chains[chain]) or []:
                call, scratch = calls[position], dict[int, int]()
                for buffer in call.scratch if position in seen else ():  # a scratch buffer of its own
                    scratch[buffer] = len(sizes)
                    sizes.append(sizes[buffer])
                seen.add(position)
                found.append(call.statement(sizes, bounds, scratch))
                parts.append(n + position)
            n = chain[1] + 1
        return Divided(Occupancy(sizes, found, SMALL_ALIGNMENT), parts)


def turns(calls: Sequence[Call], parts: int) -> list[tuple[int, tuple[int, int]]] | None:
    """The turns of the calls of a chain: the position of a call, and the steps that it computes.

    Returns:
        The turns in order; None if the calls cannot take turns, because one of them reads all of another's result.
    """
    needed = _needed(calls)
    if needed is None or parts > max(call.bounds[1] for call in calls):
        return None
    done, found = [0] * len(calls), list[tuple[int, tuple[int, int]]]()
    for part in range(1, parts + 1):
        goals = [0] * len(calls)
        for p in reversed(range(len(calls))):
            steps, readers = calls[p].bounds[1], needed[p]
            if part == parts or not readers:
                goals[p] = -(-part * steps // parts)
            else:
                ends = [_read(calls[q], operand, done[q], goals[q]) for q, operand in readers]
                stripes = calls[p].stripes
                goals[p] = min(max(stripes.steps(max(ends)) if stripes else steps, done[p]), steps)
        for p, goal in enumerate(goals):
            if goal > done[p]:
                found.append((p, (done[p], goal)))
        done = goals
    return found


def _needed(calls: Sequence[Call]) -> list[list[tuple[int, int]]] | None:
    """For each call, the calls of the chain that read its result, each with the number of that operand."""
    results: dict[int, int] = {}
    readers: list[list[tuple[int, int]]] = [[] for _ in calls]
    for q, call in enumerate(calls):
        if call.stripes is None or call.bounds[0] or not call.whole[call.result]:
            return None
        for operand, buffer in enumerate(call.arguments):
            p = results.get(buffer)
            if p is not None and (operand not in call.stripes.reads or not call.whole[operand]):
                return None
            if p is not None:
                readers[p].append((q, operand))
        if call.arguments[call.result] >= 0:
            results[call.arguments[call.result]] = q
    return readers


def _read(call: Call, operand: int, begin: int, end: int) -> int:
    """The end of the bytes of an operand that steps of a call read."""
    assert call.stripes is not None
    return call.stripes.reads[operand].bytes(begin, end, 1 << 62)[1] if end > begin else 0


# -- the search -------------------------------------------------------------------------------------------------


@dataclass
class _Best:
    """The best division so far, and its cost."""

    cost: int
    chains: Mapping[Chain, int] = field(default_factory=dict[Chain, int])


def search(schedule: Schedule) -> Mapping[Chain, int]:
    """The chains to divide, and their parts, for which the arena and the code of calls are the smallest."""
    chains: dict[Chain, int] = {}
    now = schedule.divided(chains)
    best = _Best(max(bytes for bytes, _ in now.peaks))
    for _ in range(ROUNDS):
        most, peak = max(now.peaks)
        inside = any(first <= peak <= last for first, last in chains)
        found = None if inside else _best_around(schedule, chains, peak, most)
        if found is None:
            break
        chains[found[0]] = found[1]
        now = schedule.divided(chains)
        if (cost := _cost(schedule, chains)) < best.cost:
            best = _Best(cost, dict(chains))
    return _with_fewest_parts(schedule, dict(best.chains))


def _cost(schedule: Schedule, chains: Mapping[Chain, int]) -> int:
    """The bytes of the arena at least, and of the code of additional calls."""
    divided = schedule.divided(chains)
    return max(bytes for bytes, _ in divided.peaks) + CALL * (len(divided.parts) - len(schedule.statements))


def _best_around(schedule: Schedule, chains: Mapping[Chain, int], peak: int, most: int) -> tuple[Chain, int] | None:
    """The chain around a statement, and its parts, that cost least arena and code; None if no chain saves arena."""
    found: list[tuple[int, Chain, int]] = []
    for first, last in chains_around(schedule, chains, peak):
        for parts in COUNTS:
            if turns(schedule.calls((first, last)), parts) is None:
                break
            divided = schedule.divided({**chains, (first, last): parts})
            here = max(bytes for bytes, n in divided.peaks if first <= n <= last)
            if here < most:
                calls = len(divided.parts) - len(schedule.statements)
                found.append((here + CALL * calls, (first, last), parts))
    return min(found)[1:] if found else None


def chains_around(schedule: Schedule, chains: Mapping[Chain, int], peak: int) -> Iterator[Chain]:
    """Yields the chains that a statement is in, and that no divided chain meets."""
    for first in range(max(0, peak - LONGEST + 1), peak + 1):
        for last in range(max(peak, first + 1), min(first + LONGEST, len(schedule.statements))):
            all_calls = all(isinstance(s, Call) for s in schedule.statements[first : last + 1])
            if all_calls and not any(a <= last and first <= b for a, b in chains):
                yield first, last


def _with_fewest_parts(schedule: Schedule, chains: dict[Chain, int]) -> Mapping[Chain, int]:
    """The same with fewer parts, or none, where another statement needs the memory anyway."""
    for chain in list(chains):
        options = [{k: n for k, n in chains.items() if k != chain}]
        options += [{**chains, chain: parts} for parts in COUNTS if parts <= chains[chain]]
        chains = min(options, key=lambda option: _cost(schedule, option))
    return chains


# -- the calls --------------------------------------------------------------------------------------------------


def _rewrite(calls: Sequence[Call], parts: Sequence[tuple[int, tuple[int, int]]]) -> None:
    """Replaces the calls of a chain by calls of parts, in front of the last."""
    build = Builder(InsertPoint.before(calls[-1].op))
    seen = set[int]()
    for position, bounds in parts:
        call = calls[position]
        assert call.stripes is not None
        *buffers, _, end = call.op.arguments
        if position in seen:
            taken = range(len(call.leads), len(buffers))
            buffers = [_anew(build, x) if i in taken else x for i, x in enumerate(buffers)]
        seen.add(position)
        ends = [steps * call.stripes.items for steps in bounds]
        begins = build.insert(arith.ConstantOp(IntegerAttr(ends[0], IndexType()))).result
        if bounds[1] != call.bounds[1]:
            end = build.insert(arith.ConstantOp(IntegerAttr(ends[1], IndexType()))).result
        part = func.CallOp(call.op.callee, [*buffers, begins, end], [])
        part.attributes, part.location = restated(call.op), call.op.location
        build.insert(part)
    for call in calls:
        Rewriter.erase_op(call.op)


def _anew(build: Builder, buffer: SSAValue) -> SSAValue:
    """A scratch buffer like another."""
    alloc = root_of(buffer).owner
    assert isinstance(alloc, memref.AllocOp)
    assert buffer is alloc.memref
    return build.insert(alloc.clone()).results[0]
