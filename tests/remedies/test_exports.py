"""Remedies of exports to TFLite and to ONNX."""

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.tflite import model as tflite_model
from tests.frontends.onnx.agreement import load
from tests.remedies.case import Action, Case, both, check, command, passes
from tests.transforms.nn.test_attention_scores import LENGTH, WIDTH, normal
from tests.transforms.nn.test_attention_scores import attention as layers_of_attention

I8, I16 = "!quant.uniform<i8:f32, 0.5:-3>", "!quant.uniform<i16:f32, 0.015625>"


def export(text: str, format: str = "tflite", **options: object) -> Action:
    """Exports a module of MLIR text."""
    suffix = ".tflite" if format == "tflite" else ".onnx"
    return lambda folder: qmlir.export(
        module_of(text, folder),
        folder / f"case{suffix}",
        format=format,
        **options,  # type: ignore[arg-type]
    )


def module_of(text: str, folder: Path, *names: str | tuple[str, dict[str, object]]) -> ModuleOp:
    """A module after passes."""
    module = passes(text, *names)(folder)
    assert isinstance(module, ModuleOp)
    return module


def edited(text: str, *edits: tuple[str, str], format: str = "tflite") -> Case:
    """A module that an exporter refuses, and the module with its text edited."""
    other = text
    for old, new in edits:
        assert old in other, old
        other = other.replace(old, new)
    return Case(export(text, format), export(other, format))


def function(body: str, **types: str) -> str:
    """A network; the types of its arguments by name, and that of its result y."""
    result = types.pop("y")
    arguments = ", ".join(f"%{name}: {type}" for name, type in types.items())
    return f"func.func @main({arguments}) -> {result} {{\n  {body}\n  func.return %y : {result}\n}}\n"


def rows_of(activations: str) -> Action:
    """Quantizes a network with scales for rows, or without, and exports it."""
    quantized = command(f"quantize net.onnx --profile net.yaml --activations {activations} -o rows.mlir")
    return both(quantized, command("export rows.mlir -o rows.tflite"))


def unary(operation: str, element: str, shape: str = "2x3x4") -> str:
    type = f"tensor<{shape}x{element}>"
    return function(f"%y = {operation} : {type} -> {type}", x=type, y=type)


BLOCKED = function(
    """%w = nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<2x4xi8>
  %s = nn.constant <tensor<2x2xf32>, [0.5, 0.25, 0.125, 1.0]> : tensor<2x2xf32>
  %z = nn.constant <tensor<2x2xi8>, [0, 1, 2, 3]> : tensor<2x2xi8>
  %y = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64}
       : tensor<3x4xELEMENT>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xi8> -> tensor<3x2xELEMENT>""".replace(
        "ELEMENT", I8
    ),
    x=f"tensor<3x4x{I8}>",
    y=f"tensor<3x2x{I8}>",
)


def pair(operation: str, element: str, constant: str = "") -> str:
    """An operation of x and a constant or a second input."""
    type = f"tensor<4x{element}>"
    body = f"%y = {operation} %x, %c : {type}, {type} -> {type}"
    if constant:
        return function(f"%c = nn.constant <{type}, {constant}> : {type}\n  {body}", x=type, y=type)
    return function(body, x=type, c=type, y=type)


def layer(x: str = "i8", w: str = "i8<-127:127>:f32, 0.25") -> str:
    """A fully connected layer."""
    stored = w[: w.index(":")].split("<")[0]
    quantized, weights = f"tensor<1x2x!quant.uniform<{x}:f32, 0.5>>", f"tensor<2x2x!quant.uniform<{w}>>"
    return function(
        f"%w = nn.constant <tensor<2x2x{stored}>, [1, 2, 3, 4]> : {weights}\n"
        f"  %y = nn.fully_connected %x, %w : {quantized}, {weights} -> {quantized}",
        x=quantized,
        y=quantized,
    )


def top_k(element: str) -> str:
    return function(
        f"%y = nn.top_k %x {{axis = 0 : i64, k = 2 : i64, largest = false}} : tensor<4x{element}> -> tensor<2xi64>",
        x=f"tensor<4x{element}>",
        y="tensor<2xi64>",
    )


SCATTER = function(
    "%y = nn.scatter_nd %x, %u, %i : tensor<4xf32>, tensor<2xf32>, tensor<2x1xi64> -> tensor<4xf32>",
    x="tensor<4xf32>", u="tensor<2xf32>", i="tensor<2x1xi64>", y="tensor<4xf32>",
)  # fmt: skip
DEPTHLESS = function(
    "%y = nn.gather_nd %x, %i : tensor<4xf32>, tensor<3x0xi64> -> tensor<3x4xf32>",
    x="tensor<4xf32>", i="tensor<3x0xi64>", y="tensor<3x4xf32>",
)  # fmt: skip
EMPTY = function(
    "%y = nn.reduce_max %x {axes = array<i64: 0>} : tensor<0x4xf32> -> tensor<1x4xf32>",
    x="tensor<0x4xf32>", y="tensor<1x4xf32>",
)  # fmt: skip
OF_NONE = function(
    "%y = nn.dilate %x {dilations = array<i64: 1, 2>, value = 0.0 : f32} : tensor<0x4xf32> -> tensor<0x7xf32>",
    x="tensor<0x4xf32>", y="tensor<0x7xf32>",
)  # fmt: skip
GELU = unary("nn.gelu %x", "f32")
PASSED = "func.func @main(%x: tensor<2x3x{0}>) -> tensor<2x3x{0}> {{ func.return %x : tensor<2x3x{0}> }}"


def within_255_bytes(file: str) -> Action:
    """Exports where a flatbuffer holds that many bytes of constants, too few for 64 floats."""

    def run(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tflite_model, "LARGEST", 255)
            command(f"export {file} --format tflite -o o.tflite")(folder)

    return run


DILATED = function(
    "%y = nn.max_pool2d %x {window = array<i64: 3, 3>, dilations = array<i64: 2, 2>} : tensor<1x5x7x3xf32> -> "
    "tensor<1x1x3x3xf32>",
    x="tensor<1x5x7x3xf32>",
    y="tensor<1x1x3x3xf32>",
)
REMAINDER = pair("nn.mod", "i32", "[1, 2, 3, 4]").replace("%c :", "%c {truncated = true} :")
BESIDE = """
func.func @main(%a: tensor<2xf8E5M2>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
BROADCAST = function(
    "%y = nn.broadcast %x {shape = array<i64: 3, 4>} : tensor<4xf32> -> tensor<3x4xf32>",
    x="tensor<4xf32>",
    y="tensor<3x4xf32>",
)
SLICED = function(
    "%a = nn.slice %x {offsets = array<i64: 0>, sizes = array<i64: 2>, strides = array<i64: 1>} : "
    "tensor<4xf32> -> tensor<2xf32>\n"
    "  %y = nn.concat %a, %u {axis = 0 : i64} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>",
    x="tensor<4xf32>",
    u="tensor<2xf32>",
    y="tensor<4xf32>",
)
WIDE = """
!x = !quant.uniform<i8:f32, 0.5>
!y = !quant.uniform<i32:f32, 0.5>
func.func @main(%x: tensor<4x!x>) -> tensor<4x!y> {
  %y = nn.requantize %x : tensor<4x!x> -> tensor<4x!y>
  func.return %y : tensor<4x!y>
}
"""
KEPT = """
!x = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<4x!x>) -> tensor<4xf32> {
  %y = quant.dcast %x : tensor<4x!x> to tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
PER_AXIS = "!quant.uniform<i8:f32:0, {0.5, 0.25}>"

BIASED = layer().replace("%y = nn", "%b = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>\n  %y = nn")
BIASED = BIASED.replace("%x, %w", "%x, %w, %b").replace("0.25>> ->", "0.25>>, tensor<2xf32> ->")
LONG = BIASED.replace("tensor<2xf32>", "tensor<2xi64>").replace("[1.0, 2.0]", "[100, 5000000000]")
STEPPED = function(
    "%y = nn.slice %x {offsets = array<i64: 0>, sizes = array<i64: 0>, strides = array<i64: 2>} : tensor<4xf32> -> "
    "tensor<0xf32>",
    x="tensor<4xf32>",
    y="tensor<0xf32>",
)

RETURN = "%y : tensor<1x2x!quant.uniform<i8"
WIDER = (
    layer()
    .replace("-> tensor<1x2x!quant.uniform<i8", "-> tensor<1x2x!quant.uniform<i16")
    .replace(RETURN, RETURN.replace("i8", "i16"))
)

PRODUCT = function(
    "%y = nn.matmul %x, %u : tensor<2x3xi32>, tensor<3x2xi32> -> tensor<2x2xi32>",
    x="tensor<2x3xi32>", u="tensor<3x2xi32>", y="tensor<2x2xi32>",
)  # fmt: skip


def attention(residuals: str, kept: str) -> Action:
    """Quantizes attention between layers and exports it."""

    def run(folder: Path) -> None:
        data = [normal(1, LENGTH, WIDTH, seed=s) for s in range(4)]
        proto = load(layers_of_attention("split", "scores", "softmax"))
        network = qmlir.quantize(proto, data=data, residuals=residuals, attention=kept, measure=False)
        qmlir.export(network, folder / "case.tflite", format="tflite")

    return run


TO_TFLITE = {
    "quantize with activations=static": Case(rows_of("dynamic"), rows_of("static")),
    "give its result a wider range": edited(layer().replace("f32, 0.25", "f32, 1024.0"), ("1024.0", "0.25")),
    "let its data be integers of 8 bits": edited(PRODUCT, ("i32", "i8")),
    "quantize it with a symmetric schema": edited(
        unary("nn.relu %x", "!quant.uniform<i16:f32, 0.5:1>"), ("0.5:1>", "0.5>")
    ),
    "choose parameters within the storage": edited(
        unary("nn.relu %x", "!quant.uniform<i8:f32, 0.5:300>"), (":300", ":3")
    ),
    "quantize it with precision int8 or int16": Case(
        export(unary("nn.relu %x", "!quant.uniform<u16:f32, 0.5>")),
        both(*(export(unary("nn.relu %x", f"!quant.uniform<{kind}:f32, 0.5>")) for kind in ("i8", "i16"))),
    ),
    "quantize the model again from its f32 form": edited(PASSED.format("!quant.uniform<i8:f64, 0.5>"), ("f64", "f32")),
    "quantize it per tensor": edited(PASSED.format(PER_AXIS), (PER_AXIS, "!quant.uniform<i8:f32, 0.5>")),
    "quantize it to bytes, or rewrite the model": Case(
        export(unary("nn.erf %x", I16)), both(export(unary("nn.erf %x", I8)), export(unary("nn.tanh %x", I16)))
    ),
    "rewrite the model without it": edited(DILATED, (", dilations = array<i64: 2, 2>", ""), ("1x1x3x3", "1x3x5x3")),
    "quantize with --residuals same --attention stored, which leave its result in 8 bits": Case(
        attention("outliers", "auto"), attention("same", "stored")
    ),
    "quantize its result in … bits": edited(WIDER, ("i16:f32", "i8:f32")),
    "quantize the weights symmetrically": edited(layer(w="i8:f32, 0.25:3"), ("0.25:3", "0.25")),
    "quantize the weights in 8 bits": edited(
        layer(x="i16", w="i16:f32, 0.25"), ("2x2xi16", "2x2xi8"), ("<i16:f32, 0.25>", "<i8:f32, 0.25>")
    ),
    "quantize the weights per tensor": edited(
        layer(x="u8", w="u8:f32:0, {0.25, 0.5}").replace("2x2xu8", "2x2xui8"), (":0, {0.25, 0.5}", ", 0.25")
    ),
    "give it the other sign": edited(REMAINDER, ("truncated = true", "truncated = false")),
    "make the divisors a constant without 0": Case(
        export(pair("nn.div", "i32")), export(pair("nn.div", "i32", "[1, 2, 3, 4]"))
    ),
    "make the exponents a constant of 0 and more": Case(
        export(pair("nn.pow", "i32")), export(pair("nn.pow", "i32", "[0, 2, 3, 4]"))
    ),
    "cast it to one of these": edited(unary("nn.relu %x", "f64"), ("f64", "f32")),
    "let the network have another type there, such as int64": edited(
        function("%y = nn.cast %x : tensor<4xf32> -> tensor<4xbf16>", x="tensor<4xf32>", y="tensor<4xbf16>"),
        ("bf16", "f16"),
    ),
    "cast them to a type that it has": edited(BESIDE, ("f8E5M2", "f32")),
    "look for the least of floats": edited(top_k("i32"), ("i32", "f32")),
    "broadcast instead": Case(export(DEPTHLESS), export(BROADCAST)),
    "concatenate slices instead": Case(export(SCATTER), export(SLICED)),
    "leave the empty tensor out": edited(OF_NONE, ("<0x4x", "<2x4x"), ("<0x7x", "<2x7x")),
    "leave the reduction of an empty tensor out": edited(EMPTY, ("0x4", "2x4")),
    "multiply or divide by a power of two": Case(
        export(pair("nn.shift_left", "i32", "[1, 2, 3, 4]")),
        both(*(export(pair(f"nn.{name}", "i32", "[2, 4, 8, 16]")) for name in ("mul", "div"))),
    ),
    "quantize the network": Case(
        within_255_bytes("net.onnx"),
        both(command("quantize net.onnx --profile net.yaml -o q.mlir"), within_255_bytes("q.mlir")),
    ),
    "export before nn-to-qint": Case(
        lambda f: qmlir.export(qmlir.Pipeline("nn-to-qint")(qmlir.load(f / "q.mlir")), f / "o.tflite", format="tflite"),
        lambda f: qmlir.export(qmlir.load(f / "q.mlir"), f / "o.tflite", format="tflite"),
    ),
    "run quantize-bias": Case(
        export(BIASED),
        lambda f: qmlir.export(module_of(BIASED, f, "quantize-bias"), f / "b.tflite", format="tflite"),
    ),
    "quantize it with bias=int32": Case(
        export(LONG),
        lambda f: qmlir.export(
            module_of(BIASED, f, ("apply-policy", {"settings": "bias=int32"}), "quantize-bias"),
            f / "b.tflite",
            format="tflite",
        ),
    ),
    "leave the empty slice out": edited(STEPPED, ("sizes = array<i64: 0>", "sizes = array<i64: 2>"), ("<0xf", "<2xf")),
    "give it such a form": edited(
        unary("nn.local_response_normalization %x SIZE", "f32", "1x3x3x4").replace(
            "SIZE", "{axis = 3 : i64, size = 4 : i64, alpha = 0.1 : f32, beta = 0.5 : f32, bias = 1.0 : f32}"
        ),
        ("size = 4", "size = 3"),
    ),
    "keep it float": edited(BLOCKED, (I8, "f32")),
    "let it end in .tflite": Case(
        command("export net.onnx --format tflite -o o.onnx"), command("export net.onnx --format tflite -o o.tflite")
    ),
}


WORDS, BYTES = (f"quantize net.onnx --profile net.yaml --weight-precision {p} -o o.mlir" for p in ("int16", "int8"))
TO_ONNX = {
    "quantize to 8 bits": Case(
        both(command(WORDS), command("export o.mlir --format onnx-integer -o o.onnx")),
        both(command(BYTES), command("export o.mlir --format onnx-integer -o o.onnx")),
    ),
    "quantize it with bias=int32": Case(
        export(LONG, "onnx-qdq"),
        lambda f: qmlir.export(
            module_of(BIASED, f, ("apply-policy", {"settings": "bias=int32"}), "quantize-bias"),
            f / "b.onnx",
            format="onnx-qdq",
        ),
    ),
    "export with opset …": Case(export(GELU, "onnx-qdq", opset=19), export(GELU, "onnx-qdq", opset=20)),
    "keep its result float": Case(export(WIDE, "onnx-qdq"), export(KEPT, "onnx-qdq")),
    "follow other numerics": Case(
        both(
            command("import net.onnx --numerics litert-reference -o l.mlir"),
            command("quantize l.mlir --profile net.yaml -o o.mlir"),
            command("export o.mlir --format onnx-integer -o o.onnx"),
        ),
        both(
            command("quantize net.onnx --profile net.yaml -o o.mlir"),
            command("export o.mlir --format onnx-integer -o o.onnx"),
        ),
    ),
    "leave out the format": Case(
        command("export net.onnx --format onnx-qdq -o o.tflite"), command("export net.onnx -o o.tflite")
    ),
    "let it end in .onnx": Case(
        lambda f: qmlir.export(f / "net.onnx", f / "o.bin", format="onnx-qdq"),
        lambda f: qmlir.export(f / "net.onnx", f / "o.onnx", format="onnx-qdq"),
    ),
    "export with a later opset": Case(
        export(unary("nn.relu %x", I16), "onnx-qdq", opset=13), export(unary("nn.relu %x", I16), "onnx-qdq", opset=21)
    ),
}

CASES = {**TO_TFLITE, **TO_ONNX}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", CASES)
def test_what_exports_tell_works(text: str, folder: Path) -> None:
    check(text, CASES[text], folder)
