"""What there is to know about a device at a glance, as plain data, and its keys as the text of a device file."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from qmlir.devices.description.changing import data_of, toml_value
from qmlir.devices.description.device import Device
from qmlir.devices.description.reading import load_device, shipped_devices


def summaries() -> list[dict[str, Any]]:
    """Returns the summaries of the devices that ship with qmlir, by name."""
    return [summary(load_device(name)) for name in shipped_devices()]


def summary(device: Device) -> dict[str, Any]:
    """Returns what a list of devices shows of one: strings, numbers, booleans, None, lists and dicts.

    name, description     as in its file
    clock_mhz             its clock
    macs_per_cycle        the most products in a cycle
    array                 `dataflow`, `lanes` (k, n, m) and `modes` (a, w, acc, macs_per_cycle)
    depthwise             products of a depthwise convolution in a cycle; None if it computes none
    memories              of each, `id`, `bytes`, `external`, `holds`, and bytes per cycle `read` and `write` or None
    queues                of each, `id`, `engine`, and the bits of packed weights that it `unpacks`
    sync, types, contract how queues wait, types of data, and the rounding contract of changes of scale
    fallback              `host` or `error`: what happens with operations that it refuses
    """
    array = device.array
    return {
        "name": device.name,
        "description": device.description,
        "clock_mhz": device.clock,
        "macs_per_cycle": device.peak_macs,
        "array": {
            "dataflow": array.dataflow,
            "lanes": array.lanes.model_dump(),
            "modes": [
                {"a": m.a, "w": m.w, "acc": m.acc, "macs_per_cycle": array.lanes.products * m.rate} for m in array.modes
            ],
        },
        "depthwise": None if array.depthwise is None else array.depthwise.lanes.products,
        "memories": [
            {
                "id": memory.id,
                "bytes": memory.bytes,
                "external": memory.external,
                "holds": list(memory.holds),
                "read": None if memory.bytes_per_cycle is None else memory.bytes_per_cycle.read,
                "write": None if memory.bytes_per_cycle is None else memory.bytes_per_cycle.write,
            }
            for memory in device.memory
        ],
        "queues": [{"id": queue.id, "engine": queue.engine, "unpacks": list(queue.unpacks)} for queue in device.queue],
        "sync": device.sync.kind,
        "types": list(device.quant.types),
        "contract": device.quant.contract,
        "fallback": device.fallback.kind,
    }


def toml_of(device: Device) -> str:
    """Returns a device as the text of a device file, with the keys that were given."""
    data = data_of(device)
    lines = [f"{key} = {toml_value(value)}" for key, value in data.items() if not _is_table(value)]
    for key, value in data.items():
        for header, table in _tables(key, value):
            lines += ["", header, *(f"{name} = {toml_value(inner)}" for name, inner in table.items())]
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    """Whether a value is a table, or a list of tables."""
    many = cast(list[object], value) if isinstance(value, list) else [value]
    return bool(many) and all(isinstance(each, dict) for each in many)


def _tables(key: str, value: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yields the tables of a top-level key with their headers; tables inside them are written in one line."""
    if not _is_table(value):
        return
    if isinstance(value, dict):
        yield f"[{key}]", cast(dict[str, object], value)
        return
    for each in cast(list[dict[str, object]], value):
        yield f"[[{key}]]", each
