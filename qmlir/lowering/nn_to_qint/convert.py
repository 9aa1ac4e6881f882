"""`nn-to-qint`: quantized nn becomes integers only.

Enters: nn on `!quant` types, with float islands between `quant.dcast` and `quant.qcast`. Leaves: the same values as
plain integers, computed by qint and by the data movement of nn; `quant.scast` stands where the integer part meets a
cast or the function's own signature. What is computed here is exact: multipliers, shifts and tables are fixed now.

One walk in program order: `integers` maps each quantized value to the integers that hold it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.context import QmlirContext
from qmlir.dialects import nn
from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn.base import NNOp, is_quantized
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.qmlir import DECISION, NAME
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import LoweringError
from qmlir.ledger import decide
from qmlir.lowering.nn_to_qint.activation import lower_by_table, lower_linear
from qmlir.lowering.nn_to_qint.contraction import lower_matmul, lower_weighted
from qmlir.lowering.nn_to_qint.elementwise import lower_add, lower_mul
from qmlir.lowering.nn_to_qint.pooling import lower_average_pool, lower_global_average_pool, lower_max_pool
from qmlir.lowering.nn_to_qint.scales import NoIntegerForm
from qmlir.lowering.nn_to_qint.shape import lower_movement
from qmlir.rewriting import node_name
from qmlir.target import Target, load_target

LOWERINGS: dict[type[Operation], Callable[[Any, Sequence[SSAValue], str], list[Operation]]] = {
    nn.Conv2DOp: lower_weighted,
    nn.DepthwiseConv2DOp: lower_weighted,
    nn.FullyConnectedOp: lower_weighted,
    nn.MatMulOp: lower_matmul,
    nn.AddOp: lower_add,
    nn.MulOp: lower_mul,
    nn.ReluOp: lower_linear,
    nn.ClampOp: lower_linear,
    nn.RequantizeOp: lower_linear,
    nn.SigmoidOp: lower_by_table,
    nn.TanhOp: lower_by_table,
    nn.MaxPool2DOp: lower_max_pool,
    nn.AveragePool2DOp: lower_average_pool,
    nn.GlobalAveragePoolOp: lower_global_average_pool,
    nn.ReshapeOp: lower_movement,
    nn.TransposeOp: lower_movement,
    nn.ConcatOp: lower_movement,
    nn.PadOp: lower_movement,
}
"""Operation class → (operation, integer operands, contract) → operations, the last of which yields the result."""


@dataclass(frozen=True)
class NNToQIntPass(ModulePass):
    """Lowers nn on quantized types to qint; operations without an integer form become f32 between casts.

    ```mlir
    %1 = nn.relu %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.25:-128>>
    // becomes
    %a = quant.scast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xi8>
    %b = qint.requantize %a {multiplier = array<i32: 1073741824>, shift = array<i32: 2>, contract = "single",
                             zero_point = -128 : i32, min = -128 : i32, max = 127 : i32} : tensor<4xi8> -> tensor<4xi8>
    %1 = quant.scast %b : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.25:-128>>
    ```
    """

    name = "nn-to-qint"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = ctx.target if isinstance(ctx, QmlirContext) and isinstance(ctx.target, Target) else load_target()
        for function in (f for f in op.walk() if isinstance(f, func.FuncOp) and not f.is_declaration):
            _Converter(function.body.block, target).run()


class _Converter:
    """The conversion of one function."""

    def __init__(self, block: Block, target: Target):
        self.block, self.target = block, target
        self.integers: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        converted: list[Operation] = []
        for op in list(self.block.ops):
            if isinstance(op, nn.ConstantOp) and is_quantized(op.y):
                self._finish(op, [nn.ConstantOp(op.value, None, _kept(op))])
            elif isinstance(op, NNOp | MovementOp) and any(is_quantized(o) for o in op.operands):
                self._lower(op)
            else:
                self._meet(op)
                continue
            converted.append(op)
        for op in reversed(converted):
            Rewriter.erase_op(op)
        self._erase_unread_casts()

    def _lower(self, op: NNOp | MovementOp) -> None:
        lowering = LOWERINGS.get(type(op))
        try:
            if lowering is None:
                raise NoIntegerForm("target", f"target {self.target.name} has no integer form of it")
            storages = {f"{'i' if e.is_signed else 'u'}{e.storage_width}" for e in _data_elements(op)}
            for storage in sorted(storages):
                if (reason := self.target.why_float(op.name, storage)) is not None:
                    raise NoIntegerForm("target", reason)
            operands = [self._integers(o, op) for o in op.operands]
            self._finish(op, lowering(op, operands, self.target.contract))
        except NoIntegerForm as why:
            self._keep_float(op, why)

    def _finish(self, op: Operation, new: list[Operation]) -> None:
        """Inserts the integer form of `op`; its last operation carries names and decision."""
        new[-1].attributes.update(_kept(op))
        Rewriter.insert_op(new, InsertPoint.before(op))
        self.integers[op.results[0]] = new[-1].results[0]

    def _integers(self, value: SSAValue, reader: Operation) -> SSAValue:
        """The integers that hold a quantized value; a cast of it where it comes from outside."""
        element = element_of(value)
        if not isinstance(element, UniformType):
            return value
        if value not in self.integers:
            cast = StorageCastOp(value, TensorType(element.storage_type, shape_of(value)))
            Rewriter.insert_op(cast, InsertPoint.before(reader))
            self.integers[value] = cast.results[0]
        return self.integers[value]

    def _meet(self, op: Operation) -> None:
        """Gives an operation that stays, such as a cast or a return, quantized operands back."""
        for index, operand in enumerate(op.operands):
            if operand in self.integers and not isinstance(operand.owner, QuantizeCastOp | Block | StorageCastOp):
                cast = StorageCastOp(self.integers[operand], operand.type)
                Rewriter.insert_op(cast, InsertPoint.before(op))
                op.operands[index] = cast.results[0]

    def _keep_float(self, op: NNOp | MovementOp, why: NoIntegerForm) -> None:
        """dequantize → the operation on f32 → quantize: its nominal meaning."""
        if isinstance(op, MovementOp):
            raise LoweringError(op.name, node_name(op), f"must be lowered to integers: {why.reason}")
        new: list[Operation] = []
        operands: list[SSAValue] = []
        for operand in op.operands:
            stored = operand
            if operand in self.integers:
                new.append(StorageCastOp(self.integers[operand], operand.type))
                stored = new[-1].results[0]
            if is_quantized(operand):
                new.append(DequantizeCastOp(stored, TensorType(f32, shape_of(operand))))
                stored = new[-1].results[0]
            operands.append(stored)
        result = op.results[0]
        float_op = op.create(
            operands=operands,
            result_types=[TensorType(f32, shape_of(result))],
            properties=dict(op.properties),
            attributes=_kept(op),
        )
        decide(float_op, "float", why.code, why.reason)
        back = QuantizeCastOp(float_op.results[0], result.type)
        Rewriter.insert_op([*new, float_op, back], InsertPoint.before(op))
        cast = StorageCastOp(back.results[0], TensorType(_storage(result), shape_of(result)))
        Rewriter.insert_op(cast, InsertPoint.before(op))
        self.integers[result] = cast.results[0]

    def _erase_unread_casts(self) -> None:
        for op in reversed(list(self.block.ops)):
            casts = StorageCastOp | DequantizeCastOp | QuantizeCastOp | nn.ConstantOp
            if isinstance(op, casts) and not any(r.uses for r in op.results):
                Rewriter.erase_op(op)


def _storage(value: SSAValue) -> Any:
    element = element_of(value)
    assert isinstance(element, UniformType)
    return element.storage_type


def _kept(op: Operation) -> dict[str, Any]:
    """The attributes that follow an operation down: its names and its decision."""
    return {k: op.attributes[k] for k in (NAME, DECISION) if k in op.attributes}


def _data_elements(op: NNOp | MovementOp) -> list[UniformType]:
    """The quantized types of an operation's activations and result, weights and bias aside."""
    data = [op.operands[0]] if isinstance(op, nn.Conv2DOp | nn.DepthwiseConv2DOp | nn.FullyConnectedOp) else op.operands
    return [e for v in (*data, *op.results) if isinstance(e := element_of(v), UniformType)]
