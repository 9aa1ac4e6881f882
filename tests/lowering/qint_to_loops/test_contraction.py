"""Integer contractions as machine code, alone and fused with a requantization, against their numpy meaning."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, StringAttr, TensorType, i8, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.kernels.contraction import NEAR
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp, RequantizeOp
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.dialects.windows import ints
from qmlir.errors import UnsupportedError
from tests.conftest import crossed
from tests.lowering.both import check, network, to_loops

Array = npt.NDArray[Any]


def integers(seed: int, *shape: int, bits: int = 8) -> Array:
    """All values of a signed type, its ends among them."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    x = np.random.default_rng(seed).integers(low, high, shape, dtype=f"int{bits}", endpoint=True)
    flat = x.reshape(-1)
    flat[: min(2, flat.size)] = np.array([low, high])[: flat.size]
    return x


def requantized(
    acc: SSAValue, channels: int, seed: int, bits: int = 8, per_channel: bool = True, contract: str = "single"
) -> SSAValue:
    """A requantization to a narrow type with random multipliers around 1/300."""
    rng = np.random.default_rng(seed)
    count = channels if per_channel else 1
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    properties = {
        "multiplier": int32s(rng.integers(1 << 30, (1 << 31) - 1, count).tolist()),
        "shift": int32s(rng.integers(-9, -5, count).tolist()),
        "contract": StringAttr(contract),
        "zero_point": int32(-11),
        "min": int32(low + 3),
        "max": int32(high - 2),
    }
    return RequantizeOp.make([acc], properties, element=IntegerType(bits)).y


# x shape, weights (O, KH, KW), strides, padding, dilations
CONVOLUTIONS = {
    "pointwise": ((1, 5, 7, 12), (16, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "pointwise, odd": ((2, 9, 33, 3), (33, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "pointwise strided": ((2, 5, 7, 4), (5, 1, 1), (2, 3), (0, 0, 0, 0), (1, 1)),
    "same": ((1, 7, 9, 5), (10, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "valid": ((2, 7, 9, 6), (8, 3, 2), (1, 1), (0, 0, 0, 0), (1, 1)),
    "strided": ((1, 11, 13, 3), (16, 3, 3), (2, 2), (0, 1, 0, 1), (1, 1)),
    "dilated": ((1, 9, 10, 5), (17, 3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    "all padding": ((1, 2, 2, 3), (4, 3, 3), (1, 1), (5, 4, 4, 6), (1, 1)),
    "one channel": ((1, 28, 28, 1), (8, 5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    "wide": ((1, 2, 200, 64), (20, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "whole image": ((2, 4, 5, 6), (24, 4, 5), (1, 1), (0, 0, 0, 0), (1, 1)),
}


@crossed({"case": CONVOLUTIONS, "fused": [True, False]})
def test_conv2d(case: str, fused: bool) -> None:
    shape, (outputs, rows, columns), strides, padding, dilations = CONVOLUTIONS[case]
    w = integers(1, outputs, rows, columns, shape[3])
    b = np.random.default_rng(2).integers(-9999, 9999, outputs, dtype=np.int32)
    properties = {
        "strides": ints(strides),
        "padding": ints(padding),
        "dilations": ints(dilations),
        "zero_point": int32(-17),
    }

    def graph(x: SSAValue) -> SSAValue:
        acc = Conv2DOp.make([x, ConstantOp(w).y, ConstantOp(b).y if fused else []], properties).acc
        return requantized(acc, outputs, 3) if fused else acc

    check(graph, integers(4, *shape))


@pytest.mark.parametrize(("bits", "zero_point"), [(8, 0), (8, 300), (8, 40000), (16, 0), (16, 5)])
def test_arithmetic_of_every_width(bits: int, zero_point: int) -> None:
    w = integers(1, 9, 3, 3, 6)
    properties = {"padding": ints([1, 1, 1, 1]), "zero_point": int32(zero_point)}
    check(
        lambda x: requantized(Conv2DOp.make([x, ConstantOp(w).y, []], properties).acc, 9, 5, bits=16),
        integers(2, 1, 6, 7, 6, bits=bits),
    )


# What decides how 64-bit sums are taken: the weights' width and how many there are
WIDE = {
    "few, i8": (8, 6),
    "many, i8": (8, 700),
    "odd, i8": (8, 601),
    "few, i16": (16, 2),
    "some, i16": (16, 30),
}


@crossed({"case": WIDE, "with_bias": [True, False], "contract": ["single64", "reduced16", None]}, turns=2)
def test_sums_of_64_bits(case: str, with_bias: bool, contract: str | None) -> None:
    """In i32 as long as these hold them, in pairs or one by one; the bias is beyond 32 bits."""
    bits, channels = WIDE[case]
    w = integers(1, 9, 3, 2, channels, bits=bits)
    b = np.random.default_rng(2).integers(-(1 << 44), 1 << 44, 9)

    def graph(x: SSAValue) -> SSAValue:
        bias = ConstantOp(b).y if with_bias else []
        acc = Conv2DOp.make([x, ConstantOp(w).y, bias], {"padding": ints([1, 0, 0, 1])}, element=i64).acc
        return acc if contract is None else requantized(acc, 9, 5, bits=16, contract=contract)

    check(graph, integers(2, 1, 5, 6, channels, bits=16))


@crossed({"zero_point": [0, 9], "bits": [8, 16]})
def test_depthwise_sums_of_64_bits(zero_point: int, bits: int) -> None:
    w = integers(1, 1, 3, 3, 20, bits=bits)
    b = np.random.default_rng(2).integers(-(1 << 44), 1 << 44, 20)

    def graph(x: SSAValue) -> SSAValue:
        properties = {"padding": ints([1, 0, 0, 1]), "zero_point": int32(zero_point)}
        acc = DepthwiseConv2DOp.make([x, ConstantOp(w).y, ConstantOp(b).y], properties, element=i64).acc
        return requantized(acc, 20, 5, bits=16, contract="single64")

    check(graph, integers(2, 1, 5, 6, 20, bits=16))


@crossed({"bits": [8, 16], "left, right": [(0, 0), (5, -7)]})
def test_matmul_sums_of_64_bits(bits: int, left: int, right: int) -> None:
    properties = {"lhs_zero_point": int32(left), "rhs_zero_point": int32(right)}
    check(
        lambda a, b: requantized(
            MatMulOp.make([a, b], properties, element=i64).acc, 33, 3, bits=16, contract="single64"
        ),
        integers(1, 2, 9, 301, bits=16),
        integers(2, 2, 301, 33, bits=bits),
    )


def test_one_multiplier_for_all_channels() -> None:
    w = integers(1, 20, 1, 1, 6)
    check(
        lambda x: requantized(Conv2DOp.make([x, ConstantOp(w).y, []]).acc, 20, 5, per_channel=False),
        integers(2, 1, 6, 7, 6),
    )


# x shape, weights (KH, KW, O), strides, padding, dilations
DEPTHWISE = {
    "same": ((1, 7, 9, 5), (3, 3, 5), (1, 1), (1, 1, 1, 1), (1, 1)),
    "channels 24": ((2, 6, 5, 24), (3, 3, 24), (2, 2), (0, 1, 0, 1), (1, 1)),
    "multiplier": ((1, 6, 5, 3), (3, 3, 12), (1, 1), (1, 1, 1, 1), (1, 1)),
    "dilated": ((1, 9, 9, 16), (2, 3, 16), (1, 2), (1, 0, 2, 2), (3, 2)),
    "many channels": ((1, 4, 30, 1000), (5, 5, 1000), (1, 1), (2, 2, 2, 2), (1, 1)),
}


@crossed({"case": DEPTHWISE, "zero_point": [-128, 0, 50000]})
def test_depthwise(case: str, zero_point: int) -> None:
    shape, extent, strides, padding, dilations = DEPTHWISE[case]
    w, b = integers(1, 1, *extent), np.random.default_rng(2).integers(-9999, 9999, extent[2], dtype=np.int32)
    properties = {
        "strides": ints(strides),
        "padding": ints(padding),
        "dilations": ints(dilations),
        "zero_point": int32(zero_point),
    }

    def graph(x: SSAValue) -> SSAValue:
        acc = DepthwiseConv2DOp.make([x, ConstantOp(w).y, ConstantOp(b).y], properties).acc
        return acc if zero_point == 0 else requantized(acc, extent[2], 3)

    check(graph, integers(4, *shape))


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"), [(1, 7, 10), (1, 2000, 33), (6, 40, 16), (65, 3, 100), (4, 1, 1)]
)
def test_fully_connected(rows: int, inputs: int, outputs: int) -> None:
    w, b = integers(1, outputs, inputs), np.random.default_rng(2).integers(-9999, 9999, outputs, dtype=np.int32)

    def graph(x: SSAValue) -> SSAValue:
        acc = FullyConnectedOp.make([x, ConstantOp(w).y, ConstantOp(b).y], {"zero_point": int32(127)}).acc
        return requantized(acc, outputs, 3)

    check(graph, integers(3, rows, inputs))


@pytest.mark.parametrize(("rows", "zero_point", "inputs"), [(1, 3, 30001), (2, 3, 30000), (2, 40000, 13000)])
def test_an_input_too_large_for_the_stack_is_prepared_in_the_arena(rows: int, zero_point: int, inputs: int) -> None:
    w = integers(1, 9, inputs)
    w[:, : inputs // 2] = -w[:, inputs // 2 : inputs // 2 * 2]  # sums stay small
    check(
        lambda x: FullyConnectedOp.make([x, ConstantOp(w).y, []], {"zero_point": int32(zero_point)}).acc,
        integers(2, rows, inputs),
    )


@pytest.mark.slow
def test_padding_of_an_input_too_large_for_the_stack() -> None:
    w = integers(1, 3, 3, 3, 2801)
    properties = {"padding": ints([1, 0, 2, 1]), "zero_point": int32(-100)}
    check(lambda x: Conv2DOp.make([x, ConstantOp(w).y, []], properties).acc, integers(2, 2, 3, 4, 2801))


MATRICES = [
    ((3, 5), (5, 7)),
    ((2, 9, 6), (2, 6, 33)),
    ((2, 3, 9, 6), (6, 8)),
    ((9, 7), (2, 3, 7, 4)),
    ((2, 1, 5, 6), (3, 6, 17)),
    ((2, 1, 30001), (2, 30001, 2)),
]


@crossed({"lhs, rhs": MATRICES, "left, right": [(0, 0), (-128, 7), (0, 40000)]})
def test_matmul(lhs: tuple[int, ...], rhs: tuple[int, ...], left: int, right: int) -> None:
    properties = {"lhs_zero_point": int32(left), "rhs_zero_point": int32(right)}
    check(
        lambda a, b: requantized(MatMulOp.make([a, b], properties).acc, rhs[-1], 3, bits=16),
        integers(1, *lhs),
        integers(2, *rhs),
    )


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
