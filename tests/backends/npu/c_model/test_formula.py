"""Formulas as C: what is written down for each operation, and that every contract of devices can be written."""

import numpy as np
import pytest

from qmlir.backends.npu.c_model.formula import Expression, formula_in_c, function_in_c
from qmlir.numerics.contracts import CONTRACTS, NUMBERED
from qmlir.numerics.elementary.lanes import F32, I64


def test_an_expression() -> None:
    lines = formula_in_c(lambda a, b: 1 - (a * b).maximum(3), [("x[i]", I64), ("y", I64)], "z", "  ")
    assert lines == [
        "  const int64_t t0 = multiply(x[i], y);",
        "  const int64_t t1 = greater(t0, INT64_C(3));",
        "  const int64_t t2 = subtract(INT64_C(1), t1);",
        "  z = t2;",
    ]


def test_floats_are_their_bits() -> None:
    lines = formula_in_c(lambda a, m: (a.to(F32) * m).round_even(), [("a", I64), ("m", F32)], "z", "")
    assert lines == [
        "const uint32_t t0 = float32_of(a);",
        "const uint32_t t1 = float32_product(t0, m);",
        "const uint32_t t2 = float32_round_even(t1);",
        "const int64_t t3 = integer_of(t2);",
        "z = t3;",
    ]


def test_functions() -> None:
    """One result is returned, several are stored; what nothing reads is left out."""
    assert function_in_c("f", lambda a: ((a + 1) * 0, a.equals(2).choose(3, a))[1], ["a"]) == [
        "static inline int64_t f(int64_t a) {",
        "  const int64_t t2 = a == INT64_C(2);",
        "  const int64_t t3 = t2 ? INT64_C(3) : a;",
        "  return t3;",
        "}",
        "",
    ]
    assert function_in_c("g", lambda a, read: (read(a), a.negative()), ["a"], ["x", "y"], "table") == [
        "static inline void g(int64_t a, const uint8_t *table, int64_t *x, int64_t *y) {",
        "  const int64_t t0 = (int16_t)word_of_16(table + 2 * (size_t)a);",
        "  const int64_t t1 = subtract(INT64_C(0), a);",
        "  *x = t0;",
        "  *y = t1;",
        "}",
        "",
    ]


@pytest.mark.parametrize("name", NUMBERED.values())
def test_every_contract_of_devices_can_be_written(name: str) -> None:
    contract = CONTRACTS[name]
    parameters = [("a", I64), *([("m", F32)] if contract.in_floats else [("q", I64), ("s", I64)])]
    assert formula_in_c(contract.formula, parameters, "a", "")[-1].startswith("a = t")


def test_what_the_model_has_no_words_for() -> None:
    """A formula of floats of 64 bits, of which devices have none, is refused when the text is made."""
    number = Expression("a", I64, [])
    with pytest.raises(KeyError):
        number.to(np.dtype("float64"))
