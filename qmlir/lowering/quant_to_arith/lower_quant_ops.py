"""`lower-quant-ops`: lowers quantizing and dequantizing casts to arithmetic, as upstream's pass of this name does.

Enters: `quant.qcast` and `quant.dcast` on scalars and tensors. Leaves: arith, linalg, tensor and shape operations, and
`quant.scast` where a quantized value becomes the integers it is stored as.

This pass is for modules that go to upstream's tools. The project's own pipeline never runs it, because the meaning
differs: our `quant.qcast` rounds half to even in float64 and saturates (numerics/fixed_point.py), while this pass, like
upstream's, computes

    q = clamp(truncate(x / scale + zero_point))        in the expressed type, toward zero

It truncates. Its result is undefined if the sum does not fit the storage type (`arith.fptosi` is poison there). It
clamps only if the type narrows the storage range. The dequantizing cast differs in precision only: this pass computes
it in the expressed type.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    Signedness,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.dialects.quant.foreign import SubChannelType
from qmlir.dialects.quant.ops import CastOp, DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.syntax import default_range
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.rewriting import node_name, replace
from qmlir.ir.types import stored_type, with_element
from qmlir.ir.upstream.arith import FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp
from qmlir.ir.upstream.shape import NumElementsOp, ShapeOfOp, SplitAtOp
from qmlir.ir.upstream.tensor import ReshapeOp

OpT = TypeVar("OpT", bound=Operation)
Scaled: TypeAlias = UniformType | SubChannelType
"""The quantized types that have scales and integer storage."""


class LowerQuantOpsPass(ModulePass):
    """Lowers `quant.qcast` and `quant.dcast` to arith, linalg, tensor and shape; the quantizing cast truncates.

    ```mlir
    %1 = quant.dcast %0 : !quant.uniform<i8:f32, 2.0:10> to f32
    // becomes
    %q = quant.scast %0 : !quant.uniform<i8:f32, 2.0:10> to i8
    %s = arith.constant 2.0 : f32
    %z = arith.constant 10 : i8
    %a = arith.sitofp %q : i8 to f32
    %b = arith.sitofp %z : i8 to f32
    %c = arith.subf %a, %b : f32
    %1 = arith.mulf %c, %s : f32
    ```

    Tensors with one scale use the same operations on splats. For tensors with several scales, a `linalg.generic` reads
    the scale of each element. Tensors of unknown rank are reshaped to one dimension (or to three dimensions around the
    axis) and back. The project's own pipeline does not run this pass, because its casts round.
    """

    name = "lower-quant-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for found in [o for o in op.walk() if isinstance(o, QuantizeCastOp | DequantizeCastOp)]:
            code = _Code()
            result = _lower(code, found, _scaled(found))
            replace(PatternRewriter(found), found, code.operations, [result])


def _scaled(op: CastOp) -> Scaled:
    """The quantized type of a cast.

    Raises:
        UnsupportedError: The type has no scales or no integer storage, or a zero point that its storage type cannot
            hold (zero points become constants of that type).
    """
    quantized = op.quantized_type
    if not isinstance(quantized, UniformType | SubChannelType):
        raise UnsupportedError.at(
            op.name,
            node_name(op),
            "the quantized type must have scales, and integers as storage",
            got=str(quantized),
            remedy="use !quant.uniform",
        )
    least, greatest = default_range(quantized.storage)
    for zero_point in quantized.zero_points:
        if not least <= zero_point <= greatest:
            raise UnsupportedError.at(
                op.name,
                node_name(op),
                f"zero points must lie in the storage type's range [{least}, {greatest}]",
                got=str(zero_point),
                remedy="choose a wider storage type",
            )
    return quantized


@dataclass
class _Code:
    """A list of new operations, in the order in which they run."""

    operations: list[Operation] = field(default_factory=list[Operation])

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation and returns its only result."""
        return self.append(op).results[0]

    def append(self, op: OpT) -> OpT:
        self.operations.append(op)
        return op

    def index(self, value: int) -> SSAValue:
        return self.add(arith.ConstantOp(IntegerAttr(value, IndexType())))


# ---------------------------------------------------------------------------------------------------------------
# Casts, by the shape of their scales and zero points


def _lower(code: _Code, op: CastOp, quantized: Scaled) -> SSAValue:
    value, quantize = op.input, isinstance(op, QuantizeCastOp)
    if not quantize:
        value = code.add(StorageCastOp(value, stored_type(value.type)))
    shape = code.add(ShapeOfOp(value)) if isinstance(value.type, UnrankedTensorType) else None
    if isinstance(quantized, SubChannelType):
        value = _with_scales(code, value, quantized, quantize, _places(quantized), quantized.shape)
    elif quantized.axis is None:
        if shape is not None:
            value = _reshape(code, value, [code.add(NumElementsOp(shape))], [DYNAMIC_INDEX])
        value = _with_one_scale(code, value, quantized, quantize)
    else:
        axis, count = quantized.axis, len(quantized.scales)
        if shape is not None:
            value, axis = _flatten_around(code, value, shape, axis, count), 1
        value = _with_scales(code, value, quantized, quantize, [AffineExpr.dimension(axis)], [count])
    if shape is not None:
        value = code.add(ReshapeOp(value, shape, UnrankedTensorType(_ranked(value).element_type)))
    return code.add(StorageCastOp(value, op.result.type)) if quantize else value


def _places(blocks: SubChannelType) -> list[AffineExpr]:
    """The position of an element's block in terms of the element's indices d0, d1, …

    A dimension for which the type gives no block size has one block.
    """
    places = [AffineExpr.constant(0)] * len(blocks.shape)
    for axis, size in blocks.block_sizes:
        index = AffineExpr.dimension(axis)
        places[axis] = index if size == 1 else index // size
    return places


def _with_one_scale(code: _Code, value: SSAValue, quantized: UniformType, quantize: bool) -> SSAValue:
    scale = code.add(arith.ConstantOp(FloatAttr(quantized.scale, _expressed(quantized))))
    zero_point = code.add(arith.ConstantOp(IntegerAttr(_signless(quantized)[0], quantized.storage_type)))
    elements = _Elements(code, quantized, value.type, _dynamic_sizes(code, value))
    # Without a zero point there is nothing to add or subtract.
    return elements.convert(value, scale, zero_point if quantized.zero_point else None, quantize)


def _with_scales(
    code: _Code,
    value: SSAValue,
    quantized: Scaled,
    quantize: bool,
    place: Sequence[AffineExpr],
    shape: Sequence[int],
) -> SSAValue:
    """Writes one `linalg.generic` that quantizes or dequantizes a tensor with several scales.

    Args:
        code: Receives the new operations.
        value: A ranked tensor.
        quantized: The quantized type, of the result if `quantize`, else of the operand.
        quantize: True to convert floats to integers, False to convert integers to floats.
        place: The position of an element's scale in the tensor of scales, in terms of the element's indices d0, d1, ….
        shape: The shape of the tensor of scales.
    """
    expressed, storage = _expressed(quantized), quantized.storage_type
    scales = code.add(arith.ConstantOp(_dense(TensorType(expressed, shape), quantized.scales)))
    zero_points = code.add(arith.ConstantOp(_dense(TensorType(storage, shape), _signless(quantized))))
    input_type = _ranked(value)
    result_type = TensorType(storage if quantize else expressed, input_type.get_shape())
    init = code.add(tensor.EmptyOp(_dynamic_sizes(code, value), result_type))

    block = Block(arg_types=[input_type.element_type, expressed, storage, result_type.element_type])
    element, scale, zero_point, _ = block.args
    body = _Code()
    result = _Elements(body, quantized, element.type, []).convert(element, scale, zero_point, quantize)
    body.append(YieldOp(result))
    block.add_ops(body.operations)

    rank = input_type.get_num_dims()
    every = AffineMapAttr(AffineMap.identity(rank))
    chosen = AffineMapAttr(AffineMap(rank, 0, tuple(place)))
    return code.add(
        GenericOp(
            [value, scales, zero_points],
            [init],
            Region(block),
            [every, chosen, chosen, every],
            [IteratorTypeAttr.parallel()] * rank,
            [result_type],
        )
    )


# ---------------------------------------------------------------------------------------------------------------
# Arithmetic on elements


@dataclass
class _Elements:
    """Arithmetic on values of one shape: scalars, or ranked tensors element by element.

    shape   the type of one operand: a scalar type, or a tensor type whose shape all operands have
    sizes   the dynamic sizes of that shape
    """

    code: _Code
    quantized: Scaled
    shape: Attribute
    sizes: Sequence[SSAValue]

    def convert(self, value: SSAValue, scale: SSAValue, zero_point: SSAValue | None, quantize: bool) -> SSAValue:
        """Quantizes or dequantizes a value; scale and zero point are scalars, None as zero point means 0."""
        return (self._quantize if quantize else self._dequantize)(value, scale, zero_point)

    def _quantize(self, value: SSAValue, scale: SSAValue, zero_point: SSAValue | None) -> SSAValue:
        code, quantized = self.code, self.quantized
        value = code.add(arith.DivfOp(value, self._spread(scale)))
        if zero_point is not None:
            value = code.add(arith.AddfOp(value, self._to_float(self._spread(zero_point))))
        to_integer = FPToSIOp if _is_signed(quantized) else FPToUIOp
        return self._clamp(code.add(to_integer(value, self._of(quantized.storage_type))))

    def _dequantize(self, value: SSAValue, scale: SSAValue, zero_point: SSAValue | None) -> SSAValue:
        code = self.code
        scale = self._spread(scale)
        value = self._to_float(value)
        if zero_point is not None:
            value = code.add(arith.SubfOp(value, self._to_float(self._spread(zero_point))))
        return code.add(arith.MulfOp(value, scale))

    def _clamp(self, value: SSAValue) -> SSAValue:
        """Clamps a value to the storage range if that range is narrower than the storage type."""
        code, quantized = self.code, self.quantized
        bounds = (quantized.storage_min, quantized.storage_max)
        if bounds == default_range(quantized.storage):
            return value
        wrapped = [_wrapped(bound, quantized) for bound in bounds]
        scalars = [code.add(arith.ConstantOp(IntegerAttr(b, quantized.storage_type))) for b in wrapped]
        low, high = [self._spread(scalar) for scalar in scalars]
        above, below = (arith.MaxSIOp, arith.MinSIOp) if _is_signed(quantized) else (arith.MaxUIOp, arith.MinUIOp)
        return code.add(below(code.add(above(value, low)), high))

    def _to_float(self, value: SSAValue) -> SSAValue:
        to_float = SIToFPOp if _is_signed(self.quantized) else UIToFPOp
        return self.code.add(to_float(value, self._of(self.quantized.expressed)))

    def _spread(self, scalar: SSAValue) -> SSAValue:
        """Splats a scalar to the operands' shape; if the operands are scalars, returns it as it is."""
        if not isinstance(self.shape, TensorType):
            return scalar
        return self.code.add(tensor.SplatOp(scalar, self.sizes, cast(TensorType[Attribute], self._of(scalar.type))))

    def _of(self, element: Attribute) -> Attribute:
        return with_element(self.shape, element)


# ---------------------------------------------------------------------------------------------------------------
# Reshapes of tensors of unknown rank


def _dynamic_sizes(code: _Code, value: SSAValue) -> list[SSAValue]:
    """The dynamic sizes of a value; empty for a scalar."""
    shape = _ranked(value).get_shape() if isinstance(value.type, TensorType) else ()
    return [code.add(tensor.DimOp(value, code.index(i))) for i, size in enumerate(shape) if size == DYNAMIC_INDEX]


def _flatten_around(code: _Code, value: SSAValue, shape: SSAValue, axis: int, length: int) -> SSAValue:
    """Reshapes a tensor of unknown rank to three dimensions: [before the axis, axis, after the axis]."""
    here, after = code.index(axis), code.index(axis + 1)
    left = code.add(NumElementsOp(code.append(SplitAtOp(shape, here)).head))
    right = code.add(NumElementsOp(code.append(SplitAtOp(shape, after)).tail))
    return _reshape(code, value, [left, code.index(length), right], [DYNAMIC_INDEX, length, DYNAMIC_INDEX])


def _reshape(code: _Code, value: SSAValue, sizes: Sequence[SSAValue], shape: Sequence[int]) -> SSAValue:
    unranked = value.type
    assert isinstance(unranked, UnrankedTensorType)
    element = cast(UnrankedTensorType[Attribute], unranked).element_type
    new_shape = code.add(tensor.FromElementsOp(*sizes, result_type=TensorType(IndexType(), [len(sizes)])))
    return code.add(ReshapeOp(value, new_shape, TensorType(element, shape)))


def _ranked(value: SSAValue) -> TensorType[Attribute]:
    type = value.type
    assert isinstance(type, TensorType)
    return cast(TensorType[Attribute], type)


# ---------------------------------------------------------------------------------------------------------------
# Scales, zero points and types of quantized types


def _expressed(quantized: Scaled) -> AnyFloat:
    assert isinstance(quantized.expressed, AnyFloat)
    return quantized.expressed


def _is_signed(quantized: Scaled) -> bool:
    return quantized.storage.signedness.data != Signedness.UNSIGNED


def _wrapped(value: int, quantized: Scaled) -> int:
    """Converts a stored integer to the signed number of the same bits: 200 of `u8` is −56 of `i8`."""
    half = 1 << quantized.storage_type.width.data - 1
    return (value + half) % (2 * half) - half


def _signless(quantized: Scaled) -> list[int]:
    return [_wrapped(z, quantized) for z in quantized.zero_points]


def _dense(type: TensorType[Any], values: Sequence[float]) -> DenseIntOrFPElementsAttr[Any]:
    return DenseIntOrFPElementsAttr.from_list(type, values)
