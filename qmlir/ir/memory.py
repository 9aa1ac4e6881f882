"""Limits the memory of constants computed before the network runs; reports operations that need too much memory."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from qmlir.errors import NodeError
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import node_name
from qmlir.ir.types import IntegerElement, dtype_of

# ---------------------------------------------------------------------------------------------------------------
# Limits the memory of constants that are computed before the network runs.
#
# A few bytes of a model file can describe a constant of any size. Constants that the file holds are in proportion to
# the file; constants that are computed are charged to a budget. If the budget is exhausted, the operation stays in the
# network or is refused.


BUDGET = 1 << 30
"""The default budget for computed constants, in bytes."""


@dataclass
class Budget:
    """The budget for computed constants, in bytes.

    limit  the bytes of all computed constants together
    spent  the bytes of the constants computed so far
    """

    limit: int = BUDGET
    spent: int = 0

    def take(self, shape: Sequence[int], itemsize: int) -> bool:
        """Charges the budget with an array and returns True, or returns False if too little of the budget is left."""
        size = prod(shape) * itemsize
        if self.spent + size > self.limit:
            return False
        self.spent += size
        return True

    def refusal(self, shape: Sequence[int]) -> str:
        """The text of an error that says why an array is not computed, and how to change that."""
        return (
            f"it makes a constant of shape {list(shape)}, more than is left of the {self.limit} bytes that constants "
            "computed at import may take; --fold-budget, or fold_budget in Python, gives them more"
        )


# ---------------------------------------------------------------------------------------------------------------
# Reports operations that need more memory than there is: which operation, and how many bytes it needs.


@contextmanager
def within_memory(op: Operation) -> Generator[None]:
    """Turns a shortage of memory inside the block into an error that names the operation.

    Raises:
        NodeError: There is not enough memory to evaluate the operation.
    """
    try:
        yield
    except MemoryError:
        raise shortage(op.name, node_name(op), _bytes(op)) from None


def shortage(kind: str, name: str, size: int | None = None) -> NodeError:
    """Returns the error for a node or an operation that needs more memory than there is.

    Args:
        kind: The kind of the node or operation.
        name: Its name.
        size: The bytes of its operands and results; None if not known.
    """
    return NodeError(
        kind,
        name,
        "needs more memory than there is, of which constants computed at import take up to --fold-budget bytes",
        got=None if size is None else f"operands and results of {size} bytes",
        remedy="give the process more memory",
    )


def _bytes(op: Operation) -> int:
    """The bytes of the tensors that an operation reads and writes."""
    total = 0
    for value in dict.fromkeys((*op.operands, *op.results)):
        if not isinstance(value.type, TensorType):
            continue
        element = element_of(value)
        dtype = element.numpy_dtype if isinstance(element, IntegerElement) else dtype_of(element)
        total += prod(shape_of(value)) * dtype.itemsize
    return total
