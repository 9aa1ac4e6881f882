"""The nominal meaning of operations on arrays: floats, and integers that stand for floats.

A network that a model file quantizes in part has operations on quantized types beside floats. Passes that evaluate it
on samples do not need the exact integers, which lower levels state: an operation on quantized types is the same
operation on floats, between a dequantization and a quantization.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute, Block, Operation

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, element_of
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


def _expressed(type: Attribute) -> Attribute:
    """The type of the floats that a quantized type stands for; other types unchanged."""
    element = element_type(type)
    return with_element(type, element.expressed) if isinstance(element, UniformType) else type
