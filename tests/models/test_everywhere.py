"""Tests of the table of networks on processors: figures of another runtime, and the ratios to them."""

import json

from xdsl.parser import Parser

import qmlir
from docs.measurements.everywhere import BESIDE, NETWORKS, ratios
from qmlir.backends.cpu.processors import PROCESSORS
from qmlir.ir.context import make_context

SOURCE = """
func.func @main(%x: tensor<1x4xi8>) -> tensor<1x2xi32> {
  %w = nn.constant <tensor<2x4xi8>, [1, -2, 3, 4, 5, -6, 7, 8]> : tensor<2x4xi8>
  %acc = qint.fully_connected %x, %w {zero_point = 0 : i32} : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<1x2xi32>
  func.return %acc : tensor<1x2xi32>
}
"""


def test_recorded_figures_are_of_known_networks() -> None:
    recorded = json.loads(BESIDE.read_text())
    assert recorded.pop("runtime")
    assert set(recorded) <= set(PROCESSORS)
    for networks in recorded.values():
        assert set(networks) <= set(NETWORKS)
        for figures in networks.values():
            assert set(figures) == {"instructions", "memory", "code and constants"}


def test_ratios_count_inputs_outputs_and_constants() -> None:
    executable = qmlir.compile(Parser(make_context(), SOURCE).parse_module(), cpu="cortex-m4")
    sizes = executable.sizes
    others = {
        "instructions": 100,
        "memory": 2 * (sizes.arena + 4 + 8),
        "code and constants": 4 * (sizes.code + sizes.weights),
    }
    assert ratios(executable, 75, others).split() == ["0.75", "0.50", "0.25"]
