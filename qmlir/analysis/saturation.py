"""Finds tensors that exceed on data what a quantized network can hold: what lies outside becomes the nearest end.

A calibration may leave a few outliers outside on purpose. So a tensor counts if many of its values lie far outside.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.tensors import as_read, channel_factors
from qmlir.compiler import main_function
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.display import counted
from qmlir.ir.interfaces import Array
from qmlir.ir.rewriting import tensor_name
from qmlir.transforms.quantize.ranges.masks import FAR_BELOW
from qmlir.transforms.quantize.ranges.scale_group import real_range

LEAST_SHARE = 0.01
"""The share of values outside from which a tensor counts."""

LEAST_BEYOND = 0.1
"""How far outside values must lie to count, as a share of the range."""


@dataclass(frozen=True)
class Saturation:
    """A tensor that exceeds on data what its type holds.

    tensor   the tensor's name
    share    the share of its values that lie outside, from 0 to 1
    low      the ends of what the type holds
    high
    least    the ends of what the tensor has on the data
    most
    """

    tensor: str
    share: float
    low: float
    high: float
    least: float
    most: float

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON."""
        return asdict(self)


class Ranges:
    """The ranges of the tensors of a quantized network, and how far values on data exceed them."""

    def __init__(self, quantized: ModuleOp):
        """Reads the ranges; the network stays unchanged."""
        block, factors = main_function(quantized).body.block, channel_factors(quantized)
        self._ranges: dict[str, tuple[float, float]] = {}
        for value in (*block.args, *(r for op in block.ops for r in op.results)):
            name, type = tensor_name(value), quantized_element(as_read(value).type)
            if name and name not in factors and isinstance(type, UniformType) and not type.is_per_axis:
                low, high = real_range(type)
                known = self._ranges.get(name, (low, high))
                self._ranges[name] = min(low, known[0]), max(high, known[1])
        self._seen: dict[str, list[float]] = {}

    def add(self, tensors: Mapping[str, Array]) -> None:
        """Adds the float network's tensors on a sample; numbers that only mask others are left out."""
        for name, array in tensors.items():
            if (held := self._ranges.get(name)) is None or not np.issubdtype(array.dtype, np.floating):
                continue
            values = array[np.isfinite(array) & (array > FAR_BELOW)]
            if not values.size:
                continue
            low, high = held
            margin = LEAST_BEYOND * (high - low)
            outside = int(((values < low - margin) | (values > high + margin)).sum())
            seen = self._seen.setdefault(name, [0, 0, np.inf, -np.inf])
            seen[0] += outside
            seen[1] += values.size
            seen[2], seen[3] = min(seen[2], float(values.min())), max(seen[3], float(values.max()))

    def exceeded(self) -> Iterator[Saturation]:
        """Yields the tensors that exceed their ranges, in program order."""
        for name, (low, high) in self._ranges.items():
            outside, count, least, most = self._seen.get(name, (0, 1, 0.0, 0.0))
            if outside >= LEAST_SHARE * count and outside:
                yield Saturation(name, outside / count, low, high, least, most)


def text_of(found: Sequence[Saturation], origin: str) -> str:
    """Returns the warning about tensors that exceed their ranges, on samples of some origin."""
    first = found[0]
    others = "" if len(found) == 1 else f", and {counted(len(found) - 1, 'tensor')} behind it"
    rule = f'"name={first.tensor} range=[{min(first.least, 0):.4g},{max(first.most, 0):.4g}]"'
    return (
        f'tensor "{first.tensor}" saturates{others}: {100 * first.share:.1f} % of its values lie outside of '
        f"[{first.low:.4g}, {first.high:.4g}], from {first.least:.4g} to {first.most:.4g}, on {origin}; quantize on "
        f"data that reach as far, such as longer sequences, or give each such tensor its range, as in --rule {rule}"
    )
