"""What is known about bytes: true of the bytes themselves, and the same to the checker, which keeps its own account."""

import numpy as np
import pytest

from qmlir.analysis.certify.contents import Contents
from qmlir.analysis.certify.intervals import Interval
from qmlir.checker.memory import Area, Memories
from qmlir.devices import load_device
from qmlir.isa.blocks import Block
from qmlir.isa.encoding import Place

SIZE = 96


def _block(rng: np.random.Generator, size: int) -> Block:
    """Runs of `size` bytes that do not overlap, within the first bytes of a memory."""
    rows = int(rng.integers(1, 3))
    pitch = size + int(rng.integers(0, 4))
    start = int(rng.integers(0, SIZE - rows * pitch))
    return Block(Place(0, start), size, rows, 1, pitch, rows * pitch)


def _area(block: Block) -> Area:
    return Area(*block.place, block.size, block.rows, block.planes, block.row_pitch, block.plane_pitch)


def _rows(block: Block) -> list[slice]:
    starts = (block.place.address + n * block.row_pitch for n in range(block.rows))
    return [slice(start, start + block.size) for start in starts]


@pytest.mark.parametrize("seed", range(100))
def test_both_accounts_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    device = load_device("nmp")
    ours, theirs = Contents(device, [Block(Place(0, 0), SIZE)]), Memories([SIZE], 0)
    real = rng.integers(0, 256, SIZE).astype(np.uint8)
    for _ in range(30):
        width = int(rng.choice([1, 2, 4]))
        block = _block(rng, width * int(rng.integers(1, 5)))
        match rng.integers(5):
            case 0:
                data = rng.integers(0, 256, block.bytes).astype(np.uint8).tobytes()
                ours.load(block, data)
                theirs.constant(_area(block), data)
                for n, row in enumerate(_rows(block)):
                    real[row] = np.frombuffer(data[n * block.size : (n + 1) * block.size], np.uint8)
            case 1 | 2:
                ends = np.sort(rng.integers(-100, 100, (2, block.size // width)), axis=0)
                ours.write(block, Interval(*ends.astype(object)), 8 * width)
                theirs.elements(_area(block), [(low, high) for low, high in ends.T.tolist()], width)
                for row in _rows(block):
                    real[row] = rng.integers(ends[0], ends[1] + 1).astype(f"<i{width}").view(np.uint8)
            case 3:
                target = _block(rng, block.size)
                while target.rows != block.rows:
                    target = _block(rng, block.size)
                ours.copy(block, target)
                theirs.copy(_area(block), _area(target))
                moved = [real[row].copy() for row in _rows(block)]
                for row, data in zip(_rows(target), moved, strict=True):
                    real[row] = data
            case _:
                found = ours.read(block, 8 * width)
                own = list(zip(found.lowest.tolist(), found.highest.tolist(), strict=True))
                assert theirs.each(_area(block), width) == own
                assert theirs.whole(_area(block), width) == (found.low, found.high)
                for row in _rows(block):
                    values = real[row].copy().view(f"<i{width}")
                    assert (found.lowest <= values).all()
                    assert (values <= found.highest).all()
