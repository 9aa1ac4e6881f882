"""Data of 16 bits: what multiplies, sums, chooses, divides or resizes them is computed in integers, to 70 dB and more.

Machine code gives the bits of the reference, and so does the file of integer operators in onnxruntime.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from tests.frontends.onnx.agreement import load, model, node, onnxruntime_run
from tests.transforms.quantize.calibrated import Array, calibrated, quantized, run, sqnr

IMAGE, ROWS = [1, 3, 8, 8], [1, 10, 12]
RNG = np.random.default_rng(7)
SLOPES = RNG.uniform(0.1, 2, 12).astype(np.float32)


def sized(rows: float, columns: float) -> dict[str, Array]:
    """The factors of a resize."""
    return {"s": np.array([1, 1, rows, columns], np.float32)}


def square(*more: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    """A second tensor q, of another scale, beside the input x."""
    return [node("Mul", "x x", "q"), *more]


def number(value: float) -> Array:
    """A constant of one number."""
    return np.array(value, np.float32)


CASES: dict[str, tuple[Sequence[onnx.NodeProto], list[int], dict[str, Array]]] = {
    "product of two": (square(node("Mul", "x q")), ROWS, {}),
    "product with constants": ([node("Mul", "x c")], ROWS, {"c": SLOPES}),
    "product with a number": ([node("Mul", "x c", "h"), node("Softmax", "h", "y", axis=-1)], ROWS, {"c": number(0.3)}),
    "product with a negative number": ([node("Mul", "x c")], ROWS, {"c": number(-0.3)}),
    "slopes": ([node("PRelu", "x c")], ROWS, {"c": SLOPES}),
    "maximum of two": (square(node("Max", "x q")), ROWS, {}),
    "minimum with constants": ([node("Min", "x c")], ROWS, {"c": SLOPES}),
    "third power": ([node("Pow", "x c")], ROWS, {"c": number(3)}),
    "power of a number": ([node("Pow", "c x")], ROWS, {"c": number(2)}),
    "quotient": (square(node("Add", "q c", "d"), node("Div", "x d")), ROWS, {"c": number(0.5)}),
    "mean of two": (square(node("Mean", "x q")), ROWS, {}),
    "linear resize": ([node("Resize", "x _ s", mode="linear")], IMAGE, sized(1.5, 0.7)),
    "cubic resize": ([node("Resize", "x _ s", mode="cubic")], IMAGE, sized(1.5, 2)),
    "norm with gain": ([node("LayerNormalization", "x c b", axis=-1)], ROWS, {"c": SLOPES, "b": SLOPES[::-1]}),
    "long mean": ([node("ReduceMean", "x a", keepdims=0)], [1, 2, 40_000], {"a": np.array([1, 2])}),
    "long sum": ([node("ReduceSum", "x a", keepdims=0)], [2, 40_000], {"a": np.array([1, 0])}),
}
"""Networks of one kind of operation: nodes, the shape of x, constants."""


NO_OPERATORS = ("norm with gain", "third power", "power of a number", "quotient")
"""Networks whose roots, interpolated tables and quotients have no form in ONNX's integer operators."""


def words(case: str, schema: str) -> tuple[ModuleOp, ModuleOp]:
    """A network, and the same of 16 bits."""
    nodes, shape, constants = CASES[case]
    network = load(model(nodes, {"x": shape}, constants))
    samples = [drawn(shape, seed) for seed in range(4)]
    return network, quantized(calibrated(network, samples), precision="int16", schema=schema)


def drawn(shape: list[int], seed: int) -> Array:
    """Data more above 0 than below."""
    return np.random.default_rng(seed).uniform(-1, 2.5, shape).astype(np.float32)


@pytest.mark.parametrize("schema", ["asymmetric", "symmetric"])
@pytest.mark.parametrize("case", CASES)
def test_words_are_integers(case: str, schema: str) -> None:
    network, result = words(case, schema)
    assert [(e.operation, e.reason) for e in qmlir.decisions(result) if e.outcome == "float"] == []
    held_out = drawn(CASES[case][1], 9)
    assert sqnr(run(network, held_out), run(result, held_out)) > 70


@pytest.mark.parametrize("case", CASES)
def test_machine_code_and_onnxruntime_have_the_same_bits(case: str, tmp_path: Path) -> None:
    _, result = words(case, "asymmetric")
    x = drawn(CASES[case][1], 9)
    expected = run(result, x)
    np.testing.assert_array_equal(qmlir.compile(result)(x), expected)
    if case in NO_OPERATORS:
        return
    qmlir.export(result, tmp_path / "words.onnx", format="onnx-integer")
    np.testing.assert_array_equal(onnxruntime_run(str(tmp_path / "words.onnx"), {"x": x})[0], expected)


WITHOUT: dict[str, tuple[Sequence[onnx.NodeProto], list[int], dict[str, Array], str]] = {
    "powers": (square(node("Pow", "q x")), ROWS, {}, "powers of two computed operands"),
    "remainders": (square(node("Mod", "x q", fmod=1)), ROWS, {}, "on i8, not on i16"),
    "long rows": ([node("MeanVarianceNormalization", "x", axes=[1, 2])], [1, 2, 40_000], {}, "62 bits do not hold"),
    "divisors near 0": (square(node("Div", "x q")), ROWS, {}, "may come near 0"),
    "products along axes": ([node("ReduceProd", "x a")], [2, 3], {"a": np.array([1])}, "which no accumulator holds"),
    "sums of magnitudes": ([node("LpNormalization", "x", p=1)], ROWS, {}, "no integer form"),
}
"""Networks with an operation that has no integer form of 16 bits, and a part of the reason."""


def without(case: str, **options: Any) -> list[str]:
    """The reasons of what stays float of such a network."""
    nodes, shape, constants, _ = WITHOUT[case]
    network = load(model(nodes, {"x": shape}, constants))
    samples = [np.abs(drawn(shape, seed)) + np.float32(0.01) for seed in range(2)]
    result = quantized(calibrated(network, samples), precision="int16", **options)
    return [e.reason for e in qmlir.decisions(result) if e.outcome == "float"]


@pytest.mark.parametrize("case", WITHOUT)
def test_what_stays_float(case: str) -> None:
    *_, reason = without(case)
    assert WITHOUT[case][3] in reason


@pytest.mark.parametrize("case", ["powers", "remainders", "long rows"])
def test_eight_bits_where_sixteen_have_no_form(case: str) -> None:
    assert without(case, rules="glob=* precision=int8") == []
