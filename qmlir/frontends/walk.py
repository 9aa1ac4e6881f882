"""The walk over the operators of a graph: each is converted, computed at import, or kept as opaque.

    converted  by the operator's converter (converters.py)
    computed   if all inputs are constants, by the frontend
    opaque     if the operator has no converter, or the converter refuses it; `qmlir.opaque` holds the reason

The body of a branch, a loop or a function gets a walk of its own, whose operations belong to the operator that it
stands for. If an operator of a body is refused, the operator that it stands for is refused as a whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from qmlir.errors import QmlirError, UnsupportedError
from qmlir.frontends.builder import Node
from qmlir.frontends.function import Value

MOST_OPERATORS = 5_000
"""The most operators in all bodies together, which take some seconds to import; nested loops soon exceed it."""


class BodiesError(UnsupportedError):
    """Raised when bodies have too many operators; it refuses what the outermost body stands for."""


@dataclass
class Budgeted:
    """The state that all walks of an import share: how many operators of bodies they have imported."""

    walked: int = field(default=0, kw_only=True)

    def count(self, what: str) -> None:
        """Counts an operator of a body; `what` are the operators of a format, in errors.

        Raises:
            BodiesError: There are too many of them.
        """
        self.walked += 1
        if self.walked > MOST_OPERATORS:
            raise BodiesError(f"what it stands for has more than {MOST_OPERATORS} {what}")


def imported(
    node: Node, convert: Callable[[], Sequence[Value]], opaque: Callable[[str], Sequence[Value]],
    add: Callable[[Sequence[Operation]], object], *, within: bool = False,
    refuses: Callable[[UnsupportedError], bool] = lambda refusal: False,
) -> Sequence[Value]:  # fmt: skip
    """Imports a node, hands its operations over, and returns its outputs.

    Args:
        node: The node.
        convert: Converts the node.
        opaque: Adds an opaque operation in the node's place; it gets the reason.
        add: Takes the node's operations.
        within: Whether the node belongs to the body of another.
        refuses: Whether a node that cannot be imported is refused, rather than kept as opaque.
    """
    try:
        results = convert()
    except UnsupportedError as refusal:
        node.discard()
        if refuses(refusal):
            raise
        results = opaque(refusal.need)
    except QmlirError:  # an import may be a try, after which nothing may be left behind
        node.discard()
        raise
    node.commit(results, add, rename=not within)
    return results
