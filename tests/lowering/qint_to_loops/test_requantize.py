"""Requantization as machine code under every contract, against its numpy meaning, for awkward accumulators.

The machine code is the contract's own formula, or the faster form that replaces it on a CPU: one instruction for shifts
down of i32 under `single` and `shift`, and the sum of `float_sum` in f32. So these tests hold the two forms equal.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, i32

from qmlir.dialects.qint import RequantizeOp
from qmlir.dialects.qint.requantize import float32_parts, int32, int32s
from qmlir.errors import UnsupportedError
from qmlir.numerics import contracts
from tests.conftest import crossed
from tests.lowering.both import check, network, to_loops

Array = npt.NDArray[Any]

SHIFTS = [-31, -30, -17, -8, -7, -1, 0]
SHIFTS_UP = [-31, -4, 0, 1, 5, 12, 30]


def up(contract: str) -> list[int]:
    """`SHIFTS_UP` as far as a contract takes them."""
    return [min(shift, contracts.CONTRACTS[contract].max_shift) for shift in SHIFTS_UP]


def below(most: int) -> list[int]:
    """Shifts of `SHIFTS` up to `most`, and `most` itself, for enough channels to fill vectors."""
    return [*(shift for shift in SHIFTS if shift < most), most] * 4


def accumulators(count: int, shifts: list[int], multipliers: list[int], limit: int) -> Array:
    """[count, channels] with ties, ends and random values of every magnitude."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((count, len(shifts))) * 2.0 ** rng.integers(1, 31, (count, len(shifts)))).astype(np.int64)
    x[:8] = np.array([0, 1, -1, 2, -2, limit, -limit - 1, 1 << 24])[:, None]
    for c, (shift, multiplier) in enumerate(zip(shifts, multipliers, strict=True)):
        if multiplier == 1 << 30:  # halves: odd multiples of half a step
            step = 1 << min(31, max(0, -shift))
            x[8:24, c] = np.arange(-8, 8) * step + step // 2
    return np.clip(x, -limit - 1, limit).astype(np.int32)


def properties(contract: str, shifts: list[int], bits: int, zero_point: int = 3, input_zero_point: int = 0) -> Any:
    """One multiplier for each shift: powers of two and others, and a zero."""
    step = contracts.CONTRACTS[contract].step
    rng = np.random.default_rng(2)
    multipliers = [(1 << 30) + int(m) // step * step for m in rng.integers(0, 1 << 30, len(shifts))]
    multipliers[::2] = [1 << 30] * len(multipliers[::2])
    multipliers[-2] = 0
    return {
        "multiplier": int32s(multipliers),
        "shift": int32s(shifts),
        "contract": StringAttr(contract),
        "constant": int32s(float32_parts(zero_point + 128.0)) if contracts.CONTRACTS[contract].sums else None,
        "zero_point": int32(zero_point),
        "input_zero_point": int32(input_zero_point),
        "min": int32(-(1 << bits - 1) + 1),
        "max": int32((1 << bits - 1) - 1),
    }


@crossed({"contract": contracts.CONTRACTS, "most": [-2, -1, 0, 30], "bits": [8, 16]}, turns=3)
def test_every_contract(contract: str, most: int, bits: int) -> None:
    shifts = up(contract) if most == 30 else below(most)
    made = properties(contract, shifts, bits)
    x = accumulators(500, shifts, list(made["multiplier"].get_values()), (1 << 31) - 1)
    check(lambda x: RequantizeOp.make([x], made, element=IntegerType(bits)).y, x)


@pytest.mark.parametrize("contract", [c for c in contracts.CONTRACTS if not c.startswith("float")])
def test_to_32_bits(contract: str) -> None:
    made = properties(contract, up(contract), 32)
    x = accumulators(500, up(contract), list(made["multiplier"].get_values()), (1 << 31) - 1)
    check(lambda x: RequantizeOp.make([x], made, element=i32).y, x)


@crossed({"dtype": ["int8", "int16", "int32"], "contract": contracts.CONTRACTS})
def test_another_scale_of_narrow_and_wide_integers(dtype: str, contract: str) -> None:
    info = np.iinfo(dtype)
    fits = info.max + 77 <= contracts.CONTRACTS[contract].limit
    made = properties(contract, SHIFTS, 8, zero_point=-128, input_zero_point=-77 if fits else 0)
    x = np.random.default_rng(1).integers(info.min, info.max, (100, 7), dtype, endpoint=True)
    check(lambda x: RequantizeOp.make([x], made, element=IntegerType(8)).y, x)


@crossed(
    {
        "contract": ["single64", "double64", "away64", "reduced16"],
        "direction": ["down", "up"],
        "input_zero_point": [0, 5],
    },
    turns=2,
)
def test_sums_of_64_bits(contract: str, direction: str, input_zero_point: int) -> None:
    shifts = SHIFTS if direction == "down" else up(contract)
    rng, limit = np.random.default_rng(1), contracts.WIDE_LIMIT
    x = rng.integers(-limit + 5, limit, (600, 7), endpoint=True) >> rng.integers(0, 48, (600, 7))
    x[:6] = np.array([0, 1, -1, limit, -limit + 5, 1 << 31])[:, None]
    made = properties(contract, shifts, 16, input_zero_point=input_zero_point)
    check(lambda x: RequantizeOp.make([x], made, element=IntegerType(16)).y, x)


@pytest.mark.parametrize("shape", [(300,), (5, 40), (2, 3, 4, 24)])
def test_one_multiplier(shape: tuple[int, ...]) -> None:
    made = properties("single", [-8, -8], 8) | {"multiplier": int32s([0x5A827999]), "shift": int32s([-9])}
    x = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, shape, np.int32)
    check(lambda x: RequantizeOp.make([x], made, element=IntegerType(8)).y, x)


def test_refuses_float_even_with_bounds_that_a_float_cannot_hold() -> None:
    made = properties("float_even", SHIFTS, 32)
    module = network(lambda x: RequantizeOp.make([x], made, element=i32).y, TensorType(i32, [3, 7]))
    with pytest.raises(UnsupportedError, match="bounds below 2\\^30 under the contract float_even"):
        to_loops(module)
