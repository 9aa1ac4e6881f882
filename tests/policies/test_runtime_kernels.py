"""For which data LiteRT has kernels: as its exporter says, and in words."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.tflite.kernels import KERNELS
from qmlir.compiler import main_function
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.ir.interfaces import TensorOp
from qmlir.lowering.nn_to_qint.convert import sign_storage
from qmlir.policies.runtime_kernels import depending_on_library, lacking, rounded_as_default, rounding_for
from qmlir.policies.runtimes import Rounding
from tests.backends.quantized_text import I8, I16, U8, network, unary

REFERENCE = "litert-reference"

OPERATORS = {
    "nn.abs": "ABS", "nn.exp": "EXP", "nn.log": "LOG", "nn.sqrt": "SQRT", "nn.rsqrt": "RSQRT", "nn.gelu": "GELU",
    "nn.hard_swish": "HARD_SWISH", "nn.relu": "RELU", "nn.neg": "NEG", "nn.sin": "SIN", "nn.floor": "FLOOR",
}  # fmt: skip
"""Operation of one element → TFLite's operator, both of any parameters."""

NAMES = {"int8": I8, "uint8": U8, "int16": I16}


def operation(module: ModuleOp) -> TensorOp:
    (found,) = [
        o for o in main_function(module).body.block.ops if isinstance(o, TensorOp) and not isinstance(o, ConstantOp)
    ]
    return found


@pytest.mark.parametrize("stored", NAMES)
@pytest.mark.parametrize("name", OPERATORS)
def test_the_table_and_the_exporter_know_the_same_kernels(name: str, stored: str) -> None:
    has = stored in KERNELS[OPERATORS[name]].quantized.split()
    assert bool(lacking(operation(unary(NAMES[stored], name)), REFERENCE)) != has


POINTED = "!quant.uniform<i16:f32, 0.25:7>"
UNIT = "!quant.uniform<i8:f32, 7.812500e-03>"

LACKS = {
    "exp of i16 with a zero point": unary(POINTED, "nn.exp", "", I16),
    "leaky_relu of i16 with a zero point": unary(I16, "nn.leaky_relu", "{alpha = 0.5 : f32}", POINTED),
    "exp of u8": unary(U8, "nn.exp"),
    "sigmoid of data stored in several ways": unary(I8, "nn.sigmoid", "", I16),
    "relu of data stored in several ways": unary(U8, "nn.relu", "", I8),
    "sigmoid with a result of scale 0.0078125 and zero point 0": unary(I8, "nn.sigmoid", "", UNIT),
    "erf of i8": unary(I8, "nn.erf"),
}


@pytest.mark.parametrize("words", LACKS)
def test_what_litert_lacks_rounds_as_by_default(words: str) -> None:
    """Also once unsigned integers have become signed ones."""
    module = LACKS[words].clone()
    op = operation(module)
    assert lacking(op, REFERENCE) == words
    assert lacking(op, "onnxruntime") == ""
    sign_storage(main_function(module).body.block)
    assert lacking(op, REFERENCE) == words
    assert rounding_for(op, REFERENCE, "single") == Rounding("single")


ONNXRUNTIME = {
    "average_pool2d": "onnxruntime computes average_pool2d in float32",
    "max_pool2d": "",
    "global_average_pool": "",
}


@pytest.mark.parametrize("name", ONNXRUNTIME)
def test_what_onnxruntime_sums_in_float32(name: str) -> None:
    """It has operators on integers for all of these."""
    window = "" if name.startswith("global") else "{window = array<i64: 2, 2>}"
    x, y = f"tensor<1x4x4x2x{U8}>", f"tensor<1x{'1x1' if name.startswith('global') else '3x3'}x2x{U8}>"
    op = operation(
        network(f"func.func @main(%x: {x}) -> {y} {{ %y = nn.{name} %x {window} : {x} -> {y} func.return %y : {y} }}")
    )
    assert rounded_as_default(op, "onnxruntime") == ONNXRUNTIME[name]
    assert rounded_as_default(op, "default") == ""


@pytest.mark.parametrize("runtime", ["litert-xnnpack", "litert-builtin", REFERENCE])
@pytest.mark.parametrize("storage", ["u8", "i8"])
def test_sums_of_unsigned_bytes_are_not_followed(storage: str, runtime: str) -> None:
    """Nor of signed ones as they are stored beside others: LiteRT has a kernel for the file that is written of them."""
    x, y = (f"tensor<{shape}x!quant.uniform<{storage}:f32, 0.5>>" for shape in ("2x4", "2x1"))
    op = operation(
        network(
            f"func.func @main(%x: {x}) -> {y} "
            f"{{ %y = nn.reduce_sum %x {{axes = array<i64: 1>}} : {x} -> {y} func.return %y : {y} }}"
        )
    )
    follows = storage == "i8" or runtime == REFERENCE
    assert rounded_as_default(op, runtime) == ("" if follows else "LiteRT scales sums of unsigned bytes in float32")
    assert rounded_as_default(op, runtime, signed=True) == ""


@pytest.mark.parametrize("name", ["nn.gelu", "nn.exp"])
@pytest.mark.parametrize("stored", [I8, I16])
def test_what_the_c_library_decides(stored: str, name: str) -> None:
    op = operation(unary(stored, name))
    depends = (stored, name) == (I16, "nn.gelu")
    words = "LiteRT's C library decides one step now and then"
    assert depending_on_library(op, REFERENCE) == (words if depends else "")
    assert depending_on_library(op, "default") == ""


def test_a_choice_between_scales() -> None:
    x, y = "tensor<4x!quant.uniform<i8:f32, 0.5>>", "tensor<4x!quant.uniform<i8:f32, 0.25>>"
    choice = (
        "func.func @main(%a: {0}, %b: {1}) -> {0} {{ %y = nn.maximum %a, %b : {0}, {1} -> {0} func.return %y : {0} }}"
    )
    assert lacking(operation(network(choice.format(x, x))), REFERENCE) == ""
    assert lacking(operation(network(choice.format(x, y))), REFERENCE) == "a choice between two scales"
