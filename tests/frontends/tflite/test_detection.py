"""TFLite's operators of detection against LiteRT, and options of custom operators."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flatbuffers.flexbuffers as flexbuffers
import numpy as np
import pytest

import qmlir
from qmlir.errors import QmlirError
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from qmlir.frontends.tflite.flexbuffers import read_map
from tests.conftest import crossed
from tests.frontends.tflite.files import Array, Op, T, constant, litert, model

COUNT = 60

OPTIONS: Mapping[str, Any] = {
    "max_detections": 8, "max_classes_per_detection": 1, "detections_per_class": 5, "use_regular_nms": False,
    "nms_score_threshold": 0.3, "nms_iou_threshold": 0.4, "num_classes": 3,
    "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


def anchors() -> Array:
    rng = np.random.default_rng(5)
    return np.concatenate([rng.uniform(0, 1, (COUNT, 2)), rng.uniform(0.1, 0.4, (COUNT, 2))], 1).astype(np.float32)


def post_process(options: Mapping[str, Any] | bytes, *, listed: int = 4, stored: Any = np.float32) -> bytes:
    """A file with the operator on encodings and scores from outside."""
    quantized = [{"scale": [s], "zero": [z]} if stored is np.uint8 else {} for s, z in ((0.05, 128), (1 / 256, 0))]
    whole = options if isinstance(options, dict) else OPTIONS
    most = int(whole["max_detections"] * whole["max_classes_per_detection"])
    tensors = [
        T("encodings", (1, COUNT, 4), stored, **quantized[0]), T("scores", (1, COUNT, listed), stored, **quantized[1]),
        constant("anchors", np.round(anchors() * 255).astype(np.uint8), scale=[1 / 255]) if stored is np.uint8
        else constant("anchors", anchors()),
        T("boxes", (1, most, 4)), T("classes", (1, most)), T("best", (1, most)), T("number", (1,)),
    ]  # fmt: skip
    op = Op("CUSTOM.TFLite_Detection_PostProcess", [0, 1, 2], [3, 4, 5, 6], options=options)
    return model(tensors, [op], [0, 1], [3, 4, 5, 6])


def results(data: bytes, inputs: Sequence[Array]) -> list[Array]:
    """The results of the reference, which the CPU has too."""
    module = load_tflite(data)
    assert not opaque_report(module)
    names = [s.name for s in qmlir.reference(module).signature.inputs]
    given = dict(zip(names, inputs, strict=True))
    found = qmlir.reference(module).run(given)
    for one, other in zip(found, qmlir.compile(module, cache=False).run(given), strict=True):
        np.testing.assert_array_equal(one, other)
    return found


def drawn(seed: int, listed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    shapes = (1, COUNT, 4), (1, COUNT, listed)
    return [rng.normal(0, 3, shapes[0]).astype(np.float32), rng.uniform(0, 1, shapes[1]).astype(np.float32)]


@crossed(
    {
        "changed": [
            {},
            {"max_classes_per_detection": 2},
            {"max_classes_per_detection": 5, "max_detections": 3},
            {"use_regular_nms": True},
            {"use_regular_nms": True, "max_detections": 40, "detections_per_class": 100},
            {"nms_score_threshold": 0.97},
            {"nms_iou_threshold": 1.0},
        ],
        "listed": [3, 4],
    }
)
def test_post_process(changed: Mapping[str, Any], listed: int) -> None:
    options = {**OPTIONS, **changed}
    data = post_process(options, listed=listed)
    for seed in (1, 2):
        inputs = drawn(seed, listed)
        got, want = results(data, inputs), litert(data, inputs)
        number = int(want[3][0])
        np.testing.assert_array_equal(got[3], want[3])
        filled = number * (1 if options["use_regular_nms"] else options["max_classes_per_detection"])
        shown = min(options["max_classes_per_detection"], 3)
        for one, other in zip(got[:3], want[:3], strict=True):
            assert one.shape == other.shape
            one_each, other_each = (a[0, :filled].reshape(number, -1, *a.shape[2:])[:, :shown] for a in (one, other))
            np.testing.assert_array_equal(one_each, other_each)
            assert not one[0, filled:].any()  # LiteRT leaves what was in memory


def test_post_process_of_bytes() -> None:
    data = post_process(OPTIONS, stored=np.uint8)
    rng = np.random.default_rng(3)
    inputs = [rng.integers(0, 256, (1, COUNT, n)).astype(np.uint8) for n in (4, 4)]
    inputs[1] = rng.permutation(COUNT * 4).astype(np.uint8).reshape(1, COUNT, 4)
    got, want = results(data, inputs), litert(data, inputs)
    number = int(want[3][0])
    assert number > 1
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one.reshape(-1)[: number * 4], other.reshape(-1)[: number * 4])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {k: v for k, v in OPTIONS.items() if k != "num_classes"},
            "it needs its option num_classes, a number, got none",
        ),
        (b"no map", "its options must be a flexbuffer of names with numbers, got another format"),
        ({**OPTIONS, "num_classes": 9}, r"its inputs must be encodings \[1, B, 4 or more\], scores \[1, B, 9 or 10\]"),
        ({**OPTIONS, "max_detections": 0}, "it must find at least one detection"),
    ],
)
def test_options_that_cannot_be(options: Mapping[str, Any] | bytes, error: str) -> None:
    with pytest.raises(QmlirError, match=error):
        load_tflite(post_process(options))


def test_an_option_that_is_not_known() -> None:
    (kind,) = opaque_report(load_tflite(post_process({**OPTIONS, "soft": 1, "_origin": 2})))
    assert kind.reason == "qmlir does not know its option soft = 1"


# ---------------------------------------------------------------------------------------------------------------
# Suppression of one class, and places


def suppression(version: int, most: int, overlap: float, least: float, sigma: float = 0.0) -> bytes:
    limits = [constant("m", most, np.int32), constant("o", overlap, np.float32), constant("l", least, np.float32)]
    tensors = [T("b", (COUNT, 4)), T("s", (COUNT,)), *limits, constant("sigma", sigma, np.float32)]
    outputs = [T("kept", (most,), np.int32), *([T("best", (most,))] if version == 5 else []), T("n", (), np.int32)]
    places = [6 + i for i in range(len(outputs))]
    op = Op(f"NON_MAX_SUPPRESSION_V{version}", [0, 1, 2, 3, 4, *([5] if version == 5 else [])], places)
    return model([*tensors, *outputs], [op], [0, 1], places)


@crossed({"limits": [(5, 0.3, 0.0), (80, 0.5, 0.4), (10, 1.0, 0.99)], "version": [4, 5]})
def test_non_max_suppression(version: int, limits: tuple[int, float, float]) -> None:
    data = suppression(version, *limits)
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        centers, sizes = rng.uniform(0, 3, (2, COUNT, 2))
        boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], 1).astype(np.float32)
        inputs = [boxes, rng.uniform(0, 1, COUNT).astype(np.float32)]
        for got, want in zip(results(data, inputs), litert(data, inputs), strict=True):
            np.testing.assert_array_equal(got, want)


def test_scores_that_are_lowered() -> None:
    (kind,) = opaque_report(load_tflite(suppression(5, 4, 0.5, 0.1, sigma=0.5)))
    assert "its sigma is not 0" in kind.reason


def chosen(type: Any = np.float32) -> bytes:
    """A file with the places of the elements that are not zero."""
    tensors = [T("c", (3, 4), type), T("y", (12, 2), np.int64, signature=(-1, 2))]
    return model(tensors, [Op("WHERE", [0], [1])], [0], [1])


@pytest.mark.parametrize("type", [np.bool_, np.float32, np.int32])
def test_where(type: Any) -> None:
    data = chosen(type)
    module = load_tflite(data)
    for share in (0.0, 0.4, 1.0):
        c = (np.random.default_rng(1).uniform(0, 1, (3, 4)) < share).astype(type)
        for network in (qmlir.reference(module), qmlir.compile(module, cache=False)):
            np.testing.assert_array_equal(network(c), litert(data, [c])[0] if share else np.zeros((0, 2), np.int64))


def test_a_size_that_the_data_say() -> None:
    """A file states some size of what is found, and the size itself is refused."""
    tensors = [T("c", (3, 4)), T("y", (3, 2), np.int64), T("n", (2,), np.int32)]
    shape = Op("SHAPE", [1], [2], "ShapeOptions", {"OutType": 2})
    assert not opaque_report(load_tflite(model(tensors, [Op("WHERE", [0], [1])], [0], [1])))
    (kind,) = opaque_report(load_tflite(model(tensors, [Op("WHERE", [0], [1]), shape], [0], [2])))
    assert (kind.kind, "only the data say how many elements along axis 0" in kind.reason) == ("tflite.SHAPE", True)


# ---------------------------------------------------------------------------------------------------------------
# A detector: convolutions, encodings and scores, post-processing


def detector() -> bytes:
    """An image [1, 12, 12, 3] → features → encodings and scores of 36 boxes → detections."""
    rng = np.random.default_rng(11)

    def weights(name: str, *shape: int) -> T:
        return constant(name, rng.normal(0, 0.6, shape).astype(np.float32))

    grid = (np.indices((6, 6)).reshape(2, -1).T + 0.5) / 6
    boxes = np.concatenate([grid, np.full((36, 2), 0.4)], 1).astype(np.float32)
    conv = "Conv2DOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2, "DilationHFactor": 1, "DilationWFactor": 1}
    head = "Conv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    tensors = [
        T("image", (1, 12, 12, 3)), weights("w", 8, 3, 3, 3), weights("b", 8), T("features", (1, 6, 6, 8)),
        weights("we", 4, 1, 1, 8), weights("be", 4), T("e", (1, 6, 6, 4)), constant("se", [1, 36, 4], np.int32),
        T("encodings", (1, 36, 4)), weights("ws", 3, 1, 1, 8), weights("bs", 3), T("s", (1, 6, 6, 3)),
        constant("ss", [1, 36, 3], np.int32), T("logits", (1, 36, 3)), T("scores", (1, 36, 3)),
        constant("anchors", boxes), T("boxes", (1, 8, 4)), T("classes", (1, 8)), T("best", (1, 8)), T("number", (1,)),
    ]  # fmt: skip
    options = {**OPTIONS, "nms_score_threshold": 0.55}
    ops = [
        Op("CONV_2D", [0, 1, 2], [3], conv[0], {**conv[1], "FusedActivationFunction": 1}),
        Op("CONV_2D", [3, 4, 5], [6], *head), Op("RESHAPE", [6, 7], [8], "ReshapeOptions", {}),
        Op("CONV_2D", [3, 9, 10], [11], *head), Op("RESHAPE", [11, 12], [13], "ReshapeOptions", {}),
        Op("LOGISTIC", [13], [14]),
        Op("CUSTOM.TFLite_Detection_PostProcess", [8, 14, 15], [16, 17, 18, 19], options=options),
    ]  # fmt: skip
    return model(tensors, ops, [0], [16, 17, 18, 19])


@pytest.mark.slow
def test_a_detector_is_quantized_and_compiled(tmp_path: Path) -> None:
    data = detector()
    images = np.random.default_rng(2).normal(size=(8, 1, 12, 12, 3)).astype(np.float32)
    module = load_tflite(data)
    for image in images[:3]:
        for got, want in zip(qmlir.compile(module, cache=False).run(image), litert(data, [image]), strict=True):
            number = int(litert(data, [image])[3][0])
            shown = [a.reshape(-1)[: number * (4 if a.ndim == 3 else 1)] if a.ndim > 1 else a for a in (got, want)]
            np.testing.assert_allclose(*shown, rtol=1e-5, atol=1e-6)
    q = qmlir.quantize(qmlir.Pipeline("simplify")(module), data=list(images))
    reasons = {entry.reason for entry in qmlir.decisions(q) if entry.operation == "nn.non_max_suppression"}
    assert len(reasons) == 1
    assert "it is detection post-processing, which is computed on floats" in reasons.pop()
    assert sum(entry.outcome == "quantized" for entry in qmlir.decisions(q) if entry.operation == "nn.conv2d") == 3
    executable, reference = qmlir.compile(q, cache=False), qmlir.reference(q)
    for image in images:
        for one, other in zip(executable.run(image), reference.run(image), strict=True):
            np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------------------------------------------------------
# Flexbuffers


def test_options_of_each_type() -> None:
    given = {"a": -3, "b": 1 << 40, "c": 0.5, "d": -0.1, "e": True, "f": False, "text": "left out", "list": [1, 2]}
    assert read_map(bytes(flexbuffers.Dumps(given))) == {
        k: v for k, v in given.items() if not isinstance(v, str | list)
    }


def test_damaged_options() -> None:
    data = bytes(flexbuffers.Dumps(dict(OPTIONS)))
    rng = np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(data[: rng.integers(0, len(data) + 1)] if rng.integers(2) else data)
        for at in rng.integers(0, max(len(damaged), 1), 3):
            if damaged:
                damaged[at] = rng.integers(0, 256)
        try:
            read_map(bytes(damaged))
        except ValueError:
            continue
