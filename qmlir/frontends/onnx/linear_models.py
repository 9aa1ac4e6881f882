"""Operators of the domain `ai.onnx.ml` that scale features, and the linear models behind them.

They are what scikit-learn's scalers, linear models and logistic regression are exported as. Where the specification
leaves a case open, the results are onnxruntime's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.labels import DOMAIN, named_classes
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.ir.interfaces import Array

converts = Table()


def _floats(node: ONNXNode, x: Value) -> Value:
    return x if node.element(x) == "f32" else node.operator("Cast", x, to=TensorProto.FLOAT)


def _per_feature(
    node: ONNXNode, x: Value, what: str, values: Sequence[float] | Sequence[int], dtype: np.dtype[Any]
) -> Constant:
    """Returns a constant that broadcasts along the features of rows: one value, or one for each feature."""
    shape = node.shape(x)
    if len(values) == 1:
        return Constant(np.array(values[0], dtype))
    if len(shape) not in (1, 2):
        raise UnsupportedError(f"it has {len(values)} {what} for a tensor of {len(shape)} dimensions")
    if len(values) != shape[-1]:
        raise node.error(f"it must have one value or {shape[-1]} as its {what}", str(len(values)))
    return Constant(np.array(values, dtype))


@converts("Scaler", since=1, domain=DOMAIN)
def scaler(node: ONNXNode, x: Value, *, offset: Sequence[float] = (), scale: Sequence[float] = ()) -> Value:
    """Returns (x − offset) · scale."""
    steps = [_per_feature(node, x, n, v, np.dtype(np.float32)) for n, v in (("offset", offset), ("scale", scale))]
    return node.operator("Mul", node.operator("Sub", _floats(node, x), steps[0]), steps[1])


@converts("Imputer", since=1, domain=DOMAIN)
def imputer(
    node: ONNXNode, x: Value, *, imputed_value_floats: Sequence[float] = (), imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0, replaced_value_int64: int = 0,
) -> Value:  # fmt: skip
    """Puts other values, one for each feature, in the place of a value that stands for a missing one, such as NaN."""
    floats = node.element(x)[0] == "f"
    values, replaced = (
        (imputed_value_floats, replaced_value_float) if floats else (imputed_value_int64s, replaced_value_int64)
    )
    dtype = node.dtype(x)
    imputed = _per_feature(node, x, "imputed values", values, dtype)
    if floats and np.isnan(replaced):
        missing = node.operator("IsNaN", x)
    else:
        missing = node.operator("Equal", x, Constant(np.array(replaced, dtype)))
    return node.operator("Where", missing, imputed, x)


@converts("Normalizer", since=1, domain=DOMAIN)
def normalizer(node: ONNXNode, x: Value, *, norm: str = "MAX") -> Value:
    """Divides each row by its largest element, its sum of magnitudes or its length; a row of length 0 stays."""
    if node.rank(x) not in (1, 2):
        raise node.error("its input must have one dimension or two", str(list(node.shape(x))))
    data, last = _floats(node, x), Constant(np.array([-1]))
    if norm == "MAX":
        most = node.operator("ReduceMax", data, last, keepdims=1)
        nothing = node.operator("Equal", most, node.number(0, data))
        return node.operator("Div", data, node.operator("Where", nothing, node.number(1, data), most))
    if norm not in ("L1", "L2"):
        raise node.error("its norm must be MAX, L1 or L2", norm)
    return node.operator("LpNormalization", data, axis=-1, p=int(norm[1]))


# ---------------------------------------------------------------------------------------------------------------
# Linear models


@converts("LinearRegressor", since=1, domain=DOMAIN)
def linear_regressor(
    node: ONNXNode, x: Value, *, coefficients: Sequence[float], intercepts: Sequence[float] = (), targets: int = 1,
    post_transform: str = "NONE",
) -> Value:  # fmt: skip
    """Returns x · coefficientsᵀ + intercepts, [N, targets]; a single target is transformed by the probit only."""
    sums = _sums(node, x, coefficients, intercepts, targets)
    return transformed(node, sums, "NONE" if targets == 1 and post_transform != "PROBIT" else post_transform)


@converts("LinearClassifier", since=1, domain=DOMAIN)
def linear_classifier(
    node: ONNXNode, x: Value, *, coefficients: Sequence[float], intercepts: Sequence[float],
    classlabels_ints: Sequence[int] = (), classlabels_strings: Sequence[str] = (), multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Value, Value]:  # fmt: skip
    """Returns the class of each row, [N], and the transformed scores, [N, classes].

    The class is that of the first largest score. A single score stands for two classes, and the second class is where
    it is positive; `multi_class` is a remark of the exporter.
    """
    scores = _sums(node, x, coefficients, intercepts, count := len(intercepts))
    names = len(classlabels_ints) or len(classlabels_strings)
    if names != count and not (count == 1 and names in (0, 2)):
        raise node.error(f"it must have names for {max(count, 2)} classes", str(names))
    if count > 1:
        best = node.operator("ArgMax", scores, axis=1, keepdims=0)
        label = named_classes(node, best, classlabels_ints, classlabels_strings)
        return label, transformed(node, scores, post_transform)
    positive = node.operator("Greater", node.reshaped(scores, node.shape(scores)[:1]), node.number(0, scores))
    best = node.operator("Cast", positive, to=TensorProto.INT64)
    label = named_classes(node, best, classlabels_ints or ((0, 1) if not names else ()), classlabels_strings)
    if not names:
        return label, scores
    if post_transform == "PROBIT":
        raise UnsupportedError("it takes the probit of a single score for two classes")
    second = transformed(node, scores, "LOGISTIC" if post_transform == "LOGISTIC" else "NONE")
    first = node.operator("Sub", node.number(1, scores), second)
    return label, node.operator("Concat", first, second, axis=1)


def _sums(node: ONNXNode, x: Value, coefficients: Sequence[float], intercepts: Sequence[float], count: int) -> Value:
    """Returns x · coefficientsᵀ + intercepts, [N, count]; a single row may lack its first dimension."""
    shape = node.shape(x)
    if len(shape) not in (1, 2):
        raise node.error("its input must have one dimension or two", str(list(shape)))
    if count < 1 or len(coefficients) != count * shape[-1]:
        raise node.error(f"it must have {count} · {shape[-1]} coefficients", str(len(coefficients)))
    if len(intercepts) not in (0, count):
        raise node.error(f"it must have {count} intercepts", str(len(intercepts)))
    rows = node.reshaped(_floats(node, x), (1, *shape)[-2:])
    weights = Constant(np.array(coefficients, np.float32).reshape(count, shape[-1]))
    bias = [Constant(np.array(intercepts, np.float32))] if len(intercepts) else []
    return node.operator("Gemm", rows, weights, *bias, transB=1)


def transformed(node: ONNXNode, scores: Value, transform: str) -> Value:
    """Returns scores [N, classes] after a `post_transform`."""
    match transform:
        case "NONE":
            return scores
        case "SOFTMAX":
            return node.operator("Softmax", scores)
        case "LOGISTIC":
            return node.operator("Sigmoid", scores)
        case "SOFTMAX_ZERO":
            return _softmax_without_zeros(node, scores)
        case "PROBIT":
            return _probit(node, scores)
        case _:
            raise node.error("its post_transform must be NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT", transform)


def _softmax_without_zeros(node: ONNXNode, scores: Value) -> Value:
    """Returns a softmax of the scores that are not 0; a score of 0, up to 10⁻⁷, stays 0."""
    last = Constant(np.array([-1]))
    counts = node.operator("Greater", node.operator("Abs", scores), node.number(1e-7, scores))
    powers = node.operator("Exp", node.operator("Sub", scores, node.operator("ReduceMax", scores, last, keepdims=1)))
    kept = node.operator("Where", counts, powers, node.number(0, scores))
    total = node.operator("ReduceSum", kept, last, keepdims=1)
    return node.operator("Div", kept, total)


def _probit(node: ONNXNode, scores: Value) -> Value:
    """Returns √2 · erf⁻¹(2x − 1), by Winitzki's formula for the inverse, as onnxruntime computes it."""

    def number(value: float) -> Constant:
        return node.number(value, scores)

    a = 0.147
    x = node.operator("Sub", node.operator("Mul", scores, number(2)), number(1))
    square = node.operator("Mul", node.operator("Sub", number(1), x), node.operator("Add", number(1), x))
    log = node.operator("Log", square)
    v = node.operator("Add", node.operator("Mul", log, number(0.5)), number(2 / (3.14159 * a)))
    root = node.operator(
        "Sqrt", node.operator("Sub", node.operator("Mul", v, v), node.operator("Mul", log, number(1 / a)))
    )
    size = node.operator("Sqrt", node.operator("Sub", root, v))
    signed = node.operator(
        "Mul", node.operator("Where", node.operator("Less", x, number(0)), number(-1), number(1)), size
    )
    return node.operator("Mul", signed, number(2**0.5))


@converts("FeatureVectorizer", since=1, domain=DOMAIN)
def feature_vectorizer(node: ONNXNode, *inputs: Value, inputdimensions: Sequence[int] = ()) -> Value:
    """Joins the features of several inputs as floats."""
    rows = [node.reshaped(_floats(node, x), (1, *node.shape(x))[-2:]) for x in inputs]
    return node.operator("Concat", *rows, axis=1)


@converts("OneHotEncoder", since=1, domain=DOMAIN)
def one_hot_encoder(
    node: ONNXNode, x: Value, *, cats_int64s: Sequence[int] = (), cats_strings: Sequence[str] = (), zeros: int = 1
) -> Value:
    """Returns, along a new last dimension, 1 at the place of each element among the categories and 0 elsewhere."""
    if cats_strings:
        raise UnsupportedError("its categories are texts, for which qmlir has no type")
    if not zeros:
        raise UnsupportedError("it fails on an element that is no category")
    categories: Array = np.array(cats_int64s, np.int64)
    each = node.operator("Unsqueeze", node.operator("Cast", x, to=TensorProto.INT64), Constant(np.array([-1])))
    return node.operator("Cast", node.operator("Equal", each, Constant(categories)), to=TensorProto.FLOAT)
