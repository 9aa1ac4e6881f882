"""Costs of programs: what engines overlap, and the share of the array that ResNet-50 uses."""

from collections.abc import Iterator
from math import prod

import numpy as np

from qmlir.backends.hardware.gemmini.costs import Work, _overlapped, costs_of
from qmlir.backends.hardware.gemmini.words import Configured, Function, command
from qmlir.devices.model.layer import Layer, PlacedLayer
from tests.backends.hardware.gemmini.test_encoder import ENCODER, convolution, layer, scale

REPORTED = 0.51
"""The share of the array that Gemmini's authors report for ResNet-50."""


def convolutions() -> Iterator[tuple[int, int, int, int, int]]:
    """ResNet-50's convolutions: the size of the image, input and output channels, window, stride."""
    yield 224, 3, 64, 7, 2
    size, inputs = 56, 64
    for stage, (width, count) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(count):
            stride = 2 if stage and not block else 1
            yield size, inputs, width, 1, 1
            yield size, width, width, 3, stride
            if not block:
                yield size, inputs, 4 * width, 1, stride
            size, inputs = size // stride, 4 * width
            yield size, width, inputs, 1, 1


def program(given: Layer) -> list[tuple[int, int, int]]:
    """The commands of a layer, wherever its tensors lie."""
    (words,) = ENCODER.encode(iter([PlacedLayer(0, given, (0,), 0, (0, 0), 0)]))
    return list(zip(words[::3], words[1::3], words[2::3], strict=True))


def test_the_share_of_resnet_50() -> None:
    rng, commands, expected = np.random.default_rng(0), list[tuple[int, int, int]](), 0
    for size, inputs, outputs, window, stride in convolutions():
        before = window // 2
        after = max(before - (stride - 1), 0)
        step = convolution(
            rng, inputs, outputs, (window, window), stride=(stride, stride), padding=(before, after, before, after)
        )
        given = layer([step, scale(0.001)], (1, size, size, inputs))
        commands += program(given)
        expected += step.weights.size * prod(given.output.shape[1:3])
    commands += program(layer([convolution(rng, 2048, 1000, (1, 1)), scale(0.001)], (1, 1, 1, 2048)))
    found = costs_of(commands)
    assert found.products == expected + 2048 * 1000
    assert 4.0e9 < found.products < 4.2e9
    assert REPORTED < found.share < 1
    assert round(found.share, 2) == 0.93


def test_engines_overlap() -> None:
    assert _overlapped([]) == 0
    assert _overlapped([Work(5, 7, 3)]) == 5 + 7 + 3
    assert _overlapped([Work(5, 7, 3), Work(9, 2, 4)]) == 5 + 9 + 3 + 4
    assert _overlapped([Work(1, 7, 8), Work(1, 2, 4), Work(0, 5, 0)]) == 1 + 7 + 8 + 5


def test_moves_and_fences() -> None:
    into = command(Configured.IN, stride=16, block_stride=16)
    load = command(Function.MOVE_IN, address=64, local_rows=16, local_columns=40)
    store = command(Function.MOVE_OUT, address=64, local_rows=9, local_columns=16)
    assert costs_of([into, load, store]).cycles == 16 * 3 + 9
    fence = command(Function.FENCE)
    assert costs_of([into, load, fence, load, fence, store]).cycles == 2 * 48 + 9
    repeated = command(Configured.IN, stride=0, block_stride=16)
    assert costs_of([repeated, load]).cycles == 16
    assert costs_of([fence]).share == 0
