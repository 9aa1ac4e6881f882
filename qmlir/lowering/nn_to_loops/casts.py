"""Lowering of quant.qcast, quant.dcast and quant.scast, per tensor and per axis."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, f64, i32, i64
from xdsl.ir import Operation

from qmlir.codegen.kernel import MainLowering, Rules, memref_shape
from qmlir.codegen.kernels.elementwise import lower_elementwise
from qmlir.codegen.quantization import divisor, rounded_steps
from qmlir.codegen.value import Value
from qmlir.dialects.nn.base import is_unsigned
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.ir.predicates import is_integer
from qmlir.lowering.nn_to_loops.pointwise import F64_WIDTHS

STORED_WIDTHS = (8, 16, 32)
"""Widths in bits of the storage integers that memory holds unpacked."""


@dataclass(frozen=True)
class Quantize:
    """clamp(round(x / scale) + zero_point, low, high); NaN gives the zero point.

    quantization   how the quotient is computed and rounded: a name in numerics.QUANTIZATIONS
    """

    low: int
    high: int
    storage: IntegerType
    quantization: str

    def __call__(self, x: Value, scale: Value, zero_point: Value) -> Value:
        steps = rounded_steps(x, scale, self.quantization)
        # Makes NaN 0: both terms are 0 for NaN, and for any other value one term is the value and the other is 0.
        steps = steps.maximum_number(0.0) + steps.minimum_number(0.0)
        q = (steps + zero_point).maximum(float(self.low)).minimum(float(self.high))
        wide = i64 if self.high >= 1 << 31 else i32
        return q.to(wide).to(self.storage)


@dataclass(frozen=True)
class Dequantize:
    """f32(f64(q − zero_point) · scale).

    signed   whether the storage is signed
    wide     whether the difference needs 64 bits
    """

    signed: bool
    wide: bool

    def __call__(self, q: Value, scale: Value, zero_point: Value) -> Value:
        assert is_integer(q.element)
        stored = q.to(i64 if self.wide else i32)
        if not self.signed:
            stored = stored & ((1 << q.element.width.data) - 1)
        return ((stored - zero_point).to(f64) * scale).to(f32)


def _check(state: MainLowering, op: Operation, type: UniformType) -> None:
    if type.storage_width not in STORED_WIDTHS:
        state.refuse(op, f"needs storage of {STORED_WIDTHS} bits", got=str(type), remedy="store it in 8 bits")
    if type.expressed != f32:
        state.refuse(op, "needs an expressed type of f32", got=str(type))


def _quantize(state: MainLowering, op: QuantizeCastOp) -> None:
    type = op.quantized
    _check(state, op, type)
    x = state.buffer(op.input)
    scale, zero_point = type.parameters_along(len(memref_shape(x)))
    operands = [x, state.constant(divisor(scale, op.quantization)), state.constant(zero_point.astype(np.float64))]
    formula = Quantize(type.storage_min, type.storage_max, type.storage_type, op.quantization)
    lower_elementwise(state, "quant_qcast", formula, operands, op.result, F64_WIDTHS)


def _dequantize(state: MainLowering, op: DequantizeCastOp) -> None:
    type = op.quantized
    _check(state, op, type)
    q = state.buffer(op.input)
    scale, zero_point = type.parameters_along(len(memref_shape(q)))
    wide = type.storage_width > 16 or bool(np.abs(zero_point).max() >= 1 << 30)
    points = zero_point.astype(np.int64 if wide else np.int32)
    operands = [q, state.constant(scale), state.constant(points)]
    lower_elementwise(state, "quant_dcast", Dequantize(type.is_signed, wide), operands, op.result, F64_WIDTHS)


@dataclass(frozen=True)
class SignExtend:
    """Sign-extends an integer in the low bits of a byte; `spare` is the number of upper bits."""

    spare: int

    def __call__(self, x: Value) -> Value:
        return (x << self.spare) >> self.spare


def _storage(state: MainLowering, op: StorageCastOp) -> None:
    """Lowers a storage cast to the same buffer.

    Signed integers of 2 and 4 bits are sign-extended, because arrays leave the upper bits of each byte empty.
    """
    x, element = state.buffer(op.input), element_of(op.input)
    if is_integer(element) and element.width.data in (2, 4) and not is_unsigned(element):
        lower_elementwise(state, "quant_scast", SignExtend(8 - element.width.data), [x], op.result)
    else:
        state.replace(op.result, x)


RULES: Rules = {QuantizeCastOp: _quantize, DequantizeCastOp: _dequantize, StorageCastOp: _storage}
