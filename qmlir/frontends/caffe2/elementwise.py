"""Functions of elements, arithmetic, comparisons and choices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f16, f32, i32
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.errors import UnsupportedError
from qmlir.formats.caffe2 import ARITHMETIC, COMPARISONS
from qmlir.frontends.caffe2.contraction import RELU
from qmlir.frontends.caffe2.node import Caffe2Node, Order
from qmlir.frontends.caffe2.schema import DTYPES, ELEMENTS, element_name
from qmlir.frontends.converters import AttributeGroup, Table
from qmlir.frontends.function import Constant, Floats, Value
from qmlir.frontends.quantized import UNBOUNDED
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.types import element_type_of

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Arithmetic and comparisons, whose second operand broadcasts
#
# With `broadcast`, the dimensions of the second operand are those of the first from `axis` on; without an axis, they
# are the last. Without `broadcast`, operands broadcast as numpy's do; an axis then means the same, as in Glow.


@dataclass(frozen=True)
class Places(AttributeGroup):
    """The dimensions of the first operand that those of the second are."""

    broadcast: bool = False
    axis: int = -1
    axis_str: str = ""
    order: Order = "NCHW"


def _operands(node: Caffe2Node, a: Value, b: Value, places: Places) -> list[Value]:
    """Returns two operands whose shapes broadcast as numpy's do."""
    a, b, axis = node.real(a), node.real(b), places.axis
    rank, own = node.rank(a), node.rank(b)
    if (letter := places.axis_str) != "":
        if len(letter) != 1 or letter not in places.order:
            raise node.error(f"its axis_str must be a letter of {places.order}", letter)
        axis = places.order.index(letter)
    if axis == -1 or own >= rank:
        return [a, b]
    at = node.axis(axis, rank)
    if at + own > rank:
        raise node.error(f"its axis must leave room for {own} of {rank} dimensions", str(axis))
    return [a, node.reshaped(b, (*node.shape(b), *[1] * (rank - at - own)))]


def _binary(operator: str, op_type: type[TensorOp]) -> None:
    @converts(operator)
    def convert(node: Caffe2Node, a: Value, b: Value, *, places: Places) -> Value:
        return node.compute(op_type, _operands(node, a, b, places))


for _operator, _op_type in ARITHMETIC.items():
    _binary(_operator, _op_type)


def _comparison(operator: str, op_type: type[TensorOp], exchanged: bool, negated: bool) -> None:
    @converts(operator)
    def convert(node: Caffe2Node, a: Value, b: Value, *, places: Places) -> Value:
        operands = _operands(node, a, b, places)
        ordered = operands[::-1] if exchanged else operands
        if not negated:
            return node.compute(op_type, ordered)
        return node.compute(nn.NotOp, [node.insert(op_type, ordered)])


for _operator, _comparing in COMPARISONS.items():
    _comparison(_operator, *_comparing)


@converts("Pow")
def pow_(node: Caffe2Node, a: Value, b: Value | None = None, *, exponent: float | None = None, places: Places) -> Value:
    """a to the power of b, or of the argument `exponent`."""
    if (b is None) == (exponent is None):
        raise node.error("it needs either a second input or its argument exponent", "none" if b is None else "both")
    if b is None:
        return node.compute(nn.PowOp, [node.real(a), node.number(exponent or 0.0, a)])
    return node.compute(nn.PowOp, _operands(node, a, b, places))


# ---------------------------------------------------------------------------------------------------------------
# Many operands of one shape


def _chained(node: Caffe2Node, op_type: type[TensorOp], inputs: Sequence[Value]) -> Value:
    """Combines the inputs from the first to the last."""
    if not inputs:
        raise node.error("it needs inputs", "none")
    if any(node.shape(x) != node.shape(inputs[0]) for x in inputs):
        raise node.error("its inputs must have one shape", str([list(node.shape(x)) for x in inputs][:4]))
    y = node.real(inputs[0])
    for index, x in enumerate(inputs[1:], 2):
        part = None if index == len(inputs) else f"first{index}"
        y = node.compute(op_type, [y, node.real(x)], part=part)
    return y


@converts("Sum")
def sum_(node: Caffe2Node, *inputs: Value) -> Value:
    """The sum of the inputs."""
    return _chained(node, nn.AddOp, inputs)


@converts("Max")
def max_(node: Caffe2Node, *inputs: Value) -> Value:
    """The greatest of the inputs, element by element."""
    return _chained(node, nn.MaximumOp, inputs)


@converts("Min")
def min_(node: Caffe2Node, *inputs: Value) -> Value:
    """The least of the inputs, element by element."""
    return _chained(node, nn.MinimumOp, inputs)


@converts("Mean")
def mean(node: Caffe2Node, *inputs: Value) -> Value:
    """The mean of the inputs, element by element."""
    if not inputs or any(node.shape(x) != node.shape(inputs[0]) for x in inputs):
        raise node.error("it needs inputs of one shape", str([list(node.shape(x)) for x in inputs][:4]))
    shape = node.shape(inputs[0])
    parts = [node.reshaped(node.real(x), (1, *shape)) for x in inputs]
    stacked = node.insert(nn.ConcatOp, [parts], {"axis": 0})
    return node.reshaped(node.compute(nn.ReduceMeanOp, [stacked], {"axes": [0]}), shape)


# ---------------------------------------------------------------------------------------------------------------
# Integer operators


@converts("Int8Sum", "Int8Add", "Int8SumRelu", "Int8AddRelu")
def int8_sum(node: Caffe2Node, a: Value, b: Value) -> Value:
    """The sum of two tensors of integers, rounded once; with Relu, it is at least its zero point."""
    node.require_quantized(a, b)
    node.stated_type()
    if node.shape(a) != node.shape(b):
        raise node.error("its inputs must have one shape", f"{list(node.shape(a))} and {list(node.shape(b))}")
    return node.pointwise(nn.AddOp, [a, b], bounds=RELU if node.kind.endswith("Relu") else UNBOUNDED)


@converts("Int8Relu")
def int8_relu(node: Caffe2Node, x: Value) -> Value:
    """max(x, 0); the result keeps the scale of x if the arguments state none."""
    node.require_quantized(x)
    node.stated = node.stated or node.type_of(x)
    return node.pointwise(nn.ReluOp, [x])


# ---------------------------------------------------------------------------------------------------------------
# Functions of elements


@converts("Clip")
def clip(node: Caffe2Node, x: Value, *, min: float | None = None, max: float | None = None) -> Value:
    """x limited to [min, max]."""
    if min is not None and max is not None and not min <= max:
        raise node.error("its min must not exceed its max", f"{min} and {max}")
    return node.compute(nn.ClampOp, [node.real(x)], {"min": min, "max": max})


@converts("Swish")
def swish(node: Caffe2Node, x: Value) -> Value:
    """x · sigmoid(x)."""
    return node.compute(nn.SwishOp, [node.real(x)], {"alpha": 1.0})


@converts("Sqr")
def sqr(node: Caffe2Node, x: Value) -> Value:
    """x²."""
    return node.compute(nn.MulOp, [node.real(x), x])


@converts("Cube")
def cube(node: Caffe2Node, x: Value) -> Value:
    """x³."""
    squares = node.compute(nn.MulOp, [node.real(x), x], part="square")
    return node.compute(nn.MulOp, [squares, x])


@converts("Scale")
def scale_(node: Caffe2Node, x: Value, *, scale: float = 1.0) -> Value:
    """x times a number."""
    return node.compute(nn.MulOp, [node.real(x), node.number(scale, x)])


@converts("Log1p")
def log1p(node: Caffe2Node, x: Value) -> Value:
    """The logarithm of x + 1."""
    return node.compute(nn.LogOp, [node.insert(nn.AddOp, [node.real(x), node.number(1.0, x)])])


@converts("Logit")
def logit(node: Caffe2Node, x: Value, *, eps: float = 1e-6) -> Value:
    """log(p / (1 − p)), where p is x limited to [eps, 1 − eps]."""
    if not 0 <= eps < 0.5:
        raise node.error("its eps must lie in [0, 0.5)", str(eps))
    p = node.insert(nn.ClampOp, [node.real(x)], {"min": eps, "max": 1 - eps})
    rest = node.insert(nn.SubOp, [node.number(1.0, x), p])
    return node.compute(nn.LogOp, [node.insert(nn.DivOp, [p, rest])])


@converts("PRelu")
def prelu(node: Caffe2Node, x: Value, slope: Value, *, order: Order = "NCHW") -> Value:
    """x, or slope · x where x is negative; slopes are single, or one for each channel."""
    rank = node.rank(node.real(x))
    channels = node.channel(order) if rank > 1 else 0
    if np.prod(node.shape(slope)) == 1:
        return node.compute(nn.PReluOp, [x, node.reshaped(node.real(slope), (1,) * rank)])
    shape = [1] * rank
    shape[channels] = int(np.prod(node.shape(slope)))
    if not rank or node.shape(x)[channels] != shape[channels]:
        raise node.error("it needs a slope for each channel", f"{shape[channels % max(rank, 1)]} slopes")
    return node.compute(nn.PReluOp, [x, node.reshaped(node.real(slope), shape)])


@converts("Mod")
def mod(node: Caffe2Node, x: Value, *, divisor: int, sign_follow_divisor: bool = False) -> Value:
    """The remainder of integers; its sign is that of x, or that of the divisor."""
    if divisor == 0:
        raise node.error("its divisor must not be 0", "0")
    element = node.element(x)
    if element not in ("i32", "i64"):
        raise UnsupportedError(f"it computes on {element}")
    by = Constant(np.array(divisor, np.int32 if element == "i32" else np.int64))
    return node.compute(nn.ModOp, [x, by], {"truncated": not sign_follow_divisor})


@converts("ReplaceNaN")
def replace_nan(node: Caffe2Node, x: Value, *, value: float = 0.0) -> Value:
    """x with another number in the place of NaN."""
    return node.compute(nn.WhereOp, [node.insert(nn.IsNaNOp, [node.real(x)]), node.number(value, x), x])


@converts("IsNanCheck")
def is_nan_check(node: Caffe2Node, x: Value) -> Value:
    """Whether a number is NaN."""
    return node.compute(nn.IsNaNOp, [node.real(x)])


@converts("Where", "Conditional")
def where(node: Caffe2Node, condition: Value, a: Value, b: Value, *, broadcast_on_rows: bool = False) -> Value:
    """a where the condition holds, else b; a vector of conditions may choose whole rows."""
    rows = broadcast_on_rows or node.kind == "Conditional"
    if rows and node.rank(condition) == 1 and node.rank(a) > 1:
        condition = node.reshaped(condition, (*node.shape(condition), *[1] * (node.rank(a) - 1)))
    return node.compute(nn.WhereOp, [condition, node.real(a), node.real(b)])


@converts("Bucketize")
def bucketize(node: Caffe2Node, x: Value, *, boundaries: Floats) -> Value:
    """For each number, how many boundaries are less than it, as int32."""
    if not boundaries or list(boundaries) != sorted(boundaries):
        raise node.error("its boundaries must ascend", str(list(boundaries))[:80])
    shape = node.shape(node.real(x))
    node.room((*shape, len(boundaries)))
    limits = Constant(np.array(boundaries, np.float32))
    above = node.insert(nn.LessOp, [limits, node.reshaped(x, (*shape, 1))])
    counts = node.converted(above, i32)
    return node.reshaped(node.compute(nn.ReduceSumOp, [counts], {"axes": [len(shape)]}), shape)


@converts("ElementwiseLinear")
def elementwise_linear(node: Caffe2Node, x: Value, w: Value, b: Value, *, axis: int = 1) -> Value:
    """x · w + b, where w and b are vectors along an axis."""
    rank = node.rank(node.real(x))
    at = node.axis(axis, rank)
    behind = rank - at - 1
    if node.rank(w) != 1 or node.rank(b) != 1:
        raise node.error("its factors and summands must be vectors", f"{node.shape(w)} and {node.shape(b)}")
    factors, summands = (node.reshaped(node.real(v), (*node.shape(v), *[1] * behind)) for v in (w, b))
    return node.compute(nn.AddOp, [node.compute(nn.MulOp, [x, factors], part="scaled"), summands])


LEAST = 1e-6
"""The least number whose power or logarithm BatchBoxCox takes."""


@converts("BatchBoxCox")
def batch_box_cox(node: Caffe2Node, x: Value, lambda1: Value, lambda2: Value) -> Value:
    """(max(x + λ2, 1e−6)^λ1 − 1) / λ1 for each column of x, and the logarithm where λ1 is 0."""
    if node.rank(node.real(x)) != 2:
        raise node.error("its data must be a matrix", node.shape(x))
    moved = node.insert(nn.AddOp, [x, node.real(lambda2)])
    base = node.insert(nn.ClampOp, [moved], {"min": LEAST})
    zero, one = node.number(0.0, x), node.number(1.0, x)
    none = node.insert(nn.EqualOp, [node.real(lambda1), zero])
    divisor = node.insert(nn.WhereOp, [none, one, lambda1])
    powers = node.insert(nn.DivOp, [node.insert(nn.SubOp, [node.insert(nn.PowOp, [base, divisor]), one]), divisor])
    return node.compute(nn.WhereOp, [none, node.insert(nn.LogOp, [base]), powers])


# ---------------------------------------------------------------------------------------------------------------
# Element types


@converts("Cast")
def cast(node: Caffe2Node, x: Value, *, to: Any, from_type: Any = None) -> Value:
    """The numbers in another element type, by its number or its name."""
    number = to
    if isinstance(to, bytes):
        name = to.decode(errors="replace").upper()
        number = ELEMENTS.get(name, (-1, ""))[0]
    if not isinstance(number, int) or number not in DTYPES:
        raise UnsupportedError(f"it casts to {element_name(number) if isinstance(number, int) else 'no known type'}")
    return _converted(node, node.real(x), element_type_of(DTYPES[number]))


@converts("HalfToFloat")
def half_to_float(node: Caffe2Node, x: Value) -> Value:
    """float16 as float32."""
    return _converted(node, node.real(x), f32)


@converts("FloatToHalf")
def float_to_half(node: Caffe2Node, x: Value) -> Value:
    """float32 as float16."""
    return _converted(node, node.real(x), f16)


def _converted(node: Caffe2Node, x: Value, element: Any) -> Value:
    value: SSAValue = node.builder.ssa(x)
    return value if node.element(value) == str(element) else node.compute(nn.CastOp, [value], element=element)


# ---------------------------------------------------------------------------------------------------------------
# Operators between floats and integers.


@converts("Int8Quantize")
def int8_quantize(node: Caffe2Node, x: Value) -> Value:
    """Quantizes floats to the scale and the zero point of the arguments; halves round to even, ends saturate."""
    node.stated_type()
    if node.is_quantized(x):
        raise node.error("its input must be floats", str(node.type_of(x)))
    if node.element(x) != "f32":
        raise UnsupportedError(f"it quantizes {node.element(x)}, and qmlir f32")
    return node.finished(x)


@converts("Int8Dequantize")
def int8_dequantize(node: Caffe2Node, x: Value) -> Value:
    """The real numbers that integers stand for."""
    node.require_quantized(x)
    return node.cast(DequantizeCastOp, node.quantized(x), f32)
