"""The layers of a network in machine code: numbered before they are lowered, each with the kernel that computes it."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.backends.cpu import Machine
from qmlir.compiler import loaded, main_function, to_integers
from qmlir.devices.legality.limits import source_nodes
from qmlir.ir.facts import KERNELS, LAYER
from qmlir.running.machine_code import to_planned_loops
from qmlir.settings.arguments import Network


@dataclass(frozen=True)
class LayerKernel:
    """A layer and the kernel that computes it.

    name      its source nodes
    kernel    the kernel; empty if the layer is computed by none, because it only renames a buffer
    why       the reasons against the kernels that would be preferred; empty if there is no other
    """

    name: str
    kernel: str
    why: str


def number_layers(module: ModuleOp) -> list[Operation]:
    """Numbers the operations of a network on the qint level; returns them by number."""
    found = [op for op in main_function(module).body.block.ops if op.results]
    for number, op in enumerate(found):
        LAYER.put(op, number)
    return found


def chosen_kernels(module: ModuleOp, count: int) -> Sequence[tuple[str, str]]:
    """The kernel of each of `count` numbered operations of a lowered module, and the reason."""
    chosen = KERNELS.of(module) or {}
    parts = (chosen.get(str(number), "").partition(": ") for number in range(count))
    return [(name, why) for name, _, why in parts]


def kernels_of(network: Network, machine: Machine, memory: str = "fast") -> list[LayerKernel]:
    """The layers that kernels compute, in the order of the network; no machine code is made.

    Args:
        network: A network, or its path; it stays unchanged.
        machine: The processor that code would be for.
        memory: "fast", or "small" for kernels that take little memory.
    """
    lowered = to_integers(loaded(network))
    names = [source_nodes(op) for op in number_layers(lowered)]
    to_planned_loops(lowered, 1, machine, memory=memory)
    layers = zip(names, chosen_kernels(lowered, len(names)), strict=True)
    return [LayerKernel(name, *kernel) for name, kernel in layers if kernel[0]]
