"""`pack-states`: caches of quotients in 4 bits hold two of them in a byte.

By `cache-precision=int4`, `divide-states` gives the quotients of rows a scale of 1/7, so that they are integers from −7
to 7. This pass stores the first half of a row in the low bits of its bytes, and the second half in the high bits:

    p[i] = q[i] & 15 | q[i + n/2] << 4,    q[i] = (p[i] << 4) >> 4,  q[i + n/2] = p[i] >> 4

Bytes are packed where rows enter the cache, moved as the rows were, and unpacked for what reads it. No bit changes.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i8, i64
from xdsl.ir import Attribute, BlockArgument, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ConcatOp, ConstantOp, DivideRowsOp, SliceOp
from qmlir.dialects.nn.bitwise import AndOp, OrOp, ShiftLeftOp, ShiftRightOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import Array, TensorOp, element_of, shape_of, tensor_type
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import StateAttr, begin_with, reset_value, states_of
from qmlir.ir.types import with_element
from qmlir.transforms.quantize.ranges.moved_rows import moved, moves_of
from qmlir.transforms.quantize.ranges.row_scales import NIBBLE_LIMIT


class PackStatesPass(ModulePass):
    """Stores rows of 4 bits in half of the bytes.

    ```mlir
    func.func @main(%i, %x, %s: tensor<4x8x!q> {qmlir.state = #qmlir.state<0>}, …) {
      %q = nn.divide_rows %x : …
      %n = nn.scatter_nd %s, %q, %i : …          // !q = !quant.uniform<i8:f32, 0.142857>
      %y = nn.multiply_rows %n, %m : …
      func.return %n, …
    // becomes
    func.func @main(%i, %x, %s: tensor<4x4xi8> {qmlir.state = #qmlir.state<0>}, …) {
      %q = nn.divide_rows %x : …
      %p = …                                     // two integers of %q a byte
      %n = nn.scatter_nd %s, %p, %i : …
      %u = …                                     // the integers of %n
      %y = nn.multiply_rows %u, %m : …
      func.return %n, …
    ```
    """

    name = "pack-states"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            for index, state in states_of(function).items():
                argument = function.body.block.args[index]
                moves = _moves(function, argument, state)
                if moves:
                    before = reset_value(argument.type, state)
                    _pack(argument, moves)
                    function.update_function_type()
                    begin_with(function, index, _bytes(before))


def _moves(function: func.FuncOp, state: BlockArgument, mark: StateAttr) -> Sequence[TensorOp]:
    """What moves the rows of a cache whose rows are quotients in 4 bits; nothing for another state."""
    element, end = element_of(state), function.body.block.last_op
    if not isinstance(end, func.ReturnOp) or not _has_four_bits(element):
        return ()
    if np.abs(reset_value(state.type, mark).astype(int)).max(initial=0) > NIBBLE_LIMIT:
        return ()
    moves = moves_of(function, state, end.operands[mark.index])
    entering = [v for op in moves for v in data_operands(op) if v is not state and v.owner not in moves]
    if not all(isinstance(v.owner, DivideRowsOp) and element_of(v) == element for v in entering):
        return ()
    return () if shape_of(state)[-1] % 2 else moves


def _has_four_bits(element: object) -> bool:
    """Whether the integers of a type stand for quotients of rows as those from −7 to 7."""
    if not isinstance(element, UniformType) or element.storage_type != i8:
        return False
    return element == UniformType.per_tensor(i8, 1 / NIBBLE_LIMIT, 0)


def _pack(state: BlockArgument, moves: Sequence[TensorOp]) -> None:
    """Packs what enters a cache, moves bytes, and unpacks what is read."""
    element, hint = element_of(state), state.name_hint
    size = shape_of(state)[-1] // 2
    read = {op.results[0]: _readers(op.results[0], moves) for op in moves}
    of_state = _readers(state, moves)
    held = Rewriter.replace_value_with_new_type(state, TensorType(i8, (*shape_of(state)[:-1], size)))
    held.name_hint = hint
    packed: dict[SSAValue, SSAValue] = {held: held}
    for op in moves:
        for value in [v for v in data_operands(op) if v not in packed]:
            packed[value] = _packed(value, InsertPoint.before(op))
        made = moved(op, packed, size)
        NAME.set(made, NAME.of(op))
        made.results[0].name_hint = op.results[0].name_hint
        packed[op.results[0]] = made.results[0]
    shape = (*shape_of(held)[:-1], 2 * size)
    _read(held, TensorType(element, shape), of_state, InsertPoint.at_start(state.block))
    for value, uses in read.items():
        assert isinstance(value.owner, TensorOp)
        _read(packed[value], tensor_type(value), uses, InsertPoint.before(value.owner))
    for op in reversed(moves):
        Rewriter.erase_op(op)


def _readers(value: SSAValue, moves: Sequence[TensorOp]) -> list[Use]:
    return [use for use in value.uses if use.operation not in moves]


def _read(packed: SSAValue, rows: TensorType[Attribute], uses: Sequence[Use], where: InsertPoint) -> None:
    """Lets readers of rows read unpacked ones, and the function return packed ones."""
    returned = [use for use in uses if isinstance(use.operation, func.ReturnOp)]
    others = [use for use in uses if use not in returned]
    whole = _unpacked(packed, rows, where) if others else packed
    for use in uses:
        use.operation.operands[use.index] = packed if use in returned else whole


def _packed(rows: SSAValue, where: InsertPoint) -> SSAValue:
    """Two integers of rows a byte: the first half of a row in the low bits."""
    stored = StorageCastOp(rows, with_element(rows.type, i8))
    low, high = (_half(stored.result, part) for part in (0, 1))
    mask, four = _number(15), _number(4)
    first, second = AndOp.make([low.y, mask.y]), ShiftLeftOp.make([high.y, four.y])
    both = OrOp.make([first.y, second.y])
    Rewriter.insert_op([stored, low, high, mask, first, four, second, both], where)
    return both.y


def _half(x: SSAValue, part: int) -> SliceOp:
    """The first or the second half of each row."""
    *outer, size = shape_of(x)
    offsets, sizes = [0] * len(outer) + [part * size // 2], [*outer, size // 2]
    return SliceOp.make([x], {"offsets": ints(offsets), "sizes": ints(sizes), "strides": ints([1] * len(sizes))})


def _unpacked(packed: SSAValue, rows: TensorType[Attribute], where: InsertPoint) -> SSAValue:
    """The integers of packed rows, which have the sign of the highest of their four bits."""
    four = _number(4)
    moved_up = ShiftLeftOp.make([packed, four.y])
    low, high = ShiftRightOp.make([moved_up.y, four.y]), ShiftRightOp.make([packed, four.y])
    joined = ConcatOp.make([[low.y, high.y]], {"axis": IntegerAttr(len(rows.get_shape()) - 1, i64)})
    stored = StorageCastOp(joined.y, rows)
    Rewriter.insert_op([four, moved_up, low, high, joined, stored], where)
    return stored.result


def _bytes(rows: Array) -> Array:
    """Rows of integers, two a byte."""
    low, high = np.split(rows, 2, axis=-1)
    return (low & 15) | (high << 4)


def _number(value: int) -> ConstantOp:
    return ConstantOp(np.array(value, np.int8), TensorType(i8, []))
