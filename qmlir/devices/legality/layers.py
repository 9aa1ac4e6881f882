"""Layers of a network as an encoder of whole layers gets them, and what it refuses of an operation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.device import Device
from qmlir.devices.model.encoder import layer_encoder_of, layer_refusal
from qmlir.devices.model.layer import (
    Addition,
    Convolution,
    ImageSum,
    Layer,
    Lookup,
    Movement,
    Pool,
    Product,
    Requantization,
    Step,
    Tensor,
)
from qmlir.devices.model.stored import as_images, stored_dtype, stored_weights
from qmlir.devices.model.work import groups_of
from qmlir.dialects import qint
from qmlir.dialects.nn.movement import ConstantOp, MovementOp, ReshapeOp
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.qint.requantize import width_of
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import shape_of
from qmlir.numerics import Array

Named = Callable[[SSAValue], str]
"""Gives a value the name of its tensor."""


def beyond_layers(
    operations: Sequence[Operation], kind: str, device: Device, same: Mapping[SSAValue, SSAValue] | None = None
) -> str | None:
    """Why the device's encoder cannot say a layer: a sentence; None if it can, or takes commands instead.

    Args:
        operations: The operations of the layer in order, without constants.
        kind: The key of [ops] that allows the first of them.
        device: The device.
        same: Values that operations read → the results of other operations of the layer that they stand for.

    Raises:
        PluginError: The encoder cannot be used, raises, or answers with something else than a sentence.
    """
    if layer_encoder_of(device) is None or keeps_images(operations[0]):
        return None
    names: dict[SSAValue, str] = {}

    def named(value: SSAValue) -> str:
        return names.setdefault(value, f"tensor{len(names)}")

    layer = layer_of(operations, "", kind, named, device, same)
    return layer_refusal(layer, device)


def keeps_images(op: Operation) -> bool:
    """Whether the result of an operation is its operand under another name: for encoders, both are one tensor."""
    if isinstance(op, StorageCastOp):
        return True
    return isinstance(op, ReshapeOp) and as_images(shape_of(op.x)) == as_images(shape_of(op.y))


def layer_of(
    operations: Sequence[Operation], label: str, kind: str, named: Named, device: Device,
    same: Mapping[SSAValue, SSAValue] | None = None,
) -> Layer:  # fmt: skip
    """A layer as data.

    Args:
        operations: Its operations in order, without constants.
        label: Its name.
        kind: The key of [ops] that allows the first operation.
        named: Gives each value from outside, and the result, the name of its tensor.
        device: The device.
        same: As for `beyond_layers`.
    """
    first, *_ = operations
    read = [first.operands[0]] if not isinstance(first, MovementOp) else list(first.operands)
    steps: list[Step] = []
    for before, op in zip((None, *operations), operations, strict=False):
        others: list[SSAValue] = []
        if isinstance(op, qint.AddOp | qint.MulOp):
            own = op.lhs if before is None or (same or {}).get(op.lhs, op.lhs) in before.results else op.rhs
            others = [op.rhs if own is op.lhs else op.lhs]
            steps.append(_joined(op, own is op.lhs, tensor_of(others[0], named(others[0]))))
        else:
            steps.append(_step(op, device))
        read += others
    return Layer(
        label,
        kind,
        tuple(tensor_of(value, named(value)) for value in read),
        tensor_of(operations[-1].results[0], named(operations[-1].results[0])),
        tuple(steps),
    )


def tensor_of(value: SSAValue, name: str) -> Tensor:
    """A value as data."""
    images, image = as_images(shape_of(value))
    shape = (images, *image)
    contents = value.owner.value.array.reshape(shape) if isinstance(value.owner, ConstantOp) else None
    return Tensor(name, shape, 8 * stored_dtype(value).itemsize, contents)


def _step(op: Operation, device: Device) -> Step:
    """A step of an operation that reads one tensor, or that moves data."""
    match op:
        case qint.Conv2DOp() | qint.DepthwiseConv2DOp() | qint.FullyConnectedOp():
            return _convolution(op, device)
        case qint.MaxPool2DOp() | qint.AveragePool2DOp():
            average = isinstance(op, qint.AveragePool2DOp)
            rows, columns = op.window_values()
            return Pool(
                average, (rows, columns), op.stride_values(), op.dilation_values(), op.padding_values(),
                average and bool(op.count_include_pad), op.zero_point.value.data if average else 0,
            )  # fmt: skip
        case qint.GlobalSumPoolOp():
            return ImageSum(op.zero_point.value.data)
        case qint.RequantizeOp():
            multipliers, shifts = _integers(op.multiplier), _integers(op.shift)
            return Requantization(
                multipliers, shifts, op.contract.data, op.summand(), op.input_zero_point.value.data,
                op.zero_point.value.data, op.lower.value.data, op.upper.value.data, width_of(op.y),
            )  # fmt: skip
        case qint.LookupOp():
            return Lookup(op.table.array)
        case _:
            shapes = tuple(shape_of(value) for value in (*op.operands, *op.results))
            return Movement(op.name.partition(".")[2], _numbers(op), shapes)


def _convolution(op: WeightedOp, device: Device) -> Convolution:
    weights, weight_zero_point = stored_weights(op, device)
    bias: Array | None = None
    if op.b is not None:
        assert isinstance(op.b.owner, ConstantOp)
        bias = op.b.owner.value.array.astype(np.int64)
    if isinstance(op, qint.DepthwiseConv2DOp):
        weights = weights.transpose(3, 1, 2, 0)
    groups = len(weights) if isinstance(op, qint.DepthwiseConv2DOp) else 1
    if isinstance(op, qint.Conv2DOp):
        groups = groups_of(op)
    one, none = (1, 1), (0, 0, 0, 0)
    windows = isinstance(op, WindowOp)
    return Convolution(
        weights if windows else weights[:, None, None], weight_zero_point, bias, op.zero_point.value.data, groups,
        op.stride_values() if windows else one, op.dilation_values() if windows else one,
        op.padding_values() if windows else none, width_of(op.acc),
    )  # fmt: skip


def _joined(op: qint.AddOp | qint.MulOp, own_first: bool, other: Tensor) -> Addition | Product:
    """A step that reads a further tensor; `own_first` says whether that is the second operand."""

    def ordered(lhs: int, rhs: int) -> tuple[int, int]:
        return (lhs, rhs) if own_first else (rhs, lhs)

    zero_points = ordered(op.lhs_zero_point.value.data, op.rhs_zero_point.value.data)
    if isinstance(op, qint.MulOp):
        return Product(other, *zero_points)
    lhs, rhs = op.multipliers.get_values()
    return Addition(
        other, *zero_points, *ordered(lhs, rhs), op.shift.value.data, op.zero_point.value.data, op.lower.value.data,
        op.upper.value.data, width_of(op.y),
    )  # fmt: skip


def _integers(array: DenseArrayBase[Any]) -> Array:
    return np.array(array.get_values(), np.int64)


def _numbers(op: Operation) -> dict[str, tuple[int, ...]]:
    """The attributes of a movement that are integers."""
    found: dict[str, tuple[int, ...]] = {}
    for name, value in op.properties.items():
        if isinstance(value, DenseArrayBase):
            found[name] = tuple(int(number) for number in value.get_values())
        elif isinstance(value, IntegerAttr):
            found[name] = (value.value.data,)
    return found
