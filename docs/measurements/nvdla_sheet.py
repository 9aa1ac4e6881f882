"""Cycles of NVDLA small beside those of NVIDIA's own performance sheet, layer by layer.

python -m docs.measurements.nvdla_sheet              resnet8
python -m docs.measurements.nvdla_sheet kws resnet50

The sheet is perf/NVDLA_OpenSource_Performance.xlsx of nvdla/hw. For a convolution it takes the longer one of what the
array and what the memory need, "not including software overhead and mode switch time", and nothing for pools and sums,
which it assumes fused. Here are its formulas with the numbers of nv_small: 64 products a cycle in atoms of 8 channels
and 8 kernels, a buffer of 128 KiB, 8 bytes a cycle, no Winograd and no second memory. It has no depthwise layers.
nv_small has no stage that could add the elements of two tensors behind a convolution, so its sums are layers.

    sheet   cycles by these formulas
    own     those that timing.py predicts from the words, within 1 % of each network on the RTL
    share   per cent: sheet / own, which is also the utilization of the array as a part of the sheet's
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import qmlir
from docs.measurements.accuracy import shared_file
from docs.measurements.hardware import NAMES, NotThere, prepared
from docs.measurements.peers import PEERS
from qmlir.backends.hardware.nvdla.timing import layer_cycles
from qmlir.devices.model.layer import Convolution, Layer
from qmlir.errors import QmlirWarning
from tests.backends.hardware.boards import Network, device_of


@dataclass(frozen=True)
class Sheet:
    """The numbers of a configuration that the sheet asks for, those of nv_small unless given.

    channels, kernels  that the array takes at once
    resident           kernels whose weights the buffer holds at least
    products           of the array in a cycle
    buffer             bytes of the buffer
    bytes              of memory in a cycle
    """

    channels: int = 8
    kernels: int = 8
    resident: int = 8
    products: int = 64
    buffer: int = 128 << 10
    bytes: float = 8.0

    def cycles(self, layer: Layer) -> int | None:
        """The cycles of a layer; None for a layer that the sheet does not have, or has fused."""
        step = layer.steps[0]
        if not isinstance(step, Convolution) or step.groups > 1:
            return None
        (_, rows, columns, channels), (_, out_rows, out_columns, kernels) = layer.inputs[0].shape, layer.output.shape
        (down, right), (tall, wide) = step.stride, step.kernel
        # Strides turn into channels.
        deep = _up(channels * down * right, self.channels)
        read = deep * ceil(rows / down) * ceil(columns / right)
        written = _up(kernels, self.channels) * out_rows * out_columns
        kernel = deep * ceil(tall / down) * ceil(wide / right)
        weights, few = kernel * kernels, kernel * self.resident
        traffic, room = (
            read + weights + written,
            self.buffer - deep * min(tall, ceil(rows / down)) * ceil(columns / right),
        )
        if read >= weights:
            traffic += (ceil(weights / room) - 1) * read if weights > room else 0
        elif read > (room := self.buffer - (few if few < self.buffer else self.buffer // 2)):
            traffic += (ceil(read / room) - 1) * weights
        products = deep * out_rows * out_columns * _up(kernels, self.kernels) * tall * wide / (down * right)
        return max(ceil(traffic / self.bytes), ceil(products / self.products))


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


@dataclass(frozen=True)
class Compared:
    """A layer: its name, its shape as text, the sheet's cycles, None where it has none, and the device's."""

    name: str
    shape: str
    sheet: int | None
    own: int


def compared(name: str, find: Callable[[str], Path], peers: Path) -> list[Compared]:
    """The layers of a network.

    Raises:
        NotThere: Its file is missing.
    """
    module, profiled, _ = prepared(name, find, peers)
    device = device_of("nvdla-small", fallback__macs_per_cycle=0.01)
    quantized = qmlir.quantize(module, data=list(profiled), target=device, io="int8", measure=False)
    program, sheet = Network.of(quantized, device).program, Sheet()
    return [
        Compared(
            placed.layer.name,
            f"{placed.layer.kind} {'x'.join(map(str, placed.layer.output.shape[1:]))}",
            sheet.cycles(placed.layer),
            own,
        )
        for placed, own in zip(program.layers, layer_cycles(program), strict=True)
    ]


def main(argv: Sequence[str] | None = None, find: Callable[[str], Path] = shared_file, peers: Path = PEERS) -> int:
    """Prints the tables of networks."""
    warnings.simplefilter("ignore", QmlirWarning)
    parser = argparse.ArgumentParser(
        prog="python -m docs.measurements.nvdla_sheet", description="NVDLA small beside NVIDIA's performance sheet."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (resnet8)")
    given = parser.parse_args(argv)
    if unknown := [name for name in given.names if name not in NAMES]:
        parser.error(f"a name must be one of {', '.join(NAMES)}, got {', '.join(unknown)}")
    for name in given.names or ["resnet8"]:
        try:
            layers = compared(name, find, peers)
        except NotThere as reason:
            sys.stdout.write(f"{name} is left out: {reason}\n")
            continue
        lines = [(f"{name}", "", "sheet", "own", "share")]
        for layer in layers:
            sheet = "-" if layer.sheet is None else str(layer.sheet)
            share = "" if layer.sheet is None else f"{100 * layer.sheet / layer.own:.1f}"
            lines.append((layer.name[:30], layer.shape, sheet, str(layer.own), share))
        both = [(layer.sheet, layer.own) for layer in layers if layer.sheet is not None]
        sheets, owns, every = sum(sheet for sheet, _ in both), sum(own for _, own in both), sum(x.own for x in layers)
        lines.append(("layers of the sheet", "", str(sheets), str(owns), f"{100 * sheets / owns:.1f}" if owns else ""))
        lines.append(("all layers", "", str(sheets), str(every), f"{100 * sheets / every:.1f}" if every else ""))
        for first, shape, *numbers in lines:
            sys.stdout.write(f"{first:30} {shape:24} {' '.join(f'{each:>10}' for each in numbers)}".rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
