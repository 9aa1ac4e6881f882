"""The options that a device imposes on the quantizer, so that the device can run the quantized network."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from qmlir.devices.description.device import Device
from qmlir.devices.description.reading import Accelerator, load_device
from qmlir.dialects.target import Target, load_target
from qmlir.errors import OptionError
from qmlir.numerics.contracts import CONTRACTS, MULTIPLIER_BITS
from qmlir.numerics.factors import Factors

PRECISIONS = {"i8": "int8", "i16": "int16"}
"""Types of a device file → the quantizer's precisions."""

BIASES = {"i8": "int8", "i16": "int16", "i32": "int32"}
"""Bias types of a device file → the quantizer's bias types; a wider bias is as wide as its data requires."""


@dataclass(frozen=True)
class Requirements:
    """Options of `quantize` that a device fixes.

    schema            how ranges become scales and zero points
    precision         storage type of data; the device has this type
    weight_precision  storage type of weights: `same` as the data, unless the array multiplies by another type only
    per_channel       whether weights may have a scale for each output channel
    bias              storage type of biases: 8, 16 or 32 bits if the device has no wider type, otherwise `auto`
    """

    schema: str
    precision: str
    weight_precision: str
    per_channel: bool
    bias: str

    def options(self) -> Mapping[str, object]:
        """The options in the form that the pass `quantize` takes."""
        return asdict(self)


def requirements(device: Device, precision: str | None = None) -> Requirements:
    """The options that the quantizer has to follow; without `precision`, data has the device's first type.

    Raises:
        OptionError: The device has no data of that precision.
    """
    if device.quant.scale == "pow2":
        schema = "symmetric_with_power2_scale"
    else:
        schema = "asymmetric" if device.quant.zero_point.activations else "symmetric"
    bias = BIASES.get(device.quant.bias.type, "auto")
    known = [PRECISIONS[type] for type in device.quant.types]
    if precision is not None and precision not in known:
        raise OptionError("precision", f"must be one of {', '.join(known)} for {device.name}", got=precision)
    data = precision or known[0]
    weights = [PRECISIONS[mode.w] for mode in device.array.modes if PRECISIONS[mode.a] == data]
    other = "same" if data in weights or not weights else weights[0]
    return Requirements(schema, data, other, device.quant.granularity == "channel", bias)


OPEN = ("same", "auto")
"""Values of options that leave the choice to the device."""


def required_options(target: Accelerator, given: Mapping[str, object]) -> dict[str, object]:
    """The options of `quantize` that a device fixes, merged with the user's choices for them.

    Args:
        target: The device, its name, or the path of its file.
        given: Options that the user sets, by name.

    Raises:
        OptionError: The user asks for an option that the device does not have.
    """
    device = load_device(target)
    precision = given.get("precision")
    fixed = requirements(device, precision if isinstance(precision, str) else None).options()
    asked = {name: value for name, value in given.items() if name in fixed and value not in OPEN}
    for name, value in asked.items():
        if fixed[name] not in (value, *OPEN) and value is not False:
            raise OptionError(name, f"must be {fixed[name]} for {device.name}", got=str(value), remedy="leave it out")
    return {**fixed, **asked}


def target_of_device(device: Device) -> Target:
    """The device and its host as one target; an operation has an integer form if either of them has it.

    The host computes the operations that the device refuses, with the device's own contract: where an operation runs
    does not change its bits. A device that only shifts rounds like `single`, which becomes `shift` if scales are powers
    of two.
    """
    host = load_target("cpu")
    contract = "single" if device.quant.scale == "pow2" else device.quant.contract
    moved = device.quant.bias.moved_bits is not None
    return Target(
        device.name, contract, host.integer, host.floating, host.sum_bits, factors_of(device), moved,
        rounds_operands=_rounds_operands(device),
    )  # fmt: skip


def _rounds_operands(device: Device) -> bool:
    return device.ops.add is not None and device.ops.add.operand_scale == "rounded"


def quantization_key(device: Device) -> str:
    """All that the quantizer reads of a device, as text: networks are quantized alike for devices with equal texts.

    The functions above read no other keys.
    """
    modes = [(mode.a, mode.w) for mode in device.array.modes]
    own = None if device.ops.add is None else (device.ops.add.multiplier_bits, device.ops.add.ratio)
    quant = device.quant.model_dump(mode="json")
    return json.dumps([device.name, modes, quant, own, _rounds_operands(device)])


LEAST_PRECISION, SPARE_BITS = 15, 2
"""The fewest bits of a multiplier, and how many more it has at least than the data, if the device has as many."""


def factors_of(device: Device) -> Factors | None:
    """The factors between scales that a device applies; None if factors are floats.

    A smaller factor has a multiplier of fewer bits where shifts to the right are too short for all its bits, as long as
    the multiplier keeps enough of them. A contract that rounds twice gives other results for such multipliers. Where
    multipliers share a shift, they keep so many bits that the largest result is off by at most half a step.
    """
    quant = device.quant
    if quant.scale == "float32":
        return None
    bits = 1
    if quant.scale == "mult-shift":
        bits = min(quant.multiplier_bits - 1, MULTIPLIER_BITS + 1 - CONTRACTS[quant.contract].step.bit_length())
    widest = max(int(type[1:]) for type in quant.types)
    precision = bits if quant.round == "tfl-double" else min(bits, max(LEAST_PRECISION, widest + SPARE_BITS))
    shared = min(bits, widest) if quant.shift.per == "layer" else None
    own = None if device.ops.add is None or (most := device.ops.add.multiplier_bits) is None else most - 1
    ratio = device.ops.add is not None and device.ops.add.ratio == "shift-add"
    return Factors(bits, precision, quant.shift.min, quant.shift.max, shared, own, ratio)
