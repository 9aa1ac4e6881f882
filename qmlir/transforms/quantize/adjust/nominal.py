"""The nominal meaning of operations on arrays: floats, and integers that stand for floats.

A network that a model file quantizes in part has operations on quantized types beside floats. Passes that evaluate it
on samples do not need the exact integers, which lower levels state: an operation on quantized types is the same
operation on floats, between a dequantization and a quantization.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute, Block, Operation

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.elementwise import PointwiseOp
from qmlir.dialects.quant.foreign import QuantizedType
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.facts import REST
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.types import element_type, with_element

Meaning = Callable[..., tuple[Array, ...]]
"""Computes the results of an operation from arrays, which hold stored integers for quantized types."""


def nominal_meaning(op: Operation, *, rounds: bool = True) -> Meaning:
    """The meaning of an operation of nn or quant on numpy arrays.

    Args:
        op: The operation.
        rounds: Whether results of quantized types are stored integers; else they stay the floats that these stand for.
            Arrays of floats are taken for operands of quantized types in either case.
    """
    elements = [element_of(v) for v in (*op.operands, *op.results)]
    itself = isinstance(op, ConstantOp | DequantizeCastOp | QuantizeCastOp | StorageCastOp)
    if itself or not any(isinstance(e, UniformType) for e in elements):
        return cast(Any, op).evaluate
    stored = Block(arg_types=[v.type for v in op.operands]).args
    back = [None if (to := _expressed(v.type)) == v.type else DequantizeCastOp(v, to) for v in stored]
    on_floats = op.create(
        operands=Block(arg_types=[_expressed(v.type) for v in stored]).args,
        result_types=[_expressed(r.type) for r in op.results],
        properties=dict(op.properties),
    )
    forth = [
        QuantizeCastOp(y, r.type) if rounds and isinstance(element_of(r), UniformType) else None
        for y, r in zip(on_floats.results, op.results, strict=True)
    ]

    def evaluate(*arrays: Array) -> tuple[Array, ...]:
        held = [np.issubdtype(a.dtype, np.floating) for a in arrays]
        floats = [a if step is None or is_float else step.evaluate(a)[0]
                  for a, step, is_float in zip(arrays, back, held, strict=True)]  # fmt: skip
        found = cast(Any, on_floats).evaluate(*floats)
        return tuple(a if step is None else step.evaluate(a)[0] for a, step in zip(found, forth, strict=True))

    return evaluate


class Rows(list[Array]):
    """The values of a tensor, one array for each sample, all of which lie in `whole` along its first axis."""

    def __init__(self, whole: Array):
        super().__init__(whole)
        self.whole = whole


SMALL = 1 << 12
"""The elements of a result up to which numpy takes longer to begin an operation than to compute it."""


def for_all_samples(op: Operation, meaning: Meaning, operands: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Computes the results of an operation for all samples: for each result an array for each sample.

    What computes each element by itself computes small tensors of all samples in one call of numpy, with the same bits.

    Args:
        op: The operation.
        meaning: Its meaning, as `nominal_meaning` gives it.
        operands: For each operand an array for each sample; a constant is the same array for all samples.
    """
    if _by_element(op) and len(operands[0]) > 1 and (wholes := _side_by_side(op, operands)) is not None:
        return [Rows(result) for result in meaning(*wholes)]
    results = [meaning(*each) for each in zip(*operands, strict=True)]
    return [list(each) for each in zip(*results, strict=True)]


def _by_element(op: Operation) -> bool:
    """Whether an operation computes each element by itself, in the same way, and its results are small."""
    if not isinstance(op, PointwiseOp | DequantizeCastOp | QuantizeCastOp) or REST.on(op):
        return False
    elements = [e for v in (*op.operands, *op.results) if isinstance(e := element_of(v), QuantizedType)]
    one_scale = all(isinstance(e, UniformType) and not e.is_per_axis for e in elements)
    return one_scale and math.prod(shape_of(op.results[0])) <= SMALL


def _side_by_side(op: Operation, operands: Sequence[Sequence[Array]]) -> list[Array] | None:
    """Operands with the samples along a further axis in front; None if one of them does not lie in order in memory.

    numpy lays out results as operands lie, and sums of products may depend on that in their last bits.
    """
    wholes: list[Array] = []
    rank = len(shape_of(op.results[0]))
    for values in operands:
        first = values[0]
        if isinstance(values, Rows):
            whole = values.whole
        elif all(each is first for each in values):
            whole = first[None]
        else:
            whole = np.array(values)
        ordered = isinstance(values, Rows) or all(each.flags.c_contiguous for each in values)
        if not ordered or whole.dtype != first.dtype:
            return None
        wholes.append(whole.reshape(whole.shape[:1] + (1,) * (rank - first.ndim) + first.shape))
    return wholes if any(len(whole) > 1 for whole in wholes) else None


def _expressed(type: Attribute) -> Attribute:
    """The type of the floats that a quantized type stands for; other types unchanged."""
    element = element_type(type)
    return with_element(type, element.expressed) if isinstance(element, UniformType) else type
