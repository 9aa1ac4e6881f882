"""Legality: which operations of an integer network a device computes, and the sentence that refuses each of the others.

There are three kinds of reasons against an operation: a limit of the device file (`LIMITS`), a rule of the commands
that holds for every device (`RULES`), or the operation's partner. Sums never leave the device, so an accumulating
operation and the requantization that ends its sums run on the device together or not at all.

A `Limit` belongs to a key of the device file. It reads a property of an operation (`got`) and what the device allows
(`wanted`), and decides whether the operation fits. If not, its sentence, the numbers and the key are the reason, which
the ledger, `qmlir device check` and the error of a network without fallback show. Operations are judged on the qint
level, where zero points, multipliers and shifts are attributes. Documentation and tests derive from the same table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import eq, ge, le
from typing import Any, cast

from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.changing import Change
from qmlir.devices.description.device import Device
from qmlir.devices.legality.fitting import beyond_memories
from qmlir.devices.legality.layers import beyond_layers
from qmlir.devices.legality.least import beyond_commands
from qmlir.devices.model import properties
from qmlir.devices.model.engines import Engines
from qmlir.devices.model.properties import RightShifts, Sums, WholeVectors, products
from qmlir.devices.model.stored import MOST_TRANSFERS
from qmlir.dialects import nn, qint
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.qint.requantize import AccumulatingOp, width_of
from qmlir.dialects.quant.ops import CastOp, StorageCastOp
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.ir.rewriting import node_name
from qmlir.numerics.contracts import CONTRACTS, MULTIPLIER_BITS
from qmlir.numerics.factors import shift_add

OPERATIONS: dict[type[Operation], str] = {
    qint.Conv2DOp: "conv2d",
    qint.DepthwiseConv2DOp: "depthwise",
    qint.FullyConnectedOp: "fc",
    qint.MatMulOp: "matmul",
    qint.AddOp: "add",
    qint.MulOp: "mul",
    qint.MaxPool2DOp: "maxpool",
    qint.AveragePool2DOp: "avgpool",
    qint.GlobalSumPoolOp: "avgpool",
    qint.SoftmaxOp: "softmax",
    qint.LayerNormOp: "layer_norm",
    qint.RMSNormOp: "rms_norm",
    qint.RequantizeOp: "requantize",
    qint.LookupOp: "lut",
}
"""Integer operation → the key of [ops] that allows it; operations that only move data have the key `move`."""

FOLLOWING = (qint.RescaledAddOp, qint.FloatAddOp, qint.SaturatingFullyConnectedOp)
"""Operations that compute as a followed runtime does; the default numerics have operations of devices instead."""

FOLLOWED = ", which rounds as a runtime does: load the model with the numerics default, as devices round"
"""What to do about an operation of `FOLLOWING`."""

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
    shown     what the operation has, in words, given what it has and what the device allows
    """

    key: str
    kinds: Sequence[str]
    sentence: str
    got: Callable[[Any], Any]
    wanted: Callable[[Device, str], Any] | None = None
    fits: Callable[[Any, Any], bool] = le
    shown: Callable[[Any, Any], str] = lambda got, wanted: _text(got)

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
        return [f"no device file has a key for {op.name}{FOLLOWED if isinstance(op, FOLLOWING) else ''}"]
    if getattr(device.ops, kind) is None:
        return [f"{device.name} has no {kind} (ops.{kind})"]
    return [
        f"{limit.text(wanted)}, got {limit.shown(got, wanted)} ({limit.key.replace('*', kind)})"
        for limit, got, wanted in broken_limits(op, kind, device)
    ]


def broken_limits(op: Operation, kind: str, device: Device) -> Iterator[tuple[Limit, Any, Any]]:
    """Yields the limits that an operation breaks, with what the operation has and what the device allows."""
    for limit, wanted in limits_of(device, kind):
        if (got := limit.got(op)) is not None and not limit.fits(got, wanted):
            yield limit, got, wanted


def limits_of(device: Device, kind: str) -> Iterator[tuple[Limit, Any]]:
    """Yields the limits that a device sets on a kind of operation, each with the value that it allows."""
    for limit in LIMITS:
        if kind in limit.kinds and (wanted := limit.allowed(device, kind)) is not None:
            yield limit, wanted


def operations_of(device: Device) -> dict[str, str]:
    """Each kind of operation, a key of [ops], with the limits that a device sets on it in words."""
    found: dict[str, str] = {}
    for kind in EVERY:
        limits = "; ".join(limit.text(wanted) for limit, wanted in limits_of(device, kind))
        found[kind] = "not computed" if getattr(device.ops, kind) is None else limits or "without limits"
    return found


MOST_VALUES = 4
"""The most values that a sentence lists; a channel-wise requantization has hundreds of multipliers."""


def _text(value: object) -> str:
    """A value in words: 3x3, i8 or i16."""
    if isinstance(value, frozenset):
        words = sorted(map(str, cast(frozenset[object], value)))
        others = len(words) - MOST_VALUES
        return " or ".join(words if others <= 1 else [*words[:MOST_VALUES], f"{others} others"])
    if value == ():
        return "a scalar"
    if isinstance(value, tuple):
        values = cast(tuple[object, ...], value)
        return (" or " if any(isinstance(v, Sums) for v in values) else "x").join(map(str, values))
    return str(value)


# ---------------------------------------------------------------------------------------------------------------
# Limits of the device file


def _powers_of_two(numbers: frozenset[int], _: object) -> bool:
    return all(n.bit_count() == 1 for n in numbers)


def _right_shifts(device: Device) -> RightShifts | None:
    quant = device.quant
    if quant.scale == "float32":
        return None
    bits = 1 if quant.scale == "pow2" else quant.multiplier_bits - 1
    return RightShifts(quant.shift.min, quant.shift.max, MULTIPLIER_BITS - bits, quant.round == "tfl-double")


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
PRODUCTS = (*CONTRACTIONS, "matmul")
OF_ROWS = ("softmax", "layer_norm", "rms_norm")

# fmt: off
LIMITS = (
    Limit("ops.*.kernel_max", WINDOWED, "a window has at most {wanted} elements", properties.window,
          fits=_both_at_most),
    Limit("ops.*.kernel_area_max", WINDOWED, "a window covers at most {wanted} elements", properties.area),
    Limit("ops.*.stride_max", WINDOWED, "strides are at most {wanted}", properties.stride),
    Limit("ops.*.dilation_max", WINDOWED, "dilations are at most {wanted}", properties.dilation),
    Limit("ops.*.padding_max", WINDOWED, "padding is at most {wanted} on each side", properties.padding),
    Limit("ops.conv2d.groups", ["conv2d"], "channels fall into {wanted}", properties.groups,
          lambda device, kind: None if device.ops.conv2d and device.ops.conv2d.groups
          else WholeVectors(device.layout.channels), lambda got, wanted: wanted.take(got)),
    Limit("ops.conv2d.channels_multiple", ["conv2d"], "input channels are a multiple of {wanted}",
          lambda op: shape_of(op.x)[-1], fits=lambda got, wanted: got % wanted == 0),
    Limit("ops.depthwise", ["depthwise"], "each input channel has {wanted} output channel",
          properties.channel_multiplier, lambda device, kind: 1),
    Limit("ops.*.terms_max", ["fc", "matmul"], "a sum has at most {wanted} products",
          lambda op: shape_of(op.operands[0])[-1]),
    Limit("queue.arranges", ["matmul"], "{wanted} brings matrices from where it reads data to where weights are read",
          lambda op: "none", lambda device, kind: None if Engines.of(device).arranging else "a queue",
          lambda got, wanted: False),
    Limit("quant.zero_point.weights", ["matmul"], "the second matrix has the zero point {wanted}",
          lambda op: op.rhs_zero_point.value.data,
          lambda device, kind: None if device.quant.zero_point.weights else 0, eq),
    Limit("ops.add.operand_scale", ["add"], "both operands have {wanted} scale", properties.operand_factors,
          lambda device, kind: 1 if device.ops.add and device.ops.add.operand_scale == "same" else None),
    Limit("ops.add.multiplier_bits", ["add"], "operands have multipliers of at most {wanted} bits beside one of both",
          properties.own_multiplier_bits),
    Limit("ops.add.ratio", ["add"], "the larger multiplier of an operand is the other one {wanted}",
          properties.own_multipliers,
          lambda device, kind: "shifted, plus or minus a power of two"
          if device.ops.add and device.ops.add.ratio == "shift-add" else None,
          lambda got, wanted: shift_add(*sorted(got)) is not None),
    Limit("ops.add.operand_scale", ["add"], "both operands have the result's scale, {wanted} time theirs",
          properties.operand_ratios,
          lambda device, kind: 1 if device.ops.add and device.ops.add.operand_scale == "rounded" else None,
          lambda got, wanted: all(ratio == wanted for ratio in got)),
    Limit("ops.avgpool.divisor", ["avgpool"], "a pool divides by {wanted}", properties.divisors,
          lambda device, kind:
              "a power of two" if device.ops.avgpool and device.ops.avgpool.divisor == "pow2" else None,
          _powers_of_two),
    Limit("ops.avgpool", ["avgpool"], "means are rounded away from {wanted}", properties.offset,
          lambda device, kind: 0, eq),
    Limit("ops.*", ["add", "mul"], "both operands have {wanted} type",
          lambda op: len({element_of(op.lhs), element_of(op.rhs)}), lambda device, kind: 1),
    Limit("ops.*", ["add", "mul"], "operands are repeated by whole images, rows and columns alone",
          properties.repeated_otherwise, lambda device, kind: (), lambda got, wanted: False),
    Limit("ops.*", ["mul", "avgpool"], "products and sums of pools have at most {wanted} bits",
          properties.accumulator_bits, lambda device, kind: 32),
    Limit("ops.move", ["move"], "data moves in at most {wanted} boxes", properties.transfers,
          lambda device, kind: MOST_TRANSFERS),
    Limit("ops.*.row_max", OF_ROWS, "a row has at most {wanted} elements", lambda op: op.split()[1]),
    Limit("ops.*", OF_ROWS, "neighbours of a row lie {wanted} element apart", lambda op: op.split()[2],
          lambda device, kind: 1),
    Limit("ops.softmax", ["softmax"], "a row's exponentials sum to at least {wanted} time what their division takes",
          properties.least_sum, lambda device, kind: 1, ge),
    Limit("ops.lut.type", ["lut"], "entries of a table are {wanted}", lambda op: str(element_of(op.y)),
          lambda device, kind: device.ops.lut and device.ops.lut.type, fits=eq),
    Limit("ops.lut.entries", ["lut"], "a table has {wanted} entries", lambda op: op.table.array.size, fits=eq),
    Limit("ops.act", CONTRACTIONS, "the bounds of a result are {wanted}", properties.activation,
          lambda device, kind: frozenset(device.ops.act) - {"lut"},
          lambda got, wanted: got == "none" or got in wanted or "clamp" in wanted),
    Limit("array.modes", PRODUCTS, "the array multiplies {wanted}", properties.multiplied,
          lambda device, kind: frozenset(_multiplied(device)),
          lambda got, wanted: got.types in wanted or got.narrow in wanted),
    Limit("array.modes.acc", PRODUCTS, "sums take at most {wanted}", properties.sums,
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
    Limit("quant.multiplier_bits", ["requantize"], "multipliers have at most {wanted} bits", properties.multiplier_bits,
          lambda device, kind: device.quant.multiplier_bits if device.quant.scale == "mult-shift" else None),
    Limit("quant.shift.per", ["requantize"], "all multipliers of a layer have at most {wanted} bits at one shift",
          properties.bits_at_one_shift,
          lambda device, kind: device.quant.multiplier_bits
          if device.quant.scale == "mult-shift" and device.quant.shift.per == "layer" else None),
    Limit("quant.shift", ["requantize"], "products are shifted to the right by {wanted} bits", properties.products_of,
          lambda device, kind: _right_shifts(device), lambda got, wanted: all(p.within(wanted) for p in got),
          lambda got, wanted: wanted.shortest(got)),
)
# fmt: on
"""Every limit that a device file can set; a key that is left out sets no limit."""


# ---------------------------------------------------------------------------------------------------------------
# Reasons: why the device refuses an operation and the host computes it


def reasons(op: Operation, device: Device) -> list[str]:
    """Why a device does not compute an operation, a sentence each; empty if the device computes it."""
    if found := _own_reasons(op, device):
        return found
    partner = partner_of(op)
    others = [] if partner is None else _own_reasons(partner, device)
    return [f"{partner.name}, with which it runs, stays on the host: {others[0]}"] if partner and others else []


def partner_of(op: Operation) -> Operation | None:
    """The requantization that ends the sums of an accumulating operation, or the reverse; None without a partner."""
    if isinstance(op, AccumulatingOp):
        users = [use.operation for use in op.results[0].uses]
        return users[0] if len(users) == 1 and isinstance(users[0], qint.RequantizeOp) else None
    if isinstance(op, qint.RequantizeOp) and isinstance(sums := op.x.owner, AccumulatingOp):
        return sums if partner_of(sums) is op else None
    return None


def _own_reasons(op: Operation, device: Device) -> list[str]:
    if isinstance(op, StorageCastOp):
        return []  # a storage cast renames the same bytes
    if isinstance(op, CastOp):
        return ["what comes from the caller or goes there is cast by the host"]
    if not has_elements(op):  # the limits of a device file apply to elements
        return [ELEMENTS]
    if found := refusals(op, device) or [sentence for sentence, holds in RULES if not holds(op)]:
        return found
    partner = partner_of(op) if isinstance(op, AccumulatingOp) else None
    together = [op] if partner is None else [op, partner]
    ends = isinstance(op, qint.RequantizeOp) and partner_of(op) is not None  # judged with the sums that it ends
    beyond = beyond_commands(op, device) or (None if ends else beyond_layer(together, device))
    beyond = beyond or beyond_memories(together, device)
    return [] if beyond is None else [beyond]


def beyond_layer(
    operations: Sequence[Operation], device: Device, same: Mapping[SSAValue, SSAValue] | None = None
) -> str | None:
    """Why the device's encoder of whole layers cannot say a layer; the arguments are those of `beyond_layers`."""
    return beyond_layers(operations, kind_of(operations[0]) or "", device, same)


def has_elements(op: Operation) -> bool:
    """Whether no tensor of an operation is empty."""
    return all(prod(shape_of(value)) for value in (*op.operands, *op.results))


def _is_narrow(op: Operation) -> bool:
    """Whether the tensors that the operation exchanges with other layers have 8 or 16 bits."""
    seen = [*op.results, *op.operands]
    if isinstance(op, AccumulatingOp):
        seen = list(op.narrow_operands())
    elif partner_of(op) is not None:
        seen = list(op.results)
    return all(isinstance(element_of(value), IntegerType) and width_of(value) <= 16 for value in seen)


def _has_constants(op: Operation) -> bool:
    """Whether the weights and the bias of an operation are constants; true of an operation that has none."""
    return not isinstance(op, WeightedOp) or all(isinstance(v.owner, nn.ConstantOp) for v in op.operands[1:])


def _ends_sums(op: Operation) -> bool:
    return not isinstance(op, AccumulatingOp) or partner_of(op) is not None


ELEMENTS = "tensors have elements"

RULES: Sequence[tuple[str, Callable[[Operation], bool]]] = (
    (ELEMENTS, has_elements),
    ("weights and bias are constants", _has_constants),
    ("sums end in one change of scale to 8 or 16 bits", _ends_sums),
    ("data of other layers has 8 or 16 bits", _is_narrow),
)
"""Rules for operations on every device: a sentence, and whether it holds for an operation that the file allows."""


def computes(op: Operation) -> bool:
    """Whether an operation does more than move data."""
    return isinstance(op, TensorOp) and not isinstance(op, MovementOp | CastOp | nn.ConstantOp)


# ---------------------------------------------------------------------------------------------------------------
# Reports which operations of an integer network a device computes, and why it refuses the others.


@dataclass(frozen=True)
class Legality:
    """Whether a device computes an operation, and why not.

    node        the source nodes that the operation stands for
    operation   its kind, such as `qint.conv2d`
    macs        products that it computes
    refusals    why the device does not compute it, a sentence each; empty if the device computes it
    keys        the changes of the device file that together would bring it to the device
    no_key      why no change of the file would; empty if some would, and if the device computes it
    """

    node: str
    operation: str
    macs: int
    refusals: tuple[str, ...]
    keys: tuple[Change, ...] = ()
    no_key: str = ""


def legality_of(
    module: ModuleOp, device: Device, host: Mapping[Operation, Sequence[str]] | None = None
) -> list[Legality]:
    """The legality of each operation of a network on the qint level, in program order.

    Args:
        module: The network.
        device: The device.
        host: The operations that the host computes, with the reasons; by default those that the device cannot compute.
    """
    found = {op: reasons(op, device) for op in computing(module)} if host is None else host
    return [Legality(source_nodes(op), op.name, products(op), tuple(found.get(op, ()))) for op in computing(module)]


def source_nodes(op: Operation) -> str:
    """The source nodes of an operation; sums are named by the operation that ends them, which carries the names."""
    named = op
    while not NAME.on(named) and (uses := list(named.results[0].uses)) and len(uses) == 1:
        named = uses[0].operation
        if not isinstance(named, TensorOp):
            return node_name(op)
    return node_name(named if NAME.on(named) else op)


def computing(module: ModuleOp) -> Iterator[Operation]:
    """Yields the operations that compute or move data; a change of type alone does neither."""
    for op in module.walk():
        if isinstance(op, TensorOp) and not isinstance(op, ConstantOp | StorageCastOp):
            yield op


def share_on_device(judged: Sequence[Legality]) -> float:
    """The share of all products that the device computes; 1 if the network has no products."""
    total = sum(v.macs for v in judged)
    return sum(v.macs for v in judged if not v.refusals) / total if total else 1.0
