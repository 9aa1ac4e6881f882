"""Weights of a codebook: machine code stores their places and the table, and gives the bits of the reference."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue

import qmlir
from qmlir.codegen.kernels.packed_weights import Packing, pack
from qmlir.codegen.machine import Capabilities
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import BlockedFullyConnectedOp, Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.dialects.windows import ints
from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.levels import stating
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import Array
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.packing import BYTE
from tests.conftest import crossed
from tests.lowering.both import check, network, to_loops
from tests.lowering.qint_to_loops.test_contraction import integers, requantized

FEATURES = {
    "host": None,
    "avx2": "+avx2,+ssse3,+sse2,+fma",
    "sse": "+sse2",
    "no vectors": "+thumb2",
    "halves": "+thumb2,+dsp",
    "vnni of 256": "+avx2,+ssse3,+sse2,+avxvnni",
}
"""Features by which kernels are chosen; all are compiled for this processor."""

FAR, NEAR = "all bytes", "within 63"


def table_of(bits: int, kind: str = NEAR) -> Array:
    """A table of random entries: of any bytes with both ends, or within ±63; without 0."""
    rng = np.random.default_rng(bits)
    most = 63 if kind == NEAR else 127
    entries = np.setdiff1d(np.arange(-most, most + 1), [0])
    table = np.sort(rng.choice(entries, 1 << bits, replace=False)).astype(np.int8)
    if kind == FAR:
        table[0], table[-1] = -128, 127
    return table


def weights_of(table: Array, *shape: int) -> Array:
    """Random entries of a table, all of them if there is room."""
    w = np.random.default_rng(len(table)).choice(table, shape)
    w.reshape(-1)[: len(table)] = table[: w.size]
    return w


def constant(w: Array, table: Array) -> ConstantOp:
    bits = (len(table) - 1).bit_length()
    return ConstantOp(w, None, stating(Codebook(bits, table)))


def convolution(w: Array, table: Array, groups: int = 1, bias: int = 99) -> Callable[[SSAValue], SSAValue]:
    def graph(x: SSAValue) -> SSAValue:
        b = ConstantOp(np.random.default_rng(1).integers(-bias, bias, len(w)).astype(np.int32))
        properties = {"zero_point": int32(-3), "padding": ints((1, 1, 1, 1)), "groups": IntegerAttr(groups, i64)}
        return requantized(Conv2DOp.make([x, constant(w, table).y, [b.y]], properties).acc, len(w), 2)

    return graph


def fully_connected(w: Array, table: Array) -> Callable[[SSAValue], SSAValue]:
    def graph(x: SSAValue) -> SSAValue:
        sums = FullyConnectedOp.make([x, constant(w, table).y, []], {"zero_point": int32(7)})
        return requantized(sums.acc, len(w), 3)

    return graph


def depthwise(w: Array, table: Array) -> Callable[[SSAValue], SSAValue]:
    def graph(x: SSAValue) -> SSAValue:
        properties = {"zero_point": int32(5), "padding": ints((1, 1, 1, 1))}
        sums = DepthwiseConv2DOp.make([x, constant(w, table).y, []], properties)
        return requantized(sums.acc, w.shape[3], 4)

    return graph


@crossed({"bits": range(2, 7), "kind": [NEAR, FAR], "features": FEATURES})
def test_convolution(bits: int, kind: str, features: str) -> None:
    table = table_of(bits, kind)
    x, w = integers(0, 1, 6, 7, 12), weights_of(table, 20, 3, 3, 12)
    check(convolution(w, table), x, features=FEATURES[features])


@crossed({"groups": [1, 3], "bits": [4, 5, 6], "features": FEATURES})
def test_channels_that_fill_no_step(groups: int, bits: int, features: str) -> None:
    """3 channels, whose steps have a weight 0 that the table lacks, and groups of 3 channels, which no step spans."""
    table = table_of(bits)
    x, w = integers(0, 2, 6, 7, 3 * groups), weights_of(table, 6 * groups, 3, 3, 3)
    check(convolution(w, table, groups), x, features=FEATURES[features])


@pytest.mark.parametrize("features", FEATURES)
def test_groups_of_channels(features: str) -> None:
    table = table_of(4)
    x, w = integers(0, 1, 6, 7, 24), weights_of(table, 20, 3, 3, 12)
    check(convolution(w, table, 2), x, features=FEATURES[features])


@crossed({"kind": [NEAR, FAR], "rows": [1, 40], "bits": [2, 4, 6], "features": FEATURES})
def test_fully_connected(kind: str, rows: int, bits: int, features: str) -> None:
    table = table_of(bits, kind)
    x, w = integers(0, rows, 152), weights_of(table, 70, 152)
    check(fully_connected(w, table), x, features=FEATURES[features])


@crossed({"kind": [NEAR, FAR], "channels": [5, 16, 72], "features": FEATURES})
def test_depthwise(kind: str, channels: int, features: str) -> None:
    table = table_of(3, kind)
    x, w = integers(0, 1, 9, 8, channels), weights_of(table, 1, 3, 3, channels)
    check(depthwise(w, table), x, features=FEATURES[features])


@pytest.mark.parametrize("features", FEATURES)
def test_blocks(features: str) -> None:
    table = table_of(4)
    x, w = integers(0, 3, 96), weights_of(table, 10, 96)
    m = np.random.default_rng(2).integers(1, 99, (10, 3)).astype(np.int32)

    def graph(x: SSAValue) -> SSAValue:
        operands = [x, constant(w, table).y, ConstantOp(m).y, []]
        acc = BlockedFullyConnectedOp.make(operands, {"zero_point": int32(-9)}).acc
        return requantized(acc, 10, 5, contract="single64")

    check(graph, x, features=FEATURES[features])


@pytest.mark.slow
@pytest.mark.parametrize("bits", [3, 5])
def test_data_of_16_bits(bits: int) -> None:
    table = table_of(bits)
    x, w = integers(0, 5, 64, bits=16), weights_of(table, 33, 64)

    def graph(x: SSAValue) -> SSAValue:
        sums = FullyConnectedOp.make([x, constant(w, table).y, []], {"zero_point": int32(0)}, element=i64)
        return requantized(sums.acc, 33, 3, contract="single64")

    check(graph, x)


@pytest.mark.parametrize("features", FEATURES)
def test_equal_entries(features: str) -> None:
    table = np.sort(np.resize(table_of(3), 16))
    x, w = integers(0, 1, 6, 7, 12), weights_of(table, 20, 3, 3, 12)
    check(convolution(w, table), x, features=FEATURES[features])
    assert max(stored(convolution(w, table), x)) == 16 + 32 * 108 // 2


def stored(graph: Callable[[SSAValue], SSAValue], x: Array, features: str = "+avx2,+ssse3,+sse2") -> Sequence[int]:
    """The bytes of the constants of a graph's code."""
    lowered = to_loops(network(graph, ConstantOp(x).y.type), features=features)
    return [op.value.array.nbytes for op in lowered.walk() if isinstance(op, ConstantBufferOp)]


@pytest.mark.parametrize("bits", range(2, 7))
def test_bytes_of_weights(bits: int) -> None:
    """Blocks of whole channels have no padding, so that the code stores the places, the table and no more."""
    table = table_of(bits)
    w = weights_of(table, 64, 128)
    assert max(stored(fully_connected(w, table), integers(0, 4, 128))) == Codebook(bits, table).bytes(w.size, BYTE)
    assert Codebook(bits, table).bytes(w.size, BYTE) == 64 * 128 * bits // 8 + 2**bits


def test_channels_of_another_block_have_entries_of_the_table() -> None:
    table = table_of(4)
    w = weights_of(table, 10, 128)
    assert max(stored(fully_connected(w, table), integers(0, 4, 128))) == 16 * 128 // 2 + 16


def test_weights_that_are_no_entries_keep_the_bits_of_entries() -> None:
    """Entries of such a table are within ±63, which 7 bits hold."""
    table = table_of(4)
    w = weights_of(table, 64, 128)
    w[3, 5] = next(n for n in range(64) if n not in table)
    graph, x = fully_connected(w, table), integers(0, 4, 128)
    assert max(stored(graph, x)) == 64 * 128 * 7 // 8
    check(graph, x)


def test_few_weights_stay_bytes() -> None:
    """8 by 8 weights and a table of 64 entries: the places alone take less, both take more."""
    table = table_of(6)
    graph, x = fully_connected(weights_of(table, 8, 8), table), integers(0, 4, 8)
    assert max(stored(graph, x)) == 8 * 8
    check(graph, x)


@pytest.mark.parametrize(("bias", "size"), [(1 << 15, 2), (1 << 16, 4)])
def test_bytes_of_biases(bias: int, size: int) -> None:
    """Beside places, as beside packed integers, biases that fit 16 bits take no more."""
    table = table_of(4)

    def graph(x: SSAValue) -> SSAValue:
        held = ConstantOp(np.resize(np.array([-bias, bias - 1], np.int32), 32)).y
        sums = FullyConnectedOp.make([x, constant(w, table).y, [held]], {"zero_point": int32(-128)})
        return requantized(sums.acc, 32, 3)

    w, x = weights_of(table, 32, 64), integers(0, 3, 64)
    assert stored(graph, x)[0] == 32 * 64 // 2 + 16
    assert 32 * size in stored(graph, x)
    check(graph, x, features="+avx2,+ssse3,+sse2")


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
            x = fully_connected(weights_of(table, 64, 64), table)(x)
        return x

    x = integers(0, 4, 64)
    for features in ("+avx512vnni,+avx512vbmi,+avx2,+ssse3,+sse2", "+thumb2,+dsp", "+m"):
        assert sum("tile_times_block" in name for name in functions(graph, x, features)) == 1
    check(graph, x)


def functions(graph: Callable[[SSAValue], SSAValue], x: Array, features: str) -> list[str]:
    """The names of the functions that a graph's code has for a processor."""
    lowered = to_loops(network(graph, ConstantOp(x).y.type), features=features)
    return [op.sym_name.data for op in lowered.body.block.ops if isinstance(op, func.FuncOp)]


def test_the_matrix_unit_reads_unpacked_bytes() -> None:
    """Places of 5 bits lie in the constants, and a kernel writes the weights to scratch memory."""
    features = "+amx-int8,+avx512vnni,+avx512vbmi,+avx512bw,+avx2,+ssse3,+sse2"
    table = table_of(5)
    graph, x = fully_connected(weights_of(table, 64, 128), table), integers(0, 40, 128)
    names = functions(graph, x, features)
    assert any("matrices" in name for name in names)
    assert any("unpacked_bits" in name for name in names)
    assert max(stored(graph, x, features)) == 64 * 128 * 5 // 8 + 32


def test_no_kernel_by_winograd() -> None:
    """Its transformed weights take eight times the room of bytes."""
    table, features = table_of(4), "+avx2,+ssse3,+sse2"
    w, x = weights_of(table, 32, 3, 3, 32), integers(0, 1, 28, 28, 32)
    plain = np.arange(-65, 65).astype(np.int8)  # more than the 7 bits of entries within ±63
    assert not any("winograd" in name for name in functions(convolution(w, table), x, features))
    assert any("winograd" in name for name in functions(convolution(np.resize(plain, w.shape), table), x, features))


def with_codebooks(module: ModuleOp, bits: int) -> int:
    """Rounds the weights of a network to 2^bits entries, and says so; returns the bytes that this saves."""
    saved = 0
    for op in list(module.walk()):
        if not isinstance(op, ConstantOp) or op.value.array.dtype != np.int8:
            continue
        w = op.value.array
        table = np.quantile(w, np.linspace(0, 1, 1 << bits)).round().astype(np.int8)
        nearest = np.abs(w[..., None].astype(int) - table).argmin(-1)
        op.properties["value"] = WeightsAttr(table[nearest])
        op.attributes.update(stating(Codebook(bits, table)))
        saved += w.size - Codebook(bits, table).bytes(w.size, BYTE)
    return saved


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["x86-64-v3", "cortex-m4"])
def test_a_network(cpu: str) -> None:
    """The attribute reaches machine code from the quantized network, whose constants are smaller as it promises."""
    digits = np.load("examples/digits/digits.npz")
    images = list(digits["calibration_images"][:, None])
    q = qmlir.quantize("examples/digits/digits.onnx", data=images, weight_precision="int8")
    before = qmlir.compile(q, memory="small", cpu=cpu).sizes.weights
    saved = with_codebooks(q, 4)
    code = qmlir.compile(q, memory="small", cpu=cpu)
    assert before - code.sizes.weights > saved - 2 * CACHE_LINE  # constants begin at lines
    if cpu != "cortex-m4":
        reference = qmlir.reference(q)
        for image in images[:5]:
            np.testing.assert_array_equal(code(image), reference(image))
