"""Which operations run together: those of a layer on the device, those of one call of the host.

An operation runs on the device unless there is a reason against it (device/reasons.py). Data movement between
operations of the host stays there too: it would cross twice for nothing, and so would a region of the device whose
crossings cost more than the device saves (crossings.py), and movement beside a call that moves the same bytes for less.
Operations of the host that feed each other run in one call where no layer lies between, counted by how often data has
crossed before it reaches them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from xdsl.dialects import func
from xdsl.ir import Block, Operation, SSAValue

from qmlir.device import Device
from qmlir.device.crossings import Call, call, least_cycles, least_moving
from qmlir.device.products import products
from qmlir.device.reasons import computes, partner_of, reasons
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.shape import MovementOp, ReshapeOp
from qmlir.dialects.quant.ops import StorageCastOp

BETWEEN = "it moves data that no operation of the device reads or writes"
"""Why the host moves data that the device could move."""


NAMED = "it gives another type to what the host computes or reads"
"""Why a change of type alone runs with the host's operation beside it."""

CROSSING = (
    "its crossings would cost {crossings} cycles beside the {least} that {device} takes at least; the host takes {host}"
    " (fallback)"
)
"""Why the host computes what the device could."""

BESIDE = (
    "the calls of the host take {host} cycles with it and {before} without; {device} takes {least} at least to move it"
    " (fallback)"
)
"""Why the host moves data, in a call that takes it anyway, that the device could move."""


@dataclass
class Part:
    """Operations that run together, in program order; constants are not among them.

    reasons   why each of them runs on the host; empty of a layer
    passed    values that go out as they came in: what a network returns of its arguments and constants
    """

    operations: list[Operation]
    on_host: bool
    reasons: dict[Operation, list[str]] = field(default_factory=dict[Operation, list[str]])
    passed: list[SSAValue] = field(default_factory=list[SSAValue])

    def inputs(self) -> list[SSAValue]:
        """What comes in, constants apart, each once."""
        own = {r for op in self.operations for r in op.results}
        used = [o for op in self.operations for o in op.operands if o not in own] + self.passed
        return [v for v in dict.fromkeys(used) if not isinstance(v.owner, ConstantOp)]

    def outputs(self) -> list[SSAValue]:
        """What other parts or the caller read."""
        inside = set(self.operations)
        results = [r for op in self.operations for r in op.results]
        return [r for r in results if any(use.operation not in inside for use in r.uses)]


def partition(block: Block, device: Device) -> list[Part]:
    """The parts of a network, in an order in which they can run."""
    operations = [op for op in block.ops if not isinstance(op, ConstantOp | func.ReturnOp)]
    against = {op: found for op in operations if (found := reasons(op, device))}
    against |= {op: [NAMED] for op in operations if isinstance(op, StorageCastOp) and _is_beside(op, against)}
    _keep_movement_on_the_host(operations, against)
    _keep_movement_beside_calls(operations, against, device)
    _keep_what_crosses_for_nothing(operations, against, device)
    parts = [*_layers(operations, against), *_calls(operations, against)]
    returned = block.last_op
    if isinstance(returned, func.ReturnOp) and (values := [v for v in returned.operands if _is_given(v)]):
        parts.append(Part([], on_host=True, passed=list(dict.fromkeys(values))))
    return _in_order(parts, operations)


def _is_given(value: SSAValue) -> bool:
    """Whether nothing computes a value: an argument or a constant."""
    return isinstance(value.owner, Block | ConstantOp)


def _is_beside(op: Operation, against: Mapping[Operation, object]) -> bool:
    """Whether an operation of the host feeds another, or is fed by it."""
    return any(o.owner in against for o in op.operands) or any(
        u.operation in against for r in op.results for u in r.uses
    )


def _keep_movement_on_the_host(operations: Sequence[Operation], against: dict[Operation, list[str]]) -> None:
    """Adds to the operations of the host the movement that no operation of the device feeds or reads."""
    kept = dict.fromkeys(op for op in operations if isinstance(op, MovementOp) and op not in against)
    while leaving := [op for op in kept if any(n not in kept and n not in against for n in _neighbours(op))]:
        for op in leaving:
            del kept[op]
    against |= {op: [BETWEEN] for op in kept}


def _keep_movement_beside_calls(
    operations: Sequence[Operation], against: dict[Operation, list[str]], device: Device
) -> None:
    """Adds the movement of what a call of the host writes or reads anyway, where the device takes longer for it."""
    for reads in (True, False):
        for op in operations if reads else reversed(operations):
            least = least_moving(op, device, reads) if isinstance(op, MovementOp) and op not in against else 0
            joining = _as_far_as_the_host(op, against, reads) if least else []
            if not joining or not all(falls_back(other, device) for other in joining):
                continue
            before, host = (
                sum(_call(part, device).cycles for part in _calls(operations, on_host))
                for on_host in (against, against | {other: list[str]() for other in joining})
            )
            if host - before < least:
                why = BESIDE.format(host=host, before=before, device=device.name, least=least)
                against |= {other: [why] for other in joining}


def _as_far_as_the_host(op: Operation, against: Mapping[Operation, object], reads: bool) -> list[Operation]:
    """A movement, and what gives its tensor other shapes between it and the host; empty if anything else is there.

    Args:
        op: The movement.
        against: What the host computes.
        reads: Whether the host is sought before it, else behind.
    """
    others = [*_before(op)] if reads else [*_after(op)]
    found = [op] if others else []
    for other in others:
        if other in against:
            continue
        shaped = _as_far_as_the_host(other, against, reads) if isinstance(other, ReshapeOp) else []
        if not shaped:
            return []
        found += shaped
    return found


def _keep_what_crosses_for_nothing(
    operations: Sequence[Operation], against: dict[Operation, list[str]], device: Device
) -> None:
    """Adds the regions of the device that take longer than the host would without crossing to them and back.

    Those with the fewest products are weighed first; the last that computes anything stays: its user named the device.
    """
    regions = sorted(_regions(operations, against), key=lambda region: sum(map(products, region)))
    computing = sum(any(map(computes, region)) for region in regions)
    for region in regions:
        last = computing == 1 and any(map(computes, region))
        if last or not all(falls_back(op, device) for op in region):
            continue
        before, after = (
            [_call(part, device) for part in _calls(operations, on_host)]
            for on_host in (against, against | {op: list[str]() for op in region})
        )
        whole = Part(region, on_host=False)
        least = least_cycles(region, whole.inputs(), whole.outputs(), device)
        crossings = sum(c.crossing for c in before) - sum(c.crossing for c in after)
        host = sum(c.computing for c in after) - sum(c.computing for c in before)
        if crossings + least > host:
            why = CROSSING.format(crossings=crossings, least=least, device=device.name, host=host)
            against |= {op: [why] for op in region}
            computing -= any(map(computes, region))


def _call(part: Part, device: Device) -> Call:
    """What it costs that the host computes a part."""
    return call(part.operations, part.inputs(), part.outputs(), device)


def _regions(operations: Sequence[Operation], against: Mapping[Operation, object]) -> list[list[Operation]]:
    """What the device computes, in parts that do not feed each other but through the host."""
    region: dict[Operation, list[Operation]] = {}
    for op in operations:
        if op in against:
            continue
        members = [op]
        for other in _neighbours(op):
            if other in region and region[other] is not members:
                members = [*region[other], *members]
                region |= dict.fromkeys(members, members)
        region[op] = members
    place = {op: n for n, op in enumerate(operations)}
    return [sorted(members, key=lambda op: place[op]) for members in {id(m): m for m in region.values()}.values()]


def falls_back(op: Operation, device: Device) -> bool:
    """Whether the device file lets the host compute an operation."""
    listed = device.fallback.operations
    return device.fallback.kind == "host" and (not listed or op.name.partition(".")[2] in listed)


def _neighbours(op: Operation) -> Iterator[Operation]:
    """What computes the operands of an operation, and what reads its results, but for constants and the caller."""
    yield from (other for other in _before(op) if isinstance(other, Operation))
    yield from (other for other in _after(op) if not isinstance(other, func.ReturnOp))


def _before(op: Operation) -> Iterator[Operation | Block]:
    """What computes the operands of an operation; of the caller's the block, of constants nothing."""
    yield from (operand.owner for operand in op.operands if not isinstance(operand.owner, ConstantOp))


def _after(op: Operation) -> Iterator[Operation]:
    """What reads the results of an operation, the return to the caller too."""
    yield from (use.operation for result in op.results for use in result.uses)


def _layers(operations: Sequence[Operation], against: Mapping[Operation, object]) -> Iterator[Part]:
    """A layer for each operation of the device; what accumulates comes with the change of scale that ends its sums."""
    taken: set[Operation] = set()
    for op in operations:
        if op in against or op in taken:
            continue
        partner = partner_of(op)
        together = [op] if partner is None else [op, partner]
        taken.update(together)
        yield Part(together, on_host=False)


def _calls(operations: Sequence[Operation], against: Mapping[Operation, list[str]]) -> Iterator[Part]:
    """The calls of the host: operations with the same number of crossings before them that feed each other."""
    crossings: dict[Operation, int] = {}
    group: dict[Operation, list[Operation]] = {}
    for op in operations:
        owners = [o.owner for o in op.operands if isinstance(o.owner, Operation) and o.owner in crossings]
        on_host = op in against
        crossings[op] = max((crossings[w] + (on_host and w not in against) for w in owners), default=0)
        if not on_host:
            continue
        members = [op]
        for owner in dict.fromkeys(w for w in owners if w in against and crossings[w] == crossings[op]):
            if group[owner] is not members:
                members = [*group[owner], *members]
                group |= dict.fromkeys(members, members)
        group[op] = members
    for members in {id(m): m for m in group.values()}.values():
        ordered = [op for op in operations if group.get(op) is members]
        yield Part(ordered, on_host=True, reasons={op: against[op] for op in ordered})


def _in_order(parts: Sequence[Part], operations: Sequence[Operation]) -> list[Part]:
    """The parts, each after those it reads from, and otherwise as their last operations stand in the program."""
    place = {op: n for n, op in enumerate(operations)}
    owner = {op: n for n, part in enumerate(parts) for op in part.operations}
    needs = [
        {owner[v.owner] for v in part.inputs() if isinstance(v.owner, Operation) and v.owner in owner} for part in parts
    ]
    users: list[list[int]] = [[] for _ in parts]
    for n, needed in enumerate(needs):
        for other in needed:
            users[other].append(n)
    missing = [len(needed) for needed in needs]
    last = [max((place[op] for op in part.operations), default=len(operations)) for part in parts]
    ready = [(last[n], n) for n, count in enumerate(missing) if not count]
    heapify(ready)
    ordered: list[Part] = []
    while ready:
        _, n = heappop(ready)
        ordered.append(parts[n])
        for user in users[n]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, (last[user], user))
    assert len(ordered) == len(parts)
    return ordered
