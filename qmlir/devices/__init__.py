"""The description of a custom accelerator: one TOML file, from which legality, costs and documents are derived.

description.py, schema.py   the keys of a device file: type, unit, bounds, default and meaning of each reading.py
reads a file; a mistake in it becomes an error with its key, its unit and the nearest name changing.py
variants of a device: other values of some keys legality.py                 the limits of a device; an operation that
breaks one is refused with the limit's sentence properties.py, stored.py    what the limits are about, and how tensors
lie in memory requirements.py             what a device asks of the quantizer costs.py, timeline.py       cycles of a
command, and of commands that overlap
boundary_transfers.py       cycles of what the host computes footprints.py, waits.py     what
commands touch and therefore wait for token_forwarding.py         the same for queues that only see their neighbours
document.py                 the reference pages, generated from the schema and the limits module.py
the parts of a module that is compiled for a device

Nothing here knows the passes or the simulator.
"""

from qmlir.devices.description import Device
from qmlir.devices.reading import Accelerator, load_device, parse_device, shipped_devices, text_of

__all__ = ["Accelerator", "Device", "load_device", "parse_device", "shipped_devices", "text_of"]
