"""What a run costs: cycles, products and bytes of each layer, counted command by command.

Every cycle belongs to one layer, so that those of the layers add up to the whole. A layer has the cycles from the end
of the layer before it to the end of its own last command, but none in which the array, or the host, works for a later
layer already: where layers overlap, the later one begins when the array does, and what was loaded for it until then
costs it nothing.

Beside its cycles stands a layer's bound: how many of them whichever engine, bus or memory has most to do is busy for
it. The rest of its cycles everybody waits for something. Of tensors that stay inside the device no transfer is counted,
in either: the bound is that of the traffic that is left. The bands of a layer that is worked off in several have its
name, and are counted together.
"""

from collections import Counter as Sums
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qmlir.backends.npu.stream import Program
from qmlir.device import Device
from qmlir.device.blocks import Footprint
from qmlir.device.costs import products
from qmlir.device.timeline import HOST, Interval, Timeline
from qmlir.device.tokens import tokens
from qmlir.isa.commands import Host, Mark, Window
from qmlir.isa.encoding import Command


@dataclass
class LayerCount:
    """What was counted between its marks and the next.

    cycles    that belong to it, of all its bands
    products  of its contractions
    busy      cycles of its own in which each engine, bus and memory works for it
    asked     cycles in which they do at any time
    read      bytes read from each memory that has a bandwidth
    written   bytes written there
    """

    name: str
    cycles: int = 0
    products: int = 0
    busy: Sums[str] = field(default_factory=Sums[str])
    asked: Sums[str] = field(default_factory=Sums[str])
    read: Sums[str] = field(default_factory=Sums[str])
    written: Sums[str] = field(default_factory=Sums[str])

    def used(self, peak: int, cycles: int) -> float:
        """Its products, of those that the array could compute in so many cycles."""
        return self.products / (peak * cycles) if cycles else 0.0

    @property
    def bound(self) -> int:
        """Cycles of what has most to do."""
        return max(self.busy.values(), default=0)

    @property
    def bound_by(self) -> str:
        """What has most to do; empty where nothing has anything."""
        return max(self.busy, key=lambda name: self.busy[name], default="")


@dataclass(frozen=True)
class Report:
    """What a run costs.

    cycles   until the last command ended
    least    cycles of what has most to do, if nothing ever waited; the array does nothing while the host computes
    peak     products that the array can compute in a cycle
    layers   what was counted of each
    """

    cycles: int
    least: int
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
        return self.products / (self.peak * self.least) if self.least else 0.0


@dataclass
class _Stretch:
    """The commands from one mark to the next.

    begins   when the array, or the host, begins to work for it; None where neither does
    ends     when the last of its commands ends, and all before
    busy     what works for it, and when
    """

    layer: LayerCount
    begins: int | None = None
    ends: int = 0
    busy: list[Mapping[str, Sequence[Interval]]] = field(default_factory=list[Mapping[str, Sequence[Interval]]])


class Counter:
    """Counts while a program is executed."""

    def __init__(self, device: Device, program: Program):
        self._device, self._names = device, program.layers
        self._timeline = Timeline(device, tokens(program.commands, device))
        self._layers = {"": LayerCount("")}
        self._stretches = [_Stretch(self._layers[""])]

    def count(self, command: Command, touched: Footprint) -> None:
        """Takes the next command and what it touches."""
        if isinstance(command, Mark):
            name = self._names[command.layer] if command.layer < len(self._names) else str(command.layer)
            self._stretches.append(_Stretch(self._layers.setdefault(name, LayerCount(name))))
        stretch = self._stretches[-1]
        interval = self._timeline.add(command, touched)
        stretch.ends, layer = self._timeline.now, stretch.layer
        if isinstance(command, Window | Host) and stretch.begins is None:
            stretch.begins = interval.start
        layer.products += products(command)
        stretch.busy.append(self._timeline.busy)
        layer.asked += _cycles(self._timeline.busy, 0, self._timeline.now)
        for blocks, moved in ((touched.reads, layer.read), (touched.writes, layer.written)):
            for block in blocks:
                memory = self._device.memory[block.place.memory]
                if memory.bytes_per_cycle is not None:
                    moved[memory.id] += block.bytes

    def report(self) -> Report:
        """What was counted."""
        end = self._timeline.now
        for number in reversed(range(len(self._stretches))):
            stretch = self._stretches[number]
            before = self._stretches[number - 1].ends if number else 0
            begin = min(before, end if stretch.begins is None else stretch.begins)
            _attribute(stretch, begin, end)
            end = begin
        counted = [layer for layer in self._layers.values() if layer.cycles or any(layer.asked.values())]
        asked = sum((layer.asked for layer in counted), Sums[str]())
        array = next(queue for queue in self._device.queue if queue.engine == "array")
        asked[array.id] += asked[HOST]  # calls are commands of its queue
        return Report(self._timeline.now, max(asked.values(), default=0), self._device.peak_macs, counted)


def _attribute(stretch: _Stretch, begin: int, end: int) -> None:
    """Gives a layer the cycles from `begin` to `end`, and what is busy for it in them."""
    stretch.layer.cycles += end - begin
    for busy in stretch.busy:
        stretch.layer.busy += _cycles(busy, begin, end)


def _cycles(busy: Mapping[str, Sequence[Interval]], begin: int, end: int) -> Sums[str]:
    """How many of the cycles from `begin` to `end` each thing is busy; those alone that are."""
    return +Sums(
        {
            name: sum(min(t.end, end) - max(t.start, begin) for t in times if t.end > begin and t.start < end)
            for name, times in busy.items()
        }
    )
