"""Functions that are defined on an interval, at the stored integers beyond its ends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline
from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.policies.ledger import decisions
from qmlir.policies.runtimes import follow
from qmlir.stages import IMPORTED
from tests.backends.onnx.runtime import exported, kinds, run
from tests.backends.tflite.runtime import LiteRT
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load, model, node

Array = np.ndarray

FUNCTIONS: dict[str, tuple[float, float]] = {
    "Asin": (-1.0, 1.0), "Acos": (-1.0, 1.0), "Atanh": (-0.999, 0.999), "Acosh": (1.0, 5.0),
    "Log": (0.1, 4.0), "Sqrt": (0.0, 4.0),
}  # fmt: skip
"""Operator → the range of its argument, whose ends are the domain's or close to them."""

CASES = [(operator, precision) for operator in FUNCTIONS for precision in ("int8", "uint8", "int16")]


def network(operator: str) -> tuple[ModuleOp, Array]:
    """The function of numbers that come from a product, and 255 arguments."""
    low, high = FUNCTIONS[operator]
    x = np.linspace(low, high, 255, dtype=np.float32)
    nodes = [node("Mul", "x half", "m"), node("Add", "m m", "a"), node(operator, "a")]
    return load(model(nodes, {"x": x.shape}, {"half": np.array(0.5, np.float32)})), x


def quantized(operator: str, precision: Any, **options: Any) -> tuple[ModuleOp, ModuleOp, Array]:
    """The float network, the quantized one, and arguments."""
    module, x = network(operator)
    schema = "symmetric" if precision == "int16" else "asymmetric"
    return module, qmlir.quantize(module, qmlir.profile(module, [x]), precision=precision, schema=schema, **options), x


@pytest.mark.parametrize(("operator", "precision"), CASES)
def test_no_argument_of_the_profile_is_lost(operator: str, precision: str) -> None:
    """Where an end of the range is stored beyond the domain, the result is the function's at this end."""
    module, q, x = quantized(operator, precision)
    exact, found = qmlir.reference(module)(x), qmlir.reference(q)(x)
    assert np.abs(found - exact).max() <= 0.25 * np.abs(exact).max()  # they are steep there; NaN would be 0
    np.testing.assert_array_equal(qmlir.compile(q)(x), found)


@pytest.mark.parametrize("op", [nn.AsinOp, nn.AcosOp, nn.AcoshOp, nn.AtanhOp, nn.LogOp, nn.SqrtOp, nn.RsqrtOp])
def test_a_domain_is_where_floats_have_values(op: type[nn.AsinOp]) -> None:
    """Tables have the value at the nearer end beyond it; floats are NaN there."""
    inside = np.array([end for end in op.DOMAIN if np.isfinite(end)])
    beyond = inside + np.where(inside == op.DOMAIN[0], -1e-3, 1e-3)
    with np.errstate(all="ignore"):
        made = op.make([nn.ConstantOp(beyond.astype(np.float32)).y])
        np.testing.assert_array_equal(made.evaluate(beyond.astype(np.float32))[0], np.nan)
        assert not np.isnan(made.scalar(inside)).any()
        np.testing.assert_array_equal(made.scalar(beyond), made.scalar(inside))


@crossed({"form": ["onnx-qdq", "onnx-qoperator"], "operator, precision": CASES})
def test_an_exported_function_has_the_same_values(operator: str, precision: str, form: str, tmp_path: Path) -> None:
    """It is computed on floats there, of arguments clipped to its domain; read again it is on integers."""
    _, q, x = quantized(operator, precision)
    follow(q, "onnxruntime")
    path, want = tmp_path / "exported.onnx", qmlir.reference(q)(x)
    written = exported(q, path, format=form)
    step = np.abs(np.diff(np.unique(want))).min()
    (got,) = run(path, [x])
    assert np.abs(got - want).max() <= (1.01 * step if precision == "int16" else 0)
    assert ({"Clip", "Relu"} & set(kinds(written)) != set()) == reaches_beyond(q)
    again = Pipeline(*IMPORTED)(qmlir.load(path, numerics="onnxruntime"))
    assert {(d.operation, d.outcome) for d in decisions(again)} == {(d.operation, d.outcome) for d in decisions(q)}
    np.testing.assert_array_equal(qmlir.reference(again)(x), want)


@pytest.mark.parametrize("precision", ["int8", "int16"])
@pytest.mark.parametrize("operator", ["Sqrt", "Log"])
def test_litert_computes_within_the_domain(operator: str, precision: str, tmp_path: Path) -> None:
    """It refuses the root of a negative number, which a stored integer may stand for, in integers too."""
    module, x = network(operator)
    q = qmlir.quantize(module, qmlir.profile(module, [x]), precision=precision, schema="symmetric")
    assert reaches_beyond(q)
    qmlir.export(q, tmp_path / "exported.tflite")
    again = Pipeline(*IMPORTED)(qmlir.load(tmp_path / "exported.tflite", numerics="litert-reference"))
    assert not [d for d in decisions(again) if d.outcome == "float"]
    interpreter = LiteRT(tmp_path / "exported.tflite")
    for part in (x, -x):
        (got,) = interpreter.run([part])
        np.testing.assert_array_equal(qmlir.reference(again)(part), got)
        assert np.isfinite(got).all()


def reaches_beyond(module: ModuleOp) -> bool:
    """Whether integers that the function reads stand for numbers beyond its domain."""
    (op,) = (o for o in module.walk() if isinstance(o, FunctionOp))
    type = uniform(op.x)
    numbers = (np.array([type.storage_min, type.storage_max]) - type.zero_point) * type.scale
    return bool(numbers[0] < op.DOMAIN[0] or numbers[1] > op.DOMAIN[1])


@pytest.mark.parametrize("operator", ["Asin", "Acos", "Acosh"])
def test_a_function_that_stays_float_is_clamped_too(operator: str) -> None:
    """It reads what integers computed; 1.0 comes as 1.0024."""
    policy = {"rules": [{"kind": operator.lower(), "keep_float": True}]}
    module, q, x = quantized(operator, "int8", policy=policy)
    entry = next(d for d in decisions(q) if d.operation == f"nn.{operator.lower()}")
    assert entry.outcome == "float"
    found = qmlir.reference(q)(x)
    assert np.abs(found - qmlir.reference(module)(x)).max() < 0.2
    np.testing.assert_array_equal(qmlir.compile(q)(x), found)
