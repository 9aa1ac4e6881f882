"""The commands of every device: what each means, and beside it how it is written.

A command is a frozen dataclass; its fields in order are its words (encoding.py). Nothing is remembered between commands
but contexts, and each of these is written whole (`SetContext`). A queue works off its commands in order and counts
those it has finished; a wait can only name an earlier command, so program order is always a valid serial schedule and
no stream can hang.

Tensors are channels last; integers are signed, little-endian, of 8, 16, 32 or 64 bits. A `pitch` is the distance in
bytes from one row, or one pixel, to the next. What is computed are the equations of dialects/qint.
"""

from dataclasses import dataclass
from enum import IntEnum

from qmlir.isa.encoding import Command, Place, Signed, mnemonic


class Init(IntEnum):
    """What sums begin with."""

    ZERO = 0
    BIAS = 1
    ACCUMULATE = 2


class Step(IntEnum):
    """What a context makes of a number: another scale, or the entry of a table."""

    REQUANTIZE = 0
    LOOKUP = 1


class Operation(IntEnum):
    """What an operation on two tensors computes."""

    ADD = 0
    MUL = 1


class Pooling(IntEnum):
    """What a pool computes."""

    MAX = 0
    AVERAGE = 1


CONTRACTS = ("single", "double", "upup", "float_even", "shift", "away16", "single64", "reduced16", "updown")
"""The rounding contracts by their number in a context; new ones go to the end."""


# ---------------------------------------------------------------------------------------------------------------
# Control


@dataclass(frozen=True)
class SetContext(Command):
    """Writes the context `ctx` whole: how `Post`, `Arithmetic` and others finish a number.

    step              REQUANTIZE: y = clamp(zero_point + round((x − input_zero_point) · M), lower, upper);
                      LOOKUP: y = table[x + 128]
    bits              of the result
    contract          number in CONTRACTS
    per_channel       1 where each channel has its own M
    table             M as pairs (multiplier, shift) of 32 bits, one or one for each channel; or 256 entries
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
    """Does nothing, once what it waits for is done; with `barrier` 1 that is every command before it."""

    OP = 0x02
    barrier: int


@dataclass(frozen=True)
class Host(Command):
    """Has the host run a routine of the stream's table: the only way off the device.

    read, written   bytes of the routine's inputs and of its outputs
    constants       bytes that it reads besides, which the host has
    work            products and other operations on single elements that it computes; 2^32 − 1 stands for more, too
    """

    OP = 0x03
    routine: int
    read: int
    written: int
    constants: int
    work: int


@dataclass(frozen=True)
class Mark(Command):
    """Says that what follows belongs to a layer of the stream's table, for reports."""

    OP = 0x04
    layer: int


@dataclass(frozen=True)
class End(Command):
    """Ends the stream once every command before it is done; nothing may follow."""

    OP = 0x05
    status: int


# ---------------------------------------------------------------------------------------------------------------
# Data movement


@dataclass(frozen=True)
class Move(Command):
    """Copies planes · rows · size bytes, each plane and row after its own pitch."""

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
    """Writes planes · rows · size bytes of one value, 0 to 255."""

    OP = 0x11
    target: Place
    size: int
    rows: int
    planes: int
    target_row: int
    target_plane: int
    value: int


# ---------------------------------------------------------------------------------------------------------------
# Contractions


@dataclass(frozen=True)
class Window(Command):
    """What convolutions have: an input, where the window is at each output position, and dense sums.

    Output (r, c) meets at tap (i, j) the input row r·stride_rows + i·dilation_rows − top and the column likewise; what
    lies outside [0, rows) × [0, columns) contributes nothing. `sums` is [out_rows, out_columns, output channels] of
    sum_bits, dense; `bias` is one number of bias_bits for each output channel, moved left by bias_shift and read where
    init is BIAS. Weights have the zero point 0 but on devices that compute others.
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

    `weights` is [O, KH·KW·channels], zero-padded to whole tiles n by k of the device's layout, tile after tile along
    the second axis first, each tile [n, k]. A fully connected layer has a window of one.
    """

    OP = 0x20
    out_channels: int


@dataclass(frozen=True)
class ConvolveDepthwise(Window):
    """sums[r, c, k] (+)= Σ_{i,j} (data[…, k] − zero_point) · (weights[i, j, k] − weight_zero_point); they are dense."""

    OP = 0x21


# ---------------------------------------------------------------------------------------------------------------
# What follows


@dataclass(frozen=True)
class Post(Command):
    """target[r, c, k] = what the context `ctx` makes of source[r, c, k]: sums, or numbers of another scale."""

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
    """An operation on two tensors [rows, columns, channels]; a pitch of 0 repeats an operand.

    ADD  clamp(zero_point + ((lhs − z_l)·m_l + (rhs − z_r)·m_r + 2^(shift−1)) >> shift, lower, upper), whose zero_point,
         lower, upper and bits are the context's
    MUL  what the context makes of (lhs − z_l)·(rhs − z_r)
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
    """Maxima or rounded means of windows of numbers, which keep their scale; see dialects/qint/pooling.py.

    With count_padding 1 the padding takes part in a mean, as `zero_point`; otherwise it is absent.
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
    """sums[k] (+)= Σ_{r,c} (source[r, c, k] − zero_point), of 32 bits; `init` is ZERO or ACCUMULATE."""

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


COMMANDS: tuple[type[Command], ...] = (
    SetContext, Sync, Host, Mark, End, Move, Fill, Convolve, ConvolveDepthwise, Post, Arithmetic, Pool, Reduce,
)  # fmt: skip
"""Every command there is."""

BY_OP = {command.OP: command for command in COMMANDS}

MNEMONICS = {mnemonic(command): command for command in COMMANDS}
"""Commands by the names they have in text."""


def waits_for_all(command: Command) -> bool:
    """Whether a command waits for all before it, whatever it names."""
    return isinstance(command, End) or (isinstance(command, Sync) and bool(command.barrier))
