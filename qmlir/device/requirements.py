"""What a device asks of the quantizer, so that what comes out has a place on it."""

from collections.abc import Mapping
from dataclasses import dataclass

from qmlir.device.description import Device
from qmlir.target import Target, load_target


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
    """What the quantizer has to keep to; `precision` is the device's first type unless given."""
    if device.quant.scale == "pow2":
        schema = "symmetric_with_power2_scale"
    else:
        schema = "asymmetric" if device.quant.zero_point.activations else "symmetric"
    first = {"i8": "int8", "u8": "uint8", "i16": "int16"}[device.quant.types[0]]
    return Requirements(schema, precision or first, device.quant.granularity == "channel")


def target_of_device(device: Device) -> Target:
    """The device and its host as one target: everything has an integer form that one of the two has.

    What the device refuses the host computes, by the device's own contract: where an operation runs does not change
    its bits. A device that only shifts rounds like `single`, which becomes `shift` where scales are powers of two.
    """
    host = load_target("cpu")
    contract = "single" if device.quant.scale == "pow2" else device.quant.contract
    return Target(device.name, contract, host.integer, host.floating)
