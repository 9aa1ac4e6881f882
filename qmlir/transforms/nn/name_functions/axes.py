"""Layouts: which axes of one tensor the dimensions of another are, through reshapes, transposes and reductions."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from qmlir.ir.interfaces import Shape

Layout: TypeAlias = tuple[tuple[int, ...], ...]
"""The axes that each dimension of a tensor consists of, row-major; a dimension of size 1 has none."""


class Unreadable(Exception):
    """Raised when the dimensions or the elements of a tensor do not follow from the axes of another."""


@dataclass(frozen=True)
class Axes:
    """The axes that the dimensions of a tensor consist of.

    sizes   the size of each axis
    layout  the axes of each dimension of the tensor
    whole   the axes along which a constant varies, so that every element counts
    """

    sizes: tuple[int, ...]
    layout: Layout
    whole: frozenset[int] = frozenset()

    @staticmethod
    def of(shape: Shape) -> "Axes":
        """One axis for each dimension that has more than one element."""
        long = [i for i, size in enumerate(shape) if size != 1]
        return Axes(
            tuple(shape[i] for i in long), tuple((long.index(i),) if i in long else () for i in range(len(shape)))
        )

    def split(self, axis: int, outer: int) -> "Axes":
        """The same axes, with one of them as two, of which the first has size `outer`."""
        inner = self.sizes[axis] // outer
        renamed = {a: (a,) if a < axis else (a + 1,) if a > axis else (a, a + 1) for a in range(len(self.sizes))}
        layout = tuple(tuple(new for a in axes for new in renamed[a]) for axes in self.layout)
        whole = frozenset(new for a in self.whole for new in renamed[a])
        return Axes((*self.sizes[:axis], outer, inner, *self.sizes[axis + 1 :]), layout, whole)

    def keeping(self, axes: Sequence[int]) -> "Axes":
        """The same axes, of which further ones count with every element."""
        return Axes(self.sizes, self.layout, self.whole | set(axes))


class FinerAxes(Exception):
    """Raised when dimensions can only be followed with other axes of the first tensor, which it has."""

    def __init__(self, axes: Axes):
        self.axes = axes


class Dimensions:
    """Follows the dimensions of tensors; repeated elements lie along axes of their own, numbered from `REPEATED`."""

    REPEATED = 1 << 16

    def __init__(self, axes: Axes):
        self.axes = axes
        self._repeated: list[int] = []

    def size(self, axis: int) -> int:
        """The size of an axis."""
        return self.axes.sizes[axis] if axis < self.REPEATED else self._repeated[axis - self.REPEATED]

    def repeated(self, size: int) -> tuple[int, ...]:
        """An axis along which all elements are the same."""
        if size == 1:
            return ()
        self._repeated.append(size)
        return (self.REPEATED + len(self._repeated) - 1,)

    def real(self, axes: Sequence[int]) -> list[int]:
        """Those axes along which elements may differ."""
        return [a for a in axes if a < self.REPEATED]

    def reshaped(self, layout: Layout, shape: Shape) -> Layout:
        """The layout after a reshape.

        Raises:
            Unreadable: A dimension holds no whole part of an axis.
            FinerAxes: An axis has to be split.
        """
        left = [a for axes in layout for a in axes]
        result: list[tuple[int, ...]] = []
        for wanted in shape:
            taken: list[int] = []
            while (have := prod(map(self.size, taken))) != wanted:
                if not left:
                    raise Unreadable
                axis, rest = left.pop(0), wanted // max(have, 1)
                if rest * have != wanted or rest == 0 or (rest % self.size(axis) and self.size(axis) % rest):
                    raise Unreadable
                if rest % self.size(axis):
                    outer, inner = self.parts(axis, rest)
                    left.insert(0, inner)
                    axis = outer
                taken.append(axis)
            result.append(tuple(taken))
        return tuple(result)

    def parts(self, axis: int, outer: int) -> tuple[int, int]:
        """Splits an axis of repeated elements in two; asks for finer axes if the elements differ."""
        if axis < self.REPEATED:
            raise FinerAxes(self.axes.split(axis, outer))
        return self.repeated(outer)[0], self.repeated(self.size(axis) // outer)[0]

    def merged(self, one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
        """The axes of a dimension along which two operands are aligned; a dimension of size 1 repeats its element.

        Raises:
            Unreadable: The operands have different axes there.
            FinerAxes: An axis has to be split.
        """
        if not one or not other or one == other:
            return one or other
        result: list[int] = []
        left, right = list(one), list(other)
        while left and right:
            a, b = left.pop(0), right.pop(0)
            if self.size(a) > self.size(b) and not self.size(a) % self.size(b):
                a, rest = self.parts(a, self.size(b))
                left.insert(0, rest)
            elif self.size(b) > self.size(a) and not self.size(b) % self.size(a):
                b, rest = self.parts(b, self.size(a))
                right.insert(0, rest)
            if self.size(a) != self.size(b) or (a != b and max(a, b) < self.REPEATED):
                raise Unreadable
            result.append(min(a, b))
        if left or right:
            raise Unreadable
        return tuple(result)
