"""The budget of a module: the bytes of constants that a simplification of it may compute.

The import of a file has one budget, and each simplification after it another of as many bytes. Where these are not the
default's, the module says in its attribute `qmlir.fold_budget` how many they are, so a saved module keeps its limit.
"""

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from qmlir.budget import BUDGET, Budget
from qmlir.dialects.qmlir import FOLD_BUDGET
from qmlir.errors import PipelineError


def limit(module: ModuleOp, bytes: int) -> None:
    """Gives each simplification of a module a budget of so many bytes; the default's leaves what a file says."""
    if bytes != BUDGET:
        module.attributes[FOLD_BUDGET] = IntegerAttr(max(bytes, 0), i64)


def budget_of(module: ModuleOp) -> Budget:
    """The budget of one simplification of a module.

    Raises:
        PipelineError: The module's attribute is no number of bytes.
    """
    attribute = module.attributes.get(FOLD_BUDGET)
    if attribute is None:
        return Budget()
    bytes = attribute.value.data if isinstance(attribute, IntegerAttr) else -1
    if bytes < 0:
        raise PipelineError(
            "the module", f"must have a number of bytes as {FOLD_BUDGET}", got=f"{attribute}",
            remedy="remove the attribute for 1 GiB",
        )  # fmt: skip
    return Budget(bytes)
