"""The limits of a device: one table from which legality, documentation and tests are derived.

A `Limit` belongs to a key of the device file. It reads a property of an integer operation (`got`), reads what the
device allows (`wanted`), and decides whether the operation fits. Operations are judged on the qint level, where zero
points, multipliers and shifts are attributes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq, le
from typing import Any, cast

from xdsl.ir import Operation

from qmlir.devices import properties
from qmlir.devices.description import Device
from qmlir.devices.properties import Sums
from qmlir.devices.stored import MOST_TRANSFERS
from qmlir.dialects import qint
from qmlir.dialects.nn.movement import MovementOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.numerics.contracts import CONTRACTS

OPERATIONS: dict[type[Operation], str] = {
    qint.Conv2DOp: "conv2d",
    qint.DepthwiseConv2DOp: "depthwise",
    qint.FullyConnectedOp: "fc",
    qint.AddOp: "add",
    qint.MulOp: "mul",
    qint.MaxPool2DOp: "maxpool",
    qint.AveragePool2DOp: "avgpool",
    qint.GlobalSumPoolOp: "avgpool",
    qint.RequantizeOp: "requantize",
    qint.LookupOp: "lut",
}
"""Integer operation → the key of [ops] that allows it; operations that only move data have the key `move`."""

EVERY = (*dict.fromkeys(OPERATIONS.values()), "move")
"""All keys of [ops]."""


@dataclass(frozen=True)
class Limit:
    """A limit that a device may impose on an operation.

    key       key of the device file
    kinds     keys of [ops] to which the limit applies
    sentence  the limit in words, with {wanted}: `rows and columns of the window are at most {wanted}`
    got       what the operation has; None if the operation does not have this property
    wanted    what the device allows; None if it sets no limit. Unless given, the value of the key in the kind's table
    fits      whether what the operation has is allowed; unless given, whether it is at most what the device allows
    """

    key: str
    kinds: Sequence[str]
    sentence: str
    got: Callable[[Any], Any]
    wanted: Callable[[Device, str], Any] | None = None
    fits: Callable[[Any, Any], bool] = le

    def allowed(self, device: Device, kind: str) -> Any:
        """What a device allows for a kind of operation; None if it sets no limit."""
        if self.wanted is not None:
            return self.wanted(device, kind)
        return getattr(getattr(device.ops, kind), self.key.rpartition(".")[2], None)

    def text(self, wanted: object) -> str:
        """The limit's sentence for a device."""
        return self.sentence.format(wanted=_text(wanted))


def kind_of(op: Operation) -> str | None:
    """The key of [ops] that allows an operation; None if no device file has a key for it."""
    return "move" if isinstance(op, MovementOp) else OPERATIONS.get(type(op))


def refusals(op: Operation, device: Device) -> list[str]:
    """Why a device does not compute an operation, a sentence each; empty if the device computes it."""
    kind = kind_of(op)
    if kind is None:
        return [f"no device file has a key for {op.name}"]
    if getattr(device.ops, kind) is None:
        return [f"{device.name} has no {kind} (ops.{kind})"]
    return [
        f"{limit.text(wanted)}, got {_text(got)} ({limit.key.replace('*', kind)})"
        for limit, wanted in limits_of(device, kind)
        if (got := limit.got(op)) is not None and not limit.fits(got, wanted)
    ]


def limits_of(device: Device, kind: str) -> Iterator[tuple[Limit, Any]]:
    """Yields the limits that a device sets on a kind of operation, each with the value that it allows."""
    for limit in LIMITS:
        if kind in limit.kinds and (wanted := limit.allowed(device, kind)) is not None:
            yield limit, wanted


def _text(value: object) -> str:
    """A value in words: 3x3, [0, 31], i8 or i16."""
    if isinstance(value, range):
        return f"[{value.start}, {value.stop - 1}]"
    if isinstance(value, frozenset):
        return " or ".join(sorted(map(str, cast(frozenset[object], value))))
    if isinstance(value, tuple):
        values = cast(tuple[object, ...], value)
        return (" or " if any(isinstance(v, Sums) for v in values) else "x").join(map(str, values))
    return str(value)


# ---------------------------------------------------------------------------------------------------------------
# Limits of the device file


def _powers_of_two(numbers: frozenset[int], _: object) -> bool:
    return all(n.bit_count() == 1 for n in numbers)


def _right_shifts(device: Device) -> range:
    return range(device.quant.shift.min, device.quant.shift.max + 1)


def _multiplied(device: Device) -> Iterator[str]:
    """Yields the pairs of types that the array multiplies."""
    for mode in device.array.modes:
        yield f"{mode.a} by {mode.w}"
        if device.quant.zero_point.weights:
            yield f"{mode.a} by {mode.w}{properties.AROUND}"


def _bits(integer: str) -> int:
    """The width of an integer type such as `i32`."""
    return int(integer.removeprefix("i"))


def _both_at_most(got: tuple[int, int], most: tuple[int, int]) -> bool:
    return got[0] <= most[0] and got[1] <= most[1]


def _within(got: frozenset[int], allowed: Any) -> bool:
    return all(n in allowed for n in got)


WINDOWED = ("conv2d", "depthwise", "maxpool", "avgpool")
CONTRACTIONS = ("conv2d", "depthwise", "fc")

# fmt: off
LIMITS = (
    Limit("ops.*.kernel_max", WINDOWED, "a window has at most {wanted} elements", properties.window,
          fits=_both_at_most),
    Limit("ops.*.kernel_area_max", WINDOWED, "a window covers at most {wanted} elements", properties.area),
    Limit("ops.*.stride_max", WINDOWED, "strides are at most {wanted}", properties.stride),
    Limit("ops.*.dilation_max", WINDOWED, "dilations are at most {wanted}", properties.dilation),
    Limit("ops.*.padding_max", WINDOWED, "padding is at most {wanted} on each side", properties.padding),
    Limit("ops.conv2d.groups", ["conv2d"], "channels fall into {wanted} group", lambda op: op.group_count(),
          lambda device, kind: None if device.ops.conv2d and device.ops.conv2d.groups else 1),
    Limit("ops.conv2d.channels_multiple", ["conv2d"], "input channels are a multiple of {wanted}",
          lambda op: shape_of(op.x)[-1], fits=lambda got, wanted: got % wanted == 0),
    Limit("ops.depthwise", ["depthwise"], "each input channel has {wanted} output channel",
          properties.channel_multiplier, lambda device, kind: 1),
    Limit("ops.*.terms_max", ["fc"], "a sum has at most {wanted} products", lambda op: shape_of(op.x)[-1]),
    Limit("ops.add.operand_scale", ["add"], "both operands have {wanted} scale", properties.operand_factors,
          lambda device, kind: 1 if device.ops.add and device.ops.add.operand_scale == "same" else None),
    Limit("ops.avgpool.divisor", ["avgpool"], "a pool divides by {wanted}", properties.divisors,
          lambda device, kind:
              "a power of two" if device.ops.avgpool and device.ops.avgpool.divisor == "pow2" else None,
          _powers_of_two),
    Limit("ops.avgpool", ["avgpool"], "means are rounded away from {wanted}", properties.offset,
          lambda device, kind: 0, eq),
    Limit("ops.*", ["add", "mul"], "both operands have {wanted} type",
          lambda op: len({element_of(op.lhs), element_of(op.rhs)}), lambda device, kind: 1),
    Limit("ops.*", ["add", "mul"], "operands are repeated by whole images, rows and columns alone",
          properties.repeats_otherwise, lambda device, kind: False, eq),
    Limit("ops.move", ["move"], "data moves in at most {wanted} boxes", properties.transfers,
          lambda device, kind: MOST_TRANSFERS),
    Limit("ops.lut.entries", ["lut"], "a table has {wanted} entries", lambda op: op.table.array.size, fits=eq),
    Limit("array.modes", CONTRACTIONS, "the array multiplies {wanted}", properties.multiplied,
          lambda device, kind: frozenset(_multiplied(device)),
          lambda got, wanted: got.types in wanted or got.narrow in wanted),
    Limit("array.modes.acc", CONTRACTIONS, "sums take at most {wanted}", properties.sums,
          lambda device, kind: tuple(Sums(f"{m.a} by {m.w}", _bits(m.acc)) for m in device.array.modes),
          lambda got, wanted: all(got.bits <= mode.bits for mode in wanted if mode.types == got.types)),
    Limit("quant.types", EVERY, "data is {wanted}", properties.narrow_types,
          lambda device, kind: frozenset(device.quant.types), _within),
    Limit("quant.zero_point.activations", EVERY, "zero points are {wanted}", properties.zero_points,
          lambda device, kind: None if device.quant.zero_point.activations else frozenset({0}), _within),
    Limit("quant.round", ["requantize"], "scales change by the contract {wanted}", lambda op: op.contract.data,
          lambda device, kind: device.quant.contract,
          lambda got, wanted: got in (wanted, CONTRACTS[wanted].wide)),
    Limit("quant.scale", ["requantize"], "multipliers are {wanted}", properties.multipliers,
          lambda device, kind: "powers of two" if device.quant.scale == "pow2" else None, _powers_of_two),
    Limit("quant.bias.type", CONTRACTIONS, "a bias has at most {wanted} bits", properties.bias_bits,
          lambda device, kind: None if device.quant.bias.moved_bits else _bits(device.quant.bias.type)),
    Limit("quant.bias.type", CONTRACTIONS, "a bias has at most {wanted} bits before it is moved left",
          properties.moved_bias_bits, lambda device, kind: device.quant.bias.moved_bits),
    Limit("quant.granularity", ["requantize"], "a result has {wanted} scale", properties.scales,
          lambda device, kind: 1 if device.quant.granularity == "tensor" else None),
    Limit("quant.shift", ["requantize"], "products are shifted to the right by {wanted} bits", properties.shifts,
          lambda device, kind: None if device.quant.scale == "float32" else _right_shifts(device), _within),
)
# fmt: on
"""Every limit that a device file can set; a key that is left out sets no limit."""
