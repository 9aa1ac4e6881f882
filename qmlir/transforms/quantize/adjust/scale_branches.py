"""Branches of a concatenation that are much smaller than others, where contractions read the whole.

All branches have the step of the largest one. A gate in [0, 1] beside features that reach 30 would be five integers,
although the layer that reads both may have large weights for the gate. The small branch is multiplied by a power of
two, and the reading layers' weights for its channels are divided by it: exact in floats. The factor costs nothing where
a contraction makes the branch; elsewhere it is one more change of scale, which merges into tables.

Of a network with a sigmoid that reaches a sixtieth of the features beside it, the result gains 0.7 dB where the weights
for both are alike, and 6 where those for the sigmoid are four times as large.
"""

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConcatOp, ConstantOp, DepthwiseConv2DOp, MulOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.target import Target
from qmlir.ir.facts import POLICY
from qmlir.ir.interfaces import Array, shape_of
from qmlir.transforms.quantize.adjust.channel_pairs import (
    constant_array,
    is_scalable,
    is_spoken_for,
    keeps_channels,
    note_factors,
    observe_anew,
    readers_of,
    reads_all_channels,
    scale_reader,
    scale_result,
)

SMALL = 2.0**-3
"""The share of the largest branch's magnitude from which a branch is multiplied."""


def scale_branches(
    block: Block, inputs: Sequence[Sequence[Array]], gains: Callable[[SSAValue, WeightedOp], bool], target: Target
) -> None:
    """Multiplies small branches of concatenations of a float network, whose weights and observers change.

    Args:
        block: The network.
        inputs: Samples, each an array for each input.
        gains: Whether precision of a tensor is worth more than that of the weights of a contraction that reads it.
        target: The target; where it does not multiply, branches stay that no contraction makes.
    """
    multiplies = all(target.refusal("nn.mul", storage) is None for storage in ("i8", "i16"))
    changed: list[SSAValue] = []
    for concat in [op for op in block.ops if isinstance(op, ConcatOp)]:
        behind, readers = _read_by(concat)
        gain = readers and all(gains(reader.x, reader) for reader in readers)
        factors = _factors(concat, readers, multiplies) if gain else []
        if any(factor > 1 for factor in factors):
            changed += [_multiply(concat, index, factor) for index, factor in enumerate(factors) if factor > 1]
            changed += behind
            channels = np.repeat(factors, [shape_of(x)[-1] for x in concat.inputs])
            for reader in readers:
                scale_reader(reader, channels)
    observe_anew(block, changed, inputs)


def _read_by(concat: ConcatOp) -> tuple[list[SSAValue], list[WeightedOp]]:
    """The joined tensor and what pools and rectifiers make of it, and the contractions that read these.

    No contractions if something else reads them, or if the policy says more of a tensor.
    """
    behind, readers = list[SSAValue]([concat.y]), list[WeightedOp]()
    last = concat.axis == IntegerAttr(len(shape_of(concat.y)) - 1, 64)
    if not last or not is_float(concat.y) or POLICY.on(concat) or any(map(is_spoken_for, concat.operands)):
        return behind, []
    for value in behind:  # which grows
        for op in readers_of(value):
            if isinstance(op, WeightedOp) and op.x is value and is_scalable(op) and reads_all_channels(op):
                readers.append(op)
            elif keeps_channels(op) and not POLICY.on(op):
                behind.append(op.results[0])
            else:
                return behind, []
    return behind, [] if any(map(is_spoken_for, behind)) else readers


def _factors(concat: ConcatOp, readers: Sequence[WeightedOp], multiplies: bool) -> list[float]:
    """A power of two for each branch: 1 for those that are constant, unknown, or not much smaller than the largest.

    As equalization's, a factor is at most the root of what the data gain and the weights can spare: data and weights
    then have digits alike.
    """
    highest = [max(map(abs, o.bounds)) if (o := _observer(x)) is not None and o.bounds else 0.0 for x in concat.inputs]
    top, ends = max(highest), np.cumsum([shape_of(x)[-1] for x in concat.inputs])
    found: list[float] = []
    for x, high, end in zip(concat.inputs, highest, ends, strict=True):
        factor = 1.0
        if 0 < high < SMALL * top and (multiplies or _maker(x) is not None):
            spare = min(_share_of_weights(reader, slice(end - shape_of(x)[-1], end)) for reader in readers)
            factor = 2.0 ** np.floor(np.log2(min(top / high, max(1.0, np.sqrt(top / high * spare)))))
        found.append(factor)
    return found


def _share_of_weights(reader: WeightedOp, channels: slice) -> float:
    """The largest weight for some channels, in parts of the largest for the others, with which it shares its steps."""
    if isinstance(reader, DepthwiseConv2DOp):
        return np.inf  # each channel has steps of its own
    weights = constant_array(reader.w)
    assert weights is not None, "a contraction that can be scaled has constant weights"
    magnitudes = np.abs(weights)
    largest = magnitudes.max(axis=tuple(range(magnitudes.ndim - 1)), initial=0)
    others = np.delete(largest, channels).max(initial=0)
    return float(largest[channels].max(initial=0) / others) if others > 0 else np.inf


def _observer(x: SSAValue) -> ObserveOp | None:
    return next((use.operation for use in x.uses if isinstance(use.operation, ObserveOp)), None)


def _maker(x: SSAValue) -> WeightedOp | None:
    """The contraction that makes a branch which nothing else reads, if its bounds stay where it is multiplied."""
    maker = x.owner
    if not isinstance(maker, WeightedOp) or len(readers_of(x)) > 1 or not is_scalable(maker):
        return None
    return maker if maker.bounds() in ((None, None), (0.0, None)) else None


def _multiply(concat: ConcatOp, index: int, factor: float) -> SSAValue:
    """Multiplies a branch, in the contraction that makes it if there is one; returns the multiplied tensor."""
    x = concat.inputs[index]
    if (maker := _maker(x)) is not None:
        factors = np.full(maker.output_channels(), factor)
        note_factors(maker, factors)
        scale_result(maker, factors)
        return x
    constant = ConstantOp(np.array(factor, np.float32))
    product = MulOp.make([x, constant.y])
    before = _observer(x)
    assert before is not None, "a factor above 1 comes from a range"
    observer = ObserveOp(product.y, f"{before.tensor.data} scaled")
    Rewriter.insert_op([constant, product, observer], InsertPoint.before(concat))
    concat.operands[index] = product.y
    return product.y
