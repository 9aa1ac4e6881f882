"""Bad files and bad models: a typed error of one paragraph that names the file, and no traceback of protobuf."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper

from qmlir.errors import FileError, NodeError, QmlirError
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import FLOAT, floats, model, node


def good() -> onnx.ModelProto:
    return model(node("Add", "x w"), {"x": [3]}, {"w": floats(3)})


def refused(source: Path | bytes | onnx.ModelProto, message: str, kind: type[QmlirError] = FileError) -> None:
    with pytest.raises(kind, match=message) as caught:
        load_onnx(source)
    assert "\n" not in str(caught.value)
    if isinstance(source, Path):
        assert str(source) in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------
# Files


def test_missing_file_and_folder(tmp_path: Path) -> None:
    refused(tmp_path / "none.onnx", "there is no such file")
    refused(tmp_path, "got a folder")
    refused(tmp_path / "none.onnx" / "deeper.onnx", "there is no such file")


@pytest.mark.parametrize(
    "content", [b"hello, world\n", b"\x89PNG\r\n\x1a\n", b"{}", bytes(100), bytes(range(256)), b"\x08\x07"]
)
def test_other_formats(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(content)
    refused(file, "must be an ONNX model")


def test_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(b"")
    refused(file, "got an empty file")


def test_random_bytes() -> None:
    rng = np.random.default_rng(0)
    for size in range(1, 200):
        refused(rng.bytes(size), "must")


def test_every_truncation_of_a_model(tmp_path: Path) -> None:
    data = good().SerializeToString()
    for size in range(1, len(data)):
        refused(data[:size], "must be an ONNX model")
    file = tmp_path / "net.onnx"
    file.write_bytes(data[: len(data) // 2])
    refused(file, "a part of a file")


def test_model_without_graph() -> None:
    refused(onnx.ModelProto(ir_version=8).SerializeToString(), "without a graph")
    refused(onnx.ModelProto(ir_version=8), "a graph with outputs")
    empty = good()
    del empty.graph.output[:]
    refused(empty, "a graph with outputs")


def test_names_that_are_no_text() -> None:
    data = model(node("Relu", "xxxx"), {"xxxx": [3]}).SerializeToString()
    refused(data.replace(b"xxxx", b"\xff\xfe\xfd\xfc"), "names in UTF-8")


def test_operator_sets_too_old_and_too_new() -> None:
    newest = onnx.defs.onnx_opset_version()
    refused(
        model(node("Unheard", "x"), {"x": [3]}, opset=6), "must use operator set 7 or newer.*got operator set 6, and "
    )
    refused(model(node("Relu", "x"), {"x": [3]}, opset=0), f"from 1 to {newest}.*got 0; save or download")
    refused(model(node("Relu", "x"), {"x": [3]}, opset=newest + 1), f"from 1 to {newest}.*install a newer onnx")
    without = good()
    del without.opset_import[:]
    refused(without, "which operator set")


# ---------------------------------------------------------------------------------------------------------------
# External data


def saved_with_external_data(folder: Path) -> Path:
    proto = model(node("Add", "x w"), {"x": [300]}, {"w": floats(300)})
    file = folder / "net.onnx"
    onnx.save(proto, file, save_as_external_data=True, location="net.data", size_threshold=0)
    return file


def test_external_data(tmp_path: Path) -> None:
    module = load_onnx(saved_with_external_data(tmp_path))
    (constant,) = (o for o in module.walk() if o.name == "nn.constant")
    assert np.array_equal(constant.value.array, floats(300))  # type: ignore[attr-defined]


def test_missing_external_data(tmp_path: Path) -> None:
    file = saved_with_external_data(tmp_path)
    (tmp_path / "net.data").unlink()
    refused(file, 'external data of "w".*copy the side file')


def test_truncated_external_data(tmp_path: Path) -> None:
    file = saved_with_external_data(tmp_path)
    (tmp_path / "net.data").write_bytes(b"short")
    refused(file, '"w"')


def test_external_data_outside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(1200))
    folder = tmp_path / "model"
    folder.mkdir()
    for location in ("../secret", str(tmp_path / "secret")):
        proto = model(node("Add", "x w"), {"x": [300]}, {"w": floats(300)})
        external_data_helper.set_external_data(proto.graph.initializer[0], location)
        proto.graph.initializer[0].ClearField("raw_data")
        proto.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
        (folder / "net.onnx").write_bytes(proto.SerializeToString())
        refused(folder / "net.onnx", 'external data of "w"')


def test_external_data_of_a_model_without_a_path(tmp_path: Path) -> None:
    refused(saved_with_external_data(tmp_path).read_bytes(), "load the model by its path")


# ---------------------------------------------------------------------------------------------------------------
# Models that break a rule


def test_undefined_tensors() -> None:
    refused(model(node("Add", "x weights"), {"x": [3]}, {"weight": floats(3)}), 'reads the tensor "weights".*weight')
    refused(model(node("Relu", "x", "z"), {"x": [3]}), 'output "y" reads the tensor "y"')


def test_cycles() -> None:
    refused(model([node("Add", "x y", "a"), node("Relu", "a")], {"x": [3]}), "a definition after it")


def test_tensors_defined_twice() -> None:
    refused(model([node("Relu", "x"), node("Tanh", "x")], {"x": [3]}), '"y" must be defined once')
    refused(model(node("Relu", "x", "x"), {"x": [3]}, outputs=("x",)), '"x" must be defined once')


def test_initializers_that_lie_about_their_contents() -> None:
    proto = good()
    proto.graph.initializer[0].dims[0] = 4
    refused(proto, '"w" as it declares')
    proto.graph.initializer[0].dims[0] = -1
    refused(proto, '"w"')
    proto.graph.initializer[0].data_type = 99
    refused(proto, '"w"')


def sparse(values: list[float], indices: list[int], *shape: int) -> onnx.ModelProto:
    proto = model(node("Relu", "s"), {})
    content = helper.make_tensor("s", FLOAT, [len(values)], values)
    where = helper.make_tensor("i", onnx.TensorProto.INT64, [len(indices)], indices)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(content, where, shape))
    return proto


def test_sparse_initializers_that_lie_about_their_contents() -> None:
    refused(sparse([1.0], [3], 3), 'values of "s" as it declares them, got indices')
    refused(sparse([1.0], [-1], 3), 'values of "s" as it declares them, got indices')
    refused(sparse([1.0, 2.0], [0], 3), 'values of "s" as it declares them, got indices')
    refused(
        sparse([1.0], [0], 1 << 20, 1 << 20),
        r'values of "s" as it declares them, got it makes a constant of shape \[1048576',
    )
    refused(sparse([1.0], [0], 3, -1), 'values of "s" as it declares them, got a shape of')


def test_wrong_numbers_of_inputs_and_outputs() -> None:
    refused(model(node("Relu", "x x"), {"x": [3]}), "1 to 1 inputs, got 2", NodeError)
    refused(model(node("Conv", "x"), {"x": [3]}), "2 to 3 inputs, got 1", NodeError)
    refused(model(node("Conv", "x _ x"), {"x": [3]}), 'needs its input "w"', NodeError)
    refused(model(node("Relu", "x", "y z"), {"x": [3]}), "1 to 1 outputs, got 2", NodeError)


@pytest.mark.parametrize("operator", ["Max", "Sum", "Mean", "Concat"])
@pytest.mark.parametrize("constant", [False, True])
def test_none_of_several_inputs_may_be_left_out(operator: str, constant: bool) -> None:
    """Of constants too, which are computed at import."""
    attributes = {"axis": 0} if operator == "Concat" else {}
    inputs = {} if constant else {"x": [3]}
    weights = {"x": np.ones(3, np.float32)} if constant else {}
    refused(
        model(node(operator, "x _ x", **attributes), inputs, weights),
        "all of its inputs, got some that are left out",
        NodeError,
    )


def test_attributes_of_the_wrong_type_or_missing() -> None:
    refused(model(node("Conv", "x w", strides=2), {"x": [3], "w": [3]}), "strides must be INTS, got INT", NodeError)
    refused(model(node("MaxPool", "x"), {"x": [1, 1, 3, 3]}), "its attribute kernel_shape, integers", NodeError)
    refused(model(node("Concat", "x"), {"x": [3]}), "needs its attribute axis", NodeError)


def test_shapes_that_do_not_fit() -> None:
    for operator, shapes, attributes in (
        ("Add", {"a": [3], "b": [4]}, {}),
        ("MatMul", {"a": [3, 4], "b": [5, 6]}, {}),
        ("Gemm", {"a": [3, 4], "b": [5, 6]}, {}),
        ("Concat", {"a": [3, 4], "b": [5, 6]}, {"axis": 0}),
        ("Conv", {"a": [1, 3, 4, 4], "b": [2, 4, 3, 3]}, {}),
        ("Conv", {"a": [1, 3, 4, 4], "b": [2, 3, 5, 5]}, {}),
    ):
        refused(model(node(operator, "a b", **attributes), shapes), f'^<model>: {operator} "y": ', NodeError)
    constants = {"s": np.array([2, -1])}
    refused(model(node("Reshape", "x s"), {"x": [3]}, constants), r"\[3\] cannot become \[2, -1\]", NodeError)


@pytest.mark.parametrize(
    ("operator", "shape", "attributes"),
    [
        ("MaxPool", [1, 1, 4, 4], {"kernel_shape": [2]}),
        ("MaxPool", [1, 1, 4, 4], {"kernel_shape": [0, 2]}),
        ("MaxPool", [1, 1, 4, 4], {"kernel_shape": [2, 2], "strides": [0, 1]}),
        ("MaxPool", [1, 1, 4, 4], {"kernel_shape": [2, 2], "pads": [0, 1]}),
        ("MaxPool", [1, 1, 4, 4], {"kernel_shape": [2, 2], "auto_pad": "SOME"}),
        ("MaxPool", [1, 1, 4, 4], {"kernel_shape": [5, 5]}),
        ("Softmax", [3], {"axis": 1}),
        ("Transpose", [3, 4], {"perm": [0, 0]}),
        ("Transpose", [3, 4], {"perm": [0]}),
        ("Flatten", [3, 4], {"axis": 3}),
        ("Concat", [3, 4], {"axis": 2}),
    ],
)
def test_attributes_that_make_no_sense(operator: str, shape: list[int], attributes: dict[str, Any]) -> None:
    refused(model(node(operator, "x", **attributes), {"x": shape}), f'^<model>: {operator} "y": ', NodeError)


def test_inputs_without_shape_or_of_other_kinds() -> None:
    proto = good()
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    refused(proto, '"x" must have a shape')
    proto.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", FLOAT, [3]))
    refused(proto, '"x" is a sequence, whose number of tensors must be given, got none; give --bind x=')
    refused(model(node("Identity", "x"), {"x": [3]}, element=onnx.TensorProto.STRING), '"x" .*got string')


def test_constant_outputs_of_types_that_mlir_lacks() -> None:
    proto = model(node("Relu", "x"), {"x": [3]}, outputs=("y", "c"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(["text"], object), "c"))
    refused(proto, 'output "c" must be of a type that qmlir has, got "c" is of type object')


def test_shape_arithmetic_that_fails() -> None:
    nodes = [node("Gather", "c i", "s"), node("Reshape", "x s")]
    refused(model(nodes, {"x": [3]}, {"c": np.array([3]), "i": np.array([5])}), "Gather", NodeError)


@pytest.mark.slow
def test_mutated_models_end_in_a_typed_error_or_an_import() -> None:
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("AveragePool", "c", "p", kernel_shape=[2, 2], ceil_mode=1),
        node("Shape", "p", "s"), node("Slice", "s a k", "t"), node("Concat", "t m", "u", axis=0),
        node("Reshape", "p u", "r"), node("Softmax", "r", "y", axis=1),
    ]  # fmt: skip
    constants = {"w": floats(3, 2, 3, 3), "b": floats(3), "a": np.array([0]), "k": np.array([1]), "m": np.array([-1])}
    data = model(nodes, {"x": [1, 2, 7, 7]}, constants, opset=12).SerializeToString()
    rng = np.random.default_rng(0)
    imported = 0
    for _ in range(500):
        mutated = bytearray(data)
        at = int(rng.integers(len(data)))
        match rng.integers(3):
            case 0:
                mutated[at] ^= 1 << int(rng.integers(8))
            case 1:
                del mutated[at : at + int(rng.integers(1, 5))]
            case _:
                mutated[at:at] = rng.bytes(int(rng.integers(1, 4)))
        try:
            load_onnx(bytes(mutated)).verify()
            imported += 1
        except QmlirError as error:
            assert "\n" not in str(error)  # noqa: PT017 — an error is one of two good ends
    assert imported > 0
