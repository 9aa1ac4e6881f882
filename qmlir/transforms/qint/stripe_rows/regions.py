"""Regions of rows: operations of an integer network that compute each row of large tensors by itself.

The rows of a tensor are what lies along one of its axes. Attention computes scores, exponentials and sums of products
of each row of queries by itself, and a gated feed-forward network the elements of each row. Which axis of a result
holds the rows is what operations say of the samples of a batch (ir/samples.py), for as many samples as there are rows.

A region contains each operation that computes or reads one of its large tensors, so that none of them exists as a
whole if the region is computed some rows at a time. The tensors at the ends of a region are small: they are cut into
stripes in front of it, and joined behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, OpResult, SSAValue

from qmlir.dialects.batches import Place, place_in_batch
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.movement import MovementOp, ReshapeOp
from qmlir.dialects.qint.requantize import RequantizeOp
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.ir.samples import MixesSamples, moved_axis
from qmlir.ir.types import dtype_of, is_integer

MOST_OPERATIONS = 48
"""The most operations of a region: more than attention or a feed-forward network has. A search that finds more has
followed the residual stream into other layers."""

NEAR = 8
"""How many readers behind a large tensor are asked along which of their axes rows lie."""


def bytes_of(value: SSAValue) -> int:
    """The bytes that a tensor of integers takes; 0 if the kernel of the operation behind it computes it, too.

    Sums that only a requantization reads stay in registers.
    """
    readers, itemsize = list(value.uses), dtype_of(element_of(value)).itemsize
    alone = len(readers) == 1 and isinstance(readers[0].operation, RequantizeOp)
    if alone and itemsize >= 4 and not isinstance(value.owner, MovementOp):
        return 0
    return prod(shape_of(value)) * itemsize


def _is_fused(value: SSAValue) -> bool:
    """Whether a computed value is nowhere in memory."""
    return isinstance(value, OpResult) and bytes_of(value) == 0 and prod(shape_of(value)) > 0


@dataclass
class Region:
    """Operations that compute rows by themselves.

    rows    the number of rows
    large   the bytes above which a tensor must not leave the region
    places  where the rows lie in each operand of each operation; None for an operand that all rows read
    results where the rows lie in each result
    """

    rows: int
    large: int
    places: dict[Operation, Sequence[Place | None]] = field(default_factory=dict[Operation, Sequence[Place | None]])
    results: dict[SSAValue, Place] = field(default_factory=dict[SSAValue, Place])

    @property
    def operations(self) -> list[Operation]:
        """The operations in the order of the network."""
        (parent,) = {op.parent for op in self.places}
        assert parent is not None
        return [op for op in parent.ops if op in self.places]

    def outputs(self) -> list[SSAValue]:
        """The results that operations outside of the region read."""
        made_again = {op for op in self.places if is_made_again(op.results[0])}
        return [
            op.results[0]
            for op in self.operations
            if op not in made_again and any(use.operation not in self.places for use in op.results[0].uses)
        ]

    def behind(self) -> list[Operation] | None:
        """What stands between the operations and depends on them, and so has to stand behind them.

        Returns:
            These operations in order; None if an operation of the region reads what they compute.
        """
        operations = self.operations
        found: dict[Operation, None] = {}
        op: Operation | None = operations[0]
        while op is not None and op is not operations[-1]:
            op = op.next_op
            makers = [x.owner for x in op.operands if isinstance(x.owner, Operation)] if op is not None else []
            later = any(maker in found for maker in makers)
            if op in self.places:
                if later:
                    return None
            elif op is not None and (
                later or any(m in self.places and not is_made_again(m.results[0]) for m in makers)
            ):
                found[op] = None
        return [*found]

    def bytes_of_row(self) -> float:
        """The bytes of the tensors of one row that exist at a time, at most."""
        operations = self.operations
        last = {x: n for n, op in enumerate(operations) for x in op.operands}
        live, most = 0, 0
        for n, op in enumerate(operations):
            live += bytes_of(op.results[0])
            most = max(most, live)
            live -= sum(bytes_of(x) for x in {*op.operands} if x in self.results and last[x] == n)
        return most / self.rows

    def grow(self, seed: Operation, place: Place) -> bool:
        """Adds an operation, and all that computes and reads the large tensors around it.

        Returns:
            Whether they compute rows by themselves; if not, the region is of no use.
        """
        waiting: list[tuple[Operation, Place | None]] = [(seed, place)]
        while waiting:
            op, wanted = waiting.pop()
            if op in self.places:
                if wanted not in (None, self.results[op.results[0]]):
                    return False
                continue
            if len(self.places) == MOST_OPERATIONS or not may_divide(op):
                return False
            if (found := self._places(op, wanted)) is None:
                return False
            self.places[op], self.results[op.results[0]] = found
            for x, own in zip(op.operands, found[0], strict=True):
                if own is not None and (self._belongs(x) or own.outer > 1):
                    if not isinstance(x.owner, Operation):
                        return False
                    waiting.append((x.owner, own))
            y = op.results[0]
            if (self._belongs(y) and not is_made_again(y)) or self.results[y].outer > 1:
                waiting += ((use.operation, None) for use in y.uses)
        return all(
            self.results.get(x, own) == own
            for op, places in self.places.items()
            for x, own in zip(op.operands, places, strict=True)
        )

    def _belongs(self, value: SSAValue) -> bool:
        """Whether a value is computed in the region if an operation of the region computes or reads it."""
        if isinstance(value.owner, ConstantOp) or not isinstance(value, OpResult):
            return False
        return _is_fused(value) or bytes_of(value) > self.large

    def _places(self, op: Operation, wanted: Place | None) -> tuple[Sequence[Place | None], Place] | None:
        """Where the rows lie in an operation's operands and in its result; None if it mixes rows."""
        known = [self.results[x] for x in op.operands if x in self.results]
        outer = next((place.outer for place in ([] if wanted is None else [wanted]) + known), 1)
        choices = [list(self._choices(op, x, outer, wanted)) for x in op.operands]
        samples = self.rows if isinstance(op, ReshapeOp) else 1  # no constant is taken to be alike for all rows
        for places in product(*choices):
            try:
                found = place_in_batch(op, places, samples) if any(places) else None
            except MixesSamples:
                continue
            if found is not None and wanted in (None, found) and _fits(op.results[0], found, self.rows):
                return places, found
        return None

    def _choices(self, op: Operation, x: SSAValue, outer: int, wanted: Place | None) -> Iterator[Place | None]:
        """Where the rows may lie in an operand."""
        if x in self.results:
            yield self.results[x]
            return
        if not self._belongs(x):
            yield None
        if isinstance(op, ReshapeOp) and wanted is not None:
            try:
                yield Place(*moved_axis(wanted.axis, wanted.outer, shape_of(op.y), shape_of(x), self.rows))
            except MixesSamples:
                return
            return
        yield from (Place(axis, outer) for axis, n in enumerate(shape_of(x)) if n == self.rows * outer)


def is_made_again(value: SSAValue) -> bool:
    """Whether each region that reads a value computes it for itself: masks, which many layers share."""
    return element_of(value) == i1


def _fits(value: SSAValue, place: Place, rows: int) -> bool:
    return shape_of(value)[place.axis] % (rows * place.outer) == 0


def may_divide(op: Operation) -> bool:
    """Whether an operation computes one tensor from others, all of integers; floats add up in an order of their own."""
    if not isinstance(op, TensorOp) or len(op.results) != 1 or isinstance(op, ConstantOp):
        return False
    return all(is_integer(element_of(value)) for value in (*op.operands, *op.results))


def region_around(op: Operation, small: int) -> Region | None:
    """The region with the most rows that contains an operation, and whose ends are as small as they can be.

    Args:
        op: The operation.
        small: The bytes of a tensor that may be an end of the region whatever the others are.
    """
    seeds, value = [op], op.results[0]
    while len(seeds) < NEAR and (reader := _reader(value)) is not None:
        seeds.append(reader)
        value = reader.results[0]
    tried = [
        (shape_of(seed.results[0])[axis], n, axis)
        for n, seed in enumerate(seeds)
        for axis in range(len(shape_of(seed.results[0])))
    ]
    most = prod(shape_of(op.results[0])) * dtype_of(element_of(op.results[0])).itemsize
    limits = [small << n for n in range(((most - 1) // small).bit_length())]
    for rows, n, axis in sorted(tried, key=lambda each: (-each[0], *each[1:])):
        found: Region | None = None
        for large in reversed(limits if rows > 1 else []):  # with a lower limit, a region has more operations
            region = Region(rows, large)
            if not region.grow(seeds[n], Place(axis)):
                break
            if op in region.places and region.behind() is not None:
                found = region
        if found is not None:
            return found
    return None


def _reader(value: SSAValue) -> Operation | None:
    """The first operation that reads a value, if a region may contain it."""
    return next((use.operation for use in value.uses if may_divide(use.operation)), None)
