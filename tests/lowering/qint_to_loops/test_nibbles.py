"""Weights of 4 bits whose blocks have multipliers and offsets of 8 bits: the bits of the reference everywhere."""

import numpy as np
import pytest
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Machine
from qmlir.codegen.kernels.nibbles import Parameters
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import AffineFullyConnectedOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.ir.levels import stating
from qmlir.numerics import Array
from qmlir.numerics.levels import Even
from tests.backends.cpu import programs
from tests.conftest import crossed
from tests.lowering.both import assert_same, check, compiled, features_of, network, referred, to_loops
from tests.lowering.qint_to_loops.test_contraction import integers, requantized
from tests.lowering.qint_to_loops.test_packed_weights import FEATURES, Graph

ALL = {**FEATURES, "vnni of 512": "+avx512f,+avx512bw,+avx512vnni,+avx2,+ssse3,+sse2"}


def layer(
    outputs: int, blocks: int, size: int, *, fraction: int = 4, bias: bool = False, zero_point: int = 0, odd: int = 0
) -> Graph:
    """A layer with random parameters, some of them 0 and at their ends; `odd` is added to one offset."""
    rng = np.random.default_rng(blocks)
    w = rng.integers(-8, 7, (outputs, blocks * size), np.int8, endpoint=True)
    m = rng.integers(-127, 127, (outputs, blocks), np.int64, endpoint=True) // max(1, blocks // 4)
    k = rng.integers(-127, 127, (outputs, blocks), np.int64, endpoint=True)
    m[0, 0], k[0, 0], m[-1, -1], k[-1, -1], m[0, -1] = 127, -127, 31, 127, 0
    offsets = m * k
    offsets[0, 0] += odd
    arrays: list[Array] = [(m << fraction).astype(np.int16), offsets.astype(np.int16)]

    def graph(x: SSAValue) -> SSAValue:
        weights = ConstantOp(w, None, stating(Even(4)))
        added = [ConstantOp(rng.integers(-99999, 99999, outputs)).y] if bias else []
        operands = [x, weights.y, *(ConstantOp(a).y for a in arrays), added]
        acc = AffineFullyConnectedOp.make(operands, {"zero_point": int32(zero_point)}).acc
        return requantized(acc, outputs, 19, contract="single64")

    return graph


def kernels(graph: Graph, x: Array, features: str) -> set[str]:
    """The names of the kernels that a graph's code calls."""
    lowered = to_loops(network(graph, ConstantOp(x).y.type), features=features)
    return {str(op.properties["sym_name"]).strip('"') for op in lowered.walk() if op.name == "func.func"}


@crossed({"features": ALL, "rows": [1, 9], "outputs": [16, 20, 6], "blocks, size": [(2, 32), (6, 16), (4, 64)]})
def test_every_processor(features: str, rows: int, outputs: int, blocks: int, size: int) -> None:
    graph, x = layer(outputs, blocks, size, bias=rows == 9), integers(0, rows, blocks * size) // (size // 16)
    check(graph, x, features=ALL[features])


@pytest.mark.parametrize("features", ["avx2", "vnni of 512", "vectors"])
def test_extremes(features: str) -> None:
    """Data of −128 and 127 beside weights of −8 and 7: sums of blocks at the ends of 16 bits."""
    x = np.where(np.arange(64) % 3 == 0, -128, 127).astype(np.int8)[None]
    check(layer(16, 2, 32, fraction=0), x, features=ALL[features])


@pytest.mark.parametrize(("changed", "used"), [
    ({}, True), ({"fraction": 0}, True), ({"odd": 1}, False), ({"zero_point": 3}, False), ({"blocks": 3}, False),
    ({"size": 12}, False), ({"size": 128}, False),
])  # fmt: skip
def test_what_suits(changed: dict[str, int], used: bool) -> None:
    """Other layers of such weights go the way of all, on the same bits."""
    sizes = {"outputs": 16, "blocks": 4, "size": 16, "fraction": 4, "zero_point": 0, "odd": 0, **changed}
    graph = layer(
        sizes["outputs"], sizes["blocks"], sizes["size"],
        fraction=sizes["fraction"], zero_point=sizes["zero_point"], odd=sizes["odd"],
    )  # fmt: skip
    x = integers(0, 2, sizes["blocks"] * sizes["size"]) // 8
    assert any("nibbles" in name for name in kernels(graph, x, ALL["avx2"])) == used
    check(graph, x, features=ALL["avx2"])


def test_bytes() -> None:
    """Half a byte for each weight, and a byte for each multiplier and each offset."""
    graph, x = layer(32, 4, 32), integers(0, 1, 128) // 2
    lowered = to_loops(network(graph, ConstantOp(x).y.type), features=ALL["avx2"])
    held = [op.value.array.nbytes for op in lowered.walk() if isinstance(op, ConstantBufferOp)]
    assert sorted(held)[-3:] == [32 * 4, 32 * 4, 32 * 128 // 2]


def test_parameters() -> None:
    m, k = np.array([[16, -32, 0]]), np.array([[3, -250, 0]])
    found = Parameters.of(np.array([*m, [96, 32, 0], [0, 0, 0]]), np.array([*k, [33, 121, 0], [0, 0, 0]]))
    assert found is not None
    assert found.f.tolist() == [4, 5, 7]
    assert found.m.tolist() == [[1, -2, 0], [3, 1, 0], [0, 0, 0]]
    assert found.k.tolist() == [[3, 125, 0], [11, 121, 0], [0, 0, 0]]
    assert Parameters.of(m, np.array([[3, 251, 0]])) is None  # no multiple
    assert Parameters.of(m, np.array([[3, 256, 0]])) is None  # of 8 bits or more
    assert Parameters.of(m, np.array([[3, 250, 1]])) is None  # a sum without a multiplier
    assert Parameters.of(np.array([[255]]), np.array([[0]])) is None


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    "cpu", ["x86-64-v3", "cortex-a72", "neoverse-n1", "cortex-m4", "cortex-m55", "rv64gcv", "wasm32"]
)
def test_other_processors(cpu: str, rows: int) -> None:
    """Code that emulators run: of bytes, of words, and of processors without vectors, which go another way."""
    machine = Machine.of(cpu)
    programs.require(machine)
    x = integers(0, rows, 128) // 2
    module = network(layer(20, 4, 32, bias=True), ConstantOp(x).y.type)
    signature, named, expected = referred(module, [x])
    executable = compiled(to_loops(module, features=features_of(machine), verify=False), signature, machine)
    assert_same(expected, programs.run(executable, [signature.arrays(named)])[0])
