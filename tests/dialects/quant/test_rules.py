"""Scale rules as traits, on operations made for the test."""

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import IndexType, TensorType, f32, i8, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.rules import AccumulatorScale, FixedScale, FreeScale, SameScale, ScaleRule
from qmlir.dialects.quant.types import UniformType
from qmlir.numerics.schemas import Precision, QuantizationError, Schema


@irdl_op_definition
class MoveOp(IRDLOperation):
    name = "rules.move"
    inputs = var_operand_def()
    outputs = var_result_def()
    traits = traits_def(SameScale())


@irdl_op_definition
class ContractOp(IRDLOperation):
    name = "rules.contract"
    inputs = var_operand_def()
    outputs = var_result_def()
    traits = traits_def(FreeScale(), AccumulatorScale(data=0, weights=1, bias=2))


def value(type: Attribute) -> SSAValue:
    return test.TestOp(result_types=[type]).res[0]


def q(scale: float, zero_point: int = 0) -> UniformType:
    return UniformType.per_tensor(i8, scale, zero_point)


def tensor(element: Attribute) -> TensorType[Attribute]:
    return TensorType(element, [2])


def move(operands: list[Attribute], results: list[Attribute]) -> MoveOp:
    return MoveOp.build(operands=[[value(tensor(o)) for o in operands]], result_types=[[tensor(r) for r in results]])


def contract(*operands: Attribute) -> ContractOp:
    return ContractOp.build(operands=[[value(tensor(o)) for o in operands]], result_types=[[tensor(q(1.0))]])


# SameScale.


def test_same_scale_accepts() -> None:
    move([f32, f32], [f32]).verify()
    move([q(0.5, 3), q(0.5, 3)], [q(0.5, 3)]).verify()
    move([q(0.5, 3), IndexType()], [q(0.5, 3)]).verify()
    move([i8], [i8]).verify()


def test_same_scale_ties_data_only() -> None:
    op = move([q(0.5), IndexType(), f32], [q(0.5), i8])
    assert list(SameScale().tied(op)) == [op.operands[0], op.operands[2], op.results[0]]


@pytest.mark.parametrize(
    ("operands", "results"), [([q(0.5)], [q(0.25)]), ([q(0.5), q(0.5, 1)], [q(0.5)]), ([q(0.5)], [q(0.5), q(0.5, 2)])]
)
def test_same_scale_rejects(operands: list[Attribute], results: list[Attribute]) -> None:
    message = r"'rules.move' needs one quantized type .* got !quant.uniform<i8:f32, 5.0.*> and !quant.* put an nn.requ"
    with pytest.raises(VerifyException, match=message):
        move(operands, results).verify()


def test_same_scale_refuses_axes() -> None:
    channels = UniformType.per_axis(i8, 0, [0.5, 0.25])
    with pytest.raises(VerifyException, match="must be per tensor, got 2 scales along axis 0; move the values before"):
        move([channels], [channels]).verify()


# FixedScale.

SIGMOID = FixedScale(1 / 256, zero_point=-128, symmetric_scale=1 / 128)
TANH = FixedScale(1 / 128, zero_point=0, symmetric_scale=1 / 128)
LOG_SOFTMAX = FixedScale(16 / 256, zero_point=127, symmetric_scale=16 / 128, bounded=False)


@pytest.mark.parametrize(
    ("rule", "schema", "precision", "parameters"),
    [
        (SIGMOID, "asymmetric", "int8", (1 / 256, -128)),
        (SIGMOID, "symmetric_with_uint8", "int8", (1 / 256, -128)),
        (SIGMOID, "symmetric", "int8", (1 / 128, 0)),
        (SIGMOID, "symmetric_with_power2_scale", "int8", (1 / 128, 0)),
        (SIGMOID, "asymmetric", "uint8", (1 / 256, 0)),
        (SIGMOID, "asymmetric", "int16", (1 / 32768, 0)),
        (SIGMOID, "symmetric_with_power2_scale", "int16", (1 / 32768, 0)),
        (TANH, "asymmetric", "int8", (1 / 128, 0)),
        (TANH, "asymmetric", "uint8", (1 / 128, 128)),
        (LOG_SOFTMAX, "asymmetric", "int8", (16 / 256, 127)),
        (LOG_SOFTMAX, "symmetric_with_uint8", "int8", (16 / 128, 0)),
    ],
)
def test_fixed_scale(rule: FixedScale, schema: Schema, precision: Precision, parameters: tuple[float, int]) -> None:
    assert rule.result_parameters(schema, precision) == parameters


@pytest.mark.parametrize(
    ("rule", "bounds", "precision", "suits"),
    [
        (SIGMOID, (0.0, 0.5), "int8", True),
        (SIGMOID, (0.0, 15 / 256), "int8", False),
        (SIGMOID, (0.0, 15 / 256), "int16", True),
        (SIGMOID, (0.0, 200 / 32768), "int16", False),
        (SIGMOID, (0.0, 0.0), "int8", True),
        (TANH, (-0.5, 0.0), "uint8", True),
        (LOG_SOFTMAX, (-8.0, 0.0), "int8", False),
    ],
)
def test_a_fixed_scale_suits_results_that_fill_half_of_its_bits(
    rule: FixedScale, bounds: tuple[float, float], precision: Precision, suits: bool
) -> None:
    assert rule.suits(*bounds, "asymmetric", precision) == suits


def test_fixed_scale_refuses_unsigned_symmetric() -> None:
    with pytest.raises(QuantizationError, match="schema symmetric needs signed integers, got uint8; use int8"):
        SIGMOID.result_parameters("symmetric", "uint8")


# AccumulatorScale.

RULE = AccumulatorScale(data=0, weights=1, bias=2)
CHANNELS = UniformType.per_axis(i8, 0, [0.5, 0.1])


def test_bias_type() -> None:
    assert RULE.bias_type(q(0.5, 7), q(0.25)) == UniformType.per_tensor(i32, 0.125)
    assert RULE.bias_type(q(0.3), CHANNELS) == UniformType.per_axis(i32, 0, [0.3 * 0.5, 0.3 * 0.1])
    last_axis = UniformType.per_axis(i8, 3, [0.5, 0.1])
    assert RULE.bias_type(q(0.3), last_axis).axis == 0


def test_accumulator_accepts() -> None:
    contract(f32, f32, f32).verify()
    contract(q(0.5), q(0.5)).verify()
    contract(q(0.5), CHANNELS, f32).verify()
    contract(q(0.5), CHANNELS, i32).verify()
    contract(q(0.3, 7), q(0.7), RULE.bias_type(q(0.3, 7), q(0.7))).verify()
    contract(q(0.5), q(0.5, 1), UniformType.per_tensor(i32, 0.25)).verify()  # a zero point of weights is no matter
    contract(q(0.3, 7), CHANNELS, RULE.bias_type(q(0.3, 7), CHANNELS)).verify()
    contract(q(0.5), CHANNELS, q(0.7, -5)).verify()  # a scale of its own
    contract(q(0.5), q(0.5), UniformType.per_axis(i8, 0, [0.7, 0.1], [3, 4])).verify()


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ((f32, q(0.5), UniformType.per_tensor(i32, 0.25)), "needs data quantized per tensor .* got tensor<2xf32> and"),
        ((CHANNELS, q(0.5), UniformType.per_tensor(i32, 0.25)), "got 2 scales along axis 0 and !quant"),
        ((q(0.5), CHANNELS, UniformType.per_tensor(i32, 0.25)), "a bias with 2 scales along axis 0 and zero point 0"),
        ((q(0.5), q(0.5), UniformType.per_axis(i32, 0, [0.25, 0.25])), "a bias with one scale and zero point 0"),
        ((q(0.5), q(0.5), UniformType.per_tensor(i32, 0.25, 1)), "a bias with one scale and zero point 0"),
        ((q(0.5), CHANNELS, UniformType.per_axis(i32, 1, [0.25, 0.05])), "a bias with 2 scales along axis 0"),
        (
            (q(0.5), CHANNELS, UniformType.per_axis(i8, 1, [0.7, 0.1])),
            "one scale, or one for each element, got 2 scales",
        ),
        (
            (q(0.5), CHANNELS, UniformType.per_axis(i32, 0, [0.25, 0.06])),
            "needs the bias scale 0.05 in channel 1, the product of the data's 0.5 and the weights' 0.1, got 0.06",
        ),
    ],
)
def test_accumulator_rejects(operands: tuple[Attribute, ...], message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        contract(*operands).verify()


def test_rules_are_found_by_kind() -> None:
    """The quantizer asks an operation for its rule; both of two are there."""
    assert MoveOp.get_trait(SameScale) == SameScale()
    assert set(ContractOp.get_traits_of_type(ScaleRule)) == {FreeScale(), RULE}
    assert ContractOp.get_trait(FixedScale) is None
