"""What a device asks of the quantizer, so that what comes out has a place on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qmlir.device.description import Device
from qmlir.device.reading import load_device
from qmlir.errors import OptionError
from qmlir.target import Target, load_target

PRECISIONS = {"i8": "int8", "u8": "uint8", "i16": "int16"}
"""Types of a device file → precisions of the quantizer."""


@dataclass(frozen=True)
class Requirements:
    """Options of `quantize` that a device fixes.

    schema       how ranges become scales and zero points
    precision    storage of data, one of those the device has
    per_channel  whether weights may have a scale for each output channel
    """

    schema: str
    precision: str
    per_channel: bool

    def options(self) -> Mapping[str, object]:
        """As the pass `quantize` takes them."""
        return {"schema": self.schema, "precision": self.precision, "per_channel": self.per_channel}


def requirements(device: Device, precision: str | None = None) -> Requirements:
    """What the quantizer has to keep to; `precision` is the device's first type unless given.

    Raises:
        OptionError: The device has no data of that precision.
    """
    if device.quant.scale == "pow2":
        schema = "symmetric_with_power2_scale"
    else:
        schema = "asymmetric" if device.quant.zero_point.activations else "symmetric"
    known = [PRECISIONS[type] for type in device.quant.types]
    if precision is not None and precision not in known:
        raise OptionError("precision", f"must be one of {', '.join(known)} for {device.name}", got=precision)
    return Requirements(schema, precision or known[0], device.quant.granularity == "channel")


def required_options(target: str | Path, **given: object) -> Mapping[str, object]:
    """The options of `quantize` that a device fixes.

    Args:
        target: The device, by its name or its file.
        given: What the user asks for of them; None where that is nothing.

    Raises:
        OptionError: The user asks for something else, or for a precision that the device does not have.
    """
    device = load_device(target)
    asked = given.get("precision")
    fixed = requirements(device, asked if isinstance(asked, str) else None).options()
    for name, value in given.items():
        if value is not None and value != fixed[name]:
            raise OptionError(name, f"must be {fixed[name]} for {device.name}", got=str(value), remedy="leave it out")
    return fixed


def target_of_device(device: Device) -> Target:
    """The device and its host as one target: everything has an integer form that one of the two has.

    What the device refuses the host computes, by the device's own contract: where an operation runs does not change
    its bits. A device that only shifts rounds like `single`, which becomes `shift` where scales are powers of two.
    """
    host = load_target("cpu")
    contract = "single" if device.quant.scale == "pow2" else device.quant.contract
    return Target(device.name, contract, host.integer, host.floating)
