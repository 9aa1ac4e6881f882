"""Calls of the program's own operators: functions outside of the module, which the back end links."""

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Region

from qmlir.codegen.kernel import MainLowering, Rules
from qmlir.dialects.custom import CustomOp
from qmlir.dialects.loops import external_functions
from qmlir.ir.facts import EXTERNAL, EXTERNAL_FUNCTIONS


def _custom(state: MainLowering, op: CustomOp) -> None:
    """Calls the function of an operator on the buffers of its operands and results."""
    results = [state.allocate_result(y) for y in op.outputs]
    buffers = [*(state.buffer(x) for x in op.inputs), *results]
    symbol = _declared(state, op, [buffer.type for buffer in buffers])
    state.insert(func.CallOp(symbol, buffers, []))
    for y, buffer in zip(op.outputs, results, strict=True):
        state.replace(y, buffer)


def _declared(state: MainLowering, op: CustomOp, types: list[Attribute]) -> str:
    """Returns the symbol of an operator's function, which is declared if it is not yet.

    The module lists what each of these functions is: the operator, its attributes, the types of its tensors, and what a
    function in C is called and takes.
    """
    functions = external_functions(state.module)
    in_c = {} if op.symbol is None or op.numbers is None else {"symbol": op.symbol, "numbers": op.numbers}
    entry = DictionaryAttr(in_c | {
        "domain": op.domain, "operator": op.operator, "attributes": op.given,
        "inputs": ArrayAttr([x.type for x in op.inputs]), "outputs": ArrayAttr([y.type for y in op.outputs]),
    })  # fmt: skip
    for symbol, each in functions.items():
        if each == entry:
            return symbol
    symbol = f"custom_call.{len(functions)}"
    EXTERNAL_FUNCTIONS.put(state.module, DictionaryAttr({**functions, symbol: entry}))
    function = func.FuncOp(symbol, (types, []), Region(), StringAttr("private"))
    EXTERNAL.put(function)
    state.module.body.block.add_op(function)
    return symbol


RULES: Rules = {CustomOp: _custom}
