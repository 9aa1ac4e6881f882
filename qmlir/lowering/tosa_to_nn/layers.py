"""Quantized layers: a convolution or a matrix product of bytes, its rescale, and a clamp behind it.

TOSA states how integers are computed, not which real numbers they stand for: of the scales, only the factors
s_x · s_w / s_y matter. Data therefore get the scale 1, and the weights get the factor:

    tosa.conv2d (x − 3) · w + b  →  tosa.rescale · 1518500250 · 2^-39 + 7
    nn.conv2d   x !quant<i8:f32, 1.0:3>, w !quant<i8:f32, 1518500250 · 2^-39>  →  !quant<i8:f32, 1.0:7>

A matrix product of two computed tensors gets the reciprocal factor as the scale of its result. The layer is written
only if `nn-to-qint` would compute the same integers: the same accumulators, multipliers, shifts and rounding. All other
pairs stay sums and requantizations of qint.

TFLite's importer rounds twice (DOUBLE_ROUND), which is LiteRT's reference rounding of convolutions and not the default.
If all rescales of a module that could end a layer round twice, the module follows `litert-reference`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import ContractionOp, WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array
from qmlir.ir.upstream.tosa import contraction as tosa
from qmlir.ir.upstream.tosa.elementwise import ClampOp, RescaleOp
from qmlir.ir.upstream.tosa.shape import ReshapeOp
from qmlir.lowering.tosa_to_nn.code import NNCode, Property, attribute_of, declared, static_shape
from qmlir.lowering.tosa_to_nn.contraction import Layer, layer_of
from qmlir.lowering.tosa_to_nn.rescale import Factors, factors_of, input_zero_point, output_zero_point
from qmlir.numerics import fixed_point
from qmlir.policies.legality import require_integer_form
from qmlir.policies.runtime_kernels import bounds_rounding, rounding_for
from qmlir.policies.runtimes import Rounding

TWICE = "litert-reference"
"""The runtime that rounds convolutions twice, as DOUBLE_ROUND does."""


@dataclass(frozen=True)
class Tail:
    """What follows the sums of a layer: operations that nothing else reads.

    operations  the operations, in order; the result of the last is the result of the layer
    rescale     the rescale among them
    factors     its factors
    zero_point  the zero point of the result
    low, high   the bounds of the result's integers
    """

    operations: Sequence[Operation]
    rescale: RescaleOp
    factors: Factors
    zero_point: int
    low: int
    high: int


def follower(op: Operation) -> Operation | None:
    """The only operation that reads an operation's only result, once; None if there is no such operation."""
    uses = list(op.results[0].uses)
    return uses[0].operation if len(uses) == 1 else None


def tail_of(code: NNCode, op: Operation) -> Tail | None:
    """The operations behind sums that make a layer of them; None if there are none."""
    found: list[Operation] = []
    rescale = follower(op)
    if isinstance(rescale, ReshapeOp) and _is_dense(op):
        found.append(rescale)
        rescale = follower(rescale)
    if not isinstance(rescale, RescaleOp) or bool(rescale.input_unsigned) or bool(rescale.output_unsigned):
        return None
    found.append(rescale)
    factors = factors_of(code, rescale)
    if factors is None or declared(rescale.output) != i8 or input_zero_point(code, rescale):
        return None
    low, high = -128, 127
    clamp = follower(rescale)
    if isinstance(clamp, ClampOp):
        found.append(clamp)
        low, high = int(clamp.min_val.value.data), int(clamp.max_val.value.data)
    return Tail(found, rescale, factors, output_zero_point(code, rescale), low, high)


def _is_dense(op: Operation) -> bool:
    """Whether an operation yields an image of one pixel, which a reshape makes a row of a matrix."""
    shape = static_shape(op.results[0])
    return isinstance(op, tosa.Conv2DOp) and shape is not None and shape[1:3] == (1, 1)


def runtime_for(module: ModuleOp, code: NNCode) -> str:
    """The runtime whose rounding the layers of a module follow: `TWICE` if all that may be layers round twice."""
    contracts: set[str] = set()
    for op in module.walk():
        if isinstance(op, tosa.ConvolutionOp | tosa.MatMulOp):
            code.begin(op)
            if (tail := tail_of(code, op)) is not None:
                contracts.add(tail.factors.contract)
    return TWICE if contracts == {"double"} else "default"


def write_layer(code: NNCode, op: tosa.ConvolutionOp | tosa.MatMulOp) -> bool:
    """Writes an operation and what follows it as a quantized layer; returns whether that is possible."""
    tail = tail_of(code, op)
    if tail is None or declared(op.operands[0]) != i8:
        return False
    made = _matrix_product(code, op, tail) if isinstance(op, tosa.MatMulOp) else _weighted(code, op, tail)
    if made is None:
        return False
    result = tail.operations[-1].results[0]
    shape = static_shape(result)
    code.finish(result, made, op, *tail.operations)
    if shape is not None:
        code.values[result] = code.reshape(made, shape)
    code.done.update(tail.operations)
    code.layers += 1
    return True


def _weighted(code: NNCode, op: tosa.ConvolutionOp, tail: Tail) -> SSAValue | None:
    """A convolution or fully connected layer with constant weights and bias."""
    weights, bias = code.array(op.weight), code.array(op.bias)
    if weights is None or bias is None or weights.dtype != np.int8:
        return None
    layer = layer_of(code, op)
    y = _layer(code, op, layer, tail)
    if y is None and layer.kind is nn.FullyConnectedOp:  # runtimes may round convolutions otherwise
        y = _layer(code, op, layer_of(code, op, dense=False), tail)
    return y


def _layer(code: NNCode, op: tosa.ConvolutionOp, layer: Layer, tail: Tail) -> SSAValue | None:
    """A layer, if nn-to-qint computes its integers."""
    assert isinstance(layer.w, np.ndarray)
    assert not isinstance(layer.b, SSAValue)
    axis = layer.kind.CHANNEL_AXIS
    try:
        data = UniformType.per_tensor(i8, 1.0, layer.zero_point)
        weights = _weight_type(layer.w, layer.w_point, tail.factors, axis)
        result = UniformType.per_tensor(i8, 1.0, tail.zero_point)
    except VerifyException:  # a factor that is 0, or too small for a scale
        return None
    w = nn.ConstantOp(np.ascontiguousarray(layer.w), TensorType(weights, layer.w.shape))
    b = None if layer.b is None else nn.ConstantOp(layer.b.astype(np.int32))
    for constant, source in ((w, op.weight), (b, op.bias)):
        if constant is not None:
            code.name(constant.y, source)
    x = code.retyped(layer.x, data)
    operands = [x, w.y, [] if b is None else [b.y]]
    return _checked(code, layer.kind, operands, dict(layer.properties), result, tail, [o for o in (w, b) if o])


def _weight_type(w: Array, zero_point: int, factors: Factors, axis: int) -> UniformType:
    """The type of the weights, whose scales are the factors; −128 is left out of its range if no weight is −128."""
    scales = [float(s) for s in np.ldexp(factors.multiplier.astype(np.float64), factors.shift - 31)]
    low = -127 if w.min(initial=0) > -128 and not zero_point else -128
    if len(scales) == 1:
        return UniformType.per_tensor(i8, scales[0], zero_point, low, 127)
    return UniformType.per_axis(i8, axis, scales, [zero_point] * len(scales), low, 127)


def _matrix_product(code: NNCode, op: tosa.MatMulOp, tail: Tail) -> SSAValue | None:
    """A matrix product of two tensors with one scale each."""
    if len(tail.factors.multiplier) > 1 or not tail.factors.multiplier[0]:
        return None
    points = code.number(op.a_zp, "a_zp"), code.number(op.b_zp, "b_zp")
    operands = [
        code.typed(x, UniformType.per_tensor(i8, 1.0, point)) for x, point in zip((op.a, op.b), points, strict=True)
    ]
    scale = 1 / float(np.ldexp(float(tail.factors.multiplier[0]), int(tail.factors.shift[0]) - 31))
    result = UniformType.per_tensor(i8, scale, tail.zero_point)
    return _checked(code, nn.MatMulOp, operands, {}, result, tail, [])


def _checked(
    code: NNCode, kind: type[nn.MatMulOp] | type[WeightedOp], operands: Sequence[SSAValue | Sequence[SSAValue]],
    properties: dict[str, Property], result: UniformType, tail: Tail, constants: Sequence[nn.ConstantOp],
) -> SSAValue | None:  # fmt: skip
    """Appends a layer and its constants if nn-to-qint computes exactly what `tail` states; else drops them."""
    bounds = {"min": tail.low, "max": tail.high}
    reals = {
        name: (stored - tail.zero_point) * result.scale for name, stored in bounds.items() if stored not in (-128, 127)
    }
    given = {name: attribute_of(value) for name, value in (properties | reals).items()}
    op = kind.make(operands, given, element=result)
    if _is_exact(code, op, tail, reals):
        for constant in constants:
            code.add(constant)
        return code.add(op)
    for made in (op, *constants):
        made.erase()
    return None


def _is_exact(code: NNCode, op: ContractionOp, tail: Tail, reals: dict[str, float]) -> bool:
    """Whether nn-to-qint gives a layer the sums, the factors, the rounding and the bounds of TOSA."""
    try:
        require_integer_form(op, code.target)
    except UnsupportedError:
        return False
    rounding = rounding_for(op, code.runtime, code.target.contract)
    if rounding != Rounding(tail.factors.contract) or not op.fits_32_bits():
        return False
    multipliers, shifts = fixed_point.quantize_multipliers(op.factors())
    wanted = np.broadcast_arrays(tail.factors.multiplier, tail.factors.shift, multipliers, shifts)
    if not (np.array_equal(wanted[0], wanted[2]) and np.array_equal(wanted[1], wanted[3])):
        return False
    by, result = bounds_rounding(op, code.runtime), uniform(op.results[0])
    low, high = (
        int(fixed_point.quantize(np.array(np.float32(real)), result.scale, result.zero_point, -128, 127, np.int64, by))
        for real in (reals.get("min", -np.inf), reals.get("max", np.inf))
    )
    return (low, high) == (tail.low, tail.high)
