"""The pass `tabulate`: one table for several elementwise operations that compute 8 or 16 bits from one byte.

Enters and leaves: an integer network. A function of an i8 element has 256 values, so a table of them replaces any
number of operations that compute it, exactly: the operations themselves are evaluated on all 256 elements. A GELU that
a model spells out as a product, erf, a sum and two more products becomes one `qint.lookup`.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i8
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.transforms.dead_code_elimination import region_dce

from qmlir.dialects.nn.queries import constant_of
from qmlir.dialects.qint import LookupOp
from qmlir.dialects.qint.requantize import ElementwiseOp, width_of
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.rewriting import replace
from qmlir.ir.traversal import needed_first
from qmlir.ir.weights import WeightsAttr

BYTES = np.arange(-128, 128).astype(np.int8)
"""All elements, in the order of a table's entries."""


class TabulatePass(ModulePass):
    """Replaces operations that compute 8 or 16 bits from a byte by a table, if it saves a pass over the data.

    Before, with the constant %half of one element:

        %product = qint.mul %x, %half {…} : tensor<8x64xi8>, tensor<1xi8> -> tensor<8x64xi32>
        %scaled = qint.requantize %product {…} : tensor<8x64xi32> -> tensor<8x64xi8>
        %erf = qint.lookup %scaled, <tensor<256xi8>, …> : tensor<8x64xi8> -> tensor<8x64xi8>
        %y = qint.add %x, %erf {…} : tensor<8x64xi8>, tensor<8x64xi8> -> tensor<8x64xi8>

    After:

        %y = qint.lookup %x, <tensor<256xi8>, …> : tensor<8x64xi8> -> tensor<8x64xi8>
    """

    name = "tabulate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in [region.block for function in op.body.block.ops for region in function.regions]:
            sources = _sources(list(block.ops))
            for y in reversed([value for value in sources if _leaves(value, sources)]):
                _tabulate(y, sources)  # the last first: what is before it is still as `sources` says
        region_dce(op.body)


def _sources(operations: Sequence[Operation]) -> dict[SSAValue, SSAValue]:
    """The tensor of bytes that each result is a function of, element by element; other results are left out."""
    sources: dict[SSAValue, SSAValue] = {}
    for op in operations:
        if isinstance(op, ElementwiseOp) and all(numbers.size == 1 for numbers in op.parameters()):
            (y,) = op.results
            found = {sources.get(x, x) for x in op.operands if _number(x) is None}
            source = next(iter(found), None)
            if len(found) == 1 and source is not None and element_of(source) == i8 and shape_of(source) == shape_of(y):
                sources[y] = source
    return sources


def _number(x: SSAValue) -> Array | None:
    """The only element of a constant, or None."""
    constant = constant_of(x)
    return constant.value.array if constant is not None and constant.value.array.size == 1 else None


def _leaves(y: SSAValue, sources: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether something else reads 8 or 16 bits of a function than operations that compute one of the same source."""
    others = (use.operation for use in y.uses)
    return width_of(y) <= 16 and any(not op.results or sources.get(op.results[0]) is not sources[y] for op in others)


def _tabulate(y: SSAValue, sources: Mapping[SSAValue, SSAValue]) -> None:
    """Replaces the operations between a source and `y`, if more than one of them passes over the data."""
    source, steps = sources[y], _steps(y, sources)
    if sum(width_of(op.results[0]) <= 16 for op in steps) < 2:  # others run in the kernel of the operation behind
        return
    known: dict[SSAValue, Array] = {source: BYTES}
    for op in steps:
        inputs = [known[x] if x in known else _require(_number(x)) for x in op.operands]
        known[op.results[0]] = op.compute(*inputs).ravel()
    *before, last = steps
    lookup = LookupOp.make([source], {"table": WeightsAttr(known[y])})
    replace(PatternRewriter(last), last, lookup, absorbing=before)


def _require(number: Array | None) -> Array:
    assert number is not None, "an operand is neither computed from the source nor a constant"
    return number


def _steps(y: SSAValue, sources: Mapping[SSAValue, SSAValue]) -> list[ElementwiseOp]:
    """The operations between a source and `y`, in order."""

    def computed(value: SSAValue) -> Iterator[SSAValue]:
        assert isinstance(value.owner, Operation)
        return (x for x in value.owner.operands if x in sources)

    return [v.owner for v in needed_first([y], computed) if isinstance(v.owner, ElementwiseOp)]
