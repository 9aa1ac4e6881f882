"""Cycles that are computed from the registers of a layer are within a tenth of those of the RTL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qmlir.backends.hardware.nvdla.cost import cycles
from qmlir.backends.hardware.nvdla.jobs import Cube, Driver, Pool
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from tests.backends.hardware.nvdla.vectors import KINDS, vectors

MEAN = 0.025
"""The largest mean error of a kind."""


@pytest.mark.parametrize("kind", KINDS)
def test_cycles_of_the_last_layer(kind: str, shared: Callable[[str], Path]) -> None:
    errors: dict[str, float] = {}
    for vector in vectors(shared, kind):
        nvdla = Nvdla(Memory(vector.program.segments))
        nvdla.execute(vector.program.commands)
        errors[vector.name] = cycles(nvdla.done[-1]) / vector.cycles - 1
    assert {name: error for name, error in errors.items() if abs(error) > 0.1} == {}
    assert sum(map(abs, errors.values())) / len(errors) < MEAN


POOLS = [
    ((2, 1, 18), (1, 7), (2, 4), (0, 0, 4, 2), (1, 1), 179),
    ((6, 2, 20), (6, 7), (1, 2), (2, 1, 0, 5), (4, 1), 426),
    ((1, 2, 1), (5, 8), (3, 1), (1, 3, 1, 5), (1, 1), 143),
    ((1, 1, 24), (4, 5), (3, 2), (1, 2, 1, 3), (1, 1), 157),
    ((10, 1, 2), (8, 5), (3, 3), (6, 0, 0, 4), (3, 1), 212),
    ((6, 2, 16), (4, 6), (1, 3), (1, 2, 0, 4), (6, 1), 349),
    ((6, 12, 20), (3, 7), (3, 1), (2, 0, 2, 6), (2, 14), 2101),
    ((4, 8, 3), (3, 8), (2, 1), (0, 1, 2, 1), (2, 4), 391),
    ((5, 2, 10), (8, 3), (3, 2), (3, 3, 1, 0), (2, 1), 298),
    ((9, 8, 15), (7, 2), (3, 2), (1, 0, 1, 0), (2, 4), 1271),
    ((8, 3, 18), (3, 8), (3, 3), (1, 0, 5, 6), (3, 3), 719),
    ((11, 7, 5), (7, 2), (2, 2), (1, 0, 0, 0), (3, 3), 717),
    ((8, 8, 2), (1, 2), (3, 2), (0, 0, 0, 0), (3, 4), 613),
    ((1, 1, 6), (7, 5), (3, 1), (5, 4, 2, 2), (2, 1), 146),
    ((3, 8, 6), (1, 6), (1, 3), (0, 0, 1, 3), (3, 3), 327),
]
"""Random pools that ran on the RTL: rows, columns and channels of the data; rows and columns of windows, and between
them; padding above, below, left and right; rows and columns of the result; cycles."""


@pytest.mark.parametrize(("data", "window", "stride", "padding", "result", "measured"), POOLS)
def test_cycles_of_pools(
    data: tuple[int, int, int],
    window: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    result: tuple[int, int],
    measured: int,
) -> None:
    source, target = Cube.whole(0x80000000, *data), Cube.whole(0x80010000, *result, data[2])
    nvdla = Nvdla(Memory(), computes=False)
    nvdla.execute(Driver().run(Pool(source, target, window, stride, padding)))
    assert abs(cycles(nvdla.done[-1]) / measured - 1) < 0.08
