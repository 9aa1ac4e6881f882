"""Replaces operations in passes without losing the source model's names and locations.

Every value carries the name of its tensor, and every operation the names of the source nodes it represents
(`#qmlir.name`, on operations and on function arguments). Profiles, policies, diagnostics and reports find tensors and
operations by these names. So every rewrite goes through `replace`, which passes the names on, and patterns run under
`rewrite`, which passes on the names of operations that become unused.

Locations (locations.py) go from replaced and absorbed operations to new ones. Names move by three rules:

* An operation that replaces another takes the other's nodes and tensor names.
* An operation that is fused gives its nodes and, as `absorbed`, its tensors.
* An operation that becomes unused (a transpose that another one cancels) gives all its names to the owner of its first
  operand, because its result was another view of that operand.
"""

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.traits import ConstantLike
from xdsl.transforms.dead_code_elimination import is_trivially_dead, region_dce

from qmlir.ir.fact import Heir, Movement, moved
from qmlir.ir.facts import NAME
from qmlir.ir.locations import inherit, join
from qmlir.ir.names import NameAttr, Names, names_of


def rewrite(module: ModuleOp, patterns: Sequence[RewritePattern]) -> bool:
    """Applies patterns until none matches, removes unused operations, and returns whether anything changed.

    Operations that are dead beforehand are dropped with their names: the model never needed them. If a pattern leaves
    an operation unused, the owner of its first operand takes over its names.
    """
    changed = any(op.results and is_trivially_dead(op) for op in module.walk())
    if changed:
        region_dce(module.body)
    applier = GreedyRewritePatternApplier([ReleaseUnusedOperation(), *patterns], dce_enabled=False)
    return PatternRewriteWalker(applier).rewrite_module(module) or changed


class PatternPass(ModulePass):
    """Base of the passes that apply patterns until none matches."""

    PATTERNS: ClassVar[Sequence[RewritePattern]]

    @classmethod
    def run(cls, module: ModuleOp) -> bool:
        """Applies the patterns to a module; returns whether anything changed."""
        return rewrite(module, cls.PATTERNS)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.run(op)


class ReleaseUnusedOperation(RewritePattern):
    """Erases an unused operation without effects; the owner of its first operand takes over its names."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not op.results or not is_trivially_dead(op):
            return
        if op.operands:
            take_over(op.operands[0], [names_of(op)])
            if isinstance(source := op.operands[0], OpResult):
                join(source.op, _located([op]))
        rewriter.erase(op)


def replace(
    rewriter: PatternRewriter,
    op: Operation,
    new: Operation | Sequence[Operation],
    results: Sequence[SSAValue] | None = None,
    *,
    absorbing: Sequence[Operation] = (),
    doing: Operation | None = None,
) -> None:
    """Replaces `op` by `new` operations and gives its names to the operations that now define its results.

    Args:
        rewriter: The pattern's rewriter.
        op: The operation to replace.
        new: Operations inserted in its place, in order.
        results: The values that replace its results; by default the results of the last new operation. A value may
            exist already, for instance when an identity is removed: then that value's owner takes over the names.
        absorbing: Operations before `op`, in order, that the new operations also replace. An absorbed operation that
            still has other users stays and keeps its names; the others are erased.
        doing: The new operation that does the work of `op`, if another new operation only moves its result
            (`relu, transpose` for `relu`). It takes the names; the moving operation stays unnamed, as after import.
    """
    news = [new] if isinstance(new, Operation) else list(new)
    values = list(news[-1].results if results is None else results)
    giving = next((v.op for v in values if isinstance(v, OpResult) and v.op in news), None) if doing is None else doing
    folds = giving is not None and giving.has_trait(ConstantLike)
    fused, replaced = (Movement.FOLDED,) * 2 if folds else (Movement.FUSED, Movement.REPLACED)
    for source, movement in (*((o, fused) for o in absorbing), (op, replaced)):
        _keep_facts(source, movement, news, giving)
    gone = _only_used_by(op, absorbing)
    inner = [names_of(o) for o in dict.fromkeys(absorbing) if o in gone]
    located = _located([*(o for o in dict.fromkeys(absorbing) if o in gone), op])
    inherit(news, located or [op])
    for index, value in enumerate(values):
        if isinstance(value, OpResult) and value.op in news:
            _name_new(value if doing is None else doing.results[0], index, names_of(op), inner)
        else:
            take_over(value, [*inner, names_of(op)], index)
            if isinstance(value, OpResult):
                join(value.op, located)
    moved = [r for o in news for r in o.results if r not in values and r.name_hint is None]
    rewriter.replace(op, news, values)
    for result in moved:
        result.name_hint = None  # xDSL has set it to the replaced operation's hint
    for result in (r for o in news for r in o.results):
        if hint := name_hint(tensor_name(result)):
            result.name_hint = hint
    for absorbed in gone:
        rewriter.erase(absorbed)


def _located(operations: Iterable[Operation]) -> list[Operation]:
    """The operations that stand for nodes or tensors: others, such as transposes of layouts, belong to these."""
    return [op for op in operations if names_of(op).data]


def _keep_facts(op: Operation, movement: Movement, news: Sequence[Operation], giving: Operation | None) -> None:
    """Passes facts of an operation on to new operations, as facts.py says; names follow, in `_name_new`.

    Args:
        op: The operation that is replaced or absorbed.
        movement: Which of the two, or that a constant takes its place.
        news: The new operations.
        giving: The new operation that gives the result.
    """
    if facts := moved(op, movement, Heir.KIND):
        for new in news:
            if type(new) is type(op):
                new.attributes.update(facts)
    if giving is not None:
        for key, attribute in moved(op, movement, Heir.RESULT).items():
            giving.attributes.setdefault(key, attribute)


def _only_used_by(op: Operation, candidates: Sequence[Operation]) -> list[Operation]:
    """Returns the candidates, users first, whose results only `op` and other such candidates use."""
    gone: dict[Operation, None] = {}
    waiting = list(dict.fromkeys(candidates))[::-1]
    while waiting:  # once for candidates in program order, whose users come before them here
        left: list[Operation] = []
        for candidate in waiting:
            if all(u.operation is op or u.operation in gone for r in candidate.results for u in r.uses):
                gone[candidate] = None
            else:
                left.append(candidate)
        if len(left) == len(waiting):
            break
        waiting = left
    return list(gone)


def _name_new(value: OpResult, index: int, names: NameAttr, inner: Sequence[NameAttr]) -> None:
    """Gives a new operation the names of the operations that it stands for.

    Args:
        value: The result of the new operation that replaces a result of the old operation.
        index: The index of the replaced result.
        names: The names of the old operation.
        inner: The names of the operations that are fused with it.
    """
    own = names_of(value.op)
    replaced = names.tensors[index : index + 1]
    tensors = list(own.tensors)
    # There is one name for each result: keep the other results' places.
    tensors[value.index : value.index + 1] = replaced or tensors[value.index : value.index + 1]
    nodes = [*(n.nodes for n in inner), names.nodes, own.nodes]
    inside = [*_tensors_inside(inner), names.data.inside, own.data.inside, *own.tensors]  # may hold a replaced name
    set_names(value, NameAttr.of(nodes, tensors, inside))


def _tensors_inside(names: Iterable[NameAttr]) -> "list[str | Names]":
    """Returns the tensors of fused operations: those they have absorbed already, and their results."""
    return [part for n in names for part in (n.data.inside, *n.tensors)]


def take_over(value: SSAValue, names: Sequence[NameAttr], index: int | None = None) -> None:
    """Adds names to the operation that makes a value; the operation's own names come first.

    The owner's tensor keeps its name; a tensor without a name takes the name of the last of `names`.

    Args:
        value: A value that exists already.
        names: The names of the operations that the value replaces.
        index: The index of the tensor, in the last of `names`, that the value replaces; None for all tensors.
    """
    own = names_of_value(value)
    *inner, last = names
    results = last.tensors if index is None else last.tensors[index : index + 1]
    inside = [own.data.inside, *_tensors_inside(inner), last.data.inside, *results]
    set_names(value, NameAttr.of([own.nodes, *(n.nodes for n in names)], own.tensors or results[:1], inside))


def merged_names(operations: Iterable[Operation]) -> NameAttr:
    """Returns the names for a value made from several operations, such as a constant made from constants.

    Its tensor takes the first tensor name among the operations.
    """
    names = [names_of(o) for o in operations]
    tensors = next((n.tensors for n in names if n.tensors), ())
    return NameAttr.of([n.nodes for n in names], tensors, _tensors_inside(names))


def names_of_value(value: SSAValue) -> NameAttr:
    """Returns the names of the operation or function argument that defines a value."""
    if isinstance(value, OpResult):
        return names_of(value.op)
    attributes = _argument_attributes(value)
    return (None if attributes is None else NAME.among(attributes.data)) or NameAttr.of()


def set_names(value: SSAValue, names: NameAttr) -> None:
    """Gives names to the operation or function argument that defines a value; empty names leave no attribute."""
    if isinstance(value, OpResult):
        NAME.set(value.op, names if names.data else None)
        return
    attributes = _argument_attributes(value)
    if attributes is None or not names.data:
        return
    assert isinstance(value, BlockArgument)
    function = value.owner.parent_op()
    assert isinstance(function, func.FuncOp)
    assert function.arg_attrs is not None
    arguments = list(function.arg_attrs.data)
    arguments[value.index] = DictionaryAttr({**attributes.data, **NAME.entry(names)})
    function.arg_attrs = ArrayAttr(arguments)


def _argument_attributes(value: SSAValue) -> DictionaryAttr | None:
    """Returns the attributes of a function argument; None for a block argument of another operation."""
    assert isinstance(value, BlockArgument)
    function = value.owner.parent_op()
    if not isinstance(function, func.FuncOp):
        return None
    if function.arg_attrs is None:
        function.arg_attrs = ArrayAttr([DictionaryAttr({})] * len(function.function_type.inputs))
    return function.arg_attrs.data[value.index]


def tensor_name(value: SSAValue) -> str:
    """Returns the name of a value's tensor; an empty string if it has none."""
    tensors = names_of_value(value).tensors
    index = value.index if isinstance(value, OpResult) else 0
    return tensors[index] if index < len(tensors) else ""


def name_hint(tensor: str) -> str | None:
    """Returns a tensor's name as an SSA value's name, which allows fewer characters and no digit first."""
    hint = re.sub(r"[^A-Za-z0-9_$.-]", "_", tensor)
    return f"t{hint}" if re.match(r"[0-9.-]", hint) else hint or None


def node_name(op: Operation) -> str:
    """Returns an operation's name: that of its source nodes, else of its first result's tensor, else its kind."""
    nodes = names_of(op).nodes
    if nodes:
        return "+".join(nodes)
    return (tensor_name(op.results[0]) if op.results else "") or op.name
