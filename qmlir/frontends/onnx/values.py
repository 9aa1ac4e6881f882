"""What a converter is given and gives back: the tensors of the source model.

A tensor is either computed, an SSA value, or known at import, a `Constant`. Shapes, axes and whatever is computed from
constants alone stay `Constant` and never enter the IR; weights enter it when an operation uses them.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from qmlir.dialects.interfaces import Array

Ints = tuple[int, ...]
Floats = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor whose values are known at import, with the name it has in the source model."""

    array: Array
    name: str = ""


Value = SSAValue | Constant


class Refusal(Exception):
    """A converter's answer to a node that has no meaning in nn: it becomes `qmlir.opaque` with this reason.

    Never seen by a user as an exception.
    """

    reason: str

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)
