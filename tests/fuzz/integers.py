"""How operators on integers are drawn: ONNX's, those that onnxruntime adds, and QONNX's."""

from typing import Any

import numpy as np

from tests.fuzz.contractions import window
from tests.fuzz.drawing import Drawing, Refused
from tests.fuzz.operators import draws
from tests.fuzz.spelled import BIPOLAR, QUANT, TRUNC


def _parameters(d: Drawing, x: str, kind: type[np.generic]) -> tuple[str, str]:
    """Scale and zero point that suit the values of a tensor."""
    low, high = d.range_of(x)
    low, high = min(low, 0.0), max(high, 0.0)
    limits = np.iinfo(kind)  # type: ignore[arg-type]
    scale = np.float32(max((high - low) / (int(limits.max) - int(limits.min)), 1e-4))
    zero = int(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max))
    if kind is np.int16:
        scale, zero = np.float32(max(high, -low, 1e-3) / 32767), 0
    return d.constant(np.array(scale, np.float32), np.float32), d.constant(np.array(zero, kind), kind)


def quantized(d: Drawing, x: str, kind: type[np.generic]) -> tuple[str, str, str]:
    """A tensor in integers, its scale and its zero point."""
    if d.value(x).dtype != np.float32:
        raise Refused("halves")
    scale, zero = _parameters(d, x, kind)
    return d.add("QuantizeLinear", x, scale, zero)[0], scale, zero


@draws("QuantizeLinear", "DequantizeLinear")
def _casts(d: Drawing, operator: str) -> None:
    kinds = [np.int8, np.uint8] if d.opset < 21 else [np.int8, np.uint8, np.int16]
    d.add("DequantizeLinear", *quantized(d, d.pick(), d.choice(kinds)))


@draws("DynamicQuantizeLinear")
def _dynamic(d: Drawing, operator: str) -> None:
    if d.float != np.float32:
        raise Refused("halves")
    d.add("DequantizeLinear", *d.add(operator, d.pick(), outputs=3))


def _matrix(d: Drawing, inner: int, kind: type[np.generic]) -> tuple[str, int]:
    outputs = d.integer(1, 6)
    low = 0 if kind is np.uint8 else -127
    return d.constant(d.rng.integers(low, 128, (inner, outputs)).astype(kind), kind), outputs


@draws("QLinearMatMul")
def _qlinear_matmul(d: Drawing, operator: str) -> None:
    x = d.pick(2, 3, fits=lambda s: all(s))
    kind = d.choice([np.int8, np.uint8])
    weights, _ = _matrix(d, d.shape_of(x)[-1], kind)
    scale, zero = d.constant(np.array(0.01, np.float32), np.float32), d.constant(np.array(0, kind), kind)
    a = quantized(d, x, kind)
    out = d.constant(np.array(0.05, np.float32), np.float32), d.constant(np.array(d.integer(0, 9), kind), kind)
    y = d.add(operator, *a, weights, scale, zero, *out)[0]
    d.add("DequantizeLinear", y, *out)


@draws("QLinearConv")
def _qlinear_conv(d: Drawing, operator: str) -> None:
    x = d.pick(4, 4, fits=lambda s: all(s))
    kind, channels = d.choice([np.int8, np.uint8]), d.shape_of(x)[1]
    attributes = window(d, d.shape_of(x)[2:])
    kernel = attributes["kernel_shape"]
    low = 0 if kind is np.uint8 else -127
    weights = d.constant(d.rng.integers(low, 128, (d.integer(1, 5), channels, *kernel)).astype(kind), kind)
    scale, zero = d.constant(np.array(0.01, np.float32), np.float32), d.constant(np.array(0, kind), kind)
    a = quantized(d, x, kind)
    out = d.constant(np.array(0.05, np.float32), np.float32), d.constant(np.array(d.integer(0, 9), kind), kind)
    y = d.add(operator, *a, weights, scale, zero, *out, **attributes)[0]
    d.add("DequantizeLinear", y, *out)


@draws("MatMulInteger")
def _matmul_integer(d: Drawing, operator: str) -> None:
    x, scale, zero = quantized(d, d.pick(2, 3, fits=lambda s: all(s)), np.uint8)
    weights, _ = _matrix(d, d.shape_of(x)[-1], d.choice([np.int8, np.uint8]))
    y = d.add("Cast", d.add(operator, x, weights, zero)[0], to=1)[0]
    d.add("Mul", y, scale)


@draws("ConvInteger")
def _conv_integer(d: Drawing, operator: str) -> None:
    image = d.pick(4, 4, fits=lambda s: all(s))
    x, scale, zero = quantized(d, image, np.uint8)
    weights = d.constant(d.rng.integers(0, 128, (2, d.shape_of(image)[1], 1, 1)).astype(np.uint8), np.uint8)
    y = d.add("Cast", d.add(operator, x, weights, zero)[0], to=1)[0]
    d.add("Mul", y, scale)


# -- onnxruntime's own ---------------------------------------------------------------------------------------------

BYTES = (np.int8, np.uint8)


def _target(d: Drawing, low: float, high: float, kind: type[np.generic]) -> tuple[str, str]:
    """Scale and zero point for results between two values, at times a bit too narrow."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32(max((high - low) * d.choice([1.0, 1.0, 1.3, 0.8]) / 255, 1e-4))
    limits = np.iinfo(kind)  # type: ignore[arg-type]
    zero = np.clip(np.rint(limits.min - low / scale), limits.min, limits.max)
    return d.constant(scale, np.float32), d.constant(zero, kind)


def _beside(d: Drawing, x: str, kind: type[np.generic]) -> tuple[str, str, str]:
    """Another operand for integers: a constant or a computed tensor that broadcasts with them."""
    other = d.like(x)
    if d.value(other).dtype == np.float32:
        return quantized(d, other, kind)
    return other, d.constant(d.rng.uniform(0.005, 0.05), np.float32), d.constant(d.integer(0, 20), kind)


def _real(d: Drawing, triple: tuple[str, str, str]) -> tuple[float, float]:
    """The least and the largest value that integers stand for."""
    scale, zero = float(d.value(triple[1])), float(d.value(triple[2]))
    low, high = d.range_of(triple[0])
    return (float(low) - zero) * scale, (float(high) - zero) * scale


def _back(d: Drawing, y: str, target: tuple[str, str]) -> None:
    """Brings integers back to floats, most often."""
    if d.chance(0.85):
        d.add("DequantizeLinear", y, *target)


@draws("com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear")
def _microsoft_casts(d: Drawing, operator: str) -> None:
    x, kind = d.pick(), d.choice([np.int8, np.uint8, np.int16, np.uint16])
    _only_f32(d, x)
    parameters = _parameters(d, x, kind)
    integers = d.add("com.microsoft.QuantizeLinear", x, *parameters)[0]
    d.add("com.microsoft.DequantizeLinear", integers, *parameters)


def _only_f32(d: Drawing, x: str) -> None:
    if d.value(x).dtype != np.float32:
        raise Refused("halves")


@draws("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def _qlinear_binary(d: Drawing, operator: str) -> None:
    kind = d.choice(BYTES)
    a = quantized(d, d.pick(), kind)
    b = _beside(d, a[0], kind)
    ends = [f for x in _real(d, a) for y in _real(d, b) for f in ([x + y] if operator.endswith("Add") else [x * y])]
    target = _target(d, min(ends), max(ends), kind)
    _back(d, d.add(operator, *((*a, *b) if d.chance(0.7) else (*b, *a)), *target)[0], target)


@draws("com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu")
def _qlinear_function(d: Drawing, operator: str) -> None:
    kind = d.choice(BYTES)
    x = quantized(d, d.pick(), kind)
    target = _target(d, 0, 1, kind) if operator.endswith("Sigmoid") else _target(d, *_real(d, x), kind)
    alpha = d.choice([None, 0.1, 0.5]) if operator.endswith("Relu") else None
    _back(d, d.add(operator, *x, *target, alpha=alpha)[0], target)


@draws("com.microsoft.QLinearSoftmax")
def _qlinear_softmax(d: Drawing, operator: str) -> None:
    kind = d.choice(BYTES)
    x = quantized(d, d.pick(1, fits=lambda s: all(s)), kind)
    target = d.constant(1 / 256, np.float32), d.constant(np.iinfo(kind).min, kind)
    axis, version = d.integer(-len(d.shape_of(x[0])), len(d.shape_of(x[0])) - 1), d.choice([12, 13])
    _back(d, d.add(operator, *x, *target, axis=axis, opset=version)[0], target)


@draws("com.microsoft.QLinearWhere")
def _qlinear_where(d: Drawing, operator: str) -> None:
    kind = d.choice(BYTES)
    a = quantized(d, d.pick(1), kind)
    b = _beside(d, a[0], kind)
    ends = [*_real(d, a), *_real(d, b)]
    target = _target(d, min(ends), max(ends), kind)
    condition = d.constant(d.rng.random(d.shape_of(a[0])[-1:]) < 0.5)
    _back(d, d.add(operator, condition, *a, *b, *target)[0], target)


@draws("com.microsoft.QLinearConcat")
def _qlinear_concat(d: Drawing, operator: str) -> None:
    kind = d.choice(BYTES)
    x = d.pick(1)
    parts = [quantized(d, x, kind)]
    axis = d.integer(0, len(d.shape_of(x)) - 1)
    for _ in range(d.integer(0, 2)):
        shape = [d.integer(1, 3) if i == axis else s for i, s in enumerate(d.shape_of(x))]
        parts.append(quantized(d, x if d.chance(0.5) else d.constant(d.floats(shape)), kind))
    ends = [end for part in parts for end in _real(d, part)]
    target = _target(d, min(ends), max(ends), kind)
    _back(d, d.add(operator, *target, *(name for part in parts for name in part), axis=axis)[0], target)


@draws("com.microsoft.QLinearAveragePool")
def _qlinear_pool(d: Drawing, operator: str) -> None:
    kind, image = d.choice(BYTES), d.pick(4, 4, fits=lambda s: all(s))
    last = d.choice([None, 1])
    attributes = window(d, d.shape_of(image)[1:3] if last else d.shape_of(image)[2:])
    attributes["dilations"] = None
    x = quantized(d, image, kind)
    target = _target(d, *_real(d, x), kind)
    # Where windows hold different numbers of elements, qmlir's integers round the mean in steps of the input first.
    padded = 1 if attributes["pads"] or attributes["auto_pad"] in ("SAME_UPPER", "SAME_LOWER") else d.choice([None, 1])
    _back(d, d.add(operator, *x, *target, channels_last=last, count_include_pad=padded, **attributes)[0], target)


@draws("com.microsoft.QLinearGlobalAveragePool")
def _qlinear_global_pool(d: Drawing, operator: str) -> None:
    kind, image = d.choice(BYTES), d.pick(3, 5, fits=lambda s: all(s))
    x = quantized(d, image, kind)
    target = _target(d, *_real(d, x), kind)
    _back(d, d.add(operator, *x, *target, channels_last=d.choice([None, 1]))[0], target)


@draws("com.microsoft.QLinearReduceMean")
def _qlinear_mean(d: Drawing, operator: str) -> None:
    if d.opset < 18:
        raise Refused("an older version")  # spelled with the ReduceMean of version 18
    kind = d.choice(BYTES)
    x = quantized(d, d.pick(1, fits=lambda s: all(s)), kind)
    rank = len(d.shape_of(x[0]))
    target = _target(d, *_real(d, x), kind)
    axes = sorted({d.integer(0, rank - 1) for _ in range(2)})
    _back(d, d.add(operator, *x, *target, axes=axes, keepdims=d.integer(0, 1))[0], target)


@draws("com.microsoft.QGemm")
def _qgemm(d: Drawing, operator: str) -> None:
    kind, x = d.choice(BYTES), d.pick(2, 2, fits=lambda s: all(s))
    a = quantized(d, x, kind)
    across, transposed = d.chance(0.2), d.chance(0.5)
    inner = d.shape_of(x)[0 if across else 1]
    weights, outputs = _matrix(d, inner, np.int8 if kind is np.int8 else d.choice(BYTES))
    if transposed:
        weights = d.constant(np.ascontiguousarray(d.value(weights).T), d.value(weights).dtype)
    several = outputs if d.chance(0.4) else 1
    scale = d.constant(d.rng.uniform(0.002, 0.02, several) if several > 1 else 0.01, np.float32)
    zero = d.constant(np.zeros(several) if several > 1 else 0, d.value(weights).dtype)
    bias = d.constant(d.rng.integers(-2000, 2000, d.choice([(outputs,), (1, outputs)])).astype(np.int32), np.int32)
    target = _target(d, -3, 3, kind) if d.chance(0.7) else ()
    options: dict[str, Any] = {
        "alpha": d.choice([None, 0.5]),
        "transA": int(across) or None,
        "transB": int(transposed) or None,
    }
    y = d.add(operator, *a, weights, scale, zero, bias if d.chance(0.6) else "", *target, **options)[0]
    if target:
        _back(d, y, target)


def _product(d: Drawing, inner: int, columns: int, kind: type[np.generic]) -> tuple[str, str, str]:
    """Constant integers of a product, with a scale and a zero point of all or of each column."""
    low = 0 if kind is np.uint8 else -127
    weights = d.constant(d.rng.integers(low, 128, (inner, columns)), kind)
    sizes = (columns,) if d.chance(0.4) else ()
    zero = d.rng.integers(0, 9, sizes) if d.chance(0.5) else np.zeros(sizes)
    return weights, d.constant(d.rng.uniform(0.002, 0.02, sizes), np.float32), d.constant(zero, kind)


@draws("com.microsoft.MatMulIntegerToFloat")
def _product_to_floats(d: Drawing, operator: str) -> None:
    x, scale, zero = quantized(d, d.pick(2, 3, fits=lambda s: all(s)), d.choice(BYTES))
    columns = d.integer(1, 6)
    weights, step, point = _product(d, d.shape_of(x)[-1], columns, d.choice(BYTES))
    bias = d.constant(d.floats((columns,))) if d.chance(0.5) else ""
    d.add(operator, x, weights, scale, step, zero, point, bias)


@draws("com.microsoft.DynamicQuantizeMatMul")
def _dynamic_product(d: Drawing, operator: str) -> None:
    x, columns = d.pick(2, 3, fits=lambda s: all(s)), d.integer(1, 6)
    _only_f32(d, x)
    bias = d.constant(d.floats((columns,))) if d.chance(0.5) else ""
    d.add(operator, x, *_product(d, d.shape_of(x)[-1], columns, d.choice(BYTES)), bias)


@draws("com.microsoft.QAttention")
def _quantized_attention(d: Drawing, operator: str) -> None:
    x, scale, zero = quantized(d, d.pick(3, 3, fits=lambda s: all(s)), np.uint8)
    heads = d.integer(1, 3)
    columns = 3 * heads * d.integer(1, 3)
    weights, step, point = _product(d, d.shape_of(x)[-1], columns, d.choice(BYTES))
    bias = d.constant(d.floats((columns,)))
    d.add(operator, x, weights, bias, scale, step, "", zero, point, num_heads=heads, unidirectional=d.choice([None, 1]))


# -- QONNX ---------------------------------------------------------------------------------------------------------


@draws(*QUANT)
def _quant(d: Drawing, operator: str) -> None:
    x = d.pick() if d.chance(0.7) else d.constant(d.floats(d.shape(1, 4)))
    _only_f32(d, x)
    known, shape = x in d.constants, d.shape_of(x)
    low, high = d.range_of(x)
    bits, signed = d.choice([8, 8, 4, 3, 2, 6, 12, 16]), d.integer(0, 1) if low < 0 else d.choice([0, 0, 1])
    most = max(-low, high, 1e-3) / ((1 << bits - 1) - 1 if signed else (1 << bits) - 1)
    axis = d.integer(0, len(shape) - 1) if shape and d.chance(0.4) else None
    sizes = [1] * len(shape) if axis is None else [s if i == axis else 1 for i, s in enumerate(shape)]
    scale = d.constant(most * d.rng.uniform(0.7, 1.3, sizes if axis is not None or d.chance(0.3) else ()), np.float32)
    # qmlir rounds before it adds the zero point where x is computed; that is the same for even ones only.
    zero = d.constant(0.0 if signed or d.chance(0.7) else 2.0 * d.integer(0, 1 << bits - 2), np.float32)
    mode = d.choice(["ROUND", "CEIL", "FLOOR"]) if known else d.choice([None, "ROUND"])
    y = d.add(operator, x, scale, zero, d.constant(float(bits), np.float32), signed=signed,
              narrow=d.choice([None, 1]), rounding_mode=mode)[0]  # fmt: skip
    if known:
        d.add("Mul", d.pick(), d.add("ReduceMax", y, keepdims=0)[0])


@draws(*BIPOLAR)
def _bipolar(d: Drawing, operator: str) -> None:
    x = d.pick() if d.chance(0.7) else d.constant(d.floats(d.shape(1, 4)))
    _only_f32(d, x)
    sizes = [1] * (len(d.shape_of(x)) - 1) + [*d.shape_of(x)[-1:]] if d.chance(0.3) else ()
    y = d.add(operator, x, d.constant(d.rng.uniform(0.1, 2.0, sizes), np.float32))[0]
    if x in d.constants:
        d.add("Mul", d.pick(), d.add("ReduceMax", y, keepdims=0)[0])


@draws(*TRUNC)
def _trunc(d: Drawing, operator: str) -> None:
    x = d.pick() if d.chance(0.7) else d.constant(d.floats(d.shape(1, 4)))
    _only_f32(d, x)
    low, high = d.range_of(x)
    bits, fewer, power = d.choice([8, 9, 12]), d.integer(2, 6), d.integer(1, 4)
    step = max(-low, high, 1e-3) / ((1 << bits - 1) - 1) * d.rng.uniform(0.7, 1.3)
    point = 2.0 ** (power + 1) * d.integer(0, 3)
    scale, zero, width = (d.constant(v, np.float32) for v in (step, point, float(bits)))
    # What comes before is mostly a Quant, whose integers no rounding of floats moves.
    if d.chance(0.7):
        x = d.add(operator.replace("Trunc", "Quant"), x, scale, zero, width)[0]
    mode = d.choice([None, "ROUND", "CEIL", "FLOOR"])
    if d.chance(0.5):
        y = d.add(operator, x, scale, zero, width, d.constant(float(bits - power), np.float32), rounding_mode=mode)[0]
    else:
        wide = d.constant(np.float32(step) * np.float32(2.0**power), np.float32)
        rest = d.constant(point * 2.0**-power, np.float32), d.constant(float(fewer), np.float32)
        y = d.add(operator, x, scale, zero, width, wide, *rest, rounding_mode=mode, signed=d.integer(0, 1),
                  narrow=d.choice([None, 1]))[0]  # fmt: skip
    if x in d.constants:
        d.add("Mul", d.pick(), d.add("ReduceMax", y, keepdims=0)[0])
