"""The completed llvm dialect: round trips and constraints of the added operations."""

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.upstream.llvm import LLVM


def parsed(source: str) -> ModuleOp:
    """A module read with the completed dialect only."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(LLVM)
    return Parser(context, source).parse_module()


def test_round_trip() -> None:
    body = """
    %e = llvm.extractelement %v[%i : i64] : vector<4xf32>
    %s = llvm.fptosi %e : f32 to i32
    %u = llvm.fptoui %v : vector<4xf32> to vector<4xi8>
    %w = llvm.uitofp %u : vector<4xi8> to vector<4xf32>"""
    module = parsed(f"llvm.func @f(%v: vector<4xf32>, %i: i64) {{{body}\n    llvm.return\n  }}")
    module.verify()
    assert body in str(module)
    assert str(parsed(str(module))) == str(module)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ('"llvm.fptosi"(%v) : (vector<4xf32>) -> vector<2xi32>', "as many lanes, got vector<4xf32> and vector<2xi32>"),
        ('"llvm.fptoui"(%v) : (vector<4xf32>) -> i32', "as many lanes"),
        ('"llvm.uitofp"(%i) : (i64) -> i32', "i32"),
        ('"llvm.extractelement"(%v, %i) : (vector<4xf32>, i64) -> i32', "f32"),
    ],
)
def test_constraints(operation: str, message: str) -> None:
    module = parsed(f"llvm.func @f(%v: vector<4xf32>, %i: i64) {{ %r = {operation}\nllvm.return }}")
    with pytest.raises(VerifyException, match=message):
        module.verify()
