"""Weights that stay integers beside float data: in every form, the bits of the floats that the reference makes."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, TensorType, f32, i8, i64
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Machine
from qmlir.dialects.nn import AddOp, ConstantOp, Conv2DOp, FullyConnectedOp
from qmlir.dialects.nn.base import bound
from qmlir.dialects.nn.blocked import BlockedFullyConnectedOp
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.ir.facts import QUANTIZATION
from qmlir.ir.interfaces import shape_of
from tests.backends.cpu import programs
from tests.conftest import crossed
from tests.lowering.both import assert_same, check, compiled, features_of, network, referred, to_loops
from tests.lowering.nn_to_loops.test_contraction import floats

Array = npt.NDArray[Any]
Graph = Callable[[SSAValue], SSAValue]

u8 = IntegerType(8, Signedness.UNSIGNED)

FEATURES = {
    "host": None,
    "avx512": "+avx512f,+avx512bw,+avx2,+ssse3,+sse2,+fma",
    "avx2": "+avx2,+ssse3,+sse2,+fma",
    "vectors": "",
    "no vectors": "+thumb2",
}
"""Features by which kernels are chosen; all are compiled for this processor."""

POINTS = {
    "none": lambda n: [0] * n,
    "one": lambda n: [-9] * n,
    "each": lambda n: [(7 * i) % 250 - 120 for i in range(n)],
}


def cast(stored: Array, type: UniformType) -> SSAValue:
    """The floats of a constant with a quantized type."""
    return DequantizeCastOp(ConstantOp(stored, TensorType(type, stored.shape)).y, TensorType(f32, stored.shape)).result


def dequantized(stored: Array, *, by_output: bool = True, points: str = "none") -> SSAValue:
    """A dequantized constant with random scales; unsigned integers have zero points from 0 on."""
    count = stored.shape[0] if by_output else 1
    rng = np.random.default_rng(count)
    scales = (2.0 ** rng.uniform(-12, 3, count)).astype(np.float32).astype(float).tolist()
    unsigned = stored.dtype == np.uint8
    zeros = [z % 256 if unsigned else z for z in POINTS[points](count)]
    storage = u8 if unsigned else i8
    made = UniformType.per_axis(storage, 0, scales, zeros) if by_output else UniformType.per_tensor(
        storage, scales[0], zeros[0]
    )  # fmt: skip
    return cast(stored, made)


def layer(w: Callable[[], SSAValue], *, bias: bool = False, low: float | None = None) -> Graph:
    def graph(x: SSAValue) -> SSAValue:
        weights = w()
        b = [ConstantOp(floats(2, shape_of(weights)[0])).y] if bias else []
        return FullyConnectedOp.make([x, weights, b], {"min": bound(low)}).y

    return graph


def integers(dtype: npt.DTypeLike, *shape: int, bits: int = 8) -> Array:
    """All integers of so many bits, in random order, over and over."""
    least = 0 if np.dtype(dtype).kind == "u" else -(1 << bits - 1)
    return np.random.default_rng(list(shape)).integers(least, least + (1 << bits), shape).astype(dtype)


def held(graph: Graph, x: Array, features: str | None = None) -> dict[str, int]:
    """The bytes of the constants of a graph's code, by element type."""
    lowered = to_loops(network(graph, ConstantOp(x).y.type), features=features)
    found: dict[str, int] = {}
    for op in lowered.walk():
        if isinstance(op, ConstantBufferOp):
            found[str(op.value.array.dtype)] = found.get(str(op.value.array.dtype), 0) + op.value.array.nbytes
    assert not any("dcast" in str(op.properties.get("sym_name", "")) for op in lowered.walk())
    return found


@crossed({
    "rows": [1, 2, 13], "outputs": [7, 64, 100, 192], "dtype": [np.int8, np.uint8], "points": POINTS,
    "by_output": [True, False], "features": FEATURES,
})  # fmt: skip
def test_rows(rows: int, outputs: int, dtype: Any, points: str, by_output: bool, features: str) -> None:
    stored = integers(dtype, outputs, 37)
    graph = layer(lambda: dequantized(stored, by_output=by_output, points=points), bias=rows == 2, low=-0.5)
    check(graph, floats(1, rows, 37), features=FEATURES[features])


@crossed({"groups": [1, 3], "points": POINTS, "features": FEATURES, "padding": [0, 1]})
def test_convolution(groups: int, points: str, features: str, padding: int) -> None:
    stored = integers(np.int8, 12, 3, 2, 4)

    def graph(x: SSAValue) -> SSAValue:
        properties = {"padding": ints([padding] * 4), "groups": IntegerAttr(groups, i64)}
        return Conv2DOp.make([x, dequantized(stored, points=points), []], properties).y

    check(graph, floats(1, 2, 7, 9, 4 * groups), features=FEATURES[features])


def blocked(w: Array, points: Array, size: int, *, bias: bool = False) -> Graph:
    outputs, inputs = w.shape
    rng = np.random.default_rng(size)
    scales = (rng.standard_normal((outputs, -(-inputs // size))) * 0.1).astype(np.float32)

    def graph(x: SSAValue) -> SSAValue:
        constants = [ConstantOp(a).y for a in (w, scales, points)]
        b = [ConstantOp(floats(2, outputs)).y] if bias else []
        return BlockedFullyConnectedOp.make([x, *constants, b], {"block": IntegerAttr(size, i64)}).y

    return graph


FORMS = {
    "uint4": (ml_dtypes.uint4, 4), "int4": (ml_dtypes.int4, 4), "uint2": (ml_dtypes.uint2, 2), "int8": (np.int8, 8),
    "uint8": (np.uint8, 8), "int16": (np.int16, 16),
}  # fmt: skip


@crossed({"rows": [1, 5], "outputs": [20, 64], "form": FORMS, "size": [8, 16, 100], "features": FEATURES})
def test_blocks(rows: int, outputs: int, form: str, size: int, features: str) -> None:
    """Blocks that divide a row, the last of them shorter, and one that is longer than the row."""
    dtype, bits = FORMS[form]
    unsigned = form.startswith("u")
    least = 0 if unsigned else -(1 << bits - 1)
    rng = np.random.default_rng(bits)
    w = rng.integers(least, least + (1 << bits), (outputs, 44)).astype(dtype)
    points = rng.integers(least, least + (1 << bits), (outputs, -(-44 // size))).astype(dtype)
    check(blocked(w, points, size, bias=rows == 5), floats(1, rows, 44), features=FEATURES[features])


@pytest.mark.parametrize("form", ["uint4", "int8"])
def test_zero_points_that_are_no_whole_numbers(form: str) -> None:
    """The weights become floats at compile time, because a difference is rounded."""
    w = integers(np.int8, 20, 32, bits=4)
    w = (w + 8 * (form == "uint4")).astype(FORMS[form][0])
    graph = blocked(w, np.linspace(-8, 8, 20 * 4, dtype=np.float32).reshape(20, 4), 8)
    check(graph, floats(1, 3, 32))
    assert held(graph, floats(1, 3, 32))["float32"] >= 20 * 32 * 4


def test_bytes() -> None:
    """A byte for each weight, or half a byte, and a float for each scale."""
    x, bytes_ = floats(1, 1, 64), integers(np.int8, 64, 64)
    assert held(layer(lambda: dequantized(bytes_)), x) == {"int8": 64 * 64, "float32": 64 * 4}
    nibbles = integers(np.int8, 64, 64, bits=4).astype(ml_dtypes.int4)
    assert held(blocked(nibbles, np.zeros((64, 2), ml_dtypes.int4), 32), x) == {
        "int8": 64 * 64 // 2,
        "float32": 64 * 2 * 4,
    }


def test_what_stays_no_integers() -> None:
    """Scales that f32 does not hold, scales along another axis, and what others than layers read become floats."""
    x, stored = floats(1, 1, 64), integers(np.int8, 64, 64)

    def apart() -> SSAValue:
        y = cast(stored, UniformType.per_tensor(i8, 0.5, 3))
        assert isinstance(y.owner, DequantizeCastOp)
        QUANTIZATION.put(y.owner, "float32_apart")
        return y

    scales = [0.25 + i for i in range(64)]
    for weights in (
        lambda: cast(stored, UniformType.per_tensor(i8, 0.1)),
        lambda: cast(stored, UniformType.per_axis(i8, 1, scales, [0] * 64)),
        apart,
    ):
        check(layer(weights), x)
        assert held(layer(weights), x) == {"float32": 64 * 64 * 4}

    def twice(x: SSAValue) -> SSAValue:
        w = dequantized(stored)
        return AddOp.make([FullyConnectedOp.make([x, w, []]).y, w]).y

    check(twice, x)
    assert "int8" not in held(twice, x)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "cortex-a72", "neoverse-n1", "cortex-m55", "rv64gcv", "wasm32"])
def test_other_processors(cpu: str, rows: int) -> None:
    """Code that emulators run: bytes with zero points, and nibbles in blocks."""
    machine = Machine.of(cpu)
    programs.require(machine)
    x = floats(1, rows, 44)
    w = integers(np.int8, 70, 44, bits=4).astype(ml_dtypes.int4)
    for graph in (
        layer(lambda: dequantized(integers(np.int8, 70, 44), points="each"), bias=True),
        blocked(w, w[:, :6], 8),
    ):
        module = network(graph, ConstantOp(x).y.type)
        signature, named, expected = referred(module, [x])
        executable = compiled(to_loops(module, features=features_of(machine), verify=False), signature, machine)
        assert_same(expected, programs.run(executable, [signature.arrays(named)])[0])
