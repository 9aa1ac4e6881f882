"""Operators of the domain `ai.onnx.ml`: names of classes, linear models and trees.

Classes are named by integers, or by texts, which become their indices.

No type of the IR holds text. A tensor of texts that is computed at run time is `Labels`: a tensor of indices into texts
that are known at import. As an output of the model it is the indices, and a remark in the ledger lists the texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.opaque import AttributeValue
from qmlir.ir.interfaces import Array

converts = Table()

DOMAIN = "ai.onnx.ml"

MOVING = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Slice", "Gather")
"""Operators that move the elements of their first input."""


class Labels(Constant):
    """A tensor of texts that is computed at run time; it has no values, so that converters of tensors refuse it.

    indices  the index of each element's text, i64
    texts    the texts
    """

    def __init__(self, indices: Value, texts: Sequence[str]):
        self.indices, self.texts, self.name = indices, tuple(texts), ""

    @property
    def array(self) -> Array:
        raise UnsupportedError("it reads texts, of which qmlir computes the indices only")

    @property
    def carrier(self) -> Value:
        return self.indices

    def remark(self) -> str:
        """Returns what the ledger says of an output that is the indices."""
        listed = ", ".join(f'{index} is "{text}"' for index, text in enumerate(self.texts))
        return f"the model's texts are their indices: {listed}"


def moves(operator: str, attributes: Mapping[str, AttributeValue]) -> bool:
    """Whether an operator moves labels, or casts them to texts, which they are already."""
    return operator in MOVING or (operator == "Cast" and attributes.get("to") == onnx.TensorProto.STRING)


def named_classes(node: ONNXNode, indices: Value, integers: Sequence[int], texts: Sequence[str]) -> Value:
    """Returns the names of classes, integers or texts, by their indices."""
    if texts:
        return Labels(indices, texts)
    if list(integers) == list(range(len(integers))):
        return indices
    return node.operator("Gather", Constant(np.array(integers, np.int64)), indices, axis=0)


@converts("ArrayFeatureExtractor", since=1, domain=DOMAIN)
def array_feature_extractor(node: ONNXNode, x: Value, indices: Value) -> Value:
    """Picks elements of the last dimension; the result has two dimensions or more."""
    flat = node.reshaped(indices, (prod(node.shape(indices)),))
    if isinstance(x, Constant) and x.shape[-1:] == (prod(x.shape),) and x.array.dtype.kind == "O":
        return Labels(node.reshaped(flat, (1,) * (max(len(x.shape), 2) - 1) + node.shape(flat)), _texts(x.array))
    picked = node.operator("Gather", x, flat, axis=-1)
    shape = node.shape(picked)
    return node.reshaped(picked, shape if len(shape) > 1 else (1, *shape))


def _texts(array: Array) -> list[str]:
    """Returns the texts of a constant, which its file may hold as bytes."""
    flat: list[object] = array.reshape(-1).tolist()
    return [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in flat]


@converts("ZipMap", since=1, domain=DOMAIN)
def zip_map(node: ONNXNode, x: Value, *, classlabels_int64s: Sequence[int] = (),
            classlabels_strings: Sequence[str] = ()) -> Value:  # fmt: skip
    """Returns x itself: a list of dictionaries from classes to the elements of each row has no type here."""
    keys = [*map(str, classlabels_int64s), *(f'"{text}"' for text in classlabels_strings)]
    if node.shape(x)[-1:] != (len(keys),):
        raise node.error("it must have a key for each element of a row", f"{len(keys)} of them")
    node.remark(f"{node.kind} is left out: the result is its values, in the order of its keys {', '.join(keys)}")
    return x


# ---------------------------------------------------------------------------------------------------------------
# LabelEncoder


@converts("LabelEncoder", since=1, domain=DOMAIN)
def label_encoder_1(
    node: ONNXNode, x: Value, *, classes_strings: Sequence[str], default_int64: int = -1,
    default_string: str = "_Unused",
) -> Value:  # fmt: skip
    """Maps integers to the texts at their places, or texts to their places."""
    places = np.arange(len(classes_strings))
    if isinstance(x, Labels) or node.element(x)[0] != "i":
        return _encoded(node, x, classes_strings, places, default_int64)
    return _encoded(node, x, places, classes_strings, default_string)


@converts("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder(
    node: ONNXNode, x: Value, *, keys_int64s: Sequence[int] = (), keys_floats: Sequence[float] = (),
    keys_strings: Sequence[str] = (), keys_tensor: Array | None = None, values_int64s: Sequence[int] = (),
    values_floats: Sequence[float] = (), values_strings: Sequence[str] = (), values_tensor: Array | None = None,
    default_int64: int = -1, default_float: float = -0.0, default_string: str = "_Unused",
    default_tensor: Array | None = None,
) -> Value:  # fmt: skip
    """Maps keys to the values at their places, and others to a default."""
    keys = _given(keys_tensor, keys_int64s, keys_floats, keys_strings)
    values = _given(values_tensor, values_int64s, values_floats, values_strings)
    default: object = {"i": default_int64, "f": default_float}.get(np.asarray(values).dtype.kind, default_string)
    if default_tensor is not None:
        default = _given(default_tensor)[0]
    return _encoded(node, x, keys, values, default)


def _given(tensor: Array | None, *lists: Sequence[int] | Sequence[float] | Sequence[str]) -> Array | Sequence[str]:
    """Returns the first list that has elements: numbers as an array, or texts."""
    if tensor is not None:
        return _texts(tensor) if tensor.dtype.kind == "O" else tensor.reshape(-1)
    found = next(filter(len, lists), ())
    if isinstance(next(iter(found), None), str):
        return [str(text) for text in found]
    return np.array(found, np.float32 if lists and found is lists[1] else np.int64)


def _encoded(
    node: ONNXNode, x: Value, keys: Array | Sequence[str], values: Array | Sequence[str], default: object
) -> Value:
    """Maps keys to values: finds the place of each element among the keys, 0 for none, and looks that up in a table."""
    if len(keys) != len(values):
        raise node.error(f"it must have {len(keys)} values, one for each key", len(values))
    places = _places(node, x, keys)
    if isinstance(values, np.ndarray):
        table = np.concatenate([np.array([default], values.dtype), values])
        return node.operator("Gather", Constant(table), places, axis=0)
    return Labels(places, [str(default), *values])


def _places(node: ONNXNode, x: Value, keys: Array | Sequence[str]) -> Value:
    """Returns the place of each element among the keys, counted from 1, the first of equal keys; 0 for no key."""
    if isinstance(x, Labels):
        if isinstance(keys, np.ndarray):
            raise node.error("its keys must be texts, as its input is", keys.dtype)
        found = {key: place for place, key in reversed(list(enumerate(keys, 1)))}
        table = np.array([found.get(text, 0) for text in x.texts], np.int64)
        return node.operator("Gather", Constant(table), x.indices, axis=0)
    if not isinstance(keys, np.ndarray):
        raise UnsupportedError("it reads texts, for which qmlir has no type")
    distinct, first = np.unique(keys, return_index=True)
    if distinct.dtype.kind == "f" and np.isnan(distinct).any():
        raise UnsupportedError("one of its keys is NaN")
    node.room((*node.shape(x), len(distinct)))
    each = node.operator("Unsqueeze", x, Constant(np.array([-1])))
    equal = node.operator("Equal", each, node.operator("CastLike", Constant(distinct), x))
    hits = node.operator("Mul", node.operator("Cast", equal, to=onnx.TensorProto.INT64), Constant(first + 1))
    return node.operator("ReduceSum", hits, Constant(np.array([-1])), keepdims=0)


# ---------------------------------------------------------------------------------------------------------------
# Operators of the domain `ai.onnx.ml` that scale features, and the linear models behind them.
#
# They are what scikit-learn's scalers, linear models and logistic regression are exported as. Where the specification
# leaves a case open, the results are onnxruntime's.


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
        raise node.error(f"it must have one value or {shape[-1]} as its {what}", len(values))
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
        raise node.error("its input must have one dimension or two", node.shape(x))
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
        raise node.error("its input must have one dimension or two", shape)
    if count < 1 or len(coefficients) != count * shape[-1]:
        raise node.error(f"it must have {count} · {shape[-1]} coefficients", len(coefficients))
    if len(intercepts) not in (0, count):
        raise node.error(f"it must have {count} intercepts", len(intercepts))
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


# ---------------------------------------------------------------------------------------------------------------
# Ensembles of decision trees, of the domain `ai.onnx.ml`.
#
# An ensemble has no branches here. The condition of every node is computed; a leaf is reached if all conditions on its
# path hold, or fail, as its branches say; and a product with the leaves' weights adds up the trees.
#
#     literals [B, 2 · nodes + 1]    each condition, its contrary, and one that always holds
#     reached  [B, leaves]           the least of the literals at [leaves, depth] places
#     result   [B, targets]          reached · weights [leaves, targets]


AVERAGE, SUM = 0, 1
"""Ways in which the trees' results become one; ONNX also has the least and the largest."""

TRANSFORMS = {0: None, 1: "Softmax", 2: "Sigmoid"}
"""What is done to the sums; ONNX also has a softmax of what is not 0, and the probit."""

MEMBER = 6
"""The condition that holds for members of a set."""

COMPARISONS = {
    0: ("LessOrEqual", False), 1: ("Less", False), 2: ("LessOrEqual", True), 3: ("Less", True), 4: ("Equal", False),
    5: ("Equal", False),
}  # fmt: skip
"""Mode of a node → (ONNX's comparison of the feature with the split, whether the split stands first)."""

NOT_EQUAL = 5

Path = tuple[tuple[int, bool], ...]
"""The nodes on the way to a leaf, each with the branch that is taken."""


@converts("TreeEnsemble", since=5, domain=DOMAIN)
def tree_ensemble(
    node: ONNXNode, x: Value, *, tree_roots: Sequence[int], nodes_featureids: Sequence[int], nodes_modes: Array,
    nodes_splits: Array, nodes_truenodeids: Sequence[int], nodes_trueleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int], nodes_falseleafs: Sequence[int], leaf_targetids: Sequence[int],
    leaf_weights: Array, n_targets: int, aggregate_function: int = SUM, post_transform: int = 0,
    membership_values: Array | None = None, nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_hitrates: Array | None = None,
) -> Value:  # fmt: skip
    """Returns the sum or the mean of the trees' leaves for each target, [B, targets]."""
    if aggregate_function not in (AVERAGE, SUM) or post_transform not in TRANSFORMS:
        raise UnsupportedError("its trees' results become neither a sum nor a mean, or are transformed")
    if not np.isfinite(leaf_weights).all():
        raise UnsupportedError("a leaf's weight is infinite or NaN")
    branches = [
        [(bool(leaf), int(place)) for leaf, place in zip(leaves, places, strict=True)]
        for leaves, places in ((nodes_falseleafs, nodes_falsenodeids), (nodes_trueleafs, nodes_truenodeids))
    ]
    leaves = [leaf for root in tree_roots for leaf in _leaves(node, root, branches, len(leaf_weights))]
    features = node.operator("Gather", x, Constant(np.array(nodes_featureids, np.int64)), axis=1)
    holds = _conditions(node, features, nodes_modes, nodes_splits, _members(node, nodes_modes, membership_values))
    if any(nodes_missing_value_tracks_true):
        tracked = Constant(np.array(nodes_missing_value_tracks_true, np.bool_))
        holds = node.operator("Or", holds, node.operator("And", node.operator("IsNaN", features), tracked))
    weights = np.zeros((len(leaves), n_targets), leaf_weights.dtype)
    for row, (leaf, _) in enumerate(leaves):
        weights[row, leaf_targetids[leaf]] = leaf_weights[leaf]
    if aggregate_function == AVERAGE:
        weights = (weights / len(tree_roots)).astype(weights.dtype)
    reached = _reached(node, holds, [path for _, path in leaves])
    sums = node.operator("MatMul", node.operator("CastLike", reached, Constant(leaf_weights)), Constant(weights))
    transform = TRANSFORMS[post_transform]
    return sums if transform is None else node.operator(transform, sums)


def _leaves(
    node: ONNXNode, root: int, branches: Sequence[Sequence[tuple[bool, int]]], weights: int
) -> Iterator[tuple[int, Path]]:
    """Yields each leaf of a tree with its path; `branches` are each node's false and true branch: (is leaf, place)."""
    waiting: list[tuple[bool, int, Path]] = [(False, root, ())]
    visits = 0
    while waiting:
        leaf, place, path = waiting.pop()
        if not 0 <= place < (weights if leaf else len(branches[0])):
            raise node.error("its branches must lead to a node or a leaf", str(place))
        if leaf:
            yield place, path
            continue
        visits += 1
        if visits > len(branches[0]):
            raise node.error("a node must stand on one path of a tree", "several paths, or a circle")
        waiting += [(*branches[branch][place], (*path, (place, branch))) for branch in (False, True)]


def _reached(node: ONNXNode, holds: Value, paths: Sequence[Path]) -> Value:
    """Returns whether all conditions on each path are as its branches say, [B, paths], as numbers."""
    batch, count = node.shape(holds)
    always = Constant(np.ones((batch, 1), np.bool_))
    literals = node.operator("Concat", holds, node.operator("Not", holds), always, axis=1)
    places = np.full(node.room((len(paths), max(map(len, paths)))), 2 * count)
    for row, path in enumerate(paths):
        places[row, : len(path)] = [place if branch else place + count for place, branch in path]
    each = node.operator("Cast", node.operator("Gather", literals, Constant(places), axis=1), to=TensorProto.INT32)
    return node.operator("ReduceMin", each, Constant(np.array([2])), keepdims=0)


def _members(node: ONNXNode, modes: Array, values: Array | None) -> Array | None:
    """Returns the members that each node tests for, [nodes, most], with NaN behind the last; None if no node does."""
    testing = np.flatnonzero(modes == MEMBER)
    if not len(testing):
        return None
    ends = np.flatnonzero(np.isnan(values)) if values is not None else np.zeros(0, np.int64)
    if values is None or len(ends) != len(testing):
        raise node.error("it must have members for each node that tests for them", f"{len(ends)} sets")
    sets = np.split(values, ends + 1)[:-1]  # each with the NaN at its end
    table = np.full((len(modes), max(map(len, sets))), np.nan, values.dtype)
    for place, members in zip(testing, sets, strict=True):
        table[place, : len(members)] = members
    return table


def _conditions(node: ONNXNode, features: Value, modes: Array, splits: Array, members: Array | None) -> Value:
    """Returns whether the condition of each node holds for its feature, [B, nodes]."""
    result: Value | None = None
    for mode in np.unique(modes).tolist():
        if mode == MEMBER and members is not None:
            each = node.operator("Unsqueeze", features, Constant(np.array([2])))
            holds = _any(node, node.operator("Equal", each, Constant(members)))
        elif mode in COMPARISONS:
            operator, exchanged = COMPARISONS[mode]
            operands = (Constant(splits), features) if exchanged else (features, Constant(splits))
            holds = node.operator(operator, *operands)
            holds = node.operator("Not", holds) if mode == NOT_EQUAL else holds
        else:
            raise UnsupportedError(f"it has a node of the mode {mode}")
        result = holds if result is None else node.operator("Where", Constant(modes == mode), holds, result)
    assert result is not None
    return result


def _any(node: ONNXNode, truth: Value) -> Value:
    """Returns whether any of the last dimension's values is true."""
    number = node.operator("Cast", truth, to=TensorProto.INT32)
    most = node.operator("ReduceMax", number, Constant(np.array([-1])), keepdims=0)
    return node.operator("Cast", most, to=TensorProto.BOOL)
