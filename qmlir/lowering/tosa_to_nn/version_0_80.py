"""Conversion of TOSA 0.80, which LLVM up to 19 prints, to TOSA 1.0: attributes become constant operands.

The parser reads operations of 0.80 whose form differs from 1.0 as unregistered operations
(ir/upstream/tosa_0_80.py). They become the operations of 1.0 here, which verify themselves.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn, cast

import numpy as np
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    UnregisteredOp,
    f32,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.tosa import RoundingMode, RoundingModeAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from qmlir.errors import UnsupportedError
from qmlir.ir.types import dtype_of, is_integer
from qmlir.ir.upstream.dense import dense_of
from qmlir.ir.upstream.tosa import TOSA, contraction, elementwise, reduction, shape
from qmlir.ir.upstream.tosa.base import ShapeType, TosaOp, element, sizes
from qmlir.ir.upstream.tosa.elementwise import NAMED
from qmlir.ir.upstream.tosa.resize import ResizeOp
from qmlir.lowering.tosa_to_nn.code import array_of, called, i48


def modernize(function: func.FuncOp) -> None:
    """Rewrites the operations of TOSA 0.80 in a function to TOSA 1.0, in place.

    Raises:
        UnsupportedError: An operation of tosa is unknown, lacks an attribute, or does not verify.
    """
    for op in list(function.walk()):
        if isinstance(op, UnregisteredOp) and op.op_name.data.startswith("tosa."):
            _Modern(op, op.op_name.data).rewrite()


@dataclass
class _Modern:
    """The conversion of one operation."""

    op: UnregisteredOp
    name: str

    def rewrite(self) -> None:
        """Replaces the operation."""
        own = next((op for op in TOSA.operations if op.name == self.name and issubclass(op, TosaOp)), None)
        rule = RULES.get(self.name) or (_same(own) if own is not None else None)
        if rule is None:
            self.refuse("has no form in nn", remedy="export the network without it")
        value = rule(self)
        value.name_hint = self.op.results[0].name_hint
        self.op.results[0].replace_all_uses_with(value)
        Rewriter.erase_op(self.op)

    def refuse(self, need: str, *, got: str | None = None, remedy: str = "convert the model again") -> NoReturn:
        """Raises an UnsupportedError about the operation."""
        raise UnsupportedError.at(self.name, called(self.op), need, got=got, remedy=remedy)

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, name: str, type: type[Any]) -> Any:
        """An attribute, which must be there and of a class."""
        held = {**self.op.properties, **self.op.attributes}
        found = held.get(name)
        if not isinstance(found, type):
            self.refuse(f"needs the attribute {name}", got=str(found) if found is not None else None)
        return found

    def flag(self, name: str, default: bool | None = None) -> bool:
        """The value of a boolean attribute."""
        if default is not None and name not in {**self.op.properties, **self.op.attributes}:
            return default
        return bool(self.get(name, IntegerAttr).value.data)

    def numbers(self, name: str) -> list[int]:
        """The numbers in an attribute `array<…>`."""
        return [int(v) for v in self.get(name, DenseArrayBase).get_values()]

    def operand(self, index: int) -> SSAValue:
        """An operand, which must be there."""
        if index >= len(self.op.operands):
            self.refuse(f"needs {index + 1} operands", got=str(len(self.op.operands)))
        return self.op.operands[index]

    def zero_point(self, name: str) -> int:
        """A zero point in `quantization_info`; 0 without it."""
        info = {**self.op.properties, **self.op.attributes}.get("quantization_info")
        found = re.search(rf"\b{name} = (-?\d+)", str(info)) if info is not None else None
        return int(found[1]) if found is not None else 0

    def constant_operand(self, index: int, what: str) -> list[int]:
        """The integers of a constant operand, flat."""
        owner = self.operand(index).owner
        values = owner.values if isinstance(owner, shape.ConstOp) else None
        if isinstance(owner, arith.ConstantOp):
            values = owner.value
        if not isinstance(values, DenseIntOrFPElementsAttr):
            self.refuse(f"needs a constant {what}", got="a computed one", remedy="fold it before the export")
        held = cast(DenseIntOrFPElementsAttr[Any], values)
        if isinstance(held.get_element_type(), IndexType):
            return [int(v) for v in held.get_values()]
        try:
            return [int(v) for v in array_of(held).reshape(-1)]
        except UnsupportedError as error:
            raise error.about(self.name, called(self.op)) from None

    @property
    def result(self) -> SSAValue:
        """The result."""
        return self.op.results[0]

    # -- writing ---------------------------------------------------------------------------------------------------

    def add(self, op: TosaOp) -> SSAValue:
        """Inserts a verified operation before the one that is converted; returns its result."""
        op.location = self.op.location
        Rewriter.insert_op(op, InsertPoint.before(self.op))
        try:
            op.verify()
        except VerifyException as error:
            self.refuse(str(error).strip())
        return op.results[0]

    def make(
        self, kind: type[TosaOp], operands: Sequence[SSAValue], properties: Mapping[str, Attribute] | None = None,
        result: Attribute | None = None,
    ) -> SSAValue:  # fmt: skip
        """Inserts an operation of 1.0 with the result's type, unless another type is given."""
        own = kind.get_irdl_definition().properties
        given = {k: v for k, v in {**self.op.properties, **self.op.attributes}.items() if k in own}
        types = [result if result is not None else self.result.type]
        return self.add(kind.create(operands=operands, properties={**given, **(properties or {})}, result_types=types))

    def constant(self, numbers: Sequence[float], kind: Attribute) -> SSAValue:
        """A constant tensor [N]."""
        if kind == i48:
            values = DenseIntOrFPElementsAttr.from_list(TensorType(i48, [len(numbers)]), [int(n) for n in numbers])
        else:
            values = dense_of(TensorType(kind, [len(numbers)]), np.array(numbers).astype(dtype_of(kind)))
        return self.add(shape.ConstOp.build(properties={"values": values}, result_types=[values.type]))

    def shape(self, numbers: Sequence[int]) -> SSAValue:
        """A constant shape."""
        values = DenseIntOrFPElementsAttr.from_list(TensorType(IndexType(), [len(numbers)]), list(numbers))
        result = ShapeType.of(len(numbers))
        return self.add(shape.ConstShapeOp.build(properties={"values": values}, result_types=[result]))

    def point(self, name: str, data: SSAValue) -> SSAValue:
        """A zero point of the element type of the data, as a constant."""
        return self.constant([self.zero_point(name)], element(data))


Rule = Callable[[_Modern], SSAValue]

ACCUMULATORS: Mapping[Attribute, Attribute] = {i8: i32, i16: i48}
"""Element type of the data → the type of the accumulators; floats accumulate in f32."""


def _const(m: _Modern) -> SSAValue:
    return m.make(shape.ConstOp, [], {"values": m.get("value", DenseIntOrFPElementsAttr)})


def _convolution(kind: type[contraction.ConvolutionOp]) -> Rule:
    def rule(m: _Modern) -> SSAValue:
        x, w, b = (m.operand(i) for i in range(3))
        points = [m.point("input_zp", x), m.point("weight_zp", w)]
        kind_of_sums = ACCUMULATORS.get(element(x), f32)
        return m.make(kind, [x, w, b, *points], {"acc_type": kind_of_sums})

    return rule


def _fully_connected(m: _Modern) -> SSAValue:
    """A convolution of images of one pixel."""
    x, w, b = (m.operand(i) for i in range(3))
    image, weights, result = sizes(x), sizes(w), sizes(m.result)
    if image is None or weights is None or result is None or not len(image) == len(weights) == len(result) == 2:
        m.refuse("needs a matrix of data and a matrix of weights", got=f"{x.type} and {w.type}")
    data, kernel = (
        m.make(shape.ReshapeOp, [v, m.shape(s)], {}, TensorType(element(v), s))
        for v, s in ((x, (image[0], 1, 1, image[1])), (w, (weights[0], 1, 1, weights[1])))
    )
    kernel.name_hint = w.name_hint
    properties: dict[str, Attribute] = {
        "pad": _array([0, 0, 0, 0]),
        "stride": _array([1, 1]),
        "dilation": _array([1, 1]),
        "acc_type": ACCUMULATORS.get(element(x), f32),
    }
    points = [m.point("input_zp", x), m.point("weight_zp", w)]
    sums = m.make(
        contraction.Conv2DOp,
        [data, kernel, b, *points],
        properties,
        TensorType(element(m.result), (image[0], 1, 1, weights[0])),
    )
    return m.make(shape.ReshapeOp, [sums, m.shape((image[0], weights[0]))])


def _array(numbers: Sequence[int]) -> Attribute:
    return DenseArrayBase.from_list(i64, list(numbers))


def _matmul(m: _Modern) -> SSAValue:
    a, b = m.operand(0), m.operand(1)
    return m.make(contraction.MatMulOp, [a, b, m.point("a_zp", a), m.point("b_zp", b)])


def _avg_pool(m: _Modern) -> SSAValue:
    x = m.operand(0)
    return m.make(reduction.AvgPool2DOp, [x, m.point("input_zp", x), m.point("output_zp", m.result)])


def _negate(m: _Modern) -> SSAValue:
    x = m.operand(0)
    return m.make(elementwise.NegateOp, [x, m.point("input1_zp", x), m.point("output_zp", m.result)])


def _mul(m: _Modern) -> SSAValue:
    shift = m.get("shift", IntegerAttr).value.data if "shift" in {**m.op.properties, **m.op.attributes} else 0
    return m.make(elementwise.MulOp, [m.operand(0), m.operand(1), m.constant([shift], i8)])


def _clamp(m: _Modern) -> SSAValue:
    kind = element(m.operand(0))
    if is_integer(kind):
        bounds = {to: IntegerAttr(m.get(of, IntegerAttr).value.data, kind) for to, of in _INTEGER_BOUNDS.items()}
    else:
        bounds = {to: FloatAttr(m.get(of, FloatAttr).value.data, cast(Any, kind)) for to, of in _FLOAT_BOUNDS.items()}
    return m.make(elementwise.ClampOp, [m.operand(0)], dict[str, Attribute](bounds))


_INTEGER_BOUNDS = {"min_val": "min_int", "max_val": "max_int"}
_FLOAT_BOUNDS = {"min_val": "min_fp", "max_val": "max_fp"}


def _same(kind: type[TosaOp]) -> Rule:
    return lambda m: m.make(kind, m.op.operands)


def _reshape(m: _Modern) -> SSAValue:
    wanted, own = m.numbers("new_shape"), sizes(m.operand(0))
    if -1 in wanted and own is not None and min(own) >= 0:
        rest = prod(n for n in wanted if n != -1)
        wanted = [prod(own) // max(rest, 1) if n == -1 else n for n in wanted]
    return m.make(shape.ReshapeOp, [m.operand(0), m.shape(wanted)], {}, TensorType(element(m.operand(0)), wanted))


def _slice(m: _Modern) -> SSAValue:
    return m.make(shape.SliceOp, [m.operand(0), m.shape(m.numbers("start")), m.shape(m.numbers("size"))])


def _tile(m: _Modern) -> SSAValue:
    return m.make(shape.TileOp, [m.operand(0), m.shape(m.numbers("multiples"))])


def _pad(m: _Modern) -> SSAValue:
    x, padding = m.operand(0), m.constant_operand(1, "padding")
    kind = element(x)
    if len(m.op.operands) > 2:
        value = m.make(shape.ReshapeOp, [m.operand(2), m.shape([1])], {}, TensorType(kind, [1]))
        owner = m.operand(2).owner
        if isinstance(owner, shape.ConstOp) and isinstance(owner.values, DenseIntOrFPElementsAttr):
            array = array_of(cast(DenseIntOrFPElementsAttr[Any], owner.values))
            value = m.constant(array.reshape(-1)[:1].tolist(), kind)
    else:
        value = m.constant([m.zero_point("input_zp")], kind)
    return m.make(shape.PadOp, [x, m.shape(padding), value])


def _transpose(m: _Modern) -> SSAValue:
    perms = DenseArrayBase.from_list(i32, m.constant_operand(1, "permutation"))
    return m.make(shape.TransposeOp, [m.operand(0)], {"perms": perms})


def _rescale(m: _Modern) -> SSAValue:
    x, wide = m.operand(0), m.flag("scale32")
    double = m.flag("double_round")
    kinds = element(x), element(m.result)
    points = [
        m.constant([m.get(name, IntegerAttr).value.data], kind)
        for name, kind in (("input_zp", kinds[0]), ("output_zp", kinds[1]))
    ]
    operands = [
        x, m.constant(m.numbers("multiplier"), i32 if wide else i16), m.constant(m.numbers("shift"), i8), *points,
    ]  # fmt: skip
    # DOUBLE_ROUND needs 32-bit multipliers in 1.0; 0.80 ignores it for others.
    mode = RoundingMode.DOUBLE_ROUND if double and wide else RoundingMode.SINGLE_ROUND
    flags: dict[str, Attribute] = {
        "rounding_mode": RoundingModeAttr(mode),
        **{f"{side}_unsigned": BoolAttr.from_bool(False) for side in ("input", "output")},
    }
    return m.make(elementwise.RescaleOp, operands, flags)


def _resize(m: _Modern) -> SSAValue:
    operands = [m.shape(m.numbers(name)) for name in ("scale", "offset", "border")]
    return m.make(ResizeOp, [m.operand(0), *operands])


RULES: Mapping[str, Rule] = {
    "tosa.const": _const,
    "tosa.conv2d": _convolution(contraction.Conv2DOp),
    "tosa.conv3d": _convolution(contraction.Conv3DOp),
    "tosa.depthwise_conv2d": _convolution(contraction.DepthwiseConv2DOp),
    "tosa.transpose_conv2d": _convolution(contraction.TransposeConv2DOp),
    "tosa.fully_connected": _fully_connected,
    "tosa.matmul": _matmul,
    "tosa.avg_pool2d": _avg_pool,
    "tosa.negate": _negate,
    "tosa.mul": _mul,
    "tosa.clamp": _clamp,
    "tosa.int_div": _same(NAMED["intdiv"]),
    "tosa.reduce_prod": _same(reduction.ReduceProductOp),
    "tosa.reshape": _reshape,
    "tosa.slice": _slice,
    "tosa.tile": _tile,
    "tosa.pad": _pad,
    "tosa.transpose": _transpose,
    "tosa.rescale": _rescale,
    "tosa.resize": _resize,
}
"""Operation of 0.80 → function that writes it in 1.0."""
