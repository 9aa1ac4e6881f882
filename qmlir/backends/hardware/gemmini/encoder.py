"""Layers as Gemmini's commands: three words of 64 bits each, the function and the two registers.

Tensors lie with channels last, weights as [rows, columns, inputs, outputs], biases as int32. A processor runs the
commands; for it, the memory of the device file begins at `BASE`, as Gemmini takes address 0 for zeros.

    convolution      loop_conv_ws, a tile at a time; a 1x1 convolution is one of a single row of pixels
    groups           convolutions of up to 16 channels, with zeros between channels of different groups
    fully connected  loop_ws
    sum of an image  loop_ws, with a first operand of ones
    maximum          moves in, and out with a pool; padding is −128, as Gemmini's own would be 0
    sum of tensors   loop_ws as an addition
    movement         moves in and out
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from qmlir.backends.hardware.gemmini import moves, products
from qmlir.backends.hardware.gemmini.words import (
    ACCUMULATOR_ROWS,
    DIM,
    SCRATCHPAD_ROWS,
    Command,
    Configured,
    Function,
    command,
)
from qmlir.devices.model.agreement import AtMost
from qmlir.devices.model.encoder import LayerEncoder
from qmlir.devices.model.layer import (
    Addition,
    Convolution,
    ImageSum,
    Layer,
    Movement,
    PlacedLayer,
    Pool,
    Requantization,
)

BASE = 64
"""The address at which the memory of the device file begins."""

CONTRACT = "float_even"

MOST = (1 << 16) - 1
"""The largest size that a field of the loops holds."""


class Gemmini(LayerEncoder):
    """Encodes layers as Gemmini's commands."""

    word_bits = 64
    hardware: ClassVar[Mapping[str, object]] = {
        **{key: DIM for key in ("array.lanes.k", "array.lanes.n", "layout.channels")},
        "array.depthwise.lanes.c": 1,
        "array.depthwise.lanes.taps": DIM,
        "memory.spad.bytes": SCRATCHPAD_ROWS * DIM,
        "memory.acc.bytes": ACCUMULATOR_ROWS * DIM * 4,
        "layout.weights": {"n": DIM, "k": DIM},
        "quant.types": ["i8"],
        "quant.scale": "float32",
        "quant.granularity": "tensor",
        "quant.round": "half-even",
        "quant.bias.type": "i32",
        "quant.bias.when": "init",
        "ops.add.operand_scale": "rounded",
        "ops.maxpool.kernel_max": AtMost(3),
        "ops.maxpool.stride_max": AtMost(3),
        "ops.maxpool.dilation_max": AtMost(1),
        **{f"ops.{kind}.stride_max": AtMost(255) for kind in ("conv2d", "depthwise")},
        **{f"ops.{kind}.padding_max": AtMost(255) for kind in ("conv2d", "depthwise")},
    }

    def refuses(self, layer: Layer) -> str | None:
        if any(tensor.bits != 8 for tensor in (*layer.inputs, layer.output)):
            return "Gemmini's data have 8 bits"
        if max(max(tensor.shape[1:]) for tensor in (*layer.inputs, layer.output)) > MOST:
            return f"rows, columns and channels are at most {MOST}"
        match layer.steps:
            case (Convolution() as step, Requantization() as scale):
                return _unscaled(scale) or products.refuses(layer, step)
            case (ImageSum() as step, Requantization() as scale):
                return _unscaled(scale) or ("zero points are 0" if step.zero_point else None)
            case (Pool() as step,):
                return moves.refuses(layer, step)
            case (Requantization() as scale,):
                return _unscaled(scale)
            case (Addition() as step,):
                return _unsummed(layer, step)
            case (Requantization() as scale, Addition() as step):
                return _unscaled(scale) or _unsummed(layer, step) or _rectified(scale)
            case (Movement() as step,):
                return moves.immovable(step)
            case _:
                steps = ", ".join(type(step).__name__.lower() for step in layer.steps)
                return f"Gemmini computes a contraction with its change of scale, a maximum or a sum, got {steps}"

    def constants(self, layer: Layer) -> Sequence[bytes]:
        match layer.steps:
            case (Convolution() as step, *_):
                return products.constants(layer, step)
            case (ImageSum(), *_):
                return [products.ones(layer)]
            case (Pool() as step,) if any(step.padding):
                return [moves.PADDING]
            case _:
                return ()

    def encode(self, layers: Iterator[PlacedLayer]) -> Iterator[Sequence[int]]:
        for placed in layers:
            commands = [*_commands(_based(placed)), command(Function.FENCE)]
            yield [word for each in commands for word in each]


def _based(placed: PlacedLayer) -> PlacedLayer:
    """A layer with the processor's addresses."""

    def based(addresses: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(address + BASE for address in addresses)

    return PlacedLayer(
        placed.number, placed.layer, based(placed.inputs), placed.output + BASE, based(placed.constants),
        placed.scratch + BASE,
    )  # fmt: skip


def _commands(placed: PlacedLayer) -> Iterator[Command]:
    layer = placed.layer
    match layer.steps:
        case (Convolution() as step, Requantization() as scale):
            yield from products.convolution(placed, step, outward(scale, layer.output.shape[3]))
        case (ImageSum(), Requantization() as scale):
            yield from products.image_sum(placed, outward(scale, layer.output.shape[3]))
        case (Pool() as step,):
            yield from moves.maxima(placed, step)
        case (Requantization() as scale,):
            yield from moves.rescaled(placed.inputs[0], placed.output, layer.output.bytes, outward(scale, 16))
        case (*before, Addition() as step):
            relu = int(step.lower == 0)
            out = command(Configured.OUT, stride=16, scale=products.ONE, activation=relu)
            factor = next((bits_of(scale) for scale in before if isinstance(scale, Requantization)), products.ONE)
            yield from products.addition(placed.inputs, placed.output, layer.output.bytes, out, factor)
        case (Movement() as step,):
            yield from moves.moved(placed, step)
        case _:  # refused
            return


def outward(scale: Requantization, stride: int) -> Command:
    """How sums go out: rescaled, with ReLU where negative results are clamped."""
    return command(Configured.OUT, stride=stride, scale=bits_of(scale), activation=int(scale.lower == 0))


def bits_of(scale: Requantization) -> int:
    """The bits of the float32 factor of a change of scale."""
    return int(np.float32(scale.multipliers[0] * 2.0 ** float(scale.shifts[0] - 31)).view(np.uint32))


def _unscaled(scale: Requantization) -> str | None:
    """Why Gemmini cannot compute a change of scale."""
    if scale.contract != CONTRACT or scale.summand:
        return f"scales change by the contract {CONTRACT}, got {scale.contract}"
    if len(scale.multipliers) != 1:
        return f"a result has 1 scale, got {len(scale.multipliers)}"
    if scale.input_zero_point or scale.zero_point:
        return f"zero points are 0, got {scale.input_zero_point or scale.zero_point}"
    return _clamped(scale.lower, scale.upper)


def _clamped(lower: int, upper: int) -> str | None:
    if (lower, upper) not in ((-128, 127), (0, 127)):
        return f"results are clamped to 8 bits, with or without ReLU, got {lower} to {upper}"
    return None


def _rectified(scale: Requantization) -> str | None:
    return "operands of a sum have no ReLU of their own" if scale.lower == 0 else None


def _unsummed(layer: Layer, step: Addition) -> str | None:
    """Why Gemmini cannot compute a sum of tensors: it rounds each operand that it rescales."""
    if any(tensor.shape != layer.output.shape for tensor in layer.inputs):
        return "both operands of a sum have its shape"
    if step.own_zero_point or step.other_zero_point or step.zero_point:
        return "zero points are 0"
    if step.multiplier * step.other_multiplier < 0:
        return "tensors are added, not subtracted"
    if not step.multiplier == step.other_multiplier == 1 << step.shift:
        return "both operands of a sum have its scale"
    return _clamped(step.lower, step.upper)
