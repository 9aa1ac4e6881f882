"""The tables that commands read: multipliers with shifts, functions of a byte, exponentials; and where they lie."""

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


def exponentials(op: qint.SoftmaxOp) -> Array:
    """The exponentials of a softmax, of which those at the end that are equal are left out but for one."""
    table = op.table.array
    others = np.flatnonzero(table != table[-1])
    return table[: int(others[-1]) + 2] if others.size else table[:1]


def of_rows(op: Operation) -> Sequence[Array]:
    """The tables that the commands of an operation on rows read."""
    if not isinstance(op, qint.SoftmaxOp):
        return []
    return [exponentials(op), *([] if op.inverse is None else [op.inverse.array])]


def role_of(op: Operation, engines: Engines) -> Role:
    """The role under which the table of an operation is stored."""
    known = {role for memory in engines.device.memory for role in memory.holds}
    return "lut" if isinstance(op, qint.LookupOp | qint.SoftmaxOp) and "lut" in known else engines.tables()


def sizes(chain: Sequence[Operation], role: Role, engines: Engines) -> list[int]:
    """The sizes in bytes of the tables that elementwise operations, or an operation on rows, read under a role."""
    found: list[int] = []
    for op in chain:
        if role_of(op, engines) == role:
            found += [table.nbytes for table in of_rows(op)]
            if isinstance(op, qint.RequantizeOp | qint.LookupOp | qint.AddOp):
                found.append(entries(op).nbytes)
    return found
