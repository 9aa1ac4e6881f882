"""Typed errors for what can be wrong with a user's input, in words that are safe to print."""

import difflib
from collections.abc import Callable, Iterable

# ---------------------------------------------------------------------------------------------------------------
# Makes text from a user's files safe for a terminal and for one paragraph.
#
# A name in a model may hold anything: escape sequences that repaint a terminal, marks that change the direction of
# writing, a line break that starts a second "error:", or ten million letters. The printed text holds printable
# characters only; all other characters are written as escapes, as in Python's strings.


LONGEST = 400
"""The most characters of one name or message; the middle of a longer text is left out."""


def printable(text: str, *, longest: int = LONGEST) -> str:
    """Returns the text with escapes for unprintable characters, and without its middle if it is too long."""
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]} … {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


# ---------------------------------------------------------------------------------------------------------------
# Proposes known names for a wrong name: `did you mean "schema"?`.
#
# Every place that looks a user's name up (passes, options, tensors, policies) ends its error with this sentence.


_LONGEST = 200
"""Characters of a name that are compared: qmlir's own names are shorter, and the time grows with the square."""


def near_misses(name: str, known: Iterable[str], *, prefix: str = "") -> str | None:
    """Returns the remedy for an unknown `name`: the known names it may have meant, or all of them if they are few.

    Args:
        name: The name the user wrote.
        known: The names that exist.
        prefix: Text before each name, such as `--` before a flag.

    Returns:
        A clause for the end of an error, or None if no name is similar and there are too many to list.
    """
    names, name = sorted(set(known)), name[:_LONGEST]
    alike = {n: difflib.SequenceMatcher(None, n[:_LONGEST], name).ratio() for n in names}
    best = max(alike.values(), default=0.0)
    # A name clearly less similar than the best is noise: all operations of a dialect have a prefix in common.
    near = sorted((n for n in names if alike[n] >= max(0.6, best - 0.1)), key=lambda n: -alike[n])[:3]
    near += [n for n in names if name and n.startswith(name) and n not in near][: 3 - len(near)]
    if near:
        return "did you mean " + " or ".join(f"{prefix}{n}" for n in near) + "?"
    if 0 < len(names) <= 12:
        return "known: " + ", ".join(f"{prefix}{n}" for n in names)
    return None


# ---------------------------------------------------------------------------------------------------------------
# Typed errors for what can be wrong with a user's input.
#
# Each constructor demands the facts a reader needs: where the error is, what was needed, what was found instead and
# what to do about it. `str(error)` is one paragraph; the drivers print it and exit with status 1. Violations of qmlir's
# own invariants are plain asserts and never use these classes.


class QmlirError(Exception):
    """An error in a user's input, never a bug of qmlir.

    where   the file, node, option or tensor the error is about, or None
    need    the requirement, as a sentence without its subject or full stop
    got     what was found instead
    remedy  what the user can do, in the imperative

    >>> print(QmlirError("must be a number", where="threads", got="two", remedy="give a number"))
    threads: must be a number, got two; give a number
    """

    where: str | None
    need: str
    got: str | None
    remedy: str | None

    def __init__(self, need: str, *, where: str | None = None, got: str | None = None, remedy: str | None = None):
        self.where, self.need, self.got, self.remedy = where, need, got, remedy
        text = f"{_shown(where)}: {_shown(need)}" if where else _shown(need)
        if got is not None:
            text += f", got {_shown(got)}"
        if remedy is not None:
            text += f"; {_shown(remedy)}"
        super().__init__(text)

    def __reduce__(self) -> "tuple[Callable[..., QmlirError], tuple[object, ...]]":
        """Pickles the error with its parts: subclasses take other arguments than its text."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[QmlirError], args: tuple[object, ...], parts: dict[str, object]) -> QmlirError:
    """Returns an error that another process raised."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(parts)
    return error


def _shown(text: str) -> str:
    """Makes a part of an error safe to print: every part may quote a name from the user's files."""
    return printable(text, longest=1000)


class QmlirWarning(UserWarning):
    """A warning to the user: the result is sound but may not be what the user meant."""


class QualityWarning(QmlirWarning):
    """A warning that an output of a quantized network reaches less than half of what its bits allow."""


class FileError(QmlirError):
    """Raised for a file that is missing, truncated, of another format, or that lies about its contents."""

    def __init__(self, file: object, need: str, *, got: str | OSError | None = None, remedy: str | None = None):
        """Takes as `got` also the error that the operating system reported."""
        text = (got.strerror or str(got)).lower() if isinstance(got, OSError) else got
        super().__init__(need, where=str(file), got=text, remedy=remedy)


class NodeError(QmlirError):
    """Raised for a node or operation that breaks a requirement: `conv2d "features.3": weights must be …`."""

    def __init__(self, kind: str, name: str, need: str, *, got: str | None = None, remedy: str | None = None):
        super().__init__(need, where=f'{kind} "{name}"', got=got, remedy=remedy)


class OptionError(QmlirError):
    """Raised for a command-line or pass option that is unknown or has an unusable value."""

    def __init__(self, option: str, need: str, *, got: str | None = None, remedy: str | None = None):
        super().__init__(need, where=option, got=got, remedy=remedy)


class PipelineError(QmlirError):
    """Raised for a pass that cannot run on a module, because the IR does not meet a precondition of the pass."""

    def __init__(self, pass_name: str, need: str, *, got: str | None = None, remedy: str | None = None):
        super().__init__(need, where=pass_name, got=got, remedy=remedy)


class UnsupportedError(QmlirError):
    """Raised when a stage cannot express an operation, an attribute or a type of the network.

    The code that finds this out often does not know the node's name. The stage that walks the network catches the
    error: an importer makes the node `qmlir.opaque`, the quantizer keeps the operation on floats, an exporter takes
    another form, and all others name the node (`about`) and let the user see the error.

    code  the reason as a stable name for programs, a key of `policies.ledger.KINDS`
    """

    def __init__(
        self, need: str, got: str | None = None, remedy: str | None = None, *, where: str | None = None,
        code: str = "target",
    ):  # fmt: skip
        super().__init__(need, where=where, got=got, remedy=remedy)
        self.code = code

    @staticmethod
    def at(kind: str, name: str, need: str, *, got: str | None = None, remedy: str | None = None) -> "UnsupportedError":
        """Returns an error about a node: `conv2d "features.3": has no …`."""
        return UnsupportedError(need, got, remedy, where=f'{kind} "{name}"')

    def about(self, kind: str, name: str) -> "UnsupportedError":
        """Returns the error about a node; an error that has a subject stays as it is."""
        return self if self.where else UnsupportedError.at(kind, name, self.need, got=self.got, remedy=self.remedy)


class ProfileError(QmlirError):
    """Raised for a profile or calibration data that cannot be used: empty, not finite, of another model."""

    def __init__(self, source: str, need: str, *, got: str | None = None, remedy: str | None = None):
        super().__init__(need, where=source, got=got, remedy=remedy)


class InputError(QmlirError):
    """Raised for an array that does not fit the signature of the compiled model it is given to."""

    def __init__(self, tensor: str, need: str, *, got: str | None = None, remedy: str | None = None):
        super().__init__(need, where=f'input "{tensor}"', got=got, remedy=remedy)
