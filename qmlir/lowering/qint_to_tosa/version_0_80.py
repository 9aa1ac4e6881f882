"""Conversion of TOSA 1.0 to TOSA 0.80, which LLVM up to 19 has: some operands become attributes.

Integer operations mean the same in both versions. Only the syntax (spelling) of a dozen operations differs: the table
`SPELLINGS` lists them. The other operations only lose their registered class. The dialect registered here is 1.0, so
the results are unregistered operations, and only another tool can verify them.

Enters: functions in `tosa` 1.0 whose shapes, zero points, scales and padding are constants. Leaves: the same functions
in 0.80.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    UnregisteredAttr,
    UnregisteredOp,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.dialects.tosa import RoundingMode
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qmlir.ir.interfaces import element_of
from qmlir.ir.upstream.tosa import contraction, elementwise, shape
from qmlir.ir.upstream.tosa.base import TosaOp, constant_value
from qmlir.ir.upstream.tosa.elementwise import RescaleOp

Attributes = dict[str, Attribute]


@dataclass
class Spelling:
    """An operation in TOSA 0.80: its operands and attributes, and its name if that differs from 1.0."""

    operands: Sequence[SSAValue]
    attributes: Attributes
    name: str = ""


def _numbers(value: SSAValue) -> list[int]:
    """The integers in a constant."""
    values = constant_value(value)
    assert isinstance(values, DenseIntOrFPElementsAttr)
    return [int(v) for v in values.get_values()]


def _array(numbers: Sequence[int], element: Any = i64) -> Attribute:
    return DenseArrayBase.from_list(element, list(numbers))


def _quantization(kind: str, **zero_points: SSAValue) -> Attributes:
    """`#tosa.<kind><name = value, …>`."""
    text = ", ".join(f"{name} = {_numbers(value)[0]}" for name, value in zero_points.items())
    attribute = UnregisteredAttr.with_name_and_type(f"tosa.{kind}", False)
    return {"quantization_info": attribute(f"tosa.{kind}", False, False, text)}


def _constant(before: Operation, numbers: Sequence[int], shape: Sequence[int], element: Any) -> SSAValue:
    """Inserts a constant in the syntax of 0.80 before an operation."""
    values = DenseIntOrFPElementsAttr.from_list(TensorType(element, shape), list(numbers))
    made = UnregisteredOp.with_name("tosa.const").create(result_types=[values.type], attributes={"value": values})
    made.location = before.location
    block = before.parent
    assert block is not None
    block.insert_op_before(made, before)
    return made.results[0]


def _const(op: shape.ConstOp) -> Spelling:
    return Spelling([], {"value": op.values})


def _convolution(op: contraction.DirectOp) -> Spelling:
    info = _quantization("conv_quant", input_zp=op.input_zp, weight_zp=op.weight_zp)
    return Spelling(op.operands[:3], {"pad": op.pad, "stride": op.stride, "dilation": op.dilation, **info})


def _matmul(op: contraction.MatMulOp) -> Spelling:
    return Spelling([op.a, op.b], _quantization("matmul_quant", a_zp=op.a_zp, b_zp=op.b_zp))


def _rescale(op: RescaleOp) -> Spelling:
    attributes: Attributes = {
        "input_zp": IntegerAttr(_numbers(op.input_zp)[0], i32),
        "output_zp": IntegerAttr(_numbers(op.output_zp)[0], i32),
        "multiplier": _array(_numbers(op.multiplier), i32),
        "shift": _array(_numbers(op.shift), i8),
        "scale32": op.scale32,
        "double_round": BoolAttr.from_bool(op.rounding_mode.data == RoundingMode.DOUBLE_ROUND),
        "per_channel": op.per_channel,
    }
    return Spelling([op.input], attributes)


def _mul(op: elementwise.MulOp) -> Spelling:
    return Spelling([op.input1, op.input2], {"shift": IntegerAttr(_numbers(op.shift)[0], i8)})


def _clamp(op: elementwise.ClampOp) -> Spelling:
    """A clamp with a pair of integer bounds and a pair of float bounds; TOSA ignores the pair of the other type."""
    low, high = op.min_val.value.data, op.max_val.value.data
    real = isinstance(op.min_val, FloatAttr)
    attributes: Attributes = {
        "min_int": IntegerAttr(0 if real else int(low), i64),
        "max_int": IntegerAttr(0 if real else int(high), i64),
        "min_fp": FloatAttr(low if real else 0.0, f32),
        "max_fp": FloatAttr(high if real else 0.0, f32),
    }
    return Spelling([op.input], attributes)


def _intdiv(op: TosaOp) -> Spelling:
    return Spelling(op.operands, {}, "tosa.int_div")


def _reshape(op: shape.ReshapeOp) -> Spelling:
    return Spelling([op.input1], {"new_shape": _array(_numbers(op.shape))})


def _slice(op: shape.SliceOp) -> Spelling:
    return Spelling([op.input1], {"start": _array(_numbers(op.start)), "size": _array(_numbers(op.size))})


def _tile(op: shape.TileOp) -> Spelling:
    return Spelling([op.input1], {"multiples": _array(_numbers(op.multiples))})


def _pad(op: shape.PadOp) -> Spelling:
    counts = _numbers(op.padding)
    padding = _constant(op, counts, [len(counts) // 2, 2], i32)
    return Spelling([op.input1, padding, _scalar(op, op.pad_const)], {})


def _scalar(before: Operation, constant: SSAValue) -> SSAValue:
    """A constant of one element as a constant of rank 0."""
    values = constant_value(constant)
    assert isinstance(values, DenseIntOrFPElementsAttr)
    return _constant(before, values.get_values(), [], element_of(constant))


def _transpose(op: shape.TransposeOp) -> Spelling:
    perms = op.perms.get_values()
    return Spelling([op.input1, _constant(op, perms, [len(perms)], i32)], {})


SPELLINGS: Mapping[type[Operation], Callable[[Any], Spelling]] = {
    shape.ConstOp: _const,
    contraction.Conv2DOp: _convolution,
    contraction.DepthwiseConv2DOp: _convolution,
    contraction.MatMulOp: _matmul,
    RescaleOp: _rescale,
    elementwise.MulOp: _mul,
    elementwise.ClampOp: _clamp,
    elementwise.NAMED["intdiv"]: _intdiv,
    shape.ReshapeOp: _reshape,
    shape.SliceOp: _slice,
    shape.TileOp: _tile,
    shape.PadOp: _pad,
    shape.TransposeOp: _transpose,
}
"""Operation class of 1.0 → function that gives its form in 0.80."""


def respell(module: ModuleOp) -> None:
    """Rewrites a module of TOSA 1.0, as `qint-to-tosa` writes it, to 0.80 in place."""
    for function in module.body.block.ops:
        for block in function.regions[0].blocks if function.regions else ():
            _respell_block(block)


def _respell_block(block: Block) -> None:
    # Visit users before their operands: a constant is still readable when a user needs it, and is erased afterwards.
    for op in reversed(list(block.ops)):
        if not isinstance(op, TosaOp):
            continue
        if isinstance(op, shape.ConstOp | shape.ConstShapeOp) and not op.results[0].uses:
            op.detach()
            op.erase()
            continue
        rule = SPELLINGS.get(type(op))
        spelling = rule(op) if rule is not None else Spelling(op.operands, {**op.properties})
        made = UnregisteredOp.with_name(spelling.name or op.name).create(
            operands=spelling.operands,
            result_types=[r.type for r in op.results],
            attributes=spelling.attributes,
        )
        made.location = op.location
        block.insert_op_before(made, op)
        made.results[0].name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(made.results[0])
        op.detach()
        op.erase()
