"""The words of Gemmini's commands: a number of the function and two registers of 64 bits, with fields of bits.

The fields are those of the command set as its authors document it (README of ucb-bar/gemmini, and the macros of
gemmini.h in ucb-bar/gemmini-rocc-tests). A field is a name, the register, its lowest bit and how many bits it has.
"""

from enum import Enum, IntEnum
from typing import NamedTuple, TypeAlias

from qmlir.errors import QmlirError

DIM = 16
"""Rows and columns of the array; elements of a row of the memories."""

SCRATCHPAD_ROWS, ACCUMULATOR_ROWS = 16384, 1024
"""Rows of 16 int8, and of 16 int32. Loops use one half of each at a time."""

BLOCKS_IN, SUM_BLOCKS_IN = 4, 1
"""The most blocks of `DIM` columns that loops move in by one command: of int8, and of int32."""

NOTHING = 0xFFFFFFFF
"""The local address that stands for zeros, or for no result."""

ACCUMULATOR, ADD, FULL = 1 << 31, 1 << 30, 1 << 29
"""Bits of a local address: the accumulator; add to what is there; 32 bits on the way out."""

Command: TypeAlias = tuple[int, int, int]
"""A command: its function, the first and the second register."""


class Function(IntEnum):
    """What commands do."""

    CONFIG, MOVE_IN_2, MOVE_IN, MOVE_OUT, COMPUTE, COMPUTE_AGAIN, PRELOAD, FLUSH = range(8)
    LOOP, LOOP_SIZES, LOOP_AB, LOOP_DC, LOOP_AB_STRIDES, LOOP_DC_STRIDES, MOVE_IN_3 = range(8, 15)
    CONV, CONV_1, CONV_2, CONV_3, CONV_4, CONV_5, CONV_6 = range(15, 22)
    FENCE = 127


class Configured(Enum):
    """What a `CONFIG` sets, by the two lowest bits of its first register."""

    EXECUTE = 0
    IN = 1
    OUT = 2
    NORM = 3


class Field(NamedTuple):
    """Bits of one of the two registers."""

    register: int
    low: int
    bits: int


class InstructionError(QmlirError):
    """Raised for a command that Gemmini does not have, or that leaves its memories."""


def _local(register: int, name: str) -> dict[str, Field]:
    """A local address with its columns and rows."""
    return {
        name: Field(register, 0, 32),
        f"{name}_columns": Field(register, 32, 16),
        f"{name}_rows": Field(register, 48, 16),
    }


def _pair(first: str, second: str) -> dict[str, Field]:
    return {first: Field(0, 0, 64), second: Field(1, 0, 64)}


_MOVE = {"address": Field(0, 0, 64), **_local(1, "local")}

FIELDS: dict[Function | Configured, dict[str, Field]] = {
    Configured.EXECUTE: {
        "weights_stay": Field(0, 2, 1), "activation": Field(0, 3, 2), "only_strides": Field(0, 7, 1),
        "transpose_a": Field(0, 8, 1), "transpose_b": Field(0, 9, 1), "a_stride": Field(0, 16, 16),
        "shift": Field(1, 0, 32), "c_stride": Field(1, 48, 16),
    },
    Configured.IN: {
        "small": Field(0, 2, 1), "which": Field(0, 3, 2), "pixels": Field(0, 8, 8), "block_stride": Field(0, 16, 16),
        "scale": Field(0, 32, 32), "stride": Field(1, 0, 64),
    },
    Configured.OUT: {
        "activation": Field(0, 2, 2), "pool_stride": Field(0, 4, 2), "pool_size": Field(0, 6, 2),
        "pool_above": Field(0, 8, 2), "pool_left": Field(0, 10, 2), "result_columns": Field(0, 24, 8),
        "pool_rows": Field(0, 32, 8), "pool_columns": Field(0, 40, 8), "rows": Field(0, 48, 8),
        "columns": Field(0, 56, 8), "stride": Field(1, 0, 32), "scale": Field(1, 32, 32),
    },
    Configured.NORM: {},
    Function.MOVE_IN: _MOVE, Function.MOVE_IN_2: _MOVE, Function.MOVE_IN_3: _MOVE, Function.MOVE_OUT: _MOVE,
    Function.PRELOAD: {**_local(0, "held"), **_local(1, "result")},
    Function.COMPUTE: {**_local(0, "a"), **_local(1, "other")},
    Function.COMPUTE_AGAIN: {**_local(0, "a"), **_local(1, "other")},
    Function.FLUSH: {}, Function.FENCE: {},
    Function.LOOP_SIZES: {
        "pad_i": Field(0, 0, 16), "pad_j": Field(0, 16, 16), "pad_k": Field(0, 32, 16),
        "i": Field(1, 0, 16), "j": Field(1, 16, 16), "k": Field(1, 32, 16),
    },
    Function.LOOP_AB: _pair("a", "b"), Function.LOOP_DC: _pair("d", "c"),
    Function.LOOP_AB_STRIDES: _pair("a_stride", "b_stride"),
    Function.LOOP_DC_STRIDES: _pair("d_stride", "c_stride"),
    Function.LOOP: {
        "adds": Field(0, 0, 1), "full_c": Field(0, 1, 1), "small_d": Field(0, 2, 1), "activation": Field(0, 8, 3),
        "b_half": Field(0, 16, 2), "a_half": Field(0, 18, 2),
        "transpose_a": Field(1, 0, 1), "transpose_b": Field(1, 1, 1), "addition": Field(1, 2, 1),
    },
    Function.CONV_1: {
        "images": Field(0, 0, 16), "in_rows": Field(0, 16, 16), "in_channels": Field(0, 32, 16),
        "out_channels": Field(0, 48, 16), "out_rows": Field(1, 0, 16), "pooled_rows": Field(1, 16, 16),
        "out_columns": Field(1, 32, 16), "stride": Field(1, 48, 8), "padding": Field(1, 56, 8),
    },
    Function.CONV_2: {
        "kernel": Field(0, 48, 16), "pooled_columns": Field(0, 32, 16), "pool_size": Field(0, 16, 16),
        "pool_stride": Field(0, 8, 8), "pool_padding": Field(0, 0, 8), "own_images": Field(1, 48, 16),
        "own_pooled_rows": Field(1, 32, 16), "own_pooled_columns": Field(1, 16, 16), "own_outputs": Field(1, 0, 16),
    },
    Function.CONV_3: {
        "kernel_rows": Field(0, 48, 16), "kernel_columns": Field(0, 32, 16), "own_inputs": Field(0, 16, 16),
        "left": Field(0, 0, 16), "right": Field(1, 48, 16), "above": Field(1, 32, 16), "below": Field(1, 24, 8),
        "pool_left": Field(1, 16, 8), "in_columns": Field(1, 0, 16),
    },
    Function.CONV_4: {
        "own_rows": Field(0, 48, 16), "pool_right": Field(0, 32, 16), "pool_above": Field(0, 21, 8),
        "pool_below": Field(0, 10, 8), "dilation": Field(0, 0, 8), "in_stride": Field(1, 48, 16),
        "weight_stride": Field(1, 32, 16), "out_stride": Field(1, 16, 16), "own_columns": Field(1, 0, 16),
    },
    Function.CONV_5: _pair("weights", "output"),
    Function.CONV_6: _pair("bias", "input"),
    Function.CONV: {
        "no_bias": Field(0, 0, 1), "rotated": Field(0, 1, 1), "outputs_1203": Field(0, 2, 1),
        "weights_1203": Field(0, 3, 1), "weights_0132": Field(0, 4, 1), "inputs_3120": Field(0, 5, 1),
        "depthwise": Field(0, 6, 1), "pixels": Field(0, 8, 8), "b_half": Field(0, 16, 2), "a_half": Field(0, 18, 2),
        "no_pool": Field(1, 0, 1), "downsample": Field(1, 1, 1), "spread": Field(1, 2, 1), "activation": Field(1, 3, 2),
    },
}  # fmt: skip
"""The fields of each command, and of each kind of `CONFIG`."""


def command(kind: Function | Configured, /, **values: int) -> Command:
    """Returns a command with the values of its fields; fields that are not given are 0."""
    registers = [kind.value if isinstance(kind, Configured) else 0, 0]
    for name, value in values.items():
        field = FIELDS[kind][name]
        assert 0 <= value < 1 << field.bits, f"{kind.name} {name} {value}"
        registers[field.register] |= value << field.low
    return (Function.CONFIG if isinstance(kind, Configured) else int(kind)), registers[0], registers[1]


def fields(kind: Function | Configured, first: int, second: int) -> dict[str, int]:
    """Returns the values of a command's fields."""
    registers = (first, second)
    return {
        name: registers[field.register] >> field.low & (1 << field.bits) - 1 for name, field in FIELDS[kind].items()
    }
