"""The pass `stripe-rows`: large tensors of an integer network are computed some rows at a time.

Enters and leaves: an integer network. Attention over S places has scores, exponentials and masks of heads · S · S
elements, and a feed-forward network hidden rows that are several times as long as those it reads. Each row is computed
by itself (regions.py). So the operations between two small tensors are written once for each stripe of rows, on
operands that are cut, and the results are joined:

    q rows 0-63      scores, exponentials, sums of products, quotients     rows 0-63
    q rows 64-127    scores, exponentials, sums of products, quotients     rows 64-127
    ...

The work and the bits are the same: a row's integers do not depend on the rows beside it. What lives between the small
tensors are the rows of one stripe, whose memory the next stripe uses again (transforms/loops/plan_memory.py), and which
stay in the processor's caches. Operations of stripes have the same shapes, and so the same kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import region_dce

from qmlir.dialects.batches import Place
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.movement import ConcatOp, MovementOp, SliceOp
from qmlir.dialects.windows import ints
from qmlir.errors import OptionError
from qmlir.ir.fact import restated
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.passes import option
from qmlir.ir.rewriting import names_of_value, set_names
from qmlir.ir.signature import defined_functions
from qmlir.transforms.qint.stripe_rows.regions import Region, bytes_of, is_made_again, may_divide, region_around

GROUP = 16
"""Rows of a stripe come in groups of so many, for kernels that compute several rows at a time."""


@dataclass(frozen=True)
class StripeRowsPass(ModulePass):
    """Computes large tensors some rows at a time, where each row is computed by itself.

    Before, where 8 KB are large and 4 KB are small:

        %a = qint.matmul %q, %k : tensor<64x8xi8>, tensor<8x64xi8> -> tensor<64x64xi32>
        %e = qint.exponentials %a, … {axis = 1 : i64} : tensor<64x64xi16> -> tensor<64x64xi16>
        %y = qint.matmul %e, %v : tensor<64x64xi16>, tensor<64x8xi8> -> tensor<64x8xi32>

    After:

        %q0 = nn.slice %q {…} : tensor<64x8xi8> -> tensor<32x8xi8>
        %a0 = qint.matmul %q0, %k : tensor<32x8xi8>, tensor<8x64xi8> -> tensor<32x64xi32>
        …
        %y1 = qint.matmul %e1, %v : tensor<32x64xi16>, tensor<64x8xi8> -> tensor<32x8xi32>
        %y = nn.concat %y0, %y1 {axis = 0 : i64} : tensor<32x8xi32>, tensor<32x8xi32> -> tensor<64x8xi32>
    """

    name = "stripe-rows"

    stripe: int = option(4_194_304, "the bytes of tensors that a stripe of rows may take")
    small: int = option(2_097_152, "the bytes up to which a tensor is computed as a whole")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for name, given in (("stripe", self.stripe), ("small", self.small)):
            if given < 1:
                raise OptionError(name, "must be positive", got=str(given))
        changed, known = False, set[Operation]()
        for function in defined_functions(op):
            for made in list(function.body.block.ops):
                if made not in known and self._is_large(made):
                    region = region_around(made, self.small)
                    if region is not None:
                        known.update(region.places)
                        changed |= _divide(region, self.stripe)
        if changed:
            region_dce(op.body)

    def _is_large(self, op: Operation) -> bool:
        """Whether an operation computes a tensor that should not exist as a whole."""
        return may_divide(op) and bytes_of(op.results[0]) > self.small and not is_made_again(op.results[0])


def _divide(region: Region, most: int) -> bool:
    """Computes a region in stripes of at most so many bytes; returns whether there are several."""
    rows = rows_of_stripe(region.rows, region.bytes_of_row(), most)
    operations, outputs = region.operations, region.outputs()
    whole, part = (n * region.bytes_of_row() for n in (region.rows, rows))
    if rows == region.rows or part + 2 * sum(map(bytes_of, outputs)) > whole:  # stripes live beside what they make
        return False
    for op in reversed(region.behind() or ()):
        op.detach()
        Rewriter.insert_op(op, InsertPoint.after(operations[-1]))
    parts: list[list[SSAValue]] = [[] for _ in outputs]
    cut: dict[tuple[SSAValue, Place, int], SSAValue] = {}
    for first in range(0, region.rows, rows):
        count = min(rows, region.rows - first)
        known: dict[SSAValue, SSAValue] = {}
        for op in operations:
            for x, place in zip(op.operands, region.places[op], strict=True):
                if place is not None and x not in region.results and (x, place, first) not in cut:
                    cut[x, place, first] = _cut(x, place.axis, first, count, operations[-1])
            own = [
                known.get(x, x) if place is None or x in region.results else cut[x, place, first]
                for x, place in zip(op.operands, region.places[op], strict=True)
            ]
            y = op.results[0]
            known[y] = _stripe(op, own, region.results[y].axis, region.rows, count, operations[-1])
        for part, y in zip(parts, outputs, strict=True):
            part.append(known[y])
    for part, y in zip(parts, outputs, strict=True):
        _join(part, y, region.results[y].axis, {*operations}, operations[-1])
    for op in reversed(operations):
        if not op.results[0].uses:
            Rewriter.erase_op(op)
    return True


def rows_of_stripe(rows: int, bytes_of_row: float, most: int) -> int:
    """How many rows a stripe has.

    Args:
        rows: All rows.
        bytes_of_row: The bytes that a row takes.
        most: The bytes that a stripe may take; it has `GROUP` rows or more, if there are.

    Returns:
        About as many for each stripe, so that the last is not much smaller: its kernels have other shapes.
    """
    fitting = max(int(most / bytes_of_row), 1)
    count = -(-rows // max(fitting, min(GROUP, rows)))
    even = next((n for n in range(count, 2 * count) if rows % n == 0 and rows // n % GROUP == 0), None)
    return rows // even if even is not None else min(GROUP * -(-rows // (GROUP * count)), rows)


def _cut(x: SSAValue, axis: int, first: int, count: int, before: Operation) -> SSAValue:
    """Rows of a tensor: a constant, or a slice."""
    shape = list(shape_of(x))
    if isinstance(x.owner, ConstantOp):
        array = x.owner.value.array
        rows = np.ascontiguousarray(array[(*[slice(None)] * axis, slice(first, first + count))])
        made: Operation = ConstantOp(rows, TensorType(element_of(x), rows.shape), restated(x.owner))
    else:
        offsets = [first if i == axis else 0 for i in range(len(shape))]
        sizes = [count if i == axis else n for i, n in enumerate(shape)]
        made = SliceOp.make([x], {"offsets": ints(offsets), "sizes": ints(sizes), "strides": ints([1] * len(shape))})
    made.location = before.location
    Rewriter.insert_op(made, InsertPoint.before(before))
    return made.results[0]


def _stripe(
    op: Operation, operands: Sequence[SSAValue], axis: int, rows: int, count: int, before: Operation
) -> SSAValue:
    """The operation on some of the rows."""
    made = op.clone()
    made.operands = operands
    shape = list(shape_of(op.results[0]))
    shape[axis] = shape[axis] // rows * count
    if isinstance(made, MovementOp) and made.SIZES:
        made.properties[made.SIZES] = ints(shape)
    Rewriter.insert_op(made, InsertPoint.before(before))
    Rewriter.replace_value_with_new_type(made.results[0], TensorType(element_of(op.results[0]), shape))
    return made.results[0]


def _join(parts: Sequence[SSAValue], y: SSAValue, axis: int, inside: set[Operation], before: Operation) -> None:
    """Joins the stripes of a result for the operations outside of its region."""
    joined = ConcatOp.make([parts], {"axis": IntegerAttr(axis, i64)})
    joined.location = before.location
    Rewriter.insert_op(joined, InsertPoint.before(before))
    set_names(joined.y, names_of_value(y))
    y.replace_uses_with_if(joined.y, lambda use: use.operation not in inside)
