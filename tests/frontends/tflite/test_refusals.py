"""What converters of single operators do not take: opaque with a reason; and what cannot be: an error that says so."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from qmlir.errors import QmlirError
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from tests.frontends.tflite.files import Op, T, constant, model

Parts = tuple[Op, Sequence[T], Sequence[T]]
"""An operator, tensors it reads and tensors it makes."""

QUANTIZED = {"dtype": np.int8, "scale": [0.5], "zero": [0]}
X = T("x", (4, 5))
IDS = T("ids", (4,), np.int32)


def i32(name: str, values: Any) -> T:
    return constant(name, values, np.int32)


def f32(name: str, values: Any) -> T:
    return constant(name, values, np.float32)


def file(parts: Parts) -> bytes:
    op, inputs, outputs = parts
    tensors = [*inputs, *outputs]
    numbers = range(len(inputs)), range(len(inputs), len(tensors))
    made = Op(op.kind, *numbers, op.options_kind, op.options)
    return model(tensors, [made], [i for i, t in enumerate(inputs) if t.data is None], list(numbers[1]))


def op(kind: str, options_kind: str = "", **options: Any) -> Op:
    return Op(kind, [], [], options_kind, options)


REFUSALS: dict[str, tuple[Parts, str]] = {
    "depth that is computed": (
        (op("ONE_HOT"), [T("i", (4,), np.int32), T("d", (), np.int32), f32("on", 1), f32("off", 0)], [T("y", (4, 5))]),
        'its depth "d" is computed at run time and must be constant',
    ),
    "dilations that are computed": (
        (op("DILATE"), [X, T("d", (2,), np.int32), f32("v", 0)], [T("y", (7, 9))]),
        'its dilations "d" is computed at run time and must be constant',
    ),
    "padding between elements that is computed": (
        (op("DILATE"), [X, i32("d", [2, 2]), T("v", ())], [T("y", (7, 9))]),
        'its padding value "v" is computed at run time and must be constant',
    ),
    "a scalar": ((op("WHERE"), [T("x", ())], [T("y", (3, 0), np.int64)]), "its condition is a scalar"),
    "unknown elements": (
        (op("UNIQUE", "UniqueOptions", IdxOutType=2), [IDS], [T("y", (4,), np.int32), T("i", (4,), np.int32)]),
        "the shape of its result is known only when it runs",
    ),
    "unknown range": (
        (op("RANGE"), [i32("a", 0), T("n", (), np.int32), i32("c", 1)], [T("y", (4,), np.int32)]),
        "the shape of its result is known only when it runs",
    ),
    "lengths that are computed": (
        (op("REVERSE_SEQUENCE", "ReverseSequenceOptions", SeqDim=1, BatchDim=0), [X, IDS], [T("y", (4, 5))]),
        'its lengths "ids" is computed',
    ),
    "segments that are computed": (
        (op("UNSORTED_SEGMENT_SUM"), [X, IDS, i32("n", 3)], [T("y", (3, 5))]),
        'its segments "ids" is computed',
    ),
    "quantized updates": (
        (op("SCATTER_ND"), [i32("i", [[0]]), T("u", (1, 5), **QUANTIZED), i32("s", [4, 5])],
         [T("y", (4, 5), **QUANTIZED)]),
        "it combines numbers that are quantized",
    ),
    "quantized zeros": ((op("ZEROS_LIKE"), [T("x", (4,), **QUANTIZED)], [T("y", (4,), **QUANTIZED)]), "like a quant"),
    "bits of another width": ((op("BITCAST"), [X], [T("y", (4, 5, 2), np.int16)]), "it changes the number of elements"),
    "levels": (
        (op("FAKE_QUANT", "FakeQuantOptions", Min=-1.0, Max=1.0, NumBits=4), [X], [T("y", (4, 5))]),
        "it counts in 4 bits",
    ),
    "halves into quantized": ((op("EXP"), [T("x", (4,), np.float16)], [T("y", (4,), **QUANTIZED)]), "quantizes f16"),
    "narrow levels": (
        (op("FAKE_QUANT", "FakeQuantOptions", Min=-1.0, Max=1.0, NumBits=8, NarrowRange=True), [X], [T("y", (4, 5))]),
        "qmlir does not know its option narrow_range",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSALS)
def test_opaque(what: str) -> None:
    parts, reason = REFUSALS[what]
    (kind,) = opaque_report(load_tflite(file(parts)))
    assert reason in kind.reason


LIES: dict[str, tuple[Parts, str]] = {
    "more elements than there are": (
        (op("TOPK_V2"), [X, i32("k", 6)], [T("y", (4, 6)), T("i", (4, 6), np.int32)]),
        r"its k must lie in the last of \[4, 5\], got 6",
    ),
    "boundaries that descend": (
        (op("BUCKETIZE", "BucketizeOptions", Boundaries=[1.0, 0.0]), [X], [T("y", (4, 5), np.int32)]),
        "its boundaries must ascend",
    ),
    "another diagonal": (
        (op("MATRIX_SET_DIAG"), [X, T("d", (5,))], [T("y", (4, 5))]),
        "its diagonal must have as many elements",
    ),
    "a step of 0": (
        (op("RANGE"), [i32("a", 0), i32("b", 4), i32("c", 0)], [T("y", (4,), np.int32)]),
        "a step that is not 0",
    ),
    "shapes apart": (
        (op("BROADCAST_ARGS"), [i32("a", [2, 3]), i32("b", [2, 4])], [T("y", (2,), np.int32)]),
        "its shapes must broadcast",
    ),
    "a place outside": (
        (op("SCATTER_ND"), [i32("i", [[4]]), T("u", (1, 5)), i32("s", [4, 5])], [T("y", (4, 5))]),
        r"its indices must lie inside \[4, 5\], got \[4\]",
    ),
    "a segment outside": (
        (op("UNSORTED_SEGMENT_SUM"), [X, i32("ids", [0, 1, 2, 3]), i32("n", 3)], [T("y", (3, 5))]),
        "it needs a segment below 3 for each row",
    ),
    "segments that descend": (
        (op("SEGMENT_SUM"), [X, i32("ids", [0, 1, 0, 1])], [T("y", (2, 5))]),
        "it needs segments in ascending order",
    ),
    "an update that is too large": (
        (op("DYNAMIC_UPDATE_SLICE"), [X, T("u", (5, 5)), i32("s", [0, 0])], [T("y", (4, 5))]),
        "its update must fit its input",
    ),
    "a dilation too few": (
        (op("DILATE"), [X, i32("d", [2]), f32("v", 0)], [T("y", (7, 5))]),
        r"it needs 2 dilations of at least 1, got \[2\]",
    ),
    "a dilation of 0": (
        (op("DILATE"), [X, i32("d", [2, 0]), f32("v", 0)], [T("y", (7, 5))]),
        r"it needs 2 dilations of at least 1, got \[2, 0\]",
    ),
    "two values between elements": (
        (op("DILATE"), [X, i32("d", [2, 2]), f32("v", [0, 1])], [T("y", (7, 9))]),
        "its padding value must be one number",
    ),
    "an infinity between integers": (
        (op("DILATE"), [T("x", (4,), np.int32), i32("d", [2]), f32("v", np.inf)], [T("y", (7,), np.int32)]),
        "its padding value must be of its input's type, i32, got f32",
    ),
    "a value around bytes that is wider": (
        (op("PADV2", "PadV2Options"), [T("x", (4,), np.int8), i32("p", [[1, 1]]), i32("v", 300)],
         [T("y", (6,), np.int8)]),
        "its padding value must be of its input's type, i8, got i32",
    ),
    "a length outside": (
        (op("REVERSE_SEQUENCE", "ReverseSequenceOptions", SeqDim=1, BatchDim=0), [X, i32("n", [6, 0, 0, 0])],
         [T("y", (4, 5))]),
        "it needs lengths along axis 1 for each of axis 0",
    ),
    "batches apart": (
        (op("GATHER", "GatherOptions", Axis=1, BatchDims=1), [X, i32("i", [[0]])], [T("y", (4, 1))]),
        "must begin with the same dimensions",
    ),
    "a range without 0": (
        (op("FAKE_QUANT", "FakeQuantOptions", Min=1.0, Max=2.0, NumBits=8), [X], [T("y", (4, 5))]),
        "its range must include 0",
    ),
    "a window larger than the volume": (
        (op("CONV_3D", "Conv3DOptions", Padding=1, StrideD=1, StrideH=1, StrideW=1),
         [T("v", (1, 2, 2, 2, 1)), f32("w", np.zeros((3, 1, 1, 1, 1)))], [T("y", (1, 1, 2, 2, 1))]),
        "its window must fit into its input",
    ),
    "weights of another rank": (
        (op("CONV_3D", "Conv3DOptions", Padding=1, StrideD=1, StrideH=1, StrideW=1), [X, f32("w", np.zeros((3, 1)))],
         [T("y", (1, 1))]),
        "weights of rank 5",
    ),
    "a buffer of 4-bit numbers": (
        (op("RELU"), [T("w", (2, 3), 17, np.zeros(4, np.uint8))], [T("y", (2, 3))]),
        "must have 3 bytes, got 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_lie(lie: str) -> None:
    parts, message = LIES[lie]
    with pytest.raises(QmlirError, match=message) as caught:
        load_tflite(file(parts))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("HASHTABLE_SIZE", "it is of a table of keys and values"),
        ("SKIP_GRAM", "it works on strings"),
        ("COMPLEX_ABS", "it works on complex numbers"),
        ("CUSTOM.Mine", "qmlir has no converter for it"),
    ],
)
def test_operators_without_a_converter(kind: str, reason: str) -> None:
    (found,) = opaque_report(load_tflite(file((op(kind), [X], [T("y", (4, 5))]))))
    assert reason in found.reason


def test_boxes_of_integers_have_no_suppression() -> None:
    boxes, scores = T("b", (4, 4), **QUANTIZED), T("s", (4,), **QUANTIZED)
    limits = [i32("most", 4), f32("overlap", 0.5), f32("least", 0.1)]
    outputs = [T("i", (4,), np.int32), T("n", (), np.int32)]
    (found,) = opaque_report(load_tflite(file((op("NON_MAX_SUPPRESSION_V4"), [boxes, scores, *limits], outputs))))
    assert "its boxes and scores are stored as integers" in found.reason
