"""`inline`: the body of a function in place of its call, under upstream's name.

Enters: functions that call each other. Leaves: calls only where nothing could take their place, and no private function
that nobody refers to. A network in several functions becomes the one function that the passes on networks work on.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, SymbolRefAttr, UnregisteredOp
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter
from xdsl.utils.symbol_table import SymbolTable

from qmlir.dialects.qmlir import NAME, NameAttr
from qmlir.rewriting import replace, take_over

NO_INLINE = "no_inline"
"""Upstream's attribute of calls, and of functions whose calls, are to stay."""

Calls = Mapping[func.FuncOp, Mapping[func.CallOp, func.FuncOp]]
"""Each function, the calls in it, and what they call."""


@dataclass(frozen=True)
class InlinePass(ModulePass):
    """Replaces calls by what the function called does, and erases the private functions that leaves unused.

    ```mlir
    func.func private @double(%x: i32) -> i32 {
      %0 = arith.addi %x, %x : i32
      func.return %0 : i32
    }
    func.func @main(%y: i32) -> i32 {
      %0 = func.call @double(%y) : (i32) -> i32
      func.return %0 : i32
    }
    // becomes
    func.func @main(%y: i32) -> i32 {
      %0 = arith.addi %y, %y : i32
      func.return %0 : i32
    }
    ```

    These stay calls: of a function that has no body, several blocks, or calls that lead back to it; of one with
    operations that are not registered, as nobody knows what they need around them; where the call or the function says
    `no_inline`; and between functions whose `qmlir.` attributes differ, as `qmlir.scales` and the like hold for all of
    a function.

    Operations keep their locations, decisions and names. The tensor of a call's result is called as the call says; what
    the function and its arguments called it is absorbed. The names of a function called twice stand there twice.

    Upstream's pass canonicalizes on its way as well, and inlines several blocks.
    """

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = _calls(op)
        movable = {f for f in calls if _is_movable(f) and not _leads_back(f, calls)}
        wanted = {
            caller: {c: callee for c, callee in inside.items() if callee in movable and _may_go(c, caller, callee)}
            for caller, inside in calls.items()
        }
        # Callees first: what is copied has no call left that could go.
        for caller in TopologicalSorter({f: set(inside.values()) for f, inside in wanted.items()}).static_order():
            for call, callee in wanted[caller].items():
                _inline(call, callee)
        _erase_unused(op)


def _calls(module: ModuleOp) -> Calls:
    """All functions, with those of their calls that a body of the same module could replace."""
    functions = {(f.parent_op(), f.sym_name.data): f for f in module.walk() if isinstance(f, func.FuncOp)}
    calls: dict[func.FuncOp, dict[func.CallOp, func.FuncOp]] = {f: {} for f in functions.values()}
    for call in (o for o in module.walk() if isinstance(o, func.CallOp)):
        table = SymbolTable.get_nearest_symbol_table(call)
        callee = functions.get((table, call.callee.string_value()))
        caller = call.parent_op()
        while caller is not None and caller.parent_op() is not table:
            caller = caller.parent_op()
        if isinstance(caller, func.FuncOp) and callee is not None:
            calls[caller][call] = callee
    return calls


def _is_movable(function: func.FuncOp) -> bool:
    """Whether calls of a function can be replaced by its body."""
    return (
        NO_INLINE not in function.attributes
        and len(function.body.blocks) == 1
        and isinstance(function.body.block.last_op, func.ReturnOp)
        and not any(isinstance(o, UnregisteredOp) for o in function.walk())
    )


def _leads_back(function: func.FuncOp, calls: Calls) -> bool:
    """Whether calls lead from a function back to it."""
    reached: set[func.FuncOp] = set()
    waiting = [function]
    while waiting:
        new = set(calls[waiting.pop()].values()) - reached
        reached |= new
        waiting += new
    return function in reached


def _may_go(call: func.CallOp, caller: func.FuncOp, callee: func.FuncOp) -> bool:
    """Whether a call can be replaced by a body that is movable."""
    return NO_INLINE not in call.attributes and _ours(caller) == _ours(callee)


def _ours(function: func.FuncOp) -> dict[str, Attribute]:
    return {key: value for key, value in function.attributes.items() if key.startswith("qmlir.")}


def _inline(call: func.CallOp, callee: func.FuncOp) -> None:
    """Puts a copy of the callee's body in the place of a call."""
    *body, end = callee.body.block.ops
    values: dict[SSAValue, SSAValue] = dict(zip(callee.body.block.args, call.arguments, strict=True))
    copies = [op.clone(values) for op in body]
    results = [values.get(v, v) for v in end.operands]
    replace(PatternRewriter(call), call, copies, results)
    _hand_on(call.arguments, callee.arg_attrs)
    _hand_on(results, callee.res_attrs)


def _hand_on(values: Iterable[SSAValue], attributes: ArrayAttr[DictionaryAttr] | None) -> None:
    """Gives the names in the attributes of a function's arguments or results to what stands for them now."""
    for value, given in zip(values, attributes or (), strict=False):
        if isinstance(name := given.data.get(NAME), NameAttr):
            take_over(value, [name])


def _erase_unused(module: ModuleOp) -> None:
    """Erases private functions with a body to which nothing refers, and what that leaves unused."""
    uses = Counter(_symbols(module))
    unused = [f for f in module.walk() if isinstance(f, func.FuncOp) and _is_private(f)]
    while erased := [f for f in unused if not uses[f.sym_name.data]]:
        unused = [f for f in unused if f not in erased]
        for function in erased:
            uses.subtract(_symbols(function))
            Rewriter.erase_op(function)


def _is_private(function: func.FuncOp) -> bool:
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private" and not function.is_declaration


def _symbols(within: Operation) -> Iterator[str]:
    """The names of all symbols that an operation and those in it refer to, in whatever symbol table."""
    for op in within.walk():
        for attribute in (*op.attributes.values(), *op.properties.values()):
            yield from _symbols_of(attribute)


def _symbols_of(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, SymbolRefAttr):
        yield from (attribute.root_reference.data, *(n.data for n in attribute.nested_references))
    inner: Iterable[Attribute] = ()
    if isinstance(attribute, DictionaryAttr):
        inner = attribute.data.values()
    elif isinstance(attribute, ArrayAttr):
        inner = cast(ArrayAttr[Attribute], attribute)
    elif isinstance(attribute, ParametrizedAttribute):
        inner = attribute.parameters
    for each in inner:
        yield from _symbols_of(each)
