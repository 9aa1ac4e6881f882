"""Sparse weights behind DENSIFY, in each way in which TFLite describes them, against LiteRT; descriptions that lie."""

from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import FileError
from qmlir.frontends.tflite import load_tflite
from qmlir.frontends.tflite.sparse import Level, dense
from qmlir.frontends.tflite.sparse import Sparsity as Read
from qmlir.policies.runtimes import follow
from tests.frontends.tflite.files import RESOLVERS, Op, Sparsity, T, constant, interpreter, model, run

SHAPE = (8, 12)


def matrix(dtype: Any) -> np.ndarray:
    """A matrix in which whole blocks of 4 by 4 are zeros, and one row of each other block."""
    random = np.random.default_rng(0)
    kept = np.kron(random.random((2, 3)) < 0.6, np.ones((4, 4), bool))
    kept[::4] = False
    return np.where(kept, random.integers(-127, 128, SHAPE), 0).astype(dtype)


def compressed(x: np.ndarray, kind: str) -> tuple[tuple[list[int], list[int], str], np.ndarray]:
    """The segments and indices of an array's columns (blocks count as one element), and the entries that are kept."""
    kept = np.abs(x).reshape(*x.shape[:2], -1).max(axis=2) != 0
    segments = [0, *np.cumsum(kept.sum(axis=1)).tolist()]
    return (segments, np.nonzero(kept)[1].tolist(), kind), x[kept]


def forms(x: np.ndarray) -> dict[str, tuple[Sparsity, np.ndarray]]:
    """Descriptions of a matrix, each with its values."""
    rows, columns = x.shape
    by_rows, values = compressed(x, "int32")
    by_columns, turned = compressed(np.ascontiguousarray(x.T), "uint8")
    blocks, parts = compressed(x.reshape(rows // 4, 4, columns // 4, 4).transpose(0, 2, 1, 3), "uint16")
    narrow, pieces = compressed(x.reshape(rows, columns // 4, 4), "uint8")
    return {
        "rows": (Sparsity([0, 1], [], [rows, by_rows]), values),
        "columns": (Sparsity([1, 0], [], [columns, by_columns]), turned),
        "dense": (Sparsity([0, 1], [], [rows, columns]), x.reshape(-1)),
        "blocks": (Sparsity([0, 1, 2, 3], [0, 1], [rows // 4, blocks, 4, 4]), parts.reshape(-1)),
        "blocks of a row": (Sparsity([0, 1, 2], [1], [rows, narrow, 4]), pieces.reshape(-1)),
    }


FORMS = list(forms(matrix(np.int8)))


def sparse_layer(form: str, dtype: Any) -> bytes:
    """A file of a fully connected layer whose weights a DENSIFY unpacks."""
    sparsity, values = forms(matrix(dtype))[form]
    own, data, bias, result = ({},) * 4
    if dtype == np.int8:
        own, data, bias, result = (
            {"scale": [s], "zero": [z]} for s, z in ((0.02, 0), (0.05, 3), (0.001, 0), (0.7, -4))
        )
    tensors = [
        T("x", (5, 12), dtype, **data),
        T("packed", SHAPE, dtype, values, sparsity=sparsity, **own),
        T("w", SHAPE, dtype, **own),
        constant("b", np.arange(8).astype(np.int32 if own else dtype), **bias),
        T("y", (5, 8), dtype, **result),
    ]  # fmt: skip
    densify = Op("DENSIFY", [1], [2], "DensifyOptions")
    layer = Op("FULLY_CONNECTED", [0, 2, 3], [4], "FullyConnectedOptions", version=4 if own else 1)
    return model(tensors, [densify, layer], [0], [4])


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
@pytest.mark.parametrize("form", FORMS)
def test_a_layer_with_sparse_weights_has_litert_s_results(form: str, dtype: Any) -> None:
    data, random = sparse_layer(form, dtype), np.random.default_rng(1)
    module, x = load_tflite(data), random.integers(-128, 128, (5, 12)).astype(dtype)
    for numerics in RESOLVERS:
        if dtype == np.int8 and numerics == "litert-xnnpack":
            continue  # LiteRT's delegate takes such a layer and then fails to prepare it
        follow(module, numerics)
        (want,) = run(interpreter(data, numerics), [x])
        found = qmlir.reference(module)(x)
        if dtype == np.int8:
            np.testing.assert_array_equal(found, want, numerics)
        np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_half_precision_weights_are_unpacked_too(form: str) -> None:
    sparsity, values = forms(matrix(np.float16))[form]
    tensors = [
        T("x", (1,)), T("p", SHAPE, np.float16, values, sparsity=sparsity), T("h", SHAPE, np.float16), T("f", SHAPE),
        T("y", SHAPE),
    ]  # fmt: skip
    operators = [Op("DENSIFY", [1], [2], "DensifyOptions"), Op("DEQUANTIZE", [2], [3], "DequantizeOptions", version=2),
                 Op("MUL", [3, 0], [4], "MulOptions")]  # fmt: skip
    module = load_tflite(model(tensors, operators, [0], [4]))
    np.testing.assert_array_equal(qmlir.reference(module)(np.ones(1, np.float32)), matrix(np.float32))


def test_levels_may_be_compressed_below_each_other_and_blocks_traversed_in_any_order() -> None:
    x = np.zeros((4, 6, 4), np.float32)
    x[1, 2:4] = np.arange(1, 9).reshape(2, 4)
    x[3, 0:2, 1] = 9, 10
    rows, columns = Level(0, np.array([0, 2]), np.array([1, 3])), Level(0, np.array([0, 1, 2]), np.array([1, 0]))
    values = [1, 5, 2, 6, 3, 7, 4, 8, 0, 0, 9, 10, 0, 0, 0, 0]
    sparsity = Read((0, 1, 2, 3), (1,), (rows, columns, Level(4), Level(2)))
    np.testing.assert_array_equal(dense(sparsity, np.array(values, np.float32), x.shape), x)


def lying(**changes: Any) -> bytes:
    """A file whose sparse tensor has another order, block map, levels or values."""
    sparsity, values = forms(matrix(np.float32))["rows"]
    values = changes.pop("values", values)
    parts = {"order": sparsity.order, "block_map": sparsity.block_map, "levels": sparsity.levels, **changes}
    tensors = [
        T("x", (1,)),
        T("p", SHAPE, np.float32, values, sparsity=Sparsity(**parts)),
        T("d", SHAPE),
        T("y", SHAPE),
    ]
    operators = [Op("DENSIFY", [1], [2], "DensifyOptions"), Op("MUL", [2, 0], [3], "MulOptions")]
    return model(tensors, operators, [0], [3])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": np.ones(3, np.float32)}, "values, got 3"),
        ({"order": [0, 0]}, "its order of traversal must name 2 dimensions"),
        ({"order": [0, 1, 2], "block_map": [5]}, "a level for each"),
        ({"levels": [8]}, "a level for each of 2 dimensions"),
        ({"levels": [1 << 30, 1 << 30]}, "at most 96 values"),
        ({"levels": [-1, 12]}, "at most 96 values"),
        ({"levels": [8, ([0, 1], [0], "int32")]}, "its 8 segments must be in order"),
        ({"levels": [1, ([0, -1], [], "int32")]}, "its 1 segments must be in order"),
        ({"levels": [1, ([0, 1], [99], "int32")], "values": np.ones(1, np.float32)}, "must lie in its shape"),
        ({"order": [0, 1, 2], "block_map": [1], "levels": [8, 12, 5]}, "its blocks of 5 must divide dimension 1"),
        ({"order": [0, 1, 2], "block_map": [1], "levels": [8, 12, 0]}, "its blocks must be dense"),
    ],
)
def test_a_description_that_lies_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FileError, match=message):
        load_tflite(lying(**changes))
