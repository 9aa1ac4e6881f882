"""The limits of a device: one table from which legality, documentation and tests are derived.

A `Limit` belongs to a key of the device file. It reads a property of an integer operation (`got`), reads what the
device allows (`wanted`), and decides whether the operation fits. Operations are judged on the qint level, where zero
points, multipliers and shifts are attributes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.ir import Operation

from qmlir.devices import properties
from qmlir.devices.description import Device
from qmlir.devices.properties import Sums
from qmlir.devices.stored import MOST_TRANSFERS
from qmlir.dialects import qint
from qmlir.dialects.nn.movement import MovementOp
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
    wanted    what the device allows; None if the device sets no limit
    got       what the operation has; None if the operation does not have this property
    fits      whether what the operation has is allowed
    """

    key: str
    kinds: Sequence[str]
    sentence: str
    wanted: Callable[[Device, str], Any]
    got: Callable[[Any], Any]
    fits: Callable[[Any, Any], bool]

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
        if kind in limit.kinds and (wanted := limit.wanted(device, kind)) is not None:
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


def _of(kind_key: str) -> Callable[[Device, str], Any]:
    """A function that reads a key in the table of the operation's kind; None if the table has no such key."""
    return lambda device, kind: getattr(getattr(device.ops, kind), kind_key, None)


def _at_most(got: Any, most: Any) -> bool:
    return got <= most


def _both_at_most(got: tuple[int, int], most: tuple[int, int]) -> bool:
    return got[0] <= most[0] and got[1] <= most[1]


def _within(got: frozenset[int], allowed: Any) -> bool:
    return all(n in allowed for n in got)


WINDOWED = ("conv2d", "depthwise", "maxpool", "avgpool")

LIMITS = (
    Limit(
        "ops.*.kernel_max",
        WINDOWED,
        "a window has at most {wanted} elements",
        _of("kernel_max"),
        properties.window,
        _both_at_most,
    ),
    Limit(
        "ops.*.kernel_area_max",
        WINDOWED,
        "a window covers at most {wanted} elements",
        _of("kernel_area_max"),
        properties.area,
        _at_most,
    ),
    Limit("ops.*.stride_max", WINDOWED, "strides are at most {wanted}", _of("stride_max"), properties.stride, _at_most),
    Limit(
        "ops.*.dilation_max",
        WINDOWED,
        "dilations are at most {wanted}",
        _of("dilation_max"),
        properties.dilation,
        _at_most,
    ),
    Limit(
        "ops.*.padding_max",
        WINDOWED,
        "padding is at most {wanted} on each side",
        _of("padding_max"),
        properties.padding,
        _at_most,
    ),
    Limit(
        "ops.conv2d.groups",
        ["conv2d"],
        "channels fall into {wanted} group",
        lambda device, kind: None if device.ops.conv2d and device.ops.conv2d.groups else 1,
        properties.groups,
        _at_most,
    ),
    Limit(
        "ops.conv2d.channels_multiple",
        ["conv2d"],
        "input channels are a multiple of {wanted}",
        _of("channels_multiple"),
        properties.input_channels,
        lambda got, wanted: got % wanted == 0,
    ),
    Limit(
        "ops.depthwise",
        ["depthwise"],
        "each input channel has {wanted} output channel",
        lambda device, kind: 1,
        properties.channel_multiplier,
        _at_most,
    ),
    Limit(
        "ops.*.terms_max",
        ["fc"],
        "a sum has at most {wanted} products",
        _of("terms_max"),
        properties.terms,
        _at_most,
    ),
    Limit(
        "ops.add.operand_scale",
        ["add"],
        "both operands have {wanted} scale",
        lambda device, kind: 1 if device.ops.add and device.ops.add.operand_scale == "same" else None,
        properties.operand_factors,
        _at_most,
    ),
    Limit(
        "ops.avgpool.divisor",
        ["avgpool"],
        "a pool divides by {wanted}",
        lambda device, kind: "a power of two" if device.ops.avgpool and device.ops.avgpool.divisor == "pow2" else None,
        properties.divisors,
        _powers_of_two,
    ),
    Limit(
        "ops.avgpool",
        ["avgpool"],
        "means are rounded away from {wanted}",
        lambda device, kind: 0,
        properties.offset,
        lambda got, wanted: got == wanted,
    ),
    Limit(
        "ops.*",
        ["add", "mul"],
        "both operands have {wanted} type",
        lambda device, kind: 1,
        properties.operand_types,
        _at_most,
    ),
    Limit(
        "ops.*",
        ["add", "mul"],
        "operands are repeated by whole images, rows and columns alone",
        lambda device, kind: False,
        properties.repeats_otherwise,
        lambda got, wanted: got == wanted,
    ),
    Limit(
        "ops.move",
        ["move"],
        "data moves in at most {wanted} boxes",
        lambda device, kind: MOST_TRANSFERS,
        properties.transfers,
        _at_most,
    ),
    Limit(
        "ops.lut.entries",
        ["lut"],
        "a table has {wanted} entries",
        _of("entries"),
        properties.entries,
        lambda got, wanted: got == wanted,
    ),
    Limit(
        "array.modes",
        ("conv2d", "depthwise", "fc"),
        "the array multiplies {wanted}",
        lambda device, kind: frozenset(_multiplied(device)),
        properties.multiplied,
        lambda got, wanted: got.types in wanted or got.narrow in wanted,
    ),
    Limit(
        "array.modes.acc",
        ("conv2d", "depthwise", "fc"),
        "sums take at most {wanted}",
        lambda device, kind: tuple(Sums(f"{m.a} by {m.w}", int(m.acc.removeprefix("i"))) for m in device.array.modes),
        properties.sums,
        lambda got, wanted: all(got.bits <= mode.bits for mode in wanted if mode.types == got.types),
    ),
    Limit(
        "quant.types",
        EVERY,
        "data is {wanted}",
        lambda device, kind: frozenset(device.quant.types),
        properties.narrow_types,
        _within,
    ),
    Limit(
        "quant.zero_point.activations",
        EVERY,
        "zero points are {wanted}",
        lambda device, kind: None if device.quant.zero_point.activations else frozenset({0}),
        properties.zero_points,
        _within,
    ),
    Limit(
        "quant.round",
        ["requantize"],
        "scales change by the contract {wanted}",
        lambda device, kind: device.quant.contract,
        properties.contract,
        lambda got, wanted: got in (wanted, CONTRACTS[wanted].wide),
    ),
    Limit(
        "quant.scale",
        ["requantize"],
        "multipliers are {wanted}",
        lambda device, kind: "powers of two" if device.quant.scale == "pow2" else None,
        properties.multipliers,
        _powers_of_two,
    ),
    Limit(
        "quant.bias.type",
        ("conv2d", "depthwise", "fc"),
        "a bias has at most {wanted} bits",
        lambda device, kind: None if device.quant.bias.moved_bits else int(device.quant.bias.type.removeprefix("i")),
        properties.bias_bits,
        _at_most,
    ),
    Limit(
        "quant.bias.type",
        ("conv2d", "depthwise", "fc"),
        "a bias has at most {wanted} bits before it is moved left",
        lambda device, kind: device.quant.bias.moved_bits,
        properties.moved_bias_bits,
        _at_most,
    ),
    Limit(
        "quant.granularity",
        ["requantize"],
        "a result has {wanted} scale",
        lambda device, kind: 1 if device.quant.granularity == "tensor" else None,
        properties.scales,
        _at_most,
    ),
    Limit(
        "quant.shift",
        ["requantize"],
        "products are shifted to the right by {wanted} bits",
        lambda device, kind: None if device.quant.scale == "float32" else _right_shifts(device),
        properties.shifts,
        _within,
    ),
)
"""Every limit that a device file can set; a key that is left out sets no limit."""
