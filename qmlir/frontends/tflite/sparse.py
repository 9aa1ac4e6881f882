"""Sparse constants of TFLite: their nonzero values and where they lie, and the dense arrays that they stand for.

A sparse tensor lists its dimensions in the order in which they are traversed: first the dimensions of the tensor, then
those of blocks of elements that are stored together, each of which divides one dimension of the tensor (`block_map`).
A level of the traversal is dense, with an entry for each index, or compressed (CSR): the entries below entry i of the
level before are `indices[segments[i]:segments[i + 1]]`. The entries of the last level are the values.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import tflite  # pyright: ignore[reportMissingTypeStubs]

from qmlir.ir.interfaces import Array, Shape

schema: Any = tflite

VECTORS: dict[int, tuple[type[Any], Any]] = {
    schema.SparseIndexVector.Int32Vector: (np.int32, schema.Int32Vector),
    schema.SparseIndexVector.Uint16Vector: (np.uint16, schema.Uint16Vector),
    schema.SparseIndexVector.Uint8Vector: (np.uint8, schema.Uint8Vector),
}
"""Types of indices: numpy's type and the schema's table."""


class SparsityError(ValueError):
    """Raised when the description of a sparse tensor contradicts itself; the message says what must be."""


@dataclass(frozen=True)
class Level:
    """A level of the traversal.

    size      the number of indices of a dense level
    segments  where the entries below each entry of the level before begin, and the last end; None for a dense level
    indices   the index of each entry of a compressed level; None for a dense level
    """

    size: int
    segments: Array | None = None
    indices: Array | None = None


@dataclass(frozen=True)
class Sparsity:
    """Where the values of a sparse tensor lie: the order of traversal, the dimensions of the blocks, the levels."""

    order: tuple[int, ...]
    block_map: tuple[int, ...]
    levels: tuple[Level, ...]


def read_sparsity(parameters: Any) -> Sparsity:
    """Reads the table SparsityParameters of a file.

    Raises:
        SparsityError: The table names indices of an unknown type, or indices outside the file.
    """
    order = tuple(parameters.TraversalOrder(i) for i in range(parameters.TraversalOrderLength()))
    blocks = tuple(parameters.BlockMap(i) for i in range(parameters.BlockMapLength()))
    levels = [_level(parameters.DimMetadata(i)) for i in range(parameters.DimMetadataLength())]
    return Sparsity(order, blocks, tuple(levels))


def _level(dimension: Any) -> Level:
    if dimension.Format() == schema.DimensionType.DENSE:
        return Level(dimension.DenseSize())
    segments = _numbers(dimension.ArraySegments(), dimension.ArraySegmentsType())
    return Level(0, segments, _numbers(dimension.ArrayIndices(), dimension.ArrayIndicesType()))


def _numbers(union: Any, kind: int) -> Array:
    if union is None or kind not in VECTORS:
        raise SparsityError("its indices must be vectors of int32, uint16 or uint8")
    dtype, table = VECTORS[kind]
    vector = table()
    vector.Init(union.Bytes, union.Pos)
    try:
        found = vector.ValuesAsNumpy()
    except ValueError:
        raise SparsityError("its indices must lie in the file") from None
    return np.zeros(0, np.int64) if isinstance(found, int) else np.asarray(found, dtype).astype(np.int64)


def dense(sparsity: Sparsity, values: Array, shape: Shape) -> Array:
    """Returns the dense array of a sparse tensor, with zeros where it has no values.

    Raises:
        SparsityError: The levels do not describe a tensor of this shape with these values.
    """
    rank, blocks = len(shape), sparsity.block_map
    sizes = _block_sizes(sparsity, shape)
    places = _entries(sparsity, prod(shape))
    if len(places[0]) != len(values):
        raise SparsityError(f"it must have {len(places[0])} values, got {len(values)}")
    whole = [np.zeros(len(values), np.int64)] * rank
    for dimension, indices in zip(sparsity.order[:rank], places, strict=False):
        whole[dimension] = indices
    for dimension, indices in zip(sparsity.order[rank:], places[rank:], strict=True):
        axis = blocks[dimension - rank]
        whole[axis] = whole[axis] * sizes[dimension - rank] + indices
    if any(len(v) and (v.min() < 0 or v.max() >= size) for v, size in zip(whole, shape, strict=True)):
        raise SparsityError(f"its indices must lie in its shape {list(shape)}")
    result = np.zeros(shape, values.dtype)
    result[tuple(whole)] = values
    return result


def _block_sizes(sparsity: Sparsity, shape: Shape) -> list[int]:
    """Returns the elements of a block along each dimension of blocks, after a check of the order of traversal."""
    rank, blocks, order = len(shape), sparsity.block_map, sparsity.order
    if sorted(order[:rank]) != list(range(rank)) or sorted(order[rank:]) != list(range(rank, rank + len(blocks))):
        raise SparsityError(f"its order of traversal must name {rank} dimensions, then {len(blocks)} of blocks")
    if len(sparsity.levels) != len(order) or any(not 0 <= axis < rank for axis in blocks) or not order:
        raise SparsityError(f"it must have a level for each of {len(order)} dimensions, and blocks along its own")
    sizes = [sparsity.levels[order.index(rank + i)].size for i in range(len(blocks))]
    if any(size < 1 for size in sizes) or len(set(blocks)) != len(blocks):
        raise SparsityError("its blocks must be dense, of one size along each of their dimensions")
    for axis, size in zip(blocks, sizes, strict=True):
        if shape[axis] % size:
            raise SparsityError(f"its blocks of {size} must divide dimension {axis} of {shape[axis]}")
    return sizes


def _entries(sparsity: Sparsity, most: int) -> list[Array]:
    """Returns the index in each level of each entry of the last level; `most` is the number of elements."""
    places, count = list[Array](), 1
    for level in sparsity.levels:
        if level.segments is None or level.indices is None:
            if level.size < 0 or count * level.size > most:
                raise SparsityError(f"its levels must hold at most {most} values")
            above, indices = np.repeat(np.arange(count), level.size), np.tile(np.arange(level.size), count)
        else:
            above, indices = _compressed(level.segments, level.indices, count, most)
        places = [p[above] for p in places] + [indices]
        count = len(indices)
    return places


def _compressed(segments: Array, indices: Array, count: int, most: int) -> tuple[Array, Array]:
    """Returns the entry of the level before, and the index, of each entry of a compressed level."""
    lengths = np.diff(segments)
    if len(segments) != count + 1 or segments[0] != 0 or (lengths < 0).any() or segments[-1] != len(indices):
        raise SparsityError(f"its {count} segments must be in order and divide its {len(indices)} indices")
    if len(indices) > most:
        raise SparsityError(f"its levels must hold at most {most} values")
    return np.repeat(np.arange(count), lengths), indices
