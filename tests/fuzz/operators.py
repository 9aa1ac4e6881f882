"""How a node of each ONNX operator is drawn: single elements, reductions, normalizations, comparisons.

`TABLE` holds all operators; movement.py and contractions.py add theirs.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from onnx import helper

from tests.fuzz.drawing import Drawing

Draws = Callable[[Drawing], None]

TABLE: dict[str, Draws] = {}
"""Operator → the function that adds a node of it to a network."""


def draws(*operators: str) -> Callable[[Callable[[Drawing, str], None]], Callable[[Drawing, str], None]]:
    """Enters a function for operators; it is told which."""

    def register(function: Callable[[Drawing, str], None]) -> Callable[[Drawing, str], None]:
        for operator in operators:
            TABLE[operator] = partial(_of, function, operator)
        return function

    return register


def _of(function: Callable[[Drawing, str], None], operator: str, d: Drawing) -> None:
    function(d, operator)


# -- single elements ---------------------------------------------------------------------------------------------


@draws(
    *("Abs", "Asinh", "Atan", "Ceil", "Cos", "Erf", "Floor", "HardSwish", "Identity", "Mish", "Neg", "Relu", "Round"),
    *("Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Tanh"),
)
def _function(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick())


_DOMAINS = {
    "Acos": (-1.0, 1.0), "Asin": (-1.0, 1.0), "Acosh": (1.0, 20.0), "Atanh": (-0.95, 0.95), "Log": (0.01, 50.0),
    "Sqrt": (0.0, 1e3), "Reciprocal": (0.2, 50.0), "Exp": (-20.0, 6.0), "Cosh": (-6.0, 6.0), "Sinh": (-6.0, 6.0),
    "Tan": (-1.3, 1.3),
}  # fmt: skip
"""Operator → where its results stay of moderate size."""


@draws(*_DOMAINS)
def _function_of_some(d: Drawing, operator: str) -> None:
    d.add(operator, within(d, d.pick(), *_DOMAINS[operator]))


def within(d: Drawing, x: str, low: float, high: float) -> str:
    """A tensor with values between two: the given one, or what an absolute value and a clamp make of it."""
    least, most = d.range_of(x)
    if low <= least and most <= high:
        return x
    if low >= 0 and least < low:
        x = d.add("Add", d.add("Abs", x)[0], d.constant(np.array(max(low, 0.05))))[0]
    if d.range_of(x)[1] > high or d.range_of(x)[0] < low:
        x = d.add("Clip", x, d.constant(np.array(low)), d.constant(np.array(high)))[0]
    return x


@draws("Elu", "LeakyRelu", "ThresholdedRelu", "Celu")
def _with_alpha(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(), alpha=d.choice([None, 0.1, 0.5, 1.0, 1.7]))


@draws("Swish")
def _swish(d: Drawing, operator: str) -> None:
    d.since(24)
    d.add(operator, d.pick(), alpha=d.choice([None, 0.5, 1.7]))


@draws("SwiGLU")
def _gated(d: Drawing, operator: str) -> None:
    d.since(28)
    x = d.pick()
    other = d.pick(fits=lambda s: s == d.shape_of(x)) if d.chance(0.5) else d.constant(d.floats(d.shape_of(x)))
    d.add(operator, x, other, alpha=d.choice([None, 0.5, 1.7]))


@draws("HardSigmoid")
def _hard_sigmoid(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(), alpha=d.choice([None, 0.2, 1 / 6]), beta=d.choice([None, 0.4]))


@draws("Selu")
def _selu(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(), alpha=d.choice([None, 1.2]), gamma=d.choice([None, 0.9]))


@draws("Shrink")
def _shrink(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(), bias=d.choice([None, 0.2]), lambd=d.choice([None, 0.3]))


@draws("ai.onnx.ml.Binarizer")
def _binarizer(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(), threshold=d.choice([None, 0.3, -0.2]))


@draws("Gelu")
def _gelu(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(), approximate=d.choice([None, "tanh"]))


@draws("Clip")
def _clip(d: Drawing, operator: str) -> None:
    low, high = d.choice([(0.0, 6.0), (-1.0, 1.0), (0.3, 0.7), (0.0, None), (None, 1.5), (-0.5, -0.1), (None, None)])
    bounds = ["" if b is None else d.constant(np.array(b)) for b in (low, high)]
    d.add(operator, d.pick(), *bounds)


@draws("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum")
def _binary(d: Drawing, operator: str) -> None:
    x = d.pick()
    others = [d.like(x) for _ in range(1 if operator in ("Add", "Sub", "Mul") else d.integer(0, 2))]
    d.add(operator, *((x, *others) if d.chance(0.75) else (*others, x)))


@draws("Div")
def _division(d: Drawing, operator: str) -> None:
    x = d.pick()
    signs = np.sign(d.rng.normal(size=d.shape_of(x)[-1:]))
    divisor = d.constant(signs * d.rng.uniform(0.3, 3)) if d.chance(0.5) else within(d, d.like(x), 0.2, 50.0)
    d.add(operator, x, divisor)


@draws("Pow")
def _power(d: Drawing, operator: str) -> None:
    if d.chance(0.5):
        d.add(operator, d.pick(), d.constant(np.array(d.choice([2.0, 3.0, 1.0, 0.0]))))
    else:
        x = within(d, d.pick(), 0.05, 9.0)
        d.add(
            operator,
            x,
            d.constant(np.array(d.choice([0.5, -0.5, 1.7]))) if d.chance(0.6) else within(d, d.like(x), -2, 2),
        )


@draws("PRelu")
def _prelu(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    shape = d.shape_of(x)
    slope = [d.choice([1, s]) for s in shape]
    d.add(operator, x, d.constant(d.floats(slope[d.integer(0, len(shape) - 1) :], 0.3)))


@draws("Mod")
def _mod(d: Drawing, operator: str) -> None:
    x = d.pick()
    d.add(operator, x, d.constant(np.array(d.choice([0.7, 2.0, -1.5]))), fmod=1)


@draws("Dropout")
def _dropout(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(), outputs=d.integer(1, 2))


@draws("Cast")
def _cast(d: Drawing, operator: str) -> None:
    """Of floats only those that the integers hold: ONNX leaves open what becomes of others."""
    x = d.choice(d.computed)
    to = d.choice([1, 1, 1, 6, 7, 9, 10, 11, 2, 3])
    y = d.add(operator, held(d, x, helper.tensor_dtype_to_np_dtype(to)), to=to)[0]
    if d.chance(0.6) and d.value(y).dtype != d.float:
        d.add(operator, y, to=1 if d.float == np.float32 else 10)


def held(d: Drawing, x: str, dtype: np.dtype[Any]) -> str:
    """A tensor that can become one of a type: floats for integers are between these, most often the given ones."""
    if d.value(x).dtype.kind != "f" or dtype.kind not in "iu":
        return x
    limits = np.iinfo(dtype)
    low, high = max(float(limits.min), -1e6), min(float(limits.max), 1e6)
    return within(d, x if d.value(x).dtype == d.float else d.pick(), low, high)


@draws("BitCast")
def _bit_cast(d: Drawing, operator: str) -> None:
    """Bits of integers as other integers; as floats most are no numbers of moderate size."""
    d.since(26)
    x = whole(d, d.choice([6, 12, 2, 7]))
    to = {"int32": 12, "uint32": 6, "uint8": 3, "int64": 13}[d.value(x).dtype.name]
    back(d, d.add(operator, x, to=to)[0])


@draws("CastLike")
def _cast_like(d: Drawing, operator: str) -> None:
    x, like = d.choice(d.computed), d.choice(d.computed)
    d.add(operator, held(d, x, d.value(like).dtype), like)


# -- truth values and integers ------------------------------------------------------------------------------------


def back(d: Drawing, x: str) -> None:
    """Brings what is not of the network's floats back to them, most often."""
    if d.value(x).dtype != d.float and d.chance(0.7):
        d.add("Cast", x, to=1 if d.float == np.float32 else 10)


@draws("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def _comparison(d: Drawing, operator: str) -> None:
    x = d.pick()
    back(d, d.add(operator, x, d.like(x))[0])


@draws("And", "Or", "Xor")
def _logic(d: Drawing, operator: str) -> None:
    x = truth(d)
    back(d, d.add(operator, x, d.like(x))[0])


@draws("Not")
def _not(d: Drawing, operator: str) -> None:
    back(d, d.add(operator, truth(d))[0])


def truth(d: Drawing) -> str:
    """A tensor of truth values."""
    known = [n for n in d.computed if d.value(n).dtype == np.bool_]
    if known and d.chance(0.6):
        return d.choice(known)
    x = d.pick()
    return d.add(d.choice(["Less", "GreaterOrEqual"]), x, d.like(x))[0]


@draws("IsInf", "IsNaN")
def _is(d: Drawing, operator: str) -> None:
    back(d, d.add(operator, d.pick())[0])


def whole(d: Drawing, code: int = 6) -> str:
    """A tensor of integers."""
    kind = {6: np.int32, 7: np.int64, 12: np.uint32, 2: np.uint8}[code]
    known = [n for n in d.computed if d.value(n).dtype == kind]
    if known and d.chance(0.6):
        return d.choice(known)
    return d.add("Cast", within(d, d.pick(), 0.0, 100.0), to=code)[0]


@draws("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def _bitwise(d: Drawing, operator: str) -> None:
    x = whole(d)
    back(d, d.add(operator, x, d.like(x))[0])


@draws("BitwiseNot")
def _bitwise_not(d: Drawing, operator: str) -> None:
    back(d, d.add(operator, whole(d))[0])


@draws("BitShift")
def _shift(d: Drawing, operator: str) -> None:
    x = whole(d, d.choice([12, 2]))
    back(d, d.add(operator, x, d.like(x), direction=d.choice(["LEFT", "RIGHT"]))[0])


@draws("Where")
def _where(d: Drawing, operator: str) -> None:
    x = d.pick()
    condition = d.add("Less", x, d.like(x))[0] if d.chance(0.7) else d.constant(d.rng.random(d.shape_of(x)[-1:]) < 0.5)
    d.add(operator, condition, x, d.like(x))


# -- reductions ----------------------------------------------------------------------------------------------------

REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "ReduceSumSquare"),
)


@draws(*REDUCTIONS)
def _reduction(d: Drawing, operator: str) -> None:
    # ONNX leaves the mean of no element undefined: NaN here, 0 in onnxruntime. Other reductions have values for that.
    x = d.pick(fits=all if operator == "ReduceMean" else None)
    if operator == "ReduceLogSum":
        x = within(d, x, 0.05, 50.0)
    rank = len(d.shape_of(x))
    axes = sorted({d.integer(0, rank - 1) for _ in range(d.integer(1, 3))}) if rank else []
    axes = [a - rank if d.chance(0.4) else a for a in axes]
    listed = bool(axes) and d.chance(0.9)
    if d.opset >= 18 or operator == "ReduceSum":
        operands = [d.integers(*axes)] if listed else []
        empty = d.choice([None, None, 1]) if not listed else None
        d.add(operator, x, *operands, keepdims=d.choice([None, 0, 1]), noop_with_empty_axes=empty)
    else:
        d.add(operator, x, axes=axes if listed else None, keepdims=d.choice([None, 0, 1]))


@draws("ArgMax", "ArgMin")
def _extreme(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    axis = d.integer(-len(d.shape_of(x)), len(d.shape_of(x)) - 1)
    y = d.add(operator, x, axis=axis, keepdims=d.choice([None, 0, 1]), select_last_index=d.choice([None, 1]))[0]
    back(d, y)


@draws("TopK")
def _top_k(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: all(s))
    axis = d.integer(0, len(d.shape_of(x)) - 1)
    k = d.integers(d.integer(1, d.shape_of(x)[axis]))
    _, places = d.add(operator, x, k, outputs=2, axis=axis, largest=d.choice([0, 1]), sorted=1)
    back(d, places)


@draws("CumSum", "CumProd")
def _cumulative(d: Drawing, operator: str) -> None:
    if operator == "CumProd":
        d.since(26)
    x = d.pick(1)
    axis = d.constant(np.array(d.integer(-len(d.shape_of(x)), len(d.shape_of(x)) - 1), np.int64))
    d.add(operator, x, axis, exclusive=d.choice([None, 1]), reverse=d.choice([None, 1]))


# -- normalizations -----------------------------------------------------------------------------------------------


@draws("Softmax", "LogSoftmax", "Hardmax")
def _softmax(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: all(s))
    rank = len(d.shape_of(x))
    d.add(operator, x, axis=d.choice([None, d.integer(-rank, rank - 1)]))


@draws("BatchNormalization")
def _batch_norm(d: Drawing, operator: str) -> None:
    x = d.pick(2)
    c = d.shape_of(x)[1]
    variance = d.constant(d.rng.uniform(0.2, 2, c))
    d.add(operator, x, *(d.constant(d.floats((c,))) for _ in range(3)), variance, epsilon=d.choice([None, 1e-3]))


@draws("InstanceNormalization")
def _instance_norm(d: Drawing, operator: str) -> None:
    x = d.pick(3, fits=lambda s: all(s) and int(np.prod(s[2:])) > 1)
    c = d.shape_of(x)[1]
    d.add(operator, x, d.constant(d.floats((c,))), d.constant(d.floats((c,))))


@draws("GroupNormalization")
def _group_norm(d: Drawing, operator: str) -> None:
    x = d.pick(3, fits=lambda s: all(s) and int(np.prod(s[2:])) > 1)
    c = d.shape_of(x)[1]
    groups = d.choice([g for g in range(1, c + 1) if c % g == 0])
    n = c if d.opset >= 21 else groups
    d.add(operator, x, d.constant(d.floats((n,))), d.constant(d.floats((n,))), num_groups=groups)


@draws("LayerNormalization", "RMSNormalization")
def _layer_norm(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: all(s) and s[-1] > 1)
    rank = len(d.shape_of(x))
    axis = d.integer(0, rank - 1)
    rest = d.shape_of(x)[axis:]
    bias = [d.constant(d.floats(rest))] if operator == "LayerNormalization" and d.chance(0.5) else []
    d.add(operator, x, d.constant(d.floats(rest)), *bias, axis=axis - rank if d.chance(0.5) else axis)


@draws("SimplifiedLayerNormalization")
def _simplified_norm(d: Drawing, operator: str) -> None:
    """onnxruntime's name for RMSNormalization."""
    x = d.pick(1, fits=lambda s: all(s) and s[-1] > 1)
    d.add(operator, x, d.constant(d.floats(d.shape_of(x)[-1:])), axis=-1, epsilon=d.choice([None, 1e-3]))


@draws("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def _skip_norm(d: Drawing, operator: str) -> None:
    x = d.pick(3, 3, fits=lambda s: all(s) and s[-1] > 1)
    size = d.shape_of(x)[-1:]
    beta = [d.constant(d.floats(size))] if operator.endswith("SkipLayerNormalization") else []
    bias = [d.constant(d.floats(size))] if d.chance(0.4) else []
    skip = d.constant(d.floats(d.shape_of(x)))
    d.add(operator, x, skip, d.constant(d.floats(size)), *beta, *bias, epsilon=1e-5)


@draws("LRN")
def _local_response(d: Drawing, operator: str) -> None:
    x = d.pick(3, fits=lambda s: s[1] > 0)
    d.add(operator, x, size=d.choice([1, 3, 5]), alpha=d.choice([None, 0.1]), bias=d.choice([None, 2.0]))


@draws("LpNormalization")
def _lp_norm(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    d.add(operator, x, axis=d.integer(-1, len(d.shape_of(x)) - 1), p=d.integer(1, 2))


@draws("MeanVarianceNormalization")
def _mean_variance(d: Drawing, operator: str) -> None:
    axes = d.choice([None, [0, 2, 3], [2, 3], [1], [1, 3], [0], [-1]])
    # onnxruntime divides by zero where ONNX adds an epsilon: elements that stand alone are left out.
    x = d.pick(4, 4, fits=lambda s: all(s) and prod(s[a] for a in axes or (0, 2, 3)) > 1)
    d.add(operator, x, axes=axes)
