"""When each command starts and ends, in cycles: the device's timing model.

Commands are issued in program order; a command is issued as soon as its queue holds fewer than `sync.depth` commands.
A command begins when its queue is free and the commands that it waits for are done. First comes its setup, which a
queue with several outstanding commands hides behind the commands before it. Then the command is busy for the cycles
that costs.py computes. Buses and memories serve one command at a time, earlier commands of the program first; later
commands take the time that is left between them. On a pipelined queue, a command that follows a contraction begins
with the contraction and ends, at the earliest, with it. A command that pushes a token ends, at the earliest, when the
FIFO has room, that is, when the token that makes the room was popped. An interlock holds a command until the commands
that touch the same addresses are done.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from qmlir.devices import Device
from qmlir.devices.model.costs import Demand, demand
from qmlir.devices.model.waits import Hazards, Tokens
from qmlir.isa.blocks import Footprint
from qmlir.isa.commands import Arithmetic, Host, Pool, Post, Reduce, Window, waits_for_all
from qmlir.isa.encoding import Command


@dataclass(frozen=True)
class Interval:
    """When a command was busy, in cycles from the start of the program."""

    start: int
    end: int


class Cause(NamedTuple):
    """What a command had to wait for before its setup.

    time   when it was there
    kind   `waits` of the command, a `barrier`, an `interlock` of addresses, `depth` (room in a queue of the device), or
           `outstanding` (commands of the same queue whose setup may overlap); empty if there was nothing to wait for
    queue  the queue of the command that had to end
    ended  how many commands of that queue had ended then
    """

    time: int = 0
    kind: str = ""
    queue: int = 0
    ended: int = 0


class Start(NamedTuple):
    """How a command came to begin.

    free   when its engine was free of the commands before
    setup  cycles of its setup, which may lie before `free`
    cause  the last thing that it waited for
    """

    free: int
    setup: int
    cause: Cause


@dataclass
class Server:
    """A resource that serves one command at a time, as sorted busy intervals that do not touch each other.

    starts   start of each interval
    ends     end of each interval
    served   when the resource served the last command
    """

    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])
    served: list[Interval] = field(default_factory=list[Interval])

    def serve(self, start: int, cycles: int) -> int:
        """Reserves the first `cycles` free cycles from `start` on; returns when the last of them ends."""
        self.served = []
        if not cycles:
            return start
        first = bisect_right(self.ends, start - 1)
        last, time, begin = first, start, start
        while last < len(self.starts) and self.starts[last] < time + cycles:
            begin = min(begin, self.starts[last])
            if self.starts[last] > time:
                self.served.append(Interval(time, self.starts[last]))
                cycles -= self.starts[last] - time
            time = max(time, self.ends[last])
            last += 1
        served = end = time + cycles
        self.served.append(Interval(time, served))
        if last < len(self.starts) and self.starts[last] == served:
            end = self.ends[last]
            last += 1
        self.starts[first:last] = [begin]
        self.ends[first:last] = [end]
        return served


@dataclass
class Fifo:
    """The tokens from one queue to another, in program order.

    most     how many tokens the FIFO holds
    pushed   how many tokens were pushed so far
    popped   when each token was popped
    """

    most: int
    pushed: int = 0
    popped: list[int] = field(default_factory=list[int])

    def pop(self, time: int) -> None:
        """Pops the first token at a time."""
        self.popped.append(time)

    def push(self) -> int:
        """Pushes a token; returns when the FIFO has room for it."""
        before, self.pushed = self.pushed - self.most, self.pushed + 1
        return self.popped[before] if before >= 0 else 0


class Timeline:
    """The simulated time of a device, to which commands are added one after the other.

    finished   for each queue, when each of its commands ended
    now        when the last of the commands so far ended
    busy       the resources that the last command kept busy, and when: name of its engine or bus, or of a memory
    start      how the last command came to begin
    """

    def __init__(self, device: Device, tokens: Sequence[Tokens] = ()):
        """The start of a program.

        Args:
            device: The device.
            tokens: The tokens that each added command pops and pushes; if empty, waits alone decide.
        """
        self.device, self.tokens = device, tokens
        self.finished: list[list[int]] = [[] for _ in device.queue]
        self.now = self._added = 0
        self.busy: Mapping[str, Sequence[Interval]] = {}
        self.start = Start(0, 0, NOTHING)
        self._given = NOTHING
        self._fifos: defaultdict[tuple[int, int], Fifo] = defaultdict(lambda: Fifo(device.sync.tokens))
        self._compared = device.sync.compared([memory.id for memory in device.memory])
        self._hazards = Hazards(device) if self._compared else None
        servers = {queue.id: Server() for queue in device.queue}
        self._names = [device.bus_of(queue) for queue in device.queue]
        self._buses = [servers[name] for name in self._names]
        self._memories = [Server() for _ in device.memory]
        self._pipelines: dict[int, int] = {}

    def add(self, command: Command, touched: Footprint) -> Interval:
        """Runs a command after all commands that were added before; returns when it was busy.

        Args:
            command: The command.
            touched: The command's footprint.
        """
        queue, ends = self.device.queue[command.queue], self.finished[command.queue]
        asked = demand(command, self.device, touched)
        cause = max(self._causes(command, touched), key=lambda cause: cause.time)
        free = self._leaves(command, ends[-1] if ends else 0)
        start = max(free, cause.time + asked.setup)
        self.start = Start(free, asked.setup, cause)
        room = self._room(command.queue, start)
        end = max(self._served(command, start, asked), ends[-1] if ends else 0, room)
        if queue.pipelined and isinstance(command, Window):
            self._pipelines[command.queue] = start
        elif isinstance(command, FOLLOWING) and command.queue in self._pipelines:
            self._pipelines[command.queue] = start + asked.busy
        ends.append(end)
        self.now = max(self.now, end)
        return Interval(start, end)

    def _causes(self, command: Command, touched: Footprint) -> Iterator[Cause]:
        """Yields what a command waits for before its setup."""
        ends, depth = self.finished[command.queue], self.device.sync.depth
        if depth <= len(ends) and ends[-depth] > self._given.time:
            self._given = Cause(ends[-depth], "depth", command.queue, len(ends) - depth + 1)
        yield self._given
        for queue, count in command.waits:
            if count:
                yield Cause(self.finished[queue][count - 1], "waits", queue, count)
        yield self._interlocked(command.queue, touched)
        if waits_for_all(command) and any(self.finished):
            last = max((queue for queue, given in enumerate(self.finished) if given), key=self._ended)
            yield Cause(self.now, "barrier", last, len(self.finished[last]))
        outstanding = 1 if isinstance(command, Host) else self.device.queue[command.queue].outstanding
        if outstanding <= len(ends):
            left = self._leaves(command, ends[-outstanding])
            yield Cause(left, "outstanding", command.queue, len(ends) - outstanding + 1)

    def _ended(self, queue: int) -> int:
        """When the last command of a queue ended, which is given at least one."""
        return self.finished[queue][-1]

    def _interlocked(self, queue: int, touched: Footprint) -> Cause:
        """When other queues are done with the compared addresses that a command touches."""
        if self._hazards is None:
            return NOTHING
        compared = self._hazards.touched(touched).within(self._compared)
        needed = self._hazards.before(compared)
        self._hazards.touch(compared, queue, len(self.finished[queue]) + 1)
        others = [other for other in range(len(self.finished)) if needed[other] and other != queue]
        counts = {other: int(needed[other]) for other in others}
        causes = (Cause(self.finished[other][n - 1], "interlock", other, n) for other, n in counts.items())
        return max(causes, key=lambda cause: cause.time, default=NOTHING)

    def _room(self, queue: int, start: int) -> int:
        """When the FIFOs to which a command pushes tokens have room; the command starts at `start`."""
        own = self.tokens[self._added] if self.tokens else Tokens()
        self._added += 1
        for other in own.pops:
            self._fifos[other, queue].pop(start)
        return max((self._fifos[queue, other].push() for other in own.pushes), default=0)

    def _leaves(self, command: Command, end: int) -> int:
        """When an earlier command of the same queue, which ends at `end`, makes room for a command."""
        if isinstance(command, FOLLOWING):
            return min(end, self._pipelines.get(command.queue, end))
        return end

    def _served(self, command: Command, start: int, asked: Demand) -> int:
        """When a command that starts at `start` has been served by all the resources that it needs."""
        times = [self._memories[memory].serve(start, cycles) for memory, cycles in asked.memories.items()]
        transfers = self.device.queue[command.queue].engine == "dma"
        bus = self._buses[command.queue]
        engine = bus.serve(start, asked.engine) if transfers else start + asked.engine
        self.busy = {
            self._engine(command): bus.served if transfers else [Interval(start, engine)],
            **{self.device.memory[memory].id: self._memories[memory].served for memory in asked.memories},
        }
        return max(engine, *times, start)

    def _engine(self, command: Command) -> str:
        """The name of what a command keeps busy: its queue's bus or engine, the steps after the array, or the host."""
        if isinstance(command, Host):
            return HOST
        name = self._names[command.queue]
        after = self.device.queue[command.queue].pipelined and isinstance(command, FOLLOWING)
        return f"{name}, after the array" if after else name


NOTHING = Cause()
"""The cause of a command that waited for nothing."""

HOST = "the host"
"""The name of the engine of host calls; no queue can have this name."""

FOLLOWING = (Post, Arithmetic, Pool, Reduce)
"""Commands that may overlap with the contraction before them on a pipelined queue."""
