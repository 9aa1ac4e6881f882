"""The steps of random networks on the nn level (tests/graphs.py): each adds an operation or a few to a draft."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import shape_of
from qmlir.ir.weights import WeightsAttr
from tests.draft import MOST_ELEMENTS, Draft, Misfit, Shape

# ---------------------------------------------------------------------------------------------------------------
# Steps: windows, contractions


def _window(draft: Draft, x: SSAValue, most: int) -> tuple[tuple[int, int], dict[str, Any]]:
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


def _bias(draft: Draft, outputs: int) -> list[SSAValue]:
    return [draft.constant(outputs)] if draft.chance(0.7) else []


def _conv2d(draft: Draft) -> None:
    x = draft.image()
    channels = shape_of(x)[3]
    (rows, columns), properties = _window(draft, x, 3)
    outputs = int(draft.choice([*draft.sizes, int(draft.rng.integers(1, 20))]))
    groups = draft.choice([g for g in range(1, channels + 1) if channels % g == 0]) if draft.chance(0.2) else 1
    outputs *= groups
    if outputs > 64:
        raise Misfit
    w = draft.constant(outputs, rows, columns, channels // groups, scale=(rows * columns * channels) ** -0.5)
    grouped = {"groups": IntegerAttr(groups, i64)} if groups > 1 else {}
    draft.spatial(nn.Conv2DOp, [x, w, _bias(draft, outputs)], {**properties, **draft.clamp(), **grouped})


def _depthwise(draft: Draft) -> None:
    x = draft.image()
    (rows, columns), properties = _window(draft, x, 3)
    outputs = shape_of(x)[3] * (2 if draft.chance(0.15) else 1)
    w = draft.constant(1, rows, columns, outputs, scale=(rows * columns) ** -0.5)
    draft.spatial(nn.DepthwiseConv2DOp, [x, w, _bias(draft, outputs)], {**properties, **draft.clamp()})


def _pool(draft: Draft) -> None:
    x = draft.image()
    window, properties = _window(draft, x, 3)
    properties["window"] = ints(list(window))
    if draft.chance(0.5):
        draft.spatial(nn.MaxPool2DOp, [x], properties)
    else:
        counted = {"count_include_pad": BoolAttr.from_bool(draft.chance(0.5))}
        draft.spatial(nn.AveragePool2DOp, [x], properties | counted)


def _global_pool(draft: Draft) -> None:
    draft.spatial(nn.GlobalAveragePoolOp, [draft.image()])


def _fully_connected(draft: Draft) -> None:
    x = draft.value()
    if len(shape_of(x)) != 2:
        x = draft.reshaped(x, 2)
    outputs, terms = int(draft.rng.integers(1, 20)), shape_of(x)[1]
    w = draft.constant(outputs, terms, scale=terms**-0.5)
    draft.add(nn.FullyConnectedOp, [x, w, _bias(draft, outputs)], draft.clamp())


def _matmul(draft: Draft) -> None:
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


_SUMS = (nn.AddOp, nn.SubOp, nn.MulOp)


def _pair(draft: Draft) -> None:
    """Two operands that broadcast, on either side; the second a constant or computed."""
    _combined(draft, (*_SUMS, *_SUMS, nn.AddOp, nn.MaximumOp, nn.MinimumOp))


def _sum(draft: Draft) -> None:
    """The same, but no extreme of the two, which has no form in some files."""
    _combined(draft, _SUMS)


def _combined(draft: Draft, kinds: Sequence[type[Any]]) -> None:
    x = draft.value()
    kind = draft.choice(kinds)
    y = _constant_for(draft, x) if draft.chance(0.5) else _computed_for(draft, x)
    operands = [x, y] if draft.chance(0.6) else [y, x]
    draft.add(kind, operands, draft.clamp() if kind in _SUMS else None)


def _constant_for(draft: Draft, x: SSAValue) -> SSAValue:
    """A constant that broadcasts with a value: smaller, larger or both."""
    shape = [n if draft.chance(0.5) else 1 for n in shape_of(x)]
    if draft.chance(0.3):
        shape = [n if n > 1 or draft.chance(0.6) else draft.choice(draft.sizes) for n in shape_of(x)]
    if draft.chance(0.6):
        while shape and (shape[0] == 1 or shape_of(x)[-len(shape)] == 1 or draft.chance(0.3)):
            shape = shape[1:]
    elif draft.chance(0.2) and len(shape) < 5:
        shape = [draft.choice([1, 2, *draft.sizes]), *shape]
    return draft.constant(*shape, scale=float(draft.choice([0.1, 1.0, 3.0])))


def _computed_for(draft: Draft, x: SSAValue) -> SSAValue:
    """A computed value that broadcasts with another one, or part of one that does."""
    if draft.chance(0.15):
        return x
    fitting = [v for v in draft.computed if v is not x and _broadcasts(shape_of(v), shape_of(x))]
    if fitting and draft.chance(0.6):
        return draft.choice(fitting)
    y = draft.choice([v for v in draft.computed if shape_of(v) == shape_of(x)])
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


def _function(draft: Draft) -> None:
    draft.add(draft.choice(_FUNCTIONS), [draft.value()])


def _clamp(draft: Draft) -> None:
    draft.add(nn.ClampOp, [draft.value()], {"min": bound(-0.7), "max": bound(1.1)})


def _softmax(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axis = int(draft.rng.integers(len(shape_of(x))))
    draft.add(nn.SoftmaxOp, [x], {"axis": IntegerAttr(axis, i64)})


def _normalize(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axis = int(draft.rng.integers(len(shape_of(x))))
    draft.add(nn.LayerNormOp, [x], {"axis": IntegerAttr(axis, i64), "epsilon": FloatAttr(1e-3, f32)})


def _reduce(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axes = [a for a in range(len(shape_of(x))) if draft.chance(0.5)] or [0]
    kind = draft.choice([nn.ReduceMeanOp, nn.ReduceMeanOp, nn.ReduceSumOp, nn.ReduceMaxOp, nn.ReduceMinOp])
    y = draft.add(kind, [x], {"axes": ints(axes)})
    if draft.chance(0.5):
        shape = [n for a, n in enumerate(shape_of(x)) if a not in axes]
        draft.add(nn.ReshapeOp, [y], {"shape": ints(shape)})


# ---------------------------------------------------------------------------------------------------------------
# Steps: data movement


def _concat(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axis = int(draft.rng.integers(len(shape_of(x))))

    def fits(shape: Shape) -> bool:
        own = shape_of(x)
        return len(shape) == len(own) and all(
            a == axis or m == n for a, (m, n) in enumerate(zip(shape, own, strict=True))
        )

    others = [
        draft.choice([v for v in draft.computed if fits(shape_of(v))]) for _ in range(int(draft.rng.integers(1, 3)))
    ]
    if not draft.channels_first and draft.chance(0.2):  # a slice of the rest would leave nothing of its name
        others.append(draft.constant(*shape_of(x)))
    inputs = [x, *others] if draft.chance(0.5) else [*others, x]
    draft.add(nn.ConcatOp, [inputs], {"axis": IntegerAttr(axis, i64)})


def _pad(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    low, high = ([int(draft.rng.integers(0, 3)) if draft.chance(0.5) else 0 for _ in shape_of(x)] for _ in range(2))
    value = FloatAttr(float(draft.choice([0.0, 0.5, -1.0])), f32)
    draft.add(nn.PadOp, [x], {"low": ints(low), "high": ints(high), "value": value})


def _reshape(draft: Draft) -> None:
    x = draft.value()
    draft.reshaped(x, int(draft.rng.integers(1 if prod(shape_of(x)) > 1 else 0, 6)))


def _transpose(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 1)
    order = [int(n) for n in draft.rng.permutation(len(shape_of(x)))]
    draft.add(nn.TransposeOp, [x], {"permutation": ints(order)})


def _slice(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    steps: list[tuple[int, int, int]] = []
    for size in shape_of(x):
        if draft.chance(0.4):
            steps.append((0, size, 1))
            continue
        stride, first = int(draft.choice([1, 1, 2])), int(draft.rng.integers(0, size))
        count = int(draft.rng.integers(1, (size - 1 - first) // stride + 2))
        backwards = draft.chance(0.1)
        steps.append((first + (count - 1) * stride, count, -stride) if backwards else (first, count, stride))
    offsets, sizes, strides = (ints([*column]) for column in zip(*steps, strict=True))
    draft.add(nn.SliceOp, [x], {"offsets": offsets, "sizes": sizes, "strides": strides})


def _broadcast(draft: Draft) -> None:
    x = draft.value()
    shape = [n if n > 1 or draft.chance(0.5) else draft.choice(draft.sizes) for n in shape_of(x)]
    if len(shape) < 5 and draft.chance(0.3):
        shape = [draft.choice([1, *draft.sizes]), *shape]
    draft.add(nn.BroadcastOp, [x], {"shape": ints(shape)})


def _gather(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    axis = int(draft.rng.integers(len(shape_of(x))))
    places = draft.rng.integers(0, shape_of(x)[axis], int(draft.rng.integers(1, 6))).astype(np.int64)
    draft.add(nn.GatherOp, [x, draft.given(places)], {"axis": IntegerAttr(axis, i64)})


def _scatter(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 1)
    shape = shape_of(x)
    zeros, ones = [0] * len(shape), [1] * len(shape)
    row = {"offsets": ints(zeros), "sizes": ints([1, 1, *shape[2:]]), "strides": ints(ones)}
    places = draft.rng.integers(0, shape[:2], (1, 1, 2))
    draft.add(nn.ScatterNDOp, [x, draft.add(nn.SliceOp, [x], row), draft.given(places)])


def _broadcast_mean(draft: Draft) -> None:
    x = draft.image()
    mean = draft.add(nn.GlobalAveragePoolOp, [x])
    draft.add(nn.BroadcastOp, [mean], {"shape": ints([*shape_of(x)])})


def _resize(draft: Draft) -> None:
    """Rows and columns that are almost twice as many, by linear interpolation."""
    x = draft.image()
    taps, weights = list[WeightsAttr](), list[WeightsAttr]()
    for size in shape_of(x)[1:3]:
        at = np.linspace(0, size - 1, 2 * size - 1)
        ends = np.clip(np.stack([np.floor(at), np.floor(at) + 1], 1), 0, size - 1)
        taps.append(WeightsAttr(ends.astype(np.int64)))
        weights.append(WeightsAttr(np.stack([1 - at % 1, at % 1], 1)))
    draft.add(nn.ResizeOp, [x], {"axes": ints([1, 2]), "taps": ArrayAttr(taps), "weights": ArrayAttr(weights)})


# ---------------------------------------------------------------------------------------------------------------
# Steps: choices, searches and running sums


def _along(draft: Draft, x: SSAValue) -> dict[str, Any]:
    return {"axis": IntegerAttr(int(draft.rng.integers(len(shape_of(x)))), i64)}


def _search(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    along, last = _along(draft, x), BoolAttr.from_bool(draft.chance(0.5))
    kind = draft.choice([nn.ArgMaxOp, nn.ArgMinOp, nn.TopKOp])
    order = {"k": IntegerAttr(shape_of(x)[along["axis"].value.data], i64), "largest": last}
    draft.find(kind, [x], {**along, **(order if kind is nn.TopKOp else {"last": last})})


def _running_sum(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    flags = {name: BoolAttr.from_bool(draft.chance(0.5)) for name in ("exclusive", "reverse")}
    draft.add(nn.CumulativeSumOp, [x], {**_along(draft, x), **flags})


def _truth(draft: Draft, x: SSAValue) -> SSAValue:
    """Where a value is below another, a number or a constant for each element of its last dimension."""
    number = draft.given(np.array(0.3, np.float32))
    other = draft.choice([*draft.alike(x), number, draft.constant(*shape_of(x)[-1:])])
    return draft.find(draft.choice([nn.LessOp, nn.LessEqualOp, nn.EqualOp]), [x, other])


def _masked(draft: Draft) -> None:
    x = draft.value(lambda shape: len(shape) > 0)
    masked = draft.add(nn.WhereOp, [_truth(draft, x), x, draft.given(np.array(-1e9, np.float32))])
    draft.add(nn.SoftmaxOp, [masked], _along(draft, x))


def _cast(draft: Draft) -> None:
    x = draft.value()
    draft.add(nn.AddOp, [draft.add(nn.CastOp, [_truth(draft, x)], element=f32), x])


def _where(draft: Draft) -> None:
    x = draft.value()
    pair = [x, draft.choice(draft.alike(x))]
    draft.add(nn.WhereOp, [_truth(draft, x), *(pair if draft.chance(0.5) else pair[::-1])])


# ---------------------------------------------------------------------------------------------------------------
# Steps: what frontends write


def _batch_norm(draft: Draft) -> None:
    """A factor and a summand for each channel of an image."""
    x = draft.image()
    scaled = draft.add(nn.MulOp, [x, draft.constant(shape_of(x)[3])])
    draft.spatial(nn.AddOp, [scaled, draft.constant(shape_of(x)[3])])


def _part(draft: Draft) -> None:
    """A slice of a concatenation."""
    _concat(draft)
    _slice(draft)


def _neutral(draft: Draft) -> None:
    """A sum with zeros or a product with ones."""
    kind, x = draft.choice([nn.AddOp, nn.MulOp]), draft.value()
    draft.add(kind, [x, draft.given(np.full(shape_of(x)[-1:], kind is nn.MulOp, np.float32))])


def _computed_constant(draft: Draft) -> None:
    """A sum with a constant that is computed from constants."""
    x = draft.value()
    draft.add(nn.MulOp, [draft.constant(*shape_of(x)), draft.constant(1)])
    made = draft.add(nn.ReluOp, [draft.computed[-1]])
    del draft.computed[-2:]
    draft.add(nn.AddOp, [x, made])


# ---------------------------------------------------------------------------------------------------------------
# How often each step is drawn, relative to the others


Steps = Mapping[Callable[[Draft], None], int]

DEVICES: Steps = {
    _conv2d: 8, _depthwise: 4, _pool: 5, _global_pool: 3, _fully_connected: 4, _matmul: 2, _pair: 14, _function: 6,
    _clamp: 1, _softmax: 1, _normalize: 1, _reduce: 2, _concat: 3, _pad: 2, _reshape: 3, _transpose: 2, _slice: 3,
    _broadcast: 1, _gather: 1,
}  # fmt: skip
"""Of networks for devices."""

IMAGES: Steps = {
    _conv2d: 3, _depthwise: 2, _pool: 2, _global_pool: 1, _fully_connected: 1, _matmul: 1, _sum: 4, _function: 3,
    _clamp: 1, _softmax: 1, _reduce: 2, _concat: 1, _pad: 1, _transpose: 1, _slice: 1, _broadcast_mean: 1, _gather: 1,
    _scatter: 1, _resize: 1,
}  # fmt: skip
"""Of networks on images."""

CHOICES: Steps = {**IMAGES, _search: 1, _running_sum: 1, _masked: 1, _cast: 1, _where: 1}
"""The same with choices, searches and running sums."""

FRONTENDS: Steps = {
    _conv2d: 2, _depthwise: 1, _pool: 1, _global_pool: 1, _function: 2, _clamp: 1, _pair: 4, _batch_norm: 2, _concat: 1,
    _pad: 1, _transpose: 1, _reshape: 1, _softmax: 1, _fully_connected: 1, _matmul: 1, _neutral: 1,
    _computed_constant: 1,
}  # fmt: skip
"""Of networks as frontends write them, of which nothing is lost when they are simplified."""

PARTS: Steps = {**FRONTENDS, _part: 2}
"""The same with slices, which may leave nothing of an operand of a concatenation."""
