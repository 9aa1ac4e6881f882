"""The fold budget of a module: how many bytes of constants one simplification may compute.

The import of a file has a budget, and each later simplification has a new budget of the same size. If the size differs
from the default, the module's attribute `qmlir.fold_budget` holds it in bytes, so a saved module keeps its limit.
"""

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from qmlir.dialects.qmlir import FOLD_BUDGET
from qmlir.errors import PipelineError
from qmlir.ir.budget import BUDGET, Budget


def limit(module: ModuleOp, bytes: int) -> None:
    """Sets the budget in bytes of each simplification of a module; the default value leaves the attribute unchanged."""
    if bytes != BUDGET:
        module.attributes[FOLD_BUDGET] = IntegerAttr(max(bytes, 0), i64)


def budget_of(module: ModuleOp) -> Budget:
    """The budget of one simplification of a module.

    Raises:
        PipelineError: The module's attribute is not an integer, or is negative.
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
