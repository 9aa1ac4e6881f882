"""The parts of a module that is compiled for a device: its device, its function of commands, and its buffers.

The module names its device in an attribute. From `npu-tile` on it has one function that holds buffers and commands.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64

from qmlir.devices.description import Device
from qmlir.devices.reading import load_device
from qmlir.devices.requirements import target_of_device
from qmlir.dialects.npu import BufferOp, CallOp, IssueOp
from qmlir.dialects.npu.layers import DEVICE
from qmlir.errors import PipelineError
from qmlir.ir.context import QmlirContext, make_context

LAYERS = "npu.layers"
"""The module attribute with the layer names that `Mark` commands refer to."""

FILLED = "npu.filled"
"""The module attribute that says how full each external memory is: name of the memory → a `Filled`."""

Step = IssueOp | CallOp
"""An operation that takes a position in a queue: a command, or a call of the host."""


def device_of(module: ModuleOp) -> Device:
    """The device that a module is compiled for.

    Raises:
        PipelineError: The module names no device.
    """
    named = module.attributes.get(DEVICE)
    if not isinstance(named, StringAttr):
        raise PipelineError(
            "the module", f"must name its device in {DEVICE}", got="none", remedy="run qint-to-npu first"
        )
    return load_device(named.data)


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
    noted = module.attributes.get(FILLED)
    for name, entry in noted.data.items() if isinstance(noted, DictionaryAttr) else ():
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


def context_of(module: ModuleOp, target: str | Path | None = None) -> QmlirContext:
    """A context for a module; if the module is for a device, the context has that device as its target.

    Args:
        module: A network.
        target: A device; by default the device that the module names.
    """
    context = make_context()
    named = module.attributes.get(DEVICE)
    if target is None and isinstance(named, StringAttr):
        target = named.data
    if target is not None:
        context.target = target_of_device(load_device(target))
    return context
