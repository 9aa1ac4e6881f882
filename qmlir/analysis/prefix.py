"""A prefix: states of a float network begin where some calls have left them.

The first token of a text has an activation a thousand times larger than those behind it, and all others attend to it.
Where such tokens are always the same, their keys and values need not be computed in each text, and their activations
meet no scale: the float network reads them once, and its states begin with what it has kept.
"""

from collections.abc import Iterable, Mapping
from typing import overload

from xdsl.dialects.builtin import ModuleOp

from qmlir.compiler import Network, loaded
from qmlir.errors import OptionError, QmlirError, near_misses
from qmlir.ir.callable_network import Sample, shared_states
from qmlir.ir.signature import Signature, main_function, signature_of
from qmlir.ir.states import begin_with
from qmlir.ir.verify import verify
from qmlir.running.cached import compile


@overload
def prefixed(network: Network, samples: Iterable[Sample], *, entry: None = None) -> ModuleOp: ...
@overload
def prefixed(
    network: Mapping[str, Network], samples: Iterable[Sample], *, entry: str | None = None
) -> dict[str, ModuleOp]: ...
def prefixed(
    network: Network | Mapping[str, Network], samples: Iterable[Sample], *, entry: str | None = None
) -> ModuleOp | dict[str, ModuleOp]:
    """Returns a network whose states begin, and begin again after a reset, where it has read some samples.

    What follows goes on behind them: a decoder's next token has the place behind the prefix. It is for float networks,
    before they are quantized, and for quantized ones alike.

    Args:
        network: The network, or networks by name that become entries of one.
        samples: The prefix: the inputs of its calls, in order.
        entry: Which of several networks reads the prefix; by default the first.

    Raises:
        QmlirError: The network has no states.
        OptionError: There is no such entry.
        InputError: As for a call.

    >>> from pathlib import Path
    >>> import numpy as np
    >>> import qmlir
    >>> sums = '''func.func @main(%x: tensor<1xf32>, %s: tensor<1xf32> {qmlir.state = #qmlir.state<1>})
    ...     -> (tensor<1xf32>, tensor<1xf32>) {
    ...   %y = nn.add %x, %s : tensor<1xf32>, tensor<1xf32> -> tensor<1xf32>
    ...   func.return %y, %y : tensor<1xf32>, tensor<1xf32>
    ... }'''
    >>> _ = Path("sums.mlir").write_text(sums)
    >>> one = np.ones(1, np.float32)
    >>> print(qmlir.reference(qmlir.prefixed("sums.mlir", [one, 2 * one]))(4 * one))
    [7.]
    """
    given: Mapping[str, Network] = network if isinstance(network, Mapping) else {"": network}
    modules = {name: loaded(each).clone() for name, each in given.items()}
    reader = next(iter(modules)) if entry is None else entry
    if reader not in modules:
        remedy = near_misses(reader, modules) or f"there is {', '.join(filter(None, modules)) or 'one network'}"
        raise OptionError("entry", "must name one of the networks", got=reader, remedy=remedy)
    signatures = {name: signature_of(main_function(module)) for name, module in modules.items()}
    require_states(signatures[reader])
    shared_states(signatures)
    executable = compile(modules[reader])
    for sample in samples:
        executable.run(sample)
    values = executable.state
    for name, module in modules.items():
        function = main_function(module)
        for state in signatures[name].states:
            if state.argument.name in values:
                begin_with(function, state.places[0], values[state.argument.name])
        verify(module)
    return modules if isinstance(network, Mapping) else modules[reader]


def require_states(signature: Signature) -> None:
    """Checks that a network has states.

    Raises:
        QmlirError: It has none.
    """
    if not signature.states:
        remedy = "name states by --state, in Python state="
        raise QmlirError("must have states, which a prefix fills", where="the network", got="none", remedy=remedy)
