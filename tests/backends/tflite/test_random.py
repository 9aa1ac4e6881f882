"""Random networks, quantized by us and in floats: LiteRT's reference kernels on the exported files."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, seed
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.nn.base import NNOp, is_float
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.errors import UnsupportedError
from qmlir.policies.runtimes import follow
from tests.backends.tflite.runtime import LiteRT, kinds
from tests.conftest import THOROUGH
from tests.graphs import SCHEMAS, Graph, drawn, graphs, quantized

EACH = 60 if THOROUGH else 12

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

REFUSED = "dilations|constant indices"
"""What the generator makes that TFLite lacks: pools with dilations, scatters to computed places."""


def refusal(module: ModuleOp, path: Path) -> str:
    """What the error says, if a network has no form; else it is exported."""
    try:
        qmlir.export(module, path, format="tflite")
    except UnsupportedError as error:
        return str(error)
    return ""


def is_integer(module: ModuleOp, path: Path) -> bool:
    """Whether nothing is computed on floats, neither here nor in the file: single bits of them differ elsewhere."""
    operations = [*main_function(module).body.block.ops]
    casts = sum(isinstance(op, DequantizeCastOp) for op in operations)
    floats = any(is_float(operand) for op in operations if isinstance(op, NNOp) for operand in op.data_operands())
    return not floats and kinds(path).count("DEQUANTIZE") <= casts


@pytest.mark.parametrize("schema", SCHEMAS)
def test_random_networks(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.tflite"

    def check(module: ModuleOp, graph: Graph) -> bool:
        if said := refusal(module, path):
            assert re.search(REFUSED, said)
            return False
        if not is_integer(module, path):
            return False
        follow(module, "litert-reference")
        theirs, ours = LiteRT(path), qmlir.reference(module)
        for sample in graph.samples:
            for a, b in zip(theirs.run([sample]), ours.run(sample), strict=True):
                np.testing.assert_array_equal(a, b)
        return True

    assert quantized(schema, EACH, check) >= EACH // 6


def test_random_float_networks(tmp_path: Path) -> None:
    path = tmp_path / "graph.tflite"

    @seed(4)
    @drawn(EACH)
    @given(graphs())
    def check(graph: Graph) -> None:
        if said := refusal(graph.module, path):
            assert re.search(REFUSED, said)
            return
        theirs, ours = LiteRT(path), qmlir.reference(graph.without_observers())
        for sample in graph.samples:
            for a, b in zip(theirs.run([sample]), ours.run(sample), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(b).max(initial=0))

    check()
