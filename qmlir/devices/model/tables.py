"""The tables that elementwise commands read: multipliers with shifts, and functions of a byte; and where they lie."""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation

from qmlir.devices.description.schema import Role
from qmlir.devices.model.engines import Engines
from qmlir.dialects import qint
from qmlir.ir.interfaces import Array


def entries(op: qint.RequantizeOp | qint.LookupOp | qint.AddOp) -> Array:
    """The entries of the table of an operation's context; a sum carries its factors in the command instead."""
    if isinstance(op, qint.LookupOp):
        return op.table.array
    if isinstance(op, qint.AddOp):
        return np.array([1 << 30, 1], "<i4")
    return np.stack([op.multiplier.get_values(), op.shift.get_values()], axis=1).astype("<i4")


def role_of(op: Operation, engines: Engines) -> Role:
    """The role under which the table of an operation is stored."""
    known = {role for memory in engines.device.memory for role in memory.holds}
    return "lut" if isinstance(op, qint.LookupOp) and "lut" in known else engines.tables()


def sizes(chain: Sequence[Operation], role: Role, engines: Engines) -> list[int]:
    """The sizes in bytes of the tables that a chain of elementwise operations reads under a role."""
    return [
        entries(op).nbytes
        for op in chain
        if isinstance(op, qint.RequantizeOp | qint.LookupOp | qint.AddOp) and role_of(op, engines) == role
    ]
