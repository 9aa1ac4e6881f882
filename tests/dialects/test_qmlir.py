"""Names and decisions: plain strings in, the same strings out, whatever is in them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import test
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, TensorType, f32, i8
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.qmlir import ConstantBufferOp, OpaqueOp
from qmlir.ir.context import make_context
from qmlir.ir.decision import DecisionAttr
from qmlir.ir.facts import NAME
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.weights import WeightsAttr, WeightsMode, module_text

AWKWARD = ["", "conv1/Relu:0", 'a "quoted" name', "back\\slash", "line\nbreak\ttab", "größe", "名前", "#-> %x", "\x00"]

strings = st.lists(st.sampled_from(AWKWARD) | st.text(st.characters(codec="utf-8"), max_size=8), max_size=4)


@pytest.mark.slow
@given(nodes=strings, tensors=strings, absorbed=strings)
def test_names_read_back(nodes: list[str], tensors: list[str], absorbed: list[str]) -> None:
    name = NameAttr.of(nodes, tensors, absorbed)
    again = Parser(make_context(), str(name)).parse_attribute()
    assert again == name
    assert list(name.tensors) == tensors


def test_letters_beyond_ascii_are_printed_as_they_are() -> None:
    """So that plain strings, which xDSL parses, read back too."""
    x = test.TestOp(result_types=[TensorType(f32, [2])])
    module = ModuleOp([x, ObserveOp(x.res[0], "größe/名前")])
    text = module_text(module, WeightsMode.ELIDED)
    assert '"größe/名前"' in text
    assert Parser(make_context(), text).parse_module().is_structurally_equivalent(module)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ParseError, match="expected text in UTF-8"):
        Parser(make_context(), r'#qmlir.name<nodes ["\FF"]>').parse_attribute()


def test_nodes_without_a_name_and_repetitions_are_left_out() -> None:
    name = NameAttr.of(["a", "", "b", "a"], ["", ""], ["x", "x"])
    assert list(name.nodes) == ["a", "b"]
    assert list(name.tensors) == ["", ""]  # one for each result
    assert list(name.absorbed) == ["x"]


def test_names_of_an_operation() -> None:
    op = test.TestOp(result_types=[f32])
    assert names_of(op) == NameAttr.of()
    op.attributes[NAME.key] = StringAttr("of another kind")
    assert names_of(op) == NameAttr.of()
    NAME.put(op, NameAttr.of(["n"]))
    assert names_of(op) == NameAttr.of(["n"])


@pytest.mark.slow
@given(outcome=st.sampled_from(DecisionAttr.OUTCOMES), code=st.sampled_from(AWKWARD), reason=st.sampled_from(AWKWARD))
def test_decisions_read_back(outcome: str, code: str, reason: str) -> None:
    decision = DecisionAttr.of(outcome, code, reason)
    assert Parser(make_context(), str(decision)).parse_attribute() == decision


def test_no_other_outcome() -> None:
    with pytest.raises(VerifyException, match="a decision is quantized or float, got both"):
        DecisionAttr.of("both", "", "")


def test_opaque_keeps_all_it_was_given() -> None:
    x = test.TestOp(result_types=[TensorType(f32, [2])]).res[0]
    op = OpaqueOp("ai.onnx.Fancy", [x], [x.type], reason="unknown", source={"alpha": FloatAttr(0.5, f32)})
    op.verify()
    assert (op.kind.data, op.reason.data, list(op.source.data)) == ("ai.onnx.Fancy", "unknown", ["alpha"])


def test_a_buffer_has_its_weights_type() -> None:
    op = ConstantBufferOp(WeightsAttr(np.zeros((2, 3), np.int8)))
    op.verify()
    assert op.result.type.get_shape() == (2, 3)
    assert op.result.type.element_type == i8


@pytest.mark.parametrize("bounds", [None, (-1.5, 6.0), (0.0, 0.0)])
def test_bounds_of_an_observer(bounds: tuple[float, float] | None) -> None:
    x = test.TestOp(result_types=[TensorType(f32, [2])]).res[0]
    op = ObserveOp(x, "x", bounds)
    op.verify()
    assert op.bounds == bounds
