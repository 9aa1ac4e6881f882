"""When each command starts and ends, in cycles: queues in order, waits, shared buses.

A command begins when its queue is free and what it waits for is done. First comes its setup, which a queue with
several commands outstanding hides behind the one before; then it is busy for as long as costs.py says, alone on its
bus.
"""

from dataclasses import dataclass, field

from qmlir.device import Device
from qmlir.device.costs import busy_cycles
from qmlir.isa.commands import End, Sync
from qmlir.isa.encoding import Command


@dataclass(frozen=True)
class Interval:
    """When a command was busy, in cycles from the start of the program."""

    start: int
    end: int


@dataclass
class Timeline:
    """The time of a device.

    finished   for each queue, when each of its commands ended
    """

    device: Device
    finished: list[list[int]] = field(init=False)
    _buses: dict[str, int] = field(init=False, default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.finished = [[] for _ in self.device.queue]

    @property
    def now(self) -> int:
        """When the last command so far ended."""
        return max((ends[-1] for ends in self.finished if ends), default=0)

    def add(self, command: Command) -> Interval:
        """Lets a command run, after all that were added before."""
        queue = self.device.queue[command.queue]
        ends = self.finished[command.queue]
        free = ends[-1] if ends else 0
        ready = max(
            (self.finished[wait.queue][wait.finished - 1] for wait in command.waits if wait.finished), default=0
        )
        if isinstance(command, End) or (isinstance(command, Sync) and command.barrier):
            ready = max(ready, self.now)
        busy = busy_cycles(command, self.device)
        setup = queue.setup if busy else 0
        start = max(free, ready + setup) if queue.outstanding > 1 else max(free, ready) + setup
        bus = queue.shares_bus_with or queue.id
        if queue.engine == "dma" and busy:
            start = max(start, self._buses.get(bus, 0))
            self._buses[bus] = start + busy
        ends.append(start + busy)
        return Interval(start, start + busy)
