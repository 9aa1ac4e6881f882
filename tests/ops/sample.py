"""What a sample of an operation is, and short names to write one with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    AnyFloat,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import OptOperandDef, VarOperandDef

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound
from qmlir.dialects.qint.requantize import float32_parts, int32, int32s
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import WeightsAttr

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Operand:
    """An operand's type, and the range that its random values fill; whole numbers include both ends."""

    shape: tuple[int, ...]
    element: Attribute
    low: float
    high: float

    @property
    def type(self) -> TensorType[Attribute]:
        return TensorType(self.element, self.shape)

    def array(self, rng: np.random.Generator) -> Array:
        """Random values; integers begin with the ends of the range."""
        if isinstance(self.element, AnyFloat):
            return rng.uniform(self.low, self.high, self.shape).astype(dtype_of(self.element))
        low, high = int(self.low), int(self.high)
        array = rng.integers(low, high, self.shape, np.int64, endpoint=True)
        array.reshape(-1)[:2] = [low, high][: array.size]
        return array.astype(dtype_of(self.element))


@dataclass(frozen=True)
class Sample:
    """One way to build an operation.

    op          its class
    note        what is special about this one
    operands    of float type, or of plain integers
    properties  what is not left at its default
    element     the result's element type, where the operation leaves it free
    """

    op: type[TensorOp]
    note: str
    operands: tuple[Operand, ...]
    properties: Mapping[str, Attribute | None] = field(default_factory=dict[str, Attribute | None])
    element: Attribute | None = None

    def __str__(self) -> str:
        return f"{self.op.name}-{self.note.replace(' ', '_')}"

    def build(self, values: Sequence[SSAValue] | None = None, element: Attribute | None = None) -> TensorOp:
        """The operation on the given operands, or on values of the sample's own types."""
        if values is None:
            values = [test.TestOp(result_types=[o.type]).res[0] for o in self.operands]
        if self.op is nn.ConstantOp:
            value, type = self.properties["value"], self.properties.get("type")
            assert isinstance(value, WeightsAttr)
            return nn.ConstantOp(value, TensorType(type, value.array.shape) if type else None)
        definitions = [d for _, d in self.op.get_irdl_definition().operands]
        fixed = sum(not isinstance(d, OptOperandDef | VarOperandDef) for d in definitions)
        grouped = [*values[:fixed], *([values[fixed:]] if fixed < len(definitions) else [])]
        return self.op.make(grouped, self.properties, element=element or self.element)

    @property
    def inputs(self) -> int:
        """How many operands, the first ones, are a network's own values; those after them are weights and bias."""
        return 1 if "w" in dict(self.op.get_irdl_definition().operands) else len(self.operands)

    def arrays(self, seed: int = 0) -> list[Array]:
        """Random values of its operands."""
        rng = np.random.default_rng(seed)
        return [operand.array(rng) for operand in self.operands]


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    """An f32 operand."""
    return Operand(shape, f32, low, high)


def i(bits: int, *shape: int, most: int | None = None) -> Operand:
    """An integer operand: all values of `bits` bits, or those of magnitude up to `most`."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return Operand(shape, IntegerType(bits), *((low, high) if most is None else (-most, most)))


def b(*shape: int) -> Operand:
    """An i32 bias, as large as sums of a few products."""
    return i(32, *shape, most=100_000)


def window(
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    window: Sequence[int] | None = None,
) -> dict[str, Attribute | None]:
    """The properties of a sliding window; `window` for pools."""
    given = {"strides": strides, "padding": padding, "dilations": dilations, "window": window}
    return {name: ints([*values]) for name, values in given.items() if values is not None}


def groups(count: int) -> dict[str, Attribute | None]:
    """The groups of a convolution."""
    return {"groups": IntegerAttr(count, i64)}


def clamp(low: float | None, high: float | None) -> dict[str, Attribute | None]:
    """A fused clamp."""
    return {"min": bound(low), "max": bound(high)}


def zero(point: int) -> dict[str, Attribute | None]:
    """The data's zero point."""
    return {"zero_point": int32(point)}


def zeros(lhs: int, rhs: int) -> dict[str, Attribute | None]:
    """The zero points of two operands."""
    return {"lhs_zero_point": int32(lhs), "rhs_zero_point": int32(rhs)}


def pads(low: Sequence[int], high: Sequence[int], value: Attribute | None) -> dict[str, Attribute | None]:
    """The properties of nn.pad."""
    return {"low": ints([*low]), "high": ints([*high]), "value": value}


def narrow(bits: int = 8, zero_point: int = 0, low: int | None = None, high: int | None = None) -> dict[str, Any]:
    """The end of an operation that narrows to `bits` bits: zero point and clamp."""
    low = -(1 << bits - 1) if low is None else low
    high = (1 << bits - 1) - 1 if high is None else high
    return {"zero_point": int32(zero_point), "min": int32(low), "max": int32(high)}


def scaled(multipliers: Sequence[int], shifts: Sequence[int], contract: str = "single") -> dict[str, Any]:
    """The multipliers of a requantization."""
    return {"multiplier": int32s(multipliers), "shift": int32s(shifts), "contract": StringAttr(contract)}


def quotients(multiplier: int, shift: int, *, wraps: bool = False) -> dict[str, Any]:
    """The factor of a quotient, and how it is shifted."""
    return {"multiplier": int32(multiplier), "shift": int32(shift), "wraps": BoolAttr.from_bool(wraps)}


def summed(multipliers: Sequence[int], shift: int) -> dict[str, Any]:
    """The multipliers of a sum."""
    return {"multipliers": DenseArrayBase.from_list(i64, list(multipliers)), "shift": int32(shift)}


def rescaled(
    multipliers: Sequence[int], shifts: Sequence[int], left: int, contracts: Sequence[str] = ("double", "double")
) -> dict[str, Any]:
    """The factors of a sum whose operands are rounded first: of each of these and of the sum."""
    first, last = map(StringAttr, contracts)
    factors = {"multipliers": int32s(multipliers), "shifts": int32s(shifts)}
    return {**factors, "left": int32(left), "operand_contract": first, "contract": last}


def shares(table: WeightsAttr, unit: int, division: str = "exact") -> dict[str, Any]:
    """How a softmax divides."""
    return {"table": table, "unit": IntegerAttr(unit, i64), "division": StringAttr(division)}


def float_sum(offset: int = 0) -> dict[str, Any]:
    """The numbers of a sum in floats: 1.37, 0.61 and −3.3 as float32."""
    parts = [float32_parts(np.float32(number)) for number in (1.37, 0.61, -3.3)]
    ratios = [part for pair in parts[:2] for part in pair]
    return {"ratios": int32s(ratios), "constant": int32s(parts[2]), "offset": int32(offset)}


def epsilon(value: float) -> dict[str, Attribute | None]:
    """What keeps a normalization from dividing by nothing."""
    return {"epsilon": bound(value)}


def axis(value: int) -> dict[str, Attribute | None]:
    return {"axis": IntegerAttr(value, i64)}


def weights(values: npt.ArrayLike, dtype: npt.DTypeLike) -> WeightsAttr:
    return WeightsAttr(np.array(values, dtype))
