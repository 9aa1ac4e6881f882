"""Reads the options of a custom operator: a flexbuffer that maps names to numbers.

    buffer = … values … root, packed type of the root, bytes of the root

A value is an offset back from its own place, or a number in its place. A map is a vector of values, behind which stands
the packed type of each; three numbers before it say where its keys are and how many there are. All places are checked
before they are read; only what maps names to numbers is read.
"""

import struct

_INT, _UINT, _FLOAT, _MAP, _BOOL = 1, 2, 3, 9, 26
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
"""Types of numbers that lie elsewhere → the type of the number there."""

_FORMATS = {
    (_INT, 1): "<b", (_INT, 2): "<h", (_INT, 4): "<i", (_INT, 8): "<q",
    (_UINT, 1): "<B", (_UINT, 2): "<H", (_UINT, 4): "<I", (_UINT, 8): "<Q",
    (_FLOAT, 2): "<e", (_FLOAT, 4): "<f", (_FLOAT, 8): "<d",
}  # fmt: skip
"""Type of a number and its bytes → its format in `struct`."""

MOST_ENTRIES = 1000
"""The most entries of a map."""


def read_map(data: bytes) -> dict[str, float]:
    """Returns the entries of a map that are numbers or truth values, by name; others are left out.

    Raises:
        ValueError: The data are no flexbuffer of a map, or a place lies outside of them.
    """
    return _Reader(data).map()


class _Reader:
    def __init__(self, data: bytes):
        self.data = data

    def map(self) -> dict[str, float]:
        """Returns the entries of the root, which must be a map."""
        if len(self.data) < 3:
            raise ValueError(f"options of {len(self.data)} bytes")
        size, packed = self.data[-1], self.data[-2]
        if packed >> 2 != _MAP or size not in (1, 2, 4, 8):
            raise ValueError("options that are no map")
        at, width = self.target(len(self.data) - 2 - size, size), 1 << (packed & 3)
        count = self.uint(at - width, width)
        if count > MOST_ENTRIES:
            raise ValueError(f"options with {count} entries")
        keys, key_width = self.target(at - 3 * width, width), self.uint(at - 2 * width, width)
        if key_width not in (1, 2, 4, 8):
            raise ValueError(f"options with names in {key_width} bytes")
        found: dict[str, float] = {}
        for i in range(count):
            name = self.text(self.target(keys + i * key_width, key_width))
            kind = self.uint(at + count * width + i, 1)
            number = self.value(at + i * width, width, kind)
            if number is not None:
                found[name] = number
        return found

    def value(self, at: int, width: int, packed: int) -> float | None:
        """Returns the number at a place of a vector; None for what is no number."""
        kind = packed >> 2
        if kind in _INDIRECT:
            kind, at, width = _INDIRECT[kind], self.target(at, width), 1 << (packed & 3)
        if kind == _BOOL:
            return self.uint(at, width)
        if (format := _FORMATS.get((kind, width))) is None:
            return None
        return self.number(at, format)

    def number(self, at: int, format: str) -> float:
        if at < 0 or at + struct.calcsize(format) > len(self.data):
            raise ValueError(f"options that point to {at} of {len(self.data)} bytes")
        return struct.unpack_from(format, self.data, at)[0]

    def uint(self, at: int, width: int) -> int:
        return int(self.number(at, _FORMATS[_UINT, width]))

    def target(self, at: int, width: int) -> int:
        """Returns the place to which the offset at a place points."""
        return at - self.uint(at, width)

    def text(self, at: int) -> str:
        end = self.data.find(b"\0", at) if 0 <= at < len(self.data) else -1
        if end < 0:
            raise ValueError(f"options with a name at {at} of {len(self.data)} bytes")
        return self.data[at:end].decode(errors="replace")
