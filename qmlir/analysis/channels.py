"""Finds channels of a quantized network that are further from the float network than their storage explains.

Take a convolution or a fully connected layer that reads the float network's tensors. Rounding its result, its data and
its weights to the nearest step gives channel c a mean square error of

    (s_y² + s_x² · W + s_w² · Σ x²) / 12

    s_y, s_x  the scales of the result and of the data
    s_w       the step that the channel's own weights need, whatever scale they have
    W         Σ w². If the data, and so their errors, are the same all over a window, the error is the sum over the
              input channels of (Σ w)² instead; W is the larger of the two.

A channel is out of line if its error exceeds this by more than `MARGIN`. Then the scale of its weights is too wide, its
multiplier is lost, its bias is rounded away, or its result saturates.

A bias that was corrected on few samples carries the mean of their errors. Such channels are listed too, although their
storage is right. To tell the two cases apart, quantize with more samples, or without data.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.analysis.tensors import Comparison
from qmlir.dialects.nn import ConstantOp, DepthwiseConv2DOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.numerics import Array, Float64s
from qmlir.settings.arguments import Network

MARGIN = 12.0
"""dB by which the error of a channel may exceed the error that its storage explains."""


@dataclass(frozen=True)
class ChannelError:
    """The error that an operation alone makes in one channel of its result.

    tensor      name of the result
    operation   kind of the operation, such as `nn.conv2d`
    channel     index along the last axis
    steps       root mean square error, in steps of the result
    expected    root mean square error that the storage explains, in steps of the result
    excess      `steps` over `expected`, in dB
    """

    tensor: str
    operation: str
    channel: int
    steps: float
    expected: float
    excess: float

    @property
    def is_out_of_line(self) -> bool:
        """Whether the error exceeds the error that the storage explains by more than `MARGIN`."""
        return self.excess > MARGIN

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON."""
        return asdict(self)


def survey(module: Network, quantized: Network, samples: Iterable[Array | Mapping[str, Array]]) -> list[ChannelError]:
    """Compares each channel of a quantized network's contractions with the float network it was made from.

    Args:
        module: The float network, or its path; it stays unchanged.
        quantized: The network that `quantize` made of it, or its path; it stays unchanged.
        samples: Arrays for the only input, or dicts of arrays by input name.

    Returns:
        A row for each channel, the greatest excess first.

    Raises:
        QmlirError: The networks have no tensor in common, or there is no sample.
    """
    compared = Comparison(module, quantized)
    layers = [_Layer(op, name) for op in compared.quantized.walk() if isinstance(op, WeightedOp) and is_quantized(op.y)
              and (name := tensor_name(op.y)) in compared.outputs and isinstance(op.w.owner, ConstantOp)]  # fmt: skip
    for exact, found, alone in compared.over(samples):
        for layer in layers:
            layer.update(exact, found[layer.name], alone[layer.name])
    return sorted((row for layer in layers for row in layer.rows()), key=lambda row: -row.excess)


class _Layer:
    """The error sums of one operation's channels over samples; q is its quantized result, f the float result.

    noise   Σ (q − f)² of each channel, where the operation reads the float network's tensors
    own     Σ (q − f) of each channel, where the operation reads the float network's tensors
    whole   Σ (q − f) of each channel in the quantized network
    data    Σ x² of the operation's data
    """

    def __init__(self, op: WeightedOp, name: str):
        self.op, self.name = op, name
        self.noise, self.own, self.whole = np.zeros((3, op.output_channels()))
        self.data: Float64s = np.zeros(1)
        self.elements = self.read = 0

    def update(self, exact: Mapping[str, Array], whole: Array, alone: Array) -> None:
        """Adds a sample: the float network's tensors, the quantized network's result, and the isolated result."""
        error, others = (
            (found.astype(np.float64) - exact[self.name]).reshape(-1, len(self.noise)) for found in (alone, whole)
        )
        self.noise += (error**2).sum(axis=0)
        self.own += error.sum(axis=0)
        self.whole += others.sum(axis=0)
        self.elements += len(error)
        x = exact.get(_named_source(self.op.x))
        if x is not None:
            squares = x.astype(np.float64) ** 2
            depthwise = isinstance(self.op, DepthwiseConv2DOp) and x.shape[-1] == shape_of(self.op.x)[-1]
            squares = squares.reshape(-1, x.shape[-1] if depthwise else 1)
            self.data = self.data + squares.sum(axis=0)
            self.read += len(squares)

    def rows(self) -> list[ChannelError]:
        """Returns a row for each channel."""
        count = max(self.elements, 1)
        # A mean error in isolation that the network does not show compensates for errors of earlier operations.
        own, whole = (self.own / count) ** 2, (self.whole / count) ** 2
        found = np.sqrt(np.maximum(self.noise / count - own, 0) + np.minimum(own, whole))
        expected, step = self._expected(), uniform(self.op.y).scale
        excess = 20 * np.log10(np.maximum(found, np.finfo(float).tiny) / expected)
        return [
            ChannelError(self.name, self.op.name, channel, float(f / step), float(e / step), float(x))
            for channel, (f, e, x) in enumerate(zip(found, expected, excess, strict=True))
        ]

    def _expected(self) -> Float64s:
        """The root mean square error of each channel if every number is rounded to its nearest step."""
        op, type = self.op, uniform(self.op.w)
        assert isinstance(op.w.owner, ConstantOp)
        real, channels = _dequantized(op.w.owner.value.array, type), len(self.noise)
        rows = np.moveaxis(real, op.CHANNEL_AXIS, 0).reshape(channels, -1)
        largest = np.abs(rows).max(axis=1, initial=0.0)
        if not type.is_per_axis:
            largest = largest.max(keepdims=True)
        step = largest / type.storage_max
        squares = np.repeat(self.data, channels // len(self.data)) / max(self.read, 1)
        weights = step**2 * rows.shape[1] * squares
        apart = (rows**2).sum(axis=1)
        windows = real.sum(axis=(1, 2)) if real.ndim == 4 else real
        together = (windows.reshape(channels, -1) ** 2).sum(axis=1)
        data = uniform(op.x).scale ** 2 * np.maximum(apart, together)
        return np.sqrt((uniform(op.y).scale ** 2 + data + weights) / 12)


def _dequantized(stored: Array, type: UniformType) -> Float64s:
    """The real numbers that stored integers represent."""
    scales, zero_points = type.parameters_along(stored.ndim)
    return (stored.astype(np.float64) - zero_points) * scales


def _named_source(value: SSAValue) -> str:
    """The name of a tensor; if it has none, that of the tensor it was computed from by first operands."""
    while not tensor_name(value) and isinstance(owner := value.owner, Operation) and owner.operands:
        value = owner.operands[0]
    return tensor_name(value)
