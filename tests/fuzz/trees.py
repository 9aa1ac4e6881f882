"""How nodes of ONNX's operators on features, texts and spectra are drawn: trees, n-grams, bands of hearing."""

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.fuzz.drawing import Drawing, Refused
from tests.fuzz.graphs import ML
from tests.fuzz.operators import draws


@draws(f"{ML}.ArrayFeatureExtractor")
def _features(d: Drawing, operator: str) -> None:
    x = d.pick(2, 4, fits=lambda s: all(s))
    count = d.shape_of(x)[-1]
    d.add(operator, x, d.constant(d.rng.integers(0, count, d.integer(1, 5))))


@draws(f"{ML}.TreeEnsemble")
def _trees(d: Drawing, operator: str) -> None:
    """Complete trees of a small depth; the splits are near the features."""
    if d.float != np.float32:
        raise Refused("onnxruntime has no trees on halves")
    x = d.pick(2, 2, fits=lambda s: all(s))
    depth, count, targets = d.integer(1, 3), d.integer(1, 3), d.integer(1, 4)
    inner, leaves = 2**depth - 1, 2**depth
    ids: dict[str, Any] = {}
    for branch, step in (("true", 1), ("false", 2)):
        children = [(tree, 2 * place + step) for tree in range(count) for place in range(inner)]
        ids[f"nodes_{branch}leafs"] = [int(child >= inner) for _, child in children]
        ids[f"nodes_{branch}nodeids"] = [
            tree * leaves + child - inner if child >= inner else tree * inner + child for tree, child in children
        ]
    nodes = inner * count
    modes = d.rng.choice(d.choice([[0], [0, 3], [1, 2, 4, 5]]), nodes)
    splits = d.rng.choice(d.value(x).reshape(-1), nodes) + d.choice([0.0, 0.01])
    d.add(
        operator, x, **ids,
        tree_roots=[tree * inner for tree in range(count)],
        nodes_featureids=d.rng.integers(0, d.shape_of(x)[1], nodes).tolist(),
        nodes_modes=numpy_helper.from_array(modes.astype(np.uint8)),
        nodes_splits=numpy_helper.from_array(splits.astype(np.float32)),
        leaf_targetids=d.rng.integers(0, targets, leaves * count).tolist(),
        leaf_weights=numpy_helper.from_array(d.rng.normal(size=leaves * count).astype(np.float32)),
        n_targets=targets, aggregate_function=d.choice([None, 0, 1]),
    )  # fmt: skip


@draws("TfIdfVectorizer")
def _n_grams(d: Drawing, operator: str) -> None:
    """Frequencies of numbers and of pairs among rounded values."""
    x = d.pick(1, 2, fits=lambda s: all(s))
    words = d.add("Cast", x, to=TensorProto.INT64)[0]
    pairs = [(a, b) for a in (-1, 0, 1) for b in (0, 1)]
    chosen = [pairs[i] for i in d.rng.permutation(len(pairs))[: d.integer(1, 4)]]
    mode = d.choice(["TF", "IDF", "TFIDF"])
    d.add(
        operator, words, mode=mode, min_gram_length=d.integer(1, 2), max_gram_length=2,
        max_skip_count=d.integer(0, 2), ngram_counts=[0, 3], pool_int64s=[-1, 0, 1, *(n for p in chosen for n in p)],
        ngram_indexes=d.rng.permutation(3 + len(chosen)).tolist(),
        weights=None if mode == "TF" else d.rng.uniform(0.5, 2, 3 + len(chosen)).tolist(),
    )  # fmt: skip


@draws("MelWeightMatrix")
def _bands(d: Drawing, operator: str) -> None:
    """Bands of a spectrum whose bins are the last dimension."""
    d.since(17)
    x = d.pick(1, fits=lambda s: s[-1] > 2)
    length = 2 * (d.shape_of(x)[-1] - 1)
    sizes = [d.constant(np.array(n, np.int64)) for n in (d.integer(1, 4), length, 16000)]
    edges = [d.constant(np.array(hertz), np.float32) for hertz in (d.choice([0.0, 300.0]), 7000.0)]
    kind = 1 if d.float == np.float32 else 10
    d.add("MatMul", x, d.add(operator, *sizes, *edges, output_datatype=kind)[0])
