"""Rows of a table that a layer reads, too: looked up in the layer's packed form, so that the table is there once."""

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, TensorType, i8, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.kernels.pairing import pair_channels
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.qint import FullyConnectedOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.ir.levels import stating
from qmlir.numerics import Array
from qmlir.numerics.levels import Even
from tests.lowering.both import Graph, check, network, to_loops
from tests.lowering.qint_to_loops.test_packed_weights import FEATURES

PLACES = np.array([0, -1, 5, 99, -99, 16, 17], np.int64)
"""Places from both ends, and beyond them."""


def tied(table: Array, weights: Array, *, bits: int = 8, axis: int = 0) -> Graph:
    """Rows of a table by indices, and the products of an input with the rows of weights."""

    def graph(x: SSAValue, indices: SSAValue) -> list[SSAValue]:
        levels = stating(Even(bits) if bits < 8 else None)
        held = ConstantOp(table).y, ConstantOp(weights.copy(), None, levels).y
        sums = FullyConnectedOp.make([x, held[1], []], {"zero_point": int32(7)})
        return [GatherOp.make([held[0], indices], {"axis": IntegerAttr(axis, i64)}).y, sums.acc]

    return graph


def matrix(rows: int, channels: int, most: int = 128) -> Array:
    return np.random.default_rng(rows).integers(-most, most, (rows, channels), np.int8)


def types_of(channels: int) -> tuple[Attribute, Attribute]:
    return TensorType(i8, [1, channels]), TensorType(i64, [len(PLACES)])


def bytes_held(graph: Graph, channels: int, features: str | None = None) -> int:
    """The bytes of all constants of the lowered graph, equal ones once, as plan-memory places them."""
    lowered = to_loops(network(graph, *types_of(channels)), features=features)
    return sum(map(len, {op.value.array.tobytes() for op in lowered.walk() if isinstance(op, ConstantBufferOp)}))


@pytest.mark.parametrize("rows", [1, 7, 16, 37])
@pytest.mark.parametrize("channels", [3, 32, 50])
def test_rows_have_the_bits_of_the_table(rows: int, channels: int) -> None:
    table = matrix(rows, channels)
    x = matrix(2, channels)[:1]
    check(tied(table, table), x, PLACES)


@pytest.mark.parametrize("features", FEATURES)
def test_the_table_is_held_once(features: str) -> None:
    table = matrix(64, 32)
    alone = bytes_held(tied(matrix(64, 32, 64) // 2, table), 32, FEATURES[features])
    assert bytes_held(tied(table, table), 32, FEATURES[features]) == alone - table.nbytes


@pytest.mark.parametrize(("rows", "large"), [(1, 0), (16, 0), (37, 0), (130, 1), (300, 5)])
def test_rows_of_paired_channels(rows: int, large: int) -> None:
    """Some large weights find no partner: their rest stands behind the other channels."""
    rng = np.random.default_rng(rows)
    table = rng.integers(-60, 61, (rows, 96), np.int8)
    table[5 : 5 + 16 * large : 16, 32:42] = 127  # ten of a group of sixteen
    pairing = pair_channels(table, 16)
    extras = sum(map(len, pairing.extra))
    assert bool(extras) == bool(large)
    graph, features = tied(table, table), FEATURES["avx2"]
    text = str(to_loops(network(graph, *types_of(96)), features=features))
    assert "nn_gather_paired" in text
    padded = -(-rows // 16) * 16
    held = bytes_held(graph, 96, features) - padded * 96 - pairing.order.nbytes
    assert held < 20 * extras + 8 * padded
    check(graph, matrix(2, 96)[:1], PLACES, features=features)


def test_a_table_that_no_layer_packs_as_bytes_is_held_by_itself() -> None:
    """Layers of 4 bits have another form; other axes than the first, and other weights, are no rows of a layer."""
    table = matrix(64, 32, 8)
    x = matrix(2, 32)[:1]
    for graph in (tied(table, table, bits=4), tied(table, table, axis=1), tied(table, -table)):
        assert bytes_held(graph, 32) >= table.nbytes + table.nbytes // 2
        check(graph, x, PLACES)
