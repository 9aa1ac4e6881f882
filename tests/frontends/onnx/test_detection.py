"""Operators whose results have as many elements as the data say, against onnxruntime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import qmlir
from qmlir.errors import QmlirError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.interfaces import Array
from tests.conftest import crossed

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def graph_of(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, tuple[int, Sequence[int]]], outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def agree(proto: onnx.ModelProto, *samples: Mapping[str, Array], exact: bool = True) -> list[Mapping[str, Array]]:
    """Compares the reference and the CPU with onnxruntime; both give the same bits."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    module = load_onnx(proto)
    assert not opaque_report(module)
    reference, executable = qmlir.reference(module), qmlir.compile(module, cache=False)
    names, found = [o.name for o in proto.graph.output], list[Mapping[str, Array]]()
    for sample in samples:
        expected = dict(zip(names, map(np.asarray, session.run(None, dict(sample))), strict=True))
        for network in (reference, executable):
            got = network(dict(sample))
            got = got if isinstance(got, dict) else {names[0]: got}
            assert list(got) == names
            for name in names:
                assert got[name].dtype == expected[name].dtype
                if exact or expected[name].dtype.kind != "f":
                    np.testing.assert_array_equal(got[name], expected[name])
                else:
                    np.testing.assert_allclose(got[name], expected[name], rtol=1e-5, atol=1e-6)
        found.append(expected)
    return found


def boxes_and_scores(seed: int, images: int, classes: int, count: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    centers, sizes = rng.uniform(0, 4, (2, images, count, 2))
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], -1)
    return {"b": boxes.astype(np.float32), "s": rng.uniform(0, 1, (images, classes, count)).astype(np.float32)}


@crossed(
    {
        "limits": [{}, {"most": [4]}, {"most": [30], "iou": [0.3]}, {"most": [9], "iou": [0.6], "least": [0.5]}],
        "center": [0, 1],
    }
)
def test_non_max_suppression(limits: Mapping[str, Any], center: int) -> None:
    names = [n if n in limits else "" for n in ("most", "iou", "least")]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node("NonMaxSuppression", ["b", "s", *names], ["y"], center_point_box=center)
    constants = {n: np.array(v, np.int64 if n == "most" else np.float32) for n, v in limits.items()}
    proto = graph_of([node], {"b": (FLOAT, [2, 20, 4]), "s": (FLOAT, [2, 3, 20])}, ["y"], constants)
    samples = [boxes_and_scores(seed, 2, 3, 20) for seed in (1, 2)]
    samples.append({**samples[0], "s": np.round(samples[0]["s"], 1)})  # equal scores
    if center:
        samples = [{**s, "b": np.abs(s["b"])} for s in samples]
    found = agree(proto, *samples, {**samples[0], "s": -samples[0]["s"]})
    assert len({len(f["y"]) for f in found}) > 1 or "least" not in limits


def test_constant_boxes_are_computed_at_import() -> None:
    given = boxes_and_scores(3, 1, 2, 12)
    node = helper.make_node("NonMaxSuppression", ["b", "s", "most", "iou"], ["y"])
    constants = {**given, "most": np.array([5], np.int64), "iou": np.array([0.4], np.float32)}
    proto = graph_of([node, helper.make_node("Add", ["y", "x"], ["z"])], {"x": (INT64, [1])}, ["z"], constants)
    agree(proto, {"x": np.array([7])})


@pytest.mark.parametrize("type", [FLOAT, INT64, BOOL])
def test_non_zero(type: int) -> None:
    proto = graph_of([helper.make_node("NonZero", ["x"], ["y"])], {"x": (type, [3, 4])}, ["y"])
    rng, dtype = np.random.default_rng(0), helper.tensor_dtype_to_np_dtype(type)
    samples = [(rng.uniform(0, 1, (3, 4)) < share).astype(dtype) for share in (0, 0.4, 1)]
    assert [len(f["y"][0]) for f in agree(proto, *({"x": s} for s in samples))][::2] == [0, 12]


def test_what_rows_go_through() -> None:
    """Rows whose number the data say pass operations that treat each of them by itself."""
    nodes = [
        helper.make_node("Greater", ["x", "least"], ["chosen"]),
        helper.make_node("NonZero", ["chosen"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["values"]),
        helper.make_node("Mul", ["values", "values"], ["squares"]),
        helper.make_node("Unsqueeze", ["squares", "one"], ["column"]),
        helper.make_node("Cast", ["rows"], ["whole"], to=FLOAT),
        helper.make_node("Concat", ["column", "whole"], ["y"], axis=-1),
        helper.make_node("Gather", ["rows", "last"], ["z"], axis=1),
        helper.make_node("ReduceSum", ["y", "one"], ["sums"], keepdims=0),
        helper.make_node("Shape", ["z"], ["size"]),
    ]
    constants = {"least": np.float32(0.5), "one": np.array([1]), "last": np.array(1)}
    proto = graph_of(nodes, {"x": (FLOAT, [3, 5])}, ["y", "z", "sums", "size"], constants)
    rng = np.random.default_rng(0)
    agree(proto, *({"x": rng.normal(size=(3, 5)).astype(np.float32)} for _ in range(3)), exact=False)


def test_compress_by_a_computed_condition() -> None:
    for axis, size in ((0, 3), (1, 4), (None, 10)):
        given: dict[str, Any] = {} if axis is None else {"axis": axis}
        node = helper.make_node("Compress", ["x", "c"], ["y"], **given)
        proto = graph_of([node], {"x": (FLOAT, [3, 4]), "c": (BOOL, [size])}, ["y"])
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        agree(proto, *({"x": x, "c": np.arange(size) % step == 0} for step in (1, 2, 3)))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_computed_number_of_greatest_elements(axis: int) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis)
    proto = graph_of([node], {"x": (FLOAT, [4, 5]), "k": (INT64, [1])}, ["v", "i"])
    x = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    agree(proto, *({"x": x, "k": np.array([k])} for k in (0, 1, 4)))


@pytest.mark.parametrize(
    ("nodes", "operator"),
    [
        ([helper.make_node("ReduceSum", ["p", "one"], ["y"])], "ReduceSum"),
        ([helper.make_node("Concat", ["p", "p"], ["y"], axis=1)], "Concat"),
        ([helper.make_node("Slice", ["p", "one", "two", "one"], ["y"])], "Slice"),
        ([helper.make_node("TopK", ["p", "one"], ["y", "i"])], "TopK"),
        ([helper.make_node("Size", ["p"], ["y"])], "Size"),
        ([helper.make_node("EyeLike", ["p"], ["y"])], "EyeLike"),
        ([helper.make_node("Shape", ["p"], ["h"]), helper.make_node("Reshape", ["p", "h"], ["y"])], "Reshape"),
        ([helper.make_node("NonZero", ["b"], ["q"]), helper.make_node("Add", ["p", "q"], ["y"])], "Add"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_operators_that_need_to_know_how_many(nodes: Sequence[onnx.NodeProto], operator: str) -> None:
    constants = {"one": np.array([1]), "two": np.array([2])}
    inputs = {"a": (FLOAT, [2, 3]), "b": (FLOAT, [2, 3])}
    proto = graph_of([helper.make_node("NonZero", ["a"], ["p"]), *nodes], inputs, ["y"], constants)
    (kind,) = opaque_report(load_onnx(proto))
    assert kind.kind == f"onnx.{operator}"
    reasons = (
        'only the data say how many elements along axis 1 of "p" there are, up to 6', "each a number of its own",
        "is computed at run time and must be constant",
    )  # fmt: skip
    assert any(reason in kind.reason for reason in reasons)


def test_limits_that_are_computed() -> None:
    node = helper.make_node("NonMaxSuppression", ["b", "s", "most"], ["y"])
    proto = graph_of([node], {"b": (FLOAT, [1, 6, 4]), "s": (FLOAT, [1, 1, 6]), "most": (INT64, [1])}, ["y"])
    (kind,) = opaque_report(load_onnx(proto))
    assert 'its max_output_boxes_per_class "most" is computed at run time' in kind.reason


def test_wrong_shapes() -> None:
    node = helper.make_node("NonMaxSuppression", ["b", "s", "most"], ["y"])
    inputs = {"b": (FLOAT, [1, 6, 4]), "s": (FLOAT, [1, 1, 7])}
    proto = graph_of([node], inputs, ["y"], {"most": np.array([3])})
    with pytest.raises(QmlirError, match=r"needs boxes \[N, B, 4\] and scores \[N, C, B\]"):
        load_onnx(proto)
