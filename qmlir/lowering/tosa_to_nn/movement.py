"""Data movement: shapes, permutations, padding, slices, gathers and scatters, on elements of any type."""

from collections.abc import Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import is_integer
from qmlir.ir.upstream.tosa import elementwise, shape
from qmlir.ir.upstream.tosa.base import numbers
from qmlir.lowering.tosa_to_nn.code import NNCode, Rule, static_shape


def _identity(code: NNCode, op: shape.IdentityOp) -> SSAValue:
    return code.raw(op.input1)


def _reshape(code: NNCode, op: shape.ReshapeOp) -> SSAValue:
    x, result = code.raw(op.input1), static_shape(op.output)
    if result is None:
        result = code.sizes(op.shape, "shape")
        if unknown := [i for i, size in enumerate(result) if size < 0]:
            rest = prod(size for size in result if size >= 0)
            result = tuple(prod(shape_of(x)) // max(rest, 1) if i in unknown else s for i, s in enumerate(result))
    return code.reshape(x, result)


def _transpose(code: NNCode, op: shape.TransposeOp) -> SSAValue:
    return code.insert(nn.TransposeOp, [code.raw(op.input1)], {"permutation": numbers(op.perms)})


def _concat(code: NNCode, op: shape.ConcatOp) -> SSAValue:
    values = [code.raw(x) for x in op.input1]
    if len({element_of(v) for v in values}) > 1:
        values = [code.stored(v) for v in values]
    return values[0] if len(values) == 1 else code.insert(nn.ConcatOp, [values], {"axis": op.axis.value.data})


def _pad(code: NNCode, op: shape.PadOp) -> SSAValue:
    x, padding = code.raw(op.input1), code.sizes(op.padding, "padding")
    number = code.known(op.pad_const, "pad_const").reshape(-1)[0]
    pads = {"low": padding[::2], "high": padding[1::2]}
    return code.insert(nn.PadOp, [x], {**pads, "value": filler(element_of(x), number)})


def filler(kind: Attribute, number: float | np.generic) -> Attribute:
    """The property of a movement that fills with an element: for a quantized type, the real number it stands for."""
    if isinstance(kind, UniformType):
        return FloatAttr((int(number) - kind.zero_point) * kind.scale, f32)
    return IntegerAttr(int(number), kind) if is_integer(kind) else FloatAttr(float(number), f32)


def reversed_along(code: NNCode, x: SSAValue, axes: tuple[int, ...]) -> SSAValue:
    """A value with the elements along some axes in reverse order."""
    sizes = shape_of(x)
    offsets = [size - 1 if axis in axes else 0 for axis, size in enumerate(sizes)]
    strides = [-1 if axis in axes else 1 for axis in range(len(sizes))]
    return code.insert(nn.SliceOp, [x], {"offsets": offsets, "sizes": sizes, "strides": strides})


def _reverse(code: NNCode, op: shape.ReverseOp) -> SSAValue:
    return reversed_along(code, code.raw(op.input1), (op.axis.value.data,))


def _slice(code: NNCode, op: shape.SliceOp) -> SSAValue:
    x, start, size = code.raw(op.input1), code.sizes(op.start, "start"), code.sizes(op.size, "size")
    sizes = [have - at if n < 0 else n for n, at, have in zip(size, start, shape_of(x), strict=True)]
    properties = {"offsets": start, "sizes": sizes, "strides": [1] * len(sizes)}
    return x if tuple(sizes) == shape_of(x) else code.insert(nn.SliceOp, [x], properties)


def _tile(code: NNCode, op: shape.TileOp) -> SSAValue:
    """Writes the repetitions along a dimension as a broadcast along a new dimension before it."""
    x, times = code.raw(op.input1), code.sizes(op.multiples, "multiples")
    own = shape_of(x)
    if all(n == 1 for n in times):
        return x
    split = [part for size in own for part in (1, size)]
    wide = [part for n, size in zip(times, own, strict=True) for part in (n, size)]
    repeated = code.insert(nn.BroadcastOp, [code.reshape(x, split)], {"shape": wide})
    return code.reshape(repeated, [n * size for n, size in zip(times, own, strict=True)])


# ---------------------------------------------------------------------------------------------------------------
# Gathers and scatters: the lists of a batch become one list, in which list n begins at place n · K.


def _places(code: NNCode, indices: SSAValue, lists: int, rows: int) -> SSAValue:
    """Indices [N, W] into N lists of K rows as i32 places [N · W] in the joined list."""
    if (array := code.array(indices)) is not None:
        return code.constant((array + np.arange(lists)[:, None] * rows).astype(np.int32).reshape(-1))
    places = code.plain(indices)
    if lists > 1:
        starts = code.constant((np.arange(lists) * rows)[:, None].astype(np.int32))
        places = code.insert(nn.AddOp, [code.cast(places, i32), starts])
    return code.reshape(places, (prod(shape_of(places)),))


def _gather(code: NNCode, op: elementwise.GatherOp) -> SSAValue:
    values = code.raw(op.values)
    lists, rows, width = shape_of(values)
    places = _places(code, op.indices, lists, rows)
    found = code.insert(nn.GatherOp, [code.reshape(values, (lists * rows, width)), places], {"axis": 0})
    return code.reshape(found, (lists, shape_of(places)[0] // lists, width))


def _scatter(code: NNCode, op: elementwise.ScatterOp) -> SSAValue:
    values, updates = code.raw(op.values_in), code.raw(op.input)
    if element_of(values) != element_of(updates):
        values, updates = code.stored(values), code.stored(updates)
    lists, rows, width = shape_of(values)
    count = lists * shape_of(updates)[1]
    places = code.reshape(_places(code, op.indices, lists, rows), (count, 1))
    operands = [code.reshape(values, (lists * rows, width)), code.reshape(updates, (count, width)), places]
    return code.reshape(code.insert(nn.ScatterNDOp, operands), (lists, rows, width))


RULES: Mapping[type[Operation], Rule] = {
    shape.IdentityOp: _identity,
    shape.ReshapeOp: _reshape,
    shape.TransposeOp: _transpose,
    shape.ConcatOp: _concat,
    shape.PadOp: _pad,
    shape.ReverseOp: _reverse,
    shape.SliceOp: _slice,
    shape.TileOp: _tile,
    elementwise.GatherOp: _gather,
    elementwise.ScatterOp: _scatter,
}
