"""The timeline of a run: when each command worked, on which engine, what it waited for, and the bytes in use.

Times do not depend on data, so that the timeline follows from the commands alone, as the predicted report does; both
come from the same counter (report.py).
"""

from collections import Counter as Sums
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from qmlir.backends.npu.occupancy import Usage, occupancy
from qmlir.backends.npu.report import Counter, Report, Stretch, touching
from qmlir.backends.npu.stream import Program
from qmlir.devices import Device
from qmlir.devices.model.costs import products
from qmlir.devices.model.timeline import FOLLOWING, HOST, Interval, Start
from qmlir.isa.blocks import Block
from qmlir.isa.commands import Host
from qmlir.isa.encoding import Command


@dataclass(frozen=True)
class Span:
    """A command in time.

    number    its number in the program
    command   the command
    count     its number among the commands of its queue, from 1 on
    track     the engine that it occupies: the name of its queue, of what follows the array there, or the host
    layer     the layer that it works for
    start     the cycle at which it begins, behind its setup
    end       the cycle at which it has ended; a queue ends its commands in order
    engine    the name under which reports count its engine: that of the bus, for a queue that shares one
    busy      cycles of its engine
    began     how it came to begin: when its engine was free, its setup, and what it waited for
    products  products that it computes
    read      bytes that it reads from each memory
    written   bytes that it writes to each memory
    """

    number: int
    command: Command
    count: int
    track: str
    layer: str
    start: int
    end: int
    engine: str
    busy: int
    began: Start
    products: int
    read: Mapping[str, int]
    written: Mapping[str, int]


@dataclass(frozen=True)
class Trace:
    """The timeline of a run.

    device    the device
    tracks    the engines, in the order of the device file; the host last
    spans     every command, in the order of the program
    usage     the name of a memory → how many of its bytes are in use over time
    report    the cost of the run
    routines  the names of the host's routines
    """

    device: Device
    tracks: Sequence[str]
    spans: Sequence[Span]
    usage: Mapping[str, Usage]
    report: Report
    routines: Sequence[str]

    @property
    def cycles(self) -> int:
        """Cycles until the last command ended."""
        return self.report.cycles

    @property
    def layers(self) -> Sequence[Stretch]:
        """All cycles, divided among the layers."""
        return self.report.stretches


def traced(program: Program, device: Device) -> Trace:
    """Returns the timeline of a program's run."""
    counter, counts = Counter(device, program), Sums[int]()
    spans: list[Span] = []
    commands = list(touching(program, device))
    for number, (command, touched) in enumerate(commands):
        time, timeline = counter.count(command, touched), counter.timeline
        counts[command.queue] += 1
        engine, worked = next(iter(timeline.busy.items()))
        spans.append(
            Span(
                number, command, counts[command.queue], _track(command, device), counter.layer, time.start, time.end,
                engine, sum(t.end - t.start for t in worked), timeline.start, products(command),
                _bytes(touched.reads, device), _bytes(touched.writes, device),
            )
        )  # fmt: skip
    times = [Interval(span.start, span.end) for span in spans]
    usage = occupancy(program, device, [touched for _, touched in commands], times)
    used = {span.track for span in spans}
    tracks = [name for queue in device.queue for name in (queue.id, _after(queue.id))]
    names = [name for name in (*tracks, HOST) if name in used]
    return Trace(device, names, spans, usage, counter.report(), [routine.name for routine in program.routines])


def _track(command: Command, device: Device) -> str:
    """The track of a command; what follows a contraction on a pipelined queue overlaps with it, and has its own."""
    if isinstance(command, Host):
        return HOST
    queue = device.queue[command.queue]
    return _after(queue.id) if queue.pipelined and isinstance(command, FOLLOWING) else queue.id


def _after(queue: str) -> str:
    return f"{queue}, after the array"


def _bytes(blocks: Iterable[Block], device: Device) -> dict[str, int]:
    """The bytes of blocks by the name of their memory."""
    found: dict[str, int] = {}
    for block in blocks:
        name = device.memory[block.place.memory].id
        found[name] = found.get(name, 0) + block.bytes
    return found
