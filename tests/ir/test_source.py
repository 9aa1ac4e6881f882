"""Text → module → place in the text; and what the verifier adds to xDSL's."""

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp

from qmlir.ir.context import make_context
from qmlir.ir.source import SourceError, location_of, parse_text
from qmlir.ir.verify import verification_errors, verify

FUNCTION = """func.func @f(%c: i1) -> i32 {
  %a, %b = "test.op"() : () -> (i32, i32)
  %r = scf.if %c -> (i32) {
    scf.yield %a : i32
  } else {
      %s = arith.addi %a, %b : i32 loc("model.py":7:9)
    scf.yield %s : i32
  }
  func.return %r : i32
}"""


def parse(text: str, *, first_line: int = 1) -> ModuleOp:
    return parse_text(make_context(), text, "f.mlir", first_line=first_line)


def places(module: ModuleOp) -> dict[str, str]:
    return {op.name: str(location_of(op)) for op in module.walk()}


def test_an_operation_stands_where_its_name_is() -> None:
    assert places(parse(FUNCTION)) == {
        "builtin.module": "None",
        "func.func": "f.mlir:1:1",
        "test.op": "f.mlir:2:12",
        "scf.if": "f.mlir:3:8",
        "scf.yield": "f.mlir:7:5",
        "arith.addi": "model.py:7:9",
        "func.return": "f.mlir:9:3",
    }


def test_a_piece_of_a_file_counts_from_its_first_line() -> None:
    assert places(parse(FUNCTION, first_line=100))["test.op"] == "f.mlir:101:12"


def test_a_clone_keeps_its_place_and_a_new_operation_has_that_of_what_is_around_it() -> None:
    module = parse(FUNCTION).clone()
    addition = next(op for op in module.walk() if isinstance(op, arith.AddiOp))
    block = addition.parent
    assert block is not None
    block.insert_op_before(new := arith.ConstantOp.from_int_and_width(1, 32), addition)
    assert str(location_of(addition)) == "model.py:7:9"
    assert str(location_of(new)) == "f.mlir:3:8"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arith.constant 1 : i32\n\n%a = arith.constant\n\n", "f.mlir:3:6: "),
        ('"foo.bar"() : () -> ()', "f.mlir:1:1: operation foo.bar is not registered"),
        ("%a = arith.cosntant 1 : i32", "operation arith.cosntant is not registered; did you mean arith.constant?"),
        ('%a = "test.op"() : () -> !nope.type\n', "f.mlir:1:26: 'nope.type' is not registered"),
        ("func.func @f() {\n  func.return\n", "f.mlir:2:3: "),
        (
            "%w = nn.constant dense<1> {\n qmlir.groups = 3} : i8",
            "f.mlir:2:2: qmlir.groups is how earlier versions wrote",
        ),
        ("%a = arith.addi %b,\n  %nowhere : i32\n%b = arith.constant 1 : i32", "f.mlir:2:3: %nowhere is used but not"),
    ],
)
def test_wrong_text(text: str, message: str) -> None:
    with pytest.raises(SourceError) as error:
        parse(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%a = arith.addi %a, %a : i32", "f.mlir:2:6: arith.addi: operand #0 is used before it is defined"),
        ("%b = arith.addi %a, %a : i32 %a = arith.constant 1 : i32", "operand #0 is used before it is defined"),
        ('"scf.if"(%c) ({\n %x = arith.addi %y, %y : i32\n scf.yield }, {}) : (i1) -> ()'
         ' %y = arith.constant 1 : i32', "f.mlir:3:7: arith.addi: operand #0 is used before it is defined"),
        ('"scf.if"(%c) ({}, {}) : (i1) -> ()', "f.mlir:2:1: scf.if: "),
    ],
)  # fmt: skip
def test_wrong_module(body: str, message: str) -> None:
    module = parse(f"func.func @f(%c: i1) {{\n{body}\nfunc.return }}")
    with pytest.raises(SourceError) as error:
        verify(module)
    assert message in str(error.value)


def test_the_blocks_of_a_region_may_come_in_any_order() -> None:
    verify(parse(FUNCTION))
    verify(
        parse("""func.func @f() -> i32 {
          cf.br ^second
        ^first:
          func.return %a : i32
        ^second:
          %a = arith.constant 1 : i32
          cf.br ^first
        }""")
    )


def test_each_function_has_its_own_first_error() -> None:
    wrong = "func.func @{0}() -> i32 {{\n  func.return\n}}\n"
    errors = verification_errors(parse(wrong.format("f") + "func.func @ok() { func.return }\n" + wrong.format("g")))
    assert [str(e.location) for e in errors] == ["f.mlir:2:3", "f.mlir:6:3"]
