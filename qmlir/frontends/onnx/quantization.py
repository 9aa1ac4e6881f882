"""QuantizeLinear, DequantizeLinear and their kin."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from xdsl.dialects.builtin import AnyFloat, Float32Type, IntegerType, TensorType, bf16, f16, f32
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.syntax import default_range
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.onnx.blocks import dequantized_blocks, spread
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import MICROSOFT, element_code, element_dtype, element_name, element_type, integers_of
from qmlir.ir.facts import QUANTIZATION
from qmlir.ir.interfaces import Array, Shape, element_of
from qmlir.ir.types import element_type_of, is_integer
from qmlir.numerics import fixed_point
from qmlir.numerics.halves import HALF_FORMATS

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# QuantizeLinear and DequantizeLinear whose stored type is a float of 8 or 4 bits: computed in float32 between casts.
#
# These types are storage: a value is divided by its scale and rounded to the nearest float of 8 or 4 bits.


def is_small_float(element: Attribute) -> bool:
    """Whether an element type is a float of 8 bits or fewer."""
    return isinstance(element, AnyFloat) and element.bitwidth <= 8


def holds_small_floats(x: Value) -> bool:
    """Whether a tensor's elements are floats of 8 bits or fewer."""
    return is_small_float(element_type_of(x.array.dtype) if isinstance(x, Constant) else element_of(x))


def stored_float(zero_point: Value | None, output_dtype: int) -> Attribute | None:
    """The float type to which a QuantizeLinear rounds: that of its zero point or attribute; None for integers.

    Raises:
        UnsupportedError: The zero point is not 0.
    """
    if zero_point is None:
        element = element_type(output_dtype) if output_dtype else None
        return element if element is not None and is_small_float(element) else None
    if not holds_small_floats(zero_point):
        return None
    if not isinstance(zero_point, Constant) or zero_point.array.astype(np.float32).any():
        raise UnsupportedError("it rounds to floats, and its zero point is not 0")
    return element_type_of(zero_point.array.dtype)


def quantized_float(node: ONNXNode, x: Value, scale: Value, element: Attribute, saturate: int) -> Value:
    """Returns x / scale, divided in f32 and rounded to a small float; the scale broadcasts against x."""
    steps = node.newest("Div", node.widened(x), node.widened(scale))
    return node.newest("Cast", steps, to=element_code(element), saturate=saturate)


def dequantized_float(node: ONNXNode, x: Value, scale: Value, zero_point: Value | None) -> Value:
    """Returns (x − zero_point) · scale, computed in f32, in the type of the scale, which broadcasts against x."""
    half, number = node.half_of(scale), _f32(node, x)
    if zero_point is not None:
        number = node.newest("Sub", number, _f32(node, zero_point))
    y = node.newest("Mul", number, node.widened(scale))
    return y if half is None else node.newest("Cast", y, to=element_code(half))


def _f32(node: ONNXNode, x: Value) -> Value:
    return Constant(x.array.astype(np.float32), x.name) if isinstance(x, Constant) else node.converted(x, f32)


# ---------------------------------------------------------------------------------------------------------------
# QuantizeLinear and DequantizeLinear, and the quantized types of ONNX's integer tensors.
#
# In ONNX an integer tensor does not carry its scale; each node that reads the tensor names the scale. Here a tensor
# that a QuantizeLinear or an operator on integers computes has a quantized type from the start, and operators that only
# move its elements keep the type. There are three kinds of readers. A reader that names the same scale and zero point
# takes the tensor as it is. A reader that names other parameters reads the same bits under another quantized type. A
# reader of the integers themselves, such as a Cast, gets plain integers (`plain`).


MOVING = frozenset({
    "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
    "GlobalMaxPool", "MaxPool", "Reshape", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
    "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators that compute the same on stored integers as on real values, since they only move or select elements."""

RESHAPING = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that change the shape of a tensor at most, and keep the order of its elements."""

HALF_CODES: Mapping[int, Attribute] = {onnx.TensorProto.FLOAT16: f16, onnx.TensorProto.BFLOAT16: bf16}
"""Floats of 16 bits by their numbers in ONNX."""


# ---------------------------------------------------------------------------------------------------------------
# Parameters


def storage_of(node: ONNXNode, x: Value) -> IntegerType:
    """Returns the storage type of an integer tensor.

    Raises:
        UnsupportedError: A quantized type cannot have the tensor's element type as storage type.
    """
    element = element_type_of(x.array.dtype) if isinstance(x, Constant) else element_of(x)
    if isinstance(element, UniformType):
        return element.storage
    if is_integer(element) and 1 < element.width.data <= 32:
        return element
    raise UnsupportedError(f"it stores {element}, and qmlir integers of 2 to 32 bits")


def parameters(
    node: ONNXNode, storage: IntegerType, scale: Value, zero_point: Value | None, shape: Shape, axis: int
) -> UniformType:
    """Returns the quantized type that constant scales and zero points describe, for a tensor of the given shape.

    Raises:
        UnsupportedError: The parameters are computed at run time or given per block, the scales are not float32, or the
            parameters make no valid quantized type.
        NodeError: The parameters do not fit each other or the tensor.
    """
    scales = node.array(scale, "scale")
    if scales.dtype in HALF_FORMATS:
        scales = scales.astype(np.float32)  # exact
    points = np.zeros(scales.shape, np.int64)
    if zero_point is not None:
        points = integers_of(node.array(zero_point, "zero point")).astype(np.int64)
    if scales.dtype != np.float32:
        raise UnsupportedError(f"its scale is {scales.dtype}, and qmlir's are float32")
    if points.size != scales.size:
        raise node.error(f"it must have as many zero points as scales, {scales.size}", points.size)
    try:
        if scales.size == 1:
            return UniformType.per_tensor(storage, float(scales.reshape(())), int(points.reshape(())))
        if scales.ndim != 1:
            raise UnsupportedError("it has a scale for each block")
        over = node.axis(axis, len(shape))
        if scales.size != shape[over]:
            raise node.error(f"it must have {shape[over]} scales, one for each index of axis {over}", scales.size)
        return UniformType.per_axis(storage, over, [float(s) for s in scales], [int(p) for p in points])
    except VerifyException as error:
        raise UnsupportedError(f"its parameters make no quantized type: {' '.join(str(error).split())}") from None


# ---------------------------------------------------------------------------------------------------------------
# Values


def quantized(node: ONNXNode, x: Value, type: UniformType) -> SSAValue:
    """Returns an integer tensor under a quantized type, with the same stored integers."""
    if isinstance(x, Constant):
        value = node.builder.ssa(Dequantized(integers_of(x.array).astype(type.numpy_dtype), type, x.name))
        assert isinstance(value.owner, DequantizeCastOp)
        return value.owner.input
    element = element_of(x)
    if element == type or (isinstance(element, UniformType) and _is_narrower(element, type)):
        return x
    if element == type.storage_type:
        return node.cast(StorageCastOp, x, type)
    if not isinstance(element, UniformType):
        # Unsigned integers go through f32, since storage casts take signless integers only; f32 holds them exactly.
        numbers = node.converted(x, f32)
        x = node.cast(QuantizeCastOp, numbers, UniformType.per_tensor(type.storage, 1.0))
    return node.cast(StorageCastOp, node.cast(StorageCastOp, x, type.storage_type), type)


def _is_narrower(type: UniformType, other: UniformType) -> bool:
    """Whether a type differs from another in its range only, which lies within the other's."""
    low, high = other.storage_min, other.storage_max
    return low <= type.storage_min and type.storage_max <= high and type.within(low, high) == other


def dequantized(node: ONNXNode, x: Value, type: UniformType) -> Value:
    """Dequantizes an integer tensor, read as the given quantized type."""
    if isinstance(x, Constant):
        return Dequantized(integers_of(x.array).astype(type.numpy_dtype), type, x.name)
    return node.cast(DequantizeCastOp, quantized(node, x, type), type.expressed)


def requantized(node: ONNXNode, y: Value, type: UniformType) -> SSAValue:
    """Quantizes floats to the given type, dividing in float32 as ONNX defines, whatever runtime's numerics apply."""
    result = node.cast(QuantizeCastOp, node.builder.ssa(y), type)
    assert isinstance(result, OpResult)
    QUANTIZATION.put(result.op, "float32")
    return result


def plain(node: ONNXNode, x: SSAValue) -> SSAValue:
    """Returns the stored integers of a quantized tensor as a plain integer tensor."""
    element = element_of(x)
    assert isinstance(element, UniformType)
    if element.is_signed:
        return node.cast(StorageCastOp, x, element.storage_type)
    counted = quantized(node, x, UniformType.per_tensor(element.storage, 1.0))
    return node.converted(node.cast(DequantizeCastOp, counted, f32), element.storage)


# ---------------------------------------------------------------------------------------------------------------
# Between quantized tensors and other operators


def prepared(node: ONNXNode, operator: str, inputs: Sequence[Value | None]) -> list[Value | None]:
    """Prepares inputs for an operator that ignores quantized types: kept if it only moves elements, else plain."""
    types = [_type_of(x) for x in inputs]
    first = next((t for t in types if t is not None), None)
    if first is None:
        return list(inputs)
    if operator == "Clip" and (narrowed := _narrowed(node, inputs)) is not None:
        return [narrowed]
    if operator in MOVING and not first.is_per_axis:
        return _together(node, inputs, first) if operator == "Concat" else list(inputs)
    return [
        plain(node, x) if t is not None and isinstance(x, SSAValue) else x for x, t in zip(inputs, types, strict=True)
    ]


def _together(node: ONNXNode, inputs: Sequence[Value | None], type: UniformType) -> list[Value | None]:
    """Reads the integers of all inputs that a Concat joins under the type of the first quantized one.

    If another input may have other integers than this type, as one is clipped and the other is not, that is their type
    with all integers of its storage.
    """
    if any(_type_of(x) != type for x in inputs):
        whole = UniformType.per_tensor(type.storage, 1.0)
        type = type.within(whole.storage_min, whole.storage_max)
    found: list[Value | None] = []
    for x in inputs:
        if isinstance(x, SSAValue) and (own := _type_of(x)) is not None and own != type and _is_narrower(own, type):
            x = node.cast(StorageCastOp, x, type.storage_type)
        found.append(None if x is None else quantized(node, x, type))
    return found


def _narrowed(node: ONNXNode, inputs: Sequence[Value | None]) -> Value | None:
    """Quantizes to the constant bounds of a Clip on integers, as PyTorch exports 7 bits; None for other inputs."""
    x, *bounds = inputs
    type = _type_of(x)
    if not isinstance(x, OpResult) or not isinstance(x.op, QuantizeCastOp) or type is None:
        return None
    limits = [type.storage_min, type.storage_max]
    for i, bound in enumerate(bounds):
        if bound is not None and not (isinstance(bound, Constant) and bound.array.size == 1):
            return None
        if bound is not None:
            limits[i] = (max, min)[i](limits[i], int(bound.array.reshape(())))
    return requantized(node, x.op.input, type.within(*limits)) if limits[0] < limits[1] else None


def _type_of(x: Value | None) -> UniformType | None:
    if not isinstance(x, SSAValue) or not isinstance(x.type, TensorType):
        return None
    element = element_of(x)
    return element if isinstance(element, UniformType) else None


def argument_type(
    graph: onnx.GraphProto, name: str, outputs: Sequence[str], arrays: Mapping[str, Array], element: Attribute
) -> Attribute:
    """Returns the element type of an integer argument: quantized if all readers name one scale and zero point.

    Args:
        graph: The graph with the readers.
        name: The name of the argument.
        outputs: The names of the network's results; an argument that is one of them stays plain integers.
        arrays: The constants of at most one dimension, by name.
        element: The element type that the file states.
    """
    if not is_integer(element) or not 2 <= element.width.data <= 16:
        return element
    found: set[tuple[str, ...]] = set()
    for reader in graph.node:
        for index, read in enumerate(reader.input):
            if read == name:
                takes = reader.op_type == "DequantizeLinear" or reader.op_type.startswith(("QLinear", "QGemm"))
                found.add(tuple(reader.input[1:3]) if takes and index == 0 else ())
    constants = [arrays.get(n) for n in next(iter(found), ())] if len(found) == 1 else []
    if not constants or any(a is None or a.size != 1 for a in constants) or name in outputs:
        return element
    scale, *zero_point = [a.reshape(()) for a in constants if a is not None]
    if not (scale.dtype == np.float32 or scale.dtype in HALF_FORMATS) or not 0 < float(scale) < float("inf"):
        return element
    return UniformType.per_tensor(element, float(scale), int(integers_of(zero_point[0])) if zero_point else 0)


# ---------------------------------------------------------------------------------------------------------------
# Import as float operators


def _quantized_at_run_time(
    node: ONNXNode, x: Value, scale: Value, zero_point: Value | None, axis: int, block_size: int, output_dtype: int
) -> Value:
    """Computes clamp(round(x / scale) + zero_point) in float32, for parameters of run time or of blocks."""
    storage = _output_storage(None, output_dtype) if zero_point is None else storage_of(node, zero_point)
    low, high = (Constant(np.array(bound, np.float32)) for bound in default_range(storage))
    shape = node.shape(x)
    steps = node.newest("Round", node.newest("Div", x, _along(node, scale, shape, axis, block_size)))
    if zero_point is not None:
        point = node.converted(_along(node, zero_point, shape, axis, block_size), f32)
        steps = node.newest("Add", steps, point)
    return node.converted(node.newest("Clip", steps, low, high), storage)


def _dequantized_at_run_time(
    node: ONNXNode, x: Value, scale: Value, zero_point: Value | None, axis: int, block_size: int
) -> Value:
    """Computes (x − zero_point) · scale in float32, for parameters of run time or of blocks; x has at most 16 bits."""
    if storage_of(node, x).width.data > 16:
        raise UnsupportedError("its scale is computed at run time, and float32 does not hold what it dequantizes")
    quantized_type = _type_of(x)
    plain_x = plain(node, x) if quantized_type is not None and isinstance(x, SSAValue) else x
    number: Value = node.converted(plain_x, f32)
    if zero_point is not None:
        point = node.converted(_along(node, zero_point, node.shape(x), axis, block_size), f32)
        number = node.newest("Sub", number, point)
    return node.newest("Mul", number, _along(node, scale, node.shape(x), axis, block_size))


def _along(node: ONNXNode, x: Value, shape: Shape, axis: int, block_size: int) -> Value:
    """Reshapes scales or zero points so that they broadcast against a tensor of the given shape."""
    own = node.shape(x)
    if block_size:
        return spread(node, x, shape, node.axis(axis, len(shape)), block_size)
    if int(np.prod(own)) == 1:
        return node.reshaped(x, ())
    if len(own) != 1:
        raise node.error("its parameters must be one, or one for each index of an axis", own)
    over = node.axis(axis, len(shape))
    return node.reshaped(x, [own[0] if i == over else 1 for i in range(len(shape))])


# ---------------------------------------------------------------------------------------------------------------
# The operators


@converts("QuantizeLinear", since=10)
@converts("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(
    node: ONNXNode, x: Value, y_scale: Value, y_zero_point: Value | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Value:  # fmt: skip
    """y = saturate(round(x / y_scale) + y_zero_point), rounding halves to even; float16 is divided in float32, too."""
    if precision not in (0, onnx.TensorProto.FLOAT):
        raise UnsupportedError(f"it divides in {element_name(precision)}, and qmlir in float32")
    if (element := stored_float(y_zero_point, output_dtype)) is not None:
        scale = _along(node, y_scale, node.shape(x), axis, block_size)
        return quantized_float(node, x, scale, element, saturate)
    x, y_scale = node.widened(x), node.widened(y_scale)
    if not isinstance(y_scale, Constant) or isinstance(y_zero_point, SSAValue) or block_size:
        return _quantized_at_run_time(node, x, y_scale, y_zero_point, axis, block_size, output_dtype)
    storage = _output_storage(y_zero_point, output_dtype)
    type = parameters(node, storage, y_scale, y_zero_point, node.shape(x), axis)
    if isinstance(x, Constant):
        return Constant(quantized_array(x.array, type))
    if not isinstance(element_of(x), Float32Type):
        raise UnsupportedError(f"it quantizes {element_of(x)}, and qmlir f32")
    return requantized(node, x, type)


def quantized_array(x: Array, type: UniformType) -> Array:
    """Quantizes a float array to stored integers, with the division in float32 as ONNX defines it."""
    scale, zero_point = type.parameters_along(x.ndim)
    return fixed_point.quantize_in_float32(x, scale, zero_point, type.storage_min, type.storage_max, type.numpy_dtype)


def _output_storage(zero_point: Constant | None, output_dtype: int) -> IntegerType:
    dtype = np.dtype(np.uint8) if zero_point is None else zero_point.array.dtype
    if zero_point is None and output_dtype:
        dtype = element_dtype(output_dtype)
    try:
        element = None if dtype is None else element_type_of(dtype)
    except KeyError:
        element = None
    if element is None or not is_integer(element) or not 1 < element.width.data <= 32:
        raise UnsupportedError(
            f"it quantizes to {dtype or element_name(output_dtype)}, and qmlir to integers of 2 to 32 bits"
        )
    return element


@converts("DequantizeLinear", since=10)
@converts("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(
    node: ONNXNode, x: Value, x_scale: Value, x_zero_point: Value | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Value:  # fmt: skip
    """y = (x − x_zero_point) · x_scale, computed in float32, and rounded once if the result is float16 or bfloat16."""
    if holds_small_floats(x):
        shape = node.shape(x)
        point = None if x_zero_point is None else _along(node, x_zero_point, shape, axis, block_size)
        return dequantized_float(node, x, _along(node, x_scale, shape, axis, block_size), point)
    half = HALF_CODES.get(output_dtype) if output_dtype else node.half_of(x_scale)
    if half is None and output_dtype not in (0, onnx.TensorProto.FLOAT):
        raise UnsupportedError(f"it gives {element_name(output_dtype)}, and qmlir f32, f16 and bf16")
    real = _dequantized(node, x, node.widened(x_scale), x_zero_point, axis, block_size)
    # Weights stay what they are stored as: their readers take them in f32, whatever the type of the data beside them.
    return real if half is None or isinstance(x, Constant) else node.converted(real, half)


def _dequantized(
    node: ONNXNode, x: Value, x_scale: Value, x_zero_point: Value | None, axis: int, block_size: int
) -> Value:
    """Dequantizes integers to float32."""
    if not isinstance(x_scale, Constant) or (x_zero_point is not None and not isinstance(x_zero_point, Constant)):
        return _dequantized_at_run_time(node, x, x_scale, x_zero_point, axis, block_size)
    if block_size and isinstance(x, Constant):
        return dequantized_blocks(node, x, x_scale, x_zero_point, axis, block_size)
    if block_size:
        return _dequantized_at_run_time(node, x, x_scale, x_zero_point, axis, block_size)
    type = parameters(node, storage_of(node, x), x_scale, x_zero_point, node.shape(x), axis)
    return dequantized(node, x, type)
