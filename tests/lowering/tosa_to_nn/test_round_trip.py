"""What `qint-to-tosa` writes and `tosa-to-nn` reads computes the same bits: operations and networks."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.dialects import nn, qint
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import Array
from qmlir.ir.source import parse_text
from qmlir.ir.upstream.tosa_0_80 import is_tosa
from qmlir.ir.verify import verify
from qmlir.ir.weights import WeightsMode, module_text
from tests.conftest import THOROUGH, crossed
from tests.graphs import SCHEMAS, Graph, quantized
from tests.interop import cases as networks
from tests.interop.cases import Case
from tests.lowering.qint_to_tosa.tosa_cases import tosa_cases
from tests.models.networks import Find

VERSIONS = ("1.0", "0.80")
EACH = 40 if THOROUGH else 6
"""Random networks of each schema."""


def written_and_read(module: ModuleOp, version: str) -> ModuleOp:
    """A module on the integer level as tosa, through text, and back."""
    text = module_text(Pipeline(("qint-to-tosa", {"version": version}))(module), WeightsMode.INLINE)
    again = parse_text(make_context(), text, "tosa.mlir")
    verify(again)
    read = Pipeline("tosa-to-nn")(again)
    verify(read)
    assert not any(map(is_tosa, read.walk()))
    return read


def check(module: ModuleOp, version: str, inputs: Sequence[Array]) -> ModuleOp:
    """Compares what is read with what was written; unsigned integers have become signless ones of the same bits."""
    read = written_and_read(module, version)
    with np.errstate(all="ignore"):
        expected = evaluate(main_function(module), inputs)
        got = evaluate(main_function(to_integers(read)), list(map(signless, inputs)))
    for ours, theirs in zip(got, map(signless, expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    return read


def signless(x: Array) -> Array:
    return x.view(f"i{x.itemsize}") if x.dtype.kind == "u" else x


@crossed({"case": tosa_cases(), "version": VERSIONS})
def test_each_operation(case: Case, version: str) -> None:
    check(case.module, version, case.inputs)


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["asymmetric", "symmetric", "symmetric_with_uint8"])
def test_digits(schema: str) -> None:
    """All layers come back as quantized layers, and the machine code computes the bits of the original."""
    module, samples = networks.digits(schema)
    read = check(to_integers(module), "1.0", [samples[0]])
    layers = [type(op) for op in read.walk() if isinstance(op, nn.Conv2DOp | nn.FullyConnectedOp)]
    assert layers == [type(op) for op in module.walk() if isinstance(op, nn.Conv2DOp | nn.FullyConnectedOp)]
    assert not any(isinstance(op, qint.RequantizeOp) for op in read.walk())
    compiled, reference = qmlir.compile(read), qmlir.reference(module)
    for sample in samples:
        np.testing.assert_array_equal(compiled(sample), reference(sample))


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS)
def test_random_networks(schema: str) -> None:
    """All that tosa can express."""

    def judge(module: ModuleOp, graph: Graph) -> bool:
        integers = to_integers(module)
        try:
            Pipeline("qint-to-tosa")(integers)
        except qmlir.QmlirError:
            return False
        for version in VERSIONS:
            check(integers, version, [graph.samples[0]])
        return True

    assert quantized(schema, EACH, judge, fail_on_float=True) >= EACH // 2


@pytest.mark.models
@pytest.mark.slow
def test_cifar(shared: Find) -> None:
    module, samples = networks.cifar(shared)
    check(to_integers(module), "1.0", [samples[0]])
