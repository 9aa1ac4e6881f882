"""Importing Caffe2 nets: names, shapes, weights, results, files that are none, and operators that are not imported."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import main_function
from qmlir.errors import FileError, OptionError, QmlirError
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.caffe2.schema import NET
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import signature_of
from tests.frontends.caffe2.nets import U8, add, made, run, stored, weights

RELU = made(("Relu", "x", "y"), outputs="y")


def names(module: ModuleOp) -> list[str]:
    return [tensor_name(op.results[0]) for op in module.walk() if op.name.startswith("nn.")]


def signature(module: ModuleOp) -> tuple[list[tuple[str, str, tuple[int, ...]]], list[str]]:
    found = signature_of(main_function(module))
    return [(s.name, s.dtype.name, s.shape) for s in found.inputs], [s.name for s in found.outputs]


# ---------------------------------------------------------------------------------------------------------------
# Names, inputs and results


def test_a_tensor_that_is_overwritten_has_several_names() -> None:
    net = made(("Exp", "x", "t"), ("Relu", "t", "t"), ("Sqr", "t", "t"), ("Abs", "t", "y"), outputs="y t")
    module = load_caffe2(net, shapes={"x": "2"})
    assert names(module) == ["t.1", "t.2", "t", "y"]
    x = np.array([-1, 0.5], np.float32)
    y, t = run(net, {"x": x})
    np.testing.assert_allclose(y, np.exp(x) ** 2, rtol=1e-6)
    np.testing.assert_array_equal(y, t)


def test_an_input_that_is_overwritten_keeps_its_name() -> None:
    net = made(("Relu", "x", "x"), outputs="x")
    module = load_caffe2(net, shapes={"x": "2"})
    assert signature(module) == ([("x", "float32", (2,))], ["x"])
    assert names(module) == ["x.1"]
    np.testing.assert_array_equal(run(net, {"x": np.array([-1, 2], np.float32)})[0], [0, 2])


def test_results_without_a_declaration_are_what_nothing_reads() -> None:
    net = made(("Relu", "x", "a"), ("Exp", "a", "b"), ("Sqr", "x", "c"))
    assert signature(load_caffe2(net, shapes={"x": "2"}))[1] == ["b", "c"]


def test_operators_that_no_result_needs_are_left_out() -> None:
    net = made(("Nonsense", "z", "w"), ("Relu", "x", "y"), outputs="y", inputs="z x")
    module = load_caffe2(net, shapes={"x": "2"})
    assert signature(module) == ([("x", "float32", (2,))], ["y"])
    assert not opaque_report(module)


def test_inputs_are_in_the_order_of_their_declaration() -> None:
    net = made(("Sub", "b a", "y"), outputs="y", inputs="a b")
    assert [n for n, _, _ in signature(load_caffe2(net, shapes={"a": "2", "b": "2"}))[0]] == ["a", "b"]


def test_a_result_may_be_an_input_or_a_weight() -> None:
    init = made(*weights(w=np.array([1, 2], np.float32)))
    net = made(("Relu", "x", "y"), outputs="x w y")
    x, w, y = run(net, {"x": np.array([-1, 1], np.float32)}, init)
    assert (x.tolist(), w.tolist(), y.tolist()) == ([-1, 1], [1, 2], [0, 1])


def test_a_weight_of_integers_that_is_a_result_stays_integers() -> None:
    module = load_caffe2(made(stored("w", np.array([7, 9], np.uint8), 0.5, 3), outputs="w"))
    np.testing.assert_array_equal(qmlir.reference(module)({}), np.array([7, 9], np.uint8))
    assert "u8:f32, 5.000000e-01:3" in str(main_function(module).function_type.outputs)


def test_the_name_of_an_operator_is_kept() -> None:
    net = NET()
    add(net, "Relu", "x", "y")
    net.op[0].name = "my relu"
    net.external_output.append("y")
    module = load_caffe2(net.SerializeToString(), shapes={"x": "2"})
    (relu,) = (op for op in module.walk() if op.name == "nn.relu")
    assert "my relu" in str(relu)


# ---------------------------------------------------------------------------------------------------------------
# Shapes and weights


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x3", ("float32", (2, 3))), ("5", ("float32", (5,))), ("f32", ("float32", ())), ("8xi64", ("int64", (8,))),
        ("2xf16", ("float16", (2,))), (f"4x{U8.format(0.5, 128)}", ("uint8", (4,))),
    ],
)  # fmt: skip
def test_a_shape_is_the_inside_of_a_type(text: str, expected: tuple[str, tuple[int, ...]]) -> None:
    module = load_caffe2(made(("Copy", "x", "y"), outputs="y"), shapes={"x": text})
    assert signature(module)[0] == [("x", *expected)]


@pytest.mark.parametrize(
    "text", ["", "2x?xf32", "-1", "2x3xpotato", "2x3xf32> + <", "x3", "9" * 30, "99999999x99999999"]
)
def test_another_text_is_no_shape(text: str) -> None:
    with pytest.raises(OptionError, match="shape x: must be dimensions with an element type behind them"):
        load_caffe2(RELU, shapes={"x": text})


def test_a_shape_must_be_that_of_an_input() -> None:
    with pytest.raises(OptionError, match="did you mean data"):
        load_caffe2(made(("Relu", "data", "y"), outputs="y"), shapes={"dat": "2"})


def test_a_net_without_shapes_says_which_it_needs() -> None:
    net = made(("Conv", "x w b", "y", {"kernel": 1}), ("NotKnown", "y", "z"), outputs="z")
    with pytest.raises(FileError) as caught:
        load_caffe2(net)
    said = str(caught.value)
    assert 'no shape of "x", "w", "b"' in said
    assert "operators that qmlir does not import: NotKnown (qmlir knows no NotKnown)" in said
    assert "--weights" in said
    assert "--shape x=1x3x224x224" in said
    with pytest.raises(FileError) as caught:
        load_caffe2(RELU, made(*weights(w=np.ones(1, np.float32))))
    assert "--weights" not in str(caught.value)


def test_a_shape_takes_the_place_of_what_the_init_net_makes() -> None:
    """Init nets fill the data, too, as Caffe2's predictor wants it."""
    init = made(("ConstantFill", "", "data", {"shape": [1]}), *weights(w=np.array([2, 3], np.float32)))
    net = made(("Mul", "data w", "y"), outputs="y", inputs="data w")
    (y,) = run(net, {"data": np.array([[1, 1], [2, 2]], np.float32)}, init)
    np.testing.assert_array_equal(y, [[2, 3], [4, 6]])


def test_a_constant_takes_the_place_of_an_input() -> None:
    net = made(("Gather", "x i", "y"), outputs="y")
    module = load_caffe2(net, shapes={"x": "3"}, constants={"i": np.array([2, 0])})
    assert [n for n, _, _ in signature(module)[0]] == ["x"]
    np.testing.assert_array_equal(qmlir.reference(module)(np.array([5, 6, 7], np.float32)), [7, 5])


def test_shapes_that_a_net_states() -> None:
    net = NET.FromString(made(("Int8Dequantize", "q", "f"), ("Mul", "f x", "y"), outputs="y"))
    plain, quantized = net.arg.add(name="input_shape_info"), net.arg.add(name="input_qshape_info")
    plain.tensors.add(name="x", dims=[2, 3], data_type="FLOAT")
    quantized.qtensors.add(name="q", dims=[2, 3], data_type="UINT8", scales=[0.5], biases=[7], axis=1)
    module = load_caffe2(net.SerializeToString())
    assert signature(module)[0] == [("q", "uint8", (2, 3)), ("x", "float32", (2, 3))]
    assert "u8:f32, 5.000000e-01:7" in str(main_function(module))


def test_weights_in_files(tmp_path: Path) -> None:
    init = made(stored("w", np.full((3, 4), 130, np.uint8), 0.5, 128), *weights(b=np.arange(3, dtype=np.float32)))
    net = made(
        ("Int8Quantize", "x", "q", {"Y_scale": 1.0, "Y_zero_point": 0}),
        ("Int8FC", "q w b", "r", {"Y_scale": 1.0, "Y_zero_point": 0}), ("Int8Dequantize", "r", "y"), outputs="y",
    )  # fmt: skip
    (tmp_path / "predict_net.pb").write_bytes(net)
    (tmp_path / "init_net.pb").write_bytes(init)
    for name, data in (("predict_net", net), ("init_net", init)):
        (tmp_path / f"{name}.pbtxt").write_text(text_format.MessageToString(NET.FromString(data)))
    x = np.array([[1, 2, 3, 4]], np.float32)
    for ending in ("pb", "pbtxt"):
        module = qmlir.load(
            tmp_path / f"predict_net.{ending}", weights=str(tmp_path / f"init_net.{ending}"), shapes={"x": (1, 4)}
        )
        np.testing.assert_array_equal(qmlir.reference(module)(x), [[10, 11, 12]])


def test_options_of_other_files(tmp_path: Path) -> None:
    path = tmp_path / "net.pb"
    path.write_bytes(RELU)
    with pytest.raises(OptionError, match=r"bind: is for \.onnx files"):
        qmlir.load(path, bind={"N": 1}, shapes={"x": (2,)})
    with pytest.raises(OptionError, match=r"signature: is for \.tflite files"):
        qmlir.load(path, signature="main", shapes={"x": (2,)})
    with pytest.raises(OptionError, match="weights: is for Caffe2 nets"):
        qmlir.load(tmp_path / "net.onnx", weights=path)
    with pytest.raises(OptionError, match="shape: is for Caffe2 nets"):
        qmlir.load(tmp_path / "net.onnx", shapes={"x": (2,)})
    wrong: Any
    for wrong in ({"x": 3}, {"x": (1.5,)}, ["x"], {"x": {2}}):
        with pytest.raises(OptionError):
            qmlir.load(path, shapes=wrong)


# ---------------------------------------------------------------------------------------------------------------
# Files that are none


BROKEN: dict[str, tuple[str, bytes]] = {
    "another format": ("net.pb", b"\x89PNG\r\n" * 20),
    "a part of a file": ("net.pb", RELU[:-1]),
    "another message": ("net.pb", b"\x0a\x03abc"),
    "an operator without a type": ("net.pb", b"\x12\x05\x0a\x01x\x12\x00"),
    "names that are not UTF-8": ("net.pb", RELU.replace(b"Relu", b"\xff\xfe\xfd\xfc")),
    "text that is no net": ("net.pbtxt", b"this is not a net"),
    "text that is not UTF-8": ("net.pbtxt", b"name: \"\xff\""),
    "text of deep nets": ("net.pbtxt", b'op { type: "If" arg { n { ' * 5000),
    "an empty file": ("net.pb", b""),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_net(name: str, tmp_path: Path) -> None:
    file, data = BROKEN[name]
    path = tmp_path / file
    path.write_bytes(data)
    with pytest.raises(FileError) as caught:
        qmlir.load(path, shapes={"x": (2,)})
    assert str(path) in str(caught.value)


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        qmlir.load(tmp_path / "net.pb")
    (tmp_path / "net.pb").write_bytes(RELU)
    with pytest.raises(FileError, match=r"init\.pb: there is no such file"):
        qmlir.load(tmp_path / "net.pb", weights=tmp_path / "init.pb")
    with pytest.raises(FileError, match="a folder"):
        qmlir.load(tmp_path / "net.pb", weights=tmp_path)


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (made(("Relu", "x", "y"), outputs="z"), 'its result "z" must be made by an operator'),
        (made(("Free", "x", "")), "must have results"),
        (made(("Relu", "later", "y"), ("Relu", "x", "later"), outputs="y"), 'no shape of "later"'),
    ],
)
def test_a_net_that_contradicts_itself(net: bytes, said: str) -> None:
    with pytest.raises(FileError) as caught:
        load_caffe2(net, shapes={"x": "2"} if "later" not in said else None)
    assert said in str(caught.value)


def fill(kind: str, **arguments: Any) -> tuple[Any, ...]:
    return kind, "", "w", arguments


TYPE = {"Y_scale": 1.0, "Y_zero_point": 0}

FILLS: dict[str, tuple[tuple[Any, ...], str]] = {
    "too few values": (fill("GivenTensorFill", shape=[3], values=[1.0, 2.0]), "for each of 3 elements, got 2"),
    "floats for integers": (fill("GivenTensorIntFill", shape=[1], values=[1.5]), "must be integers for int32"),
    "integers of more bits": (fill("GivenTensorIntFill", shape=[1], values=[2**40]), "must be numbers of int32"),
    "a negative shape": (fill("ConstantFill", shape=[-3]), "must not have negative dimensions"),
    "no shape": (fill("ConstantFill", value=1.0), "it needs its argument shape, or an input"),
    "a value of another type": (fill("ConstantFill", shape=[3], value=1.5, dtype=2), "must be a number of int32"),
    "no bytes": (fill("Int8GivenTensorFill", shape=[3], values=[1, 2, 3], **TYPE), "must be one string of bytes"),
    "too few bytes": (
        fill("Int8GivenTensorFill", shape=[3], values=b"ab", **TYPE), "a byte for each of 3 elements, got 2 bytes"),
    "a type that is missing": (fill("Int8GivenTensorFill", shape=[2], values=b"ab"), "Y_scale and Y_zero_point"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILLS)
def test_weights_that_contradict_themselves(name: str) -> None:
    made_by, said = FILLS[name]
    with pytest.raises(QmlirError, match=made_by[0]) as caught:
        load_caffe2(made(("Copy", "w", "y"), outputs="y"), made(made_by))
    assert said in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------
# Operators that are not imported


OPAQUE: dict[str, tuple[tuple[Any, ...], str]] = {
    "unknown": (("Potato", "x", "y", {"size": 3, "name": "a", "list": [1, 2]}), "qmlir knows no Potato"),
    "random": (("UniformIntFill", "", "y", {"shape": [3]}), "its result is random"),
    "another net": (("If", "x", "y", {"then_net": NET()}), "it runs another net"),
    "without a static shape": (("GenerateProposals", "x", "y"), "known only when it runs"),
    "text": (("GivenTensorStringFill", "", "y", {"shape": [1]}), "it works on strings"),
    "an unknown argument": (("Relu", "x", "y", {"potato": 1}), 'qmlir does not know its argument "potato"'),
    "an unknown input": (("Relu", "x x", "y"), "it has 2 inputs and qmlir knows 1"),
    "training": (("SpatialBN", "x s s s s", "y a b c d"), "it is in training mode"),
    "floats where the input is quantized": (("Relu", "q", "y"), "it computes on floats, and its input is quantized"),
    "an output that is not given": (("Dropout", "x", "d y"), 'its output "y" is used, which qmlir does not give'),
    "a result of another size": (("LengthsRangeFill", "i", "y"), "it has no maxOutputSize"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPAQUE)
def test_an_operator_that_is_not_imported_has_its_reason(name: str) -> None:
    operator, reason = OPAQUE[name]
    outputs = "y" if operator[0] != "SpatialBN" else "y a"
    shapes = {"x": "2x3x4x4", "s": "3", "i": "3xi32", "q": "2x" + U8.format(1.0, 0)}
    module = load_caffe2(
        made(operator, outputs=outputs), shapes={k: v for k, v in shapes.items() if k in operator[1].split()}
    )
    module.verify()
    (kind,) = opaque_report(module)
    assert kind.kind == f"caffe2.{operator[0]}"
    assert reason in kind.reason


def test_what_follows_an_unknown_operator_is_counted() -> None:
    net = made(("Potato", "x", "a"), ("Relu", "a", "b"), ("Exp", "b", "y"), outputs="y")
    with pytest.raises(QmlirError, match="and 2 after it whose shapes are not known for that"):
        qmlir.frontends.opaque.refuse_opaque(load_caffe2(net, shapes={"x": "2"}), "net.pb")


def test_arguments_that_only_choose_how_to_compute_are_ignored() -> None:
    arguments = {"kernel": 1, "ws_nbytes_limit": 1000, "exhaustive_search": 1, "order": "NCHW"}
    init = made(*weights(w=np.ones((1, 1, 1, 1), np.float32)))
    module = load_caffe2(made(("Conv", "x w", "y", arguments), outputs="y"), init, shapes={"x": "1x1x2x2"})
    assert not opaque_report(module)


def test_shapes_are_computed_at_import() -> None:
    """Shape → Gather → Reshape is a reshape."""
    net = made(("Shape", "x", "s"), ("Gather", "s i", "t"), ("Reshape", "x t", "y old"), outputs="y")
    module = load_caffe2(net, made(*weights(i=np.array([1, 0], np.int32))), shapes={"x": "2x3"})
    assert Counter(op.name for op in module.walk() if op.name.startswith("nn.")) == {"nn.reshape": 1}
