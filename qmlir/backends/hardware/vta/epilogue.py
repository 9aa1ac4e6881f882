"""What the vector unit makes of sums: changes of scale by shifts, bounds, and other tensors that are added.

A change of scale rounds half up: half of what the shift drops is added before, as part of the bias where there is one.
Shifts beyond 15 are several, which give the same number since each rounds down. All numbers are followed by their
bounds, so that nothing wraps that must not, and steps without an effect are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from qmlir.backends.hardware.vta.instructions import Operation
from qmlir.devices.model.layer import Addition, Requantization, Step
from qmlir.numerics import Array

LEAST, MOST = -(1 << 31), (1 << 31) - 1
FACTOR, REPEATS = 64, 64
"""The largest power of two that a weight holds, and how often a product may be added to make a larger factor."""


class Refusal(Exception):
    """Says why the device cannot compute a layer, as a sentence."""


@dataclass(frozen=True)
class Immediate:
    """An operation of each sum with a number."""

    operation: Operation
    value: int


@dataclass(frozen=True, eq=False)
class PerChannel:
    """Adds a number to each channel; int64 [channels]."""

    values: Array


@dataclass(frozen=True)
class Sign:
    """Subtracts 1 from what is below 0."""


@dataclass(frozen=True)
class Times:
    """Multiplies by an odd number: shifts to the left, and additions of what there was."""

    factor: int


@dataclass(frozen=True)
class Merge:
    """Adds another tensor `factor` times; `number` is that of the layer's input."""

    number: int
    factor: int


Act: TypeAlias = Immediate | PerChannel | Sign | Times | Merge


def power_of(number: int) -> int | None:
    """The exponent of a power of two; None for another number."""
    return number.bit_length() - 1 if number > 0 and number & number - 1 == 0 else None


def check_factor(number: int) -> None:
    """Refuses a factor that no weight, nor a weight several times, makes.

    Raises:
        Refusal: It is such a factor.
    """
    if 0 < number <= 127 or (power_of(number) is not None and number <= FACTOR * REPEATS):
        return
    raise Refusal(f"VTA multiplies tensors by 1 to 127, or by a power of two up to {FACTOR * REPEATS}, got {number}")


class Epilogue:
    """The acts on sums, in order, and the bounds of what they make: int64 [channels].

    Raises `Refusal` for what the vector unit cannot do.
    """

    def __init__(self, lower: Array, upper: Array):
        self.acts: list[Act] = []
        self.lower, self.upper = lower.astype(np.int64), upper.astype(np.int64)
        self._check()

    def _check(self) -> None:
        if self.lower.min() < LEAST or self.upper.max() > MOST:
            worst = max(-int(self.lower.min()), int(self.upper.max()))
            raise Refusal(f"VTA's sums wrap at 32 bits, and they may reach {worst}")

    def add(self, values: Array) -> None:
        """Adds a number to each channel."""
        self.lower, self.upper = self.lower + values, self.upper + values
        self._check()
        if not values.any():
            return
        if self.acts and isinstance(self.acts[-1], PerChannel):
            self.acts[-1] = PerChannel(self.acts[-1].values + values)
        elif (values == values[0]).all() and abs(int(values[0])) < 1 << 15:
            self.acts.append(Immediate(Operation.ADD, int(values[0])))
        else:
            self.acts.append(PerChannel(values.astype(np.int64)))

    def clamp(self, lower: int, upper: int) -> None:
        """Bounds of int16 at most; steps that change nothing are left out."""
        if self.lower.min() < lower:
            self.acts.append(Immediate(Operation.MAX, lower))
        if self.upper.max() > upper:
            self.acts.append(Immediate(Operation.MIN, upper))
        self.lower, self.upper = self.lower.clip(lower, upper), self.upper.clip(lower, upper)

    def shift(self, right: int) -> None:
        """Shifts to the right and rounds down, or to the left."""
        if right < 0:
            self.lower, self.upper = self.lower << -right, self.upper << -right
            self._check()
        else:
            self.lower, self.upper = self.lower >> right, self.upper >> right
        while right:
            part = min(max(right, -16), 15)
            self.acts.append(Immediate(Operation.SHIFT, part))
            right -= part

    def away(self, right: int) -> None:
        """Shifts to the right and rounds halves away from 0."""
        if right:
            if self.lower.min() < 0:
                self.acts.append(Sign())
                self.lower = self.lower - (self.lower < 0)
                self.upper = self.upper - (self.upper < 0)
            self.add(np.full(len(self.lower), 1 << right - 1))
            self.shift(right)

    def divide(self, number: int) -> None:
        """Divides sums of so many int8 and rounds halves away from 0: a product, an addition, a shift to the right."""
        factor, added, right = quotient(number)
        self.acts.append(Times(factor))
        self.lower, self.upper = self.lower * factor, self.upper * factor
        self.add(np.full(len(self.lower), added))
        self.shift(right)

    def requantize(self, step: Requantization) -> None:
        """A change of scale by a power of two, one for all channels."""
        if step.contract != "shift" or len(set(step.multipliers.tolist())) != 1 or len(set(step.shifts.tolist())) != 1:
            raise Refusal(f"VTA changes scales by one power of two, got the contract {step.contract}")
        exponent = power_of(int(step.multipliers[0]))
        if exponent is None or step.summand != 0:
            raise Refusal(f"VTA changes scales by powers of two, got the multiplier {int(step.multipliers[0])}")
        right = 31 - int(step.shifts[0]) - exponent
        same = np.ones(len(self.lower), np.int64)
        self.add(-step.input_zero_point * same)
        if right > 31:
            raise Refusal(f"VTA shifts sums of 32 bits by at most 31, got {right}")
        if right > 0:
            self.add((1 << right - 1) * same)
        elif right < 0:
            if right < -16:
                raise Refusal(f"VTA shifts to the left by at most 16, got {-right}")
            self.clamp(-256, 256)  # what lies beyond is beyond the bounds after the shift, too
        self.shift(right)
        self._finish(step.zero_point, step.lower, step.upper)

    def merge(self, step: Addition, number: int) -> None:
        """Adds another tensor; the sums have been multiplied with `own_factor(step)` already."""
        _, other, right = factors(step)
        check_factor(other)
        self.acts.append(Merge(number, other))
        self.lower, self.upper = self.lower - 128 * other, self.upper + 127 * other
        self._check()
        if right > 0:
            self.add(np.full(len(self.lower), 1 << right - 1))
        self.shift(right)
        self._finish(step.zero_point, step.lower, step.upper)

    def _finish(self, zero_point: int, lower: int, upper: int) -> None:
        self.add(np.full(len(self.lower), zero_point))
        self.clamp(lower, upper)


@cache
def quotient(number: int) -> tuple[int, int, int]:
    """A factor, a summand and a shift that divide sums of `number` int8: x · factor + summand, shifted to the right.

    They give every such sum divided by the number, with halves away from 0, in 32 bits. The factor is odd, as the shift
    is the least one: half of an even factor would do with a smaller one.

    Raises:
        Refusal: There are none.
    """
    sums = np.arange(-128 * number, 127 * number + 1)
    wanted = np.sign(sums) * ((2 * abs(sums) + number) // (2 * number))
    for right in range(1, 31):
        for factor in ((1 << right) // number, (1 << right) // number + 1):
            products = sums * factor
            least, most = (wanted << right) - products, (wanted + 1 << right) - products
            added = int(least.max())
            fits = factor and added < most.min() and -(1 << 31) <= products[0] <= products[-1] + added < 1 << 31
            if fits and products[0] + added >= -(1 << 31):
                return factor, added, right
    raise Refusal(f"VTA divides by a product in 32 bits, got means of {number} elements")


def factors(step: Addition) -> tuple[int, int, int]:
    """The factors of both tensors of a sum and the shift to the right behind it, without common powers of two."""
    if step.own_zero_point or step.other_zero_point:
        raise Refusal(f"VTA adds tensors without zero points, got {step.own_zero_point} and {step.other_zero_point}")
    own, other, right = step.multiplier, step.other_multiplier, step.shift
    if own <= 0 or other <= 0:
        raise Refusal(f"VTA adds tensors with factors above 0, got {min(own, other)}")
    common = min((own | other) & -(own | other), 1 << right)
    return own // common, other // common, right - (common.bit_length() - 1)


def behind(epilogue: Epilogue, steps: Sequence[Step], number: int) -> None:
    """Adds the steps behind the first one of a layer; `number` is that of the next input that they read.

    Raises:
        Refusal: The vector unit cannot compute one of them.
    """
    for step in steps:
        match step:
            case Requantization():
                epilogue.requantize(step)
            case Addition():
                own, _, _ = factors(step)
                exponent = power_of(own)
                if exponent is None or exponent > 16:
                    raise Refusal(f"VTA multiplies sums by powers of two up to {1 << 16}, got {own}")
                epilogue.shift(-exponent)
                epilogue.merge(step, number)
                number += 1
            case _:
                raise Refusal(f"VTA computes sums, their scales and bounds, got a {type(step).__name__.lower()}")
