"""Remedies of lowerings: to loops, to LLVM, to upstream's dialects, to a device's commands."""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import qmlir
from qmlir.backends.cpu import build
from qmlir.backends.cpu.emit import emit_llvm_ir
from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function, to_integers
from qmlir.errors import UnsupportedError
from qmlir.ir.context import make_context
from qmlir.ir.signature import Signature
from tests.frontends.onnx.agreement import floats, model, node
from tests.remedies.case import Action, Case, both, check, command, opt, passes, write

Steps = Sequence[Any]


def function(body: str, arguments: str = "", result: str = "") -> str:
    """A module whose main computes `%y`; the types of one operation `%y = …` say what it takes and yields."""
    if not result:
        left, _, types = body.rpartition(" : ")
        given, result = re.split(" -> | to ", types)
        named = dict(zip(re.findall(r"%(?!y)\w+", left), given.split(", "), strict=True))
        body, arguments = f"  {body}", ", ".join(f"{name}: {type}" for name, type in named.items())
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n  func.return %y : {result}\n}}\n"


def edited(text: str, steps: Steps, *edits: tuple[str, str]) -> Case:
    """A module that passes refuse, and the module with its text edited."""
    other = text
    for old, new in edits:
        assert old in other
        other = other.replace(old, new)
    return Case(passes(text, *steps), passes(other, *steps))


def quantized(
    nodes: Sequence[onnx.NodeProto], *steps: Any, constants: Mapping[str, Any] | None = None, **options: Any
) -> Action:
    """Quantizes a network on x [1, 8] and runs passes on it."""

    def run(folder: Path) -> object:
        onnx.save(model(nodes, {"x": [1, 8]}, constants), folder / "case.onnx")
        profile = qmlir.profile(folder / "case.onnx", [*np.load(folder / "samples.npy")])
        return qmlir.Pipeline(*steps)(qmlir.quantize(folder / "case.onnx", profile, **options))

    return run


TOSA, LINALG = ("nn-to-qint", "qint-to-tosa"), ("nn-to-qint", "qint-to-linalg")
SOFTMAX, LOG_SOFTMAX = [node("Softmax", "x")], [node("LogSoftmax", "x")]
RELU = [node("Relu", "x")]
SUM = [node("Add", "x x")]
POOL = [node("Reshape", "x s", "i"), node("MaxPool", "i", kernel_shape=[2, 2])]
IMAGE = {"s": np.array([1, 1, 2, 4])}
REQUANTIZE = function(
    "%y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "
    '"single", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>'
)
WIDE = REQUANTIZE.replace("-128 : i32, max = 127", "-2147483648 : i32, max = 2147483647")
WIDE = WIDE.replace("shift = array<i32: -4>", "shift = array<i32: 0>").replace("-> tensor<4xi8>", "-> tensor<4xi32>")
WIDE = WIDE.replace("%y : tensor<4xi8>", "%y : tensor<4xi32>")
CONV = function(
    "%y = qint.conv2d %x, %w {zero_point = 200 : i32, padding = array<i64: 1, 0, 0, 0>} : "
    "tensor<1x2x2x1xi8>, tensor<1x2x2x1xi8> -> tensor<1x2x1x1xi32>"
)
MOVED = function("%y = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<0x3xi8> -> tensor<3x0xi8>")
RESHAPED = function("%y = nn.reshape %x {shape = array<i64: 2, 2>} : tensor<4xi64> -> tensor<2x2xi64>")
GATHERED = function("%y = nn.gather %x, %i {axis = 0 : i64} : tensor<4xi8>, tensor<3xi64> -> tensor<3xi8>")
TRUTHS = function("%y = nn.gather %x, %i {axis = 0 : i64} : tensor<4xi1>, tensor<3xi32> -> tensor<3xi1>")
MAXIMUM = function("%y = nn.reduce_max %x {axes = array<i64: 0>} : tensor<4xui8> -> tensor<1xui8>")
SCATTERED = function(
    "%y = nn.scatter_nd %x, %u, %i : tensor<8192xi8>, tensor<4096xi8>, tensor<4096x1xi32> -> tensor<8192xi8>"
)
DEPTHLESS = function("%y = nn.scatter_nd %x, %u, %i : tensor<4xi8>, tensor<1x4xi8>, tensor<1x0xi64> -> tensor<4xi8>")
CAST = function("%y = quant.qcast %x : tensor<4xf64> to tensor<4x!quant.uniform<i8:f64, 0.5>>")
SMALL = function("%y = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 1.0e-31>>")
FLOAT_MAXIMUM = MAXIMUM.replace("ui8", "f32")

DIV = function(
    "%y = qint.div %x, %x {multiplier = 1073741824 : i32, shift = 3 : i32, min = -32768 : i32, max = 32767 : "
    "i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>"
)
ADD = function(
    "%y = qint.add %x, %x {multipliers = array<i64: 2147483647, 2147483647>, shift = 31 : i32, min = -32768 "
    ": i32, max = 32767 : i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>"
)
MUL = function(
    "%y = qint.mul %x, %x {lhs_zero_point = 32767 : i32, rhs_zero_point = 32767 : i32} : tensor<4xi16>, "
    "tensor<4xi16> -> tensor<4xi32>"
)

UPSTREAM = {
    "lower it with --qint-to-linalg, or leave the softmax to what reads the scores": Case(
        quantized(SOFTMAX, *TOSA), both(quantized(SOFTMAX, *LINALG), quantized(RELU, *TOSA))
    ),
    "lower it with --qint-to-linalg, or leave it to what reads the scores": Case(
        quantized(LOG_SOFTMAX, *TOSA), both(quantized(LOG_SOFTMAX, *LINALG), quantized(RELU, *TOSA))
    ),
    "lower it with --qint-to-linalg": Case(
        passes(DIV, "qint-to-tosa"), both(passes(DIV, "qint-to-linalg"), passes(SCATTERED, "qint-to-linalg"))
    ),
    "load the model with numerics=default, or lower it with --qint-to-linalg": Case(
        lambda f: litert_sum(f, "litert-reference") or lower(f, "qint-to-tosa"),
        both(
            lambda f: lower(f, "qint-to-linalg"),
            lambda f: litert_sum(f, "default"),
            lambda f: lower(f, "qint-to-tosa"),
        ),
    ),
    "quantize with precision=int8": Case(
        passes(MUL, "qint-to-tosa"), quantized([node("Mul", "x x")], *TOSA, precision="int8")
    ),
    "quantize both operands with precision=int8": Case(
        passes(ADD, "qint-to-tosa"),
        quantized(SUM, *TOSA, precision="int8"),
    ),
    "quantize it with precision=int8": Case(
        quantized(RELU, *TOSA, precision="int16"), quantized(RELU, *TOSA, precision="int8")
    ),
    "use precision=int8": Case(
        passes(
            function(
                "%y = qint.max_pool2d %x {window = array<i64: 2, 2>} : tensor<1x2x2x1xi32> -> tensor<1x1x1x1xi32>"
            ),
            "qint-to-tosa",
        ),
        quantized(POOL, *TOSA, precision="int8", constants=IMAGE),
    ),
    "lower it with one of these": edited(
        REQUANTIZE.replace("single", "upup"), ["qint-to-tosa"], ('"upup"', '"double"')
    ),
    "store the result more coarsely": edited(
        REQUANTIZE.replace("-4>", "30>").replace("tensor<4xi32>", "tensor<4xi8>"), ["qint-to-tosa"], ("30>", "20>")
    ),
    "subtract it before": edited(
        REQUANTIZE.replace("min =", "input_zero_point = 3 : i32, min ="),
        ["qint-to-tosa"],
        ("input_zero_point = 3 : i32, ", ""),
    ),
    "store the result in at most 16 bits": edited(
        WIDE,
        ["qint-to-tosa"],
        ("-2147483648", "-32768"),
        ("2147483647", "32767"),
        ("-> tensor<4xi32>", "-> tensor<4xi16>"),
        ("%y : tensor<4xi32>", "%y : tensor<4xi16>"),
    ),
    "choose one within its range": edited(CONV, ["qint-to-tosa"], ("200", "100")),
    "choose a zero point within its range": edited(CONV, ["qint-to-linalg"], ("200", "100")),
    "leave it out": edited(MOVED, ["qint-to-tosa"], ("0x3", "2x3"), ("3x0", "3x2")),
    "use i32 or f32": Case(
        passes(RESHAPED, "qint-to-tosa"),
        both(*(passes(RESHAPED.replace("xi64>", f"x{kind}>"), "qint-to-tosa") for kind in ("i32", "f32"))),
    ),
    "make the input i32": edited(GATHERED, ["qint-to-tosa"], ("3xi64", "3xi32")),
    "use i8": edited(TRUTHS, ["qint-to-tosa"], ("xi1>", "xi8>")),
    "store it as i8": edited(MAXIMUM, ["qint-to-tosa"], ("ui8", "i8")),
    "quantize it; --quantize=fail-on-float=true tells what stays float": Case(
        passes(FLOAT_MAXIMUM, "qint-to-linalg"),
        both(
            quantized([node("ReduceMax", "x")], ("quantize", {"fail_on_float": True}), *LINALG),
            opt("net.onnx --simplify --quantize='profile=net.yaml fail-on-float=true' -o o.mlir"),
        ),
    ),
    "run --nn-to-qint first; --quantize=fail-on-float=true tells what stays float": Case(
        quantized(RELU, "qint-to-linalg"), quantized(RELU, *LINALG, fail_on_float=True)
    ),
    "use the updates instead": edited(
        DEPTHLESS,
        ["qint-to-linalg"],
        (
            "%y = nn.scatter_nd %x, %u, %i : tensor<4xi8>, tensor<1x4xi8>, tensor<1x0xi64> ->",
            "%y = nn.reshape %u {shape = array<i64: 4>} : tensor<1x4xi8> ->",
        ),
    ),
    "express it as f32": edited(CAST, ["qint-to-tosa"], ("f64", "f32")),
    "scale the data": edited(SMALL, ["qint-to-tosa"], ("1.0e-31", "1.0e-30")),
    "networks have no branches": edited(
        "func.func @main(%x: tensor<3xi8>) -> tensor<3xi8> {\n  cf.br ^bb1\n^bb1:\n  func.return %x : tensor<3xi8>\n}",
        ["qint-to-tosa"],
        ("  cf.br ^bb1\n^bb1:\n", ""),
    ),
}


def litert_sum(folder: Path, numerics: str) -> None:
    """Quantizes a sum that rounds as a runtime does, to integers.mlir."""
    onnx.save(model(SUM, {"x": [1, 8]}), folder / "case.onnx")
    module = qmlir.load(folder / "case.onnx", numerics=numerics)
    quantized = qmlir.quantize(module, qmlir.profile(module, [*np.load(folder / "samples.npy")]))
    qmlir.save(qmlir.Pipeline("nn-to-qint")(quantized), folder / "integers.mlir")


def lower(folder: Path, step: str) -> object:
    return qmlir.Pipeline(step)(qmlir.load(folder / "integers.mlir"))


KERNEL = """
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %y = nn.relu %x : tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %y : tensor<1x8xf32>
}
"""
CALL = """
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
LOOPS = ("nn-to-loops", "qint-to-loops", "finish-loops")
MACHINE_CODE = (*LOOPS, "plan-memory", "loops-to-llvm")
CODE = (
    "func.func private @f(%a: f32, %m: memref<4xf32>, %n: memref<4xf32>) -> f32 {{\n  {0}\n  func.return %a : f32\n}}\n"
)


def code(refused: str, remedied: str) -> Case:
    """Statements of a kernel that LLVM's lowering refuses, and others that do the same."""
    return Case(passes(CODE.format(refused), "loops-to-llvm"), passes(CODE.format(remedied), "loops-to-llvm"))


def batched(samples: int) -> Action:
    """Compiles a network whose input has some samples for batches."""

    def run(folder: Path) -> object:
        onnx.save(model(RELU, {"x": [samples, 8]}), folder / "case.onnx")
        return qmlir.compile(folder / "case.onnx", batch=2)

    return run


ARENA = "memref.alloc() : memref<4xf32>"
OPAQUE = function(
    '  %y = qmlir.opaque "com.example.Odd" (%x) {reason = "unknown", source = {}} : (tensor<4xf32>) -> tensor<4xf32>',
    "%x: tensor<4xf32>",
    "tensor<4xf32>",
)
CAST_AGAIN = """%c = memref.reinterpret_cast %m to offset: [0], sizes: [2], strides: [1]
    : memref<4xf32> to memref<2xi32>"""
VIEWED = """%z = arith.constant 0 : index
  %d = memref.alloca() : memref<16xi8>
  %c = memref.view %d[%z][] : memref<16xi8> to memref<4xi32>"""
STRIDED = """%c = memref.reinterpret_cast %m to offset: [0], sizes: [2], strides: [2]
    : memref<4xf32> to memref<2xf32, strided<[2]>>
  %d = memref.alloca() : memref<2xf32>
  """
LOOP = (
    STRIDED
    + """%0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  scf.for %i = %0 to %2 step %1 {
    %v = memref.load %c[%i] : memref<2xf32, strided<[2]>>
    memref.store %v, %d[%i] : memref<2xf32>
  }"""
)
REDUCED = """%v = vector.broadcast %a : f32 to vector<4xf32>
  %b = vector.reduction <{0}>, %v : vector<4xf32> into f32"""
FOLDABLE = function(
    "  %a = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2xi8>\n"
    "  %w = nn.transpose %a {permutation = array<i64: 1, 0>} : tensor<2x2xi8> -> tensor<2x2xi8>\n"
    "  %y = qint.fully_connected %x, %w : tensor<1x2xi8>, tensor<2x2xi8> -> tensor<1x2xi32>",
    "%x: tensor<1x2xi8>",
    "tensor<1x2xi32>",
)
MACHINE = {
    "export the model for one sample": Case(batched(4), batched(1)),
    "leave the batch out; `run_all` of the result takes a list of samples": Case(
        lambda f: qmlir.compile(f / "q.mlir", target="nmp", batch=2),  # pyright: ignore[reportCallIssue]
        lambda f: qmlir.compile(f / "q.mlir", target="nmp").run_all([*np.load(f / "samples.npy")][:2]),
    ),
    "quantized operations want nn-to-qint first; see `qmlir import` for unknown ones": Case(
        quantized(RELU, *LOOPS), quantized(RELU, "nn-to-qint", *LOOPS)
    ),
    "calls want inline first, on the whole network": Case(passes(CALL, *LOOPS), passes(CALL, "inline", *LOOPS)),
    "run inline first": Case(
        lambda f: qmlir.reference(passes(CALL)(f))(np.zeros(4, np.float32)),  # type: ignore[arg-type]
        lambda f: qmlir.reference(passes(CALL, "inline")(f))(np.zeros(4, np.float32)),  # type: ignore[arg-type]
    ),
    "remove them": code("%b = arith.addf %a, %a fastmath<fast> : f32", "%b = arith.addf %a, %a : f32"),
    "express it in simpler operations before this pass": code("%b = math.exp %a : f32", "%b = arith.mulf %a, %a : f32"),
    "run plan-memory first; kernels take buffers as arguments or use memref.alloca": code(
        f"%b = {ARENA}", "%b = memref.alloca() : memref<4xf32>"
    ),
    "take the buffer as an argument, allocated in the entry function": code(
        "%b = memref.alloca() : memref<99999999xf32>", "%b = memref.alloca() : memref<4xf32>"
    ),
    "run --fold-constants first": Case(passes(FOLDABLE, *LOOPS), passes(FOLDABLE, "fold-constants", *LOOPS)),
    "run plan-memory and loops-to-llvm": Case(
        lambda f: executable(passes(KERNEL, *LOOPS)(f)), lambda f: executable(passes(KERNEL, *MACHINE_CODE)(f))
    ),
    "run loops-to-llvm first": Case(
        lambda f: emit_llvm_ir(module(passes(KERNEL, *LOOPS, "plan-memory")(f))),
        lambda f: emit_llvm_ir(module(passes(KERNEL, *MACHINE_CODE)(f))),
    ),
    "use maximumf or minimumf": code(REDUCED.format("maxnumf"), REDUCED.format("maximumf")),
    "copy with a loop": code(
        STRIDED + '"memref.copy"(%c, %d) : (memref<2xf32, strided<[2]>>, memref<2xf32>) -> ()', LOOP
    ),
    "use memref.view": code(CAST_AGAIN, VIEWED),
    "run plan-memory first": Case(
        passes(KERNEL, *LOOPS, "loops-to-llvm"), passes(KERNEL, *LOOPS, "plan-memory", "loops-to-llvm")
    ),
    "write +…": Case(
        passes(KERNEL, *LOOPS, "plan-memory", ("loops-to-llvm", {"features": "avx2"})),
        passes(KERNEL, *LOOPS, "plan-memory", ("loops-to-llvm", {"features": "+avx2"})),
    ),
    "use !quant.uniform": edited(
        "!q = !quant.any<i8:f32>\nfunc.func @f(%x: tensor<2x!q>) -> tensor<2xf32> {\n"
        "  %0 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>\n  func.return %0 : tensor<2xf32>\n}",
        ["lower-quant-ops"],
        ("!quant.any<i8:f32>", "!quant.uniform<i8:f32, 0.5>"),
    ),
    "choose a wider storage type": edited(
        "!q = !quant.uniform<i8:f32, 2.0:300>\nfunc.func @f(%x: f32) -> !q {\n"
        "  %0 = quant.qcast %x : f32 to !q\n  func.return %0 : !q\n}",
        ["lower-quant-ops"],
        ("i8:", "i16:"),
    ),
    "store it in 8 bits": edited(
        function("%y = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i64:f32, 0.5>>").replace("i64", "i4"),
        ["nn-to-loops"],
        ("i4", "i8"),
    ),
    "cast constants only": edited(
        function("%y = nn.cast %x : tensor<4xf8E4M3FN> -> tensor<4xf32>").replace("f8E4M3FN", "f8E8M0FNU"),
        ["nn-to-loops"],
        ("f8E8M0FNU", "f16"),
    ),
    "use !quant.uniform with integer storage": edited(
        "func.func @f(%x: tensor<2x!quant.uniform<f8E5M2:f32, 2.0>>) -> tensor<2x!quant.uniform<f8E5M2:f32, 2.0>> {\n"
        "  func.return %x : tensor<2x!quant.uniform<f8E5M2:f32, 2.0>>\n}",
        ["strip-func-quant-types"],
        ("f8E5M2", "i8"),
    ),
    "see `qmlir import` for the list": Case(
        both(write("a.mlir", OPAQUE), lambda f: evaluated(f / "a.mlir")),
        command("import net.onnx -o o.mlir"),
    ),
    "use quant.qcast and quant.dcast": edited(
        function("%y = nn.cast %x : tensor<4xf32> -> tensor<4x!quant.uniform<i8:f32, 0.5>>"),
        [],
        ("nn.cast %x : tensor<4xf32> ->", "quant.qcast %x : tensor<4xf32> to"),
    ),
}


def evaluated(path: Path) -> object:
    return evaluate(main_function(qmlir.load(path)), [np.zeros(4, np.float32)])


def on_device(*steps: Any) -> Action:
    """Integers of the quantized network, then passes for the device nmp."""

    def run(folder: Path) -> object:
        return qmlir.Pipeline(*steps)(to_integers(qmlir.load(folder / "q.mlir"), "nmp"))

    return run


NPU = ("qint-to-npu", {"device": "nmp"})


def module(given: object) -> ModuleOp:
    assert isinstance(given, ModuleOp)
    return given


def executable(given: object) -> object:
    return build(module(given), Signature((), ()))


DEVICES = {
    "run qint-to-npu first": Case(passes(KERNEL, "npu-tile"), on_device(NPU, "npu-tile")),
    "run npu-tile first": Case(on_device(NPU, "npu-place"), on_device(NPU, "npu-tile", "npu-place")),
    "run npu-place first": Case(
        on_device(NPU, "npu-tile", "npu-order"), on_device(NPU, "npu-tile", "npu-place", "npu-order")
    ),
    "quantize the network for the device; `qmlir device check` names the key of the file for each refusal": Case(
        both(
            command("quantize net.onnx --profile net.yaml --precision int16 -o w.mlir"),
            command("compile w.mlir --target gemmini -o w.npu"),
        ),
        both(
            command("quantize net.onnx --profile net.yaml --target gemmini -o w.mlir"),
            command("device check gemmini w.mlir"),
            command("compile w.mlir --target gemmini -o w.npu"),
        ),
    ),
    "change the network, or … of the device file": Case(
        both(
            lambda f: device(f, "error"),
            command("quantize s.onnx --profile s.yaml --target mine.toml -o s.mlir"),
            command("compile s.mlir --target mine.toml -o s.npu"),
        ),
        both(lambda f: device(f, "host"), command("compile s.mlir --target mine.toml -o s.npu")),
    ),
}


def device(folder: Path, fallback: str) -> None:
    """A device file with a kind of fallback, and a network of which the device lacks an operation."""
    text = (resources.files("qmlir") / "targets" / "nmp.toml").read_text("utf-8")
    text, count = re.subn(r'(\[fallback\]\s+kind = )"\w+"', rf'\1"{fallback}"', text)
    assert count == 1
    (folder / "mine.toml").write_text(text)
    nodes = [node("MatMul", "x w", "l"), node("LogSoftmax", "l")]
    onnx.save(model(nodes, {"x": [1, 8]}, {"w": floats(8, 8)}), folder / "s.onnx")
    qmlir.profile(folder / "s.onnx", [*np.load(folder / "samples.npy")]).save(folder / "s.yaml")


CASES = {**UPSTREAM, **MACHINE, **DEVICES}


@pytest.mark.parametrize("text", CASES)
def test_what_lowerings_tell_works(text: str, folder: Path) -> None:
    check(text, CASES[text], folder)


def test_matrices_need_a_unit() -> None:
    source = """
func.func private @f(%x: memref<?xi8>, %y: memref<?xi8>, %i: index) {
  %0 = simd.load_matrix %x[%i], %i : memref<?xi8>, vector<16x64xi8>
  simd.store_matrix %0, %y[%i], %i : vector<16x64xi8>, memref<?xi8>
  func.return
}"""
    module = Parser(make_context(), source).parse_module()
    with pytest.raises(UnsupportedError, match=r"got no feature amx-int8; --loops-to-llvm=features=\+amx-int8"):
        qmlir.Pipeline("loops-to-llvm")(module)
    lowered = qmlir.Pipeline(("loops-to-llvm", {"features": "+amx-int8"}))(module)
    assert "tilestored64" in str(lowered)
