"""The memory of a compiled network's call besides its arrays."""

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.numerics import Array

SMALL = 16 * 1024
"""The most bytes of an array that a call copies; copying them takes less than a microsecond."""


class Frame:
    """What a call needs besides its arrays: an arena, and the tables of the ABI; calls one after another share it.

    Small inputs and results are copied to and from arrays of the frame (`given`, `made`; None for others): numpy takes
    longer to tell an array's address.
    """

    __slots__ = ("arena", "arena_address", "given", "inputs", "made", "outputs")

    def __init__(self, arena_size: int, signature: Signature, *, copies: bool = True, arena: Array | None = None):
        """Makes the memory of a call.

        Args:
            arena_size: Bytes of the arena.
            signature: The inputs and outputs.
            copies: Whether small arrays are copied; they are not where calls have several samples.
            arena: The arena of another frame, if both never run at once.
        """
        most = SMALL if copies else -1
        self.arena = aligned_empty(arena_size) if arena is None else arena
        self.arena_address = self.arena.ctypes.data
        self.given, self.inputs = _small_arrays(signature.inputs, most)
        self.made, self.outputs = _small_arrays(signature.outputs, most)

    def take(self, i: int, array: Array) -> None:
        """Makes an array input `i` of the call."""
        own = self.given[i]
        if own is None:
            self.inputs[i] = array.ctypes.data
        else:
            own[...] = array

    def result(self, i: int, spec: TensorSpec) -> Array:
        """The array that the call fills with output `i`."""
        own = self.made[i]
        if own is not None:
            return own
        array = np.empty(spec.shape, spec.dtype)
        self.outputs[i] = array.ctypes.data
        return array

    def keep(self, inputs: Mapping[int, Array], results: Mapping[int, Array]) -> None:
        """Lets calls read and fill some arrays where they are, by the numbers of the inputs and of the outputs."""
        for table, own, arrays in ((self.inputs, self.given, inputs), (self.outputs, self.made, results)):
            for i, array in arrays.items():
                table[i], own[i] = array.ctypes.data, None

    def bind(self, inputs: Sequence[Array], results: Sequence[Array]) -> None:
        """Lets calls read and fill these arrays where they are."""
        self.keep(dict(enumerate(inputs)), dict(enumerate(results)))


def _small_arrays(specs: Sequence[TensorSpec], most: int) -> tuple[list[Array | None], Any]:
    """An array for each tensor up to a size in bytes, None for larger ones, and a table of the arrays' addresses."""
    small = [math.prod(spec.shape) * spec.dtype.itemsize <= most for spec in specs]
    arrays = [np.empty(spec.shape, spec.dtype) if fits else None for spec, fits in zip(specs, small, strict=True)]
    return arrays, (ctypes.c_void_p * len(specs))(*(None if a is None else a.ctypes.data for a in arrays))


def aligned_empty(size: int) -> Array:
    """An array of bytes that begins at a cache line."""
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size]
