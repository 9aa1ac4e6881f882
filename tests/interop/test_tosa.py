"""`qint-to-tosa`: TOSA 1.0 runs by IREE, 0.80 by mlir-opt 19's lowering and IREE, and both compute our bits.

IREE is also the judge of the dialect: it reads what we print, and we read what it prints.
"""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.ir.context import make_context
from qmlir.ir.facts import NAME
from qmlir.ir.signature import defined_functions
from qmlir.ir.source import parse_text
from qmlir.ir.weights import WeightsMode, module_text
from tests.conftest import ROOT, crossed
from tests.interop import cases as networks
from tests.interop.cases import Case, check_cases, together
from tests.interop.upstream import Compiled, assert_same_bits, iree_opt, mlir_opt, tosa_text
from tests.lowering.qint_to_tosa.tosa_cases import tosa_cases
from tests.models.networks import Find


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return tosa_cases()


@pytest.mark.slow
def test_only_tosa_is_left(cases: list[Case]) -> None:
    printed = iree_opt(tosa_text(together(cases)))
    assert printed.count("func.func") == len(cases)
    assert {m.split(".")[0] for m in re.findall(r"\b[a-z]+\.[a-z_]+", printed)} == {"func", "tosa"}


@pytest.mark.slow
def test_iree_computes_the_same_bits(cases: list[Case]) -> None:
    check_cases(Compiled(tosa_text(together(cases)), input_type="tosa"), cases)


TO_LINALG = (
    "--pass-pipeline=builtin.module(func.func(tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor,canonicalize))"
)
"""mlir-opt 19's own reading of TOSA 0.80."""


def version_of_mlir_opt() -> str:
    """The version of TOSA that the mlir-opt at hand has."""
    found = re.search(r"LLVM version (\d+)", mlir_opt("", "--version"))
    assert found is not None
    return "0.80" if int(found[1]) < 20 else "1.0"


@pytest.mark.slow
def test_version_0_80_computes_the_same_bits(cases: list[Case]) -> None:
    if version_of_mlir_opt() != "0.80":
        pytest.skip("this mlir-opt has TOSA 1.0")
    lowered = mlir_opt(tosa_text(together(cases), "0.80"), TO_LINALG)
    assert "tosa." not in lowered
    check_cases(Compiled(lowered), cases)


# ---------------------------------------------------------------------------------------------------------------
# Networks


def check_network(quantized: ModuleOp, samples: Sequence[np.ndarray]) -> None:
    integers = to_integers(quantized)
    mlir_opt(tosa_text(integers, version_of_mlir_opt()))
    compiled = Compiled(tosa_text(integers, weights=WeightsMode.RESOURCE), input_type="tosa")
    networks.check_network(compiled, quantized, samples)


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["asymmetric", "symmetric", "symmetric_with_uint8"])
def test_digits(schema: str) -> None:
    check_network(*networks.digits(schema))


@pytest.mark.models
@pytest.mark.slow
def test_cifar(shared: Find) -> None:
    check_network(*networks.cifar(shared))


# ---------------------------------------------------------------------------------------------------------------
# The way in


def read(text: str) -> ModuleOp:
    module = parse_text(make_context(), text, "iree-opt")
    module.verify()
    return module


FORMS = [(), ("--mlir-print-op-generic",)]


@pytest.mark.slow
@pytest.mark.parametrize("flags", FORMS)
def test_what_mlir_opt_prints_of_our_export_becomes_nn(cases: list[Case], flags: tuple[str, ...]) -> None:
    printed = read(mlir_opt(tosa_text(together(cases), version_of_mlir_opt()), *flags))
    module = to_integers(Pipeline("tosa-to-nn")(printed))
    functions = {f.sym_name.data: f for f in defined_functions(module)}
    for index, case in enumerate(cases):
        with np.errstate(all="ignore"):
            (expected,) = evaluate(main_function(case.module), case.inputs)
            inputs = [x.view(f"i{x.itemsize}") if x.dtype.kind == "u" else x for x in case.inputs]
            (got,) = evaluate(functions[f"case{index}"], inputs)
        assert_same_bits(got, expected)


@pytest.mark.parametrize("flags", FORMS)
def test_what_mlir_opt_prints_of_0_80_becomes_the_same_nn(flags: tuple[str, ...]) -> None:
    """The floats too, which our own exports have not."""
    if version_of_mlir_opt() != "0.80":
        pytest.skip("this mlir-opt has TOSA 1.0")
    text = (ROOT / "filecheck_tests/lowering/tosa_to_nn/version_0_80.mlir").read_text(encoding="utf-8")
    ours, theirs = (Pipeline("tosa-to-nn")(read(t)) for t in (text, mlir_opt(text, *flags)))
    for module in (ours, theirs):
        for op in module.walk():
            NAME.drop(op)
            if isinstance(op, func.FuncOp):
                op.arg_attrs = None
    assert ours.is_structurally_equivalent(theirs)


@crossed({"name": ["ops.mlir", "syntax.mlir"], "flags": FORMS})
def test_modules_go_through_iree_and_come_back(name: str, flags: tuple[str, ...]) -> None:
    """What we print it reads, what it prints we read; twice, as a first time fills in properties left at a default."""
    module = read((ROOT / "filecheck_tests/ir/upstream/tosa" / name).read_text(encoding="utf-8"))
    once = read(iree_opt(module_text(module, WeightsMode.INLINE), *flags))
    assert len(list(once.walk())) == len(list(module.walk()))
    again = read(iree_opt(module_text(once, WeightsMode.INLINE), *flags))
    assert once.is_structurally_equivalent(again)
