"""The parts of a module that is compiled for a device, and how its memories store tensors."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description import Device
from qmlir.devices.reading import load_device
from qmlir.devices.requirements import target_of_device
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.npu import BufferOp, CallOp, IssueOp
from qmlir.dialects.npu.layers import DEVICE
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.qint.requantize import width_of
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import PipelineError
from qmlir.ir.context import QmlirContext, make_context
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of

# ---------------------------------------------------------------------------------------------------------------
# How tensors are stored in a device's memories: densely; a quantized tensor is stored as its integers.


Array = npt.NDArray[Any]


def stored_dtype(value: SSAValue) -> np.dtype[Any]:
    """Element type of a tensor in memory; for a quantized tensor, its storage integer type."""
    element = element_of(value)
    return np.dtype(element.numpy_dtype) if isinstance(element, UniformType) else dtype_of(element)


def stored_bytes(value: SSAValue) -> int:
    """The size of a tensor in bytes."""
    return prod(shape_of(value)) * stored_dtype(value).itemsize


def as_images(shape: Sequence[int]) -> tuple[int, tuple[int, int, int]]:
    """The shape of a tensor as images: how many images, and the rows, columns and channels of an image.

    Rows, columns and channels are the last three dimensions; missing dimensions are 1. Dimensions along which numpy
    broadcasts two shapes are therefore the same dimensions in their images.
    """
    rows, columns, channels = (1, 1, 1, *shape)[-3:]
    return prod(shape[:-3]), (rows, columns, channels)


def constant_bytes(operations: Iterable[Operation]) -> int:
    """The size in bytes of the constants that operations read; each constant counts once."""
    read = {operand for op in operations for operand in op.operands}
    return sum(stored_bytes(value) for value in read if isinstance(value.owner, ConstantOp))


def stored_weights(op: WeightedOp, device: Device) -> tuple[Array, int]:
    """The constant weights as the device stores them, and their zero point; 0 if the weights are stored unchanged."""
    assert isinstance(op.w.owner, ConstantOp)
    weights = op.w.owner.value.array
    plain = (f"i{width_of(op.x)}", f"i{width_of(op.w)}")
    narrow = around_zero_point(weights)
    known = any((mode.a, mode.w) == plain for mode in device.array.modes)
    return (weights, 0) if known or narrow is None else narrow


def stored_bias(op: WeightedOp, device: Device) -> tuple[int, int]:
    """How the device stores a bias: bits of each number, and the left shift, in bits, that it applies before adding."""
    if (bits := device.quant.bias.moved_bits) is None:
        return width_of(op.acc), 0
    constant = op.b.owner if op.b is not None else None
    return bits, trailing_zeros(constant.value.array) if isinstance(constant, ConstantOp) else 0


MOST_MOVED = 31
"""The largest left shift of a bias, in bits."""


def trailing_zeros(numbers: Array) -> int:
    """How many low bits, at most `MOST_MOVED`, are 0 in all numbers."""
    any_of = int(np.bitwise_or.reduce(numbers.reshape(-1).astype(np.int64), initial=0))
    return min((any_of & -any_of).bit_length() - 1, MOST_MOVED) if any_of else 0


def around_zero_point(weights: Array) -> tuple[Array, int] | None:
    """Rewrites 16-bit weights as 8-bit weights with a zero point; None if the weights span more than 255 steps.

    Such weights come from converters that store weights with a zero point: differences from it have 9 bits.

    Returns:
        The 8-bit weights, and the zero point to subtract from them.
    """
    low, high = int(weights.min(initial=0)), int(weights.max(initial=0))
    if weights.dtype != np.int16 or high - low > 255:
        return None
    zero_point = min(max(0, -128 - low), 127 - high)
    return (weights + zero_point).astype(np.int8), zero_point


# ---------------------------------------------------------------------------------------------------------------
# The parts of a module that is compiled for a device: its device, its function of commands, and its buffers.
#
# The module names its device in an attribute. From `npu-tile` on it has one function that holds buffers and commands.


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
