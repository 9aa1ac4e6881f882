"""A network compiled for a device as a Python callable: commands run in the simulator, the rest on this processor.

    exe = qmlir.compile(q, target="nmp")
    y = exe(x)
    exe.report.cycles                   # what the last call cost
    exe.save("net.npu")                 # the program; what the host runs beside it, as MLIR

It is called as an executable of this processor is, and gives the same bits.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.npu.cycles import predicted, predicted_cycles
from qmlir.backends.npu.simulate import Report, Simulator
from qmlir.backends.npu.stream import Program
from qmlir.backends.npu_program import assemble
from qmlir.device import Device
from qmlir.device.module import Filled, device_of, filled_of, function_of
from qmlir.ledger import Entry
from qmlir.signature import Signature, TensorSpec
from qmlir.source import read_mlir
from qmlir.storage import TextForm, write_module
from qmlir.verify import verify

Array = npt.NDArray[Any]

Native = Callable[[ModuleOp], Callable[[Sequence[Array]], Sequence[Array]]]
"""Makes code for this processor of a module with one function on the qint level."""


class Simulated:
    """A network on a simulated device.

    program    what the device is given
    device     the device
    routines   a module of the functions that the host runs for it, each by its name
    signature  inputs and outputs by name
    ledger     where each operation runs, and why those of the host do; empty of a program that was loaded
    filled     how full each external memory is, by its name; nothing of a program that was loaded
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        routines: ModuleOp,
        native: Native,
        ledger: Sequence[Entry] = (),
        filled: Mapping[str, Filled] | None = None,
    ):
        """Takes a program.

        Args:
            program: The program.
            device: The device.
            routines: The functions of the host.
            native: What makes code of them; each is compiled when it is first called.
            ledger: What became of each operation.
            filled: How full each external memory is.

        Raises:
            StreamError: The program was made for another device.
        """
        self.program, self.device, self.routines, self.native = program, device, routines, native
        self.signature = Signature(*(tuple(map(_spec, ports)) for ports in (program.inputs, program.outputs)))
        self.ledger, self.filled = tuple(ledger), dict(filled or {})
        called = {f.sym_name.data: _Routine(f, native) for f in routines.ops if isinstance(f, func.FuncOp)}
        self._simulator = Simulator(program, device, called)

    def __call__(self, inputs: Array | Mapping[str, Array]) -> Any:
        """The only output, or outputs by name.

        Raises:
            InputError: An input is missing, unknown, or of another shape or dtype than the network's.
            Fault: A command did what it must not.
        """
        return self.signature.result(self.run(inputs))

    def run(self, inputs: Array | Mapping[str, Array]) -> list[Array]:
        """The outputs in order."""
        return self.run_all([inputs])[0]

    def run_all(self, samples: Sequence[Array | Mapping[str, Array]]) -> list[list[Array]]:
        """The outputs in order for each of some inputs, which takes less time than one call for each."""
        return self._simulator.run_all([self.signature.arrays(inputs) for inputs in samples])

    def save(self, path: str | Path) -> list[Path]:
        """Writes the program, and beside it what the host runs for it, as MLIR.

        Returns:
            The files written.
        """
        program, host = Path(path), host_file(path)
        self.program.save(program)
        if not self.program.routines:
            return [program]
        write_module(self.routines, host, TextForm())
        return [program, host]

    def with_program(self, program: Program) -> "Simulated":
        """The same with another program for the device."""
        return Simulated(program, self.device, self.routines, self.native, self.ledger, self.filled)

    @property
    def report(self) -> Report | None:
        """What the last call cost; None before the first."""
        return self._simulator.report

    @property
    def predicted(self) -> Report:
        """What a call costs, from the commands alone."""
        return predicted(self.program, self.device)

    @property
    def predicted_cycles(self) -> int:
        """How long a call takes, from the commands alone."""
        return predicted_cycles(self.program, self.device)


def simulated(module: ModuleOp, native: Native, ledger: Sequence[Entry] = ()) -> Simulated:
    """The callable of a module of placed and ordered commands.

    Args:
        module: The commands, and the functions of the host.
        native: What makes code of these.
        ledger: What became of each operation.

    Raises:
        PipelineError: The module has no commands, or they have no addresses.
    """
    program = assemble(module)
    commands = function_of(module, "simulated")
    host = ModuleOp([f.clone() for f in module.ops if isinstance(f, func.FuncOp) and f is not commands])
    return Simulated(program, device_of(module), host, native, ledger, filled_of(module))


def load_simulated(path: str | Path, device: Device, native: Native) -> Simulated:
    """What `Simulated.save` wrote.

    Raises:
        FileError: A file cannot be read, or is no program.
        StreamError: The program was made for another device.
    """
    program = Program.load(path)
    routines = read_mlir(host_file(path)) if program.routines else ModuleOp([])
    verify(routines)
    return Simulated(program, device, routines, native)


def host_file(path: str | Path) -> Path:
    """The file beside a program with what the host runs: `net.npu` → `net.host.mlir`."""
    return Path(path).with_suffix(".host.mlir")


class _Routine:
    """A function of the host: compiled when it is first called."""

    def __init__(self, function: func.FuncOp, native: Native):
        self.function, self.native = function, native
        self.code: Callable[[Sequence[Array]], Sequence[Array]] | None = None

    def __call__(self, *inputs: Array) -> Sequence[Array]:
        if self.code is None:
            public = self.function.clone()
            public.properties.pop("sym_visibility", None)
            self.code = self.native(ModuleOp([public]))
        return self.code(inputs)


def _spec(port: Any) -> TensorSpec:
    return TensorSpec(port.name, port.shape, port.dtype)
