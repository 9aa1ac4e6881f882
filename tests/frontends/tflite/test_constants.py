"""Operators whose results are known at import: shapes, ranges, places of constants. LiteRT is the oracle."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from tests.frontends.tflite.files import Op, T, constant, model
from tests.frontends.tflite.test_cases import assert_agrees

pytestmark = pytest.mark.filterwarnings("ignore")

X = T("x", (2, 3))
CASES: dict[str, tuple[str, Sequence[T], Sequence[T]]] = {
    "SHAPE": ("ShapeOptions", [X], [T("y", (2,), np.int32)]),
    "RANK": ("", [X], [T("y", (), np.int32)]),
    "RANGE": (
        "",
        [constant(n, v, np.float32) for n, v in (("a", 0.5), ("b", 3.0), ("c", 0.75))],
        [T("y", (4,), np.float32)],
    ),
    "WHERE": ("", [constant("c", np.array([[True, False], [False, True]]))], [T("y", (2, 2), np.int64)]),
    "UNIQUE": (
        "UniqueOptions",
        [constant("v", [7, 3, 7, 1], np.int32)],
        [T("y", (3,), np.int32), T("i", (4,), np.int32)],
    ),
    "BROADCAST_ARGS": (
        "",
        [constant("a", [2, 1, 4], np.int32), constant("b", [3, 1], np.int32)],
        [T("y", (3,), np.int32)],
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_known_at_import(kind: str) -> None:
    options, inputs, outputs = CASES[kind]
    values = {"IdxOutType": 2} if kind == "UNIQUE" else {"OutType": 2} if kind == "SHAPE" else {}
    n, m = len(inputs), len(outputs)
    op = Op(kind, range(n), range(n, n + m), options, values)
    fed = [i for i, t in enumerate(inputs) if t.data is None]
    data = model([*inputs, *outputs], [op], fed, list(op.outputs))
    assert_agrees(data, [np.ones((2, 3), np.float32) for _ in fed], 0)


@pytest.mark.parametrize("plain", [{}, {"scale": [0.25], "zero": [1]}])
@pytest.mark.parametrize("quantized", [{}, {"scale": [0.5], "zero": [3]}])
def test_what_a_pad_adds_is_the_stored_integer(quantized: dict[str, Any], plain: dict[str, Any]) -> None:
    tensors = [
        T("x", (2,), np.int8, None, **quantized),
        constant("p", [[1, 1]], np.int32),
        constant("v", np.array(7, np.int8), **plain),
        T("y", (4,), np.int8, None, **quantized),
    ]
    data = model(tensors, [Op("PADV2", [0, 1, 2], [3], "PadV2Options")], [0], [3])
    np.testing.assert_array_equal(qmlir.reference(load_tflite(data))(np.array([1, 2], np.int8)), [7, 1, 2, 7])
