"""Packed weights, number by number as isa/commands.py says where each lies."""

import numpy as np
import pytest

from qmlir.devices import load_device, shipped_devices
from qmlir.transforms.npu.tile.costs import packed, packed_size


@pytest.mark.parametrize("name", shipped_devices())
@pytest.mark.parametrize("shape", [(16, 3, 3, 32), (5, 2, 3, 7), (33, 1, 1, 40)])
def test_where_each_weight_lies(name: str, shape: tuple[int, ...]) -> None:
    device = load_device(name)
    tile = device.layout.weights
    n, k = (1, 1) if tile is None else (tile.n, tile.k)
    weights = np.random.default_rng(0).integers(1, 100, shape).astype(np.int8)
    stored = packed(weights, device).reshape(-1)
    terms = weights.size // shape[0]
    assert stored.nbytes == packed_size(shape[0], terms, 8, device)
    tiles = -(-terms // k)
    for output, row in enumerate(weights.reshape(shape[0], terms)):
        for term, weight in enumerate(row):
            at = ((output // n * tiles + term // k) * n + output % n) * k + term % k
            assert stored[at] == weight
    assert np.count_nonzero(stored) == weights.size, "and the rest is zero"
