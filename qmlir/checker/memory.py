"""What the bytes of a device's memories hold while the checker walks a program: constants, elements or floats.

A byte's code is eight times the number of its content plus its place in its element. Contents 0 to 3 are unknown bytes,
constant bytes, floats of inputs and floats of outputs; each further content is an interval with a width in bytes.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qmlir.checker.ranges import Range, join, signed
from qmlir.checker.unproven import UnprovenError

UNKNOWN, CONSTANT, ENTERING, LEAVING = range(4)


@dataclass(frozen=True)
class Area:
    """Planes · rows runs of `size` bytes in a memory, from `start` on, with the distances between rows and planes."""

    memory: int
    start: int
    size: int
    rows: int = 1
    planes: int = 1
    row: int = 0
    plane: int = 0

    def runs(self) -> Iterator[int]:
        """The address of each run."""
        for plane in range(self.planes):
            for row in range(self.rows):
                yield self.start + plane * self.plane + row * self.row

    def joined(self) -> "Area":
        """The same bytes as fewer, longer runs, where runs follow each other without a gap."""
        size, rows, row = self.size, self.rows, self.row
        if rows > 1 and row == size:
            size, rows, row = size * rows, 1, 0
        if rows == 1 and self.planes > 1 and self.plane == size:
            return Area(self.memory, self.start, size * self.planes)
        return Area(self.memory, self.start, size, rows, self.planes, row, self.plane)

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.start + (self.planes - 1) * self.plane + (self.rows - 1) * self.row + self.size


MOST_BYTES, MOST_RUNS, MOST_KNOWN = 1 << 31, 1 << 23, 1 << 20
"""The most bytes and runs of bytes that all commands of a small program touch, and the most elements remembered."""


class Memories:
    """All memories of a device, with as many bytes as are touched."""

    def __init__(self, sizes: Sequence[int], program: int):
        """Takes the bytes of each memory and of the program, with which the work grows that its commands may make."""
        self._sizes = sizes
        self._codes = [array("I") for _ in sizes]
        self._bytes = [bytearray() for _ in sizes]
        self._contents: list[tuple[int, int, int]] = [(0, 0, 0)] * (LEAVING + 1)
        self._rows: dict[tuple[bytes, bytes, int], list[Range]] = {}
        self._known, self._left = 0, [MOST_BYTES + 64 * program, MOST_RUNS + program // 4]

    def constant(self, area: Area, data: bytes) -> None:
        """Puts constant bytes into an area, run after run."""
        codes, held = self._of(area)
        same = array("I", [CONSTANT * 8]) * area.size
        for number, at in enumerate(area.runs()):
            codes[at : at + area.size] = same
            held[at : at + area.size] = data[number * area.size : (number + 1) * area.size]

    def mark(self, area: Area, content: int) -> None:
        """Makes an area unknown, or floats."""
        codes, _ = self._of(area)
        same = array("I", [content * 8]) * area.size
        for at in area.runs():
            codes[at : at + area.size] = same

    def elements(self, area: Area, ranges: Sequence[Range], width: int) -> None:
        """Writes elements whose intervals repeat along each run."""
        codes, _ = self._of(area)
        row = array("I")
        for low, high in ranges:
            row.extend(range(len(self._contents) * 8, len(self._contents) * 8 + width))
            self._contents.append((low, high, width))
        whole = row * (area.size // len(row))
        for at in area.runs():
            codes[at : at + area.size] = whole

    def copy(self, source: Area, target: Area) -> None:
        """Copies runs; if a run cuts an element, the whole target becomes unknown."""
        taken, left = self._of(source)
        runs = [(taken[at : at + source.size], left[at : at + source.size]) for at in source.runs()]
        cut = any(row[0] % 8 or row[-1] % 8 != max(self._contents[row[-1] // 8][2] - 1, 0) for row, _ in runs if row)
        codes, held = self._of(target)
        for at, (row, data) in zip(target.runs(), runs, strict=True):
            codes[at : at + target.size] = array("I", [UNKNOWN]) * len(row) if cut else row
            held[at : at + target.size] = data

    def contents(self, area: Area) -> set[int]:
        """The numbers of the contents of an area."""
        codes, _ = self._of(area)
        joined = area.joined()
        return {code // 8 for at in joined.runs() for code in set(codes[at : at + joined.size])}

    def each(self, area: Area, width: int) -> list[Range]:
        """The interval of each element along a run, over all runs."""
        codes, held = self._of(area)
        met, found = set[int](), list[Range]()
        for at in area.runs():
            row = self._row(codes[at : at + area.size], held[at : at + area.size], width)
            if id(row) not in met:
                met.add(id(row))
                found = [join(*both) for both in zip(found or row, row, strict=True)]
        return found

    def whole(self, area: Area, width: int) -> Range:
        """The interval of all elements of an area."""
        codes, held = self._of(area)
        joined, found = area.joined(), set[Range]()
        for at in joined.runs():
            row, data = codes[at : at + joined.size], held[at : at + joined.size]
            found |= {self._element(key[:width], bytes(key[width:]), width) for key in _distinct(row, data, width)}
        return join(*found)

    def constants(self, area: Area) -> bytes | None:
        """The bytes of a dense area; None if some are not constant."""
        codes, held = self._of(area)
        row = codes[area.start : area.end]
        return bytes(held[area.start : area.end]) if row.count(CONSTANT * 8) == len(row) else None

    def _of(self, area: Area) -> "tuple[array[int], bytearray]":
        """The codes and the bytes of an area's memory, which reach to its end."""
        runs = area.planes * area.rows
        self._left = [self._left[0] - runs * area.size, self._left[1] - runs]
        if min(area.planes, area.rows, area.size) < 0 or min(self._left) < 0:
            raise UnprovenError("more bytes than the checker follows", "must touch as many bytes as fit its size")
        if area.memory >= len(self._sizes) or area.start < 0 or area.end > self._sizes[area.memory]:
            got = f"bytes up to {area.end:#x} of memory {area.memory}"
            raise UnprovenError(got, "must touch bytes within a memory")
        codes, held = self._codes[area.memory], self._bytes[area.memory]
        if (more := area.end - len(held)) > 0:
            codes.frombytes(bytes(4 * more))
            held.extend(bytes(more))
        return codes, held

    def _row(self, codes: "array[int]", held: bytearray, width: int) -> list[Range]:
        """The interval of each element of a run; the same list for the same run."""
        data = bytes(held) if codes.count(CONSTANT * 8) else b""
        key = codes.tobytes(), data, width
        if key not in self._rows:
            self._known += len(codes)
            if self._known > MOST_KNOWN:
                self._rows.clear()
                self._known = len(codes)
            elements = range(0, len(codes), width)
            self._rows[key] = [
                self._element(tuple(codes[at : at + width]), bytes(held[at : at + width]), width) for at in elements
            ]
        return self._rows[key]

    def _element(self, codes: tuple[int, ...], data: bytes, width: int) -> Range:
        """The interval of an element of `width` bytes."""
        if all(code == CONSTANT * 8 for code in codes):
            value = int.from_bytes(data, "little", signed=True)
            return value, value
        low, high, known = self._contents[codes[0] // 8]
        if known == width and codes[0] % 8 == 0 and codes == tuple(range(codes[0], codes[0] + width)):
            return low, high
        return signed(8 * width)


def _distinct(codes: "array[int]", held: bytearray, width: int) -> set[tuple[int, ...]]:
    """The distinct elements of a run: their codes, and behind them their bytes if some are constant."""
    parts = [codes[place::width] for place in range(width)]
    if codes.count(CONSTANT * 8):
        return set(zip(*parts, *(held[place::width] for place in range(width)), strict=True))
    return {(*each, *(0,) * width) for each in zip(*parts, strict=True)}
