"""`narrow-floats`: gives operations that a policy computes in floats of 16 bits operands and results of that type.

Enters: a network behind `quantize-ops`, in which such operations are on f32. Leaves: these operations on f16 or bf16
(numerics/halves.py says how their results are rounded), constants that only they read in 16 bits, and data movement
between them in 16 bits, too. Where such a region begins, `nn.cast` narrows an f32 value, which may be dequantized from
integers; where it ends, `nn.cast` widens a value, which may then be quantized. Both are no operations of the model, and
no decision is recorded on them.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import CastOp, ConstantOp
from qmlir.dialects.nn.base import is_float, is_half, with_floats
from qmlir.dialects.nn.movement import FillingOp, MovementOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.errors import QmlirWarning
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.levels import with_other_values
from qmlir.ir.rewriting import node_name, replace
from qmlir.ir.signature import defined_functions
from qmlir.ir.types import element_type_of
from qmlir.numerics.halves import HALVES, HalfPrecision
from qmlir.policies.ledger import decision_of
from qmlir.settings.quant_config import OpConfig, QuantConfig, config_of, op_config_of
from qmlir.transforms.quantize.reasons import called, computes_in_halves, halved, leave_float


@dataclass(frozen=True)
class NarrowFloatsPass(ModulePass):
    """Computes operations in f16 or bf16 where their policy says so.

    ```mlir
    %0 = quant.dcast %a : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
    %1 = nn.sigmoid %0 {qmlir.policy = {precision = "float16"}} : tensor<4xf32> -> tensor<4xf32>
    // becomes
    %0 = quant.dcast %a : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
    %1 = nn.cast %0 : tensor<4xf32> -> tensor<4xf16>
    %2 = nn.sigmoid %1 {qmlir.policy = {precision = "float16"}} : tensor<4xf16> -> tensor<4xf16>
    %3 = nn.cast %2 : tensor<4xf16> -> tensor<4xf32>
    ```
    """

    name = "narrow-floats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _Narrowing(function.body.block).run(config_of(op))


class _Narrowing:
    """The state of the pass on one function: the casts that it has made."""

    def __init__(self, block: Block):
        self.block = block
        self.narrowed: dict[tuple[SSAValue, HalfPrecision], SSAValue] = {}

    def run(self, config: QuantConfig) -> None:
        for op in list(self.block.ops):
            op_config = op_config_of(op, config.op_config())
            half = op_config.half if computes_in_halves(op) else None
            code = None if (decision := decision_of(op)) is None else decision.code.data
            if half is None and isinstance(op, MovementOp) and code != "policy":
                half, code = _widened_from(op), None
            if half is not None and code in (None, "half"):
                self._narrow(op, half, op_config)
        for op in [o for o in self.block.ops if isinstance(o, CastOp) and is_half(o.y)]:
            wide = op.x.owner  # of a network that came in 16 bits: what it narrows may have become halves
            if isinstance(wide, CastOp) and is_float(op.x) and wide.x.type == op.y.type:
                replace(PatternRewriter(op), op, [], [wide.x])
        for op in reversed(list(self.block.ops)):
            if isinstance(op, CastOp | ConstantOp) and not op.y.uses:
                Rewriter.erase_op(op)

    def _narrow(self, op: Operation, half: HalfPrecision, op_config: OpConfig) -> None:
        """Replaces an operation on f32 by the operation on halves, whose results are cast back."""
        element = element_type_of(HALVES[half].dtype)
        operands = [self._operand(v, half, element, op) if is_float(v) else v for v in op.operands]
        new = with_floats(op, operands, element)
        leave_float(new, halved(new, op_config, half))
        casts = {r: CastOp.make([y], element=element_of(r)) for r, y in zip(op.results, new.results, strict=True)
                 if is_half(y)}  # fmt: skip
        results = [casts[r].y if r in casts else y for r, y in zip(op.results, new.results, strict=True)]
        replace(PatternRewriter(op), op, [new, *casts.values()], results, doing=new)

    def _operand(self, value: SSAValue, half: HalfPrecision, element: Attribute, reader: Operation) -> SSAValue:
        """The halves of an f32 value: the tensor that it was widened from, else a cast where the value is made."""
        owner = value.owner
        if isinstance(owner, CastOp) and element_of(owner.x) == element:
            return owner.x
        key = value, half
        if key not in self.narrowed:
            made = self._constant(owner, half, reader) if isinstance(owner, ConstantOp) else None
            new = made or CastOp.make([value], element=element)
            where = InsertPoint.after(owner) if isinstance(owner, Operation) else InsertPoint.at_start(owner)
            Rewriter.insert_op(new, where)
            self.narrowed[key] = new.results[0]
        return self.narrowed[key]

    def _constant(self, constant: ConstantOp, half: HalfPrecision, reader: Operation) -> ConstantOp:
        """A constant rounded to halves; warns of finite numbers that become infinite."""
        values = constant.value.array
        rounded = HALVES[half].rounded(values)
        beyond = np.isfinite(values) & ~np.isfinite(rounded.astype(np.float32))
        if beyond.any():
            most = values[beyond][np.abs(values[beyond]).argmax()]
            text = f'{reader.name} "{node_name(reader)}": {called(constant.y)} has numbers up to {most:g}, '
            text += f"which become infinite in {half}"
            warnings.warn(text + ("; bfloat16 has the range of float32" if half == "float16" else ""), QmlirWarning, 2)
        type = TensorType(element_type_of(HALVES[half].dtype), shape_of(constant.y))
        return ConstantOp(rounded, type, with_other_values(constant))


_NAMES: dict[Attribute, HalfPrecision] = {element_type_of(format.dtype): name for name, format in HALVES.items()}
"""The precision of each element type of 16 bits."""


def _widened_from(op: MovementOp) -> HalfPrecision | None:
    """The halves that all data of a movement of f32 are widened from; None if moving halves is not the same."""
    casts = [v.owner for v in data_operands(op)]
    halves = {element_of(c.x) if isinstance(c, CastOp) and is_half(c.x) and is_float(c.y) else None for c in casts}
    if len(halves) != 1 or (element := halves.pop()) is None:
        return None
    half = _NAMES[element]
    if isinstance(op, FillingOp) and not _holds(half, float(op.value.value.data)):
        return None
    return half


def _holds(half: HalfPrecision, value: float) -> bool:
    """Whether a float32 is a number of a format."""
    number = np.array(value, np.float32)
    return bool(HALVES[half].rounded(number).astype(np.float32) == number)
