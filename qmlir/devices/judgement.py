"""Which operations of an integer network a device computes, and why it refuses the others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation

from qmlir.devices.description import Device
from qmlir.devices.limits import refusals
from qmlir.devices.properties import products
from qmlir.dialects import nn, qint
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.qint.requantize import AccumulatingOp, width_of
from qmlir.dialects.quant.ops import CastOp, StorageCastOp
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.ir.names import NAME
from qmlir.ir.rewriting import node_name

# ---------------------------------------------------------------------------------------------------------------
# Why the device refuses an operation and the host computes it.
#
# There are three kinds of reasons: a limit of the device file, a rule of the commands that holds for every device, or
# the operation's partner. Sums never leave the device, so an accumulating operation and the requantization that ends
# its sums run on the device together or not at all.


def reasons(op: Operation, device: Device) -> list[str]:
    """Why a device does not compute an operation, a sentence each; empty if the device computes it."""
    if found := _own_reasons(op, device):
        return found
    partner = partner_of(op)
    others = [] if partner is None else _own_reasons(partner, device)
    return [f"{partner.name}, with which it runs, stays on the host: {others[0]}"] if partner and others else []


def partner_of(op: Operation) -> Operation | None:
    """The requantization that ends the sums of an accumulating operation, or the reverse; None without a partner."""
    if isinstance(op, AccumulatingOp):
        users = [use.operation for use in op.results[0].uses]
        return users[0] if len(users) == 1 and isinstance(users[0], qint.RequantizeOp) else None
    if isinstance(op, qint.RequantizeOp) and isinstance(sums := op.x.owner, AccumulatingOp):
        return sums if partner_of(sums) is op else None
    return None


def _own_reasons(op: Operation, device: Device) -> list[str]:
    if isinstance(op, StorageCastOp):
        return []  # a storage cast renames the same bytes
    if isinstance(op, CastOp):
        return ["what comes from the caller or goes there is cast by the host"]
    if not _has_elements(op):  # the limits of a device file apply to elements
        return [ELEMENTS]
    return refusals(op, device) or [sentence for sentence, holds in RULES if not holds(op)]


def _has_elements(op: Operation) -> bool:
    return all(prod(shape_of(value)) for value in (*op.operands, *op.results))


def _is_narrow(op: Operation) -> bool:
    """Whether the tensors that the operation exchanges with other layers have 8 or 16 bits."""
    seen = [*op.results, *op.operands]
    if isinstance(op, AccumulatingOp):
        seen = list(op.narrow_operands())
    elif partner_of(op) is not None:
        seen = list(op.results)
    return all(isinstance(element_of(value), IntegerType) and width_of(value) <= 16 for value in seen)


def _has_constants(op: Operation) -> bool:
    """Whether weights and bias are constants."""
    return not isinstance(op, WeightedOp) or all(isinstance(v.owner, nn.ConstantOp) for v in op.operands[1:])


def _ends_sums(op: Operation) -> bool:
    return not isinstance(op, AccumulatingOp) or partner_of(op) is not None


ELEMENTS = "tensors have elements"

RULES: Sequence[tuple[str, Callable[[Operation], bool]]] = (
    (ELEMENTS, _has_elements),
    ("weights and bias are constants", _has_constants),
    ("sums end in one change of scale to 8 or 16 bits", _ends_sums),
    ("data of other layers has 8 or 16 bits", _is_narrow),
)
"""Rules for operations on every device: a sentence, and whether it holds for an operation that the file allows."""


def computes(op: Operation) -> bool:
    """Whether an operation does more than move data."""
    return isinstance(op, TensorOp) and not isinstance(op, MovementOp | CastOp | nn.ConstantOp)


# ---------------------------------------------------------------------------------------------------------------
# Reports which operations of an integer network a device computes, and why it refuses the others.


@dataclass(frozen=True)
class Verdict:
    """Whether a device computes an operation, and why not.

    node        the source nodes that the operation stands for
    operation   its kind, such as `qint.conv2d`
    macs        products that it computes
    refusals    why the device does not compute it, a sentence each; empty if the device computes it
    """

    node: str
    operation: str
    macs: int
    refusals: tuple[str, ...]


def verdicts(module: ModuleOp, device: Device) -> list[Verdict]:
    """The verdict on each operation of a network on the qint level, in program order."""
    return [Verdict(_node(op), op.name, products(op), tuple(reasons(op, device))) for op in _computing(module)]


def _node(op: Operation) -> str:
    """The source nodes of an operation; sums are named by the operation that ends them, which carries the names."""
    named = op
    while NAME not in named.attributes and (uses := list(named.results[0].uses)) and len(uses) == 1:
        named = uses[0].operation
        if not isinstance(named, TensorOp):
            return node_name(op)
    return node_name(named if NAME in named.attributes else op)


def _computing(module: ModuleOp) -> Iterator[Operation]:
    """Yields the operations that compute or move data; a change of type alone does neither."""
    for op in module.walk():
        if isinstance(op, TensorOp) and not isinstance(op, ConstantOp | StorageCastOp):
            yield op


def share_on_device(verdicts: Sequence[Verdict]) -> float:
    """The share of all products that the device computes; 1 if the network has no products."""
    total = sum(v.macs for v in verdicts)
    return sum(v.macs for v in verdicts if not v.refusals) / total if total else 1.0
