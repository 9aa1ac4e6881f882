"""Token forwarding: replaces waits for queues that are not neighbours, so that all waits can become tokens (waits.py).

A command that depends on a non-neighbouring queue waits through a forwarded token instead: through a command without
effect on a queue between the two. A forwarder normally stands at the position that its queue has reached, judged by
waits alone, when the forwarder can continue at once; there it delays nothing. A forwarder stands one command earlier if
it then delays its own queue less than it would otherwise delay the commands that wait for it, and if the whole program
becomes faster. If a FIFO would have to hold more tokens than it can, a forwarder pops the first token early.

Program order stays a valid serial schedule in which no FIFO overflows. The program therefore cannot deadlock: a
command that pushes into a full FIFO waits for a pop that comes earlier in the program.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qmlir.devices.description.device import Device
from qmlir.devices.model.footprints import footprints
from qmlir.devices.model.timeline import Interval, Timeline
from qmlir.devices.model.waits import Tokens, tokens
from qmlir.isa.blocks import Footprint
from qmlir.isa.commands import Sync, waits_for_all
from qmlir.isa.encoding import MOST_WAITS, Command, Wait

Counts = npt.NDArray[np.int32]


def with_forwarding(commands: Sequence[Command], device: Device, routines: Sequence[Footprint] = ()) -> list[Command]:
    """Rewrites a program so that each command waits for neighbouring queues only, with forwarders where needed.

    Args:
        commands: A valid serial schedule.
        device: The device; if its queues do not synchronise by tokens, the commands stay as they are.
        routines: The footprint of each host routine.
    """
    if device.sync.kind != "tokens":
        return list(commands)

    def times(run: Sequence[Command], given: Sequence[Tokens] = ()) -> list[Interval]:
        timeline = Timeline(device, given)
        return [timeline.add(*each) for each in footprints(run, device, routines)]

    by_waits = times(commands)
    found = [_placed(commands, device, by_waits, early) for early in (False, True)]
    return min(found, key=lambda run: max(time.end for time in times(run, tokens(run, device))))


def _placed(commands: Sequence[Command], device: Device, times: Sequence[Interval], early: bool) -> list[Command]:
    """The commands with forwarders among them; `early` lets a forwarder stand a command earlier if that delays less."""
    numbered = _numbered(_Forwarding(commands, device, times, early).nodes(), device)
    while (popped := _popped_early(numbered, device)) is not None:
        numbered = _numbered(popped, device)
    return [node.command for node in numbered]


@dataclass(eq=False)
class _Node:
    """A command and the nodes that it waits for."""

    command: Command
    after: list["_Node"]

    @property
    def queue(self) -> int:
        return self.command.queue


def _forward(queue: int, after: _Node) -> _Node:
    return _Node(Sync(queue, (), 0, barrier=0), [after])


# ---------------------------------------------------------------------------------------------------------------
# Forwarders between queues that are not neighbours


@dataclass(frozen=True)
class _Place:
    """Where a node stands in the program and when it is done.

    node   the command or forwarder
    at     number of the program's command that the node is, or in front of which it stands
    done   cycle at which it is done
    """

    node: _Node
    at: int
    done: int


class _Forwarding:
    """The commands of a program as nodes, and the forwarders in front of them."""

    def __init__(self, commands: Sequence[Command], device: Device, times: Sequence[Interval], early: bool):
        self._commands, self._early = commands, early
        self._own = [_Node(command, []) for command in commands]
        self._neighbours = device.sync.neighbours([queue.id for queue in device.queue])
        self._starts, self._ends = [time.start for time in times], [time.end for time in times]
        self._places: list[list[int]] = [[] for _ in device.queue]
        for number, command in enumerate(commands):
            self._places[command.queue].append(number)
        self._known: dict[tuple[_Node, int], _Place] = {}
        self._in_front: defaultdict[int, list[_Node]] = defaultdict(list)

    def nodes(self) -> list[_Node]:
        """Commands and forwarders in program order."""
        issued = [0] * len(self._places)
        for number, (command, node) in enumerate(zip(self._commands, self._own, strict=True)):
            waits = enumerate(issued) if waits_for_all(command) else command.waits
            for queue, finished in waits:
                if finished:
                    source = self._places[queue][finished - 1]
                    node.after.append(self._heard_of(source, number))
            issued[command.queue] += 1
        return [node for number, own in enumerate(self._own) for node in (*self._in_front[number], own)]

    def _heard_of(self, source: int, number: int) -> _Node:
        """The node that command `number` waits for in place of command `source`: the command, or the last forwarder."""
        place = _Place(self._own[source], source, self._ends[source])
        for queue in self._between(self._commands[source].queue, self._commands[number].queue):
            place = self._forwarded(place, queue, number)
        return place.node

    def _forwarded(self, place: _Place, queue: int, number: int) -> _Place:
        """A forwarder on a queue that waits for a node; an existing forwarder for the same node is reused."""
        if (place.node, queue) not in self._known:
            mine = self._places[queue]
            first, last = bisect_left(mine, place.at + 1), bisect_left(mine, number)
            ready = bisect_left(mine, place.done, lo=first, hi=last, key=lambda n: self._starts[n])
            if self._early and ready > first:
                late = self._done(place, queue, ready) - self._starts[number]
                held_up = place.done - self._starts[mine[ready - 1]]
                ready -= held_up < late
            at = mine[ready] if ready < last else number
            forward = _Place(_forward(queue, place.node), at, self._done(place, queue, ready))
            self._known[place.node, queue] = forward
            self._in_front[at].append(forward.node)
        return self._known[place.node, queue]

    def _done(self, place: _Place, queue: int, behind: int) -> int:
        """The cycle at which a forwarder is done that waits for a node, behind `behind` commands of its queue."""
        return max(place.done, self._ends[self._places[queue][behind - 1]] if behind else 0)

    def _between(self, source: int, target: int) -> Sequence[int]:
        """The queues on the shortest token path between two queues, without the two queues themselves."""
        ways: dict[int, list[int]] = {source: []}
        waiting = deque([source])
        while target not in ways:
            queue = waiting.popleft()
            for other in sorted(self._neighbours[queue] - ways.keys()):
                ways[other] = [*ways[queue], other]
                waiting.append(other)
        return ways[target][:-1]


# ---------------------------------------------------------------------------------------------------------------
# Numbering of waits


def _numbered(nodes: Sequence[_Node], device: Device) -> list[_Node]:
    """The nodes in order, without waits that other waits imply.

    A command with more waits than the device allows gets forwarders: commands before it that wait in its place.
    """
    numbering = _Numbering(device)
    return [numbered for node in nodes for numbered in numbering.add(node)]


class _Numbering:
    """The nodes numbered so far, and for each node the commands that are known to be done once it is done."""

    def __init__(self, device: Device):
        self._most = min(device.sync.max_waits, MOST_WAITS)
        self._last = [np.zeros(len(device.queue), np.int32) for _ in device.queue]
        self._known: dict[_Node, Counts] = {}
        self._places: dict[_Node, int] = {}

    def add(self, node: _Node) -> Iterator[_Node]:
        """Numbers the next node; yields it, after the forwarders that take over some of its waits."""
        waits: list[_Node] = []
        known = self._last[node.queue].copy()
        for other in sorted(node.after, key=lambda other: self._places[other], reverse=True):
            done = self._known[other]
            if done[other.queue] > known[other.queue]:
                waits.append(other)
                np.maximum(known, done, out=known)
        while len(waits) > self._most:
            split = _Node(Sync(node.queue, (), 0, barrier=0), waits[: self._most])
            yield self._numbered(split, split.after)
            waits = waits[self._most :]
        yield self._numbered(node, waits)

    def _numbered(self, node: _Node, waits: Sequence[_Node]) -> _Node:
        """Sets the waits of a node, and records which commands are done once this node is done."""
        known = self._last[node.queue]
        for other in waits:
            known = np.maximum(known, self._known[other])
        known = known.copy()
        known[node.queue] += 1
        self._known[node] = self._last[node.queue] = known
        self._places[node] = len(self._places)
        counted = tuple(Wait(other.queue, int(self._known[other][other.queue])) for other in waits)
        node.command = replace(node.command, waits=counted)
        node.after = list(waits)
        return node


# ---------------------------------------------------------------------------------------------------------------
# Full FIFOs


def _popped_early(nodes: Sequence[_Node], device: Device) -> list[_Node] | None:
    """The nodes with forwarders that pop tokens before a FIFO overflows; None if no FIFO does."""
    held: defaultdict[tuple[int, int], deque[_Node]] = defaultdict(deque)
    found: list[_Node] = []
    for node, given in zip(nodes, tokens([node.command for node in nodes], device), strict=True):
        for queue in given.pops:
            if held[queue, node.queue] and held[queue, node.queue][0] in node.after:
                held[queue, node.queue].popleft()
        for queue in given.pushes:
            if len(held[node.queue, queue]) == device.sync.tokens:
                found.append(_forward(queue, held[node.queue, queue].popleft()))
            held[node.queue, queue].append(node)
        found.append(node)
    return found if len(found) > len(nodes) else None
