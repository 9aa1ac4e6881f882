"""Kernels that pool: they reduce each channel over windows or over whole images."""

import abc
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import Buffer, Code, element_bytes
from qmlir.codegen.kernels.packing import Window
from qmlir.codegen.leads import least_lead
from qmlir.codegen.lowering import Array, Kernel, MainLowering
from qmlir.codegen.value import Value
from qmlir.ir.stripes import Stripes

# ---------------------------------------------------------------------------------------------------------------
# Pooling kernels: each channel is reduced over windows or over whole images.
#
# for an output row, for an output, for a vector of channels
# acc = start;  for the taps inside the image: acc = combine(acc, x[tap, channels]);  y = finish(acc, taps)


class Reduction(abc.ABC):
    """How a pool reduces elements to one result; implementations are frozen dataclasses."""

    @abc.abstractmethod
    def start(self, code: Code, lanes: int | None) -> Value:
        """The initial accumulator, a scalar or a vector of `lanes`."""

    @abc.abstractmethod
    def combine(self, accumulator: Value, x: Value) -> Value:
        """Combines the accumulator with one more element."""

    @abc.abstractmethod
    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        """Computes the result from the accumulator, the number of elements inside the image (an index), parameters."""


@dataclass(frozen=True)
class Pool(Kernel):
    """y[n, oh, ow, c] = the reduction of x[n, …, c] over the window's positions (taps) inside the image.

    Buffers: x [N·H, W, C], y [N·OH, OW, C].
    """

    name: str
    window: Window
    reduction: Reduction

    @property
    def symbol(self) -> str:
        return self.name

    @property
    def items(self) -> int:
        """The number of output rows of all images, over which the parallel loop runs."""
        return self.window.batch * self.window.output[0]

    def leads(self, types: Sequence[MemRefType[Attribute]]) -> Mapping[int, int]:
        read = [self.window.first_read(line) * element_bytes(types[0]) for line in range(self.items)]
        row = self.window.output[1] * self.window.channels * element_bytes(types[-1])
        return {0: least_lead([(line + 1) * row for line in range(self.items)], read, buffered=False)}

    def stripes(self, types: Sequence[MemRefType[Attribute]]) -> Stripes | None:
        window = self.window
        row = window.output[1] * window.channels * element_bytes(types[-1])
        return None if window.batch > 1 else Stripes(1, row, {0: window.row_reads(element_bytes(types[0]))})

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        window, reduction = self.window, self.reduction
        with each_output(code, window, begin, end) as at:
            count = (at.rows[1] - at.rows[0]) * (at.columns[1] - at.columns[0])
            first = at.image + at.top

            def channels(c: Value, lanes: int | None) -> None:
                def over_rows(i: Value, sums: list[Value]) -> Sequence[Value]:
                    source = first + i * window.dilations[0]

                    def over_columns(j: Value, sums: list[Value]) -> Sequence[Value]:
                        element = x.load(source, at.left + j * window.dilations[1], c, lanes=lanes)
                        return [reduction.combine(sums[0], element)]

                    return code.fold(*at.columns, sums, over_columns, "kw")

                (total,) = code.fold(*at.rows, [reduction.start(code, lanes)], over_rows, "kh")
                y.store(reduction.finish(total, count, []), at.line, at.column, c)

            code.spans(0, window.channels, channels)


Taps: TypeAlias = tuple[Value, Value]
"""A range [first, end) of a window's taps (positions) along one axis."""


@dataclass(frozen=True)
class Output:
    """The position of one output, and of the window that it reads.

    line, column    the output's row, counted through all images, and its column
    image           the first row of the output's image, counted through all images
    top, left       row and column of the image where the window begins; may lie outside the image
    rows, columns   the taps that lie inside the image
    """

    line: Value
    column: Value
    image: Value
    top: Value
    left: Value
    rows: Taps
    columns: Taps


@contextmanager
def each_output(code: Code, window: Window, begin: Value, end: Value) -> Generator[Output]:
    """Opens loops over the outputs of the output rows [begin, end), and yields the current output."""
    with code.loop(begin, end, name="row") as line:
        top = line % window.output[0] * window.strides[0] - window.origin[0]
        rows = _inside(code, top, 0, window, window.padded_rows)
        with code.loop(0, window.output[1], name="column") as column:
            left = column * window.strides[1] - window.origin[1]
            columns = _inside(code, left, 1, window, window.padded_columns)
            yield Output(line, column, line // window.output[0] * window.height, top, left, rows, columns)


def _inside(code: Code, first: Value, axis: int, window: Window, padded: bool) -> Taps:
    """The range of taps along an axis that lie inside the image; an empty range has equal bounds."""
    extent, dilation, size = window.extent[axis], window.dilations[axis], (window.height, window.width)[axis]
    if not padded:
        return code.index(0), code.index(extent)
    begin = ((0 - first).maximum(0) + (dilation - 1)) // dilation
    end = (((size - first).maximum(0) + (dilation - 1)) // dilation).minimum(extent)
    return begin.minimum(end), end


@dataclass(frozen=True)
class GlobalPool(Kernel):
    """y[n, c] = the reduction of x[n, :, c] over all pixels.

    Buffers: x [N, pixels, C], the reduction's parameters, y [N, C]. Parameters are [C], or [1] for all channels.
    """

    name: str
    shape: tuple[int, int, int]
    reduction: Reduction

    @property
    def symbol(self) -> str:
        return self.name

    def leads(self, types: Sequence[MemRefType[Attribute]]) -> Mapping[int, int]:
        images, pixels, channels = self.shape
        read = [image * pixels * channels * element_bytes(types[0]) for image in range(images)]
        row = channels * element_bytes(types[-1])
        return {0: least_lead([(image + 1) * row for image in range(images)], read, buffered=False)}

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *parameters, y = buffers
        _, pixels, size = self.shape
        with code.loop(begin, end, name="image") as image:

            def channels(c: Value, lanes: int | None) -> None:
                def over_pixels(p: Value, sums: list[Value]) -> Sequence[Value]:
                    return [self.reduction.combine(sums[0], x.load(image, p, c, lanes=lanes))]

                (total,) = code.fold(0, pixels, [self.reduction.start(code, lanes)], over_pixels, "pixel")
                own = [p.load(c, lanes=lanes) if size == p.shape[0] else p.load(0).spread(lanes) for p in parameters]
                y.store(self.reduction.finish(total, code.index(pixels), own), image, c)

            code.spans(0, size, channels)


def lower_pool(
    state: MainLowering, name: str, window: Window, reduction: Reduction, x: SSAValue, result: SSAValue,
    kind: type[Pool] = Pool,
) -> None:  # fmt: skip
    """Calls a pooling kernel, of a class `kind`, for the tensor `result`."""
    kernel = kind(name, window, reduction)
    y = state.allocate_result(result)
    source = state.view(x, (window.batch * window.height, window.width, window.channels))
    target = state.view(y, (kernel.items, window.output[1], window.channels))
    state.call(kernel, [source, target], kernel.items)
    state.replace(result, y)


def lower_global_pool(
    state: MainLowering,
    name: str,
    shape: tuple[int, int, int],
    reduction: Reduction,
    x: SSAValue,
    result: SSAValue,
    parameters: Sequence[Array] = (),
) -> None:
    """Calls a kernel that pools x over all pixels for the tensor `result`; `shape` is x's, [N, pixels, C]."""
    images, _, channels = shape
    y = state.allocate_result(result)
    buffers = [state.constant(p) for p in parameters]
    arguments = [state.view(x, shape), *buffers, state.view(y, (images, channels))]
    state.call(GlobalPool(name, shape, reduction), arguments, images)
    state.replace(result, y)
