"""Operators on floats between DEQUANTIZE and QUANTIZE, as converters write what they have no integer kernel for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.frontends.tflite.cases import CASES, Case
from tests.frontends.tflite.files import Op, T, model

Array = np.ndarray
Scaling = tuple[float, int]

STORED: dict[str, tuple[Scaling, Scaling]] = {
    "int8": ((0.021, -7), (0.033, 11)),
    "uint8": ((0.021, 121), (0.033, 139)),
    "int16": ((0.00011, 0), (0.00013, 0)),
}
"""Way of storing numbers → scale and zero point of what is dequantized, and of what is quantized again."""

VERSIONS = {"int8": 2, "uint8": 1, "int16": 3}


def fallbacks() -> list[Case]:
    """The cases that LiteRT computes on floats, and whose results are floats."""
    return [c for c in CASES if "float32" in c.formats and c.source is None and c.result is None and not c.results]


def fallback(case: Case, stored: str, *, same: bool = False) -> bytes:
    """A case on floats between casts.

    Args:
        case: The operator.
        stored: How what is dequantized, and what is quantized, is stored.
        same: Whether both have one scale and zero point.
    """
    tensors, (op,), fed, outputs = case.parts("float32")
    data, result = STORED[stored]
    casts: list[Op] = []
    inputs: list[int] = []
    added: list[T] = []

    def cast(kind: str, real: int, scaling: Scaling) -> int:
        scale, zero = scaling
        index = len(tensors) + len(added)
        added.append(T(f"q{index}", tensors[real].shape, np.dtype(stored), None, [scale], [zero]))
        ends = ([index], [real]) if kind == "DEQUANTIZE" else ([real], [index])
        casts.append(Op(kind, *ends, f"{kind.capitalize()}Options", {}, VERSIONS[stored] if kind[0] == "D" else 1))
        return index

    for place in fed:
        inputs.append(cast("DEQUANTIZE", place, data))
    before, casts = casts, []
    results = [cast("QUANTIZE", place, data if same else result) for place in outputs]
    return model([*tensors, *added], [*before, replace(op), *casts], inputs, results)


def integers(case: Case, stored: str, seed: int = 0) -> list[Array]:
    """Inputs: any integers, or those of numbers above 0."""
    random, limits, (_, zero) = np.random.default_rng(seed), np.iinfo(stored), STORED[stored][0]
    low = zero + 10 if case.positive else limits.min
    shapes: Sequence[Any] = case.shapes
    return [random.integers(low, limits.max + 1, shape).astype(stored) for shape in shapes]
