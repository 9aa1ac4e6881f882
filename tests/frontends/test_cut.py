"""Networks that begin and end at tensors in the middle of a file."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import i8

import qmlir
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, OptionError
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.cut import Cut
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from qmlir.ir.interfaces import element_of
from qmlir.ir.signature import main_function, signature_of
from tests.frontends.caffe2.nets import made, weights
from tests.frontends.onnx.agreement import FLOAT, floats
from tests.frontends.tflite.files import Op, T, constant, model


def cut(inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Cut:
    return Cut(None if inputs is None else tuple(inputs), None if outputs is None else tuple(outputs))


def names(module: Any) -> tuple[list[str], list[str]]:
    signature = signature_of(main_function(module))
    return [s.name for s in signature.inputs], [s.name for s in signature.outputs]


# ---------------------------------------------------------------------------------------------------------------
# ONNX: x → Relu → a → Gemm → b → Unknown → c; y joins at the end


def onnx_model(dims: Sequence[int | str] = (1, 4), *, kind: str = "Unknown") -> Any:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Gemm", ["a", "w"], ["b"]),
        helper.make_node(kind, ["b"], ["c"], domain="strange"),
        helper.make_node("Add", ["c", "y"], ["d"]),
        helper.make_node("Neg", ["y"], ["e"]),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", FLOAT, dims), helper.make_tensor_value_info("y", FLOAT, [1, 3])],
        [helper.make_tensor_value_info("d", FLOAT, [1, 3]), helper.make_tensor_value_info("e", FLOAT, [1, 3])],
        [numpy_helper.from_array(floats(4, 3), "w")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("strange", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def test_onnx_ends_before_an_unknown_operator() -> None:
    module = load_onnx(onnx_model(), cut=cut(outputs=["b", "a"]))
    assert names(module) == (["x"], ["b", "a"])
    assert not opaque_report(module)
    x = floats(1, 4)
    b, a = qmlir.reference(module)(x).values()
    np.testing.assert_array_equal(a, np.maximum(x, 0))
    np.testing.assert_allclose(b, np.maximum(x, 0) @ floats(4, 3), rtol=1e-6)


def test_onnx_begins_behind_an_unknown_operator() -> None:
    proto = onnx_model()
    proto.graph.value_info.append(helper.make_tensor_value_info("c", FLOAT, [1, 3]))
    module = load_onnx(proto, cut=cut(["y", "c"], ["d"]))
    assert names(module) == (["y", "c"], ["d"])
    assert not opaque_report(module)
    y, c = floats(1, 3), np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(qmlir.reference(module)({"y": y, "c": c}), y + c)


def test_onnx_infers_the_shape_of_a_tensor_in_the_middle() -> None:
    module = load_onnx(onnx_model(["n", 4]), bind={"n": 2}, cut=cut(["a"], ["b"]))
    assert signature_of(main_function(module)).inputs[0].shape == (2, 4)
    assert signature_of(main_function(load_onnx(onnx_model(["n", 4]), cut=cut(["a"], ["b"])))).inputs[0].shape == (1, 4)


def test_onnx_the_weights_may_become_an_argument() -> None:
    module = load_onnx(onnx_model(), cut=cut(["x", "w"], ["b"]))
    x, w = np.ones((1, 4), np.float32), np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(qmlir.reference(module)({"x": x, "w": w}), [[4, 4, 4]])


def test_onnx_a_node_with_an_argument_among_its_outputs() -> None:
    """The node that computes the argument runs for its other output; the argument stays the caller's."""
    nodes = [helper.make_node("Split", ["x"], ["p", "q"], num_outputs=2), helper.make_node("Add", ["p", "q"], ["s"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [4])], [helper.make_tensor_value_info("s", FLOAT, [2])]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    module = load_onnx(proto, cut=cut(["x", "p"], ["s"]))
    x, p = np.array([1, 2, 3, 4], np.float32), np.array([10, 20], np.float32)
    np.testing.assert_array_equal(qmlir.reference(module)({"x": x, "p": p}), [13, 24])


def test_onnx_begins_at_stored_integers() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [4])], [helper.make_tensor_value_info("y", FLOAT, [4])],
        [numpy_helper.from_array(np.array(0.5, np.float32), "s"), numpy_helper.from_array(np.array(3, np.int8), "z")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (argument,) = main_function(load_onnx(proto, cut=cut(["q"]))).body.block.args
    assert element_of(argument) == UniformType.per_tensor(i8, 0.5, 3)
    (argument,) = main_function(load_onnx(proto, cut=cut(["q"], ["q", "y"]))).body.block.args
    assert element_of(argument) == i8


def test_onnx_a_shape_that_is_not_known() -> None:
    with pytest.raises(FileError, match='the shape of "c" must be known'):
        load_onnx(onnx_model(), cut=cut(["y", "c"], ["d"]))


# ---------------------------------------------------------------------------------------------------------------
# TFLite


def tflite_model() -> bytes:
    tensors = [T("x", (1, 4)), T("a", (1, 4)), T("b", (1, 4)), T("y", (1, 4)), constant("two", [[2]], np.float32)]
    ops = [Op("RELU", [0], [1]), Op("MUL", [1, 4], [2], "MulOptions"), Op("HASHTABLE", [2], [3])]
    return model(tensors, ops, [0], [3])


def test_tflite_ends_before_an_unknown_operator() -> None:
    module = load_tflite(tflite_model(), cut=cut(outputs=["b"]))
    assert names(module) == (["x"], ["b"])
    x = floats(1, 4)
    np.testing.assert_array_equal(qmlir.reference(module)(x), np.maximum(x, 0) * 2)


def test_tflite_begins_in_the_middle() -> None:
    module = load_tflite(tflite_model(), cut=cut(["a"], ["b", "a"]))
    assert names(module) == (["a"], ["b", "a"])
    b, a = qmlir.reference(module)(-np.ones((1, 4), np.float32)).values()
    np.testing.assert_array_equal(b, -2 * np.ones((1, 4)))
    np.testing.assert_array_equal(a, -np.ones((1, 4)))


# ---------------------------------------------------------------------------------------------------------------
# Caffe2


def test_caffe2_begins_and_ends_in_the_middle() -> None:
    operators = weights(w=np.full(2, 3, np.float32))
    net = made(("Strange", "data", "a"), ("Mul", "a w", "b"), ("Strange", "b", "c"), outputs="c")
    module = load_caffe2(net, made(*operators), shapes={"a": "1x2"}, cut=cut(["a"], ["b"]))
    assert names(module) == (["a"], ["b"])
    np.testing.assert_array_equal(qmlir.reference(module)(np.ones((1, 2), np.float32)), [[3, 3]])


def test_caffe2_a_name_is_the_last_tensor_of_that_name() -> None:
    net = made(("Relu", "data", "a"), ("Negative", "a", "a"), ("Relu", "a", "b"), outputs="b")
    module = load_caffe2(net, shapes={"a": "1x2"}, cut=cut(["a"]))
    np.testing.assert_array_equal(qmlir.reference(module)(np.ones((1, 2), np.float32)), [[1, 1]])
    module = load_caffe2(net, shapes={"data": "1x2"}, cut=cut(outputs=["a"]))
    np.testing.assert_array_equal(qmlir.reference(module)(np.ones((1, 2), np.float32)), [[-1, -1]])
    net = made(("Relu", "data", "a"), ("Relu", "a", "b"), ("Negative", "a", "a"), ("Add", "a b", "c"), outputs="c")
    with pytest.raises(OptionError, match=r'inputs a: .* got Relu "b", which reads one'):
        load_caffe2(net, shapes={"a": "1x2"}, cut=cut(["a"]))


def test_caffe2_the_new_input_needs_a_shape() -> None:
    net = made(("Relu", "data", "a"), ("Negative", "a", "b"), outputs="b")
    with pytest.raises(FileError, match="give --weights with the net's init net, and --shape a=1x3x224x224"):
        load_caffe2(net, cut=cut(["a"]))


# ---------------------------------------------------------------------------------------------------------------
# Errors


def _caffe2(ends: Cut) -> object:
    net = made(("Relu", "x", "a"), ("Add", "a y", "b"), outputs="b")
    return load_caffe2(net, shapes={"x": "1x2", "y": "1x2", "a": "1x2"}, cut=ends)


def _tflite(ends: Cut) -> object:
    tensors = [T("x", (1, 4)), T("y", (1, 4)), T("a", (1, 4)), T("b", (1, 4))]
    ops = [Op("RELU", [0], [2]), Op("ADD", [2, 1], [3], "AddOptions")]
    return load_tflite(model(tensors, ops, [0, 1], [3]), cut=ends)


def _onnx(ends: Cut) -> object:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "y"], ["b"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(n, FLOAT, [1, 4]) for n in "xy"],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 4])],
    )  # fmt: skip
    return load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), cut=ends)


@pytest.mark.parametrize("load", [_onnx, _tflite, _caffe2])
@pytest.mark.parametrize(
    ("ends", "error"),
    [
        (cut(outputs=["aa"]), "outputs aa: must be the name of a tensor of the model; did you mean a"),
        (cut(["q"]), "inputs q: must be the name of a tensor of the model; known: a, b, x, y"),
        (cut(["a", "a"]), 'inputs: must name different tensors, got "a" 2 times'),
        (cut(outputs=[]), "outputs: must name at least one tensor, got none; leave it out"),
        (cut(["a"]), 'inputs: must be all that the outputs depend on, got outputs that depend on "y"; add "y"'),
        (cut(["x", "y"], ["a"]), 'inputs: .* got no output that depends on "y"; leave it out'),
    ],
)
def test_names_that_cannot_be(load: Callable[[Cut], object], ends: Cut, error: str) -> None:
    with pytest.raises(OptionError, match=error):
        load(ends)


def test_what_the_errors_advise() -> None:
    """Inputs that are added or left out, and another tensor."""
    assert names(_onnx(cut(["a", "y"]))) == (["a", "y"], ["b"])  # add "y"
    assert names(_onnx(cut(["x"], ["a"]))) == (["x"], ["a"])  # leave "y" out
    with pytest.raises(OptionError, match=r'no output that depends on "y", "a"; leave them out'):
        _onnx(cut(["x", "y", "a"], ["x"]))
    assert names(load_onnx(onnx_model(), cut=cut(["y", "b"], ["e", "b"])))[1] == ["e", "b"]  # in place of "c"
    net = made(("Relu", "data", "a"), ("Relu", "a", "b"), ("Negative", "a", "a"), ("Add", "a b", "c"), outputs="c")
    assert names(load_caffe2(net, shapes={"data": "1x2"}, cut=cut(["data"])))[0] == ["data"]  # in place of "a"
