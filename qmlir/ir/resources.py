"""Reads and prints the `{-# … #-}` section of MLIR text, which holds blobs that attributes refer to by key.

    %0 = arith.constant dense_resource<conv1> : tensor<2xf32>
    {-#
      dialect_resources: {
        builtin: {
          conv1: "0x04000000" "0000803F00000040"      (one string: the alignment, 4 bytes little-endian, then the blob)
        }
      }
    #-}

The section stands behind the module, but attributes need their bytes when they are created. So `file_metadata` finds
and reads the section before the parser starts. Its long strings never pass through the lexer.

`external_resources` are dropped: they tell a tool how to run (mlir-opt's reproducers) and hold nothing of the module.
Resources of another dialect than builtin are refused, as mlir-opt refuses resources of an unknown dialect: attributes
that refer to them are opaque text here and would lose their blobs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span


@dataclass(frozen=True)
class Resource:
    """A blob to print, and its alignment in bytes when it is loaded."""

    array: "npt.NDArray[np.generic]"
    alignment: int


def resources_text(resources: Mapping[str, Resource]) -> str:
    """Returns the section with the builtin dialect's resources as mlir-opt prints it; empty without resources."""
    if not resources:
        return ""
    entries = ",\n".join(
        f'      {key}: "0x{each.alignment.to_bytes(4, "little").hex().upper()}{each.array.tobytes().hex().upper()}"'
        for key, each in resources.items()
    )
    return f"\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{entries}\n    }}\n  }}\n#-}}\n"


@dataclass(frozen=True)
class FileMetadata:
    """The contents and the places of a file's sections.

    blobs  the resources of the builtin dialect
    ends   the end of each section: position of its `{-#` → position behind its `#-}`
    """

    blobs: dict[str, memoryview] = field(default_factory=dict[str, memoryview])
    ends: dict[int, int] = field(default_factory=dict[int, int])


_START = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|//[^\n]*|(?P<start>\{-#)')
"""A string or a comment, inside which `{-#` has no meaning, or the start of a section."""

_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*)*
        (?: (?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*")
          | (?P<word>[\w$.-]+)
          | (?P<mark>\#-\}|[{}:,]|.)
          | \Z )""",
    re.VERBOSE,
)


def file_metadata(text: str, name: str) -> FileMetadata:
    """Reads the sections of a text.

    Raises:
        ParseError: A section is malformed, or holds resources that qmlir cannot keep.
    """
    found = FileMetadata()
    position = 0 if "{-#" in text else len(text)
    while (start := _START.search(text, position)) is not None:
        position = start.end()
        if start["start"] is not None:
            section = _Section(Input(text, name), position, found.blobs)
            section.read()
            found.ends[start.start()] = position = section.position
    return found


class _Section:
    """A reader of one section, from behind its `{-#` to behind its `#-}`."""

    def __init__(self, source: Input[str], position: int, blobs: dict[str, memoryview]) -> None:
        self.source = source
        self.position = position
        self.blobs = blobs
        self.token = self._next()

    def read(self) -> None:
        """Adds the section's resources to `blobs`."""
        while self._text() != "#-}":
            kind = self._word("a kind of resources")
            self._mark(":")
            if kind not in ("dialect_resources", "external_resources"):
                self._fail(f"unknown kind of resources {kind}; dialect_resources and external_resources are known")
            self._groups(keep=kind == "dialect_resources")
            self._separator("#-}")

    def _groups(self, *, keep: bool) -> None:
        """Reads `{ owner: { key: value, … }, … }`."""
        self._mark("{")
        while self._text() not in ("}", ""):
            if keep and self._text() != "builtin":
                self._fail(
                    f"the resources of dialect {self._text()} cannot be kept, only those of builtin; "
                    "print the module without what refers to them"
                )
            self._word("the name of a dialect")
            self._mark(":")
            self._mark("{")
            while self._text() not in ("}", ""):
                self._entry(keep=keep)
                self._separator("}")
            self._mark("}")
            self._separator("}")
        self._mark("}")

    def _entry(self, *, keep: bool) -> None:
        key = self._text()
        if self.token["string"] is not None:
            key = contents(key).decode(errors="replace")
            self.token = self._next()
        else:
            self._word("the key of a resource")
        self._mark(":")
        if keep:
            if self.token["string"] is None:
                self._fail(f"expected the bytes of {key} as a string")
            if key in self.blobs:
                self._fail(f"resource {key} is given twice")
            start, end = self.token.span("string")
            try:
                self.blobs[key] = memoryview(_blob(self.source.content[start + 1 : end - 1]))
            except ValueError as error:
                self._fail(f"resource {key}: {error}")
        self.token = self._next()

    # -- tokens ----------------------------------------------------------------------------------------------------

    def _next(self) -> re.Match[str]:
        token = _TOKEN.match(self.source.content, self.position)
        assert token is not None, "the pattern ends with the text"
        self.position = token.end()
        return token

    def _text(self) -> str:
        """Returns the token without preceding spaces and comments; empty at the end of the text."""
        return self.token[self.token.lastgroup] if self.token.lastgroup else ""

    def _word(self, what: str) -> str:
        if self.token["word"] is None:
            self._fail(f"expected {what}")
        word = self.token["word"]
        self.token = self._next()
        return word

    def _mark(self, mark: str) -> None:
        if self._text() != mark:
            self._fail(f"expected {mark}" + ("" if self._text() else ", got the end of the text"))
        self.token = self._next()

    def _separator(self, end: str) -> None:
        """Skips a comma, which is required unless the list or the text ends here."""
        if self._text() not in (end, ""):
            self._mark(",")

    def _fail(self, message: str) -> NoReturn:
        start, end = self.token.span(self.token.lastgroup or 0)
        raise ParseError(Span(start, min(end, start + 40), self.source), message)


def _blob(text: str) -> bytes:
    """Returns the blob behind `0x` and the alignment; raises a ValueError that says what is wrong."""
    if not text.startswith("0x"):
        raise ValueError("expected a string of hexadecimal digits that begins with 0x")
    alignment = int.from_bytes(hexadecimal_bytes(text[2:10]), "little")
    if len(text) < 10:
        raise ValueError("expected the alignment in the first 4 bytes")
    if alignment & (alignment - 1):
        raise ValueError(f"the alignment in the first 4 bytes must be a power of two, got {alignment}")
    return hexadecimal_bytes(text[10:])


def hexadecimal_bytes(digits: str) -> bytes:
    """Returns the bytes that hexadecimal digits spell.

    Raises:
        ValueError: The number of digits is odd, or a character is not a digit.
    """
    try:
        data = bytes.fromhex(digits if len(digits) % 2 == 0 else digits[:-1])
    except ValueError:
        data = b""
    if len(data) != len(digits) // 2:  # fromhex accepts spaces
        raise ValueError("expected hexadecimal digits only")
    if len(digits) % 2:
        raise ValueError(f"hexadecimal digits come in pairs, got {len(digits)} of them")
    return data


_ESCAPE = re.compile(rb'\\(n|t|"|\\|[0-9A-Fa-f]{2})')
_SHORT = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


def contents(literal: str) -> bytes:
    """Returns the bytes of a string literal; xDSL takes seconds for a million escapes, several times per literal."""
    raw = literal[1:-1].encode()
    return _ESCAPE.sub(lambda m: _SHORT.get(m[1]) or bytes.fromhex(m[1].decode()), raw) if b"\\" in raw else raw
