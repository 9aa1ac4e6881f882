"""No field of a certificate can be changed: whatever differs is refused, or is printed as on trust.

Each field of certificates of many kinds of artefacts is deleted, renamed, doubled, changed by its type, given another
type, made extreme and swapped with its neighbour; objects get unknown keys. The bytes of artefacts are changed too.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qmlir.checker import check
from qmlir.checker.schema import trusted_fields
from qmlir.errors import QmlirError
from tests.checker.certificates import CERTIFICATES, NAME, read
from tests.conftest import THOROUGH

Path_ = tuple[str | int, ...]

FEW, MANY = 14, 150
"""Tamperings of each certificate in `make test`; further ones in `make conformance`, whatever the field."""

pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass(frozen=True)
class Tampering:
    """A change of one field, named by its path; `value` is the whole changed certificate."""

    kind: str
    path: Path_
    value: Any


@pytest.fixture(scope="module", params=CERTIFICATES)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CERTIFICATES[request.param](tmp_path_factory.mktemp("certificate"))


# ---------------------------------------------------------------------------------------------------------------
# The changes


def paths(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The path of each field and of each element."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from paths(each, (*path, index))


def at(value: Any, path: Path_) -> Any:
    for part in path:
        value = value[part]
    return value


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values in place of a value: near it, of other types, and extreme ones."""
    match value:
        case bool():
            yield "another truth", not value
        case int():
            yield from (("one more", value + 1), ("one less", value - 1), ("with a point", float(value)))
        case float():
            near = np.nextafter(value, 2 * value + 1).item()
            yield from (("nearly", near), ("a thousandth more", value * 1.001 + 2.0**-18), ("negative", -1.0 - value))
        case str():
            yield from (("longer", value + "x"), ("shorter", value[:-1]), ("out of the folder", "../" + value))
            yield from (("upper case", value.swapcase()), ("long", 10_000 * "é"), ("invisible", value + "\u202e\n"))
        case list():
            yield from (("of nothing", []), ("once more", [*value, *value[-1:]]), ("backwards", value[::-1]))
            yield from (("without the first", value[1:]), ("nested", [value]))
        case dict():
            yield from (("of nothing", {}), ("with an unknown key", {**value, "extra": None}), ("as a list", [value]))
        case _:
            yield from (("zero", 0), ("one half", 0.5), ("a list", [1.0]))
    yield from (("null", None), ("text", "1e9999999"), ("true", True), ("huge", 10**38), ("tiny", 5e-324))
    yield from (("a large float", 1.7e308), ("below all integers", -(1 << 63) - 1), ("a list of it", [value]))


def tamperings(certificate: Any, path: Path_) -> Iterator[Tampering]:
    """Every change of one field."""
    *parent, key = path

    def changed(kind: str, change: Any) -> Tampering:
        copy = deepcopy(certificate)
        change(at(copy, tuple(parent)))
        return Tampering(kind, path, copy)

    yield changed("deleted", lambda holder: holder.__delitem__(key))
    for kind, value in others(at(certificate, path)):
        yield changed(kind, lambda holder, value=value: holder.__setitem__(key, value))
    holder = at(certificate, tuple(parent))
    if isinstance(key, str):
        yield changed("renamed", lambda holder: holder.update({key + "_": holder.pop(key)}))
        yield changed("of another case", lambda holder: holder.update({key.upper(): holder.pop(key)}))
        neighbours: list[str | int] = list(holder)
    else:
        neighbours = list(range(len(holder)))
    other = neighbours[(neighbours.index(key) + 1) % len(neighbours)]
    yield changed("swapped", lambda holder: _swap(holder, key, other))


def _swap(holder: Any, key: str | int, other: str | int) -> None:
    holder[key], holder[other] = holder[other], holder[key]


def same(a: Any, b: Any) -> bool:
    """Whether two values are one in JSON, where 1 is not 1.0; the order of keys does not count."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


# ---------------------------------------------------------------------------------------------------------------
# What becomes of them


def pattern(path: Path_) -> str:
    """A path as the command prints it."""
    text = "".join("[]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def refusal(certificate: Any, folder: Path) -> str | None:
    """The typed error about a certificate; None if it holds."""
    path = folder / NAME
    path.write_text(json.dumps(certificate))
    try:
        check(path)
    except QmlirError as error:
        return str(error)
    return None


def chosen(certificate: Any) -> Iterator[Tampering]:
    """Seeded changes: in `make conformance` one of each field and more of some, else of some kinds of fields."""
    rng, every = np.random.default_rng(7), list(paths(certificate))
    kinds = list({pattern(path): path for path in every}.values())
    picked = [every[n] for n in rng.permutation(len(every))]
    if THOROUGH:
        picked = [path for path in kinds for _ in range(4)] + picked[:MANY]
    else:
        picked = [kinds[n] for n in rng.permutation(len(kinds))[:FEW]]
    for path in picked:
        changes = list(tamperings(certificate, path))
        yield changes[int(rng.integers(len(changes)))]


@pytest.mark.slow
def test_every_field(original: Path, tmp_path: Path, record_property: Any) -> None:
    """A change holds only within a field that is printed as on trust, or if it takes such a statement back."""
    folder = tmp_path / "tampered"
    shutil.copytree(original.parent, folder)
    certificate = read(original)
    fields = [each.field for each in trusted_fields(certificate["about"]) if each.field]
    held = refused = 0
    for each in chosen(certificate):
        if same(each.value, certificate):
            continue
        if refusal(each.value, folder) is not None:
            refused += 1
            continue
        held += 1
        changed = pattern(each.path[:-1] if each.kind == "swapped" else each.path)
        field = next((f for f in fields if changed == f or changed.startswith((f"{f}.", f"{f}[]"))), None)
        assert field is not None, f"{each.kind}: {each.path} holds"
        assert field in {shown.field for shown in check(folder / NAME).trusted} or each.kind == "null"
    record_property("refused", refused)
    record_property("held", held)
    assert refused > (200 if THOROUGH else FEW // 2)


# ---------------------------------------------------------------------------------------------------------------
# Artefacts


def changed_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """A file with other bytes: a flipped bit, a part that is missing or doubled, or more bytes."""
    at, size = int(rng.integers(len(data))), 1 + int(rng.integers(64))
    match int(rng.integers(4)):
        case 0:
            return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]
        case 1:
            return data[:at] + data[at + size :]
        case 2:
            return data[:at] + data[at : at + size] + data[at:]
        case _:
            return data + bytes(size)


def test_every_file_of_the_artefact(original: Path, tmp_path: Path) -> None:
    """Other bytes are refused; signed again, they are refused by a typed error, or mean the same."""
    folder, rng = tmp_path / "tampered", np.random.default_rng(11)
    shutil.copytree(original.parent, folder)
    certificate = read(original)
    for number, each in enumerate(certificate["artefact"]):
        data = (folder / each["file"]).read_bytes()
        for _ in range(40 if THOROUGH else 2):
            other = changed_bytes(data, rng)
            if other == data:
                continue
            (folder / each["file"]).write_bytes(other)
            assert f"another hash of {each['file']}" in str(refusal(certificate, folder))
            signed = deepcopy(certificate)
            signed["artefact"][number]["sha256"] = hashlib.sha256(other).hexdigest()
            refusal(signed, folder)
        (folder / each["file"]).unlink()
        assert "must be the artefact of the certificate" in str(refusal(certificate, folder))
        (folder / each["file"]).write_bytes(data)
    assert refusal(certificate, folder) is None


def test_files_that_are_not_read_may_not_be_listed(original: Path, tmp_path: Path) -> None:
    folder = tmp_path / "more"
    shutil.copytree(original.parent, folder)
    certificate = read(original)
    (folder / "more.safetensors").write_bytes(b"more")
    certificate["artefact"].append({"file": "more.safetensors", "sha256": hashlib.sha256(b"more").hexdigest()})
    assert "artefact" in str(refusal(certificate, folder))
