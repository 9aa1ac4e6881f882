"""Weights of few bits: machine code stores integers packed, or places in a table, and gives the reference's bits."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import SSAValue

import qmlir
from qmlir.codegen.kernels.packed_weights import Packing, pack, pack_bits, pieces, width_in_chunks
from qmlir.codegen.machine import Capabilities
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import BlockedFullyConnectedOp, Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.dialects.windows import ints
from qmlir.ir.levels import stating
from qmlir.numerics import Array
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.groups import Groups, spread
from qmlir.numerics.levels import Even, Levels
from qmlir.numerics.packing import BYTE
from tests.conftest import crossed
from tests.lowering.both import check, network, to_loops
from tests.lowering.qint_to_loops.test_contraction import integers, requantized

FEATURES = {
    "host": None,
    "avx2": "+avx2,+ssse3,+sse2,+fma",
    "no bytes in tables": "+avx2,+fma",
    "sse": "+sse2",
    "vectors": "",
    "no vectors": "+thumb2",
    "halves": "+thumb2,+dsp",
    "vnni of 256": "+avx2,+ssse3,+sse2,+avxvnni",
}
"""Features by which kernels are chosen; all are compiled for this processor."""

Graph = Callable[[SSAValue], SSAValue]


class Weights(NamedTuple):
    """Weights, and the levels that their constant states."""

    array: Array
    levels: Levels | None

    def constant(self) -> SSAValue:
        return ConstantOp(self.array, None, stating(self.levels)).y


def even(bits: int, *shape: int) -> Weights:
    """Random integers of `bits`, their ends among them."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    w = np.random.default_rng(bits).integers(low, high, shape, np.int8, endpoint=True)
    w.reshape(-1)[:2] = low, high
    return Weights(w, Even(bits) if bits < BYTE else None)


def near(bits: int, *shape: int) -> Weights:
    """Entries of a table within ±63 that has no 0."""
    return entries(table_of(bits), *shape)


def far(bits: int, *shape: int) -> Weights:
    """Entries of a table of any bytes, with both ends and without 0."""
    table = table_of(bits, 127)
    table[0], table[-1] = -128, 127
    return entries(table, *shape)


def table_of(bits: int, most: int = 63) -> Array:
    """A table of random entries of a magnitude of at most `most`, without 0."""
    values = np.setdiff1d(np.arange(-most, most + 1), [0])
    return np.sort(np.random.default_rng(bits).choice(values, 1 << bits, replace=False)).astype(np.int8)


def entries(table: Array, *shape: int) -> Weights:
    """Random entries of a table, all of them if there is room."""
    w = np.random.default_rng(len(table)).choice(table, shape)
    w.reshape(-1)[: len(table)] = table[: w.size]
    return Weights(w, Codebook((len(table) - 1).bit_length(), table))


def multiples(size: int, *shape: int) -> Weights:
    """Integers of 4 bits times multipliers of their groups of `size` terms."""
    rows = even(4, *shape).array.clip(-7).reshape(shape[0], -1)
    m = np.random.default_rng(9).integers(1, 19, (len(rows), -(-rows.shape[1] // size)), np.int8)
    return Weights((rows * spread(m, size, rows.shape[1])).reshape(shape), Groups(4, size, m))


def convolution(weights: Weights, groups: int = 1) -> Graph:
    def graph(x: SSAValue) -> SSAValue:
        outputs = len(weights.array)
        bias = ConstantOp(np.random.default_rng(1).integers(-99, 99, outputs).astype(np.int32))
        properties = {"zero_point": int32(-3), "padding": ints((1, 1, 1, 1)), "groups": IntegerAttr(groups, i64)}
        return requantized(Conv2DOp.make([x, weights.constant(), [bias.y]], properties).acc, outputs, 2)

    return graph


def fully_connected(weights: Weights, bias: Sequence[int] = (), *, zero_point: int = 7, wide: bool = False) -> Graph:
    """A fully connected layer whose biases, if there are any, repeat some numbers; with sums of 64 bits if `wide`."""

    def graph(x: SSAValue) -> SSAValue:
        outputs, element = len(weights.array), i64 if wide else i32
        held = [ConstantOp(np.resize(np.array(bias, np.int64 if wide else np.int32), outputs)).y] if bias else []
        sums = FullyConnectedOp.make([x, weights.constant(), held], {"zero_point": int32(zero_point)}, element=element)
        return requantized(sums.acc, outputs, 3, contract="single64" if wide else "single")

    return graph


def depthwise(weights: Weights) -> Graph:
    def graph(x: SSAValue) -> SSAValue:
        properties = {"zero_point": int32(5), "padding": ints((1, 1, 1, 1))}
        sums = DepthwiseConv2DOp.make([x, weights.constant(), []], properties)
        return requantized(sums.acc, weights.array.shape[3], 4)

    return graph


EVERY = [*((even, bits) for bits in range(2, 8)), *((kind, bits) for kind in (near, far) for bits in range(2, 7))]
"""All kinds and bits of weights."""


@pytest.mark.parametrize("bits", range(2, 8))
@pytest.mark.parametrize("chunk", [8, 32, 128])
def test_a_chunk_is_the_sum_of_its_pieces(bits: int, chunk: int) -> None:
    """The layout that the module states, read field by field."""
    w = even(bits, 3 * chunk).array
    packed = pack_bits(w, bits, chunk).view(np.uint8)
    assert packed.size == w.size * bits // BYTE
    for number, own in enumerate(packed.reshape(3, -1)):
        found, first = np.zeros(chunk, int), 0
        for width, below in pieces(bits):
            size = chunk * width // BYTE
            for i, f in product(range(size), range(BYTE // width)):
                field = int(own[first + i]) >> f * width & (1 << width) - 1
                found[f * size + i] += field << below
            first += size
        np.testing.assert_array_equal(found - (1 << bits - 1), w[number * chunk : (number + 1) * chunk])


def test_pieces_fill_bytes() -> None:
    assert [width_in_chunks(bits, 64) for bits in range(2, 9)] == [2, 3, 4, 5, 6, 7, 8]
    assert [width_in_chunks(bits, 4) for bits in range(2, 9)] == [2, 4, 4, 6, 6, 8, 8]
    assert [width_in_chunks(bits, 2) for bits in range(2, 9)] == [4, 4, 4, 8, 8, 8, 8]


@crossed({"kind, bits": EVERY, "features": FEATURES})
def test_convolution(kind: Callable[..., Weights], bits: int, features: str) -> None:
    check(convolution(kind(bits, 20, 3, 3, 12)), integers(0, 1, 6, 7, 12), features=FEATURES[features])


@crossed({"groups": [1, 3], "kind, bits": [(even, 4), (near, 4), (near, 5), (near, 6)], "features": FEATURES})
def test_channels_that_fill_no_step(groups: int, kind: Callable[..., Weights], bits: int, features: str) -> None:
    """3 channels, whose neighbouring taps fill steps together, and groups of 3 channels, which no step spans.

    Steps that 3 channels do not fill have a weight 0, which the tables lack.
    """
    weights, x = kind(bits, 6 * groups, 3, 3, 3), integers(0, 2, 6, 7, 3 * groups)
    check(convolution(weights, groups), x, features=FEATURES[features])


@pytest.mark.parametrize("features", FEATURES)
def test_groups_of_channels(features: str) -> None:
    check(convolution(near(4, 20, 3, 3, 12), 2), integers(0, 1, 6, 7, 24), features=FEATURES[features])


@crossed({"rows": [1, 40], "kind, bits": EVERY, "channels": [150, 152], "features": FEATURES})
def test_fully_connected(rows: int, kind: Callable[..., Weights], bits: int, channels: int, features: str) -> None:
    check(fully_connected(kind(bits, 70, channels)), integers(0, rows, channels), features=FEATURES[features])


@crossed({"channels": [5, 16, 72], "kind, bits": [(even, 4), (near, 3), (far, 3)], "features": FEATURES})
def test_depthwise(channels: int, kind: Callable[..., Weights], bits: int, features: str) -> None:
    check(depthwise(kind(bits, 1, 3, 3, channels)), integers(0, 1, 9, 8, channels), features=FEATURES[features])


@crossed({"features": FEATURES, "kind": [even, near]})
def test_blocks(features: str, kind: Callable[..., Weights]) -> None:
    m = np.random.default_rng(2).integers(1, 99, (10, 3)).astype(np.int32)

    def graph(x: SSAValue) -> SSAValue:
        operands = [x, kind(4, 10, 96).constant(), ConstantOp(m).y, []]
        acc = BlockedFullyConnectedOp.make(operands, {"zero_point": int32(-9)}).acc
        return requantized(acc, 10, 5, contract="single64")

    check(graph, integers(0, 3, 96), features=FEATURES[features])


@pytest.mark.parametrize(("kind", "bits"), [(even, 3), (even, 4), (near, 3), (near, 5)])
def test_data_of_16_bits(kind: Callable[..., Weights], bits: int) -> None:
    check(fully_connected(kind(bits, 33, 64), zero_point=0, wide=True), integers(0, 5, 64, bits=16))


@crossed({"channels, size": [(12, 32), (16, 64), (6, 32)], "features": FEATURES})
def test_multiples_by_groups(channels: int, size: int, features: str) -> None:
    """Groups that span taps, and channels that fill no steps, whose weights stay bytes."""
    weights, x = multiples(size, 20, 3, 3, channels), integers(0, 1, 6, 7, channels)
    check(convolution(weights), x, features=FEATURES[features])


@pytest.mark.parametrize("features", FEATURES)
def test_equal_entries(features: str) -> None:
    graph, x = convolution(entries(np.sort(np.resize(table_of(3), 16)), 20, 3, 3, 12)), integers(0, 1, 6, 7, 12)
    check(graph, x, features=FEATURES[features])
    assert max(stored(graph, x)) == 16 + 32 * 108 // 2


def stored(graph: Graph, x: Array, features: str = "+avx2,+ssse3,+sse2") -> Sequence[int]:
    """The bytes of the constants of a graph's code."""
    lowered = to_loops(network(graph, ConstantOp(x).y.type), features=features)
    return [op.value.array.nbytes for op in lowered.walk() if isinstance(op, ConstantBufferOp)]


@pytest.mark.parametrize(("kind", "bits"), [*EVERY, (even, 8)])
def test_bytes_of_weights(kind: Callable[..., Weights], bits: int) -> None:
    """Blocks of whole channels have no padding: the code stores packed integers or places, the table, and no more."""
    found = max(stored(fully_connected(kind(bits, 64, 128)), integers(0, 4, 128)))
    assert found == 64 * 128 * bits // 8 + (0 if kind is even else 1 << bits)


def test_channels_of_another_block_have_entries_of_the_table() -> None:
    assert max(stored(fully_connected(near(4, 10, 128)), integers(0, 4, 128))) == 16 * 128 // 2 + 16


def test_weights_that_are_not_what_their_constant_states() -> None:
    """Integers beyond their bits stay bytes. Entries of a table within ±63 have 7 bits, and so have others within."""
    assert max(stored(fully_connected(Weights(integers(0, 64, 128), Even(4))), integers(0, 4, 128))) == 64 * 128
    weights = near(4, 64, 128)
    weights.array[3, 5] = next(n for n in range(64) if n not in table_of(4))
    graph, x = fully_connected(weights), integers(0, 4, 128)
    assert max(stored(graph, x)) == 64 * 128 * 7 // 8
    check(graph, x)


def test_few_weights_stay_bytes() -> None:
    """8 by 8 weights and a table of 64 entries: the places alone take less, both take more."""
    graph, x = fully_connected(near(6, 8, 8)), integers(0, 4, 8)
    assert max(stored(graph, x)) == 8 * 8
    check(graph, x)


@pytest.mark.parametrize(("data", "kind", "bits", "bias", "dtype"), [
    (8, even, 4, [-(1 << 15), (1 << 15) - 1], "int16"), (8, even, 4, [0, 1 << 15], "int32"),
    (8, even, 8, [0, 1], "int32"), (16, even, 8, [1 << 29, 1], "int32"), (16, even, 8, [0, 1 << 40], "int64"),
    (8, near, 4, [-(1 << 15), (1 << 15) - 1], "int16"), (8, near, 4, [-(1 << 16), (1 << 16) - 1], "int32"),
])  # fmt: skip
def test_bytes_of_biases(data: int, kind: Callable[..., Weights], bits: int, bias: Sequence[int], dtype: str) -> None:
    """Beside packed weights, biases that fit 16 bits take no more; those of 64 bits take 32 if they fit."""
    weights = kind(bits, 32, 64)
    if kind is even:
        weights = weights._replace(array=np.zeros_like(weights.array))
    wide, table = data > 8, kind is near
    graph = fully_connected(weights, bias, zero_point=-128 if table else 0, wide=wide)
    x, features = integers(0, 3, 64, bits=data), "+avx2,+ssse3,+sse2" if table else None
    lowered = to_loops(network(graph, ConstantOp(x).y.type), features=features)
    arrays = [op.value.array.reshape(-1) for op in lowered.walk() if isinstance(op, ConstantBufferOp)]
    assert [str(a.dtype) for a in arrays if a[:2].tolist() == bias] == [dtype]
    check(graph, x, features=features)


def test_a_zero_of_the_layout() -> None:
    """A 0 that the table lacks takes an unneeded entry, or another bit; beside 6 bits, weights stay bytes."""
    table = table_of(3)
    w = np.tile(table, 64)
    padded = np.where(np.arange(w.size) % 4 == 3, 0, w).astype(np.int8)
    assert pack(w, Codebook(3, table), 8, Capabilities())[0] == Packing(3, 8, word=4)
    assert pack(padded, Codebook(3, table), 8, Capabilities(table=256))[0] == Packing(3, 8)
    every = np.concatenate([w, padded])
    packing, packed = pack(every, Codebook(3, table), 8, Capabilities())
    assert packing == Packing(4, 16, word=4)
    assert set(packed[:16]) == {0, *table}
    wide = table_of(6)
    every = np.append(np.tile(wide, 8), np.zeros(64, np.int8))
    assert pack(every, Codebook(6, wide), 8, Capabilities())[0] == Packing(BYTE)


@pytest.mark.slow
def test_layers_of_different_tables_share_code() -> None:
    """Two layers call one function: what differs is data."""
    tables = table_of(4), -table_of(4)[::-1]

    def graph(x: SSAValue) -> SSAValue:
        for table in tables:
            x = fully_connected(entries(table, 64, 64))(x)
        return x

    x = integers(0, 4, 64)
    for features in ("+avx512vnni,+avx512vbmi,+avx2,+ssse3,+sse2", "+thumb2,+dsp", "+m"):
        assert sum("tile_times_block" in name for name in functions(graph, x, features)) == 1
    check(graph, x)


def functions(graph: Graph, x: Array, features: str) -> list[str]:
    """The names of the functions that a graph's code has for a processor."""
    lowered = to_loops(network(graph, ConstantOp(x).y.type), features=features)
    return [op.sym_name.data for op in lowered.body.block.ops if isinstance(op, func.FuncOp)]


def test_the_matrix_unit_reads_unpacked_bytes() -> None:
    """Places of 5 bits lie in the constants, and a kernel writes the weights to scratch memory."""
    features = "+amx-int8,+avx512vnni,+avx512vbmi,+avx512bw,+avx2,+ssse3,+sse2"
    graph, x = fully_connected(near(5, 64, 128)), integers(0, 40, 128)
    names = functions(graph, x, features)
    assert any("matrices" in name for name in names)
    assert any("unpacked_bits" in name for name in names)
    assert max(stored(graph, x, features)) == 64 * 128 * 5 // 8 + 32


def test_no_kernel_by_winograd() -> None:
    """Its transformed weights take eight times the room of bytes."""
    weights, x, features = near(4, 32, 3, 3, 32), integers(0, 1, 28, 28, 32), "+avx2,+ssse3,+sse2"
    plain = Weights(np.resize(np.arange(-65, 65).astype(np.int8), weights.array.shape), None)
    assert not any("winograd" in name for name in functions(convolution(weights), x, features))
    assert any("winograd" in name for name in functions(convolution(plain), x, features))


@pytest.mark.slow
def test_the_quantizer_says_how_many_bits() -> None:
    digits = np.load("examples/digits/digits.npz")
    images = list(digits["calibration_images"][:, None])
    sizes = {}
    for precision in ("int8", "int4"):
        q = qmlir.quantize("examples/digits/digits.onnx", data=images, weight_precision=precision)
        machine = qmlir.compile(q, memory="small")
        sizes[precision] = machine.sizes.weights
        reference = qmlir.reference(q)
        for image in images[:5]:
            np.testing.assert_array_equal(machine(image), reference(image))
    assert sizes["int4"] < 0.7 * sizes["int8"]
