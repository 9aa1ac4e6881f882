"""What holds of every report: each cost belongs to one layer, and nothing is busier than its time allows."""

from collections.abc import Iterator

from qmlir.backends.npu.report import LayerCount, Report


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
