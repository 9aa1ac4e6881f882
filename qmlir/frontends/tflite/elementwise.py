"""Converters of elementwise operators: arithmetic, functions, comparisons, logic, casts."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i32
from xdsl.ir import OpResult, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.quant.ops import CastOp, DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import CLAMPS, COMPARISONS
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.reader import DTYPES, type_name
from qmlir.ir.facts import INTEGER_OPERATOR, ON_FLOATS
from qmlir.ir.interfaces import TensorOp, element_of
from qmlir.ir.types import dtype_of, element_type_of

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Two operands


@converts("FLOOR_DIV")
def floor_div(node: TFLiteNode, a: Value, b: Value) -> Value:
    """⌊a / b⌋."""
    if node.is_real([a, b]):
        return node.finished(node.compute(nn.FloorOp, [node.insert(nn.DivOp, [node.floats(a), node.floats(b)])]))
    rest = node.insert(nn.ModOp, [a, b])
    return node.compute(nn.DivOp, [node.insert(nn.SubOp, [a, rest]), b])


@converts("ATAN2")
def atan2(node: TFLiteNode, y: Value, x: Value) -> Value:
    """The angle of the point (x, y): atan(y / x), plus or minus π where x is negative."""
    y, x = node.floats(y), node.floats(x)
    zero, half = node.number(0, x), node.number(np.pi, x)
    angle = node.insert(nn.AtanOp, [node.insert(nn.DivOp, [y, x])])
    turn = node.insert(nn.WhereOp, [node.insert(nn.LessOp, [y, zero]), node.insert(nn.NegOp, [half]), half])
    left = node.insert(nn.LessOp, [x, zero])
    turned = node.insert(nn.WhereOp, [left, node.insert(nn.AddOp, [angle, turn]), angle])
    nowhere = node.insert(nn.IsNaNOp, [turned])  # 0 / 0
    both = node.insert(nn.AddOp, [y, x])
    return node.finished(node.compute(nn.WhereOp, [nowhere, both, turned]))


@converts("RIGHT_SHIFT")
def right_shift(node: TFLiteNode, x: Value, count: Value) -> Value:
    """x / 2^count rounded down; counts are clamped to [0, width − 1]."""
    width = (node.tensors[0].dtype or np.dtype(np.int32)).itemsize * 8
    low, high = (Constant(np.array(n, node.tensors[0].dtype)) for n in (0, width - 1))
    inside = node.insert(nn.MinimumOp, [node.insert(nn.MaximumOp, [count, low]), high])
    return node.compute(nn.ShiftRightOp, [x, inside])


@converts("ADD_N")
def add_n(node: TFLiteNode, *inputs: Value) -> Value:
    """The sum of all inputs."""
    if not inputs or any(node.shape(x) != node.shape(inputs[0]) for x in inputs):
        raise node.error("it needs inputs of one shape", len(inputs))
    total, *others = (node.floats(x) for x in inputs)
    for x in others:
        total = node.insert(nn.AddOp, [total, x])
    return node.finished(total)


# ---------------------------------------------------------------------------------------------------------------
# One operand


@converts("NEG")
def neg(node: TFLiteNode, x: Value) -> Value:
    """−x.

    LiteRT negates the stored integers and ignores their scales. The attribute INTEGER_OPERATOR marks the operation for
    the numerics that follow LiteRT.
    """
    y = node.pointwise(nn.NegOp, [x])
    if isinstance(y, OpResult) and isinstance(y.op, nn.NegOp) and node.is_quantized(x):
        INTEGER_OPERATOR.put(y.op)
    return y


def _clamp(operator: str, low: float, high: float) -> None:
    @converts(operator)
    def convert(node: TFLiteNode, x: Value) -> Value:
        return node.pointwise(nn.ClampOp, [x], {"min": low, "max": high})


for _operator, _bounds in CLAMPS.items():
    _clamp(_operator, *_bounds)


@converts("ELU")
def elu(node: TFLiteNode, x: Value) -> Value:
    """x, or e^x − 1 where x is negative."""
    return node.pointwise(nn.EluOp, [x], {"alpha": 1.0})


@converts("SQUARE")
def square(node: TFLiteNode, x: Value) -> Value:
    """x²."""
    return node.pointwise(nn.MulOp, [x, x])


# ---------------------------------------------------------------------------------------------------------------
# Comparisons and choices


def _comparison(operator: str, op_type: type[TensorOp], exchanged: bool, negated: bool) -> None:
    @converts(operator)
    def convert(node: TFLiteNode, a: Value, b: Value) -> Value:
        operands = [node.floats(b), node.floats(a)] if exchanged else [node.floats(a), node.floats(b)]
        if not negated:
            return _of_integers(node, [a, b], node.compute(op_type, operands))
        same = node.insert(op_type, operands)
        _of_integers(node, [a, b], same)
        return node.compute(nn.NotOp, [same])


def _of_integers(node: TFLiteNode, operands: Sequence[Value], y: Value) -> Value:
    """Marks a comparison of quantized operands with INTEGER_OPERATOR: LiteRT rounds the operands before it compares."""
    if isinstance(y, OpResult) and all(map(node.is_quantized, operands)):
        INTEGER_OPERATOR.put(y.op)
    return y


for _operator, _comparing in COMPARISONS.items():
    _comparison(_operator, *_comparing)


@converts("SELECT")
def select(node: TFLiteNode, condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b; a condition of rank 1 selects along the first dimension."""
    if node.rank(condition) == 1 and node.rank(a) > 1:
        condition = node.reshaped(condition, (node.shape(condition)[0], *[1] * (node.rank(a) - 1)))
    return select_v2(node, condition, a, b)


@converts("SELECT_V2")
def select_v2(node: TFLiteNode, condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b."""
    return node.finished(node.compute(nn.WhereOp, [condition, node.floats(a), node.floats(b)]))


# ---------------------------------------------------------------------------------------------------------------
# Casts


@converts("QUANTIZE")
def quantize(node: TFLiteNode, x: Value) -> Value:
    """Quantizes floats, or requantizes a quantized tensor, to the output's type."""
    out = node.output_type()
    if out is None:
        raise node.error("its output must be quantized", str(node.tensors[0].kind).lower())
    if node.is_quantized(x):
        return node.compute(nn.RequantizeOp, [node.quantized(x)], element=out)
    if node.element(x) != "f32":
        raise UnsupportedError(f"it quantizes {node.element(x)}, and qmlir f32")
    return on_floats(node.cast(QuantizeCastOp, node.builder.ssa(x), out))


@converts("DEQUANTIZE")
def dequantize(node: TFLiteNode, x: Value) -> Value:
    """Dequantizes stored integers to f32, or widens 16-bit floats to f32."""
    type = node.type_of(x)
    if type is None:
        if node.element(x) not in ("f16", "bf16", "f32"):
            raise node.error("its input must be quantized", node.element(x))
        return node.converted(x, f32)
    return on_floats(node.cast(DequantizeCastOp, node.quantized(x), f32))


def on_floats(cast: SSAValue) -> SSAValue:
    """Marks a cast that is an operator of the model: LiteRT computes the neighbouring operators on floats."""
    if isinstance(cast, OpResult) and isinstance(cast.op, CastOp):
        ON_FLOATS.put(cast.op)
    return cast


@converts("CAST")
def cast(node: TFLiteNode, x: Value, *, in_data_type: int, out_data_type: int) -> Value:
    """Converts the elements to another type; a quantized tensor gives its stored integers."""
    dtype = node.tensors[0].dtype
    if dtype is None or node.output_type() is not None:
        raise UnsupportedError(
            "it casts to a quantized type" if dtype is not None else f"it casts to {node.tensors[0].kind}"
        )
    value = _numbers(node, x)
    # The options repeat the types of the tensors; a file in which the two differ is malformed.
    for code, own in ((out_data_type, dtype), (in_data_type, None)):
        if code not in DTYPES:
            raise UnsupportedError(f"it casts {type_name(code)}")
        if own is not None and DTYPES[code] != own and out_data_type != in_data_type:
            raise node.error(f"its options must name {own}", type_name(code))
    return node.compute(nn.CastOp, [value], element=element_type_of(dtype))


def _numbers(node: TFLiteNode, x: Value) -> SSAValue:
    """Returns the stored integers of a quantized tensor, unsigned integers as i32; `stored` would shift them."""
    value, type = node.stored(x), node.type_of(x)
    if type is None or type.is_signed:
        return value
    wide = node.insert(nn.CastOp, [value], element=i32)
    return node.insert(nn.AddOp, [wide, Constant(np.array(1 << type.storage_width - 1, np.int32))])


@converts("BITCAST")
def bitcast(node: TFLiteNode, x: Value) -> Value:
    """The same bits under another element type of the same width."""
    dtype = node.tensors[0].dtype
    if dtype is None or node.output_type() is not None or node.is_quantized(x):
        raise UnsupportedError(
            "it changes the type of quantized numbers" if dtype else f"it makes {node.tensors[0].kind}"
        )
    found, wanted = node.builder.ssa(x), element_type_of(dtype)
    if dtype_of(element_of(found)).itemsize != dtype.itemsize:
        raise UnsupportedError("it changes the number of elements")
    return node.compute(nn.BitcastOp, [found], element=wanted)


@converts("FAKE_QUANT")
def fake_quant(node: TFLiteNode, x: Value, *, min: float, max: float, num_bits: int) -> Value:
    """x rounded to the steps of an unsigned quantized type over [min, max], shifted so that 0 is a step."""
    if num_bits not in (8, 16):
        raise UnsupportedError(f"it counts in {num_bits} bits")
    if not min <= 0 <= max or min == max or not np.isfinite([min, max]).all():
        raise node.error("its range must include 0", str((min, max)))
    most = (1 << num_bits) - 1
    scale = float((np.float32(max) - np.float32(min)) / np.float32(most))
    zero = int(np.clip(np.floor(-np.float32(min) / np.float32(scale) + 0.5), 0, most))
    type = UniformType.per_tensor(IntegerType(num_bits, Signedness.UNSIGNED), scale, zero)
    stored = on_floats(node.cast(QuantizeCastOp, node.builder.ssa(x), type))
    return on_floats(node.cast(DequantizeCastOp, stored, f32))
