"""Rooflines: how fast each layer computes, beside what the processor's products and a memory's bandwidth allow.

    roofline(executable.report, executable.device)      # of a network on a device, in cycles
    measured_roofline(figures, copy_bandwidth(), moved_bytes(q))    # of what `qmlir bench` measures, in seconds

A roofline belongs to one memory. A layer that computes m products while b of its bytes pass the memory has the
intensity m / b. The roof at an intensity i is the smaller of the peak and i · bandwidth. No layer lies above it: the
cycles and the bytes of a layer are counted over the same time, so that bytes which are loaded ahead, in the cycles of
another layer, do not count. In a picture, intensity goes to the right and products in a cycle upwards, both by powers.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import memref
from xdsl.ir import SSAValue

from qmlir.analysis.memory_map import planned_calls
from qmlir.backends.npu.report import LayerCount, Report
from qmlir.devices import Device
from qmlir.dialects.loops import VIEWS
from qmlir.ir.types import is_memref
from qmlir.settings.arguments import Network
from qmlir.transforms.loops.plan_memory import buffer_bytes


@dataclass(frozen=True)
class Point:
    """A layer, or the whole network (without a name), under a roof.

    name        the layer's name
    products    its products
    time        its cycles on a device, its seconds on a CPU
    bytes       bytes that passed the roof's memory in that time
    moved       bytes that the layer moves through the memory at any time: more, if some are loaded ahead
    attainable  the most products in a unit of time that everything the layer keeps busy allows: the array, its other
                engines, buses and memories. It lies at or below the roof; what lies between attained and attainable is
                waiting
    """

    name: str
    products: int
    time: float
    bytes: float
    moved: int
    attainable: float

    @property
    def intensity(self) -> float | None:
        """Products for each byte; None without bytes, where the memory is no limit."""
        return self.products / self.bytes if self.bytes else None

    @property
    def attained(self) -> float:
        """Products in a unit of time; 0 without time."""
        return self.products / self.time if self.time else 0.0


@dataclass(frozen=True)
class Ceiling:
    """A peak that holds for some of the products only: of a mode of the array, or of its depthwise lanes.

    name   such as `i16 by i8` or `depthwise`
    peak   products in a unit of time
    """

    name: str
    peak: float


@dataclass(frozen=True)
class Roofline:
    """A roofline of one memory.

    memory     the memory's name in the device file; `memory` on a CPU
    unit       the unit of time: `cycles` or `seconds`
    peak       the most products in a unit of time
    bandwidth  the most bytes in a unit of time that pass the memory, in its faster direction
    ceilings   lower peaks for some products, the highest first
    points     the layers that compute products, in the order of the network
    whole      the whole network
    """

    memory: str
    unit: str
    peak: float
    bandwidth: float
    ceilings: Sequence[Ceiling]
    points: Sequence[Point]
    whole: Point

    @property
    def ridge(self) -> float:
        """The intensity from which on the peak is the limit, not the memory."""
        return self.peak / self.bandwidth

    def roof(self, intensity: float | None) -> float:
        """The most products in a unit of time at an intensity; None stands for no bytes at all."""
        return self.peak if intensity is None else min(self.peak, intensity * self.bandwidth)


# ---------------------------------------------------------------------------------------------------------------
# Devices


def roofline(report: Report, device: Device) -> list[Roofline]:
    """Returns a roofline for each memory of a device that has a bandwidth, in the order of the device file.

    Args:
        report: The cost of a run, as the simulator counts it or as it is predicted.
        device: The device.
    """
    found: list[Roofline] = []
    for memory in device.memory:
        if (rates := memory.bytes_per_cycle) is None:
            continue
        points = [_point(layer, memory.id, report.peak) for layer in report.layers if layer.products]
        moved = sum(layer.served[memory.id] for layer in report.layers)
        most = report.products / report.least if report.least else 0.0
        found.append(
            Roofline(
                memory.id, "cycles", float(report.peak), max(rates.read, rates.write or 0.0), ceilings(device), points,
                Point("", report.products, report.cycles, moved, moved, most),
            )
        )  # fmt: skip
    return found


def _point(layer: LayerCount, memory: str, peak: int) -> Point:
    most = layer.products / layer.bound if layer.bound else float(peak)
    passed, moved = layer.traffic.get(memory, 0.0), layer.served[memory]
    return Point(layer.name, layer.products, layer.cycles, passed, moved, most)


def ceilings(device: Device) -> list[Ceiling]:
    """Returns the peaks of a device's modes and of its depthwise lanes that are below its peak, the highest first."""
    array, found = device.array, dict[str, float]()
    for mode in array.modes:
        found[f"{mode.a} by {mode.w}"] = array.lanes.products * mode.rate
        if array.depthwise is not None:
            found[f"depthwise, {mode.a} by {mode.w}"] = array.depthwise.lanes.products * mode.rate
    lower = [Ceiling(name, peak) for name, peak in found.items() if peak < device.peak_macs]
    return sorted(lower, key=lambda ceiling: -ceiling.peak)


# ---------------------------------------------------------------------------------------------------------------
# This processor


def measured_roofline(figures: Mapping[str, Any], bandwidth: float, moved: Mapping[str, int]) -> Roofline:
    """Returns the roofline of the figures that `qmlir bench` measures.

    Args:
        figures: The figures: `layers` with `name`, `macs` and `seconds`, and `peak` with `macs_per_second`.
        bandwidth: The most bytes that the memory moves in a second, as `copy_bandwidth` measures it.
        moved: The name of a layer → the least bytes that it moves, as `moved_bytes` counts them. Where caches hold
            them, a layer may lie above the roof of this memory.
    """
    peak, points = float(figures["peak"]["macs_per_second"]), list[Point]()
    for layer in figures["layers"]:
        if layer["macs"]:
            size = moved.get(layer["name"], 0)
            points.append(Point(layer["name"], layer["macs"], layer["seconds"], size, size, peak))
    size = sum(moved.values())
    whole = Point("", figures["macs"], figures["timed_seconds"], size, size, peak)
    return Roofline("memory", "seconds", peak, bandwidth, [], points, whole)


def moved_bytes(network: Network, threads: int = 1) -> dict[str, int]:
    """Returns the bytes that the machine code of each layer must move at least: its inputs, weights and results once.

    Args:
        network: A network, or its path; it stays unchanged.
        threads: Threads that one call may use.
    """
    found: dict[str, int] = {}
    for call in planned_calls(network, threads).calls:
        touched: dict[SSAValue, int] = {}
        for operand in call.operation.operands:
            if is_memref(operand.type):
                buffer = _buffer(operand)
                touched[buffer] = max(touched.get(buffer, 0), buffer_bytes(operand.type))
        found[call.layer] = found.get(call.layer, 0) + sum(touched.values())
    return found


def _buffer(value: SSAValue) -> SSAValue:
    """The buffer that a memref looks at: an argument of the function, or a part of its arena or of its weights."""
    while isinstance(value.owner, VIEWS) and not isinstance(value.owner, memref.ViewOp):
        value = value.owner.operands[0]
    return value


def copy_bandwidth(size: int = 1 << 27, repetitions: int = 5) -> float:
    """Measures the bytes that a copy of a large array reads and writes in a second, in one thread.

    Args:
        size: Bytes of the array, which should be several times the processor's caches.
        repetitions: Copies; the fastest counts.
    """
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    spent: list[float] = []
    for _ in range(repetitions):
        start = time.perf_counter()
        np.copyto(target, source)
        spent.append(time.perf_counter() - start)
    return 2 * size / min(spent)
