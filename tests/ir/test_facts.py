"""Each fact in each movement: it is where `facts` says, or is dropped for the reason that stands there."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter

import qmlir
from qmlir import stages
from qmlir.dialects.nn import ConstantOp, ReluOp, SigmoidOp, TanhOp
from qmlir.dialects.nn.base import with_floats
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.ir import fact as forms
from qmlir.ir.context import make_context
from qmlir.ir.decision import DecisionAttr
from qmlir.ir.fact import FACTS, Fact, Heir, Movement
from qmlir.ir.facts import CONFIG, DECISION, FACTORS, LEVELS, NAME, STATE, STRIPES, UNROUNDED, WEIGHTS_BLOB
from qmlir.ir.levels import LevelsAttr
from qmlir.ir.names import NameAttr
from qmlir.ir.passes import PASSES
from qmlir.ir.rewriting import ReleaseUnusedOperation, replace
from qmlir.ir.source import parse_text
from qmlir.ir.states import StateAttr
from qmlir.ir.stripes import Stripes
from qmlir.ir.weights import WeightsAttr, WeightsMode, module_text
from qmlir.numerics.levels import Even

ROOT = Path(__file__).parents[2]

WEIGHTS = WeightsAttr(np.zeros(2, np.float32))
ENTRIES = DictionaryAttr({"a": IntegerAttr(1, i64)})

VALUES: dict[Any, Any] = {
    forms.MARK: True, forms.TEXT: "some", forms.WORD: "exact", forms.INTEGER: 3, forms.INTEGER_32: 3,
    forms.INTEGERS: (1, 2), forms.TEXTS: {"a": "b"}, forms.NAMES: ["a", "b"],
    forms.DICTIONARY: ENTRIES, forms.ARRAY: ArrayAttr([UnitAttr()]), forms.ANY: ENTRIES,
    NAME: NameAttr.of(["node"], ["tensor"]), DECISION: DecisionAttr.of("float", "policy", "so"),
    STATE: StateAttr.of(0), UNROUNDED: WEIGHTS, FACTORS: WEIGHTS, WEIGHTS_BLOB: WEIGHTS, STRIPES: Stripes(1, 4, {}),
    LEVELS: LevelsAttr.of(Even(4)),
}  # fmt: skip
"""A value of each form, and of the facts that have a form of their own."""

ON_OPERATIONS = [fact for fact in FACTS.values() if fact.moves]


def value_of(fact: Fact[Any]) -> Any:
    return VALUES.get(fact, VALUES.get(fact.form))


def module_of(text: str) -> ModuleOp:
    return parse_text(make_context(), f"func.func @main(%x: tensor<4xf32>) -> {text}", "text")


def named(module: ModuleOp, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


def relu(x: Any) -> ReluOp:
    return ReluOp.make([x])


class Moved(NamedTuple):
    """What a movement has made: the whole module, and in it the operations that can take over facts."""

    module: ModuleOp
    heirs: dict[Heir, Operation]


CHAIN = """tensor<4xf32> {
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.sigmoid %0 : tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}"""

CONSTANT = """tensor<4xf32> {
  %0 = nn.constant <tensor<4xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = nn.relu %0 : tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}"""

QUANTIZED = """tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = nn.relu %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %1 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}"""

STORED = """tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.constant <tensor<4xi8>, [1, 2, 3, 4]> : tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %2 = nn.maximum %0, %1 : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %2 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}"""  # noqa: E501

INTEGERS = """tensor<2xi8> {
  %0 = nn.constant <tensor<4xi8>, [1, 2, 3, 4]> : tensor<4xi8>
  %1 = nn.slice %0 {offsets = array<i64: 1>, sizes = array<i64: 2>, strides = array<i64: 1>} : tensor<4xi8> -> tensor<2xi8>
  func.return %1 : tensor<2xi8>
}"""  # noqa: E501


def marked(fact: Fact[Any], text: str, name: str) -> tuple[ModuleOp, Any]:
    module = module_of(text)
    fact.put(subject := named(module, name), value_of(fact))
    return module, subject


def replaced(fact: Fact[Any], *, constant: bool) -> Moved:
    """The operation becomes one of its kind, and behind it one of another."""
    if constant:
        module, op = marked(fact, CONSTANT, "nn.constant")
        new = ConstantOp(np.zeros(4, np.float32))
        replace(PatternRewriter(op), op, new)
        return Moved(module, {Heir.KIND: new, Heir.RESULT: new, Heir.JOINED: new})
    module, op = marked(fact, CHAIN, "nn.relu")
    first = relu(op.operands[0])
    last = TanhOp.make([first.y])
    replace(PatternRewriter(op), op, [first, last])
    return Moved(module, {Heir.KIND: first, Heir.RESULT: last, Heir.JOINED: last})


def fused(fact: Fact[Any], *, constant: bool) -> Moved:
    """The operation is absorbed by its reader, for which two operations stand then."""
    module, op = marked(fact, CONSTANT if constant else CHAIN, "nn.constant" if constant else "nn.relu")
    reader = next(use.operation for use in op.results[0].uses)
    first = ConstantOp(np.zeros(4, np.float32)) if constant else relu(op.operands[0])
    last = SigmoidOp.make([first.y])
    replace(PatternRewriter(reader), reader, [first, last], absorbing=[op])
    return Moved(module, {Heir.KIND: first, Heir.JOINED: last})


def folded(fact: Fact[Any], *, constant: bool) -> Moved:
    module, _ = marked(fact, CONSTANT, "nn.constant" if constant else "nn.relu")
    qmlir.Pipeline("simplify").apply(module, make_context())
    return Moved(module, {Heir.JOINED: named(module, "nn.constant")})


def unused(fact: Fact[Any], *, constant: bool) -> Moved:
    module, op = marked(fact, CHAIN, "nn.sigmoid")
    op.results[0].replace_all_uses_with(op.operands[0])
    ReleaseUnusedOperation().match_and_rewrite(op, PatternRewriter(op))
    return Moved(module, {Heir.JOINED: named(module, "nn.relu")})


def to_integers(fact: Fact[Any], *, constant: bool) -> Moved:
    module, _ = marked(fact, STORED if constant else QUANTIZED, "nn.constant" if constant else "nn.relu")
    qmlir.Pipeline("nn-to-qint").apply(module, make_context())
    wanted = "nn.constant" if constant else "qint."
    return Moved(module, {Heir.RESULT: next(op for op in module.walk() if op.name.startswith(wanted))})


def to_loops(fact: Fact[Any], *, constant: bool) -> Moved:
    module, _ = marked(fact, INTEGERS if constant else CHAIN, "nn.constant" if constant else "nn.relu")
    qmlir.Pipeline("nn-to-loops").apply(module, make_context())
    if constant:
        return Moved(module, {Heir.DATA: named(module, ConstantBufferOp.name)})
    return Moved(module, {Heir.BUFFER: named(module, "memref.alloc"), Heir.CALLS: named(module, "func.call")})


MOVEMENTS: dict[Movement, Callable[..., Moved]] = {
    Movement.REPLACED: replaced, Movement.FUSED: fused, Movement.FOLDED: folded, Movement.UNUSED: unused,
    Movement.TO_INTEGERS: to_integers, Movement.TO_LOOPS: to_loops,
}  # fmt: skip


@pytest.mark.parametrize("movement", Movement)
@pytest.mark.parametrize("fact", ON_OPERATIONS, ids=str)
def test_a_fact_is_where_its_movement_says(fact: Fact[Any], movement: Movement) -> None:
    rule = fact.moves[movement]
    module, heirs = MOVEMENTS[movement](fact, constant=fact.where == "constant")
    found = [op for op in module.walk() if fact.on(op) and not isinstance(op, func.FuncOp)]
    if isinstance(rule, str):
        assert found == []
        assert rule
    elif rule is Heir.JOINED or fact is NAME:
        assert "node" in NAME.required(heirs[rule]).nodes
    else:
        assert found == [heirs[rule]]
        assert fact.form.write(fact.required(heirs[rule])) == fact.form.write(value_of(fact))


@pytest.mark.parametrize("fact", ON_OPERATIONS, ids=str)
def test_an_operation_that_is_cloned_or_made_again_keeps_its_facts(fact: Fact[Any]) -> None:
    module, op = marked(fact, CHAIN, "nn.relu")
    for other in (module.clone(), qmlir.Pipeline("insert-observers")(module)):
        assert fact.on(named(other, "nn.relu"))
    assert with_floats(op, [op.operands[0]], op.operands[0].type.element_type).attributes == op.attributes


@pytest.mark.parametrize("fact", FACTS.values(), ids=str)
def test_a_fact_is_written_and_read(fact: Fact[Any]) -> None:
    module = ModuleOp([])
    assert fact.of(module) is None
    fact.put(module, value_of(fact))
    again = parse_text(make_context(), module_text(module, WeightsMode.INLINE), "text")
    held = fact.required(again)
    assert fact.form.write(held) == fact.attribute(again) == fact.entry(value_of(fact))[fact.key]
    fact.set(again, None)
    assert not fact.on(again)
    fact.set(again, held)
    assert fact.drop(again) is not None
    assert again.attributes == {}


@pytest.mark.parametrize("fact", FACTS.values(), ids=str)
def test_a_fact_is_declared_whole(fact: Fact[Any]) -> None:
    assert fact.says.endswith((".", "`."))
    assert fact.ends in ("", *PASSES)
    assert set(fact.moves) in (set(), set(Movement))
    assert all(rule for rule in fact.moves.values())


def test_facts_of_a_module_stay_until_the_pass_that_ends_them() -> None:
    module = qmlir.quantize(qmlir.load(ROOT / "examples/digits/model.mlir"))
    made = ("arena", "weights_blob", "timed", "config", "numerics", "npu.", "scales")  # by passes, which check them
    there = [f for f in FACTS.values() if "module" in f.where and not any(part in f.key for part in made)]
    for fact in there:
        if not fact.on(module):
            fact.put(module, value_of(fact))
    assert CONFIG.of(module) is None
    plan = (*stages.TO_INTEGERS, *stages.to_loops(), *stages.to_plan(), *stages.to_llvm())
    for step in plan:
        qmlir.Pipeline(step).apply(module, make_context())
        assert [str(fact) for fact in there if not fact.on(module)] == []
    assert not any(f.on(module) for f in FACTS.values() if f.ends == "loops-to-llvm")


# ---------------------------------------------------------------------------------------------------------------
# Nothing else spells a key

OTHERS = {
    "qmlir.sdiv", "qmlir.udiv", "qmlir.srem", "qmlir.urem", "qmlir.copy",  # functions of machine code
    "qmlir.prepared",  # a key of Python's own, in definitions
    "qmlir.states",  # metadata of .onnx files
    # entry points of plugins
    "qmlir.passes", "qmlir.dialects", "qmlir.calibrations", "qmlir.roundings", "qmlir.encoders",
    "qmlir.change_storage",  # an operation, to the checker
    "qmlir.groups", "qmlir.codebook", "qmlir.block",  # what earlier files say in place of `qmlir.levels`
}  # fmt: skip


def spelled(path: Path) -> Iterator[str]:
    """The texts in a file of the form of a key, but names of classes of the IR, and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name) and target.id == "name"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in names:
            if re.fullmatch(r"(qmlir|npu)\.[a-z_]+", node.value):
                yield node.value


def test_no_other_file_spells_the_key_of_a_fact() -> None:
    keys = {key for key in FACTS if "." in key} - OTHERS
    files = [p for p in (ROOT / "qmlir").rglob("*.py") if p.name != "facts.py" or p.parent.name != "ir"]
    assert {p.name: found for p in files if (found := keys & {*spelled(p)})} == {}


def test_each_text_like_a_key_is_known() -> None:
    """It is a fact's, an operation's, an attribute's, a module's or a known other one."""
    context = make_context()

    def is_known(key: str) -> bool:
        place = ROOT / key.replace(".", "/")
        named = context.get_optional_op(key) or context.get_optional_attr(key)
        return key in FACTS or key in OTHERS or named is not None or place.exists() or place.with_suffix(".py").exists()

    found = {key for p in (ROOT / "qmlir").rglob("*.py") for key in spelled(p)}
    assert sorted(key for key in found if not is_known(key)) == []
