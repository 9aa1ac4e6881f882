"""Ensembles of decision trees against onnxruntime, which walks from node to node."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qmlir
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import reason
from tests.frontends.onnx.test_detection import FLOAT, INT64, agree, graph_of

ML = "ai.onnx.ml"


def with_domain(proto: onnx.ModelProto) -> onnx.ModelProto:
    proto.opset_import.append(helper.make_opsetid(ML, 5))
    return proto


def tensor(values: Any, dtype: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values, dtype))


def trees(depth: int, count: int, features: int, *, modes: tuple[int, ...] = (0,), seed: int = 0) -> dict[str, Any]:
    """Attributes of complete trees, whose nodes and leaves are numbered through."""
    rng = np.random.default_rng(seed)
    inner, leaves = 2**depth - 1, 2**depth
    ids: dict[str, list[int]] = {f"nodes_{b}{what}": [] for b in ("true", "false") for what in ("nodeids", "leafs")}
    for tree in range(count):
        for place in range(inner):
            for branch, child in (("true", 2 * place + 1), ("false", 2 * place + 2)):
                leaf = child >= inner
                ids[f"nodes_{branch}leafs"].append(int(leaf))
                ids[f"nodes_{branch}nodeids"].append(tree * leaves + child - inner if leaf else tree * inner + child)
    return ids | {
        "tree_roots": [tree * inner for tree in range(count)],
        "nodes_featureids": rng.integers(0, features, inner * count).tolist(),
        "nodes_modes": tensor(rng.choice(modes, inner * count), np.uint8),
        "nodes_splits": tensor(rng.integers(-1, 2, inner * count), np.float32),
        "leaf_targetids": rng.integers(0, 3, leaves * count).tolist(),
        "leaf_weights": tensor(rng.normal(size=leaves * count), np.float32),
        "n_targets": 3,
    }


def ensemble(attributes: dict[str, Any]) -> onnx.ModelProto:
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain=ML, **attributes)
    return with_domain(graph_of([node], {"x": (FLOAT, [7, 4])}, ["y"]))


def samples() -> list[dict[str, Any]]:
    """Integers, so that some features equal their split; and NaNs."""
    rng = np.random.default_rng(5)
    x = rng.integers(-2, 3, (7, 4)).astype(np.float32)
    return [{"x": x}, {"x": np.where(rng.random(x.shape) < 0.2, np.nan, x).astype(np.float32)}]


@pytest.mark.parametrize(
    "changed",
    [
        {}, {"aggregate_function": 0}, {"nodes_missing_value_tracks_true": [1, 0, 1, 1, 0, 0, 1] * 4},
    ],
)  # fmt: skip
def test_ensemble(changed: dict[str, Any]) -> None:
    agree(ensemble(trees(3, 4, 4) | changed), *samples(), exact=False)


@pytest.mark.parametrize("mode", range(6))
def test_conditions(mode: int) -> None:
    agree(ensemble(trees(2, 3, 4, modes=(mode,))), *samples(), exact=False)


def test_conditions_of_several_kinds() -> None:
    agree(ensemble(trees(3, 3, 4, modes=(0, 3, 5))), *samples(), exact=False)


@pytest.mark.parametrize("transform", [1, 2])
def test_transforms(transform: int) -> None:
    """By the numbers of ONNX's words: onnxruntime takes 1 for the logistic function and 2 for the softmax."""
    x = samples()[0]
    plain, transformed = (
        np.asarray(qmlir.reference(load_onnx(ensemble(trees(2, 2, 4) | {"post_transform": t})))(x)).astype(np.float64)
        for t in (0, transform)
    )
    powers = np.exp(plain)
    wanted = powers / powers.sum(axis=1, keepdims=True) if transform == 1 else powers / (1 + powers)
    np.testing.assert_allclose(transformed, wanted, rtol=1e-5)


def test_array_feature_extractor() -> None:
    node = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain=ML)
    for shape in ([3, 5], [2, 3, 5]):
        proto = with_domain(graph_of([node], {"x": (FLOAT, shape), "i": (INT64, [3])}, ["y"]))
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        agree(proto, {"x": x, "i": np.array([4, 0, 2])})


def test_what_is_refused() -> None:
    assert "neither a sum nor a mean" in reason(ensemble(trees(2, 1, 4) | {"aggregate_function": 2}))
    assert "infinite" in reason(ensemble(trees(1, 1, 4) | {"leaf_weights": tensor([np.inf, 1], np.float32)}))
    assert "of the mode 9" in reason(ensemble(trees(2, 1, 4, modes=(9,))))
    circle = trees(1, 1, 4) | {"nodes_trueleafs": [0], "nodes_truenodeids": [0]}
    with pytest.raises(NodeError, match="a node must stand on one path of a tree"):
        load_onnx(ensemble(circle))
    with pytest.raises(NodeError, match="its branches must lead to a node or a leaf, got 8"):
        load_onnx(ensemble(trees(1, 1, 4) | {"nodes_truenodeids": [8]}))
    with pytest.raises(NodeError, match="members for each node that tests for them, got 0 sets"):
        load_onnx(ensemble(trees(1, 1, 4, modes=(6,))))
