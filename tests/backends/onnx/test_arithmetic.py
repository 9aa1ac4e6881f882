"""Integers spelled out in ONNX's operators: the same bits in onnxruntime as here, whatever a network's rounding is."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i32, i64

import qmlir
from qmlir.backends.onnx import export_onnx
from qmlir.backends.onnx.integer import CONTRACTS, MOST_PRODUCTS, computes
from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function
from qmlir.dialects import qint
from qmlir.dialects.qint.requantize import NarrowingOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import element_of
from qmlir.policies.runtimes import follow
from tests.backends.onnx.runtime import exported, kinds, of_sample, run
from tests.backends.onnx.test_qoperator import W8, convolution
from tests.backends.quantized_text import I8, U8, network, numbers, unary
from tests.ops.sample import i
from tests.ops.samples import SAMPLES, Sample

FORMAT = "onnx-integer"

BESIDE = "qint.max_pool2d-windows_beside_the_image"
"""The sample that onnxruntime does not run: it wants padding narrower than the window."""

QINT_SAMPLES = [s for s in SAMPLES if s.op.name.startswith("qint.") and str(s) != BESIDE]


def is_refused(sample: Sample) -> bool:
    """Whether a sample may have no form: it is not on bytes, rounds otherwise, or its operation has none at all."""
    (op,) = [o for o in of_sample(sample).walk() if o.name == sample.op.name]
    elements = {element_of(value) for value in (*op.operands, *op.results)}
    wide = not elements <= {i8, i32} or (isinstance(op, NarrowingOp) and element_of(op.y) != i8)
    rounds = isinstance(op, qint.RequantizeOp) and op.contract.data not in CONTRACTS
    rounds = rounds or (isinstance(op, qint.SoftmaxOp) and op.division.data != "exact")
    return wide or rounds or sample.op not in computes.entries


@pytest.mark.parametrize("sample", QINT_SAMPLES, ids=str)
def test_a_sample_means_the_same_elsewhere(sample: Sample, tmp_path: Path) -> None:
    function, path, inputs = main_function(of_sample(sample)), tmp_path / "sample.onnx", sample.arrays()
    try:
        export_onnx(function, path, format=FORMAT)
    except UnsupportedError:
        assert is_refused(sample)
        return
    (ours,) = evaluate(function, inputs)
    np.testing.assert_array_equal(run(path, inputs)[0], ours)


@pytest.mark.parametrize("element", [I8, U8])
@pytest.mark.parametrize("operation", ["nn.tanh", "nn.sigmoid", "nn.relu"])
def test_functions_are_tables(element: str, operation: str, tmp_path: Path) -> None:
    module, x = unary(element, operation), numbers(2, 3, 4)
    model = exported(module, tmp_path / "m.onnx", format=FORMAT)
    assert not {"Tanh", "Sigmoid", "QuantizeLinear"} & set(kinds(model))
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x))


@pytest.mark.parametrize("storage", ["i16", "u16"])
def test_two_bytes_are_chosen_in_four(storage: str, tmp_path: Path) -> None:
    """onnxruntime has no Where of two bytes."""
    element = f"!quant.uniform<{storage}:f32, 0.0009765625:0>"
    module = network(f"""
      func.func @main(%a: tensor<2x3xf32>, %s: tensor<3xf32>) -> tensor<2x3xf32> {{
        %0 = quant.qcast %a : tensor<2x3xf32> to tensor<2x3x{element}>
        %1 = quant.qcast %s : tensor<3xf32> to tensor<3x{element}>
        %2 = nn.prelu %0, %1 : tensor<2x3x{element}>, tensor<3x{element}> -> tensor<2x3x{element}>
        %3 = quant.dcast %2 : tensor<2x3x{element}> to tensor<2x3xf32>
        func.return %3 : tensor<2x3xf32>
      }}""")
    inputs = [numbers(2, 3), numbers(3)]
    exported(module, tmp_path / "m.onnx", format=FORMAT)
    (ours,) = qmlir.reference(module).run(dict(zip(("input0", "input1"), inputs, strict=True)))
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", inputs)[0], ours)


@pytest.mark.parametrize("storage", ["i16", "u16"])
def test_two_bytes_are_compared_in_four(storage: str, tmp_path: Path) -> None:
    """onnxruntime has no Max and no Min of them."""
    element = f"!quant.uniform<{storage}:f32, 0.0009765625:0>"
    both = f"tensor<2x3x{element}>, tensor<2x3x{element}> -> tensor<2x3x{element}>"
    module = network(f"""
      func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {{
        %0 = quant.qcast %a : tensor<2x3xf32> to tensor<2x3x{element}>
        %1 = quant.qcast %b : tensor<2x3xf32> to tensor<2x3x{element}>
        %2 = nn.maximum %0, %1 : {both}
        %3 = nn.minimum %0, %1 : {both}
        %4 = quant.dcast %2 : tensor<2x3x{element}> to tensor<2x3xf32>
        %5 = quant.dcast %3 : tensor<2x3x{element}> to tensor<2x3xf32>
        func.return %4, %5 : tensor<2x3xf32>, tensor<2x3xf32>
      }}""")
    exported(module, tmp_path / "m.onnx", format=FORMAT)
    a, b = np.abs(numbers(2, 3)), np.abs(numbers(3, 2)).reshape(2, 3)
    ours = qmlir.reference(module).run({"input0": a, "input1": b})
    for theirs, our in zip(run(tmp_path / "m.onnx", [a, b]), ours, strict=True):
        np.testing.assert_array_equal(theirs, our)


@pytest.mark.parametrize("storage", ["i16", "u16"])
def test_two_bytes_are_padded_in_four(storage: str, tmp_path: Path) -> None:
    """onnxruntime has no Pad of them."""
    element = f"!quant.uniform<{storage}:f32, 0.0009765625:0>"
    module = network(f"""
      func.func @main(%x: tensor<2x3xf32>) -> tensor<4x4xf32> {{
        %q = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x{element}>
        %r = nn.pad %q {{low = array<i64: 0, 1>, high = array<i64: 2, 0>, value = 1.0 : f32}}
          : tensor<2x3x{element}> -> tensor<4x4x{element}>
        %y = quant.dcast %r : tensor<4x4x{element}> to tensor<4x4xf32>
        func.return %y : tensor<4x4xf32>
      }}""")
    exported(module, tmp_path / "m.onnx", format=FORMAT)
    x = np.abs(numbers(2, 3))
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [x])[0], qmlir.reference(module)(x))


def test_sums_of_bytes_of_words_fit_32_bits(tmp_path: Path) -> None:
    """The largest integers of as many products as there may be; one more is refused."""
    most, more = (
        Sample(qint.Conv2DOp, "largest", (i(16, 1, 1, 1, count), i(8, 2, 1, 1, count)), {}, i64)
        for count in (MOST_PRODUCTS, MOST_PRODUCTS + 1)
    )
    function, path = main_function(of_sample(most)), tmp_path / "m.onnx"
    export_onnx(function, path, format=FORMAT)
    x, w = most.arrays()
    inputs = [np.full_like(x, 32767), np.full_like(w, -128)]
    np.testing.assert_array_equal(run(path, inputs)[0], evaluate(function, inputs)[0])
    with pytest.raises(UnsupportedError, match="must sum 65793 products or fewer, got 65794; export as onnx-qdq"):
        export_onnx(main_function(of_sample(more)), path, format=FORMAT)


def test_other_roundings_are_refused(tmp_path: Path) -> None:
    module = convolution(I8, W8, I8)
    follow(module, "litert-reference")
    with pytest.raises(
        UnsupportedError, match=r"in one of the ways exact, float32, got float32_away; follow other numerics"
    ):
        qmlir.export(module, tmp_path / "m.onnx", format=FORMAT)
    assert not list(tmp_path.iterdir())


def test_operations_without_a_form_are_refused(tmp_path: Path) -> None:
    sample = next(s for s in SAMPLES if s.op is qint.SaturatingFullyConnectedOp)
    with pytest.raises(UnsupportedError, match=r"must have a form in ONNX's operators"):
        qmlir.export(of_sample(sample), tmp_path / "m.onnx", format=FORMAT)


COUNTED = "{window = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>, count_include_pad = true}"


@pytest.mark.parametrize("element", ["i16:f32, 0.5:40000", "i8:f32, 0.5:300"])
def test_means_that_count_padding_pad_with_a_stored_number(element: str, tmp_path: Path) -> None:
    """Their padding is the zero point, which a ConvInteger takes as a byte, or as two."""
    module = unary(f"!quant.uniform<{element}>", "nn.average_pool2d", shape="1x2x2x4", more=COUNTED)
    with pytest.raises(UnsupportedError, match="must have zero points"):
        qmlir.export(module, tmp_path / "m.onnx", format=FORMAT)


@pytest.mark.parametrize("point", [0, 127, 128, 771, -1, -771, 32767, -32768])
@pytest.mark.parametrize("more", [COUNTED, COUNTED.replace("true", "false")])
def test_means_of_two_bytes_are_those_of_each(point: int, more: str, tmp_path: Path) -> None:
    module = unary(f"!quant.uniform<i16:f32, 0.0001220703125:{point}>", "nn.average_pool2d", shape="1x5x4x3", more=more)
    exported(module, tmp_path / "m.onnx", format=FORMAT)
    data = numbers(1, 5, 4, 3)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [data])[0], qmlir.reference(module)(data))


@pytest.mark.parametrize("point", [0, -300, 32767])
def test_filters_of_each_channel_take_two_bytes(point: int, tmp_path: Path) -> None:
    """A product with a multiplier then shifts so far that the result's bounds have no room above it."""
    x, y = f"!quant.uniform<i16:f32, 0.0001220703125:{point}>", "!quant.uniform<i16:f32, 0.0009765625>"
    w = "tensor<1x3x3x3x!quant.uniform<i8:f32, 0.001>>"
    module = network(f"""
      func.func @main(%x: tensor<1x5x4x3xf32>) -> tensor<1x5x4x3xf32> {{
        %q = quant.qcast %x : tensor<1x5x4x3xf32> to tensor<1x5x4x3x{x}>
        %w = nn.constant <tensor<1x3x3x3xi8>, [{", ".join(["127, -127, 3"] * 9)}]> : {w}
        %r = nn.depthwise_conv2d %q, %w {{padding = array<i64: 1, 1, 1, 1>}}
          : tensor<1x5x4x3x{x}>, {w} -> tensor<1x5x4x3x{y}>
        %s = nn.mul %r, %r : tensor<1x5x4x3x{y}>, tensor<1x5x4x3x{y}> -> tensor<1x5x4x3x!quant.uniform<i16:f32, 0.0625>>
        %t = nn.sqrt %s : tensor<1x5x4x3x!quant.uniform<i16:f32, 0.0625>> -> tensor<1x5x4x3x{y}>
        %y = quant.dcast %t : tensor<1x5x4x3x{y}> to tensor<1x5x4x3xf32>
        func.return %y : tensor<1x5x4x3xf32>
      }}""")
    exported(module, tmp_path / "m.onnx", format=FORMAT)
    data = numbers(1, 5, 4, 3)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [data])[0], qmlir.reference(module)(data))


def test_layers_on_16_bits(tmp_path: Path) -> None:
    """Sums of products of 16 bits are written as matrix products of wider integers."""
    module = network("""
      func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
        %q = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i16:f32, 0.0009765625:5>>
        %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!quant.uniform<i8:f32, 0.01>>
        %r = nn.fully_connected %q, %w : tensor<1x2x!quant.uniform<i16:f32, 0.0009765625:5>>,
          tensor<2x2x!quant.uniform<i8:f32, 0.01>> -> tensor<1x2x!quant.uniform<i16:f32, 0.0009765625>>
        %y = quant.dcast %r : tensor<1x2x!quant.uniform<i16:f32, 0.0009765625>> to tensor<1x2xf32>
        func.return %y : tensor<1x2xf32>
      }""")
    qmlir.export(module, tmp_path / "m.onnx", format=FORMAT)
    data = np.array([[7.25, -3.4]], np.float32)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", [data])[0], qmlir.reference(module)(data))


@pytest.mark.parametrize(
    ("operation", "integer"),
    [
        ("nn.lp_normalization {axis = 1 : i64, p = 2 : i64}", "qint.l2_normalization"),
        (
            "nn.local_response_normalization {size = 3 : i64, alpha = 1.0 : f32, beta = 0.75 : f32, bias = 1.0 : f32}",
            "qint.local_response_normalization",
        ),
    ],
)
def test_normalizations_are_refused(operation: str, integer: str, tmp_path: Path) -> None:
    name, _, attributes = operation.partition(" ")
    module = unary(I8, name, attributes, shape="1x4x4x8")
    with pytest.raises(UnsupportedError, match=rf"must have a form in ONNX's operators, got {integer}"):
        qmlir.export(module, tmp_path / "m.onnx", format=FORMAT)
