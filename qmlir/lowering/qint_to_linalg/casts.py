"""Export of quant.qcast, quant.dcast and quant.scast, per tensor and per axis, in f64.

Unlike upstream's `lower-quant-ops`, the quantizing cast rounds to nearest, as everywhere in qmlir
(numerics/fixed_point.py).
"""

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.value import Value
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import shape_of
from qmlir.ir.types import dtype_of, element_type_of
from qmlir.lowering.qint_to_linalg.structured import Array, Formula, TensorCode, tensor_of
from qmlir.numerics.fixed_point import QUANTIZATIONS, Dequantize, Quantize

STORED_WIDTHS = (8, 16, 32)
"""Widths in bits of the storage integers that have the same bytes in numpy arrays and in tensors."""


def _quantize(code: TensorCode, op: QuantizeCastOp, x: SSAValue) -> SSAValue:
    type, by = op.quantized, op.quantization
    _check(code, type)
    formula = Quantize(type.storage_min, type.storage_max, dtype_of(type.storage_type), by)
    parameters = QUANTIZATIONS[by].divisor(np.array(type.scales)), np.array(type.zero_points, np.float64)
    return _with_parameters(code, type, x, parameters, tensor_of(type.storage_type, shape_of(x)), formula)


def _dequantize(code: TensorCode, op: DequantizeCastOp, q: SSAValue) -> SSAValue:
    type = op.quantized
    _check(code, type)
    parameters = np.array(type.scales), np.array(type.zero_points, np.int64)
    return _with_parameters(code, type, q, parameters, tensor_of(f32, shape_of(q)), Dequantize(type.is_signed))


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

        def with_numbers(x: Value) -> Value:
            return formula(x, *(x.code.constant(p[0].item(), element_type_of(p.dtype)) for p in parameters))

        return code.elementwise([x], result, with_numbers)
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
