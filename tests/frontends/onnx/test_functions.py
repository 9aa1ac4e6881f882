"""Operators without a converter of their own, by the bodies that the model or ONNX gives them."""

import numpy as np
import onnx
import pytest
from onnx import helper

from qmlir.backends.reference import evaluate
from qmlir.dialects.nn.functions import ReluOp
from qmlir.errors import FileError
from qmlir.frontends.function import Constant
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.onnx.control import onnx_function
from qmlir.frontends.onnx.walk import CONVERTERS
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.facts import NAME
from tests.frontends.onnx.agreement import floats, kinds, load, main_of, model, node, ops_of

OPSET = [helper.make_opsetid("", 21)]


def with_functions(proto: onnx.ModelProto, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    proto.functions.extend(functions)
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    return proto


def test_a_function_with_attributes() -> None:
    leaky = node("Flatten", "a", "b")
    leaky.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="first", type=onnx.AttributeProto.INT))
    function = helper.make_function("mine", "Flat", ["a"], ["b"], [leaky], OPSET, ["first"])
    call = helper.make_node("Flat", ["x"], ["y"], domain="mine", first=2)
    module = load(with_functions(model(call, {"x": [2, 3, 4]}), function))
    assert str(main_of(module).function_type.outputs.data[0]) == "tensor<6x4xf32>"
    # An attribute that the call leaves out has the default of the operator that reads it.
    del call.attribute[:]
    module = load(with_functions(model(call, {"x": [2, 3, 4]}), function))
    assert str(main_of(module).function_type.outputs.data[0]) == "tensor<2x12xf32>"


def test_a_function_with_a_default() -> None:
    flatten = node("Flatten", "a", "b")
    flatten.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="first", type=onnx.AttributeProto.INT))
    function = helper.make_function("mine", "Flat", ["a"], ["b"], [flatten], OPSET)
    function.attribute_proto.append(helper.make_attribute("first", 3))
    call = helper.make_node("Flat", ["x"], ["y"], domain="mine")
    module = load(with_functions(model(call, {"x": [2, 3, 4]}), function))
    assert str(main_of(module).function_type.outputs.data[0]) == "tensor<24x1xf32>"


def test_functions_in_functions_and_names() -> None:
    twice = helper.make_function("mine", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], OPSET)
    calls = [helper.make_node("Twice", [a], [b], domain="mine") for a, b in (("p", "q"), ("q", "r"))]
    both = [helper.make_opsetid("mine", 1), *OPSET]
    four = helper.make_function("mine", "Four", ["p"], ["r"], calls, both)
    call = helper.make_node("Four", ["x"], ["y"], "quadruple", domain="mine")
    module = load(with_functions(model(call, {"x": [3]}), four, twice))
    assert kinds(module) == ["nn.add", "nn.add"]
    first, second = (str(NAME.of(o)) for o in ops_of(module))
    assert first == '#qmlir.name<nodes ["quadruple"], tensors ["y.q"]>'
    assert second == '#qmlir.name<nodes ["quadruple"], tensors ["y"]>'
    x = floats(3)
    np.testing.assert_array_equal(evaluate(main_of(module), [x])[0], 4 * x)


def test_functions_that_call_themselves() -> None:
    call = helper.make_node("Again", ["a"], ["b"], domain="mine")
    again = helper.make_function("mine", "Again", ["a"], ["b"], [call], [helper.make_opsetid("mine", 1), *OPSET])
    with pytest.raises(FileError, match="functions must not call themselves"):
        load_onnx(with_functions(model(helper.make_node("Again", ["x"], ["y"], domain="mine"), {"x": [3]}), again))


def test_what_a_function_lacks_is_listed_node_by_node() -> None:
    nodes = [node("StringNormalizer", "a", "c"), helper.make_node("Foo", ["c"], ["b"], domain="other")]
    function = helper.make_function("mine", "Odd", ["a"], ["b"], nodes, [helper.make_opsetid("other", 1), *OPSET])
    proto = with_functions(model(helper.make_node("Odd", ["x"], ["y"], domain="mine"), {"x": [3]}), function)
    assert [k.kind for k in opaque_report(load_onnx(proto))] == ["onnx.StringNormalizer", "other.Foo"]


def test_an_operator_is_imported_by_onnx_s_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """HardSwish is x · HardSigmoid(x): with the one converter a stand-in, the body of the other is seen."""
    entries = dict(CONVERTERS._entries)
    entries.pop(("", "HardSwish"), None)
    monkeypatch.setattr(CONVERTERS, "_entries", entries)
    monkeypatch.setitem(entries, ("", "HardSigmoid"), [])

    @CONVERTERS("HardSigmoid")
    def stand_in(node, x, *, alpha: float, beta: float = 0.5):  # noqa: ANN001, ANN202
        assert (round(alpha, 6), beta) == (0.166667, 0.5)
        return node.compute(ReluOp, [x])

    assert kinds(load(model(node("HardSwish", "x"), {"x": [3]}))) == ["nn.relu", "nn.mul"]


def test_a_body_that_lacks_something_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {("", "HardSwish"), ("", "HardSigmoid"), ("", "Max")}
    monkeypatch.setattr(CONVERTERS, "_entries", {k: v for k, v in CONVERTERS._entries.items() if k not in missing})
    module = load_onnx(model(node("HardSwish", "x"), {"x": [3]}))
    (found,) = opaque_report(module)
    assert found.kind == "onnx.HardSwish"
    assert found.reason.startswith("qmlir knows no HardSwish, nor what it stands for (qmlir knows no HardSigmoid")
    assert [o.name for o in ops_of(module) if o.name != "nn.constant"] == ["qmlir.opaque"]


def test_bodies_depend_on_types_and_attributes() -> None:
    x = Constant(floats(2, 3))
    softmax = onnx_function(node("Softmax", "x"), 13, [x])
    assert softmax is not None
    assert "ReduceMax" in [n.op_type for n in softmax.node]
    leaky = onnx_function(node("LeakyRelu", "x"), 16, [x])
    assert leaky is not None
    assert {a.name: round(a.f, 6) for a in leaky.attribute_proto} == {"alpha": 0.01}
    assert onnx_function(node("LeakyRelu", "x", slope=1.0), 16, [x]) is None  # the body would ignore it
    assert onnx_function(node("LeakyRelu", "x"), 6, [x]) is None
    assert onnx_function(node("NonZero", "x"), 13, [x]) is None


def test_outputs_that_are_left_out() -> None:
    """A body lacks what its node does not ask for; a converter that gives less than is used is not asked."""
    nodes = [node("LayerNormalization", "x w", "y mean _")]
    module = load(model(nodes, {"x": [3, 4]}, {"w": floats(4)}, outputs=("y", "mean")))
    x = floats(3, 4)
    _, mean = evaluate(main_of(module), [x])
    np.testing.assert_allclose(mean, x.mean(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)
    function = helper.make_function("mine", "Two", ["a"], ["b", "c"], [node("Relu", "a", "c")], OPSET)
    call = helper.make_node("Two", ["x"], ["", "y"], domain="mine")
    assert kinds(load(with_functions(model(call, {"x": [3]}), function))) == ["nn.relu"]
