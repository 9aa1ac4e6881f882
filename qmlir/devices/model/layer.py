"""Layers as data: what an encoder of whole layers gets, before any tiles are chosen.

A layer is a chain of steps. The first reads the layer's first input; each of the others reads the result of the step
before it, and some read a further tensor. Numbers are those of the operations of dialects/qint, whose docstrings state
what is computed: `Convolution` is qint.conv2d, qint.depthwise_conv2d and qint.fully_connected, and so on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from qmlir.numerics import Array

Pair: TypeAlias = tuple[int, int]
"""A number for rows and one for columns."""

Sides: TypeAlias = tuple[int, int, int, int]
"""Numbers for top, bottom, left and right."""


@dataclass(frozen=True)
class Tensor:
    """A tensor that layers, or the host, read and write.

    name      its name, which no other tensor of the network has
    shape     images, rows, columns, channels; a tensor of fewer dimensions has its last one as channels
    bits      of an element: 8 or 16, an integer in two's complement; what the host alone reads and writes may be others
    contents  its elements in the shape, if it is a constant
    """

    name: str
    shape: tuple[int, int, int, int]
    bits: int
    contents: Array | None = field(default=None, compare=False, repr=False)

    @property
    def bytes(self) -> int:
        """Its size where elements lie one after the other, channels last."""
        return prod(self.shape) * self.bits // 8


@dataclass(frozen=True, eq=False)
class Convolution:
    """Sums of products of windows with weights, and a bias.

    weights            integers [outputs, rows, columns, channels of a group]; a fully connected layer has windows of
                       one element, a depthwise convolution has as many groups as channels
    weight_zero_point  what is subtracted from each weight
    bias               int64 [outputs]; None if there is none
    zero_point         what is subtracted from each element of the data; padding contributes nothing
    groups             the groups into which channels fall
    padding            rows above and below, columns left and right
    sum_bits           bits in which every sum fits: 32 or 64
    """

    weights: Array
    weight_zero_point: int
    bias: Array | None
    zero_point: int
    groups: int
    stride: Pair
    dilation: Pair
    padding: Sides
    sum_bits: int

    @property
    def kernel(self) -> Pair:
        """Rows and columns of a window."""
        rows, columns = self.weights.shape[1:3]
        return rows, columns


@dataclass(frozen=True, eq=False)
class Pool:
    """The maximum, or the rounded mean, of windows.

    average         whether it is the mean, halves rounded away from 0; the maximum otherwise
    padding         rows above and below, columns left and right
    counts_padding  whether a mean counts elements of the padding, each as `zero_point`
    """

    average: bool
    window: Pair
    stride: Pair
    dilation: Pair
    padding: Sides
    counts_padding: bool
    zero_point: int


@dataclass(frozen=True, eq=False)
class ImageSum:
    """The sum of each channel over all rows and columns; `zero_point` is subtracted from each element."""

    zero_point: int


@dataclass(frozen=True, eq=False)
class Requantization:
    """A change of scale: clamp(zero_point + round((x − input_zero_point) · multiplier · 2^(shift − 31))).

    multipliers   int64 [1], or one for each channel
    shifts        int64, as many
    contract      how it rounds, a name of numerics/contracts.py
    summand       what the contract adds before it rounds
    lower, upper  the clamp: an activation, if narrower than `bits`
    bits          of the result
    """

    multipliers: Array
    shifts: Array
    contract: str
    summand: float
    input_zero_point: int
    zero_point: int
    lower: int
    upper: int
    bits: int


@dataclass(frozen=True, eq=False)
class Addition:
    """clamp(zero_point + ((x − own_zero_point) · m + (other − other_zero_point) · n + 2^(shift − 1)) >> shift).

    other             the tensor that is added
    multiplier        m
    other_multiplier  n
    lower, upper      the clamp
    bits              of the result
    """

    other: Tensor
    own_zero_point: int
    other_zero_point: int
    multiplier: int
    other_multiplier: int
    shift: int
    zero_point: int
    lower: int
    upper: int
    bits: int


@dataclass(frozen=True, eq=False)
class Product:
    """(x − own_zero_point) · (other − other_zero_point), element by element; a requantization follows."""

    other: Tensor
    own_zero_point: int
    other_zero_point: int


@dataclass(frozen=True, eq=False)
class Lookup:
    """table[x − the least value of x's type], element by element."""

    table: Array


@dataclass(frozen=True, eq=False)
class Movement:
    """Data that moves: the only step of its layer.

    kind     `concat`, `pad`, `reshape`, `slice`, `transpose` or `broadcast`
    numbers  the attributes of the operation in dialects/nn/movement.py by their names, in dimensions of `shapes`
    shapes   the shapes of the inputs as the network has them, and of the result behind them
    """

    kind: str
    numbers: Mapping[str, tuple[int, ...]]
    shapes: tuple[tuple[int, ...], ...]


Step: TypeAlias = Convolution | Pool | ImageSum | Requantization | Addition | Product | Lookup | Movement


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of a network on a device.

    name    as the command line prints it
    kind    the key of [ops] that allows its first step: `conv2d`, `depthwise`, `fc`, `add`, `move`, …
    inputs  what it reads: first what the first step reads, then the other tensors in the order of the steps
    output  what it writes
    steps   what it computes, in order
    """

    name: str
    kind: str
    inputs: tuple[Tensor, ...]
    output: Tensor
    steps: tuple[Step, ...]

    @property
    def written(self) -> tuple[Tensor, ...]:
        """What it writes, as a tuple."""
        return (self.output,)

    def __str__(self) -> str:
        """The layer in a line: what it computes of which shapes."""
        read = ", ".join(_shown(tensor) for tensor in self.inputs)
        steps = ", ".join(type(step).__name__.lower() for step in self.steps)
        return f"{self.name}: {self.kind} {read} -> {_shown(self.output)}; {steps}"


def _shown(tensor: Tensor) -> str:
    return f"{tensor.name} {'x'.join(map(str, tensor.shape))}xi{tensor.bits}"


@dataclass(frozen=True, eq=False)
class PlacedLayer:
    """A layer with byte addresses in the memory that holds the network's tensors.

    number     its number among the layers of the device, from 0 on
    inputs     of each input
    output     of the output
    constants  of each constant that the encoder has given for the layer
    scratch    of the scratch memory that the encoder has asked for
    """

    number: int
    layer: Layer
    inputs: tuple[int, ...]
    output: int
    constants: tuple[int, ...]
    scratch: int
