"""The cost of a run: cycles, products and bytes of each layer, counted command by command.

Every cycle belongs to exactly one layer, so that the cycles of the layers add up to the total. A layer owns the cycles
from the end of the layer before it to the end of its own last command, except the cycles in which the array, or the
host, already works for a later layer. Where layers overlap, the later layer therefore begins when the array begins to
work for it, and the loads before that moment do not count as its cycles.

A layer also has a bound: the busy cycles of the engine, bus or memory that works longest for it. In the rest of the
layer's cycles everything waits. A tensor that stays inside the device causes no transfer, neither in the cycles nor in
the bound: the bound covers the remaining traffic. The stripes of a layer share its name and are counted
together.
"""

from collections import Counter as Sums
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qmlir.backends.npu.accesses import accesses_of
from qmlir.backends.npu.stream import Program
from qmlir.devices import Device
from qmlir.devices.model.costs import products
from qmlir.devices.model.timeline import HOST, Interval, Timeline
from qmlir.devices.model.waits import tokens
from qmlir.isa.blocks import Block, Footprint
from qmlir.isa.commands import Host, Mark, Window
from qmlir.isa.encoding import Command


@dataclass
class LayerCount:
    """The counts of a layer, over all stretches between its marks and the next mark.

    cycles    cycles that belong to the layer, of all its stripes
    products  products of its contractions
    busy      of its own cycles, those in which each engine, bus and memory works for it
    asked     cycles in which each engine, bus and memory works for it at any time
    read      bytes read from each memory that has a bandwidth
    written   bytes written to each memory that has a bandwidth
    served    of these bytes, those that occupy the memory; what the host reads and writes does not
    traffic   of the served bytes, those that pass the memory in the layer's own cycles
    """

    name: str
    cycles: int = 0
    products: int = 0
    busy: Sums[str] = field(default_factory=Sums[str])
    asked: Sums[str] = field(default_factory=Sums[str])
    read: Sums[str] = field(default_factory=Sums[str])
    written: Sums[str] = field(default_factory=Sums[str])
    served: Sums[str] = field(default_factory=Sums[str])
    traffic: dict[str, float] = field(default_factory=dict[str, float])

    def used(self, peak: int, cycles: int) -> float:
        """The layer's products as a share of the products that the array could compute in the given cycles."""
        return self.products / (peak * cycles) if cycles else 0.0

    @property
    def bound(self) -> int:
        """Busy cycles of the engine, bus or memory that works longest."""
        return max(self.busy.values(), default=0)

    @property
    def bound_by(self) -> str:
        """The name of the engine, bus or memory that works longest; empty if the layer keeps nothing busy."""
        return max(self.busy, key=lambda name: self.busy[name], default="")


@dataclass(frozen=True)
class Stretch:
    """A stretch of time whose cycles belong to one layer: from cycle `start` to before cycle `end`."""

    layer: str
    start: int
    end: int


@dataclass(frozen=True)
class Report:
    """The cost of a run.

    cycles     cycles until the last command ended
    least      busy cycles of the busiest resource, if nothing ever waited; the array is idle while the host computes
    peak       products that the array can compute in a cycle
    layers     the counts of each layer
    stretches  all cycles, divided among the layers; a layer has several stretches if its stripes alternate with others
    """

    cycles: int
    least: int
    peak: int
    layers: Sequence[LayerCount]
    stretches: Sequence[Stretch] = ()

    @property
    def products(self) -> int:
        """Products of all contractions; rows that two stripes compute count twice."""
        return sum(layer.products for layer in self.layers)

    @property
    def utilization(self) -> float:
        """Products as a share of the products that the array could have computed in that time."""
        return self.products / (self.peak * self.cycles) if self.cycles else 0.0

    @property
    def bound(self) -> float:
        """The utilization if nothing ever waited; the busiest resource of the whole program sets it."""
        return self.products / (self.peak * self.least) if self.least else 0.0


@dataclass(frozen=True)
class _Work:
    """The work of a command.

    busy    the resources that work for it, and when
    served  bytes that it reads from and writes to each memory that it occupies
    """

    busy: Mapping[str, Sequence[Interval]]
    served: Sums[str]


@dataclass
class _Section:
    """The commands from one mark to the next.

    begins   when the array, or the host, begins to work for the section; None if neither does
    ends     when the last of its commands, and every command before, has ended
    work     the work of its commands
    """

    layer: LayerCount
    begins: int | None = None
    ends: int = 0
    work: list[_Work] = field(default_factory=list[_Work])


class Counter:
    """Counts the cost of a program, command by command.

    timeline   the time of the commands counted so far
    """

    def __init__(self, device: Device, program: Program):
        self._device, self._names = device, program.layers
        self.timeline = Timeline(device, tokens(program.commands, device))
        self._layers = {"": LayerCount("")}
        self._sections = [_Section(self._layers[""])]

    def count(self, command: Command, touched: Footprint) -> Interval:
        """Adds the next command with its footprint; returns when it was busy."""
        if isinstance(command, Mark):
            name = self._names[command.layer] if command.layer < len(self._names) else str(command.layer)
            self._sections.append(_Section(self._layers.setdefault(name, LayerCount(name))))
        section = self._sections[-1]
        interval = self.timeline.add(command, touched)
        section.ends, layer = self.timeline.now, section.layer
        if isinstance(command, Window | Host) and section.begins is None:
            section.begins = interval.start
        layer.products += products(command)
        layer.asked += _cycles(self.timeline.busy, 0, self.timeline.now)
        read, written = (self._moved(blocks) for blocks in (touched.reads, touched.writes))
        layer.read += read
        layer.written += written
        served = Sums({name: size for name, size in (read + written).items() if self.timeline.busy.get(name)})
        layer.served += served
        section.work.append(_Work(self.timeline.busy, served))
        return interval

    @property
    def layer(self) -> str:
        """The layer of the last command."""
        return self._sections[-1].layer.name

    def _moved(self, blocks: Iterable[Block]) -> Sums[str]:
        """The bytes of blocks in each memory that has a bandwidth."""
        found = Sums[str]()
        for block in blocks:
            memory = self._device.memory[block.place.memory]
            if memory.bytes_per_cycle is not None:
                found[memory.id] += block.bytes
        return found

    def report(self) -> Report:
        """The report of the commands counted so far; it may be asked for once."""
        end, stretches = self.timeline.now, list[Stretch]()
        for number in reversed(range(len(self._sections))):
            section = self._sections[number]
            before = self._sections[number - 1].ends if number else 0
            begin = min(before, end if section.begins is None else section.begins)
            _attribute(section, begin, end)
            if begin < end:
                stretches.append(Stretch(section.layer.name, begin, end))
            end = begin
        counted = [layer for layer in self._layers.values() if layer.cycles or any(layer.asked.values())]
        asked = sum((layer.asked for layer in counted), Sums[str]())
        array = next(queue for queue in self._device.queue if queue.engine == "array")
        asked[array.id] += asked[HOST]  # host calls are commands of the array's queue
        least = max(asked.values(), default=0)
        return Report(self.timeline.now, least, self._device.peak_macs, counted, stretches[::-1])


def _attribute(section: _Section, begin: int, end: int) -> None:
    """Adds the cycles from `begin` to `end`, and the resources that are busy in them, to the section's layer."""
    layer = section.layer
    layer.cycles += end - begin
    for work in section.work:
        busy = _cycles(work.busy, begin, end)
        layer.busy += busy
        for memory, served in work.served.items():
            if busy[memory]:
                whole = sum(time.end - time.start for time in work.busy[memory])
                layer.traffic[memory] = layer.traffic.get(memory, 0.0) + served * busy[memory] / whole


def _cycles(busy: Mapping[str, Sequence[Interval]], begin: int, end: int) -> Sums[str]:
    """How many of the cycles from `begin` to `end` each resource is busy; idle resources are left out."""
    return +Sums(
        {
            name: sum(min(t.end, end) - max(t.start, begin) for t in times if t.end > begin and t.start < end)
            for name, times in busy.items()
        }
    )


# ---------------------------------------------------------------------------------------------------------------
# Predicts how long a program takes from its commands alone; nothing is executed.


def predicted(program: Program, device: Device) -> Report:
    """The predicted cost of a run, layer by layer."""
    counter = Counter(device, program)
    for command, touched in touching(program, device):
        counter.count(command, touched)
    return counter.report()


def predicted_cycles(program: Program, device: Device) -> int:
    """Cycles until the last command ends."""
    timeline = Timeline(device, tokens(program.commands, device))
    for command, touched in touching(program, device):
        timeline.add(command, touched)
    return timeline.now


def touching(program: Program, device: Device) -> Iterator[tuple[Command, Footprint]]:
    """Yields each command with its footprint."""
    found = accesses_of(program.commands, device, [routine.footprint for routine in program.routines])
    return ((command, accesses.footprint) for command, accesses in zip(program.commands, found, strict=True))
