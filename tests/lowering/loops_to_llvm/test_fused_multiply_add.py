"""math.fma as machine code: the processor's instruction, and the same bits where a processor has none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import elementwise, lowered, run_kernel, with_main

from qmlir.backends.cpu.llvm import Machine, enabled
from qmlir.numerics.products import add_products
from tests.numerics.multiply_adds import KINDS, operands, same

N = 1 << 18


def kernel(count: int) -> str:
    return elementwise("%r = math.fma %0, %1, %2 : f32", [("f32", count)] * 3, ("f32", count))


@pytest.mark.parametrize("kind", KINDS)
def test_bits(kind: Callable[[np.random.Generator, int], Any]) -> None:
    """The instruction, its emulation, and the numerics, which define the sum."""
    x, w, s = operands(kind, N)
    want = s.copy()
    add_products(want, x[None], w[None])
    has = enabled(Machine.host()) & {"fma", "neon"}
    for features in ("", *(f"+{name}" for name in has)):
        (y,) = run_kernel(kernel(N), x, w, s, out=[s], features=features)
        assert same(y, want), features


def test_only_processors_with_the_instruction_use_it() -> None:
    text = with_main(kernel(8), 3)
    assert "llvm.fma.f32" in str(lowered(text, "+fma"))
    assert "llvm.fma.f32" in str(lowered(text, "+neon"))
    assert "llvm.fma" not in str(lowered(text, "+avx2"))
