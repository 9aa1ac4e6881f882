"""[ops] and [fallback] of a device file: what the device computes with which limits, and where the rest runs."""

from typing import Literal

from pydantic import Field

from qmlir.devices.values import BytesPerCycle, Cycles, Elements, Flag, MacsPerCycle, Name, Steps, Storage, Table

Pair = tuple[Elements, Elements]


class Window(Table):
    """Limits of an operation with a sliding window; a key that is left out sets no limit."""

    kernel_max: Pair | None = Field(default=None, description="rows, columns of the window")
    kernel_area_max: Elements | None = Field(default=None, description="rows · columns of the window")
    stride_max: Steps | None = Field(default=None, description="of both axes")
    dilation_max: Steps | None = Field(default=None, description="of both axes")
    padding_max: Elements | None = Field(default=None, description="on each side")


class Convolution(Window):
    """Limits of convolutions."""

    groups: Flag = Field(default=False, description="whether channels may fall into groups")
    channels_multiple: Elements | None = Field(default=None, description="input channels are a multiple of this")


class DepthwiseConvolution(Window):
    """Limits of depthwise convolutions, which have one output channel for each input channel on every device."""


class Contraction(Table):
    """Limits of matrix products."""

    terms_max: Elements | None = Field(default=None, description="products in one sum")


class Sum(Table):
    """Limits of the sum of two tensors."""

    operand_scale: Literal["same", "independent"] = Field(description="whether each operand has a scale of its own")


class Plain(Table):
    """An operation without limits of its own."""


class MaxPool(Window):
    """Limits of maximum pools."""


class AveragePool(Window):
    """Limits of average pools."""

    divisor: Literal["any", "pow2"] = Field(default="any", description="by how many elements it can divide")


class Lookup(Table):
    """Limits of lookup tables, which compute functions of one element."""

    entries: Literal[256, 512, 513] = Field(description="how many entries")
    type: Storage = Field(description="type of the entries")


class Operations(Table):
    """The operations that the device computes, each with its limits; the device refuses an operation without a key."""

    conv2d: Convolution | None = Field(default=None, description="convolutions")
    depthwise: DepthwiseConvolution | None = Field(default=None, description="depthwise convolutions")
    fc: Contraction | None = Field(default=None, description="fully connected layers")
    add: Sum | None = Field(default=None, description="sums and differences of two tensors")
    mul: Plain | None = Field(default=None, description="products of two tensors")
    maxpool: MaxPool | None = Field(default=None, description="maximum pools")
    avgpool: AveragePool | None = Field(default=None, description="average pools, global ones too")
    requantize: Plain | None = Field(default=None, description="changes of scale, relu and clamp by themselves")
    lut: Lookup | None = Field(default=None, description="functions of one element")
    move: Plain | None = Field(default=None, description="concat, slice, pad, transpose: data that only moves")
    act: tuple[Literal["none", "relu", "relu6", "clamp", "lut"], ...] = Field(
        default=("none",), description="what may follow a contraction in the same command"
    )


class Fallback(Table):
    """What happens with operations that the device refuses."""

    kind: Literal["error", "host"] = Field(description="an error, or the host computes them")
    operations: tuple[Name, ...] = Field(default=(), description="host: which ones; none listed means any")
    setup: Cycles = Field(default=500, description="host: before a routine of it begins")
    bytes_per_cycle: BytesPerCycle = Field(default=4.0, description="host: what a routine reads and writes")
    macs_per_cycle: MacsPerCycle = Field(
        default=16.0, description="host: products, or other operations on single elements, while it reads and writes"
    )
