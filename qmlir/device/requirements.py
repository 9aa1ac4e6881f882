"""What a device asks of the quantizer, so that what comes out has a place on it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from qmlir.device.description import Device
from qmlir.device.reading import load_device
from qmlir.errors import OptionError
from qmlir.target import Target, load_target

PRECISIONS = {"i8": "int8", "u8": "uint8", "i16": "int16"}
"""Types of a device file → precisions of the quantizer."""

BIASES = {"i8": "int8", "i16": "int16", "i32": "int32"}
"""The same of biases; wider ones are as wide as the data make them."""


@dataclass(frozen=True)
class Requirements:
    """Options of `quantize` that a device fixes.

    schema            how ranges become scales and zero points
    precision         storage of data, one of those the device has
    weight_precision  storage of weights: that of the data, unless the array multiplies these by others alone
    per_channel       whether weights may have a scale for each output channel
    bias              storage of biases: 8, 16 or 32 bits where the device has no wider ones
    """

    schema: str
    precision: str
    weight_precision: str
    per_channel: bool
    bias: str

    def options(self) -> Mapping[str, object]:
        """As the pass `quantize` takes them."""
        return asdict(self)


def requirements(device: Device, precision: str | None = None) -> Requirements:
    """What the quantizer has to keep to; `precision` is the device's first type unless given.

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
    other = "same" if data in weights or data == "uint8" or not weights else weights[0]
    return Requirements(schema, data, other, device.quant.granularity == "channel", bias)


def required_options(target: str | Path, **given: object) -> Mapping[str, object]:
    """The options of `quantize` that a device fixes, and those that the user gives within what it allows.

    Args:
        target: The device, by its name or its file.
        given: What the user asks for; None where that is nothing.

    Raises:
        OptionError: The user asks for something that the device does not have.
    """
    device = load_device(target)
    precision = given.get("precision")
    fixed = requirements(device, precision if isinstance(precision, str) else None).options()
    asked = {name: value for name, value in given.items() if value is not None}
    for name, value in asked.items():
        if fixed[name] not in (value, "auto", "same") and value is not False:
            raise OptionError(name, f"must be {fixed[name]} for {device.name}", got=str(value), remedy="leave it out")
    return {**fixed, **asked}


def target_of_device(device: Device) -> Target:
    """The device and its host as one target: everything has an integer form that one of the two has.

    What the device refuses the host computes, by the device's own contract: where an operation runs does not change
    its bits. A device that only shifts rounds like `single`, which becomes `shift` where scales are powers of two.
    """
    host = load_target("cpu")
    contract = "single" if device.quant.scale == "pow2" else device.quant.contract
    moved = device.quant.bias.moved_bits is not None
    return Target(device.name, contract, host.integer, host.floating, host.sum_bits, least_factor(device), moved)


def least_factor(device: Device) -> float:
    """The smallest factor between scales that the device's shifts make; 0 where factors are floats."""
    if device.quant.scale == "float32":
        return 0.0
    # A multiplier's highest bit is its sign, and the next is set.
    bits = device.quant.multiplier_bits - 2 if device.quant.scale == "mult-shift" else 0
    return 2.0 ** (bits - device.quant.shift.max)
