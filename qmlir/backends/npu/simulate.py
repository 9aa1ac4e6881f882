"""The simulator: executes a program bit for bit and cycle for cycle, and stops where the hardware would go wrong.

Program order is a valid serial schedule, so commands are executed in that order. Before anything is executed, races.py
checks once that overlapping queues give the same result.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.execute import Machine, execute
from qmlir.backends.npu.memories import Memories
from qmlir.backends.npu.races import checked, located
from qmlir.backends.npu.report import Counter, Report
from qmlir.backends.npu.stream import Port, Program
from qmlir.devices import Device
from qmlir.devices.blocks import Fault
from qmlir.isa.commands import Host

Array = npt.NDArray[np.generic]
Function = Callable[..., Sequence[Array]]
"""The function of a host routine: arrays to arrays, as the routine's ports describe them."""


class Simulator:
    """A device loaded with a program; `run` takes the network's inputs.

    report   the cost of a run of a single sample, set by the first run
    """

    def __init__(self, program: Program, device: Device, routines: Mapping[str, Function] | None = None):
        """Loads a program.

        Args:
            program: The program.
            device: The device.
            routines: The functions that the host runs for the program, by name.

        Raises:
            StreamError: The program was made for another device.
            Fault: The program's queues race, or a command cannot be executed; the error names the command, and what it
                should have waited for.
        """
        program.require(device)
        self.program, self.device, self.routines = program, device, dict(routines or {})
        self.report: Report | None = None
        self._touched = checked(program, device)

    def run(self, *inputs: Array) -> list[Array]:
        """Runs the network on one sample and returns its outputs; the cost is in `report`.

        Raises:
            Fault: A command did something that the device forbids; the error names the command.
        """
        return self.run_all([inputs])[0]

    def run_all(self, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Runs the network on several samples in one pass over the commands; returns the outputs of each sample.

        Raises:
            Fault: A command did something that the device forbids; the error names the command.
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
    """Reads the tensor of a port for all networks, stacked along the first axis."""
    return memories.read(port.block).reshape(-1).view(port.dtype).reshape(memories.networks, *port.shape)
