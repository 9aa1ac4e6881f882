"""The errors for what cannot be proved: by a rule, which knows no place, and of an operation, a command or a function.

Each says what was needed, what was got instead, and what to do about it. `qmlir certify` prints an error as it is;
`qmlir certify --check` prints what a certificate lacks that claims the proof.
"""

from qmlir.errors import NodeError


class UnprovenError(Exception):
    """Raised by a rule for what it cannot prove; `at` adds the place.

    got     what there is instead of what is needed
    need    what is needed, as a sentence without its subject
    remedy  what the user can do
    """

    def __init__(self, got: str, need: str = "must have integers that fit their widths", *, remedy: str | None = None):
        super().__init__(got)
        self.got, self.need, self.remedy = got, need, remedy

    def at(self, kind: str, name: str, index: int | None = None) -> "RefusedError":
        """The error of an operation or a command of this kind and this name; see `RefusedError`."""
        error = RefusedError(kind, name, self.need, got=self.got, remedy=self.remedy)
        error.index = index
        return error


class RefusedError(NodeError):
    """Raised for an operation, a command or a function of which a certificate cannot be derived.

    index  the place of the operation in its function; None for all else
    entry  the name of the function, of a network with several entries
    """

    index: int | None = None
    entry: str | None = None

    @property
    def without_remedy(self) -> str:
        """The place, the need and what was got instead."""
        return f"{self.where}: {self.need}, got {self.got}"


def misstated(error: Exception) -> UnprovenError:
    """The error for a property that is not there, or not as the dialects define it."""
    got = f"one that is missing or misstated ({type(error).__name__}: {error})"
    return UnprovenError(got, "must have the properties of its kind")


MISSTATED = (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError)
"""The errors of properties that no compiler writes."""
