"""The prepared check of definitions says what xDSL's own says, about right operations and wrong ones."""

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import IntegerAttr, StringAttr, f32, i32, i64
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    OpDef,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from qmlir.ir.upstream import definitions
from qmlir.ir.verify import verification_errors
from tests.lowering.both import to_loops
from tests.ops.samples import SAMPLES
from tests.ops.test_threads import network_of


@irdl_op_definition
class PlainOp(IRDLOperation):
    name = "test.plain"
    first, second = operand_def(i32), operand_def(i64)
    result = result_def(f32)
    needed, optional = prop_def(StringAttr), opt_prop_def(IntegerAttr)
    marked = attr_def(StringAttr)


@irdl_op_definition
class SeveralOp(IRDLOperation):
    name = "test.several"
    first, several, last = operand_def(i32), var_operand_def(i64), operand_def(i32)


@irdl_op_definition
class MaybeOp(IRDLOperation):
    name = "test.maybe"
    first, maybe = operand_def(i32), opt_operand_def(i64)


@irdl_op_definition
class AroundOp(IRDLOperation):
    name = "test.around"
    any, single = region_def(), region_def("single_block")


@irdl_op_definition
class JumpOp(IRDLOperation):
    name = "test.jump"
    to = successor_def()
    traits = traits_def(IsTerminator())


def of(kind: type[IRDLOperation], *types: str, **parts: object) -> Operation:
    named = {"i32": i32, "i64": i64, "f32": f32}
    return kind.create(operands=[create_ssa_value(named[t]) for t in types], **parts)  # pyright: ignore[reportArgumentType]


def plain(types: tuple[str, ...] = ("i32", "i64"), results: int = 1, drop: str = "", **more: object) -> Operation:
    properties = {"needed": StringAttr("a"), **more}
    attributes = {"marked": StringAttr("b"), "other": i32}
    for held in (properties, attributes):
        held.pop(drop, None)
    return of(PlainOp, *types, result_types=[f32] * results, properties=properties, attributes=attributes)


def around(*blocks: int) -> Operation:
    return of(AroundOp, regions=[Region([Block() for _ in range(count)]) for count in blocks])


def jump(successors: int) -> Operation:
    op = of(JumpOp, successors=[Block() for _ in range(successors)])
    Block([op])
    return op


RIGHT: dict[str, Callable[[], Operation]] = {
    "plain": plain,
    "with what is optional": lambda: plain(optional=IntegerAttr(3, i32)),
    "none of several": lambda: of(SeveralOp, "i32", "i32"),
    "two of several": lambda: of(SeveralOp, "i32", "i64", "i64", "i32"),
    "without what may be": lambda: of(MaybeOp, "i32"),
    "with what may be": lambda: of(MaybeOp, "i32", "i64"),
    "regions": lambda: around(2, 1),
    "no block": lambda: around(0, 1),
    "a successor": lambda: jump(1),
}
WRONG: dict[str, Callable[[], Operation]] = {
    "an operand too few": lambda: plain(("i32",)),
    "an operand too many": lambda: plain(("i32", "i64", "i64")),
    "operands of other types": lambda: plain(("i64", "i32")),
    "no result": lambda: plain(results=0),
    "no property": lambda: plain(drop="needed"),
    "no attribute": lambda: plain(drop="marked"),
    "a property of another kind": lambda: plain(optional=StringAttr("c")),
    "a property that is not defined": lambda: plain(unknown=StringAttr("c")),
    "too few for several": lambda: of(SeveralOp, "i32"),
    "another type among several": lambda: of(SeveralOp, "i32", "i64", "f32", "i32"),
    "another type behind several": lambda: of(SeveralOp, "i32", "i64", "i64"),
    "two of what may be": lambda: of(MaybeOp, "i32", "i64", "i64"),
    "another type of what may be": lambda: of(MaybeOp, "i32", "i32"),
    "a region too few": lambda: around(1),
    "two blocks where one is wanted": lambda: around(1, 2),
    "no block where one is wanted": lambda: around(1, 0),
    "no successor": lambda: jump(0),
    "two successors": lambda: jump(2),
}


def definition_of(op: Operation) -> OpDef:
    assert isinstance(op, IRDLOperation)
    return op.get_irdl_definition()


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op = RIGHT[name]()
    definitions.interpreted(definition_of(op), op)
    monkeypatch.setattr(definitions, "interpreted", None)  # what is right is not left to xDSL
    with definitions.prepared_checks:
        definition_of(op).verify(op)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(name: str) -> None:
    op = WRONG[name]()
    texts: list[str] = []
    for verify in (definitions.interpreted, definitions.verify):
        with pytest.raises(VerifyException) as caught:
            verify(definition_of(op), op)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_traits_are_verified() -> None:
    op = jump(1)
    assert op.parent is not None
    op.parent.add_op(of(MaybeOp, "i32"))
    with pytest.raises(VerifyException, match="must be the last operation"), definitions.prepared_checks:
        definition_of(op).verify(op)


def test_xdsl_stays_as_it_was() -> None:
    assert OpDef.verify is definitions.interpreted
    with definitions.prepared_checks:
        assert OpDef.verify is definitions.verify
    assert OpDef.verify is definitions.interpreted


def test_modules_are_verified_so() -> None:
    """Hardly an operation of a lowered network is left to xDSL's own verification."""
    left: list[str] = []
    ops = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(definitions, "interpreted", lambda _, op: left.append(op.name))
        for sample in SAMPLES[::60]:
            lowered = to_loops(network_of(sample), verify=False)
            ops += sum(1 for _ in lowered.walk())
            assert not verification_errors(lowered)
    assert len(left) < ops / 10
