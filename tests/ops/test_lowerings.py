"""Each operation of nn and qint goes all the way down, or says why not; and machine code means what `evaluate` says."""

import pytest
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.target import load_target
from qmlir.ir.interfaces import TensorOp
from qmlir.lowering.nn_to_loops.convert import RULES as NN_RULES
from qmlir.lowering.nn_to_qint.convert import LOWERINGS
from qmlir.lowering.qint_to_loops.convert import RULES as QINT_RULES
from tests.conftest import THOROUGH
from tests.lowering.both import check
from tests.ops.samples import OPERATIONS, SAMPLES, Sample

NO_LOOPS: dict[type[TensorOp], str] = {}
"""Operations without kernels, each with the reason."""


NOT_RUN: dict[str, str] = {
    "nn.constant-ui8": "buffers hold signless integers; an unsigned tensor is to be refused, or made a scast's operand"
}
"""Samples that no kernel takes, each with the reason."""


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_each_operation_has_kernels(op: type[TensorOp]) -> None:
    rules = NN_RULES if op.name.startswith("nn.") else QINT_RULES
    assert (op in rules) != (op in NO_LOOPS), "a rule, or a reason why there is none"


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.name.startswith("nn.")], ids=lambda op: op.name)
def test_the_target_knows_each_operation(op: type[TensorOp]) -> None:
    """Its file and the table of integer forms agree; a constant is no computation."""
    target = load_target("cpu")
    if op is not nn.ConstantOp:
        assert (op.name in target.integer) == (op in LOWERINGS) != (op.name in target.floating)


RUN = [sample for sample in SAMPLES if str(sample) not in NOT_RUN]
SHARE = [sample for op in OPERATIONS for sample in [s for s in RUN if s.op is op][::2]]
"""The first sample of each operation, the third and so on."""


@pytest.mark.parametrize("sample", RUN if THOROUGH else SHARE, ids=str)
def test_machine_code_means_the_same(sample: Sample) -> None:
    arrays = sample.arrays(3)
    inputs, constants = arrays[: sample.inputs], arrays[sample.inputs :]

    def graph(*values: SSAValue) -> SSAValue:
        return sample.build([*values, *(nn.ConstantOp(c).y for c in constants)]).results[0]

    check(graph, *inputs)
