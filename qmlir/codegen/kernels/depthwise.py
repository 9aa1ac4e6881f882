"""Depthwise convolution kernels: each output channel sums over the window positions (taps) of one input channel.

Vectors run over output channels. The kernel takes a chunk of channels at a time, so that the tile fits the stack:

    for a tile of an output row, for a chunk of channels
      for each vector of channels, for each output of the tile
        acc = start;  for kh, kw: acc = acc + tile[kh, kw, channels] · w[kh, kw, channels];  y = finish(acc)
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.codegen.code import WIDTHS, Buffer, Code
from qmlir.codegen.kernel import STACK_LIMIT, Array, Kernel, MainLowering
from qmlir.codegen.kernels.arithmetic import Epilogue
from qmlir.codegen.kernels.tile import Copy, Tile, Window, choose_tile
from qmlir.codegen.value import Value

FEW = 4
"""The least number of outputs that a tile should serve, because neighbouring windows overlap."""


class TapArithmetic(abc.ABC):
    """How a depthwise convolution multiplies and adds; implementations are frozen dataclasses.

    element   the type of a tile's elements
    """

    element: Attribute

    @abc.abstractmethod
    def prepare(self, x: Value) -> Value:
        """Converts an input element to the form that a tile holds."""

    @abc.abstractmethod
    def start(self, code: Code, bias: Buffer | None, channel: Value, lanes: int | None) -> Value:
        """The initial accumulators of the channels from `channel` on: the bias or zeros."""

    @abc.abstractmethod
    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        """Adds the products of one tap to the accumulators."""


@dataclass(frozen=True)
class Depthwise(Kernel):
    """y[n, oh, ow, o] = finish(start[o] + Σ_{kh,kw} x[…, o div m] · w[kh, kw, o]).

    Here m is the channel multiplier. Buffers: x [N·H, W, C], w [KH, KW, O], the bias [O] if `has_bias`, the epilogue's
    parameters [O] each, y [N·OH, OW, O]. The tile's channels are a chunk of the output channels.
    """

    name: str
    multiplier: int
    outputs: int
    arithmetic: TapArithmetic
    epilogue: Epilogue
    has_bias: bool
    tile: Tile

    @property
    def symbol(self) -> str:
        return self.name

    def arguments(self, count: int) -> Sequence[str]:
        names = ["x", "w", *(["bias"] if self.has_bias else [])]
        return [*names, *(f"p{i}" for i in range(self.epilogue.parameters)), "y"]

    @property
    def items(self) -> int:
        """The number of tiles, over which the parallel loop runs."""
        return self.tile.items

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, w, *rest = buffers
        bias = rest.pop(0) if self.has_bias else None
        *parameters, y = rest
        tile, rows = self.tile, self.tile.window.output[0]
        memory = tile.allocate(code)
        with code.loop(begin, end, name="tile_index") as item:
            line, part = item // tile.per_row, item % tile.per_row
            first = part * tile.outputs
            count = (tile.window.output[1] - first).minimum(tile.outputs)
            with code.loop(0, self.outputs, tile.channels, name="chunk") as chunk:
                width = (self.outputs - chunk).minimum(tile.channels)
                if self.outputs % tile.channels == 0:
                    width = code.index(tile.channels)
                copy = self._copy(code, x, memory, chunk, width)
                tile.fill(code, memory, line // rows, line % rows, first, copy)

                def vector(c: Value, lanes: int | None) -> None:
                    channel = chunk + c
                    start = self.arithmetic.start(code, bias, channel, lanes)
                    own = [p.load(channel, lanes=lanes) for p in parameters]
                    with code.loop(0, count, name="output") as output:
                        total = self._sum(code, memory, w, start, output, c, channel)
                        y.store(self.epilogue.finish(total, own), line, first + output, channel)

                code.spans(0, width, vector)

    def _copy(self, code: Code, x: Buffer, memory: Buffer, chunk: Value, width: Value) -> Copy:
        """A copy of the channels of a chunk into the tile, each input channel `multiplier` times."""
        channels = self.tile.channels

        def copy(i: Value, line: Value, left: Value, begin: Value, end: Value) -> None:
            with code.loop(begin, end, name="column") as t:

                def channel(c: Value, lanes: int | None) -> None:
                    value = x.load(line, left + t, (chunk + c) // self.multiplier, lanes=lanes)
                    memory.store(self.arithmetic.prepare(value), i, t * channels + c)

                code.spans(0, width, channel, WIDTHS if self.multiplier == 1 else ())

        return copy

    def _sum(
        self, code: Code, memory: Buffer, w: Buffer, start: Value, output: Value, c: Value, channel: Value
    ) -> Value:
        """The sum over the taps for one output; `c` is the channel in the tile, `channel` the same in the weights."""
        window, channels = self.tile.window, self.tile.channels
        left = output * (window.strides[1] * channels) + c

        def over_rows(i: Value, sums: list[Value]) -> Sequence[Value]:
            def over_taps(j: Value, sums: list[Value]) -> Sequence[Value]:
                x = memory.load(i, left + j * (window.dilations[1] * channels), lanes=start.lanes)
                return [self.arithmetic.multiply_add(sums[0], x, w.load(i, j, channel, lanes=start.lanes))]

            return code.fold(0, window.extent[1], sums, over_taps, "kw")

        return code.fold(0, window.extent[0], [start], over_rows, "kh")[0]


@dataclass(frozen=True)
class DepthwiseTask:
    """A depthwise convolution to lower: its geometry and arithmetic (see `Depthwise`), and its data.

    weights            [KH, KW, O], an array or a buffer
    bias, parameters   one entry for each output channel; the bias may be a buffer
    """

    name: str
    window: Window
    outputs: int
    arithmetic: TapArithmetic
    epilogue: Epilogue
    x: SSAValue
    weights: Array | SSAValue
    bias: Array | SSAValue | None = None
    parameters: Sequence[Array] = ()


def lower_depthwise(state: MainLowering, op: Operation, task: DepthwiseTask, result: SSAValue) -> None:
    """Calls a depthwise kernel for the tensor `result` of `op`.

    Raises:
        LoweringError: The input of one output does not fit the stack, even for the smallest chunk of channels.
    """
    window, element = task.window, task.arithmetic.element
    chunk = task.outputs
    while (tile := choose_tile(window, chunk, element, 1)) is None or tile.outputs < min(FEW, window.output[1]):
        if chunk <= WIDTHS[0]:
            break
        chunk = -(-chunk // 2 // WIDTHS[0]) * WIDTHS[0]
    if tile is None:
        size = Tile(window, 1, chunk, element).size
        state.refuse(op, f"needs the input of one output within {STACK_LIMIT} bytes", got=f"{size}")
    kernel = Depthwise(
        task.name,
        task.outputs // window.channels,
        task.outputs,
        task.arithmetic,
        task.epilogue,
        task.bias is not None,
        tile,
    )
    given = [task.weights, *([task.bias] if task.bias is not None else []), *task.parameters]
    buffers = [g if isinstance(g, SSAValue) else state.constant(g) for g in given]
    y = state.allocate_result(result)
    x = state.view(task.x, (window.batch * window.height, window.width, window.channels))
    target = state.view(y, (window.batch * window.output[0], window.output[1], task.outputs))
    state.call(kernel, [x, *buffers, target], kernel.items)
    state.replace(result, y)
