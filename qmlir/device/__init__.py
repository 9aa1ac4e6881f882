"""A custom accelerator as data: one file describes it, everything else is derived from that."""

from qmlir.device.description import Device
from qmlir.device.reading import load_device, parse_device, shipped_devices

__all__ = ["Device", "load_device", "parse_device", "shipped_devices"]
