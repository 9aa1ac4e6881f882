"""Which channels of a quantized network are further from the float network than their storage explains.

Of a convolution or a fully connected layer that reads the float network's tensors, channel c should be off by

    (s_y² + s_x² · W + s_w² · Σ x²) / 12

in the mean square: by rounding its result, its data and its weights to the nearest step. W is Σ w², or where data are
the same all over a window, so that their errors are too, the sum over the channels it reads of (Σ w)², if that is more.
s_w is the step that the channel's own weights ask for, whatever step they have.

A channel is out of line where it is off by more than `MARGIN` beyond that: the scale of its weights has been widened,
its multiplier lost, its bias rounded away, or its result saturates.

A bias that was corrected on few samples is off by the mean of their errors: the survey names such channels too, though
nothing is wrong with their storage. Quantizing with more samples, or without data, tells the two apart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from qmlir.analysis import Comparison
from qmlir.arguments import Network
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn import ConstantOp, DepthwiseConv2DOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.types import UniformType
from qmlir.quantized_values import uniform
from qmlir.rewriting import tensor_name

Array = npt.NDArray[Any]
Float64s = npt.NDArray[np.float64]

MARGIN = 12.0
"""dB by which a channel may be further off than its storage explains."""


@dataclass(frozen=True)
class ChannelError:
    """The error that an operation alone makes in one channel of its result.

    tensor      its name
    operation   what makes it, such as `nn.conv2d`
    channel     counted along the last axis
    steps       how far off it is, the root of the mean square, in steps of the result
    expected    how far off its storage explains
    excess      the one over the other, in dB
    """

    tensor: str
    operation: str
    channel: int
    steps: float
    expected: float
    excess: float

    @property
    def is_out_of_line(self) -> bool:
        """Whether it is further off than its storage explains."""
        return self.excess > MARGIN

    def as_dict(self) -> dict[str, Any]:
        """The row for JSON."""
        return asdict(self)


def survey(module: Network, quantized: Network, samples: Iterable[Array | Mapping[str, Array]]) -> list[ChannelError]:
    """Compares each channel of the contractions of a quantized network with the float network it was made from.

    Args:
        module: The float network, or the path of one; it stays as it was.
        quantized: What `quantize` made of it, or its path; it stays as it was.
        samples: Arrays of the only input, or dicts of arrays by input name.

    Returns:
        A row for each channel, the most out of line first.

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
    """Of one operation, over samples.

    noise   Σ (q − f)² of each channel, where it reads the float network's tensors
    own     Σ (q − f) likewise
    whole   Σ (q − f) in the quantized network
    data    Σ x² of what it reads
    """

    def __init__(self, op: WeightedOp, name: str):
        self.op, self.name = op, name
        self.noise, self.own, self.whole = np.zeros((3, op.output_channels()))
        self.data: Float64s = np.zeros(1)
        self.elements = self.read = 0

    def update(self, exact: Mapping[str, Array], whole: Array, alone: Array) -> None:
        """Adds a sample: the float network's tensors, the quantized one's result, and that of the operation alone."""
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
        """What there is to say of each channel."""
        count = max(self.elements, 1)
        # A mean that is off here but not in the network makes up for what the operations before do to it.
        own, whole = (self.own / count) ** 2, (self.whole / count) ** 2
        found = np.sqrt(np.maximum(self.noise / count - own, 0) + np.minimum(own, whole))
        expected, step = self._expected(), uniform(self.op.y).scale
        excess = 20 * np.log10(np.maximum(found, np.finfo(float).tiny) / expected)
        return [
            ChannelError(self.name, self.op.name, channel, float(f / step), float(e / step), float(x))
            for channel, (f, e, x) in enumerate(zip(found, expected, excess, strict=True))
        ]

    def _expected(self) -> Float64s:
        """How far off each channel is where each number is rounded to its nearest step."""
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
    """The real numbers that stored integers stand for."""
    scales, zero_points = type.parameters_along(stored.ndim)
    return (stored.astype(np.float64) - zero_points) * scales


def _named_source(value: SSAValue) -> str:
    """The name of a tensor, or of the one that was moved to its place."""
    while not tensor_name(value) and isinstance(owner := value.owner, Operation) and owner.operands:
        value = owner.operands[0]
    return tensor_name(value)
