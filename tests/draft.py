"""A random network on the nn level in the making, to which the steps of tests/steps.py add operations.

The sizes of dimensions come from a few numbers, so that dimensions that mean something else have equal sizes: channels
and columns, images and rows. Operands are broadcast in every way, constants and computed ones, on either side.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound
from qmlir.dialects.windows import ints
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import shape_of
from qmlir.ir.names import NameAttr
from tests.chance import Chance

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

MOST_ELEMENTS = 3000
"""No tensor of a network is larger."""

CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class Misfit(Exception):
    """A step that the values at hand do not allow; another is drawn."""


@dataclass
class Draft(Chance):
    """A network in the making.

    shapes          of the inputs; drawn if there are none
    channels_first  whether images are [N, C, H, W] and spatial operations stand between transposes, as frontends write
                    them; some operations have no names of nodes then, the transposes no names at all
    computed        the results and arguments so far, the newest last
    found           truth values and places, which are results of the network
    """

    rng: np.random.Generator
    shapes: Sequence[Shape] = ()
    channels_first: bool = False
    computed: list[SSAValue] = field(default_factory=list[SSAValue])
    found: list[SSAValue] = field(default_factory=list[SSAValue])

    def __post_init__(self) -> None:
        self.sizes = [int(n) for n in self.rng.integers(1, 9, 2)]
        shapes = self.shapes or self._drawn_shapes()
        self.function = func.FuncOp("main", ([TensorType(f32, shape) for shape in shapes], []))
        names = [DictionaryAttr(NAME.entry(NameAttr.of(tensors=[f"x{n}"]))) for n in range(len(shapes))]
        self.function.arg_attrs = ArrayAttr(names)
        self.block = self.function.body.block
        self.computed.extend(self.block.args)
        self._constants = self._numbers = 0

    def _drawn_shapes(self) -> list[Shape]:
        shapes = [self.shape(int(self.rng.choice([4, 4, 4, 4, 3, 2, 1, 0, 5])))]
        if self.chance(0.3):
            shapes.append(self.shape(int(self.rng.integers(0, 6))) if self.chance(0.5) else shapes[0])
        return shapes

    # -- choices ----------------------------------------------------------------------------------------------------

    def shape(self, rank: int) -> Shape:
        """Sizes that other dimensions have, too, some of them 1."""
        while True:
            pool = [*self.sizes, *self.sizes, 1, int(self.rng.integers(1, 24))]
            found = tuple(int(self.choice(pool)) for _ in range(rank))
            if prod(found) <= MOST_ELEMENTS // 2:
                return found

    def value(self, fits: Callable[[Shape], bool] = lambda shape: True) -> SSAValue:
        """What was computed before, rather lately, and has a fitting shape."""
        fitting = [v for v in self.computed if fits(shape_of(v))]
        if not fitting:
            raise Misfit
        return fitting[-1] if self.chance(0.6) else self.choice(fitting)

    def alike(self, x: SSAValue) -> list[SSAValue]:
        """The values of the same shape, this one among them."""
        return [v for v in self.computed if shape_of(v) == shape_of(x)]

    def image(self) -> SSAValue:
        """A value [N, H, W, C], another one's elements if there is none."""
        try:
            x = self.value(lambda shape: len(shape) == 4)
        except Misfit:
            x = self.reshaped(self.value(), 4)
        return self._permuted(x, CHANNELS_LAST) if self.channels_first else x

    # -- operations -------------------------------------------------------------------------------------------------

    def add(
        self, kind: type[Any], operands: Sequence[Any], properties: Mapping[str, Any] | None = None,
        element: Attribute | None = None,
    ) -> SSAValue:  # fmt: skip
        """One more operation."""
        y = self._made(kind, operands, properties, element)
        self.computed.append(y)
        return y

    def spatial(self, kind: type[Any], operands: Sequence[Any], properties: Mapping[str, Any] | None = None) -> None:
        """One more operation on an image."""
        y = self._made(kind, operands, properties)
        self.computed.append(self._permuted(y, CHANNELS_FIRST) if self.channels_first else y)

    def find(self, kind: type[Any], operands: Sequence[Any], properties: Mapping[str, Any] | None = None) -> SSAValue:
        """One more operation that yields truth values or places."""
        y = self._made(kind, operands, properties)
        self.found.append(y)
        return y

    def _made(
        self, kind: type[Any], operands: Sequence[Any], properties: Mapping[str, Any] | None,
        element: Attribute | None = None,
    ) -> SSAValue:  # fmt: skip
        op: Operation = kind.make(operands, dict(properties or {}), element=element)
        if not 0 < prod(shape_of(op.results[0])) <= MOST_ELEMENTS:
            op.erase()
            raise Misfit
        self._numbers += 1
        nameless = self.channels_first and self.chance(0.3)
        NAME.put(op, NameAttr.of([] if nameless else [f"node{self._numbers}"], [f"t{self._numbers}"]))
        self.block.add_op(op)
        return op.results[0]

    def _permuted(self, x: SSAValue, permutation: tuple[int, ...]) -> SSAValue:
        """A transpose as frontends insert it, without a name."""
        op = nn.TransposeOp.make([x], {"permutation": ints(permutation)})
        self.block.add_op(op)
        return op.results[0]

    def constant(self, *shape: int, scale: float = 1.0) -> SSAValue:
        """Normally distributed numbers, some far larger or smaller than the others."""
        values = self.rng.normal(size=shape) * scale
        if self.chance(0.15) and values.size > 1:
            values.reshape(-1)[int(self.rng.integers(values.size))] *= float(self.choice([0.0, 1e-3, 20.0]))
        return self.given(values.astype(np.float32))

    def given(self, array: Array) -> SSAValue:
        """A constant, with a name of its own if a frontend is to have written it."""
        op = nn.ConstantOp(np.asarray(array))
        if self.channels_first:
            self._constants += 1
            NAME.put(op, NameAttr.of(tensors=[f"c{self._constants}"]))
        self.block.add_op(op)
        return op.y

    def clamp(self) -> Mapping[str, Any]:
        """Bounds of a fused clamp."""
        low, high = self.choice([(None, None), (None, None), (0.0, None), (0.0, 6.0), (-1.0, 1.0)])
        return {"min": bound(low), "max": bound(high)}

    def reshaped(self, x: SSAValue, rank: int) -> SSAValue:
        """The same elements in another rank."""
        shape, rest = [], prod(shape_of(x))
        for _ in range(rank - 1):
            divisors = [n for n in range(1, min(rest, 24) + 1) if rest % n == 0]
            shape.append(self.choice(divisors))
            rest //= shape[-1]
        if rank == 0 and rest != 1:
            raise Misfit
        shape = [] if rank == 0 else [*shape, rest]
        if self.chance(0.5):
            shape = [int(n) for n in self.rng.permutation(shape)]
        return self.add(nn.ReshapeOp, [x], {"shape": ints([*shape])})

    def step(self, kinds: Sequence[Callable[["Draft"], None]]) -> None:
        """One more step; one that the values do not allow is taken back, and another drawn."""
        for _ in range(20):
            last, computed, found = self.block.last_op, len(self.computed), len(self.found)
            try:
                self.choice(kinds)(self)
                return
            except Misfit:
                del self.computed[computed:], self.found[found:]
                while self.block.last_op is not last:
                    op = self.block.last_op
                    assert op is not None
                    op.detach()
                    op.erase()

    def module(self) -> ModuleOp:
        """The network; its results are up to three values that nothing reads, some that is read, and what is found."""
        results = [v for v in self.computed if not list(v.uses) and v not in self.block.args] or [self.computed[-1]]
        results = results[-3:]
        if self.chance(0.2):
            results.append(self.choice(self.computed))
        self.block.add_op(func.ReturnOp(*results, *self.found))
        self.function.update_function_type()
        module = ModuleOp([self.function])
        module.verify()
        return module
