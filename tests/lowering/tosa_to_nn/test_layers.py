"""Convolutions and matrix products of bytes with a rescale: which become quantized layers, and that no bit changes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.quantizable import uniform
from qmlir.ir.context import make_context
from qmlir.ir.facts import NUMERICS
from qmlir.ir.names import names_of
from qmlir.ir.source import parse_text
from qmlir.ir.verify import verify
from tests.lowering import tosa_specification as specification

Array = npt.NDArray[Any]


def dense(array: Array, element: str) -> str:
    """A constant of tosa."""
    type = "x".join([*map(str, array.shape), element])
    return f'"tosa.const"() <{{values = dense<{array.tolist()}> : tensor<{type}>}}> : () -> tensor<{type}>'


@dataclass(frozen=True)
class Net:
    """A layer in tosa: `kind`, a rescale, and a clamp if there are bounds.

    kind        conv2d, depthwise_conv2d, dense (a convolution of one pixel with reshapes around it) or matmul
    multiplier  of the rescale, one or one for each channel; likewise `shift`
    points      the zero points of data, weights and result
    bounds      of the clamp
    computed    whether the bias is an argument
    """

    kind: str
    multiplier: Sequence[int] = (1518500250,)
    shift: Sequence[int] = (41,)
    points: tuple[int, int, int] = (3, 0, -7)
    mode: str = "SINGLE_ROUND"
    bounds: tuple[int, int] | None = None
    computed: bool = False
    name: str = "main"

    def text(self) -> str:
        """The function."""
        rng = np.random.default_rng(3)
        shape, result, weights = SHAPES[self.kind]
        lines: list[str] = []
        arguments = [f"%x: tensor<{shape}xi8>"]
        channels = int(result.rsplit("x", 1)[1])
        points = dict(zip(("xz", "wz", "yz"), self.points, strict=True))
        for name, value in points.items():
            lines.append(f"%{name} = {dense(np.array([value]), 'i8')}")
        lines.append(f"%zero = {dense(np.zeros(1, int), 'i32')}")
        if self.kind == "matmul":
            arguments.append("%w: tensor<2x4x5xi8>")
            lines.append(
                f'%sums = "tosa.matmul"(%x, %w, %xz, %wz) : (tensor<{shape}xi8>, tensor<2x4x5xi8>, tensor<1xi8>, '
                f"tensor<1xi8>) -> tensor<{result}xi32>"
            )
        else:
            lines += self._weighted(rng, arguments, shape, result, weights, channels)
        data = "%sums"
        final = result
        if self.kind == "dense":
            final = "3x4"
            lines.append(
                '%s = "tosa.const_shape"() <{values = dense<[3, 4]> : tensor<2xindex>}> : () -> !tosa.shape<2>'
            )
            lines.append(
                f'%flat = "tosa.reshape"(%sums, %s) : (tensor<{result}xi32>, !tosa.shape<2>) -> tensor<3x4xi32>'
            )
            data = "%flat"
        m, s = np.array(self.multiplier), np.array(self.shift)
        lines.append(f"%m = {dense(m, 'i32')}")
        lines.append(f"%n = {dense(s, 'i8')}")
        each = str(len(m) > 1).lower()
        lines.append(
            f'%y = "tosa.rescale"({data}, %m, %n, %zero, %yz) <{{scale32 = true, rounding_mode = '
            f"#tosa.rounding_mode<{self.mode}>, per_channel = {each}, input_unsigned = false, "
            f"output_unsigned = false}}> "
            f": (tensor<{final}xi32>, tensor<{len(m)}xi32>, tensor<{len(m)}xi8>, tensor<1xi32>, tensor<1xi8>) "
            f"-> tensor<{final}xi8>"
        )
        y = "%y"
        if self.bounds is not None:
            low, high = self.bounds
            y = "%c"
            lines.append(f'%c = "tosa.clamp"(%y) <{{min_val = {low} : i8, max_val = {high} : i8}}> : '
                         f"(tensor<{final}xi8>) -> tensor<{final}xi8>")  # fmt: skip
        lines.append(f"func.return {y} : tensor<{final}xi8>")
        return f"func.func @{self.name}({', '.join(arguments)}) -> tensor<{final}xi8> {{\n" + "\n".join(lines) + "\n}\n"

    def _weighted(
        self, rng: np.random.Generator, arguments: list[str], shape: str, result: str, weights: str, channels: int
    ) -> list[str]:
        array = rng.integers(-127, 128, tuple(map(int, weights.split("x"))))
        lines = [f"%w = {dense(array, 'i8')}"]
        if self.computed:
            arguments.append(f"%b: tensor<{channels}xi32>")
        else:
            lines.append(f"%b = {dense(rng.integers(-9000, 9000, channels), 'i32')}")
        name, window = (
            ("depthwise_conv2d", "1, 1, 0, 0") if self.kind == "depthwise_conv2d" else ("conv2d", "1, 1, 0, 0")
        )
        window = "0, 0, 0, 0" if self.kind == "dense" else window
        lines.append(
            f'%sums = "tosa.{name}"(%x, %w, %b, %xz, %wz) <{{pad = array<i64: {window}>, stride = array<i64: 1, 1>, '
            f"dilation = array<i64: 1, 1>, acc_type = i32}}> : (tensor<{shape}xi8>, tensor<{weights}xi8>, "
            f"tensor<{channels}xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<{result}xi32>"
        )
        return lines


SHAPES = {
    "conv2d": ("1x4x5x2", "1x4x4x3", "3x3x2x2"),
    "depthwise_conv2d": ("1x4x5x2", "1x4x4x4", "3x2x2x2"),
    "dense": ("3x1x1x6", "3x1x1x4", "4x1x1x6"),
    "matmul": ("2x3x4", "2x3x5", ""),
}
"""Kind → the shapes of data, of sums and of weights."""

KINDS: dict[str, type[Any]] = {
    "conv2d": nn.Conv2DOp,
    "depthwise_conv2d": nn.DepthwiseConv2DOp,
    "dense": nn.FullyConnectedOp,
    "matmul": nn.MatMulOp,
}


def parsed(text: str) -> ModuleOp:
    module = parse_text(make_context(), text, "net.mlir")
    verify(module)
    return module


def read(text: str) -> ModuleOp:
    module = Pipeline("tosa-to-nn")(parsed(text))
    verify(module)
    return module


def inputs_of(module: ModuleOp) -> list[Array]:
    rng = np.random.default_rng(5)
    arrays: list[Array] = []
    for argument in main_function(module).body.block.args:
        shape: tuple[int, ...] = argument.type.get_shape()  # type: ignore[attr-defined]
        most, dtype = (128, np.int8) if str(argument.type).endswith("xi8>") else (999, np.int32)
        arrays.append(rng.integers(-most, most, shape).astype(dtype))
    return arrays


def check_bits(text: str) -> ModuleOp:
    """Reads a module; what is read computes what the specification says, by the reference and in machine code."""
    source, module = parsed(text), read(text)
    inputs = inputs_of(source)
    (expected,) = specification.evaluate(main_function(source), inputs)
    (got,) = evaluate(main_function(to_integers(module)), inputs)
    np.testing.assert_array_equal(got, expected)
    signature = {f"input{i}": x for i, x in enumerate(inputs)}
    named = dict(zip([s.name for s in qmlir.compile(module).signature.inputs], signature.values(), strict=True))
    np.testing.assert_array_equal(qmlir.compile(module)(named), expected)
    return module


def layers(module: ModuleOp) -> list[Any]:
    """The quantized layers of a module."""
    return [op for op in module.walk() if isinstance(op, tuple(KINDS.values()))]


EACH = [
    Net("conv2d"),
    Net("conv2d", (1518500250, 1 << 30, 2147483647), (40, 41, 42)),
    Net("conv2d", bounds=(-7, 100)),
    Net("conv2d", points=(-128, 0, 127)),
    Net("conv2d", points=(3, 9, -7)),
    Net("conv2d", (3 << 18,), (30,)),
    Net("conv2d", mode="INEXACT_ROUND"),
    Net("depthwise_conv2d"),
    Net("depthwise_conv2d", (1518500250, 1 << 30, 2147483647, 1234567890), (40, 41, 42, 39)),
    Net("dense"),
    Net("dense", (1518500250, 1 << 30, 2147483647, 1234567890), (40, 41, 42, 39)),
    Net("matmul"),
    Net("matmul", (1999999999,), (40,), (3, -5, 9), bounds=(-100, 9)),
]


@pytest.mark.parametrize("net", EACH, ids=str)
def test_a_layer_with_exactly_these_parameters(net: Net) -> None:
    module = check_bits(net.text())
    (layer,) = layers(module)
    assert isinstance(layer, KINDS[net.kind])
    assert (uniform(layer.data_operands()[0]).zero_point, uniform(layer.y).zero_point) == (net.points[0], net.points[2])
    (requantize,) = [op for op in to_integers(module).walk() if isinstance(op, qint.RequantizeOp)]
    factors = [
        m * 2.0 ** (s - 31)
        for m, s in zip(requantize.multiplier.get_values(), requantize.shift.get_values(), strict=True)
    ]
    assert factors == [m * 2.0**-s for m, s in zip(net.multiplier, net.shift, strict=True)]
    assert requantize.contract.data == "single"
    assert (requantize.lower.value.data, requantize.upper.value.data) == (net.bounds or (-128, 127))


def test_a_layer_has_the_names_of_what_it_stands_for() -> None:
    (layer,) = layers(read(Net("conv2d", bounds=(-7, 100)).text()))
    names = names_of(layer)
    assert (names.tensors, names.absorbed) == (("c",), ("sums", "y"))


@pytest.mark.parametrize("kind", ["conv2d", "depthwise_conv2d", "dense", "matmul"])
def test_rounding_twice_follows_the_reference_of_litert(kind: str) -> None:
    module = check_bits(Net(kind, mode="DOUBLE_ROUND").text())
    assert len(layers(module)) == 1
    assert NUMERICS.of(module) == "litert-reference"
    (requantize,) = [op for op in to_integers(module).walk() if isinstance(op, qint.RequantizeOp)]
    assert requantize.contract.data == "double"


def test_rounding_twice_without_a_second_step_is_rounding_once() -> None:
    module = check_bits(Net("conv2d", shift=(31,), multiplier=(1 << 20,), mode="DOUBLE_ROUND").text())
    assert len(layers(module)) == 1
    assert not NUMERICS.on(module)


KEPT = {
    "a factor of zero": Net("conv2d", (0, 1 << 30, 1 << 30), (40, 41, 42)),
    "a computed bias": Net("conv2d", computed=True),
    "a second rounding whose shift is not that of a contract": Net("conv2d", (3,), (33,), mode="DOUBLE_ROUND"),
    "matrices with a factor of zero": Net("matmul", (0,), (40,)),
}


@pytest.mark.parametrize("net", KEPT.values(), ids=KEPT)
def test_the_rest_stays_integers(net: Net) -> None:
    module = check_bits(net.text())
    assert not layers(module)


def test_rounding_once_and_twice_in_one_module() -> None:
    """The layers that round as by default are layers; those that round twice stay integers."""
    once, twice = Net("conv2d").text(), Net("conv2d", mode="DOUBLE_ROUND", name="other").text()
    module = read(once + twice)
    assert not NUMERICS.on(module)
    (layer,) = layers(module)
    assert layer.parent_op().sym_name.data == "main"
    others = [op for op in module.walk() if isinstance(op, qint.RequantizeOp)]
    assert [op.contract.data for op in others] == ["double"]


@pytest.mark.slow
@given(
    st.sampled_from(["conv2d", "dense", "matmul", "depthwise_conv2d"]),
    st.sampled_from(["SINGLE_ROUND", "DOUBLE_ROUND"]),
    st.integers(1, (1 << 31) - 1),
    st.integers(20, 62),
    st.tuples(st.integers(-128, 127), st.just(0), st.integers(-128, 127)),
    st.none() | st.tuples(st.integers(-128, 0), st.integers(0, 127)),
)
def test_factors_of_every_size(
    kind: str, mode: str, multiplier: int, shift: int, points: tuple[int, int, int], bounds: tuple[int, int] | None
) -> None:
    """Layers or not, the bits are those of the specification."""
    net = replace(Net(kind), multiplier=(multiplier,), shift=(shift,), points=points, mode=mode, bounds=bounds)
    source, module = parsed(net.text()), read(net.text())
    inputs = inputs_of(source)
    if multiplier >> max(shift - 30, 0) > 1 << 10:  # the specification leaves results beyond 32 bits open
        return
    (expected,) = specification.evaluate(main_function(source), inputs)
    (got,) = evaluate(main_function(to_integers(module)), inputs)
    np.testing.assert_array_equal(got, expected)


TWO = """
func.func @main(%x: tensor<1x4x4x1xi8>) -> tensor<1x2x2x1xi8> {
  %z = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
  %o = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %w = "tosa.const"() <{values = dense<[[[[3]]]]> : tensor<1x1x1x1xi8>}> : () -> tensor<1x1x1x1xi8>
  %b = "tosa.const"() <{values = dense<[7]> : tensor<1xi32>}> : () -> tensor<1xi32>
  %zero = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %n = "tosa.const"() <{values = dense<31> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.conv2d"(%x, %w, %b, %z, %o) <{pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = i32}> : (tensor<1x4x4x1xi8>, tensor<1x1x1x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x1xi32>
  %1 = "tosa.rescale"(%0, %m, %n, %zero, %z) <{scale32 = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, per_channel = false, input_unsigned = false, output_unsigned = false}> : (tensor<1x4x4x1xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x4x4x1xi8>
  %2 = "tosa.max_pool2d"(%1) <{kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>}> : (tensor<1x4x4x1xi8>) -> tensor<1x2x2x1xi8>
  %3 = "tosa.conv2d"(%2, %w, %b, %z, %o) <{pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = i32}> : (tensor<1x2x2x1xi8>, tensor<1x1x1x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x1xi32>
  %4 = "tosa.rescale"(%3, %m, %n, %zero, %z) <{scale32 = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, per_channel = false, input_unsigned = false, output_unsigned = false}> : (tensor<1x2x2x1xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x2x1xi8>
  func.return %4 : tensor<1x2x2x1xi8>
}
"""  # noqa: E501


def test_data_stay_quantized_from_layer_to_layer(tmp_path: Path) -> None:
    """Only the function's own argument and result are cast."""
    check_bits(TWO)
    (tmp_path / "two.mlir").write_text(TWO, encoding="utf-8")
    module = qmlir.load(tmp_path / "two.mlir")
    names = [op.name for op in main_function(module).body.block.ops if op.name != "nn.constant"]
    assert names == ["quant.scast", "nn.conv2d", "nn.max_pool2d", "nn.conv2d", "quant.scast", "func.return"]
