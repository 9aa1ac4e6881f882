"""Gemmini's encoder: each layer, from its commands and the memory alone, has the bits of the layer's own data."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.backends.hardware.gemmini.encoder import BASE, Gemmini
from qmlir.backends.hardware.gemmini.machine import Machine
from qmlir.backends.hardware.gemmini.words import Function
from qmlir.devices.model.layer import (
    Addition,
    Convolution,
    ImageSum,
    Layer,
    Lookup,
    Movement,
    PlacedLayer,
    Pool,
    Requantization,
    Step,
    Tensor,
)
from qmlir.numerics import Array
from tests.devices.test_layer_encoder import evaluated

ENCODER = Gemmini(qmlir.load_device("gemmini"))


def tensor(name: str, *shape: int) -> Tensor:
    assert len(shape) == 4
    return Tensor(name, shape, 8)


def scale(real: float, relu: bool = False, **changed: Any) -> Requantization:
    """A change of scale by a float32 factor."""
    exponent = int(np.floor(np.log2(real))) + 1
    multiplier = int(np.float32(real) * 2.0 ** (31 - exponent))
    made = Requantization(
        np.array([multiplier]), np.array([exponent]), "float_even", 0.0, 0, 0, 0 if relu else -128, 127, 8
    )
    return replace(made, **changed)


def convolution(rng: Any, channels: int, outputs: int, kernel: tuple[int, int], **given: Any) -> Convolution:
    groups = given.pop("groups", 1)
    weights = rng.integers(-128, 128, (outputs, *kernel, channels // groups))
    bias = rng.integers(-5000, 5000, outputs) if given.pop("bias", True) else None
    standard: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
    return Convolution(weights, 0, bias, 0, groups, **(standard | given), sum_bits=32)


def of_windows(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
    return (size + before + after - (kernel - 1) * dilation - 1) // stride + 1


def layer(steps: Sequence[Step], shape: tuple[int, int, int, int], outputs: int = 0) -> Layer:
    """A layer of steps on an input; the shape of the output follows from the first step."""
    first, images, rows, columns, channels = steps[0], *shape
    others = tuple(step.other for step in steps if isinstance(step, Addition))
    if isinstance(first, Convolution | Pool):
        window = first.kernel if isinstance(first, Convolution) else first.window
        top, bottom, left, right = first.padding
        rows = of_windows(rows, window[0], first.stride[0], first.dilation[0], top, bottom)
        columns = of_windows(columns, window[1], first.stride[1], first.dilation[1], left, right)
        channels = len(first.weights) if isinstance(first, Convolution) else channels
    elif isinstance(first, ImageSum):
        rows = columns = 1
    return Layer(
        "layer", "kind", (tensor("x", *shape), *others), tensor("y", images, rows, columns, channels), (*steps,)
    )


def computed(given: Layer, inputs: Sequence[Array]) -> Array:
    """What the machine makes of a layer: inputs, constants and output lie side by side; nothing else may change."""
    assert ENCODER.refuses(given) is None
    ends, contents = [0], list[bytes]()
    for data in [*(x.astype(np.int8).tobytes() for x in inputs), *ENCODER.constants(given)]:
        contents.append(data)
        ends.append(ends[-1] + len(data) + 5)
    size = prod(given.output.shape)
    memory = np.full(BASE + ends[-1] + size + 7, 0xA5, np.uint8)
    for at, data in zip(ends, contents, strict=False):
        memory[BASE + at : BASE + at + len(data)] = np.frombuffer(data, np.uint8)
    before = memory.copy()
    places = tuple(ends[: len(inputs)]), ends[-1], tuple(ends[len(inputs) : -1])
    (words,) = ENCODER.encode(iter([PlacedLayer(0, given, *places, 0)]))
    assert words[-3:] == [Function.FENCE, 0, 0]
    machine = Machine(memory)
    machine.accumulator[:], machine.scratchpad[:] = 12345, 77  # what an earlier layer has left
    machine.run_words(words)
    written = slice(BASE + ends[-1], BASE + ends[-1] + size)
    result = memory[written].view(np.int8).reshape(given.output.shape).astype(np.int64)
    memory[written] = before[written]
    assert (memory == before).all()
    return result


def same(given: Layer, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-128, 128, t.shape) for t in given.inputs]
    expected = evaluated(given, inputs)
    assert len(np.unique(expected)) > 1
    assert (computed(given, inputs) == expected).all()


CONVOLUTIONS: dict[str, tuple[tuple[int, int, int, int], int, tuple[int, int], dict[str, Any]]] = {
    "3x3": ((1, 9, 10, 16), 16, (3, 3), {"padding": (1, 1, 1, 1)}),
    "of few channels": ((1, 20, 19, 3), 8, (3, 3), {"padding": (0, 1, 0, 1), "stride": (2, 2)}),
    "of one channel": ((1, 28, 28, 1), 8, (5, 5), {"padding": (2, 2, 2, 2)}),
    "of no square": ((1, 49, 10, 1), 64, (10, 4), {"padding": (4, 5, 1, 1), "stride": (2, 2)}),
    "of two strides": ((1, 11, 12, 5), 9, (3, 2), {"stride": (3, 2), "padding": (1, 0, 1, 0)}),
    "of stride 3": ((1, 13, 14, 7), 9, (2, 2), {"stride": (3, 3)}),
    "dilated": ((1, 14, 13, 4), 20, (3, 3), {"dilation": (2, 2), "padding": (2, 1, 2, 0)}),
    "1x1": ((1, 7, 9, 40), 33, (1, 1), {}),
    "of ResNet-50, 3x3": ((1, 14, 14, 256), 256, (3, 3), {"padding": (1, 1, 1, 1)}),
    "of ResNet-50, 1x1": ((1, 7, 7, 2048), 512, (1, 1), {}),
    "1x1 with stride": ((1, 8, 9, 20), 40, (1, 1), {"stride": (2, 2)}),
    "of many channels": ((1, 6, 6, 600), 20, (3, 3), {"padding": (1, 1, 1, 1)}),
    "of very many channels": ((1, 4, 4, 1100), 20, (3, 3), {"padding": (1, 1, 1, 1)}),
    "of many outputs": ((1, 5, 5, 24), 700, (3, 3), {"padding": (1, 1, 1, 1)}),
    "of a wide image": ((1, 3, 700, 4), 5, (3, 3), {"padding": (1, 1, 1, 1)}),
    "of three images": ((3, 6, 5, 6), 7, (3, 3), {"padding": (1, 1, 1, 1)}),
    "of three images of pixels": ((3, 6, 5, 6), 7, (1, 1), {}),
    "without bias": ((1, 5, 6, 8), 18, (3, 3), {"bias": False}),
    "of many channels without bias": ((1, 4, 4, 1100), 17, (3, 3), {"bias": False}),
    "depthwise": ((1, 12, 11, 40), 40, (3, 3), {"groups": 40, "padding": (1, 1, 1, 1)}),
    "depthwise with stride": ((1, 12, 11, 8), 8, (3, 3), {"groups": 8, "padding": (0, 1, 0, 1), "stride": (2, 2)}),
    "of small groups": ((1, 7, 7, 24), 48, (3, 3), {"groups": 6}),
    "of large groups": ((1, 7, 7, 60), 40, (2, 2), {"groups": 2}),
    "of padding beyond the kernel": ((1, 3, 3, 4), 4, (2, 2), {"padding": (5, 4, 3, 6)}),
    "fully connected": ((1, 1, 1, 256), 10, (1, 1), {}),
    "fully connected without bias": ((1, 1, 1, 20), 70, (1, 1), {"bias": False}),
    "fully connected and large": ((1, 1, 1, 3000), 1001, (1, 1), {}),
    "fully connected of images": ((37, 1, 1, 33), 50, (1, 1), {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("relu", [False, True])
def test_convolutions(name: str, relu: bool) -> None:
    shape, outputs, kernel, given = CONVOLUTIONS[name]
    rng = np.random.default_rng(len(name))
    step = convolution(rng, shape[3], outputs, kernel, **given)
    terms = prod(step.weights.shape[1:])
    same(layer([step, scale(1 / (90 * terms**0.5), relu)], shape))


def test_random_convolutions() -> None:
    rng = np.random.default_rng(7)
    for n in range(60):
        kernel, stride, dilation = (int(v) for v in rng.integers([1, 1, 1], [5, 4, 3]))
        groups = int(rng.choice([1, 1, 2, 5]))
        channels, outputs = (int(v) * groups for v in rng.integers(1, 24, 2))
        reach = (kernel - 1) * dilation + 1
        rows, columns = (int(v) for v in rng.integers(reach + 3, reach + 30, 2))
        padding = tuple(int(v) for v in rng.integers(0, kernel + 1, 4))
        step = convolution(
            rng, channels, outputs, (kernel, kernel), groups=groups, stride=(stride, stride),
            dilation=(dilation, dilation), padding=padding, bias=bool(n % 3),
        )  # fmt: skip
        factor = float(rng.uniform(0.5, 2)) / (90 * prod(step.weights.shape[1:]) ** 0.5)
        same(layer([step, scale(factor, bool(n % 2))], (1, rows, columns, channels)), n)


@pytest.mark.parametrize("shape", [(1, 8, 8, 64), (2, 7, 7, 100), (1, 49, 10, 16), (1, 120, 120, 3), (1, 30, 30, 520)])
def test_sums_of_images(shape: tuple[int, int, int, int]) -> None:
    same(layer([ImageSum(0), scale(0.9 / (shape[1] * shape[2]) ** 0.5)], shape))


@pytest.mark.parametrize(
    ("shape", "window", "stride", "padding"),
    [
        ((1, 28, 28, 8), 2, 2, (0, 0, 0, 0)),
        ((1, 14, 14, 16), 3, 3, (0, 0, 0, 0)),
        ((2, 13, 12, 70), 3, 2, (1, 1, 1, 1)),
        ((1, 9, 8, 20), 3, 1, (2, 1, 0, 2)),
        ((1, 112, 112, 64), 3, 2, (1, 0, 1, 0)),
        ((1, 3, 600, 5), 2, 1, (0, 0, 1, 0)),
        ((1, 600, 4, 5), 2, 2, (0, 0, 0, 0)),
        ((1, 5, 5, 3), 1, 3, (0, 0, 0, 0)),
    ],
)
def test_maxima(shape: tuple[int, int, int, int], window: int, stride: int, padding: tuple[int, int, int, int]) -> None:
    pool = Pool(False, (window, window), (stride, stride), (1, 1), padding, False, 0)
    same(layer([pool], shape))
    negative = layer([pool], shape)
    x = np.random.default_rng(1).integers(-128, -60, shape)
    assert (computed(negative, [x]) == evaluated(negative, [x])).all()


@pytest.mark.parametrize("shape", [(1, 1, 1, 16), (1, 5, 7, 3), (2, 20, 30, 17)])
@pytest.mark.parametrize("relu", [False, True])
def test_elements(shape: tuple[int, int, int, int], relu: bool) -> None:
    same(layer([scale(0.7, relu)], shape))
    same(layer([scale(1.9, relu)], shape))
    lower = 0 if relu else -128
    same(layer([Addition(tensor("o", *shape), 0, 0, 8, 8, 3, 0, lower, 127, 8)], shape))
    same(layer([scale(0.6), Addition(tensor("o", *shape), 0, 0, 2, 2, 1, 0, lower, 127, 8)], shape))
    same(layer([Movement("reshape", {"shape": shape}, (shape, shape))], shape))


def moved(kind: str, shapes: Sequence[tuple[int, ...]], numbers: dict[str, tuple[int, ...]]) -> Layer:
    """A movement; the last of the shapes is the result's."""
    images = [(*(1,) * (4 - len(shape)), *shape) for shape in shapes]
    inputs = tuple(Tensor(f"x{n}", image, 8) for n, image in enumerate(images[:-1]))  # type: ignore[arg-type]
    output = Tensor("y", images[-1], 8)  # type: ignore[arg-type]
    return Layer("layer", "move", inputs, output, (Movement(kind, numbers, (*shapes,)),))


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        (((1, 5, 6, 3), (1, 5, 6, 40), (1, 5, 6, 43)), 3),
        (((2, 5, 6, 17), (2, 3, 6, 17), (2, 8, 6, 17)), 1),
        (((3, 700), (2, 700), (5, 700)), 0),
        (((4, 3, 5, 8), (4, 3, 9, 8), (4, 3, 14, 8)), 2),
    ],
)
def test_tensors_that_are_joined(shapes: Sequence[tuple[int, ...]], axis: int) -> None:
    given = moved("concat", shapes, {"axis": (axis,)})
    rng = np.random.default_rng(2)
    inputs = [rng.integers(-128, 128, t.shape) for t in given.inputs]
    joined = np.concatenate([x.reshape(shape) for x, shape in zip(inputs, shapes, strict=False)], axis)
    assert (computed(given, inputs) == joined.reshape(given.output.shape)).all()


@pytest.mark.parametrize(
    ("shape", "offsets", "sizes", "strides"),
    [
        ((1, 9, 8, 20), (0, 2, 1, 0), (1, 5, 7, 20), (1, 1, 1, 1)),
        ((1, 9, 8, 40), (0, 0, 0, 3), (1, 9, 8, 33), (1, 1, 1, 1)),
        ((2, 9, 8, 5), (0, 1, 0, 0), (2, 4, 3, 5), (1, 2, 3, 1)),
        ((50,), (7,), (40,), (1,)),
        ((3, 9, 8, 5), (2, 7, 5, 0), (3, 4, 6, 5), (-1, -2, -1, 1)),
    ],
)
def test_tensors_that_are_cut_out(
    shape: tuple[int, ...], offsets: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    given = moved("slice", (shape, sizes), {"offsets": offsets, "sizes": sizes, "strides": strides})
    x = np.random.default_rng(2).integers(-128, 128, given.inputs[0].shape)
    places = tuple(
        slice(o, o + n * s if o + n * s >= 0 else None, s) for o, n, s in zip(offsets, sizes, strides, strict=True)
    )
    assert (computed(given, [x]) == x.reshape(shape)[places].reshape(given.output.shape)).all()


REFUSED: dict[str, tuple[Layer, str]] = {}


def refused(name: str, said: str, steps: Sequence[Step], shape: tuple[int, int, int, int] = (1, 6, 6, 8)) -> None:
    REFUSED[name] = layer(steps, shape), said


RNG = np.random.default_rng(0)
PLAIN = convolution(RNG, 8, 4, (3, 3))
refused("contract", "scales change by the contract float_even, got single", [PLAIN, scale(0.1, contract="single")])
refused("channels", "a result has 1 scale, got 4", [PLAIN, scale(0.1, multipliers=np.full(4, 1 << 30))])
refused("zero point", "zero points are 0, got 3", [PLAIN, scale(0.1, zero_point=3)])
refused("clamp", "clamped to 8 bits, with or without ReLU, got 0 to 100", [PLAIN, scale(0.1, lower=0, upper=100)])
refused("data", "zero points are 0, got 5", [replace(PLAIN, zero_point=5), scale(0.1)])
refused("sums", "sums take at most 32 bits, got 64", [replace(PLAIN, sum_bits=64), scale(0.1)])
refused("dilation", "rows and columns have 1 dilation, got 1x2", [replace(PLAIN, dilation=(1, 2)), scale(0.1)])
refused("stride", "at most 255, got 300", [replace(PLAIN, stride=(300, 1)), scale(0.1)], (1, 400, 6, 8))
refused("bias", "a bias has 32 bits", [replace(PLAIN, bias=np.full(4, 1 << 33)), scale(0.1)])
refused(
    "window", "a window of 40x40 with the weights of 16 channels fits",
    [convolution(RNG, 16, 16, (40, 40)), scale(0.1)], (1, 40, 40, 16),
)  # fmt: skip
refused("mean", "computes maxima, no means", [Pool(True, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), False, 0)])
refused(
    "window of a pool",
    "at most 3, without dilation, got 4",
    [Pool(False, (4, 4), (1, 1), (1, 1), (0, 0, 0, 0), False, 0)],
)
refused("no square", "are squares, got 2x3 and 1x1", [Pool(False, (2, 3), (1, 1), (1, 1), (0, 0, 0, 0), False, 0)])
refused("table", "a contraction with its change of scale, a maximum or a sum, got lookup", [Lookup(np.zeros(256))])
refused("size", "rows, columns and channels are at most 65535", [scale(0.1)], (1, 1, 70000, 1))
refused(
    "rectified operand", "operands of a sum have no ReLU of their own",
    [scale(0.6, relu=True), Addition(tensor("o", 1, 6, 6, 8), 0, 0, 2, 2, 1, 0, -128, 127, 8)],
)  # fmt: skip
REFUSED["transposition"] = moved("transpose", ((2, 3), (3, 2)), {}), "moves copy, join and cut out, got transpose"
REFUSED["slice"] = (
    moved("slice", ((9,), (3,)), {"offsets": (0,), "sizes": (3,), "strides": (3,)}),
    "neighbours of a slice lie 1 element apart, got 3",
)
for why, changed in {
    "zero points are 0": {"other_zero_point": 1}, "both operands of a sum have its scale": {"multiplier": 3},
    "tensors are added, not subtracted": {"other_multiplier": -8},
    "clamped to 8 bits, with or without ReLU, got -5 to 5": {"lower": -5, "upper": 5},
    "both operands of a sum have its shape": {"other": tensor("o", 1, 1, 1, 8)},
}.items():  # fmt: skip
    plain = Addition(tensor("o", 1, 6, 6, 8), 0, 0, 8, 8, 3, 0, -128, 127, 8)
    refused(why, why, [replace(plain, **changed)])


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    given, said = REFUSED[name]
    reason = ENCODER.refuses(given)
    assert reason is not None
    assert said in reason


def test_data_of_16_bits_are_refused() -> None:
    given = layer([scale(0.1)], (1, 2, 2, 2))
    wide = replace(given, output=replace(given.output, bits=16))
    assert ENCODER.refuses(wide) == "Gemmini's data have 8 bits"
