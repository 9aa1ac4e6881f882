"""Damaged and hostile certificates, each with its artefact: what `qmlir certify --check` is given by strangers.

A number stands for a folder: a certificate, of which a field, the text or a file of the artefact is damaged. Half of
those whose artefact is damaged have the hash of the damaged file, so that the checker reads it. The folder is passed on
as an archive, and some files in it are links and pipes.
"""

import hashlib
import io
import json
import os
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from qmlir.checker import check
from tests.checker.certificates import CERTIFICATES, NAME
from tests.conformance import mutations
from tests.fuzz.damage import NUMBERS, damaged

Random = np.random.Generator

KINDS = ("int8", "per channel", "norm", "packed program")
"""The certificates that are damaged: with sums, weights, tables of one operand, and commands."""


@cache
def make_certificates() -> tuple[dict[str, bytes], ...]:
    """Certificates with their artefacts: name of a file → its content."""
    found: list[dict[str, bytes]] = []
    for kind in KINDS:
        path = CERTIFICATES[kind](Path(tempfile.mkdtemp(prefix="qmlir-certificate-")))
        names = [NAME, *(each["file"] for each in json.loads(path.read_text())["artefact"])]
        found.append({name: (path.parent / name).read_bytes() for name in names})
    return tuple(found)


def _fields(value: Any) -> list[tuple[Any, Any]]:
    """The place of each field and element: what holds it, and its key."""
    found: list[tuple[Any, Any]] = []
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        found += [(value, key), *_fields(value[key])]
    return found


NAMES = ("/dev/zero", "/etc/passwd", "../net.mlir", "net.json", ".", "", "net.mlir\0", "/proc/self/mem", "pipe", "link")

VALUES: tuple[Any, ...] = (
    *(None, True, [], {}, "", "1e9999999", 0, -1, 1 << 31, -(1 << 63), 10**30, 0.5, -1e308, 5e-324, [[]], [None]),
    *NAMES,
)


def _field(certificate: dict[str, Any], random: Random) -> str:
    """Changes some fields of a certificate."""
    for _ in range(int(random.choice([1, 1, 2, 5]))):
        places = _fields(certificate)
        holder, key = places[int(random.integers(len(places)))]
        match int(random.integers(4)):
            case 0:
                del holder[key]
            case 1:
                holder[key] = VALUES[int(random.integers(len(VALUES)))]
            case 2:
                other, name = places[int(random.integers(len(places)))]
                holder[key] = json.loads(json.dumps(other[name]))
            case _ if isinstance(holder, dict):
                holder[str(key) + "x"] = holder[key]
            case _:
                holder.insert(key, holder[key])
    return "other fields"


def _artefact(files: dict[str, bytes], random: Random) -> str:
    """Damages a file of the artefact, most of the time with a hash that fits."""
    certificate = json.loads(files[NAME])
    listed = certificate["artefact"]
    each = listed[int(random.integers(len(listed)))]
    data = files[each["file"]]
    if each["file"].endswith(".mlir") and random.random() < 0.8:
        changed, how = damaged(data.decode(), random, [data.decode()])
        data = changed.encode(errors="surrogatepass")
    else:
        change = mutations.BYTES[int(random.integers(len(mutations.BYTES)))]
        data, how = change(data, random, [data]), change.__name__
    files[each["file"]] = data
    if random.random() < 0.8:
        each["sha256"] = hashlib.sha256(data).hexdigest()
        files[NAME] = json.dumps(certificate).encode()
    return f"{each['file'][-8:]}: {how}"


def damaged_certificate(number: int) -> tuple[bytes, str]:
    """An archive of a folder, and what was done to it."""
    random, known = np.random.default_rng(number), make_certificates()
    files = dict(known[int(random.integers(len(known)))])
    text = files[NAME].decode()
    if (way := random.random()) < 0.1:  # what is on trust may be anything
        certificate, how = json.loads(text), "another version"
        certificate["qmlir"] = f"0.{number}"
        files[NAME] = json.dumps(certificate).encode()
    elif way < 0.4:
        certificate = json.loads(text)
        how = _field(certificate, random)
        files[NAME] = json.dumps(certificate).encode()
    elif way < 0.6:
        changed, how = damaged(text, random, [text, " ".join(NUMBERS)])
        files[NAME] = changed.encode(errors="surrogatepass")
    else:
        how = _artefact(files, random)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue(), how


def check_damaged(path: Path) -> str:
    """Unpacks a folder and checks its certificate."""
    folder = path.parent
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            (folder / name).write_bytes(archive.read(name))
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/dev/zero")
    return str(check(folder / NAME).counts)
