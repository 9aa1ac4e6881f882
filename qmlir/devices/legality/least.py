"""The least commands of an operation: with the numbers that no tile changes, and a single element of everything else.

If one of them breaks a limit of commands (isa/limits.py), or the device has no words for it, so it is with every tiling
of the operation. The tiler takes the numbers of its commands from here, too.
"""

from collections.abc import Iterator
from typing import Any

from xdsl.ir import Operation

from qmlir.devices.description.device import Device
from qmlir.devices.model.encoder import unsayable
from qmlir.devices.model.stored import stored_bias, stored_weights
from qmlir.devices.model.tables import exponentials
from qmlir.dialects import qint
from qmlir.dialects.nn import ConstantOp, PadOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.qint.contraction import MatMulOp, WeightedOp
from qmlir.dialects.qint.requantize import width_of
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import shape_of
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
    Convolve,
    ConvolveDepthwise,
    Division,
    Fill,
    Init,
    Move,
    Norm,
    Normalize,
    Pool,
    Pooling,
    Post,
    Reduce,
    SetContext,
    Softmax,
    Step,
)
from qmlir.isa.commands import Operation as Computes
from qmlir.isa.encoding import WORD, Command, Place, field_kinds
from qmlir.isa.limits import broken
from qmlir.numerics.contracts import CONTRACTS

Fields = dict[str, Any]


def beyond_commands(op: Operation, device: Device) -> str | None:
    """Why not even the least commands of an operation are the device's: a sentence; None if they are."""
    for command in least_commands(op, device):
        if (found := broken(command)) is not None:
            need, got = found
            return f"{need}, got {got}"
        if (reason := unsayable(command, device)) is not None:
            return reason
    return None


def least_commands(op: Operation, device: Device) -> Iterator[Command]:
    """Yields the commands of an operation on a device, each for a single element of the result."""
    match op:
        case qint.DepthwiseConv2DOp():
            yield _least(ConvolveDepthwise, contraction_fields(op, device))
        case qint.Conv2DOp() | qint.FullyConnectedOp() | qint.MatMulOp():
            yield from _least_arranging(op)
            yield _least(Convolve, contraction_fields(op, device))
        case qint.MaxPool2DOp() | qint.AveragePool2DOp():
            yield _least(Pool, pool_fields(op))
        case qint.GlobalSumPoolOp():
            yield _least(Reduce, reduction_fields(op))
        case qint.SoftmaxOp():
            yield _least(Softmax, softmax_fields(op))
        case qint.LayerNormOp() | qint.RMSNormOp():
            yield _least(Normalize, normalization_fields(op))
        case qint.AddOp():
            yield _least(SetContext, context_fields(op))
            yield _least(Arithmetic, arithmetic_fields(op))
        case qint.MulOp():
            yield _least(Arithmetic, arithmetic_fields(op))
        case qint.RequantizeOp() | qint.LookupOp():
            yield _least(SetContext, context_fields(op))
            yield _least(Post, {"source_bits": width_of(op.x)})
        case MovementOp():
            yield _least(Move, {})
            if isinstance(op, PadOp):
                yield _least(Fill, {})
        case _:
            return


def _least_arranging(op: Operation) -> Iterator[Command]:
    """Yields the command that makes weights of the second matrix of a product; nothing for weights that are there."""
    if isinstance(op, MatMulOp):
        yield _least(Arrange, {"bits": width_of(op.rhs), "transposed": 0})


def _least(kind: type[Command], fields: Fields) -> Command:
    """A command with the given fields; every other field is 1, or the first of its names, or a place."""
    given: Fields = {"top": 0, "left": 0, "init": Init.ZERO} | fields
    others = {name: Place(0, 0) if field is Place else 1 for name, field in field_kinds(kind).items()}
    return kind(0, (), 0, **{name: given.get(name, other) for name, other in others.items()})


# ---------------------------------------------------------------------------------------------------------------
# The fields of commands that are the same for every tile of an operation


def contraction_fields(op: WeightedOp | MatMulOp, device: Device) -> Fields:
    """The fields of a contraction's command: widths, zero points and windows. Packed weights may be narrower."""
    if isinstance(op, MatMulOp):
        zero_point, weight_zero_point = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    else:
        zero_point, weight_zero_point = op.zero_point.value.data, 0
    weight_bits = width_of(op.operands[1])
    if isinstance(op, WeightedOp) and isinstance(op.w.owner, ConstantOp):
        weights, weight_zero_point = stored_weights(op, device)
        weight_bits = 8 * weights.itemsize
    bias_bits, bias_shift = stored_bias(op, device)
    fields: Fields = {
        "data_bits": width_of(op.operands[0]), "weight_bits": weight_bits, "sum_bits": width_of(op.acc),
        "bias_bits": bias_bits, "bias_shift": bias_shift, "zero_point": zero_point,
        "weight_zero_point": weight_zero_point,
    }  # fmt: skip
    return fields | (_window(op, shape_of(op.operands[1])[1:3]) if isinstance(op, WindowOp) else {})


def pool_fields(op: qint.MaxPool2DOp | qint.AveragePool2DOp) -> Fields:
    """The fields of a pool's command: what it computes of which windows."""
    fields: Fields = POOL_OF_ONE | {"bits": width_of(op.x)} | _window(op, op.window_values())
    if isinstance(op, qint.MaxPool2DOp):
        return fields
    count_padding, zero_point = int(bool(op.count_include_pad)), op.zero_point.value.data
    return fields | {"pooling": Pooling.AVERAGE, "count_padding": count_padding, "zero_point": zero_point}


def _window(op: WindowOp, kernel: tuple[int, ...]) -> Fields:
    """The fields of a window: its extents, strides and dilations."""
    sides = (("kernel", kernel), ("stride", op.stride_values()), ("dilation", op.dilation_values()))
    return {f"{what}_{side}": n for what, two in sides for side, n in zip(("rows", "columns"), two, strict=True)}


POOL_OF_ONE: Fields = {
    "pooling": Pooling.MAX, "count_padding": 0, "zero_point": 0, "kernel_rows": 1, "kernel_columns": 1,
    "stride_rows": 1, "stride_columns": 1, "dilation_rows": 1, "dilation_columns": 1,
}  # fmt: skip
"""The fields of a pool that copies: the maximum of a single element."""


def reduction_fields(op: qint.GlobalSumPoolOp) -> Fields:
    """The fields of the command that sums an image."""
    return {"bits": width_of(op.x), "zero_point": op.zero_point.value.data}


def softmax_fields(op: qint.SoftmaxOp) -> Fields:
    """The fields of a softmax's command, without its tables."""
    division, unit = Division[op.division.data.upper()], op.unit.value.data
    return _row_fields(op) | {"division": division, "entries": exponentials(op).size, "unit": unit}


def normalization_fields(op: qint.LayerNormOp | qint.RMSNormOp) -> Fields:
    """The fields of a normalization's command."""
    multiplier, shift, fraction, epsilon = op.arithmetic()
    return _row_fields(op) | {
        "norm": Norm.LAYER if isinstance(op, qint.LayerNormOp) else Norm.RMS,
        "input_zero_point": op.input_zero_point.value.data if isinstance(op, qint.RMSNormOp) else 0,
        "multiplier": multiplier, "shift": shift, "fraction": fraction,
        "epsilon_low": epsilon % WORD, "epsilon_high": epsilon // WORD,
    }  # fmt: skip


def _row_fields(op: qint.SoftmaxOp | qint.LayerNormOp | qint.RMSNormOp) -> Fields:
    """The fields of every operation on rows: the elements of a row, their widths, and how quotients are stored."""
    return {
        "source_bits": width_of(op.x), "target_bits": width_of(op.y), "channels": op.split()[1],
        "zero_point": op.zero_point.value.data, "lower": op.lower.value.data, "upper": op.upper.value.data,
    }  # fmt: skip


def arithmetic_fields(op: qint.AddOp | qint.MulOp) -> Fields:
    """The fields of a sum's or product's command: its operands' numbers."""
    lhs, rhs, shift = (*op.multipliers.get_values(), op.shift.value.data) if isinstance(op, qint.AddOp) else (1, 1, 1)
    return {
        "operation": Computes.ADD if isinstance(op, qint.AddOp) else Computes.MUL, "bits": width_of(op.lhs),
        "lhs_zero_point": op.lhs_zero_point.value.data, "rhs_zero_point": op.rhs_zero_point.value.data,
        "lhs_multiplier": lhs, "rhs_multiplier": rhs, "shift": shift,
    }  # fmt: skip


def context_fields(op: qint.RequantizeOp | qint.LookupOp | qint.AddOp) -> Fields:
    """The fields of the context that finishes values as an operation says, without its table."""
    bits = width_of(op.results[0])
    fields: Fields = {
        "step": Step.REQUANTIZE, "bits": bits, "contract": 0, "input_zero_point": 0, "zero_point": 0,
        "lower": -(1 << bits - 1), "upper": (1 << bits - 1) - 1, "per_channel": 0,
    }  # fmt: skip
    if isinstance(op, qint.LookupOp):
        return fields | {"step": Step.LOOKUP}
    fields |= {"zero_point": op.zero_point.value.data, "lower": op.lower.value.data, "upper": op.upper.value.data}
    if isinstance(op, qint.AddOp):
        return fields
    contract, per_channel = CONTRACTS[op.contract.data].number, len(op.multiplier) > 1
    return fields | {
        "contract": contract, "input_zero_point": op.input_zero_point.value.data, "per_channel": int(per_channel),
    }  # fmt: skip
