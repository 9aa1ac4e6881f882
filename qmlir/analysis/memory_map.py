"""Which buffer lies where in a memory, and when: plain data from which a picture can be drawn.

    memory_maps(qmlir.compile(q, target="nmp"))     # a map for each memory of the device; time is in cycles
    arena_map(q)                                    # the scratch memory of machine code; time is in calls of kernels

In a picture, a buffer is a rectangle: time to the right, addresses upwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation

from qmlir.analysis.layers import number_layers
from qmlir.backends.npu.report import Stretch
from qmlir.backends.npu.trace import Trace
from qmlir.backends.simulated import Simulated
from qmlir.compiler import loaded, to_integers
from qmlir.devices.legality.limits import source_nodes
from qmlir.devices.model.module import Placed
from qmlir.ir.facts import ARENA_SIZE, INPUTS, LAYER
from qmlir.ir.names import names_of
from qmlir.running.machine_code import to_planned_loops
from qmlir.settings.arguments import Network
from qmlir.transforms.loops.plan_memory import all_views, buffer_bytes


@dataclass(frozen=True)
class Extent:
    """A buffer: bytes `offset` to before `offset + size`, from time `begin` to before time `end`.

    name    the tensor's name; of other buffers, the role of their data
    kind    `tensor` (a tensor of the network), `tile` (a part of one), `constant` or `scratch`
    role    the role of the data in a device file, such as `ifm` or `acc`; empty in an arena
    offset  the first byte, counted from the beginning of the memory
    size    bytes
    begin   when the earliest command, or call, that touches it begins
    end     when the latest one has ended
    """

    name: str
    kind: str
    role: str
    offset: int
    size: int
    begin: int
    end: int


@dataclass(frozen=True)
class MemoryMap:
    """A memory over time.

    memory    the memory's name in the device file; `arena` for that of machine code
    size      bytes of the memory
    external  whether it is outside the device; False for an arena
    unit      the unit of time: `cycles` or `calls`
    end       time goes from 0 to before this
    extents   the buffers, by the time at which they begin. On a device, bytes of a buffer may be used again before the
              last command of the buffer has ended, so that rectangles can overlap at their edges
    usage     pairs of a time and the number of bytes in use from that time on: never more than `size`
    layers    the layers along the time axis, in order; each time belongs to at most one of them
    """

    memory: str
    size: int
    external: bool
    unit: str
    end: int
    extents: Sequence[Extent]
    usage: Sequence[tuple[int, int]]
    layers: Sequence[Stretch]

    @property
    def peak(self) -> int:
        """The most bytes in use at once."""
        return max((used for _, used in self.usage), default=0)


# ---------------------------------------------------------------------------------------------------------------
# The memories of a device


def memory_maps(executable: Simulated, *, tiles: bool = True) -> list[MemoryMap]:
    """Returns the maps of a device's memories, in the order of the device file.

    Args:
        executable: A network compiled for a device. If it was loaded from a file, the maps have no extents, because a
            program file does not name its buffers.
        tiles: Whether the maps hold tiles, of which there are thousands in a large network; inside a device, there is
            little else.
    """
    trace = executable.trace
    found: list[MemoryMap] = []
    for memory in executable.device.memory:
        buffers = (b for b in executable.buffers if b.memory == memory.id and (tiles or b.kind != "tile"))
        extents = sorted((_extent(b, trace) for b in buffers), key=lambda extent: (extent.begin, extent.offset))
        found.append(
            MemoryMap(
                memory.id, memory.bytes, memory.external, "cycles", trace.cycles, extents, trace.usage[memory.id],
                trace.layers,
            )
        )  # fmt: skip
    return found


def _extent(buffer: Placed, trace: Trace) -> Extent:
    """A buffer in cycles, from the first to the last in which one of its commands works."""
    spans = [trace.spans[number] for number in buffer.commands]
    early = buffer.constant or buffer.first < 0 or not spans
    late = buffer.last >= len(trace.spans) or not spans
    begin = 0 if early else min(span.start for span in spans)
    end = trace.cycles if late else max(span.end for span in spans)
    name = buffer.tensor or buffer.role
    return Extent(name, buffer.kind, buffer.role, buffer.address, buffer.bytes, begin, end)


# ---------------------------------------------------------------------------------------------------------------
# The arena of machine code


def arena_map(network: Network, threads: int = 1) -> MemoryMap:
    """Returns the map of the scratch memory that a call of a network's machine code uses.

    Inputs, outputs and weights lie elsewhere. The network is lowered, but no machine code is made of it.

    Args:
        network: A network, or its path; it stays unchanged.
        threads: Threads that one call may use; each needs scratch memory of its own.
    """
    planned = planned_calls(network, threads)
    extents = sorted(_extents(planned), key=lambda extent: (extent.begin, extent.offset))
    count = len(planned.calls)
    layers = [Stretch(call.layer, number, number + 1) for number, call in enumerate(planned.calls)]
    usage = [(time, sum(e.size for e in extents if e.begin <= time < e.end)) for time in range(count)]
    return MemoryMap("arena", planned.arena, False, "calls", count, extents, usage, layers)


@dataclass(frozen=True)
class Call:
    """A call of a kernel in the entry function of machine code; a copy between buffers counts as a call.

    layer      the names of the source nodes that it computes; `copy` for a copy
    operation  the call, whose memrefs are views of inputs, outputs, weights and the arena
    """

    layer: str
    operation: Operation


@dataclass(frozen=True)
class Planned:
    """The entry function of machine code, with its memory planned.

    block  its body
    arena  bytes of its scratch memory
    calls  its calls, in order
    """

    block: Block
    arena: int
    calls: Sequence[Call]


def planned_calls(network: Network, threads: int = 1) -> Planned:
    """Lowers a network to calls of kernels on planned memory.

    Args:
        network: A network, or its path; it stays unchanged.
        threads: Threads that one call of the network may use.
    """
    lowered = to_integers(loaded(network))
    names = [source_nodes(op) for op in number_layers(lowered)]
    to_planned_loops(lowered, threads)
    entry = next(f for f in lowered.body.block.ops if isinstance(f, func.FuncOp) and INPUTS.on(f))
    calls = [op for op in entry.body.block.ops if isinstance(op, func.CallOp | memref.CopyOp)]
    return Planned(entry.body.block, ARENA_SIZE.required(lowered), [Call(_layer(call, names), call) for call in calls])


def _layer(call: Operation, names: Sequence[str]) -> str:
    """The layer that a call computes; for a call that no operation asked for, a description."""
    number = LAYER.of(call)
    return "copy" if number is None else names[number]


def _extents(planned: Planned) -> Iterator[Extent]:
    """Yields the views of the arena, which is the second argument of a planned function."""
    numbers = {call.operation: number for number, call in enumerate(planned.calls)}
    for view in planned.block.ops:
        if not isinstance(view, memref.ViewOp) or view.source is not planned.block.args[1]:
            continue
        users = (use.operation for seen in all_views(view.results[0]) for use in seen.uses)
        used = [numbers[user] for user in users if user in numbers]
        offset = view.byte_shift.owner
        if not used or not isinstance(offset, arith.ConstantOp) or not isinstance(offset.value, IntegerAttr):
            continue
        tensors = names_of(view).tensors
        name, kind = (tensors[0], "tensor") if tensors else ("scratch", "scratch")
        begin, end = min(used), max(used) + 1
        yield Extent(name, kind, "", offset.value.value.data, buffer_bytes(view.results[0].type), begin, end)
