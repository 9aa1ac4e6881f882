"""Runs the queues of a program in every order that its waits allow, to find races and deadlocks.

This is an independent check of races.py, which derives what each command knows from counters: here nothing is derived.
Queues start and finish their commands one by one. Counters, tokens in FIFOs, links of descriptors or compared addresses
decide which queues may continue. Either the next of these queues is drawn at random, or a single command is held back
until no other command can continue. A queue that may continue stays able to, whatever the other queues do. A program is
therefore safe in every order if it is safe whichever command is held back.
"""

import abc
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from qmlir.backends.npu.accesses import accesses_of
from qmlir.backends.npu.races import located
from qmlir.backends.npu.runs import runs_of
from qmlir.backends.npu.stream import Program
from qmlir.devices import Device
from qmlir.devices.model.waits import Descriptor, Tokens, descriptors, tokens
from qmlir.isa.blocks import Block, Fault
from qmlir.isa.commands import waits_for_all
from qmlir.isa.encoding import Command


class Rules(abc.ABC):
    """The synchronisation rules of a device: when a command may start and finish.

    Commands are identified by their numbers in the program.
    """

    @abc.abstractmethod
    def may_start(self, number: int) -> bool: ...

    def may_finish(self, number: int) -> bool:
        return True

    def start(self, number: int) -> None:
        """Nothing happens, unless the device counts what starts."""

    @abc.abstractmethod
    def finish(self, number: int) -> None: ...


class Counters(Rules):
    """Rules of watermark and barrier devices: each queue counts its finished commands, and all queues see the count."""

    def __init__(self, commands: Sequence[Command]):
        self._commands = commands
        self._finished: Counter[int] = Counter()
        self._done, self._all_until = set[int](), 0

    def may_start(self, number: int) -> bool:
        command = self._commands[number]
        if waits_for_all(command) and self._all_until < number:
            return False
        return all(self._finished[wait.queue] >= wait.finished for wait in command.waits)

    def finish(self, number: int) -> None:
        self._finished[self._commands[number].queue] += 1
        self._done.add(number)
        while self._all_until in self._done:
            self._all_until += 1


class Interlock(Counters):
    """Rules of interlocked devices: counters, and a command also waits for earlier users of its compared addresses."""

    def __init__(self, commands: Sequence[Command], before: Sequence[set[int]]):
        super().__init__(commands)
        self._before = before

    def may_start(self, number: int) -> bool:
        return super().may_start(number) and self._before[number] <= self._done


class Fifos(Rules):
    """Rules of token devices: a queue pops tokens before a command starts, and pushes tokens when it is done.

    A command cannot finish while a FIFO that it pushes into is full.
    """

    def __init__(self, commands: Sequence[Command], given: Sequence[Tokens], most: int):
        self._queues = [command.queue for command in commands]
        self._given, self._most = given, most
        self._held: Counter[tuple[int, int]] = Counter()

    def may_start(self, number: int) -> bool:
        return all(self._held[other, self._queues[number]] for other in self._given[number].pops)

    def may_finish(self, number: int) -> bool:
        return all(self._held[self._queues[number], other] < self._most for other in self._given[number].pushes)

    def start(self, number: int) -> None:
        for other in self._given[number].pops:
            self._held[other, self._queues[number]] -= 1

    def finish(self, number: int) -> None:
        for other in self._given[number].pushes:
            self._held[self._queues[number], other] += 1


class Links(Rules):
    """Rules of descriptor devices: a command starts when its counter has reached 0.

    Each command that finishes decrements the counters of its consumers.
    """

    def __init__(self, commands: Sequence[Command], given: Sequence[Descriptor]):
        self._everything = Counters([replace(command, waits=()) for command in commands])
        self._given, self._left = given, [descriptor.count for descriptor in given]

    def may_start(self, number: int) -> bool:
        return self._left[number] <= 0 and self._everything.may_start(number)

    def finish(self, number: int) -> None:
        self._everything.finish(number)
        for consumer in self._given[number].consumers:
            self._left[consumer] -= 1


def rules_of(program: Program, device: Device) -> Rules:
    """The synchronisation rules of a device, for one run of a program."""
    commands = program.commands
    match device.sync.kind:
        case "tokens":
            return Fifos(commands, tokens(commands, device), device.sync.tokens)
        case "interlock":
            compared = device.sync.compared([memory.id for memory in device.memory])
            return Interlock(commands, _before(program, device, compared))
        case "descriptor":
            return Links(commands, descriptors(commands, device))
        case "watermark" | "barrier":
            return Counters(commands)


class Adversary:
    """A program whose queues advance in arbitrary order."""

    def __init__(self, program: Program, device: Device, rules: Callable[[], Rules] | None = None):
        """Prepares a program.

        Args:
            program: The program.
            device: The device.
            rules: Makes the rules of a run; by default, the device's rules.
        """
        self._commands, self._device = program.commands, device
        self._rules = rules or (lambda: rules_of(program, device))
        self._before = _before(program, device, range(len(device.memory)))
        self._queues: list[list[int]] = [[] for _ in device.queue]
        for number, command in enumerate(program.commands):
            self._queues[command.queue].append(number)

    def run(self, rng: np.random.Generator | None = None, held: int | None = None) -> None:
        """Runs the program once.

        Args:
            rng: Draws the queue that advances; without it, the last queue that can advance does.
            held: Number of a command that finishes only when no other queue can advance.

        Raises:
            Fault: A command starts while an earlier command that touches the same bytes, or that must be done first, is
                unfinished; or all queues wait for each other.
        """
        rules = self._rules()
        at, running = [0] * len(self._queues), dict[int, int]()
        finished = np.zeros(len(self._commands), np.bool_)
        for _ in range(2 * len(self._commands)):
            able = [queue for queue in range(len(at)) if self._able(queue, at, running, rules)]
            if len(able) > 1 and held in running.values():
                able = [queue for queue in able if running.get(queue) != held]
            if not able:
                raise self._hang(at, running)
            queue = able[-1] if rng is None else able[int(rng.integers(len(able)))]
            if queue in running:
                rules.finish(number := running.pop(queue))
                finished[number] = True
            else:
                number = running[queue] = self._queues[queue][at[queue]]
                at[queue] += 1
                self._require(number, finished)
                rules.start(number)

    def _able(self, queue: int, at: Sequence[int], running: dict[int, int], rules: Rules) -> bool:
        if queue in running:
            return rules.may_finish(running[queue])
        if at[queue] == len(self._queues[queue]):
            return False
        return self._is_given(queue, at, running) and rules.may_start(self._queues[queue][at[queue]])

    def _is_given(self, queue: int, at: Sequence[int], running: dict[int, int]) -> bool:
        """Whether a queue has received its next command: no queue in front of it in the program is full."""
        number, depth = self._queues[queue][at[queue]], self._device.sync.depth
        for other, mine in enumerate(self._queues):
            behind = at[other] - (other in running) + depth
            if other != queue and behind < len(mine) and mine[behind] < number:
                return False
        return True

    def _require(self, number: int, finished: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        for other in self._before[number]:
            if not finished[other]:
                fault = Fault("must start after what touches the same bytes, or must be done", got=self._name(other))
                raise located(fault, number, self._commands[number], self._device)

    def _hang(self, at: Sequence[int], running: dict[int, int]) -> Fault:
        waiting = [running.get(q, mine[at[q]] if at[q] < len(mine) else None) for q, mine in enumerate(self._queues)]
        names = [self._name(number) for number in waiting if number is not None]
        return Fault("some queue must be able to go on", got=f"all wait: {', '.join(names)}")

    def _name(self, number: int) -> str:
        command = self._commands[number]
        return f"command {number} of queue {self._device.queue[command.queue].id}"


def _before(program: Program, device: Device, memories: Collection[int]) -> list[set[int]]:
    """For each command, the earlier commands that must be finished when it starts; transitive ones are left out.

    Args:
        program: The program.
        device: The device.
        memories: Numbers of the memories in which commands that touch the same bytes count.
    """

    def counts(block: Block) -> bool:
        return block.place.memory in memories and not block.empty

    routines = [routine.footprint for routine in program.routines]
    touched = [each.footprint for each in accesses_of(program.commands, device, routines)]
    blocks = [block for each in touched for block in (*each.reads, *each.writes) if counts(block)]
    edges = [
        np.unique(np.concatenate([[0], *(runs_of(b).reshape(-1) for b in blocks if b.place.memory == memory)]))
        for memory in range(len(device.memory))
    ]
    writer = [np.full(len(each), -1) for each in edges]
    readers: list[list[set[int]]] = [[set[int]() for _ in each] for each in edges]

    def pieces(block: Block) -> list[tuple[int, int]]:
        memory = block.place.memory
        spans = np.searchsorted(edges[memory], runs_of(block))
        return [(memory, piece) for first, end in spans for piece in range(first, end)]

    found: list[set[int]] = []
    for number, (command, each) in enumerate(zip(program.commands, touched, strict=True)):
        reads, writes = (
            [piece for block in blocks if counts(block) for piece in pieces(block)]
            for blocks in (each.reads, each.writes)
        )
        before = {int(writer[memory][piece]) for memory, piece in (*reads, *writes)}
        before |= {reader for memory, piece in writes for reader in readers[memory][piece]}
        found.append(set(range(number)) if waits_for_all(command) else before - {-1})
        for memory, piece in reads:
            readers[memory][piece].add(number)
        for memory, piece in writes:
            writer[memory][piece] = number
            readers[memory][piece] = set()
    return found
