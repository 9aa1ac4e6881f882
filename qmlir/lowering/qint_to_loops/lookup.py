"""Tables of 256 entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.qint.lookup import LookupOp
from qmlir.lowering.code import Buffer, Code
from qmlir.lowering.kernel import Kernel, MainLowering, Rules
from qmlir.lowering.kernels.elementwise import RUN
from qmlir.lowering.value import INDEX, Value


@dataclass(frozen=True)
class Lookup(Kernel):
    """y[i] = table[x[i] + 128]. Buffers: x [elements], table [256], y [elements]."""

    elements: int

    @property
    def symbol(self) -> str:
        return "qint_lookup"

    @property
    def items(self) -> int:
        """Runs of elements."""
        return -(-self.elements // RUN)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, y = buffers
        with code.loop(begin * RUN, (end * RUN).minimum(self.elements)) as i:
            y.store(table.load(x.load(i).to(INDEX) + 128), i)


def _lookup(state: MainLowering, op: LookupOp) -> None:
    elements = prod(shape_of(op.x))
    y = state.allocate_result(op.y)
    kernel = Lookup(elements)
    table = state.constant(op.table.array)
    state.call(kernel, [state.view(state.buffer(op.x), [elements]), table, state.view(y, [elements])], kernel.items)
    state.replace(op.y, y)


RULES: Rules = {LookupOp: _lookup}
