"""Lowering of Hadamard transforms of integers, fused with the requantization before and behind them.

A rotation at run time widens its operand, so that sums fit, and narrows its result:

    %w = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 1>, …} : … i16 -> … i32
    %h = nn.hadamard %w {block = 128 : i64}
    %y = qint.requantize %h {…} : … i32 -> … i16

The kernel reads the narrow operand, holds the sums in registers and stores the narrow result. A requantization that has
numbers for each channel stays a kernel of its own.
"""

from math import prod

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from qmlir.codegen.kernels.hadamard import Hadamard, lanes_of
from qmlir.codegen.lowering import SCRATCH_LIMIT, MainLowering, Rules
from qmlir.dialects.nn.rotation import HadamardOp
from qmlir.dialects.qint.requantize import RequantizeOp, width_of
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of
from qmlir.lowering.qint_to_loops.contraction import ending
from qmlir.lowering.qint_to_loops.requantize import IN_ONE, fused_requantize


def widened_by_its_reader(op: RequantizeOp) -> bool:
    """Whether a requantization only widens integers, for one Hadamard transform, whose kernel reads the narrow ones."""
    uses = list(op.y.uses)
    if len(uses) != 1 or not isinstance(uses[0].operation, HadamardOp):
        return False
    most = 1 << width_of(op.x) - 1
    keeps = (
        op.contract.data in IN_ONE
        and set(op.shift.get_values()) == {1}
        and set(op.multiplier.get_values()) == {1 << 30}
    )
    centred = not op.zero_point.value.data and not op.input_zero_point.value.data
    return keeps and centred and op.lower.value.data <= -most and op.upper.value.data >= most - 1


def _source(x: SSAValue) -> SSAValue:
    """The narrow integers of an operand that is only widened, or the operand."""
    op = x.owner
    return op.x if isinstance(op, RequantizeOp) and widened_by_its_reader(op) else x


def _hadamard(state: MainLowering, op: HadamardOp) -> None:
    element, block, x = element_of(op.y), op.block.value.data, _source(op.x)
    result, epilogue, parameters = op.y, None, []
    behind, held = fused_requantize(op.y), block * dtype_of(element).itemsize <= SCRATCH_LIMIT
    if behind is not None and len(behind.shift) == 1 and element == i32 and held and not state.machine.small:
        largest = (block << width_of(x) - 1) if width_of(x) < width_of(op.x) else None
        result, epilogue, parameters = ending(state, op.y, None, largest)
    words = state.machine.wide_words and element == i32 and width_of(x) == 16
    kernel = Hadamard(block, lanes_of(element, state.machine), element, epilogue, words)
    y = state.allocate_result(result)
    if prod(shape_of(result)):
        buffers = [state.view(state.buffer(x), op.blocks()), *map(state.constant, parameters)]
        state.call(kernel, [*buffers, state.view(y, op.blocks())], op.blocks()[0])
    state.replace(result, y)


RULES: Rules = {HadamardOp: _hadamard}
