"""time-calls: timed code returns what other code returns, and its readings follow each other."""

import platform
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp

import qmlir
from qmlir.compiler import to_integers
from qmlir.errors import PipelineError
from qmlir.ir.context import make_context
from qmlir.ir.facts import TIMED
from qmlir.ir.signature import main_function
from qmlir.ir.source import parse_text
from qmlir.running.machine_code import to_machine_code
from qmlir.transforms.loops.time_calls import TimeCallsPass
from tests.cli.small import write_small

NETWORK = """
func.func @main(%x: tensor<1x4x4x2xf32>) -> (tensor<1x4x4x3xf32>, tensor<1x4x4x2xf32>) {
  %w = nn.constant <tensor<3x1x1x2xf32>, [1.0, -0.5, 0.25, 2.0, -1.0, 0.125]> : tensor<3x1x1x2xf32>
  %y = nn.conv2d %x, %w : tensor<1x4x4x2xf32>, tensor<3x1x1x2xf32> -> tensor<1x4x4x3xf32>
  %z = nn.tanh %x : tensor<1x4x4x2xf32> -> tensor<1x4x4x2xf32>
  func.return %y, %z : tensor<1x4x4x3xf32>, tensor<1x4x4x2xf32>
}
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads the counter of x86")
def test_timed_code_returns_the_same_and_its_readings_grow() -> None:
    module = to_integers(parse_text(make_context(), NETWORK, "test"))
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 2)).astype(np.float32)
    expected = to_machine_code(module.clone()).run(x)
    timed = module.clone()
    *outputs, readings = to_machine_code(timed, counter="cycle").run(x)
    assert [o.tobytes() for o in outputs] == [e.tobytes() for e in expected]
    calls = TIMED.required(timed)
    assert readings.shape == (len(calls) + 1,)
    assert (np.diff(readings) > 0).all()


def test_arguments_keep_their_attributes(tmp_path: Path) -> None:
    module = to_integers(qmlir.load(write_small(tmp_path).onnx))
    lowered = qmlir.Pipeline("nn-to-loops", "qint-to-loops", "finish-loops", "time-calls")(module)
    function = main_function(lowered)
    assert isinstance(function.arg_attrs, ArrayAttr)
    assert len(function.arg_attrs) == len(function.args) == 3
    assert len(function.arg_attrs.data[-1].data) == 0


def test_it_wants_an_entry() -> None:
    with pytest.raises(PipelineError, match=r"needs one function with the attribute qmlir\.inputs, got 0"):
        TimeCallsPass().apply(make_context(), ModuleOp([]))
