"""Cycles that are computed from the registers of a layer are within a tenth of those of the RTL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qmlir.backends.hardware.nvdla.cost import cycles
from qmlir.backends.hardware.nvdla.jobs import Cube, Driver, Pool
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from tests.backends.hardware.nvdla.layers import NORMALIZATION, commands
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


NORMALIZATIONS = [
    (8, 1, 1, 155), (10, 1, 2, 185), (3, 2, 5, 251), (64, 1, 1, 211), (64, 2, 2, 409), (128, 3, 3, 1311),
    (8, 3, 4, 261), (8, 3, 6, 321), (8, 3, 7, 351), (8, 1, 8, 253), (8, 4, 8, 448), (24, 4, 8, 968), (32, 8, 8, 2268),
    (8, 8, 16, 1228), (8, 1, 40, 513), (8, 3, 9, 456), (16, 3, 12, 795), (8, 2, 17, 486), (24, 2, 20, 1169),
    (8, 5, 10, 674), (16, 1, 15, 429),
]  # fmt: skip
"""Layers of CDP that ran on the RTL: channels, rows, columns, and cycles, which windows do not change."""


@pytest.mark.parametrize(("channels", "rows", "columns", "measured"), NORMALIZATIONS)
def test_cycles_of_normalizations(channels: int, rows: int, columns: int, measured: int) -> None:
    size = {"CHANNEL": channels - 1, "HEIGHT": rows - 1, "WIDTH": columns - 1}
    changes = {("CDP_RDMA", f"D_DATA_CUBE_{name}.{name}"): value for name, value in size.items()}
    for unit, side in (("CDP_RDMA", "SRC"), ("CDP", "DST")):
        changes[unit, f"D_{side}_LINE_STRIDE.{side}_LINE_STRIDE"] = 8 * columns
        changes[unit, f"D_{side}_SURFACE_STRIDE.{side}_SURFACE_STRIDE"] = 8 * columns * rows
    nvdla = Nvdla(Memory(), computes=False)
    nvdla.execute(commands(NORMALIZATION, changes))
    assert abs(cycles(nvdla.done[-1]) / measured - 1) < 0.01
