"""Dimensions of inputs that are no numbers, or negative ones, which onnxruntime reads as dimensions of any size."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import qmlir
from qmlir.dialects.inputs import batch_symbols
from qmlir.errors import FileError
from qmlir.frontends.cut import Cut
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import FLOAT, agree, floats, load, main_of, model, node, onnxruntime_run


def argument_shapes(proto: onnx.ModelProto, **options: Any) -> list[tuple[int, ...]]:
    return [t.get_shape() for t in main_of(load(proto, **options)).function_type.inputs]  # type: ignore[union-attr]


def stated(proto: onnx.ModelProto, tensor: str, shape: list[int | None]) -> onnx.ModelProto:
    """States the shape of a tensor in the middle."""
    proto.graph.value_info.append(helper.make_tensor_value_info(tensor, FLOAT, shape))
    return proto


@pytest.mark.parametrize("size", [-1, -2])
def test_a_negative_dimension_is_of_any_size(size: int, tmp_path: Any) -> None:
    proto = model([node("Relu", "x", "r"), node("Neg", "r")], {"x": [size, 3]})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [size, 3]))
    stated(proto, "r", [size, 3])
    before = proto.SerializeToString()
    assert argument_shapes(proto) == [(1, 3)]
    assert argument_shapes(proto, bind={"x.0": 4}) == [(4, 3)]
    assert proto.SerializeToString() == before, "a model in memory is left as it is"
    onnx.save(proto, tmp_path / "net.onnx")
    network = qmlir.load(tmp_path / "net.onnx")
    assert batch_symbols(network) == {"x": "x.0"}
    x = floats(5, 3)
    np.testing.assert_array_equal(qmlir.compile(network, batch=8)(x), onnxruntime_run(proto, {"x": x})[0])


def test_a_negative_dimension_behind_the_first_is_bound_by_name() -> None:
    proto = model(node("Relu", "x"), {"x": [-1, 3, -1]})
    with pytest.raises(FileError, match=r'got symbol "x\.2"; give --bind x\.2=…, or in Python bind={"x\.2": …}'):
        load_onnx(proto)
    assert argument_shapes(proto, bind={"x.2": 5}) == [(1, 3, 5)]
    agree(proto, bind={"x.2": 5})


def test_dimensions_that_are_called_by_a_question_mark_may_differ() -> None:
    """Paddle's exporter writes so of the height and the width of pictures."""
    proto = model(node("Relu", "x"), {"x": [-1, 3, "?", "?"]})
    with pytest.raises(FileError, match=r'got symbol "x\.2", symbol "x\.3"; give --bind x\.2=… --bind x\.3=…'):
        load_onnx(proto)
    assert argument_shapes(proto, bind={"x.2": 5, "x.3": 7}) == [(1, 3, 5, 7)]
    agree(proto, bind={"x.2": 5, "x.3": 7})


@pytest.mark.parametrize("size", [-1, 0])
def test_no_size_of_a_tensor_in_the_middle_contradicts_the_nodes(size: int) -> None:
    """A network that begins in the middle takes its shape from shape inference, and an opaque result its type."""
    nodes = [node("Relu", "x", "r"), helper.make_node("Mystery", ["r"], ["m"], domain="mine"), node("Neg", "r", "y")]
    proto = stated(stated(model(nodes, {"x": [2, 3]}, outputs=("y", "m")), "r", [size, 3]), "m", [size, 3])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [size, 3]))
    assert argument_shapes(proto, cut=Cut(("r",), ("y",))) == [(2, 3)]
    assert str(main_of(load_onnx(proto)).function_type.outputs.data[0]) == "tensor<2x3xf32>"


def test_an_empty_input_stays_empty() -> None:
    assert argument_shapes(model(node("Relu", "x"), {"x": [0, 3]})) == [(0, 3)]


def test_negative_dimensions_of_old_models_sequences_and_branches() -> None:
    old = model(node("Relu", "x", consumed_inputs=[0]), {"x": [-1, 3]}, opset=1, ir_version=3)
    assert argument_shapes(old, bind={"x.0": 2}) == [(2, 3)]
    listed = model(node("ConcatFromSequence", "x", axis=0), {"x": [1]})
    listed.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", FLOAT, [-1, 3]))
    assert argument_shapes(listed, bind={"x": 2, "x.1.0": 4}) == [(1, 3), (4, 3)]
    branch = helper.make_graph([node("Relu", "x", "b")], "b", [], [helper.make_tensor_value_info("b", FLOAT, [-1, 3])])
    proto = model(node("If", "c", then_branch=branch, else_branch=branch), {"x": [-1, 3]}, {"c": np.array(True)})
    assert argument_shapes(proto, bind={"x.0": 4}) == [(4, 3)]


def test_a_dimension_without_a_name_has_a_size_where_the_network_is_cut() -> None:
    proto = model([node("Relu", "x", "r"), node("Neg", "r")], {"x": [None, -1]})
    assert argument_shapes(proto, cut=Cut(("r",), ("y",)), bind={"x.1": 3}) == [(1, 3)]


def test_constants_fit_dimensions_of_any_size() -> None:
    proto = model(node("Add", "x c"), {"x": [2, 3], "c": [-1, 3]})
    assert argument_shapes(proto, constants={"c": np.ones((2, 3), np.float32)}) == [(2, 3)]
