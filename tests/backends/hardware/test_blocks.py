"""Channels in blocks: every element is where the layout says, and comes back."""

import numpy as np
import pytest

from qmlir.backends.hardware.blocks import blocks, from_blocks, to_blocks


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 4, 16), (1, 5, 2, 19)])
def test_each_element_has_its_place(lanes: int, shape: tuple[int, ...]) -> None:
    tensor = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    held = to_blocks(tensor, lanes, -7)
    images, rows, columns, channels = shape
    assert held.shape == (images, blocks(channels, lanes), rows, columns, lanes)
    for (image, block, row, column, lane), value in np.ndenumerate(held):
        channel = block * lanes + lane
        assert value == (tensor[image, row, column, channel] if channel < channels else -7)
    assert (from_blocks(held.reshape(-1), shape, lanes) == tensor).all()
