"""How operations are made and verified, whatever their level."""

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import IntegerAttr, TensorType, f32, i8, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.names import NameAttr

Q = UniformType.per_tensor(i8, 0.5, 3)


def value(element: Attribute, *shape: int) -> SSAValue:
    return test.TestOp(result_types=[TensorType(element, shape)]).res[0]


def test_make_infers_result_types() -> None:
    x = value(f32, 2, 3)
    op = nn.TransposeOp.make([x], {"permutation": ints([1, 0])}, attributes=NAME.entry(NameAttr.of(["n"], ["y"])))
    assert op.y.type == TensorType(f32, [3, 2])
    assert NAME.of(op) == NameAttr.of(["n"], ["y"])
    op.verify()


def test_make_takes_the_element_of_a_free_result() -> None:
    op = nn.ReluOp.make([value(Q, 3)], element=UniformType.per_tensor(i8, 0.25, -128))
    assert element_of(op.y) == UniformType.per_tensor(i8, 0.25, -128)
    op.verify()


def test_make_gives_a_free_result_the_first_operands_element_otherwise() -> None:
    assert element_of(nn.ReluOp.make([value(Q, 3)]).y) == Q


def test_make_overrules_no_rule() -> None:
    """A movement's result has its operand's element, whatever is asked for."""
    op = nn.ReshapeOp.make([value(Q, 3)], {"shape": ints([1, 3])}, element=f32)
    assert element_of(op.y) == Q


def test_make_leaves_out_absent_properties() -> None:
    op = nn.ClampOp.make([value(f32, 3)], {"min": bound(0.0), "max": bound(None)})
    assert list(op.properties) == ["min"]


def test_make_takes_optional_and_variadic_operands() -> None:
    x, w = value(f32, 1, 3), value(f32, 2, 3)
    assert nn.FullyConnectedOp.make([x, w, []]).b is None
    assert nn.FullyConnectedOp.make([x, w, [value(f32, 2)]]).b is not None
    assert shape_of(nn.ConcatOp.make([[x, w]], {"axis": IntegerAttr(0, i64)}).y) == (3, 3)


def test_operands_that_do_not_fit_are_left_as_they_were() -> None:
    """A refused operation must not stay among the users of its operands."""
    a, b = value(f32, 2, 3), value(f32, 2, 4)
    with pytest.raises(VerifyException, match="do not broadcast"):
        nn.AddOp.make([a, b])
    assert not list(a.uses)
    assert not list(b.uses)


def test_evaluate_leaves_its_inputs_alone() -> None:
    x = np.array([[-1.0, 2.0]], np.float32)
    before = x.copy()
    nn.FullyConnectedOp.make([value(f32, 1, 2), value(f32, 1, 2), []], {"min": bound(0.0)}).evaluate(x, x)
    nn.ReluOp.make([value(f32, 1, 2)]).evaluate(x)
    np.testing.assert_array_equal(x, before)
