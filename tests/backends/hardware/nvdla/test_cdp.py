"""Normalization by tables, computed again an element at a time with Python's integers."""

from fractions import Fraction
from math import floor, log2

import numpy as np
import pytest

from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.program import Command, wait, write
from tests.backends.hardware.nvdla.layers import NORMALIZATION, SOURCE, TARGET, Registers, commands

CHANNELS, PIXELS = 10, 2


def _round(x: Fraction, bits: int) -> int:
    """Returns the nearest number of so many bits with a sign, of two the one farther from 0."""
    nearest = floor(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1)
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, nearest))


def _tables(le: list[int], lo: list[int]) -> list[Command]:
    steps: list[Command] = []
    for number, table in enumerate((le, lo)):
        steps.append(write("CDP", "S_LUT_ACCESS_CFG", LUT_TABLE_ID=number, LUT_ACCESS_TYPE=1))
        steps += [write("CDP", "S_LUT_ACCESS_DATA", LUT_DATA=entry & 0xFFFF) for entry in table]
    return steps


def _run(data: np.ndarray, tables: list[Command], changes: Registers) -> np.ndarray:
    """Returns the result [channels, pixels] for data of this shape."""
    cube = np.zeros((2, PIXELS, 8), np.int8)
    for channel in range(CHANNELS):
        cube[channel // 8, :, channel % 8] = data[channel]
    memory = Memory([(SOURCE, cube.tobytes())])
    Nvdla(memory).execute([*tables, *commands(NORMALIZATION, changes), wait(4)])
    result = memory.read(TARGET, cube.size).view(np.int8).reshape(cube.shape)
    return np.array([result[channel // 8, :, channel % 8] for channel in range(CHANNELS)])


def _sums(data: np.ndarray, reach: int) -> np.ndarray:
    padded = np.pad(data.astype(int) ** 2, ((reach, reach), (0, 0)))
    return sum((padded[n : n + CHANNELS] for n in range(2 * reach + 1)), np.zeros_like(data, int))


@pytest.mark.parametrize("reach", [1, 2, 3, 4])
def test_a_linear_table(reach: int) -> None:
    rng = np.random.default_rng(reach)
    data = rng.integers(-60, 61, (CHANNELS, PIXELS))
    lo = [int(x) for x in rng.integers(-3000, 3000, 257)]
    start, select, slope, shift = 2500, 7, 7, 3
    end = start + (256 << select)
    result = _run(
        data,
        _tables([0] * 65, lo),
        {
            ("CDP", "S_LUT_CFG.LUT_LE_FUNCTION"): 1,
            ("CDP", "S_LUT_CFG.LUT_UFLOW_PRIORITY"): 1,
            ("CDP", "S_LUT_CFG.LUT_OFLOW_PRIORITY"): 1,
            ("CDP", "S_LUT_CFG.LUT_HYBRID_PRIORITY"): 1,
            ("CDP", "S_LUT_INFO.LUT_LO_INDEX_SELECT"): select,
            ("CDP", "S_LUT_LO_START_LOW.LUT_LO_START_LOW"): start,
            ("CDP", "S_LUT_LO_END_LOW.LUT_LO_END_LOW"): end,
            # LE begins behind all sums, so that LO is taken wherever it has a place.
            ("CDP", "S_LUT_LE_START_LOW.LUT_LE_START_LOW"): 1 << 20,
            ("CDP", "S_LUT_LO_SLOPE_SCALE.LUT_LO_SLOPE_UFLOW_SCALE"): slope,
            ("CDP", "S_LUT_LO_SLOPE_SHIFT.LUT_LO_SLOPE_UFLOW_SHIFT"): shift,
            ("CDP", "D_LRN_CFG.NORMALZ_LEN"): reach - 1,
            ("CDP", "D_DATIN_SCALE.DATIN_SCALE"): 1,
            ("CDP", "D_DATOUT_SCALE.DATOUT_SCALE"): 3,
            ("CDP", "D_DATOUT_SHIFTER.DATOUT_SHIFTER"): 11,
        },
    )
    sums = _sums(data, reach)
    assert (sums < start).any() or reach > 1
    for place, total in np.ndenumerate(sums):
        if total <= start:
            looked = _round(Fraction(lo[0]) + _round(Fraction(int(total) - start) * slope / 2**shift, 40), 16)
        else:
            index, rest = divmod(int(total) - start, 1 << select)
            fraction = Fraction(rest, 1 << select)
            looked = lo[index] + _round((lo[index + 1] - lo[index]) * fraction, 18)
        assert result[place] == _round(Fraction(looked * int(data[place]) * 3, 2**11), 8), (place, total)


def test_a_table_of_powers_of_two() -> None:
    rng = np.random.default_rng(9)
    data = rng.integers(-100, 101, (CHANNELS, PIXELS))
    le = [int(x) for x in rng.integers(-3000, 3000, 65)]
    offset = 2
    result = _run(
        data,
        _tables(le, [0] * 257),
        {
            ("CDP", "S_LUT_INFO.LUT_LE_INDEX_OFFSET"): offset,
            # LO begins behind all sums.
            ("CDP", "S_LUT_LO_START_LOW.LUT_LO_START_LOW"): 1 << 20,
            ("CDP", "D_DATIN_SCALE.DATIN_SCALE"): 1,
            ("CDP", "D_FUNC_BYPASS.MUL_BYPASS"): 1,
            ("CDP", "D_DATOUT_SCALE.DATOUT_SCALE"): 1,
            ("CDP", "D_DATOUT_SHIFTER.DATOUT_SHIFTER"): 5,
        },
    )
    for place, total in np.ndenumerate(_sums(data, 1)):
        power = floor(log2(total))
        index, fraction = power - offset, Fraction(int(total) - 2**power, 2**power)
        looked = le[index] + _round((le[index + 1] - le[index]) * fraction, 18)
        assert result[place] == _round(Fraction(looked, 2**5), 8), (place, total)


def test_data_are_converted_before_and_after() -> None:
    data = np.arange(-100, 100, 10).reshape(CHANNELS, PIXELS)
    changes: Registers = {
        ("CDP", "S_LUT_CFG.LUT_LE_FUNCTION"): 1,
        # Tables end at the first place, so that every sum takes the first entry or the last.
        ("CDP", "S_LUT_INFO.LUT_LE_INDEX_SELECT"): 1 << 5,
        ("CDP", "S_LUT_INFO.LUT_LO_INDEX_SELECT"): 1 << 5,
        ("CDP", "D_FUNC_BYPASS.SQSUM_BYPASS"): 1,
        ("CDP", "D_DATIN_OFFSET.DATIN_OFFSET"): -7,
        ("CDP", "D_DATIN_SCALE.DATIN_SCALE"): 3,
        ("CDP", "D_DATIN_SHIFTER.DATIN_SHIFTER"): 1,
        ("CDP", "D_DATOUT_OFFSET.DATOUT_OFFSET"): -40,
        ("CDP", "D_DATOUT_SCALE.DATOUT_SCALE"): 5,
        ("CDP", "D_DATOUT_SHIFTER.DATOUT_SHIFTER"): 4,
    }
    result = _run(data, _tables([2, *[0] * 63, 2], [2, *[0] * 255, 2]), changes)
    for place, value in np.ndenumerate(data):
        converted = _round(Fraction((int(value) + 7) * 3, 2), 9)
        assert result[place] == _round(Fraction((2 * converted + 40) * 5, 16), 8)


def test_entries_behind_the_last_place_take_that_place() -> None:
    nvdla = Nvdla(Memory())
    nvdla.execute(_tables([*range(65), 7, 8], [*range(257), 9]))
    nvdla.execute([*commands(NORMALIZATION), wait(4)])
    layer = nvdla.done[-1].cdp
    assert layer is not None
    assert list(layer.tables.le) == [*range(64), 8]
    assert list(layer.tables.lo) == [*range(256), 9]
