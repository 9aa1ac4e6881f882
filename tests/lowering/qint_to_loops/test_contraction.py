"""Integer contractions as machine code: what is beside the sizes of the random layers, and which kernels there are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, StringAttr, TensorType, i8, i16, i32, i64
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Machine
from qmlir.codegen.kernels.contraction import NEAR
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp, RequantizeOp
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.dialects.windows import ints
from qmlir.errors import UnsupportedError
from tests.lowering.both import check, features_of, network, to_loops

Array = npt.NDArray[Any]


def integers(seed: int, *shape: int, bits: int = 8) -> Array:
    """All values of a signed type, its ends among them."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    x = np.random.default_rng(seed).integers(low, high, shape, dtype=f"int{bits}", endpoint=True)
    flat = x.reshape(-1)
    flat[: min(2, flat.size)] = np.array([low, high])[: flat.size]
    return x


def requantized(acc: SSAValue, channels: int, seed: int, bits: int = 8, contract: str = "single") -> SSAValue:
    """A requantization to a narrow type with random multipliers around 1/300."""
    rng = np.random.default_rng(seed)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    properties = {
        "multiplier": int32s(rng.integers(1 << 30, (1 << 31) - 1, channels).tolist()),
        "shift": int32s(rng.integers(-9, -5, channels).tolist()),
        "contract": StringAttr(contract),
        "zero_point": int32(-11),
        "min": int32(low + 3),
        "max": int32(high - 2),
    }
    return RequantizeOp.make([acc], properties, element=IntegerType(bits)).y


@pytest.mark.parametrize(("rows", "zero_point", "inputs"), [(1, 3, 30001), (2, 3, 30000), (2, 40000, 13000)])
def test_an_input_too_large_for_the_stack_is_prepared_in_the_arena(rows: int, zero_point: int, inputs: int) -> None:
    w = integers(1, 9, inputs)
    w[:, : inputs // 2] = -w[:, inputs // 2 : inputs // 2 * 2]  # sums stay small
    check(
        lambda x: FullyConnectedOp.make([x, ConstantOp(w).y, []], {"zero_point": int32(zero_point)}).acc,
        integers(2, rows, inputs),
    )


def test_a_column_too_large_for_the_stack() -> None:
    properties = {"lhs_zero_point": int32(-128), "rhs_zero_point": int32(7)}
    check(
        lambda a, b: requantized(MatMulOp.make([a, b], properties).acc, 2, 3, bits=16),
        integers(1, 2, 1, 30001),
        integers(2, 2, 30001, 2),
    )


@pytest.mark.parametrize("terms", [1, 2, 255, 256, 257, 700])
@pytest.mark.parametrize("drawn", [[-32768], [-32768, 32767]], ids=["least", "ends"])
def test_products_of_words_leave_32_bits(terms: int, drawn: list[int]) -> None:
    """Weights are multiplied in two parts, whose sums fit 32 bits over 256 terms of the largest magnitudes."""
    rng = np.random.default_rng(terms)
    a, b = (rng.choice(np.array(drawn, np.int16), shape) for shape in ((2, 5, terms), (2, terms, 37)))
    check(lambda a, b: MatMulOp.make([a, b], element=i64).acc, a, b)


@pytest.mark.parametrize("terms", [4, 124, 128, 132, 700, 702])
@pytest.mark.parametrize("drawn", [[-32768], [-32513], [32767], [-32768, -32513, 255, 32767]])
def test_products_of_words_by_sums_that_wrap(terms: int, drawn: list[int]) -> None:
    """The rest beside products of upper bytes fits 32 bits over 128 terms; -32513 has the largest, 255 an upper byte 0.

    Steps take four terms, so that 702 terms take pairs by both bytes of weights.
    """
    rng = np.random.default_rng(terms)
    a, b = (rng.choice(np.array(drawn, np.int16), shape) for shape in ((2, 17, terms), (2, terms, 37)))
    features = features_of(Machine.of("znver4"))

    def graph(a: SSAValue, b: SSAValue) -> SSAValue:
        return MatMulOp.make([a, b], element=i64).acc

    lowered = to_loops(network(graph, *(TensorType(i16, x.shape) for x in (a, b))), features=features)
    assert any(op.name == "simd.dot_u8_i8_quads" for op in lowered.walk()) == (terms % 4 == 0)
    check(graph, a, b, features=features)


@pytest.mark.parametrize("zero_points", [(0, -1), (-1, 0), (1, 1)])
def test_words_with_zero_points_by_sums_that_wrap(zero_points: tuple[int, int]) -> None:
    """Both sides lose their zero points before they are multiplied."""
    rng = np.random.default_rng(1)
    low, high = -(1 << 14), (1 << 14) - 1
    a, b = (rng.integers(low, high, shape, np.int16, endpoint=True) for shape in ((3, 13, 64), (64, 20)))
    properties = {"lhs_zero_point": int32(zero_points[0]), "rhs_zero_point": int32(zero_points[1])}
    check(
        lambda a, b: MatMulOp.make([a, b], properties, element=i64).acc,
        a,
        b,
        features=features_of(Machine.of("znver4")),
    )


def test_more_channels_than_registers_hold() -> None:
    w, b = integers(1, 1, 5, 5, 1000), np.random.default_rng(2).integers(-9999, 9999, 1000, dtype=np.int32)
    properties = {"padding": ints([2, 2, 2, 2]), "zero_point": int32(-128)}

    def graph(x: SSAValue) -> SSAValue:
        return requantized(DepthwiseConv2DOp.make([x, ConstantOp(w).y, ConstantOp(b).y], properties).acc, 1000, 3)

    check(graph, integers(4, 1, 4, 30, 1000))


@pytest.mark.slow
def test_padding_of_an_input_too_large_for_the_stack() -> None:
    w = integers(1, 3, 3, 3, 2801)
    properties = {"padding": ints([1, 0, 2, 1]), "zero_point": int32(-100)}
    check(lambda x: Conv2DOp.make([x, ConstantOp(w).y, []], properties).acc, integers(2, 2, 3, 4, 2801))


def test_an_accumulator_with_two_uses_is_stored_and_requantized() -> None:
    w = integers(1, 5, 4)

    def graph(x: SSAValue) -> list[SSAValue]:
        acc = FullyConnectedOp.make([x, ConstantOp(w).y, []]).acc
        return [requantized(acc, 5, 3), acc]

    check(graph, integers(2, 3, 4))


def kernels_of(graph: Callable[..., Any], *types: TensorType[Any]) -> list[str]:
    """The names of the kernels that a graph's main calls, in order."""
    main = to_loops(network(graph, *types)).body.block.first_op
    assert isinstance(main, func.FuncOp)
    return [str(op.properties["callee"]).removeprefix("@") for op in main.walk() if op.name == "func.call"]


def test_a_contraction_and_its_requantization_are_one_kernel_whose_data_are_arguments() -> None:
    def graph(x: SSAValue) -> SSAValue:
        for seed in (1, 2, 3):
            w = integers(seed, 6, 1, 1, 6)
            x = requantized(Conv2DOp.make([x, ConstantOp(w).y, []]).acc, 6, seed)
        return x

    assert kernels_of(graph, TensorType(i8, [1, 4, 4, 6])) == ["qint_conv2d_0"] * 3


def test_layers_of_many_sizes_share_the_function_of_their_inner_loops() -> None:
    def graph(x: SSAValue) -> SSAValue:
        for seed, (outputs, channels) in enumerate([(16, 24), (48, 16), (32, 48)]):
            w = integers(seed, outputs, 1, 1, channels)
            x = requantized(Conv2DOp.make([x, ConstantOp(w).y, []], {"zero_point": int32(seed - 1)}).acc, outputs, seed)
        return x

    # Blocks have 16 output channels without AVX-512, so that all three layers fill theirs.
    functions = to_loops(network(graph, TensorType(i8, [1, 5, 6, 24])), features="+avx2").body.block.ops
    names = [f.sym_name.data for f in functions if isinstance(f, func.FuncOp)]
    inner = [name for name in names if not name.startswith("qint_conv2d")]
    assert sorted(inner) == ["main", "prepared_run_0", "qint_tile_times_block_0"]
    assert len(names) == len(inner) + 3


def test_refuses_a_bias_that_is_computed() -> None:
    w = integers(1, 5, 4)
    module = network(
        lambda x, b: FullyConnectedOp.make([x, ConstantOp(w).y, b]).acc, TensorType(i8, [1, 4]), TensorType(i32, [5])
    )
    with pytest.raises(UnsupportedError, match="needs constant bias"):
        to_loops(module)


def test_padded_weights_of_a_block_do_not_reach_the_result() -> None:
    w = np.full((1, 3), -128, np.int8)
    properties = {"multiplier": DenseArrayBase.from_list(i32, [1 << 30]), "shift": int32s([1]), "max": int32(127)}
    properties |= {"contract": StringAttr("single"), "min": int32(-128)}
    check(
        lambda x: RequantizeOp.make([FullyConnectedOp.make([x, ConstantOp(w).y, []]).acc], properties, element=i8).y,
        np.array([[1, -1, 0], [0, 0, 0]], np.int8),
    )


def test_weights_that_leave_the_caches_of_taps_that_fill_steps_together() -> None:
    """The image is prepared whole, with what the last step reads behind a row."""
    x, w = integers(1, 1, 6, 6, 515), integers(2, 240, 3, 3, 515)
    assert w.size > NEAR
    check(lambda v: Conv2DOp.make([v, ConstantOp(w).y, []], {"zero_point": int32(3)}).acc, x)
