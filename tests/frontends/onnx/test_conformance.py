"""ONNX's own node cases of the operators qmlir knows: what imports agrees, and what does not has a reason."""

import sys
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from qmlir.backends.reference import evaluate
from qmlir.dialects.interfaces import Array
from qmlir.errors import QmlirError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.onnx.converters import converts, folds
from qmlir.frontends.opaque import opaque_report
from tests.frontends.onnx.agreement import main_of

KNOWN = {operator for table in (converts, folds) for _, operator, _ in table.operators()}

LEAST_PASSING = 150
"""Somewhat fewer than pass with the onnx of today: its number of cases changes from release to release."""


@cache
def cases() -> list[Any]:
    with np.errstate(all="ignore"):
        every: list[Any] = collect_testcases("")
        return [c for c in every if all(n.op_type in KNOWN for n in c.model.graph.node)]


def as_constants(model: onnx.ModelProto, inputs: list[Array]) -> dict[str, Array]:
    """Inputs that give shapes, axes, pads, bounds or modes: all but the first of operators that want them known."""
    wanted = {"Reshape", "Squeeze", "Unsqueeze", "Pad", "ReduceMean", "Clip", "Dropout", "BatchNormalization"}
    node = model.graph.node[0]
    if len(model.graph.node) != 1 or node.op_type not in wanted:
        return {}
    names = [i.name for i in model.graph.input]
    return {n: a for n, a in list(zip(names, inputs, strict=True)) if n != node.input[0]}


def _array(value: Any) -> Array | None:
    """A case's value as an array; None for a sequence."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return None if isinstance(value, list | tuple) else np.asarray(value)


def outcome(case: Any) -> str:
    """`passed`, or in one clause why not."""
    (inputs, wanted), *_ = case.data_sets
    inputs, wanted = ([_array(a) for a in values] for values in (inputs, wanted))
    if any(a is None for a in (*inputs, *wanted)):
        return "its data are not tensors"
    arrays = [np.asarray(a) for a in inputs]
    constants = as_constants(case.model, arrays)
    try:
        module = load_onnx(case.model, constants=constants)
    except QmlirError as error:
        return f"refused: {error}"
    module.verify()
    if report := opaque_report(module):
        return f"{report[0].kind.removeprefix('onnx.')}: {report[0].reason}"
    names = [i.name for i in case.model.graph.input]
    results = evaluate(main_of(module), [a for n, a in zip(names, arrays, strict=True) if n not in constants])
    for ours, theirs in zip(results, wanted, strict=True):
        assert theirs is not None
        np.testing.assert_allclose(ours, theirs, rtol=max(case.rtol, 1e-5), atol=max(case.atol, 1e-6), strict=True)
    return "passed"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_node_cases_pass_or_have_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {case.name: outcome(case) for case in cases()}
    counts = Counter(outcomes.values())
    kinds = Counter(o.partition(":")[0] for o in outcomes.values() if o != "passed")
    others = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    with capsys.disabled():
        sys.stdout.write(f"\nONNX node cases of known operators: {counts['passed']} of {len(outcomes)} pass; ")
        sys.stdout.write(f"the others stop at: {others}\n")
    assert counts["passed"] >= LEAST_PASSING
