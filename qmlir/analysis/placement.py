"""Finds out which operations of a network a device computes, by the compiler's own division of the network.

For what stays on the host, it also finds the keys of the device file that would change that, and what they would bring.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.compiler import Pipeline
from qmlir.devices import Accelerator, Device, load_device
from qmlir.devices.description.changing import Change, value_of
from qmlir.devices.legality.changes import Needed, needed_for
from qmlir.devices.legality.limits import Legality, computing, legality_of, reasons
from qmlir.devices.legality.requirements import requirements, target_of_device
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.ops import CastOp
from qmlir.errors import QmlirError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.context import make_context
from qmlir.lowering.qint_to_npu.partition import parts_of
from qmlir.stages import IMPORTED, OBSERVE, TO_INTEGERS
from qmlir.transforms.quantize.apply.fold_qdq import is_as_imported
from qmlir.transforms.quantize.ranges.apply_profile import fill_ranges, is_float


@dataclass(frozen=True)
class Placement:
    """Where a network's operations run.

    judged       the legality of each integer operation, in program order
    operations   these operations
    host_cycles  what the calls of the host cost, by the device file
    """

    judged: list[Legality]
    operations: list[Operation]
    host_cycles: int


@dataclass(frozen=True)
class Gain:
    """What changes of a device file, made together, would bring to the device.

    keys        the changes
    operations  how many operations of the host need them, and no others
    share       the share of the network's MACs that they would bring to the device
    cycles      cycles of the host's calls that they would save
    """

    keys: tuple[Change, ...]
    operations: int
    share: float
    cycles: int


def judge(module: ModuleOp, device: Accelerator) -> list[Legality]:
    """Returns the legality of each integer operation of a network: whether the device computes it, and why not.

    The host computes what the device cannot, and what would cost more on the device than on the host.

    Args:
        module: A network. A float network is judged as if each of its tensors had the range [−1, 1], quantized as the
            device requires. This is enough to see which operations the device can compute.
        device: A device, the name of a device that comes with qmlir, or the path of a device file.
    """
    return _placed(module, load_device(device))[0].judged


def explain(module: ModuleOp, device: Accelerator) -> tuple[list[Legality], list[Gain]]:
    """Returns the legality of each operation with the keys that would bring it to the device, and what these bring.

    Args:
        module: A network, as for `judge`.
        device: A device, as for `judge`.

    Returns:
        The operations in program order, and the changes of the file in the order of the MACs that they bring.
    """
    described = load_device(device)
    placed, integers = _placed(module, described)
    needed = _needed(placed, integers, described)
    judged = [
        replace(each, keys=needed[op].changes(described), no_key=needed[op].no_key) if op in needed else each
        for each, op in zip(placed.judged, placed.operations, strict=True)
    ]
    return judged, sorted(_gains(module, placed, needed, described), key=lambda g: (-g.share, -g.cycles))


def _placed(module: ModuleOp, device: Device) -> tuple[Placement, ModuleOp]:
    """Where a network's operations run, and the integer network that they are in."""
    refuse_opaque(module, "the network")
    context = make_context()
    context.target = target_of_device(device)
    network = Pipeline(*IMPORTED)(module, context) if is_as_imported(module) else module.clone()
    if is_float(network):
        network = Pipeline(*OBSERVE)(network, context)
        fill_ranges(network)
        Pipeline(("quantize", requirements(device).options())).apply(network, context)
    integers = Pipeline(*TO_INTEGERS)(network, context)
    parts = parts_of(integers, device)
    found = {op: part.reasons.get(op, []) for part in parts for op in part.operations if part.on_host}
    host_cycles = sum(part.cost(device).cycles for part in parts if part.on_host)
    return Placement(legality_of(integers, device, found), list(computing(integers)), host_cycles), integers


# ---------------------------------------------------------------------------------------------------------------
# The keys that would bring an operation to the device

SLOWER = (4, 16, 64, 256)
"""How many times slower hosts are tried: whether the device pays beside one of them."""

BETWEEN_HOSTS = "it only moves data between operations of the host"
"""Why data movement has no key of its own."""

CHEAPER = "the host computes it in fewer cycles, however slow"
"""Why an operation that the device could compute has no key."""


def _needed(placed: Placement, integers: ModuleOp, device: Device) -> dict[Operation, Needed]:
    """What each operation of the host needs to move to the device."""
    refused = [op for op, each in zip(placed.operations, placed.judged, strict=True) if each.refusals]
    needed = {op: needed_for([op], device) for op in refused if reasons(op, device)}
    could = [op for op in refused if op not in needed]
    needed |= dict(_beside_slower_hosts(could, integers, device))
    for op in (*could, *reversed(could)):  # neighbours before it, then those behind it
        if op not in needed or not needed[op].settings:
            needed[op] = _as_neighbours(op, needed)
    return needed


def _beside_slower_hosts(
    could: Sequence[Operation], integers: ModuleOp, device: Device
) -> Iterator[tuple[Operation, Needed]]:
    """Yields the operations that the device computes beside a slower host, each with the first such host."""
    left, key = dict.fromkeys(could), "fallback.macs_per_cycle"
    for times in SLOWER if left else ():
        slower = {key: device.fallback.macs_per_cycle / times}
        for part in parts_of(integers, device.with_(slower)):
            for op in part.operations if not part.on_host else ():
                if op in left:
                    del left[op]
                    yield op, Needed(dict(slower))


def _as_neighbours(op: Operation, needed: Mapping[Operation, Needed]) -> Needed:
    """What the nearest operation that feeds or reads an operation needs: both move together."""
    around = [o.owner for o in op.operands] + [use.operation for result in op.results for use in result.uses]
    found = [needed[other] for other in around if isinstance(other, Operation) and other in needed]
    own = BETWEEN_HOSTS if isinstance(op, MovementOp) else CHEAPER
    return next((each for each in found if each.settings), Needed({}, own))


# ---------------------------------------------------------------------------------------------------------------
# What keys would bring

MOST_GAINS = 6
"""The most sets of keys that are weighed, those that the most MACs ask for: each divides the network anew."""


def _gains(module: ModuleOp, placed: Placement, needed: Mapping[Operation, Needed], device: Device) -> Iterator[Gain]:
    """Yields what each set of keys that operations ask for would bring."""
    macs = {op: each.macs for op, each in zip(placed.operations, placed.judged, strict=True)}
    asking: dict[frozenset[str], list[Operation]] = {}
    for op, found in needed.items():
        if found.settings and not isinstance(op, CastOp):
            asking.setdefault(frozenset(found.settings), []).append(op)
    total, here = sum(macs.values()), _macs_on_device(placed)
    ordered = sorted(asking.values(), key=lambda ops: -sum(macs[op] for op in ops))
    for operations in ordered[:MOST_GAINS]:
        together = needed_for(operations, device)
        settings = together.settings or needed[operations[0]].settings
        try:
            after, _ = _placed(module, device.with_(settings))
        except QmlirError:  # such as a precision that the changed device does not have
            continue
        gained = (_macs_on_device(after) - here) / total if total else 0.0
        changes = tuple(Change(key, value_of(device, key), value) for key, value in settings.items())
        yield Gain(changes, len(operations), gained, placed.host_cycles - after.host_cycles)


def _macs_on_device(placed: Placement) -> int:
    return sum(each.macs for each in placed.judged if not each.refusals)
