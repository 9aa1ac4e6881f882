"""Quantized networks in LiteRT's reference kernels against our integers that round as they do."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.dialects import nn
from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.errors import QmlirError, UnsupportedError
from qmlir.frontends.tflite import load_tflite
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.source import parse_text
from qmlir.numerics.schemas import Schema
from qmlir.policies.runtimes import follow
from qmlir.stages import IMPORTED
from tests.backends.quantized_text import I8, I16, U8, network, numbers, unary
from tests.backends.tflite.runtime import Array, LiteRT, kinds, parameters
from tests.backends.tflite.test_samples import BY_DEFAULT, MISSING, refusal
from tests.conftest import crossed
from tests.frontends.tflite.cases import IN_FORMATS, Case
from tests.frontends.tflite.files import litert
from tests.ops.samples import NN_SAMPLES, Sample
from tests.ops.test_nominal import module_of, quantized_operands, result_type

pytestmark = pytest.mark.filterwarnings("ignore")

NUMERICS = "litert-reference"

BETWEEN_CASTS = {
    "nn.resize-rows_and_columns": "weighted sums on floats",
    "nn.resize-channels_first": "weighted sums on floats",
}
"""Samples that are a step off where float32 is not exact, and why."""

OTHERS = {
    nn.NegOp: "LiteRT's own negates the stored integers whatever they stand for; exported, it is one of real numbers",
    nn.AttendOp: "exported, it is a softmax, whose probabilities are rounded, and a matrix product",
    nn.LocalResponseNormalizationOp: "LiteRT's reference kernel leaves out a neighbour",
}
"""Operations that are not compared, and why."""


def takes_quantized(op: type[TensorOp]) -> bool:
    return issubclass(op, MovementOp) or (issubclass(op, NNOp) and Elements.QUANTIZED in op.ELEMENTS)


OTHERS_GO_OUT = {"SUM", "DIV"}
"""Operators whose integer kernels, which wrap around or leave divisions by 0 open, are not what goes out."""


def has_form(sample: Sample) -> bool:
    """Whether an operation goes out on bytes; functions that TFLite lacks are tables of these."""
    return refusal(sample) is None or (sample.op in MISSING and issubclass(sample.op, FunctionOp))


QUANTIZED = [s for s in NN_SAMPLES if takes_quantized(s.op) and s.op not in OTHERS and has_form(s)]


@crossed({"sample": QUANTIZED, "schema": ["asymmetric", "symmetric"]})
def test_a_sample_has_litert_s_integers(sample: Sample, schema: Schema, tmp_path: Path) -> None:
    """And its file, read again, means what LiteRT computes of it."""
    path, float_op = tmp_path / "sample.tflite", sample.build()
    for seed, per_channel in enumerate([False, True] if issubclass(sample.op, WeightedOp) else [False]):
        operands = quantized_operands(float_op, sample.arrays(seed), schema, per_channel=per_channel)
        (real,) = float_op.evaluate(*(q.real for q in operands))
        module = module_of(sample, operands, result_type(float_op, operands, real, schema))
        qmlir.export(module, path, format="tflite")
        follow(module, NUMERICS)
        inputs = [q.stored for q in operands[: sample.inputs]]
        (ours,) = evaluate(main_function(to_integers(module)), inputs)
        (theirs,) = LiteRT(path, reference=sample.op not in BY_DEFAULT).run(inputs)
        assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
        off = np.abs(theirs.astype(int) - ours.astype(int)).max(initial=0)
        assert off <= (1 if str(sample) in BETWEEN_CASTS else 0)
        again = to_integers(qmlir.load(path, numerics=NUMERICS))
        np.testing.assert_array_equal(evaluate(main_function(again), inputs)[0], theirs)


# ---------------------------------------------------------------------------------------------------------------
# TFLite's operators in and out again


def imported(case: Case, format: str) -> ModuleOp:
    return Pipeline(*IMPORTED)(load_tflite(case.build(format)))


@crossed({"case, format": IN_FORMATS})
def test_litert_computes_the_same_of_a_file_that_came_back(case: Case, format: str, tmp_path: Path) -> None:
    """Unless it has become an operation of nn that TFLite lacks, which the error says."""
    path = tmp_path / "again.tflite"
    if (said := refused(imported(case, format), path)) is not None:
        assert re.search(LACKING, said)
        return
    inputs, on_floats = case.data(format, np.random.default_rng(0)), "DEQUANTIZE" in kinds(path)
    others, reference = case.kind in OTHERS_GO_OUT, case.reference
    expected = litert(case.build(format), inputs, reference=reference)
    if format != "float32" and (on_floats or others):  # LiteRT's integers are those of another algorithm
        module, reference = imported(case, format), reference or others
        follow(module, NUMERICS)
        expected = qmlir.reference(module).run(dict(zip(names(path), inputs, strict=True)))
    for a, b in zip(expected, LiteRT(path, reference=reference).run(inputs), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.kind == "f":
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5 * np.abs(a).max(initial=0))
        else:
            assert np.abs(a.astype(int) - b.astype(int)).max(initial=0) <= (others and on_floats)


def names(path: Path) -> list[str]:
    """The names of a file's inputs."""
    return [detail["name"] for detail in LiteRT(path).inputs]


LACKING = (
    "must be an? (operation|function) that TFLite has|must have the divisor's sign|needs divisors that are constant"
    "|must have results whose sizes do not depend on the data"
    "|needs constant indices|must be stored in signed or unsigned bytes|as data of TFLite's"
)


def refused(module: ModuleOp, path: Path) -> str | None:
    """What the error says, if a module has no form in TFLite."""
    try:
        qmlir.export(module, path, format="tflite")
    except UnsupportedError as error:
        return str(error)
    return None


# ---------------------------------------------------------------------------------------------------------------
# The form of what is quantized


def passed_on(element: str) -> ModuleOp:
    """A network that does nothing."""
    x = f"tensor<2x3x{element}>"
    return network(f"func.func @main(%x: {x}) -> {x} {{ func.return %x : {x} }}")


def check(module: ModuleOp, path: Path, x: Array) -> list[str]:
    """Exports a module and compares; the operators."""
    qmlir.export(module, path, format="tflite")
    follow(module, NUMERICS)
    np.testing.assert_array_equal(LiteRT(path).run([x])[0], qmlir.reference(module)(x))
    return kinds(path)


@pytest.mark.parametrize("element", [I8, U8])
@pytest.mark.parametrize(
    ("operation", "more", "expected"),
    [
        ("nn.relu", "", ["RELU"]),
        ("nn.clamp", "{min = 0.0 : f32, max = 6.0 : f32}", ["RELU6"]),
        ("nn.clamp", "{min = 0.0 : f32, max = 3.1 : f32}", ["MAXIMUM", "MINIMUM"]),
        ("nn.clamp", "{max = 3.1 : f32}", ["MINIMUM"]),
        ("nn.clamp", "{min = -0.2 : f32, max = 0.2 : f32}", ["MAXIMUM", "MINIMUM"]),
        ("nn.clamp", "{min = -500.0 : f32, max = 500.0 : f32}", []),
        ("nn.clamp", "{min = -3.4028234663852886e38 : f32, max = 3.4028234663852886e38 : f32}", []),
    ],
)
def test_clamps(element: str, operation: str, more: str, expected: list[str], tmp_path: Path) -> None:
    found = check(unary(element, operation, more), tmp_path / "m.tflite", numbers(2, 3, 4))
    assert found == ["QUANTIZE", *expected, "DEQUANTIZE"]


@pytest.mark.parametrize(
    ("clamp", "zero_point", "expected"),
    [
        ("min = 0.0 : f32, ", -100, 1),
        ("min = 0.0 : f32, max = 6.0 : f32, ", -100, 3),
        ("min = -1.0 : f32, max = 1.0 : f32, ", 0, 2),
        ("", 0, 0),
        ("max = 5000.0 : f32, ", 0, 0),  # which saturation does
        ("min = 0.0 : f32, max = 2.5 : f32, ", 0, None),
    ],
)
def test_fused_clamps(clamp: str, zero_point: int, expected: int | None, tmp_path: Path) -> None:
    y = f"tensor<1x4x4x2x!quant.uniform<i8:f32, 0.1:{zero_point}>>"
    x = f"tensor<1x4x4x2x{I8}>"
    module = network(f"""
      func.func @main(%a: {x}) -> {y} {{
        %y = nn.add %a, %a {{{clamp}qmlir.name = #qmlir.name<tensors ["sum"]>}} : {x}, {x} -> {y}
        func.return %y : {y}
      }}""")
    found = check(module, tmp_path / "m.tflite", np.arange(-16, 16).astype(np.int8).reshape(1, 4, 4, 2))
    assert found == (["ADD"] if expected is not None else ["ADD", "MAXIMUM", "MINIMUM"])
    assert activation(tmp_path / "m.tflite") == (expected or 0)


def test_a_bound_beyond_32_bits_is_no_activation(tmp_path: Path) -> None:
    """LiteRT stops where 6 is more than 2^31 steps of the result, though no integer gets there."""
    x, y = f"tensor<2x4x{I8}>", "tensor<2x1x!quant.uniform<i8:f32, 1.0e-9:-128>>"
    module = network(f"""
      func.func @main(%x: {x}) -> {y} {{
        %w = nn.constant <tensor<1x4xi8>, [1, 2, 3, 4]> : tensor<1x4x!quant.uniform<i8<-127:127>:f32, 1.0e-9>>
        %y = nn.fully_connected %x, %w {{min = 0.0 : f32, max = 6.0 : f32}} :
          {x}, tensor<1x4x!quant.uniform<i8<-127:127>:f32, 1.0e-9>> -> {y}
        func.return %y : {y}
      }}""")
    check(module, tmp_path / "m.tflite", np.arange(-4, 4).astype(np.int8).reshape(2, 4))
    assert activation(tmp_path / "m.tflite") == 0


def test_a_bound_halfway_between_two_integers(tmp_path: Path) -> None:
    """Half away from zero under LiteRT's numerics: 6 / 4 is 2, and 1 / 0.4 is 3, which by default is 2."""
    six, one = "{min = 0.0 : f32, max = 6.0 : f32}", "{min = -1.0 : f32, max = 1.0 : f32}"
    coarse, fine = "!quant.uniform<i8:f32, 4.0>", "!quant.uniform<i8:f32, 0.4>"
    assert "RELU6" in check(unary(coarse, "nn.clamp", six), tmp_path / "m.tflite", numbers(2, 3, 4))
    found = check(unary(fine, "nn.clamp", one), tmp_path / "m.tflite", numbers(2, 3, 4))
    assert found == ["QUANTIZE", "RELU_N1_TO_1", "DEQUANTIZE"]


@pytest.mark.parametrize("element", [I8, U8, I16])
@pytest.mark.parametrize(
    ("pads", "pools"), [("1, 1, 1, 1", 1), ("2, 0, 1, 1", 9), ("0, 2, 2, 0", 9), ("2, 0, 2, 0", 9)]
)
def test_average_pools(element: str, pads: str, pools: int, tmp_path: Path) -> None:
    """Windows that padding without a name cuts off are pools of their own."""
    window = f"{{window = array<i64: 3, 3>, padding = array<i64: {pads}>}}"
    module = unary(element, "nn.average_pool2d", window, shape="2x5x7x3")
    found = check(module, tmp_path / "m.tflite", numbers(2, 5, 7, 3))
    assert [found.count(kind) for kind in ("AVERAGE_POOL_2D", "QUANTIZE", "DEQUANTIZE")] == [pools, 1, 1]


@pytest.mark.parametrize(
    ("element", "result", "expected"),
    [
        (I8, "", ["QUANTIZE", "CAST", "ADD", "GATHER", "DEQUANTIZE"]),
        (U8, "", ["QUANTIZE", "CAST", "GATHER", "DEQUANTIZE"]),
        (U8, I8, ["QUANTIZE", "CAST", "ADD", "GATHER", "DEQUANTIZE"]),
        (
            I8,
            "!quant.uniform<i8<-100:50>:f32, 0.015625:7>",
            ["QUANTIZE", "CAST", "ADD", "GATHER", "DEQUANTIZE"],
        ),
    ],
)
@pytest.mark.parametrize("operation", ["nn.erf", "nn.reciprocal", "nn.softplus", "nn.floor"])
def test_functions_that_litert_lacks_are_tables(
    operation: str, element: str, result: str, expected: list[str], tmp_path: Path
) -> None:
    """Of bytes, all 256 of them."""
    module = unary(element, operation, result=result, shape="256")
    every = (np.arange(256, dtype=np.float32) - 125) / 2
    assert check(module, tmp_path / "m.tflite", every) == expected


@pytest.mark.parametrize("element", [I8, U8])
def test_a_softmax_along_another_axis_stays_in_integers(element: str, tmp_path: Path) -> None:
    result = "!quant.uniform<i8:f32, 0.00390625:-128>" if element == I8 else "!quant.uniform<u8:f32, 0.00390625>"
    module = unary(element, "nn.softmax", "{axis = 1 : i64}", result=result)
    found = check(module, tmp_path / "m.tflite", numbers(2, 3, 4) / 10)
    assert found == ["QUANTIZE", "TRANSPOSE", "SOFTMAX", "TRANSPOSE", "DEQUANTIZE"]


@pytest.mark.parametrize("element", [I8, U8])
@pytest.mark.parametrize("axes", [[2], [1], [0, 2], [0, 1, 2]])
def test_sums_are_products_with_ones(element: str, axes: list[int], tmp_path: Path) -> None:
    """Which do not wrap around as LiteRT's SUM of bytes does."""
    data, result = np.full((2, 3, 4), 60, np.float32), element.replace("0.5", "1.25")
    data[0] -= numbers(3, 4)
    x, y = f"tensor<2x3x4x{element}>", f"tensor<{'x'.join('1' if i in axes else n for i, n in enumerate('234'))}x"
    module = network(f"""
      func.func @main(%x: tensor<2x3x4xf32>) -> {y}f32> {{
        %q = quant.qcast %x : tensor<2x3x4xf32> to {x}
        %s = nn.reduce_sum %q {{axes = array<i64: {", ".join(map(str, axes))}>}} : {x} -> {y}{result}>
        %y = quant.dcast %s : {y}{result}> to {y}f32>
        func.return %y : {y}f32>
      }}""")
    found = check(module, tmp_path / "m.tflite", data)
    assert "DEPTHWISE_CONV_2D" in found
    assert (found.count("QUANTIZE"), found.count("DEQUANTIZE")) == (1, 1)


def activation(path: Path) -> int:
    """The fused activation of the first operator, an ADD."""
    import tflite

    schema: Any = tflite
    operator, options = schema.Model.GetRootAs(path.read_bytes()).Subgraphs(0).Operators(0), schema.AddOptions()
    options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
    return options.FusedActivationFunction()


def test_rows_at_constant_places(tmp_path: Path) -> None:
    """The last of several that are written to one place counts."""
    x, u = f"tensor<4x3x{I8}>", f"tensor<3x3x{I8}>"
    module = network(f"""
      func.func @main(%x: {x}, %u: {u}) -> {x} {{
        %i = nn.constant <tensor<3x1xi64>, [2, -1, 2]> : tensor<3x1xi64>
        %y = nn.scatter_nd %x, %u, %i : {x}, {u}, tensor<3x1xi64> -> {x}
        func.return %y : {x}
      }}""")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    a, b = np.arange(12).astype(np.int8).reshape(4, 3), np.arange(-9, 0).astype(np.int8).reshape(3, 3)
    (found,) = LiteRT(tmp_path / "m.tflite").run([a, b])
    np.testing.assert_array_equal(found, [a[0], a[1], b[2], b[1]])


def test_a_narrow_range_is_clamped(tmp_path: Path) -> None:
    """TFLite saturates at the ends of a type only."""
    module = unary(I8, "nn.requantize", result="!quant.uniform<i8<-100:50>:f32, 0.25:7>")
    assert check(module, tmp_path / "m.tflite", numbers(2, 3, 4)) == [
        "QUANTIZE", "QUANTIZE", "MAXIMUM", "MINIMUM", "DEQUANTIZE",
    ]  # fmt: skip


def convolution(x: str, w: str, y: str, pads: str = "0, 0, 0, 0", bias: str = "tensor<2xi32>") -> ModuleOp:
    """A convolution with weights [2, 3, 3, 2] and a bias."""
    kept = "i16" if "<i16" in w else "ui8" if "<u8" in w else "i8"
    integer = bias.removeprefix("tensor<2x").split(":")[0].removeprefix("!quant.uniform<").rstrip(">")
    low = 1 if kept == "ui8" else -4
    elements = ", ".join(str(low + i % 9) for i in range(36))
    return network(
        f"""
      func.func @main(%x: tensor<1x5x5x2x{x}>) -> tensor<1x?x?x2x{y}> {{
        %w = nn.constant <tensor<2x3x3x2x{kept}>, [{elements}]> : tensor<2x3x3x2x{w}>
        %b = nn.constant <tensor<2x{integer}>, [100, -70]> {{qmlir.name = #qmlir.name<tensors ["b"]>}} : {bias}
        %c = nn.conv2d %x, %w, %b {{padding = array<i64: {pads}>, qmlir.name = #qmlir.name<tensors ["c"]>}}
           : tensor<1x5x5x2x{x}>, tensor<2x3x3x2x{w}>, {bias} -> tensor<1x?x?x2x{y}>
        func.return %c : tensor<1x?x?x2x{y}>
      }}""".replace("?", "3" if pads == "0, 0, 0, 0" else "5")
    )


PER_CHANNEL = "!quant.uniform<i8<-127:127>:f32:0, {0.25, 0.125}>"


@pytest.mark.parametrize(
    ("pads", "expected"),
    [("0, 0, 0, 0", ["CONV_2D"]), ("1, 1, 1, 1", ["CONV_2D"]), ("2, 0, 1, 1", ["PAD", "CONV_2D"])],
)
def test_convolutions(pads: str, expected: list[str], tmp_path: Path) -> None:
    """Padding that is SAME has a name; any other is an operator that pads with the zero point."""
    y, bias = "!quant.uniform<i8:f32, 1.5:-128>", "tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>"
    module = convolution(I8, PER_CHANNEL, y, pads, bias)
    x = np.random.default_rng(0).integers(-128, 128, (1, 5, 5, 2)).astype(np.int8)
    assert check(module, tmp_path / "m.tflite", x) == expected
    found = parameters(tmp_path / "m.tflite")
    assert [found["b"][0].tolist(), found["b"][1].tolist()] == [[0.125, 0.0625], [0, 0]]
    assert [found["output0"][0].tolist(), found["output0"][1].tolist()] == [[1.5], [-128]]


def test_unsigned_bytes_beside_signed_weights_are_moved(tmp_path: Path) -> None:
    """Inside every integer and zero point is 128 less; the network's own inputs and outputs stay."""
    y = "!quant.uniform<u8:f32, 1.5>"
    x = np.random.default_rng(0).integers(0, 256, (1, 5, 5, 2)).astype(np.uint8)
    found = check(convolution(U8, PER_CHANNEL, y), tmp_path / "m.tflite", x)
    assert found == ["QUANTIZE", "CONV_2D", "QUANTIZE"]


FACTOR = "!quant.uniform<u8:f32, 0.03125:7>"


@pytest.mark.parametrize("element", [I8, U8])
def test_a_sum_of_bytes_in_16_bits_goes_on_floats(element: str, tmp_path: Path) -> None:
    """LiteRT's convolutions have results as wide as their data."""
    x, y = f"tensor<2x3x4x{element}>", f"tensor<2x1x4x{I16}>"
    module = network(f"""
      func.func @main(%x: {x}) -> {y} {{
        %y = nn.reduce_sum %x {{axes = array<i64: 1>}} : {x} -> {y}
        func.return %y : {y}
      }}""")
    data = np.random.default_rng(0).integers(0, 128, (2, 3, 4)).astype(np.int8 if element == I8 else np.uint8)
    assert check(module, tmp_path / "m.tflite", data) == ["DEQUANTIZE", "SUM", "QUANTIZE"]


def test_a_layer_of_16_bits_with_a_result_of_bytes_rounds_twice(tmp_path: Path) -> None:
    """LiteRT's convolutions have results as wide as their data, which a QUANTIZE rounds once more."""
    module = convolution(I16, "!quant.uniform<i8:f32, 0.25>", "!quant.uniform<i8:f32, 0.375:-3>")
    qmlir.export(module, path := tmp_path / "m.tflite")
    assert kinds(path) == ["CONV_2D", "QUANTIZE"]
    follow(module, NUMERICS)
    theirs, ours, random = LiteRT(path), qmlir.reference(module), np.random.default_rng(0)
    data = random.integers(-600, 600, (200, 1, 5, 5, 2)).astype(np.int16)
    off = np.concatenate([theirs.run([x])[0].astype(int) - ours(x) for x in data])
    assert np.abs(off).max() == 1
    assert 0 < np.count_nonzero(off) < off.size / 32


BEHIND = {
    "nothing": "",
    "a square root": "%y = nn.sqrt %c : {t} -> {t}",
    "an exponential": "%y = nn.exp %c : {t} -> {t}",
    "a table": "%y = nn.gelu %c : {t} -> {t}",
    "a pool": "%y = nn.average_pool2d %c {{window = array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 1>}} : {t} -> {t}",
    "a product with a number": f"""
        %f = nn.constant <tensor<ui8>, [45]> : tensor<{FACTOR}>
        %y = nn.mul %c, %f : {{t}}, tensor<{FACTOR}> -> {{t}}""",
    "a mean": "%y = nn.global_average_pool %c : {t} -> tensor<1x1x1x2x{y}>",
}
"""What follows a convolution of unsigned bytes by signed weights, on its type {t}."""


def unsigned_behind(kind: str) -> ModuleOp:
    """A convolution of unsigned bytes by signed weights, and what follows it on unsigned bytes."""
    x, w = "!quant.uniform<u8:f32, 0.0078125:3>", "!quant.uniform<i8<-127:127>:f32:0, {0.79, 0.7}>"
    y = "!quant.uniform<u8:f32, 0.15>"
    t = f"tensor<1x5x5x2x{y}>"
    end = f"tensor<1x1x1x2x{y}>" if kind == "a mean" else t
    text = BEHIND[kind].format(t=t, y=y)
    return network(f"""
      func.func @main(%x: tensor<1x5x5x1x{x}>) -> {end} {{
        %w = nn.constant <tensor<2x1x1x1xi8>, [24, 40]> : tensor<2x1x1x1x{w}>
        %c = nn.conv2d %x, %w : tensor<1x5x5x1x{x}>, tensor<2x1x1x1x{w}> -> {t}
        {text}
        func.return {"%y" if text else "%c"} : {end}
      }}""")


@pytest.mark.parametrize("kind", BEHIND)
def test_unsigned_bytes_beside_signed_weights_round_as_signed_ones(kind: str, tmp_path: Path) -> None:
    """LiteRT's kernels for unsigned bytes are others, such as that of sqrt, which it lacks."""
    module, x = unsigned_behind(kind), np.random.default_rng(0).integers(0, 256, (1, 5, 5, 1)).astype(np.uint8)
    check(module, tmp_path / "m.tflite", x)
    again = qmlir.load(tmp_path / "m.tflite", numerics=NUMERICS)
    np.testing.assert_array_equal(qmlir.reference(again)(x), qmlir.reference(module)(x))
    np.testing.assert_array_equal(qmlir.compile(module)(x), qmlir.reference(module)(x))


@pytest.mark.parametrize(("data", "result"), [(I16, U8), (U8, I16)])
def test_unsigned_bytes_beside_16_bits_are_moved(data: str, result: str, tmp_path: Path) -> None:
    """LiteRT's QUANTIZE changes between 16 bits and signed bytes only."""
    module, x = unary(data, "nn.requantize", "", result), numbers(2, 3, 4)
    follow(module, "litert-reference")
    path = tmp_path / "m.tflite"
    qmlir.export(module, path)
    np.testing.assert_array_equal(LiteRT(path).run([x])[0], qmlir.reference(module)(x))


def test_a_product_of_16_bits_with_a_result_of_unsigned_bytes_is_moved(tmp_path: Path) -> None:
    """BATCH_MATMUL ends in 16 bits, which QUANTIZE makes signed bytes only."""
    x, w, y = I16, "!quant.uniform<i16:f32, 0.5>", "!quant.uniform<u8:f32, 8192.0:128>"
    module = network(f"""
      func.func @main(%a: tensor<2x3x4x{x}>, %b: tensor<2x4x2x{w}>) -> tensor<2x3x2x{y}> {{
        %y = nn.matmul %a, %b : tensor<2x3x4x{x}>, tensor<2x4x2x{w}> -> tensor<2x3x2x{y}>
        func.return %y : tensor<2x3x2x{y}>
      }}""")
    follow(module, "litert-reference")
    rng = np.random.default_rng(0)
    data = [rng.integers(-32768, 32768, shape).astype(np.int16) for shape in ((2, 3, 4), (2, 4, 2))]
    qmlir.export(module, tmp_path / "m.tflite")
    expected = qmlir.reference(module)({"input0": data[0], "input1": data[1]})
    np.testing.assert_array_equal(LiteRT(tmp_path / "m.tflite").run(data)[0], expected)


def test_a_network_of_unsigned_bytes_stays(tmp_path: Path) -> None:
    module = convolution(U8, "!quant.uniform<u8:f32, 0.25:3>", "!quant.uniform<u8:f32, 1.5>")
    x = np.random.default_rng(0).integers(0, 256, (1, 5, 5, 2)).astype(np.uint8)
    assert check(module, tmp_path / "m.tflite", x) == ["CONV_2D"]


def test_a_network_that_returns_both_kinds_of_bytes_keeps_them(tmp_path: Path) -> None:
    """Each of its operations has bytes of one kind, for which LiteRT has a kernel."""
    module = network(f"""
      func.func @main(%x: tensor<4x{U8}>, %z: tensor<4x{I8}>) -> (tensor<4x{U8}>, tensor<4x{I8}>) {{
        %y = nn.relu %x : tensor<4x{U8}> -> tensor<4x{U8}>
        %t = nn.relu %z : tensor<4x{I8}> -> tensor<4x{I8}>
        func.return %y, %t : tensor<4x{U8}>, tensor<4x{I8}>
      }}""")
    data = [np.array([0, 3, 99, 255], np.uint8), np.array([-128, 0, 3, 99], np.int8)]
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    follow(module, NUMERICS)
    ours = qmlir.reference(module).run({"input0": data[0], "input1": data[1]})
    for found, expected in zip(LiteRT(tmp_path / "m.tflite").run(data), ours, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert kinds(tmp_path / "m.tflite") == ["RELU", "RELU"]


def layer(kind: str, bias: str) -> ModuleOp:
    """A contraction of 16-bit data with 8-bit weights and a bias of some width."""
    x, y = "!quant.uniform<i16:f32, 0.001>", "!quant.uniform<i16:f32, 0.0137>"
    shapes = {
        "nn.conv2d": ("1x5x5x4", "4x3x3x4", "1x3x3x4", 0),
        "nn.depthwise_conv2d": ("1x5x5x4", "1x3x3x4", "1x3x3x4", 3),
        "nn.fully_connected": ("3x20", "4x20", "3x4", 0),
    }
    data, filters, result, axis = shapes[kind]
    count = int(np.prod([int(d) for d in filters.split("x")]))
    elements = ", ".join(map(str, np.random.default_rng(1).integers(-127, 128, count)))
    w = f"tensor<{filters}x!quant.uniform<i8<-127:127>:f32:{axis}, {{0.25, 0.125, 0.3, 0.22}}>>"
    return network(f"""
      func.func @main(%x: tensor<{data}x{x}>) -> tensor<{result}x{y}> {{
        %w = nn.constant <tensor<{filters}xi8>, [{elements}]> : {w}
        %b = nn.constant <tensor<4x{bias}>, [1000, -7000, 300, 12]> : tensor<4x{bias}>
        %c = {kind} %x, %w, %b : tensor<{data}x{x}>, {w}, tensor<4x{bias}> -> tensor<{result}x{y}>
        func.return %c : tensor<{result}x{y}>
      }}""")


@pytest.mark.parametrize(
    ("kind", "bias"),
    [
        ("nn.conv2d", "i64"), ("nn.conv2d", "i32"), ("nn.depthwise_conv2d", "i64"), ("nn.fully_connected", "i64"),
        ("nn.fully_connected", "i32"),
    ],
)  # fmt: skip
def test_a_bias_beside_16_bits_keeps_its_width(kind: str, bias: str, tmp_path: Path) -> None:
    """As LiteRT rounds by it."""
    module = layer(kind, bias)
    random = np.random.default_rng(0)
    for _ in range(5):
        x = random.integers(-32768, 32768, [int(d) for d in "1x5x5x4".split("x")] if "conv" in kind else [3, 20])
        assert len(check(module, tmp_path / "m.tflite", x.astype(np.int16))) == 1


def test_depthwise_convolutions_of_16_bits_have_a_bias_of_64(tmp_path: Path) -> None:
    """LiteRT takes no other, so that sums are its sums of 64 bits whatever the bias was."""
    x = np.random.default_rng(0).integers(-32768, 32768, (1, 5, 5, 4)).astype(np.int16)
    assert check(layer("nn.depthwise_conv2d", "i32"), tmp_path / "m.tflite", x) == ["DEPTHWISE_CONV_2D"]


def test_a_bias_of_64_bits_beside_bytes(tmp_path: Path) -> None:
    y = "!quant.uniform<i8:f32, 1.5:-128>"
    module = convolution(I8, PER_CHANNEL, y, bias="tensor<2xi64>")
    x = np.random.default_rng(0).integers(-128, 128, (1, 5, 5, 2)).astype(np.int8)
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    LiteRT(tmp_path / "m.tflite").run([x])
    text = str(module).replace("[100, -70]", "[100, 5000000000]")
    with pytest.raises(UnsupportedError, match="needs a bias of 32 bits, got one of 64"):
        qmlir.export(parse_text(make_context(), text, "test"), tmp_path / "n.tflite", format="tflite")


def test_weights_of_minus_128(tmp_path: Path) -> None:
    """TFLite's specification leaves them out, LiteRT does not."""
    text = str(convolution(I8, "!quant.uniform<i8:f32, 0.25>", "!quant.uniform<i8:f32, 1.5>"))
    module = parse_text(make_context(), text.replace("xi8>, [-4,", "xi8>, [-128,"), "test")
    x = np.random.default_rng(0).integers(-128, 128, (1, 5, 5, 2)).astype(np.int8)
    with pytest.warns(UserWarning, match="c: has weights of -128.* quantize the weights in the narrow range"):
        assert check(module, tmp_path / "m.tflite", x) == ["CONV_2D"]
    assert "-128, -3" in str(module)


DILATED = "{window = array<i64: 3, 3>, padding = array<i64: 3, 1, 2, 2>, dilations = array<i64: 2, 2>}"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (lambda: unary(I8, "nn.requantize", result="!quant.uniform<i32:f32, 0.5>"), "bytes, or in signed numbers"),
        (lambda: unary(I8, "nn.requantize", result="!quant.uniform<u16:f32, 0.5>"), "bytes, or in signed numbers"),
        (lambda: unary("!quant.uniform<i16:f32, 0.5:1>", "nn.relu"), "must have the zero point 0 in 16 bits"),
        (lambda: unary("!quant.uniform<i8:f32, 0.5:300>", "nn.relu"), "zero points that int8 holds"),
        (lambda: unary(I8, "nn.average_pool2d", DILATED, shape="1x5x7x3"), "needs a window without dilations"),
        (lambda: unary(I16, "nn.erf"), "must be a function that TFLite has"),
        (lambda: passed_on("!quant.uniform<i8:f64, 0.5>"), "must stand for f32"),
        (lambda: passed_on("!quant.uniform<i8:f32:0, {0.5, 0.25}>"), "must have one scale for the whole tensor"),
        (lambda: convolution(I8, "!quant.uniform<i8:f32, 0.25:3>", I8), "weights of int8 with the zero point 0"),
        (lambda: convolution(I16, "!quant.uniform<i16:f32, 0.25>", I16), "weights of int8 beside data of int16"),
        (lambda: convolution(U8, "!quant.uniform<u8:f32:0, {0.25, 0.5}>", U8), "weights of uint8 with one scale"),
        (lambda: convolution(I8, "!quant.uniform<i8:f32, 0.25>", I16), "a result of int8 beside data of int8"),
    ],
)  # fmt: skip
def test_types_that_tflite_has_not(module: Any, said: str | None, tmp_path: Path) -> None:
    with pytest.raises(QmlirError, match=said):
        qmlir.export(module(), tmp_path / "m.tflite", format="tflite")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("element", "storage"), [(I8, "i8"), (I16, "i16")])
def test_stored_integers_that_leave_their_type_come_back(element: str, storage: str, tmp_path: Path) -> None:
    """A RESHAPE says so, between a tensor with a scale and one without."""
    module = network(f"""
      func.func @main(%x: tensor<2x3x{element}>) -> (tensor<2x3x{storage}>, tensor<3x2x{element}>) {{
        %0 = quant.scast %x : tensor<2x3x{element}> to tensor<2x3x{storage}>
        %1 = nn.transpose %0 {{permutation = array<i64: 1, 0>}} : tensor<2x3x{storage}> -> tensor<3x2x{storage}>
        %2 = quant.scast %1 : tensor<3x2x{storage}> to tensor<3x2x{element}>
        func.return %0, %2 : tensor<2x3x{storage}>, tensor<3x2x{element}>
      }}""")
    qmlir.export(module, tmp_path / "m.tflite")
    assert kinds(tmp_path / "m.tflite") == ["RESHAPE", "TRANSPOSE", "RESHAPE"]
    again = qmlir.load(tmp_path / "m.tflite")
    x = np.arange(-3, 3, dtype=storage.replace("i", "int")).reshape(2, 3)
    found = [qmlir.reference(m).run({"input0": x}) for m in (module, again)]
    for ours, theirs, litert_s in zip(*found, LiteRT(tmp_path / "m.tflite").run([x]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(ours, litert_s)
