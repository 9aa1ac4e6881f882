"""How the operators on floats are drawn into which onnxruntime's optimizer fuses ONNX's, and weights of a few bits."""

from typing import Any

import numpy as np

from tests.fuzz.contractions import window
from tests.fuzz.drawing import Drawing, Refused
from tests.fuzz.operators import draws


@draws("com.microsoft.Gelu", "com.microsoft.QuickGelu", "com.microsoft.FastGelu", "com.microsoft.BiasGelu")
def _gelu(d: Drawing, operator: str) -> None:
    biased = operator.endswith("BiasGelu") or (operator.endswith("FastGelu") and d.chance(0.5))
    x = d.pick(1 if biased else 0)
    bias = [d.constant(d.floats(d.shape_of(x)[-1:]))] if biased else []
    alpha = d.choice([None, 0.5, 1.3]) if operator.endswith("QuickGelu") else None
    d.add(operator, x, *bias, alpha=alpha)


ACTIVATIONS: dict[str, dict[str, list[float]]] = {
    "Relu": {}, "Tanh": {}, "Sigmoid": {}, "LeakyRelu": {"alpha": [0.01, 0.2]},
    "HardSigmoid": {"alpha": [0.2, 0.4], "beta": [0.5, 0.3]},
}  # fmt: skip
"""Activations that onnxruntime fuses into contractions → choices for their attributes."""


def _activation(d: Drawing) -> tuple[str, dict[str, float]]:
    kind = d.choice(list(ACTIVATIONS))
    return kind, {name: d.choice(values) for name, values in ACTIVATIONS[kind].items()}


@draws("com.microsoft.FusedConv")
def _convolution(d: Drawing, operator: str) -> None:
    x = d.pick(3, 5, fits=lambda s: s[1] > 0)
    channels, attributes = d.shape_of(x)[1], window(d, d.shape_of(x)[2:])
    groups = d.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    outputs = groups * d.integer(1, 4)
    weights = d.weights(outputs, channels // groups, *attributes["kernel_shape"])
    bias = d.constant(d.floats((outputs,))) if d.chance(0.7) else ""
    kind, values = _activation(d)
    parameters: list[float] | None = list(values.values()) or None
    if d.chance(0.2):
        kind, parameters = "Clip", [d.choice([0.0, -1.0]), d.choice([1.0, 6.0])]
    d.add(operator, x, weights, bias, group=groups, activation=kind, activation_params=parameters, **attributes)


@draws("com.microsoft.FusedGemm")
def _gemm(d: Drawing, operator: str) -> None:
    x = d.pick(2, 2)
    across, transposed, outputs = d.chance(0.3), d.chance(0.5), d.integer(1, 9)
    inner = d.shape_of(x)[0 if across else 1]
    weights = d.floats((outputs, inner) if transposed else (inner, outputs), 1 / np.sqrt(inner + 1))
    bias = [d.constant(d.floats((outputs,)))] if d.chance(0.7) else []
    kind, values = _activation(d)
    options: dict[str, Any] = {f"activation_{name}": value for name, value in values.items()}
    options |= {"alpha": d.choice([None, None, 0.5]), "beta": d.choice([None, None, 1.5])}
    d.add(operator, x, d.constant(weights), *bias, transA=int(across) or None, transB=int(transposed) or None,
          activation=kind, **options)  # fmt: skip


@draws("com.microsoft.FusedMatMul")
def _matmul(d: Drawing, operator: str) -> None:
    x = d.pick(2, 4, fits=lambda s: all(s))
    *batch, rows, columns = d.shape_of(x)
    across, turned = d.chance(0.4), d.chance(0.5)
    inner = rows if across else columns
    alpha = d.choice([None, 0.5, 2.0])
    options = {"alpha": alpha, "transA": int(across) or None, "transB": int(turned) or None}
    if d.chance(0.3):
        d.add(operator, x, x, alpha=alpha, transA=int(across), transB=int(not across))
    elif len(batch) == 1 and d.chance(0.3):
        # Each factor is transposed to [rows, batch, inner] first, of which the batch multiplies.
        first = d.floats((inner, batch[0], d.integer(1, 4)) if not turned else (d.integer(1, 4), batch[0], inner))
        d.add(operator, x, d.constant(first / np.sqrt(inner)), transBatchB=1, **options)
    else:
        outputs = d.integer(1, 6)
        weights = d.floats((outputs, inner) if turned else (inner, outputs), 1 / np.sqrt(inner))
        d.add(operator, x, d.constant(weights), **options)


@draws("com.microsoft.MatMulNBits")
def _few_bits(d: Drawing, operator: str) -> None:
    if d.float != np.float32:
        raise Refused("halves")
    x = d.pick(2, 3, fits=lambda s: all(s))
    inner, outputs = d.shape_of(x)[-1], d.integer(1, 6)
    bits, size = d.choice([2, 4, 4, 8]), d.choice([16, 16, 32])
    blocks = -(-inner // size)
    weights = d.constant(d.rng.integers(0, 256, (outputs, blocks, size * bits // 8)), np.uint8)
    scales = d.constant(d.rng.uniform(0.2, 1.0, outputs * blocks) / (1 << bits - 1), np.float32)
    points = d.constant(d.rng.integers(0, 256, outputs * -(-blocks * bits // 8)), np.uint8) if d.chance(0.5) else ""
    bias = d.constant(d.floats((outputs,))) if d.chance(0.4) else ""
    d.add(operator, x, weights, scales, points, "", bias, K=inner, N=outputs, bits=bits, block_size=size)


@draws("com.microsoft.GatherBlockQuantized")
def _rows_of_few_bits(d: Drawing, operator: str) -> None:
    if d.float != np.float32:
        raise Refused("halves")
    rows, size, bits = d.integer(1, 9), 16, d.choice([4, 8])
    blocks = d.integer(1, 3)
    table = d.constant(d.rng.integers(0, 256, (rows, blocks * size * bits // 8)), np.uint8)
    scales = d.constant(d.rng.uniform(0.2, 1.0, (rows, blocks)) / (1 << bits - 1), np.float32)
    packed = -(-blocks * bits // 8)
    points = d.constant(d.rng.integers(0, 256, (rows, packed)), np.uint8) if d.chance(0.5) else ""
    shape = d.shape(0, 2)
    indices = d.input(shape, lambda: d.rng.integers(-rows, rows, shape))
    d.add(operator, table, indices, scales, points, bits=bits, block_size=size, gather_axis=0, quantize_axis=1)
