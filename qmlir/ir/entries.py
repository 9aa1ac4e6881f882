"""Entries: the functions of one network that share weights and states, such as `prefill` and `decode` of a decoder.

    func.func @prefill(%tokens: tensor<16xi64>, %cache: tensor<…> {qmlir.state = #qmlir.state<1>}) -> …
    func.func @decode(%tokens: tensor<1xi64>, %cache: tensor<…> {qmlir.state = #qmlir.state<1>}) -> …

A module without a function `main` has its public functions as entries. States of the same name are one state, of the
same type and with the same value before the first call: each call of an entry continues where the call before ended,
whichever entry it was of.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp, StringAttr

from qmlir.errors import OptionError, near_misses
from qmlir.ir.callable_network import shared_states
from qmlir.ir.signature import Signature, entry_functions, main_function, signature_of


def signatures_of(module: ModuleOp) -> dict[str, Signature]:
    """Returns the signature of each entry by its name.

    Raises:
        QmlirError: Two entries have a state of the same name that cannot be one state.
    """
    signatures = {function.sym_name.data: signature_of(function) for function in entry_functions(module)}
    shared_states(signatures)
    return signatures


def joined(modules: Mapping[str, ModuleOp]) -> ModuleOp:
    """Returns one module with the networks of several as its entries; the module's facts are those of the first.

    Args:
        modules: The networks by the names of their entries; they lose their functions.
    """
    result: ModuleOp | None = None
    for name, module in modules.items():
        function = main_function(module)
        function.sym_name = StringAttr(name)
        if result is None:
            result = module
        else:
            function.detach()
            result.body.block.add_op(function)
    assert result is not None
    return result


def entry_of(module: ModuleOp, name: str) -> ModuleOp:
    """Returns a module with one entry of a module, in place of all others.

    Raises:
        OptionError: There is no such entry.
    """
    known = {f.sym_name.data: f for f in entry_functions(module)}
    if name not in known:
        remedy = near_misses(name, known) or f"there is {', '.join(known)}"
        raise OptionError("entry", "must name an entry of the network", got=name, remedy=remedy)
    for other in [f for n, f in known.items() if n != name]:
        other.detach()
        other.erase()
    return module
