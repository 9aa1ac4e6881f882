"""Branches of concatenations whose ranges differ: which concatenations need no common scale, and what one costs.

A detector joins boxes that reach hundreds with scores below 1, and returns the whole. In one scale of 8 bits, the
scores would be 0 or 1. The network returns floats, so the branches are dequantized first, each by its own scale, and
joined behind that: no operation computes on the joined tensor. A concatenation that the network's integers read needs
one scale, and the ledger says what that costs.
"""

from collections.abc import Collection, Sequence

from xdsl.dialects import func
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.calib import Bounds, ObserveOp
from qmlir.dialects.nn import ConcatOp, ConstantOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.ir.facts import POLICY
from qmlir.ir.states import state_values
from qmlir.ir.traversal import reached
from qmlir.policies.ledger import decision_of, note_branches
from qmlir.transforms.quantize.ranges.scale_group import hull_of, real_range, width_of
from qmlir.transforms.quantize.ranges.scale_groups import MUCH_NARROWER, ScaleGroups
from qmlir.transforms.quantize.reasons import DELIVERED, called


def delivered(block: Block, able: Collection[Operation], groups: ScaleGroups) -> dict[Operation, None]:
    """The data movement that can follow the dequantization of results, so that joined branches keep their scales.

    Args:
        block: A float network with observers.
        able: The operations that can become integer.
        groups: The tensors that share a scale if all of these do.
    """
    states = {after for _, after in state_values(block)}
    last: set[Operation] = set()
    for op in reversed(block.ops):
        readers = [u.operation for v in op.results for u in v.uses if not isinstance(u.operation, ObserveOp)]
        moves = isinstance(op, MovementOp) and op in able and not POLICY.on(op) and states.isdisjoint(op.results)
        if moves and all(isinstance(o, func.ReturnOp) or o in last for o in readers):
            last.add(op)
    found: dict[Operation, None] = {}
    for op in (o for o in block.ops if o in last):
        held = decision_of(op)
        behind = any(v.owner in found for v in op.operands) or (held is not None and held.code.data == DELIVERED.code)
        if behind or (isinstance(op, ConcatOp) and _differ(op, groups)):
            found[op] = None
    return found


def _differ(op: ConcatOp, groups: ScaleGroups) -> bool:
    """Whether a common scale would cost a branch of a concatenation a bit or more; not if the policy states one."""
    if any(groups.is_stated(v) for v in (*op.operands, op.y)):
        return False
    schema, _ = groups.format_of(op.y)
    widths = [width_of(own, schema) for v in op.operands if (own := _own_range(v, groups)) is not None]
    return any(0 < width < MUCH_NARROWER * max(widths) for width in widths)


def note_coarse_branches(op: Operation, groups: ScaleGroups) -> None:
    """Records what the scale of a concatenation costs those of its branches that span few of its steps."""
    whole = groups.type_of(op.results[0]) if isinstance(op, ConcatOp) and len(op.operands) > 1 else None
    if whole is not None:
        own = {v: _own_range(v, groups) for v in op.operands if not isinstance(v.owner, ConstantOp)}
        note_branches(op, {called(v): bounds for v, bounds in own.items() if bounds is not None}, whole)


def _own_range(value: SSAValue, groups: ScaleGroups) -> Bounds | None:
    """The range of a tensor by itself, or of the tensors that it is moved from; None if it is unknown."""

    def moved_from(value: SSAValue) -> Sequence[SSAValue]:
        op = value.owner
        moves = isinstance(op, Operation) and groups.own_bounds(value) is None and keeps_scale(op)
        return data_operands(op) if moves and isinstance(op, Operation) else ()

    sources = [v for v in reached([value], moved_from) if not moved_from(v)]
    known = [each for v in sources if (each := _source_range(v, groups)) is not None]
    if known and len(known) == len(sources):
        return hull_of(known)
    return _source_range(value, groups)


def _source_range(value: SSAValue, groups: ScaleGroups) -> Bounds | None:
    """The range of a tensor by itself, else that of its type; None if neither is known."""
    if (own := groups.own_bounds(value)) is not None or not isinstance(value.owner, Operation):
        return own
    type = groups.type_of(value)
    return None if type is None else real_range(type)
