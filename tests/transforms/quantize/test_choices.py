"""Choices, comparisons and searches between quantized layers: integers on the CPU, exact, and certified."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.checker import check_certificate
from qmlir.compiler import main_function
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.numerics import fixed_point
from tests.checker.networks import certified
from tests.conftest import crossed

Array = npt.NDArray[Any]
PRECISIONS = ("int8", "uint8", "int16")
RNG = np.random.default_rng(5)
SAMPLES = [RNG.normal(0, 1.5, (4, 6)).astype(np.float32) for _ in range(12)]

LAYER = """
  %c = nn.constant <tensor<f32>, [0.3]> : tensor<f32>
  %w = nn.constant <tensor<6x6xf32>, [WEIGHTS]> : tensor<6x6xf32>
  %y = nn.fully_connected %x, %w : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>"""

CASES = {
    "less": ("%z = nn.less %y, %c : tensor<4x6xf32>, tensor<f32> -> tensor<4x6xi1>", "4x6xi1"),
    "less_equal": ("%z = nn.less_equal %x, %y : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xi1>", "4x6xi1"),
    "equal": (
        """%r = nn.reduce_max %y {axes = array<i64: 1>} : tensor<4x6xf32> -> tensor<4x1xf32>
  %z = nn.equal %r, %y : tensor<4x1xf32>, tensor<4x6xf32> -> tensor<4x6xi1>""",
        "4x6xi1",
    ),
    "is_nan": ("%z = nn.is_nan %y : tensor<4x6xf32> -> tensor<4x6xi1>", "4x6xi1"),
    "is_inf": ("%z = nn.is_inf %y : tensor<4x6xf32> -> tensor<4x6xi1>", "4x6xi1"),
    "arg_max": ("%z = nn.arg_max %y {axis = 1 : i64} : tensor<4x6xf32> -> tensor<4x1xi64>", "4x1xi64"),
    "arg_min": ("%z = nn.arg_min %y {axis = 0 : i64, last = true} : tensor<4x6xf32> -> tensor<1x6xi64>", "1x6xi64"),
    "top_k": ("%z = nn.top_k %y {axis = 1 : i64, k = 3 : i64} : tensor<4x6xf32> -> tensor<4x3xi64>", "4x3xi64"),
    "where": (
        """%m = nn.less %y, %c : tensor<4x6xf32>, tensor<f32> -> tensor<4x6xi1>
  %z = nn.where %m, %x, %y : tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>""",
        "4x6xf32",
    ),
    "cumulative_sum": (
        "%z = nn.cumulative_sum %y {axis = 1 : i64, exclusive = true} : tensor<4x6xf32> -> tensor<4x6xf32>",
        "4x6xf32",
    ),
    "hadamard": ("%z = nn.hadamard %y {block = 2 : i64} : tensor<4x6xf32> -> tensor<4x6xf32>", "4x6xf32"),
    "truth as numbers": (
        """%m = nn.less %y, %c : tensor<4x6xf32>, tensor<f32> -> tensor<4x6xi1>
  %n = nn.cast %m : tensor<4x6xi1> -> tensor<4x6xf32>
  %z = nn.sub %n, %x : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>""",
        "4x6xf32",
    ),
    "to i32": ("%z = nn.cast %y : tensor<4x6xf32> -> tensor<4x6xi32>", "4x6xi32"),
    "to i64": ("%z = nn.cast %y : tensor<4x6xf32> -> tensor<4x6xi64>", "4x6xi64"),
    "to i1": (
        """%r = nn.relu %y : tensor<4x6xf32> -> tensor<4x6xf32>
  %z = nn.cast %r : tensor<4x6xf32> -> tensor<4x6xi1>""",
        "4x6xi1",
    ),
    "non_zero": (
        """%r = nn.relu %y : tensor<4x6xf32> -> tensor<4x6xf32>
  %z = nn.non_zero %r : tensor<4x6xf32> -> tensor<2x24xi64>""",
        "2x24xi64",
    ),
    "indices": (
        """%i = nn.reshape %y {shape = array<i64: 1, 4, 6, 1>} : tensor<4x6xf32> -> tensor<1x4x6x1xf32>
  %z = nn.max_pool2d_indices %i {window = array<i64: 2, 3>} : tensor<1x4x6x1xf32> -> tensor<1x3x4x1xi64>""",
        "1x3x4x1xi64",
    ),
}

LACKING = ("indices", "non_zero", "to i1", "hadamard")
"""Cases that TFLite lacks, or that files store as other operations."""


def network(lines: str, result: str, folder: Path) -> ModuleOp:
    weights = ", ".join(f"{w:.4f}" for w in np.random.default_rng(1).normal(size=36))
    head = LAYER.replace("WEIGHTS", weights)
    text = f"func.func @main(%x: tensor<4x6xf32>) -> tensor<{result}> {{{head}\n  {lines}\n"
    (folder / "net.mlir").write_text(text + f"  func.return %z : tensor<{result}>\n}}\n")
    return qmlir.load(folder / "net.mlir")


@crossed({"case": CASES, "precision": PRECISIONS})
def test_integers_between_layers(case: str, precision: Any, tmp_path: Path) -> None:
    module = network(*CASES[case], tmp_path)
    quantized = qmlir.quantize(module, data=SAMPLES, precision=precision)
    assert [e.operation for e in qmlir.decisions(quantized) if e.outcome != "quantized"] == []
    reference, compiled, exact = qmlir.reference(quantized), qmlir.compile(quantized), qmlir.reference(module)
    alike = []
    for x in SAMPLES:
        found = reference(x)
        assert np.array_equal(compiled(x), found)
        alike.append(np.abs(found.astype(np.float64) - exact(x)) < (0.3 if found.dtype == np.float32 else 0.5))
    assert np.mean(alike) > 0.9
    certificate = certified(quantized, tmp_path)
    assert certificate.certificate["verdict"] == "integer-only"
    told = case in ("is_nan", "is_inf")  # of integers both are false, whatever comes in: a table of one value, folded
    assert (check_certificate(tmp_path / "certificate.json")["operations"] > 3) is not told


@crossed({"element": ["i64", "i32", "i8", "i1"], "precision": PRECISIONS})
def test_a_mask_of_plain_numbers(element: str, precision: Any, tmp_path: Path) -> None:
    """softmax(scores + (1 − mask) · −3.4e38), the mask an input: its numbers become integers by a table or a choice."""
    row, scores = "tensor<1x6xf32>", "tensor<4x6xf32>"
    (tmp_path / "net.mlir").write_text(f"""
func.func @main(%x: {scores}, %m: tensor<1x6x{element}>) -> {scores} {{
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %never = nn.constant <tensor<f32>, [-3.4E+38]> : tensor<f32>
  %y = nn.abs %x : {scores} -> {scores}
  %f = nn.cast %m : tensor<1x6x{element}> -> {row}
  %d = nn.sub %one, %f : tensor<f32>, {row} -> {row}
  %a = nn.mul %d, %never : {row}, tensor<f32> -> {row}
  %s = nn.add %y, %a : {scores}, {row} -> {scores}
  %p = nn.softmax %s {{axis = 1 : i64}} : {scores} -> {scores}
  func.return %p : {scores}
}}
""")
    module = qmlir.load(tmp_path / "net.mlir")
    masks = [
        (np.arange(6) < n)[None].astype({"i1": "bool"}.get(element, element.replace("i", "int"))) for n in range(1, 7)
    ]
    samples = [{"input0": x, "input1": masks[i % 6]} for i, x in enumerate(SAMPLES)]
    quantized = qmlir.quantize(module, data=samples, precision=precision)
    floats = [e.operation for e in qmlir.decisions(quantized) if e.outcome != "quantized"]
    assert floats == []
    reference, compiled, exact = qmlir.reference(quantized), qmlir.compile(quantized), qmlir.reference(module)
    for sample in samples:
        (found,), (expected,) = reference.run(sample), exact.run(sample)
        np.testing.assert_array_equal(compiled.run(sample)[0], found)
        assert np.abs(found - expected).max() < 0.02
        assert (found[:, ~sample["input1"][0].astype(bool)] == 0).all()
    if not floats:
        certified(quantized, tmp_path)
        check_certificate(tmp_path / "certificate.json")


@crossed({"case": [c for c in CASES if c not in LACKING], "suffix": [".onnx", ".tflite"]})
@pytest.mark.filterwarnings("ignore:on x86 processors")
def test_files_have_the_same_results(case: str, suffix: str, tmp_path: Path) -> None:
    """What is written compares and chooses dequantized numbers, and is read back as integers.

    Some operations are several of TFLite's, such as the last of equal numbers, and some of those stay float.
    """
    quantized = qmlir.quantize(network(*CASES[case], tmp_path), data=SAMPLES)
    qmlir.export(quantized, tmp_path / f"net{suffix}")
    module = qmlir.load(tmp_path / f"net{suffix}")
    reference, again = qmlir.reference(quantized), qmlir.reference(module)
    for x in SAMPLES:
        (found,), (expected,) = again.run(x), reference.run(x)
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    if suffix == ".onnx":
        certified(module, tmp_path)


def test_every_pair_of_two_types_is_compared_as_its_numbers(tmp_path: Path) -> None:
    """Scales with a common multiple: many integers of one type stand for a number of the other."""
    text = """
!a = !quant.uniform<i8:f32, 0.375:-7>
!b = !quant.uniform<u8:f32, 0.25:100>
!t = tensor<256x256xi1>
func.func @main(%a: tensor<256x1x!a>, %b: tensor<256x!b>) -> (!t, !t, !t) {
  %0 = nn.equal %a, %b : tensor<256x1x!a>, tensor<256x!b> -> tensor<256x256xi1>
  %1 = nn.less %a, %b : tensor<256x1x!a>, tensor<256x!b> -> tensor<256x256xi1>
  %2 = nn.less_equal %a, %b : tensor<256x1x!a>, tensor<256x!b> -> tensor<256x256xi1>
  func.return %0, %1, %2 : !t, !t, !t
}
"""
    (tmp_path / "net.mlir").write_text(text)
    module = qmlir.load(tmp_path / "net.mlir")
    function = main_function(module)
    a, b = np.arange(-128, 128, dtype=np.int8)[:, None], np.arange(256).astype(np.uint8)
    types = [element_of(v) for v in function.body.block.args]
    real = [
        fixed_point.dequantize(q, t.scale, t.zero_point)
        for q, t in zip((a, b), types, strict=True)
        if isinstance(t, UniformType)
    ]
    expected = [real[0] == real[1], real[0] < real[1], real[0] <= real[1]]
    assert expected[0].sum() > 50
    for runner in (qmlir.reference(module), qmlir.compile(module)):
        for found, truth in zip(runner.run({"input0": a, "input1": b}), expected, strict=True):
            np.testing.assert_array_equal(found, truth)
