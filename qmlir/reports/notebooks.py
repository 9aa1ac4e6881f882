"""Shows modules as tables in IPython and Jupyter.

A module is xDSL's `ModuleOp`. It is not derived from here, since every pass and every other tool of xDSL makes plain
ones; `%load_ext qmlir` tells IPython instead how to show the class. Elsewhere, `qmlir.summary(module)` makes the same
table.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from qmlir.analysis.counts import decided, kinds, kinds_table
from qmlir.compiler import loaded
from qmlir.display import Shown, Table, bytes_text
from qmlir.errors import QmlirError
from qmlir.ir.signature import main_function, signature_of
from qmlir.ir.weights import WeightsAttr
from qmlir.policies.ledger import deciding_operations
from qmlir.settings.arguments import Network

if TYPE_CHECKING:
    from xdsl.dialects import func
    from xdsl.dialects.builtin import ModuleOp


class Summary(Shown):
    """What a network is made of: inputs and outputs, kinds of operations with their precisions, bytes of weights."""

    def __init__(self, module: "ModuleOp"):
        self.module = module

    def table(self) -> Table:
        found = Counter(op.name for op in deciding_operations(self.module))
        headings, known = kinds_table(kinds(decided(self.module)))
        outcomes = {kind: tuple(counts) for kind, _, *counts in known}
        none = (None,) * (len(headings) - 1)
        rows = [(kind, count, *outcomes.get(kind, none)) for kind, count in found.most_common()]
        held = sum(
            attribute.array.nbytes
            for op in self.module.walk()
            for attribute in op.properties.values()
            if isinstance(attribute, WeightsAttr)
        )
        title = f"{_described(main_function(self.module))}; {found.total()} operations, {bytes_text(held)} of weights"
        return Table(title, ("operation", *headings), rows)


def _described(function: "func.FuncOp") -> str:
    """Describes inputs and outputs: by their names, or as MLIR if an unknown operator leaves a shape unknown."""
    try:
        return signature_of(function).described()
    except QmlirError:
        return str(function.function_type)


def summary(module: Network) -> Summary:
    """Returns what a network is made of, as an object that prints as a table and shows as one in notebooks.

    For a network that has been through the quantizer, the table also tells how many operations of each kind are
    quantized at which precision, and how many stayed float.

    Args:
        module: A network on the level nn, or its path.

    Raises:
        QmlirError: The file cannot be read, or the module has no function.

    >>> import qmlir
    >>> qmlir.summary("model.mlir")
    input0: float32[1, 8, 8, 1] → output0: float32[1, 2]; 5 operations, 144 B of weights
    operation           count
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
