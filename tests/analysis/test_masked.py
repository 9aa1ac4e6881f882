"""Masks saturate on purpose, so that analyses of attention show the errors of scores, not those of masks."""

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.effects import effects
from qmlir.analysis.output_measure import decibels
from qmlir.compiler import main_function
from qmlir.errors import QmlirError
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import set_names
from tests.transforms.quantize.test_masks import X, network

WAYS = (("constant", "0xFF800000"), ("product", "-1.0E+30"), ("replaced", "0xFF800000"), ("constant", "-1.0E+04"))


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: "".join(way))
def attention(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModuleOp:
    """A network whose tensors have the names of their SSA values."""
    way, number = request.param
    path = tmp_path_factory.mktemp("masked") / "net.mlir"
    path.write_text(network(number, way))
    module = qmlir.load(path)
    block = main_function(module).body.block
    for value in (*block.args, *(result for op in block.ops for result in op.results)):
        if value.name_hint is not None:
            set_names(value, NameAttr.of(tensors=[value.name_hint]))
    return module


@pytest.mark.slow
def test_each_tensor_is_near_what_saturates(attention: ModuleOp) -> None:
    quantized = qmlir.quantize(attention, data=list(X))
    rows = qmlir.analyze(attention, quantized, list(X))
    assert {"y", "s", "p"} <= {row.tensor for row in rows}
    assert all(row.isolated_sqnr is not None and row.isolated_sqnr > 35 for row in rows)
    assert all(row.cumulative_sqnr > 35 for row in rows)
    budgets = qmlir.error_budgets(attention, quantized, list(X))
    assert all(row.whole > 35 and row.result_clipping > 50 for row in budgets)


def test_the_sum_predicts_the_error_of_attention(attention: ModuleOp) -> None:
    found = effects(attention, qmlir.quantize(attention, data=list(X)), list(X))
    assert all(decibels(row.noise) > 35 for row in found.effects)
    assert abs(decibels(found.predicted) - decibels(found.measured)) < 1


def test_a_network_without_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(network("-1.0E+04", "constant"))
    quantized = qmlir.quantize(path, data=list(X))
    for measure in (qmlir.analyze, qmlir.effects, qmlir.error_budgets):
        with pytest.raises(QmlirError, match=r"compared by their names, got no tensor with a name; give operations"):
            measure(path, quantized, list(X))
