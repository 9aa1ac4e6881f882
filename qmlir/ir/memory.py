"""Reports operations that need more memory than there is: which operation, and how many bytes it needs."""

from collections.abc import Generator
from contextlib import contextmanager
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from qmlir.errors import NodeError
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import node_name
from qmlir.ir.types import IntegerElement, dtype_of


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
