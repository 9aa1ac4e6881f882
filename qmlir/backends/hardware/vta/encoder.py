"""The encoder `vta`: layers of networks as streams of VTA's instructions.

Each layer is a stream with a `finish`. A driver places tensors and constants, gives the address of the stream and its
number of instructions, and waits. Tensors lie in vectors of 16 channels (layout.py); the constants of a layer are its
micro-ops, its weights and its biases. What the device computes on integers is what the layer says, bit for bit.

The device has no multiplication of sums, so that scales are powers of two, and no zero points. The low 8 bits of a sum
are stored, so that bounds are steps of their own. What is added before a shift may not wrap: the encoder follows the
bounds of all sums, and refuses a layer whose sums could leave 32 bits.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from qmlir.backends.hardware.vta.epilogue import Epilogue, Refusal, behind, check_factor, factors, power_of
from qmlir.backends.hardware.vta.instructions import MEMORIES, WORD_BITS, Buffer
from qmlir.backends.hardware.vta.layout import LANES, blocks, to_vectors, vectors_of
from qmlir.backends.hardware.vta.maxima import Maxima
from qmlir.backends.hardware.vta.movement import Gathered
from qmlir.backends.hardware.vta.products import Constants, Places, Products, Weights, diagonal, weights_of
from qmlir.backends.hardware.vta.stream import Part, linked
from qmlir.backends.hardware.vta.windows import MOST_PADDING, Windows
from qmlir.devices.model.agreement import AtMost
from qmlir.devices.model.encoder import LayerEncoder
from qmlir.devices.model.engines import Engines
from qmlir.devices.model.layer import (
    Addition,
    Convolution,
    ImageSum,
    Layer,
    Movement,
    PlacedLayer,
    Pool,
    Requantization,
    Step,
    Tensor,
)

VECTOR, WEIGHT_TILE, SUM_VECTOR, MICRO_OP = 16, 256, 64, 4
"""Bytes of what addresses count."""

LEAST, MOST = -128, 127


_BUFFERS = {"inp": Buffer.DATA, "wgt": Buffer.WEIGHTS, "acc": Buffer.SUMS, "out": Buffer.RESULTS}


class Vta(LayerEncoder):
    """Encodes layers as streams of instructions of 128 bits, for the default configuration.

    A device file that has other sizes of buffers is refused.
    """

    word_bits = WORD_BITS
    hardware: ClassVar[Mapping[str, object]] = {
        **{key: LANES for key in ("array.lanes.k", "array.lanes.n", "layout.channels")},
        **{f"memory.{id}.bytes": MEMORIES[buffer].elements * MEMORIES[buffer].bytes for id, buffer in _BUFFERS.items()},
        "layout.weights": {"n": LANES, "k": LANES},
        "quant.types": ["i8"],
        "quant.scale": "pow2",
        "quant.granularity": "tensor",
        "quant.round": "half-up",
        "quant.shift.max": AtMost(31),
        "quant.bias.type": "i32",
        "quant.bias.when": "init",
        "ops.conv2d.padding_max": AtMost(MOST_PADDING),
        "ops.maxpool.padding_max": AtMost(MOST_PADDING),
    }

    def refuses(self, layer: Layer) -> str | None:
        memory = Engines.of(self.device).external
        if memory.align % WEIGHT_TILE:
            return f"VTA's addresses of weights count tiles of {WEIGHT_TILE} bytes, got {memory.id} with {memory.align}"
        try:
            _parts(layer, _constants(layer))
        except Refusal as reason:
            return str(reason)
        return None

    def size(self, tensor: Tensor) -> int:
        return vectors_of(tensor.shape) * LANES * tensor.bits // 8

    def contents(self, tensor: Tensor) -> bytes:
        assert tensor.contents is not None
        return to_vectors(tensor.contents.astype(np.int8)).tobytes()

    def constants(self, layer: Layer) -> Sequence[bytes]:
        constants = _constants(layer)
        _ = list(_parts(layer, constants))
        return constants.contents

    def encode(self, layers: Iterator[PlacedLayer]) -> Iterator[Sequence[int]]:
        for placed in layers:
            constants = _constants(placed.layer, placed.inputs, placed.output, placed.constants)
            stream = linked(list(_parts(placed.layer, constants)))
            yield [each.word for each in stream]


def _constants(
    layer: Layer, inputs: tuple[int, ...] = (), output: int = 0, constants: tuple[int, ...] = (0, 0, 0)
) -> Constants:
    """Holds the constants of a layer, whose tensors and constants lie at byte addresses; without any, at 0."""
    micro_ops, weights, sums = constants
    images = layer.output.shape[0]
    steps = tuple(vectors_of(tensor.shape) // max(images, 1) for tensor in (*layer.inputs, layer.output))
    vectors = tuple(address // VECTOR for address in inputs or (0,) * len(layer.inputs))
    places = Places(
        vectors, output // VECTOR, micro_ops // MICRO_OP, weights // WEIGHT_TILE, sums // SUM_VECTOR, images, steps
    )
    return Constants(places)


def _check(layer: Layer) -> None:
    """Refuses tensors that no instruction reads.

    Raises:
        Refusal: There are such tensors.
    """
    for tensor in (*layer.inputs, layer.output):
        if tensor.bits != 8:
            raise Refusal(f"VTA computes tensors of 8 bits an element, got {tensor.bits}")
        if not all(tensor.shape):
            raise Refusal("VTA computes tensors with elements, got none")
    first, result = layer.steps[0], layer.output.shape
    if isinstance(first, Movement):
        return
    if layer.inputs[0].shape[0] != result[0]:
        raise Refusal(f"VTA computes as many images as it reads, got {result[0]}")
    for tensor in layer.inputs if isinstance(first, Addition) else layer.inputs[1:]:
        if tensor.shape != result:
            raise Refusal(f"VTA adds tensors of one shape, got {tensor.shape} for {result}")


def _parts(layer: Layer, constants: Constants) -> Iterator[Part]:
    """The parts of a layer's result; the constants are complete after the last one.

    Raises:
        Refusal: The device cannot compute the layer.
    """
    _check(layer)
    first, *rest = layer.steps
    if isinstance(first, Movement):
        if rest:
            raise Refusal("VTA moves data in a layer of its own")
        return Gathered(first, layer.inputs, layer.output, constants).parts()
    (_, rows, columns, channels), (_, out_rows, out_columns, outputs) = layer.inputs[0].shape, layer.output.shape
    data, result = (rows, columns), (out_rows, out_columns)
    point = Windows(data, data, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0))
    match first:
        case Convolution():
            windows = Windows(data, result, first.kernel, first.stride, first.dilation, first.padding)
            return _products(windows, weights_of(first), _sums(first), rest, constants)
        case Pool(average=False):
            windows = Windows(data, result, first.window, first.stride, first.dilation, first.padding)
            same = np.ones(outputs, np.int64)
            epilogue = Epilogue(LEAST * same, MOST * same)
            behind(epilogue, rest, 1)
            return Maxima(windows, blocks(channels), epilogue.acts, constants).parts()
        case Pool():
            windows = Windows(data, result, first.window, first.stride, first.dilation, first.padding)
            return _products(windows, diagonal(1, blocks(channels)), _mean(first, outputs), rest, constants)
        case ImageSum():
            _no_zero_point(first.zero_point)
            windows = Windows(data, (1, 1), data, (1, 1), (1, 1), (0, 0, 0, 0))
            number = rows * columns * np.ones(outputs, np.int64)
            epilogue = Epilogue(LEAST * number, MOST * number)
            return _products(windows, diagonal(1, blocks(channels)), epilogue, rest, constants)
        case Requantization():
            same = np.ones(outputs, np.int64)
            epilogue = Epilogue(LEAST * same, MOST * same)
            return _products(point, diagonal(1, blocks(channels)), epilogue, layer.steps, constants)
        case Addition():
            own, _, _ = factors(first)
            check_factor(own)
            same = own * np.ones(outputs, np.int64)
            epilogue = Epilogue(LEAST * same, MOST * same)
            epilogue.merge(first, 1)
            return _products(point, diagonal(own, blocks(channels)), epilogue, rest, constants, 2)
        case _:
            raise Refusal(f"VTA computes products of windows, maxima and sums, got a {type(first).__name__.lower()}")


def _products(
    windows: Windows,
    weights: Weights,
    epilogue: Epilogue,
    rest: Sequence[Step],
    constants: Constants,
    number: int = 1,
) -> Iterator[Part]:
    windows.check_padding()
    behind(epilogue, rest, number)
    low, high = int(epilogue.lower.min()), int(epilogue.upper.max())
    if low < LEAST or high > MOST:
        raise Refusal(f"VTA stores the low 8 bits of sums, which here reach from {low} to {high}")
    return Products(windows, weights, epilogue.acts, constants).parts()


def _no_zero_point(number: int) -> None:
    if number:
        raise Refusal(f"VTA's data and weights have no zero points, got {number}")


def _sums(step: Convolution) -> Epilogue:
    """The bounds of a convolution's sums, with its bias as the first act."""
    _no_zero_point(step.zero_point)
    _no_zero_point(step.weight_zero_point)
    weights = step.weights.reshape(len(step.weights), -1).astype(np.int64)
    if weights.size and (weights.min() < LEAST or weights.max() > MOST):
        raise Refusal("VTA's weights have 8 bits")
    above, below = weights.clip(0).sum(1), weights.clip(None, 0).sum(1)
    epilogue = Epilogue(LEAST * above + MOST * below, MOST * above + LEAST * below)
    if step.bias is not None:
        epilogue.add(step.bias.astype(np.int64))
    return epilogue


def _mean(step: Pool, channels: int) -> Epilogue:
    """The bounds of sums of windows, with the division that makes them means."""
    number = step.window[0] * step.window[1]
    if any(step.padding) and (not step.counts_padding or step.zero_point):
        raise Refusal("VTA's means count padding as 0, got windows that do not")
    same = number * np.ones(channels, np.int64)
    epilogue = Epilogue(LEAST * same, MOST * same)
    if (exponent := power_of(number)) is None:
        epilogue.divide(number)
    else:
        epilogue.away(exponent)
    return epilogue
