"""The pass `nn-to-qint`: operations on quantized types become operations on integers, with signed storage."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32, i8, i16
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects import nn
from qmlir.dialects.nn import ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import NNOp, is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import ComparisonOp, ExtremumOp, FunctionOp, PredicateOp, SumOp, UnaryOp
from qmlir.dialects.nn.functions import LinearOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import activations, data_operands, uniform
from qmlir.dialects.nn.reduction import AdditionOp, ArgumentOp, ExtremeOp, ReduceToSumOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.ir.fact import Heir, Movement, moved
from qmlir.ir.facts import INTEGER_OPERATOR, MIXED, ON_FLOATS, UNSIGNED, UNSIGNED_WEIGHTS
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.levels import levels_of, stating
from qmlir.ir.locations import named_location
from qmlir.ir.registry import Registry
from qmlir.ir.rewriting import node_name
from qmlir.ir.signature import defined_functions
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.attention import lower_attend
from qmlir.lowering.nn_to_qint.contraction import even, lower_blocked, lower_matmul, lower_weighted
from qmlir.lowering.nn_to_qint.conversions import (
    lower_converted_integers,
    lower_quantized_integers,
)
from qmlir.lowering.nn_to_qint.elementwise import (
    compare_as_litert,
    lower_comparison,
    lower_div,
    lower_extremum,
    lower_mul,
    lower_non_zero,
    lower_pair,
    lower_power,
    lower_predicate,
    lower_prelu,
    lower_sum,
    lower_where,
)
from qmlir.lowering.nn_to_qint.functions import lower_by_table, lower_linear, lower_on_floats
from qmlir.lowering.nn_to_qint.movement import (
    lower_average_pool,
    lower_global_average_pool,
    lower_max_pool,
    lower_movement,
    lower_reduction,
    lower_resize,
    lower_search,
    lower_sums,
)
from qmlir.lowering.nn_to_qint.normalization import (
    lower_layer_norm,
    lower_local_response,
    lower_log_softmax,
    lower_lp_normalization,
    lower_rms_norm,
    lower_softmax,
)
from qmlir.lowering.nn_to_qint.rows import lower_divide_rows, lower_multiply_rows, lower_row_magnitudes
from qmlir.lowering.nn_to_qint.scales import contract_of
from qmlir.numerics import fixed_point
from qmlir.numerics.levels import Levels
from qmlir.policies.conversions import converted_integers, quantized_integers
from qmlir.policies.float_rounding import cast_rounding, on_floats_rounding, state_addition, state_cast
from qmlir.policies.ledger import decide
from qmlir.policies.legality import require_integer_form, target_of
from qmlir.policies.runtime_kernels import (
    compared_storage,
    has_rounding,
    rounding_for,
    stores_signed,
)
from qmlir.policies.runtimes import Rounding, runtime_of

# ---------------------------------------------------------------------------------------------------------------
# Conversion of unsigned and narrow storage to signed storage of 8 or 16 bits, with the same real values.
#
#     u8<0:255>, scale s, zero point z     becomes   i8<-128:127>, scale s, zero point z − 128
#     u4<0:15>, i4<-8:7>                   become    i8<0:15>, i8<-8:7>, parameters as they were
#
# Stored integers decrease by 128 (16-bit storage: 32768) if they would not fit the signed type. The zero point
# decreases alike, so scale · (q − z) is unchanged. Quantization is unchanged too, because it adds the zero point after
# it rounds. The lowering to qint therefore sees signed integers only. The function's own arguments and results, and
# storage casts, keep their types; an `nn.requantize` beside them changes the storage.


HELD = 8
"""The widest storage in bits that becomes i8; wider storage of up to 16 bits becomes i16."""


def signed(type: UniformType) -> UniformType:
    """The type with i8 or i16 storage and the same real values.

    A type that is wider than 16 bits or does not express f32 is returned as it is.
    """
    bits = type.storage_width
    if bits > 16 or type.storage in (i8, i16) or type.expressed != f32:
        return type
    storage = i8 if bits <= HELD else i16
    moved = sign_shift_of(type)
    limits, points = (type.storage_min - moved, type.storage_max - moved), [z - moved for z in type.zero_points]
    if type.axis is None:
        return UniformType.per_tensor(storage, type.scale, points[0], *limits, type.expressed)
    return UniformType.per_axis(storage, type.axis, type.scales, points, *limits, type.expressed)


def sign_shift_of(type: UniformType) -> int:
    """The number by which a type's stored integers decrease when its storage becomes signed; 0 if they fit already."""
    held = 1 << (HELD - 1 if type.storage_width <= HELD else 15)
    return held if type.storage_max >= held else 0


Computing = NNOp | MovementOp | QuantizeCastOp | DequantizeCastOp | ConstantOp
"""Operations that depend on real values only; all others, such as a return or a storage cast, read stored integers."""


def sign_storage(block: Block, *, marks: bool = True) -> None:
    """Gives the quantized types of a function signed storage of 8 or 16 bits.

    Args:
        block: The function's body.
        marks: Whether operations get attributes that say which of their data were unsigned, so that they round like
            kernels for unsigned data; without them they round like kernels for signed data.
    """
    others = [o for o in block.ops if not isinstance(o, Computing)]
    entering = [v for v in (*block.args, *(r for o in others for r in o.results)) if _changes(v)]
    leaving = [
        (o, i, v, quantized_element(v.type))
        for o in others for i, v in enumerate(o.operands) if _changes(v) and v not in entering
    ]  # fmt: skip
    computing = [o for o in block.ops if isinstance(o, Computing)]
    if marks:
        _mark(computing)
    for op in computing:
        for result in [r for r in op.results if _changes(r)]:
            if isinstance(op, ConstantOp):
                _move_constant(op)
            Rewriter.replace_value_with_new_type(result, _signed_tensor(result))
    for value in entering:
        _enter(value, block)
    for op, index, value, type in leaving:
        change = RequantizeOp.make([op.operands[index]], element=type)
        Rewriter.insert_op(change, InsertPoint.before(op))
        op.operands[index] = change.y


def _mark(operations: Sequence[Operation]) -> None:
    """Sets the attributes that say which data of the operations are unsigned in the source model."""
    for op in operations:
        if isinstance(op, RequantizeOp) and _sign_shift(op.x) != _sign_shift(op.y):
            MIXED.put(op)
        if isinstance(op, DequantizeCastOp) or (ON_FLOATS.on(op) and isinstance(op, UnaryOp)):
            _mark_dequantized(op)
        elif _computes(op):
            _mark_unsigned(op)


def _computes(op: Operation) -> bool:
    """Whether an operation computes new numbers from its data, which a runtime may round."""
    if isinstance(op, RequantizeOp):
        return INTEGER_OPERATOR.on(op)
    return isinstance(op, NNOp) and not isinstance(op, MovementOp | ConstantOp)


def _mark_dequantized(op: Operation) -> None:
    """Marks unsigned data of an operation that dequantizes, if their offset is multiplied by the scale."""
    moved = _sign_shift(op.operands[0])
    if moved and (not isinstance(op, DequantizeCastOp) or op.quantization != "exact"):
        UNSIGNED.put(op, moved)


def _mark_unsigned(op: Operation) -> None:
    """Marks which data and weights of an operation are unsigned: the source model may compute differently on these."""
    moved = set(map(_sign_shift, activations(op)))
    if moved != {0}:
        UNSIGNED.put(op, max(moved))
    if len(moved) > 1:
        MIXED.put(op)
    if isinstance(op, WeightedOp) and _sign_shift(op.w):
        UNSIGNED_WEIGHTS.put(op)


def _sign_shift(value: SSAValue) -> int:
    type = quantized_element(value.type)
    return 0 if type is None else sign_shift_of(type)


def _changes(value: SSAValue) -> bool:
    type = quantized_element(value.type)
    return type is not None and signed(type) != type


def _signed_tensor(value: SSAValue) -> TensorType[UniformType]:
    type = quantized_element(value.type)
    assert type is not None
    return TensorType(signed(type), shape_of(value))


def _move_constant(op: ConstantOp) -> None:
    type = quantized_element(op.y.type)
    assert type is not None
    moved = op.value.array.astype(np.int32) - sign_shift_of(type)
    op.value = WeightsAttr(moved.astype(signed(type).numpy_dtype))


def _enter(value: SSAValue, block: Block) -> None:
    """Inserts a change to signed storage between an argument (or a storage cast's result) and its computing readers."""
    readers = [u for u in value.uses if isinstance(u.operation, Computing)]
    if not readers:
        return
    change = RequantizeOp.make([value], element=_signed_tensor(value).element_type)
    where = InsertPoint.after(value.op) if isinstance(value, OpResult) else InsertPoint.at_start(block)
    Rewriter.insert_op(change, where)
    for use in readers:
        use.operation.operands[use.index] = change.y


# ---------------------------------------------------------------------------------------------------------------
# `nn-to-qint`: lowers nn operations on quantized types to integer operations.
#
# Enters: nn on `!quant` types, with float subgraphs between `quant.dcast` and `quant.qcast`. Leaves: the same
# values as plain integers, computed by qint and by the data movement of nn. `quant.scast` converts between quantized
# and integer types where the integer part meets a cast or the function's signature. The pass fixes all multipliers,
# shifts and tables, so its result has exact semantics.
#
# The pass walks each function once, in program order. An operation without an integer form (legality.py) is replaced by
# its nominal meaning: dequantize, compute in f32, quantize.


Lowering: TypeAlias = Callable[[Any, Sequence[SSAValue], Rounding], list[Operation]]
"""Lowers an operation, given its integer operands and its rounding; the last of the results yields the result."""

LOWERINGS: Registry[Lowering] = Registry({
    FunctionOp: lower_by_table,
    LinearOp: lower_linear,
    WeightedOp: lower_weighted,
    nn.BlockedFullyConnectedOp: lower_blocked,
    nn.MatMulOp: lower_matmul,
    SumOp: lower_sum,
    nn.MulOp: lower_mul,
    nn.DivOp: lower_div,
    nn.PReluOp: lower_prelu,
    nn.SquaredDifferenceOp: lower_pair,
    nn.PowOp: lower_power,
    nn.ModOp: lower_pair,
    ExtremumOp: lower_extremum,
    ComparisonOp: lower_comparison,
    PredicateOp: lower_predicate,
    nn.WhereOp: lower_where,
    nn.NonZeroOp: lower_non_zero,
    nn.MaxPool2DOp: lower_max_pool,
    nn.AveragePool2DOp: lower_average_pool,
    nn.GlobalAveragePoolOp: lower_global_average_pool,
    ReduceToSumOp: lower_reduction,
    nn.CumulativeSumOp: lower_sums,
    nn.HadamardOp: lower_sums,
    ExtremeOp: lower_movement,
    ArgumentOp: lower_search,
    nn.TopKOp: lower_search,
    nn.MaxPoolIndices2DOp: lower_search,
    MovementOp: lower_movement,
    nn.ResizeOp: lower_resize,
    nn.SoftmaxOp: lower_softmax,
    nn.AttendOp: lower_attend,
    nn.RowMagnitudesOp: lower_row_magnitudes,
    nn.DivideRowsOp: lower_divide_rows,
    nn.MultiplyRowsOp: lower_multiply_rows,
    nn.LogSoftmaxOp: lower_log_softmax,
    nn.LpNormalizationOp: lower_lp_normalization,
    nn.LayerNormOp: lower_layer_norm,
    nn.RMSNormOp: lower_rms_norm,
    nn.LocalResponseNormalizationOp: lower_local_response,
})  # fmt: skip
"""The integer forms of the operations of nn."""


class NNToQIntPass(ModulePass):
    """Lowers nn on quantized types to qint; operations without an integer form compute in f32 between casts.

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
        target, runtime = target_of(ctx), runtime_of(op)
        for function in defined_functions(op):
            _state_floats(function.body.block, runtime)
            sign_storage(function.body.block, marks=not stores_signed(function, runtime))
            _Converter(function, target, runtime).run()


def _state_floats(block: Block, runtime: str) -> None:
    """States on the operations of a block that stay on floats how the followed runtime rounds them."""
    for op in block.ops:
        if isinstance(op, DequantizeCastOp):
            state_cast(op, runtime)
        elif isinstance(op, AdditionOp):
            state_addition(op, runtime)


class _Converter:
    """The conversion of one function.

    integers   quantized value → the tensor of its stored integers
    restored   quantized value → a value of the same quantized type: the result of a cast of its integers, or the value
               itself if it comes from outside the integer part
    """

    def __init__(self, function: func.FuncOp, target: Target, runtime: str):
        self.block, self.target, self.runtime = function.body.block, target, runtime
        self.contract = contract_of(function, target)
        self.integers: dict[SSAValue, SSAValue] = {}
        self.restored: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        converted: list[Operation] = []
        for op in list(self.block.ops):
            if isinstance(op, nn.ConstantOp) and is_quantized(op.y):
                self._finish(op, [nn.ConstantOp(op.value, None, {**_kept(op), **stating(_levels(op))})])
            elif any(map(is_quantized, data_operands(op))):
                self._lower(op)
            elif isinstance(op, ComparisonOp) and (sources := compared_storage(op, self.runtime)):
                self._compare(op, sources)
            elif isinstance(op, QuantizeCastOp) and (source := quantized_integers(op)) is not None:
                self._finish(op, lower_quantized_integers(op, source, cast_rounding(op, self.runtime)))
            elif isinstance(op, nn.CastOp) and (source := converted_integers(op)) is not None:
                self._finish(op, lower_converted_integers(op, uniform(source), self._integers(source, op)))
            else:
                self._restore_operands(op)
                continue
            converted.append(op)
        for op in reversed(converted):
            Rewriter.erase_op(op)
        self._erase_unread_casts()
        for cast in [o for o in self.block.ops if isinstance(o, QuantizeCastOp)]:
            state_cast(cast, self.runtime)

    def _lower(self, op: Operation) -> None:
        try:
            require_integer_form(op, self.target)
            if (lowering := LOWERINGS.get(type(op))) is None:
                raise UnsupportedError("it has no lowering to integers")
            operands = [self._integers(o, op) for o in op.operands]
            if ON_FLOATS.on(op) and isinstance(op, UnaryOp):
                self._finish(op, lower_on_floats(op, operands, on_floats_rounding(op, self.runtime)))
            else:
                self._finish(op, lowering(op, operands, self._rounding(op)))
        except UnsupportedError as why:
            self._keep_float(op, why)

    def _rounding(self, op: Operation) -> Rounding:
        """How an operation is rounded; by default as the target rounds, with multipliers that it has."""
        rounding, factors = rounding_for(op, self.runtime, self.contract), self.target.factors
        if has_rounding(op, self.runtime):
            return rounding
        if factors is not None and factors.bits == 1:
            factors = None  # factors that are no powers of two stay as they are, for a host to compute
        return replace(rounding, factors=factors, apart=self.target.rounds_operands)

    def _compare(self, op: ComparisonOp, sources: Sequence[SSAValue]) -> None:
        """Lowers a comparison of dequantized tensors that the followed runtime makes on the stored integers."""
        self._finish(op, compare_as_litert(op, list(map(uniform, sources)), [self._integers(s, op) for s in sources]))

    def _finish(self, op: Operation, new: list[Operation]) -> None:
        """Inserts the integer form of `op`; its last operation takes over the names and the decision of `op`."""
        new[-1].attributes.update(_kept(op))
        new[-1].results[0].name_hint = op.results[0].name_hint
        for made in new:
            made.location = named_location(op)
        Rewriter.insert_op(new, InsertPoint.before(op))
        if is_quantized(op.results[0]):
            self.integers[op.results[0]] = new[-1].results[0]
        else:
            op.results[0].replace_all_uses_with(new[-1].results[0])

    def _integers(self, value: SSAValue, reader: Operation) -> SSAValue:
        """The stored integers of a quantized value; inserts a storage cast if the value comes from outside."""
        if not is_quantized(value):
            return value
        if value not in self.integers:
            cast = StorageCastOp(value, TensorType(uniform(value).storage_type, shape_of(value)))
            Rewriter.insert_op(cast, InsertPoint.before(reader))
            self.integers[value] = cast.result
            self.restored[value] = value
        return self.integers[value]

    def _quantized(self, value: SSAValue, reader: Operation) -> SSAValue:
        """Casts a quantized value's integers back to its type, for consumers that expect the quantized type."""
        if value not in self.integers:
            return value
        if value not in self.restored:
            cast = StorageCastOp(self.integers[value], value.type)
            Rewriter.insert_op(cast, InsertPoint.before(reader))
            self.restored[value] = cast.result
        return self.restored[value]

    def _restore_operands(self, op: Operation) -> None:
        """Restores the quantized operands of an operation that is not lowered, such as a cast or a return."""
        for index, operand in enumerate(op.operands):
            if (restored := self._quantized(operand, op)) is not operand:
                op.operands[index] = restored

    def _keep_float(self, op: Operation, why: UnsupportedError) -> None:
        """Replaces an operation by its nominal meaning: dequantize → the operation on f32 → quantize."""
        real = op.operands if isinstance(op, WeightedOp) else data_operands(op)  # others, such as indices, stay
        operands = [self._float(o, op) if o in real else o for o in op.operands]
        result = op.results[0]
        on_floats = op.create(
            operands=operands,
            result_types=[TensorType(f32, shape_of(result)) if is_quantized(result) else result.type],
            properties=dict(op.properties),
            attributes=_kept(op),
        )
        on_floats.location = named_location(op)
        decide(on_floats, "float", why.code, why.need)
        if not is_quantized(result):
            Rewriter.insert_op(on_floats, InsertPoint.before(op))
            result.replace_all_uses_with(on_floats.results[0])
            return
        back = QuantizeCastOp(on_floats.results[0], result.type)
        Rewriter.insert_op([on_floats, back], InsertPoint.before(op))
        self._integers_of_fallback(result, back)

    def _integers_of_fallback(self, result: SSAValue, back: QuantizeCastOp) -> None:
        cast = StorageCastOp(back.result, TensorType(uniform(result).storage_type, shape_of(result)))
        Rewriter.insert_op(cast, InsertPoint.after(back))
        self.integers[result], self.restored[result] = cast.result, back.result

    def _float(self, value: SSAValue, reader: Operation) -> SSAValue:
        """An operand of `reader` as f32; dequantizes it if necessary.

        Raises:
            UnsupportedError: The operand's expressed type is not f32, or it is a bias of plain integers that is
                computed at run time.
        """
        element = element_of(value)
        if element == f32:
            return value
        if isinstance(reader, WeightedOp) and value is reader.b and (bias := _float_bias(reader)) is not None:
            Rewriter.insert_op(bias, InsertPoint.before(reader))
            return bias.y
        if not isinstance(element, UniformType) or element.expressed != f32:
            raise UnsupportedError.at(
                reader.name, node_name(reader), "cannot be computed in f32 instead of integers",
                got=f"an operand of {element}", remedy="quantize the model again from its f32 form",
            )  # fmt: skip
        cast = DequantizeCastOp(self._quantized(value, reader), TensorType(f32, shape_of(value)))
        Rewriter.insert_op(cast, InsertPoint.before(reader))
        return cast.result

    def _erase_unread_casts(self) -> None:
        for op in reversed(list(self.block.ops)):
            casts = StorageCastOp | DequantizeCastOp | QuantizeCastOp | nn.CastOp | nn.ConstantOp
            if isinstance(op, casts) and not any(r.uses for r in op.results):
                Rewriter.erase_op(op)


def _float_bias(op: WeightedOp) -> nn.ConstantOp | None:
    """The float values of a constant bias of plain integers, which counts steps of s_x · s_w; None for other biases."""
    constant = op.b.owner if op.b is not None else None
    if not isinstance(constant, nn.ConstantOp) or not isinstance(element_of(constant.y), IntegerType):
        return None
    steps = uniform(op.x).scale * np.array(uniform(op.w).scales)
    return nn.ConstantOp(fixed_point.dequantize(constant.value.array, steps, np.zeros(1)), None, _kept(constant))


def _levels(op: nn.ConstantOp) -> Levels | None:
    """The levels of a quantized constant: those that it states, or the few bits of its type."""
    stated, element = levels_of(op), uniform(op.y)
    plain = stated is None or stated.OF_FLOATS
    return even(element.storage_min, element.storage_max) if plain else stated


def _kept(op: Operation) -> dict[str, Attribute]:
    """The facts that the lowered operation inherits: names, the decision, and what is known of stored weights."""
    return moved(op, Movement.TO_INTEGERS, Heir.RESULT)
