"""The description of a custom accelerator: one TOML file, from which legality, costs and documents are derived.

description/  the keys of a device file, with type, unit, bounds, default and meaning; reading a file, variants of it
legality/     the limits of a device, each with the sentence that refuses an operation; what it asks of the quantizer
model/        memories, queues, layouts, footprints and waits of commands, their cycles and their timeline

Nothing here knows the passes or the simulator.
"""

from qmlir.devices.description.device import Device
from qmlir.devices.description.reading import Accelerator, load_device, parse_device, shipped_devices, text_of

__all__ = ["Accelerator", "Device", "load_device", "parse_device", "shipped_devices", "text_of"]
