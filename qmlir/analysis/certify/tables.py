"""The largest error of a lookup table against the function that it holds, over all of its inputs.

The function, with the scales and zero points of its operands and its result, comes from the quantized network that the
integers were made from. The error of an entry is its distance from the real result, clamped to the result's range, in
steps of the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.elementwise import FunctionOp, OperandPairOp
from qmlir.dialects.nn.functions import FUNCTIONS
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array
from qmlir.lowering.nn_to_qint.convert import signed
from qmlir.lowering.nn_to_qint.functions import reals_of_pair
from qmlir.lowering.nn_to_qint.scales import limits
from qmlir.numerics import tables
from qmlir.numerics.elementary.lanes import Lanes


@dataclass(frozen=True)
class TableFunction:
    """The function of a table.

    op      the operation on quantized types that the table was made from
    data    the type of its operand, with signed storage
    result  the type of its result, likewise
    """

    op: FunctionOp
    data: UniformType
    result: UniformType

    @staticmethod
    def of(op: Operation | None) -> "TableFunction | None":
        """The function of an operation on quantized types; None if it is no function of one element, or a plugin's."""
        if not isinstance(op, FUNCTIONS):
            return None
        return TableFunction(op, signed(uniform(op.x)), signed(uniform(op.y)))

    @property
    def bounds(self) -> tuple[int, int]:
        """The stored integers between which results are clamped."""
        if isinstance(self.op, nn.ReluOp | nn.ClampOp):
            moved = self.result.zero_point - uniform(self.op.y).zero_point
            low, high = limits(self.op)
            return low + moved, high + moved
        return self.result.storage_min, self.result.storage_max

    def as_dict(self) -> Mapping[str, Any]:
        """The fields for JSON."""
        clamps = isinstance(self.op, nn.ClampOp)  # by `clamp`, in integers
        return {
            "name": self.op.name,
            "parameters": {} if clamps else _parameters(self.op),
            "input": _stored_as(self.data),
            "output": _stored_as(self.result),
            "clamp": list(self.bounds),
        }

    def largest_error(self, entries: Array) -> float:
        """The largest error of a table's results, which start with that of the least integer."""
        half = len(entries) // 2
        x = (np.arange(-half, half) - self.data.zero_point) * self.data.scale
        with np.errstate(all="ignore"):
            return _largest_error(entries, self.op.scalar(x), self.result, self.bounds)


@dataclass(frozen=True)
class PairFunction:
    """The function of a table of all pairs of bytes.

    op        the operation on quantized types that the table was made from
    operands  the types of its operands, with signed storage
    result    the type of its result, likewise
    """

    op: OperandPairOp
    operands: tuple[UniformType, UniformType]
    result: UniformType

    @staticmethod
    def of(op: Operation | None) -> "PairFunction | None":
        """The function of an operation on quantized types; None if it is no function of two elements, or a plugin's."""
        if not isinstance(op, PAIRS):
            return None
        lhs, rhs, result = (signed(uniform(value)) for value in (op.lhs, op.rhs, op.y))
        return PairFunction(op, (lhs, rhs), result)

    def as_dict(self) -> Mapping[str, Any]:
        """The fields for JSON."""
        return {
            "name": self.op.name,
            "parameters": _parameters(self.op),
            "inputs": [_stored_as(type) for type in self.operands],
            "output": _stored_as(self.result),
            "clamp": [self.result.storage_min, self.result.storage_max],
        }

    def largest_error(self, entries: Array) -> float:
        """The largest error of a table's results, [256, 256], which start with those of the least integers."""
        lhs, rhs = (reals_of_pair(self.op, type) for type in self.operands)
        bounds = self.result.storage_min, self.result.storage_max
        with np.errstate(all="ignore"):
            return _largest_error(entries, self.op.formula(Lanes(lhs[:, None]), Lanes(rhs)).array, self.result, bounds)


PAIRS = (nn.DivOp, nn.PReluOp, nn.SquaredDifferenceOp, nn.MaximumOp, nn.MinimumOp, nn.ModOp, nn.PowOp)
"""The functions of two elements that a certificate names."""


def _parameters(op: FunctionOp | OperandPairOp) -> Mapping[str, float | bool]:
    """The numbers and truth values that an operation has as properties."""
    found: dict[str, float | bool] = {}
    for key, value in op.properties.items():
        if isinstance(value, FloatAttr):
            found[key] = float(value.value.data)
        elif isinstance(value, IntegerAttr):
            found[key] = bool(value.value.data)
    return found


def _stored_as(type: UniformType) -> Mapping[str, Any]:
    return {"scale": type.scale, "zero_point": type.zero_point}


def _largest_error(entries: Array, values: Array, result: UniformType, bounds: tuple[int, int]) -> float:
    """The largest distance of entries from real values, in steps; what is no number is stored as the zero point."""
    steps = values / result.scale + result.zero_point
    steps = np.where(np.isnan(steps), result.zero_point, steps)
    return float(np.abs(entries - np.clip(steps, *bounds)).max())


def results_of(op: qint.LookupOp | qint.InterpolatedLookupOp) -> Array:
    """The results of a table for all integers of its operand's type, in order; int64."""
    table = op.table.array.astype(np.int64)
    if isinstance(op, qint.LookupOp):
        return table
    return tables.interpolated(op.table.array, np.arange(-(1 << 15), 1 << 15)).astype(np.int64)


_STORAGE = np.roll(np.arange(-128, 128), 128)
"""The table between unsigned and signed bytes of one value: each byte plus 128, modulo 256."""


def table_errors(op: Operation, source: Operation | None) -> Mapping[str, Any] | None:
    """The fields of a table: its function and its largest error; None if an operation has no such table.

    Args:
        op: The operation on integers.
        source: The operation on quantized types that it was made from, if it is known.
    """
    match op:
        case qint.PairLookupOp():
            results, function = op.table.array.astype(np.int64), PairFunction.of(source)
        case qint.LookupOp() | qint.InterpolatedLookupOp():
            results, function = results_of(op), TableFunction.of(source)
        case _:
            return None
    fields: dict[str, Any] = {"entries": op.table.array.size, "function": None, "error": None}
    if function is None and np.array_equal(results, _STORAGE):
        fields |= {"function": {"name": "qmlir.change_storage"}, "error": 0.0}
    elif function is not None:
        fields |= {"function": function.as_dict(), "error": function.largest_error(results)}
    return fields
