"""The integers of attention: exponentials against the maximum of a row, and quotients by the sum of a row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i16, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.normalization import AlongAxisOp, AxisFormula
from qmlir.dialects.qint.requantize import Narrow, NarrowingOp, width_of
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.samples import Axes, MixesSamples, aligned_axis
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics.elementary.division import divided, reciprocal
from qmlir.numerics.elementary.lanes import I64, Lanes, N


@dataclass(frozen=True)
class Exponentials(AxisFormula):
    """The formula of `ExponentialsOp`: an entry of a table, at the difference from the maximum.

    last   the last entry, which all greater differences read
    """

    SUMS: ClassVar[int] = 0

    last: int
    zero_point: int | None = None

    def terms(self, d: N, *tables: Callable[[N], N]) -> tuple[N, ...]:
        return ()

    def shared(self, totals: Sequence[N], *tables: Callable[[N], N]) -> tuple[N, ...]:
        return ()

    def element(self, d: N, shared: Sequence[N], *tables: Callable[[N], N]) -> N:
        return tables[0](d.minimum(self.last))


@irdl_op_definition
class ExponentialsOp(AlongAxisOp):
    """y = table[min(m − x, n − 1)] along `axis`, m the maximum along the axis, n the number of entries.

    The entries are those of e^(−d·s) for differences d of two elements; the last entries, which are all 0, may be left
    out but for one.

    (S1) x has 8 or 16 bits; the table has 1 to 2^16 entries of i16, none negative and the first not 0
    (S2) the axis lies within the rank and is not empty
    """

    name = "qint.exponentials"
    table = prop_def(WeightsAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `,` $table attr-dict `:` type($x) `->` type($y)"

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [i16]

    def formula(self) -> Exponentials:
        return Exponentials(len(self.table.array) - 1)

    def tables(self) -> Sequence[Array]:
        return [self.table.array]

    def verify_(self) -> None:
        table = self.table.array
        fits = table.dtype == np.int16 and table.ndim == 1 and 1 <= table.size <= 1 << 16
        if width_of(self.x) not in (8, 16) or not fits or table.min() < 0 or not table[0]:  # S1
            raise VerifyException(
                f"'{self.name}' needs integers of 8 or 16 bits and up to 2^16 entries of i16, none negative and the "
                f"first not 0, got {element_of(self.x)} and {self.table.type}"
            )
        super().verify_()


@dataclass(frozen=True)
class RowQuotient:
    """The formula of `RowQuotientOp`: what a row shares, and each element."""

    unit: int
    fraction: int
    offset: int
    narrow: Narrow

    def shared(self, total: N) -> tuple[N, ...]:
        """The numbers that `element` needs from the sum of a row's weights, in i64; a sum of 0 counts as 1."""
        total = total.maximum(1)
        divisor = total << self.fraction + 1
        return divisor, (total << self.fraction) + divisor * self.offset, *reciprocal(divisor)

    def element(self, acc: N, shared: Sequence[N]) -> N:
        """The result for an accumulator."""
        divisor, added, *parts = shared
        return self.narrow(divided(acc.to(I64) * (2 * self.unit) + added, divisor, *parts) - self.offset)


@irdl_op_definition
class RowQuotientOp(NarrowingOp):
    """y[…,m,n] = clamp(zero_point + acc[…,m,n] / Σ_k w[…,m,k] · M, min, max), M = unit · 2^−fraction.

    The quotient is rounded once, half up: floor((2·acc·unit + S) / 2S) with S = Σ w · 2^fraction. The leading
    dimensions of w broadcast to those of acc.

    (R1) min ≤ max, and both fit the result's element type
    (D1) acc is i32 or i64 [B…,M,N], w is i16 [B…,M,K], and K is not 0
    (D2) `offset` is in [1, 2^19]
    (D3) `fraction` is in [10, 24], `unit` in [1, 2^44]

    Code that builds the operation must have proven that no integer of w is negative, that |acc · M / Σ w| is below
    `offset`, and that (4 · offset + 1) · 2^fraction · Σ w fits 62 bits.
    """

    name = "qint.row_quotient"
    acc = operand_def(TensorType)
    w = operand_def(TensorType)
    unit = prop_def(IntegerAttr.constr(i64))
    fraction = prop_def(IntegerAttr.constr(i32))
    offset = prop_def(IntegerAttr.constr(i32))

    assembly_format = "$acc `,` $w attr-dict `:` type($acc) `,` type($w) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        acc, w = shape_of(self.acc), shape_of(self.w)
        alike = len(acc) >= len(w) >= 2 and acc[-2] == w[-2] and w[-1] > 0
        if not alike or any(n not in (1, m) for m, n in zip(acc[-3::-1], w[-3::-1], strict=False)):  # D1
            raise VerifyException(f"'{self.name}' needs [B…, M, N] and [B…, M, K], got {list(acc)} and {list(w)}")
        return [acc]

    def sample_axis(self, axes: Axes) -> int:
        acc, w = shape_of(self.acc), shape_of(self.w)
        of_acc, of_w = axes
        columns, rows = len(acc) - 1, len(acc) - 2
        if of_acc == columns and of_w is None:
            return columns
        if of_acc in (None, columns) or of_w == len(w) - 1 or (of_acc == rows and of_w is None):
            raise MixesSamples("needs the weights of each sample beside its sums, and adds up those of a row")
        return aligned_axis(axes, [acc, w])

    def formula(self) -> RowQuotient:
        """The arithmetic."""
        unit, fraction, offset = (v.value.data for v in (self.unit, self.fraction, self.offset))
        return RowQuotient(unit, fraction, offset, self.narrowing())

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        acc, w = inputs
        formula = self.formula()
        shared = formula.shared(Lanes(w.sum(axis=-1, keepdims=True, dtype=np.int64)))
        return (np.broadcast_to(formula.element(Lanes(acc), shared).array, acc.shape),)

    def verify_(self) -> None:
        super().verify_()
        if element_of(self.acc) not in (i32, i64) or element_of(self.w) != i16:  # D1
            raise VerifyException(
                f"'{self.name}' divides i32 or i64 by sums of i16, got {self.acc.type}, {self.w.type}"
            )
        unit, fraction, offset = (v.value.data for v in (self.unit, self.fraction, self.offset))
        in_range = 1 <= offset <= 1 << 19  # D2
        in_range = in_range and 10 <= fraction <= 24 and 1 <= unit <= 1 << 44  # D3
        if not in_range:
            raise VerifyException(
                f"'{self.name}' needs 10 to 24 fraction bits, a unit in [1, 2^44] and an offset in [1, 2^19], "
                f"got {fraction}, {unit} and {offset}"
            )
