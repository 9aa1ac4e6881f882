"""The pass `inline`: replaces calls by the bodies of the called functions; it has the name of upstream MLIR's pass.

Enters: functions that call each other. Leaves: only the calls that cannot be inlined, and no unused private functions.
A network in several functions becomes a single function, which is what the passes on networks require.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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

from qmlir.ir.fact import FACTS
from qmlir.ir.facts import NAME
from qmlir.ir.rewriting import replace, take_over

NO_INLINE = "no_inline"
"""Upstream's attribute for calls that must not be inlined, and for functions whose calls must not be inlined."""

Calls = Mapping[func.FuncOp, Mapping[func.CallOp, func.FuncOp]]
"""Caller → call in it → called function."""


class InlinePass(ModulePass):
    """Replaces calls by the body of the called function, and erases private functions that become unused.

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

    A call is not inlined if

    - the function has no body, has several blocks, or is recursive;
    - the function contains unregistered operations, whose requirements on their surroundings are unknown;
    - the call or the function has the attribute `no_inline`;
    - the `qmlir.` attributes of caller and callee differ, because attributes such as `qmlir.scales` apply to a whole
      function.

    Operations keep their locations, decisions and names. A tensor that a call returns keeps the name that the call
    gives it and absorbs the names from the function and its arguments. If a function is called twice, its names appear
    twice.

    Unlike this pass, upstream's pass also canonicalizes, and inlines functions with several blocks.
    """

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = _calls(op)
        movable = {f for f in calls if _is_movable(f) and not _leads_back(f, calls)}
        wanted = {
            caller: {c: callee for c, callee in inside.items() if callee in movable and _may_go(c, caller, callee)}
            for caller, inside in calls.items()
        }
        # Callees come first: a copied body then contains no call that could be inlined.
        for caller in TopologicalSorter({f: set(inside.values()) for f, inside in wanted.items()}).static_order():
            for call, callee in wanted[caller].items():
                _inline(call, callee)
        _erase_unused(op)


def _calls(module: ModuleOp) -> Calls:
    """All functions, each with its calls to functions that are defined in the same symbol table."""
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
    """Whether the form of a function allows inlining: one block, registered operations only, and no `no_inline`."""
    return (
        NO_INLINE not in function.attributes
        and len(function.body.blocks) == 1
        and isinstance(function.body.block.last_op, func.ReturnOp)
        and not any(isinstance(o, UnregisteredOp) for o in function.walk())
    )


def _leads_back(function: func.FuncOp, calls: Calls) -> bool:
    """Whether a function is recursive, directly or through other functions."""
    reached: set[func.FuncOp] = set()
    waiting = [function]
    while waiting:
        new = set(calls[waiting.pop()].values()) - reached
        reached |= new
        waiting += new
    return function in reached


def _may_go(call: func.CallOp, caller: func.FuncOp, callee: func.FuncOp) -> bool:
    """Whether a call of an inlinable function allows inlining: no `no_inline`, and equal `qmlir.` attributes."""
    return NO_INLINE not in call.attributes and _ours(caller) == _ours(callee)


def _ours(function: func.FuncOp) -> dict[str, Attribute]:
    return {key: value for key, value in function.attributes.items() if key in FACTS}


def _inline(call: func.CallOp, callee: func.FuncOp) -> None:
    """Replaces a call by a copy of the callee's body."""
    *body, end = callee.body.block.ops
    values: dict[SSAValue, SSAValue] = dict(zip(callee.body.block.args, call.arguments, strict=True))
    copies = [op.clone(values) for op in body]
    results = [values.get(v, v) for v in end.operands]
    replace(PatternRewriter(call), call, copies, results)
    _hand_on(call.arguments, callee.arg_attrs)
    _hand_on(results, callee.res_attrs)


def _hand_on(values: Iterable[SSAValue], attributes: ArrayAttr[DictionaryAttr] | None) -> None:
    """Adds the names of a function's arguments or results to the values that replace them."""
    for value, given in zip(values, attributes or (), strict=False):
        if (name := NAME.among(given.data)) is not None:
            take_over(value, [name])


def _erase_unused(module: ModuleOp) -> None:
    """Erases private functions that have a body and no references, until no such function is left."""
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
    """The names of all symbols that an operation and its nested operations refer to, in any symbol table."""
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
