"""What holds of every report: each cost belongs to one layer, and nothing is busier than its time allows."""

from collections.abc import Iterator

from qmlir.analysis.memory_map import memory_maps
from qmlir.analysis.roofline import roofline
from qmlir.backends.npu.report import LayerCount, Report
from qmlir.backends.simulated import Simulated

ROUNDING = 1 + 1e-9
"""What the shares of bytes and cycles may be off by."""


def impossible(executable: Simulated) -> list[str]:
    """What cannot be in the figures of a network on a device, a sentence each: costs, roofs, memories."""
    report, device = executable.predicted, executable.device
    found = mistakes(report)
    for line in roofline(report, device):
        for point in (*line.points, line.whole):
            rates = (point.attained, point.attainable, line.roof(point.intensity))
            if not rates[0] <= rates[1] * ROUNDING <= rates[2] * ROUNDING**2:
                found.append(f"{point.name} on {line.memory}: {rates[0]} of {rates[1]} under a roof of {rates[2]}")
    for memory in memory_maps(executable):
        if not all(0 <= used <= memory.size for _, used in memory.usage):
            found.append(f"{memory.peak} of {memory.size} bytes of {memory.memory} in use")
        if any(extent.offset + extent.size > memory.size for extent in memory.extents):
            found.append(f"a buffer behind {memory.memory}")
        if any(not 0 <= extent.begin <= extent.end <= report.cycles for extent in memory.extents):
            found.append(f"a buffer of {memory.memory} outside of the {report.cycles} cycles")
    for name, filled in executable.filled.items():
        if filled.tensors < filled.bound:
            found.append(f"{filled.tensors} bytes of tensors in {name}, {filled.bound} at once")
    return found


def mistakes(report: Report) -> list[str]:
    """What is wrong with a report, a sentence each."""
    found = [f"{layer.name}: {sentence}" for layer in report.layers for sentence in _of_layer(layer, report)]
    if (cycles := sum(layer.cycles for layer in report.layers)) != report.cycles:
        found.append(f"the layers have {cycles} cycles of {report.cycles}")
    if not report.least <= report.cycles or not report.utilization <= report.bound <= 1:
        found.append(f"the array is used {report.utilization:.1%}, at most {report.bound:.1%}")
    return found


def _of_layer(layer: LayerCount, report: Report) -> Iterator[str]:
    if not 0 <= layer.bound <= layer.cycles:
        yield f"{layer.cycles} cycles under a bound of {layer.bound}"
    if any(cycles > layer.asked[name] for name, cycles in layer.busy.items()):
        yield f"{dict(layer.busy)} of {dict(layer.asked)}"
    used, most = (layer.used(report.peak, cycles) for cycles in (layer.cycles, layer.bound))
    if not used <= most <= 1:
        yield f"used {used:.1%}, at most {most:.1%}"
    if layer.products and not layer.bound:
        yield f"{layer.products} products in no cycles"
