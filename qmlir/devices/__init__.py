"""The description of a custom accelerator: one TOML file, from which legality, costs and documents are derived."""

from qmlir.devices.description import Device
from qmlir.devices.reading import load_device, parse_device, shipped_devices

__all__ = ["Device", "load_device", "parse_device", "shipped_devices"]
