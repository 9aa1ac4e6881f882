"""Integer forms of operations on two tensors: sums, products, choices, quotients, comparisons."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.contraction import SAME_SCALE
from qmlir.dialects.nn.elementwise import ComparisonOp, OperandPairOp, PredicateOp
from qmlir.dialects.nn.quantizable import FACTOR_LIMIT, uniform, widest
from qmlir.dialects.qint.requantize import float32_parts, int32, int32s
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.functions import by_entries, dequantized, pair_table, reals_of_pair, stored_results
from qmlir.lowering.nn_to_qint.movement import reshape
from qmlir.lowering.nn_to_qint.scales import (
    limits,
    multiplier_of,
    narrowing,
    operand_zero_points,
    requantize,
    sums_of,
)
from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import CONTRACTS
from qmlir.policies.runtime_kernels import followed_runtime, has_rounding, left_shift, sign_shift
from qmlir.policies.runtimes import Rounding

# ---------------------------------------------------------------------------------------------------------------
# Lowering of sums, differences, products and quotients of two tensors.


def lower_sum(op: nn.AddOp | nn.SubOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers y = z_y + round((a − z_a)·s_a/s_y ± (b − z_b)·s_b/s_y), rounded once or as the target rounds."""
    if rounding.otherwise is not None and not _has_short_factors(op):
        rounding = rounding.otherwise
    # Only a runtime that adds in float32 gets a float sum; under a target's own `float_even`, sums stay integers.
    if rounding.contract == "float_even" and rounding.float32 and isinstance(op, nn.AddOp):
        return [_float_add(op, operands)]
    if rounding.operands is not None and (left := _room(op)) is not None:
        return [_rescaled_add(op, operands, rounding.operands, rounding.contract, left)]
    if rounding.apart:
        return _add_apart(op, operands, rounding)
    ratios = _bounded(op, op.factors(rounding.dtype).tolist())
    if rounding.factors is not None and rounding.factors.own is not None:
        pair, shift = rounding.factors.of_sum(*ratios)
        return [_add(op, operands, pair, shift)]
    # The larger multiplier has `rounding.bits` bits and a sign; 2^30 · 2 · 2^16 stays far below 2^62.
    shift = rounding.bits - math.frexp(max(ratios))[1]
    return [_add(op, operands, [round(math.ldexp(r, shift)) for r in ratios], shift)]


def _add(op: nn.AddOp | nn.SubOp, operands: Sequence[SSAValue], multipliers: Sequence[int], shift: int) -> qint.AddOp:
    """A sum, or a difference, that is rounded once."""
    lhs, rhs = multipliers
    own = DenseArrayBase.from_list(i64, [lhs, -rhs if isinstance(op, nn.SubOp) else rhs])
    properties = {**operand_zero_points(op), "multipliers": own, "shift": int32(shift), **narrowing(op)}
    return qint.AddOp.make(operands, properties, element=uniform(op.y).storage_type)


def _add_apart(op: nn.AddOp | nn.SubOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """A sum whose operands are each rounded to the result's scale: y = clamp(z_y + (a' − z_y) ± (b' − z_y)).

    Here a' and b' are stored integers of the result's type; an operand that has the result's scale stays as it is.
    """
    result, new, values = uniform(op.y), list[Operation](), list[SSAValue]()
    for own, stored, real in zip(map(uniform, (op.lhs, op.rhs)), operands, op.factors(rounding.dtype), strict=True):
        if own == result:
            values.append(stored)
            continue
        full, pair = (result.storage_min, result.storage_max), multiplier_of(float(real), rounding)
        new.append(requantize(stored, op, rounding, input_zero_point=own.zero_point, multiplier=pair, bounds=full))
        values.append(new[-1].results[0])
    point, sign = int32(result.zero_point), -1 if isinstance(op, nn.SubOp) else 1
    whole = {"multipliers": DenseArrayBase.from_list(i64, [2, 2 * sign]), "shift": int32(1)}
    properties = {"lhs_zero_point": point, "rhs_zero_point": point, **whole, **narrowing(op)}
    return [*new, qint.AddOp.make(values, properties, element=result.storage_type)]


def _bounded(op: nn.AddOp | nn.SubOp, ratios: list[float]) -> list[float]:
    """Both factors, the larger one no larger than results show, so that the common shift keeps bits for the smaller.

    From spread + widest(other operand) · (its factor) on, every integer but the zero point saturates the result.
    """
    result = uniform(op.y)
    spread = result.storage_max - result.storage_min + 1
    left, right = ratios
    return [
        min(left, spread + widest(uniform(op.rhs)) * right),
        min(right, spread + widest(uniform(op.lhs)) * left),
    ]


def _has_short_factors(op: nn.AddOp | nn.SubOp) -> bool:
    """Whether both operands' factors, in float32, are in [2^−10, 2^8), where XNNPACK has a kernel for sums."""
    found = op.factors(np.float32)
    return bool(((found >= 2**-10) & (found < 2**8)).all())


def _room(op: nn.AddOp | nn.SubOp) -> int | None:
    """The bits by which operands are shifted left before they are brought to one scale; None if they would overflow.

    They overflow only for 16-bit operands that lie farther from their zero point than any runtime's do.
    """
    left = left_shift(op)
    return left if max(widest(uniform(op.lhs)), widest(uniform(op.rhs))) << left <= 1 << 30 else None


def _rescaled_add(
    op: nn.AddOp | nn.SubOp, operands: Sequence[SSAValue], contract_of_operands: str, contract: str, left: int
) -> qint.RescaledAddOp:
    """A sum whose operands are rescaled first: y = z_y + round((round(2^l·(a − z_a)·s_a/t) ± …) · t/(2^l·s_y)).

    Here t = 2·max(s_a, s_b), and l is the left shift.
    """
    lhs, rhs, result = (uniform(v) for v in (op.lhs, op.rhs, op.y))
    twice = 2 * max(lhs.scale, rhs.scale)
    reals = [lhs.scale / twice, rhs.scale / twice, twice / ((1 << left) * result.scale)]
    multipliers, shifts = fixed_point.quantize_multipliers(reals)
    return qint.RescaledAddOp.make(
        operands,
        {
            **operand_zero_points(op),
            "left": int32(left),
            "multipliers": int32s(multipliers.tolist()),
            "shifts": int32s(shifts.tolist()),
            "operand_contract": StringAttr(contract_of_operands),
            "contract": StringAttr(contract),
            "subtract": BoolAttr.from_bool(isinstance(op, nn.SubOp)),
            **narrowing(op),
        },
        element=result.storage_type,
    )


def _float_add(op: nn.AddOp, operands: Sequence[SSAValue]) -> qint.FloatAddOp:
    """A sum in float32: y = rint(a·r_a + (b·r_b + c)) with c = z_y − (r_a·z_a + r_b·z_b).

    Here a and b are the integers that the source model stores. Each parenthesized sum is rounded to float32, and so is
    the product r_b·z_b; the other products are not rounded by themselves.
    """
    moved = sign_shift(op)
    left, right = op.factors(np.float32).astype(np.float32)
    z_left, z_right, z = (np.float32(uniform(v).zero_point + moved) for v in (op.lhs, op.rhs, op.y))
    return qint.FloatAddOp.make(
        operands,
        {
            "ratios": int32s([*float32_parts(left), *float32_parts(right)]),
            "constant": int32s(float32_parts(z - np.float32(np.float64(left) * z_left + right * z_right))),
            "offset": int32(moved),
            **narrowing(op),
            "zero_point": int32(-moved),
        },
        element=uniform(op.y).storage_type,
    )


def lower_extremum(
    op: nn.MaximumOp | nn.MinimumOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers maximum and minimum to the same operation on integers of one scale, else to a table of all int8 pairs.

    Wider operands are first brought to the result's scale, which keeps their order: the greater one rounds to the
    greater integer.
    """
    if op.chooses_integers():
        return [type(op).make(operands)]
    if not op.rescales():
        return lower_pair(op, operands, rounding)
    new: list[Operation] = []
    for own, stored, factor in zip((op.lhs, op.rhs), operands, op.factors(rounding.dtype), strict=True):
        multiplier, point = fixed_point.quantize_multiplier(float(factor)), uniform(own).zero_point
        new.append(requantize(stored, op, rounding, input_zero_point=point, multiplier=multiplier))
    return [*new, type(op).make([each.results[0] for each in new])]


def lower_pair(op: OperandPairOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers an operation on two int8 tensors to a table of all pairs."""
    return [qint.PairLookupOp.make(operands, {"table": WeightsAttr(pair_table(op, rounding))})]


def lower_power(op: nn.PowOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a power of int8 tensors to a table of all pairs; of wider data, to a table of one operand's powers."""
    if not op.has_words():
        return lower_pair(op, operands, rounding)
    number = op.one_number()
    assert number is not None
    reals = [reals_of_pair(op, uniform(value)) for value in (op.lhs, op.rhs)]
    own = reals[number.place]
    reals[number.place] = own[[number.stored + len(own) // 2]]
    return [by_entries(operands[1 - number.place], stored_results(op, *reals))]


def lower_prelu(op: nn.PReluOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers PReLU to a table of all int8 pairs; with wider types, to requantizations of x and of x · slope.

    The requantized x is the result where x ≥ 0, the requantized product elsewhere.
    """
    if not op.has_words():
        return lower_pair(op, operands, rounding)
    x = uniform(op.lhs)
    rising, falling = (fixed_point.quantize_multiplier(float(real)) for real in op.factors(rounding.dtype))
    accumulator, of_product = sums_of(op, rounding)
    product = qint.MulOp.make(operands, operand_zero_points(op), element=accumulator)
    above = requantize(operands[0], op, rounding, input_zero_point=x.zero_point, multiplier=rising)
    below = requantize(product.acc, op, of_product, multiplier=falling)
    zero = nn.ConstantOp(np.array(x.zero_point, x.numpy_dtype))
    negative = nn.LessOp.make([operands[0], zero.y])
    return [product, above, below, zero, negative, nn.WhereOp.make([negative.y, below.y, above.y])]


def lower_div(op: nn.DivOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a quotient to a table of all int8 pairs; else y = z_y + (a − z_a) / (b − z_b) · s_a / (s_b · s_y)."""
    if not op.has_words():
        return lower_pair(op, operands, rounding)
    multiplier, shift = fixed_point.quantize_multiplier(float(op.factors(rounding.dtype)[0]))
    properties = {
        **operand_zero_points(op),
        "multiplier": int32(multiplier),
        "shift": int32(shift),
        "wraps": BoolAttr.from_bool(rounding.function == "fixed_point"),
        **narrowing(op),
    }
    return [qint.DivOp.make(operands, properties, element=uniform(op.y).storage_type)]


def lower_mul(op: nn.MulOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a product: acc = (a − z_a)·(b − z_b), then y = z_y + acc · s_a·s_b / s_y.

    A product of 16 bits with one number, such as the scale of attention, is a change of scale.
    """
    if op.has_words() and not has_rounding(op, followed_runtime(op)) and not op.is_accumulator(op.y):
        if (scaled := _scaled(op, operands, rounding)) is not None:
            return [scaled]
    accumulator, rounding = sums_of(op, rounding)
    product = qint.MulOp.make(operands, operand_zero_points(op), element=accumulator)
    return [product] if op.is_accumulator(op.y) else [product, requantize(product.acc, op, rounding)]


def _scaled(op: nn.MulOp, operands: Sequence[SSAValue], rounding: Rounding) -> Operation | None:
    """The product of a tensor with one positive number, as a requantization, or as the stored integers themselves.

    Returns:
        The operation; None if neither operand is such a number.
    """
    if (number := op.one_number()) is None:
        return None
    factor, data = (uniform((op.lhs, op.rhs)[place]) for place in (number.place, 1 - number.place))
    result, x = uniform(op.y), operands[1 - number.place]
    real = float(op.factors(rounding.dtype)[0]) * (number.stored - factor.zero_point)
    if not 0 < real < FACTOR_LIMIT:
        return None
    kept = (data.storage, data.zero_point) == (result.storage, result.zero_point)
    if kept and abs(real - 1) < SAME_SCALE and limits(op) == (result.storage_min, result.storage_max):
        return reshape(x, shape_of(op.y))
    multiplier = fixed_point.quantize_multiplier(real)
    if rounding.contract == "shift" and multiplier[0] % CONTRACTS["shift"].step:
        rounding = replace(rounding, contract="single")  # the number is no power of two, whatever the scales are
    return requantize(x, op, rounding, input_zero_point=data.zero_point, multiplier=multiplier)


# ---------------------------------------------------------------------------------------------------------------
# Lowering of comparisons, tests and choices, which are exact.


def lower_where(op: nn.WhereOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a choice between two tensors of one type to the choice between their stored integers."""
    return [nn.WhereOp.make(operands)]


def lower_predicate(op: PredicateOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a test for NaN or infinity to false: a stored integer stands for a finite number."""
    return [nn.ConstantOp(np.zeros(shape_of(op.x), np.bool_))]


def lower_non_zero(op: nn.NonZeroOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a list of the elements that are not zero to a list of the integers that are not the zero point."""
    element = uniform(op.x)
    zero = nn.ConstantOp(np.array(element.zero_point, element.numpy_dtype))
    equal = nn.EqualOp.make([operands[0], zero.y])
    different = nn.NotOp.make([equal.y])
    return [zero, equal, different, nn.NonZeroOp.make([different.y])]


def lower_comparison(op: ComparisonOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a comparison to the same comparison of stored integers of one type, else of their places in the order."""
    left, right = (uniform(v) for v in (op.lhs, op.rhs))
    if left == right:
        return [type(op).make(operands)]
    return compare_entries(op, operands, places_in_order(left, right))


def compare_entries(op: ComparisonOp, operands: Sequence[SSAValue], tables: tuple[Array, Array]) -> list[Operation]:
    """The comparison of the entries that two tables have for the stored integers."""
    lookups = [qint.LookupOp.make([x], {"table": WeightsAttr(t)}) for x, t in zip(operands, tables, strict=True)]
    return [*lookups, type(op).make([each.y for each in lookups])]


def places_in_order(left: UniformType, right: UniformType) -> tuple[Array, Array]:
    """The place of each integer of two signed storages among the dequantized numbers of both types.

    Integers of the two types have one place if they stand for one float32 number.

    Returns:
        A table for each type, int32 [2^width].
    """
    numbers = [dequantized(left), dequantized(right)]
    _, places = np.unique(np.concatenate(numbers), return_inverse=True)
    first, second = np.split(places.astype(np.int32), [len(numbers[0])])
    return first, second


# ---------------------------------------------------------------------------------------------------------------
# Comparisons of quantized tensors as LiteRT's kernels make them: on real values in steps of 1/256.
#
# Each kernel shifts the zero-point-subtracted integers left by 8 bits, multiplies them by their scale and rounds them
# under the `double` contract. Numbers that are less than a step apart may therefore compare as equal, and the order of
# two numbers may be reversed. A scale of 1 or more has a multiplier with a left shift by n bits. The kernels execute it
# as a right shift by −n; processors that take shift counts modulo 32, such as x86-64, then keep little but the sign (1
# or −1 for small n). The kernels order 16-bit integers as they are stored, but test them for equality in these steps.


STEP_BITS = 8
"""Fractional bits of the numbers that are compared."""


def compare_as_litert(op: ComparisonOp, types: Sequence[UniformType], operands: Sequence[SSAValue]) -> list[Operation]:
    """Lowers a comparison to a comparison of table entries, or of the stored integers where the result is the same.

    Args:
        op: The comparison.
        types: The quantized types of the operands, with signed storage.
        operands: The stored integers.
    """
    if types[0].storage_width == 16 and not isinstance(op, nn.EqualOp):
        return [type(op).make(operands)]
    left, right = (compared_numbers(t) for t in types)
    if np.array_equal(left, right) and (np.diff(left) > 0).all():
        return [type(op).make(operands)]
    return compare_entries(op, operands, (left, right))


def compared_numbers(type: UniformType) -> Array:
    """The number that LiteRT compares for each integer of a signed storage, in steps of 1/256; int32, [2^width]."""
    half = 1 << type.storage_width - 1
    moved = (np.arange(-half, half) - type.zero_point) << STEP_BITS
    multiplier, shift = fixed_point.quantize_multiplier(float(np.float32(type.scale)))
    high = fixed_point.requantize(moved, multiplier, min(shift, 0), "double")
    if shift > 0:
        high = (high >> 32 - shift) + (high >= 0)
    return high.astype(np.int32)
