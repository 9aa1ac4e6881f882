"""Compares a certificate with the one that follows from its artefact, field by field."""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from qmlir.checker.document import FORMAT, LARGEST, derive_document
from qmlir.checker.reading import MOST_CERTIFICATE, parse_json, read_plain
from qmlir.checker.schema import Trusted, assumptions, at, first_breach, trusted_fields
from qmlir.checker.unproven import RefusedError, UnprovenError
from qmlir.errors import FileError, QmlirError, printable

NEED, REMEDY = "must hold for its artefact", "certify the network again"


class CheckError(QmlirError):
    """Raised for a certificate that does not hold for its artefact."""

    def __init__(self, file: object, need: str, *, got: str | None = None, remedy: str | None = None):
        super().__init__(need, where=str(file), got=got, remedy=remedy)


@dataclass(frozen=True)
class Checked:
    """A certificate that holds.

    counts   how much it states, by name
    trusted  what of it is on trust
    """

    counts: Mapping[str, int]
    trusted: tuple[Trusted, ...]


def check_certificate(path: Path, artefact: Path | None = None) -> dict[str, int]:
    """Checks a certificate against its artefact.

    Args:
        path: The certificate.
        artefact: The network of integers; by default the file that the certificate names, in the same folder.

    Returns:
        How much was checked: the numbers of operations, sums, requantizations, operations that round by themselves,
        tables and constants, and of the tables whose function is not known; nothing for an object file.

    Raises:
        FileError: A file cannot be read, or is of another format.
        CheckError: The certificate does not hold.
    """
    return dict(check(path, artefact).counts)


def check(path: Path, artefact: Path | None = None) -> Checked:
    """Checks a certificate as `check_certificate` does, and tells what of it is on trust, too."""
    certificate = read_certificate(path)
    try:
        derived = derive_document(certificate, path.parent, artefact)
    except UnprovenError as error:
        raise CheckError(path, NEED, got=error.got, remedy=REMEDY) from None
    except RefusedError as error:
        raise CheckError(path, NEED, got=error.without_remedy, remedy=REMEDY) from None
    except MemoryError:
        raise CheckError(path, NEED, got="an artefact that needs more memory than there is") from None
    except _UNREADABLE as error:
        got = f"an artefact that nothing follows from ({type(error).__name__}: {error})"
        raise CheckError(path, NEED, got=got, remedy=REMEDY) from None
    if wrong := next(_differences(certificate, derived, ""), None):
        raise CheckError(path, NEED, got=wrong, remedy=REMEDY)
    about = certificate["about"]
    stated = tuple(each for each in trusted_fields(about) if each.is_stated(certificate))
    return Checked(counts_of(certificate), stated + assumptions(about))


_UNREADABLE = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError, struct.error),
    NotImplementedError,
)
"""The errors of numbers and names in an artefact that no compiler writes."""


def read_certificate(path: Path) -> Mapping[str, Any]:
    """Reads a certificate, whose keys, types and bounds are those of the schema.

    Raises:
        FileError: The file cannot be read, or is no certificate.
        CheckError: It is one that breaks the schema.
    """
    try:
        found = parse_json(read_plain(path, MOST_CERTIFICATE, "must be a certificate"))
    except ValueError as error:
        raise FileError(path, "must be a certificate", got=str(error)) from None
    if not isinstance(found, dict) or cast(dict[str, Any], found).get("format") != FORMAT:
        raise FileError(path, f"must be a certificate of format {FORMAT}", got="something else")
    certificate = cast(dict[str, Any], found)
    need = "must be a certificate as `qmlir certify` writes it"
    if (about := certificate.get("about")) not in LARGEST:
        raise CheckError(path, need, got="one that is about no network, entries, program or object")
    if breach := first_breach(certificate, about):
        raise CheckError(path, need, got=breach)
    return certificate


def _differences(stated: Any, derived: Any, path: str) -> Iterator[str]:
    """Yields where a certificate differs from the derived one, in words that begin with the field."""
    if type(stated) is not type(derived):
        yield f"{path} = {_short(stated)}, where {_short(derived)} follows"
    elif isinstance(derived, dict):
        given, own = cast(dict[str, Any], stated), cast(dict[str, Any], derived)
        yield from (f"{at(path, key)}, which does not follow" for key in given if key not in own)
        for key, value in own.items():
            if key in given:
                yield from _differences(given[key], value, at(path, key))
            else:
                yield f"no {at(path, key)}, where {_short(value)} follows"
    elif isinstance(derived, list):
        given, own = cast(list[Any], stated), cast(list[Any], derived)
        for index, (left, right) in enumerate(zip(given, own, strict=False)):
            yield from _differences(left, right, at(path, index) + _label(right))
        if len(given) != len(own):
            yield f"{path} of {len(given)} elements, where {len(own)} follow"
    elif stated != derived:
        yield f"{path} = {_short(stated)}, where {_short(derived)} follows"


def _label(derived: Any) -> str:
    """The name of what an element of a list is about, behind its number."""
    if not isinstance(derived, dict):
        return ""
    fields = cast(dict[str, Any], derived)
    kind = fields.get("operation", fields.get("command", ""))
    name = next((fields[key] for key in ("node", "tensor", "layer", "routine", "name") if key in fields), None)
    return "" if name is None else f' ({kind}{" " if kind else ""}"{name}")'


def _short(value: Any) -> str:
    return printable(repr(value) if isinstance(value, str) else str(value), longest=80)


def counts_of(certificate: Mapping[str, Any]) -> dict[str, int]:
    """How much a certificate states, as `check_certificate` returns it."""
    if certificate["about"] == "object":
        return {}
    if certificate["about"] == "program":
        commands: list[Mapping[str, Any]] = certificate["commands"]
        return {
            "commands": len(commands),
            "calls": sum(len(each["commands"]) for each in certificate["routines"]),
            "operations": sum(len(each["operations"]) for each in certificate["routines"]),
            "sums": sum("accumulators" in each for each in commands),
            "requantizations": sum("requantization" in each for each in commands),
            "constants": len(certificate["constants"]),
        }
    if certificate["about"] == "entries":
        counts = Counter[str]()
        for each in certificate["entries"]:
            counts.update(counts_of({"about": "network", **each}))
        return dict(counts)
    operations: list[Mapping[str, Any]] = certificate["operations"]
    tables = [each["table"]["function"] for each in operations if "table" in each]
    return {
        "operations": len(operations),
        "sums": sum("accumulators" in each for each in operations),
        "requantizations": sum("requantization" in each for each in operations),
        "roundings": sum("rounding" in each for each in operations),
        "tables": len(tables),
        "tables_without_function": sum(function is None for function in tables),
        "constants": len(certificate["weights"]),
    }
