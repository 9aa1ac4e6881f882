"""Export of quant.qcast, quant.dcast and quant.scast, per tensor and per axis, in f64.

Unlike upstream's `lower-quant-ops`, the quantizing cast rounds to nearest, as everywhere in qmlir
(numerics/fixed_point.py).
"""

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.value import Value
from qmlir.dialects.quant.ops import REST_BELOW, DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import shape_of
from qmlir.ir.types import dtype_of, element_type_of
from qmlir.lowering.qint_to_linalg.structured import Array, Formula, TensorCode, tensor_of
from qmlir.numerics.fixed_point import QUANTIZATIONS, Dequantize, Quantize

STORED_WIDTHS = (8, 16, 32)
"""Widths in bits of the storage integers that have the same bytes in numpy arrays and in tensors."""


def _quantize(code: TensorCode, op: QuantizeCastOp, x: SSAValue) -> SSAValue:
    type = op.quantized
    _check(code, type)
    scales, points = np.array(type.scales), np.array(type.zero_points, np.float64)
    result, storage = tensor_of(type.storage_type, shape_of(x)), dtype_of(type.storage_type)

    def way(by: str) -> Way:
        formula = Quantize(type.storage_min, type.storage_max, storage, by)
        return formula, (QUANTIZATIONS[by].divisor(scales), points)

    return _with_rest(code, op, x, result, way)


def _dequantize(code: TensorCode, op: DequantizeCastOp, q: SSAValue) -> SSAValue:
    type = op.quantized
    _check(code, type)
    parameters = np.array(type.scales), np.array(type.zero_points, np.int64)

    def way(by: str) -> Way:
        return Dequantize(type.is_signed, by=by, moved=op.sign_shift), parameters

    return _with_rest(code, op, q, tensor_of(f32, shape_of(q)), way)


Way: TypeAlias = tuple[Formula, tuple[Array, Array]]
"""How elements are computed: a formula of an element, a scale and a zero point, and the arrays of these."""


def _with_rest(
    code: TensorCode,
    op: QuantizeCastOp | DequantizeCastOp,
    x: SSAValue,
    result: TensorType[Attribute],
    way: Callable[[str], Way],
) -> SSAValue:
    """Writes a cast; a constant tensor tells which elements are the last, if these have a way of their own."""
    count = prod(shape_of(x))
    if op.rest is None or not count % REST_BELOW:
        formula, parameters = way(op.quantization)
        return _with_parameters(code, op.quantized, x, parameters, result, formula)
    last = (np.arange(count) >= count - count % REST_BELOW).astype(np.int8).reshape(shape_of(x))
    ways = [_of_numbers(way(name)) for name in (op.quantization, op.rest)]

    def chosen(x: Value, last: Value) -> Value:
        main, rest = (formula(x) for formula in ways)
        return last.equals(0).choose(main, rest)

    return code.elementwise([x, code.constant(last)], result, chosen)


def _of_numbers(way: Way) -> Formula:
    """A formula of an element only, with its one scale and zero point as constants."""
    formula, parameters = way

    def of_element(x: Value) -> Value:
        return formula(x, *(x.code.constant(p[0].item(), element_type_of(p.dtype)) for p in parameters))

    return of_element


def _with_parameters(
    code: TensorCode,
    type: UniformType,
    x: SSAValue,
    parameters: tuple[Array, Array],
    result: TensorType[Attribute],
    formula: Formula,
) -> SSAValue:
    """Writes formula(x, scale, zero point) per element.

    Per-tensor parameters become constants inside the formula. Per-axis parameters become tensors along the axis.
    """
    if type.axis is None:
        return code.elementwise([x], result, _of_numbers((formula, parameters)))
    along = [-1 if d == type.axis else 1 for d in range(type.axis, len(shape_of(x)))]
    return code.elementwise([x, *(code.constant(p.reshape(along)) for p in parameters)], result, formula)


def _storage(code: TensorCode, op: StorageCastOp, x: SSAValue) -> SSAValue:
    return x


def _check(code: TensorCode, type: UniformType) -> None:
    if type.storage_width not in STORED_WIDTHS:
        code.refuse(f"needs storage of {STORED_WIDTHS} bits", got=str(type), remedy="store it in 8 bits")
    if type.expressed != f32:
        code.refuse("needs an expressed type of f32", got=str(type), remedy="express it as f32")


RULES = {
    QuantizeCastOp: _quantize,
    DequantizeCastOp: _dequantize,
    StorageCastOp: _storage,
}
