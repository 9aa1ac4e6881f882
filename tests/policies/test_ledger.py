"""The ledger: every code explained, every row readable, the target's reasons."""

import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import qmlir
from qmlir.analysis.counts import Decided, decided
from qmlir.cli.ledger import print_changes, print_decisions
from qmlir.compiler import to_integers
from qmlir.dialects import nn
from qmlir.dialects.target import load_target
from qmlir.errors import OptionError
from qmlir.lowering.nn_to_qint.convert import LOWERINGS
from qmlir.policies.ledger import KINDS, REMEDIES, Change, Entry, changes, decide, decision_of, decisions
from tests.conftest import ROOT
from tests.transforms.quantize.calibrated import parsed, quantized

TEXT = """
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x4xf32>
  %0 = nn.relu %x {qmlir.name = #qmlir.name<nodes ["[bold]act"], tensors ["r"]>} : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %0 {name = "r", range = [0.0, 1.0]} : tensor<1x4xf32>
  %1 = nn.cumulative_product %0 {axis = 1 : i64} : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %1 : tensor<1x4xf32>
}
"""


def test_rows() -> None:
    assert decisions(parsed(TEXT)) == []
    module = quantized(parsed(TEXT))
    products = "each of its products has more digits than the one before, which no single scale holds"
    expected = [
        Entry("[bold]act", "nn.relu", "quantized", "integer", "i8 activations", "0.00392157"),
        Entry("nn.cumulative_product", "nn.cumulative_product", "float", "target", products),
    ]
    assert decisions(module) == expected
    assert [(e.node, e.outcome) for e in decisions(to_integers(module))] == [(e.node, e.outcome) for e in expected]
    assert expected[0].as_dict() == {
        "node": "[bold]act",
        "operation": "nn.relu",
        "outcome": "quantized",
        "code": "integer",
        "reason": "i8 activations",
        "scale": "0.00392157",
        "crossing": None,
        "remedy": "",
    }
    assert expected[1].remedy.startswith("leave it float, or build it of operations")


def test_the_last_decision_counts() -> None:
    module = quantized(parsed(TEXT))
    op = next(o for o in module.walk() if o.name == "nn.relu")
    decide(op, "float", "target", "because")
    assert (decision := decision_of(op)) is not None
    assert decision.reason.data == "because"


def test_each_code_that_is_used_is_explained_and_each_explained_is_used() -> None:
    sources = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "qmlir").rglob("*.py") if p.name != "ledger.py")
    for code in KINDS:
        assert f'"{code}"' in sources, code
    assert set(REMEDIES) == set(KINDS) - {"integer", "moved", "delivered", "compared", "device"}
    for code in re.findall(r'\b(?:code=|Reason\()\s*"([a-z-]+)"', sources):
        assert code in KINDS


def test_on_a_terminal() -> None:
    out = StringIO()
    network = decided(quantized(parsed(TEXT)))
    print_decisions(network, Console(file=out, width=160), whole=True)
    first, *_, last = out.getvalue().splitlines()
    assert first.split() == ["node", "operation", "outcome", "scale", "why"]
    assert "[bold]act" in out.getvalue()  # a name is no markup
    assert last == "1 of 2 operations quantized to int8, 1 left float"


def test_successes_are_counted_and_the_others_shown() -> None:
    out = StringIO()
    network = decided(quantized(parsed(TEXT)))
    print_decisions(network, Console(file=out, width=160))
    first, headings, row, *_ = out.getvalue().splitlines()
    assert first == "1 of 2 operations quantized to int8, 1 left float:"
    assert headings.split() == ["node", "operation", "why"]
    assert "[bold]act" not in out.getvalue()
    assert row.split()[0] == next(d.entry.node for d in network if d.entry.outcome == "float")


def test_several_precisions_are_counted() -> None:
    out = StringIO()
    entry = Entry("a", "nn.relu", "quantized", "integer", "i8 activations")
    stored = [{"results": [{"type": type, "scales": [1.0]}]} for type in ("i8", "u8", "i8")]
    print_decisions([Decided(entry, each) for each in stored], Console(file=out, width=160))
    assert out.getvalue() == "3 of 3 operations quantized (2 to int8, 1 to uint8)\n"


def test_changes() -> None:
    one, other = Entry("a", "nn.relu", "float", "target", "no"), Entry("a", "nn.relu", "quantized", "integer", "i8")
    new = Entry("b", "nn.relu", "quantized", "integer", "i8")
    assert changes([one], [one]) == []
    assert changes([one], [other, new]) == [Change(one, other), Change(None, new)]
    assert changes([one, one, new], [one, other]) == [Change(one, other), Change(new, None)]  # the second "a"
    out = StringIO()
    print_changes(changes([one], [other, new]), Console(file=out, width=160))
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["node", "-", "+", "+", "2"]


# The target


def test_reasons_of_the_target() -> None:
    cpu = load_target("cpu")
    assert cpu.why_float("nn.conv2d", "i8") is None
    assert cpu.why_float("nn.conv2d", "u8") == "target cpu computes it on i8, i16, not on u8"
    assert cpu.why_float("nn.lstm", "i8") == "target cpu has no integer form of it"
    assert "single scale" in (cpu.why_float("nn.cumulative_product", "i8") or "")


def test_the_cpu_lowers_what_its_file_promises() -> None:
    cpu = load_target()
    assert {op.name for op in nn.NN.operations if op in LOWERINGS} == set(cpu.integer)
    assert not set(cpu.integer) & set(cpu.floating)


def test_an_unknown_target() -> None:
    with pytest.raises(OptionError, match="target: must be one of cpu, got gpu"):
        load_target("gpu")


def test_doubles_stay_float() -> None:
    text = """
    func.func @main(%x: tensor<1x4xf64>) -> tensor<1x4xf32> {
      %0 = nn.add %x, %x : tensor<1x4xf64>, tensor<1x4xf64> -> tensor<1x4xf64>
      %1 = nn.cast %0 : tensor<1x4xf64> -> tensor<1x4xf32>
      func.return %1 : tensor<1x4xf32>
    }"""
    module = qmlir.quantize(parsed(text), data=[np.ones((1, 4))])
    (entry,) = (e for e in decisions(module) if e.operation == "nn.add")
    assert (entry.outcome, entry.reason) == ("float", "it is computed on f64, and only f32 can be quantized")
