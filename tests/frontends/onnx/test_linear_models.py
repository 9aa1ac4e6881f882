"""Scalers and linear models of ai.onnx.ml, and scikit-learn's pipelines as skl2onnx exports them, with onnxruntime."""

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import qmlir
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.interfaces import Array
from tests.frontends.onnx.agreement import reason
from tests.frontends.onnx.test_detection import FLOAT, graph_of
from tests.frontends.onnx.test_trees import ML, with_domain

RNG = np.random.default_rng(2)
ROWS = np.array([[1, -2, 3], [0, 0, 0], [-1, -3, -2], [0.5, 0.5, 0]], np.float32)
COEFFICIENTS = (np.arange(9) * 0.25 - 0.4).tolist()


def ml(kind: str, inputs: str, outputs: str, /, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), domain=ML, **attributes)


def one(kind: str, x: Array, outputs: str = "y", **attributes: Any) -> onnx.ModelProto:
    """A model of one node that reads such an array."""
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    return with_domain(graph_of([ml(kind, "x", outputs, **attributes)], {"x": (element, x.shape)}, outputs.split()))


def alone(kind: str, x: Array, outputs: str = "y", **attributes: Any) -> None:
    """Compares a model of one node with onnxruntime."""
    equal(one(kind, x, outputs, **attributes), x)


def equal(proto: onnx.ModelProto, *inputs: Array) -> None:
    """Compares the reference with onnxruntime."""
    given = dict(zip((i.name for i in proto.graph.input), inputs, strict=True))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, given)
    network = load_onnx(proto)
    assert not opaque_report(network)
    got = qmlir.reference(network)(given)
    for ours, theirs in zip(got.values() if isinstance(got, dict) else [got], map(np.asarray, wanted), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_scaler(dtype: Any) -> None:
    x = ROWS.astype(dtype)
    alone("Scaler", x, offset=[1.0, 2.0, 3.0], scale=[2.0, 3.0, 4.0])
    alone("Scaler", x, offset=[1.0], scale=[2.0])
    alone("Scaler", x[0], offset=[1.0, 2.0, 3.0], scale=[2.0, 3.0, 4.0])
    alone("Scaler", np.stack([x, x]), offset=[1.0], scale=[2.0])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2", None])
def test_normalizer(norm: str | None) -> None:
    for x in (ROWS, ROWS[0], ROWS.astype(np.int64)):
        alone("Normalizer", x, **({} if norm is None else {"norm": norm}))


def test_imputer() -> None:
    x = np.array([[1, np.nan, 3], [0, np.inf, np.nan]], np.float32)
    alone("Imputer", x, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=np.nan)
    alone("Imputer", x, imputed_value_floats=[7.0], replaced_value_float=np.inf)
    alone("Imputer", x, imputed_value_floats=[7.0])
    alone("Imputer", x[0], imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=1.0)
    alone("Imputer", ROWS.astype(np.int64), imputed_value_int64s=[7], replaced_value_int64=3)


def test_features_of_several_inputs_and_of_categories() -> None:
    nodes = [ml("FeatureVectorizer", "x i", "y", inputdimensions=[3, 2])]
    proto = with_domain(graph_of(nodes, {"x": (FLOAT, [4, 3]), "i": (FLOAT, [4, 2])}, ["y"]))
    equal(proto, ROWS, ROWS[:, :2])
    alone("OneHotEncoder", ROWS.astype(np.int64), cats_int64s=[1, 3, 0], zeros=1)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_transforms(transform: str, count: int) -> None:
    """Scores are 0 in a row for SOFTMAX_ZERO, and lie in (0, 1) for PROBIT, whose onnxruntime fails on a single one."""
    scores = {
        "coefficients": COEFFICIENTS[: 3 * count], "intercepts": [0.1 * c for c in range(count)],
        "post_transform": transform,
    }  # fmt: skip
    x = RNG.uniform(0.02, 0.2, (5, 3)).astype(np.float32) if transform == "PROBIT" else ROWS
    scores["coefficients"] = (
        np.abs(COEFFICIENTS[: 3 * count]).tolist() if transform == "PROBIT" else COEFFICIENTS[: 3 * count]
    )
    alone("LinearRegressor", x, targets=count, **scores)
    if (transform, count) != ("PROBIT", 1):
        names = [4, 9] if count == 1 else [5, 2, 7][:count]
        alone("LinearClassifier", x, "y z", classlabels_ints=names, **scores)


def test_classes() -> None:
    """Equal scores give the first class; one score without names gives 0 and 1; one row may lack its dimension."""
    model = {"coefficients": [1.0, 2.0, 3.0] * 2, "intercepts": [0.5, 0.5], "classlabels_ints": [4, 5]}
    for x in (ROWS, ROWS[0], ROWS.astype(np.int64), ROWS.astype(np.float64)):
        alone("LinearClassifier", x, "y z", **model)
    alone("LinearClassifier", ROWS, "y z", coefficients=[1.0, 2.0, 3.0], intercepts=[0.0])
    alone("LinearRegressor", ROWS[0], coefficients=[1.0, 2.0, 3.0])


def test_what_is_refused() -> None:
    for kind, x, attributes, need in (
        ("Scaler", ROWS, {"offset": [1.0, 2.0], "scale": [1.0]}, "one value or 3 as its offset, got 2"),
        ("Scaler", ROWS, {}, "one value or 3 as its offset, got 0"),
        ("Normalizer", ROWS, {"norm": "L3"}, "MAX, L1 or L2, got L3"),
        ("Normalizer", ROWS[None], {}, "one dimension or two"),
        ("LinearRegressor", ROWS, {"coefficients": [1.0]}, r"1 · 3 coefficients, got 1"),
        ("LinearRegressor", ROWS[None], {"coefficients": [1.0]}, "one dimension or two"),
        ("LinearRegressor", ROWS, {"coefficients": [1.0] * 3, "intercepts": [1.0, 2.0]}, "1 intercepts, got 2"),
        ("LinearRegressor", ROWS, {"coefficients": [1.0] * 6, "targets": 2, "post_transform": "X"}, "post_transform"),
        ("LinearClassifier", ROWS, {"coefficients": [1.0] * 6, "intercepts": [0.0] * 2}, "names for 2 classes, got 0"),
    ):  # fmt: skip
        with pytest.raises(NodeError, match=need):
            load_onnx(one(kind, x, "y z" if kind == "LinearClassifier" else "y", **attributes))
    assert "3 offset for a tensor of 3 dimensions" in reason(
        one("Scaler", ROWS[None], offset=[1.0, 2.0, 3.0], scale=[1.0])
    )
    texts = one("OneHotEncoder", ROWS, cats_strings=["a"])
    assert "texts" in reason(texts)
    assert "no category" in reason(one("OneHotEncoder", ROWS.astype(np.int64), cats_int64s=[1], zeros=0))
    probit = {"coefficients": [1.0] * 3, "intercepts": [0.0], "classlabels_ints": [0, 1], "post_transform": "PROBIT"}
    assert "the probit" in reason(one("LinearClassifier", ROWS, "y z", **probit))


# ---------------------------------------------------------------------------------------------------------------
# Pipelines, node by node as skl2onnx 1.20 exports them


SCALER = ml("Scaler", "X", "s", offset=RNG.normal(0, 0.2, 6).tolist(), scale=RNG.uniform(0.9, 1.1, 6).tolist())


def layer(x: str, index: int, y: str) -> list[onnx.NodeProto]:
    nodes = [("MatMul", [x, f"w{index}"], f"m{index}"), ("Add", [f"m{index}", f"b{index}"], y)]
    return [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes]


def weights(*sizes: int) -> dict[str, Array]:
    pairs = list(pairwise(sizes))
    return {
        **{f"w{i}": RNG.normal(0, 1.0, pair).astype(np.float32) for i, pair in enumerate(pairs)},
        **{f"b{i}": RNG.normal(0, 0.2, (1, b)).astype(np.float32) for i, (_, b) in enumerate(pairs)},
    }


def chosen(scores: str, *, texts: bool) -> list[onnx.NodeProto]:
    """The label and the probabilities of a classifier that knows its classes by a table."""
    make = helper.make_node
    return [
        make("ArgMax", [scores], ["best"], axis=1),
        ml("ZipMap", scores, "output_probability", **({"classlabels_strings": ["a", "b", "c"]} if texts
                                                     else {"classlabels_int64s": [3, 7, 11]})),
        ml("ArrayFeatureExtractor", "classes best", "picked"),
        make("Reshape", ["picked", "flat"], ["label"]),
        *([make("Identity", ["label"], ["output_label"])] if texts else [
            make("Cast", ["label"], ["same"], to=TensorProto.INT64),
            make("Cast", ["same"], ["output_label"], to=TensorProto.INT64),
        ]),
    ]  # fmt: skip


def mlp_classifier(*, texts: bool) -> onnx.ModelProto:
    make = helper.make_node
    nodes = [
        SCALER, make("Cast", ["s"], ["c"], to=TensorProto.FLOAT), *layer("c", 0, "h"), make("Relu", ["h"], ["r"]),
        *layer("r", 1, "o"), make("Softmax", ["o"], ["p"], axis=1), *chosen("p", texts=texts),
    ]  # fmt: skip
    classes = np.array(["a", "b", "c"], object) if texts else np.array([3, 7, 11], np.int32)
    return pipeline(nodes, weights(6, 8, 3) | {"classes": classes, "flat": np.array([-1])})


def logistic_regression(*, texts: bool) -> onnx.ModelProto:
    names = {"classlabels_strings": ["a", "b", "c"]} if texts else {"classlabels_ints": [3, 7, 11]}
    keys = {"classlabels_strings": ["a", "b", "c"]} if texts else {"classlabels_int64s": [3, 7, 11]}
    nodes = [
        SCALER,
        ml("LinearClassifier", "s", "label scores", coefficients=RNG.normal(0, 1, 18).tolist(), multi_class=1,
           intercepts=[0.1, -0.1, 0.0], post_transform="SOFTMAX", **names),
        helper.make_node("Identity", ["label"], ["output_label"]) if texts
        else helper.make_node("Cast", ["label"], ["output_label"], to=TensorProto.INT64),
        ml("Normalizer", "scores", "p", norm="L1"),
        ml("ZipMap", "p", "output_probability", **keys),
    ]  # fmt: skip
    return pipeline(nodes, {})


def pipeline(nodes: list[onnx.NodeProto], constants: dict[str, Array], *outputs: str) -> onnx.ModelProto:
    names = outputs or ("output_label", "output_probability")
    proto = graph_of(nodes, {"X": (FLOAT, [None, 6])}, names, constants)  # type: ignore[list-item]
    proto.opset_import.append(helper.make_opsetid(ML, 1))
    return proto


def onnxruntimes(proto: onnx.ModelProto, x: Array) -> list[Array]:
    """The outputs; the dictionaries of a ZipMap as rows."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    given = session.run(None, {"X": x})
    return [np.asarray([list(row.values()) for row in y] if isinstance(y, list) else y) for y in given]


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("classifier", [mlp_classifier, logistic_regression])
def test_a_classifier_runs_as_exported(classifier: Any, texts: bool, tmp_path: Any) -> None:
    proto = classifier(texts=texts)
    onnx.save(proto, tmp_path / "model.onnx")
    network = qmlir.load(tmp_path / "model.onnx")
    x = RNG.normal(0, 1, (40, 6)).astype(np.float32)
    label, probabilities = onnxruntimes(proto, x)
    if texts:
        label = np.array([["a", "b", "c"].index(text) for text in label])
    got = qmlir.reference(load_onnx(proto, bind={"X.0": 40}))(x)
    np.testing.assert_array_equal(got["output_label"], label)
    np.testing.assert_allclose(got["output_probability"], probabilities, rtol=1e-5, atol=1e-6)
    assert {array.dtype for array in got.values()} == {np.dtype(np.int64), np.dtype(np.float32)}
    quantized = qmlir.quantize(network, data=[row[None] for row in x])
    ints = qmlir.compile(quantized, batch=40)(x)
    assert np.mean(ints["output_label"] == label) > 0.9
    assert np.abs(ints["output_probability"] - probabilities).max() < 0.08
    for place, row in enumerate(x[:3]):
        alone = qmlir.reference(quantized)(row[None])
        assert all(np.array_equal(alone[name][0], ints[name][place]) for name in ints)
    remarks = [entry.remark for entry in qmlir.decisions(quantized)]
    keys = '"a", "b", "c"' if texts else "3, 7, 11"
    left_out = f"ai.onnx.ml.ZipMap is left out: the result is its values, in the order of its keys {keys}"
    assert sum(left_out in remark for remark in remarks) == 1
    indices = 'the model\'s texts are their indices: 0 is "a", 1 is "b", 2 is "c"'
    assert sum(indices in remark for remark in remarks) == texts


@pytest.mark.slow
def test_regressions_run_as_exported() -> None:
    make = helper.make_node
    mlp = [SCALER, make("Cast", ["s"], ["c"], to=TensorProto.FLOAT), *layer("c", 0, "h"), make("Relu", ["h"], ["r"]),
           *layer("r", 1, "o"), make("Reshape", ["o", "column"], ["variable"])]  # fmt: skip
    linear = [SCALER, ml("LinearRegressor", "s", "variable", coefficients=[0.5, -1.0, 2.0, 0.1, 0.0, 1.0],
                         intercepts=[0.25])]  # fmt: skip
    x = RNG.normal(0, 1, (40, 6)).astype(np.float32)
    for nodes, constants in ((mlp, weights(6, 8, 1) | {"column": np.array([-1, 1])}), (linear, {})):
        proto = pipeline(nodes, constants, "variable")
        network = load_onnx(proto)
        (expected,) = onnxruntimes(proto, x)
        rows = load_onnx(proto, bind={"X.0": 40})
        np.testing.assert_allclose(qmlir.reference(rows)(x), expected, rtol=1e-5, atol=1e-5)
        quantized = qmlir.quantize(network, data=[row[None] for row in x], measure=False)  # all of them
        assert {entry.outcome for entry in qmlir.decisions(quantized)} == {"quantized"}
        noise = np.asarray(qmlir.compile(quantized, batch=40)(x)) - expected
        assert np.sqrt(np.mean(noise**2)) < 0.02 * expected.std()
