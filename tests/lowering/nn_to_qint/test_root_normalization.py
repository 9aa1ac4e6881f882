"""Integer layer, root-mean-square and L2 normalization against exact quotients: at most one step off.

The exact result is a fraction whose root is known to 200 bits. Rows are random, or equal throughout, or all but one
element are equal, by one step or by all that the type holds; scales and epsilons are tiny and huge.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import floor, isqrt, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, ModuleOp, TensorType, f32, i64
from xdsl.ir import Attribute, Block, Region

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function, to_integers
from qmlir.dialects import nn
from qmlir.dialects.nn.normalization import NormalizationOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.policies.ledger import decisions
from tests.conftest import THOROUGH, crossed

Array = npt.NDArray[Any]

KINDS = (nn.LayerNormOp, nn.RMSNormOp, nn.LpNormalizationOp)


@dataclass(frozen=True)
class Case:
    """A normalization of rows: bits, scale and zero point of the data and of the result, and epsilon."""

    kind: type[NormalizationOp]
    data: tuple[int, float, int]
    result: tuple[int, float, int]
    epsilon: float

    def types(self) -> list[UniformType]:
        return [UniformType.per_tensor(IntegerType(bits), s, z) for bits, s, z in (self.data, self.result)]

    def module(self, shape: tuple[int, ...]) -> ModuleOp:
        """A function that normalizes each row."""
        data, result = self.types()
        block, properties = Block(arg_types=[TensorType(data, shape)]), dict[str, Attribute | None]()
        properties["axis"] = IntegerAttr(1, i64)
        if self.kind is nn.LpNormalizationOp:
            properties["p"] = IntegerAttr(2, i64)
        else:
            properties["epsilon"] = FloatAttr(self.epsilon, f32)
        op = self.kind.make(list(block.args), properties, element=result)
        op.check_integer_form()
        block.add_ops([op, func.ReturnOp(op.results[0])])
        return ModuleOp([func.FuncOp("main", (block.arg_types, [op.results[0].type]), Region(block))])

    def exact(self, row: list[int]) -> Iterator[Fraction]:
        """The exact results of a row, clamped."""
        (_, s, z), (bits, step, point) = self.data, self.result
        n, epsilon, u = len(row), Fraction(float(np.float32(self.epsilon))) / Fraction(s) ** 2, [q - z for q in row]
        total, squares = sum(u), sum(each * each for each in u)
        if self.kind is nn.LayerNormOp:
            radicand, over = n * squares - total**2 + n * n * epsilon, [n * each - total for each in u]
        elif self.kind is nn.RMSNormOp:
            radicand, over = squares / Fraction(n) + epsilon, u
        else:
            radicand, over = Fraction(squares), u
        root = Fraction(isqrt(int(radicand * (1 << 400))), 1 << 200)
        for each in over:
            y = each / root / Fraction(step) + point if root else Fraction(point)
            yield min(max(y, Fraction(-(1 << bits - 1))), Fraction((1 << bits - 1) - 1))


def rows(rng: np.random.Generator, bits: int, n: int) -> Array:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    some = int(rng.integers(low, high))
    close, least, most = (np.full(n, each) for each in (some, low, high))
    close[int(rng.integers(n))] += 1
    least[0], most[-1] = high, low
    made = [
        rng.integers(low, high, n, endpoint=True),
        np.full(n, some),
        np.full(n, low),
        np.full(n, high),
        close,
        least,
        most,
        np.where(np.arange(n) % 2, low, high),
        np.clip(np.rint(rng.normal(some, rng.uniform(0.3, 20), n)), low, high),
    ]
    chosen = made if n < 1000 else [made[i] for i in (0, 4, 5)]
    return np.stack(chosen).astype(f"i{bits // 8}")


def draw(rng: np.random.Generator, kind: type[NormalizationOp], n: int) -> Case:
    def pick(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    bits, wide = pick(8, 16), pick(8, 16)
    scale = float(np.float32(pick(rng.uniform(0.001, 0.1), 2.0 ** rng.uniform(-40, 20))))
    point = int(rng.integers(-(1 << bits - 1), 1 << bits - 1)) if bits == 8 or pick(0, 0, 1) else 0
    step = 2.0 ** rng.uniform(-16, 0)
    if kind is not nn.LpNormalizationOp:
        step = pick(sqrt(n) * 2.0 ** (1 - wide) * 2.0 ** rng.uniform(-4, 1), 2.0 ** rng.uniform(-20, 3))
    end = int(rng.integers(-(1 << wide - 1), 1 << wide - 1)) if pick(0, 1) else 0
    square = scale * scale
    epsilon = pick(0.0, 1e-12, 1e-5, 1.0, 1e6, 0.3 * square, square / n, square * 2.0 ** rng.uniform(0, 40))
    return Case(kind, (bits, scale, point), (wide, float(np.float32(step)), end), float(np.float32(epsilon)))


def assert_within_a_step(case: Case, x: Array, y: Array) -> None:
    for row, got in zip(x.tolist(), y.tolist(), strict=True):
        for exact, stored in zip(case.exact(row), got, strict=True):
            assert abs(floor(exact + Fraction(1, 2)) - stored) <= 1, f"{case}: {float(exact)} as {stored}"


def integers(case: Case, x: Array) -> Array:
    module = to_integers(case.module(x.shape))
    assert {entry.outcome for entry in decisions(module)} <= {"quantized"}
    (y,) = evaluate(main_function(module), [x])
    return y


@crossed({"kind": KINDS, "n": [1, 2, 3, 7, 37, 384, 4096]})
def test_results_are_within_a_step(kind: type[NormalizationOp], n: int) -> None:
    rng, tried = np.random.default_rng(n), 0
    for _ in range((300 if n < 1000 else 30) if THOROUGH else 4 if n < 100 else 2):
        case = draw(rng, kind, n)
        x = rows(rng, case.data[0], n)
        with suppress(UnsupportedError):
            assert_within_a_step(case, x, integers(case, x))
            tried += 1
    assert tried


def test_the_hardest_rounding_of_epsilon() -> None:
    """One element of the most that there may be is a step off; epsilon is half a step of the sum under the root."""
    n, step = 65535, sqrt(65535) / (1 << 15)
    epsilon = float(np.float32(0.5 / n**2))
    case = Case(nn.LayerNormOp, (16, 1.0, 0), (16, float(np.float32(step)), 0), epsilon)
    x = np.full((1, n), -20000, np.int16)
    x[0, 77] += 1
    y = integers(case, x)
    exact = list(islice(case.exact(np.roll(x[0], -70).tolist()), 10))
    off = [floor(e + Fraction(1, 2)) - q for e, q in zip(exact, y[0, 70:80].tolist(), strict=True)]
    assert max(map(abs, off)) <= 1
    with pytest.raises(UnsupportedError, match="which 62 bits do not hold exactly enough"):
        case.module((1, n + 1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_machine_code_computes_the_same(kind: type[NormalizationOp]) -> None:
    """Rows of lengths that leave some elements beside all vectors; rows whose sums of bytes leave 32 bits."""
    rng = np.random.default_rng(3)
    for n in (1, 15, 39, 1000, 600_000):
        for bits in (8, 16) if n < 1 << 16 else (8,):
            case = Case(kind, (bits, 0.05, 3), (bits, max(sqrt(n) * 2.0 ** (2 - bits), 2.0**-14), -5), 1e-5)
            if kind is nn.LpNormalizationOp:
                case = Case(kind, (bits, 0.05, 3), (bits, 2.0 ** (1 - bits), -5), 0.0)
            x = rows(rng, bits, n)[-1:] if n > 1000 else rows(rng, bits, n)
            module = case.module(x.shape)
            np.testing.assert_array_equal(qmlir.compile(module)(x), qmlir.reference(module)(x))
