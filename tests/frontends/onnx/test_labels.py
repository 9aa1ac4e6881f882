"""Names of classes: integers, and texts, which become their indices."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import DictionaryAttr, UnitAttr

import qmlir
from qmlir.errors import FileError, NodeError, PipelineError
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.facts import REMARKS
from qmlir.ir.interfaces import Array
from qmlir.policies.ledger import decisions
from tests.frontends.onnx.agreement import reason
from tests.frontends.onnx.test_detection import FLOAT, INT64, graph_of
from tests.frontends.onnx.test_linear_models import equal, ml, onnxruntimes
from tests.frontends.onnx.test_trees import with_domain

X = np.array([[1, -2, 3], [0, 0, 0], [-1, -3, -2]], np.float32)
WORDS = np.array(["cat", "dog", "ox"], object)


def encoder(x: Array, **attributes: Any) -> onnx.ModelProto:
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    return with_domain(graph_of([ml("LabelEncoder", "x", "y", **attributes)], {"x": (element, x.shape)}, ["y"]))


@pytest.mark.parametrize(
    ("dtype", "attributes"),
    [
        (np.int64, {"keys_int64s": [1, 3, 3], "values_int64s": [10, 30, 31]}),
        (np.int64, {"keys_int64s": [3, 0], "values_int64s": [5, 6], "default_int64": 77}),
        (np.int64, {"keys_int64s": [1, 3], "values_floats": [0.5, 2.5]}),
        (np.float32, {"keys_floats": [1.0, 3.0, -2.0], "values_int64s": [10, 30, 5]}),
        (np.float32, {"keys_floats": [1.0, 3.0], "values_floats": [10.0, 30.0], "default_float": 4.5}),
        (np.float32, {"keys_floats": [1.0, 3.0], "values_floats": [0.0, 0.0]}),
    ],
)
def test_label_encoder(dtype: Any, attributes: dict[str, Any]) -> None:
    equal(encoder(X.astype(dtype), **attributes), X.astype(dtype))


def test_label_encoder_with_tensors() -> None:
    keys, values, default = (numpy_helper.from_array(np.array(a, np.int64)) for a in ([1, 3], [7, 8], [9]))
    x = X.astype(np.int64)
    equal(encoder(x, keys_tensor=keys, values_tensor=values, default_tensor=default), x)


def with_texts(*nodes: onnx.NodeProto, outputs: str = "y", version: int = 5) -> onnx.ModelProto:
    """The largest of each row's elements picks a word, and further nodes."""
    first = [helper.make_node("ArgMax", ["X"], ["best"], axis=1), ml("ArrayFeatureExtractor", "words best", "word")]
    proto = graph_of([*first, *nodes], {"X": (FLOAT, [3, 3])}, outputs.split(), {"words": WORDS})
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", version))
    return proto


def compared(proto: onnx.ModelProto, texts: list[str]) -> None:
    """Compares the indices of texts with onnxruntime's texts."""
    wanted = onnxruntimes(proto, X)[0]
    network = load_onnx(proto)
    got = np.asarray(qmlir.reference(network)(X))
    assert got.shape == wanted.shape
    assert got.dtype == np.int64
    assert np.array(texts, object)[got].tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([helper.make_node("Identity", ["word"], ["y"])], {}),
        ([helper.make_node("Reshape", ["word", "shape"], ["y"])], {"shape": np.array([-1])}),
        ([helper.make_node("Flatten", ["word"], ["y"], axis=0)], {}),
        ([helper.make_node("Transpose", ["word"], ["y"])], {}),
        ([helper.make_node("Squeeze", ["word", "axes"], ["y"])], {"axes": np.array([0])}),
        ([helper.make_node("Gather", ["word", "axes"], ["y"], axis=1)], {"axes": np.array([2, 0])}),
        ([helper.make_node("Cast", ["word"], ["y"], to=TensorProto.STRING)], {}),
    ],
)
def test_texts_that_move(nodes: list[onnx.NodeProto], constants: dict[str, Array]) -> None:
    proto = with_texts(*nodes)
    proto.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in constants.items())
    compared(proto, WORDS.tolist())


def test_texts_become_other_texts_and_numbers() -> None:
    renamed = ml("LabelEncoder", "word", "y", keys_strings=["cat", "ox"], values_strings=["Katze", "Ochse"])
    compared(with_texts(renamed), ["_Unused", "Katze", "Ochse"])
    numbered = ml("LabelEncoder", "word", "y", keys_strings=["ox", "cat"], values_int64s=[5, 6])
    proto = with_texts(numbered)
    np.testing.assert_array_equal(qmlir.reference(load_onnx(proto))(X), onnxruntimes(proto, X)[0])
    old = ml("LabelEncoder", "word", "y", classes_strings=["dog", "cat"], default_int64=9)
    proto = with_texts(old, version=1)
    np.testing.assert_array_equal(qmlir.reference(load_onnx(proto))(X), onnxruntimes(proto, X)[0])


def test_numbers_become_texts() -> None:
    values = ["_Unused", "one", "three"]
    attributes = {"keys_int64s": [1, 3], "values_strings": values[1:]}
    nodes = [helper.make_node("Cast", ["X"], ["i"], to=INT64), ml("LabelEncoder", "i", "y", **attributes)]
    compared(with_domain(graph_of(nodes, {"X": (FLOAT, [3, 3])}, ["y"])), values)
    nodes[1] = ml("LabelEncoder", "i", "y", classes_strings=["zero", "one"])
    proto = graph_of(nodes, {"X": (FLOAT, [3, 3])}, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    compared(proto, ["_Unused", "zero", "one"])


def test_the_ledger_lists_the_texts_of_an_output() -> None:
    network = load_onnx(with_texts(helper.make_node("Identity", ["word"], ["y"])))
    entries = decisions(qmlir.quantize(network, data=[X]))
    assert [e.remark for e in entries if e.remark] == [
        'the model\'s texts are their indices: 0 is "cat", 1 is "dog", 2 is "ox"'
    ]
    network.attributes[REMARKS.key] = DictionaryAttr({"y": UnitAttr()})
    with pytest.raises(PipelineError, match=r"must have texts by tensor as qmlir\.remarks"):
        decisions(network)


def test_what_is_refused() -> None:
    assert "indices only" in reason(with_texts(helper.make_node("Equal", ["word", "word"], ["y"])))
    assert "indices only" in reason(with_texts(helper.make_node("Cast", ["word"], ["y"], to=FLOAT)))
    assert "is NaN" in reason(encoder(X, keys_floats=[np.nan, 1.0], values_floats=[1.0, 2.0]))
    assert "reads texts" in reason(encoder(X, keys_strings=["a"], values_floats=[1.0]))
    with pytest.raises(NodeError, match="2 values, one for each key, got 1"):
        load_onnx(encoder(X, keys_floats=[2.0, 1.0], values_floats=[1.0]))
    with pytest.raises(NodeError, match="must be texts, as its input is"):
        load_onnx(with_texts(ml("LabelEncoder", "word", "y", keys_int64s=[1], values_int64s=[2])))
    with pytest.raises(NodeError, match="a key for each element of a row, got 2 of them"):
        load_onnx(
            with_domain(graph_of([ml("ZipMap", "X", "y", classlabels_int64s=[1, 2])], {"X": (FLOAT, [3, 3])}, ["y"]))
        )
    with pytest.raises(FileError, match="must be of a type that qmlir has"):
        load_onnx(with_texts(outputs="word words"))
