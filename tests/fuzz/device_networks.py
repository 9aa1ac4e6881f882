"""Random networks for devices: operations that a device has and operations of its host, of every rank and size.

The sizes of a network's dimensions come from a few numbers, so that dimensions that mean something else have equal
sizes: channels and columns, images and rows. Operands are broadcast in every way, constants and computed ones, on
either side.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Operation, SSAValue

import qmlir
from qmlir.backends.reference import trace
from qmlir.compiler import main_function
from qmlir.dialects import nn
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn.base import bound
from qmlir.dialects.windows import ints
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import shape_of
from qmlir.ir.names import NAME, NameAttr
from qmlir.stages import OBSERVE
from qmlir.transforms.quantize.observers import InsertObserversPass

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

MOST_ELEMENTS = 3000
"""No tensor of a network is larger."""


@dataclass(frozen=True)
class Network:
    """A float network.

    module   without observers
    samples  some inputs: an array for each argument
    missing  every so many-th observer stays without a range, so that operations around it stay float; None for none
    """

    module: ModuleOp
    samples: Sequence[Sequence[Array]]
    missing: int | None = None
    wider: Sequence[float] = (1.0,)

    def observed(self, simplified: bool) -> ModuleOp:
        """The network with observers that hold the ranges of the samples."""
        module = qmlir.Pipeline(*OBSERVE)(self.module) if simplified else self.module.clone()
        if not simplified:
            InsertObserversPass().apply(make_context(), module)
        function = main_function(module)
        seen = [trace(function, sample)[1] for sample in self.samples]
        for index, op in enumerate([o for o in function.body.block.ops if isinstance(o, ObserveOp)]):
            if self.missing is not None and index % self.missing == self.missing - 1:
                continue
            arrays = [values[op.value] for values in seen]
            factor = self.wider[index % len(self.wider)]
            low, high = (factor * float(end) for end in (min(a.min() for a in arrays), max(a.max() for a in arrays)))
            named = ObserveOp(op.value, op.tensor.data, (low, high))
            assert named.range is not None
            op.range = named.range
            named.erase()
        return module

    @property
    def size(self) -> int:
        """How many operations it has, constants apart."""
        return len([op for op in main_function(self.module).body.block.ops if not isinstance(op, nn.ConstantOp)]) - 1

    def ending_with(self, number: int) -> "Network":
        """The network with the result of its operation of that number as its only output, and what that needs."""
        module = self.module.clone()
        block = main_function(module).body.block
        operations = [op for op in block.ops if not isinstance(op, nn.ConstantOp | func.ReturnOp)]
        returned = block.last_op
        assert returned is not None
        returned.detach()
        returned.erase()
        block.add_op(func.ReturnOp(operations[number].results[0]))
        for op in reversed(list(block.ops)):
            if not isinstance(op, func.ReturnOp) and not any(list(r.uses) for r in op.results):
                op.detach()
                op.erase()
        main_function(module).update_function_type()
        return Network(module, self.samples, self.missing, self.wider)


def network(rng: np.random.Generator, most: int = 7) -> Network:
    """A network of one or two inputs and up to `most` steps, each of which is an operation or two."""
    draft = _Draft(rng)
    for _ in range(int(rng.integers(1, most + 1))):
        draft.step()
    return draft.network()


class _Misfit(Exception):
    """A step that the values at hand do not allow; another is drawn."""


@dataclass
class _Draft:
    """A network in the making; `computed` are the results and arguments so far, the newest last."""

    rng: np.random.Generator
    computed: list[SSAValue] = field(default_factory=list[SSAValue])

    def __post_init__(self) -> None:
        self.sizes = [int(n) for n in self.rng.integers(1, 9, 2)]
        shapes = [self.shape(int(self.rng.choice([4, 4, 4, 4, 3, 2, 1, 0, 5])))]
        if self.chance(0.3):
            shapes.append(self.shape(int(self.rng.integers(0, 6))) if self.chance(0.5) else shapes[0])
        self.function = func.FuncOp("main", ([TensorType(f32, shape) for shape in shapes], []))
        self.block = self.function.body.block
        self.computed.extend(self.block.args)

    # -- choices ----------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one_of(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def shape(self, rank: int) -> Shape:
        """Sizes that other dimensions have, too, some of them 1."""
        while True:
            pool = [*self.sizes, *self.sizes, 1, int(self.rng.integers(1, 24))]
            found = tuple(int(self.one_of(pool)) for _ in range(rank))
            if prod(found) <= MOST_ELEMENTS // 2:
                return found

    def value(self, fits: Callable[[Shape], bool] = lambda shape: True) -> SSAValue:
        """What was computed before, rather lately, and has a fitting shape."""
        fitting = [v for v in self.computed if fits(shape_of(v))]
        if not fitting:
            raise _Misfit
        return fitting[-1] if self.chance(0.6) else self.one_of(fitting)

    def image(self) -> SSAValue:
        """A value of rank 4, another one's elements if there is none."""
        try:
            return self.value(lambda shape: len(shape) == 4)
        except _Misfit:
            return self.reshaped(self.value(), 4)

    # -- operations -------------------------------------------------------------------------------------------------

    def add(self, kind: type[Any], operands: Sequence[Any], properties: Mapping[str, Any] | None = None) -> SSAValue:
        """One more operation."""
        op: Operation = kind.make(operands, dict(properties or {}))
        if prod(shape_of(op.results[0])) > MOST_ELEMENTS or not prod(shape_of(op.results[0])):
            op.erase()
            raise _Misfit
        number = len(self.computed)
        op.attributes[NAME] = NameAttr.of([f"node{number}"], [f"t{number}"])
        self.block.add_op(op)
        self.computed.append(op.results[0])
        return op.results[0]

    def constant(self, *shape: int, scale: float = 1.0) -> SSAValue:
        """Normally distributed numbers, some far larger or smaller than the others."""
        values = self.rng.normal(size=shape) * scale
        if self.chance(0.15) and values.size > 1:
            values.reshape(-1)[int(self.rng.integers(values.size))] *= float(self.one_of([0.0, 1e-3, 20.0]))
        return self.given(values.astype(np.float32))

    def given(self, array: Array) -> SSAValue:
        """A constant."""
        op = nn.ConstantOp(np.asarray(array))
        self.block.add_op(op)
        return op.y

    def clamp(self) -> Mapping[str, Any]:
        """Bounds of a fused clamp."""
        low, high = self.one_of([(None, None), (None, None), (0.0, None), (0.0, 6.0), (-1.0, 1.0)])
        return {"min": bound(low), "max": bound(high)}

    def reshaped(self, x: SSAValue, rank: int) -> SSAValue:
        """The same elements in another rank."""
        shape, rest = [], prod(shape_of(x))
        for _ in range(rank - 1):
            divisors = [n for n in range(1, min(rest, 24) + 1) if rest % n == 0]
            shape.append(self.one_of(divisors))
            rest //= shape[-1]
        if rank == 0 and rest != 1:
            raise _Misfit
        shape = [] if rank == 0 else [*shape, rest]
        if self.chance(0.5):
            shape = [int(n) for n in self.rng.permutation(shape)]
        return self.add(nn.ReshapeOp, [x], {"shape": ints([*shape])})

    def step(self) -> None:
        """One more step; one that the values do not allow is drawn again."""
        for _ in range(20):
            kind = self.one_of(_WEIGHTED)
            try:
                kind(self)
                return
            except _Misfit:
                continue

    def network(self) -> Network:
        """The network; its outputs are what nothing reads, and some of what is read."""
        rng = self.rng
        results = [v for v in self.computed if not list(v.uses) and v not in self.block.args] or [self.computed[-1]]
        results = results[-3:]
        if self.chance(0.2):
            results.append(self.one_of(self.computed))
        self.block.add_op(func.ReturnOp(*results))
        self.function.update_function_type()
        names = [DictionaryAttr({NAME: NameAttr.of(tensors=[f"x{n}"])}) for n in range(len(self.block.args))]
        self.function.arg_attrs = ArrayAttr(names)
        module = ModuleOp([self.function])
        module.verify()
        scale = float(self.one_of([0.3, 1.0, 5.0]))
        samples = [
            [np.asarray(scale * rng.normal(size=shape_of(a)), np.float32) for a in self.block.args] for _ in range(3)
        ]
        missing = self.one_of([None, None, None, None, 2, 3, 4])
        wider = [float(w) for w in rng.choice([1.0, 1.0, 0.5, 1.7], 5)]
        return Network(module, samples, missing, wider)


# ---------------------------------------------------------------------------------------------------------------
# Steps: windows, contractions


def _window(draft: _Draft, x: SSAValue, most: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """A window that fits an image, with strides, padding and dilations."""
    rng, (_, height, width, _) = draft.rng, shape_of(x)
    extents = [int(rng.integers(1, min(most, size) + 1)) for size in (height, width)]
    sizes = zip(extents, (height, width), strict=True)
    dilations = [2 if draft.chance(0.2) and (e - 1) * 2 + 1 <= size else 1 for e, size in sizes]
    padding = [int(rng.integers(0, e)) if draft.chance(0.5) else 0 for e in extents for _ in range(2)]
    strides = [int(rng.integers(1, 4)) if draft.chance(0.4) else 1 for _ in extents]
    return (extents[0], extents[1]), {
        "strides": ints(strides), "padding": ints(padding), "dilations": ints(dilations)
    }  # fmt: skip


def _bias(draft: _Draft, outputs: int) -> list[SSAValue]:
    return [draft.constant(outputs)] if draft.chance(0.7) else []


def _conv2d(draft: _Draft) -> None:
    x = draft.image()
    channels = shape_of(x)[3]
    (rows, columns), properties = _window(draft, x, 3)
    outputs = int(draft.one_of([*draft.sizes, int(draft.rng.integers(1, 20))]))
    groups = draft.one_of([g for g in range(1, channels + 1) if channels % g == 0]) if draft.chance(0.2) else 1
    outputs *= groups
    if outputs > 64:
        raise _Misfit
    w = draft.constant(outputs, rows, columns, channels // groups, scale=(rows * columns * channels) ** -0.5)
    grouped = {"groups": IntegerAttr(groups, i64)} if groups > 1 else {}
    draft.add(nn.Conv2DOp, [x, w, _bias(draft, outputs)], {**properties, **draft.clamp(), **grouped})


def _depthwise(draft: _Draft) -> None:
    x = draft.image()
    (rows, columns), properties = _window(draft, x, 3)
    outputs = shape_of(x)[3] * (2 if draft.chance(0.15) else 1)
    w = draft.constant(1, rows, columns, outputs, scale=(rows * columns) ** -0.5)
    draft.add(nn.DepthwiseConv2DOp, [x, w, _bias(draft, outputs)], {**properties, **draft.clamp()})


def _pool(draft: _Draft) -> None:
    x = draft.image()
    window, properties = _window(draft, x, 3)
    properties["window"] = ints(list(window))
    if draft.chance(0.5):
        draft.add(nn.MaxPool2DOp, [x], properties)
    else:
        counted = {"count_include_pad": BoolAttr.from_bool(draft.chance(0.5))}
        draft.add(nn.AveragePool2DOp, [x], properties | counted)


def _global_pool(draft: _Draft) -> None:
    draft.add(nn.GlobalAveragePoolOp, [draft.image()])


def _fully_connected(draft: _Draft) -> None:
    x = draft.value()
    if len(shape_of(x)) != 2:
        x = draft.reshaped(x, 2)
    outputs, terms = int(draft.rng.integers(1, 20)), shape_of(x)[1]
    w = draft.constant(outputs, terms, scale=terms**-0.5)
    draft.add(nn.FullyConnectedOp, [x, w, _bias(draft, outputs)], draft.clamp())


def _matmul(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) >= 2)
    *lead, _, terms = shape_of(x)
    if draft.chance(0.4):
        rank = len(shape_of(x))
        turned = draft.add(nn.TransposeOp, [x], {"permutation": ints([*range(rank - 2), rank - 1, rank - 2])})
        draft.add(nn.MatMulOp, [x, turned] if draft.chance(0.5) else [turned, x], draft.clamp())
        return
    outputs = int(draft.rng.integers(1, 12))
    lead = lead if draft.chance(0.3) else []
    draft.add(nn.MatMulOp, [x, draft.constant(*lead, terms, outputs, scale=terms**-0.5)], draft.clamp())


# ---------------------------------------------------------------------------------------------------------------
# Steps: two tensors


_PAIRS = (nn.AddOp, nn.AddOp, nn.AddOp, nn.SubOp, nn.SubOp, nn.MulOp, nn.MulOp, nn.MaximumOp, nn.MinimumOp)


def _pair(draft: _Draft) -> None:
    """Two operands that broadcast, on either side; the second a constant or computed."""
    x = draft.value()
    kind = draft.one_of(_PAIRS)
    y = _constant_for(draft, x) if draft.chance(0.5) else _computed_for(draft, x)
    operands = [x, y] if draft.chance(0.6) else [y, x]
    draft.add(kind, operands, draft.clamp() if kind in (nn.AddOp, nn.SubOp, nn.MulOp) else None)


def _constant_for(draft: _Draft, x: SSAValue) -> SSAValue:
    """A constant that broadcasts with a value: smaller, larger or both."""
    shape = [n if draft.chance(0.5) else 1 for n in shape_of(x)]
    if draft.chance(0.3):
        shape = [n if n > 1 or draft.chance(0.6) else draft.one_of(draft.sizes) for n in shape_of(x)]
    if draft.chance(0.6):
        while shape and (shape[0] == 1 or shape_of(x)[-len(shape)] == 1 or draft.chance(0.3)):
            shape = shape[1:]
    elif draft.chance(0.2) and len(shape) < 5:
        shape = [draft.one_of([1, 2, *draft.sizes]), *shape]
    return draft.constant(*shape, scale=float(draft.one_of([0.1, 1.0, 3.0])))


def _computed_for(draft: _Draft, x: SSAValue) -> SSAValue:
    """A computed value that broadcasts with another one, or part of one that does."""
    if draft.chance(0.15):
        return x
    fitting = [v for v in draft.computed if v is not x and _broadcasts(shape_of(v), shape_of(x))]
    if fitting and draft.chance(0.6):
        return draft.one_of(fitting)
    y = draft.one_of([v for v in draft.computed if shape_of(v) == shape_of(x)])
    shape = shape_of(y)
    axes = [a for a in range(len(shape)) if draft.chance(0.5)]
    if not axes:
        return y
    if draft.chance(0.5):
        y = draft.add(nn.ReduceMaxOp, [y], {"axes": ints(axes)})
    else:
        sizes = [1 if a in axes else n for a, n in enumerate(shape)]
        offsets = [int(draft.rng.integers(0, n)) if a in axes else 0 for a, n in enumerate(shape)]
        y = draft.add(
            nn.SliceOp, [y], {"offsets": ints(offsets), "sizes": ints(sizes), "strides": ints([1] * len(shape))}
        )
    kept = [*shape_of(y)]
    while kept and kept[0] == 1 and draft.chance(0.7):
        kept = kept[1:]
    return y if len(kept) == len(shape) else draft.add(nn.ReshapeOp, [y], {"shape": ints(kept)})


def _broadcasts(left: Shape, right: Shape) -> bool:
    try:
        return prod(np.broadcast_shapes(left, right)) <= MOST_ELEMENTS
    except ValueError:
        return False


# ---------------------------------------------------------------------------------------------------------------
# Steps: single elements, and operations of the host


_FUNCTIONS = (
    nn.ReluOp, nn.ReluOp, nn.SigmoidOp, nn.TanhOp, nn.HardSwishOp, nn.AbsOp, nn.NegOp, nn.SoftplusOp, nn.GeluOp,
    nn.SinOp, nn.SoftsignOp,
)  # fmt: skip


def _function(draft: _Draft) -> None:
    draft.add(draft.one_of(_FUNCTIONS), [draft.value()])


def _clamp(draft: _Draft) -> None:
    draft.add(nn.ClampOp, [draft.value()], {"min": bound(-0.7), "max": bound(1.1)})


def _softmax(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axis = int(draft.rng.integers(len(shape_of(x))))
    draft.add(nn.SoftmaxOp, [x], {"axis": IntegerAttr(axis, i64)})


def _normalize(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axis = int(draft.rng.integers(len(shape_of(x))))
    draft.add(nn.LayerNormOp, [x], {"axis": IntegerAttr(axis, i64), "epsilon": FloatAttr(1e-3, f32)})


def _reduce(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axes = [a for a in range(len(shape_of(x))) if draft.chance(0.5)] or [0]
    kind = draft.one_of([nn.ReduceMeanOp, nn.ReduceMeanOp, nn.ReduceSumOp, nn.ReduceMaxOp, nn.ReduceMinOp])
    y = draft.add(kind, [x], {"axes": ints(axes)})
    if draft.chance(0.5):
        shape = [n for a, n in enumerate(shape_of(x)) if a not in axes]
        draft.add(nn.ReshapeOp, [y], {"shape": ints(shape)})


# ---------------------------------------------------------------------------------------------------------------
# Steps: data movement


def _concat(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axis = int(draft.rng.integers(len(shape_of(x))))

    def fits(shape: Shape) -> bool:
        own = shape_of(x)
        return len(shape) == len(own) and all(
            a == axis or m == n for a, (m, n) in enumerate(zip(shape, own, strict=True))
        )

    others = [
        draft.one_of([v for v in draft.computed if fits(shape_of(v))]) for _ in range(int(draft.rng.integers(1, 3)))
    ]
    if draft.chance(0.2):
        others.append(draft.constant(*shape_of(x)))
    inputs = [x, *others] if draft.chance(0.5) else [*others, x]
    draft.add(nn.ConcatOp, [inputs], {"axis": IntegerAttr(axis, i64)})


def _pad(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    low, high = ([int(draft.rng.integers(0, 3)) if draft.chance(0.5) else 0 for _ in shape_of(x)] for _ in range(2))
    value = FloatAttr(float(draft.one_of([0.0, 0.5, -1.0])), f32)
    draft.add(nn.PadOp, [x], {"low": ints(low), "high": ints(high), "value": value})


def _reshape(draft: _Draft) -> None:
    x = draft.value()
    draft.reshaped(x, int(draft.rng.integers(1 if prod(shape_of(x)) > 1 else 0, 6)))


def _transpose(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 1)
    order = [int(n) for n in draft.rng.permutation(len(shape_of(x)))]
    draft.add(nn.TransposeOp, [x], {"permutation": ints(order)})


def _slice(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    steps: list[tuple[int, int, int]] = []
    for size in shape_of(x):
        if draft.chance(0.4):
            steps.append((0, size, 1))
            continue
        stride, first = int(draft.one_of([1, 1, 2])), int(draft.rng.integers(0, size))
        count = int(draft.rng.integers(1, (size - 1 - first) // stride + 2))
        backwards = draft.chance(0.1)
        steps.append((first + (count - 1) * stride, count, -stride) if backwards else (first, count, stride))
    offsets, sizes, strides = (ints([*column]) for column in zip(*steps, strict=True))
    draft.add(nn.SliceOp, [x], {"offsets": offsets, "sizes": sizes, "strides": strides})


def _broadcast(draft: _Draft) -> None:
    x = draft.value()
    shape = [n if n > 1 or draft.chance(0.5) else draft.one_of(draft.sizes) for n in shape_of(x)]
    if len(shape) < 5 and draft.chance(0.3):
        shape = [draft.one_of([1, *draft.sizes]), *shape]
    draft.add(nn.BroadcastOp, [x], {"shape": ints(shape)})


def _gather(draft: _Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axis = int(draft.rng.integers(len(shape_of(x))))
    places = draft.rng.integers(0, shape_of(x)[axis], int(draft.rng.integers(1, 6))).astype(np.int64)
    draft.add(nn.GatherOp, [x, draft.given(places)], {"axis": IntegerAttr(axis, i64)})


_STEPS: Mapping[Callable[[_Draft], None], int] = {
    _conv2d: 8, _depthwise: 4, _pool: 5, _global_pool: 3, _fully_connected: 4, _matmul: 2, _pair: 14, _function: 6,
    _clamp: 1, _softmax: 1, _normalize: 1, _reduce: 2, _concat: 3, _pad: 2, _reshape: 3, _transpose: 2, _slice: 3,
    _broadcast: 1, _gather: 1,
}  # fmt: skip
"""How often each step is drawn, relative to the others."""

_WEIGHTED = [step for step, weight in _STEPS.items() for _ in range(weight)]
