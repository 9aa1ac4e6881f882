"""Networks in the DOT language."""

import shutil
import subprocess
from pathlib import Path

import pytest

import qmlir
from qmlir.analysis.graph import FILLS, dot_text
from tests.cli.small import write_small
from tests.transforms.quantize.calibrated import parsed

TEXT = """
func.func @main(%x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["a \\"b\\"\\\\"]>}) -> tensor<1x4xf32> {
  %0 = nn.relu %x {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}
"""


def test_names_are_quoted() -> None:
    assert dot_text(parsed(TEXT)).splitlines()[3:-1] == [
        '  n0 [label="a \\"b\\"\\\\", shape=oval];',
        '  n1 [label="r\\nnn.relu", fillcolor="white"];',
        '  n0 -> n1 [label="a \\"b\\"\\\\\\n1x4 f32"];',
        '  n2 [label="results", fillcolor="white"];',
        '  n1 -> n2 [label="r\\n1x4 f32"];',
    ]


def test_a_quantized_network(tmp_path: Path) -> None:
    small = write_small(tmp_path)
    samples = [s[None] for s in small.samples]
    text = dot_text(
        qmlir.quantize(small.onnx, data=samples, policy={"rules": [{"name": "dense1", "keep-float": True}]})
    )
    assert 'label="image", shape=oval' in text
    assert f'fillcolor="{FILLS["quantized"]}"' in text
    assert f'label="dense1\\nnn.fully_connected", fillcolor="{FILLS["float"]}"' in text
    assert '\\n1x8x8x4 i8"]' in text


def test_graphviz_reads_it(tmp_path: Path) -> None:
    if (dot := shutil.which("dot")) is None:
        pytest.skip("there is no dot; install graphviz")
    small = write_small(tmp_path)
    done = subprocess.run([dot, "-Tsvg"], input=dot_text(small.onnx), capture_output=True, text=True, check=True)
    assert "<svg" in done.stdout
    assert "conv1" in done.stdout
