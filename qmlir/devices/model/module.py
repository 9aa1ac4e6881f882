"""The parts of a module that is compiled for a device: its device, its function of commands, and its buffers.

The module names its device in an attribute. From `npu-tile` on it has one function that holds buffers and commands.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue

from qmlir.devices.description.device import Device
from qmlir.devices.description.reading import load_device
from qmlir.dialects.npu import BufferOp, CallOp, IssueOp
from qmlir.errors import PipelineError
from qmlir.ir.facts import DEVICE, FILLED
from qmlir.isa.commands import Arithmetic, Post, SetContext

Step = IssueOp | CallOp
"""An operation that takes a position in a queue: a command, or a call of the host."""


def device_of(module: ModuleOp) -> Device:
    """The device that a module is compiled for.

    Raises:
        PipelineError: The module names no device.
    """
    named = DEVICE.of(module)
    if named is None:
        raise PipelineError(
            "the module", f"must name its device in {DEVICE}", got="none", remedy="run qint-to-npu first"
        )
    return load_device(named)


@dataclass(frozen=True)
class Filled:
    """How full a memory is, in bytes.

    tensors     bytes of the area in which tensors share space over time
    bound       a lower bound of that area: the most bytes that are live at once
    constants   bytes of the data that is there from the start
    """

    tensors: int
    bound: int
    constants: int

    def attribute(self) -> DictionaryAttr:
        """The attribute in which a module keeps these numbers."""
        return DictionaryAttr({name: IntegerAttr(value, i64) for name, value in asdict(self).items()})


def filled_of(module: ModuleOp) -> dict[str, Filled]:
    """How full each external memory of a module's device is; empty before `npu-place`."""
    found: dict[str, Filled] = {}
    noted = FILLED.of(module)
    for name, entry in () if noted is None else noted.data.items():
        assert isinstance(entry, DictionaryAttr)
        values = {key: value.value.data for key, value in entry.data.items() if isinstance(value, IntegerAttr)}
        found[name] = Filled(**values)
    return found


def function_of(module: ModuleOp, name: str) -> func.FuncOp:
    """The function of a module that holds commands.

    Args:
        module: The module.
        name: Name of the pass that asks, for the error message.

    Raises:
        PipelineError: No function or more than one function holds commands.
    """
    functions = [f for f in module.body.block.ops if isinstance(f, func.FuncOp) and not f.is_declaration]
    found = [f for f in functions if any(isinstance(op, Step) for op in f.body.block.ops)]
    if len(found) != 1:
        raise PipelineError(name, "needs one function with commands", got=str(len(found)), remedy="run npu-tile first")
    return found[0]


def steps_of(function: func.FuncOp) -> list[Step]:
    """The commands and host calls of a function, in order."""
    return [op for op in function.body.block.ops if isinstance(op, Step)]


def buffers_of(function: func.FuncOp) -> list[BufferOp]:
    """The buffers of a function."""
    return [op for op in function.body.block.ops if isinstance(op, BufferOp)]


@dataclass(frozen=True)
class Life:
    """A buffer and the commands that touch it.

    op        the buffer
    first     number of the first command
    last      number of the last command
    commands  the numbers of all
    """

    op: BufferOp
    first: int
    last: int
    commands: Sequence[int] = ()


def lives_of(function: func.FuncOp) -> list[Life]:
    """The lifetimes of the buffers that a command touches, and of inputs and outputs.

    A command that uses a context also reads the context's table. An input is live before the first command, from -1
    on; an output after the last.
    """
    steps = steps_of(function)
    touched: dict[SSAValue, list[int]] = {}
    tables: dict[int, Sequence[SSAValue]] = {}
    for number, step in enumerate(steps):
        command = step.command.data if isinstance(step, IssueOp) else None
        if isinstance(command, SetContext):
            tables[command.ctx] = step.operands
        context = tables.get(command.ctx, ()) if isinstance(command, Post | Arithmetic) else ()
        for buffer in (*step.operands, *context):
            touched.setdefault(buffer, []).append(number)
    return [
        Life(op, *_extended(op, touched.get(op.buffer, ()), len(steps)), touched.get(op.buffer, ()))
        for op in buffers_of(function)
        if op.buffer in touched or op.port is not None
    ]


def _extended(op: BufferOp, touched: Sequence[int], end: int) -> tuple[int, int]:
    """A buffer's first and last step: an input is live before the first command, an output after the last."""
    first, last = (touched[0], touched[-1]) if touched else (end, -1)
    direction = op.port.direction.data if op.port is not None else None
    return (-1 if direction == "input" else first), (end if direction == "output" else max(last, first))


@dataclass(frozen=True)
class Placed:
    """A buffer of a program, at its address.

    memory    the memory's id in the device file
    role      the kind of data, a role of the device file
    tensor    the name of the network's tensor in it; None for a tile and for constants
    address   its first byte in the memory
    bytes     its size
    first     number of the first command that touches it; -1 for an input
    last      number of the last command that touches it; the number of commands for an output
    commands  numbers of all commands that touch it
    constant  whether its bytes are there from the start
    """

    memory: str
    role: str
    tensor: str | None
    address: int
    bytes: int
    first: int
    last: int
    commands: Sequence[int]
    constant: bool

    @property
    def kind(self) -> str:
        """What the buffer holds: a whole `tensor` of the network, a `tile` of one, or a `constant`."""
        return "constant" if self.constant else "tile" if self.tensor is None else "tensor"


def placed_of(function: func.FuncOp) -> list[Placed]:
    """The buffers of a function that have addresses, with their lifetimes."""
    return [
        Placed(
            life.op.memory.data, life.op.role.data, None if life.op.tensor is None else life.op.tensor.data,
            life.op.address.value.data, life.op.size, life.first, life.last, life.commands,
            life.op.contents is not None,
        )
        for life in lives_of(function)
        if life.op.address is not None
    ]  # fmt: skip
