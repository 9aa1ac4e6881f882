"""Budgets in bytes for the constants that the compiler computes: one for each import and each simplification."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ModuleOp

from qmlir.errors import PipelineError
from qmlir.ir.facts import FOLD_BUDGET

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
# The fold budget of a module: how many bytes of constants one simplification may compute.
#
# The import of a file has a budget, and each later simplification has a new budget of the same size. If the size
# differs from the default, the module's attribute `qmlir.fold_budget` holds it in bytes, so a saved module keeps its
# limit.


def limit(module: ModuleOp, bytes: int) -> None:
    """Sets the budget in bytes of each simplification of a module; the default value leaves the attribute unchanged."""
    if bytes != BUDGET:
        FOLD_BUDGET.put(module, max(bytes, 0))


def budget_of(module: ModuleOp) -> Budget:
    """The budget of one simplification of a module.

    Raises:
        PipelineError: The module's attribute is not an integer, or is negative.
    """
    if (attribute := FOLD_BUDGET.attribute(module)) is None:
        return Budget()
    bytes = FOLD_BUDGET.of(module)
    if bytes is None or bytes < 0:
        raise PipelineError(
            "the module", f"must have a number of bytes as {FOLD_BUDGET}", got=f"{attribute}",
            remedy="remove the attribute for 1 GiB",
        )  # fmt: skip
    return Budget(bytes)
