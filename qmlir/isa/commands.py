"""The commands of every device: the meaning of each command and its fields, and streams of commands.

A command is a frozen dataclass; its fields in order are its words (encoding.py). Besides the memories, the only
state between commands are contexts: numbered sets of parameters for a requantization or a table lookup. `SetContext`
writes a context as a whole. A queue executes its commands in order and counts the finished commands. A wait can
refer only to an earlier command, so program order is always a valid serial schedule, and no stream can hang.

Tensors are channels-last. Integers are signed and little-endian, with 8, 16, 32 or 64 bits. A `pitch` is the distance
in bytes from one row, or one pixel, to the next. Commands compute by the equations of dialects/qint. A command may
begin to write before it has read everything: its result overlaps no operand, but an element may take the place of the
element that it is computed from, and a sum that of the sum before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from qmlir.isa.encoding import COUNT_BITS, Command, Place, Signed, StreamError, Wait, mnemonic


class Init(IntEnum):
    """The initial value of sums: zero, the bias, or the sums already in memory."""

    ZERO = 0
    BIAS = 1
    ACCUMULATE = 2


class Step(IntEnum):
    """The operation of a context on an element: requantization to another scale, or a table lookup."""

    REQUANTIZE = 0
    LOOKUP = 1


class Operation(IntEnum):
    """The operation of `Arithmetic` on two tensors."""

    ADD = 0
    MUL = 1


class Pooling(IntEnum):
    """The function of `Pool`."""

    MAX = 0
    AVERAGE = 1


class Division(IntEnum):
    """How `Softmax` divides by the sum of a row; dialects/qint/normalization.py states the three."""

    EXACT = 0
    NEWTON = 1
    INTERPOLATED = 2


class Norm(IntEnum):
    """What `Normalize` subtracts from the elements of a row: their mean (LAYER), or a zero point (RMS)."""

    LAYER = 0
    RMS = 1


# ---------------------------------------------------------------------------------------------------------------
# Control


@dataclass(frozen=True)
class SetContext(Command):
    """Writes the whole context `ctx`, by which `Post` and `Arithmetic` requantize or look up each element.

    step              REQUANTIZE: y = clamp(zero_point + round((x − input_zero_point) · M), lower, upper);
                      LOOKUP: y = table[x + 128]
    bits              width of the result in bits
    contract          number of the rounding contract (numerics/contracts.py)
    per_channel       1 if each channel has its own M, else 0
    table             REQUANTIZE: M as a pair (multiplier, shift) of 32 bits each, one pair or one for each channel;
                      LOOKUP: 256 entries
    """

    OP = 0x01
    step: Step
    bits: int
    contract: int
    input_zero_point: Signed
    zero_point: Signed
    lower: Signed
    upper: Signed
    per_channel: int
    table: Place


@dataclass(frozen=True)
class Sync(Command):
    """Finishes without effect when its waits are met; with `barrier` 1 it waits for every command before it."""

    OP = 0x02
    barrier: int


@dataclass(frozen=True)
class Host(Command):
    """Makes the host run a routine of the stream's table; no other command leaves the device.

    read, written   sizes in bytes of the routine's inputs and of its outputs
    constants       size in bytes of the constants that the routine reads from the host's own memory
    work            number of products and other operations on single elements that the routine computes; it saturates
                    at 2^32 − 1
    """

    OP = 0x03
    routine: int
    read: int
    written: int
    constants: int
    work: int


@dataclass(frozen=True)
class Mark(Command):
    """Assigns the commands after it to a layer of the stream's table, for reports; it computes nothing."""

    OP = 0x04
    layer: int


@dataclass(frozen=True)
class End(Command):
    """Ends the stream when every command before it is finished; no command may follow."""

    OP = 0x05
    status: int


# ---------------------------------------------------------------------------------------------------------------
# Data movement


@dataclass(frozen=True)
class Move(Command):
    """Copies planes · rows runs of `size` bytes; source and target each have a plane pitch and a row pitch."""

    OP = 0x10
    source: Place
    target: Place
    size: int
    rows: int
    planes: int
    source_row: int
    source_plane: int
    target_row: int
    target_plane: int


@dataclass(frozen=True)
class Fill(Command):
    """Writes the byte `value`, 0 to 255, to planes · rows runs of `size` bytes."""

    OP = 0x11
    target: Place
    size: int
    rows: int
    planes: int
    target_row: int
    target_plane: int
    value: int


@dataclass(frozen=True)
class Unpack(Command):
    """Moves `count` packed weights of 2 to 7 bits each, and writes each of them as a byte.

    Weight i is the signed integer in bits i·bits to (i + 1)·bits − 1 of the source, where bit j is bit j mod 8 of byte
    ⌊j / 8⌋. The source takes ⌈count · bits / 8⌉ bytes.
    """

    OP = 0x12
    source: Place
    target: Place
    count: int
    bits: int


@dataclass(frozen=True)
class Arrange(Command):
    """Copies a computed matrix to where `Convolve` reads it as weights: to whole tiles of the device's weight layout.

    The source is [rows, columns] with dense columns and `pitch` bytes from row to row. Its rows are the output channels
    and its columns the terms of each sum; with `transposed` 1, its columns are the output channels and its rows the
    terms. The target has the tiles that `Convolve` describes, and zeros where tiles extend beyond the matrix.
    """

    OP = 0x13
    source: Place
    target: Place
    bits: int
    rows: int
    columns: int
    pitch: int
    transposed: int

    @property
    def matrix(self) -> tuple[int, int]:
        """The output channels, and the terms of each of their sums."""
        return (self.columns, self.rows) if self.transposed else (self.rows, self.columns)


# ---------------------------------------------------------------------------------------------------------------
# Contractions


@dataclass(frozen=True)
class Window(Command):
    """The fields that all convolutions share: the input, the position of the window at each output, and the sums.

    At window position (tap) (i, j), output (r, c) reads the input row r·stride_rows + i·dilation_rows − top, and the
    column likewise; positions outside [0, rows) × [0, columns) contribute nothing. `sums` is dense, [out_rows,
    out_columns, output channels], with sum_bits for each sum. `bias` has one number of bias_bits for each output
    channel; it is read only if `init` is BIAS, and is shifted left by bias_shift. weight_zero_point is 0 except on
    devices that support other zero points of weights. Weights with weight_bits below 8 are packed as for `Unpack`, and
    count as bytes for the array's modes.
    """

    data: Place
    weights: Place
    bias: Place
    sums: Place
    init: Init
    data_bits: int
    weight_bits: int
    sum_bits: int
    bias_bits: int
    bias_shift: int
    zero_point: Signed
    weight_zero_point: Signed
    rows: int
    columns: int
    channels: int
    row_pitch: int
    pixel_pitch: int
    out_rows: int
    out_columns: int
    kernel_rows: int
    kernel_columns: int
    stride_rows: int
    stride_columns: int
    dilation_rows: int
    dilation_columns: int
    top: Signed
    left: Signed


@dataclass(frozen=True)
class Convolve(Window):
    """sums[r, c, o] (+)= Σ_{i,j,k} (data[…, k] − zero_point) · (weights[o, i, j, k] − weight_zero_point).

    `weights` is [O, KH·KW·channels], zero-padded to whole tiles [n, k] of the device's weight layout; the tiles are
    stored one after another, along the second axis first. A fully connected layer has a window of 1 by 1.
    """

    OP = 0x20
    out_channels: int


@dataclass(frozen=True)
class ConvolveDepthwise(Window):
    """sums[r, c, k] (+)= Σ_{i,j} (data[…, k] − zero_point) · (weights[i, j, k] − weight_zero_point), weights dense."""

    OP = 0x21


# ---------------------------------------------------------------------------------------------------------------
# Elementwise operations, pools and reductions


@dataclass(frozen=True)
class Post(Command):
    """target[r, c, k] = the context `ctx` applied to source[r, c, k], which holds sums or elements of another scale."""

    OP = 0x30
    source: Place
    source_bits: int
    rows: int
    columns: int
    channels: int
    source_row: int
    source_pixel: int
    target: Place
    target_row: int
    target_pixel: int


@dataclass(frozen=True)
class Arithmetic(Command):
    """An elementwise operation on two tensors [rows, columns, channels]; a pitch of 0 repeats an operand.

    ADD  clamp(zero_point + ((lhs − z_l)·m_l + (rhs − z_r)·m_r + 2^(shift−1)) >> shift, lower, upper), with zero_point,
         lower, upper and the result's bits from the context
    MUL  the context applied to (lhs − z_l)·(rhs − z_r)
    """

    OP = 0x31
    operation: Operation
    bits: int
    lhs: Place
    rhs: Place
    target: Place
    rows: int
    columns: int
    channels: int
    lhs_row: int
    lhs_pixel: int
    rhs_row: int
    rhs_pixel: int
    target_row: int
    target_pixel: int
    lhs_zero_point: Signed
    rhs_zero_point: Signed
    lhs_multiplier: Signed
    rhs_multiplier: Signed
    shift: int


@dataclass(frozen=True)
class Pool(Command):
    """Maxima or rounded means of windows; the result has the source's scale; see dialects/qint/pooling.py.

    With count_padding 1, each padded element counts as `zero_point` in a mean; with 0, padded elements are left out.
    """

    OP = 0x32
    pooling: Pooling
    bits: int
    source: Place
    rows: int
    columns: int
    channels: int
    row_pitch: int
    pixel_pitch: int
    target: Place
    out_rows: int
    out_columns: int
    target_row: int
    target_pixel: int
    kernel_rows: int
    kernel_columns: int
    stride_rows: int
    stride_columns: int
    dilation_rows: int
    dilation_columns: int
    top: Signed
    left: Signed
    count_padding: int
    zero_point: Signed


@dataclass(frozen=True)
class Reduce(Command):
    """sums[k] (+)= Σ_{r,c} (source[r, c, k] − zero_point), with 32-bit sums; `init` is ZERO or ACCUMULATE."""

    OP = 0x33
    source: Place
    bits: int
    rows: int
    columns: int
    channels: int
    row_pitch: int
    pixel_pitch: int
    zero_point: Signed
    sums: Place
    init: Init


# ---------------------------------------------------------------------------------------------------------------
# Operations on rows: each element of the result depends on all elements of its row


@dataclass(frozen=True)
class OfRows(Command):
    """The fields that operations on rows share: `rows` rows of `channels` elements each, which lie without gaps.

    source_row, target_row  bytes from one row to the next
    source_bits             width of an element: 8 or 16
    target_bits             width of an element of the result: 8 or 16
    zero_point              is added to each quotient, which is then clamped to [lower, upper]
    """

    source: Place
    target: Place
    source_bits: int
    target_bits: int
    rows: int
    channels: int
    source_row: int
    target_row: int
    zero_point: Signed
    lower: Signed
    upper: Signed


@dataclass(frozen=True)
class Softmax(OfRows):
    """target[r, k] = clamp(zero_point + e[k] · unit / Σ e, lower, upper), with exponentials e of a row r.

    e[k] = table[min(m − source[r, k], entries − 1)], m the maximum of the row. `table` has `entries` integers of 32
    bits, none negative; `unit` is the real number 1 in steps of the result, with 12 fraction bits. `inverse` has 513
    integers of 16 bits, and is read only where `division` is INTERPOLATED. The divisions are those of qint.softmax
    (dialects/qint/normalization.py).
    """

    OP = 0x34
    table: Place
    inverse: Place
    division: Division
    entries: int
    unit: int


@dataclass(frozen=True)
class Normalize(OfRows):
    """target[r, k] = clamp(zero_point + d[k] · M / √W, lower, upper), M = multiplier · 2^(shift − 31).

    LAYER  d = x − Σx / n, W = (n · Σx² − (Σx)²) · 2^fraction + epsilon, for rows of n elements
    RMS    d = x − input_zero_point, W = Σd² · 2^fraction + epsilon

    The root and the rounding are those of qint.layer_norm and qint.rms_norm (dialects/qint/root_normalization.py).
    epsilon is epsilon_high · 2^32 + epsilon_low.
    """

    OP = 0x35
    norm: Norm
    input_zero_point: Signed
    multiplier: int
    shift: Signed
    fraction: Signed
    epsilon_low: int
    epsilon_high: int

    @property
    def epsilon(self) -> int:
        """What is added to the scaled sum of squares."""
        return self.epsilon_high << 32 | self.epsilon_low


COMMANDS: tuple[type[Command], ...] = (
    SetContext, Sync, Host, Mark, End, Move, Fill, Unpack, Arrange, Convolve, ConvolveDepthwise, Post, Arithmetic, Pool,
    Reduce, Softmax, Normalize,
)  # fmt: skip
"""Every command class of the instruction set."""

BY_OP = {command.OP: command for command in COMMANDS}

MNEMONICS = {mnemonic(command): command for command in COMMANDS}
"""Command classes by their mnemonic."""


def waits_for_all(command: Command) -> bool:
    """Whether a command waits for all commands before it, regardless of its `waits`."""
    return isinstance(command, End) or (isinstance(command, Sync) and bool(command.barrier))


# ---------------------------------------------------------------------------------------------------------------
# Decodes and encodes command streams, which are sequences of 32-bit words.


def decode(words: Sequence[int]) -> list[Command]:
    """Decodes the commands of a stream.

    Raises:
        StreamError: A command is unknown, truncated or malformed, waits for a later command, or follows `End`, or the
            stream does not end with `End`; the error of a command gives its number and its word.
    """
    commands: list[Command] = []
    issued: dict[int, int] = {}
    at = 0
    while at < len(words):
        try:
            command = _decode_one(words, at)
            for wait in command.waits:
                if wait.finished > issued.get(wait.queue, 0):
                    given = f"{wait.finished} of queue {wait.queue}, which has been given {issued.get(wait.queue, 0)}"
                    raise StreamError("a command may wait for earlier ones only", got=f"a wait for {given}")
            if commands and isinstance(commands[-1], End):
                raise StreamError("nothing may follow the end", got=type(command).__name__)
        except StreamError as error:
            raise StreamError(error.need, where=f"command {len(commands)} at word {at}", got=error.got) from None
        commands.append(command)
        issued[command.queue] = issued.get(command.queue, 0) + 1
        at += words[at] >> 8 & 0xFF
    if not commands or not isinstance(commands[-1], End):
        raise StreamError("a stream must end with the command End", got="one without")
    return commands


def _decode_one(words: Sequence[int], at: int) -> Command:
    head = words[at]
    op, length, queue, ctx, waits = head & 0xFF, head >> 8 & 0xFF, head >> 16 & 0xF, head >> 20 & 0xF, head >> 24 & 0x3
    if op not in BY_OP:
        raise StreamError("a command must be a known one", got=f"op {op:#04x}")
    if head >> 26:
        raise StreamError("the reserved bits of a command must be 0", got=f"{head >> 26:#x}")
    if length < 1 + waits or at + length > len(words):
        raise StreamError(f"a command of {length} words must lie whole in the stream", got=f"{len(words) - at} left")
    waiting = tuple(Wait(word >> COUNT_BITS, word & (1 << COUNT_BITS) - 1) for word in words[at + 1 : at + 1 + waits])
    return BY_OP[op].of(queue, waiting, ctx, words[at + 1 + waits : at + length])


def encode(commands: Sequence[Command]) -> list[int]:
    """Encodes commands as words, one command after the other."""
    return [word for command in commands for word in command.words()]
