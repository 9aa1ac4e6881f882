"""Partition of a network into parts: layers that run on the device, and calls that run on its host.

An operation runs on the device unless there is a reason against it (devices/legality/limits.py), or the device
computes an equivalent (devices/legality/equivalents.py). Operations that the device could run go to the host as well
where offloading them does not pay:

* an operation of which the device computes an equivalent, in more cycles than the host computes the operation;
* data movement between operations of the host: its tensor would be transferred (cross) to the device and back;
* a region of the device whose boundary transfers cost more than the device saves (boundary_transfers.py);
* data movement beside a host call that moves the same bytes in fewer cycles.

Operations of the host that feed each other run in one call unless a layer lies between them. To detect that, each
operation counts how often its data have crossed from device to host.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from qmlir.devices import Device
from qmlir.devices.legality.equivalents import Equivalent, equivalent_of, layer_cycles, pieces_of
from qmlir.devices.legality.limits import computes, partner_of, reasons
from qmlir.devices.model.boundary_transfers import Call, call, least_cycles, least_moving
from qmlir.devices.model.properties import products
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.movement import MovementOp, ReshapeOp
from qmlir.dialects.qint import GlobalSumPoolOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.ir.signature import defined_functions
from qmlir.ir.traversal import reached
from qmlir.lowering.qint_to_npu.prepare import prepare

BETWEEN = "it moves data that no operation of the device reads or writes"
"""The reason for data movement that the device could do, but that lies between operations of the host."""


NAMED = "it gives another type to what the host computes or reads"
"""The reason for a storage cast that runs on the host, together with an operation of the host beside it."""

TRANSFER = (
    "its boundary transfers would cost {transfers} cycles beside the {least} that {device} takes at least; "
    "{host} (fallback)"
)
"""The reason for operations that the device could compute, but whose boundary transfers cost too much."""


def transfer_reason(transfers: int, least: int, device: str, host: int) -> str:
    """Returns the sentence of `TRANSFER`; calls of the host that become one may take less together (`host` < 0)."""
    takes = f"the host takes {host}" if host >= 0 else f"with it, the calls of the host take {-host} less"
    return TRANSFER.format(transfers=transfers, least=least, device=device, host=takes)


BESIDE = (
    "the calls of the host take {host} cycles with it and {before} without; {device} takes {least} at least to move it"
    " (fallback)"
)
"""The reason for data movement that the device could do, but that costs less inside a host call beside it."""


WITH = "{name}, with which it runs, stays on the host: {why}"
"""The reason for the change of scale that ends the sums of such an operation."""

DEARER = "what {device} computes instead must take no more cycles than the host, got {more} more as {words} (fallback)"
"""The reason against an equivalent that the device could compute."""


@dataclass
class Part:
    """Operations that run together, in program order; constants are not among them.

    reasons     for each operation, why it runs on the host; empty for a layer
    passed      values that are passed on unchanged: arguments and constants that the network returns
    equivalent  what the device computes in place of the layer's first operation; None if it computes that
    """

    operations: list[Operation]
    on_host: bool
    reasons: dict[Operation, list[str]] = field(default_factory=dict[Operation, list[str]])
    passed: list[SSAValue] = field(default_factory=list[SSAValue])
    equivalent: Equivalent | None = None

    def inputs(self) -> list[SSAValue]:
        """The values that the part reads from outside, each once; without constants."""
        own = {r for op in self.operations for r in op.results}
        used = [o for op in self.operations for o in op.operands if o not in own] + self.passed
        return [v for v in dict.fromkeys(used) if not isinstance(v.owner, ConstantOp)]

    def outputs(self) -> list[SSAValue]:
        """The results of the part's operations that other parts or the caller read."""
        inside = set(self.operations)
        results = [r for op in self.operations for r in op.results]
        return [r for r in results if any(use.operation not in inside for use in r.uses)]

    def cost(self, device: Device) -> Call:
        """The cost of the part as a call of the host."""
        return call(self.operations, self.inputs(), self.outputs(), device)


def on_the_host(module: ModuleOp, device: Device) -> dict[Operation, list[str]]:
    """The operations of an integer network that the host of a device computes, with the reasons.

    The network is prepared for the device (prepare.py), and otherwise stays as it is.
    """
    return {op: part.reasons.get(op, []) for part in parts_of(module, device) for op in part.operations if part.on_host}


def parts_of(module: ModuleOp, device: Device) -> list[Part]:
    """The parts of each function of an integer network, which is prepared for the device (prepare.py)."""
    found: list[Part] = []
    for function in defined_functions(module):
        prepare(function.body.block, device)
        found += partition(function.body.block, device)
    return found


@dataclass(frozen=True)
class _Costs:
    """What calls of the host cost, each computed once: a network is divided many times to find the best division."""

    device: Device
    known: dict[tuple[Operation, ...], Call] = field(default_factory=dict[tuple[Operation, ...], Call])

    def call(self, part: Part) -> Call:
        """The cost of a host call that computes a part."""
        key = tuple(part.operations)
        if key not in self.known:
            self.known[key] = part.cost(self.device)
        return self.known[key]


def partition(block: Block, device: Device) -> list[Part]:
    """The parts of a network, in an order in which they can run.

    Each operation of which the device computes an equivalent is weighed in turn: it goes to the device if the network
    takes no more cycles then, or if nothing else is computed there, because the user asked for the device.
    """
    operations = [op for op in block.ops if not isinstance(op, ConstantOp | func.ReturnOp)]
    refused = {op: found for op in operations if (found := reasons(op, device))}
    instead = {op: found for op in operations if (found := _equivalent(op, refused, device)) is not None}
    against, used, costs = dict(refused), dict[Operation, Equivalent](), _Costs(device)
    against |= {each: list[str]() for op in instead for each in _with_partner(op) if each not in against}
    for op in instead:
        if not all(falls_back(each, device) for each in _with_partner(op)):
            used[op] = instead[op]
    best = _divided(operations, _without(against, used), used, costs)
    least = _cycles(best, costs) if instead else 0
    for op, found in instead.items():
        if op in used:
            continue
        trial = used | {op: found}
        parts = _divided(operations, _without(against, trial), trial, costs)
        pays = (cycles := _cycles(parts, costs)) <= least or not _computes(best)
        if pays and any(part.equivalent is found for part in parts):
            best, least, used = parts, cycles, trial
            continue
        why = DEARER.format(words=found.words, device=device.name, more=max(cycles - least, 0))
        against[op] = [*refused.get(op, ()), why]
        against |= {each: [WITH.format(name=op.name, why=why)] for each in _with_partner(op) if not against[each]}
    for part in best:
        part.reasons |= {
            op: against[op] for op, found in part.reasons.items() if not found or op in instead.keys() - used
        }
    returned = block.last_op
    if isinstance(returned, func.ReturnOp) and (values := [v for v in returned.operands if _is_given(v)]):
        best.append(Part([], on_host=True, passed=list(dict.fromkeys(values))))
    return _in_order(best, operations)


def _with_partner(op: Operation) -> list[Operation]:
    """An operation and the one that ends its sums."""
    partner = partner_of(op)
    return [op] if partner is None else [op, partner]


def _equivalent(op: Operation, refused: Mapping[Operation, object], device: Device) -> Equivalent | None:
    """What the device may compute in place of an operation that it refuses, or of a sum that takes it many commands."""
    if op in refused:
        return equivalent_of(op, device)
    return pieces_of(op, device) if isinstance(op, GlobalSumPoolOp) else None


def _without(against: Mapping[Operation, list[str]], used: Iterable[Operation]) -> dict[Operation, list[str]]:
    """The reasons against operations other than those of which the device computes equivalents."""
    taken = {each for op in used for each in _with_partner(op)}
    return {op: found for op, found in against.items() if op not in taken}


def _divided(
    operations: Sequence[Operation],
    against: dict[Operation, list[str]],
    instead: Mapping[Operation, Equivalent],
    costs: _Costs,
) -> list[Part]:
    """The parts of a network if the operations of `against`, which grows, and no others have reasons for the host."""
    against |= {op: [NAMED] for op in operations if isinstance(op, StorageCastOp) and _is_beside(op, against)}
    _keep_movement_on_the_host(operations, against)
    _keep_movement_beside_calls(operations, against, costs)
    _keep_what_crosses_for_nothing(operations, against, instead, costs)
    return [*_layers(operations, against, instead), *_calls(operations, against)]


def _computes(parts: Iterable[Part]) -> bool:
    """Whether the device computes something."""
    return any(computes(op) for part in parts if not part.on_host for op in part.operations)


def _cycles(parts: Iterable[Part], costs: _Costs) -> int:
    """The cycles of a network: of the host's calls, and of layers at least."""
    return sum(
        costs.call(part).cycles
        if part.on_host
        else part.equivalent.cycles
        if part.equivalent
        else layer_cycles(part.operations, part.inputs(), part.outputs(), costs.device)
        for part in parts
    )


def _is_given(value: SSAValue) -> bool:
    """Whether a value is an argument or a constant, which no operation computes."""
    return isinstance(value.owner, Block | ConstantOp)


def _is_beside(op: Operation, against: Mapping[Operation, object]) -> bool:
    """Whether an operation of the host feeds `op` or reads its results."""
    return any(o.owner in against for o in op.operands) or any(
        u.operation in against for r in op.results for u in r.uses
    )


def _keep_movement_on_the_host(operations: Sequence[Operation], against: dict[Operation, list[str]]) -> None:
    """Moves to the host (adds to `against`) the data movement that no operation of the device feeds or reads."""
    kept = dict.fromkeys(op for op in operations if isinstance(op, MovementOp) and op not in against)
    while leaving := [op for op in kept if any(n not in kept and n not in against for n in _neighbours(op))]:
        for op in leaving:
            del kept[op]
    against |= {op: [BETWEEN] for op in kept}


def _keep_movement_beside_calls(
    operations: Sequence[Operation], against: dict[Operation, list[str]], costs: _Costs
) -> None:
    """Moves data movement to the host if a host call beside it does the same in fewer cycles than the device."""
    device = costs.device
    for reads in (True, False):
        for op in operations if reads else reversed(operations):
            least = least_moving(op, device, reads) if isinstance(op, MovementOp) and op not in against else 0
            joining = _as_far_as_the_host(op, against, reads) if least else []
            if not joining or not all(falls_back(other, device) for other in joining):
                continue
            before, host = (
                sum(costs.call(part).cycles for part in _calls(operations, on_host))
                for on_host in (against, against | {other: list[str]() for other in joining})
            )
            if host - before < least:
                why = BESIDE.format(host=host, before=before, device=device.name, least=least)
                against |= {other: [why] for other in joining}


def _as_far_as_the_host(op: Operation, against: Mapping[Operation, object], reads: bool) -> list[Operation]:
    """A data movement and the reshapes between it and operations of the host; empty if another operation is there.

    Args:
        op: The data movement.
        against: The operations of the host.
        reads: True to look for the host among the producers of the operands, False among the readers of the results.
    """
    found: list[Operation] = []

    def beside(other: Operation | Block) -> list[Operation | Block]:
        return [] if isinstance(other, Block) else list(_before(other) if reads else _after(other))

    def on_the_device(other: Operation | Block) -> Iterator[Operation | Block]:
        return (o for o in beside(other) if o not in against)

    for other in reached([op], on_the_device):
        if isinstance(other, Block) or not (other is op or isinstance(other, ReshapeOp)) or not beside(other):
            return []
        found.append(other)
    return found


class _Gains(NamedTuple):
    """What it costs that the device computes some operations instead of the host, in cycles.

    transfers  of boundary transfers, more than if the host computes them
    least      of the device
    host       of the host's computation, if it computes them
    """

    transfers: int
    least: int
    host: int


def _gains(
    operations: Sequence[Operation],
    against: Mapping[Operation, list[str]],
    some: Sequence[Operation],
    least: int,
    costs: _Costs,
) -> _Gains:
    """What it costs that the device computes `some` of the operations, in at least `least` cycles."""
    before, after = (
        [costs.call(part) for part in _calls(operations, on_host)]
        for on_host in (against, {**against, **{op: list[str]() for op in some}})
    )
    transfers = sum(c.transfer for c in before) - sum(c.transfer for c in after)
    return _Gains(transfers, least, sum(c.computing for c in after) - sum(c.computing for c in before))


def _keep_what_crosses_for_nothing(
    operations: Sequence[Operation],
    against: dict[Operation, list[str]],
    instead: Mapping[Operation, Equivalent],
    costs: _Costs,
) -> None:
    """Moves a region of the device to the host if the device and its boundary transfers take longer than the host.

    Regions are weighed in the order of their number of multiplications, the smallest first. The last region that
    computes anything stays on the device, because the user asked for the device.
    """
    device = costs.device
    regions = sorted(_regions(operations, against), key=lambda region: sum(map(products, region)))
    computing = sum(any(map(computes, region)) for region in regions)
    for region in regions:
        last = computing == 1 and any(map(computes, region))
        if last or not all(falls_back(op, device) for op in region):
            continue
        made = [found for op in region if (found := instead.get(op)) is not None]
        others = [op for op in region if op not in instead]
        whole = Part(region, on_host=False)
        least = sum(found.cycles for found in made)
        if others:
            least += least_cycles(others, whole.inputs(), whole.outputs(), device)
        gains = _gains(operations, against, region, least, costs)
        if gains.transfers + gains.least > gains.host:
            why = transfer_reason(gains.transfers, gains.least, device.name, gains.host)
            against |= {op: [why] for op in region}
            computing -= any(map(computes, region))


def _regions(operations: Sequence[Operation], against: Mapping[Operation, object]) -> list[list[Operation]]:
    """The regions of the device: connected sets of operations, which feed each other only through the host."""
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
    """The producers of an operation's operands and the readers of its results, without constants and the caller."""
    yield from (other for other in _before(op) if isinstance(other, Operation))
    yield from (other for other in _after(op) if not isinstance(other, func.ReturnOp))


def _before(op: Operation) -> Iterator[Operation | Block]:
    """The producers of an operation's operands: the block for a function argument, nothing for a constant."""
    yield from (operand.owner for operand in op.operands if not isinstance(operand.owner, ConstantOp))


def _after(op: Operation) -> Iterator[Operation]:
    """The readers of an operation's results, including the function's return."""
    yield from (use.operation for result in op.results for use in result.uses)


def _layers(
    operations: Sequence[Operation], against: Mapping[Operation, object], instead: Mapping[Operation, Equivalent]
) -> Iterator[Part]:
    """Yields a layer for each operation of the device; a contraction shares its layer with its requantization."""
    taken: set[Operation] = set()
    for op in operations:
        if op in against or op in taken:
            continue
        together = _with_partner(op)
        taken.update(together)
        yield Part(together, on_host=False, equivalent=instead.get(op))


def _calls(operations: Sequence[Operation], against: Mapping[Operation, list[str]]) -> Iterator[Part]:
    """Yields the host calls: connected operations of the host with the same number of transfers before them."""
    transfers: dict[Operation, int] = {}
    group: dict[Operation, list[Operation]] = {}
    place = {op: n for n, op in enumerate(operations)}
    for op in operations:
        owners = [o.owner for o in op.operands if isinstance(o.owner, Operation) and o.owner in transfers]
        on_host = op in against
        transfers[op] = max((transfers[w] + (on_host and w not in against) for w in owners), default=0)
        if not on_host:
            continue
        members = [op]
        for owner in dict.fromkeys(w for w in owners if w in against and transfers[w] == transfers[op]):
            if group[owner] is not members:
                members = [*group[owner], *members]
                group |= dict.fromkeys(members, members)
        group[op] = members
    for members in {id(m): m for m in group.values()}.values():
        ordered = sorted(members, key=lambda op: place[op])
        yield Part(ordered, on_host=True, reasons={op: against[op] for op in ordered})


def _in_order(parts: Sequence[Part], operations: Sequence[Operation]) -> list[Part]:
    """Orders parts topologically; parts that are ready together keep the program order of their last operations."""
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
