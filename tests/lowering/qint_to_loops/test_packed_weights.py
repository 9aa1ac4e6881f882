"""Weights of 2 to 7 bits: machine code stores them packed, and gives the bits of the reference."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import SSAValue

import qmlir
from qmlir.codegen.kernels.packed_weights import pack_bits, pieces, width_in_chunks
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import BlockedFullyConnectedOp, Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.dialects.windows import ints
from qmlir.ir.levels import stating
from qmlir.numerics import Array
from qmlir.numerics.groups import Groups, spread
from qmlir.numerics.levels import Even
from qmlir.numerics.packing import BYTE
from tests.conftest import crossed
from tests.lowering.both import check, network, to_loops
from tests.lowering.qint_to_loops.test_contraction import integers, requantized

FEATURES = {"host": None, "avx2": "+avx2,+fma", "sse": "", "no vectors": "+thumb2", "vnni of 256": "+avx2,+avxvnni"}
"""Features by which kernels are chosen; all are compiled for this processor."""


def weights_of(bits: int, *shape: int) -> Array:
    """Random integers of `bits`, its ends among them."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    w = np.random.default_rng(bits).integers(low, high, shape, np.int8, endpoint=True)
    w.reshape(-1)[:2] = low, high
    return w


def constant(w: Array, bits: int) -> ConstantOp:
    return ConstantOp(w, None, stating(Even(bits) if bits < BYTE else None))


def multiples(w: Array, size: int) -> ConstantOp:
    """A constant of weights times multipliers of their groups of `size` terms, which it states."""
    rows = w.reshape(len(w), -1)
    m = np.random.default_rng(9).integers(1, 19, (len(w), -(-rows.shape[1] // size)), np.int8)
    return ConstantOp((rows * spread(m, size, rows.shape[1])).reshape(w.shape), None, stating(Groups(4, size, m)))


def grouped_convolution(w: Array, size: int = 32) -> Callable[[SSAValue], SSAValue]:
    def graph(x: SSAValue) -> SSAValue:
        properties = {"zero_point": int32(-3), "padding": ints((1, 1, 1, 1))}
        return requantized(Conv2DOp.make([x, multiples(w, size).y, []], properties).acc, len(w), 2)

    return graph


def convolution(w: Array, bits: int, groups: int = 1) -> Callable[[SSAValue], SSAValue]:
    def graph(x: SSAValue) -> SSAValue:
        bias = ConstantOp(np.random.default_rng(1).integers(-99, 99, len(w)).astype(np.int32))
        properties = {"zero_point": int32(-3), "padding": ints((1, 1, 1, 1)), "groups": IntegerAttr(groups, i64)}
        return requantized(Conv2DOp.make([x, constant(w, bits).y, [bias.y]], properties).acc, len(w), 2)

    return graph


@pytest.mark.parametrize("bits", range(2, 8))
@pytest.mark.parametrize("chunk", [8, 32, 128])
def test_a_chunk_is_the_sum_of_its_pieces(bits: int, chunk: int) -> None:
    """The layout that the module states, read field by field."""
    w = weights_of(bits, 3 * chunk)
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


@crossed({"bits": range(2, 8), "features": FEATURES})
def test_convolution(bits: int, features: str) -> None:
    x, w = integers(0, 1, 6, 7, 12), weights_of(bits, 20, 3, 3, 12)
    check(convolution(w, bits), x, features=FEATURES[features])


@crossed({"groups": [1, 3], "features": FEATURES})
def test_channels_that_fill_no_step(groups: int, features: str) -> None:
    """3 channels, whose neighbouring taps fill steps together, and groups of 3 channels, which no step spans."""
    x, w = integers(0, 2, 6, 7, 3 * groups), weights_of(4, 6 * groups, 3, 3, 3)
    check(convolution(w, 4, groups), x, features=FEATURES[features])


@crossed({"rows": [1, 40], "bits": [2, 4, 7], "features": FEATURES})
def test_fully_connected(rows: int, bits: int, features: str) -> None:
    x, w = integers(0, rows, 150), weights_of(bits, 70, 150)

    def graph(x: SSAValue) -> SSAValue:
        sums = FullyConnectedOp.make([x, constant(w, bits).y, []], {"zero_point": int32(7)})
        return requantized(sums.acc, 70, 3)

    check(graph, x, features=FEATURES[features])


@pytest.mark.parametrize("bits", [3, 4])
def test_data_of_16_bits(bits: int) -> None:
    x, w = integers(0, 5, 64, bits=16), weights_of(bits, 33, 64)

    def graph(x: SSAValue) -> SSAValue:
        sums = FullyConnectedOp.make([x, constant(w, bits).y, []], {"zero_point": int32(0)}, element=i64)
        return requantized(sums.acc, 33, 3, contract="single64")

    check(graph, x)


@pytest.mark.slow
@crossed({"channels": [5, 16, 72], "features": FEATURES})
def test_depthwise(channels: int, features: str) -> None:
    x, w = integers(0, 1, 9, 8, channels), weights_of(4, 1, 3, 3, channels)

    def graph(x: SSAValue) -> SSAValue:
        properties = {"zero_point": int32(5), "padding": ints((1, 1, 1, 1))}
        sums = DepthwiseConv2DOp.make([x, constant(w, 4).y, []], properties)
        return requantized(sums.acc, channels, 4)

    check(graph, x, features=FEATURES[features])


@pytest.mark.parametrize("features", FEATURES)
def test_blocks(features: str) -> None:
    x, w = integers(0, 3, 96), weights_of(4, 10, 96)
    m = np.random.default_rng(2).integers(1, 99, (10, 3)).astype(np.int32)

    def graph(x: SSAValue) -> SSAValue:
        operands = [x, constant(w, 4).y, ConstantOp(m).y, []]
        acc = BlockedFullyConnectedOp.make(operands, {"zero_point": int32(-9)}).acc
        return requantized(acc, 10, 5, contract="single64")

    check(graph, x, features=FEATURES[features])


@crossed({"channels, size": [(12, 32), (16, 64), (6, 32)], "features": FEATURES})
def test_multiples_by_groups(channels: int, size: int, features: str) -> None:
    """Groups that span taps, and channels that fill no steps, whose weights stay bytes."""
    x, w = integers(0, 1, 6, 7, channels), weights_of(4, 20, 3, 3, channels).clip(-7)
    check(grouped_convolution(w, size), x, features=FEATURES[features])


def stored(w: Array, bits: int, x: Array) -> int:
    """The bytes of the largest constant in the code of a fully connected layer."""

    def graph(x: SSAValue) -> SSAValue:
        return FullyConnectedOp.make([x, constant(w, bits).y, []], {"zero_point": int32(0)}).acc

    lowered = to_loops(network(graph, ConstantOp(x).y.type))
    return max(op.value.array.nbytes for op in lowered.walk() if isinstance(op, ConstantBufferOp))


@pytest.mark.parametrize("bits", range(2, 9))
def test_bytes_of_weights(bits: int) -> None:
    """Blocks of whole channels have no padding, so that the code stores the bits of the type and no more."""
    assert stored(weights_of(bits, 64, 128), bits, integers(0, 4, 128)) == 64 * 128 * bits // 8


def test_weights_beyond_their_bits_stay_bytes() -> None:
    assert stored(integers(0, 64, 128), 4, integers(0, 4, 128)) == 64 * 128


def layer(bits: int, bias: Sequence[int], data: int = 8) -> Callable[[SSAValue], SSAValue]:
    """A layer of 64 inputs with weights 0, whose sums are its 32 biases; in 64 bits for data of 16."""
    wide = data > 8

    def graph(x: SSAValue) -> SSAValue:
        held = ConstantOp(np.resize(np.array(bias, np.int64 if wide else np.int32), 32)).y
        operands = [x, constant(np.zeros((32, 64), np.int8), bits).y, [held]]
        sums = FullyConnectedOp.make(operands, {"zero_point": int32(0)}, element=i64 if wide else i32)
        return requantized(sums.acc, 32, 3, contract="single64" if wide else "single")

    return graph


@pytest.mark.parametrize(("data", "bits", "bias", "dtype"), [
    (8, 4, [-(1 << 15), (1 << 15) - 1], "int16"), (8, 4, [0, 1 << 15], "int32"), (8, 8, [0, 1], "int32"),
    (16, 8, [1 << 29, 1], "int32"), (16, 8, [0, 1 << 40], "int64"),
])  # fmt: skip
def test_bytes_of_biases(data: int, bits: int, bias: Sequence[int], dtype: str) -> None:
    """Beside packed weights, biases that fit 16 bits take no more; those of 64 bits take 32 if they fit."""
    graph, x = layer(bits, bias, data), integers(0, 3, 64, bits=data)
    lowered = to_loops(network(graph, ConstantOp(x).y.type))
    arrays = [op.value.array.reshape(-1) for op in lowered.walk() if isinstance(op, ConstantBufferOp)]
    assert [str(a.dtype) for a in arrays if a[:2].tolist() == bias] == [dtype]
    check(graph, x)


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
