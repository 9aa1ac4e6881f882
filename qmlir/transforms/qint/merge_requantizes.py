"""The pass `merge-requantizes`: one operation in place of two that follow each other, where the integers are the same.

Enters and leaves: an integer network. A layer in 16 bits between layers in 8 requantizes what it reads and what it
gives; a table behind a change of scale, or behind another table, is a table again. Whether one requantization gives
what two give is not derived but computed, for every integer that the first of them can read.
"""

import math

import numpy as np
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn.queries import used_once
from qmlir.dialects.qint import LookupOp, RequantizeOp
from qmlir.dialects.qint.elementwise import InterpolatedLookupOp
from qmlir.dialects.qint.requantize import int32, int32s, width_of
from qmlir.ir.interfaces import Array, element_of
from qmlir.ir.rewriting import PatternPass, replace
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import CONTRACTS

Step = RequantizeOp | LookupOp | InterpolatedLookupOp


class MergePair(RewritePattern):
    """g(f(x)) → h(x): a table if f or g is one, else a requantization if one gives the same integers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: Step, rewriter: PatternRewriter) -> None:
        first = op.x.owner
        if not isinstance(first, Step) or not used_once(first) or width_of(first.x) > 16 or width_of(op.y) > 16:
            return
        if any(numbers.size > 1 for step in (first, op) for numbers in step.parameters()):
            return
        dtype = dtype_of(element_of(first.x))
        every = np.arange(1 << width_of(first.x)).astype(f"u{dtype.itemsize}").view(dtype)
        every = np.roll(every, len(every) // 2)  # in the order of a table's entries
        wanted = op.compute(first.compute(every))
        if isinstance(first, RequantizeOp) and isinstance(op, RequantizeOp):
            merged = _requantization(first, op, every, wanted)
        else:
            merged = _table(first, op, wanted)
        if merged is not None:
            replace(rewriter, op, merged, absorbing=[first])


def _table(first: Step, second: Step, entries: Array) -> Operation | None:
    """The table of two operations; None if neither is a table that reads and gives as many bits."""
    widths = width_of(first.x), width_of(second.y)
    for step in (first, second):
        kind = LookupOp | InterpolatedLookupOp if widths[0] == 8 else LookupOp
        if isinstance(step, kind) and width_of(step.x) >= widths[0] and width_of(step.y) >= widths[1]:
            return LookupOp.make([first.x], {"table": WeightsAttr(entries)})
    return None


def _requantization(first: RequantizeOp, second: RequantizeOp, every: Array, wanted: Array) -> Operation | None:
    """One requantization that gives the wanted integers; None if the product of both factors does not."""
    rule = CONTRACTS[second.contract.data]
    if rule.sums or second.input_zero_point != first.zero_point:
        return None
    factor = 1.0
    for step in (first, second):
        (multiplier,), (shift,) = step.multiplier.get_values(), step.shift.get_values()
        factor *= math.ldexp(multiplier, shift - fixed_point.MULTIPLIER_BITS)
    ends = second.compute(np.array([first.lower.value.data, first.upper.value.data], dtype_of(element_of(first.y))))
    if factor >= 2.0**rule.max_shift:
        return None
    multiplier, shift = fixed_point.quantize_multiplier(factor, rule.step if rule.step < 1 << 30 else 1)
    properties = {
        **second.properties,
        "input_zero_point": first.input_zero_point,
        "multiplier": int32s([multiplier]),
        "shift": int32s([shift]),
        "min": int32(int(ends[0])),
        "max": int32(int(ends[1])),
    }
    merged = RequantizeOp.make([first.x], properties, element=element_of(second.y))
    if multiplier % rule.step or not np.array_equal(merged.compute(every), wanted):
        merged.erase()
        return None
    return merged


class MergeRequantizesPass(PatternPass):
    """Makes one operation of two requantizations or tables that follow each other, where the integers are the same.

    ```mlir
    %0 = qint.requantize %x {…} : tensor<8xi8> -> tensor<8xi16>
    %1 = qint.interpolated_lookup %0, <tensor<513xi16>, …> : tensor<8xi16> -> tensor<8xi16>
    %y = qint.requantize %1 {…} : tensor<8xi16> -> tensor<8xi8>
    // becomes
    %y = qint.lookup %x, <tensor<256xi8>, …> : tensor<8xi8> -> tensor<8xi8>
    ```
    """

    name = "merge-requantizes"
    PATTERNS = (MergePair(),)
