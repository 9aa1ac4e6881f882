"""Row groups of a depthwise convolution: `group` rows that a window reads, prepared for the arithmetic.

A group of one: output row r reads the rows r·stride, r·stride + 1, …, counted from the first row of padding, and row
group b is row b. A group of two: row group b has the rows 2b and 2b + 1. If r·stride is odd, the window begins at the
second row of a group, and the first row of that group gets the weight zero. So the weights exist in two phases:

    r·stride even:  (w0, w1) (w2, 0)        odd:  (0, w0) (w1, w2)

Rows that are `dilation` apart are never neighbours. If the dilation is not 1, an output row has row groups of its own,
which start at its first tap, and which no other output row reads.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i16, i32

from qmlir.codegen.code import Buffer, Code, Microkernel
from qmlir.codegen.kernels.interfaces import TapArithmetic
from qmlir.codegen.kernels.packing import Window
from qmlir.codegen.lowering import Array
from qmlir.codegen.value import Value


@dataclass(frozen=True)
class RowGroups:
    """How the rows of a window's input are grouped. RowGroups are numbered down an image, from its top padding on.

    extent, stride, dilation, origin   those of the window's rows (see `Window`)
    """

    extent: int
    stride: int
    dilation: int
    origin: int
    group: int

    @staticmethod
    def of(window: Window, group: int) -> "RowGroups":
        """The row groups of a window's rows."""
        return RowGroups(window.extent[0], window.strides[0], window.dilations[0], window.origin[0], group)

    @property
    def shared(self) -> bool:
        """Whether output rows share row groups."""
        return self.dilation == 1

    @property
    def phases(self) -> int:
        """The number of places in a row group at which a window may begin."""
        return self.group if self.shared and self.stride % self.group else 1

    @property
    def count(self) -> int:
        """The number of row groups that an output row reads."""
        return -(-(self.phases - 1 + self.extent) // self.group)

    def per_image(self, rows: int) -> int:
        """The number of row groups of an image with so many output rows."""
        last = rows - 1
        return (last * self.stride // self.group if self.shared else last * self.count) + self.count

    def leave(self, rows: int, height: int) -> bool:
        """Whether some row group has a row outside the image, which has `height` rows and so many output rows."""
        if self.shared:
            bottom = self.per_image(rows) * self.group - 1
        else:
            steps = self.count * self.group - 1
            bottom = (rows - 1) * self.stride + steps * self.dilation
        return self.origin > 0 or bottom - self.origin >= height

    def first(self, row: Value) -> Value:
        """The first of the row groups that an output row reads."""
        return row * self.stride // self.group if self.shared else row * self.count

    def end(self, row: int) -> int:
        """The row group behind those that an output row reads."""
        return (row * self.stride // self.group if self.shared else row * self.count) + self.count

    def top(self, row: int, prepared: int = 0) -> int:
        """The first row of the image that an output row reads, if the row groups before `prepared` need not be read."""
        if not self.shared:
            return row * self.stride - self.origin
        return max(row * self.stride // self.group, prepared) * self.group - self.origin

    def reach(self) -> tuple[int, int]:
        """How far above row · stride the groups of an output row begin at most, and the rows to their end."""
        if not self.shared:
            return self.origin, (self.count * self.group - 1) * self.dilation + 1
        above = self.phases - 1
        return self.origin + above, self.count * self.group + above

    def phase(self, row: Value) -> Value:
        """The place in its first row group at which the window of an output row begins."""
        return row * self.stride % self.phases

    def rows(self, row_group: Value) -> list[Value]:
        """The rows of a row group, counted in the image; some may lie outside."""
        if self.shared:
            rows = [row_group * self.group + i for i in range(self.group)]
        else:
            top, step = row_group // self.count * self.stride, row_group % self.count * self.group
            rows = [top + (step + i) * self.dilation for i in range(self.group)]
        return [row - self.origin for row in rows]

    def pack(self, weights: Array) -> Array:
        """Packs weights [KH, KW, O] to [phases · count, KW, O · group]."""
        rows, columns, outputs = weights.shape
        packed = np.zeros((self.phases, self.count * self.group, columns, outputs), weights.dtype)
        for phase in range(self.phases):
            packed[phase, phase : phase + rows] = weights
        grouped = packed.reshape(-1, self.group, columns, outputs).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(grouped).reshape(-1, columns, outputs * self.group)


@contextmanager
def covering(code: Code, size: Value, step: int, name: str) -> Generator[Value]:
    """Opens a loop over ranges of `step` that cover [0, size); the last range may overlap the range before."""
    with code.loop(0, size, step, name) as i:
        yield i if size.known is not None and size.known % step == 0 else i.minimum(size - step)


@dataclass(frozen=True)
class PreparedRows(Microkernel):
    """ring[to + t, c, i] = prepare(x[lines[i] + t, c]) for columns t of a row group, channels c, and its rows i.

    dense    whether each input channel has one output channel; otherwise `multiplier` have the same input channel, and
             `lines` are the places of the input's channel 0, of which `first` is the first output channel
    leaves   whether a row may lie outside the image: it is replaced by the number `outside` unless `inside` is 1
    """

    arithmetic: TapArithmetic
    lanes: int | None
    dense: bool
    leaves: bool

    @property
    def symbol(self) -> str:
        return "prepared_band"

    @property
    def arguments(self) -> Sequence[str]:
        group = range(self.arithmetic.group)
        multiple = [] if self.dense else ["first", "multiplier"]
        leaving = ["outside", *(f"inside{i}" for i in group)] if self.leaves else []
        return ["x", "ring", "to", "columns", "channels", "size", *multiple, *(f"line{i}" for i in group), *leaving]

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        x, ring = buffers
        to, columns, channels, size, *rest = numbers
        group = self.arithmetic.group
        first, multiplier = (rest.pop(0), rest.pop(0)) if not self.dense else (code.index(0), code.index(1))
        lines, leaving = rest[:group], rest[group:]

        def copy(outside: Value | None, inside: Sequence[Value]) -> None:
            replace = None if outside is None or self.lanes is None else _replacement(code, outside, inside)
            with code.loop(0, columns, name="column") as t:
                if self.lanes is not None and self.dense:
                    with covering(code, size, self.lanes, "channel") as c:
                        data = [x.load(line + t * channels + c, lanes=self.lanes) for line in lines]
                        self._store(ring, to + (t * size + c) * group, data, replace)
                else:
                    with code.loop(0, size, name="channel") as c:
                        source = t * channels + (first + c) // multiplier
                        for i, line in enumerate(lines):
                            value = self.arithmetic.prepare(x.load(line + source))
                            if outside is not None:
                                value = inside[i].choose(value, outside.to(self.arithmetic.element))
                            ring.store(value, to + (t * size + c) * group + i)

        if leaving:
            outside, *ones = leaving
            inside = [one.equals(1) for one in ones]
            code.branch(inside[0] & inside[1], lambda: copy(None, ()), lambda: copy(outside, inside))
        else:
            copy(None, ())

    def _store(self, ring: Buffer, place: Value, data: list[Value], replace: "_Replace | None") -> None:
        """Stores a vector of channels of the rows of a row group."""
        if len(data) == 1:
            ring.store(self.arithmetic.prepare(data[0]), place)
            return
        assert self.lanes is not None
        part = min(8, self.lanes)  # a register of AVX2 holds 8 pairs
        for first in range(0, self.lanes, part):
            pairs = self.arithmetic.prepare(data[0].interleave(data[1], first, part))
            ring.store(pairs if replace is None else replace(pairs), place + 2 * first)


_Replace = Callable[[Value], Value]


def _replacement(code: Code, number: Value, inside: Sequence[Value]) -> _Replace:
    """What replaces the rows of a row group outside the image by a number, in a vector of pairs of i16."""
    outside, none = number.to(i32), code.constant(0, i32)
    kept, both = none, (outside << 16) | (outside & 0xFFFF)
    for within, half in zip(inside, (0xFFFF, -0x10000), strict=True):  # the bits of a pair's elements, as i32
        kept = kept | within.choose(half, none)
    given = (kept ^ -1) & both

    def replace(pairs: Value) -> Value:
        assert pairs.lanes is not None
        lanes = pairs.lanes // 2
        return (pairs & kept.spread(lanes).bits(i16)) | given.spread(lanes).bits(i16)

    return replace
