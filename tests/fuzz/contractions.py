"""How convolutions, matrix products, pools and recurrent layers are drawn."""

from typing import Any

import numpy as np

from tests.fuzz.drawing import Drawing, Refused
from tests.fuzz.operators import draws


def window(d: Drawing, sizes: tuple[int, ...], most: int = 3) -> dict[str, Any]:
    """Kernel, strides, dilations and padding for spatial sizes; some are odd, some left to their defaults."""
    kernel = [d.integer(1, max(1, min(most, s))) for s in sizes]
    dilations = [2 if d.chance(0.2) and (k - 1) * 2 < s else 1 for k, s in zip(kernel, sizes, strict=True)]
    strides = [d.choice([1, 1, 1, 2, 3, 5]) for _ in sizes]
    pads = [d.integer(0, k - 1) if d.chance(0.4) else 0 for _ in range(2) for k in kernel]
    way = d.choice([None, None, None, None, "SAME_UPPER", "SAME_LOWER", "VALID"])
    # Where strides leave places out, onnxruntime crops, pools otherwise than convolutions.
    if way in ("SAME_UPPER", "SAME_LOWER"):
        strides = [min(s, k) for s, k in zip(strides, kernel, strict=True)]
        dilations = [1] * len(sizes)  # onnxruntime pads as if nothing were dilated; ONNX's text counts the gaps
    return {
        "kernel_shape": kernel,
        "strides": strides if d.chance(0.7) else None,
        "dilations": dilations if max(dilations) > 1 else None,
        "pads": pads if any(pads) and way is None else None,
        "auto_pad": way,
    }


def _image(d: Drawing) -> str:
    return d.pick(3, 5, fits=lambda s: s[1] > 0)


@draws("Conv")
def _convolution(d: Drawing, operator: str) -> None:
    x = _image(d)
    channels = d.shape_of(x)[1]
    attributes = window(d, d.shape_of(x)[2:])
    groups = channels if d.chance(0.25) else d.choice([g for g in (1, 1, 1, 2, 3) if channels % g == 0])
    outputs = groups * d.integer(1, 3 if groups > 1 else 17)
    kernel = attributes["kernel_shape"]
    weights = d.weights(outputs, channels // groups, *kernel)
    bias = [d.constant(d.floats((outputs,)))] if d.chance(0.7) else []
    if d.chance(0.3):
        attributes["kernel_shape"] = None
    y = d.add(operator, x, weights, *bias, group=groups if groups > 1 else None, **attributes)[0]
    _activation(d, y)


def _activation(d: Drawing, x: str) -> None:
    """What follows a layer most often, to be fused."""
    kind = d.integer(0, 9)
    if kind < 3:
        d.add("Relu", x)
    elif kind == 3:
        d.add("Clip", x, d.constant(np.array(0.0)), d.constant(np.array(6.0)))
    elif kind == 4 and len(d.shape_of(x)) >= 2:
        c = d.shape_of(x)[1]
        d.add(
            "BatchNormalization",
            x,
            *(d.constant(d.floats((c,))) for _ in range(3)),
            d.constant(d.rng.uniform(0.2, 2, c)),
        )


@draws("ConvTranspose")
def _transposed(d: Drawing, operator: str) -> None:
    x = d.pick(3, 4, fits=lambda s: all(s))
    channels = d.shape_of(x)[1]
    groups = d.choice([g for g in (1, 1, 2, 3) if channels % g == 0])
    kernel = [d.integer(1, 3) for _ in d.shape_of(x)[2:]]
    weights = d.weights(channels, d.integer(1, 4), *kernel)
    bias = [d.constant(d.floats((d.shape_of(weights)[1] * groups,)))] if d.chance(0.5) else []
    strides = [d.integer(1, 3) for _ in kernel]
    pads = [d.integer(0, k - 1) for _ in range(2) for k in kernel] if d.chance(0.4) else None
    extra = [d.integer(0, s - 1) for s in strides] if d.chance(0.3) else None
    d.add(operator, x, weights, *bias, group=groups, strides=strides, pads=pads, output_padding=extra)


@draws("DeformConv")
def _deformable(d: Drawing, operator: str) -> None:
    x = d.pick(4, 4, fits=lambda s: all(s) and min(s[2:]) > 1)
    n, channels, height, width = d.shape_of(x)
    offsets = d.constant(d.floats((n, 8, height - 1, width - 1), 0.5))
    d.add(operator, x, d.weights(d.integer(1, 4), channels, 2, 2), offsets, kernel_shape=[2, 2])


@draws("Gemm")
def _gemm(d: Drawing, operator: str) -> None:
    x = d.pick(2, 2)
    across = d.chance(0.3)
    inner = d.shape_of(x)[0 if across else 1]
    outputs, transposed = d.integer(1, 17), d.chance(0.5)
    weights = (
        d.weights(outputs, inner) if transposed else d.constant(d.floats((inner, outputs), 1 / np.sqrt(inner + 1)))
    )
    bias = [d.constant(d.floats(d.choice([(outputs,), (1, outputs), (1,), ()])))] if d.chance(0.7) else []
    scales: dict[str, Any] = {"alpha": d.choice([None, None, 0.5]), "beta": d.choice([None, None, 1.5])}
    y = d.add(operator, x, weights, *bias, transA=int(across) or None, transB=int(transposed) or None, **scales)[0]
    _activation(d, y)


@draws("MatMul")
def _matmul(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    shape = d.shape_of(x)
    inner = shape[-1]
    if d.chance(0.7):
        batch = [d.choice([1, s]) for s in shape[:-2]][d.integer(0, max(0, len(shape) - 2)) :]
        other = d.constant(d.floats((*batch, inner, d.integer(1, 9)), 1 / np.sqrt(inner + 1)))
        y = d.add(operator, x, other)[0]
        if d.chance(0.5):
            d.add("Add", y, d.constant(d.floats(d.shape_of(y)[-1:])))
        return
    if len(shape) < 2:
        raise Refused("rank")
    turned = d.add("Transpose", x, perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])[0]
    d.add(operator, *((x, turned) if d.chance(0.5) else (turned, x)))


@draws("Einsum")
def _einsum(d: Drawing, operator: str) -> None:
    x = d.pick(2, 4)
    letters = "abcd"[: len(d.shape_of(x))]
    kind = d.integer(0, 3)
    if kind == 0:
        other = d.constant(d.floats((d.shape_of(x)[-1], d.integer(1, 5)), 0.5))
        d.add(operator, x, other, equation=f"{letters},{letters[-1]}z->{letters[:-1]}z")
    elif kind == 1:
        order = "".join(d.rng.permutation(list(letters)))
        d.add(operator, x, equation=f"{letters}->{order}")
    elif kind == 2:
        d.add(operator, x, equation=f"{letters}->{letters[:-1]}")
    else:
        d.add(operator, x, x, equation=f"{letters},{letters}->{letters[0]}")


@draws("AveragePool", "MaxPool", "LpPool")
def _pool(d: Drawing, operator: str) -> None:
    x = d.pick(3, 5, fits=lambda s: all(s))
    attributes = window(d, d.shape_of(x)[2:])
    ceil = 1 if d.chance(0.2) and attributes["auto_pad"] is None else None
    if operator == "AveragePool":
        if d.opset < 19:
            attributes["dilations"] = None
        d.add(operator, x, count_include_pad=d.choice([None, 1]), ceil_mode=ceil, **attributes)
    elif operator == "LpPool":
        if d.opset < 18:
            attributes["dilations"] = None
        d.add(operator, x, p=d.integer(1, 2), **attributes)
    else:
        names = d.add(operator, x, ceil_mode=ceil, outputs=2 if d.chance(0.2) else 1, **attributes)
        if len(names) == 2:
            d.add("Cast", names[1], to=1)


@draws("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(3, 5, fits=lambda s: all(s)))


@draws("MaxUnpool")
def _unpool(d: Drawing, operator: str) -> None:
    x = d.pick(4, 4, fits=lambda s: all(s) and min(s[2:]) > 1)
    values, places = d.add("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    d.add(operator, values, places, kernel_shape=[2, 2], strides=[2, 2])


@draws("LSTM", "GRU", "RNN")
def _recurrent(d: Drawing, operator: str) -> None:
    x = d.pick(3, 3, fits=lambda s: all(s) and s[0] <= 5)
    _, batch, features = d.shape_of(x)
    hidden, gates = d.integer(1, 4), {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    direction = d.choice([None, None, "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    inputs = [
        d.constant(d.floats((ways, gates * hidden, features), 0.5)),
        d.constant(d.floats((ways, gates * hidden, hidden), 0.5)),
        d.constant(d.floats((ways, 2 * gates * hidden), 0.5)) if d.chance(0.6) else "",
        "",
        d.constant(d.floats((ways, batch, hidden))) if d.chance(0.3) else "",
    ]
    options: dict[str, Any] = {"linear_before_reset": d.choice([None, 1])} if operator == "GRU" else {}
    outputs = 3 if operator == "LSTM" else 2
    d.add(operator, x, *inputs, outputs=outputs, hidden_size=hidden, direction=direction, **options)


@draws("DFT")
def _transform(d: Drawing, operator: str) -> None:
    d.since(17)
    x = d.pick(1, 3, fits=lambda s: all(s))
    x = d.add("Unsqueeze", x, d.integers(-1))[0]
    axis = d.integer(0, len(d.shape_of(x)) - 2)
    length = d.constant(d.integer(1, 12), np.int64) if d.chance(0.3) else ""
    given: dict[str, Any] = {"axis": axis} if d.opset < 20 else {}
    inputs = [length] if d.opset < 20 else [length, d.constant(axis, np.int64)]
    sided = d.choice([None, 1])
    d.add(operator, x, *inputs, onesided=sided, inverse=None if sided else d.choice([None, 1]), **given)


@draws("STFT")
def _short_transforms(d: Drawing, operator: str) -> None:
    d.since(17)
    x = d.pick(2, 2, fits=lambda s: all(s))
    samples = d.shape_of(x)[1]
    x = d.add("Unsqueeze", x, d.integers(-1))[0]
    length = d.integer(1, samples)
    window = d.constant(d.rng.uniform(0, 1, length)) if d.chance(0.5) else ""
    step = d.constant(d.integer(1, 4), np.int64)
    d.add(operator, x, step, window, d.constant(length, np.int64), onesided=d.integer(0, 1))


@draws("Det")
def _determinant(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(2, fits=lambda s: s[-1] == s[-2] and 0 < s[-1] <= 3))
