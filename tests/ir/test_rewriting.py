"""Names survive rewriting: what replaces, absorbs, takes over or falls out of use hands them on."""

from collections.abc import Callable

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block, Operation, Region
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ReluOp, ReshapeOp, SigmoidOp, TransposeOp
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.dialects.windows import ints
from qmlir.ir.facts import NAME
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.rewriting import (
    merged_names,
    name_hint,
    names_of_value,
    node_name,
    replace,
    rewrite,
    set_names,
    tensor_name,
)

TYPE = TensorType(f32, [2, 3])


def named(op: Operation, nodes: list[str], tensors: list[str], absorbed: list[str] | None = None) -> Operation:
    NAME.put(op, NameAttr.of(nodes, tensors, absorbed or []))
    return op


def module_of(block: Block) -> ModuleOp:
    last = block.last_op
    assert last is not None
    block.add_op(func.ReturnOp(*last.results))
    return ModuleOp(
        [func.FuncOp("main", ([a.type for a in block.args], [r.type for r in last.results]), Region(block))]
    )


def chain(*kinds: type[ReluOp | SigmoidOp]) -> tuple[Block, list[Operation]]:
    """argument → first → second → …, with node names n0, n1, … and tensors t0, t1, …"""
    block = Block(arg_types=[TYPE])
    ops: list[Operation] = []
    for i, kind in enumerate(kinds):
        ops.append(named(kind.make([ops[-1].results[0] if ops else block.args[0]]), [f"n{i}"], [f"t{i}"]))
        block.add_op(ops[-1])
    return block, ops


def strings(names: NameAttr) -> tuple[list[str], list[str], list[str]]:
    return list(names.nodes), list(names.tensors), list(names.absorbed)


def test_new_operation_takes_names() -> None:
    block, ops = chain(ReluOp)
    module_of(block)
    new = SigmoidOp.make([block.args[0]])
    replace(PatternRewriter(ops[0]), ops[0], new)
    assert strings(names_of(new)) == (["n0"], ["t0"], [])
    assert new.y.name_hint == "t0"


def test_absorbed_operations_give_names_in_graph_order() -> None:
    block, ops = chain(ReluOp, SigmoidOp, ReluOp)
    named(ops[0], ["n0"], ["t0"], ["earlier"])
    module_of(block)
    new = SigmoidOp.make([block.args[0]])
    replace(PatternRewriter(ops[2]), ops[2], new, absorbing=[ops[0], ops[1]])
    assert strings(names_of(new)) == (["n0", "n1", "n2"], ["t2"], ["earlier", "t0", "t1"])
    assert [op for op in block.ops if op.results] == [new]


def test_absorbed_operation_with_another_user_stays_and_keeps_its_names() -> None:
    block, ops = chain(ReluOp, SigmoidOp)
    block.add_op(ObserveOp(ops[0].results[0], "t0"))
    block.add_op(ReluOp.make([ops[1].results[0]]))
    module_of(block)
    new = SigmoidOp.make([block.args[0]])
    replace(PatternRewriter(ops[1]), ops[1], new, absorbing=[ops[0]])
    assert strings(names_of(new)) == (["n1"], ["t1"], [])
    assert strings(names_of(ops[0])) == (["n0"], ["t0"], [])
    assert ops[0].parent is block


def test_existing_value_keeps_its_name_and_absorbs() -> None:
    block, ops = chain(ReluOp, SigmoidOp)
    module_of(block)
    replace(PatternRewriter(ops[1]), ops[1], [], [ops[0].results[0]])
    assert strings(names_of(ops[0])) == (["n0", "n1"], ["t0"], ["t1"])


def test_existing_value_without_name_takes_one() -> None:
    block, ops = chain(ReluOp, SigmoidOp)
    NAME.drop(ops[0])
    module_of(block)
    replace(PatternRewriter(ops[1]), ops[1], [], [ops[0].results[0]])
    assert strings(names_of(ops[0])) == (["n1"], ["t1"], [])


def test_argument_takes_over_names() -> None:
    block, ops = chain(ReluOp)
    module_of(block)
    set_names(block.args[0], NameAttr.of(tensors=["x"]))
    replace(PatternRewriter(ops[0]), ops[0], [], [block.args[0]])
    assert strings(names_of_value(block.args[0])) == (["n0"], ["x"], ["t0"])
    assert tensor_name(block.args[0]) == "x"


def test_names_go_to_the_operation_that_does_the_work() -> None:
    block, ops = chain(ReluOp)
    module_of(block)
    before = TransposeOp.make([block.args[0]], {"permutation": ints([1, 0])})
    work = ReluOp.make([before.y])
    after = TransposeOp.make([work.y], {"permutation": ints([1, 0])})
    replace(PatternRewriter(ops[0]), ops[0], [before, work, after], doing=work)
    assert strings(names_of(work)) == (["n0"], ["t0"], [])
    assert not NAME.on(after)
    assert not NAME.on(before)
    assert work.y.name_hint == "t0"


def test_one_of_several_results_keeps_its_place() -> None:
    block = Block(arg_types=[TYPE])
    old, new = (OpaqueOp("x.Split", block.args, [TYPE, TYPE], reason="", source={}) for _ in range(2))
    block.add_op(named(old, ["split"], ["left", "right"]))
    module_of(block)
    replace(PatternRewriter(old), old, new)
    assert strings(names_of(new)) == (["split"], ["left", "right"], [])
    assert [tensor_name(r) for r in new.outputs] == ["left", "right"]


class Compose(RewritePattern):
    """transpose(transpose(x)) → x, leaving the inner one unused."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, TransposeOp) and isinstance(op.x.owner, TransposeOp):
            replace(rewriter, op, [], [op.x.owner.x])


def test_rewrite_hands_names_of_what_falls_out_of_use_to_its_operands_owner() -> None:
    block, (relu,) = chain(ReluOp)
    one = named(TransposeOp.make(relu.results, {"permutation": ints([1, 0])}), ["one"], ["flipped"])
    two = named(TransposeOp.make(one.results, {"permutation": ints([1, 0])}), ["two"], ["back"])
    block.add_ops([one, two])
    assert rewrite(module_of(block), [Compose()])
    assert [o.name for o in block.ops] == ["nn.relu", "func.return"]
    nodes, tensors, absorbed = strings(names_of(relu))
    assert (set(nodes), tensors, set(absorbed)) == ({"n0", "one", "two"}, ["t0"], {"flipped", "back"})


def test_rewrite_drops_what_was_dead_before_with_its_names_but_not_effects() -> None:
    block, (relu,) = chain(ReluOp)
    dead = named(SigmoidOp.make(relu.results), ["dead"], ["dead"])
    block.add_ops([dead, ObserveOp(relu.results[0], "t0"), ReshapeOp.make(relu.results, {"shape": ints([6])})])
    module = module_of(block)
    assert rewrite(module, [])
    assert [o.name for o in block.ops] == ["nn.relu", "calib.observe", "nn.reshape", "func.return"]
    assert strings(names_of(relu)) == (["n0"], ["t0"], [])
    assert not rewrite(module, [])


def test_merged_names() -> None:
    first, second = (
        named(OpaqueOp("x", [], [], reason="", source={}), [], ["w"], ["v"]),
        OpaqueOp("x", [], [], reason="", source={}),
    )
    named(second, ["scale"], ["s"])
    assert strings(merged_names([first, second])) == (["scale"], ["w"], ["v", "s"])
    assert strings(merged_names([])) == ([], [], [])


@pytest.mark.parametrize(
    ("tensor", "hint"), [("conv1/Relu:0", "conv1_Relu_0"), ("17", "t17"), (".a", "t.a"), ("", None), ("a.b", "a.b")]
)
def test_name_hint(tensor: str, hint: str | None) -> None:
    assert name_hint(tensor) == hint


@pytest.mark.parametrize(
    ("prepare", "name"),
    [
        (lambda op: named(op, ["a", "b"], ["t"]), "a+b"),
        (lambda op: named(op, [], ["t"]), "t"),
        (lambda op: op, "nn.relu"),
    ],
)
def test_node_name(prepare: Callable[[Operation], Operation], name: str) -> None:
    block = Block(arg_types=[TYPE])
    assert node_name(prepare(ReluOp.make([block.args[0]]))) == name
