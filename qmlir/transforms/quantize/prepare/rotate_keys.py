"""`rotate-keys`: rotates the keys of attention at run time where they enter a cache, and queries where they meet them.

Few elements of keys are far larger than the others, and a magnitude for each row leaves the others few steps of 4 bits.
A rotary embedding stands between keys and the layer that computes them, so that no rotation can be folded into weights.
So `nn.hadamard` adds and subtracts the elements of the rows that enter, and those of queries. Scores stay what they
were, since H · H = block · I:

    (q · H) · (k · H)ᵀ / block = q · kᵀ

A row is transformed once, when it enters. The factor joins the one that scores are multiplied with behind the product.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ConstantOp, HadamardOp, MatMulOp, MulOp, TransposeOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.ir.interfaces import TensorOp, shape_of, tensor_type
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import set_names, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import begin_with, reset_value, states_of
from qmlir.ir.types import dtype_of
from qmlir.numerics.hadamard import transformed
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array
from qmlir.transforms.quantize.prepare.rotated_layers import note_rotated
from qmlir.transforms.quantize.ranges.moved_rows import moves_of

LEAST = 8
"""The least block: rows of fewer elements have no magnitude (divide_states.py)."""


@dataclass(frozen=True)
class RotateKeysPass(ModulePass):
    """Rotates what enters a cache that only products with queries read, and the queries.

    ```mlir
    %n = nn.scatter_nd %s, %k, %i : …
    %t = nn.transpose %n {permutation = array<i64: 0, 2, 1>} : …
    %p = nn.matmul %q, %t : …
    %y = nn.mul %p, %scale : …
    // becomes, with %factor = %scale / 64
    %h = nn.hadamard %k {block = 64 : i64} : …
    %n = nn.scatter_nd %s, %h, %i : …
    %t = nn.transpose %n {permutation = array<i64: 0, 2, 1>} : …
    %g = nn.hadamard %q {block = 64 : i64} : …
    %p = nn.matmul %g, %t {qmlir.rotated = "queries and keys rotated in blocks of 64"} : …
    %y = nn.mul %p, %factor : …
    ```
    """

    name = "rotate-keys"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            end = function.body.block.last_op
            assert isinstance(end, func.ReturnOp)
            rotated: dict[SSAValue, SSAValue] = {}
            for index, state in states_of(function).items():
                argument = function.body.block.args[index]
                if is_float(argument):
                    _rotate(function, argument, end.operands[state.index], rotated)


def _rotate(function: func.FuncOp, state: BlockArgument, after: SSAValue, rotated: dict[SSAValue, SSAValue]) -> None:
    """Rotates the rows of a state, if it is a cache of keys; `rotated` holds the transforms of queries so far."""
    moves, size = moves_of(function, state, after), shape_of(state)[-1]
    block, products = size & -size, _products([state, *(op.results[0] for op in moves)], moves)
    if not moves or not products or block < LEAST:
        return
    for op in moves:
        for value in [v for v in data_operands(op) if v is not state and v.owner not in moves]:
            made = _transformed(value, block, op)
            for place in [i for i, v in enumerate(op.operands) if v is value]:
                op.operands[place] = made
    for product in products:
        if product.lhs not in rotated:
            rotated[product.lhs] = _transformed(product.lhs, block, product)
        product.operands[0] = rotated[product.lhs]
        _divide(product, block)
    before = reset_value(state.type, states_of(function)[state.index])
    if before.any():
        begin_with(function, state.index, transformed(before.reshape(-1, block)).reshape(before.shape))
    note_rotated(products, f"queries and keys rotated in blocks of {block}")


def _products(rows: Sequence[SSAValue], moves: Sequence[TensorOp]) -> list[MatMulOp]:
    """The products of queries with keys, if nothing else reads the rows of a cache."""
    found: dict[MatMulOp, None] = {}
    for use in [use for value in rows for use in value.uses if use.operation not in moves]:
        match use.operation:
            case func.ReturnOp():
                pass
            case TransposeOp() as op if _makes_columns(op) and (read := [u.operation for u in op.y.uses]):
                for product in read:
                    if not isinstance(product, MatMulOp) or product.rhs is not op.y or product.lhs is op.y:
                        return []
                    found[product] = None
            case _:
                return []
    return list(found)


def _makes_columns(op: TransposeOp) -> bool:
    """Whether rows become the columns of matrices."""
    places = op.permutation.get_values()
    return len(places) > 1 and places[-2] == len(places) - 1


def _divide(product: MatMulOp, by: int) -> None:
    """Divides a product, by the constant factor that it is multiplied with if there is one."""
    uses = list(product.y.uses)
    if len(uses) == 1 and isinstance(op := uses[0].operation, MulOp):
        place = 1 - uses[0].index
        factor = constant_array(op.operands[place])
        if factor is not None:
            constant = ConstantOp((factor / by).astype(factor.dtype), tensor_type(op.operands[place]))
            Rewriter.insert_op(constant, InsertPoint.before(op))
            op.operands[place] = constant.y
            return
    element = tensor_type(product.y).element_type
    constant = ConstantOp(np.array(1 / by, dtype_of(element)), TensorType(element, []))
    divided = MulOp.make([product.y, constant.y])
    Rewriter.insert_op([constant, divided], InsertPoint.after(product))
    for use in uses:
        use.operation.operands[use.index] = divided.y


def _transformed(x: SSAValue, block: int, before: Operation) -> SSAValue:
    transform = HadamardOp.make([x], {"block": IntegerAttr(block, i64)})
    Rewriter.insert_op(transform, InsertPoint.before(before))
    if name := tensor_name(x):
        set_names(transform.y, NameAttr.of((), [f"{name}.rotated"]))
    return transform.y
