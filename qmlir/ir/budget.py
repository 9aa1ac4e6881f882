"""Limits the memory of constants that are computed before the network runs.

A few bytes of a model file can describe a constant of any size. Constants that the file holds are in proportion to the
file; constants that are computed are charged to a budget. If the budget is exhausted, the operation stays in the
network or is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

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
