"""The cases of a run: number i of a seed is always the same."""

from collections.abc import Sequence

import numpy as np

from tests.fuzz import attention, contractions, control, fused, integers, movement, operators, tflite_selection, trees
from tests.fuzz.checks import Case
from tests.fuzz.device_cases import DeviceCase
from tests.fuzz.drawing import draw
from tests.fuzz.graphs import Graph
from tests.fuzz.options import Shares, draw_options
from tests.fuzz.tflite import TfliteCase, tflite_case
from tests.fuzz.tflite_operators import TABLE as TFLITE

FAVOURITES = (
    *("Conv", "Conv", "Gemm", "MatMul", "Add", "Mul", "Sub", "Concat", "Relu", "Softmax", "AveragePool", "MaxPool"),
    *("Reshape", "Transpose", "ReduceMean", "Sigmoid", "Slice", "Pad", "ConvTranspose"),
)

FAMILIES = (operators, contractions, attention, fused, movement, integers, control, tflite_selection, trees)
"""The modules that fill the tables of operators."""


def case(seed: int, number: int, shares: Shares) -> Case | TfliteCase | DeviceCase:
    """A network and its options; every fourth is a TFLite file, every twentieth is made for a device."""
    if number % 4 == 3:
        return tflite_case(seed, number, shares)
    if number % 20 == 10 and shares.devices:
        return DeviceCase(seed * 1_000_003 + number, shares.devices[number // 20 % len(shares.devices)])
    rng = np.random.default_rng([seed, number])
    graph = draw(rng, operators.TABLE, FAVOURITES)
    return Case(graph, draw_options(rng, names_of(graph), shares))


def names_of(graph: Graph) -> Sequence[str]:
    """What rules may name: tensors and nodes."""
    made = [n for node in graph.nodes for n in node.outputs if n]
    return [*graph.samples, *made, *(f"n_{n}" for n in made)]


def known() -> list[str]:
    """The operators that can be drawn."""
    return [*operators.TABLE, *(f"tflite.{kind}" for kind in TFLITE)]
