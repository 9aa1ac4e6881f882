"""What the support matrix says of integer forms: the column "integer CPU", and why operations have none."""

from collections.abc import Iterable, Mapping

from qmlir.dialects import nn
from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.target import Target
from qmlir.ir.interfaces import TensorOp


def is_plain(op: type[TensorOp]) -> bool:
    """Whether an operation computes on plain integers or truth values only, or converts these."""
    return op is nn.CastOp or (issubclass(op, NNOp) and not Elements.FLOATS & op.ELEMENTS)


def is_exact(op: type[TensorOp]) -> bool:
    """Whether an operation moves, chooses or compares: on integers as between casts, with the same results."""
    yields_no_data = issubclass(op, NNOp) and op.YIELDS is not None
    return yields_no_data or issubclass(op, MovementOp) or op in (nn.WhereOp, nn.NotOp)


def integer_form(operations: Iterable[type[TensorOp]], target: Target) -> str:
    """The storage types on which all operations have an integer form, or `float` with the operations that have none."""
    forms = {op.name: set(target.integer.get(op.name, ())) for op in operations if not is_plain(op)}
    if not forms:
        return "integers"
    if storages := set.intersection(*forms.values()):
        return ", ".join(sorted(storages))
    lacking = [f"`{name.removeprefix('nn.')}`" for name, form in sorted(forms.items()) if not form]
    return f"float: {', '.join(lacking)}" if lacking else "float"


REASONS_HEADER = """
## Operations without an integer form

What an operation of `nn` says of itself. Each is computed on floats between casts, on f32 unless it takes other types:

"""


def reasons(classes: Mapping[str, type[TensorOp]], target: Target) -> str:
    """Why operations that take floats have no integer form."""
    found = {name: why for name, why in target.floating.items() if name in classes and not is_plain(classes[name])}
    return REASONS_HEADER + "".join(f"* `{name.removeprefix('nn.')}`: {why}.\n" for name, why in sorted(found.items()))
