"""Warns of states that still grow at the end of the sequences from which ranges are learned.

A sum over all samples, or a filter that charges slowly, is small in the first steps. A range that is learned there is
exceeded later: the state saturates, and so does all that depends on it. A state grows if its largest magnitude rises
from quarter to quarter of the sequences, and in the last quarter beyond what it was before.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.errors import QmlirWarning
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import main_function, signature_of
from qmlir.transforms.quantize.ranges.row_scales import MAGNITUDES
from qmlir.transforms.quantize.ranges.scale_group import real_range

FEWEST = 8
"""The steps of a sequence that show whether a state grows."""

TREND, BEYOND = 1.1, 1.05
"""How much larger a state is in the last quarter than in the third in the mean, and than in the first three at most."""

FURTHER = 3
"""How many times what it was a state that does not slow down is taken to grow."""


@dataclass(frozen=True)
class Growth:
    """A state that grows.

    state   its name
    before  its largest magnitude in the first three quarters of the sequences
    most    its largest magnitude in all of them
    reach   what it comes to if it goes on like this, at most four times as much as it was
    steps   the steps of the longest sequence
    """

    state: str
    before: float
    most: float
    reach: float
    steps: int


def growing_states(calls: Sequence[Mapping[str, Array]], names: Sequence[str]) -> Iterator[Growth]:
    """Yields the states that grow.

    Args:
        calls: The inputs and the states before each call, the first of which has reset states, as each sequence has.
        names: The names of the states.
    """
    resets = {name: calls[0][name] for name in names}
    starts = [i for i, call in enumerate(calls) if all(np.array_equal(call[n], a) for n, a in resets.items())]
    sequences = [calls[start + 1 : end] for start, end in zip(starts, [*starts[1:], len(calls)], strict=True)]
    sequences = [sequence for sequence in sequences if len(sequence) >= FEWEST]
    for name, reset in resets.items():
        if not sequences or not np.issubdtype(reset.dtype, np.floating) or not reset.size:
            continue
        quarters: list[list[float]] = [[], [], [], []]
        for sequence in sequences:
            largest = np.array([np.abs(call[name]).max() for call in sequence])
            for quarter, part in zip(quarters, np.array_split(largest, 4), strict=True):
                quarter.extend(part.tolist())
        means = [float(np.mean(quarter)) for quarter in quarters]
        before, most = max(map(max, quarters[:3])), max(map(max, quarters))
        rises = means[0] < means[1] < means[2] and means[3] > TREND * means[2]
        if rises and most > BEYOND * before:
            slows = min(1.0, (means[3] - means[2]) / (means[2] - means[1]))
            rest = (means[3] - means[2]) * slows / (1 - slows) if slows < 1 else np.inf
            yield Growth(name, before, most, most + min(FURTHER * most, rest), max(map(len, sequences)))


def warn_of_growing_states(quantized: ModuleOp, calls: Sequence[Mapping[str, Array]]) -> None:
    """Warns of each state that grows and is stored in a type that holds little more than what it was.

    The magnitudes of a cache's rows hold what the cache was before its rows were divided.
    """
    function = main_function(quantized)
    held = {state.argument.name: state.places[0] for state in signature_of(function).states}
    places = {name: held.get(f"{name}{MAGNITUDES}", place) for name, place in held.items() if name in calls[0]}
    for growth in growing_states(calls, [*places]):
        type = quantized_element(function.body.block.args[places[growth.state]].type)
        if isinstance(type, UniformType) and max(map(abs, real_range(type))) < growth.reach:
            warnings.warn(_text(growth), QmlirWarning, stacklevel=3)


def _text(growth: Growth) -> str:
    more = 100 * (growth.most / growth.before - 1) if growth.before else float("inf")
    return (
        f'state "{growth.state}" still grows at the end of the sequences: its largest magnitude is {growth.most:.4g} '
        f"in {growth.steps} steps, {more:.0f} % more than in their first three quarters, so that it saturates in "
        f"longer sequences; quantize on sequences in which it reaches its largest values, {growth.reach:.4g} or more"
    )
