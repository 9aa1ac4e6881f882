"""Elementwise kernels: any formula of any number of operands that broadcast to the result's shape.

Neighbouring dimensions in which the same operands broadcast are merged first, so that most kernels run over one or two
dimensions.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.ir import SSAValue

from qmlir.codegen.code import WIDTHS, Buffer, Code
from qmlir.codegen.kernel import Kernel, MainLowering, memref_shape
from qmlir.codegen.value import Value
from qmlir.ir.interfaces import shape_of

Formula: TypeAlias = Callable[..., Value]
"""Maps one element (or a vector of elements) of each operand to the result; a function or a frozen dataclass."""

RUN = 4096
"""Elements in one item of the parallel loop, for a kernel over a single merged dimension."""


@dataclass(frozen=True)
class Elementwise(Kernel):
    """y[i, j, …] = formula(operands at i, j, …); an operand is indexed only by the dimensions that it has.

    name      the kernel's symbol
    formula   the arithmetic
    shape     the merged dimensions of the result
    present   for each operand, which of these dimensions it has
    widths    lanes of the vectors, widest first; empty if the formula takes scalars only
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
        """The number of items of the parallel loop: the first dimension's size, or runs of `RUN` elements if 1-D."""
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
    """Calls an elementwise kernel for the tensor `result`; `operands` are buffers that broadcast to its shape."""
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
    """Merges neighbouring dimensions of a result in which the same operands broadcast; drops dimensions of size 1.

    Returns:
        The merged shape with at least one dimension, and for each operand which of these dimensions it has.
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
