"""Gemmini's loops: whole products of matrices and convolutions, in one half of its local memories.

A loop does what commands of one matrix could do, at places of its own: the first operand from the first row of the half
on, the weights up to its last row, sums in the accumulator. A convolution alternates between the halves of the
accumulator. Here, what uses the same weights is computed at once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from qmlir.backends.hardware.gemmini.array import Array, Outward, inside
from qmlir.backends.hardware.gemmini.words import (
    ACCUMULATOR,
    ACCUMULATOR_ROWS,
    ADD,
    BLOCKS_IN,
    DIM,
    FIELDS,
    FULL,
    NOTHING,
    SCRATCHPAD_ROWS,
    SUM_BLOCKS_IN,
    Function,
    InstructionError,
)

HALF = SCRATCHPAD_ROWS // 2


def blocks(size: int) -> int:
    """How many blocks of 16 hold so many elements."""
    return -(-size // DIM)


def multiply(machine: Array, v: dict[str, int]) -> None:
    """C = A · B + D, in blocks of 16x16: `i` · `j` blocks of sums, each of `k` products; or A + B, an addition.

    Args:
        machine: Its memories, moves and array do the work.
        v: The fields of the commands of a loop; strides are in elements.
    """
    _complete(v, Function.LOOP_SIZES, Function.LOOP_DC_STRIDES)
    rows, columns, depth = v["i"], v["j"], v["k"]
    if (rows + columns) * depth * DIM > HALF or rows * columns * DIM > ACCUMULATOR_ROWS // 2:
        got = f"{rows}x{columns}x{depth} blocks"
        raise InstructionError("a loop must fit one half of the scratchpad and of the accumulator", got=got)
    loop = _Product(machine, v)
    if v["addition"]:
        loop.add()
        return
    _weights_stay(machine)
    if v["d"]:
        loop.begin()
    for k, j, i in ((k, j, i) for k in range(depth) for j in range(columns) for i in range(rows)):
        loop.compute(i, j, k)


@dataclass(eq=False)
class _Product:
    """One product of matrices: the fields of its commands, and where its data lie."""

    machine: Array
    v: dict[str, int]

    def __post_init__(self) -> None:
        v = self.v
        self.first_a = HALF if v["a_half"] == 2 else 0
        self.first_b = (SCRATCHPAD_ROWS if v["b_half"] == 2 else HALF) - v["k"] * v["j"] * DIM

    def _size(self, **block: int) -> tuple[int, ...]:
        """How many rows or columns a block has of each of the axes `i`, `j`, `k`."""
        return tuple(DIM - (self.v[f"pad_{axis}"] if n == self.v[axis] - 1 else 0) for axis, n in block.items())

    def _place(self, name: str, down: int, right: int, width: int = 1) -> int:
        """The address of a block, whose elements have so many bytes."""
        return self.v[name] + (down * self.v[f"{name}_stride"] + right) * DIM * width

    def _sums(self, i: int, j: int) -> int:
        return ACCUMULATOR + (i * self.v["j"] + j) * DIM

    def begin(self) -> None:
        """The sums begin with D."""
        for i, j in np.ndindex(self.v["i"], self.v["j"]):
            address = self._place("d", i, j, 1 if self.v["small_d"] else 4)
            self.machine.move_in(2, address, self._sums(i, j), *self._size(i=i, j=j))

    def add(self) -> None:
        """A + B, each rescaled to int8 on the way in."""
        for i, j in np.ndindex(self.v["i"], self.v["j"]):
            self.machine.move_in(0, self._place("a", i, j), self._sums(i, j), *self._size(i=i, j=j))
            self.machine.move_in(1, self._place("b", i, j), self._sums(i, j) | ADD, *self._size(i=i, j=j))
            self._finish(i, j)

    def compute(self, i: int, j: int, k: int) -> None:
        """Adds the product of two blocks; each block of A and B comes in when it is first used."""
        v, machine = self.v, self.machine
        at_a = self.first_a + (k * v["i"] + i if v["transpose_a"] else i * v["k"] + k) * DIM
        at_b = self.first_b + (j * v["k"] + k if v["transpose_b"] else k * v["j"] + j) * DIM
        if j == 0 and v["a"]:
            if v["transpose_a"]:
                machine.move_in(0, self._place("a", k, i), at_a, *self._size(k=k, i=i))
            else:
                machine.move_in(0, self._place("a", i, k), at_a, *self._size(i=i, k=k))
        if i == 0 and v["b"]:
            if v["transpose_b"]:
                machine.move_in(1, self._place("b", j, k), at_b, *self._size(j=j, k=k))
            else:
                machine.move_in(1, self._place("b", k, j), at_b, *self._size(k=k, j=j))
        rows, columns, depth = self._size(i=i, j=j, k=k)
        machine.preloaded = {
            "held": at_b if i == 0 else NOTHING, "held_rows": depth, "held_columns": columns,
            "result": self._sums(i, j) | (ADD if k or v["adds"] else 0), "result_rows": rows, "result_columns": columns,
        }  # fmt: skip
        given = {"a": at_a, "a_rows": rows, "a_columns": depth}
        machine.compute(given | {"other": NOTHING, "other_rows": DIM, "other_columns": DIM}, i == 0)
        if k == v["k"] - 1:
            self._finish(i, j)

    def _finish(self, i: int, j: int) -> None:
        """Moves a block of the result out, unless there is no place for it."""
        v = self.v
        if v["c"]:
            address = self._place("c", i, j, 4 if v["full_c"] else 1)
            self.machine.move_out(address, self._sums(i, j) | (FULL if v["full_c"] else 0), *self._size(i=i, j=j))


def convolve(machine: Array, v: dict[str, int]) -> None:
    """A convolution of a part of images, with a bias and a maximum pool, or what of it the commands leave.

    Args:
        machine: Its memories, moves and array do the work.
        v: The fields of the commands of a convolution; a bias, input, weights or output at address 0 are left out.
    """
    _complete(v, Function.CONV_1, Function.CONV_6)
    _weights_stay(machine)
    if v["spread"] and v["stride"] != 1:
        raise InstructionError("spread images must have the stride 1", got=str(v["stride"]))
    loop = _Convolution(machine, v, max(v["pixels"], 1))
    if v["bias"]:
        loop.begin()
    if v["input"]:
        loop.read_images()
    if v["weights"]:
        loop.read_weights()
    loop.compute()
    if v["output"]:
        loop.write()


@dataclass(eq=False)
class _Convolution:
    """One convolution: the fields of its commands, and where its data lie.

    pixels  neighbours of a row that are multiplied at once
    """

    machine: Array
    v: dict[str, int]
    pixels: int

    def __post_init__(self) -> None:
        v, halves = self.v, self.machine.halves
        self.images, self.height, self.width = v["own_images"], v["own_rows"], v["own_columns"]
        self.inputs, self.outputs = v["own_inputs"], v["own_outputs"]
        self.spread, self.sparse = v["spread"], v["downsample"]
        self.tall, self.rows_in = self._extent(self.height, v["kernel_rows"], v["above"], v["below"])
        self.wide, self.columns_in = self._extent(self.width, v["kernel_columns"], v["left"], v["right"])
        self.area = (self.rows_in >> self.sparse) * (self.columns_in >> self.sparse)
        taps = v["kernel_rows"] * v["kernel_columns"]
        own, other = (self.inputs, self.outputs) if v["weights_0132"] else (self.outputs, self.inputs)
        self.weight_rows = taps * other
        self.first_a = HALF if v["a_half"] == 2 else 0
        self.first_b = (SCRATCHPAD_ROWS if v["b_half"] == 2 else HALF) - blocks(own) * self.weight_rows
        self.first_d, self.first_c = halves
        halves[0] = halves[0] ^ ACCUMULATOR_ROWS // 2 if v["bias"] else halves[0]
        halves[1] = halves[1] ^ ACCUMULATOR_ROWS // 2 if v["output"] else halves[1]

    def _halved(self, n: int) -> int:
        """How many elements of an image there are in `n` of one that is spread by zeros between its elements."""
        return n + self.spread >> self.spread

    def _extent(self, results: int, kernel: int, before: int, after: int) -> tuple[int, int]:
        """Rows (columns) of the images that are read for so many results, and those with padding."""
        reach = kernel + (self.v["dilation"] - 1) * (kernel - 1)
        whole = results * self.v["stride"] + reach - 1
        read = self._halved(whole - before - after)
        return read, read + self._halved(before) + self._halved(after) if self.spread else whole

    def _sums(self, first: int, channel: int, image: Any, row: Any, column: Any) -> Any:
        """The row of the accumulator of a result."""
        return first + ((channel // DIM * self.images + image) * self.height + row) * self.width + column

    def begin(self) -> None:
        """The bias, or zeros, for each result."""
        v, machine = self.v, self.machine
        way = machine.ways[2]
        way.stride, way.block_stride, way.scale, way.small, way.pixels = 0, self._sums(0, DIM, 0, 0, 0), 1.0, False, 1
        most = SUM_BLOCKS_IN * DIM
        for b, y in np.ndindex(self.images, self.height):
            for x in range(0, self.width, DIM):
                for c in range(0, self.outputs, most):
                    at = ACCUMULATOR + self._sums(self.first_d, c, b, y, x)
                    address = 0 if v["no_bias"] else v["bias"] + 4 * c
                    machine.move_in(2, address, at, min(DIM, self.width - x), min(most, self.outputs - c))

    def read_images(self) -> None:
        """The images with their padding: a row of the scratchpad for each pixel and 16 channels."""
        v, way, turned = self.v, self.machine.ways[0], self.v["inputs_3120"]
        way.stride = (v["images"] if turned else v["in_stride"]) << self.sparse
        way.block_stride = (self.inputs if turned else self.images) * self.area
        way.scale, way.small, way.pixels = 1.0, False, self.pixels
        across, along = (self.images, self.inputs) if turned else (self.inputs, self.images)
        for b in range(along):
            for y in range(-self._halved(v["above"]), self.tall + self._halved(v["below"]), 1 << self.sparse):
                x, end = -self._halved(v["left"]), self.wide + self._halved(v["right"])
                while x < end:
                    if x < 0:
                        n = min(DIM, -x)
                    else:
                        n = min(DIM << self.sparse, self.wide - x) if x < self.wide else min(DIM, end - x)
                    for c in range(0, across, BLOCKS_IN * DIM):
                        self._pixels(b, y, x, c, n, min(BLOCKS_IN * DIM, across - c))
                    x += n

    def _pixels(self, b: int, y: int, x: int, c: int, n: int, channels: int) -> None:
        """Moves `n` neighbours in, each with some channels; images are in their place if they are turned."""
        v, turned = self.v, self.v["inputs_3120"]
        down, right = y + self._halved(v["above"]) >> self.sparse, x + self._halved(v["left"]) >> self.sparse
        at = self.first_a + c // DIM * self.machine.ways[0].block_stride + b * self.area
        at += down * (self.columns_in >> self.sparse) + right
        inner = v["images"] if turned else v["in_stride"]
        pixel = (b * v["in_rows"] + y) * v["in_columns"] + x
        inside = 0 <= y < self.tall and 0 <= x < self.wide
        address = v["input"] + pixel * inner + c if inside else 0
        self.machine.move_in(0, address, at, n >> self.sparse, channels)

    def read_weights(self) -> None:
        """The weights: a row of the scratchpad for each tap, input and 16 outputs."""
        v, way, taps = self.v, self.machine.ways[1], self.v["kernel"] * self.v["kernel"]
        turned = v["weights_0132"]
        if v["depthwise"]:
            way.stride = 1
        elif v["weights_1203"]:
            way.stride = taps * v["out_channels"]
        else:
            way.stride = v["in_channels"] if turned else v["weight_stride"]
        way.block_stride, way.scale, way.small, way.pixels = self.weight_rows, 1.0, False, 1
        across, along = (self.inputs, self.outputs) if turned else (self.outputs, self.inputs)
        most = BLOCKS_IN * DIM
        for first in range(0, across, most):
            for y, x in np.ndindex(v["kernel_rows"], v["kernel_columns"]):
                for second in range(0, along, DIM):
                    tap = y * v["kernel"] + x
                    if v["depthwise"]:
                        offset = tap
                    elif v["weights_1203"]:
                        offset = (second * taps + tap) * v["out_channels"] + first
                    elif turned:
                        offset = (tap * v["out_channels"] + second) * v["in_channels"] + first
                    else:
                        offset = (tap * v["in_channels"] + second) * v["weight_stride"] + first
                    at = self.first_b + (first // DIM * v["kernel_rows"] + y) * v["kernel_columns"] * along
                    size = min(DIM, along - second), min(most, across - first)
                    self.machine.move_in(1, v["weights"] + offset, at + x * along + second, *size)

    def compute(self) -> None:
        """Adds all products to the sums."""
        v, machine = self.v, self.machine
        if v["inputs_3120"]:
            own = machine.execution
            own.a_stride, own.c_stride = self.rows_in * self.columns_in, self.height * self.width
        for y in range(v["kernel_rows"]):
            for x in range(0, v["kernel_columns"], self.pixels):
                starts, sums, sizes = self._positions(y, x)
                if not len(starts):
                    continue
                pixels = min(self.pixels, v["kernel_columns"] - x)
                down = v["kernel_rows"] - y - 1 if v["rotated"] else y
                right = v["kernel_columns"] - x - 1 if v["rotated"] else x
                for c in range(0, self.inputs, DIM):
                    depth = pixels * min(DIM, self.inputs - c)
                    if depth > DIM:
                        raise InstructionError(f"products must be of at most {DIM} terms", got=str(depth))
                    at = c * self.area if v["inputs_3120"] else c // DIM * self.images * self.area
                    a = self._operands(self.first_a + at + starts, sizes, depth)
                    for k in range(0, self.outputs, DIM):
                        tap = down * v["kernel_columns"] + right
                        if v["weights_0132"]:
                            at_b = self.first_b + c // DIM * self.weight_rows + tap * self.outputs + k
                        else:
                            at_b = self.first_b + k // DIM * self.weight_rows + tap * self.inputs + c
                        width = min(DIM, self.outputs - k)
                        machine.hold(at_b, depth, width)
                        products = (a @ machine.held[:depth, :width].astype(np.float32)).astype(np.int32)
                        self._add(self.first_c + self._sums(0, k, 0, 0, 0) + sums, products)

    def _positions(self, y: int, x: int) -> tuple[Any, Any, Any]:
        """Where the rows of A of a tap begin, their sums [rows], and how many rows there are from each beginning."""
        v, own = self.v, self.machine.execution
        turned, step = v["inputs_3120"], 1 if v["inputs_3120"] else DIM << self.spread
        columns, c = list[int](), 0
        while c < self.width:
            if self.spread and (x * v["dilation"] + c - v["left"]) % 2:
                c += 1
            else:
                columns.append(c)
                c += step
        lines = [r for r in range(self.height) if not (self.spread and (y * v["dilation"] + r - v["above"]) % 2)]
        found = np.array([
            (b, r, c) for b in range(0, self.images, DIM if turned else 1) for r in lines for c in columns
        ], np.int64).reshape(-1, 3)  # fmt: skip
        b, r, c = found.T
        down = (r * v["stride"] + y * v["dilation"] + self.spread >> self.spread) >> self.sparse
        right = (c * v["stride"] + x * v["dilation"] + self.spread >> self.spread) >> self.sparse
        starts = (b // DIM * self.inputs if turned else b) * self.area + down * (self.columns_in >> self.sparse) + right
        if turned:
            sizes = np.minimum(self.images - b, DIM)
        else:
            sizes = np.minimum(self.width - c, DIM << self.spread) + self.spread >> self.spread
        sums = self._sums(0, 0, b, r, c)[:, None] + own.c_stride * np.arange(DIM)
        return starts, sums[np.arange(DIM) < sizes[:, None]], sizes

    def _operands(self, starts: Any, sizes: Any, depth: int) -> Any:
        """The rows of A [rows, depth] in float32, in which their products are exact."""
        own, memory = self.machine.execution, self.machine.scratchpad
        used = np.arange(DIM) < sizes[:, None]
        if own.transpose_a:
            rows = starts[:, None] + own.a_stride * np.arange(depth)
            self._within(memory, rows)
            return memory[rows].transpose(0, 2, 1)[used].astype(np.float32)
        rows = (starts[:, None] + own.a_stride * np.arange(DIM))[used]
        self._within(memory, rows)
        return memory[rows, :depth].astype(np.float32)

    def _add(self, rows: Any, products: Any) -> None:
        memory = self.machine.accumulator
        self._within(memory, rows)
        if np.bincount(rows).max() == 1:
            memory[rows, : products.shape[1]] += products
        else:
            np.add.at(memory[:, : products.shape[1]], rows, products)

    def _within(self, memory: Any, rows: Any) -> None:
        inside(memory, int(rows.min()), int(rows.max()))

    def write(self) -> None:
        """The results, or the maxima of their windows."""
        v, machine = self.v, self.machine
        if not v["no_pool"]:
            self._write_maxima()
            return
        for b, y in np.ndindex(self.images, self.height):
            for x in range(0, self.width, DIM):
                for c in range(0, self.outputs, DIM):
                    at = (ACCUMULATOR | ADD) + self._sums(self.first_c, c, b, y, x)
                    offset = ((b * v["out_rows"] + y) * v["out_columns"] + x) * v["out_stride"] + c
                    if v["outputs_1203"]:
                        offset = ((y * v["out_columns"] + x) * v["images"] + b) * v["out_channels"] + c
                    size = min(DIM, self.width - x), min(DIM, self.outputs - c)
                    machine.move_out(v["output"] + offset, at, *size)

    def _write_maxima(self) -> None:
        v, machine = self.v, self.machine
        pool = {
            "pool_stride": v["pool_stride"] & 3, "pool_size": v["pool_size"] & 3, "pool_above": v["pool_above"] & 3,
            "pool_left": v["pool_left"] & 3, "result_columns": v["pooled_columns"] & 255,
            "pool_rows": v["own_pooled_rows"] & 255, "pool_columns": v["own_pooled_columns"] & 255,
            "rows": self.height & 255, "columns": self.width & 255,
        }  # fmt: skip
        for name, given in (("stride", "pool_stride"), ("window", "pool_size")):
            if not 0 < v[given] < 4:
                raise InstructionError(f"the {name} of a pool must be 1 to 3", got=str(v[given]))
        scale, acts = machine.outward.scale, bool(v["activation"])
        machine.outward = Outward(v["out_stride"], scale, acts, pool)
        for b in range(self.images):
            for c in range(0, self.outputs, DIM):
                at = (ACCUMULATOR | ADD) + self._sums(self.first_c, c, b, 0, 0)
                offset = b * v["pooled_rows"] * v["pooled_columns"] * v["out_stride"] + c
                machine.move_out(v["output"] + offset, at, 0, min(DIM, self.outputs - c))
        machine.outward = Outward(v["out_stride"], scale, acts)


def _weights_stay(machine: Array) -> None:
    if not machine.execution.weights_stay:
        raise InstructionError("weights must stay for a loop", got="outputs that stay")


def _complete(v: dict[str, int], first: Function, last: Function) -> None:
    """Raises an `InstructionError` where the commands before a loop were not all given."""
    for function in range(first, last + 1):
        if not FIELDS[Function(function)].keys() <= v.keys():
            raise InstructionError("a loop must have all its commands before it", got=f"none of function {function}")
