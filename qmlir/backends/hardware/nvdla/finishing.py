"""What SDP makes of sums: a bias, a multiplier and one shift, a clamp and a zero point, in two stages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qmlir.backends.hardware.nvdla.jobs import MAX, MIN, SUM, Finish, Stage
from qmlir.backends.hardware.nvdla.layouts import ATOM, operand_bytes
from qmlir.devices.model.layer import Requantization
from qmlir.numerics import Array, Int64s
from qmlir.numerics.contracts import MULTIPLIER_BITS

CONTRACTS = ("away", "away16")
"""The contracts that a multiplication in SDP follows: one rounding, halves away from 0."""

FACTOR_BITS = 16
"""Bits of an operand, its sign included."""

MOST_RIGHT = 47
"""The longest shift of a product to the right: it has 48 bits."""

MOST_LEFT = 31
"""The longest shift of an addend to the left: values have 32 bits."""


@dataclass(frozen=True)
class Finishing:
    """Stages of SDP for the channels of a layer, and the operands that they read.

    constants  bytes of operands: for BS, and for BN if it reads some
    finish     the stages, their operands at address 0
    """

    constants: Sequence[bytes]
    finish: Finish

    def at(self, addresses: Sequence[int], first: int) -> Finish:
        """The stages for the channels from `first`, a multiple of 8, on, with the addresses of their operands."""
        stages = [self.finish.bs, self.finish.bn]
        own = iter(addresses)
        placed = [
            replace(stage, address=next(own) + first // ATOM * stage.surface) if stage.reads else stage
            for stage in stages
        ]
        return replace(self.finish, bs=placed[0], bn=placed[1])


def finishing(scale: Requantization, bias: Int64s) -> Finishing | str:
    """The stages that add a bias to sums and change their scale; why SDP cannot, as a sentence.

    Args:
        scale: The change of scale, of sums whose zero point is 0.
        bias: What is added to the sums of each channel.
    """
    if scale.contract not in CONTRACTS or scale.summand:
        return f"products are rounded once, halves away from 0, got {scale.contract}"
    factors = common_factors(scale.multipliers, scale.shifts)
    if isinstance(factors, str):
        return factors
    numbers, right = factors
    numbers = np.broadcast_to(numbers, bias.shape)
    lower, upper = scale.lower - scale.zero_point, scale.upper - scale.zero_point
    least, most = scale.lower > -128, scale.upper < 127
    rectifies = least and lower == 0
    clamps = [*([(MIN, upper)] if most else []), *([(MAX, lower)] if least and not rectifies else [])]
    if len(clamps) > 1:
        return f"results are clamped at one bound other than 0, got {lower} and {upper}"
    line = 2 * 2 * ATOM
    moved = _moved(bias)
    if moved is not None:
        addends, left = moved
        bs = Stage(SUM, alu_left=left, multiplies=True, right=right, rectifies=rectifies, line=line, surface=line)
        bn = Stage(*clamps[0]) if clamps else Stage()
        return Finishing([operand_bytes([addends, numbers])], Finish(bs, bn, scale.zero_point))
    if clamps:
        return (
            "a bias has 16 bits before it is moved left where results are clamped at another bound than 0, "
            f"got {_bits(bias)} bits"
        )
    low = (bias + (1 << 15) & 0xFFFF) - (1 << 15)
    high = bias - low >> 16
    if _bits(high) > FACTOR_BITS:
        return f"a bias has at most 32 bits, got {_bits(bias)}"
    bs = Stage(SUM, alu_left=16, line=line // 2, surface=line // 2)
    bn = Stage(SUM, multiplies=True, right=right, rectifies=rectifies, line=line, surface=line)
    return Finishing([operand_bytes([high]), operand_bytes([low, numbers])], Finish(bs, bn, scale.zero_point))


def common_factors(multipliers: Int64s, shifts: Int64s) -> tuple[Int64s, int] | str:
    """Factors of 16 bits and one shift to the right for all of them; why there are none, as a sentence.

    A factor is multiplier · 2^(shift − 31).
    """
    behind = [
        MULTIPLIER_BITS - int(s) - ((int(m) & -int(m)).bit_length() - 1)
        for m, s in zip(multipliers, shifts, strict=True)
        if m
    ]
    right = max([0, *behind])
    if right > MOST_RIGHT:
        return f"products are shifted right by at most {MOST_RIGHT} bits, got {right}"
    numbers = [
        int(m) << right + int(s) - MULTIPLIER_BITS
        if right + s >= MULTIPLIER_BITS
        else int(m) >> MULTIPLIER_BITS - right - int(s)
        for m, s in zip(multipliers, shifts, strict=True)
    ]
    bits = 1 + max((number.bit_length() for number in numbers), default=0)
    if bits > FACTOR_BITS:
        return f"all multipliers of a layer have {FACTOR_BITS} bits and one shift, got {bits} bits for one shift"
    return np.array(numbers, np.int64), right


def _moved(bias: Int64s) -> tuple[Array, int] | None:
    """Addends of 16 bits and how far they are shifted left; None if they have more bits."""
    any_of = int(np.bitwise_or.reduce(bias, initial=0))
    left = min((any_of & -any_of).bit_length() - 1, MOST_LEFT) if any_of else 0
    left = min(left, max(_bits(bias) - FACTOR_BITS, 0))
    return (bias >> left, left) if _bits(bias >> left) <= FACTOR_BITS else None


def _bits(numbers: Int64s) -> int:
    return 1 + max((int(n ^ n >> 63).bit_length() for n in numbers), default=0)
