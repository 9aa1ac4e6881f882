"""Packing at run time: the right operand of a matrix product as the contraction kernel reads weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from qmlir.dialects.loops import is_memref
from qmlir.lowering.code import Buffer, Code, Value
from qmlir.lowering.kernel import Kernel, MainLowering
from qmlir.lowering.kernels.contraction import Arithmetic, choose_lanes


@dataclass(frozen=True)
class PackColumns(Kernel):
    """out[(b, block), k div group, lane, k mod group] = prepare(x[b, k, block · lanes + lane]); zero beyond K and N.

    Buffers: x [B, K, N], out [B · blocks, steps · lanes · group].
    """

    name: str
    columns: int
    lanes: int
    arithmetic: Arithmetic

    @property
    def symbol(self) -> str:
        return self.name

    @property
    def blocks(self) -> int:
        """Blocks of columns."""
        return -(-self.columns // self.lanes)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, out = buffers
        rows, length, group = x.shape[1], out.shape[1], self.arithmetic.group
        with code.loop(begin, end, name="item") as item:
            batch, block = item // self.blocks, item % self.blocks
            first = block * self.lanes
            valid = (self.columns - first).minimum(self.lanes)
            if self.columns % self.lanes or rows % group:
                code.spans(0, length, lambda i, lanes: out.store(code.zeros(out.element, lanes), item, i))
            with code.loop(0, rows, name="k") as k:
                place = k // group * (self.lanes * group) + k % group
                with code.loop(0, valid, name="lane") as lane:
                    out.store(self.arithmetic.prepare(x.load(batch, k, first + lane)), item, place + lane * group)


def pack_columns(state: MainLowering, name: str, x: SSAValue, arithmetic: Arithmetic) -> SSAValue:
    """Calls the kernel for a buffer [B…, K, N]; the packed buffer, flat."""
    assert is_memref(x.type)
    *batch, rows, columns = x.type.get_shape()
    kernel = PackColumns(name, columns, choose_lanes(columns), arithmetic)
    count = prod(batch)
    steps = -(-rows // arithmetic.group)
    out = state.allocate(
        MemRefType(arithmetic.element, (count * kernel.blocks, steps * kernel.lanes * arithmetic.group))
    )
    state.call(kernel, [state.view(x, (count, rows, columns)), out], count * kernel.blocks)
    return state.view(out, (count * kernel.blocks * steps * kernel.lanes * arithmetic.group,))
