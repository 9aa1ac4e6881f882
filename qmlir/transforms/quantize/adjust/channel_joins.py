"""Joins of contractions: channels that concatenations join, or that several contractions read, and their scaling.

In the fire module of a SqueezeNet, the channels of two expanding convolutions are joined and read by the next
squeezing convolution, whose channels two expanding convolutions read. Here, too, each channel can be multiplied before
and divided after (channel_pairs.py): in the contraction that makes it, and in every contraction that reads it. A
channel keeps its factor on its way through concatenations along the channels, pools and reshapes.

Works on a float network with observers that hold ranges.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.nn import ConcatOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.transforms.quantize.adjust.channel_pairs import (
    connected_results,
    has_own_range,
    is_scalable,
    is_spoken_for,
    keeps_channels,
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
        """The largest magnitude of each channel of the join, from the channels of each writer's result."""
        found = np.zeros(sum(w.output_channels() for w in self.writers))
        for writer in self.writers:
            found[self.places[writer.y]] = magnitudes[writer.y]
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
    if isinstance(op, ConcatOp):
        return op.axis == IntegerAttr(len(shape_of(op.results[0])) - 1, 64)
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
    """The places of the channels of each result; the channels of contractions are numbered in program order."""
    places: dict[SSAValue, Places] = {}
    count = 0
    for op in makers:
        if isinstance(op, WeightedOp):
            places[op.y] = np.arange(count, count := count + op.output_channels())
        else:
            places[op.results[0]] = np.concatenate([places[v] for v in op.operands])
    return places
