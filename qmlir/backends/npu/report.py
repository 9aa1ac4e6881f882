"""What a run costs: cycles, products and bytes of each layer, counted command by command.

Beside its cycles stands a layer's bound: what whichever engine, bus or memory has most to do would take if nothing ever
waited for anything. A layer can stay below it, because its first loads overlap with the layer before; a program cannot.
Of tensors that stay inside the device no transfer is counted, in either: the bound is that of the traffic that is left.
The bands of a layer that is worked off in several have its name, and are counted together.
"""

from collections import Counter as Sums
from collections.abc import Sequence
from dataclasses import dataclass, field

from qmlir.backends.npu.stream import Program
from qmlir.device import Device
from qmlir.device.blocks import Footprint
from qmlir.device.costs import demand, products
from qmlir.device.timeline import FOLLOWING, Timeline
from qmlir.device.tokens import tokens
from qmlir.isa.commands import Mark
from qmlir.isa.encoding import Command


@dataclass
class LayerCount:
    """What was counted between its marks and the next.

    cycles    from the end of what came before to the end of its last command, of all its bands
    products  of its contractions
    asked     cycles of each engine, bus and memory that its commands ask for
    read      bytes read from each memory that has a bandwidth
    written   bytes written there
    """

    name: str
    cycles: int = 0
    products: int = 0
    asked: Sums[str] = field(default_factory=Sums[str])
    read: Sums[str] = field(default_factory=Sums[str])
    written: Sums[str] = field(default_factory=Sums[str])

    def used(self, peak: int, cycles: int) -> float:
        """Its products, of those that the array could compute in so many cycles."""
        return self.products / (peak * cycles) if cycles else 0.0

    @property
    def bound(self) -> int:
        """Cycles of what has most to do."""
        return max(self.asked.values(), default=0)

    @property
    def bound_by(self) -> str:
        """What has most to do; empty where nothing has anything."""
        return max(self.asked, key=lambda name: self.asked[name], default="")


@dataclass(frozen=True)
class Report:
    """What a run costs.

    cycles   until the last command ended
    peak     products that the array can compute in a cycle
    layers   what was counted of each
    """

    cycles: int
    peak: int
    layers: Sequence[LayerCount]

    @property
    def products(self) -> int:
        """Of all contractions; what is computed for two bands counts twice."""
        return sum(layer.products for layer in self.layers)

    @property
    def utilization(self) -> float:
        """Products, of those that the array could have computed in that time."""
        return self.products / (self.peak * self.cycles) if self.cycles else 0.0

    @property
    def bound(self) -> float:
        """The utilization if nothing ever waited: what has most to do in the whole program decides."""
        asked = sum((layer.asked for layer in self.layers), Sums[str]())
        cycles = max(asked.values(), default=0)
        return self.products / (self.peak * cycles) if cycles else 0.0


class Counter:
    """Counts while a program is executed."""

    def __init__(self, device: Device, program: Program):
        self._device, self._names = device, program.layers
        self._timeline = Timeline(device, tokens(program.commands, device))
        self._buses = {queue.id: device.bus_of(queue) for queue in device.queue}
        self._began = 0
        self._layer = LayerCount("")
        self._layers = {"": self._layer}

    def count(self, command: Command, touched: Footprint) -> None:
        """Takes the next command and what it touches."""
        self._timeline.add(command, touched)
        if isinstance(command, Mark):
            self._end_layer()
            name = self._names[command.layer] if command.layer < len(self._names) else str(command.layer)
            self._layer = self._layers.setdefault(name, LayerCount(name))
        layer = self._layer
        layer.products += products(command)
        asked = demand(command, self._device, touched)
        layer.asked[self._engine(command)] += asked.engine
        for number, cycles in asked.memories.items():
            layer.asked[self._device.memory[number].id] += cycles
        for blocks, moved in ((touched.reads, layer.read), (touched.writes, layer.written)):
            for block in blocks:
                memory = self._device.memory[block.place.memory]
                if memory.bytes_per_cycle is not None:
                    moved[memory.id] += block.bytes

    def report(self) -> Report:
        """What was counted."""
        self._end_layer()
        counted = [layer for layer in self._layers.values() if layer.cycles or any(layer.asked.values())]
        return Report(self._timeline.now, self._device.peak_macs, counted)

    def _end_layer(self) -> None:
        self._layer.cycles += self._timeline.now - self._began
        self._began = self._timeline.now

    def _engine(self, command: Command) -> str:
        """What a command keeps busy: its queue, its bus, or what follows the array on a pipelined queue."""
        queue = self._device.queue[command.queue]
        if queue.pipelined and isinstance(command, FOLLOWING):
            return f"{queue.id}, after the array"
        return self._buses[queue.id] if queue.engine == "dma" else queue.id
