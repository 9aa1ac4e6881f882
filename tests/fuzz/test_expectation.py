"""What the fuzzer expects of quantized weights."""

import numpy as np
import pytest

from tests.fuzz.expectation import rounded
from tests.fuzz.graphs import Graph, Node
from tests.fuzz.options import Options
from tests.fuzz.oracle import Oracle


def expected(weights: list[float], options: Options) -> list[float]:
    """The expected signal to noise of each channel of a depthwise convolution by single weights."""
    count = len(weights)
    constants = {"w": np.array(weights, np.float32).reshape(count, 1, 1)}
    x = tuple(np.random.default_rng(i).normal(size=(2, count, 8)).astype(np.float32) for i in range(2))
    graph = Graph((Node("Conv", ("x", "w"), ("y",), {"group": count}),), constants, {"x": x}, ("y",), 21)
    oracle = Oracle(graph)
    found = rounded(graph, oracle, options, [oracle.run(feed) for feed in graph.feeds()])
    return [found.sqnr("y", (slice(None), channel)) for channel in range(count)]


WEIGHTS = [2.0] + 20 * [1.0]
"""Under 4 bits steps of 2/7 hold the first weight exactly; those of 2/8 hold the others, and cut off the first."""


def test_a_weight_on_the_steps_of_the_largest_raises_no_expectation() -> None:
    first, *others = expected(WEIGHTS, Options(precision="int16", weight_precision="int4", per_channel=False))
    assert first < 25
    assert max(others) < 20


@pytest.mark.parametrize(
    "options",
    [
        Options(precision="int16", weight_precision="int4"),
        Options(precision="int16", weight_precision="int8", per_channel=False),
    ],
)
def test_channels_that_their_bits_hold_are_expected(options: Options) -> None:
    assert min(expected(WEIGHTS, options)) > 40
