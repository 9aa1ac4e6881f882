"""How a pass replaces an operation without losing the source model's names.

Every value carries the name of its tensor, every operation those of the nodes it stands for (`#qmlir.name`, on
operations and on function arguments). Profiles, policies, diagnostics and reports find things by these names, so
every rewrite goes through `replace`, which hands them on.
"""

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.dialects.qmlir import NAME, NameAttr, names_of


def replace(
    rewriter: PatternRewriter,
    op: Operation,
    new: Operation | Sequence[Operation],
    results: Sequence[SSAValue] | None = None,
    *,
    absorbing: Sequence[Operation] = (),
) -> None:
    """Replaces `op` by `new` operations and hands its names to whatever now defines its results.

    Args:
        rewriter: The pattern's rewriter.
        op: The operation replaced.
        new: Operations inserted in its place, in order.
        results: What stands for its results; by default the results of the last new operation. A result may be a value
            that exists already, as when an identity goes: that value's owner takes over the names.
        absorbing: Operations before `op` that the new ones stand for too; erased if nothing uses them any more.
    """
    news = [new] if isinstance(new, Operation) else list(new)
    values = list(news[-1].results if results is None else results)
    for index, value in enumerate(values):
        _hand_over(value, op, index, news, absorbing)
    rewriter.replace(op, news, values)
    for gone in reversed(absorbing):
        if not any(result.uses for result in gone.results):
            rewriter.erase(gone)


def _hand_over(
    value: SSAValue, op: Operation, index: int, new: Sequence[Operation], absorbing: Sequence[Operation]
) -> None:
    """Merges the names of `op` and of what it absorbs into those of the owner of `value`."""
    sources = [names_of(o) for o in (*absorbing, op)]
    own = names_of_value(value)
    nodes = _strings(*(s.nodes for s in sources), own.nodes)
    inner = _strings(*(s.tensors for s in sources[:-1]), *(s.absorbed for s in sources), own.absorbed)
    replaced = _strings(sources[-1].tensors)[index : index + 1]
    if isinstance(value, OpResult) and value.op in new:
        tensors = replaced or _strings(own.tensors)
        absorbed = inner
    else:
        tensors = _strings(own.tensors)
        absorbed = [*inner, *replaced]
    set_names(value, NameAttr.of(nodes, tensors, [t for t in absorbed if t not in tensors]))


def _strings(*arrays: ArrayAttr[StringAttr]) -> list[str]:
    return [s.data for array in arrays for s in array]


def names_of_value(value: SSAValue) -> NameAttr:
    """The names of the operation or function argument that defines a value."""
    if isinstance(value, OpResult):
        return names_of(value.op)
    attributes = _argument_attributes(value)
    name = attributes.data.get(NAME) if attributes is not None else None
    return name if isinstance(name, NameAttr) else NameAttr.of()


def set_names(value: SSAValue, names: NameAttr) -> None:
    """Gives names to the operation or function argument that defines a value; empty names leave no attribute."""
    empty = not (names.nodes.data or names.tensors.data or names.absorbed.data)
    if isinstance(value, OpResult):
        if empty:
            value.op.attributes.pop(NAME, None)
        else:
            value.op.attributes[NAME] = names
        return
    attributes = _argument_attributes(value)
    if attributes is None or empty:
        return
    assert isinstance(value, BlockArgument)
    function = value.owner.parent_op()
    assert isinstance(function, func.FuncOp) and function.arg_attrs is not None
    arguments = list(function.arg_attrs.data)
    arguments[value.index] = DictionaryAttr({**attributes.data, NAME: names})
    function.arg_attrs = ArrayAttr(arguments)


def _argument_attributes(value: SSAValue) -> DictionaryAttr | None:
    """The attributes of a function argument; None for an argument of another kind of block."""
    assert isinstance(value, BlockArgument)
    function = value.owner.parent_op()
    if not isinstance(function, func.FuncOp):
        return None
    if function.arg_attrs is None:
        function.arg_attrs = ArrayAttr([DictionaryAttr({})] * len(function.function_type.inputs))
    return function.arg_attrs.data[value.index]


def tensor_name(value: SSAValue) -> str:
    """The name of a value's tensor; an empty string where it has none."""
    tensors = _strings(names_of_value(value).tensors)
    index = value.index if isinstance(value, OpResult) else 0
    return tensors[index] if index < len(tensors) else ""


def node_name(op: Operation) -> str:
    """What to call an operation: its source nodes' names, else its first result's tensor, else its kind."""
    nodes = _strings(names_of(op).nodes)
    if nodes:
        return "+".join(nodes)
    return (tensor_name(op.results[0]) if op.results else "") or op.name
