"""Changes: which keys of a device file, with which values, would bring an operation from the host to the device.

A change answers a limit (limits.py): the least value of its key that allows what the operation has. An operation may
need several, and a change may call for another: a device whose data has zero points reads other weights. Changes are
therefore collected until the changed device has no reason against the operation. What an instruction set cannot say,
whatever the file says, has no key.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, get_args

from xdsl.ir import Operation

from qmlir.devices.description.changing import Change, value_of
from qmlir.devices.description.device import Device
from qmlir.devices.description.schema import Accumulator, Addend
from qmlir.devices.legality.fitting import too_large_for
from qmlir.devices.legality.limits import (
    ELEMENTS,
    RULES,
    Limit,
    broken_limits,
    has_elements,
    kind_of,
    partner_of,
    reasons,
)
from qmlir.devices.model import properties
from qmlir.devices.model.encoder import encoder_of
from qmlir.devices.model.engines import Engines
from qmlir.dialects import qint
from qmlir.dialects.qint.requantize import AccumulatingOp
from qmlir.dialects.quant.ops import CastOp
from qmlir.errors import OptionError
from qmlir.ir.interfaces import element_of
from qmlir.numerics.contracts import CONTRACTS
from qmlir.plugins import PluginError

Settings = dict[str, object]
"""Keys of a device file, with their values as plain data."""

NO_COMMAND = "the instruction set has no such command"
"""Why an operation of which no device file has a key stays on the host."""

CALLER = "the caller's floats are cast by the host"
"""Why casts at the network's ends stay on the host."""


@dataclass(frozen=True)
class Needed:
    """What would bring operations to a device.

    settings  the keys, with the values that they need; empty if there is no need, or no way
    no_key    why there is no way; empty if there is
    """

    settings: Settings
    no_key: str = ""

    def changes(self, device: Device) -> tuple[Change, ...]:
        """The settings beside the device's own."""
        return tuple(Change(key, value_of(device, key), value) for key, value in self.settings.items())


Reasons = Callable[[Operation, Device], list[str]]

MOST_ROUNDS = 8
"""The most times that changes may call for others; the rules of device files are not so deep."""


def needed_for(operations: Iterable[Operation], device: Device, against: Reasons = reasons) -> Needed:
    """What would let a device compute operations, with those that end or compute their sums.

    Args:
        operations: The operations.
        device: The device.
        against: The reasons against an operation that are to be answered: all, or those of the limits alone.
    """
    settings: Settings = {}
    for op in operations:
        pair = [op, partner] if (partner := partner_of(op)) is not None else [op]
        for _ in range(MOST_ROUNDS):
            changed, before = device.with_(settings), dict(settings)
            if not (left := against(op, changed)):
                break
            for each in pair:
                found = _step(each, changed)
                if isinstance(found, str):
                    return Needed({}, found)
                settings |= found
            if settings == before:  # no limit of the file is broken: the commands do not say it
                return Needed({}, left[0])
            try:
                encoder_of(device.with_(settings))
            except OptionError as error:
                return Needed({}, str(error))
            except PluginError as error:  # the hardware that the encoder writes words for is another
                return Needed({}, f"{error.need}, got {error.got}")
        else:
            return Needed({}, against(op, device.with_(settings))[0])
    return Needed(settings)


def _step(op: Operation, device: Device) -> Settings | str:
    """The settings that an operation's broken limits need; a sentence if there are none."""
    if isinstance(op, CastOp):
        return CALLER
    if not has_elements(op):
        return ELEMENTS
    if (kind := kind_of(op)) is None:
        return NO_COMMAND
    if getattr(device.ops, kind) is None:
        return _table(op, kind, device)
    settings: Settings = {}
    for limit, got, wanted in broken_limits(op, kind, device):
        answer = ANSWERS.get(limit.key)
        found = None if answer is None else answer(_Broken(op, kind, limit, got, device))
        if not found:
            return f"no device file allows more: {limit.text(wanted)}, got {limit.shown(got, wanted)}"
        settings |= found
    if settings:
        return settings
    if broken := [sentence for sentence, holds in RULES if not holds(op)]:
        return broken[0]
    partner = partner_of(op) if isinstance(op, AccumulatingOp) else None
    layer = [op] if partner is None else [op, partner]
    return {
        key: size for role, _, _ in too_large_for(layer, device) for key, size in _larger(role, layer, device).items()
    }


def _table(op: Operation, kind: str, device: Device) -> Settings:
    """The table of [ops] that allows a kind of operation, and what it calls for."""
    table: Settings = {}
    if isinstance(op, qint.LookupOp):
        table = {"entries": op.table.array.size, "type": str(element_of(op.y))}
    elif kind == "add":
        table = {"operand_scale": "independent"}
    settings: Settings = {f"ops.{kind}": table}
    if kind == "depthwise" and device.array.depthwise is None:
        settings = {"array.depthwise": {"lanes": {"c": device.array.lanes.n}}} | settings
    if kind == "matmul" and Engines.of(device).arranging is None:
        settings = _arranging(device) | settings
    return settings


def _arranging(device: Device) -> Settings:
    """A queue that arranges matrices as weights: that of pools, which reads data already."""
    queue = Engines.of(device).pool
    speed: Settings = {} if queue.elements_per_cycle else {f"queue.{queue.id}.elements_per_cycle": 1.0}
    return {f"queue.{queue.id}.arranges": True} | speed


MOST_DOUBLINGS = 20


def _larger(role: str, layer: list[Operation], device: Device) -> Settings:
    """The size of a memory, doubled until it holds a role of the smallest tile of a layer."""
    memory = next(m for m in sorted(device.memory, key=lambda m: m.external) if role in m.holds)
    key, size = f"memory.{memory.id}.bytes", memory.bytes
    for _ in range(MOST_DOUBLINGS):
        size *= 2
        if all(other != role for other, _, _ in too_large_for(layer, device.with_({key: size}))):
            break
    return {key: size}


# ---------------------------------------------------------------------------------------------------------------
# The answer to each limit


@dataclass(frozen=True)
class _Broken:
    """A limit that an operation breaks, what the operation has, and the device."""

    op: Any
    kind: str
    limit: Limit
    got: Any
    device: Device

    @property
    def key(self) -> str:
        """The key of the limit."""
        return self.limit.key.replace("*", self.kind)


def _as_much(broken: _Broken) -> Settings:
    return {broken.key: broken.got}


def _both(broken: _Broken) -> Settings:
    most = broken.limit.allowed(broken.device, broken.kind)
    return {broken.key: [max(pair) for pair in zip(broken.got, most, strict=True)]}


def _always(value: object) -> Callable[[_Broken], Settings]:
    return lambda broken: {broken.key: value}


def _types(broken: _Broken) -> Settings:
    own = list(broken.device.quant.types)
    return {broken.key: [*own, *sorted(set(broken.got) - set(own))]} if set(broken.got) <= {"i8", "i16"} else {}


def _bounds(broken: _Broken) -> Settings:
    return {broken.key: [*broken.device.ops.act, broken.got]}


def _modes(broken: _Broken) -> Settings:
    """Weights around a zero point if the device multiplies by as narrow ones, another pair of types otherwise."""
    got, modes = broken.got, value_of(broken.device, "array.modes")
    pairs = {f"{mode.a} by {mode.w}" for mode in broken.device.array.modes}
    if got.narrow is not None and got.narrow.removesuffix(properties.AROUND) in pairs:
        return {"quant.zero_point.weights": True}
    data, _, weights = got.types.partition(" by ")
    assert isinstance(modes, list)
    return {"array.modes": [*modes, {"a": data, "w": weights, "acc": _wide(properties.sums(broken.op).bits)}]}


def _wide(bits: int) -> str:
    """The narrowest type of sums of at least so many bits."""
    return next((type for type in get_args(Accumulator) if int(type[1:]) >= bits), "i64")


def _sums(broken: _Broken) -> Settings:
    return {
        f"array.modes.{number}.acc": _wide(broken.got.bits)
        for number, mode in enumerate(broken.device.array.modes)
        if f"{mode.a} by {mode.w}" == broken.got.types
    }


def _contract(broken: _Broken) -> Settings:
    """The scale and the rounding of the device that has a contract; nothing if no device has it."""
    got = broken.got
    base = next(
        (name for name, contract in CONTRACTS.items() if got in (name, contract.wide) and contract.device), None
    )
    if base is None or (device := CONTRACTS[base].device) is None:
        return {}
    quant = broken.device.quant
    settings: Settings = {}
    if quant.scale != device[0]:
        settings["quant.scale"] = device[0]
    if quant.round != device[1]:
        settings["quant.round"] = device[1]
    for bits in (quant.multiplier_bits, 32, 16):
        trial = settings | ({} if bits == quant.multiplier_bits else {"quant.multiplier_bits": bits})
        if quant.model_copy(update={_last(k): v for k, v in trial.items()}).contract == base:
            return trial
    return {}


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _factors(broken: _Broken) -> Settings:
    """Multipliers that are no powers of two; another contract brings them, if there is one."""
    return _contract(_Broken(broken.op, broken.kind, broken.limit, broken.op.contract.data, broken.device)) or {
        "quant.scale": "mult-shift"
    }


def _shifts(broken: _Broken) -> Settings:
    """Shifts as far as the products need, and those that the device has."""
    own, narrow = broken.device.quant.shift, broken.limit.allowed(broken.device, broken.kind).narrow
    if not all(p.spare >= narrow for p in broken.got):  # the multipliers have more bits than the device's
        bits: Settings = {"quant.multiplier_bits": properties.multiplier_bits(broken.op)}
        return bits if broken.device.quant.scale == "mult-shift" else _factors(broken)
    shifts = [p.shift - narrow for p in broken.got]
    low, high = min(own.min, *shifts), max(own.max, *shifts)
    settings = {"quant.shift.min": low, "quant.shift.max": high}
    return {key: value for key, value in settings.items() if value != value_of(broken.device, key) and 0 <= value <= 63}


def _bias(broken: _Broken) -> Settings:
    bits = properties.bias_bits(broken.op) or 0
    least = max(bits, 24)  # not 8 or 16 bits, which are moved
    found = next((type for type in get_args(Addend) if int(type[1:]) >= least), None)
    return {} if found is None else {broken.key: found}


def _multiple(broken: _Broken) -> Settings:
    return {broken.key: gcd(broken.got, broken.limit.allowed(broken.device, broken.kind))}


ANSWERS: Mapping[str, Callable[[_Broken], Settings]] = {
    "ops.*.kernel_max": _both,
    "ops.*.kernel_area_max": _as_much,
    "ops.*.stride_max": _as_much,
    "ops.*.dilation_max": _as_much,
    "ops.*.padding_max": _as_much,
    "ops.conv2d.groups": _always(True),
    "ops.conv2d.channels_multiple": _multiple,
    "ops.*.terms_max": _as_much,
    "ops.*.row_max": _as_much,
    "queue.arranges": lambda broken: _arranging(broken.device),
    "ops.add.operand_scale": _always("independent"),
    "ops.add.multiplier_bits": _as_much,
    "ops.add.ratio": _always("any"),
    "ops.avgpool.divisor": _always("any"),
    "ops.act": _bounds,
    "ops.lut.type": _as_much,
    "ops.lut.entries": _as_much,
    "array.modes": _modes,
    "array.modes.acc": _sums,
    "quant.types": _types,
    "quant.zero_point.activations": _always(True),
    "quant.zero_point.weights": _always(True),
    "quant.round": _contract,
    "quant.scale": _factors,
    "quant.bias.type": _bias,
    "quant.granularity": _always("channel"),
    "quant.multiplier_bits": _as_much,
    "quant.shift.per": _always("factor"),
    "quant.shift": _shifts,
}
"""Key of a limit → the settings that allow what an operation has. The other limits are those of every command."""
