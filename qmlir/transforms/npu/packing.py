"""Packs weights in the order in which the array reads them: tile after tile, zero-padded to whole tiles."""

from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.devices import Device
from qmlir.devices.footprints import weight_tile

Array = npt.NDArray[Any]


def packed(weights: Array, device: Device) -> Array:
    """Weights [O, …] for one `Convolve`: [O / n, terms / k, n, k], where n by k is the tile of the device's layout."""
    outputs = weights.shape[0]
    matrix = weights.reshape(outputs, -1)
    n, k = weight_tile(device)
    padded = np.pad(matrix, ((0, -outputs % n), (0, -matrix.shape[1] % k)))
    tiles = padded.reshape(padded.shape[0] // n, n, padded.shape[1] // k, k)
    return np.ascontiguousarray(tiles.transpose(0, 2, 1, 3))


def packed_size(outputs: int, terms: int, bits: int, device: Device) -> int:
    """The size of packed weights in bytes."""
    n, k = weight_tile(device)
    return -(-outputs // n) * n * -(-terms // k) * k * bits // 8
