"""TfIdfVectorizer on integers: how often each n-gram of a vocabulary occurs in a text, weighted.

The strings of a vocabulary have no form here; a tokenizer in front of the network makes numbers of them.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from onnx import TensorProto

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.ir.interfaces import Array

converts = Table()


@converts("TfIdfVectorizer", since=9)
def vectorizer(
    node: ONNXNode, x: Value, *, max_gram_length: int, max_skip_count: int, min_gram_length: int,
    mode: Literal["TF", "IDF", "TFIDF"], ngram_counts: Sequence[int], ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (), pool_strings: Sequence[str] = (), weights: Sequence[float] = (),
) -> Value:  # fmt: skip
    """Returns the frequencies of n-grams in x [C] or [B, C] as f32 [outputs] or [B, outputs].

    An n-gram is found where its items stand 1, 2, … or `max_skip_count` + 1 places apart; those of one item count once.
    TF is the number of places, IDF whether there is any, TFIDF the number; the last two times the weight.
    """
    if pool_strings:
        raise UnsupportedError("its vocabulary is of strings, for which qmlir has no type")
    shape = node.shape(x)
    if len(shape) not in (1, 2):
        raise node.error("its input must have one dimension or two", shape)
    if not 0 < min_gram_length <= max_gram_length or max_skip_count < 0:
        raise node.error("its lengths must be positive and in order", f"{min_gram_length} to {max_gram_length}")
    grams = list(_grams(node, ngram_counts, pool_int64s))
    if len(ngram_indexes) != sum(len(g) for g in grams) or min(ngram_indexes, default=0) < 0:
        raise node.error("it must have an index for each n-gram", f"{len(ngram_indexes)} indices")
    width = max(ngram_indexes, default=-1) + 1
    if weights and len(weights) != len(ngram_indexes):
        raise node.error(f"it must have {len(ngram_indexes)} weights", len(weights))
    rows = node.reshaped(x, (1, *shape)[-2:])
    frequencies, places = list[Value](), list[int]()
    for length, (gram, start) in enumerate(zip(grams, np.cumsum([0, *map(len, grams)]), strict=False), 1):
        if min_gram_length <= length <= max_gram_length and len(gram):
            if len(np.unique(gram, axis=0)) < len(gram):
                raise UnsupportedError("an n-gram stands in its vocabulary twice")
            frequencies.append(_occurrences(node, rows, gram, max_skip_count if length > 1 else 0))
            places += ngram_indexes[start : start + len(gram)]
    counts = _placed(node, frequencies, places, (node.shape(rows)[0], width))
    if mode == "IDF":
        counts = node.operator("Min", counts, Constant(np.array(1)))
    y = node.operator("Cast", counts, to=TensorProto.FLOAT)
    if mode != "TF" and weights:
        by_output = np.zeros(width, np.float32)
        by_output[list(ngram_indexes)] = weights
        y = node.operator("Mul", y, Constant(by_output))
    return node.reshaped(y, (*shape[:-1], width))


def _grams(node: ONNXNode, starts: Sequence[int], pool: Sequence[int]) -> Iterator[Array]:
    """Yields the n-grams of each length n = 1, 2, …, [count, n]."""
    ends = [*starts, len(pool)]
    if ends != sorted(ends) or (starts and starts[0] != 0):
        raise node.error(f"its ngram_counts must be ascending places in {len(pool)} items", starts)
    for length, first in enumerate(starts, 1):
        items = np.array(pool[first : ends[length]], np.int64)
        if len(items) % length:
            raise node.error(f"its vocabulary must have whole {length}-grams", f"{len(items)} items")
        yield items.reshape(-1, length)


def _occurrences(node: ONNXNode, rows: Value, grams: Array, skips: int) -> Value:
    """Returns at how many places of rows [B, C] each n-gram begins, i64 [B, count]."""
    batch, items = node.shape(rows)
    total: Value = Constant(np.zeros((batch, len(grams)), np.int64))
    for step in range(1, skips + 2):
        places = items - (grams.shape[1] - 1) * step
        if places < 1:
            break
        found: Value | None = None
        for i, column in enumerate(grams.T):
            bounds = [Constant(np.array([v])) for v in (i * step, i * step + places, 1)]
            part = node.reshaped(node.operator("Slice", rows, *bounds), (batch, places, 1))
            hit = node.operator("Equal", node.operator("Cast", part, to=TensorProto.INT64), Constant(column))
            found = hit if found is None else node.operator("And", found, hit)
        assert found is not None
        number = node.operator("Cast", found, to=TensorProto.INT64)
        total = node.operator("Add", total, node.operator("ReduceSum", number, Constant(np.array([1])), keepdims=0))
    return total


def _placed(node: ONNXNode, frequencies: Sequence[Value], places: Sequence[int], shape: tuple[int, int]) -> Value:
    """Returns the frequencies at their places among the outputs; outputs without an n-gram are 0."""
    if len(set(places)) < len(places):
        raise UnsupportedError("several of its n-grams have one index")
    nothing = Constant(np.zeros((shape[0], 1), np.int64))
    columns = np.full(shape[1], len(places))
    columns[places] = np.arange(len(places))
    every = node.operator("Concat", *frequencies, nothing, axis=1)
    return node.operator("Gather", every, Constant(columns), axis=1)
