"""Finds the masks of attention, and gives masked scores the range that softmax needs.

A mask leaves some scores out of a softmax, or out of a search for the greatest. Exporters write it as a sum or a choice
with a number far below all scores: −∞, the least float32, −10⁹ or −10⁴.

    softmax(scores + mask)             where the mask is a constant, or is chosen or multiplied from one at run time
    softmax(where(keep, scores, −∞))
    arg_max(where(keep, scores, −∞))   likewise reduce_max and top_k

A mask may add other numbers to the scores that it keeps, such as biases of positions. Let b be the greatest of them,
and a the least of the greatest numbers of the rows: each row keeps a score of lo + a or more.

A range that holds a number far below would leave no integers for the scores. So neither the mask nor the masked scores
are observed; their ranges follow from the range [lo, hi] of the scores:

    masked scores   [lo + a − D, hi + b]
    mask            [lo + a − hi − D, b]

Where it is known only at run time which scores a mask keeps, a is the least number that it may add. A mask to which
numbers are added reaches lower by as much as these raise it.

Quantizing saturates a number below: a masked score becomes the least integer, D or more below the greatest score that
its row keeps. D is such that L masked scores together weigh less than half a step of the softmax against that score in
a row of length L: L · e^−D = step / 2. A search only needs numbers below all scores: D is a small share of the scores'
range.

A mask that is computed at run time multiplies a number far below by 0 where scores are kept, (1 − keep) · −3.4e38. The
number's own range ends where one step of the other factor already saturates the product:

    number          [−(hi − lo − a + D) / step of the other factor, 0]
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.calib import Bounds, Observation
from qmlir.dialects.nn import (
    AddOp,
    ArgMaxOp,
    ConstantOp,
    MinimumOp,
    MulOp,
    ReduceMaxOp,
    SoftmaxOp,
    TopKOp,
    WhereOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.traversal import needed_first
from qmlir.numerics.schemas import STORAGE_RANGES
from qmlir.settings.quant_config import OpConfig
from qmlir.transforms.quantize.ranges.margins import expected
from qmlir.transforms.quantize.ranges.scale_group import hull_of

FAR_BELOW = -1e4
"""A number from which down a constant masks: the greatest that exporters write."""

NEAR = -1e3
"""The least of a mask's other numbers, such as the biases of positions that are added with it."""

BELOW = 2.0**-6
"""D of a search, as a share of the range of its scores: more than a step of 8 bits."""

STEPS = {"int16": 2.0**-15}
"""The step of a softmax's result by precision; 2^-8 at 8 bits."""


@dataclass
class Masked:
    """Scores that are masked for a softmax or a search.

    y       the masked scores
    scores  the scores, before the mask
    mask    the values that hold numbers far below the scores, the mask that is added behind its parts
    length  the elements of a row of the softmax; 0 for a search
    axis    the axis of y along which a row lies, counted from the last: −1, −2, …; None if it is not known
    """

    y: SSAValue
    scores: SSAValue
    length: int
    mask: list[SSAValue] = field(default_factory=list[SSAValue])
    axis: int | None = None

    @property
    def kept(self) -> Bounds:
        """What the mask adds to the scores that it keeps: a and b of this module."""
        if isinstance(self.y.owner, WhereOp):
            return 0.0, 0.0
        mask = self.mask[-1]
        least, most = kept_numbers(self.mask)[mask] or (0.0, 0.0)
        if isinstance(mask.owner, ConstantOp) and self.axis is not None:
            return _least_of_rows(mask.owner.value.array, self.axis), most
        return least, most

    @property
    def factors(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        """The constants, far below all scores, that are factors of masks, each with the other factor of its product."""
        for op in (v.owner for v in self.mask):
            if isinstance(op, MulOp):
                yield (op.lhs, op.rhs) if _is_far_below(op.lhs) else (op.rhs, op.lhs)

    def distance(self, bounds: Bounds, op_config: OpConfig) -> float:
        """D: how far below the scores' range `bounds` the masked scores lie."""
        if not self.length:
            return (bounds[1] - bounds[0]) * BELOW
        return math.log(2 * self.length / STEPS.get(op_config.integers, 2.0**-8))


def masked_scores(block: Block) -> list[Masked]:
    """The masked scores of each softmax and of each search in a block, in its order."""
    return [m for op in block.ops if isinstance(op, SoftmaxOp) or _searches(op) for m in _masked(op)]


def _searches(op: Operation) -> TypeGuard[ArgMaxOp | ReduceMaxOp | TopKOp]:
    """Whether an operation searches for the greatest elements."""
    return isinstance(op, ArgMaxOp | ReduceMaxOp) or (isinstance(op, TopKOp) and bool(op.largest))


def unobserved(block: Block) -> set[SSAValue]:
    """The float values of a block that need no range of their own: masked scores and masks."""
    return {v for m in masked_scores(block) for v in (m.y, *m.mask)}


def ranges_of_masked(
    block: Block, observed: Mapping[SSAValue, Observation], op_config_of: Callable[[SSAValue], OpConfig]
) -> dict[SSAValue, Observation]:
    """The ranges of masked scores and of masks in a block, given what was observed of the scores.

    Args:
        block: The operations.
        observed: The observation of each tensor.
        op_config_of: Gives the quantization config of a tensor.
    """
    found: dict[SSAValue, Observation] = {}
    for masked in masked_scores(block):
        if (seen := _seen(masked.scores, {**observed, **found})) is None:
            continue
        op_config = op_config_of(masked.y)
        lo, hi = expected(masked.scores, seen, op_config).bounds
        least, most = masked.kept
        below = lo + least - masked.distance((lo + least, hi + most), op_config)
        found[masked.y] = Observation((below, hi + most), derived=True)
        for value, bounds in _ranges_of_masks(masked, below - hi):
            before = found[value].bounds if value in found else bounds  # several layers may read one mask
            found[value] = Observation((min(bounds[0], before[0]), max(bounds[1], before[1])), derived=True)
        for number, other in masked.factors:
            if (step := _step(other, observed, op_config_of(other))) is not None:
                reach = found[number].bounds[0] if number in found else 0.0
                found[number] = Observation((min(reach, max(_least(number), (below - hi) / step)), 0.0), derived=True)
    return found


def _ranges_of_masks(masked: Masked, least: float) -> Iterator[tuple[SSAValue, Bounds]]:
    """The ranges of a mask, which starts at `least`, and of the masks that it is computed from."""
    kept = kept_numbers(masked.mask)
    for value in masked.mask:
        raised = 0.0 if value is masked.mask[-1] else max(0.0, masked.kept[1])
        yield value, (least - raised, max(0.0, (kept[value] or (0.0, 0.0))[1]))


def kept_numbers(masks: Sequence[SSAValue]) -> dict[SSAValue, Bounds | None]:
    """The least and the greatest number that each of some masks adds to scores that it keeps; None if it keeps none.

    Args:
        masks: Each behind the masks that it is computed from.
    """
    found: dict[SSAValue, Bounds | None] = {}
    for mask in masks:
        found[mask] = _kept_by(mask, [found[v] if v in found else _near(v) for v in _data_of(mask)])
    return found


def _data_of(mask: SSAValue) -> Sequence[SSAValue]:
    return data_operands(mask.owner) if isinstance(mask.owner, Operation) else ()


def _kept_by(mask: SSAValue, parts: Sequence[Bounds | None]) -> Bounds | None:
    """The least and the greatest number that a mask adds to scores that it keeps, given those of its parts."""
    known = [part for part in parts if part is not None]
    match mask.owner:
        case ConstantOp():
            return _near(mask)
        case MulOp():
            return 0.0, 0.0
        case AddOp() | MinimumOp() if len(known) < len(parts):
            return None
        case AddOp():
            return sum(least for least, _ in known), sum(most for _, most in known)
        case MinimumOp():
            return min(least for least, _ in known), min(most for _, most in known)
        case _:
            return hull_of(known) if known else None


def _near(value: SSAValue) -> Bounds | None:
    """The least and the greatest of a constant's numbers that are not far below all scores; None without such."""
    if not isinstance(value.owner, ConstantOp):
        return None
    array = value.owner.value.array
    near = array[array > FAR_BELOW]
    return (float(near.min()), float(near.max())) if near.size else None


def _least_of_rows(mask: Array, axis: int) -> float:
    """The least of the greatest numbers of a mask's rows that keep scores; 0 if there are no such rows."""
    numbers = np.where(mask > FAR_BELOW, mask, -np.inf)
    greatest = numbers.max(axis=axis) if -axis <= mask.ndim else numbers
    kept = greatest[greatest > FAR_BELOW]
    return float(kept.min()) if kept.size else 0.0


def _step(value: SSAValue, observed: Mapping[SSAValue, Observation], op_config: OpConfig) -> float | None:
    """A step of a factor of a mask, from its range; None if the range is not known, or nothing but 0."""
    if (seen := _seen(value, observed)) is None:
        return None
    low, high = STORAGE_RANGES[op_config.integers]
    return (max(seen.bounds[1], 0.0) - min(seen.bounds[0], 0.0)) / (high - low) or None


def _least(value: SSAValue) -> float:
    """The least number of a constant."""
    assert isinstance(value.owner, ConstantOp)
    return float(value.owner.value.array.min())


def _seen(value: SSAValue, observed: Mapping[SSAValue, Observation]) -> Observation | None:
    """The observation of a value, or of the tensor whose elements it moves."""
    while value not in observed and isinstance(value.owner, MovementOp) and len(data_operands(value.owner)) == 1:
        value = data_operands(value.owner)[0]
    return observed.get(value)


def _masked(op: SoftmaxOp | ArgMaxOp | ReduceMaxOp | TopKOp) -> Iterator[Masked]:
    """What masks the operand of a softmax or a search: the sums and choices that it results from, the innermost first.

    Only searches may read numbers that are masked for a search.
    """
    length = shape_of(op.x)[op.axis.value.data] if isinstance(op, SoftmaxOp) else 0
    if not is_float(op.x) or not (length or all(_searches(u.operation) for u in op.x.uses)):
        return
    outer: list[Masked] = []
    value, axis = op.x, op.axis.value.data - len(shape_of(op.x)) if isinstance(op, SoftmaxOp) else None
    while True:
        while isinstance(value.owner, MovementOp) and len(data_operands(value.owner)) == 1 and value.has_one_use():
            value, axis = data_operands(value.owner)[0], None
        if (masked := _by_sum(value, length) or _by_choice(value, length)) is None:
            break
        outer.append(replace(masked, axis=axis))
        value = masked.scores
    yield from reversed(outer)


def _by_sum(value: SSAValue, length: int) -> Masked | None:
    """Scores to which a mask is added."""
    add = value.owner
    if not isinstance(add, AddOp) or add.bounds() != (None, None):
        return None
    for scores, mask in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
        if (values := _masks_of(mask)) and not _masks_of(scores):
            return Masked(value, scores, length, values)
    return None


def _by_choice(value: SSAValue, length: int) -> Masked | None:
    """Scores of which some are replaced by a number far below."""
    where = value.owner
    if not isinstance(where, WhereOp):
        return None
    for scores, mask in ((where.lhs, where.rhs), (where.rhs, where.lhs)):
        if _is_far_below(mask) and not _masks_of(scores):
            return Masked(value, scores, length, [mask])
    return None


def _masks_of(value: SSAValue) -> list[SSAValue]:
    """A mask, behind the masks that it is computed from; empty for a value that is no mask."""
    masks: set[SSAValue] = set()
    for each in needed_first([value], _parts):
        if is_float(each) and _is_mask(each, masks):
            masks.add(each)
    return list(needed_first([value], lambda v: [p for p in _parts(v) if p in masks])) if value in masks else []


def _parts(value: SSAValue) -> list[SSAValue]:
    """The values that decide whether a value is a mask."""
    match op := value.owner:
        case MovementOp() if len(data_operands(op)) == 1:
            return [data_operands(op)[0]]
        case WhereOp():
            return [v for v in (op.lhs, op.rhs) if not _is_plain(v)]
        case AddOp() | MinimumOp():
            return [v for v in op.operands if not _is_plain(v)]
        case _:
            return []


def _is_mask(value: SSAValue, masks: set[SSAValue]) -> bool:
    """Whether a value is a mask, given the masks among its parts."""
    parts_are = all(part in masks for part in _parts(value))
    match op := value.owner:
        case ConstantOp():
            array = op.value.array
            found = array.dtype.kind == "f" and array.size > 0 and bool((array <= FAR_BELOW).any())
            return found and bool(((array <= FAR_BELOW) | ((array >= NEAR) & (array <= -NEAR))).all())
        case MovementOp() if len(data_operands(op)) == 1:
            return parts_are
        case WhereOp():
            return parts_are and any(_is_far_below(v) for v in (op.lhs, op.rhs))
        case MulOp():
            return any(_is_far_below(v) for v in op.operands)
        case AddOp() | MinimumOp():
            return parts_are and bool(_parts(value))
        case _:
            return False


def _is_far_below(value: SSAValue) -> bool:
    """Whether a value is a constant that is far below all scores, everywhere."""
    return isinstance(value.owner, ConstantOp) and bool((value.owner.value.array <= FAR_BELOW).all())


def _is_plain(value: SSAValue) -> bool:
    """Whether a value is a constant of numbers that a mask may have beside those that mask."""
    return isinstance(value.owner, ConstantOp) and bool((np.abs(value.owner.value.array) <= -NEAR).all())
