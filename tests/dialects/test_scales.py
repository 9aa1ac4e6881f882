"""Power-of-two scales: the exact predicate on types, the constraint of IRDL, and what a function promises."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseArrayBase, TensorType, f32, f64, i8, i32
from xdsl.ir import Attribute
from xdsl.irdl import EqAttrConstraint, IRDLOperation, VerificationContext, irdl_op_definition, operand_def
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

import qmlir
from qmlir.backends.reference import Reference
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.dialects.qint import GlobalSumPoolOp, RequantizeOp
from qmlir.dialects.qmlir import PowerOfTwoAttr, PowerOfTwoScales, promises_powers_of_two, wrong_scale
from qmlir.dialects.quant.foreign import SubChannelType
from qmlir.dialects.quant.types import ScaledType, UniformType
from qmlir.errors import PipelineError
from qmlir.ir.facts import SCALES
from qmlir.ir.source import SourceError
from qmlir.ir.verify import verify
from qmlir.stages import TO_INTEGERS, to_llvm, to_loops, to_plan
from tests.graphs import Graph, graphs
from tests.transforms.quantize.calibrated import parsed, quantized, quantized_values, uniform

SCHEMA = "symmetric_with_power2_scale"

POWERS = st.integers(-126, 127)
"""Exponents of the normal scales of f32."""

SCALE = st.floats(2.0**-126, 2.0**127, width=32)


def per_tensor(scales: Sequence[float]) -> ScaledType:
    return UniformType.per_tensor(i8, scales[0])


def per_axis(scales: Sequence[float]) -> ScaledType:
    return UniformType.per_axis(i8, 1, scales)


def per_block(scales: Sequence[float]) -> ScaledType:
    return SubChannelType.of(i8, [(0, 2)], [len(scales)], scales)


@pytest.mark.parametrize("made", [per_tensor, per_axis, per_block])
@given(exponents=st.lists(POWERS, min_size=1, max_size=5))
def test_exponents_of_powers(made: Callable[[Sequence[float]], ScaledType], exponents: list[int]) -> None:
    type = made([2.0**e for e in exponents])
    assert type.exponents == tuple(exponents[: len(type.scales)])
    assert wrong_scale(type) is None
    assert PowerOfTwoScales().verifies(type)


@given(st.lists(SCALE, min_size=2, max_size=5))
def test_one_that_is_no_power_is_named(scales: list[float]) -> None:
    """A float's hexadecimal form says whether it is a power of two: 0x1.0…0p-7."""
    type = per_axis(scales)
    right = [float.hex(s).startswith("0x1.0000000000000p") for s in scales]
    assert [e is not None for e in type.exponents] == right
    wrong = wrong_scale(type)
    if all(right):
        assert wrong is None
        return
    first = right.index(False)
    assert wrong is not None
    assert wrong.startswith(f"{scales[first]!r} at index {first}; the nearest is 2^")
    with pytest.raises(VerifyException, match="scales must be powers of two"):
        PowerOfTwoScales().verify(type, VerificationContext())


@irdl_op_definition
class ShiftOnlyOp(IRDLOperation):
    """An operation of a device that can only shift."""

    name = "test.shift_only"
    x = operand_def(TensorType.constr(PowerOfTwoScales()))
    b = operand_def(TensorType.constr(PowerOfTwoScales() | EqAttrConstraint(i32)))


@pytest.mark.parametrize(
    ("x", "b", "message"),
    [
        (UniformType.per_tensor(i8, 0.25), i32, None),
        (UniformType.per_tensor(i8, 0.25), UniformType.per_axis(i32, 0, [0.5, 2.0**-20]), None),
        (UniformType.per_tensor(i8, 0.1), i32, r"got 0.1; the nearest is 2\^-3 = 0.125"),
        (
            UniformType.per_tensor(i8, 0.25),
            UniformType.per_axis(i32, 0, [0.5, 3.0]),
            "got 3.0 at index 1",
        ),
        (f32, i32, "a quantized type with scales that are powers of two is needed, got f32"),
        (UniformType.per_tensor(i8, 0.25), f64, "f64"),
    ],
)
def test_as_a_constraint_of_operands(x: Attribute, b: Attribute, message: str | None) -> None:
    op = ShiftOnlyOp.create(operands=[create_ssa_value(TensorType(t, [2])) for t in (x, b)])
    if message is None:
        op.verify()
        return
    with pytest.raises(VerifyException, match=message):
        op.verify()


# ---------------------------------------------------------------------------------------------------------------
# Promises


@pytest.mark.slow
@settings(max_examples=15)
@given(graphs(), st.booleans())
def test_what_the_schema_promises_holds(graph: Graph, per_channel: bool) -> None:
    """Every type, bias and requantization; each pass has been verified on the way."""
    try:
        module = quantized(graph.module, schema=SCHEMA, per_channel=per_channel)
    except PipelineError:  # no observer of this network holds a range
        return
    assert promises_powers_of_two(main_function(module))
    assert all(None not in uniform(v).exponents for v in quantized_values(module))
    integers = to_integers(module)
    assert promises_powers_of_two(main_function(integers))
    plain = module.clone()
    SCALES.drop(main_function(plain))
    without = to_integers(plain)
    for op in integers.walk():
        if isinstance(op, RequantizeOp):
            mean = isinstance(op.x.owner, GlobalSumPoolOp)
            assert op.contract.data == "shift" or mean
            assert mean or set(op.multiplier.get_values()) <= {0, 1 << 30}
    for op in without.walk():
        assert not isinstance(op, RequantizeOp) or op.contract.data == "single"
    for sample in graph.samples:
        got, expected = (Reference(main_function(m)).run(sample) for m in (integers, without))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)


TEXT = """
func.func @main(%x: tensor<1x3x3x2xf32>) -> tensor<1x1x1x2xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x3x3x2xf32>
  %0 = nn.relu %x {qmlir.name = #qmlir.name<nodes ["relu1"], tensors ["r"]>}
    : tensor<1x3x3x2xf32> -> tensor<1x3x3x2xf32>
  calib.observe %0 {name = "r", range = [0.0, 2.0]} : tensor<1x3x3x2xf32>
  %1 = nn.global_average_pool %0 : tensor<1x3x3x2xf32> -> tensor<1x1x1x2xf32>
  calib.observe %1 {name = "m", range = [0.0, 0.5]} : tensor<1x1x1x2xf32>
  func.return %1 : tensor<1x1x1x2xf32>
}
"""


def test_a_pass_that_breaks_it_is_caught() -> None:
    module = quantized(parsed(TEXT), schema=SCHEMA)
    verify(module)
    relu = next(op for op in module.walk() if op.name == "nn.relu")
    Rewriter.replace_value_with_new_type(relu.results[0], TensorType(UniformType.per_tensor(i8, 0.3), [1, 3, 3, 2]))
    message = (
        r'nn.relu "relu1": qmlir.scales promises scales that are powers of two, got tensor "r" with scale 0.3; '
        r"the nearest is 2\^-2 = 0.25"
    )
    with pytest.raises(SourceError, match=message):
        verify(module)
    SCALES.drop(main_function(module))
    verify(module)


def test_a_shift_that_is_none_is_caught() -> None:
    """The contract holds each multiplier of a lowered network to the promise."""
    integers = to_integers(quantized(parsed(TEXT), schema=SCHEMA))
    relu, mean = (op for op in integers.walk() if isinstance(op, RequantizeOp))
    assert (relu.contract.data, mean.contract.data) == ("shift", "single")  # 1/9 is no shift
    relu.properties["multiplier"] = DenseArrayBase.from_list(i32, [3 << 29])
    with pytest.raises(SourceError, match="by contract shift needs multipliers that are multiples of 1073741824"):
        verify(integers)


def test_it_goes_down_with_the_function() -> None:
    module = quantized(parsed(TEXT), schema=SCHEMA)
    assert isinstance(SCALES.of(main_function(module)), PowerOfTwoAttr)
    x = np.linspace(-1, 1, 18, dtype=np.float32).reshape(1, 3, 3, 2)
    np.testing.assert_array_equal(qmlir.compile(module)(x), qmlir.reference(module)(x))
    linalg = Pipeline("nn-to-qint", "qint-to-linalg")(module)
    assert SCALES not in main_function(linalg).attributes


def test_nothing_of_it_is_left_in_the_llvm_dialect() -> None:
    module = quantized(parsed(TEXT), schema=SCHEMA)
    SCALES.put(module, PowerOfTwoAttr())
    lowered = Pipeline(*TO_INTEGERS, *to_loops(), *to_plan(), *to_llvm())(module)
    assert not any(SCALES.on(op) for op in lowered.walk())
