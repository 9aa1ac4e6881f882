"""The outputs of a tile for one block of output channels: the function that contraction kernels share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32, i64

from qmlir.codegen.code import Buffer, Code, Microkernel, Numbers, store_valid
from qmlir.codegen.kernels.interfaces import Arithmetic, ArithmeticOfParts, Epilogue, Finished
from qmlir.codegen.kernels.packed_weights import Packing
from qmlir.codegen.value import Value

PARTS = 2
"""The parts of weights whose products are summed by themselves."""


@dataclass(frozen=True)
class Scaling:
    """How weights that are integers become floats: (weight − point) · scale.

    block    the steps whose weights of an output have one scale; 0 if all have
    points   whether there are zero points
    """

    block: int
    points: bool

    @property
    def names(self) -> Sequence[str]:
        """The names of the buffers."""
        return ["scales", "points"] if self.points else ["scales"]


def with_multipliers(
    names: Sequence[str], *, scaled: bool, offset: bool = False, reals: Scaling | None = None
) -> Sequence[str]:
    """Names of a kernel's buffers; the multipliers follow the weights if the kernel is `scaled`.

    Behind them are the offsets and the sums of data that these multiply, if the kernel has an `offset`. Where weights
    become floats, the scales and zero points follow them.
    """
    own = ["m", *(("k", "s") if offset else ())] if scaled else []
    return [*names[:2], *own, *(reals.names if reals else ()), *names[2:]]


def real(weights: Value, numbers: Sequence[Value]) -> Value:
    """The floats that weights stand for: less their zero points, times their scales, if these `numbers` are given."""
    if not numbers:
        return weights
    scale, *points = numbers
    return (weights - points[0] if points else weights) * scale


@dataclass(frozen=True)
class Job(Numbers):
    """What one call of `TileTimesBlock` computes; places and distances are numbers of elements.

    x_at              the first element that output 0 reads
    rows, row         rows of the window, and their distance
    runs, run         runs of consecutive elements in a row of the window, and the distance of their beginnings
    steps             steps that a run takes
    w_at              steps whose weights lie before those of the block
    block             the block of output channels, for bias and parameters
    y_at, apart       the first element of output 0, and the distance between outputs
    outputs           the number of outputs
    valid             lanes of the block that are output channels; the others are not stored
    ahead, pace       where the weights begin that the first step asks for ahead, and how far each step goes on
    strides           1, 3, 5, … times the distance between the windows of outputs, up to the number of outputs that are
                      computed together: an address adds one of these to a place, as it is or doubled a few times
    sums_at           sums of data that lie before those of output 0; None for kernels without offsets
    """

    x_at: Value
    rows: Value
    row: Value
    runs: Value
    run: Value
    steps: Value
    w_at: Value
    block: Value
    y_at: Value
    apart: Value
    outputs: Value
    valid: Value
    ahead: Value
    pace: Value
    strides: Sequence[Value]
    sums_at: Value | None = None

    @classmethod
    def names(cls) -> list[str]:
        """The names of the single numbers that each call has."""
        return super().names()[:-2]

    @staticmethod
    def of(numbers: Sequence[Value], *, offset: bool = False) -> "Job":
        """Makes a job from the numbers of a call: the single fields, then the strides, then `sums_at` if it has one."""
        single = len(Job.names())
        last = len(numbers) - offset
        return Job(*numbers[:single], strides=numbers[single:last], sums_at=numbers[last] if offset else None)

    @property
    def numbers(self) -> Sequence[Value]:
        return [*super().numbers, *self.strides, *(() if self.sums_at is None else (self.sums_at,))]

    def window(self, output: int) -> Value | int:
        """The distance of an output's window from the window of the first output that is computed with it."""
        if output == 0:
            return 0
        power = output & -output
        return self.strides[output // power // 2] * power


@dataclass(frozen=True)
class TileTimesBlock(Finished, Microkernel):
    """The outputs of a tile for one block of output channels; a `Job` says where they are.

    Buffers: see `Contraction`; each is a row of elements.

    together   outputs computed at a time: they share each load of weights, and their accumulators stay in registers
    rest       outputs computed at a time of those that `together` leaves over; 0 if it leaves none
    rows,
    runs       whether windows have several rows, and rows several runs
    partial    whether some block has lanes that are no output channels
    scaled     whether the sums of each run are multiplied, see `Contraction`
    few        the steps of a run if they are few, and the rows several: such loops are unrolled; 0 if they are not
    offset     whether the sums of a run's data are multiplied, too, see `Contraction`
    narrow     whether accumulators of sums that are multiplied have 32 bits
    streams    whether each step asks for weights of the next block, because they come from far memory
    packing    how w holds the weights: as bytes, or packed (packed_weights.py) in chunks of a step's weights
    grouped    steps of a group whose weights have a multiplier for each output, [blocks · groups · lanes] behind w;
               0 if weights have none
    reals      how weights become floats, by scales and zero points behind w; None if they are what is multiplied
    at_once    the steps of a turn of the innermost loop, which divide those of a run
    stride     the distance between the windows of neighbouring outputs, if functions that differ in it share no code;
               0 if it is an argument. A distance in the code saves an address register
    """

    name: str
    lanes: int
    arithmetic: Arithmetic
    epilogue: Epilogue
    has_bias: bool
    together: int
    rest: int
    rows: bool
    runs: bool
    partial: bool
    few: int = 0
    scaled: bool = False
    offset: bool = False
    narrow: bool = False
    streams: bool = False
    packing: Packing = Packing()
    grouped: int = 0
    reals: Scaling | None = None
    at_once: int = 1
    stride: int = 0

    @property
    def multiplies(self) -> bool:
        """Whether the kernel has a buffer of multipliers behind its weights."""
        return self.scaled or self.grouped > 0

    @property
    def buffers(self) -> Sequence[str]:
        return with_multipliers(super().buffers, scaled=self.multiplies, offset=self.offset, reals=self.reals)

    @property
    def arguments(self) -> Sequence[str]:
        strides = [f"stride{i}" for i in range(1, max(self.together, 2), 2)]
        return [*self.buffers, *Job.names(), *strides, *(["sums_at"] if self.offset else [])]

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        job = Job.of(numbers, offset=self.offset)
        buffers = [buffers[0], self.packing.opened(buffers[1]), *buffers[2:]]
        *_, parameters, y = self.roles(self._unscaled(buffers))
        # Loaded before all loops, so that what the epilogue computes from them alone is computed once.
        own = [p.load(job.block * self.lanes, lanes=self.lanes) for p in parameters]
        store = store_valid(code, y, self.lanes, job.valid) if self.partial else y.store

        def finish(accumulator: Value, at: Value) -> None:
            store(self.epilogue.finish(accumulator, own), at)

        most = job.outputs - job.outputs % self.together if self.rest else job.outputs
        with code.loop(0, most, self.together, name="output") as output:
            self.write_outputs(code, buffers, job, output, self.together, finish)
        if self.rest:
            with code.loop(most, job.outputs, self.rest, name="output") as output:
                self.write_outputs(code, buffers, job, output, self.rest, finish)

    def write_outputs(
        self,
        code: Code,
        buffers: Sequence[Buffer],
        job: Job,
        output: Value,
        together: int,
        finish: Callable[[Value, Value], None],
    ) -> None:
        """Writes `together` neighbouring outputs, from `output` on; `finish` finishes and stores accumulators."""
        x, w, bias, *_ = self.roles(self._unscaled(buffers))
        if not self.scaled or self.narrow:
            start = self.arithmetic.start(code, bias, job.block, self.lanes)
        elif bias is None:
            start = code.zeros(i64, self.lanes)
        else:
            start = bias.load(job.block * self.lanes, lanes=self.lanes)
        sums = self.accumulate(code, x, w, job, output, [start] * together, self._multipliers(buffers))
        first = job.y_at + output * job.apart
        for p, accumulator in enumerate(sums):
            finish(accumulator, first + job.apart * p)

    def _unscaled(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """The buffers without the multipliers."""
        return [*buffers[:2], *buffers[2 + len(self._multipliers(buffers)) :]]

    def _multipliers(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """The multipliers, and with offsets these and the sums of data; none where weights have none."""
        return buffers[2 : 2 + self.multiplies + 2 * self.offset + (len(self.reals.names) if self.reals else 0)]

    def accumulate(
        self,
        code: Code,
        x: Buffer,
        w: Buffer,
        job: Job,
        output: Value,
        start: Sequence[Value],
        multipliers: Sequence[Buffer],
    ) -> list[Value]:
        """Sums the products over kh, kw and c, from the accumulators `start` of neighbouring outputs.

        With multipliers, those of one run by themselves, which are then multiplied; weights of groups are multiplied
        before they multiply data. With offsets, the sums of a run's data are multiplied by these, and added.
        """
        arithmetic, one = self.arithmetic, code.index(1)
        first = job.x_at + output * job.strides[0]
        done = (output // self.together) * (job.rows * job.runs * job.steps)  # steps of this call
        whole = self._numbers(multipliers, job.block) if self.reals and not self.reals.block else ()

        def over_rows(i: Value, sums: list[Value]) -> Sequence[Value]:
            row = first + i * job.row

            def over_runs(j: Value, sums: list[Value]) -> Sequence[Value]:
                left = row + j * job.run
                number = (i * job.runs + j) * job.steps
                before = job.w_at + number

                def step(k: Value, sums: list[Value], numbers: Sequence[Value] = whole) -> list[Value]:
                    if self.streams:
                        code.prefetch(w, self.packing.byte(job.ahead + (done + number + k) * job.pace))
                    weights = real(arithmetic.weights(w, before + k, self.lanes), numbers)
                    if self.grouped:
                        weights = weights * self._factors(multipliers[0], job, number + k, weights)
                    return self._stepped(job, x, left, k, weights, sums)

                def over_run(turn: Value, sums: list[Value]) -> Sequence[Value]:
                    for k in range(self.at_once):
                        sums = step(turn * self.at_once + k, sums)
                    return sums

                steps = code.index(self.few) if self.few else job.steps // self.at_once
                if self.reals and self.reals.block:
                    return self._in_blocks(code, job, multipliers, sums, step)
                if isinstance(arithmetic, ArithmeticOfParts) and not arithmetic.by_channel:
                    return self._in_stretches(code, arithmetic, steps, sums, over_run)
                if not self.scaled:
                    return code.fold(0, steps, sums, over_run, "k")
                own = code.fold(0, steps, [code.zeros(arithmetic.sums, self.lanes)] * len(sums), over_run, "k")
                return self._scaled(job, j, output, multipliers, sums, own)

            return code.fold(0, job.runs if self.runs else one, sums, over_runs, "kw")

        rows = job.rows if self.rows else one
        if not (isinstance(arithmetic, ArithmeticOfParts) and arithmetic.by_channel):
            return code.fold(0, rows, start, over_rows, "kh")
        own = code.fold(0, rows, [code.zeros(arithmetic.sums, None)] * (self.lanes * len(start)), over_rows, "kh")
        return [arithmetic.joined(acc, own[self.lanes * p : self.lanes * (p + 1)]) for p, acc in enumerate(start)]

    def _scaled(
        self, job: Job, run: Value, output: Value, multipliers: Sequence[Buffer], sums: list[Value], own: list[Value]
    ) -> list[Value]:
        """Adds the sums of a run, multiplied by its multipliers, and the offset's share of its data."""
        at = (job.block * job.runs + run) * self.lanes
        wide = i32 if self.narrow else i64
        factor = multipliers[0].load(at, lanes=self.lanes).to(wide)
        sums = [total + part.to(wide) * factor for total, part in zip(sums, own, strict=True)]
        if not self.offset or job.sums_at is None:
            return sums
        factor, data = multipliers[1].load(at, lanes=self.lanes).to(wide), multipliers[2]
        place = job.sums_at + output * job.runs + run
        return [
            total + data.load(place + job.runs * p).to(wide).spread(self.lanes) * factor for p, total in enumerate(sums)
        ]

    def _numbers(self, multipliers: Sequence[Buffer], block: Value) -> Sequence[Value]:
        """The scale, and the zero point if there is one, of each output of a block of weights."""
        return [buffer.load(block * self.lanes, lanes=self.lanes) for buffer in multipliers]

    def _in_blocks(
        self, code: Code, job: Job, multipliers: Sequence[Buffer], sums: list[Value],
        step: Callable[[Value, list[Value], Sequence[Value]], list[Value]],
    ) -> list[Value]:  # fmt: skip
        """Sums the products of a run, block by block of weights with one scale; a run begins with such a block."""
        assert self.reals is not None
        size = self.reals.block
        blocks = (job.steps + (size - 1)) // size

        def over_block(i: Value, sums: list[Value]) -> Sequence[Value]:
            own = self._numbers(multipliers, job.block * blocks + i)
            first = i * size
            return code.fold(first, (first + size).minimum(job.steps), sums, lambda k, s: step(k, s, own), "k")

        return code.fold(0, blocks, sums, over_block, "scale")

    def _stepped(self, job: Job, x: Buffer, left: Value, k: Value, weights: Value, sums: list[Value]) -> list[Value]:
        """Adds the products of the weights of step `k` of a run, whose data begin at element `left`, to its sums."""
        arithmetic, shared = self.arithmetic, list[Value]()
        parts: Sequence[Value] = [weights]
        if isinstance(arithmetic, ArithmeticOfParts):
            parts, own = arithmetic.parts(weights), len(sums) - arithmetic.shared
            sums, shared = sums[:own], sums[own:]
        at = left + k * arithmetic.group
        added = [
            arithmetic.step(acc, x, at + (self.stride * p or job.window(p)), parts[part])
            for i, acc in enumerate(sums)
            for p, part in [divmod(i, len(parts))]
        ]
        if isinstance(arithmetic, ArithmeticOfParts):
            added += arithmetic.add_shared(shared, parts)
        return added

    def _in_stretches(
        self,
        code: Code,
        arithmetic: ArithmeticOfParts,
        steps: Value,
        sums: list[Value],
        over_run: Callable[[Value, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Sums the products of a run in i32, over as many turns as these hold, and adds these sums to accumulators."""
        zeros = code.zeros(i32, self.lanes)
        most = arithmetic.most_steps // self.at_once

        def over_stretch(number: Value, sums: list[Value]) -> Sequence[Value]:
            begin = number * most
            count = PARTS * len(sums)
            own = code.fold(begin, (begin + most).minimum(steps), [zeros] * (count + arithmetic.shared), over_run, "k")
            shared = own[count:]
            return [arithmetic.joined(acc, [*own[PARTS * p : PARTS * (p + 1)], *shared]) for p, acc in enumerate(sums)]

        return code.fold(0, (steps + (most - 1)) // most, sums, over_stretch, "stretch")

    def _factors(self, multipliers: Buffer, job: Job, step: Value, weights: Value) -> Value:
        """The multipliers of a step's weights: one for each output, beside each other for the terms of the step."""
        groups = (job.rows * job.runs * job.steps + (self.grouped - 1)) // self.grouped
        at = (job.block * groups + step // self.grouped) * self.lanes
        own = multipliers.load(at, lanes=self.lanes).to(weights.element)
        return own.shuffle(own, [lane for lane in range(self.lanes) for _ in range(self.arithmetic.group)])
