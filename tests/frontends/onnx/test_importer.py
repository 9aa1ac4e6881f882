"""What the import as a whole does: names, shapes, arguments, opaque operations."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import TensorType, UnrankedTensorType

from qmlir.backends.reference import evaluate
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.errors import FileError, OptionError, QmlirError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report, refuse_opaque
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import Array
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import names_of_value, node_name, tensor_name
from tests.frontends.onnx.agreement import (
    FLOAT,
    INT64,
    agree,
    floats,
    kinds,
    load,
    main_of,
    model,
    node,
    ops_of,
)

# ---------------------------------------------------------------------------------------------------------------
# Names


def test_arguments_results_and_operations_carry_their_names() -> None:
    nodes = [node("Conv", "x w", "c", name="conv"), node("Relu", "c", "y")]
    module = load(model(nodes, {"x": [1, 2, 5, 5]}, {"w": floats(3, 2, 3, 3)}))
    function = main_of(module)
    assert function.arg_attrs is not None
    assert function.res_attrs is not None
    assert NAME.among(function.arg_attrs.data[0].data) == NameAttr.of(tensors=["x"])
    assert NAME.among(function.res_attrs.data[0].data) == NameAttr.of(tensors=["y"])
    constant, before, conv, after, relu = ops_of(module)
    assert [o.name for o in (before, constant, after)] == ["nn.transpose", "nn.constant", "nn.transpose"]
    assert not NAME.on(before)
    assert not NAME.on(after)
    assert NAME.of(conv) == NameAttr.of(["conv"], ["c"])
    assert NAME.of(relu) == NameAttr.of([], ["y"])
    assert (node_name(conv), node_name(relu), tensor_name(constant.results[0])) == ("conv", "y", "w")
    assert conv.results[0].name_hint == "c"


def test_steps_on_the_way_to_an_output_have_names_of_their_own() -> None:
    values = np.ones(3, np.float32)
    constants = {"scale": values, "bias": values, "mean": values, "var": values}
    proto = model(node("BatchNormalization", "x scale bias mean var", name="bn"), {"x": [1, 3]}, constants)
    mul, add = (o for o in ops_of(load(proto)) if o.name in ("nn.mul", "nn.add"))
    assert NAME.of(mul) == NameAttr.of([], ["y.scaled"])
    assert NAME.of(add) == NameAttr.of(["bn"], ["y"])


@pytest.mark.parametrize("name", ["487", "a b", "onnx::Add/1:0", "%", ".x", "größe"])
def test_any_tensor_name_can_be_printed(name: str) -> None:
    proto = model(helper.make_node("Relu", [name], ["y"]), {name: [2]})
    module = load(proto)
    assert tensor_name(main_of(module).args[0]) == name
    assert "nn.relu" in str(module)


# ---------------------------------------------------------------------------------------------------------------
# Shapes and arguments


def test_an_unbound_first_dimension_is_one() -> None:
    proto = model(node("Relu", "x"), {"x": ["batch", 3]})
    assert main_of(load(proto)).function_type.inputs.data[0].get_shape() == (1, 3)  # type: ignore[attr-defined]
    proto = model(node("Relu", "x"), {"x": [None, 3]})
    assert main_of(load(proto)).function_type.inputs.data[0].get_shape() == (1, 3)  # type: ignore[attr-defined]


def test_bound_dimensions() -> None:
    proto = model(node("Add", "a b"), {"a": ["n", "m"], "b": ["n", None]})
    module = load(proto, bind={"n": 4, "m": 5, "b.1": 1})
    assert [t.get_shape() for t in main_of(module).function_type.inputs] == [(4, 5), (4, 1)]  # type: ignore[attr-defined]


def test_other_unbound_dimensions_are_named() -> None:
    proto = model(node("Relu", "x"), {"x": ["batch", 3, "height", None]})
    remedy = r'give --bind height=… --bind x\.3=…, or in Python bind={"height": …, "x\.3": …}'
    with pytest.raises(FileError, match=rf'symbol "height", symbol "x\.3"; {remedy}'):
        load_onnx(proto)
    function = main_of(load(proto, bind={"height": 4, "x.3": 5}))
    assert function.function_type.inputs.data[0].get_shape() == (1, 3, 4, 5)  # type: ignore[attr-defined]


def test_binding_what_the_model_does_not_have() -> None:
    proto = model(node("Relu", "x"), {"x": ["batch_size", 3]})
    with pytest.raises(OptionError, match=r'--bind batchsize=2.*did you mean "?batch_size'):
        load_onnx(proto, bind={"batchsize": 2})
    with pytest.raises(OptionError, match="it has none"):
        load_onnx(model(node("Relu", "x"), {"x": [3]}), bind={"n": 2})
    with pytest.raises(OptionError, match="at least 1"):
        load_onnx(proto, bind={"batch_size": 0})


def test_initializers_that_are_also_inputs_are_no_arguments() -> None:
    proto = model(node("Add", "x w"), {"w": [3], "x": [3]}, {"w": floats(3)}, opset=8, ir_version=3)
    assert len(main_of(agree(proto)).args) == 1


def test_inputs_bound_as_constants() -> None:
    proto = model(node("Reshape", "x s"), {"x": [2, 3], "s": [1]})
    proto.graph.input[1].type.tensor_type.elem_type = INT64
    assert [a.name_hint for a in main_of(load(proto, constants={"s": np.array([6])})).args] == ["x"]
    for wrong, message in (
        ({"t": np.array([6])}, "must be bound to an input"),
        ({"s": np.array([6], np.int32)}, "must be int64"),
        ({"s": np.array([6, 1])}, r"got int64 \[2\]"),
    ):
        with pytest.raises(OptionError, match=message):
            load_onnx(proto, constants=wrong)


def test_outputs_that_are_inputs_or_constants() -> None:
    proto = model(node("Relu", "x", "r"), {"x": [3]}, {"c": floats(2)}, outputs=("x", "c", "r", "r"))
    module = load(proto)
    assert [str(t) for t in main_of(module).function_type.outputs] == [
        "tensor<3xf32>", "tensor<2xf32>", "tensor<3xf32>", "tensor<3xf32>",
    ]  # fmt: skip


def test_nodes_that_no_output_needs_are_skipped() -> None:
    nodes = [node("NonZero", "x", "dead"), node("Relu", "x")]
    assert kinds(load(model(nodes, {"x": [3]}))) == ["nn.relu"]


def test_one_weight_is_one_constant() -> None:
    w = floats(3, 3, 3, 3)
    nodes = [node("Conv", "x w", "a"), node("Conv", "a w", "b"), node("Add", "b b", "y")]
    module = agree(model(nodes, {"x": [1, 3, 9, 9]}, {"w": w}))
    assert sum(o.name == "nn.constant" for o in ops_of(module)) == 1


def test_old_operator_sets_are_converted() -> None:
    """Before operator set 7 broadcasting had to be asked for; before 6 operators said what they overwrite."""
    nodes = [node("Relu", "x", "r", consumed_inputs=[0]), node("Add", "r c", broadcast=1)]
    old = model(nodes, {"x": [2, 3, 4]}, {"c": floats(4)}, opset=1, ir_version=3)
    old.graph.input.append(helper.make_tensor_value_info("c", FLOAT, [4]))
    old.graph.value_info.append(helper.make_tensor_value_info("r", FLOAT, [2, 3, 4]))
    old.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [2, 3, 4]))
    (y,) = evaluate(main_of(load(old)), [floats(2, 3, 4, seed=1)])
    np.testing.assert_array_equal(y, np.maximum(floats(2, 3, 4, seed=1), 0) + floats(4))
    assert old.opset_import[0].version == 1


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize(("operator", "function"), {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}.items())
def test_old_operands_broadcast_from_an_axis(operator: str, function: np.ufunc, axis: int) -> None:
    """ONNX's converter puts the operand's dimensions first, wherever they belong."""
    x, c = floats(2, 3, 4, seed=1), floats((2, 3, 4)[axis])
    old = model(node(operator, "x c", axis=axis, broadcast=1), {"x": [2, 3, 4]}, {"c": c}, opset=6, ir_version=3)
    old.graph.input.append(helper.make_tensor_value_info("c", FLOAT, c.shape))
    (y,) = evaluate(main_of(load(old)), [x])
    np.testing.assert_array_equal(y, function(x, c.reshape([-1] + [1] * (2 - axis % 3))))


def test_an_old_operand_of_unknown_rank_is_refused() -> None:
    old = model(node("Add", "x c", axis=1, broadcast=1), {"x": [2, 3, 4], "c": [3]}, opset=6, ir_version=3)
    old.graph.input[1].type.tensor_type.ClearField("shape")
    with pytest.raises(FileError, match="Add 'y' broadcasts from an axis of tensors of unknown rank"):
        load(old)


def test_old_slopes_belong_to_channels() -> None:
    old = model(node("PRelu", "x s"), {"x": [2, 3, 4]}, {"s": floats(3)}, opset=6, ir_version=3)
    old.graph.input.append(helper.make_tensor_value_info("s", FLOAT, [3]))
    (y,) = evaluate(main_of(load(old)), [floats(2, 3, 4, seed=1)])
    x = floats(2, 3, 4, seed=1)
    np.testing.assert_array_equal(y, np.where(x < 0, x * floats(3).reshape(3, 1), x))


@pytest.mark.parametrize("indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])])
def test_sparse_constants(indices: Array) -> None:
    values = helper.make_tensor("s", FLOAT, [2], [1.5, -2.0])
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices), [2, 3])
    proto = model(node("Add", "x s"), {"x": [2, 3]})
    proto.graph.sparse_initializer.append(sparse)
    by_node = model([node("Constant", "", "s", sparse_value=sparse), node("Add", "x s")], {"x": [2, 3]})
    for each in (proto, by_node):
        (y,) = evaluate(main_of(load(each)), [np.zeros((2, 3), np.float32)])
        assert np.array_equal(y, [[0, 1.5, 0], [0, 0, -2]])


def test_local_functions_are_inlined() -> None:
    proto = model(helper.make_node("Twice", ["x"], ["y"], domain="mine"), {"x": [3]})
    opset = [helper.make_opsetid("", 21)]
    proto.functions.append(helper.make_function("mine", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], opset))
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    assert kinds(agree(proto)) == ["nn.add"]


def test_a_model_in_memory_is_left_as_it_is() -> None:
    proto = model(node("Add", "x w"), {"x": ["n", 3]}, {"w": floats(3)})
    before = proto.SerializeToString(deterministic=True)
    load_onnx(proto, bind={"n": 2})
    assert proto.SerializeToString(deterministic=True) == before


# ---------------------------------------------------------------------------------------------------------------
# Opaque operations


def test_unknown_operators_are_opaque_and_keep_all_they_say() -> None:
    weights = numpy_helper.from_array(floats(2), "value")
    attributes = {
        "i": 3, "f": 0.5, "s": "text", "is": [1, 2], "fs": [0.5], "ss": ["a", "b"], "t": weights,
        "g": helper.make_graph([], "body", [], []),
    }  # fmt: skip
    custom = helper.make_node("Custom", ["x", "", "w"], ["y"], name="n", domain="my.domain", **attributes)
    proto = model([custom], {"x": [3]}, {"w": np.array([1, 2])})
    proto.opset_import.append(helper.make_opsetid("my.domain", 2))
    module = load_onnx(proto)
    module.verify()
    (op,) = (o for o in ops_of(module) if isinstance(o, OpaqueOp))
    assert op.kind.data == "my.domain.Custom"
    assert op.reason.data == "qmlir knows no my.domain.Custom"
    assert NAME.of(op) == NameAttr.of(["n"], ["y"])
    assert [str(o.type) for o in op.inputs] == ["tensor<3xf32>", "tensor<2xi64>"]
    assert str(op.source.data["version"]) == "2 : i64"
    assert str(op.source.data["inputs"]) == '["x", "", "w"]'
    assert set(op.source.data["attributes"].data) == set(attributes)  # type: ignore[attr-defined]


def test_an_opaque_operation_has_the_types_that_onnx_infers() -> None:
    nodes = [node("LeakyRelu", "x", "l"), node("ArgMax", "l", "m", axis=1), node("Relu", "l")]
    proto = model(nodes, {"x": ["n", 3]}, outputs=("y", "m"))
    proto.graph.output[1].type.tensor_type.elem_type = INT64
    module = load_onnx(proto, bind={"n": 2})
    leaky, argmax, relu = ops_of(module)
    assert leaky.results[0].type == relu.results[0].type == main_of(module).args[0].type
    assert str(argmax.results[0].type) == "tensor<2x1xi64>"


def test_what_follows_an_unknown_shape_is_opaque() -> None:
    custom = helper.make_node("Custom", ["x"], ["c"], domain="my.domain")
    nodes = [custom, node("Relu", "c", "r"), node("Flatten", "r", "f"), node("Conv", "f w", "y")]
    proto = model(nodes, {"x": [3]}, {"w": floats(1, 1, 3, 3)})
    proto.opset_import.append(helper.make_opsetid("my.domain", 1))
    module = load_onnx(proto)
    report = opaque_report(module)
    assert [k.kind for k in report] == ["my.domain.Custom", "onnx.Relu", "onnx.Flatten", "onnx.Conv"]
    assert report[1].reason == 'the shape of its input "c" is not known'
    assert isinstance(ops_of(module)[0].results[0].type, UnrankedTensorType)


def test_a_declared_shape_is_used_where_inference_finds_none() -> None:
    custom = helper.make_node("Custom", ["x"], ["c"], domain="my.domain")
    proto = model([custom, node("Relu", "c")], {"x": [3]})
    proto.opset_import.append(helper.make_opsetid("my.domain", 1))
    proto.graph.value_info.append(helper.make_tensor_value_info("c", FLOAT, [4, 5]))
    assert [k.kind for k in opaque_report(load_onnx(proto))] == ["my.domain.Custom"]


def test_an_unknown_attribute_is_not_ignored() -> None:
    relu = helper.make_node("Relu", ["x"], ["y"], slope=2)
    (kind,) = opaque_report(load_onnx(model(relu, {"x": [3]})))
    assert kind.reason == 'qmlir does not know its attribute "slope"'


def test_one_error_lists_every_opaque_operation() -> None:
    nodes = [node("Unseen", "x", "a", name="normal"), node("Unseen", "a", "b")]
    nodes += [node("Unheard", "b", "c", name="odd")]
    nodes += [node("Unread", "c" if i == 0 else f"d{i - 1}", f"d{i}") for i in range(6)]
    nodes += [node("Relu", "d5")]
    proto = model(nodes, {"x": [3]})
    tensors = ["a", "b", "c", *(f"d{i}" for i in range(6))]  # ONNX does not know the operators either
    proto.graph.value_info.extend(helper.make_tensor_value_info(name, FLOAT, [3]) for name in tensors)
    module = load_onnx(proto)
    assert [(k.kind, k.count) for k in opaque_report(module)] == [
        ("onnx.Unseen", 2),
        ("onnx.Unheard", 1),
        ("onnx.Unread", 6),
    ]
    with pytest.raises(QmlirError) as caught:
        refuse_opaque(module, "net.onnx")
    assert str(caught.value) == (
        "net.onnx: every operation must be one that qmlir knows, got 9 that are not: "
        '2 x onnx.Unseen ("normal", "b"): qmlir knows no Unseen; '
        '1 x onnx.Unheard ("odd"): qmlir knows no Unheard; '
        '6 x onnx.Unread ("d0", "d1", "d2", "d3" and 2 more): qmlir knows no Unread; '
        "replace them in the model, or cut the model before them"
    )
    refuse_opaque(load(model(node("Relu", "x"), {"x": [3]})), "net.onnx")


def test_subgraphs_read_tensors_too() -> None:
    """An If is opaque; what its branches read is imported before it."""
    then = helper.make_graph([node("Neg", "r", "t")], "then", [], [helper.make_tensor_value_info("t", FLOAT, [3])])
    otherwise = helper.make_graph([node("Abs", "r", "e")], "else", [], [helper.make_tensor_value_info("e", FLOAT, [3])])
    nodes = [
        node("Relu", "x", "r"),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    proto = model(nodes, {"x": [3]})
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    module = load_onnx(proto)
    assert [o.name for o in ops_of(module)] == ["nn.relu", "qmlir.opaque"]
    assert ops_of(module)[-1].results[0].type == TensorType(main_of(module).args[0].type.element_type, [3])  # type: ignore[attr-defined]


def test_float16_weights_cast_to_float_are_folded() -> None:
    nodes = [node("Cast", "w", "wf", to=FLOAT), node("Add", "x wf")]
    assert kinds(agree(model(nodes, {"x": [3]}, {"w": floats(3).astype(np.float16)}))) == ["nn.add"]


def test_bfloat16_tensors() -> None:
    proto = model([node("Cast", "x", "b", to=TensorProto.BFLOAT16), node("Cast", "b", "y", to=FLOAT)], {"x": [3]})
    module = load_onnx(proto)
    module.verify()
    assert [str(o.results[0].type) for o in ops_of(module)] == ["tensor<3xbf16>", "tensor<3xf32>"]
    weights = helper.make_tensor("w", TensorProto.BFLOAT16, [2], [1.0, 2.0])
    proto = model([node("Cast", "w", "f", to=FLOAT), node("Add", "x f")], {"x": [2]})
    proto.graph.initializer.append(weights)
    (y,) = evaluate(main_of(load(proto)), [np.zeros(2, np.float32)])
    assert np.array_equal(y, np.array([1, 2], np.float32))


def test_names_survive_where_a_node_becomes_nothing() -> None:
    nodes = [node("Cast", "x", "a", to=FLOAT), node("Dropout", "a", "b"), node("Relu", "b")]
    names = names_of_value(main_of(load(model(nodes, {"x": [3]}))).args[0])
    assert list(names.absorbed) == ["a", "b"]


@pytest.mark.slow
def test_converters_know_every_version_of_their_operators() -> None:
    """No converter claims a version that ONNX does not have, unless it is version 1."""
    from qmlir.frontends.onnx.walk import CONVERTERS, FOLDS

    for table in (CONVERTERS, FOLDS):
        for domain, operator, versions in table.versions():
            known = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == operator}
            assert set(versions) <= known | {1}, (domain, operator)


def test_a_string_alone_is_refused_like_strings() -> None:
    """As a constant without dimensions, which numpy would index to the string itself."""
    proto = model([node("StringConcat", "x s")], {"x": [2]})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    proto.graph.initializer.append(numpy_helper.from_array(np.array("a", object), "s"))
    (found,) = opaque_report(load_onnx(proto, constants={"x": np.array(["b", "c"], object)}))
    assert (found.kind, found.reason) == ("onnx.StringConcat", "qmlir knows no StringConcat")


@pytest.mark.parametrize(
    ("operator", "domain"),
    [
        ("StringNormalizer", ""),
        ("ImageDecoder", ""),
        ("Gradient", "ai.onnx.preview.training"),
        ("SVMClassifier", "ai.onnx.ml"),
        ("SVMRegressor", "ai.onnx.ml"),
        ("TreeEnsembleClassifier", "ai.onnx.ml"),
        ("TreeEnsembleRegressor", "ai.onnx.ml"),
    ],
)
def test_operators_without_a_converter(operator: str, domain: str) -> None:
    proto = model(helper.make_node(operator, ["x"], ["y"], domain=domain), {"x": [2, 3]})
    (kind,) = opaque_report(load_onnx(proto))
    assert kind.reason == f"qmlir knows no {domain + '.' if domain else ''}{operator}"
