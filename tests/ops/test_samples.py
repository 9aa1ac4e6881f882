"""What every operation of nn and qint owes: samples, text that reads back, implied types, a meaning of those types."""

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.context import make_context
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import WeightsMode, module_text
from tests.ops.samples import OPERATIONS, SAMPLES, Sample

SAMPLED = {sample.op for sample in SAMPLES}


def in_module(sample: Sample) -> tuple[ModuleOp, TensorOp]:
    """A function that applies the operation to its arguments."""
    block = Block(arg_types=[operand.type for operand in sample.operands])
    op = sample.build(block.args)
    block.add_ops([op, func.ReturnOp(op.results[0])])
    function = func.FuncOp("main", (block.arg_types, [op.results[0].type]), Region(block))
    return ModuleOp([function]), op


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_each_operation_has_samples_that_use_all_it_has(op: type[TensorOp]) -> None:
    samples = [sample for sample in SAMPLES if sample.op is op]
    assert samples, f"{op.name} needs a sample in tests/ops/samples.py"
    for name, definition in op.get_irdl_definition().properties.items():
        default = getattr(definition, "default_value", None)
        values = {sample.build().properties.get(name) for sample in samples}
        assert values - {default, None}, f"no sample of {op.name} gives {name} a value that is not its default"


def test_notes_tell_samples_apart() -> None:
    assert len({str(sample) for sample in SAMPLES}) == len(SAMPLES)


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_text_reads_back(sample: Sample, generic: bool) -> None:
    module, _ = in_module(sample)
    module.verify()
    text = module_text(module, WeightsMode.INLINE, generic=generic)
    again = Parser(make_context(), text).parse_module()
    again.verify()
    assert again.is_structurally_equivalent(module)
    assert module_text(again, WeightsMode.INLINE, generic=generic) == text


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_result_type_is_implied(sample: Sample) -> None:
    _, op = in_module(sample)
    (result,) = op.results
    shape = shape_of(result)
    grown = TensorType(element_of(result), [*shape[:-1], shape[-1] + 1] if shape else [1])
    type(op).verify(op)
    assert_refused(op, grown, "as its operands imply")
    assert_refused(op, TensorType(element_of(result), [*shape, 1]), "as its operands imply")
    assert_refused(op, TensorType(element_of(result), [*shape[:-1], DYNAMIC_INDEX]), "static shapes")


def assert_refused(op: TensorOp, result_type: TensorType[Attribute], why: str) -> None:
    other = type(op).create(operands=op.operands, result_types=[result_type], properties=op.properties)
    with pytest.raises(VerifyException, match=why):
        other.verify()
    other.erase()


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.operands], ids=str)
def test_unknown_dimensions_are_refused(sample: Sample) -> None:
    first, *others = [operand.type for operand in sample.operands]
    dynamic = TensorType(first.element_type, [DYNAMIC_INDEX] * max(1, len(first.get_shape())))
    op = sample.build()
    block = Block(arg_types=[dynamic, *others])
    other = type(op).create(operands=block.args, result_types=[op.results[0].type], properties=op.properties)
    with pytest.raises(VerifyException, match="needs static shapes"):
        other.verify()


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_evaluate_yields_what_the_type_says(sample: Sample) -> None:
    op = sample.build()
    inputs = sample.arrays()
    for array in inputs:
        array.flags.writeable = False
    (result,) = op.evaluate(*inputs)
    assert result.shape == shape_of(op.results[0])
    assert result.dtype == dtype_of(element_of(op.results[0]))
    (again,) = op.evaluate(*inputs)
    np.testing.assert_array_equal(again, result)


def without_dimensions(sample: Sample) -> TensorOp | None:
    """The operation on operands of one element each, without dimensions; None if it has no such form."""
    scalar = replace(sample, operands=tuple(replace(operand, shape=()) for operand in sample.operands))
    try:
        op = scalar.build()
        op.verify()
    except VerifyException:
        return None
    return op


def test_evaluate_of_tensors_without_dimensions() -> None:
    """Factors and tables have a dimension, which a result must not take over from them."""
    rng, found = np.random.default_rng(0), set[str]()
    for sample in SAMPLES:
        if not sample.operands or (op := without_dimensions(sample)) is None:
            continue
        (result,) = op.evaluate(*(replace(operand, shape=()).array(rng) for operand in sample.operands))
        assert np.shape(result) == shape_of(op.results[0]), sample
        assert result.dtype == dtype_of(element_of(op.results[0])), sample
        found.add(op.name)
    assert {"qint.lookup", "qint.requantize", "qint.add", "qint.mul", "nn.tanh", "nn.reshape"} <= found


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_make_leaves_nothing_behind(sample: Sample) -> None:
    """It asks a provisional operation for the result types, which must not stay among the users of the operands."""
    op = sample.build()
    assert all(sum(1 for _ in operand.uses) == 1 for operand in op.operands)
