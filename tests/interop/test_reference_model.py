"""`qint-to-tosa`: Arm's reference model of TOSA computes our bits from every export."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.ir.context import make_context
from qmlir.ir.signature import defined_functions
from qmlir.ir.source import parse_text
from tests.conftest import THOROUGH
from tests.graphs import SCHEMAS, Graph, quantized
from tests.interop import cases as networks
from tests.interop.cases import Case
from tests.interop.reference_model import computed, programs, signed, tosa_opt
from tests.interop.upstream import Array, assert_same_bits
from tests.lowering.qint_to_tosa.tosa_cases import tosa_cases
from tests.lowering.tosa_to_nn.test_samples import assert_close
from tests.lowering.tosa_to_nn.tosa_samples import SAMPLES, TosaSample
from tests.models.networks import Find


def check(module: ModuleOp, inputs: Sequence[Array]) -> None:
    """Compares the reference model's results of the export with those of our own reference."""
    with np.errstate(all="ignore"):
        expected = evaluate(main_function(module), inputs)
    for got, wanted in zip(computed(Pipeline("qint-to-tosa")(module), inputs), expected, strict=True):
        assert_same_bits(got, signed(wanted))


@pytest.mark.parametrize("case", tosa_cases(), ids=lambda case: case.name)
def test_each_operation(case: Case) -> None:
    check(case.module, case.inputs)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_samples_of_reading(sample: TosaSample) -> None:
    """What tests/lowering/tosa_to_nn expects of each operation is what the reference model computes."""
    inputs = sample.inputs(7)
    (got,) = computed(parse_text(make_context(), sample.text(), "sample.mlir"), inputs)
    assert_close(got, sample.result_of(inputs))


@pytest.mark.parametrize("flags", [(), ("--mlir-print-op-generic",)], ids=["custom", "generic"])
def test_what_tosa_opt_prints_is_read(flags: tuple[str, ...]) -> None:
    """Every sample as a function of one module, which keeps its results."""
    texts = [s.text().replace("@main", f"@sample{i}") for i, s in enumerate(SAMPLES)]
    printed = parse_text(make_context(), tosa_opt("\n".join(texts), *flags), "printed.mlir")
    read = Pipeline("tosa-to-nn")(printed)
    functions = {f.sym_name.data: f for f in defined_functions(read)}
    for index, sample in enumerate(SAMPLES):
        inputs = sample.inputs(7)
        with np.errstate(all="ignore"):
            (got,) = evaluate(functions[f"sample{index}"], inputs)
        assert_close(got, sample.result_of(inputs))


@pytest.mark.parametrize("schema", ["asymmetric", "symmetric", "symmetric_with_uint8"])
def test_digits(schema: str) -> None:
    module, samples = networks.digits(schema)
    for sample in samples[:10]:
        check(to_integers(module), [sample])


EACH = 40 if THOROUGH else 6
"""Random networks of each schema."""


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS)
def test_random_networks(schema: str) -> None:
    """All but those that tosa cannot express."""
    programs()

    def judge(module: ModuleOp, graph: Graph) -> bool:
        integers = to_integers(module)
        try:
            Pipeline("qint-to-tosa")(integers)
        except qmlir.QmlirError:
            return False
        for sample in graph.samples[:2]:
            check(integers, [sample])
        return True

    assert quantized(schema, EACH, judge, fail_on_float=True) >= EACH // 2


@pytest.mark.models
@pytest.mark.slow
def test_cifar(shared: Find) -> None:
    module, samples = networks.cifar(shared)
    for sample in samples[:3]:
        check(to_integers(module), [sample])
