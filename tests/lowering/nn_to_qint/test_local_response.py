"""Integer local response normalization against exact results, to 40 digits: at most one step off."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, ModuleOp, TensorType, f32, i64
from xdsl.ir import Block, Region

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function, to_integers
from qmlir.dialects import nn
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from tests.conftest import THOROUGH

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A normalization: its window and numbers; bits, scale and zero point of the data and of the result."""

    size: int
    alpha: float
    beta: float
    bias: float
    data: tuple[int, float, int]
    result: tuple[int, float, int]

    def module(self, shape: tuple[int, ...]) -> ModuleOp:
        data, result = (UniformType.per_tensor(IntegerType(b), s, z) for b, s, z in (self.data, self.result))
        block, numbers = Block(arg_types=[TensorType(data, shape)]), {"alpha": self.alpha, "beta": self.beta}
        properties = {name: FloatAttr(value, f32) for name, value in (numbers | {"bias": self.bias}).items()}
        op = nn.LocalResponseNormalizationOp.make(
            list(block.args), {"size": IntegerAttr(self.size, i64), **properties}, element=result
        )
        op.check_integer_form()
        block.add_ops([op, func.ReturnOp(op.y)])
        return ModuleOp([func.FuncOp("main", (block.arg_types, [op.y.type]), Region(block))])

    def exact(self, row: list[int]) -> Iterator[Decimal]:
        """The exact results of the channels of a pixel, clamped."""
        (_, s, z), (bits, step, point) = self.data, self.result
        alpha, beta, bias = (Decimal(float(np.float32(n))) for n in (self.alpha, self.beta, self.bias))
        for c, q in enumerate(row):
            window = row[max(0, c - (self.size - 1) // 2) : c + self.size // 2 + 1]
            base = bias + alpha / self.size * Decimal(s) ** 2 * sum((each - z) ** 2 for each in window)
            y = (q - z) * Decimal(s) / Decimal(step) * (-beta * base.ln()).exp() if q != z else Decimal(0)
            yield min(max(y + point, Decimal(-(1 << bits - 1))), Decimal((1 << bits - 1) - 1))


def rows(rng: np.random.Generator, bits: int, channels: int) -> Array:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    small = np.clip(np.rint(rng.normal(0, 3, channels)), low, high)
    made = [rng.integers(low, high, channels, endpoint=True), np.full(channels, low), np.full(channels, high), small]
    return np.stack([*made, np.where(np.arange(channels) % 2, low, high)]).astype(f"i{bits // 8}")


def draw(rng: np.random.Generator, channels: int) -> Case:
    def pick(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    bits, wide = pick(8, 16), pick(8, 16)
    scale = float(np.float32(pick(rng.uniform(0.001, 1), 2.0 ** rng.uniform(-30, 10))))
    point = int(rng.integers(-(1 << bits - 1), 1 << bits - 1)) if pick(0, 1) else 0
    size, bias = pick(1, 2, 3, 5, 9, 40), pick(1.0, 2.0, 1e-3, 0.0, 100.0)
    alpha, beta = pick(1e-4, 2e-5, 1.0, 0.0, 5.0), pick(0.75, 0.75, 0.5, 1.0, 2.0, -0.5, -1.0, rng.uniform(-3, 8))
    farthest = (1 << bits - 1) + abs(point)
    base = bias + alpha / size * min(size, channels) * (farthest * scale) ** 2
    reached = farthest * scale * base**-beta if base else 1.0
    step = float(np.float32(min(max(reached * 2.0 ** (1 - wide) * 2.0 ** rng.uniform(-3, 1), 1e-30), 1e30)))
    return Case(size, alpha, float(beta), bias, (bits, scale, point), (wide, step, int(rng.integers(-50, 50))))


@pytest.mark.parametrize("channels", [1, 3, 8, 40])
def test_results_are_within_a_step(channels: int) -> None:
    rng, tried = np.random.default_rng(channels), 0
    for _ in range(300 if THOROUGH else 12):
        case, context = draw(rng, channels), Context(prec=40)
        x = rows(rng, case.data[0], channels)
        with suppress(UnsupportedError), localcontext(context):
            (y,) = evaluate(main_function(to_integers(case.module(x.shape))), [x])
            tried += 1
            for row, got in zip(x.tolist(), y.tolist(), strict=True):
                for exact, stored in zip(case.exact(row), got, strict=True):
                    assert abs(floor(exact + Decimal("0.5")) - stored) <= 1, f"{case}: {exact} as {stored}"
    assert tried


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(("size", "beta"), [(5, 0.75), (4, 0.5), (9, 2.0)])
def test_machine_code_computes_the_same_and_is_certified(bits: int, size: int, beta: float) -> None:
    case = Case(
        size, 1e-4, beta, 1.0, (bits, 0.25 if bits == 8 else 0.001, 3), (bits, 0.25 if bits == 8 else 0.001, -4)
    )
    x = np.random.default_rng(bits).integers(-(1 << bits - 1), 1 << bits - 1, (6, 7, 33)).astype(f"i{bits // 8}")
    module = case.module(x.shape)
    np.testing.assert_array_equal(qmlir.compile(module)(x), qmlir.reference(module)(x))
    assert certificate_of(module)[1]["verdict"] == "integer-only"


@pytest.mark.parametrize(
    ("alpha", "beta", "bias", "reason"),
    [
        (-1e-4, 0.75, 1.0, "its base may be 0 or negative"),
        (1e-4, 0.75, -1.0, "its base may be 0 or negative"),
        (0.0, 0.75, 0.0, "its base may be 0 or negative"),
        (1e-4, 9.0, 1.0, "its exponent 9 is beyond 8"),
    ],
)
def test_what_has_no_integer_form(alpha: float, beta: float, bias: float, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        Case(5, alpha, beta, bias, (8, 0.25, 0), (8, 0.25, 0)).module((1, 8))
