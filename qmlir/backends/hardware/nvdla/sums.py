"""Sums of two tensors: a pass through SDP, or convolutions of 8 channels of each.

nv_small has no stage that multiplies both operands. Where the one multiplier is the other one shifted, plus or minus a
power of two, the second operand is added twice, in each stage, before and after the first operand is multiplied. Other
multipliers are weights of a convolution, which reads both tensors: a surface stride reaches from the one to the other.
They are two of 8 bits and one of 15 bits that both share. SDP rounds once in both cases.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from qmlir.backends.hardware.nvdla.finishing import FACTOR_BITS, MOST_RIGHT
from qmlir.backends.hardware.nvdla.jobs import BANK_BYTES, BANKS, SUM, Convolution, Cube, Finish, Pass, Stage
from qmlir.backends.hardware.nvdla.layouts import ATOM, weight_bytes
from qmlir.devices.model.layer import Addition, Layer
from qmlir.numerics.factors import shift_add

MOST_ENTRIES = (BANKS - 1) * BANK_BYTES // ATOM
"""Atoms of data that the convolution buffer holds beside a bank of weights."""


@dataclass(frozen=True)
class ConvolvedSum:
    """A sum of two tensors of one shape as convolutions.

    weights   the multipliers of the operands
    finish    what SDP makes of the sums
    channels  of each tensor
    """

    weights: tuple[int, int]
    finish: Finish
    channels: int

    def constants(self) -> Sequence[bytes]:
        """Weights: for the operands in memory in their order, and in the other one."""
        first, second = self.weights
        return [self._weights(first, second), self._weights(second, first)]

    def jobs(self, cubes: Sequence[Cube], addresses: Sequence[int]) -> Iterator[Convolution]:
        """Yields the jobs of the sum from its operands and its result, by strips of rows."""
        lhs, rhs, out = cubes
        swapped = lhs.address > rhs.address
        near, apart = min(lhs.address, rhs.address), abs(lhs.address - rhs.address)
        height = MOST_ENTRIES // (2 * out.columns)
        for first in range(0, out.channels, ATOM):
            written = range(first, min(first + ATOM, out.channels))
            at = addresses[swapped] + (0 if len(written) == ATOM else self._full)
            for row in range(0, out.rows, height):
                rows = range(row, min(row + height, out.rows))
                # The channels of the second operand are those behind the first one's, a surface of any distance away.
                source = replace(lhs, address=near).part(rows=rows, channels=range(first, first + ATOM))
                source = replace(source, channels=2 * ATOM, surface=apart)
                banks = -(-len(rows) * out.columns * 2 * ATOM // BANK_BYTES)
                one, none = (1, 1), (0, 0, 0, 0)
                yield Convolution(
                    source, out.part(rows=rows, channels=written), at, len(written) * 2 * ATOM, one, one, one, none, 0,
                    banks, 1, self.finish,
                )  # fmt: skip

    @property
    def _full(self) -> int:
        """Bytes of the weights of 8 channels; there are none if the tensors have fewer channels."""
        return 2 * ATOM * ATOM if self.channels >= ATOM else 0

    def _weights(self, first: int, second: int) -> bytes:
        """The weights of 8 channels and of the last channels, if these are fewer."""
        blocks = [ATOM] * (self.channels >= ATOM) + [self.channels % ATOM] * (self.channels % ATOM > 0)
        found: list[bytes] = []
        for outputs in blocks:
            weights = np.zeros((outputs, 1, 1, 2 * ATOM), np.int8)
            diagonal = np.arange(outputs)
            weights[diagonal, 0, 0, diagonal], weights[diagonal, 0, 0, ATOM + diagonal] = first, second
            found.append(weight_bytes(weights))
        return b"".join(found)


@dataclass(frozen=True)
class PassedSum:
    """A sum of two tensors of one shape as one pass through SDP: the second, or the first, is an operand of stages.

    finish   what SDP makes of the values of the one tensor, with operands at address 0
    swapped  whether that is the second tensor
    """

    finish: Finish
    swapped: bool

    def constants(self) -> Sequence[bytes]:
        """There are none."""
        return ()

    def jobs(self, cubes: Sequence[Cube], _: Sequence[int]) -> Iterator[Pass]:
        """Yields the pass from the operands and the result."""
        lhs, rhs, out = cubes
        source, other = (rhs, lhs) if self.swapped else (lhs, rhs)
        bs, bn = (
            replace(stage, address=other.address, line=other.line, surface=other.surface) if stage.reads else stage
            for stage in (self.finish.bs, self.finish.bn)
        )
        yield Pass(source, out, replace(self.finish, bs=bs, bn=bn))


def sum_of(addition: Addition, layer: Layer) -> PassedSum | ConvolvedSum | str:
    """A sum of two tensors; why NVDLA cannot compute it, as a sentence."""
    shapes = [tensor.shape for tensor in (*layer.inputs, layer.output)]
    if len(set(shapes)) != 1:
        got = " and ".join("x".join(map(str, shape)) for shape in shapes[:2])
        return f"tensors that are added have one shape, got {got}"
    if 2 * layer.output.shape[2] > MOST_ENTRIES:
        return f"rows of sums have at most {MOST_ENTRIES // 2} columns, got {layer.output.shape[2]}"
    common, shift = gcd(addition.multiplier, addition.other_multiplier), addition.shift
    weights = addition.multiplier // max(common, 1), addition.other_multiplier // max(common, 1)
    if max(map(abs, weights)) > 127:
        return f"operands have multipliers of 8 bits beside one of both, got {weights[0]} and {weights[1]}"
    while common and common % 2 == 0 and shift > 1:
        common, shift = common // 2, shift - 1
    if common.bit_length() > FACTOR_BITS - 2 or shift >= MOST_RIGHT:
        return f"the multiplier of both operands has 15 bits and a shift of less than {MOST_RIGHT}, got {common}"
    lower, upper = addition.lower - addition.zero_point, addition.upper - addition.zero_point
    if addition.upper < 127 or (addition.lower > -128 and lower):
        return f"sums are clamped at 0 alone, got {lower} and {upper}"
    offset = -addition.own_zero_point * weights[0] - addition.other_zero_point * weights[1]
    # (v · q + 2^(s − 1)) >> s rounds halves up; (2 · v · q + 1) / 2^(s + 1) is nearest to the same integer, never half.
    rectifies = addition.lower > -128
    if (found := _passed(addition, weights, common, shift, offset)) is not None:
        return found
    bs = Stage(SUM, alu_value=offset, multiplies=True, multiplier=2 * common)
    bn = Stage(SUM, alu_value=1, multiplies=True, multiplier=1, right=shift + 1, rectifies=rectifies)
    return ConvolvedSum(weights, Finish(bs, bn, addition.zero_point), layer.output.shape[3])


def _passed(addition: Addition, weights: tuple[int, int], common: int, shift: int, offset: int) -> PassedSum | None:
    """The sum as a pass through SDP; None if its multipliers, or its clamp, do not allow it.

    Args:
        addition: The sum.
        weights: The multipliers of the operands without what both share.
        common: What both share.
        shift: By how many bits the products of all three are shifted right.
        offset: What is added to the sum of the products of the operands with their weights.
    """
    swapped = weights[0] > weights[1]
    small, large = sorted(weights)
    terms = shift_add(small, large)
    # The conversion shifts 2 · v + 1, which is never half, as the stages of a convolution do.
    addend = 2 * common * offset + 1 + (addition.zero_point << shift + 1)
    rectifies = addition.lower > -128
    if terms is None or abs(addend) >= 1 << 31 or (rectifies and offset):
        return None
    left, again, sign = terms
    bs = Stage(SUM, alu_left=left, multiplies=True, multiplier=sign * small, elements=True)
    alu = None if again is None else SUM
    bn = Stage(alu, alu_left=again or 0, multiplies=True, multiplier=2 * sign * common, rectifies=rectifies,
               elements=again is not None)  # fmt: skip
    return PassedSum(Finish(bs, bn, addend, shift + 1), swapped)
