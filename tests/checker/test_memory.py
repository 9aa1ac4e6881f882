"""What is known about bytes is true of the bytes, and no less than what a plain account of each byte tells."""

import numpy as np
import pytest

from qmlir.checker.memory import Area, Memories
from qmlir.checker.ranges import Range, signed

SIZE = 96

Known = tuple[int, int, Range, int] | None
"""The number of a write, the place of a byte in its element, the element's interval, and its width; None if unknown."""


def _area(rng: np.random.Generator, size: int) -> Area:
    """Runs of `size` bytes that do not overlap, within the first bytes of a memory."""
    rows = int(rng.integers(1, 3))
    pitch = size + int(rng.integers(0, 4))
    return Area(0, int(rng.integers(0, SIZE - rows * pitch)), size, rows, 1, pitch, rows * pitch)


def _told(account: list[Known], width: int) -> Range:
    """The interval of an element of these bytes."""
    first, whole = account[0], signed(8 * width)
    if first is None or first[3] != width or first[1] != 0:
        return whole
    return first[2] if account == [(first[0], phase, *first[2:]) for phase in range(width)] else whole


@pytest.mark.parametrize("seed", range(100))
def test_what_is_known_about_bytes(seed: int) -> None:
    rng, memories = np.random.default_rng(seed), Memories([SIZE], 0)
    memories.mark(Area(0, 0, SIZE), 0)
    real, constant = rng.integers(0, 256, SIZE).astype(np.uint8), [False] * SIZE
    account: list[Known] = [None] * SIZE
    for number in range(30):
        width = int(rng.choice([1, 2, 4]))
        area = _area(rng, width * int(rng.integers(1, 5)))
        rows = [slice(at, at + area.size) for at in area.runs()]
        match rng.integers(5):
            case 0:
                data = rng.integers(0, 256, area.size * area.rows).astype(np.uint8)
                memories.constant(area, data.tobytes())
                for row, part in zip(rows, data.reshape(area.rows, -1), strict=True):
                    real[row], account[row], constant[row] = part, [None] * area.size, [True] * area.size
            case 1 | 2:
                ends = np.sort(rng.integers(-100, 100, (2, area.size // width)), axis=0)
                ranges: list[Range] = [(low, high) for low, high in ends.T.tolist()]
                memories.elements(area, ranges, width)
                for row in rows:
                    real[row] = rng.integers(ends[0], ends[1] + 1).astype(f"<i{width}").view(np.uint8)
                    account[row] = [(number, phase, each, width) for each in ranges for phase in range(width)]
                    constant[row] = [False] * area.size
            case 3:
                target = _area(rng, area.size)
                while target.rows != area.rows:
                    target = _area(rng, area.size)
                memories.copy(area, target)
                moved = [(real[row].copy(), account[row], constant[row]) for row in rows]
                cut = any(_is_cut(known) for _, known, _ in moved)
                for at, (data, known, fixed) in zip(target.runs(), moved, strict=True):
                    row = slice(at, at + target.size)
                    real[row], account[row], constant[row] = data, known, fixed
                    if cut:
                        account[row], constant[row] = [None] * target.size, [False] * target.size
            case _:
                expected: list[list[Range]] = []
                for row in rows:
                    places = range(row.start, row.stop, width)
                    values = real[row].copy().view(f"<i{width}").tolist()
                    expected.append([
                        (value, value) if all(constant[at : at + width]) else _told(account[at : at + width], width)
                        for at, value in zip(places, values, strict=True)
                    ])  # fmt: skip
                    assert all(low <= value <= high for value, (low, high) in zip(values, expected[-1], strict=True))
                found = memories.each(area, width)
                assert found == [
                    (min(low for low, _ in each), max(high for _, high in each))
                    for each in zip(*expected, strict=True)
                ]  # fmt: skip
                assert memories.whole(area, width) == (min(low for low, _ in found), max(high for _, high in found))


def _is_cut(account: list[Known]) -> bool:
    """Whether a copy of these bytes cuts the first or the last element."""
    first, last = account[0], account[-1]
    return (first is not None and first[1] != 0) or (last is not None and last[1] != last[3] - 1)
