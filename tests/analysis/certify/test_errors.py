"""Stated errors hold: no operands bring a result farther from the real result than its certificate says.

Each operation is lowered from quantized types, certified, and evaluated on operands from all over their intervals. The
real results are computed in float64 from what the certificate says that the integers stand for. Errors of bounds that
are meant to be tight come close to them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from qmlir.analysis.certify import certificate_of
from qmlir.checker import check_certificate
from qmlir.dialects import qint
from qmlir.dialects.nn.base import NNOp
from qmlir.ir.context import make_context
from qmlir.ir.facts import NUMERICS
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.signature import main_function
from qmlir.ir.source import parse_text
from qmlir.ir.types import dtype_of
from qmlir.numerics import tables
from tests.checker.networks import certified

RNG = np.random.default_rng(8)

Real = Callable[[Any, Mapping[str, Any], Sequence[Array]], Array]
"""(operation on integers, what its certificate states, operands) → real results before the clamp."""


def _clamped(op: Any, steps: Array) -> Array:
    return np.clip(steps + op.zero_point.value.data, op.lower.value.data, op.upper.value.data)


def _less_zero_point(op: Any, operands: Sequence[Array]) -> tuple[Array, Array]:
    left, right = (x.astype(np.float64) - z for x, z in zip(operands, op.zero_points(), strict=True))
    return left, right


def _sum(op: Any, stated: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    (a, b), (left, right) = _less_zero_point(op, operands), stated["factors"]
    minus = bool(op.subtract) if isinstance(op, qint.RescaledAddOp) else op.multipliers.get_values()[1] < 0
    return _clamped(op, a * left + (-b if minus else b) * right)


def _quotient(op: Any, stated: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    a, b = _less_zero_point(op, operands)
    with np.errstate(all="ignore"):
        return _clamped(op, np.where(b == 0, np.sign(a) * 1e9, a / b * stated["factors"][0]))


def _softmax(op: Any, stated: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    scale, unit = stated["factors"]
    x = operands[0] * scale
    e = np.exp(x - x.max(axis=op.axis.value.data, keepdims=True))
    return _clamped(op, e / e.sum(axis=op.axis.value.data, keepdims=True) * unit)


def _log_softmax(op: Any, stated: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    x = operands[0] * stated["factors"][0]
    x = x - x.max(axis=op.axis.value.data, keepdims=True)
    y = (x - np.log(np.exp(x).sum(axis=op.axis.value.data, keepdims=True))) * 2.0**op.fraction.value.data
    return np.maximum(y, -(2.0**31))


def _norm(op: Any, stated: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    x = operands[0].astype(np.float64) - op.input_zero_point.value.data
    squares = np.maximum((x * x).sum(axis=op.axis.value.data, keepdims=True), 1)
    return _clamped(op, x / np.sqrt(squares) * stated["factors"][0])


def _mean(op: Any, stated: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    point = op.zero_point.value.data
    total = sum(op.taps(operands[0].astype(np.float64), op.window_values(), point if op.count_include_pad else 0))
    return np.asarray(total) / op.counts()[:, :, None]


def _interpolated(op: Any, stated: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    point = stated.get("input_zero_point", op.zero_point.value.data if isinstance(op, qint.ResizeOp) else 0)
    y = operands[0].astype(np.float64) - point
    for (axis, taps, _), weights in zip(op.tables(), stated["weights"], strict=True):
        parts = [
            np.take(y, taps[:, t], axis=axis) * np.array(weights)[:, t].reshape(-1, *[1] * (y.ndim - axis - 1))
            for t in range(taps.shape[1])
        ]
        y = np.sum(parts, axis=0)
    return y * 2.0 ** sum(stated["bits"]) if "bits" in stated else y + point


REAL: Mapping[type[Operation], Real] = {
    qint.AddOp: _sum,
    qint.RescaledAddOp: _sum,
    qint.DivOp: _quotient,
    qint.SoftmaxOp: _softmax,
    qint.LogSoftmaxOp: _log_softmax,
    qint.L2NormalizationOp: _norm,
    qint.AveragePool2DOp: _mean,
    qint.ResizeOp: _interpolated,
    qint.InterpolateOp: _interpolated,
}


@dataclass(frozen=True)
class Case:
    """An operation on quantized types.

    text      the operation; its operands are %x and %y
    operands  their types, without `tensor`
    result    the type of its result
    numerics  the runtime whose rounding is followed
    kind      the integer operation that is tested
    tight     the part of the bound that random operands reach at least
    """

    text: str
    operands: Sequence[str]
    result: str
    kind: type[Any]
    tight: float
    numerics: str = "default"

    def certified(self) -> tuple[Any, Mapping[str, Any]]:
        """The integer operation, and what its certificate says about it."""
        integers, certificate = certificate_of(self.module())
        ops = list(main_function(integers).body.block.ops)
        (index,) = [i for i, op in enumerate(ops) if isinstance(op, self.kind)]
        (found,) = [each for each in certificate["operations"] if each["index"] == index]
        return ops[index], found

    def module(self) -> Any:
        types = [f"tensor<{type}>" for type in (*self.operands, self.result)]
        arguments = ", ".join(f"%{n}: {t}" for n, t in zip("xy", types[:-1], strict=False))
        signature = f"{', '.join(types[:-1])} -> {types[-1]}"
        text = f"""
func.func @main({arguments}) -> {types[-1]} {{
  %0 = {self.text} : {signature}
  func.return %0 : {types[-1]}
}}
"""
        module = parse_text(make_context(), text, "text")
        if self.numerics != "default":
            NUMERICS.put(module, self.numerics)
        return module


def q8(scale: float, point: int = 0, storage: str = "i8") -> str:
    return f"!quant.uniform<{storage}:f32, {scale!r}{f':{point}' if point else ''}>"


def q16(scale: float, point: int = 0) -> str:
    return q8(scale, point, "i16")


PAIR = ("256x1x", "1x256x")
UP = (
    "nn.resize %x {{axes = array<i64: 1>, taps = [#qmlir.weights<tensor<5x2xi64>, [0, 1, 0, 1, 1, 2, 1, 2, 2, 3]>], "
    "weights = [#qmlir.weights<tensor<5x2xf64>, [{}]>]}}"
)
THIRDS = ", ".join(repr(w) for k in (1, 2, 1, 2, 1) for w in (k / 3, 1 - k / 3))
OVERSHOOT = ", ".join(repr(w) for k in (0.1, 0.3, 0.7, 0.9, -0.11) for w in (-k / 3, 1 + k / 3))
POOL = "nn.average_pool2d %x {window = array<i64: 3, 2>, padding = array<i64: 1, 0, 0, 1>, count_include_pad = false}"

CASES: Mapping[str, Case] = {
    "add": Case(
        "nn.add %x, %y", (PAIR[0] + q8(0.017, 3), PAIR[1] + q8(0.031, -7)), "256x256x" + q8(0.043, 5), qint.AddOp, 0.95
    ),
    "add of far scales": Case(
        "nn.add %x, %y", (PAIR[0] + q8(50.0), PAIR[1] + q8(1e-4, 9)), "256x256x" + q8(0.01), qint.AddOp, 0.4
    ),
    "sub": Case("nn.sub %x, %y", (PAIR[0] + q8(0.5, 100), PAIR[1] + q8(0.03)), "256x256x" + q8(0.4), qint.AddOp, 0.95),
    "add of int16": Case(
        "nn.add %x, %y", ("256x1x" + q16(0.017), "1x256x" + q16(0.031)), "256x256x" + q16(0.043), qint.AddOp, 0.9
    ),
    "add as litert": Case(
        "nn.add %x, %y",
        (PAIR[0] + q8(0.017, 3), PAIR[1] + q8(0.031, -7)),
        "256x256x" + q8(0.043, 5),
        qint.RescaledAddOp,
        0.9,
        "litert-reference",
    ),
    "sub as litert": Case(
        "nn.sub %x, %y",
        (PAIR[0] + q8(0.1), PAIR[1] + q8(0.1)),
        "256x256x" + q8(0.13),
        qint.RescaledAddOp,
        0.9,
        "litert-builtin",
    ),
    "softmax": Case(
        "nn.softmax %x {axis = 1 : i64}", ("300x10x" + q8(0.11, 4),), "300x10x" + q8(1 / 256, -128), qint.SoftmaxOp, 0.9
    ),
    "softmax of int16": Case(
        "nn.softmax %x {axis = 1 : i64}", ("300x10x" + q16(0.0003),), "300x10x" + q16(1 / 32768), qint.SoftmaxOp, 0.9
    ),
    "softmax as litert": Case(
        "nn.softmax %x {axis = 1 : i64}",
        ("300x10x" + q8(0.11, 4),),
        "300x10x" + q8(1 / 256, -128),
        qint.SoftmaxOp,
        0.9,
        "litert-reference",
    ),
    "softmax as litert, int16": Case(
        "nn.softmax %x {axis = 1 : i64}",
        ("300x10x" + q16(0.0003),),
        "300x10x" + q16(1 / 32768),
        qint.SoftmaxOp,
        0.02,
        "litert-reference",
    ),
    "log softmax": Case(
        "nn.log_softmax %x {axis = 1 : i64}",
        ("300x10x" + q8(0.07, 4),),
        "300x10x" + q8(16 / 256, 127),
        qint.LogSoftmaxOp,
        0.3,
    ),
    "log softmax of int16": Case(
        "nn.log_softmax %x {axis = 1 : i64}",
        ("300x100x" + q16(0.0003),),
        "300x100x" + q16(0.001),
        qint.LogSoftmaxOp,
        0.05,
    ),
    "log softmax as litert": Case(
        "nn.log_softmax %x {axis = 1 : i64}",
        ("300x10x" + q8(0.07, 4),),
        "300x10x" + q8(16 / 256, 127),
        qint.LogSoftmaxOp,
        0.1,
        "litert-reference",
    ),
    "norm": Case(
        "nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64}",
        ("400x9x" + q8(0.1, 7),),
        "400x9x" + q8(1 / 128),
        qint.L2NormalizationOp,
        0.9,
    ),
    "norm of another scale": Case(
        "nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64}",
        ("400x3x" + q8(0.1, 7),),
        "400x3x" + q8(0.009),
        qint.L2NormalizationOp,
        0.7,
    ),
    "norm as litert": Case(
        "nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64}",
        ("400x9x" + q8(0.1),),
        "400x9x" + q8(1 / 128),
        qint.L2NormalizationOp,
        0.6,
        "litert-reference",
    ),
    "div": Case(
        "nn.div %x, %y", ("300x1x" + q16(0.01, 5), "1x300x" + q16(0.7)), "300x300x" + q16(0.003), qint.DivOp, 0.8
    ),
    "div to bytes": Case(
        "nn.div %x, %y", ("300x1x" + q16(0.01), "1x300x" + q16(0.7)), "300x300x" + q8(0.01), qint.DivOp, 0.9
    ),
    "div as litert": Case(
        "nn.div %x, %y",
        ("300x1x" + q16(0.01), "1x300x" + q16(0.0001)),
        "300x300x" + q16(0.5),
        qint.DivOp,
        0.0,
        "litert-reference",
    ),
    "mean": Case(POOL, ("1x9x8x4x" + q8(0.1, 3),), "1x8x8x4x" + q8(0.1, 3), qint.AveragePool2DOp, 0.99),
    "resize": Case(UP.format(THIRDS), ("40x4x" + q8(0.1, 3),), "40x5x" + q8(0.1, 3), qint.ResizeOp, 0.4),
    "resize beyond": Case(UP.format(OVERSHOOT), ("40x4x" + q8(0.1, 3),), "40x5x" + q8(0.12), qint.ResizeOp, 0.4),
    "interpolation": Case(
        UP.format(THIRDS), ("900x4x" + q16(0.1, 3),), "900x5x" + q16(0.1, 3), qint.InterpolateOp, 0.5
    ),
}


def _operands(op: Any) -> list[Array]:
    """Every byte where a pair of operands has all of them, else numbers from all over the type, ends among them."""
    found: list[Array] = []
    for value in op.operands:
        shape, dtype = shape_of(value), dtype_of(element_of(value))
        info = np.iinfo(dtype)
        if np.prod(shape) == 256 and dtype == np.int8:
            found.append(np.arange(-128, 128, dtype=np.int8).reshape(shape))
            continue
        array = RNG.integers(info.min, info.max + 1, shape)
        array = np.where(RNG.random(shape) < 0.3, array >> 8 if dtype == np.int16 else array >> 4, array)
        array.reshape(-1)[:4] = info.min, info.max, 0, 1
        if len(array) > 2:
            array.reshape(len(array), -1)[-2:] = [[info.min], [info.max]]
        found.append(array.astype(dtype))
    return found


@pytest.mark.parametrize("name", CASES)
def test_stated_errors_hold(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    op, found = case.certified()
    stated, worst = found["rounding"], 0.0
    for _ in range(20):
        operands = _operands(op)
        (result,) = op.evaluate(*operands)
        away = np.abs(result - REAL[case.kind](op, stated, operands))
        if isinstance(op, qint.DivOp):  # 0 / 0 has no real value
            away = np.where(
                (_less_zero_point(op, operands)[1] == 0) & (_less_zero_point(op, operands)[0] == 0), 0, away
            )
        worst = max(worst, float(away.max()))
    assert case.tight * stated["error"] <= worst <= stated["error"] + 1e-6
    check_certificate(certified(case.module(), tmp_path).path)


THREE_255THS = float(np.float32(3 / 255))
"""A scale of which 255 steps are 3 in float32, and a little less in float64."""

PAIRS: Mapping[str, Case] = {
    "div": Case("nn.div %x, %y", ("4x" + q8(0.1, 3), "4x" + q8(0.2, -5)), "4x" + q8(0.01, 7), qint.PairLookupOp, 0),
    "prelu": Case("nn.prelu %x, %y", ("4x" + q8(0.1, 3), "4x" + q8(0.2, -5)), "4x" + q8(0.5, 7), qint.PairLookupOp, 0),
    "squared difference": Case(
        "nn.squared_difference %x, %y", ("4x" + q8(0.1, 3), "4x" + q8(0.2, -5)), "4x" + q8(0.5), qint.PairLookupOp, 0
    ),
    "maximum": Case(
        "nn.maximum %x, %y", ("4x" + q8(0.1, 3), "4x" + q8(0.2, -5)), "4x" + q8(0.21, 7), qint.PairLookupOp, 0
    ),
    "minimum": Case(
        "nn.minimum %x, %y", ("4x" + q8(0.1, 3, "u8"), "4x" + q8(0.2)), "4x" + q8(0.21, 7, "u8"), qint.PairLookupOp, 0
    ),
    "pow": Case(
        "nn.pow %x, %y",
        ("4x" + q8(0.0078125, -5), "4x" + q8(THREE_255THS, -128)),
        "4x" + q8(0.0081),
        qint.PairLookupOp,
        0,
    ),
    "mod": Case(
        "nn.mod %x, %y",
        ("4x" + q8(THREE_255THS, 7), "4x" + q8(THREE_255THS, -128)),
        "4x" + q8(0.031, 3),
        qint.PairLookupOp,
        0,
    ),
    "div as litert": Case(
        "nn.div %x, %y",
        ("4x" + q8(0.1, 3), "4x" + q8(0.2, -5)),
        "4x" + q8(0.01, 7),
        qint.PairLookupOp,
        0,
        "litert-reference",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_tables_of_pairs(name: str, tmp_path: Path) -> None:
    op, found = PAIRS[name].certified()
    stated = found["table"]
    assert stated["entries"] == 1 << 16
    assert (stated["error"] > 1) if name == "div as litert" else (0.3 < stated["error"] <= 0.500001)
    lhs, rhs = ((np.arange(-128, 128) - each["zero_point"]) * each["scale"] for each in stated["function"]["inputs"])
    if name == "minimum":  # the function's zero points are those of signed bytes
        real = np.minimum(lhs[:, None], rhs) / stated["function"]["output"]["scale"]
        steps = np.clip(real + stated["function"]["output"]["zero_point"], -128, 127)
        assert np.abs(op.table.array - steps).max() <= stated["error"]
    check_certificate(certified(PAIRS[name].module(), tmp_path).path)


def test_interpolated_tables_state_the_error_of_every_integer() -> None:
    case = Case("nn.sigmoid %x", ("4x" + q16(0.0001),), "4x" + q16(1 / 32768), qint.InterpolatedLookupOp, 0)
    op, found = case.certified()
    x = np.arange(-(1 << 15), 1 << 15)
    away = tables.interpolated(op.table.array, x) - (1 / (1 + np.exp(-x * 0.0001)) * 32768).clip(-32768, 32767)
    assert found["table"]["error"] == pytest.approx(np.abs(away).max(), abs=1e-3)


def test_products_and_matrix_products_state_the_error_of_their_requantization() -> None:
    for text, types, result in (
        ("nn.mul %x, %y", ("4x" + q8(0.1, 3), "4x" + q8(0.2, -5)), "4x" + q8(0.5, 7)),
        ("nn.matmul %x, %y", ("4x6x" + q8(0.1, 3), "6x3x" + q8(0.2)), "4x3x" + q8(0.5, 7)),
    ):
        stated = Case(text, types, result, qint.RequantizeOp, 0).certified()[1]["requantization"]
        assert stated["factors"] == [pytest.approx(0.1 * 0.2 / 0.5)]
        assert 0.5 <= stated["error"] < 0.50001


def test_both_requantizations_of_a_leaky_product_have_their_factor() -> None:
    case = Case("nn.prelu %x, %y", ("4x" + q16(0.1), "4x" + q16(0.2)), "4x" + q16(0.5), NNOp, 0)
    _, certificate = certificate_of(case.module())
    stated = [each["requantization"]["factors"] for each in certificate["operations"] if "requantization" in each]
    assert stated == [[pytest.approx(0.1 / 0.5)], [pytest.approx(0.1 * 0.2 / 0.5)]]
