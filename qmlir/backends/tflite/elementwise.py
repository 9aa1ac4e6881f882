"""Forms of operations on single elements: arithmetic, comparisons, logic, activations, elementary functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms, argument_bounds, constant, fused_bounds
from qmlir.backends.tflite.clamps import Bounds, activated, stored_bounds
from qmlir.backends.tflite.graph import BOOL, INDEX, Graph, Options, Tensor
from qmlir.backends.tflite.kernels import KERNELS, takes
from qmlir.backends.tflite.values import INT8, MOVED, UINT8, Values, declared
from qmlir.dialects import nn
from qmlir.dialects.nn.bitwise import ShiftOp
from qmlir.dialects.nn.elementwise import ComparisonOp, FunctionOp, OperandPairOp, UnaryOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import CLAMPS, COMPARISONS, WRITTEN, camel_case
from qmlir.ir.facts import INTEGER_OPERATOR, ON_FLOATS
from qmlir.ir.interfaces import Array, TensorOp, element_of, shape_of
from qmlir.numerics import tables
from qmlir.policies.runtime_kernels import compared_storage, lacking

exports: Forms[Values] = Forms()

# ---------------------------------------------------------------------------------------------------------------
# Lookup tables for functions of quantized bytes that have no integer kernel in LiteRT.


BYTES = (INT8, UINT8)


def tabled(op: Operation, values: Values) -> bool:
    """Writes an operation as GATHER from a table of its 256 rounded results; returns False if a table does not fit.

    A table fits a function from quantized bytes to quantized bytes for which LiteRT has no integer kernel. If LiteRT
    has a kernel, its results may differ from the table's exact results. If the source model computes the function on
    floats (ON_FLOATS), the table does not fit either.
    """
    if not isinstance(op, FunctionOp) or ON_FLOATS.on(op):
        return False
    forms = values.form(op.x), values.form(op.y)
    if any(form.parameters is None or form.dtype not in BYTES for form in forms):
        return False
    if not lacking(op, "litert-reference", signed=values.moves):
        return False
    results = values.graph.constant(_results(op, values), forms[1].parameters)
    found = values.graph.operator("GATHER", [results, _places(values.stored(op.x), values)], forms[1], {"Axis": 0})
    values.hold(op.y, found)
    return True


def _results(op: FunctionOp, values: Values) -> Array:
    """Returns the stored result for each byte in ascending order, [256]."""
    data, result = uniform(op.x), uniform(op.y)
    limits = np.iinfo(data.numpy_dtype)
    found = tables.lookup_table(
        op.scalar,
        data.scale,
        data.zero_point,
        result.scale,
        result.zero_point,
        in_range=(int(limits.min), int(limits.max)),
        out_range=(result.storage_min, result.storage_max),
        dtype=result.numpy_dtype,
    )
    return (found.astype(np.int16) - MOVED).astype(INT8) if values.is_moved(declared(op.y)) else found


def _places(x: Tensor, values: Values) -> Tensor:
    """Returns the table index of each stored byte."""
    graph, places = values.graph, values.graph.converted(x, INDEX)
    least = int(np.iinfo(x.dtype).min)
    return graph.pointwise("ADD", places, graph.number(-least, places)) if least else places


# ---------------------------------------------------------------------------------------------------------------
# Helpers for forms of elementwise operations: one operator, a lookup table of bytes, or several float operators.


REFUSING = ("SQRT", "RSQRT")
"""Operators that LiteRT refuses to run if a stored integer represents a number below 0; other operators run anyway."""


def one(kind: str, op: Operation, values: Values, options: Options | None = None) -> None:
    """Writes an operation as one operator, or as a lookup table if LiteRT has no kernel for its bytes.

    The operator works on stored integers if there is a kernel for them, else on floats.
    """
    if values.has_integers(kind, op, op.operands):
        inputs = [values.stored(o) for o in op.operands]
        if kind in REFUSING:
            inputs = [within_domain(x, o, op, values) for x, o in zip(inputs, op.operands, strict=True)]
        values.finish(op, kind, inputs, options)
    elif not tabled(op, values):
        reals = [within_domain(values.real(o), o, op, values) for o in op.operands]
        values.finish(op, kind, reals, options)


def within_domain(x: Tensor, operand: SSAValue, op: Operation, values: Values) -> Tensor:
    """Clamps the argument of a function to the function's domain if the operand's storage range reaches beyond it.

    Args:
        x: The tensor of the operand's stored integers or real numbers.
        operand: The operand.
        op: The function.
        values: The values of the function.
    """
    bounds = argument_bounds(op, operand)
    return x if bounds == (None, None) else values.bounded(x, stored_bounds(element_of(operand), x.form, bounds))


def as_operator(op: TensorOp, values: Values) -> None:
    """Writes an operation as the operator of its row in formats/tflite.py."""
    operator = WRITTEN[type(op)]
    options = operator.attributes.items()
    given = {camel_case(n): type(default)(getattr(op, own).value.data) for n, (own, default) in options}
    # The flag, which the schema sets by default, demands scales of 16-bit data that are powers of two.
    any_scale = {"PotScaleInt16": False} if operator.kind in ("ADD", "SUB") else {}
    one(operator.kind, op, values, {**any_scale, **given})


def several(op: Operation, values: Values, form: Callable[..., Tensor], *more: Any) -> None:
    """Writes an operation as a lookup table if it maps bytes, else as the float operators that `form` adds.

    `form` gets the graph, the real values of the operands, and `more`. The operation's fused clamp follows it.
    """
    if tabled(op, values):
        return
    y = form(values.graph, *(values.real(o) for o in op.operands), *more)
    values.define(op.results[0], values.bounded(y, fused_bounds(op)))


# ---------------------------------------------------------------------------------------------------------------
# Forms of elementwise arithmetic on two operands.


@exports(nn.DivOp)
def div(op: nn.DivOp, values: Values) -> None:
    """Writes DIV; the divisors of integers must be constants other than 0."""
    _without_zeros(op, values)
    one("DIV", op, values)


@exports(nn.ModOp)
def mod(op: nn.ModOp, values: Values) -> None:
    """Writes FLOOR_MOD; the divisors of integers must be constants other than 0."""
    if bool(op.truncated):
        raise UnsupportedError("must have the divisor's sign", "the dividend's", "give it the other sign")
    _without_zeros(op, values)
    one("FLOOR_MOD", op, values)


def _without_zeros(op: OperandPairOp, values: Values) -> None:
    divisors, form = constant(op.rhs), values.form(op.rhs)
    if form.parameters is None and form.dtype.kind in "iu" and (divisors is None or not divisors.all()):
        raise UnsupportedError(
            "needs divisors that are constant and not 0", "others", "make the divisors a constant without 0"
        )


@exports(nn.PowOp)
def pow(op: nn.PowOp, values: Values) -> None:
    """Writes POW; the exponents of integers must be constants that are not negative."""
    exponents, form = constant(op.rhs), values.form(op.rhs)
    if form.parameters is None and form.dtype.kind in "iu" and (exponents is None or (exponents < 0).any()):
        raise UnsupportedError(
            "needs exponents that are constant and not negative",
            "others",
            "make the exponents a constant of 0 and more",
        )
    one("POW", op, values)


@exports(nn.PReluOp)
def prelu(op: nn.PReluOp, values: Values) -> None:
    """Writes PRELU if only the slopes broadcast, else a comparison and a selection."""
    if shape_of(op.lhs) == shape_of(op.y):
        one("PRELU", op, values)
    else:
        several(op, values, _choice)


def _choice(graph: Graph, x: Tensor, slope: Tensor) -> Tensor:
    negative = graph.pointwise("LESS", x, graph.constant(np.zeros((), x.dtype)), dtype=BOOL)
    return graph.pointwise("SELECT_V2", negative, graph.pointwise("MUL", x, slope), x)


# ---------------------------------------------------------------------------------------------------------------
# Forms of comparisons, and of the selection between two tensors by a condition.


_COMPARED = {op: kind for kind, (op, *others) in COMPARISONS.items() if not any(others)}
"""Operation → TFLite's operator."""


@exports(*_COMPARED)
def compare(op: ComparisonOp, values: Values) -> None:
    """Writes one operator, on stored integers if LiteRT's numerics compare stored integers."""
    values.compute(op, _COMPARED[type(op)], compared_storage(op, "litert-reference") or op.operands)


@exports(nn.IsNaNOp)
def is_nan(op: nn.IsNaNOp, values: Values) -> None:
    """Writes x != x, which holds for NaN only."""
    x = values.real(op.x)
    values.hold(op.y, values.graph.pointwise("NOT_EQUAL", x, x, dtype=BOOL))


@exports(nn.IsInfOp)
def is_inf(op: nn.IsInfOp, values: Values) -> None:
    """Writes x == ±infinity; for both signs, |x| == infinity."""
    graph, x = values.graph, values.real(op.x)
    if values.form(op.x).parameters is not None:  # integers stand for finite numbers
        values.hold(op.y, graph.pointwise("NOT_EQUAL", x, x, dtype=BOOL))
        return
    if bool(op.positive) and bool(op.negative):
        x = graph.pointwise("ABS", x)
    infinity = np.inf if bool(op.positive) else -np.inf
    values.hold(op.y, graph.pointwise("EQUAL", x, graph.number(infinity, x), dtype=BOOL))


# ---------------------------------------------------------------------------------------------------------------
# Forms of logical operations on i1 and of bitwise operations on integers.


@exports(nn.XorOp)
def xor(op: nn.XorOp, values: Values) -> None:
    """Writes BITWISE_XOR on integers, NOT_EQUAL on i1."""
    if values.form(op.y).dtype == BOOL:
        one("NOT_EQUAL", op, values)
    else:
        one("BITWISE_XOR", op, values)


@exports(nn.NotOp)
def invert(op: nn.NotOp, values: Values) -> None:
    """Writes LOGICAL_NOT on i1, BITWISE_XOR with all bits set on integers."""
    x = values.stored(op.x)
    if x.dtype == BOOL:
        one("LOGICAL_NOT", op, values)
        return
    bits = values.graph.constant(np.invert(np.zeros((), x.dtype)))
    values.hold(op.y, values.graph.pointwise("BITWISE_XOR", x, bits))


@exports(nn.ShiftLeftOp, nn.ShiftRightOp)
def shift(op: ShiftOp, values: Values) -> None:
    """Raises UnsupportedError: TFLite's only shift, RIGHT_SHIFT, does not define counts beyond the width."""
    raise UnsupportedError("must be an operation that TFLite has", op.name, "multiply or divide by a power of two")


# ---------------------------------------------------------------------------------------------------------------
# Forms of elementary functions.


def _reciprocal(graph: Graph, x: Tensor) -> Tensor:
    return graph.pointwise("DIV", graph.number(1, x), x)


def _tan(graph: Graph, x: Tensor) -> Tensor:
    return graph.pointwise("DIV", graph.pointwise("SIN", x), graph.pointwise("COS", x))


# ---------------------------------------------------------------------------------------------------------------
# Forms of activations, clamps and requantization, as one TFLite operator or as several.


_CLAMPS: dict[Bounds, str] = {
    **{bounds: kind for kind, bounds in CLAMPS.items() if kind in KERNELS},
    (0.0, None): "RELU",
}
"""Bounds of a clamp → TFLite's operator, of which LiteRT has a kernel."""


@exports(nn.EluOp)
def elu(op: nn.EluOp, values: Values) -> None:
    """Writes ELU if alpha is 1, which TFLite's operator implies, else several operators."""
    if op.alpha.value.data == 1:
        one("ELU", op, values)
    else:
        several(op, values, _elu, op.alpha.value.data)


@exports(nn.ReluOp)
def relu(op: nn.ReluOp, values: Values) -> None:
    """Writes RELU; types without a RELU kernel get MAXIMUM with 0, unsigned integers no operator."""
    x = values.stored(op.x)
    if takes("RELU", x.dtype, x.form.parameters is not None):
        one("RELU", op, values)
    elif op.unsigned:
        values.hold(op.y, x)
    else:
        values.hold(op.y, values.graph.pointwise("MAXIMUM", x, values.graph.number(0, x)))


@exports(nn.ClampOp)
def clamp(op: nn.ClampOp, values: Values) -> None:
    """Writes one of TFLite's clamps if it yields the same integers, else a change of scale, MAXIMUM and MINIMUM."""
    if ON_FLOATS.on(op):
        values.define(op.y, values.bounded(values.real(op.x), op.bounds()))
        return
    x, form, bounds = values.stored(op.x), values.form(op.y), op.bounds()
    kind = _CLAMPS.get(bounds)
    exact = activated(form, bounds) == stored_bounds(element_of(op.y), form, bounds)
    if kind is not None and exact and takes(kind, x.dtype, x.form.parameters is not None):
        values.hold(op.y, values.graph.operator(kind, [x], form))
    else:
        values.define(op.y, x, bounds)


@exports(nn.RequantizeOp)
def requantize(op: nn.RequantizeOp, values: Values) -> None:
    """Writes QUANTIZE, or a CONCATENATION for a part of an imported concatenation: the two round differently."""
    form = values.form(op.y)
    if INTEGER_OPERATOR.on(op) and form.dtype == values.form(op.x).dtype != INT8:
        values.hold(op.y, values.graph.operator("CONCATENATION", [values.stored(op.x)], form, {"Axis": 0}))
        return
    values.define(op.y, values.real(op.x) if ON_FLOATS.on(op) else values.stored(op.x))


# ---------------------------------------------------------------------------------------------------------------
# Several operators on floats


def _elu(graph: Graph, x: Tensor, alpha: float) -> Tensor:
    """Returns max(x, 0) + alpha · elu(min(x, 0))."""
    below = graph.pointwise("ELU", graph.pointwise("MINIMUM", x, graph.number(0, x)))
    scaled = graph.pointwise("MUL", below, graph.number(alpha, x))
    return graph.pointwise("ADD", graph.pointwise("RELU", x), scaled)


@exports(nn.SeluOp)
def selu(op: nn.SeluOp, values: Values) -> None:
    """Writes gamma · (max(x, 0) + alpha · elu(min(x, 0)))."""

    def form(graph: Graph, x: Tensor) -> Tensor:
        return graph.pointwise("MUL", _elu(graph, x, op.alpha.value.data), graph.number(op.gamma.value.data, x))

    several(op, values, form)


@exports(nn.CeluOp)
def celu(op: nn.CeluOp, values: Values) -> None:
    """Writes max(x, 0) + alpha · elu(min(x, 0) / alpha)."""
    alpha = op.alpha.value.data

    def form(graph: Graph, x: Tensor) -> Tensor:
        scaled = graph.pointwise("MUL", x, graph.number(1 / alpha, x))
        below = graph.pointwise("ELU", graph.pointwise("MINIMUM", scaled, graph.number(0, x)))
        return graph.pointwise("ADD", graph.pointwise("RELU", x), graph.pointwise("MUL", below, graph.number(alpha, x)))

    several(op, values, form)


@exports(nn.HardSigmoidOp)
def hard_sigmoid(op: nn.HardSigmoidOp, values: Values) -> None:
    """Writes max(0, min(1, alpha · x + beta))."""

    def form(graph: Graph, x: Tensor) -> Tensor:
        scaled = graph.pointwise("MUL", x, graph.number(op.alpha.value.data, x))
        shifted = graph.pointwise("ADD", scaled, graph.number(op.beta.value.data, x))
        return graph.pointwise("RELU", graph.pointwise("MINIMUM", shifted, graph.number(1, x)))

    several(op, values, form)


@exports(nn.SwishOp)
def swish(op: nn.SwishOp, values: Values) -> None:
    """Writes x · sigmoid(alpha · x)."""

    def form(graph: Graph, x: Tensor) -> Tensor:
        scaled = graph.pointwise("MUL", x, graph.number(op.alpha.value.data, x))
        return graph.pointwise("MUL", x, graph.pointwise("LOGISTIC", scaled))

    several(op, values, form)


def _softplus(graph: Graph, x: Tensor) -> Tensor:
    """Returns max(x, 0) + log(1 + e^−|x|)."""
    rest = graph.pointwise("EXP", graph.pointwise("NEG", graph.pointwise("ABS", x)))
    logarithm = graph.pointwise("LOG", graph.pointwise("ADD", rest, graph.number(1, x)))
    return graph.pointwise("ADD", graph.pointwise("RELU", x), logarithm)


def _softsign(graph: Graph, x: Tensor) -> Tensor:
    """Returns x / (1 + |x|)."""
    return graph.pointwise("DIV", x, graph.pointwise("ADD", graph.pointwise("ABS", x), graph.number(1, x)))


def _mish(graph: Graph, x: Tensor) -> Tensor:
    """Returns x · tanh(log(1 + e^x))."""
    return graph.pointwise("MUL", x, graph.pointwise("TANH", _softplus(graph, x)))


COMPOSED: dict[type[UnaryOp], Callable[[Graph, Tensor], Tensor]] = {
    nn.ReciprocalOp: _reciprocal,
    nn.TanOp: _tan,
    nn.SoftplusOp: _softplus,
    nn.SoftsignOp: _softsign,
    nn.MishOp: _mish,
}
"""Operation → the function that adds its operators."""


@exports(*COMPOSED)
def composed(op: UnaryOp, values: Values) -> None:
    """Writes the operation as several operators."""
    several(op, values, COMPOSED[type(op)])


@exports(nn.ThresholdedReluOp)
def thresholded_relu(op: nn.ThresholdedReluOp, values: Values) -> None:
    """Writes x where x is above alpha, else 0."""

    def form(graph: Graph, x: Tensor) -> Tensor:
        above = graph.pointwise("LESS", graph.number(op.alpha.value.data, x), x, dtype=BOOL)
        return graph.pointwise("SELECT_V2", above, x, graph.number(0, x))

    several(op, values, form)


@exports(nn.ShrinkOp)
def shrink(op: nn.ShrinkOp, values: Values) -> None:
    """Writes x − bias above the threshold, x + bias below its negative, and 0 between."""
    bias, threshold = op.bias.value.data, op.threshold.value.data

    def form(graph: Graph, x: Tensor) -> Tensor:
        above = graph.pointwise("LESS", graph.number(threshold, x), x, dtype=BOOL)
        below = graph.pointwise("LESS", x, graph.number(-threshold, x), dtype=BOOL)
        lowered = graph.pointwise("SUB", x, graph.number(bias, x))
        raised = graph.pointwise("ADD", x, graph.number(bias, x))
        high = graph.pointwise("SELECT_V2", above, lowered, graph.number(0, x))
        return graph.pointwise("SELECT_V2", below, raised, high)

    several(op, values, form)


@exports(*(op for op in nn.functions.FUNCTIONS if op not in exports.entries and op not in WRITTEN))
def missing(op: UnaryOp, values: Values) -> None:
    """Writes a function that TFLite lacks as a lookup table; raises UnsupportedError unless it maps bytes to bytes."""
    if not tabled(op, values):
        raise UnsupportedError(
            "must be a function that TFLite has", op.name, "quantize it to bytes, or rewrite the model"
        )
