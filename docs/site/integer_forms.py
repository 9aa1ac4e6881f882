"""The column *integer CPU* of `OPERATORS.md`, and the list of reasons below: both are what the operations say.

An operator is computed in integers on the storage types that all operations it becomes have in common, those left out
that compute on plain integers and truth values only. If there are none, the column names the operations that have no
integer form, and the list says why (`WHY_FLOAT` of each).
"""

from collections.abc import Iterable, Mapping

from qmlir.dialects import nn
from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import QuantizableOp
from qmlir.dialects.target import Target
from qmlir.ir.interfaces import TensorOp

MEANING = (
    "the storage types that the CPU computes in integers; *integers*: it computes on nothing else;\n"
    "  *float*: it is computed in f32 between casts, because operations that are named there have no integer form\n"
    "  ([why](#why-operations-have-no-integer-form))"
)
"""What the column says, for the heading of a table."""

HEADER = """
# Why operations have no integer form

Of the operations that the tables above name behind *float*, in what they say of themselves. Between quantized layers
they are computed in f32, so that a network with one of them is [not integer-only](docs/certificates.md).

| operation | why |
|---|---|
"""

NAMED = 2
"""The most operations that a cell names."""

TYPES = "no type in common"
"""Of operations that have integer forms, but not on one type."""

FALLBACK = "own scales"
"""Of operators that quantized files have between casts."""

OTHERS = {
    TYPES: "each of its operations has an integer form, but on other storage types than another of them",
    FALLBACK: "LiteRT's kernel computes it from floats, so that quantized networks are read with casts around it",
}


def is_plain(op: type[TensorOp]) -> bool:
    """Whether an operation computes on plain integers or truth values only, or converts these."""
    return op is nn.CastOp or (issubclass(op, NNOp) and not Elements.FLOATS & op.ELEMENTS)


def is_exact(op: type[TensorOp]) -> bool:
    """Whether an operation moves, chooses or compares: on integers as between casts, with the same results."""
    yields_no_data = issubclass(op, NNOp) and op.YIELDS is not None
    return yields_no_data or issubclass(op, MovementOp) or op in (nn.WhereOp, nn.NotOp)


class IntegerForms:
    """Fills the column, and keeps what it named for the list."""

    def __init__(self, classes: Mapping[str, type[TensorOp]], target: Target):
        self._classes, self._target = classes, target
        self._named: dict[str, str] = {}

    def cell(self, names: Iterable[str], *, fallback: bool = False) -> str:
        """The text for an operator.

        Args:
            names: The operations that it becomes, without those that only stand around it.
            fallback: Whether quantized files have it on floats between casts.
        """
        known = sorted(name for name in names if name in self._classes)
        found = [name for name in known if not is_plain(self._classes[name])]
        if not found:
            return "integers" if known else "—"
        fallback = fallback and not all(is_exact(self._classes[name]) for name in known)
        storages = [set(self._target.integer.get(name, ())) for name in found]
        without = [name for name, types in zip(found, storages, strict=True) if not types]
        if without:
            self._named |= {name.removeprefix("nn."): self._reason(name) for name in without}
            shown = [name.removeprefix("nn.") for name in without]
        elif fallback or not set.intersection(*storages):
            shown = [FALLBACK if fallback else TYPES]
            self._named |= {shown[0]: OTHERS[shown[0]]}
        else:
            return ", ".join(sorted(set.intersection(*storages)))
        more = ", …" if len(shown) > NAMED else ""
        return f"float: {', '.join(shown[:NAMED])}{more}"

    def reasons(self) -> str:
        """The list of all operations that cells were about."""
        order = sorted(self._named, key=lambda name: (name in OTHERS, name))
        return HEADER + "".join(f"| {name} | {self._named[name]} |\n" for name in order)

    def _reason(self, name: str) -> str:
        said = self._target.floating.get(name, "")
        if not said and not issubclass(self._classes[name], QuantizableOp):
            return "it computes on plain numbers"
        return said or str(self._target.why_float(name, "i8"))
