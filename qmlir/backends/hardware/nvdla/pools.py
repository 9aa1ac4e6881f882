"""Pools as jobs of NVDLA: the reciprocals that give rounded means, and columns where a result is too wide."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from qmlir.backends.hardware.nvdla.jobs import Pool
from qmlir.devices.model.layer import Requantization
from qmlir.numerics import Array
from qmlir.numerics.fixed_point import quantize_multiplier, requantize

MOST_COLUMNS = 1 << 10
"""Columns that a pool reads at once, by its registers."""


@cache
def reciprocals(window: tuple[int, int]) -> tuple[int, int] | None:
    """The reciprocals of columns and rows, of 16 fraction bits, that give every mean of bytes rounded once.

    None if there are none: two products are rounded one after the other, which is another number for most windows.

    >>> reciprocals((2, 2)), reciprocals((3, 3)), reciprocals((6, 6))
    ((16384, 65536), (21845, 21845), None)
    """
    rows, columns = window
    area = rows * columns
    sums = np.arange(-128 * area, 127 * area + 1, dtype=np.int64)
    wanted = _away(sums, area)
    for pair in ((_reciprocal(area), 1 << 16), (_reciprocal(columns), _reciprocal(rows))):
        found = _away(_away(sums * pair[0], 1 << 16) * pair[1], 1 << 16)
        if (found == wanted).all():
            return pair
    return None


def _reciprocal(number: int) -> int:
    return (2 * (1 << 16) + number) // (2 * number)


def _away(numbers: Array, divisor: int) -> Array:
    """Quotients rounded to the nearest integer, halves away from 0."""
    return np.sign(numbers) * ((2 * abs(numbers) + divisor) // (2 * divisor))


@cache
def averaging(area: int) -> Requantization | None:
    """The change of scale that turns the sums of bytes into means rounded once, halves away from 0.

    None if no multiplier of 16 bits does for all sums.
    """
    sums = np.arange(-128 * area, 127 * area + 1, dtype=np.int64)
    step = 1 << 16
    multiplier, shift = quantize_multiplier(1 / area, step)
    for number in (multiplier, multiplier + step):  # the latter rounds halves up where the former is below 1 / area
        if number >= 1 << 31:
            continue
        if (requantize(sums, number, shift, "away16") == _away(sums, area)).all():
            one = np.array([number], np.int64), np.array([shift], np.int64)
            return Requantization(*one, "away16", 0.0, 0, 0, -128, 127, 8)
    return None


def pool_jobs(whole: Pool) -> Iterator[Pool]:
    """Yields the jobs of a pool: columns of its result, as many as a line buffer holds, with exact padding."""
    (rows, columns), (down, right) = whole.window, whole.stride
    overlapping = -(-rows // down)
    widest = 128 >> (overlapping - 1).bit_length()
    widest = min(widest, (MOST_COLUMNS - columns) // right + 1)
    for first in range(0, whole.target.columns, widest):
        out = range(first, min(first + widest, whole.target.columns))
        read, left, after = _reach(out, right, columns, whole.padding[2], whole.source.columns)
        tall, top, bottom = _reach(range(whole.target.rows), down, rows, whole.padding[0], whole.source.rows)
        yield replace(
            whole, source=whole.source.part(rows=tall, columns=read), target=whole.target.part(columns=out),
            padding=(top, bottom, left, after),
        )  # fmt: skip


def _reach(out: range, stride: int, window: int, before: int, size: int) -> tuple[range, int, int]:
    """What elements of a result read along an axis: elements of the data, and those of the padding around them."""
    begin, end = out.start * stride - before, (out.stop - 1) * stride - before + window
    read = range(max(begin, 0), min(end, size))
    return read, read.start - begin, end - read.stop
