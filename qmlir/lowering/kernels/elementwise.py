"""Elementwise kernels: any formula of any number of operands that broadcast to the result's shape.

Dimensions that all operands treat alike are merged first, so that most calls are one long run or a run for each row.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.ir import SSAValue

from qmlir.dialects.interfaces import shape_of
from qmlir.lowering.code import WIDTHS, Buffer, Code
from qmlir.lowering.kernel import Kernel, MainLowering, memref_shape
from qmlir.lowering.value import Value

Formula: TypeAlias = Callable[..., Value]
"""Maps one element of each operand, scalars or vectors of one length, to the result; a function or frozen dataclass."""

RUN = 4096
"""Elements in an item of a kernel that runs over one merged dimension."""


@dataclass(frozen=True)
class Elementwise(Kernel):
    """y[i, j, …] = formula(operands at i, j, …), an operand being indexed by the dimensions it has.

    name      the kernel's symbol
    formula   the arithmetic
    shape     the merged dimensions of the result
    present   for each operand, which of them it has
    widths    lanes of the vectors; none where the formula takes scalars only
    """

    name: str
    formula: Formula
    shape: tuple[int, ...]
    present: tuple[tuple[bool, ...], ...]
    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return self.name

    @property
    def items(self) -> int:
        """Rows of the first dimension, or runs of the only one."""
        return -(-self.shape[0] // (1 if len(self.shape) > 1 else RUN))

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        *operands, y = buffers
        *outer, length = self.shape

        def run(rows: list[Value], first: Value | int, last: Value | int) -> None:
            def element(i: Value, lanes: int | None) -> None:
                position = [*rows, i]
                values: list[Value] = []
                for x, present in zip(operands, self.present, strict=True):
                    own = [p for p, has in zip(position, present, strict=True) if has] or [code.index(0)]
                    values.append(x.load(*own, lanes=lanes if present[-1] else None).spread(lanes))
                y.store(self.formula(*values), *position)

            code.spans(first, last, element, self.widths)

        if not outer:
            run([], begin * RUN, (end * RUN).minimum(length))
            return
        with ExitStack() as nest:
            rows = [nest.enter_context(code.loop(begin, end))]
            rows += [nest.enter_context(code.loop(0, size)) for size in outer[1:]]
            run(rows, 0, length)


def lower_elementwise(
    state: MainLowering,
    name: str,
    formula: Formula,
    operands: Sequence[SSAValue],
    result: SSAValue,
    widths: tuple[int, ...] = WIDTHS,
) -> None:
    """Calls an elementwise kernel for the tensor `result`; `operands` are buffers whose shapes broadcast to its own."""
    shape, present = merge_dimensions(shape_of(result), [memref_shape(x) for x in operands])
    y = state.allocate_result(result)
    views = [
        state.view(x, [size for size, has in zip(shape, p, strict=True) if has] or [1])
        for x, p in zip(operands, present, strict=True)
    ]
    kernel = Elementwise(name, formula, shape, present, widths)
    state.call(kernel, [*views, state.view(y, shape)], kernel.items)
    state.replace(result, y)


def merge_dimensions(
    shape: Sequence[int], operands: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[bool, ...], ...]]:
    """The fewest dimensions in which each operand has a dimension of the result whole or not at all.

    Returns:
        The merged shape, at least one dimension, and for each operand which of its dimensions it has.
    """
    rank = len(shape)
    aligned = [[1] * (rank - len(s)) + list(s) for s in operands]
    merged: list[tuple[int, tuple[bool, ...]]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        has = tuple(s[axis] != 1 for s in aligned)
        if merged and merged[-1][1] == has:
            merged[-1] = (merged[-1][0] * size, has)
        else:
            merged.append((size, has))
    if not merged:
        merged = [(1, tuple(True for _ in operands))]
    assert prod(size for size, _ in merged) == prod(shape)
    return tuple(size for size, _ in merged), tuple(zip(*(has for _, has in merged), strict=True))
