"""Transposes of squares: as many vectors as each has lanes, and columns that are packed by them."""

from collections.abc import Sequence

from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import Value


def transpose_square(rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of n vectors with n lanes each, n a power of two.

    Each of log2 n rounds exchanges two of the four quarters of every smaller square, by shuffles of two vectors.
    """
    count, found, half = len(rows), list(rows), 1
    while half < count:
        low = [lane if not lane & half else count + lane - half for lane in range(count)]
        high = [lane + half if not lane & half else count + lane for lane in range(count)]
        for i in range(count):
            if not i & half:
                first, second = found[i], found[i + half]
                found[i], found[i + half] = first.shuffle(second, low), first.shuffle(second, high)
        half *= 2
    return found


def square_side(machine: Capabilities, lanes: int = 16) -> int:
    """The side of the squares that a processor transposes in its registers, at most `lanes`; 0 if it should not.

    A square of 16 takes 16 of the 32 registers of 64 bytes, if there are such; one of 8 takes 8 of 32 bytes. What is to
    be small has no squares: their code is unrolled.
    """
    if machine.small or not machine.vectors:
        return 0
    return min(lanes, 16 if machine.wide_words else 8)


def in_turn(rows: Sequence[Value]) -> Value:
    """The lanes of 1, 2 or 4 vectors in turn: the first of each, the second of each, …"""
    if len(rows) == 1:
        return rows[0]
    return in_turn(rows[::2]).interleave(in_turn(rows[1::2]))
