"""What the integers of operations stand for: real factors, real weights, and the functions that tables hold.

It follows from the quantized network that the integers were made from, which is no part of a certificate's artefact. So
certificates state it on trust, and the bounds of errors are derived from it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.interpolation import InterpolationOp
from qmlir.dialects.nn.elementwise import ExtremumOp, FunctionOp, OperandPairOp
from qmlir.dialects.nn.functions import FUNCTIONS
from qmlir.dialects.nn.quantizable import QuantizableOp, uniform
from qmlir.ir.registry import Registry
from qmlir.lowering.nn_to_qint.convert import signed
from qmlir.lowering.nn_to_qint.scales import limits

Meaning = Mapping[str, Any]

PAIRS = (nn.DivOp, nn.PReluOp, nn.SquaredDifferenceOp, nn.MaximumOp, nn.MinimumOp, nn.ModOp, nn.PowOp)
"""The functions of two elements that a certificate names."""


def meaning_of(op: Operation, source: Operation) -> Meaning:
    """The fields of a certificate that say what the integers of an operation stand for.

    Args:
        op: The operation on integers.
        source: The operation on quantized types that it was made from.
    """
    if isinstance(op, qint.RequantizeOp):
        return {"requantization": {"factors": _of_requantization(op, source)}}
    if isinstance(op, qint.LookupOp | qint.InterpolatedLookupOp):
        return {"table": {"function": _function(source) if isinstance(source, FUNCTIONS) else None}}
    if isinstance(op, qint.PairLookupOp):
        return {"table": {"function": _function_of_two(source) if isinstance(source, PAIRS) else None}}
    rule = ROUNDINGS.get(type(op))
    return {} if rule is None else {"rounding": rule(op, source)}


# ---------------------------------------------------------------------------------------------------------------
# Factors and weights


def _factors(op: Operation, source: Operation) -> list[float] | None:
    return [float(factor) for factor in source.factors()] if isinstance(source, QuantizableOp) else None


def _of_requantization(op: qint.RequantizeOp, source: Operation) -> list[float] | None:
    """One factor, or one for each channel; None if they are not known."""
    if (factors := _factors(op, source)) is None:
        return None
    if isinstance(source, nn.PReluOp) and len(factors) == 2:  # one for x, one for the product of x and the slope
        factors = [factors[isinstance(op.x.owner, qint.MulOp)]]
    if isinstance(source, nn.MulOp) and not isinstance(op.x.owner, qint.MulOp) and (number := source.one_number()):
        factors = [factors[0] * (number.stored - uniform(source.operands[number.place]).zero_point)]
    if isinstance(source, ExtremumOp) and len(factors) == 2:  # one for each operand
        own = op.multiplier.get_values()[0] * 2.0 ** (op.shift.get_values()[0] - 31)
        factors = [min(factors, key=lambda factor: abs(factor - own))]
    return factors if len(factors) in (1, len(op.multiplier)) else None


def _of_operands(count: int) -> Callable[[Operation, Operation], Meaning]:
    """So many factors, or None if the source has others."""

    def rule(op: Operation, source: Operation) -> Meaning:
        factors = _factors(op, source)
        return {"factors": factors if factors is not None and len(factors) == count else None}

    return rule


def _of_softmax(op: qint.SoftmaxOp, source: Operation) -> Meaning:
    return {"factors": [uniform(source.operands[0]).scale, 1 / uniform(source.results[0]).scale]}


def _of_log_softmax(op: qint.LogSoftmaxOp | qint.ExponentialsOp, source: Operation) -> Meaning:
    return {"factors": [uniform(source.operands[0]).scale]}


def _of_norm(op: qint.L2NormalizationOp, source: Operation) -> Meaning:
    return {"factors": [1 / uniform(source.results[0]).scale]}


def _weights(op: InterpolationOp, source: Operation) -> list[Any] | None:
    """The real weights of each axis; None if the source reads other neighbours."""
    if not isinstance(source, nn.ResizeOp):
        return None
    pairs = list(zip(op.tables(), source.tables(), strict=False))
    if len(pairs) != len(op.tables()) or any(not np.array_equal(a[1], b[1]) for a, b in pairs):
        return None
    return [weights.tolist() for _, _, weights in source.tables()]


def _of_resize(op: qint.ResizeOp, source: Operation) -> Meaning:
    weights = _weights(op, source)
    if weights is None or not isinstance(source, nn.ResizeOp):
        return {"weights": None, "bits": None}
    return {"weights": weights, "bits": [source.fixed_weights().bits] * len(weights)}


def _of_interpolation(op: qint.InterpolateOp, source: Operation) -> Meaning:
    weights = _weights(op, source)
    point = None if weights is None else signed(uniform(source.operands[0])).zero_point
    return {"weights": weights, "input_zero_point": point}


ROUNDINGS: Registry[Callable[[Any, Operation], Meaning]] = Registry({
    qint.AddOp: _of_operands(2),
    qint.RescaledAddOp: _of_operands(2),
    qint.DivOp: _of_operands(1),
    qint.SoftmaxOp: _of_softmax,
    qint.LogSoftmaxOp: _of_log_softmax,
    qint.ExponentialsOp: _of_log_softmax,
    qint.RowQuotientOp: _of_operands(1),
    qint.DivideRowsOp: _of_operands(1),
    qint.L2NormalizationOp: _of_norm,
    qint.ResizeOp: _of_resize,
    qint.InterpolateOp: _of_interpolation,
})  # fmt: skip
"""The meaning of each operation that rounds by itself and stands for real numbers."""


# ---------------------------------------------------------------------------------------------------------------
# Functions


def _function(source: FunctionOp) -> Meaning:
    """The function of a table, of integers with signed storage."""
    result, bounds = signed(uniform(source.y)), None
    if isinstance(source, nn.ReluOp | nn.ClampOp):
        moved = result.zero_point - uniform(source.y).zero_point
        bounds = [bound + moved for bound in limits(source)]
    return {
        "name": source.name,
        "parameters": _parameters(source),
        "input": _stored_as(source.x),
        "output": _stored_as(source.y),
        "clamp": bounds or [result.storage_min, result.storage_max],
    }


def _function_of_two(source: OperandPairOp) -> Meaning:
    """The function of a table of all pairs of bytes, likewise."""
    result = signed(uniform(source.y))
    return {
        "name": source.name,
        "parameters": _parameters(source),
        "inputs": list(map(_stored_as, (source.lhs, source.rhs))),
        "output": _stored_as(source.y),
        "clamp": [result.storage_min, result.storage_max],
    }


def _parameters(op: FunctionOp | OperandPairOp) -> Mapping[str, float | bool]:
    """The numbers and truth values that an operation has as properties; those of a clamp are `clamp`, in integers."""
    found: dict[str, float | bool] = {}
    if isinstance(op, nn.ClampOp):
        return found
    for key, value in op.properties.items():
        if isinstance(value, FloatAttr):
            found[key] = float(value.value.data)
        elif isinstance(value, IntegerAttr):
            found[key] = bool(value.value.data)
    return found


def _stored_as(value: SSAValue) -> Meaning:
    """The scale and the zero point of a value with signed storage."""
    type = signed(uniform(value))
    return {"scale": type.scale, "zero_point": type.zero_point}
