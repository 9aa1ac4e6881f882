"""The meaning of each qint operation against an oracle in plain Python; data movement is held to onnxruntime."""

import numpy as np
import pytest

from qmlir.dialects import nn, qint
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.ir.types import dtype_of
from qmlir.numerics.contracts import CONTRACTS
from tests.ops.integer_oracle import ORACLES, ROUNDINGS, fixed_inverse_root, half_away, tensor, two_steps
from tests.ops.samples import OPERATIONS, QINT_SAMPLES, Sample
from tests.ops.samples_normalization import OTHER_SAMPLES


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.name.startswith("qint.")], ids=lambda op: op.name)
def test_each_operation_has_an_oracle(op: type[TensorOp]) -> None:
    assert op in ORACLES


def test_each_contract_has_samples() -> None:
    ops = [s.build() for s in QINT_SAMPLES if s.op is qint.RequantizeOp]
    assert {op.contract.data for op in ops if isinstance(op, qint.RequantizeOp)} == set(CONTRACTS)
    assert {name for name, contract in CONTRACTS.items() if not contract.sums} == set(ROUNDINGS)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("sample", QINT_SAMPLES, ids=str)
def test_evaluate_equals(sample: Sample, seed: int) -> None:
    op = sample.build()
    inputs = sample.arrays(seed)
    (result,) = op.results
    expected = tensor(ORACLES[sample.op](op, *inputs), shape_of(result), dtype_of(element_of(result)))
    np.testing.assert_array_equal(op.evaluate(*inputs)[0], expected)


@pytest.mark.parametrize("sample", [s for s in OTHER_SAMPLES if s.op is nn.RootQuotientOp], ids=str)
def test_quotients_by_roots(sample: Sample) -> None:
    def quotient(x: int, divisor: int) -> int:
        root, bits = fixed_inverse_root(divisor)
        return two_steps(x, root, -bits, half_away)

    inputs = sample.arrays(1)
    expected = np.vectorize(lambda x, y: quotient(int(x), int(y)), otypes=[np.int32])(*inputs)
    np.testing.assert_array_equal(sample.build().evaluate(*inputs)[0], expected)
