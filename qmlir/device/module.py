"""A module of a device: which device, and below `npu-tile` one function of buffers and of what is done with them."""

from dataclasses import asdict, dataclass
from pathlib import Path

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64

from qmlir.context import QmlirContext, make_context
from qmlir.device.description import Device
from qmlir.device.reading import load_device
from qmlir.device.requirements import target_of_device
from qmlir.dialects.npu import BufferOp, CallOp, IssueOp
from qmlir.dialects.npu.layers import DEVICE
from qmlir.errors import PipelineError

LAYERS = "npu.layers"
"""The module's attribute with the names that `Mark` refers to."""

FILLED = "npu.filled"
"""The module's attribute that says how full each external memory is: its name → a `Filled`."""

Step = IssueOp | CallOp
"""What takes a place in a queue."""


def device_of(module: ModuleOp) -> Device:
    """The device that a module is for.

    Raises:
        PipelineError: The module names none.
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

    tensors     what shares its bytes over time
    bound       of that, the most that lives at once
    constants   what is there from the start
    """

    tensors: int
    bound: int
    constants: int

    def attribute(self) -> DictionaryAttr:
        """As a module keeps it."""
        return DictionaryAttr({name: IntegerAttr(value, i64) for name, value in asdict(self).items()})


def filled_of(module: ModuleOp) -> dict[str, Filled]:
    """How full each external memory of a module's device is; nothing before `npu-place`."""
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
        name: Of the pass that asks, for the error.

    Raises:
        PipelineError: There is none, or there are several.
    """
    functions = [f for f in module.body.block.ops if isinstance(f, func.FuncOp) and not f.is_declaration]
    found = [f for f in functions if any(isinstance(op, Step) for op in f.body.block.ops)]
    if len(found) != 1:
        raise PipelineError(name, "needs one function with commands", got=str(len(found)), remedy="run npu-tile first")
    return found[0]


def steps_of(function: func.FuncOp) -> list[Step]:
    """What is done, in order."""
    return [op for op in function.body.block.ops if isinstance(op, Step)]


def buffers_of(function: func.FuncOp) -> list[BufferOp]:
    """All buffers."""
    return [op for op in function.body.block.ops if isinstance(op, BufferOp)]


def context_of(module: ModuleOp, target: str | Path | None = None) -> QmlirContext:
    """A context for a module: with its target, if it is for a device.

    Args:
        module: A network.
        target: A device; by default the one that the module names.
    """
    context = make_context()
    named = module.attributes.get(DEVICE)
    if target is None and isinstance(named, StringAttr):
        target = named.data
    if target is not None:
        context.target = target_of_device(load_device(target))
    return context
