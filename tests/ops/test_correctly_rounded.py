"""Softmax and GELU on integers beside exact results: at most one step from the correctly rounded integer.

The exact result is computed with 40 digits, the error function by its series, and rounded half up.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import qmlir
from tests.conftest import crossed

Integers = npt.NDArray[Any]

DIGITS = 40

PI = Decimal("3.141592653589793238462643383279502884197")


def computed(tmp_path: Path, operation: str, data: Integers, x: tuple[float, int], y: tuple[float, int]) -> Integers:
    """The stored results of an operation on stored integers; `x` and `y` are scale and zero point of both."""
    bits, shape = data.dtype.itemsize * 8, "x".join(map(str, data.shape))
    types = [f"tensor<{shape}x!quant.uniform<i{bits}:f32, {scale!r}:{zero}>>" for scale, zero in (x, y)]
    path = tmp_path / "net.mlir"
    path.write_text(f"""
func.func @main(%x: tensor<{shape}xi{bits}>) -> tensor<{shape}xi{bits}> {{
  %0 = quant.scast %x : tensor<{shape}xi{bits}> to {types[0]}
  %1 = {operation.format(types[0], types[1])}
  %2 = quant.scast %1 : {types[1]} to tensor<{shape}xi{bits}>
  func.return %2 : tensor<{shape}xi{bits}>
}}
""")
    module = qmlir.load(path)
    found = np.asarray(qmlir.reference(module)(data))
    assert np.array_equal(qmlir.compile(module)(data), found)
    return found


def stored(real: Decimal, y: tuple[float, int], bits: int) -> int:
    """The correctly rounded integer, within the storage type."""
    rounded = int((real / Decimal(y[0]) + Decimal("0.5")).to_integral_value(ROUND_FLOOR)) + y[1]
    return min(max(rounded, -(1 << bits - 1)), (1 << bits - 1) - 1)


def softmax(row: Sequence[Decimal]) -> list[Decimal]:
    most = max(row)
    e = [(v - most).exp() for v in row]
    return [v / sum(e) for v in e]


def erf(x: Decimal) -> Decimal:
    """2 / √π · Σ (−1)^n x^(2n+1) / (n! (2n + 1)), for |x| < 8 with digits to spare for the cancelled ones."""
    if abs(x) >= 8:
        return Decimal(1).copy_sign(x)
    term, total, n = x, x, 0
    while abs(term) > Decimal(10) ** -60:
        n += 1
        term *= -x * x / n
        total += term / (2 * n + 1)
    return 2 * total / PI.sqrt()


def gelu(x: Decimal) -> Decimal:
    return x * (1 + erf(x / Decimal(2).sqrt())) / 2


def tanh_gelu(x: Decimal) -> Decimal:
    inner = (2 / PI).sqrt() * (x + Decimal("0.044715") * x**3)
    e = (-2 * abs(inner)).exp()
    return x * (1 + ((1 - e) / (1 + e)).copy_sign(inner)) / 2


@crossed({"length": [1, 3, 64, 300], "bits": [8, 16]})
def test_softmax(bits: int, length: int, tmp_path: Path) -> None:
    random = np.random.default_rng(length)
    y = (2.0**-8, -128) if bits == 8 else (2.0**-15, 0)
    data = np.clip(
        np.rint(random.standard_normal((4, length)) * (1 << bits - 3)), -(1 << bits - 1), (1 << bits - 1) - 1
    )
    data = data.astype(f"i{bits // 8}")
    scale = float(np.float32(20.0 / (1 << bits)))
    operation = "nn.softmax %0 {{axis = 1 : i64}} : {} -> {}"
    found = computed(tmp_path, operation, data, (scale, 3), y)
    with localcontext(prec=DIGITS):
        for row, result in zip(data.tolist(), found.tolist(), strict=True):
            exact = [stored(p, y, bits) for p in softmax([(v - 3) * Decimal(scale) for v in row])]
            assert max(abs(a - b) for a, b in zip(exact, result, strict=True)) <= 1


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(("way", "function"), [("", gelu), (" {{tanh = true}}", tanh_gelu)], ids=["erf", "tanh"])
def test_gelu(bits: int, way: str, function: Callable[[Decimal], Decimal], tmp_path: Path) -> None:
    scale, zero = float(np.float32(12.0 / (1 << bits))), 5
    y = float(np.float32(6.5 / (1 << bits))), -(1 << bits - 1) + (1 << bits - 4)
    everything = np.arange(-(1 << bits - 1), 1 << bits - 1)
    data = everything if bits == 8 else np.random.default_rng(0).choice(everything, 256, replace=False)
    data = data.astype(f"i{bits // 8}")[None]
    found = computed(tmp_path, f"nn.gelu %0{way} : {{}} -> {{}}", data, (scale, zero), y)
    with localcontext(prec=100):
        exact = [stored(function((v - zero) * Decimal(scale)), y, bits) for v in data[0].tolist()]
    assert max(abs(a - b) for a, b in zip(exact, found[0].tolist(), strict=True)) <= 1
