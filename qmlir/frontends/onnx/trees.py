"""Ensembles of decision trees, of the domain `ai.onnx.ml`.

An ensemble has no branches here. The condition of every node is computed; a leaf is reached if all conditions on its
path hold, or fail, as its branches say; and a product with the leaves' weights adds up the trees.

    literals [B, 2 · nodes + 1]    each condition, its contrary, and one that always holds
    reached  [B, leaves]           the least of the literals at [leaves, depth] places
    result   [B, targets]          reached · weights [leaves, targets]
"""

from collections.abc import Iterator, Sequence

import numpy as np
from onnx import TensorProto

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.labels import DOMAIN
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.ir.interfaces import Array

converts = Table()

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
