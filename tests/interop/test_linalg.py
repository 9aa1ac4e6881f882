"""`qint-to-linalg`: mlir-opt accepts every operation's form, and IREE computes our bits from it."""

import re
from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.compiler import to_integers
from qmlir.dialects import qint
from qmlir.errors import UnsupportedError
from qmlir.ir.weights import WeightsMode
from tests.interop import cases as networks
from tests.interop.cases import ALL, Case, cast_cases, check_cases, sample_case, stays, together
from tests.interop.upstream import Array, Compiled, linalg_text, mlir_opt
from tests.models.networks import Find
from tests.ops.samples import Sample

REFUSED = {"nn.reduce_max-i1", "nn.reduce_min-i1"}


def refused(sample: Sample) -> bool:
    """Whether a sample has no form in linalg."""
    return str(sample) in REFUSED or (sample.op not in qint.QINT.operations and not stays(sample))


LOWERED = [s for s in ALL if not refused(s)]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [*map(sample_case, LOWERED), *cast_cases()]


def test_each_qint_operation_is_tried() -> None:
    assert {s.op for s in LOWERED} >= {op for op in qint.QINT.operations}


@pytest.mark.slow
def test_mlir_opt_accepts_each_operation(cases: list[Case]) -> None:
    printed = mlir_opt(linalg_text(together(cases)))
    assert printed.count("func.func") == len(cases)
    assert {m.split(".")[0] for m in re.findall(r"\b[a-z]+\.[a-z_]+", printed)} == {
        "func",
        "linalg",
        "arith",
        "tensor",
        "math",
    }


IREE_ERRS = {
    "qint.blocked_fully_connected-bias,_a_block": "IREE distributes no sum over two dimensions of which one has size 1",
}
"""Sample → what a defect of IREE's compiler is."""


@pytest.mark.slow
def test_iree_computes_the_same_bits(cases: list[Case]) -> None:
    computed = [case for case in cases if case.name not in IREE_ERRS]
    assert len(computed) == len(cases) - len(IREE_ERRS)
    check_cases(Compiled(linalg_text(together(computed))), computed)


@pytest.mark.parametrize("sample", [s for s in ALL if refused(s)], ids=str)
def test_the_rest_is_refused(sample: Sample) -> None:
    with pytest.raises(
        UnsupportedError, match=r"compares integers of 8|only integers, data movement and casts|not written in linalg"
    ):
        linalg_text(sample_case(sample).module)


# ---------------------------------------------------------------------------------------------------------------
# Networks


def check_network(quantized: ModuleOp, samples: Sequence[Array]) -> None:
    """mlir-opt accepts the network, and IREE's results are the reference's to the last bit; weights as resources."""
    text = linalg_text(to_integers(quantized), WeightsMode.RESOURCE)
    assert "dialect_resources" in text
    mlir_opt(text)
    networks.check_network(Compiled(text), quantized, samples)


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["asymmetric", "symmetric", "symmetric_with_uint8"])
def test_digits(schema: str) -> None:
    check_network(*networks.digits(schema))


@pytest.mark.models
@pytest.mark.slow
def test_cifar(shared: Find) -> None:
    check_network(*networks.cifar(shared))
