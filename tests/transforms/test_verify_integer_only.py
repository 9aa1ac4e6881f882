"""The pass `verify-integer-only`: floats between integers are refused, those at the entry and the exit are not."""

import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.errors import NodeError
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text

BYTES = "!quant.uniform<i8:f32, 0.5>"


def network(between: str, result: str) -> ModuleOp:
    """A network on bytes, between a cast of its input and a cast of its output, with more in the middle."""
    return parse_text(
        make_context(),
        f"""
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
          %q = quant.qcast %x : tensor<4xf32> to tensor<4x{BYTES}>
          %r = nn.relu %q : tensor<4x{BYTES}> -> tensor<4x{BYTES}>
          {between}
          %y = quant.dcast {result} : tensor<4x{BYTES}> to tensor<4xf32>
          func.return %y : tensor<4xf32>
        }}""",
        "net.mlir",
    )


def test_casts_at_both_ends_are_let_through() -> None:
    module = network("", "%r")
    before = str(module)
    assert str(qmlir.Pipeline("verify-integer-only")(module)) == before


def test_floats_between_integers_are_refused() -> None:
    between = f"""
      %d = quant.dcast %r : tensor<4x{BYTES}> to tensor<4xf32>
      %e = nn.exp %d : tensor<4xf32> -> tensor<4xf32>
      %s = quant.qcast %e : tensor<4xf32> to tensor<4x{BYTES}>"""
    with pytest.raises(NodeError, match=r"nn.exp .*must compute on integers by integer instructions"):
        qmlir.Pipeline("verify-integer-only")(network(between, "%s"))
