"""A static library with one object, in the format of System V that GNU's and LLVM's linkers read.

Behind a line of eight bytes come two members, each behind a header of 60 bytes: the symbol table, which has a count,
the place of the object for each symbol, and the names; and the object.
"""

from collections.abc import Sequence

MAGIC = b"!<arch>\n"


def archive_of(name: str, data: bytes, symbols: Sequence[str]) -> bytes:
    """Returns the library; dates and owners are 0, so that equal objects make equal libraries.

    Args:
        name: The object's file name, of at most 15 bytes; a longer name is cut.
        data: The object.
        symbols: The names that it defines for others.
    """
    names = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    size = 4 * (1 + len(symbols)) + len(names)
    place = len(MAGIC) + 60 + size + size % 2
    table = len(symbols).to_bytes(4, "big") + place.to_bytes(4, "big") * len(symbols) + names
    return MAGIC + _member("/", table) + _member(f"{name[:15]}/", data)


def _member(name: str, data: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
    return header.encode() + data + b"\n" * (len(data) % 2)
