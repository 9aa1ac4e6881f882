"""Shows modules as tables in IPython and Jupyter.

A module is xDSL's `ModuleOp`. It is not derived from here, since every pass and every other tool of xDSL makes plain
ones; IPython is told instead how to show the class. `import qmlir` does so where IPython runs, as does
`%load_ext qmlir`; elsewhere, `qmlir.summary(module)` makes the same table.
"""

from typing import TYPE_CHECKING, Any

from qmlir.arguments import Network
from qmlir.compiler import loaded
from qmlir.display import Shown, Table, bytes_text
from qmlir.errors import QmlirError
from qmlir.ir.signature import main_function, signature_of
from qmlir.ir.weights import WeightsAttr
from qmlir.policies.ledger import deciding_operations, decision_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


class Summary(Shown):
    """What a network is made of: its inputs and outputs, its kinds of operations, the bytes of its weights."""

    def __init__(self, module: "ModuleOp"):
        self.module = module

    def table(self) -> Table:
        counts: dict[tuple[str, str], int] = {}
        for op in deciding_operations(self.module):
            decision = decision_of(op)
            key = op.name, "" if decision is None else decision.outcome.data
            counts[key] = counts.get(key, 0) + 1
        rows = [(kind, count, outcome) for (kind, outcome), count in sorted(counts.items(), key=lambda e: -e[1])]
        held = sum(
            attribute.array.nbytes
            for op in self.module.walk()
            for attribute in op.properties.values()
            if isinstance(attribute, WeightsAttr)
        )
        whole = signature_of(main_function(self.module))
        title = f"{whole.described()}; {sum(counts.values())} operations, {bytes_text(held)} of weights"
        return Table(title, ("operation", "count", "outcome"), rows)


def summary(module: Network) -> Summary:
    """Returns what a network is made of, as an object that prints as a table and shows as one in notebooks.

    Args:
        module: A network on the level nn, or its path.

    Raises:
        QmlirError: The file cannot be read, or the module has no function.

    >>> import qmlir
    >>> qmlir.summary("model.mlir")
    input0: float32[1, 8, 8, 1] → output0: float32[1, 2]; 5 operations, 144 B of weights
    operation           count  outcome
    nn.conv2d               1
    nn.relu                 1
    nn.max_pool2d           1
    nn.reshape              1
    nn.fully_connected      1
    """
    return Summary(loaded(module, simplified=False))


def module_html(module: "ModuleOp") -> str | None:
    """Returns the HTML of a module; None for a module that is no network, which is then printed as text."""
    try:
        return Summary(module).table().html()
    except QmlirError:
        return None


def module_text(module: "ModuleOp", printer: Any, cycle: bool) -> None:
    """Prints a module by IPython's printer: a network as its table, all others as MLIR text."""
    try:
        printer.text(Summary(module).table().text())
    except QmlirError:
        printer.text(str(module))
