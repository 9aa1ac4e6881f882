"""Reports which operations of an integer network a device computes, and why it refuses the others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.devices.description import Device
from qmlir.devices.products import products
from qmlir.devices.reasons import reasons
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.names import NAME
from qmlir.ir.rewriting import node_name


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
