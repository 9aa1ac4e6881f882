"""Executes a program as the device would: bit for bit, cycle for cycle, and stopping where hardware would go wrong.

Program order is a valid serial schedule, so the commands' effects are computed in it. That queues which overlap give
the same is checked once, before anything is executed (races.py).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.execute import Machine, execute
from qmlir.backends.npu.memories import Memories
from qmlir.backends.npu.races import checked, located
from qmlir.backends.npu.report import Counter, Report
from qmlir.backends.npu.stream import Port, Program
from qmlir.device import Device
from qmlir.device.blocks import Fault
from qmlir.isa.commands import Host

Array = npt.NDArray[np.generic]
Function = Callable[..., Sequence[Array]]
"""What the host runs: arrays to arrays, as the ports of its routine say."""


class Simulator:
    """A device with a program: call it with the network's inputs.

    report   what the last run cost, one network's inputs alone
    """

    def __init__(self, program: Program, device: Device, routines: Mapping[str, Function] | None = None):
        """Takes a program.

        Args:
            program: The program.
            device: The device.
            routines: The functions that the host runs for it, by name.

        Raises:
            StreamError: The program was made for another device.
            Fault: Its queues race, or a command cannot be executed; names it, and what it should have waited for.
        """
        program.require(device)
        self.program, self.device, self.routines = program, device, dict(routines or {})
        self.report: Report | None = None
        self._touched = checked(program, device)

    def run(self, *inputs: Array) -> list[Array]:
        """The outputs, and in `report` what they cost.

        Raises:
            Fault: A command did what it must not; names it.
        """
        return self.run_all([inputs])[0]

    def run_all(self, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The outputs for the inputs of several runs of the network, one after the other as far as the device goes.

        Raises:
            Fault: A command did what it must not; names it.
        """
        program = self.program
        ports = [port.block for port in (*program.inputs, *program.outputs)]
        blocks = [block for touched in self._touched for block in (*touched.reads, *touched.writes)]
        segments = [segment.block for segment in program.segments]
        memories = Memories(self.device, [*ports, *segments, *blocks], len(samples))
        for segment in program.segments:
            memories.load(segment.block, segment.data)
        for network, inputs in enumerate(samples):
            if len(inputs) != len(program.inputs):
                raise Fault(f"the program must be given {len(program.inputs)} inputs", got=str(len(inputs)))
            for port, array in zip(program.inputs, inputs, strict=True):
                memories.load(port.block, _stored(port, array, "input"), network)
        self._execute(memories)
        results = [_loaded(port, memories) for port in program.outputs]
        return [[result[network, ...] for result in results] for network in range(len(samples))]

    def _execute(self, memories: Memories) -> None:
        machine, counter = Machine(self.device, memories, {}), Counter(self.device, self.program)
        for number, (command, touched) in enumerate(zip(self.program.commands, self._touched, strict=True)):
            try:
                if isinstance(command, Host):
                    self._call(command, memories)
                else:
                    execute(command, machine)
            except Fault as fault:
                raise located(fault, number, command, self.device) from None
            if self.report is None:
                counter.count(command, touched)
        self.report = self.report or counter.report()

    def _call(self, command: Host, memories: Memories) -> None:
        routine = self.program.routines[command.routine]
        if routine.name not in self.routines:
            raise Fault("must call a routine that the host has", got=routine.name)
        inputs = [_loaded(port, memories) for port in routine.inputs]
        networks: list[list[bytes]] = []
        for network in range(memories.networks):
            results = self.routines[routine.name](*(array[network, ...] for array in inputs))
            if len(results) != len(routine.outputs):
                raise Fault(f"routine {routine.name} must have {len(routine.outputs)} results", got=str(len(results)))
            networks.append([_stored(p, a, "result") for p, a in zip(routine.outputs, results, strict=True)])
        for place, port in enumerate(routine.outputs):
            stored = np.frombuffer(b"".join(results[place] for results in networks), np.uint8)
            memories.write(port.block, stored.reshape(memories.networks, 1, 1, port.block.size))


def _stored(port: Port, array: Array, what: str) -> bytes:
    if array.shape != port.shape or array.dtype != port.dtype:
        got = f"{array.dtype}{list(array.shape)}"
        raise Fault(f'{what} "{port.name}" must be {port.dtype.name}{list(port.shape)}', got=got)
    return np.ascontiguousarray(array).tobytes()


def _loaded(port: Port, memories: Memories) -> Array:
    """A tensor of each network, stacked."""
    return memories.read(port.block).reshape(-1).view(port.dtype).reshape(memories.networks, *port.shape)
