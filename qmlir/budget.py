"""How much memory constants may take that are computed before the network runs.

A few bytes of a model file can describe a constant of any size. What the file holds is in proportion to the file; what
is computed of it is charged to a budget, and beyond that the operation stays in the network or is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

BUDGET = 1 << 30
"""Bytes of computed constants by default."""


@dataclass
class Budget:
    """Bytes of constants that may still be computed.

    limit  the bytes of all constants together
    spent  those of the constants computed so far
    """

    limit: int = BUDGET
    spent: int = 0

    def take(self, shape: Sequence[int], itemsize: int) -> bool:
        """Charges the budget with an array and returns True, or returns False where too little is left of it."""
        size = prod(shape) * itemsize
        if self.spent + size > self.limit:
            return False
        self.spent += size
        return True

    def refusal(self, shape: Sequence[int]) -> str:
        """Why an array is not computed, for a message, with what would change that."""
        return (
            f"it makes a constant of shape {list(shape)}, more than is left of the {self.limit} bytes that constants "
            "computed at import may take; --fold-budget, or fold_budget in Python, gives them more"
        )
