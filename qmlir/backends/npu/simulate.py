"""Executes a program as the device would: bit for bit, cycle for cycle, and stopping where hardware would go wrong.

Program order is a valid serial schedule, so the commands' effects are computed in it. What the queues would overlap is
checked beside it: from the waits follows what each command knows to be finished when it starts, and one that touches
what an earlier command, not known to be finished, may still be reading or writing is a race.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.assembly import disassemble
from qmlir.backends.npu.execute import Machine, execute
from qmlir.backends.npu.memories import Memories
from qmlir.backends.npu.stream import Port, Program
from qmlir.device import Device
from qmlir.device.blocks import Fault, Footprint
from qmlir.device.costs import products
from qmlir.device.footprints import footprint
from qmlir.device.timeline import Timeline
from qmlir.isa.commands import End, Host, Mark, Sync
from qmlir.isa.encoding import Command

Array = npt.NDArray[np.generic]
Function = Callable[..., Sequence[Array]]
"""What the host runs: arrays to arrays, as the ports of its routine say."""


@dataclass
class LayerCount:
    """What was counted between one mark and the next.

    cycles    from the end of what came before to the end of its last command
    products  of its contractions
    """

    name: str
    cycles: int = 0
    products: int = 0


@dataclass
class Report:
    """What a run cost.

    cycles       until the last command ended
    utilization  products, of those the array could have computed in that time
    """

    cycles: int
    products: int
    utilization: float
    layers: list[LayerCount] = field(default_factory=list[LayerCount])


class Simulator:
    """A device with a program: call it with the network's inputs."""

    def __init__(self, program: Program, device: Device, routines: Mapping[str, Function] | None = None):
        """Takes a program.

        Args:
            program: The program.
            device: The device.
            routines: The functions that the host runs for it, by name.

        Raises:
            StreamError: The program was made for another device.
        """
        program.require(device)
        self.program, self.device, self.routines = program, device, dict(routines or {})
        self.report: Report | None = None

    def run(self, *inputs: Array) -> list[Array]:
        """The outputs, and in `report` what they cost.

        Raises:
            Fault: A command did what it must not; names it, and what it should have waited for.
        """
        memories = Memories(self.device)
        for segment in self.program.segments:
            memories.load(segment.place, segment.data)
        if len(inputs) != len(self.program.inputs):
            raise Fault(f"the program must be given {len(self.program.inputs)} inputs", got=str(len(inputs)))
        for port, array in zip(self.program.inputs, inputs, strict=True):
            memories.load(port.place, _stored(port, array, "input"))
        self.report = self._execute(memories)
        return [_loaded(port, memories) for port in self.program.outputs]

    def _execute(self, memories: Memories) -> Report:
        machine, timeline, order = Machine(self.device, memories, {}), Timeline(self.device), _Order(self.device)
        layers = [LayerCount("")]
        began = 0
        for number, command in enumerate(self.program.commands):
            try:
                timeline.add(command, self._step(number, command, machine, order))
            except Fault as fault:
                raise self._located(fault, number, command) from None
            if isinstance(command, Mark):
                layers[-1].cycles, began = timeline.now - began, timeline.now
                layers.append(LayerCount(self._layer(command)))
            layers[-1].products += products(command)
        layers[-1].cycles = timeline.now - began
        total = sum(layer.products for layer in layers)
        peak = self.device.peak_macs * timeline.now
        counted = [layer for layer in layers if layer.cycles or layer.products]
        return Report(timeline.now, total, total / peak if peak else 0.0, counted)

    def _step(self, number: int, command: Command, machine: Machine, order: "_Order") -> Footprint:
        """Executes a command; returns what it touched."""
        if command.queue >= len(self.device.queue):
            raise Fault("must be for a queue of the device", got=f"queue {command.queue} of {len(self.device.queue)}")
        order.issue(command)
        touched = footprint(command, self.device, machine.contexts, [r.footprint for r in self.program.routines])
        for other in machine.memories.touch(number, command.queue, touched.reads, touched.writes):
            order.require_finished(other, number)
        if isinstance(command, Host):
            self._call(command, machine.memories)
        else:
            execute(command, machine)
        return touched

    def _call(self, command: Host, memories: Memories) -> None:
        routine = self.program.routines[command.routine]
        if routine.name not in self.routines:
            raise Fault("must call a routine that the host has", got=routine.name)
        results = self.routines[routine.name](*(_loaded(port, memories) for port in routine.inputs))
        if len(results) != len(routine.outputs):
            raise Fault(f"routine {routine.name} must have {len(routine.outputs)} results", got=str(len(results)))
        for port, array in zip(routine.outputs, results, strict=True):
            memories.write(port.block, np.frombuffer(_stored(port, array, "result"), np.uint8).reshape(1, 1, -1))

    def _layer(self, command: Mark) -> str:
        layers = self.program.layers
        return layers[command.layer] if command.layer < len(layers) else str(command.layer)

    def _located(self, fault: Fault, number: int, command: Command) -> Fault:
        known = command.queue < len(self.device.queue)
        text = disassemble([command], self.device).strip() if known else type(command).__name__
        return Fault(fault.need, where=f"command {number}, {text}", got=fault.got, remedy=fault.remedy)


class _Order:
    """What each command knows to be finished when it starts: for each queue, how many of its commands."""

    def __init__(self, device: Device):
        self.device = device
        self.issued = np.zeros(len(device.queue), np.int64)
        self.place: list[tuple[int, int]] = []
        self.known: list[npt.NDArray[np.int64]] = []
        self.by_queue: list[list[int]] = [[] for _ in device.queue]

    def issue(self, command: Command) -> None:
        """Takes the next command of the program."""
        known = np.zeros_like(self.issued)
        if mine := self.by_queue[command.queue]:
            known = self.known[mine[-1]].copy()
        known[command.queue] = self.issued[command.queue]
        for wait in command.waits:
            if wait.queue >= len(self.issued) or wait.finished > self.issued[wait.queue]:
                raise Fault("must wait for an earlier command", got=f"one for {wait.finished} of queue {wait.queue}")
            if wait.finished:
                known = np.maximum(known, self.known[self.by_queue[wait.queue][wait.finished - 1]])
                known[wait.queue] = max(known[wait.queue], wait.finished)
        if isinstance(command, End) or (isinstance(command, Sync) and command.barrier):
            known = self.issued.copy()
        self.by_queue[command.queue].append(len(self.known))
        self.known.append(known)
        self.issued[command.queue] += 1
        self.place.append((command.queue, int(self.issued[command.queue])))

    def require_finished(self, other: int, number: int) -> None:
        """Raises Fault unless the command `number` knows that `other` is finished when it starts."""
        queue, count = self.place[other]
        if self.known[number][queue] < count:
            name = self.device.queue[queue].id
            raise Fault(
                f"must wait for command {other}, number {count} of queue {name}, which touches the same bytes",
                got=f"a wait for {self.known[number][queue]} of it",
            )


def _stored(port: Port, array: Array, what: str) -> bytes:
    if array.shape != port.shape or array.dtype != port.dtype:
        got = f"{array.dtype}{list(array.shape)}"
        raise Fault(f'{what} "{port.name}" must be {port.dtype.name}{list(port.shape)}', got=got)
    return np.ascontiguousarray(array).tobytes()


def _loaded(port: Port, memories: Memories) -> Array:
    return memories.read(port.block).reshape(-1).view(port.dtype).reshape(port.shape)
