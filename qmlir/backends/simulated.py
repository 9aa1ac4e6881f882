"""A network compiled for a device: its program, and a Python callable that simulates it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qmlir.backends.layered import LayerProgram
from qmlir.backends.npu import SIMULATORS
from qmlir.backends.npu.accesses import Accesses
from qmlir.backends.npu.execute import Report, Simulator, Watch
from qmlir.backends.npu.report import predicted, predicted_cycles
from qmlir.backends.npu.stream import DTYPES, Kept, Named, Port, Program, Routine, Segment, flat
from qmlir.backends.npu.trace import Trace, traced
from qmlir.backends.npu.vectors import IMAGES, INDEX, Recorder
from qmlir.backends.npu.words import Words, encoded
from qmlir.devices import Device
from qmlir.devices.model.encoder import layer_encoder_of
from qmlir.devices.model.module import (
    Filled,
    Placed,
    buffers_of,
    device_of,
    filled_of,
    function_of,
    lives_of,
    placed_of,
    steps_of,
)
from qmlir.devices.model.token_forwarding import with_forwarding
from qmlir.dialects.inputs import reading_notes
from qmlir.dialects.npu import BufferOp, CallOp
from qmlir.dialects.npu.commands import Numbers
from qmlir.display import Table
from qmlir.errors import OptionError, QmlirError, UnsupportedError
from qmlir.ir.callable_network import CallableNetwork, Sample
from qmlir.ir.facts import COUNTS, HOST_STATES, LAYERS
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import Signature, State, TensorSpec, signature_of
from qmlir.ir.source import read_mlir
from qmlir.ir.states import StateAttr
from qmlir.ir.storage import TextForm, write_module
from qmlir.ir.verify import verify
from qmlir.ir.weights import WeightsAttr
from qmlir.isa.commands import Host, Sync
from qmlir.isa.encoding import Command, Wait
from qmlir.policies.ledger import Entry
from qmlir.running.files import path_of, replacing_folder, together

# ---------------------------------------------------------------------------------------------------------------
# Assembles a module of placed and ordered commands into the program that a device or its simulator runs.
#
# This file separates the compiler, which works on operations, from the machine (backends/npu), which knows only
# commands.


ELEMENTS = {dtype: name for name, dtype in DTYPES.items()}
"""numpy dtype → the program's name of the element type."""


def assemble(module: ModuleOp) -> Program:
    """Assembles a module into a program.

    Raises:
        PipelineError: The module names no device, has no commands, or has buffers without addresses.
        UnsupportedError: An input or output of the network or of a host routine has an element type that programs lack.
    """
    device, function = device_of(module), function_of(module, "assemble")
    steps, buffers = steps_of(function), buffers_of(function)
    calls = {step.routine.string_value(): step for step in steps if isinstance(step, CallOp)}
    functions = {f.sym_name.data: f for f in module.body.block.ops if isinstance(f, func.FuncOp)}
    numbers = Numbers([m.id for m in device.memory], [q.id for q in device.queue], [*calls])
    routines = [_routine(functions[name], call, numbers) for name, call in calls.items()]
    commands = [numbers.command(step) for step in steps]
    tensors = _named(function, commands, numbers)
    commands = with_forwarding(commands, device, [routine.footprint for routine in routines])
    return Program(
        flat(device),
        commands,
        [
            Segment(numbers.place(op.buffer), op.contents.array.tobytes())
            for op in buffers
            if op.contents is not None and op.address is not None
        ],
        _ports(buffers, "input", numbers),
        _ports(buffers, "output", numbers),
        list(LAYERS.of(module) or ()),
        routines,
        _kept(module),
        reading_notes(module).by_key(),
        tensors,
    )


def _named(function: func.FuncOp, commands: Sequence[Command], numbers: Numbers) -> list[Named]:
    """Returns the tensors with names, each with the number of commands after which nothing touches it any more."""
    counts = list(accumulate((not isinstance(command, Sync) for command in commands), initial=0))
    return [
        Named(
            _port(named.tensor.data, op.buffer, tuple(n.value.data for n in named.shape), named.element.data, numbers),
            counts[min(life.last, len(commands) - 1) + 1],
        )
        for life in lives_of(function)
        if (named := (op := life.op).named) is not None and op.address is not None
    ]


def _ports(buffers: Iterable[BufferOp], direction: str, numbers: Numbers) -> list[Port]:
    """Returns the network's inputs (`direction` "input") or outputs ("output") in the order of its signature."""
    found: dict[int, Port] = {}
    for op in buffers:
        if (port := op.port) is not None and port.direction.data == direction:
            shape = tuple(n.value.data for n in port.shape)
            found[port.index.value.data] = _port(port.tensor.data, op.buffer, shape, port.element.data, numbers)
    return [found[index] for index in sorted(found)]


def _routine(function: func.FuncOp, call: CallOp, numbers: Numbers) -> Routine:
    """Returns the program's entry of a host routine, whose tensors lie in the buffers that its call names."""
    signature = signature_of(function)
    inputs, outputs = (
        tuple(
            _port(spec.name, buffer, spec.shape, ELEMENTS.get(spec.dtype, spec.dtype.name), numbers)
            for buffer, spec in zip(buffers, specs, strict=True)
        )
        for buffers, specs in ((call.inputs, signature.inputs), (call.outputs, signature.outputs))
    )
    return Routine(function.sym_name.data, inputs, outputs)


def _port(name: str, buffer: SSAValue, shape: tuple[int, ...], element: str, numbers: Numbers) -> Port:
    if element not in DTYPES:
        raise UnsupportedError.at(
            "tensor", name, f"must have elements of a type among {', '.join(DTYPES)}", got=element
        )
    return Port(name, numbers.place(buffer), shape, element)


def _kept(module: ModuleOp) -> list[Kept]:
    """Returns the states that npu-tile noted on a module."""
    noted = HOST_STATES.of(module)
    found: list[Kept] = []
    for number, state in () if noted is None else noted.data.items():
        assert isinstance(state, StateAttr)
        reset = state.reset.array.tobytes() if isinstance(state.reset, WeightsAttr) else b""
        found.append(Kept(int(number), state.index, reset))
    return found


def serial(program: Program, device: Device) -> Program:
    """The program with each command waiting for the command before it, so that nothing overlaps."""
    issued: Counter[int] = Counter()
    commands: list[Command] = []
    for command in program.commands:
        last = commands[-1].queue if commands else None
        waits = () if last is None else (Wait(last, issued[last]),)
        commands.append(replace(command, waits=waits))
        issued[command.queue] += 1
    routines = [routine.footprint for routine in program.routines]
    return replace(program, commands=with_forwarding(commands, device, routines))


# ---------------------------------------------------------------------------------------------------------------
# A network compiled for a device, as a Python callable: the simulator runs its commands, this processor the rest.
#
#     exe = qmlir.compile(q, target="nmp")
#     y = exe(x)
#     exe.report.cycles                   # the cycles of the last call
#     exe.save("net.npu")                 # writes the program, and the host's routines as MLIR beside it
#
# The callable has the interface of a CPU executable and returns the same bits.


Native = Callable[[ModuleOp], Callable[[Sequence[Array]], Sequence[Array]]]
"""Compiles a module with one function on the qint level for this processor."""


class Simulated(CallableNetwork):
    """A network on a simulated device.

    program    the commands that the device runs, and the data in its memories
    device     the device
    routines   a module of the functions that the host runs for the device, each under its name
    signature  the network's inputs and outputs by name, and the states, which the host keeps
    ledger     where each operation runs, with the reason for each on the host; empty if the program was loaded
    filled     how full each external memory is, by the memory's name; empty if the program was loaded
    buffers    where each buffer lies, and from which command to which; empty if the program was loaded
    layered    the layers in the device's own words, where its encoder takes layers; None if the program was loaded
    seen       receives the tensors with names of each sample that is run; None, the default, if nobody asks for them
    watch      sees the memories before each command of a call; None, the default, if nobody asks for them
    at_once    the number of samples that are worth running together
    """

    at_once = 16

    def __init__(
        self,
        program: Program,
        device: Device,
        routines: ModuleOp,
        native: Native,
        ledger: Sequence[Entry] = (),
        filled: Mapping[str, Filled] | None = None,
        buffers: Sequence[Placed] = (),
        simulator: str = "auto",
        layered: LayerProgram | None = None,
    ):
        """Prepares the simulator for a program.

        Args:
            program: The program.
            device: The device that the program was made for.
            routines: The functions that the host runs.
            native: Compiles such a function for this processor; each is compiled when it is first called.
            ledger: The decision recorded for each operation.
            filled: How full each external memory is.
            buffers: Where each buffer lies; `first` and `last` are numbers of the program's commands.
            simulator: What executes the commands: the model in "c", compiled by a C compiler, or "python". By default
                the former where it saves time. Both give the same bits, costs and faults.
            layered: The layers in the device's own words, where its encoder takes layers.

        Raises:
            StreamError: The program was made for another device.
        """
        super().__init__(_signature(program, routines))
        self.layered = layered
        self.program, self.device, self.routines, self.native = program, device, routines, native
        self.ledger, self.filled, self.buffers = tuple(ledger), dict(filled or {}), tuple(buffers)
        called = {f.sym_name.data: _Routine(f, native) for f in routines.ops if isinstance(f, func.FuncOp)}
        self.seen: list[dict[str, Array]] | None = None
        self.watch: Watch | None = None
        self._simulator = Simulator(program, device, called, simulator)
        self._routines = called

    def prepare(self, samples: int = 1) -> None:
        """Compiles what runs of so many samples need, which the first run would do otherwise: for runs that are timed.

        Raises:
            QmlirError: The simulator in C was asked for, and there is no C compiler, or it fails.
        """
        self._simulator.prepare(samples)
        for name in {routine.name for routine in self.program.routines} & self._routines.keys():
            self._routines[name].prepare()

    def table(self) -> Table:
        on_host = sum(entry.code == "host" for entry in self.ledger)
        title = f"network on simulated {self.device.name}: {self.signature.described()}"
        return Table(f"{title}; {len(self.program.commands)} commands, {on_host} operations on the host")

    def run_in_order(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the program on its inputs in order, states among them, and returns its outputs in order.

        Raises:
            Fault: A command broke a rule of the device.
        """
        return self._simulator.run_all([arrays], self.seen, self.watch)[0]

    def run_all(self, samples: Sequence[Sample]) -> list[list[Array]]:
        """Runs several samples; returns the outputs in order for each.

        This is faster than one call per sample, unless the network has states, which pass from sample to sample.
        """
        if self.signature.states:
            return [self.run(inputs) for inputs in samples]
        return self._simulator.run_all([self.signature.arrays(inputs) for inputs in samples], self.seen)

    def tensors(self, samples: Iterable[Sample]) -> Iterator[dict[str, Array]]:
        """Yields the tensors with names of each sample, as they are stored, by name; without the inputs.

        Fused operations have a single tensor: these are the tensors that lie in a memory while the program runs. States
        begin anew, and pass from sample to sample.

        Raises:
            QmlirError: The program knows no tensors by their names; an older version may have compiled it.
            Fault: A command broke a rule of the device.
        """
        if not self.program.tensors:
            raise QmlirError(
                "the program must know tensors by their names", got="none", remedy="compile the network again"
            )
        watched, rest = self.with_program(self.program), iter(samples)
        while some := list(islice(rest, Simulated.at_once)):
            watched.seen = []
            watched.run_all(some)
            yield from watched.seen

    def write_vectors(self, sample: Sample, folder: str | Path, images: str = "changes") -> Path:
        """Writes what the memories hold before and after each command and each layer of a call, for testbenches.

        Args:
            sample: The inputs of the call; states begin anew.
            folder: The folder to make; it appears whole or not at all. backends/npu/vectors.py says what is in it.
            images: "changes" for the bytes that a command or a layer reads, and those that it writes; "whole" for
                everything that was ever written to each memory.

        Returns:
            The index of all files, `index.json` in the folder.

        Raises:
            OptionError: There is no such kind of images.
            FileError: The folder has files already, or cannot be made.
            Fault: A command broke a rule of the device.
        """
        if images not in IMAGES:
            raise OptionError("images", f"must be one of {', '.join(IMAGES)}", got=str(images))
        watched = self.with_program(self.program)
        with replacing_folder(path_of(folder, "folder")) as temporary:
            recorder = Recorder(watched.program, watched.device, watched.operands, temporary, images)
            watched.watch = recorder
            watched.run(sample)
            recorder.finish()
        return Path(folder) / INDEX

    @property
    def operands(self) -> Sequence[Accesses]:
        """The blocks that each command reads and writes, by the names of the command's fields."""
        return self._simulator.accesses

    def save(self, path: str | Path) -> list[Path]:
        """Writes the program, and beside it the functions that the host runs, as MLIR (only if there are any).

        Returns:
            The files written.
        """
        program, host = Path(path), host_file(path)
        with together():
            self.program.save(program)
            beside = write_module(self.routines, host, TextForm()) if self.program.routines else []
        return [program, *beside]

    def with_program(self, program: Program) -> "Simulated":
        """Returns a copy that runs another program for the same device.

        If the program has all commands of this one in the same order, the copy has the same buffers, otherwise none.
        """
        buffers = _renumbered(self.buffers, list(map(type, self.program.commands)), program)
        return self._with(program, buffers, self._simulator.simulator)

    def with_simulator(self, simulator: str) -> "Simulated":
        """Returns a copy whose commands are executed by the model in "c", in "python", or by the faster one: "auto".

        Raises:
            OptionError: There is no such simulator.
        """
        if simulator not in SIMULATORS:
            raise OptionError("simulator", f"must be one of {', '.join(SIMULATORS)}", got=repr(simulator))
        return self._with(self.program, self.buffers, simulator)

    def _with(self, program: Program, buffers: Sequence[Placed], simulator: str) -> "Simulated":
        given = (program, self.device, self.routines, self.native, self.ledger, self.filled)
        return Simulated(*given, buffers, simulator, self.layered)

    @property
    def simulated_by(self) -> str | None:
        """What executed the commands of the last call: "c" or "python"; None before the first call."""
        return self._simulator.by

    @property
    def report(self) -> Report | None:
        """The simulator's report of the last call; None before the first call."""
        return self._simulator.report

    @property
    def predicted(self) -> Report:
        """The predicted report of a call, computed from the commands without running them."""
        return predicted(self.program, self.device)

    @property
    def trace(self) -> Trace:
        """The timeline of a call, which does not depend on the inputs."""
        return traced(self.program, self.device)

    @property
    def words(self) -> Words:
        """The commands, or the layers, in the device's own words, by the encoder that its file names.

        Raises:
            QmlirError: The encoder takes layers, which a program's file does not have.
            PluginError: The encoder raises, or yields no words of its width.
        """
        if layer_encoder_of(self.device) is None:
            return encoded(self.program, self.device)
        if self.layered is None:
            raise QmlirError(
                "the program must have layers for an encoder of layers", got="commands of a program's file",
                remedy="compile the network again",
            )  # fmt: skip
        return self.layered.words

    @property
    def predicted_cycles(self) -> int:
        """The predicted cycles of a call, computed from the commands without running them."""
        return predicted_cycles(self.program, self.device)


def simulated(
    module: ModuleOp, native: Native, ledger: Sequence[Entry] = (), layered: LayerProgram | None = None
) -> Simulated:
    """Returns the callable of a module of placed and ordered commands.

    Args:
        module: The commands, and the functions that the host runs.
        native: Compiles such a function for this processor.
        ledger: The decision recorded for each operation.
        layered: The layers in the device's own words, where its encoder takes layers.

    Raises:
        PipelineError: The module has no commands, or its buffers have no addresses.
        UnsupportedError: The device's encoder refuses a command.
        PluginError: The device's encoder raises, or yields no words of its width.
    """
    program = assemble(module)
    if device_of(module).encoder is not None:
        encoded(program, device_of(module))  # what the device's words cannot say is an error here, before any use
    function = function_of(module, "simulated")
    host = ModuleOp([f.clone() for f in module.ops if isinstance(f, func.FuncOp) and f is not function])
    COUNTS.set(host, COUNTS.of(module))
    kinds = [Host if isinstance(step, CallOp) else type(step.command.data) for step in steps_of(function)]
    buffers = _renumbered(placed_of(function), kinds, program)
    return Simulated(program, device_of(module), host, native, ledger, filled_of(module), buffers, layered=layered)


def _renumbered(buffers: Sequence[Placed], kinds: Sequence[type[Command]], program: Program) -> list[Placed]:
    """Buffers whose lifetimes number the commands of a program.

    Args:
        buffers: Buffers whose lifetimes number other commands.
        kinds: The classes of these other commands.
        program: A program that has all of them in the same order, with forwarders among them; otherwise the result is
            empty.
    """
    numbers = [-1]
    for number, command in enumerate(program.commands):
        if len(numbers) <= len(kinds) and type(command) is kinds[len(numbers) - 1]:
            numbers.append(number)
    if len(numbers) <= len(kinds):
        return []
    numbers.append(len(program.commands))
    return [
        replace(
            buffer,
            first=numbers[buffer.first + 1],
            last=numbers[buffer.last + 1],
            commands=[numbers[command + 1] for command in buffer.commands],
        )
        for buffer in buffers
    ]


def load_simulated(path: str | Path, device: Device, native: Native) -> Simulated:
    """Loads a program, and the host's functions beside it, that `Simulated.save` wrote.

    Raises:
        FileError: A file cannot be read, or is not a program.
        StreamError: The program was made for another device.
    """
    program = Program.load(path)
    routines = read_mlir(host_file(path)) if program.routines else ModuleOp([])
    verify(routines)
    return Simulated(program, device, routines, native)


def host_file(path: str | Path) -> Path:
    """Returns the path of the host's functions beside a program: `net.npu` → `net.host.mlir`."""
    return Path(path).with_suffix(".host.mlir")


class _Routine:
    """A function that the host runs; it is compiled when it is first called, or before."""

    def __init__(self, function: func.FuncOp, native: Native):
        self._function, self._native = function, native

    def __call__(self, *inputs: Array) -> Sequence[Array]:
        return self._code(inputs)

    def prepare(self) -> None:
        """Compiles the function, if that has not been done."""
        _ = self._code

    @cached_property
    def _code(self) -> Callable[[Sequence[Array]], Sequence[Array]]:
        public = self._function.clone()
        public.properties.pop("sym_visibility", None)
        return self._native(ModuleOp([public]))


def _signature(program: Program, routines: ModuleOp) -> Signature:
    """Returns the signature of a program: its inputs and outputs, and the states that the host keeps.

    The module of the host's routines records the outputs whose sizes depend on the data.
    """
    inputs, outputs = (tuple(map(_spec, ports)) for ports in (program.inputs, program.outputs))
    states = [State.stored(inputs, outputs, (kept.input, kept.output), kept.reset) for kept in program.states]
    return Signature.of(inputs, outputs, states, routines)


def _spec(port: Any) -> TensorSpec:
    return TensorSpec(port.name, port.shape, port.dtype)
