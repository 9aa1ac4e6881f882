"""Joins of contractions: channels that concatenations or sums join, or that several contractions read, scaled alike.

In the fire module of a SqueezeNet, the channels of two expanding convolutions are joined and read by the next
squeezing convolution, whose channels two expanding convolutions read. Along the residual stream of a ResNet, many
convolutions add to the same channels. Here, too, each channel can be multiplied before and divided after
(channel_pairs.py): in the contractions that make it, and in every contraction that reads it. A channel keeps its factor
on its way through concatenations along the channels, sums, zeros around it, pools and reshapes. Channels that a sum
adds have one factor.

Works on a float network with observers that hold ranges.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.nn import AddOp, ConcatOp, PadOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.transforms.quantize.adjust.channel_pairs import (
    connected_results,
    has_own_range,
    is_scalable,
    is_spoken_for,
    keeps_channels,
    moved_operands,
    note_factors,
    readers_of,
    reads_all_channels,
    scale_reader,
    scale_result,
)

Places = npt.NDArray[np.intp]
"""The index, among all channels of a join, of each channel of a tensor."""


@dataclass(frozen=True)
class ChannelJoin:
    """Contractions that make channels, operations that join and move these, and the contractions that read them.

    places   tensor → the places of its channels among those of the join, in program order
    writers  the contractions that make the tensors that nothing else makes
    readers  the contractions that read a tensor; no other operation reads one without making another
    """

    places: dict[SSAValue, Places]
    writers: tuple[WeightedOp, ...]
    readers: tuple[WeightedOp, ...]

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The tensors in between, in order."""
        return tuple(self.places)

    def highest(self, magnitudes: dict[SSAValue, Array]) -> Array:
        """The largest magnitude of each channel of the join, from the channels of its tensors."""
        found = np.zeros(1 + max(int(places.max()) for places in self.places.values()))
        for value, places in self.places.items():
            np.maximum.at(found, places, magnitudes[value])
        return found

    def scale(self, factors: Array) -> None:
        """Multiplies the channels in between by factors above 0, one for each channel of the join."""
        for value, places in self.places.items():
            assert isinstance(value.owner, Operation)
            note_factors(value.owner, factors[places])
        for writer in self.writers:
            scale_result(writer, factors[self.places[writer.y]])
        for reader in self.readers:
            scale_reader(reader, factors[self.places[reader.x]])


def channel_joins(block: Block) -> list[ChannelJoin]:
    """The joins of a network, in order. What `channel_pairs` finds is not among them."""
    order = {op: place for place, op in enumerate(block.ops)}
    found = (_join(order, values) for values in connected_results(block, _passes_on))
    return [join for join in found if join is not None]


def _passes_on(op: Operation) -> bool:
    """Whether each channel of an operation's operands is a channel of its result."""
    match op:
        case ConcatOp():
            return op.axis == IntegerAttr(len(shape_of(op.y)) - 1, 64)
        case AddOp():
            like = is_float(op.y) and shape_of(op.lhs) == shape_of(op.rhs) == shape_of(op.y)
            return like and op.bounds() in ((None, None), (0.0, None))
        case PadOp():
            return op.stored_value() == 0
        case _:
            return keeps_channels(op)


def _join(order: Mapping[Operation, int], values: Collection[SSAValue]) -> ChannelJoin | None:
    """The join that connected values form; None if it is a pair, if others make or read them, or by a policy.

    Args:
        order: The operations of the network, with their places in it.
        values: The values.
    """
    makers = sorted({v.owner for v in values if isinstance(v.owner, Operation)}, key=order.__getitem__)
    writers = [o for o in makers if isinstance(o, WeightedOp)]
    if len(makers) < len(values) or not all(isinstance(o, WeightedOp) or _passes_on(o) for o in makers):
        return None
    reading = [r for v in values for r in readers_of(v) if not _passes_on(r)]
    readers = sorted({o for o in reading if isinstance(o, WeightedOp)}, key=order.__getitem__)
    if len(readers) < len(reading) or not readers or len(writers) == len(readers) == 1:
        return None
    if not all(is_scalable(o) and o.bounds() in ((None, None), (0.0, None)) for o in writers):
        return None
    if not all(is_scalable(o) and o.x in values and reads_all_channels(o) for o in readers):
        return None
    said = any(map(is_spoken_for, values)) or any(map(has_own_range, makers))
    return None if said else ChannelJoin(_places(makers), tuple(writers), tuple(readers))


def _places(makers: Sequence[Operation]) -> dict[SSAValue, Places]:
    """The places of the channels of each result, in program order; channels that are added have the same place."""
    places: dict[SSAValue, Places] = {}
    same: list[int] = []  # number of a channel → a lower number of the same place, or its own

    def numbered(count: int) -> Places:
        same.extend(range(len(same), len(same) + count))
        return np.arange(len(same) - count, len(same))

    for op in makers:
        inputs = [places[v] for v in moved_operands(op)] if not isinstance(op, WeightedOp) else []
        match op:
            case WeightedOp():
                found = numbered(op.output_channels())
            case ConcatOp():
                found = np.concatenate(inputs)
            case AddOp():
                for one, other in zip(*inputs, strict=True):
                    low, high = sorted((_first(same, one), _first(same, other)))
                    same[high] = low
                found = inputs[0]
            case PadOp():
                low, high = op.pads()[-1]
                found = np.concatenate([numbered(low), inputs[0], numbered(high)])
            case _:
                (found,) = inputs
        places[op.results[0]] = found
    firsts = np.array([_first(same, number) for number in range(len(same))])
    _, settled = np.unique(firsts, return_inverse=True)
    return {value: settled[found] for value, found in places.items()}


def _first(same: Sequence[int], number: int) -> int:
    """The lowest number of the place that a channel's number stands for."""
    while same[number] != number:
        number = same[number]
    return number
